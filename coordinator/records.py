"""Records of Kafka's transaction log (topic `__transaction_state`): their keys, values and batches.

Key: int16 0 and the transactional id. Value: TransactionLogValue, version 0 while `transaction.version` is 0, else version 1;
a null value is a tombstone. Each batch has one record and is not compressed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from struct import Struct, pack
from typing import Final

from stuntbroker.coordinator.state import MAY_EXPIRE, Phase, Txn, partitions_by_topic, txn_of
from stuntbroker.protocol.batches.records import (
    CONTROL,
    HEADER_SIZE,
    ONE_RECORD,
    SIZED,
    SMALL,
    VARINTS,
    BatchHeader,
    Record,
    one_record_batch,
    only_record,
    pack_head,
    read_records,
)
from stuntbroker.protocol.caches import CACHED_MAX, keep
from stuntbroker.protocol.crc import crc32c
from stuntbroker.protocol.messages.transaction_log_key import TransactionLogKey
from stuntbroker.protocol.messages.transaction_log_value import PartitionsSchema, TransactionLogValue
from stuntbroker.protocol.primitives import DecodeError, write_compact_string, write_uvarint
from stuntbroker.protocol.topic_names import TopicPartition
from stuntbroker.protocol.transaction_states import TRANSACTION_V2

UsualRecord = tuple[Callable[..., bytes], bytes, bytes]
"""Encoder of a batch from its CRC on, its bytes from the producer id to the version of the value, and the encoded partitions."""
usual_records: Final[dict[tuple[str, frozenset[TopicPartition]], UsualRecord]] = {}
encoded_partitions: Final[dict[frozenset[TopicPartition], bytes]] = {}
"""Caches: the records of a transactional id have the same key, and many transactions have the same partitions."""
USUAL_RECORDS_MAX: Final = 2 * CACHED_MAX
"""Each transactional id has two entries: one for its partitions, and one without partitions, for completed transactions."""
_KEY_VERSION: Final = b"\x00\x00"
_VALUE_VERSIONS: Final = (b"\x00\x01", b"\x00\x00")
"""Records with other versions of keys and values, which Kafka has not defined yet, are ignored."""
_PHASES: Final = tuple(Phase)
_IDLE: Final = frozenset(int(phase) for phase in MAY_EXPIRE)
_PRODUCER_ID_AT: Final = 2
_PHASE_AT: Final = 16
_PARTITIONS_AT: Final = 17
"""Byte positions of these fields in a record value, versions 0 and 1."""
_unpack_q: Final = Struct(">q").unpack_from


def key_of(transactional_id: str) -> bytes:
    """Return the key of a record: version 0 and the transactional id."""
    text = transactional_id.encode()
    return _KEY_VERSION + _pack_h(len(text)) + text


def value_of(txn: Txn, version: int) -> bytes:
    """Return the value of a record, of version 0 or 1.

    Version 0 has no tagged fields: a state that needs one is written as version 1. The value is encoded by hand, because every
    transaction writes three; a test compares the result with the generated codec.
    """
    # Unlike Kafka: at level 0, Kafka loses all fields that version 0 does not have at a restart.
    if version == 0 and txn.last_producer_epoch == -1 and _has_only_usual_fields(txn):
        return _value_v0(txn)
    start = _pack_start(1, txn.producer_id, txn.producer_epoch, txn.timeout_ms, txn.phase)
    partitions = _encode_partitions(txn.partitions) if txn.phase else b"\x00"
    tags, count = b"", 0
    if txn.previous_producer_id != -1:
        tags, count = b"\x00\x08" + _pack_q(txn.previous_producer_id), 1
    if txn.next_producer_id != -1:
        tags, count = tags + b"\x01\x08" + _pack_q(txn.next_producer_id), count + 1
    if txn.client_version:
        tags, count = tags + b"\x02\x02" + _pack_h(txn.client_version), count + 1
    if txn.next_producer_epoch != -1:
        tags, count = tags + b"\x03\x02" + _pack_h(txn.next_producer_epoch), count + 1
    if txn.last_producer_epoch != -1:
        tags, count = tags + _LAST_EPOCH_TAG + _pack_h(txn.last_producer_epoch), count + 1
    if txn.timed_out_epoch != -1:
        tags, count = tags + _TIMED_OUT_TAG + _pack_h(txn.timed_out_epoch), count + 1
    if txn.init_version != -1:
        tags, count = tags + _INIT_VERSION_TAG + _pack_h(txn.init_version), count + 1
    return start + partitions + _pack_end(txn.updated_at_ms, txn.started_at_ms, count) + tags


def _has_only_usual_fields(txn: Txn) -> bool:
    """Whether the four rarely used fields are unset: each is -1 then, which is its smallest value."""
    return txn.next_producer_id + txn.next_producer_epoch + txn.timed_out_epoch + txn.init_version == -4


def batch_of(base_offset: int, leader_epoch: int, timestamp_ms: int, transactional_id: str, txn: Txn | None) -> bytes:
    """Return a batch with one record, with the same bytes as `one_record_batch`; without `txn`, the record is a tombstone.

    `timestamp_ms` is the time of the last update. Nearly all records have the same fields set: these records are encoded in one
    step, which takes half of the time when compiled, and three quarters otherwise. A test compares both encodings.
    """
    if txn is None:
        return one_record_batch(base_offset, leader_epoch, timestamp_ms, key_of(transactional_id), None)
    previous_id, last_epoch = txn.previous_producer_id, txn.last_producer_epoch
    if (
        previous_id >= 0
        and last_epoch >= 0
        and txn.phase
        and txn.client_version == TRANSACTION_V2
        and _has_only_usual_fields(txn)
    ):
        partitions = txn.partitions
        usual = usual_records.get((transactional_id, partitions)) or _usual_record(transactional_id, partitions)
        if usual is not None:
            encode, start, encoded = usual
            tail = encode(
                timestamp_ms,
                timestamp_ms,
                start,
                txn.producer_id,
                txn.producer_epoch,
                txn.timeout_ms,
                txn.phase,
                encoded,
                timestamp_ms,
                txn.started_at_ms,
                _THREE_TAGS_PREVIOUS_ID,
                previous_id,
                _VERSION_2_LAST_EPOCH,
                last_epoch,
            )
            return pack_head(base_offset, len(tail) + 9, leader_epoch, 2, crc32c(tail)) + tail
    return one_record_batch(base_offset, leader_epoch, timestamp_ms, key_of(transactional_id), value_of(txn, 1))


def _usual_record(transactional_id: str, partitions: frozenset[TopicPartition]) -> UsualRecord | None:
    """Return how records of a transactional id with these partitions are encoded; None if they are too long for that."""
    key, encoded = key_of(transactional_id), _encode_partitions(partitions)
    key_size, value_size = len(key), _USUAL_SIZE + len(encoded)
    if key_size >= SMALL or value_size >= SMALL or (size := 4 + SIZED[key_size] + SIZED[value_size]) >= SMALL:
        return None
    start = ONE_RECORD[size] + VARINTS[key_size] + key + VARINTS[value_size] + _VALUE_VERSIONS[0]
    usual = _encoder(len(start), len(encoded)), start, encoded
    return keep(usual_records, (transactional_id, partitions), usual, USUAL_RECORDS_MAX)


@lru_cache(CACHED_MAX)
def _encoder(start_size: int, partitions_size: int) -> Callable[..., bytes]:
    """Return the encoder of records with fields of these sizes; the last byte is an empty list of headers."""
    return Struct(f">6xqq{start_size}sqhib{partitions_size}sqq3sq7shx").pack


def batch_at_level_0(
    base_offset: int, leader_epoch: int, timestamp_ms: int, transactional_id: str, txn: Txn | None
) -> bytes:
    """As `batch_of`, while the feature `transaction.version` is at level 0."""
    value = None if txn is None else value_of(txn, 0)
    return one_record_batch(base_offset, leader_epoch, timestamp_ms, key_of(transactional_id), value)


_pack_start: Final = Struct(">hqhib").pack
_pack_end: Final = Struct(">qqb").pack
_USUAL_SIZE: Final = 17 + 36
"""Bytes of a value without its partitions, with the tags 0, 2 and last epoch."""
_pack_q: Final = Struct(">q").pack
_pack_h: Final = Struct(">h").pack
_LAST_EPOCH_TAG: Final = b"\xa8\x46\x02"
_THREE_TAGS_PREVIOUS_ID: Final = b"\x03\x00\x08"
"""The number of tags, then tag 0, whose value is the previous producer id."""
_VERSION_2_LAST_EPOCH: Final = b"\x02\x02\x00\x02" + _LAST_EPOCH_TAG
"""Tag 2 with its value, TRANSACTION_V2, then the tag whose value is the last epoch."""
_TIMED_OUT_TAG: Final = b"\xa9\x46\x02"
_INIT_VERSION_TAG: Final = b"\xaa\x46\x02"


def _encode_partitions(partitions: frozenset[TopicPartition]) -> bytes:
    if encoded := encoded_partitions.get(partitions):
        return encoded
    topics = partitions_by_topic(partitions)
    out = bytearray()
    write_uvarint(out, len(topics) + 1)
    for topic, indexes in topics.items():
        write_compact_string(out, topic)
        write_uvarint(out, len(indexes) + 1)
        out += pack(f">{len(indexes)}i", *indexes)
        out.append(0)
    return keep(encoded_partitions, partitions, bytes(out))


def _value_v0(txn: Txn) -> bytes:
    topics = partitions_by_topic(txn.partitions)
    out = bytearray(b"\x00\x00")
    TransactionLogValue(
        producer_id=txn.producer_id,
        producer_epoch=txn.producer_epoch,
        transaction_timeout_ms=txn.timeout_ms,
        transaction_status=txn.phase,
        transaction_partitions=None
        if txn.phase is Phase.EMPTY
        else [PartitionsSchema(*topic) for topic in topics.items()],
        transaction_last_update_timestamp_ms=txn.updated_at_ms,
        transaction_start_timestamp_ms=txn.started_at_ms,
    ).encode(out, 0)
    return bytes(out)


def last_values(batches: Iterable[tuple[BatchHeader, bytes]]) -> dict[str, bytes]:
    """Return the last value of every transactional id in a partition of the log, not decoded.

    Raises DecodeError for a record whose sizes contradict each other, and for an unknown phase.
    """
    last: dict[bytes, bytes] = {}
    for header, batch in batches:
        if header.attributes & CONTROL:  # A marker of WriteTxnMarkers is not about a transactional id.
            continue
        record = only_record(batch)
        records = (
            (record,) if record is not None else [(r.key, r.value) for r in read_records(header, batch, HEADER_SIZE)]
        )
        for key, value in records:
            if key is None or key[:2] != _KEY_VERSION:
                continue
            if value is None:
                last.pop(key, None)
            elif value[:2] in _VALUE_VERSIONS:
                last[key] = value
    values = {}
    for key, value in last.items():
        if int.from_bytes(key[2:4], "big") != len(key) - 4:
            raise DecodeError("the key of a transaction has a wrong size", 2)
        values[key[4:].decode()] = value
    return values


def open_ids(values: dict[str, bytes]) -> list[str]:
    """Return the transactional ids whose transaction is not complete. Raises DecodeError."""
    not_idle = [name for name, value in values.items() if len(value) <= _PHASE_AT or value[_PHASE_AT] not in _IDLE]
    return [name for name in not_idle if phase_of(values[name], name) not in MAY_EXPIRE]


def phase_of(value: bytes, transactional_id: str) -> Phase:
    """Return the phase in a value of the log. Raises DecodeError."""
    try:
        return _PHASES[value[_PHASE_AT]]
    except IndexError:
        if len(value) <= _PHASE_AT:
            raise DecodeError(f"{transactional_id}: the value ends before the transaction state", len(value)) from None
        status = int.from_bytes((value[_PHASE_AT],), signed=True)
        raise DecodeError(f"{transactional_id}: no transaction state {status}", _PHASE_AT) from None


def producer_id_of(value: bytes) -> int:
    """Return the producer id in a value of the log, -1 for none."""
    producer_id: int = _unpack_q(value, _PRODUCER_ID_AT)[0]
    return producer_id


def updated_at_ms_of(value: bytes) -> int:
    """Return the time of the last update in a value of the log, in ms since 1970. Raises DecodeError."""
    if value[1] and value[_PARTITIONS_AT] <= 1:  # No partitions, as in nearly every idle transactional id.
        updated_at_ms: int = _unpack_q(value, _PARTITIONS_AT + 1)[0]
        return updated_at_ms
    return state_of("", value).updated_at_ms


def state_of(
    transactional_id: str, value: bytes, remembers_time_outs: bool = True, init_version_unknown: int = -1
) -> Txn:
    """Decode a value of the log, of version 0 or 1. Raises DecodeError.

    Without `remembers_time_outs`, a state that was written in profile kip-588 is read as Kafka would have written it.
    `init_version_unknown`: InitProducerId version of a state that was written without one.
    """
    fields = TransactionLogValue.decode(value, value[1], 2)
    partitions: frozenset[TopicPartition] = frozenset(
        (topic.topic, index) for topic in fields.transaction_partitions or () for index in topic.partition_ids
    )
    last_epoch, timed_out_epoch, init_version = fields.last_producer_epoch, fields.timed_out_epoch, fields.init_version
    if not remembers_time_outs:
        if timed_out_epoch != -1 and fields.client_transaction_version < 2:
            last_epoch = -1
        timed_out_epoch = init_version = -1
    elif init_version == -1:
        init_version = init_version_unknown
    return txn_of(
        transactional_id=transactional_id,
        producer_id=fields.producer_id,
        previous_producer_id=fields.previous_producer_id,
        next_producer_id=fields.next_producer_id,
        producer_epoch=fields.producer_epoch,
        next_producer_epoch=fields.next_producer_epoch,
        last_producer_epoch=last_epoch,
        timeout_ms=fields.transaction_timeout_ms,
        phase=phase_of(value, transactional_id),
        partitions=partitions,
        started_at_ms=fields.transaction_start_timestamp_ms,
        updated_at_ms=fields.transaction_last_update_timestamp_ms,
        client_version=fields.client_transaction_version,
        timed_out_epoch=timed_out_epoch,
        init_version=init_version,
    )


def read_record(record: Record) -> tuple[str, Txn | None] | None:
    """Return (transactional id, state, or None for a tombstone); None for a record of another kind or version."""
    key, value = record.key, record.value
    if key is None or key[:2] != _KEY_VERSION:
        return None
    transactional_id = TransactionLogKey.decode(key, 0, 2).transactional_id
    if value is None:
        return transactional_id, None
    if value[:2] not in _VALUE_VERSIONS:
        return None
    return transactional_id, state_of(transactional_id, value)
