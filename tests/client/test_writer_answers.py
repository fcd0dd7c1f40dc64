"""What each answer of a broker does to a transactional producer: sent again, given up, aborted, or over."""

from __future__ import annotations

from typing import Any

import pytest
from fake_broker import FakeBroker, HandClock
from live_broker import batch

from stuntbroker.client.channel import Channel, ChannelCluster, Pending
from stuntbroker.client.errors import (
    BrokerError,
    ClientError,
    ProducerFenced,
    ProducerUnknown,
    TimedOut,
    TransactionAbortable,
    TransactionEnded,
    UnsupportedVersion,
)
from stuntbroker.client.transactions import END_TXN, INIT_PRODUCER_ID, PRODUCE
from stuntbroker.client.writer import TransactionalWriter
from stuntbroker.protocol.batches.records import add_sequence, read_header
from stuntbroker.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from stuntbroker.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse, FinalizedFeatureKey
from stuntbroker.protocol.messages.end_txn_response import EndTxnResponse
from stuntbroker.protocol.messages.init_producer_id_response import InitProducerIdResponse
from stuntbroker.protocol.messages.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

TOPIC = "t"
ADD_PARTITIONS = 24


STORED_AND_LOST = -2


class Script:
    """A partition that keeps to the sequences, and a coordinator, with answers of a test's own before their own."""

    def __init__(self, broker: FakeBroker, codes: list[int | None], level: int = 2) -> None:
        self.codes = codes
        """Of the next Produce requests; None: the connection breaks, STORED_AND_LOST: behind the append."""
        self.stored: list[int] = []
        """Base sequences of this epoch."""
        self.next = 0
        self.epoch = -1
        self.acts: list[str] = []
        """What the coordinator was asked for."""
        features = [FinalizedFeatureKey("transaction.version", level, level)]
        known = [ApiVersion(key, *span) for key, span in broker.versions.items()]
        broker.handlers[18] = lambda request, version: ApiVersionsResponse(0, known, finalized_features=features)
        broker.handlers[INIT_PRODUCER_ID] = self.init
        broker.handlers[PRODUCE] = self.produce
        broker.handlers[END_TXN] = self.end
        broker.handlers[ADD_PARTITIONS] = self.add

    def bump(self) -> None:
        self.epoch += 1
        self.stored, self.next = [], 0

    def init(self, request: Any, version: int) -> InitProducerIdResponse:
        self.acts.append("init")
        self.bump()
        return InitProducerIdResponse(0, 0, 7, self.epoch)

    def produce(self, request: Any, version: int) -> ProduceResponse | None:
        header = read_header(request.topic_data[0].partition_data[0].records)
        code = self.codes.pop(0) if self.codes else 0
        if code in (0, STORED_AND_LOST):
            lost = code != 0
            code = self.append(header.base_sequence, header.count, header.producer_epoch)
            code = None if lost else code
        if code is None:
            return None
        answer = PartitionProduceResponse(0, code, header.base_sequence)
        return ProduceResponse([TopicProduceResponse("t", partition_responses=[answer])])

    def append(self, sequence: int, count: int, epoch: int) -> int:
        if epoch != self.epoch:
            return 47
        if sequence in self.stored:
            return 46
        if sequence != self.next:
            return 45
        self.stored.append(sequence)
        self.next = add_sequence(sequence, count)
        return 0

    def end(self, request: Any, version: int) -> EndTxnResponse:
        self.acts.append("commit" if request.committed else "abort")
        if version < 5:
            return EndTxnResponse()
        self.done, _ = self.stored, self.bump()
        return EndTxnResponse(0, 0, 7, self.epoch)

    def add(self, request: Any, version: int) -> AddPartitionsToTxnResponse:
        results = [
            AddPartitionsToTxnTopicResult(one.name, [AddPartitionsToTxnPartitionResult(p, 0) for p in one.partitions])
            for one in request.v3_and_below_topics
        ]
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)


SENT_AGAIN: dict[str, list[int | None]] = {
    "nothing": [],
    "not leader": [6],
    "not leader, in the middle": [0, 0, 6],
    "concurrent transactions": [51],
    "busy three times": [51, 51, 51],
    "connection broken": [None],
    "connection broken later": [0, 0, 0, None],
    "the third of five, the rest is out of order": [0, 0, 19, 45, 45],
    "all of five": [5, 5, 5, 5, 5],
    "stored, and its answer is lost": [0, STORED_AND_LOST],
    "all of five stored, and the first answer is lost": [STORED_AND_LOST, 0, 0, 0, 0],
}


@pytest.mark.parametrize("case", SENT_AGAIN)
def test_a_batch_is_sent_again_with_its_sequence_until_it_is_there(case: str, broker: FakeBroker) -> None:
    clock, script = HandClock(), Script(broker, list(SENT_AGAIN[case]))
    with ChannelCluster([broker.address], 30.0, clock.now_s, clock.sleep) as cluster:
        writer = TransactionalWriter(cluster, "w")
        writer.init()
        for number in range(8):
            writer.produce(TOPIC, 0, batch(f"{number}", "two"))
        writer.commit()

    assert script.done == list(range(0, 16, 2))
    assert script.acts == ["init", "commit"]


class TakesAnyFirst(Script):
    """As a partition below transaction version 2 does: whatever of an unknown producer comes first is its beginning."""

    def append(self, sequence: int, count: int, epoch: int) -> int:
        if not self.stored:
            self.next = sequence
        return super().append(sequence, count, epoch)


@pytest.mark.parametrize("case", ["nothing", "not leader", "busy three times"])
def test_below_transaction_version_2_nothing_overtakes_a_first_batch_that_is_refused(
    case: str, broker: FakeBroker
) -> None:
    clock, script = HandClock(), TakesAnyFirst(broker, list(SENT_AGAIN[case]), level=1)
    with ChannelCluster([broker.address], 30.0, clock.now_s, clock.sleep) as cluster:
        writer = TransactionalWriter(cluster, "w")
        writer.init()
        for number in range(8):
            writer.produce(TOPIC, 0, batch(f"{number}", "two"))
        writer.commit()

    assert script.stored == list(range(0, 16, 2))


def test_a_broker_is_trusted_to_remember_five_batches_of_a_partition(broker: FakeBroker, monkeypatch: Any) -> None:
    """More must not be on their way: of those that are sent again it could not tell which it has (KIP-98)."""
    Script(broker, [])
    sent: list[Pending[Any]] = []
    outstanding: list[int] = []
    send = Channel.send

    def counted(channel: Channel, key: int, *arguments: Any) -> Any:
        pending = send(channel, key, *arguments)
        if key == PRODUCE:
            sent.append(pending)
            outstanding.append(sum(not one.done() for one in sent))
        return pending

    monkeypatch.setattr(Channel, "send", counted)
    with ChannelCluster([broker.address]) as cluster:
        writer = TransactionalWriter(cluster, "w")
        writer.init()
        for number in range(20):
            writer.produce(TOPIC, 0, batch(f"{number}"))
        writer.commit()

    assert len(sent) == 20
    assert max(outstanding) == 5


FAULTS: list[tuple[int, type[BrokerError], bool]] = [
    (47, ProducerFenced, False),
    (90, ProducerFenced, False),
    (49, ProducerUnknown, False),
    (59, ProducerUnknown, False),
    (45, TransactionAbortable, True),
    (48, TransactionAbortable, True),
    (120, TransactionAbortable, True),
    (10, TransactionAbortable, True),
    (29, TransactionAbortable, True),
]


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize(("code", "kind", "all_in_sequence"), FAULTS)
def test_what_an_answer_to_produce_means(
    code: int, kind: type[BrokerError], all_in_sequence: bool, level: int, broker: FakeBroker
) -> None:
    """Sequences that were given to what is refused are lost: under transaction version 1 only InitProducerId helps."""
    script = Script(broker, [code], level)
    with ChannelCluster([broker.address]) as cluster:
        writer = TransactionalWriter(cluster, "w")
        writer.init()
        writer.produce(TOPIC, 0, batch("a"))
        with pytest.raises(kind) as caught:
            writer.commit()
        assert caught.value.code == code
        if all_in_sequence:
            writer.abort()
            writer.produce(TOPIC, 0, batch("b"))
            writer.commit()
            assert script.acts == ["init", "abort" if level == 2 else "init", "commit"]
        else:
            with pytest.raises(kind):
                writer.abort()
            assert script.acts == ["init"]


def test_when_there_is_no_time_left_only_a_new_epoch_is_safe(broker: FakeBroker) -> None:
    """A request may still be on its way: it must not come behind the end of its transaction (KIP-890)."""
    clock, script = HandClock(), Script(broker, [7] * 1_000)
    with ChannelCluster([broker.address], 5.0, clock.now_s, clock.sleep) as cluster:
        writer = TransactionalWriter(cluster, "w")
        writer.init()
        writer.produce(TOPIC, 0, batch("a"))
        with pytest.raises(TimedOut, match="REQUEST_TIMED_OUT; given up"):
            writer.flush()
        for step in (writer.commit, writer.abort):
            with pytest.raises(TimedOut):
                step()
        script.codes.clear()
        writer.init()
        writer.produce(TOPIC, 0, batch("a"))
        writer.commit()
    assert script.acts == ["init", "init", "commit"]


@pytest.mark.timeout(20)
def test_a_broker_that_does_not_answer_is_given_up(broker: FakeBroker) -> None:
    script = Script(broker, [])
    broker.handlers[PRODUCE] = lambda request, version: b""
    with ChannelCluster([broker.address], 0.3) as cluster:
        writer = TransactionalWriter(cluster, "w")
        writer.init()
        writer.produce(TOPIC, 0, batch("a"))
        with pytest.raises(TimedOut, match="no answer to Produce in time; given up"):
            writer.flush()
    assert script.acts == ["init"]


END_CODES: list[tuple[int, type[ClientError]]] = [
    (48, TransactionEnded), (90, ProducerFenced), (47, ProducerFenced), (49, ProducerUnknown),
    (120, TransactionAbortable), (53, BrokerError),
]  # fmt: skip


@pytest.mark.parametrize(("code", "kind"), END_CODES)
def test_what_an_answer_to_end_txn_means(code: int, kind: type[ClientError], broker: FakeBroker) -> None:
    Script(broker, [])
    broker.handlers[END_TXN] = lambda request, version: EndTxnResponse(0, code)
    with ChannelCluster([broker.address]) as cluster:
        writer = TransactionalWriter(cluster, "w")
        writer.init()
        writer.produce(TOPIC, 0, batch("a"))
        with pytest.raises(kind):
            writer.commit()


@pytest.mark.parametrize("codes", [[51, 14, 15, 16, 0], [None, 0], [51] * 10 + [0]], ids=str)
def test_an_end_is_asked_for_until_it_is_answered(codes: list[int | None], broker: FakeBroker) -> None:
    clock, left = HandClock(), list(codes)

    def end(request: Any, version: int) -> EndTxnResponse | None:
        code = left.pop(0)
        return None if code is None else EndTxnResponse(0, code, *((7, 1) if version >= 5 else ()))

    Script(broker, [])
    broker.handlers[END_TXN] = end
    with ChannelCluster([broker.address], 30.0, clock.now_s, clock.sleep) as cluster:
        writer = TransactionalWriter(cluster, "w")
        writer.init()
        writer.produce(TOPIC, 0, batch("a"))
        writer.commit()
    assert left == []


def test_two_phase_needs_a_broker_that_has_it(broker: FakeBroker) -> None:
    broker.versions[INIT_PRODUCER_ID] = (0, 5)
    Script(broker, [])
    with ChannelCluster([broker.address]) as cluster:
        writer = TransactionalWriter(cluster, "w")
        for flags in ({"two_phase": True}, {"keep": True}):
            with pytest.raises(UnsupportedVersion, match="has InitProducerId 0-5, needed is version 6-6"):
                writer.init(**flags)
        writer.init()
        with pytest.raises(ClientError, match="was not made for two-phase commit"):
            writer.prepare()


def test_init_comes_first(broker: FakeBroker) -> None:
    with ChannelCluster([broker.address]) as cluster, pytest.raises(ClientError, match=r"init\(\) comes first"):
        TransactionalWriter(cluster, "w").produce(TOPIC, 0, batch("a"))
