"""Two-phase commit over the wire (KIP-939): InitProducerId v6, and the records that consumers see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.api_versions_request import ApiVersionsRequest
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.transaction_states import TIMEOUT_NONE
from tests.kit.disk_rig import Disk
from tests.kit.rig import Client, decode, frame, running_rig
from tests.kit.transactions.two_phase import (
    NO_PRODUCER,
    OK,
    TXN,
    committed,
    described,
    end,
    init,
    kept,
    pair,
    prepared,
    produce,
    write,
)
from tests.kit.valid_requests import TOPIC

CENTURY_MS = 3_155_760_000_000


async def test_version_6_is_served_while_two_phase_commit_is_enabled(data_dir: Path) -> None:
    """Without `transaction.two.phase.commit.enable`, the newest version is 5, and a request of version 6 ends the connection."""
    for enabled, newest in ((True, 6), (False, 5)):
        name = "transaction.two.phase.commit.enable"
        async with running_rig(data_dir / str(enabled), {name: str(enabled).lower()}) as rig:
            client = rig.client()
            offered = {each.api_key: each.max_version for each in client.ask(ApiVersionsRequest("c", "1"), 3).api_keys}
            client.feed(frame(InitProducerIdRequest(TXN, 60_000, -1, -1, True, False), 6))
            answered = len(client.answers())

            assert offered[22] == newest
            assert (answered, client.transport.closed) == ((1, False) if enabled else (0, True))


async def test_a_new_instance_commits_the_prepared_transaction_of_the_previous_instance(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        _, first = prepared(rig, "a", "b")
        rig.pass_time(CENTURY_MS)
        client = rig.client()
        answer = init(client, keep=True)
        assert kept(answer) == first
        assert described(client).transaction_state == "Ongoing"
        assert described(client).transaction_timeout_ms == TIMEOUT_NONE
        assert committed(client) == []

        ended = end(client, pair(answer))

        assert ended.error_code == OK
        assert committed(client) == ["a", "b"]
        # The next transaction uses the producer id and epoch of the response.
        following = ended.producer_id, ended.producer_epoch
        assert write(client, following, "c") == OK
        assert end(client, following).error_code == OK
        assert committed(client) == ["a", "b", "c"]


async def test_a_new_instance_can_abort_a_prepared_transaction(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        prepared(rig, "a")
        client = rig.client()
        assert end(client, pair(init(client, keep=True)), commit=False).error_code == OK

        assert committed(client) == []
        log = rig.log(TOPIC, 0)
        assert log.last_stable_offset == log.next_offset == 2


@pytest.mark.parametrize("version", [11, 12])
async def test_the_previous_instance_cannot_write_to_a_recovered_transaction(version: int, data_dir: Path) -> None:
    """A partition verifies later batches of an open transaction with the coordinator only if the transaction was recovered."""
    async with running_rig(data_dir) as rig:
        zombie, first = prepared(rig, "a")
        answer = init(rig.client(), keep=True)

        assert write(zombie, first, "late", 1, version) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert end(zombie, first).error_code == ErrorCode.PRODUCER_FENCED
        assert end(zombie, first, version=4).error_code == ErrorCode.PRODUCER_FENCED
        assert end(zombie, first, version=1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
        assert end(rig.client(), pair(answer)).error_code == OK
        assert committed(zombie) == ["a"]


async def test_the_new_instance_can_end_a_recovered_transaction_but_not_write_to_it(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        prepared(rig, "a")
        rig.topic("other")
        client = rig.client()
        owner = pair(init(client, keep=True))

        assert write(client, owner, "more") == ErrorCode.INVALID_TXN_STATE
        assert end(client, owner).error_code == OK
        assert committed(client) == ["a"]


async def test_a_prepared_transaction_survives_restarts_and_stays_closed_to_records(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        _, first = prepared(rig, "a")
    async with running_rig(data_dir) as rig:
        rig.pass_time(CENTURY_MS)
        second = pair(init(rig.client(), keep=True))
    async with running_rig(data_dir) as rig:
        rig.pass_time(CENTURY_MS)
        client = rig.client()

        assert write(client, first, "late", 1) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert end(client, first).error_code == ErrorCode.PRODUCER_FENCED
        third = init(client, keep=True)
        assert kept(third) == first
        assert end(client, second).error_code == ErrorCode.PRODUCER_FENCED
        ended = end(client, pair(third))
        assert ended.error_code == OK
    async with running_rig(data_dir) as rig:
        client = rig.client()

        restarted = end(client, pair(third))  # The response was lost.
        assert pair(restarted) == pair(ended)
        assert committed(client) == ["a"]


async def test_an_admin_terminates_a_prepared_transaction(data_dir: Path) -> None:
    """`kafka-transactions forceTerminateTransaction` sends InitProducerId without flags; any version of it works."""
    async with running_rig(data_dir) as rig:
        client, first = prepared(rig, "a")
        owner = pair(init(rig.client(), keep=True))
        terminated = init(rig.client(), two_phase=False, version=4)

        assert terminated.error_code == OK
        assert end(client, first).error_code == end(client, owner).error_code == ErrorCode.PRODUCER_FENCED
        assert committed(client) == []
        log = rig.log(TOPIC, 0)
        assert log.last_stable_offset == log.next_offset


async def test_the_time_out_is_checked_only_without_enable_2pc(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        for timeout_ms, two_phase, error in (
            (0, True, OK), (-1, True, OK), (TIMEOUT_NONE, True, OK),
            (0, False, ErrorCode.INVALID_TRANSACTION_TIMEOUT), (TIMEOUT_NONE, False, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ):  # fmt: skip
            request = InitProducerIdRequest(TXN, timeout_ms, -1, -1, two_phase, False)

            assert client.ask(request, 6).error_code == error


async def test_two_phase_flags_without_a_transactional_id_are_ignored(data_dir: Path) -> None:
    """As in Kafka, the coordinator returns a producer id before it looks at the flags."""
    async with running_rig(data_dir) as rig:
        answer = rig.client().ask(InitProducerIdRequest(None, 60_000, -1, -1, True, True), 6)

        assert (answer.error_code, answer.producer_epoch, kept(answer)) == (OK, 0, NO_PRODUCER)


async def test_a_client_of_transaction_version_1_can_end_a_recovered_transaction(data_dir: Path) -> None:
    """EndTxn v4 does not bump the epoch, so the client keeps using the producer id and epoch from KeepPreparedTxn."""
    async with running_rig(data_dir, {"transaction.version": "1"}) as rig:
        prepared(rig, "a")
        client = rig.client()
        owner = pair(init(client, keep=True))
        ended = end(client, owner, version=4)

        assert ended.error_code == OK
        assert end(client, owner, version=4).error_code == OK
        assert committed(client) == ["a"]


NOT_IN_IT = (ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE)
WHILE_IT_SYNCS = [
    # write being synced, version of Produce, allowed error codes (the same for both partitions)
    ("keep",   12, (ErrorCode.INVALID_PRODUCER_EPOCH,)),
    ("keep",   11, (ErrorCode.INVALID_PRODUCER_EPOCH,)),
    ("end v4", 11, NOT_IN_IT),
    ("end v4", 12, (OK,)),  # Both are in the next transaction.
    ("end v5", 12, (ErrorCode.INVALID_PRODUCER_EPOCH,)),
]  # fmt: skip


@pytest.mark.parametrize(("under_way", "version", "errors"), WHILE_IT_SYNCS)
async def test_a_produce_that_waited_for_the_coordinator_is_checked_a_second_time(
    under_way: str, version: int, errors: tuple[int, ...], tmp_path: Path
) -> None:
    """One partition is in the open transaction, which another request ends or recovers while the Produce waits (power mode)."""
    disk = Disk()
    async with running_rig(tmp_path, durability="power", executor=disk) as rig:
        rig.topic(TOPIC, 2)
        old, new = rig.client(), rig.client()

        def ask(client: Client, request: Any, request_version: int, key: int) -> Any:
            client.feed(frame(request, request_version))
            disk.drain()
            (answer,) = client.answers()
            return decode(answer, key, request_version)

        owner = pair(ask(old, InitProducerIdRequest(TXN, 60_000, -1, -1, True, False), 6, 22))
        assert ask(old, produce(owner, b"a", (0, 0)), 12, 0).responses[0].partition_responses[0].error_code == OK

        if under_way == "keep":
            new.feed(frame(InitProducerIdRequest(TXN, 60_000, -1, -1, True, True), 6))
        else:
            new.feed(frame(EndTxnRequest(TXN, *owner, True), int(under_way[-1])))
        old.feed(frame(produce(owner, b"late", (0, 1), (1, 0)), version))
        disk.drain()
        (answer,), (produced,) = new.answers(), old.answers()
        codes = [each.error_code for each in decode(produced, 0, version).responses[0].partition_responses]
        assert len(set(codes)) == 1 and codes[0] in errors

        if under_way == "keep":
            ended = ask(new, EndTxnRequest(TXN, *pair(decode(answer, 22, 6)), True), 5, 26)
        else:
            ended = ask(new, EndTxnRequest(TXN, *owner, codes[0] == OK), int(under_way[-1]), 26)
            assert ended.error_code in (OK, ErrorCode.INVALID_TXN_STATE)
        logs = rig.logs(TOPIC)
        assert [log.last_stable_offset for log in logs] == [log.next_offset for log in logs]
