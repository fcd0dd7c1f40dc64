"""With `transaction.partition.verification.enable=false`, partitions verify only writes to recovered transactions."""

from __future__ import annotations

from pathlib import Path

import pytest

from stuntbroker.protocol.errors import ErrorCode
from tests.kit.groups.group_requests import add_offsets, commit_in_txn
from tests.kit.groups.group_requests import init as init_one_phase
from tests.kit.rig import running_rig
from tests.kit.transactions.two_phase import OK, TXN, committed, end, init, pair, prepared, write, written
from tests.kit.transactions.two_phase_more import OTHER, STALE, add, refuses_late_records, stable, write_to
from tests.kit.valid_requests import TOPIC

VERIFICATION_OFF = {"transaction.partition.verification.enable": "false"}


async def test_with_verification_off_a_written_partition_refuses_late_records(data_dir: Path) -> None:
    async with running_rig(data_dir, VERIFICATION_OFF) as rig:
        zombie, first = prepared(rig, "a")
        owner = pair(init(rig.client(), keep=True))

        assert refuses_late_records(zombie, first)
        assert end(rig.client(), owner).error_code == OK
        assert committed(zombie) == ["a"]


async def test_with_verification_off_no_partition_accepts_late_records_of_a_recovered_transaction(
    data_dir: Path,
) -> None:
    """This includes a partition that was added but has no record yet, and a partition that was never added."""
    async with running_rig(data_dir, VERIFICATION_OFF) as rig:
        for topic in (OTHER, "third"):
            rig.topic(topic)
        zombie, first = prepared(rig, "a")
        assert add(zombie, first, OTHER) == OK
        owner = pair(init(rig.client(), keep=True))
        assert [write_to(zombie, first, topic, 11) for topic in (OTHER, "third")] == [STALE, STALE]
    async with running_rig(data_dir, VERIFICATION_OFF) as rig:
        zombie = rig.client()
        assert [write_to(zombie, first, topic, 11) for topic in (OTHER, "third")] == [STALE, STALE]
        assert end(zombie, owner).error_code == OK
        assert all(stable(rig, topic) for topic in (TOPIC, OTHER, "third"))


async def test_with_verification_off_a_group_accepts_no_late_offsets_of_a_recovered_transaction(data_dir: Path) -> None:
    async with running_rig(data_dir, VERIFICATION_OFF) as rig:
        zombie, first = prepared(rig, "a")
        assert add_offsets(zombie, TXN, first) == OK
        owner = pair(init(rig.client(), keep=True))

        assert commit_in_txn(zombie, TXN, first, 9, version=3) == STALE
        assert end(rig.client(), owner).error_code == OK


# --- releases of Kafka without verification

REFUSED = ErrorCode.INVALID_TXN_STATE
RELEASES = {
    **dict.fromkeys(("2.1", "2.5", "2.8", "3.3"), (OK, OK)),
    "3.6": (REFUSED, OK),
    **dict.fromkeys(("3.9", "4.0", "4.3"), (REFUSED, REFUSED)),
}
"""Errors of Produce and TxnOffsetCommit for a partition, or group, that the client has not added to the transaction."""


@pytest.mark.parametrize("release", RELEASES)
async def test_a_partition_that_was_not_added_is_refused_by_releases_that_verify_it(
    release: str, data_dir: Path
) -> None:
    async with running_rig(data_dir, {"stuntbroker.personality": release}) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        owner = pair(init_one_phase(client, TXN, version=1))
        heard = write(client, owner, "a", 0, 7), commit_in_txn(client, TXN, owner, 5, version=2)
        assert heard == RELEASES[release]


@pytest.mark.parametrize(("version", "code"), [(8, REFUSED), (10, REFUSED), (11, ErrorCode.TRANSACTION_ABORTABLE)])
async def test_a_partition_that_was_not_added_is_refused_with_the_reason(
    version: int, code: ErrorCode, data_dir: Path
) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        response = written(client, pair(init_one_phase(client, TXN, version=1)), "a", version=version)

    assert (response.error_code, response.error_message) == (code, "the partition was not added to the transaction")


async def test_each_listener_verifies_partitions_as_its_release_does(data_dir: Path) -> None:
    listeners = {
        "listeners": "OLD://127.0.0.1:0,NEW://127.0.0.1:0",
        "listener.security.protocol.map": "OLD:PLAINTEXT,NEW:PLAINTEXT",
        "stuntbroker.personality": "OLD:3.3,NEW:4.3",
    }
    async with running_rig(data_dir, listeners) as rig:
        rig.topic(TOPIC)
        old, new = (rig.client(listener) for listener in (0, 1))
        owner = pair(init_one_phase(new, TXN, version=1))
        assert write(new, owner, "a", 0, 7) == ErrorCode.INVALID_TXN_STATE
        assert write(old, owner, "a", 0, 7) == OK


# --- a first batch that was verified but not appended (KIP-890)


@pytest.mark.parametrize(("verified", "code"), [("true", ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), ("false", OK)])
async def test_a_duplicate_is_not_the_first_batch_of_its_transaction(
    verified: str, code: ErrorCode, data_dir: Path
) -> None:
    """As in Kafka, a later sequence number is out of order after the duplicate. Without verification it is accepted."""
    async with running_rig(data_dir, {"transaction.partition.verification.enable": verified}) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        owner = pair(init_one_phase(client, TXN))
        assert [add(client, owner), write(client, owner, "a", 0, 11)] == [OK, OK]
        assert end(client, owner, version=4).error_code == OK
        assert [add(client, owner), write(client, owner, "a", 0, 11)] == [OK, OK]

        assert write(client, owner, "b", 1, 11) == code
        assert end(client, owner, version=4).error_code == OK
        assert [add(client, owner), write(client, owner, "c", 1 + (code == OK), 11)] == [OK, OK]


@pytest.mark.parametrize("verified", ["true", "false"])
async def test_a_refused_first_batch_of_produce_12_is_remembered_with_and_without_verification(
    verified: str, data_dir: Path
) -> None:
    async with running_rig(data_dir, {"transaction.partition.verification.enable": verified}) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        owner = pair(init_one_phase(client, TXN))
        refused = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

        assert [write(client, owner, "a", sequence, version) for sequence, version in ((1, 12), (2, 11), (0, 11))] == [
            refused, refused, OK,
        ]  # fmt: skip
