"""A transaction as Kafka's transaction log holds it: key, value, and the batch around them.

Topic `__transaction_state`; key: int16 0 and the transactional id; value: TransactionLogValue version 0 while
`transaction.version` is 0, 1 from then on; a null value is a tombstone. One record a batch, not compressed.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct, pack

from stuntbroker.coordinator.state import MAY_EXPIRE, Phase, TopicPartition, Txn
from stuntbroker.protocol.crc import crc32c
from stuntbroker.protocol.messages.transaction_log_key import TransactionLogKey
from stuntbroker.protocol.messages.transaction_log_value import PartitionsSchema, TransactionLogValue
from stuntbroker.protocol.primitives import DecodeError, write_compact_string, write_uvarint
from stuntbroker.protocol.records import (
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
    pack_times,
    read_records,
)

TOPIC = "__transaction_state"
CACHED_MAX = 1_000
_keys: dict[str, tuple[bytes, int]] = {}
_values: dict[frozenset[TopicPartition], tuple[bytes, bytes, int]] = {}
"""Of ids and sets of partitions that were in use just now: a transaction writes three records, and many share their set."""
_VALUE_VERSIONS = (b"\x00\x01", b"\x00\x00")
_PHASES = tuple(Phase)
_IDLE = frozenset(bytes([phase]) for phase in MAY_EXPIRE)
_PRODUCER_ID_AT, _PHASE_AT, _PARTITIONS_AT = 2, 16, 17
"""Where they stand in a value of either version."""
_unpack_q = Struct(">q").unpack_from


def key_of(transactional_id: str) -> bytes:
    text = transactional_id.encode()
    return b"\x00\x00" + _pack_h(len(text)) + text


def value_of(txn: Txn, version: int) -> bytes:
    """`version` of the value; version 0 cannot carry tagged fields: what must not be forgotten is written as version 1.

    Written by hand, for `batch_of` and what that leaves to it. A test holds it against the generated codec.
    """
    (
        _, producer_id, previous_id, next_id, epoch, next_epoch, last_epoch, timeout_ms, phase, partitions,
        started_at_ms, updated_at_ms, client_version, timed_out_epoch, init_version,
    ) = txn  # fmt: skip
    usual = next_id == next_epoch == timed_out_epoch == init_version == -1
    # Unlike Kafka: at level 0 it forgets at a restart what version 0 has no place for.
    if version == 0 and usual and last_epoch == -1:
        return _value_v0(txn)
    start = _pack_start(1, producer_id, epoch, timeout_ms, phase)
    encoded = (_values.get(partitions) or _usual_value(partitions))[0] if phase else b"\x00"
    tags, count = b"", 0
    if previous_id != -1:
        tags, count = b"\x00\x08" + _pack_q(previous_id), 1
    if next_id != -1:
        tags, count = tags + b"\x01\x08" + _pack_q(next_id), count + 1
    if client_version:
        tags, count = tags + b"\x02\x02" + _pack_h(client_version), count + 1
    if next_epoch != -1:
        tags, count = tags + b"\x03\x02" + _pack_h(next_epoch), count + 1
    if last_epoch != -1:
        tags, count = tags + _LAST_EPOCH_TAG + _pack_h(last_epoch), count + 1
    if timed_out_epoch != -1:
        tags, count = tags + _TIMED_OUT_TAG + _pack_h(timed_out_epoch), count + 1
    if init_version != -1:
        tags, count = tags + _INIT_VERSION_TAG + _pack_h(init_version), count + 1
    return start + encoded + _pack_end(updated_at_ms, started_at_ms, count) + tags


def batch_of(base_offset: int, leader_epoch: int, timestamp_ms: int, transactional_id: str, txn: Txn | None) -> bytes:
    """A whole batch of one record, as one_record_batch makes it of key and value; a tombstone without a transaction.

    `timestamp_ms` is that of the last update. In one piece for what nearly every record is, which takes half the time.
    """
    if txn is None:
        return one_record_batch(base_offset, leader_epoch, timestamp_ms, key_of(transactional_id), None)
    (
        _, producer_id, previous_id, next_id, epoch, next_epoch, last_epoch, timeout_ms, phase, partitions,
        started_at_ms, _, client_version, timed_out_epoch, init_version,
    ) = txn  # fmt: skip
    key, key_room = _keys.get(transactional_id) or _sized_key(transactional_id)
    encoded, value_size, value_room = _values.get(partitions) or _usual_value(partitions)
    if (
        next_id + next_epoch + timed_out_epoch + init_version == NONE_OF_FOUR
        and previous_id >= 0 and last_epoch >= 0 and client_version and phase and key_room + value_room < SMALL
    ):  # fmt: skip
        tail = b"".join((
            pack_times(timestamp_ms, timestamp_ms),
            ONE_RECORD[key_room + value_room],
            key,
            value_size,
            _pack_start(1, producer_id, epoch, timeout_ms, phase),
            encoded,
            _pack_usual_end(timestamp_ms, started_at_ms, 3, 8, previous_id, 0x202, client_version, _LAST_EPOCH_TAG, last_epoch),
        ))  # fmt: skip
        return pack_head(base_offset, len(tail) + 9, leader_epoch, 2, crc32c(tail)) + tail
    return one_record_batch(base_offset, leader_epoch, timestamp_ms, key_of(transactional_id), value_of(txn, 1))


def _sized_key(transactional_id: str) -> tuple[bytes, int]:
    """Its key with the size before it, and the bytes that a record takes but for its value; too many for a key that is long."""
    key = key_of(transactional_id)
    size = len(key)
    if size >= SMALL:
        return key, SMALL
    if len(_keys) >= CACHED_MAX:
        _keys.clear()
    made = _keys[transactional_id] = VARINTS[size] + key, 4 + SIZED[size]
    return made


def _usual_value(partitions: frozenset[TopicPartition]) -> tuple[bytes, bytes, int]:
    """Its partitions as they are in the log, the size of the value, and the bytes that both and the rest of the value take."""
    if len(_values) >= CACHED_MAX:
        _values.clear()
    encoded = _partitions(partitions)
    size = USUAL_SIZE + len(encoded)
    made = (encoded, VARINTS[size], SIZED[size]) if size < SMALL else (encoded, b"", SMALL)
    _values[partitions] = made
    return made


def batch_at_level_0(base_offset: int, leader_epoch: int, timestamp_ms: int, transactional_id: str, txn: Txn | None) -> bytes:
    """`batch_of` while `transaction.version` is 0."""
    value = None if txn is None else value_of(txn, 0)
    return one_record_batch(base_offset, leader_epoch, timestamp_ms, key_of(transactional_id), value)


_pack_start = Struct(">hqhib").pack
_pack_end = Struct(">qqb").pack
_pack_usual_end = Struct(">qqbHqHh3shx").pack
"""`_pack_end` with the tags of a usual record, 0 (8 bytes), 2 (2 bytes) and last epoch; then the record's headers, none."""
USUAL_SIZE = 17 + 36
"""Bytes of a value beside its partitions, with the tags 0, 2 and that of the last epoch."""
NONE_OF_FOUR = -4
"""Sum of four fields that are all -1, which is the least that they can be."""
_pack_q = Struct(">q").pack
_pack_h = Struct(">h").pack
_LAST_EPOCH_TAG = b"\xa8\x46\x02"
_TIMED_OUT_TAG = b"\xa9\x46\x02"
_INIT_VERSION_TAG = b"\xaa\x46\x02"


def _partitions(partitions: frozenset[TopicPartition]) -> bytes:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    out = bytearray()
    write_uvarint(out, len(topics) + 1)
    for topic, indexes in topics.items():
        write_compact_string(out, topic)
        write_uvarint(out, len(indexes) + 1)
        out += pack(f">{len(indexes)}i", *indexes)
        out.append(0)
    return bytes(out)


def _value_v0(txn: Txn) -> bytes:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(txn.partitions):
        topics.setdefault(topic, []).append(index)
    out = bytearray(b"\x00\x00")
    TransactionLogValue(
        producer_id=txn.producer_id,
        producer_epoch=txn.producer_epoch,
        transaction_timeout_ms=txn.timeout_ms,
        transaction_status=txn.phase,
        transaction_partitions=None if txn.phase is Phase.EMPTY else [PartitionsSchema(*one) for one in topics.items()],
        transaction_last_update_timestamp_ms=txn.updated_at_ms,
        transaction_start_timestamp_ms=txn.started_at_ms,
    ).encode(out, 0)
    return bytes(out)


def last_values(batches: Iterable[tuple[BatchHeader, bytes]]) -> dict[str, bytes]:
    """The value of the last record of every transactional id in a partition of the log, not decoded yet.

    Raises DecodeError for a record that is not as its sizes say, or a state that there is not.
    """
    last: dict[bytes | None, bytes] = {}
    for header, batch in batches:
        if header[5] & CONTROL:  # A marker that somebody had written here says nothing of any id.
            continue
        record = only_record(batch)
        records = (record,) if record is not None else [(r.key, r.value) for r in read_records(header, batch, HEADER_SIZE)]
        for key, value in records:
            if value is None:
                last.pop(key, None)
            elif value[:2] in _VALUE_VERSIONS or key not in last:
                last[key] = value
    found = {}
    for key, value in last.items():
        if key is not None and key[:2] == b"\x00\x00" and value[:2] in _VALUE_VERSIONS:  # Others Kafka has not defined yet.
            if int.from_bytes(key[2:4], "big") != len(key) - 4:
                raise DecodeError("the key of a transaction has a wrong size", 2)
            found[key[4:].decode()] = value
    return found


def open_ids(values: dict[str, bytes]) -> list[str]:
    """The transactional ids, with their values of the log, that have a transaction which is not complete. Raises DecodeError."""
    not_idle = [name for name, value in values.items() if value[_PHASE_AT : _PHASE_AT + 1] not in _IDLE]
    return [name for name in not_idle if phase_of(values[name], name) not in MAY_EXPIRE]


def phase_of(value: bytes, transactional_id: str) -> Phase:
    """The phase in a value of the log. Raises DecodeError."""
    try:
        return _PHASES[value[_PHASE_AT]]
    except IndexError:
        status = int.from_bytes(value[_PHASE_AT : _PHASE_AT + 1], signed=True)
        raise DecodeError(f"{transactional_id}: no transaction state {status}", _PHASE_AT) from None


def producer_id_of(value: bytes) -> int:
    """The producer id in a value of the log, -1 for none."""
    producer_id: int = _unpack_q(value, _PRODUCER_ID_AT)[0]
    return producer_id


def updated_at_ms_of(value: bytes) -> int:
    """When the state in a value of the log was written, in milliseconds since 1970. Raises DecodeError."""
    if value[1] and value[_PARTITIONS_AT] <= 1:  # None, as nearly every id that nobody uses has.
        updated_at_ms: int = _unpack_q(value, _PARTITIONS_AT + 1)[0]
        return updated_at_ms
    return state_of("", value).updated_at_ms


def state_of(transactional_id: str, value: bytes) -> Txn:
    """The whole state that a value of the log, of version 0 or 1, says. Raises DecodeError."""
    one = TransactionLogValue.decode(value, value[1], 2)
    partitions: frozenset[TopicPartition] = frozenset(
        (topic.topic, index) for topic in one.transaction_partitions or () for index in topic.partition_ids
    )
    return Txn(
        transactional_id,
        one.producer_id,
        one.previous_producer_id,
        one.next_producer_id,
        one.producer_epoch,
        one.next_producer_epoch,
        one.last_producer_epoch,
        one.transaction_timeout_ms,
        phase_of(value, transactional_id),
        partitions,
        one.transaction_start_timestamp_ms,
        one.transaction_last_update_timestamp_ms,
        one.client_transaction_version,
        one.timed_out_epoch,
        one.init_version,
    )


def read_record(record: Record) -> tuple[str, Txn | None] | None:
    """(transactional id, its state or None for a tombstone); None for a record of another kind or version."""
    key, value = record.key, record.value
    if key is None or key[:2] != b"\x00\x00":
        return None
    transactional_id = TransactionLogKey.decode(key, 0, 2).transactional_id
    if value is None:
        return transactional_id, None
    if value[:2] not in _VALUE_VERSIONS:
        return None
    return transactional_id, state_of(transactional_id, value)
