"""Fast path for the usual transactional Produce request: one topic, one producer, uncompressed batches (KIP-890, version 12 on).

A transaction typically consists of one such request and EndTxn. Checking and answering it here, without the objects that only
errors need, saves a sixth of the instructions of a lone transaction. For all other requests, this module changes nothing, and
the general handler serves them. A test compares the two.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from stuntbroker.broker.produce.client_append import append_first, append_or_error
from stuntbroker.broker.transactions.coordinator_errors import leader_code
from stuntbroker.broker.transactions.fences import Identity
from stuntbroker.coordinator.requests import AddPartitions, Reply
from stuntbroker.protocol.api_keys import PRODUCE
from stuntbroker.protocol.batches.check import plain_header
from stuntbroker.protocol.batches.records import TRANSACTIONAL, BatchHeader
from stuntbroker.protocol.caches import keep
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.primitives import Buffer
from stuntbroker.protocol.produce_codec import COUNT_MAX, NO_DETAILS, OneTopicResponse, ProduceFields, pack_partition
from stuntbroker.protocol.request_values import ACKS_ALL
from stuntbroker.protocol.topic_names import TopicPartition
from stuntbroker.protocol.transaction_states import TRANSACTION_V2
from stuntbroker.protocol.versions import PRODUCE_IDS_FROM
from stuntbroker.storage.errors import StorageError
from stuntbroker.storage.partition import PartitionLog
from stuntbroker.storage.producers import TXN_NOT_OPEN, TXN_STALE_EPOCH, Producer

if TYPE_CHECKING:
    from stuntbroker.broker.produce.produce_ports import ProducePorts
    from stuntbroker.broker.services import Asking


OK: Final = ErrorCode.NONE
known_sets: Final[dict[tuple[TopicPartition, ...], frozenset[TopicPartition]]] = {}
"""Cache of sets of partitions that were added together: interned sets compare by identity."""


class PlainBatch:
    """A batch of the request that passes every check that does not need the coordinator."""

    __slots__ = ("header", "index", "log", "producer", "records")

    def __init__(
        self, index: int, log: PartitionLog, records: Buffer, header: BatchHeader, producer: Producer | None
    ) -> None:
        self.index = index
        self.log = log
        self.records = records
        self.header = header
        self.producer = producer
        """State of the batch's producer in this partition; None if it has not written to the partition before."""


class General:
    """Type of GENERAL."""


GENERAL: Final = General()
"""What `handle` returns for a request that the general handler must serve."""


def handle(request: Asking[ProducePorts], fields: ProduceFields, version: int) -> OneTopicResponse | General | None:
    """Append the batches of one request; return the response, None when it comes later, or GENERAL: then nothing was done."""
    transactional_id, acks, topic_batches = fields
    if acks != ACKS_ALL or not transactional_id or len(topic_batches) != 1:
        return GENERAL
    name, topic_id, parts = topic_batches[0]
    broker = request.broker
    topic = broker.topics.find(name, topic_id, version >= PRODUCE_IDS_FROM)
    if topic is None or topic.is_internal or len(name) >= COUNT_MAX or len(parts) >= COUNT_MAX:
        return GENERAL
    head = name.encode() if version < PRODUCE_IDS_FROM else topic_id
    now_ms = broker.clock.now_ms()
    logs = topic.partitions
    count, config = len(logs), logs[0].config
    size_max, timestamp_max = config.plain_bytes_max, config.timestamp_max(now_ms)
    accepted_batches: list[PlainBatch] = []
    new: list[tuple[str, int]] = []  # Partitions in which the transaction is not open.
    producer_id = epoch = -1
    # Whether every batch continues its producer's sequence, and is stored unchanged.
    all_in_sequence = not config.log_append_time
    for index, records in parts.items():
        if records is None or not 0 <= index < count:
            return GENERAL
        log = logs[index]
        header = plain_header(records, size_max, timestamp_max)
        if header is None or not header.attributes & TRANSACTIONAL:
            return GENERAL
        if not accepted_batches:
            producer_id, epoch = header.producer_id, header.producer_epoch
            if producer_id < 0:
                return GENERAL
        elif header.producer_id != producer_id or header.producer_epoch != epoch:
            return GENERAL
        producers = log.producers
        producer = producers.producers.get(producer_id)
        txn_status = TXN_NOT_OPEN if producer is None else producer.txn_status(epoch)
        if txn_status == TXN_STALE_EPOCH:
            return GENERAL
        if txn_status == TXN_NOT_OPEN:
            new.append(log.name)
        if all_in_sequence and not producers.continues(producer, header):
            all_in_sequence = False
        accepted_batches.append(PlainBatch(index, log, records, header, producer))
    if not new:
        return _write(
            request, head, accepted_batches, now_ms, may_be_first=False, all_in_sequence=all_in_sequence, refusal=OK
        )
    if len(new) != len(accepted_batches):
        # In the other partitions, the transaction may end while this request waits for the coordinator.
        return GENERAL
    names = tuple(new)
    transactions = broker.transactions
    partitions = known_sets.get(names) or keep(known_sets, names, frozenset(names))
    added = AddPartitions(producer_id, epoch, partitions, TRANSACTION_V2)
    reply = transactions.try_immediately(transactional_id, added)
    if reply is not None:
        refusal = _refusal(request, transactional_id, accepted_batches[0].header, reply.error, version)
        return _write(
            request, head, accepted_batches, now_ms, may_be_first=True, all_in_sequence=all_in_sequence, refusal=refusal
        )
    append = partial(_added, request, transactional_id, version, head, accepted_batches)
    transactions.ask(request, transactional_id, added, append)
    return None


def _added(
    request: Asking[ProducePorts],
    transactional_id: str,
    version: int,
    head: bytes,
    accepted_batches: list[PlainBatch],
    reply: Reply,
) -> None:
    """Append the batches and answer, after a reply of the coordinator that came later: the sequences are checked again."""
    refusal = _refusal(request, transactional_id, accepted_batches[0].header, reply.error, version)
    now_ms = request.broker.clock.now_ms()
    request.reply(
        _write(request, head, accepted_batches, now_ms, may_be_first=True, all_in_sequence=False, refusal=refusal)
    )


def _refusal(
    request: Asking[ProducePorts], transactional_id: str, header: BatchHeader, error: int, version: int
) -> int:
    """Return the coordinator's error as Produce carries it; OK if there is none."""
    if not error:
        return OK
    code = leader_code(error, PRODUCE, version)
    request.broker.transactions.fences.record_refusal(
        request, transactional_id, Identity(header.producer_id, header.producer_epoch), code
    )
    return code


def _write(
    request: Asking[ProducePorts],
    head: bytes,
    accepted_batches: list[PlainBatch],
    now_ms: int,
    *,
    may_be_first: bool,
    all_in_sequence: bool,
    refusal: int,
) -> OneTopicResponse:
    """Append the batches, unless the coordinator has refused them (`refusal` is its error); return the response.

    `may_be_first`: the batches may be the first of the transaction in their partitions.
    """
    rows = []
    if all_in_sequence and not refusal:
        try:
            for accepted in accepted_batches:
                log = accepted.log
                base_offset = log.append_admitted(accepted.records, accepted.header, accepted.producer)
                rows.append(pack_partition(accepted.index, 0, base_offset, -1, log.log_start_offset, NO_DETAILS))
        except StorageError:
            all_in_sequence = False  # The append below will fail again and return the error.
    for accepted in accepted_batches[len(rows) :]:
        log, header = accepted.log, accepted.header
        if refusal:
            error, base_offset, stamped_ms, log_start_offset = refusal, -1, -1, -1
            log.producers.mark_unresolved(header, True, now_ms)
        else:
            append = append_first if may_be_first else append_or_error
            error, base_offset, stamped_ms, log_start_offset = append(
                request.broker.events, log, accepted.records, header, now_ms, True
            )
        rows.append(pack_partition(accepted.index, error, base_offset, stamped_ms, log_start_offset, NO_DETAILS))
    return OneTopicResponse(head, rows)
