"""Clients with random requests on a broker that may crash at any call of its disk.

At random calls, the world saves the disk as a crash would leave it, with all facts acknowledged until then. The broker does
not really crash, so one run has many such moments. One seed determines the whole run.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator
from random import Random
from typing import Any, NamedTuple

from stuntbroker.protocol.batches.records import TRANSACTIONAL, build_batch
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from stuntbroker.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from stuntbroker.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
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
from stuntbroker.protocol.primitives import Message
from stuntbroker.storage.compaction import Cleaning
from stuntbroker.storage.memory_disk import MemoryDisk
from tests.kit.disk_rig import Disk
from tests.kit.rig import KEYS, START_MS, Client, Rig, cut, decode, frame, turn
from tests.kit.transactions.acknowledged import (
    COMPACTED,
    PADDING,
    PLACES,
    RETENTION_MS,
    TOPIC,
    Acknowledged,
    Place,
    Transaction,
    group_of,
)

PROPERTIES = {
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.num.partitions": "1",
    "log.cleaner.backoff.ms": "100000000",  # The world cleans, one slice in a while.
}
TRANSACTION_STATE, CONSUMER_OFFSETS = "__transaction_state", "__consumer_offsets"
TIMEOUT_MS = 60_000
KEPT_ID = "kept"
"""The transactional id with two-phase commit: its transactions do not time out."""
FENCED = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE)
"""Errors of a producer after the broker has aborted its transaction."""


class Crash(NamedTuple):
    """The state that a crash would leave."""

    where: str
    """The disk call before which the crash happens."""
    disk: MemoryDisk
    facts: Acknowledged


class _Sender:
    """A client with at most one request in flight."""

    def __init__(self, world: CrashingWorld, name: str) -> None:
        self.world, self.name, self.facts = world, name, world.facts
        self._client: Client = world.rig.client()
        self._pending: tuple[int, int, Callable[[Any], None]] | None = None

    @property
    def is_idle(self) -> bool:
        return self._pending is None

    def send(self, request: Message, version: int, answered: Callable[[Any], None]) -> None:
        """Send a request; `answered` is called with its response, once the client has received it."""
        self._pending = KEYS[type(request).__name__.removesuffix("Request")], version, answered
        self._client.feed(frame(request, version))

    def receive(self) -> None:
        """Read what the broker has sent until now."""
        sent = self._client.transport.sent
        if self._pending is not None and sent:
            (answer,) = cut(sent)
            sent.clear()
            (key, version, answered), self._pending = self._pending, None
            answered(decode(answer, key, version))

    def produce(
        self, place: Place, batch: bytearray, answered: Callable[[int, int], None], name: str | None = None
    ) -> None:
        """Write a batch; `answered` is called with the error code and the base offset."""
        topic, index = place
        data = [TopicProduceData(topic, partition_data=[PartitionProduceData(index, bytes(batch))])]

        def done(answer: Any) -> None:
            part = answer.responses[0].partition_responses[0]
            answered(part.error_code, part.base_offset)

        self.send(ProduceRequest(name, -1, 1_000, data), 12, done)

    def act(self) -> None:
        """Send a random request."""
        raise NotImplementedError


class _TransactionalProducer(_Sender):
    def __init__(self, world: CrashingWorld, name: str) -> None:
        super().__init__(world, name)
        self._is_fenced = True
        self._transaction: Transaction | None = None
        self._sequences: dict[Place, int] = {}
        self.facts.transactions[name] = []

    def act(self) -> None:
        random = self.world.random
        if self._is_fenced or random.random() < 0.03:
            self._begin_again()
            return
        transaction = self._transaction
        if transaction is None:
            transactions = self.facts.transactions[self.name]
            transaction = self._transaction = Transaction(len(transactions) + 1)
            transactions.append(transaction)
        if transaction.offered and random.random() < 0.4:
            self._end(transaction, commit=random.random() < 0.7)
        elif transaction.offered and not transaction.offset_sent and random.random() < 0.25:
            self._commit_offset(transaction)
        else:
            self._write(transaction, random.choice(PLACES))

    def _begin_again(self) -> None:
        transaction, self._transaction = self._transaction, None
        if transaction is not None and transaction.commit_sent is None:
            transaction.commit_sent = False

        def answered(answer: Any) -> None:
            if answer.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                assert not answer.error_code, answer
                self._took(answer)
                self._is_fenced = False

        self._is_fenced = True
        self.send(InitProducerIdRequest(self.name, TIMEOUT_MS, enable_2pc=self.name == KEPT_ID), 6, answered)

    def _took(self, answer: Any) -> None:
        owner = answer.producer_id, answer.producer_epoch
        if owner != self.facts.producers.get(self.name):
            self._sequences = {}
        self.facts.producers[self.name] = owner
        assert self.facts.owners.setdefault(owner[0], self.name) == self.name

    def _is_ok(self, code: int) -> bool:
        """Whether a request was carried out; if not, it is to be repeated, or the producer is fenced."""
        if code in FENCED:
            self._is_fenced = True
        else:
            assert code in (ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS), (self.name, code)
        return code == ErrorCode.NONE

    def _end(self, transaction: Transaction, commit: bool) -> None:
        if transaction.commit_sent is not None:
            commit = transaction.commit_sent
        transaction.commit_sent = commit

        def answered(answer: Any) -> None:
            if self._is_ok(answer.error_code):
                transaction.end_acknowledged, self._transaction = True, None
                self._took(answer)

        self.send(EndTxnRequest(self.name, *self.facts.producers[self.name], commit), 5, answered)

    def _commit_offset(self, transaction: Transaction) -> None:
        partition = TxnOffsetCommitRequestPartition(0, transaction.number)
        topics = [TxnOffsetCommitRequestTopic(TOPIC, partitions=[partition])]
        owner = self.facts.producers[self.name]
        transaction.offset_sent = True

        def answered(answer: Any) -> None:
            transaction.offset_acknowledged = self._is_ok(answer.topics[0].partitions[0].error_code)

        self.send(TxnOffsetCommitRequest(self.name, group_of(self.name), *owner, topics=topics), 5, answered)

    def _write(self, transaction: Transaction, place: Place) -> None:
        value = b"%s %d" % (self.name.encode(), self.world.next_number())
        transaction.offered.add(value)
        owner, sequence = self.facts.producers[self.name], self._sequences.get(place, 0)
        batch = build_batch(
            [(value, value + PADDING * self.world.random.choice((0, 0, 100, 700)))],
            START_MS,
            producer_id=owner[0],
            producer_epoch=owner[1],
            base_sequence=sequence,
            attributes=TRANSACTIONAL,
        )

        def answered(code: int, offset: int) -> None:
            if self._is_ok(code):
                transaction.values[value] = place, offset
                self._sequences[place] = sequence + 1

        self.produce(place, batch, answered, self.name)


class _PlainProducer(_Sender):
    def act(self) -> None:
        random, facts = self.world.random, self.facts
        place, number = random.choice((*PLACES, PLACES[-1])), self.world.next_number()
        value = b"%d" % number
        # A large batch is not buffered until the end of the turn.
        padding = 9_000 if self.world.segment_bytes > 9_500 and random.random() < 0.1 else 0
        key = b"key %d" % random.randrange(4)
        if place[0] == COMPACTED:
            facts.newest_sent[key] = number

        def answered(code: int, offset: int) -> None:
            assert not code
            if place[0] == COMPACTED:
                facts.newest[key] = max(number, facts.newest.get(key, 0))
            else:
                facts.records.setdefault(place, {})[offset] = value

        self.produce(place, build_batch([(key, value + PADDING * padding)], START_MS + number), answered)


class _Committer(_Sender):
    def act(self) -> None:
        group, offset = f"group {self.world.random.randrange(2)}", self.world.next_number()
        self.facts.offsets_sent[group] = offset

        def answered(answer: Any) -> None:
            assert not answer.topics[0].partitions[0].error_code
            self.facts.offsets[group] = offset

        topics = [OffsetCommitRequestTopic(TOPIC, partitions=[OffsetCommitRequestPartition(0, offset)])]
        self.send(OffsetCommitRequest(group, topics=topics), 8, answered)


class _Admin(_Sender):
    """Deletes records, and creates, fills and deletes topics."""

    def __init__(self, world: CrashingWorld, name: str) -> None:
        super().__init__(world, name)
        self._exists: dict[str, bool] = {}

    def act(self) -> None:
        random = self.world.random
        topic = f"topic-{random.randrange(3)}"
        if random.random() < 0.4:
            self._delete_records((TOPIC, random.randrange(2)))
        elif not self._exists.get(topic):
            self._create(topic)
        elif random.random() < 0.7:
            self._write(topic)
        else:
            self._delete(topic)

    def _delete_records(self, place: Place) -> None:
        log = self.world.rig.log(*place)
        start = min(log.last_stable_offset, log.log_start_offset + self.world.random.randrange(6))
        self.facts.starts_sent[place] = max(start, self.facts.starts_sent.get(place, 0))

        def answered(answer: Any) -> None:
            assert not answer.topics[0].partitions[0].error_code, answer
            self.facts.starts[place] = start

        topics = [DeleteRecordsTopic(place[0], [DeleteRecordsPartition(place[1], start)])]
        self.send(DeleteRecordsRequest(topics, 1_000), 2, answered)

    def _create(self, topic: str) -> None:
        self.facts.topics.pop(topic, None)

        def answered(answer: Any) -> None:
            assert not answer.topics[0].error_code, answer
            self.facts.topics[topic] = self._exists[topic] = True

        configs = [CreatableTopicConfig("retention.ms", str(RETENTION_MS))]
        self.send(CreateTopicsRequest([CreatableTopic(topic, 1, 1, configs=configs)], 1_000), 7, answered)

    def _write(self, topic: str) -> None:
        value = b"%d" % self.world.next_number()

        def answered(code: int, offset: int) -> None:
            assert not code
            self.facts.records.setdefault((topic, 0), {})[offset] = value

        self.produce((topic, 0), build_batch([(None, value)], START_MS), answered)

    def _delete(self, topic: str) -> None:
        del self.facts.topics[topic]
        self.facts.records.pop((topic, 0), None)

        def answered(answer: Any) -> None:
            assert not answer.responses[0].error_code, answer
            self.facts.topics[topic] = self._exists[topic] = False

        self.send(DeleteTopicsRequest([DeleteTopicState(topic)], timeout_ms=1_000), 6, answered)


class CrashingWorld:
    """A broker's clients. A crash is a power failure with an `executor` for syncs, and the end of the process without one."""

    def __init__(self, rig: Rig, disk: MemoryDisk, executor: Disk | None, seed: int, probability: float) -> None:
        """`probability`: that a call of the disk is one of `crashes`."""
        self.random = Random(seed)
        self.rig, self.facts = rig, Acknowledged()
        self.crashes: list[Crash] = []
        self.segment_bytes = self.random.choice((1_000, 3_000, 12_000))
        self._disk, self._executor, self._probability = disk, executor, probability
        self._number = self._calls = 0
        self._cleaning: Generator[None] | None = None
        rig.topic(TOPIC, 2)
        rig.topic(COMPACTED, cleanup_policy="compact")
        if executor is not None:
            assert rig.broker.syncer is not None
            rig.broker.syncer.when_synced(lambda: None)
            executor.drain()
        producers = [_TransactionalProducer(self, name) for name in ("first", "second", KEPT_ID)]
        others = [_PlainProducer(self, "plain"), _PlainProducer(self, "more"), _Committer(self, "c"), _Admin(self, "a")]
        self._senders: list[_Sender] = [*producers, *others]

    def next_number(self) -> int:
        """Return a number that no record or offset had before."""
        self._number += 1
        return self._number

    async def run(self, steps: int) -> None:
        """Make random steps: a request, the end of a turn, a sync, a slice of a cleaning, time that passes."""
        self._disk.on_call = self._on_call
        try:
            for _ in range(steps):
                self._use_short_segments()
                await self._step()
                if self.random.random() < 0.5:
                    self.rig.broker.turn.end()
                self._receive()
        finally:
            self._disk.on_call = None

    async def _step(self) -> None:
        executor, step = self._executor, self.random.random()
        idle = [sender for sender in self._senders if sender.is_idle]
        if step < 0.02:
            self.rig.pass_time(self.random.choice((10, 1_000, TIMEOUT_MS + 1_000 if step < 0.002 else 1_000)))
            await turn()
        elif step < 0.3 and executor is not None and executor.requests:
            self._sync(executor)
        elif step < 0.34:
            self._clean()
        elif idle:
            self.random.choice(idle).act()
        else:
            self.rig.broker.turn.end()
            if executor is not None and executor.requests:
                self._sync(executor)
            await turn()

    def _sync(self, executor: Disk) -> None:
        """Complete a random one of the syncs that the broker runs at once, should it run more than one."""
        executor.sync(self.random.randrange(len(executor.requests)))

    def _use_short_segments(self) -> None:
        for name in (TOPIC, COMPACTED, TRANSACTION_STATE, CONSUMER_OFFSETS):
            topic = self.rig.broker.topics.get(name)
            for log in topic.partitions if topic is not None else ():
                log.config.segment_bytes = self.segment_bytes

    def _clean(self) -> None:
        if self._cleaning is None:
            topic = self.random.choice((COMPACTED, TRANSACTION_STATE, CONSUMER_OFFSETS))
            log = self.rig.broker.topics.log(topic, self.random.randrange(2) if topic == TRANSACTION_STATE else 0)
            if log is None or not log.size:
                return
            self._cleaning = Cleaning(log, self.rig.clock.now_ms()).slices()
        if next(self._cleaning, self) is self:
            self._cleaning = None

    def _receive(self) -> None:
        for sender in self._senders:
            sender.receive()

    def _on_call(self, call: str, path: str) -> None:
        self._calls += 1
        if self.random.random() >= self._probability:
            return
        self._receive()
        self._disk.on_call = None
        left = self._disk.copy() if self._executor is None else self._disk.after_power_cut(self.random)
        self._disk.on_call = self._on_call
        self.crashes.append(Crash(f"call {self._calls}, {call} {path}", left, copy.deepcopy(self.facts)))
