"""Produce as the client of a transaction sends it: one topic, one producer, batches that are plain (Produce 12 on, KIP-890).

A transaction consists of such a request and its EndTxn, so it is answered from here, without the objects that a response
with errors needs: that saves 6 % of a transaction. Whatever may need more is left to the general handler, with nothing done
yet. A test holds the two against each other.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from stuntbroker.broker.produce.client_append import append_or_error
from stuntbroker.broker.transactions.coordinator_errors import leader_code
from stuntbroker.broker.transactions.fences import Identity
from stuntbroker.coordinator.requests import AddPartitions, Reply
from stuntbroker.protocol.api_keys import PRODUCE
from stuntbroker.protocol.batches.check import plain_header
from stuntbroker.protocol.batches.records import TRANSACTIONAL, BatchHeader
from stuntbroker.protocol.caches import keep
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.primitives import Buffer
from stuntbroker.protocol.produce_codec import COUNT_MAX, TOPIC_IDS_FROM, ProduceFields, pack_one_topic, pack_partition
from stuntbroker.protocol.topic_names import TopicPartition
from stuntbroker.storage.errors import StorageError
from stuntbroker.storage.partition import PartitionLog
from stuntbroker.storage.producers import NOT_OPEN, STALE, Producer

if TYPE_CHECKING:
    from stuntbroker.broker.connections.connection import Connection

OK: Final = ErrorCode.NONE
ALL: Final = -1
"""`acks` of a transactional producer."""
known_sets: dict[tuple[TopicPartition, ...], frozenset[TopicPartition]] = {}
"""Sets of partitions that were added together lately: interned sets compare by identity, several times on their way."""


class PlainBatch:
    """A batch of the request that passes every check that needs no coordinator."""

    __slots__ = ("header", "index", "log", "producer", "records")

    def __init__(
        self, index: int, log: PartitionLog, records: Buffer, header: BatchHeader, producer: Producer | None
    ) -> None:
        self.index = index
        self.log = log
        self.records = records
        self.header = header
        self.producer = producer
        """Who wrote it, when it has written there before."""


def handle(connection: Connection, fields: ProduceFields, version: int) -> bool:
    """False, and nothing done, when the request is not such a one."""
    transactional_id, acks, topic_batches = fields
    if acks != ALL or not transactional_id or len(topic_batches) != 1:
        return False
    name, topic_id, parts = topic_batches[0]
    broker = connection.broker
    topic = broker.topics.find(name, topic_id, version >= TOPIC_IDS_FROM)
    if topic is None or topic.internal or len(name) >= COUNT_MAX or len(parts) >= COUNT_MAX:
        return False
    head = name.encode() if version < TOPIC_IDS_FROM else topic_id
    now_ms = broker.clock.now_ms()
    logs = topic.partitions
    count, config = len(logs), logs[0].config
    size_max, timestamp_max = config.plain_bytes_max, now_ms + config.timestamp_after_ms_max
    accepted_batches: list[PlainBatch] = []
    new: list[tuple[str, int]] = []  # Partitions that the transaction is not open in.
    producer_id = epoch = -1
    # Every batch is what its log expects next of its producer, and stays as it is.
    all_in_sequence = not config.log_append_time
    for index, records in parts.items():
        if records is None or not 0 <= index < count:
            return False
        log = logs[index]
        header = plain_header(records, size_max, timestamp_max)
        if header is None or not header.attributes & TRANSACTIONAL:
            return False
        if not accepted_batches:
            producer_id, epoch = header.producer_id, header.producer_epoch
            if producer_id < 0:
                return False
        elif header.producer_id != producer_id or header.producer_epoch != epoch:
            return False
        producers = log.producers
        producer = producers.producers.get(producer_id)
        standing = NOT_OPEN if producer is None else producer.standing(epoch)
        if standing == STALE:
            return False
        if standing == NOT_OPEN:
            new.append(log.name)
        if all_in_sequence and not producers.continues(producer, header):
            all_in_sequence = False
        accepted_batches.append(PlainBatch(index, log, records, header, producer))
    if not new:
        _write(connection, version, head, accepted_batches, False, all_in_sequence, OK, now_ms)
        return True
    if len(new) != len(accepted_batches):
        return False  # While the coordinator is waited for, the transaction may end where it is open.
    names = tuple(new)
    transactions = broker.transactions
    added = AddPartitions(producer_id, epoch, known_sets.get(names) or keep(known_sets, names, frozenset(names)), 2)
    reply = transactions.try_immediately(transactional_id, added)
    if reply is not None:
        refused = _refusal(connection, transactional_id, accepted_batches[0].header, reply.error, version)
        _write(connection, version, head, accepted_batches, True, all_in_sequence, refused, now_ms)
    else:
        transactions.ask(
            transactional_id, added, partial(_added, connection, transactional_id, version, head, accepted_batches)
        )
    return True


def _added(
    connection: Connection,
    transactional_id: str,
    version: int,
    head: bytes,
    accepted_batches: list[PlainBatch],
    reply: Reply,
) -> None:
    """Much may have happened meanwhile."""
    refused = _refusal(connection, transactional_id, accepted_batches[0].header, reply.error, version)
    _write(connection, version, head, accepted_batches, True, False, refused, connection.broker.clock.now_ms())


def _refusal(connection: Connection, transactional_id: str, header: BatchHeader, error: int, version: int) -> int:
    """Return the coordinator's error as Produce carries it; OK if there is none."""
    if not error:
        return OK
    code = leader_code(error, PRODUCE, version)
    connection.broker.transactions.fences.refuse(
        connection, transactional_id, Identity(header.producer_id, header.producer_epoch), code
    )
    return code


def _write(
    connection: Connection,
    version: int,
    head: bytes,
    accepted_batches: list[PlainBatch],
    first: bool,
    all_in_sequence: bool,
    refused: int,
    now_ms: int,
) -> None:
    """Append the batches, which may be the `first` of the transaction, unless the coordinator has refused them; answer."""
    rows = []
    if all_in_sequence and not refused:
        try:
            for accepted in accepted_batches:
                log = accepted.log
                base_offset = log.append_admitted(accepted.records, accepted.header, accepted.producer)
                rows.append(pack_partition(accepted.index, 0, base_offset, -1, log.log_start_offset, 1, 0, 0))
        except StorageError:
            all_in_sequence = False  # The failure comes again below, and is answered there.
    for accepted in accepted_batches[len(rows) :]:
        log, header = accepted.log, accepted.header
        error, base_offset, stamped_ms, log_start_offset = refused, -1, -1, -1
        if first:
            log.producers.renew_unresolved(header)
        if not refused:
            error, base_offset, stamped_ms, log_start_offset = append_or_error(
                connection.broker.events, log, accepted.records, header, now_ms, True
            )
        if first:
            log.producers.mark_unresolved(header, True, now_ms)
        rows.append(pack_partition(accepted.index, error, base_offset, stamped_ms, log_start_offset, 1, 0, 0))
    connection.reply_encoded(pack_one_topic(connection.correlation, version, head, rows))
