"""Reports without a verdict: the history of each id, last stable offsets, latencies, aborted data and segment sizes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stuntbroker.pipeline.arrays import Array
from stuntbroker.pipeline.audit.folder import Partition
from stuntbroker.pipeline.audit.grouping import by_transactional_id, codes, codes_of_both, find, follows, values
from stuntbroker.pipeline.audit.txn_log import DEAD
from stuntbroker.protocol.batches.records import CODEC_MASK
from stuntbroker.protocol.topic_names import TXN_STATE as TXN_TOPIC
from stuntbroker.protocol.transaction_states import COMPLETE, EMPTY, ONGOING, PREPARE_ABORT

FENCING: Final = pa.schema(
    {
        "transactional_id": pa.string(),
        "log_partition": pa.int32(),
        "log_offset": pa.int64(),
        "update_ms": pa.int64(),
        "state": pa.string(),
        "producer_id": pa.int64(),
        "producer_epoch": pa.int16(),
        "before_producer_id": pa.int64(),
        "before_producer_epoch": pa.int16(),
        "reason": pa.string(),
    }
)
"""One row for each change of an id's producer id or epoch, or KeepPreparedTxn (KIP-939). `before_*` are -1 in the first.

| reason | meaning |
|---|---|
| first | the id is new |
| first_seen | the oldest remaining record of the id; its earlier history is unknown |
| init | InitProducerId of a new instance; with TV2 possibly of the owner, as Kafka does not store the difference |
| init_by_owner | InitProducerId with the current producer id and epoch (KIP-360) |
| end | EndTxn, which bumps the epoch from TV2 on (KIP-890) |
| end_or_fence | EndTxn, or InitProducerId of another instance, which came next: Kafka does not store the difference |
| timeout | aborted by the coordinator after its time-out (KIP-588) |
| fence | aborted by the InitProducerId of another instance |
| exhausted | a new producer id, as the epochs of the old one were exhausted |
| recover | InitProducerId with KeepPreparedTxn (KIP-939); the row has the producer id and epoch that the client got |
| recovered_end | the end of a kept transaction, with the producer id and epoch that the client got |
| removed | a tombstone: the id was idle for too long |
"""

LSO: Final = pa.schema(
    {
        "topic": pa.string(),
        "partition": pa.int32(),
        "last_stable_offset": pa.int64(),
        "log_end_offset": pa.int64(),
        "transactional_id": pa.string(),
        "producer_id": pa.int64(),
        "producer_epoch": pa.int16(),
        "first_timestamp": pa.int64(),
    }
)
"""One row per partition; the producer is that of the open transaction at the last stable offset, null if none is open."""

ABORTED: Final = pa.schema(
    {
        "topic": pa.string(),
        "partition": pa.int32(),
        "transactions": pa.int64(),
        "aborted_transactions": pa.int64(),
        "records": pa.int64(),
        "aborted_records": pa.int64(),
        "bytes": pa.int64(),
        "aborted_bytes": pa.int64(),
        "aborted_bytes_ratio": pa.float64(),
    }
)
"""One row per partition: totals of its ended transactions."""

QUANTILES: Final = (0.5, 0.9, 0.99, 1.0)
LATENCIES: Final = pa.schema(
    {
        "transactional_id": pa.string(),
        "transactions": pa.int64(),
        **{f"p{quantile * 100:.0f}_ms": pa.int64() for quantile in QUANTILES},
    }
)
"""One row per id: latencies of its completed transactions, from the first added partition to the last marker."""

SEGMENTS: Final = pa.schema(
    {
        "topic": pa.string(),
        "partition": pa.int32(),
        "segment_base_offset": pa.int64(),
        "bytes": pa.int64(),
        "batches": pa.int64(),
        "records": pa.int64(),
        "transactional_bytes": pa.int64(),
        "control_batches": pa.int64(),
        "compressed_bytes": pa.int64(),
        "faults": pa.int64(),
        "first_timestamp": pa.int64(),
        "last_timestamp": pa.int64(),
    }
)
"""One row per segment. Sums cover its valid batches; `records` and `transactional_bytes` exclude control batches.

Timestamps are those of the first and last valid batch, -1 if there is none.
"""

_FACTS: Final = (
    "log_partition",
    "producer_id",
    "producer_epoch",
    "next_producer_epoch",
    "last_producer_epoch",
    "timeout_ms",
    "start_ms",
    "update_ms",
    "client_transaction_version",
)


def fencing_of(txn_state: pa.Table, bounds: pa.Table) -> pa.Table:
    """Return rows of FENCING, the history of every id, from records ordered by partition and offset."""
    if not len(txn_state):
        return FENCING.empty_table()
    rows, same = by_transactional_id(txn_state)
    now = {name: values(rows, name) for name in _FACTS}
    before = {name: np.where(same, np.roll(column, 1), -1) for name, column in now.items()}
    is_dead, is_empty, is_ongoing, aborts = (
        pc.equal(rows["state"], name).to_numpy() for name in (DEAD, EMPTY, ONGOING, PREPARE_ABORT)
    )
    born = ~same | np.roll(is_dead, 1)  # After a tombstone the id is new again.
    cut = _is_cut(bounds, now["log_partition"]) & ~same & ~(is_empty & (now["producer_epoch"] == 0))
    new_id = now["producer_id"] != before["producer_id"]
    has_advanced = new_id | (now["producer_epoch"] != before["producer_epoch"])
    keeps = (
        is_ongoing & (now["next_producer_epoch"] >= 0) & (now["next_producer_epoch"] != before["next_producer_epoch"])
    )
    gave_kept = (before["next_producer_epoch"] >= 0) & (now["next_producer_epoch"] < 0)
    by_owner = (now["last_producer_epoch"] >= 0) & (now["last_producer_epoch"] == before["producer_epoch"])
    overdue = (before["start_ms"] >= 0) & (now["update_ms"] - before["start_ms"] > before["timeout_ms"])
    # PrepareAbort, CompleteAbort, Empty: written by InitProducerId with an open transaction, and by EndTxn followed by the
    # InitProducerId of a new instance.
    init_follows = np.append(same[1:], False) & np.append(same[2:] & is_empty[2:], [False, False])[: len(same)]
    reasons = {
        "removed": is_dead,
        "first_seen": cut,
        "first": born,
        "recover": keeps,
        "recovered_end": gave_kept,
        "exhausted": new_id,
        "init_by_owner": is_empty & by_owner,
        "init": is_empty,
        "timeout": aborts & overdue,
        "fence": aborts & (now["client_transaction_version"] < 2),
        "end_or_fence": aborts & init_follows,
    }
    reason = np.select(list(reasons.values()), list(reasons), "end")
    earlier = {f"before_{name}": np.where(born, -1, before[name]) for name in ("producer_id", "producer_epoch")}
    columns = {name: earlier[name] if name in earlier else rows[name] for name in FENCING.names if name != "reason"}
    columns["reason"] = pa.array(reason.tolist(), pa.string())
    return pa.table(columns, schema=FENCING).take(pa.array(np.flatnonzero(born | has_advanced | is_dead | keeps)))


def _is_cut(bounds: pa.Table, log_partitions: Array) -> Array:
    """Return which transaction log partitions have lost their beginning."""
    cut = [row["partition"] for row in bounds.to_pylist() if row["topic"] == TXN_TOPIC and row["known_from"] > 0]
    is_cut: Array = np.isin(log_partitions, cut)
    return is_cut


def is_internal(topic: str) -> bool:
    """Whether a topic is internal to the brokers."""
    return topic.startswith("__")


def last_stable_offsets(transactions: pa.Table, bounds: pa.Table) -> pa.Table:
    """Return rows of LSO: last stable offsets and the transactions that hold them back. `transactions` have ids."""
    opened = transactions.filter(pc.equal(transactions["marker"], "open")).sort_by("first_offset")
    theirs, places = codes_of_both((opened["topic"], opened["partition"]), (bounds["topic"], bounds["partition"]))
    row = find(theirs[::-1], places)  # `find` returns the last match: reversed, the lowest offset.
    row = np.where(row >= 0, len(theirs) - 1 - row, -1)
    holder = opened.take(pa.array(row, mask=row < 0))
    columns = {name: bounds[name] for name in ("topic", "partition", "log_end_offset")}
    stable = pc.fill_null(holder["first_offset"].combine_chunks(), bounds["log_end_offset"].combine_chunks())
    # If a transaction's first records were deleted, the last stable offset is the log start offset.
    columns["last_stable_offset"] = pc.max_element_wise(stable, bounds["log_start_offset"].combine_chunks())
    columns |= {name: holder[name] for name in ("transactional_id", "producer_id", "producer_epoch", "first_timestamp")}
    return pa.table(columns).select(LSO.names).cast(LSO)


def aborted_of(transactions: pa.Table) -> pa.Table:
    """Return rows of ABORTED: the aborted share of each partition's ended transactions."""
    ended = transactions.filter(pc.not_equal(transactions["marker"], "open"))
    aborted = pc.equal(ended["marker"], "abort").cast(pa.int64())
    table = ended.select(["topic", "partition", "records", "bytes"]).append_column("aborted_transactions", aborted)
    for name in ("records", "bytes"):
        table = table.append_column(f"aborted_{name}", pc.multiply(table[name], aborted))
    sums = [(name, "sum") for name in table.column_names[2:]]
    grouped = table.group_by(["topic", "partition"]).aggregate([([], "count_all"), *sums])
    columns = {name: grouped[name] for name in ("topic", "partition")}
    columns |= {name: grouped[f"{name}_sum"] for name, _ in sums} | {"transactions": grouped["count_all"]}
    columns["aborted_bytes_ratio"] = pc.divide(
        columns["aborted_bytes"].cast(pa.float64()), columns["bytes"].cast(pa.float64())
    )
    return (
        pa.table(columns)
        .select(ABORTED.names)
        .cast(ABORTED)
        .sort_by([("topic", "ascending"), ("partition", "ascending")])
    )


def latencies_of(txn_state: pa.Table) -> pa.Table:
    """Return rows of LATENCIES; `txn_state` must have all records of each id."""
    done = txn_state.filter(pc.is_in(txn_state["state"], pa.array(COMPLETE)))
    done = done.filter(pc.greater_equal(done["start_ms"], 0)).combine_chunks()
    took, group = values(done, "update_ms") - values(done, "start_ms"), codes(done["transactional_id"])
    order = np.lexsort((took, group))
    first = np.flatnonzero(~follows(group[order]))
    count = np.diff(np.append(first, len(order)))
    columns: list[Any] = [done["transactional_id"].take(pa.array(order[first])), pa.array(count)]
    for quantile in QUANTILES:
        at = first + np.ceil(quantile * count).astype(np.int64) - 1
        columns.append(pa.array(took[order[at]]))
    return pa.table(columns, schema=LATENCIES)


def segments_of(batches: pa.Table, partitions: Iterable[Partition]) -> pa.Table:
    """Return rows of SEGMENTS for all segments of these partitions, from their batches."""
    listed = [segment for each in partitions for segment in each.segments]
    names = {
        "topic": pa.array([each.topic for each in listed], pa.string()),
        "partition": pa.array([each.partition for each in listed], pa.int32()),
        "segment_base_offset": pa.array([each.base_offset for each in listed], pa.int64()),
    }
    theirs, own = codes_of_both(tuple(batches[name] for name in names), tuple(names.values()))
    size = int(max(theirs.max(initial=-1), own.max(initial=-1))) + 1
    is_good = batches["fault"].is_null().to_numpy()

    good, rows = batches.filter(pa.array(is_good)), theirs[is_good]
    is_data = ~values(good, "is_control")

    def total(weights: Array | None = None, which: Array | None = None) -> Array:
        which = np.ones(len(rows), bool) if which is None else which
        totals = np.bincount(rows[which], None if weights is None else weights[which], size)
        return totals[own].astype(np.int64)

    times = np.full((2, size), -1, np.int64)
    times[0][rows[::-1]] = values(good, "base_timestamp")[::-1]
    times[1][rows] = values(good, "max_timestamp")
    columns = {
        **names,
        "bytes": pa.array([each.size for each in listed], pa.int64()),
        "batches": total(),
        "records": total(values(good, "count"), is_data),
        "transactional_bytes": total(values(good, "size"), is_data & values(good, "is_transactional")),
        "control_batches": total(None, ~is_data),
        "compressed_bytes": total(values(good, "size"), (values(good, "attributes") & CODEC_MASK) != 0),
        "faults": np.bincount(theirs[~is_good], minlength=size)[own],
        "first_timestamp": times[0][own],
        "last_timestamp": times[1][own],
    }
    return pa.table(columns, schema=SEGMENTS)
