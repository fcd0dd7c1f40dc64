"""Prepared and recovered transactions (KIP-939) combined with other requests, configuration changes, time-outs and crashes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stuntbroker.broker.metadata.topics import INTERNAL_COMPACTION_LAG_MS
from stuntbroker.coordinator.state import txn_of
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.features import UpgradeType
from stuntbroker.protocol.messages import delete_records_request as deleting
from stuntbroker.protocol.messages import offset_fetch_request as fetching
from stuntbroker.protocol.messages import txn_offset_commit_request as committing
from stuntbroker.protocol.messages import write_txn_markers_request as marking
from stuntbroker.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from stuntbroker.protocol.messages.delete_topics_request import DeleteTopicsRequest
from stuntbroker.protocol.messages.list_transactions_request import ListTransactionsRequest
from stuntbroker.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from stuntbroker.storage.compaction import Cleaning
from stuntbroker.storage.memory_disk import MemoryDisk
from tests.kit.rig import START_MS, Client, running_rig
from tests.kit.transactions.two_phase import (
    NO_PRODUCER,
    OK,
    TXN,
    Pair,
    committed,
    described,
    end,
    init,
    kept,
    pair,
    prepared,
    write,
)
from tests.kit.transactions.two_phase_more import OTHER, STALE, add, refuses_late_records, stable, write_to
from tests.kit.valid_requests import TOPIC

GROUP = "readers"
FENCED = ErrorCode.PRODUCER_FENCED
DAY_MS = 86_400_000
PROFILES = ("kafka", "kip-588", "kip-447-draft")


def set_level(client: Client, level: int) -> None:
    before = client.broker.features.transaction_version
    update = FeatureUpdateKey(
        "transaction.version", level, True, UpgradeType.UPGRADE if level > before else UpgradeType.UNSAFE_DOWNGRADE
    )
    assert client.ask(UpdateFeaturesRequest(feature_updates=[update]), 2).error_code == OK


def commit_offset(client: Client, owner: Pair, offset: int, version: int = 3) -> int:
    part = committing.TxnOffsetCommitRequestPartition(0, offset, -1, "")
    place = committing.TxnOffsetCommitRequestTopic(TOPIC, partitions=[part])
    answer = client.ask(committing.TxnOffsetCommitRequest(TXN, GROUP, *owner, topics=[place]), version)
    code: int = answer.topics[0].partitions[0].error_code
    return code


def offset_of_group(client: Client) -> tuple[int, int]:
    """Return (error, offset) of the group from an OffsetFetch with RequireStable."""
    group = fetching.OffsetFetchRequestGroup(
        GROUP, None, -1, [fetching.OffsetFetchRequestTopics(TOPIC, partition_indexes=[0])]
    )
    part = (
        client.ask(fetching.OffsetFetchRequest(groups=[group], require_stable=True), 8)
        .groups[0]
        .topics[0]
        .partitions[0]
    )
    return part.error_code, part.committed_offset


def marker(client: Client, owner: Pair, commit: bool, version: int) -> int:
    each = marking.WritableTxnMarker(*owner, commit, [marking.WritableTxnMarkerTopic(TOPIC, [0])], 0, version)
    code: int = client.ask(marking.WriteTxnMarkersRequest([each]), 2).markers[0].topics[0].partitions[0].error_code
    return code


# --- old producer ids and epochs


@pytest.mark.parametrize("keeps", [1, 2, 3])
@pytest.mark.parametrize("first_epoch", ["0", "32765", "32766"])
@pytest.mark.parametrize("level", ["0", "1", "2"])
async def test_an_older_producer_id_and_epoch_is_refused_before_and_after_the_end_of_the_transaction(
    level: str, first_epoch: str, keeps: int, data_dir: Path
) -> None:
    async with running_rig(
        data_dir, {"transaction.version": level, "stuntbroker.initial.producer.epoch": first_epoch}
    ) as rig:
        client, first = prepared(rig, "a")
        pairs = [first]
        for _ in range(keeps):
            pairs.append(pair(init(client, keep=True)))
        *older, owner = pairs
        for ended in (False, True):
            for zombie in older:
                for version in (1, 4, 5):
                    assert {end(client, zombie, commit, version).error_code != OK for commit in (True, False)} == {True}
                assert add(client, zombie) != OK
                assert init(client, owner=zombie).error_code != OK
                assert init(client, owner=zombie, keep=True).error_code != OK
                assert write(client, zombie, "late", 1, 11) != OK != write(client, zombie, "late", 1, 12)
            if not ended:
                following = pair(end(client, owner))
        assert following > owner
        assert write(client, following, "b") == OK
        assert end(client, following).error_code == OK
        assert committed(client) == ["a", "b"]


async def test_a_late_or_repeated_end_txn_ends_no_later_transaction(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client, first = prepared(rig, "a")
        owner = pair(init(client, keep=True))
        following = pair(end(client, owner))
        assert [pair(end(client, owner)) for _ in range(2)] == [following, following]
        assert end(client, owner, commit=False).error_code == ErrorCode.INVALID_TXN_STATE
        assert write(client, following, "b") == OK

        for delayed in (first, owner):
            for version in (1, 4, 5):
                codes = {end(client, delayed, commit, version).error_code for commit in (True, False)}
                assert codes == {STALE if version < 2 else FENCED}
        assert end(client, following).error_code == OK
        assert committed(client) == ["a", "b"]


# --- other requests during the transaction


async def test_a_recreated_topic_refuses_late_records_of_the_previous_instance(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        zombie, first = prepared(rig, "a")
        client = rig.client()
        owner = pair(init(client, keep=True))
        (deleted,) = client.ask(DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=1_000), 5).responses
        assert deleted.error_code == OK
        rig.topic(TOPIC)
        assert refuses_late_records(zombie, first)
    async with running_rig(data_dir) as rig:
        client = rig.client()
        assert refuses_late_records(client, first)
        following = pair(end(client, owner))
        assert write(client, following, "b") == OK
        assert end(client, following).error_code == OK
        assert committed(client) == ["b"]


@pytest.mark.parametrize("gone", [TOPIC, OTHER])
async def test_a_deleted_partition_does_not_block_the_markers_of_other_partitions(gone: str, data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(OTHER)
        client, first = prepared(rig, "a")
        assert write_to(client, first, OTHER) == OK
        owner = pair(init(client, keep=True))
        client.ask(DeleteTopicsRequest(topic_names=[gone], timeout_ms=1_000), 5)

        assert end(client, owner).error_code == OK
        assert stable(rig, OTHER if gone == TOPIC else TOPIC)


async def test_a_recovered_transaction_stays_closed_when_its_records_are_deleted(data_dir: Path) -> None:
    """Without any records, the transaction is still open, and still refuses records of the previous instance."""
    async with running_rig(data_dir) as rig:
        client, first = prepared(rig, "a", "b")
        owner = pair(init(client, keep=True))
        whole = deleting.DeleteRecordsTopic(TOPIC, [deleting.DeleteRecordsPartition(0, -1)])
        assert client.ask(deleting.DeleteRecordsRequest([whole], 1_000), 2).topics[0].partitions[0].error_code == OK
    for _ in range(2):
        async with running_rig(data_dir) as rig:
            assert refuses_late_records(rig.client(), first)
    async with running_rig(data_dir) as rig:
        assert end(rig.client(), owner).error_code == OK
        assert stable(rig)


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("restarts", [False, True])
async def test_pending_offsets_are_recovered_with_the_transaction(restarts: bool, commit: bool, data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client, first = prepared(rig, "a")
        assert client.ask(AddOffsetsToTxnRequest(TXN, *first, GROUP), 3).error_code == OK
        assert commit_offset(client, first, 5) == OK
        owner = pair(init(client, keep=True))
        if not restarts:
            _ends_with_offsets(client, first, owner, commit)
            return
    async with running_rig(data_dir) as rig:
        _ends_with_offsets(rig.client(), first, owner, commit)


def _ends_with_offsets(client: Client, first: Pair, owner: Pair, commit: bool) -> None:
    assert offset_of_group(client) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    assert {commit_offset(client, first, 7, version) for version in (2, 3, 5)} == {STALE}
    assert {commit_offset(client, owner, 8, version) for version in (4, 5)} == {ErrorCode.INVALID_TXN_STATE}
    assert client.ask(AddOffsetsToTxnRequest(TXN, *owner, GROUP), 3).error_code == ErrorCode.INVALID_TXN_STATE
    assert end(client, owner, commit).error_code == OK
    assert offset_of_group(client) == (OK, 5 if commit else -1)


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize(("version", "above"), [(0, 0), (0, 1), (2, 1)])
async def test_an_admins_marker_ends_a_recovered_transaction_in_its_partition_only(
    version: int, above: int, commit: bool, data_dir: Path
) -> None:
    """As for any transaction (KIP-664), the coordinator does not see the marker, and the owner still ends the transaction."""
    async with running_rig(data_dir) as rig:
        client, first = prepared(rig, "a")
        owner = pair(init(client, keep=True))
        assert marker(client, (first[0], first[1] + above), commit, version) == OK
        assert refuses_late_records(client, first)
        assert described(client).transaction_state == "Ongoing"
    async with running_rig(data_dir) as rig:
        client = rig.client()
        assert refuses_late_records(client, first)
        following = pair(end(client, owner))
        assert write(client, following, "b") == OK
        assert end(client, following).error_code == OK
        assert committed(client) == (["a", "b"] if commit else ["b"])
        assert stable(rig)


# --- changes of the broker


@pytest.mark.parametrize("kept_before", [True, False])
@pytest.mark.parametrize("levels", [(1, 0), (0,), (1,), (0, 2), (1, 0, 2)])
async def test_transaction_version_may_change_while_a_transaction_is_prepared(
    levels: tuple[int, ...], kept_before: bool, data_dir: Path
) -> None:
    async with running_rig(data_dir) as rig:
        client, first = prepared(rig, "a")
        if kept_before:
            second = pair(init(client, keep=True))
        for level in levels:
            set_level(client, level)
        if not kept_before:
            second = pair(init(client, keep=True))
    async with running_rig(data_dir) as rig:
        client = rig.client()
        assert refuses_late_records(client, first)
        answer = init(client, keep=True)
        assert kept(answer) == first
        assert end(client, second).error_code == FENCED
    async with running_rig(data_dir) as rig:
        following = pair(end(rig.client(), pair(answer)))
    async with running_rig(data_dir) as rig:
        client = rig.client()
        assert pair(end(client, pair(answer))) == following
        assert write(client, following, "b") == OK
        assert end(client, following).error_code == OK
        assert committed(client) == ["a", "b"]


async def test_a_recovered_transaction_can_be_ended_when_version_6_is_no_longer_served(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client, first = prepared(rig, "a")
        owner = pair(init(client, keep=True))
    async with running_rig(data_dir, {"transaction.two.phase.commit.enable": "false"}) as rig:
        rig.pass_time(10 * DAY_MS)
        client = rig.client()
        assert described(client).transaction_state == "Ongoing"
        assert refuses_late_records(client, first)
        assert init(client, owner=first, two_phase=False, version=5).error_code == FENCED
        assert end(client, owner).error_code == OK
        assert committed(client) == ["a"]


@pytest.mark.parametrize("level", ["0", "1", "2"])
@pytest.mark.parametrize("before", PROFILES)
@pytest.mark.parametrize("after", PROFILES)
async def test_the_profile_may_change_while_a_transaction_is_prepared(
    after: str, before: str, level: str, data_dir: Path
) -> None:
    async with running_rig(data_dir, {"stuntbroker.profile": before, "transaction.version": level}) as rig:
        client, first = prepared(rig, "a")
        second = pair(init(client, keep=True))
    async with running_rig(data_dir, {"stuntbroker.profile": after, "transaction.version": level}) as rig:
        client = rig.client()
        answer = init(client, keep=True)
        assert kept(answer) == first
        assert end(client, second).error_code == (91 if after == "kip-588" else FENCED)
        assert end(client, pair(answer)).error_code == OK
        assert committed(client) == ["a"]


@pytest.mark.parametrize("level", ["0", "1", "2"])
async def test_a_time_out_is_remembered_for_a_producer_from_before_the_profile(level: str, data_dir: Path) -> None:
    """A transaction opened without profile kip-588 times out with it; the owner may claim the next epoch after a restart."""
    async with running_rig(data_dir, {"transaction.version": level}) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        owner = pair(init(client, two_phase=False, version=4))
        assert add(client, owner) == OK
    profile = {"stuntbroker.profile": "kip-588", "transaction.version": level}
    async with running_rig(data_dir, profile) as rig:
        rig.pass_time(60_200)
        assert described(rig.client()).transaction_state == "CompleteAbort"
    async with running_rig(data_dir, profile) as rig:
        assert pair(init(rig.client(), two_phase=False, version=4, owner=owner)) == (owner[0], owner[1] + 1)


async def test_compaction_keeps_the_newest_producer_epoch(data_dir: Path) -> None:
    async with running_rig(data_dir, {"transaction.state.log.num.partitions": "1"}) as rig:
        client, first = prepared(rig, "a")
        for _ in range(5):
            owner = pair(init(client, keep=True))
        log = rig.log("__transaction_state", 0)
        before = log.size
        log.roll()
        for _ in Cleaning(log, rig.clock.ms + INTERNAL_COMPACTION_LAG_MS).slices():
            pass
        assert log.size < before
    async with running_rig(data_dir) as rig:
        client = rig.client()
        assert refuses_late_records(client, first)
        answer = init(client, keep=True)
        assert (kept(answer), pair(answer)) == (first, (owner[0], owner[1] + 1))
        assert end(client, pair(answer)).error_code == OK
        assert committed(client) == ["a"]


# --- time-outs and expiry


async def test_a_transaction_recovered_before_its_time_out_does_not_time_out(data_dir: Path) -> None:
    """The transaction was opened with a time-out; recovering it with two-phase commit enabled removes the time-out."""
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        assert write(client, pair(init(client, two_phase=False)), "a") == OK
        rig.pass_time(60_000)
        owner = pair(init(client, keep=True))
        rig.pass_time(DAY_MS)
        client = rig.client()

        assert end(client, owner).error_code == OK
        assert committed(client) == ["a"]


async def test_a_transaction_recovered_with_a_time_out_times_out_and_its_owner_continues(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        assert write(client, pair(init(client, two_phase=False)), "a") == OK
        owner = pair(init(client, two_phase=False, keep=True))
        rig.pass_time(60_100)

        assert end(client, owner).error_code == ErrorCode.INVALID_TXN_STATE
        following = pair(end(client, owner, commit=False))
        assert write(client, following, "b") == OK
        assert end(client, following).error_code == OK
        assert committed(client) == ["b"]


async def test_an_open_transaction_prevents_the_expiry_of_its_id_and_its_producer(data_dir: Path) -> None:
    soon = {
        "transactional.id.expiration.ms": "1000",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "100",
        "producer.id.expiration.ms": "1000",
        "producer.id.expiration.check.interval.ms": "100",
    }
    async with running_rig(data_dir, soon) as rig:
        client, first = prepared(rig, "a")
        rig.pass_time(60_000)
        owner = pair(init(client, keep=True))
        rig.pass_time(60_000)
        assert refuses_late_records(client, first)
        following = pair(end(client, owner))
        assert committed(client) == ["a"]
        rig.pass_time(60_000)

        assert described(client).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert end(client, owner).error_code == write(client, following, "b") == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        restarted = init(client, keep=True)
        assert kept(restarted) == NO_PRODUCER
        assert pair(restarted)[0] != first[0]


@pytest.mark.parametrize("interval_ms", [100, 5_000])
async def test_time_outs_and_expiry_are_checked_at_the_configured_intervals(interval_ms: int, data_dir: Path) -> None:
    """The properties have Kafka's names; the default of the first is 100 ms in Stuntbroker."""
    often = {
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(interval_ms),
        "transaction.remove.expired.transaction.cleanup.interval.ms": str(2 * interval_ms),
        "transactional.id.expiration.ms": "1",
    }
    async with running_rig(data_dir, often) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        assert add(client, pair(init(client, two_phase=False))) == OK
        actor = rig.actor(TXN)
        actor.txn = txn_of(**(actor.txn.as_dict() | {"started_at_ms": START_MS - DAY_MS}))  # Already past.
        rig.pass_time(interval_ms - 1)
        assert described(client).transaction_state == "Ongoing"
        rig.pass_time(1)
        assert described(client).transaction_state == "CompleteAbort"
        rig.pass_time(interval_ms - 1)
        assert described(client).error_code == OK
        rig.pass_time(1)
        assert described(client).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


async def test_the_duration_filter_lists_only_transactions_that_are_open_for_longer(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client, first = prepared(rig, "a")
        init(client, keep=True)
        rig.pass_time(9_000)
        for longer_than_ms, count in ((8_999, 1), (9_000, 0)):
            request = ListTransactionsRequest([], [first[0]], longer_than_ms, "pay.*")
            assert len(client.ask(request, 2).transaction_states) == count


# --- a crash after any write


class Images:
    """Copies of the disk as `kill -9` would leave it after each write, with the requests answered by then."""

    def __init__(self, disk: MemoryDisk) -> None:
        self.taken: list[tuple[MemoryDisk, list[str], str]] = []
        self.answered: list[str] = []
        self.asking = ""
        self._disk = disk
        self._written = False
        disk.on_call = self._before

    def _before(self, call: str, path: str) -> None:
        if self.asking and self._written:
            self.taken.append((self._disk.copy(), list(self.answered), self.asking))
        self._written = call == "write"

    def requests(self, name: str, answer: Any) -> Any:
        self._before("", "")
        self.answered.append(name)
        self.asking = ""
        return answer


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize(("level", "first_epoch"), [("0", "0"), ("1", "0"), ("2", "0"), ("2", "32766")])
async def test_a_crash_after_any_write_loses_no_acknowledged_step_of_a_two_phase_transaction(
    level: str, first_epoch: str, commit: bool
) -> None:
    properties = {
        "transaction.version": level,
        "stuntbroker.initial.producer.epoch": first_epoch,
        "transaction.state.log.num.partitions": "1",
        "offsets.topic.num.partitions": "1",
    }
    disk = MemoryDisk()
    images = Images(disk)
    async with running_rig(None, properties, disk=disk) as rig:
        rig.topic(TOPIC)
        client = rig.client()

        def do(name: str, ask: Any, *arguments: Any, **more: Any) -> Any:
            images.asking = name
            return images.requests(name, ask(client, *arguments, **more))

        first = pair(do("init", init))
        assert do("write", write, first, "a") == OK
        assert do("offsets", commit_offset, first, 5, 5) == OK
        second = pair(do("keep", init, keep=True))
        owner = pair(do("keep again", init, keep=True))
        following = pair(do("end", end, owner, commit))
    assert len(images.taken) >= 9 and {asking for *_, asking in images.taken} >= {"write", "keep", "end"}
    wanted = (["a"], (OK, 5)) if commit else ([], (OK, -1))
    for number, (image, answered, asking) in enumerate(images.taken):
        async with running_rig(None, properties, disk=image) as rig:
            client, where = rig.client(), f"{number}: {asking} after {answered}"
            for zombie in [first] * ("keep" in answered) + [second] * ("keep again" in answered):
                assert end(client, zombie, commit).error_code in (FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING), where
                assert refuses_late_records(client, zombie), where
                assert commit_offset(client, zombie, 9) == STALE, where
            if asking == "end":
                assert pair(end(client, owner, commit)) == following, where
            answer = init(client, keep=True)
            if "write" in answered and asking != "end":
                assert kept(answer) == first, where
            if kept(answer) != NO_PRODUCER:
                assert end(client, pair(answer), commit).error_code == OK, where
            assert stable(rig), where
            if "offsets" in answered:
                assert (committed(client), offset_of_group(client)) == wanted, where
