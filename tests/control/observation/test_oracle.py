"""The oracle finds no errors in a correct broker, whatever its clients do, and finds each planted error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stuntbroker.broker.transactions.registry import Transactions
from stuntbroker.control.control import Control
from stuntbroker.coordinator import state as states
from stuntbroker.coordinator.state import Phase, Txn, txn_of
from stuntbroker.groups.offsets import OffsetStore
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.storage.partition import PartitionLog
from stuntbroker.storage.producers import ProducerStates
from tests.kit.rig import Rig
from tests.kit.transactions.faulty_world import FaultyWorld, RawProducer
from tests.kit.transactions.two_calls import add, begin
from tests.kit.valid_requests import batch

OK = 0


def kinds(control: Control) -> list[str]:
    return [each.kind for each in control.oracle.check()]


@pytest.mark.parametrize("seed", range(4))
async def test_the_oracle_has_no_findings_for_random_producers_and_faults(
    seed: int, rig: Rig, control: Control
) -> None:
    """Producers commit, abort, time out, are fenced and write as zombies; a new plan of faults applies every 250 steps."""
    world = FaultyWorld(rig, control, seed)
    for number in range(1_500):
        if not number % 250:
            world.new_plan()
        await world.step()
        if not number % 50:
            assert control.oracle.check() == []
    await world.settle()
    topic = rig.broker.topics.get("t")
    assert control.oracle.check() == [] and topic is not None
    assert rig.broker.transactions.open == set(), "a transaction was left open"
    rig.broker.topics.delete(topic)
    assert control.oracle.check() == []
    assert control.oracle.transactions > 50 and control.oracle.skipped == 0


async def test_an_oracle_checks_transactions_from_its_creation_on(rig: Rig) -> None:
    rig.topic("t", 2)
    producer = RawProducer(rig)
    producer.write(0, 1)
    later = Control(rig.broker)
    assert producer.end() == OK
    assert kinds(later) == [] and later.oracle.transactions == 1
    producer.write(0, 1)
    assert producer.end() == OK
    assert kinds(later) == [] and later.oracle.transactions == 2


async def test_deleted_markers_are_not_reported_as_missing(rig: Rig, control: Control) -> None:
    rig.topic("t", 1)
    producer = RawProducer(rig)
    producer.write(0)
    producer.end()
    rig.log("t", 0).delete_records(rig.log("t", 0).next_offset)  # Before the oracle reads anything.
    assert kinds(control) == []
    producer.write(0)
    producer.end()
    topic = rig.broker.topics.get("t")
    assert topic is not None
    rig.broker.topics.delete(topic)
    rig.topic("t", 1)
    assert kinds(control) == []


async def test_two_outcomes_of_one_millisecond_are_distinguished(rig: Rig, control: Control) -> None:
    """With transaction version 1 the epoch stays the same, and the clock of this broker does not move."""
    rig.topic("t", 1)
    client = rig.client()
    given = begin(client)
    for commit in (True, False, True):
        add(client, given)
        assert client.ask(EndTxnRequest("pay", given.producer_id, given.producer_epoch, commit), 4).error_code == OK
    assert kinds(control) == [] and control.oracle.transactions == 3


# --- planted errors

Plant = Callable[[pytest.MonkeyPatch], None]


def forget_a_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    write = Transactions._write_markers
    monkeypatch.setattr(
        Transactions, "_write_markers", lambda self, txn, partitions: write(self, txn, sorted(partitions)[:-1])
    )


def opposite(marker: Any, now_ms: int) -> Any:
    """Return a marker of the same transaction with the opposite outcome."""
    from stuntbroker.storage.marker import new_marker

    return new_marker(
        not marker.commit,
        marker.producer_id,
        marker.producer_epoch,
        marker.coordinator_epoch,
        marker.transaction_version,
        now_ms,
    )


def write_a_marker_of_the_other_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    append = PartitionLog.append_marker

    def appended(self: PartitionLog, marker: Any) -> ErrorCode:
        if self.index != 1 or self.topic != "t":
            return append(self, marker)
        return append(self, opposite(marker, marker.time_ms))

    monkeypatch.setattr(PartitionLog, "append_marker", appended)


def end_a_part_before_the_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    append = PartitionLog.append_marker

    def appended(self: PartitionLog, marker: Any) -> ErrorCode:
        if self.index == 1 and self.topic == "t":
            append(self, opposite(marker, marker.time_ms + 1))
        return append(self, marker)

    monkeypatch.setattr(PartitionLog, "append_marker", appended)


def show_what_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PartitionLog, "last_stable_offset", property(lambda self: self.next_offset))


def forget_what_was_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    append = PartitionLog.append_marker

    def appended(self: PartitionLog, marker: Any) -> ErrorCode:
        error = append(self, marker)
        self.aborted.clear()
        return error

    monkeypatch.setattr(PartitionLog, "append_marker", appended)


def hide_what_was_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    appended = ProducerStates.marker_appended
    monkeypatch.setattr(ProducerStates, "marker_appended", lambda self, *fields: appended(self, *fields[:-1], False))


def apply_offsets_of_an_abort(monkeypatch: pytest.MonkeyPatch) -> None:
    end = OffsetStore.end_txn
    monkeypatch.setattr(OffsetStore, "end_txn", lambda self, producer_id, commit: end(self, producer_id, True))


def drop_offsets_of_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    end = OffsetStore.end_txn
    monkeypatch.setattr(OffsetStore, "end_txn", lambda self, producer_id, commit: end(self, producer_id, False))


def end_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    anywhere = {phase: frozenset(Phase) for phase in Phase}
    monkeypatch.setattr(states, "SUCCESSORS", anywhere)
    from stuntbroker.coordinator import machine

    completion = {Phase.PREPARE_COMMIT: Phase.COMPLETE_ABORT, Phase.PREPARE_ABORT: Phase.COMPLETE_COMMIT}
    monkeypatch.setattr(machine, "COMPLETION", completion)


def give_an_old_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    append = Transactions.append

    def appended(self: Transactions, actor: Any, txn: Txn, deferred: bool) -> bool:
        fields = txn.as_dict()
        if txn.phase in (Phase.COMPLETE_COMMIT, Phase.COMPLETE_ABORT):
            fields["producer_epoch"] -= 1
        return append(self, actor, txn_of(**fields), deferred)

    monkeypatch.setattr(Transactions, "append", appended)


PLANTED: dict[str, tuple[Plant, bool, set[str]]] = {
    "a marker is not written": (forget_a_marker, True, {"marker_missing"}),
    "a marker says the opposite": (write_a_marker_of_the_other_kind, True, {"marker_against_decision"}),
    "an abort's marker says the opposite": (write_a_marker_of_the_other_kind, False, {"marker_against_decision"}),
    "aborted records are readable": (forget_what_was_aborted, False, {"aborted_readable"}),
    "committed records are hidden": (hide_what_was_committed, True, {"committed_hidden"}),
    "offsets of an abort count": (apply_offsets_of_an_abort, False, {"committed_offset"}),
    "offsets of a commit are lost": (drop_offsets_of_a_commit, True, {"committed_offset"}),
    "a commit is completed as an abort": (end_otherwise, True, {"transition"}),
    "an epoch falls": (give_an_old_epoch, True, {"epoch_moved_back"}),
}


@pytest.mark.parametrize("name", PLANTED)
async def test_a_planted_mistake_is_found(
    name: str, rig: Rig, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant, commit, expected = PLANTED[name]
    rig.topic("t", 3)
    rig.topic("in")
    producer = RawProducer(rig)
    plant(monkeypatch)
    assert producer.write(0, 1, 2) == [OK, OK, OK]
    assert producer.stage(5) == OK
    assert kinds(control) == []
    assert producer.end(commit) == OK

    reported = kinds(control)
    assert expected <= set(reported), control.oracle.findings


async def test_readable_records_of_an_open_transaction_are_reported(
    rig: Rig, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.topic("t", 1)
    producer = RawProducer(rig)
    show_what_is_open(monkeypatch)
    producer.write(0)
    assert kinds(control) == ["last_stable_offset"]


async def test_a_last_stable_offset_that_falls_is_found(
    rig: Rig, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.topic("t", 1)
    producer = RawProducer(rig)
    producer.write(0)
    producer.end()
    assert kinds(control) == []
    monkeypatch.setattr(PartitionLog, "last_stable_offset", property(lambda self: 0))
    producer.write(0)
    assert "last_stable_offset_moved_back" in kinds(control)


async def test_the_record_of_a_zombie_is_found(rig: Rig, control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.topic("t", 1)
    zombie = RawProducer(rig)
    zombie.write(0)
    zombie.end()
    old = zombie.pair[0], zombie.pair[1] - 1
    monkeypatch.setattr(ProducerStates, "admit", lambda self, header, opens_transaction: ErrorCode.NONE)
    log = rig.log("t", 0)
    from stuntbroker.protocol.batches.records import read_header

    data = bytearray(batch(1, *old, 1))
    log.append_client(memoryview(data), read_header(data), 0)
    rig.broker.turn.end()
    assert "fenced_record" in kinds(control)


async def test_exactly_once_compares_an_output_topic_with_its_input(rig: Rig, control: Control) -> None:
    rig.topic("t", 1)
    rig.topic("out", 1)
    producer = RawProducer(rig)
    producer.write(0)
    assert [each.kind for each in control.oracle.exactly_once("t", "out", "key")] == []  # Nothing is committed yet.
    producer.end()
    assert [each.kind for each in control.oracle.exactly_once("t", "out", "key")] == ["lost"]
    for _ in range(2):
        producer.sequences = {}
        producer.write(0, topic="out")
        producer.end()
    (finding,) = control.oracle.exactly_once("t", "out", "value")
    assert finding.kind == "too_many" and finding.text.startswith("1 are in out more often than in t: b'vvv'")
    with pytest.raises(LookupError, match="there is no topic 'nope'"):
        control.oracle.exactly_once("t", "nope", "key")
