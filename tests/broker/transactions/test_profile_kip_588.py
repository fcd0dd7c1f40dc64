"""Profile `kip-588`: a producer whose transaction timed out gets an error code that its version knows, and can continue."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from stuntbroker.broker.configuration.properties import ConfigError
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tests.kit.groups.group_requests import TIMEOUT_MS, Pair, add_offsets, commit_in_txn, end, init, pair, write
from tests.kit.rig import Client, Rig, running_rig
from tests.kit.transactions.two_phase import committed
from tests.kit.valid_requests import TOPIC

TXN = "payments"
OK = ErrorCode.NONE
INVALID_EPOCH: Final = ErrorCode.INVALID_PRODUCER_EPOCH
UNKNOWN_ID: Final = ErrorCode.UNKNOWN_PRODUCER_ID
TIMED_OUT: Final = 90
FENCED: Final = 91
"""Codes of the KIP's draft. In Kafka, 90 is PRODUCER_FENCED."""
DRAFT_VERSION: Final = 2
"""First version of AddPartitionsToTxn, AddOffsetsToTxn and EndTxn that may return the new codes."""

TRANSACTION_VERSIONS = [0, 1, 2]
TIERS = [
    #  InitProducerId  below 2        2 and up
    (0,                INVALID_EPOCH, FENCED),
    (1,                INVALID_EPOCH, FENCED),
    (2,                INVALID_EPOCH, FENCED),
    (3,                UNKNOWN_ID,    UNKNOWN_ID),
    (4,                UNKNOWN_ID,    TIMED_OUT),
    (5,                UNKNOWN_ID,    TIMED_OUT),
    (6,                UNKNOWN_ID,    TIMED_OUT),
]  # fmt: skip
"""Error code for a timed-out producer, by the version of its InitProducerId and the version of its request."""


def properties(transaction_version: int, profile: str = "kip-588") -> dict[str, str]:
    return {"stuntbroker.profile": profile, "transaction.version": str(transaction_version)}


def too_slow(rig: Rig, client: Client, init_version: int = 4) -> Pair:
    """Return a producer whose transaction has a record and has timed out."""
    rig.topic(TOPIC)
    rig.topic("other")
    owner = pair(init(client, TXN, version=init_version))
    assert add_partitions(client, owner, 3, TOPIC) == OK
    assert write(client, TXN, owner, "slow", version=9) == OK
    rig.pass_time(TIMEOUT_MS + 1_000)
    assert "txn_timed_out" in rig.events.names()
    return owner


def add_partitions(client: Client, owner: Pair, version: int, topic: str = "other", verify: bool = False) -> int:
    """Send AddPartitionsToTxn; return the error code of the partition."""
    where = [AddPartitionsToTxnTopic(topic, [0])]
    if version < 4:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TXN,
            v3_and_below_producer_id=owner[0],
            v3_and_below_producer_epoch=owner[1],
            v3_and_below_topics=where,
        )
        (actual,) = client.ask(request, version).results_by_topic_v3_and_below
    else:
        request = AddPartitionsToTxnRequest([AddPartitionsToTxnTransaction(TXN, *owner, verify, where)])
        (actual,) = client.ask(request, version).results_by_transaction[0].topic_results
    code: int = actual.results_by_partition[0].partition_error_code
    return code


def described(client: Client, owner: Pair) -> dict[str, dict[int, int]]:
    """Return error codes by API and version."""
    return {
        "AddPartitionsToTxn": {version: add_partitions(client, owner, version) for version in range(6)},
        "AddOffsetsToTxn": {version: add_offsets(client, TXN, owner, version) for version in range(5)},
        "commit": {version: end(client, TXN, owner, True, version).error_code for version in range(6)},
        "abort": {version: end(client, TXN, owner, False, version).error_code for version in range(6)},
    }


def by_version(below: int, from_there: int) -> dict[str, dict[int, int]]:
    newest = {"AddPartitionsToTxn": 5, "AddOffsetsToTxn": 4, "commit": 5, "abort": 5}
    return {
        api: {version: below if version < DRAFT_VERSION else from_there for version in range(last + 1)}
        for api, last in newest.items()
    }


@pytest.mark.parametrize("transaction_version", TRANSACTION_VERSIONS)
@pytest.mark.parametrize(("init_version", "below", "from_there"), TIERS)
async def test_a_time_out_is_reported_with_an_error_code_that_the_client_version_knows(
    init_version: int, below: int, from_there: int, transaction_version: int, data_dir: Path
) -> None:
    """Clients before 2.5 get a fencing error, 2.5 and 2.6 can handle UNKNOWN_PRODUCER_ID, newer ones get the new code."""
    async with running_rig(data_dir, properties(transaction_version)) as rig:
        client = rig.client()
        owner = too_slow(rig, client, init_version)

        assert described(client, owner) == by_version(below, from_there)


@pytest.mark.parametrize("profile", ["kafka", "kip-588"])
@pytest.mark.parametrize("init_version", [2, 4])
async def test_a_time_out_that_a_producer_gets_to_know_is_one_event(
    init_version: int, profile: str, data_dir: Path
) -> None:
    async with running_rig(data_dir, properties(2, profile)) as rig:
        refusals: list[Any] = []
        rig.broker.transactions.fences.refused = refusals.append
        client = rig.client()
        owner = too_slow(rig, client, init_version)
        for _ in range(2):
            assert end(client, TXN, owner, True, 4).error_code != OK

        assert [facts["cause"] for name, facts in rig.events.kept if name == "producer_fenced"] == ["timeout"]
        assert [refusal.fence.cause for refusal in refusals] == ["timeout"] * 2


@pytest.mark.parametrize(("init_version", "below", "from_there"), TIERS)
async def test_the_tier_of_a_producer_is_known_after_a_restart(
    init_version: int, below: int, from_there: int, data_dir: Path
) -> None:
    async with running_rig(data_dir, properties(0)) as rig:
        owner = too_slow(rig, rig.client(), init_version)
    async with running_rig(data_dir, properties(0)) as rig:
        assert described(rig.client(), owner) == by_version(below, from_there)


@pytest.mark.parametrize("init_version", [2, 3, 4])
@pytest.mark.parametrize("topic", [TOPIC, "other"])
async def test_writes_with_the_old_epoch_get_invalid_producer_epoch(
    topic: str, init_version: int, data_dir: Path
) -> None:
    """Partition leaders and group coordinators do not know about time-outs."""
    async with running_rig(data_dir, properties(2)) as rig:
        client = rig.client()
        owner = too_slow(rig, client, init_version)

        assert {write(client, TXN, owner, "late", 1, topic, version) for version in range(3, 13)} == {INVALID_EPOCH}
        assert {commit_in_txn(client, TXN, owner, 1, version=version) for version in range(6)} == {INVALID_EPOCH}
        assert committed(client) == []


@pytest.mark.parametrize("version", [4, 5])
async def test_a_verify_only_request_gets_the_time_out_code_of_its_version(version: int, data_dir: Path) -> None:
    async with running_rig(data_dir, properties(2)) as rig:
        client = rig.client()
        owner = too_slow(rig, client)

        assert add_partitions(client, owner, version, TOPIC, verify=True) == TIMED_OUT


@pytest.mark.parametrize("restarts", [False, True], ids=["running", "restarts"])
@pytest.mark.parametrize("transaction_version", TRANSACTION_VERSIONS)
@pytest.mark.parametrize("version", [3, 4, 5, 6])
async def test_the_same_producer_claims_the_next_epoch_and_continues(
    version: int, transaction_version: int, restarts: bool, data_dir: Path
) -> None:
    async with running_rig(data_dir, properties(transaction_version)) as rig:
        client = rig.client()
        owner = too_slow(rig, client, version)
        if not restarts:
            assert_goes_on(rig, owner, version)
    if restarts:
        async with running_rig(data_dir, properties(transaction_version)) as rig:
            assert_goes_on(rig, owner, version)
        async with running_rig(data_dir, properties(transaction_version)) as rig:
            client = rig.client()
            assert committed(client) == ["again"]
            assert end(client, TXN, owner, version=4).error_code == FENCED


def assert_goes_on(rig: Rig, owner: Pair, version: int) -> None:
    client = rig.client()
    following = owner[0], owner[1] + 1
    assert pair(init(client, TXN, owner=owner, version=version)) == following
    assert pair(init(client, TXN, owner=owner, version=version)) == following  # The response was lost.
    assert add_partitions(client, following, 3, TOPIC) == OK
    assert write(client, TXN, following, "again", version=9) == OK
    assert end(client, TXN, following, version=4).error_code == OK
    assert committed(client) == ["again"]


@pytest.mark.parametrize("transaction_version", TRANSACTION_VERSIONS)
async def test_a_replaced_producer_gets_a_fence_and_not_a_time_out(transaction_version: int, data_dir: Path) -> None:
    """In versions that know it, PRODUCER_FENCED is 91 in this profile."""
    async with running_rig(data_dir, properties(transaction_version)) as rig:
        client = rig.client()
        owner = too_slow(rig, client)
        successor = pair(init(rig.client(), TXN))
        assert successor == (owner[0], owner[1] + 2)

        assert described(client, owner) == by_version(INVALID_EPOCH, FENCED)
        codes = {version: init(client, TXN, owner=owner, version=version).error_code for version in range(3, 7)}
        assert codes == {3: INVALID_EPOCH, 4: FENCED, 5: FENCED, 6: FENCED}
        assert add_partitions(client, successor, 3) == OK


@pytest.mark.parametrize("transaction_version", TRANSACTION_VERSIONS)
async def test_without_a_time_out_a_take_over_is_a_fence(transaction_version: int, data_dir: Path) -> None:
    async with running_rig(data_dir, properties(transaction_version)) as rig:
        rig.topic("other")
        client = rig.client()
        owner = pair(init(client, TXN))
        assert add_partitions(client, owner, 3) == OK
        pair(init(rig.client(), TXN))

        assert described(client, owner) == by_version(INVALID_EPOCH, FENCED)


KAFKA = [
    #  transaction.version  recovery by InitProducerId 4
    (0,                     (ErrorCode.PRODUCER_FENCED, -1, -1)),
    (1,                     (ErrorCode.PRODUCER_FENCED, -1, -1)),
    (2,                     (OK, 0, 1)),
]  # fmt: skip


@pytest.mark.parametrize("profile", ["kafka", "kip-447-draft"])
@pytest.mark.parametrize(("transaction_version", "recovered"), KAFKA)
async def test_in_other_profiles_a_time_out_fences_as_in_kafka(
    transaction_version: int, recovered: tuple[int, int, int], profile: str, data_dir: Path
) -> None:
    async with running_rig(data_dir, properties(transaction_version, profile)) as rig:
        client = rig.client()
        owner = too_slow(rig, client)

        actual = described(client, owner)
        expected = by_version(INVALID_EPOCH, ErrorCode.PRODUCER_FENCED)
        # EndTxn v5 has its own recovery (KIP-890), at every level of `transaction.version`.
        del actual["commit"][5], actual["abort"][5], expected["commit"][5], expected["abort"][5]
        assert actual == expected
        answer: Any = init(client, TXN, owner=owner, version=4)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == recovered


async def test_a_stored_time_out_is_a_fence_after_a_restart_without_the_profile(data_dir: Path) -> None:
    async with running_rig(data_dir, properties(1)) as rig:
        owner = too_slow(rig, rig.client(), 3)
    async with running_rig(data_dir, properties(1, "kafka")) as rig:
        actual, expected = described(rig.client(), owner), by_version(INVALID_EPOCH, ErrorCode.PRODUCER_FENCED)
        del expected["commit"][5], expected["abort"][5]

        # EndTxn v5 is recognised as a retry by its epoch alone (KIP-890), as in Kafka.
        assert (actual["commit"].pop(5), actual["abort"].pop(5)) == (ErrorCode.INVALID_TXN_STATE, OK)
        assert actual == expected


@pytest.mark.parametrize("end_version", [4, 5])
@pytest.mark.parametrize("transaction_version", TRANSACTION_VERSIONS)
async def test_a_broker_that_left_the_profile_answers_a_timed_out_producer_as_in_kafka(
    transaction_version: int, end_version: int, data_dir: Path
) -> None:
    """This also holds if the producer was initialised before the profile was set."""
    codes_by: dict[str, list[int]] = {}
    for way in (("kafka", "kafka"), ("kafka", "kip-588"), ("kip-588", "kip-588")):
        codes = codes_by.setdefault("-".join(way), [])
        for step, commit in enumerate((True, False, None)):
            folder = data_dir / "-".join(way) / str(step)
            async with running_rig(folder, properties(transaction_version, way[0])) as rig:
                client = rig.client()
                rig.topic("other")
                owner = pair(init(client, TXN, version=4))
                assert add_partitions(client, owner, 3) == OK
            async with running_rig(folder, properties(transaction_version, way[1])) as rig:
                rig.pass_time(TIMEOUT_MS + 1_000)
            async with running_rig(folder, properties(transaction_version, "kafka")) as rig:
                client = rig.client()
                if commit is None:
                    answer: Any = init(client, TXN, owner=owner, version=4)
                else:
                    answer = end(client, TXN, owner, commit, version=end_version)
                codes.append(answer.error_code)

    assert codes_by["kafka-kip-588"] == codes_by["kip-588-kip-588"] == codes_by["kafka-kafka"]


TWO_LISTENERS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,DRAFT://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,DRAFT:PLAINTEXT",
    "stuntbroker.profile": "DRAFT:kip-588",
    "transaction.version": "1",
}


@pytest.mark.parametrize("came_by", [0, 1], ids=["kafka", "kip-588"])
async def test_a_producer_gets_the_rules_of_the_listener_that_it_uses(came_by: int) -> None:
    async with running_rig(None, TWO_LISTENERS) as rig:
        client = Client(rig.broker, listener=came_by)
        owner = too_slow(rig, client)
        assert end(client, TXN, owner, True, version=1).error_code == (UNKNOWN_ID if came_by else INVALID_EPOCH)
        after = init(client, TXN, owner=owner, version=4)
        expected = (OK, (owner[0], owner[1] + 1)) if came_by else (ErrorCode.PRODUCER_FENCED, (-1, -1))
        assert (after.error_code, (after.producer_id, after.producer_epoch)) == expected


async def test_listeners_with_different_profiles_use_their_own_codes_for_one_transactional_id() -> None:
    """Clients of the listener without the profile get a time-out as an ordinary fencing error."""
    async with running_rig(None, TWO_LISTENERS) as rig:
        drafted, plain = Client(rig.broker, listener=1), Client(rig.broker, listener=0)
        owner = too_slow(rig, drafted)
        assert end(plain, TXN, owner, True, version=1).error_code == INVALID_EPOCH
        assert end(drafted, TXN, owner, True, version=1).error_code == UNKNOWN_ID


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("kip-589", "stuntbroker.profile: 'kip-589': 'kip-589' is none of kafka, kip-588, kip-447-draft"),
        ("NOWHERE:kip-588", "stuntbroker.profile: 'NOWHERE:kip-588': listeners has no NOWHERE"),
    ],
)
async def test_a_profile_or_a_listener_that_is_not_known_is_refused(value: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        async with running_rig(None, {"stuntbroker.profile": value}):
            pass
