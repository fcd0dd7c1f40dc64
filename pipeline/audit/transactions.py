"""Reconstruct transactions from the partitions: from the first batch of a producer to the marker that ends its transaction.

A marker has the coordinator's epoch at the time of the decision. With transaction version 2 (KIP-890), and when the
coordinator itself aborts, that epoch is above the epoch of the data. Data and markers are therefore matched by producer id
and order, as brokers and consumers do, never by epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stuntbroker.pipeline.arrays import Array
from stuntbroker.pipeline.audit.folder import Partition
from stuntbroker.pipeline.audit.grouping import codes, codes_of_both, find, follows, values

TRANSACTIONS: Final = pa.schema(
    {
        "topic": pa.string(),
        "partition": pa.int32(),
        "producer_id": pa.int64(),
        "producer_epoch": pa.int16(),
        "last_epoch": pa.int16(),
        "first_offset": pa.int64(),
        "last_offset": pa.int64(),
        "batches": pa.int64(),
        "records": pa.int64(),
        "bytes": pa.int64(),
        "first_timestamp": pa.int64(),
        "marker": pa.string(),
        "marker_offset": pa.int64(),
        "marker_epoch": pa.int16(),
        "marker_timestamp": pa.int64(),
        "coordinator_epoch": pa.int32(),
        "open_to_end_ms": pa.int64(),
        "segment_base_offset": pa.int64(),
    }
)
"""One row per transaction and partition, ordered by partition and offset.

`producer_epoch` to `first_timestamp` describe the data without the marker; they are -1 (sums: 0) if there is only a marker.
`marker` is commit, abort or open. For open transactions the columns after it are -1, and `open_to_end_ms` (time from the
first record to the marker) is null. `segment_base_offset` is that of the first batch.
"""

BOUNDS: Final = pa.schema(
    {
        "topic": pa.string(),
        "partition": pa.int32(),
        "log_start_offset": pa.int64(),
        "known_from": pa.int64(),
        "log_end_offset": pa.int64(),
        "is_damaged": pa.bool_(),
        "created_ms": pa.int64(),
    }
)
"""Readable range of each partition.

Before `known_from`, records were removed by retention, compaction or a fault, and no statement is possible.
`created_ms` is -1 if unknown.
"""
DAMAGE: Final = ("corrupt", "format", "segment_deleted")


def bounds_of(batches: pa.Table, partitions: Sequence[Partition], misplaced: pa.Table | None = None) -> pa.Table:
    """Return rows of BOUNDS for these partitions; `misplaced` batches have wrong offsets and count as damage."""
    names = pa.array([partition.topic for partition in partitions], pa.string())
    numbers = pa.array([partition.partition for partition in partitions], pa.int32())
    good = batches.filter(pc.is_null(batches["fault"]))
    place, own = codes_of_both((good["topic"], good["partition"]), (names, numbers))
    base, last = values(good, "base_offset"), values(good, "last_offset")
    order = np.lexsort((base, place))
    place, base, last, count = place[order], base[order], last[order], values(good, "count")[order]
    before = np.where(follows(place), np.roll(last, 1) + 1, 0)
    known = np.where(base != before, base, 0)
    known = np.maximum(known, np.where(count != last - base + 1, last + 1, 0))
    size = int(max(place.max(initial=-1), own.max(initial=-1))) + 1
    known_from, log_end = np.zeros(size, np.int64), np.zeros(size, np.int64)
    np.maximum.at(known_from, place, known)
    np.maximum.at(log_end, place, last + 1)
    starts = np.array([partition.log_start_offset for partition in partitions], np.int64)
    # The log continues at the newest segment's base offset, even if no earlier batch is left.
    newest = np.array([partition.segments[-1].base_offset for partition in partitions], np.int64)
    is_cut = log_end[own] < newest
    known = np.where(log_end[own] > 0, known_from[own], starts)
    damaged = batches.filter(pc.is_in(batches["fault"], pa.array(DAMAGE))).select(["topic", "partition"])
    if misplaced is not None:
        damaged = pa.concat_tables([damaged, misplaced.select(["topic", "partition"])])
    hurt, here = codes_of_both((damaged["topic"], damaged["partition"]), (names, numbers))
    return pa.table(
        [
            names,
            numbers,
            starts,
            np.where(is_cut, newest, known),
            np.maximum(np.maximum(log_end[own], newest), starts),
            np.isin(here, hurt),
            np.array([partition.created_ms for partition in partitions], np.int64),
        ],
        schema=BOUNDS,
    )


def transactions_of(batches: pa.Table) -> pa.Table:
    """Return rows of TRANSACTIONS from rows of BATCHES in any order; batches with a fault are ignored."""
    wanted = pc.and_(pc.is_null(batches["fault"]), pc.fill_null(batches["is_transactional"], False))
    # A control batch that ends nothing is neither data nor marker.
    wanted = pc.and_(wanted, pc.or_(pc.invert(batches["is_control"]), pc.not_equal(batches["marker"], "none")))
    rows = batches.filter(wanted).combine_chunks()
    place, producer, base = (
        codes(rows["topic"], rows["partition"]),
        values(rows, "producer_id"),
        values(rows, "base_offset"),
    )
    order = np.lexsort((base, producer, place))
    place, producer, base = place[order], producer[order], base[order]
    is_marker = values(rows, "is_control")[order]
    if not len(order):
        return TRANSACTIONS.empty_table()
    begins = ~follows(place, producer)
    begins[1:] |= is_marker[:-1]
    first = np.flatnonzero(begins)
    end = np.append(first[1:], len(order)) - 1
    ended = is_marker[end]
    last = end - ended
    has_data = last >= first

    def pick(name: str, at: Array, where: Array) -> Array:
        return np.where(where, values(rows, name)[order[np.maximum(at, 0)]], -1)

    def total(name: str) -> Array:
        numbers = np.where(is_marker, 0, values(rows, name)[order].astype(np.int64))
        totals: Array = np.add.reduceat(numbers, first)
        return totals

    # Time of the first record: with LogAppendTime (attribute 8) the base timestamp is still the client's.
    began = np.where(
        pick("attributes", first, has_data) & 8,
        pick("max_timestamp", first, has_data),
        pick("base_timestamp", first, has_data),
    )
    ended_at = pick("max_timestamp", end, ended)
    marker = rows["marker"].combine_chunks().take(pa.array(order[end]))
    table = pa.table(
        [
            rows["topic"].combine_chunks().take(pa.array(order[first])),
            values(rows, "partition")[order[first]],
            producer[first],
            pick("producer_epoch", first, has_data),
            pick("producer_epoch", last, has_data),
            pick("base_offset", first, has_data),
            pick("last_offset", last, has_data),
            last - first + 1,
            total("count"),
            total("size"),
            began,
            pc.if_else(pa.array(ended), marker, "open"),
            pick("base_offset", end, ended),
            pick("producer_epoch", end, ended),
            ended_at,
            pick("coordinator_epoch", end, ended),
            pa.array(ended_at - began, mask=~(ended & has_data)),
            values(rows, "segment_base_offset")[order[first]],
        ],
        schema=TRANSACTIONS,
    )
    seen = np.where(has_data, base[first], base[end])
    return table.take(pa.array(np.lexsort((seen, place[first]))))


def owners_of(txn_state: pa.Table) -> tuple[Array, pa.Array]:
    """Return (producer ids, ascending; the transactional id that owns each)."""
    pids = np.concatenate(
        [values(txn_state, name) for name in ("previous_producer_id", "next_producer_id", "producer_id")]
    )
    ids = pa.concat_arrays([txn_state["transactional_id"].combine_chunks()] * 3)
    given = np.flatnonzero(pids >= 0)
    unique, at = np.unique(pids[given], return_index=True)
    return unique, ids.take(pa.array(given[at]))


def with_ids(table: pa.Table, owners: pa.Table) -> pa.Table:
    """Add a column `transactional_id`, the owner of the row's producer id; null if unknown.

    `owners` have the columns `producer_id` and `transactional_id`; see `owners_of`.
    """
    row = find(values(owners, "producer_id"), values(table, "producer_id"))
    ids = owners["transactional_id"].combine_chunks()
    return table.append_column("transactional_id", ids.take(pa.array(row, mask=row < 0)))


OUTCOMES: Final = ("plain", "commit", "abort", "open")


def outcomes_of(rows: pa.Table, transactions: pa.Table, topic: str = "topic", partition: str = "partition") -> pa.Array:
    """Return the outcome of each record: `plain` outside a transaction, else its transaction's `marker`.

    Null if the transaction is not in `transactions`. `rows` have `producer_id`, `offset`, `is_transactional` and the columns
    that name their partition.
    """
    whole = transactions.filter(pc.greater_equal(transactions["first_offset"], 0))
    names = (topic, partition, "producer_id")
    left, right = codes_of_both(
        tuple(whole[name] for name in ("topic", "partition", "producer_id")), tuple(rows[name] for name in names)
    )
    group = np.concatenate((left, right))
    offset = np.concatenate((values(whole, "first_offset"), values(rows, "offset")))
    kind = np.concatenate((np.zeros(len(left), np.int8), np.ones(len(right), np.int8)))
    order = np.lexsort((kind, offset, group))
    at = np.maximum.accumulate(np.where(kind[order] == 0, np.arange(len(order)), -1)) if len(order) else order
    begun = np.empty(len(order), np.int64)
    begun[order] = np.where(at >= 0, order[at], -1)
    mine = begun[len(left) :]
    inside = (mine >= 0) & (left[mine] == right) if len(left) else np.zeros(len(right), bool)
    within = values(whole, "last_offset")[mine] >= values(rows, "offset") if len(left) else inside
    markers = whole["marker"].combine_chunks().take(pa.array(mine, mask=~(inside & within)))
    return pc.if_else(rows["is_transactional"].combine_chunks(), markers, "plain")
