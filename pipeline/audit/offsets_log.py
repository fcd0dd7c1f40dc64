"""Decode the offset commit records of `__consumer_offsets` as Arrow."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from stuntbroker.pipeline.arrays import Array, byte_strings
from stuntbroker.pipeline.audit.lanes import INT16, INT32, INT64, Lanes, as_text, integers, places_of
from stuntbroker.pipeline.audit.log_records import Fault, Log
from stuntbroker.protocol.messages.offset_commit_key import OffsetCommitKey
from stuntbroker.protocol.messages.offset_commit_value import OffsetCommitValue

_OFFSET_KEYS: Final = (b"\x00\x00", b"\x00\x01")
"""Key versions of offset commits; other versions are keys of group metadata."""
_VALUE_VERSIONS = range(5)
_PLAIN_VERSIONS = range(4)

OFFSETS: Final = pa.schema(
    {
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
    }
)
"""One row per record; the committed offset of a tombstone is null. The producer id is -1 outside a transaction."""


def read_offsets(records: pa.RecordBatch) -> tuple[pa.RecordBatch, list[Fault]]:
    """Decode rows of RECORDS; return (rows of OFFSETS, undecodable records)."""
    return LOG.read(records)


def _read_lanes(records: pa.RecordBatch) -> list[tuple[Array, pa.Table]]:
    """Decode keys (version int16, group, topic, partition int32) and values of versions 0 to 3; leave out other values."""
    keys = Lanes(*places_of(records["key"]))
    every = keys.every()
    keys.at += 2
    texts = {}
    for name in ("group_id", "topic"):
        sizes = keys.read(every, INT16).astype(np.int64)
        texts[name] = (keys.data, keys.skip(every, sizes), sizes)
    partitions = keys.read(every, INT32)
    good = keys.finish()
    data, starts, ends = places_of(records["value"])
    dead = np.asarray(records["value"].is_null())
    versions = integers(data, starts, INT16)
    pieces = []
    for version in (None, *_PLAIN_VERSIONS):
        which = dead if version is None else ~dead & (versions == version)
        lanes = np.flatnonzero(good & which)
        columns, kept = _tombstones(len(lanes)), np.ones(len(lanes), bool)
        if version is not None and len(lanes):
            columns, kept = _values(data, starts[lanes], ends[lanes], version)
        if len(numbers := lanes[kept]):
            columns |= {name: _text(*text, numbers) for name, text in texts.items()} | {
                "partition": partitions[numbers]
            }
            pieces.append((numbers, LOG.rows_of(records, numbers, columns)))
    return pieces


def _text(data: Array, at: Array, sizes: Array, numbers: Array) -> pa.Array:
    return as_text(byte_strings(pa.py_buffer(data), at[numbers], sizes[numbers]))


def _tombstones(count: int) -> dict[str, Any]:
    nothing = np.full(count, -1)
    columns: dict[str, Any] = {"committed_offset": pa.nulls(count, pa.int64()), "metadata": pa.repeat("", count)}
    return columns | dict.fromkeys(("leader_epoch", "commit_ms", "expire_ms"), nothing)


def _values(data: Array, starts: Array, ends: Array, version: int) -> tuple[dict[str, Any], Array]:
    """Return (columns of the values that were decoded, mask of these values)."""
    lanes = Lanes(data, starts, ends)
    every = lanes.every()
    nothing = np.full(len(every), -1)
    lanes.at += 2
    committed = lanes.read(every, INT64)
    leader_epoch = lanes.read(every, INT32) if version >= 3 else nothing
    sizes = lanes.read(every, INT16).astype(np.int64)
    metadata_at = lanes.skip(every, sizes)
    commit_ms = lanes.read(every, INT64)
    expire_ms = lanes.read(every, INT64) if version == 1 else nothing
    good = lanes.finish()
    numbers = {
        "committed_offset": committed,
        "leader_epoch": leader_epoch,
        "commit_ms": commit_ms,
        "expire_ms": expire_ms,
    }
    columns: dict[str, Any] = {name: column[good] for name, column in numbers.items()}
    if good.any():
        columns["metadata"] = _text(data, metadata_at, sizes, np.flatnonzero(good))
    return columns, good


def _read(key: bytes | None, value: bytes | None) -> tuple[Any, ...]:
    if key is None:
        raise ValueError("no key")
    place = OffsetCommitKey.decode(key, key[1], 2)
    if value is None:
        return place.group, place.topic, place.partition, None, -1, "", -1, -1
    version = int.from_bytes(value[:2], "big", signed=True)
    if version not in _VALUE_VERSIONS:
        raise ValueError(f"{place.group}: a value of version {version}")
    commit = OffsetCommitValue.decode(value, version, 2)
    return (
        place.group,
        place.topic,
        place.partition,
        commit.offset,
        commit.leader_epoch,
        commit.metadata,
        commit.commit_timestamp,
        commit.expire_timestamp,
    )


LOG: Final = Log(
    OFFSETS, ("partition", "offset", "timestamp", "producer_id", "producer_epoch"), _OFFSET_KEYS, _read_lanes, _read
)
