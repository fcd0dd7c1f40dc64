"""Produce, key 0, versions 3-13: record batches into partitions.

v9 flexible. v11 TRANSACTION_ABORTABLE may be answered. v12 adds the partition to the transaction (KIP-890). v13 topic ids.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from stuntbroker.broker import plain_produce
from stuntbroker.broker.apis import NO_ANSWER
from stuntbroker.broker.coordinator_errors import leader_code
from stuntbroker.broker.long_produce import NEW_LOGS_AT_ONCE, PARTITIONS_AT_ONCE, long_steps
from stuntbroker.broker.produce_checks import check_content
from stuntbroker.broker.slices import run_in_slices
from stuntbroker.coordinator.requests import AddPartitions, Reply, Verify
from stuntbroker.protocol.batches.budget import ReadBudget
from stuntbroker.protocol.batches.check import check_batch, plain_header
from stuntbroker.protocol.batches.records import HEADER_SIZE, LOG_OVERHEAD, TRANSACTIONAL, BatchHeader
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.produce_response import PartitionProduceResponse, TopicProduceResponse
from stuntbroker.protocol.primitives import Buffer
from stuntbroker.protocol.produce_codec import TOPIC_IDS_FROM, Answer, ProduceFields, TopicBatches, read_request
from stuntbroker.storage.errors import LogDeleted, StorageError
from stuntbroker.storage.large_batch import LARGE_BATCH_SIZE
from stuntbroker.storage.partition import PartitionLog
from stuntbroker.storage.producers import ATTRIBUTES, PRODUCER_EPOCH, PRODUCER_ID

if TYPE_CHECKING:
    from stuntbroker.broker.connection import Connection
    from stuntbroker.broker.services import Services
    from stuntbroker.broker.topics import Topic

KEY: Final = 0
VERSIONS = range(3, 14)
decode = read_request
IMPLICIT_ADD_FROM: Final = 12
OK = ErrorCode.NONE
INVALID_PRODUCER_EPOCH: Final = ErrorCode.INVALID_PRODUCER_EPOCH
RECORD_LIST_TOO_LARGE: Final = ErrorCode.RECORD_LIST_TOO_LARGE
PRODUCER: Final = slice(PRODUCER_ID, PRODUCER_EPOCH + 1)

AcceptedBatch = tuple[PartitionProduceResponse, PartitionLog, Buffer, BatchHeader]


def handle(connection: Connection, fields: ProduceFields, version: int) -> Any:
    """Append the batches of one request; return the response, NO_ANSWER with acks=0, or None when it comes later."""
    topic_batches = fields[2]
    if len(topic_batches) == 1 and len(topic_batches[0][2]) <= NEW_LOGS_AT_ONCE:
        return _plain_or_not(connection, fields, version)
    new = _new_logs(connection.broker, topic_batches, version)
    if len(new) > NEW_LOGS_AT_ONCE or sum(len(parts) for _, _, parts in topic_batches) > PARTITIONS_AT_ONCE:
        return run_in_slices(connection, long_steps(connection, fields, version, new, _produce))
    return _plain_or_not(connection, fields, version)


def _new_logs(broker: Services, topic_batches: TopicBatches, version: int) -> list[PartitionLog]:
    """The logs of the request that have no file yet."""
    topics = broker.topics
    new = []
    for name, topic_id, parts in topic_batches:
        topic = topics.get(name) if version < TOPIC_IDS_FROM else topics.by_id(topic_id)
        if topic is not None and not topic.internal:
            logs = topic.partitions
            new += [logs[index] for index in parts if 0 <= index < len(logs) and not logs[index].segments]
    return new


def _plain_or_not(connection: Connection, fields: ProduceFields, version: int) -> Any:
    if version >= IMPLICIT_ADD_FROM and plain_produce.handle(connection, fields, version):
        return None
    return _produce(connection, fields, version)


def _produce(connection: Connection, fields: ProduceFields, version: int, in_parts: bool = False) -> Any:
    """A request of any kind. `in_parts`: it is handled beside others, and its large batches are written ahead."""
    transactional_id, acks, topic_batches = fields
    broker = connection.broker
    topics = broker.topics
    now_ms = broker.clock.now_ms()
    responses: list[TopicProduceResponse] = []
    accepted_batches: list[AcceptedBatch] = []
    to_add: list[AcceptedBatch] = []
    stale: list[AcceptedBatch] = []
    failed = acks_wrong = acks not in (-1, 0, 1)
    first: BatchHeader | None = None  # of the transactional batches
    mixed = False
    left: ReadBudget | None = None  # For reading what is not plain.
    for name, topic_id, parts in topic_batches:
        topic = topics.get(name) if version < TOPIC_IDS_FROM else topics.by_id(topic_id)
        logs = () if topic is None or topic.internal else topic.partitions
        partitions: list[PartitionProduceResponse] = []
        responses.append(TopicProduceResponse(name, topic_id, partitions))
        for index, records in parts.items():
            response = PartitionProduceResponse(index, OK, -1)
            partitions.append(response)
            plain = None
            if records is not None and 0 <= index < len(logs):
                log = logs[index]
                config = log.config
                plain = plain_header(records, config.plain_bytes_max, now_ms + config.timestamp_after_ms_max)
            if plain is not None:
                assert records is not None
                header = BatchHeader._make(plain)
                accepted_batch = response, log, records, header
            else:
                left = left or ReadBudget()
                if not in_parts and records is not None and len(records) > LARGE_BATCH_SIZE:
                    return run_in_slices(connection, long_steps(connection, fields, version, [], _produce))
                accepted = _accept(topic, index, records, version, now_ms, response, left)
                if accepted is None:
                    failed = True
                    continue
                accepted_batch = accepted
                _, log, _, header = accepted_batch
            if acks_wrong:
                _refuse(response, ErrorCode.INVALID_REQUIRED_ACKS)
            accepted_batches.append(accepted_batch)
            if header[ATTRIBUTES] & TRANSACTIONAL:
                producer_id, epoch = header[PRODUCER_ID], header[PRODUCER_EPOCH]
                if first is None:
                    first, first_id, first_epoch = header, producer_id, epoch
                elif producer_id != first_id or epoch != first_epoch:
                    mixed = True
                producer = log.producers.producers.get(producer_id)
                if producer is None:
                    if producer_id >= 0:  # Nobody's batch is in no transaction, whatever its flag says.
                        to_add.append(accepted_batch)
                elif producer.epoch > epoch:
                    stale.append(accepted_batch)
                elif producer.txn_first_offset < 0 or producer.epoch != epoch or producer.sealed:
                    to_add.append(accepted_batch)
                # Else the transaction is open in this partition already: nobody need be asked.
    answer = Answer(responses)
    if failed and first is None and transactional_id is None and _has_transactional(topic_batches):
        return _refuse_all(connection, acks, answer, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if first is not None:
        if transactional_id is None:
            return _refuse_all(connection, acks, answer, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if mixed:
            headers = [each[3] for each in accepted_batches if each[3].attributes & TRANSACTIONAL]
            if len({each[PRODUCER] for each in headers if each.producer_id >= 0}) > 1:
                return _refuse_all(connection, acks, answer, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if to_add or stale:
            _PendingProduce(connection, acks, version, answer, accepted_batches, to_add).start(
                transactional_id, stale, now_ms
            )
            return None
    failed |= _append_all(broker, accepted_batches, now_ms, version >= IMPLICIT_ADD_FROM)
    if failed:
        _log_fencing(connection, transactional_id, accepted_batches)
    if acks == 0:
        return _unacknowledged(connection, failed)
    return answer


def _has_transactional(topic_batches: TopicBatches) -> bool:
    """Whether any first batch says that it is in a transaction, be it for a partition that does not exist."""
    batches = [records for _, _, parts in topic_batches for records in parts.values() if records is not None]
    return any(len(each) >= HEADER_SIZE and each[16] == 2 and each[22] & TRANSACTIONAL for each in batches)


def _accept(
    topic: Topic | None,
    index: int,
    records: Buffer | None,
    version: int,
    now_ms: int,
    response: PartitionProduceResponse,
    left: ReadBudget,
) -> AcceptedBatch | None:
    """What can be told of a batch that is not plain before transactions are looked at; None when that is all there is to say.

    A batch that is refused for what is in it belongs to its transaction all the same: the response has its error already.
    """
    if topic is None or not 0 <= index < len(topic.partitions):
        unknown = topic is None and version >= TOPIC_IDS_FROM
        response.error_code = ErrorCode.UNKNOWN_TOPIC_ID if unknown else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return None
    log = topic.partitions[index]
    if topic.internal:
        response.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION
        response.error_message = f"Cannot append to internal topic {topic.name}"
        return None
    config = log.config
    header, error, message = check_batch(records, version, config.max_message_bytes)
    if error is OK:
        assert header is not None and records is not None
        size = header.length + LOG_OVERHEAD
        large = log.find_large(records)
        if size != len(records):
            records = records[:size]
            if large is not None:
                large.batch = records
        filled = None if large is None else large.is_filled
        error, message, response.record_errors = check_content(records, header, config, now_ms, left, filled)
        if error is OK:
            return response, log, records, header
        response.log_start_offset = log.log_start_offset
    response.error_code, response.error_message = error, message
    return None if header is None else (response, log, records, header)  # type: ignore[return-value]


def _append_all(broker: Services, accepted_batches: list[AcceptedBatch], now_ms: int, implicit: bool) -> bool:
    """Writes the batches that have no error yet and completes their responses; True when there was an error.

    `implicit`: the request may have opened the transaction (KIP-890).
    """
    failed = False
    for response, log, records, header in accepted_batches:
        if response.error_code is not OK:
            failed = True
            continue
        opens = implicit and header[ATTRIBUTES] & TRANSACTIONAL != 0
        try:
            error, response.base_offset, response.log_append_time_ms = log.append_client(records, header, now_ms, opens)
        except LogDeleted:
            response.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            failed = True
            continue
        except StorageError as fault:
            broker.events.error("append_failed", topic=log.topic, partition=log.index, fault=str(fault))
            response.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            failed = True
            continue
        if error is not RECORD_LIST_TOO_LARGE:
            response.log_start_offset = log.log_start_offset
        if error is not OK:
            response.error_code = error
            failed = True
    return failed


def _log_fencing(connection: Connection, transactional_id: str | None, accepted_batches: list[AcceptedBatch]) -> None:
    """One line in the log when the batches are those of a producer that was fenced."""
    if transactional_id is not None:
        for error in {entry[0].error_code for entry in accepted_batches}:
            connection.broker.transactions.fences.refuse(connection, transactional_id, error)


def _unacknowledged(connection: Connection, failed: bool) -> Any:
    """acks=0: no answer at all; a failure can only be told by closing the connection."""
    if failed:
        connection.fail("unacknowledged_produce_failed")
    return NO_ANSWER


def _refuse(response: PartitionProduceResponse, error: int) -> None:
    """With that error, and nothing of another that was found first."""
    response.error_code, response.error_message, response.record_errors = error, None, ()
    response.log_start_offset = -1


def _refuse_all(connection: Connection, acks: int, answer: Answer, error: ErrorCode) -> Any:
    for topic in answer.responses:
        for part in topic.partition_responses:
            part.error_code = error
            part.base_offset = -1
    return _unacknowledged(connection, True) if acks == 0 else answer


def _is_sealed(entry: AcceptedBatch) -> bool:
    producer = entry[1].producers.producers.get(entry[3].producer_id)
    return producer is not None and producer.sealed


class _PendingProduce:
    """A request whose partitions the transaction must know of, or be told of, before its batches are written."""

    __slots__ = (
        "acks",
        "answer",
        "asked_ms",
        "connection",
        "is_verified",
        "left",
        "accepted_batches",
        "to_add",
        "transactional_id",
        "version",
    )

    def __init__(
        self,
        connection: Connection,
        acks: int,
        version: int,
        answer: Answer,
        accepted_batches: list[AcceptedBatch],
        to_add: list[AcceptedBatch],
    ) -> None:
        self.connection = connection
        self.acks = acks
        self.version = version
        self.is_verified = (
            version >= IMPLICIT_ADD_FROM or connection.broker.config["transaction.partition.verification.enable"]
        )
        """The coordinator adds or verifies the partitions, as in Kafka. If not, only kept transactions are verified."""
        self.answer = answer
        self.accepted_batches = accepted_batches
        self.to_add = to_add
        self.asked_ms = -1
        """The time, while the coordinator is being asked: it mostly answers at once."""
        self.transactional_id = ""

    def start(self, transactional_id: str, stale: list[AcceptedBatch], now_ms: int) -> None:
        self.transactional_id = transactional_id
        if self.is_verified:  # Otherwise the log refuses these batches, unless their responses have an error already.
            for entry in stale:
                _refuse(entry[0], INVALID_PRODUCER_EPOCH)
        if self.to_add:
            self._ask(now_ms)
        else:
            self._write(now_ms)

    def _ask(self, now_ms: int) -> None:
        transactional_id, to_add = self.transactional_id, self.to_add
        broker = self.connection.broker
        header = to_add[0][3]
        producer_id, epoch = header.producer_id, header.producer_epoch
        if self.version >= IMPLICIT_ADD_FROM:
            partitions = frozenset([entry[1].name for entry in to_add])
            self.asked_ms = now_ms
            broker.transactions.ask(transactional_id, AddPartitions(producer_id, epoch, partitions, 2), self._added)
            self.asked_ms = -1
        elif self.is_verified or broker.transactions.is_recovered(transactional_id) or any(map(_is_sealed, to_add)):
            self.left = len(to_add)
            for entry in to_add:
                verify = Verify(producer_id, epoch, entry[1].name)
                broker.transactions.ask(transactional_id, verify, partial(self._verified, entry))
        else:
            self._write(now_ms)

    def _added(self, reply: Reply) -> None:
        error = reply.error
        if error is not OK:
            for response, _, _, _ in self.to_add:
                _refuse(response, leader_code(error, KEY, self.version))
        self._write(self.asked_ms if self.asked_ms >= 0 else self.connection.broker.clock.now_ms())

    def _verified(self, entry: AcceptedBatch, reply: Reply) -> None:
        if reply.error:
            _refuse(entry[0], leader_code(reply.error, KEY, self.version))
        self.left -= 1
        if not self.left:
            self._write(self.connection.broker.clock.now_ms())

    def _has_lapsed(self) -> bool:
        """While the coordinator was waited for, the transaction that was open in other partitions may have ended.

        Then all of the request is asked about anew: the transaction is another one, or none.
        """
        fields = {id(entry) for entry in self.to_add}
        others = [
            entry
            for entry in self.accepted_batches
            if id(entry) not in fields
            and not entry[0].error_code
            and entry[3].attributes & TRANSACTIONAL
            and entry[3].producer_id >= 0
        ]
        if all(entry[1].producers.is_open(entry[3]) for entry in others):
            return False
        self.to_add = [entry for entry in (*self.to_add, *others) if not entry[0].error_code]
        return True

    def _write(self, now_ms: int) -> None:
        if self.asked_ms < 0 and len(self.to_add) < len(self.accepted_batches) and self._has_lapsed():
            self._ask(now_ms)
            return
        broker, implicit = self.connection.broker, self.version >= IMPLICIT_ADD_FROM
        if self.is_verified:
            for _, log, _, header in self.to_add:
                log.producers.renew_unresolved(header)
        failed = _append_all(broker, self.accepted_batches, now_ms, implicit)
        if failed:
            _log_fencing(self.connection, self.transactional_id, self.accepted_batches)
        if self.is_verified:
            for _, log, _, header in self.to_add:
                log.producers.mark_unresolved(header, implicit, now_ms)
        self.connection.reply(_unacknowledged(self.connection, failed) if self.acks == 0 else self.answer)
