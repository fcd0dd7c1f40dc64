"""Produce, key 0, versions 3-13: record batches into partitions.

v9 flexible. v11 TRANSACTION_ABORTABLE may be answered. v12 adds the partition to the transaction (KIP-890). v13 topic ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from stuntbroker.broker.apis import NO_ANSWER
from stuntbroker.broker.produce_checks import check_content, record_errors
from stuntbroker.coordinator.requests import TRANSACTION_TIMED_OUT, AddPartitions, Reply, Verify
from stuntbroker.protocol.batch_check import check_batch
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from stuntbroker.protocol.messages.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from stuntbroker.protocol.primitives import Buffer
from stuntbroker.protocol.records import LOG_OVERHEAD, TRANSACTIONAL, BatchHeader
from stuntbroker.storage.errors import StorageError
from stuntbroker.storage.partition import PartitionLog

if TYPE_CHECKING:
    from stuntbroker.broker.connection import Connection
    from stuntbroker.broker.server import Broker
    from stuntbroker.broker.topics import Topic

KEY: Final = 0
VERSIONS = range(3, 14)
TOPIC_IDS_FROM: Final = 13
IMPLICIT_ADD_FROM: Final = 12
ABORTABLE_FROM: Final = 11
OK = ErrorCode.NONE
INVALID_PRODUCER_EPOCH: Final = ErrorCode.INVALID_PRODUCER_EPOCH
RECORD_LIST_TOO_LARGE: Final = ErrorCode.RECORD_LIST_TOO_LARGE
PRODUCER: Final = slice(9, 11)
"""Producer id and epoch in a batch header."""

Taken = tuple[PartitionProduceResponse, PartitionLog, Buffer, BatchHeader]


def handle(connection: Connection, request: ProduceRequest, version: int) -> Any:
    broker = connection.broker
    topics = broker.topics
    now_ms = broker.clock.now_ms()
    responses: list[TopicProduceResponse] = []
    taken: list[Taken] = []
    to_add: list[Taken] = []
    failed = acks_wrong = request.acks not in (-1, 0, 1)
    first: BatchHeader | None = None  # of the transactional batches
    mixed = False
    topic_data = request.topic_data
    if len(topic_data) != 1 or len(topic_data[0].partition_data) != 1:
        topic_data = _once(topic_data)
    for wanted in topic_data:
        topic = topics.get(wanted.name) if version < TOPIC_IDS_FROM else topics.by_id(wanted.topic_id)
        partitions: list[PartitionProduceResponse] = []
        for part in wanted.partition_data:
            response = PartitionProduceResponse(part.index, OK, -1)
            partitions.append(response)
            if acks_wrong:
                response.error_code = ErrorCode.INVALID_REQUIRED_ACKS
                continue
            one = _accept(topic, part.index, part.records, version, now_ms, response)
            if one is None:
                failed = True
            else:
                taken.append(one)
                header = one[3]
                if header.attributes & TRANSACTIONAL:
                    if first is None:
                        first = header
                    elif header[PRODUCER] != first[PRODUCER]:
                        mixed = True
                    if not _in_transaction(one[1], header):
                        to_add.append(one)
        responses.append(TopicProduceResponse(wanted.name, wanted.topic_id, partitions))
    answer = ProduceResponse(responses)
    if first is not None:
        if not request.transactional_id:
            return _refuse_all(connection, request, answer, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if to_add:
            if mixed:
                return _refuse_all(connection, request, answer, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
            _Enlisting(connection, request, version, answer, taken, to_add).start(now_ms)
            return None
    for one in taken:
        failed |= _append(broker, one, now_ms, False)
    if request.acks == 0:
        return _unacknowledged(connection, failed)
    return answer


def _once(topics: Sequence[TopicProduceData]) -> Sequence[TopicProduceData]:
    """Of a partition that is there twice, the last one counts; a topic without partitions does not."""
    merged: dict[tuple[str, bytes], dict[int, PartitionProduceData]] = {}
    for topic in topics:
        parts = merged.setdefault((topic.name, topic.topic_id), {})
        for part in topic.partition_data:
            parts[part.index] = part
    return [TopicProduceData(name, topic_id, [*parts.values()]) for (name, topic_id), parts in merged.items() if parts]


def _accept(
    topic: Topic | None, index: int, records: Buffer | None, version: int, now_ms: int, response: PartitionProduceResponse
) -> Taken | None:
    """What can be told before transactions are looked at; None when the response has its error."""
    if topic is None or not 0 <= index < len(topic.partitions):
        unknown = topic is None and version >= TOPIC_IDS_FROM
        response.error_code = ErrorCode.UNKNOWN_TOPIC_ID if unknown else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return None
    log = topic.partitions[index]
    if topic.internal:
        response.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION
        response.error_message = f"Cannot append to internal topic {topic.name}"
        return None
    header, error, message = check_batch(records, version, log.config.max_message_bytes)
    if header is not None:
        size = header.length + LOG_OVERHEAD
        if size != len(records):  # type: ignore[arg-type]
            records = records[:size]  # type: ignore[index]
        error, message = check_content(records, header, log.config, now_ms)  # type: ignore[arg-type]
        if not error:
            return response, log, records, header  # type: ignore[return-value]
        response.record_errors = record_errors(error, records, header, log.config, now_ms)  # type: ignore[arg-type]
        response.log_start_offset = log.log_start_offset
    response.error_code, response.error_message = error, message
    return None


def _in_transaction(log: PartitionLog, header: BatchHeader) -> bool:
    """The producer's transaction is open in this partition already: nobody need be asked, unless it was sealed."""
    producer = log.producers.producers.get(header.producer_id)
    return (
        producer is not None
        and producer.txn_first_offset >= 0
        and producer.epoch == header.producer_epoch
        and not producer.sealed
    )


def _append(broker: Broker, one: Taken, now_ms: int, must_start_at_zero: bool) -> bool:
    """Writes the batch and completes its response; True when that failed."""
    response, log, records, header = one
    try:
        error, response.base_offset, response.log_append_time_ms = log.append_client(
            records, header, now_ms, must_start_at_zero
        )
    except StorageError as fault:
        broker.events.error("append_failed", topic=log.topic, partition=log.index, fault=str(fault))
        response.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return True
    if error is not RECORD_LIST_TOO_LARGE:
        response.log_start_offset = log.log_start_offset
    if error:
        response.error_code = error
        return True
    return False


def _unacknowledged(connection: Connection, failed: bool) -> Any:
    """acks=0: no answer at all; a failure can only be told by closing the connection."""
    if failed:
        connection.fail("unacknowledged_produce_failed")
    return NO_ANSWER


def _refuse_all(connection: Connection, request: ProduceRequest, answer: ProduceResponse, error: ErrorCode) -> Any:
    for topic in answer.responses:
        for part in topic.partition_responses:
            part.error_code = error
            part.base_offset = -1
    return _unacknowledged(connection, True) if request.acks == 0 else answer


class _Enlisting:
    """A request whose partitions the transaction must know of, or be told of, before its batches are written."""

    __slots__ = ("answer", "connection", "left", "request", "taken", "to_add", "version")

    def __init__(
        self,
        connection: Connection,
        request: ProduceRequest,
        version: int,
        answer: ProduceResponse,
        taken: list[Taken],
        to_add: list[Taken],
    ) -> None:
        self.connection = connection
        self.request = request
        self.version = version
        self.answer = answer
        self.taken = taken
        self.to_add = to_add

    def start(self, now_ms: int) -> None:
        to_add = self.to_add
        partitions = []
        for one in to_add:
            response, log, _, header = one
            producer = log.producers.producers.get(header.producer_id)
            if producer is not None and producer.epoch > header.producer_epoch:
                response.error_code = INVALID_PRODUCER_EPOCH
            else:
                partitions.append((log.topic, log.index))
        if not partitions:
            self._write(now_ms)
            return
        if len(partitions) < len(to_add):
            self.to_add = to_add = [one for one in to_add if not one[0].error_code]
        transactions = self.connection.broker.transactions
        transactional_id = self.request.transactional_id or ""
        header = to_add[0][3]
        if self.version >= IMPLICIT_ADD_FROM:
            asked = AddPartitions(header.producer_id, header.producer_epoch, frozenset(partitions), 2)
            transactions.ask(transactional_id, asked, self._added)
        elif self.connection.broker.config["transaction.partition.verification.enable"]:
            self.left = len(to_add)
            for one in to_add:
                verify = Verify(header.producer_id, header.producer_epoch, (one[1].topic, one[1].index))
                transactions.ask(transactional_id, verify, lambda reply, one=one: self._verified(one, reply))  # type: ignore[misc]
        else:
            self._write(now_ms)

    def _added(self, reply: Reply) -> None:
        if reply.error:
            for response, _, _, _ in self.to_add:
                response.error_code = self._translate(reply.error)
        self._write(self.connection.broker.clock.now_ms())

    def _verified(self, one: Taken, reply: Reply) -> None:
        if reply.error:
            one[0].error_code = self._translate(reply.error)
        self.left -= 1
        if not self.left:
            self._write(self.connection.broker.clock.now_ms())

    def _translate(self, error: int) -> int:
        """The coordinator's code as this version of Produce may carry it."""
        if error in (ErrorCode.PRODUCER_FENCED, TRANSACTION_TIMED_OUT):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if error == ErrorCode.TRANSACTION_ABORTABLE and self.version < ABORTABLE_FROM:
            return ErrorCode.INVALID_TXN_STATE
        if error == ErrorCode.CONCURRENT_TRANSACTIONS and self.version < IMPLICIT_ADD_FROM:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        return error

    def _write(self, now_ms: int) -> None:
        broker = self.connection.broker
        implicit = self.version >= IMPLICIT_ADD_FROM
        failed = False
        for one in self.taken:
            if one[0].error_code or _append(broker, one, now_ms, implicit and one[3].attributes & TRANSACTIONAL != 0):
                failed = True
        if self.request.acks == 0:
            self.connection.reply(_unacknowledged(self.connection, failed))
        else:
            self.connection.reply(self.answer)
