"""A transactional producer of batches that are encoded already, for a process that does one thing after the other.

    writer = TransactionalWriter(cluster, "sink-0-0")
    writer.init(two_phase=True)
    writer.produce("topic", 0, batch)        # returns while the batch is on its way
    state = str(writer.prepare())            # everything is in the log; store this where it is decided
    writer.complete(PreparedState.parse(decided))

Who comes back after a crash calls init(two_phase=True, keep=True) and then complete() with what was stored (KIP-939).
On brokers without two-phase commit, init(), produce(), and commit() or abort().
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from functools import partial
from struct import Struct
from typing import Final, NamedTuple

from stuntbroker.client.channel import ChannelCluster, Pending, wait_for
from stuntbroker.client.connection import REQUEST_S_MAX, Deadline
from stuntbroker.client.errors import (
    BrokerError,
    ClientError,
    ConnectionFailed,
    ProducerFenced,
    ProducerUnknown,
    TimedOut,
    TransactionAbortable,
    producer_fault,
)
from stuntbroker.client.transactions import (
    BACKOFF_S,
    BACKOFF_S_MAX,
    NOBODY,
    PRODUCE,
    PRODUCE_V2_FROM,
    End,
    Initialised,
    PreparedState,
    end_all,
    init_producer,
    transaction_version,
)
from stuntbroker.protocol.batches.records import TRANSACTIONAL, add_sequence, read_header, seal
from stuntbroker.protocol.errors import RETRIABLE, ErrorCode
from stuntbroker.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from stuntbroker.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from stuntbroker.protocol.messages.produce_response import ProduceResponse

ADD_PARTITIONS_TO_TXN: Final = 24
ADD_PARTITIONS_CLIENT_MAX: Final = 3
"""The versions above are for brokers."""
IN_FLIGHT_MAX: Final = 5
"""Batches of a partition that are not acknowledged: as many as a broker remembers to tell a duplicate by (KIP-98)."""
IN_FLIGHT_ALL_MAX: Final = 20
"""Of all partitions: they are kept in memory."""
PRODUCE_NAMES_MAX: Final = 12
"""Later versions name topics by id."""
TIMEOUT_MS: Final = 60_000
_ATTRIBUTES: Final = Struct(">h")
_OWNER: Final = Struct(">qhi")
_ATTRIBUTES_AT: Final = 21
_OWNER_AT: Final = 43

PRODUCE_TIMEOUT_MS: Final = 30_000
PRODUCE_FAULTS: Final[dict[int, type[BrokerError]]] = {
    ErrorCode.INVALID_PRODUCER_EPOCH: ProducerFenced,
    ErrorCode.PRODUCER_FENCED: ProducerFenced,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: ProducerUnknown,
    ErrorCode.UNKNOWN_PRODUCER_ID: ProducerUnknown,
}
"""What may come of Produce that is neither retriable nor abortable."""

TopicPartition = tuple[str, int]


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class Written(NamedTuple):
    """What a transaction has put into one partition."""

    first_offset: int
    last_offset: int
    records: int


class _Batch:
    """A batch that is stamped, and not yet acknowledged."""

    __slots__ = ("data", "pending", "records")

    def __init__(self, data: bytearray, records: int) -> None:
        self.data = data
        self.records = records
        self.pending: Pending[ProduceResponse] | None = None
        """None while it has to be sent, or sent again."""


class TransactionalWriter:
    """One transactional id. Not for more than one thread, nor across a fork.

    After TransactionAbortable only abort() is left, after any other fault nothing but a new init().
    """

    def __init__(
        self,
        cluster: ChannelCluster,
        transactional_id: str,
        timeout_ms: int = TIMEOUT_MS,
        in_flight_max: int = IN_FLIGHT_MAX,
    ) -> None:
        self.transactional_id = transactional_id
        self.pair = NOBODY
        self.ongoing: PreparedState | None = None
        """The pair of a transaction that was kept: it takes no more records."""
        self.written: dict[TopicPartition, Written] = {}
        """Of this transaction, as far as it is acknowledged."""
        self._cluster = cluster
        self._timeout_ms = timeout_ms
        self._in_flight_max = min(in_flight_max, IN_FLIGHT_MAX)
        self._two_phase = False
        self._prepared = False
        self._shared = False
        self._fault: ClientError | None = None
        self._sequences: dict[TopicPartition, int] = {}
        self._queues: dict[TopicPartition, list[_Batch]] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self._level: int | None = None
        """The transaction version, once it is known."""
        self._partitions: set[TopicPartition] = set()
        """Those of this transaction."""
        self._added: set[TopicPartition] = set()
        """Those that the coordinator was told of, where it has to be."""

    # --- begin

    def init(self, two_phase: bool = False, keep: bool = False, owner: PreparedState = NOBODY) -> Initialised:
        """Takes the id over: nobody who had it can go on. See transactions.init_producer."""
        initialised = init_producer(
            self._cluster, self.transactional_id, self._timeout_ms, two_phase=two_phase, keep=keep, owner=owner
        )
        self._two_phase, self._fault = two_phase, None
        self._start(initialised.pair)
        self.ongoing = initialised.ongoing
        return initialised

    def join(self, pair: PreparedState) -> None:
        """Takes part in the transaction of a producer that somebody else has initialised, for partitions of its own.

        A batch that the broker calls a duplicate is another one's then, and a fault.
        """
        self._two_phase, self._fault, self._shared = False, None, True
        self._start(pair)

    def _start(self, pair: PreparedState) -> None:
        """A transaction of this pair, without anything in it. Sequences begin anew with a pair, and only then."""
        if pair != self.pair:
            self._sequences.clear()
        self.pair, self.ongoing, self._prepared = pair, None, False
        self._queues, self._partitions, self._added, self.written = {}, set(), set(), {}

    # --- records

    def produce(self, topic: str, partition: int, batches: bytearray | Iterable[bytearray]) -> None:
        """Stamps batches with pair and sequence, in place, and sends them. Waits while too many are on their way.

        Raises ProducerFenced, ProducerUnknown, TransactionAbortable, TimedOut.
        """
        self._check(records=True)
        where = topic, partition
        for data in (batches,) if isinstance(batches, bytearray) else batches:
            queue = self._queues.setdefault(where, [])
            self._drain(partial(self._has_room, queue))
            records = read_header(data).count
            sequence = self._sequences.get(where, 0)
            stamp(data, self.pair, sequence)
            self._sequences[where] = add_sequence(sequence, records)
            self._partitions.add(where)
            queue.append(_Batch(data, records))
            try:
                self._send_what_waits()
            except ClientError as fault:
                if not fault.retriable:
                    raise self._failed(fault) from fault
                self._leaders.clear()  # It is sent by the next one that waits.

    def flush(self) -> None:
        """Waits until every batch is acknowledged."""
        self._check(records=False)
        self._drain(lambda: not any(self._queues.values()))

    def prepare(self) -> PreparedState:
        """Waits for all records; from now on the transaction can only be completed (KIP-939)."""
        if not self._two_phase:
            raise ClientError(f"{self.transactional_id!r} was not made for two-phase commit")
        self.flush()
        self._prepared = True
        return self.pair

    # --- end

    def commit(self) -> None:
        """Raises TransactionAbortable: then it has to be aborted. After TimedOut it may or may not be committed."""
        self.flush()
        self._end(commit=True)

    def abort(self) -> None:
        """Abort the transaction, with what was refused in it. Raises the fault that made the writer unusable."""
        if self._fault is not None and not isinstance(self._fault, TransactionAbortable):
            raise self._fault
        self._fault = None
        self._await([batch.pending for queue in self._queues.values() for batch in queue if batch.pending])
        with suppress(ClientError):  # What was refused is aborted with the rest.
            self._sort_out_quietly()
        if any(self._queues.values()) and self._level != 2:
            # Sequences have been given away, and a request may still be on its way, which must not come behind the
            # end: both need a new epoch, which only transaction version 2 gives with the end (KIP-890).
            self.init(self._two_phase)
        else:
            self._end(commit=False)

    def complete(self, decided: PreparedState) -> bool | None:
        """Commits when what was decided is this prepared transaction, or the one that was kept; else aborts.

        Gives whether it was committed, and None when there is no transaction. Raises ClientError for a transaction that was
        neither prepared here nor kept (KIP-939: INVALID_TXN_STATE).
        """
        if not (self._partitions or self.ongoing):
            return None
        if not (self._prepared or self.ongoing):
            raise ClientError(
                f"the transaction of {self.transactional_id!r} is not prepared: call prepare() before complete()"
            )
        commit = decided == (self.ongoing or self.pair)
        if commit:
            self.commit()
        else:
            self.abort()
        return commit

    def _end(self, commit: bool) -> None:
        if not (self._partitions or self.ongoing):
            return  # The coordinator knows of no transaction.
        (ended,) = end_all(self._cluster, [End(self.transactional_id, *self.pair, commit)])
        if ended.code:
            self._fault = producer_fault(str(ended.end), ended.code)
            raise self._fault
        self._start(self.pair if ended.pair == NOBODY else ended.pair)

    # --- sending

    def _check(self, records: bool) -> None:
        if self._fault is not None:
            raise self._fault
        if self.pair == NOBODY:
            raise ClientError(f"{self.transactional_id!r}: init() comes first")
        if records and (self.ongoing or self._prepared):
            raise ClientError(f"{self.transactional_id!r} is prepared: it takes no more records")

    def _has_room(self, queue: list[_Batch]) -> bool:
        all_of_them = sum(len(batches) for batches in self._queues.values())
        return len(queue) < self._in_flight_max and all_of_them < IN_FLIGHT_ALL_MAX

    def _drain(self, enough: Callable[[], bool]) -> None:
        """Sends, and sends again what has to be, until `enough` says so or the time is over."""
        deadline = self._cluster.start_operation()
        backoff_s = BACKOFF_S
        while not enough():
            try:
                self._send_what_waits()
                self._take_answers(deadline)
                backoff_s = BACKOFF_S
                continue
            except ClientError as caught:
                fault = caught
            if not fault.retriable:
                raise self._failed(fault) from fault
            if deadline.left_s() <= backoff_s:
                raise self._failed(TimedOut(f"{fault}; given up")) from fault
            if not (isinstance(fault, BrokerError) and fault.code == ErrorCode.CONCURRENT_TRANSACTIONS):
                self._cluster.forget()
                self._leaders.clear()
            self._cluster.pause(backoff_s)
            backoff_s = min(2 * backoff_s, BACKOFF_S_MAX)

    def _failed(self, fault: ClientError) -> ClientError:
        self._fault = fault
        return fault

    def _send_what_waits(self) -> None:
        """In the order of the sequences, partition by partition."""
        waiting = {
            where: queue for where, queue in self._queues.items() if any(batch.pending is None for batch in queue)
        }
        if not waiting:
            return
        if self._level is None:
            self._level = transaction_version(self._cluster, self._coordinator())
        if self._level < 2 and not waiting.keys() <= self._added:
            self._add_partitions(waiting.keys() - self._added)
        most = PRODUCE_NAMES_MAX if self._level == 2 else PRODUCE_V2_FROM - 1
        for where, queue in waiting.items():
            if where not in self._leaders:
                self._leaders[where] = self._cluster.leader(*where)
            channel = self._cluster.channel(self._leaders[where])
            version = channel.version(PRODUCE, most=most)
            topic, partition = where
            for batch in queue:
                if batch.pending is None:
                    data = TopicProduceData(topic, partition_data=[PartitionProduceData(partition, batch.data)])
                    request = ProduceRequest(self.transactional_id, -1, PRODUCE_TIMEOUT_MS, [data])
                    batch.pending = channel.send(PRODUCE, version, request, ProduceResponse)
                if self._level < 2 and where not in self.written:
                    break  # A partition that has refused the first batch would take the second, and then never the first.

    def _coordinator(self) -> int:
        return self._cluster.coordinators([self.transactional_id])[self.transactional_id]

    def _add_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """AddPartitionsToTxn, which transaction version 2 does without."""
        wanted = sorted(partitions)
        by_topic: dict[str, list[int]] = {}
        for topic, partition in wanted:
            by_topic.setdefault(topic, []).append(partition)
        topics = [AddPartitionsToTxnTopic(topic, some) for topic, some in by_topic.items()]
        request = AddPartitionsToTxnRequest((), self.transactional_id, *self.pair, topics)
        answer = self._cluster.ask(
            self._coordinator(),
            ADD_PARTITIONS_TO_TXN,
            request,
            AddPartitionsToTxnResponse,
            most=ADD_PARTITIONS_CLIENT_MAX,
        )
        for topic_result in answer.results_by_topic_v3_and_below:
            for partition_result in topic_result.results_by_partition:
                if partition_result.partition_error_code:
                    what = f"{self.transactional_id!r}: {topic_result.name}-{partition_result.partition_index}"
                    raise producer_fault(what, partition_result.partition_error_code)
        self._added.update(wanted)

    def _take_answers(self, deadline: Deadline) -> None:
        """Waits for one answer and takes in all that are there. Raises the first fault, with no answer outstanding."""
        pending = [item.pending for queue in self._queues.values() for item in queue if item.pending]
        wait_for(self._cluster.loop, pending, deadline.left_s(REQUEST_S_MAX), all_of_them=False)
        if not any(item.done() for item in pending):
            raise ConnectionFailed(f"{self.transactional_id!r}: no answer to Produce in time")
        try:
            self._sort_out()
        except ClientError as fault:
            if not fault.retriable:
                raise
            # What follows in the same partition is refused as well: it has to be known before any is sent again.
            self._await(pending)
            self._sort_out_quietly()
            raise

    def _await(self, pending: Collection[Pending[ProduceResponse]]) -> None:
        """Until all of these are answered; connections that do not answer in time are closed."""
        wait_for(self._cluster.loop, pending, REQUEST_S_MAX)
        if not all(request.done() for request in pending):
            self._cluster.forget()
            wait_for(self._cluster.loop, pending, REQUEST_S_MAX)

    def _sort_out_quietly(self) -> None:
        """All answers; those that ask to try again are counted as not sent."""
        while True:
            try:
                return self._sort_out()
            except ClientError as fault:
                if not fault.retriable:
                    raise

    def _sort_out(self) -> None:
        """Takes the answers that are there, in the order of the sequences. Raises the first that is a fault."""
        for where, queue in self._queues.items():
            for batch in tuple(queue):
                if batch.pending is None or not batch.pending.done():
                    continue
                pending, batch.pending = batch.pending, None
                part = pending.result().responses[0].partition_responses[0]
                code = part.error_code
                if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and queue[0] is not batch:
                    continue  # The one before it goes again first.
                if code and (code != ErrorCode.DUPLICATE_SEQUENCE_NUMBER or self._shared):
                    raise self._produce_fault(where, code, part.error_message)
                queue.remove(batch)
                if not code:
                    self._note(where, part.base_offset, batch.records)

    def _note(self, where: TopicPartition, base_offset: int, records: int) -> None:
        last = base_offset + records - 1
        before = self.written.get(where)
        if before is None:
            self.written[where] = Written(base_offset, last, records)
        else:
            first = min(before.first_offset, base_offset)
            self.written[where] = Written(first, max(before.last_offset, last), before.records + records)

    def _produce_fault(self, where: TopicPartition, code: int, message: str | None) -> BrokerError:
        what = f"{self.transactional_id!r} writing to {where[0]}-{where[1]}"
        if code in RETRIABLE:
            return BrokerError(what, code, message)
        kind = PRODUCE_FAULTS.get(code, TransactionAbortable)
        return kind(what, code, message)


def stamp(batch: bytearray, pair: PreparedState, sequence: int) -> None:
    """Makes a batch one of a transaction, in place."""
    (attributes,) = _ATTRIBUTES.unpack_from(batch, _ATTRIBUTES_AT)
    _ATTRIBUTES.pack_into(batch, _ATTRIBUTES_AT, attributes | TRANSACTIONAL)
    _OWNER.pack_into(batch, _OWNER_AT, *pair, sequence)
    seal(batch)
