"""Transactions in time, a row each: from the coordinator's records, and where those are not there, from the partitions.

The partitions know a transaction a piece at a time. From transaction version 2 on (KIP-890) each has an epoch of its own.
Before, pieces of one producer and epoch are told apart by their times, and where those overlap by counting: the second
piece in a partition is of another transaction than the first. So there may have been more than are counted.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stuntbroker.pipeline.arrays import Array
from stuntbroker.pipeline.audit.grouping import (
    by_transactional_id,
    codes,
    codes_of_both,
    find,
    follows,
    rank_in_group,
    running_max,
    values,
)
from stuntbroker.pipeline.audit.txn_log import DEAD

EPISODES: Final = pa.schema(
    {
        "transactional_id": pa.string(),
        "producer_id": pa.int64(),
        "producer_epoch": pa.int16(),
        "marker_epoch": pa.int16(),
        "start_ms": pa.int64(),
        "decided_ms": pa.int64(),
        "end_ms": pa.int64(),
        "outcome": pa.string(),
        "partitions": pa.int64(),
        "source": pa.string(),
    }
)
"""`outcome` is one of OUTCOMES. `decided_ms` and `end_ms` are null before that, `start_ms` when nobody knows it.

`marker_epoch` is -1 before the decision. `source` is coordinator or partitions.
"""
OUTCOMES: Final = ("commit", "abort", "timeout", "open", "decided")
"""timeout: aborted by the coordinator. decided: Prepare is the last record, so that markers may be missing."""

_TIME = pa.int64()


def episodes_of(transactions: pa.Table, txn_state: pa.Table, fencing: pa.Table) -> pa.Table:
    """Rows of EPISODES, by the time that they began.

    `transactions` have ids; `txn_state` are the records that there are, at least the last one of every id; `fencing` is whole.
    """
    timeouts = fencing.filter(pc.equal(fencing["reason"], "timeout"))
    recorded = _recorded_episodes(txn_state, timeouts)
    return pa.concat_tables([recorded, _seen(transactions, recorded, timeouts)]).sort_by("start_ms")


def _recorded_episodes(txn_state: pa.Table, timeouts: pa.Table) -> pa.Table:
    """What the coordinators say."""
    if not len(txn_state):
        return EPISODES.empty_table()
    rows, same = by_transactional_id(txn_state)
    state = rows["state"].combine_chunks()
    ongoing, prepared, complete = (
        pc.is_in(state, pa.array(names)).to_numpy(zero_copy_only=False)
        for names in (["Ongoing"], ["PrepareCommit", "PrepareAbort"], ["CompleteCommit", "CompleteAbort"])
    )
    # Empty after a transaction has no part in it, but an Empty may have a start: it is that of the one before.
    in_episode = (ongoing | prepared | complete) & (values(rows, "start_ms") >= 0)
    at = np.flatnonzero(in_episode)
    if not len(at):
        return EPISODES.empty_table()
    before = np.roll(np.where(in_episode, np.where(ongoing, 1, np.where(prepared, 2, 3)), 0), 1)
    now = np.where(ongoing, 1, np.where(prepared, 2, 3))
    begins = (~same | (before == 0) | (before == 3) | (before > now))[at]
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(at)) - 1
    ends_id = np.append(~same[1:], True)
    update = values(rows, "update_ms")
    is_prepare = prepared[at]
    decision = np.full(len(first), -1, np.int64)
    decision[(np.cumsum(begins) - 1)[is_prepare]] = at[is_prepare]
    decided = np.where(decision >= 0, update[decision], -1)
    # The record with what the markers bear: when epochs are used up, Complete already has the next pair.
    marked = np.where(decision >= 0, decision, at[last])
    done = complete[at[last]]
    unsure = prepared[at[last]]
    aborts = pc.match_substring(state, "Abort").to_numpy(zero_copy_only=False)[at[last]]
    marker_epoch = np.where(done | unsure, values(rows, "producer_epoch")[marked], -1)
    is_late = _is_timeout(values(rows, "producer_id")[marked], marker_epoch, timeouts)
    outcome = np.select([done & is_late, done & aborts, done, unsure], [2, 1, 0, 4], 3)
    kept = (outcome != 3) | ends_id[at[last]]  # An Ongoing that the id has left without an end is nobody's any more.
    listed = pc.fill_null(pc.list_value_length(rows["partitions"].combine_chunks()), 0).to_numpy()
    table = pa.table(
        [
            rows["transactional_id"].combine_chunks().take(pa.array(at[first])),
            values(rows, "producer_id")[at[first]],
            values(rows, "producer_epoch")[at[first]],
            marker_epoch,
            values(rows, "start_ms")[at[first]],
            pa.array(decided, _TIME, mask=decided < 0),
            pa.array(update[at[last]], _TIME, mask=~done),
            pa.array(np.array(OUTCOMES)[outcome], pa.string()),
            np.maximum.reduceat(listed[at], first).astype(np.int64),
            pa.repeat("coordinator", len(first)),
        ],
        schema=EPISODES,
    )
    return table.filter(pa.array(kept))


def _is_timeout(producer: Array, marker_epoch: Array, timeouts: pa.Table) -> Array:
    """Whether the markers of an abort bear what a time-out gave."""
    pairs, timed_out = codes_of_both(
        (producer, marker_epoch.astype(np.int64)),
        (timeouts["producer_id"], timeouts["producer_epoch"].cast(pa.int64())),
    )
    is_timeout: Array = np.isin(pairs, timed_out)
    return is_timeout


def _key(rows: Any) -> Array:
    """A number for a place in the transaction log."""
    key: Array = values(rows, "log_partition").astype(np.int64) << 48 | values(rows, "log_offset")
    return key


def _seen(transactions: pa.Table, recorded: pa.Table, timeouts: pa.Table) -> pa.Table:
    """What only the partitions have: before the coordinator's oldest record of the producer, or of nobody."""
    producer, marker = values(transactions, "producer_id"), transactions["marker"].combine_chunks()
    is_open = pc.equal(marker, "open").to_numpy(zero_copy_only=False)
    began, ended = values(transactions, "first_timestamp"), values(transactions, "marker_timestamp")
    began = np.where(began < 0, ended, began)
    epoch = np.where(is_open, values(transactions, "last_epoch"), values(transactions, "marker_epoch"))
    unfinished = recorded.filter(pc.is_in(recorded["outcome"], pa.array(["open", "decided"])))
    hidden = np.where(
        is_open, ~np.isin(producer, values(unfinished, "producer_id")), _is_older(producer, epoch, ended, recorded)
    )
    at = np.flatnonzero(hidden & (values(transactions, "first_offset") >= 0))  # A marker alone ends nothing.
    if not len(at):
        return EPISODES.empty_table()
    kind = codes(marker)
    at = at[np.lexsort((began[at], kind[at], epoch[at], producer[at]))]
    over = np.where(is_open, np.iinfo(np.int64).max, np.maximum(ended, began))[at]
    same = follows(producer[at], epoch[at], kind[at])
    reached = np.empty(len(at), np.int64)
    reached[:1] = over[:1]
    reached[1:] = running_max(over, np.cumsum(~same))[:-1]
    chain = np.cumsum(~same | (began[at] > reached))
    rank = rank_in_group(codes(chain, codes(transactions["topic"], transactions["partition"])[at]))
    order = np.lexsort((rank, chain))
    at = at[order]
    first = np.flatnonzero(~follows(chain[order], rank[order]))
    end = np.maximum.reduceat(ended[at], first)
    until = pa.array(end, _TIME, mask=is_open[at[first]])
    kinds = marker.take(pa.array(at[first]))
    is_late = _is_timeout(producer[at[first]], epoch[at[first]], timeouts)
    names = pc.if_else(pc.and_(pa.array(is_late), pc.equal(kinds, "abort")), "timeout", kinds)
    return pa.table(
        [
            transactions["transactional_id"].combine_chunks().take(pa.array(at[first])),
            producer[at[first]],
            epoch[at[first]],
            np.where(is_open, -1, epoch)[at[first]],
            np.minimum.reduceat(began[at], first),
            until,
            until,
            names,
            np.diff(np.append(first, len(at))),
            pa.repeat("partitions", len(first)),
        ],
        schema=EPISODES,
    )


def _is_older(producer: Array, epoch: Array, ended: Array, recorded: pa.Table) -> Array:
    """Whether a transaction is from before all that the coordinator tells of its producer."""
    starts = values(recorded, "start_ms")
    by_start = np.argsort(-starts, kind="stable")  # The last one counts: the oldest.
    row = find(values(recorded, "producer_id")[by_start], producer)
    known = row >= 0
    if not known.any():
        return ~known
    oldest = by_start[row]
    start, decided = starts[oldest], values(recorded, "marker_epoch")[oldest]
    # In the same millisecond epochs tell: a marker has the epoch that the data of the next transaction has.
    before = np.where(decided < 0, epoch <= values(recorded, "producer_epoch")[oldest], epoch < decided)
    is_older: Array = ~known | (ended < start) | ((ended == start) & before)
    return is_older


def finished(episodes: pa.Table) -> pa.Table:
    """Return the episodes that have ended."""
    return episodes.filter(pc.is_valid(episodes["end_ms"]))


FENCE_MARKS: Final = pa.schema(
    {
        "transactional_id": pa.string(),
        "time_ms": pa.int64(),
        "reason": pa.string(),
        "producer_id": pa.int64(),
        "producer_epoch": pa.int16(),
        "before_producer_id": pa.int64(),
        "before_producer_epoch": pa.int16(),
    }
)


def fence_marks_of(fencing: pa.Table, txn_state: pa.Table) -> pa.Table:
    """Rows of FENCE_MARKS: the history of every id. A tombstone's time is null when its record is not among `txn_state`."""
    if not len(fencing):
        return FENCE_MARKS.empty_table()
    at = find(_key(txn_state), _key(fencing))
    written = txn_state["timestamp"].combine_chunks().take(pa.array(at, mask=at < 0))
    time = pc.if_else(pc.equal(fencing["state"], DEAD), written, fencing["update_ms"])
    columns = {name: fencing[name] for name in FENCE_MARKS.names if name != "time_ms"} | {"time_ms": time}
    return pa.table(columns).select(FENCE_MARKS.names).cast(FENCE_MARKS)
