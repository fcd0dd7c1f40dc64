"""Decode many transaction log values at once: the fields of `TransactionLogValue.decode`, for values of the usual form.

    version int16 | producer id int64 | epoch int16 | time-out int32 | state int8 | partitions by topic
    | last update int64 | start int64 | from version 1 on tagged fields

Version 0 has int32 and int16 lengths; version 1 has varint lengths, and tagged fields after each topic.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from stuntbroker.pipeline.arrays import Array, byte_strings
from stuntbroker.pipeline.audit.lanes import INT16, INT32, INT64, Lanes, as_text, integers

STATE_COUNT: Final = 6
TOPICS_MAX: Final = 64
"""Maximum topics in one value; values with more are decoded one by one."""
TAGS_MAX: Final = 8
_TAGGED: Final = {
    0: ("previous_producer_id", INT64),
    1: ("next_producer_id", INT64),
    2: ("client_transaction_version", INT16),
    3: ("next_producer_epoch", INT16),
    9000: ("last_producer_epoch", INT16),
    9001: ("timed_out_epoch", INT16),
    9002: ("init_version", INT16),
}
NUMBERS: Final = {
    "producer_id": -1,
    "producer_epoch": -1,
    "previous_producer_id": -1,
    "next_producer_id": -1,
    "next_producer_epoch": -1,
    "last_producer_epoch": -1,
    "timed_out_epoch": -1,
    "timeout_ms": -1,
    "start_ms": -1,
    "update_ms": -1,
    "client_transaction_version": 0,
}
"""Numeric columns and their defaults, for fields that a value does not have."""
PAIRS: Final = pa.list_(pa.struct({"topic": pa.string(), "partition": pa.int32()}))


class Values(NamedTuple):
    """Decoded columns, one row per lane; where `good` is false, the other columns are meaningless."""

    good: Array
    states: Array
    """Index into the names of the states."""
    numbers: dict[str, Array]
    partitions: pa.ListArray
    """Lists of PAIRS, empty where `good` is false."""


class _Listed(NamedTuple):
    """The n-th topic of every value that has one, and the positions of its partition ids."""

    lane: Array
    name_at: Array
    name_size: Array
    ids_at: Array
    ids: Array
    """Number of partition ids."""


def read_values(data: Array, starts: Array, ends: Array, version: int) -> Values:
    """Decode the values data[start:end], which all have this version. Raises NotText."""
    lanes = Lanes(data, starts, ends)
    every = lanes.every()
    numbers = {name: np.full(len(every), default, np.int64) for name, default in NUMBERS.items()}
    lanes.at += 2
    for name, kind in (("producer_id", INT64), ("producer_epoch", INT16), ("timeout_ms", INT32)):
        numbers[name] = lanes.read(every, kind)
    states = lanes.data.take(lanes.at, mode="clip").astype(np.int64)
    lanes.at += 1
    lanes.refuse(every, states >= STATE_COUNT)
    listed = _topics(lanes, flexible=version >= 1)
    numbers["update_ms"], numbers["start_ms"] = lanes.read(every, INT64), lanes.read(every, INT64)
    if version >= 1:
        _tags(lanes, numbers)
    good = lanes.finish()
    return Values(good, states, numbers, _pairs(data, listed, good))


def _topics(lanes: Lanes, flexible: bool) -> list[_Listed]:
    every = lanes.every()
    counts = lanes.read_uvarint(every) - 1 if flexible else lanes.read(every, INT32).astype(np.int64)
    lanes.refuse(every, counts > TOPICS_MAX)
    counts = np.where(lanes.odd, 0, counts)
    listings = []
    for number in range(int(counts.max(initial=0))):
        live = np.flatnonzero(counts > number)
        sizes = lanes.read_uvarint(live) - 1 if flexible else lanes.read(live, INT16).astype(np.int64)
        name_at = lanes.skip(live, sizes)
        ids = lanes.read_uvarint(live) - 1 if flexible else lanes.read(live, INT32).astype(np.int64)
        lanes.refuse(live, ids > lanes.left(live) // 4)
        ids_at = lanes.skip(live, np.where(lanes.odd[live], 0, 4 * ids))
        lanes.refuse(live, ids < 0)
        if flexible:
            lanes.refuse(live, lanes.data.take(lanes.at[live], mode="clip") != 0)
            lanes.at[live] += 1
        listings.append(_Listed(live, name_at, sizes, ids_at, ids))
    return listings


def _tags(lanes: Lanes, numbers: dict[str, Array]) -> None:
    every = lanes.every()
    counts = lanes.read_uvarint(every)
    lanes.refuse(every, counts > TAGS_MAX)
    counts = np.where(lanes.odd, 0, counts)
    before = np.full(len(every), -1, np.int64)
    for number in range(int(counts.max(initial=0))):
        live = np.flatnonzero(counts > number)
        tags, sizes = lanes.read_uvarint(live), lanes.read_uvarint(live)
        lanes.refuse(live, tags <= before[live])
        before[live] = tags
        at = lanes.skip(live, sizes)
        for tag, (name, kind) in _TAGGED.items():
            here = np.flatnonzero(tags == tag)
            lanes.refuse(live[here], sizes[here] != kind.itemsize)
            if len(here) and name in numbers:
                numbers[name][live[here]] = integers(lanes.data, at[here], kind)
        lanes.refuse(live, ~np.isin(tags, list(_TAGGED)))


def _pairs(data: Array, listed: list[_Listed], good: Array) -> pa.ListArray:
    offsets = np.zeros(len(good) + 1, np.int32)
    if not listed:
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array([], PAIRS.value_type), type=PAIRS)
    lane = np.concatenate([listing.lane for listing in listed])
    order = np.argsort(lane, kind="stable")
    order = order[good[lane[order]]]
    lane, name_at, name_size, ids_at, count = (np.concatenate(part)[order] for part in zip(*listed, strict=True))
    names = as_text(byte_strings(pa.py_buffer(data), name_at, name_size)).dictionary_encode()
    first = np.cumsum(count) - count
    at = np.repeat(ids_at - 4 * first, count) + 4 * np.arange(int(count.sum()))
    topics = names.take(pa.array(np.repeat(np.arange(len(count)), count))).cast(pa.string())
    pairs = pa.StructArray.from_arrays([topics, pa.array(integers(data, at, INT32))], fields=list(PAIRS.value_type))
    np.cumsum(np.bincount(lane, count, len(good)).astype(np.int64), out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), pairs, type=PAIRS)
