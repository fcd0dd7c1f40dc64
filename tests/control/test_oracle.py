"""The oracle: nothing is found where the broker is right, whatever clients do, and each planted mistake is."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from stuntbroker.broker.transactions import Transactions
from stuntbroker.control.control import Control
from stuntbroker.coordinator import state as states
from stuntbroker.coordinator.state import Phase, Txn
from stuntbroker.groups.offsets import OffsetStore
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from stuntbroker.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from stuntbroker.storage.partition import PartitionLog
from stuntbroker.storage.producers import ProducerStates
from tests.kit.rig import Client, Rig
from tests.kit.valid_requests import batch

OK = 0
GROUP = "readers"


class Producer:
    """A transactional producer by hand, of transaction version 2."""

    def __init__(self, rig: Rig, name: str = "pay") -> None:
        self.client: Client = rig.client()
        self.name = name
        self.begin()

    def begin(self) -> None:
        given = self.client.ask(InitProducerIdRequest(self.name, 60_000), 5)
        assert given.error_code == OK
        self.pair = given.producer_id, given.producer_epoch
        self.sequences: dict[int, int] = {}

    def write(self, *partitions: int, topic: str = "t") -> list[int]:
        data = {index: batch(1, *self.pair, self.sequences.get(index, 0)) for index in partitions}
        parts = [PartitionProduceData(index, records) for index, records in data.items()]
        answer = self.client.ask(
            ProduceRequest(self.name, -1, 1_000, [TopicProduceData(topic, partition_data=parts)]), 12
        )
        codes = [each.error_code for each in answer.responses[0].partition_responses]
        for index, code in zip(partitions, codes, strict=True):
            self.sequences[index] = self.sequences.get(index, 0) + (code == OK)
        return codes

    def stage(self, offset: int, group: str = GROUP) -> int:
        self.client.ask(AddOffsetsToTxnRequest(self.name, *self.pair, group), 4)
        topics = [TxnOffsetCommitRequestTopic("in", partitions=[TxnOffsetCommitRequestPartition(0, offset)])]
        answer = self.client.ask(TxnOffsetCommitRequest(self.name, group, *self.pair, topics=topics), 5)
        code: int = answer.topics[0].partitions[0].error_code
        return code

    def end(self, commit: bool = True) -> int:
        answer = self.client.ask(EndTxnRequest(self.name, *self.pair, commit), 5)
        code: int = answer.error_code
        if code == OK:
            if (answer.producer_id, answer.producer_epoch) != self.pair:
                self.sequences = {}
            self.pair = answer.producer_id, answer.producer_epoch
        return code


def kinds(control: Control) -> list[str]:
    return [each.kind for each in control.oracle.check()]


async def test_nothing_is_found_whatever_producers_do(rig: Rig, control: Control) -> None:
    """Commits, aborts, time-outs, second instances, zombies, staged offsets, new topics: 600 steps of five producers."""
    random = Random(17)
    rig.topic("t", 3)
    rig.topic("in")
    producers = [Producer(rig, f"pay-{number % 3}") for number in range(5)]
    for step in range(600):
        producer = random.choice(producers)
        match random.randrange(12):
            case 0:
                producer.begin()
            case 1 | 2 | 3 | 4:
                producer.write(*sorted(random.sample(range(3), random.randrange(1, 4))))
            case 5 | 6:
                producer.stage(step)
            case 7 | 8:
                producer.end()
            case 9:
                producer.end(commit=False)
            case 10:
                topics = [OffsetCommitRequestTopic("in", partitions=[OffsetCommitRequestPartition(0, step)])]
                producer.client.ask(OffsetCommitRequest(GROUP, topics=topics), 8)
            case 11:
                await control.clock.advance(random.choice((1, 1_000, 61_000)))
        if not step % 7:
            assert control.oracle.check() == []
    topic = rig.broker.topics.get("t")
    assert topic is not None
    rig.broker.topics.delete(topic)
    assert control.oracle.check() == []
    assert control.oracle.transactions > 50 and control.oracle.skipped == 0


async def test_it_goes_by_what_came_since_it_was_made(rig: Rig) -> None:
    rig.topic("t", 2)
    producer = Producer(rig)
    producer.write(0, 1)
    later = Control(rig.broker)
    assert producer.end() == OK
    assert kinds(later) == [] and later.oracle.transactions == 1
    producer.write(0, 1)
    assert producer.end() == OK
    assert kinds(later) == [] and later.oracle.transactions == 2


# --- planted mistakes

Plant = Callable[[pytest.MonkeyPatch], None]


def forget_a_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    write = Transactions._write_markers
    monkeypatch.setattr(
        Transactions, "_write_markers", lambda self, txn, partitions: write(self, txn, sorted(partitions)[:-1])
    )


def write_a_marker_of_the_other_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    append = PartitionLog.append_marker

    def appended(self: PartitionLog, marker: Any) -> ErrorCode:
        if self.index != 1 or self.topic != "t":
            return append(self, marker)
        from stuntbroker.storage.marker import new_marker

        commit, *others, now_ms, _ = marker
        return append(self, new_marker(not commit, *others, now_ms))

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
        return append(self, actor, Txn(**fields), deferred)

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
    producer = Producer(rig)
    plant(monkeypatch)
    assert producer.write(0, 1, 2) == [OK, OK, OK]
    assert producer.stage(5) == OK
    assert kinds(control) == []
    assert producer.end(commit) == OK

    found = kinds(control)
    assert expected <= set(found), control.oracle.findings


async def test_records_of_an_open_transaction_that_can_be_read_are_found(
    rig: Rig, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.topic("t", 1)
    producer = Producer(rig)
    show_what_is_open(monkeypatch)
    producer.write(0)
    assert kinds(control) == ["last_stable_offset"]


async def test_a_last_stable_offset_that_falls_is_found(
    rig: Rig, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.topic("t", 1)
    producer = Producer(rig)
    producer.write(0)
    producer.end()
    assert kinds(control) == []
    monkeypatch.setattr(PartitionLog, "last_stable_offset", property(lambda self: 0))
    producer.write(0)
    assert "last_stable_offset_moved_back" in kinds(control)


async def test_the_record_of_a_zombie_is_found(rig: Rig, control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.topic("t", 1)
    zombie = Producer(rig)
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


async def test_a_topic_is_compared_with_what_was_made_of_it(rig: Rig, control: Control) -> None:
    rig.topic("t", 1)
    rig.topic("out", 1)
    producer = Producer(rig)
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
