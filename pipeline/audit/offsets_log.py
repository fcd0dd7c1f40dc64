"""What groups committed: the offset records of `__consumer_offsets` as Arrow."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from stuntbroker.protocol.messages.offset_commit_key import OffsetCommitKey
from stuntbroker.protocol.messages.offset_commit_value import OffsetCommitValue
from stuntbroker.protocol.primitives import DecodeError

TOPIC: Final = "__consumer_offsets"
_OFFSET_KEYS: Final = (b"\x00\x00", b"\x00\x01")
"""Others are keys of groups and their members."""
_VALUE_VERSIONS = range(5)

OFFSETS: Final = pa.schema({
    "log_partition": pa.int32(),
    "log_offset": pa.int64(),
    "timestamp": pa.int64(),
    "producer_id": pa.int64(),
    "producer_epoch": pa.int16(),
    "group_id": pa.string(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "committed_offset": pa.int64(),
    "leader_epoch": pa.int32(),
    "metadata": pa.string(),
    "commit_ms": pa.int64(),
    "expire_ms": pa.int64(),
})  # fmt: skip
"""A row a record; in a tombstone the committed offset is null. The producer id is -1 outside a transaction."""


def read_offsets(records: pa.RecordBatch) -> tuple[pa.RecordBatch, list[tuple[int, str]]]:
    """(rows of OFFSETS, (offset, what is wrong) of records that cannot be read) from rows of RECORDS."""
    rows: list[tuple[Any, ...]] = []
    faults: list[tuple[int, str]] = []
    names = ("partition", "offset", "timestamp", "producer_id", "producer_epoch", "key", "value", "is_control")
    for *place, key, value, is_control in zip(*(records[name].to_pylist() for name in names), strict=True):
        if is_control or (key is not None and key[:2] not in _OFFSET_KEYS):
            continue
        try:
            rows.append((*place, *_read(key, value)))
        except (DecodeError, ValueError) as fault:
            faults.append((place[1], str(fault)))
    found = zip(*rows, strict=True) if rows else [()] * len(OFFSETS)
    arrays = [pa.array(values, field.type) for values, field in zip(found, OFFSETS, strict=True)]
    return pa.record_batch(arrays, schema=OFFSETS), faults


def _read(key: bytes | None, value: bytes | None) -> tuple[Any, ...]:
    if key is None:
        raise ValueError("no key")
    place = OffsetCommitKey.decode(key, key[1], 2)
    if value is None:
        return place.group, place.topic, place.partition, None, -1, "", -1, -1
    version = int.from_bytes(value[:2], "big", signed=True)
    if version not in _VALUE_VERSIONS:
        raise ValueError(f"{place.group}: a value of version {version}")
    one = OffsetCommitValue.decode(value, version, 2)
    return (
        place.group, place.topic, place.partition, one.offset, one.leader_epoch, one.metadata, one.commit_timestamp,
        one.expire_timestamp,
    )  # fmt: skip
