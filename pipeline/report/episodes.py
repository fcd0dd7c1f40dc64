"""Build the history of transactions, one row each: from the coordinator's records or, where these are gone, the partitions.

Each partition has only its own part of a transaction. From transaction version 2 on (KIP-890) every transaction has its own
epoch. Before that, parts with the same producer id and epoch are separated by their times, and where these overlap by
counting: the second part in a partition belongs to another transaction than the first. The count is therefore a lower bound.
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
from stuntbroker.protocol.transaction_states import COMPLETE, ONGOING, PREPARE_ABORT, PREPARE_COMMIT

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
"""One row per transaction; `outcome` is one of OUTCOMES.

`decided_ms` is null before the decision, `end_ms` before the end, and `start_ms` if unknown. `marker_epoch` is -1 before the
decision. `source` is coordinator or partitions.
"""
OUTCOMES: Final = ("commit", "abort", "timeout", "open", "decided")
"""`timeout`: aborted by the coordinator. `decided`: the last record is Prepare, so markers may be missing."""

_TIME = pa.int64()


def episodes_of(transactions: pa.Table, txn_state: pa.Table, fencing: pa.Table) -> pa.Table:
    """Return rows of EPISODES, ordered by start time.

    `transactions` have ids, `txn_state` has at least the last record of every id, and `fencing` is complete.
    """
    timeouts = fencing.filter(pc.equal(fencing["reason"], "timeout"))
    recorded = _recorded_episodes(txn_state, timeouts)
    return pa.concat_tables([recorded, _seen(transactions, recorded, timeouts)]).sort_by("start_ms")


def _recorded_episodes(txn_state: pa.Table, timeouts: pa.Table) -> pa.Table:
    """Return the episodes in the coordinators' records."""
    if not len(txn_state):
        return EPISODES.empty_table()
    rows, same = by_transactional_id(txn_state)
    state = rows["state"].combine_chunks()
    ongoing, prepared, complete = (
        pc.is_in(state, pa.array(names)).to_numpy(zero_copy_only=False)
        for names in ([ONGOING], [PREPARE_COMMIT, PREPARE_ABORT], COMPLETE)
    )
    # An Empty record belongs to no transaction, even if it has a start time: that of the previous transaction.
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
    # The record with the markers' producer id and epoch: when epochs are exhausted, Complete has the next producer id.
    marked = np.where(decision >= 0, decision, at[last])
    done = complete[at[last]]
    unsure = prepared[at[last]]
    aborts = pc.match_substring(state, "Abort").to_numpy(zero_copy_only=False)[at[last]]
    marker_epoch = np.where(done | unsure, values(rows, "producer_epoch")[marked], -1)
    is_late = _is_timeout(values(rows, "producer_id")[marked], marker_epoch, timeouts)
    outcome = np.select([done & is_late, done & aborts, done, unsure], [2, 1, 0, 4], 3)
    kept = (outcome != 3) | ends_id[at[last]]  # Drop an Ongoing without an end if other records of its id follow.
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
    """Whether these producer ids and marker epochs come from aborts by time-out."""
    pairs, timed_out = codes_of_both(
        (producer, marker_epoch.astype(np.int64)),
        (timeouts["producer_id"], timeouts["producer_epoch"].cast(pa.int64())),
    )
    is_timeout: Array = np.isin(pairs, timed_out)
    return is_timeout


def _key(rows: Any) -> Array:
    """Return one number per position (partition and offset) in the transaction log."""
    key: Array = values(rows, "log_partition").astype(np.int64) << 48 | values(rows, "log_offset")
    return key


def _seen(transactions: pa.Table, recorded: pa.Table, timeouts: pa.Table) -> pa.Table:
    """Return the episodes that only the partitions have: older than the coordinator's records, or of unknown producers."""
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
    """Whether a transaction is older than all of the coordinator's records of its producer."""
    starts = values(recorded, "start_ms")
    by_start = np.argsort(-starts, kind="stable")  # `find` returns the last match: the oldest.
    row = find(values(recorded, "producer_id")[by_start], producer)
    known = row >= 0
    if not known.any():
        return ~known
    oldest = by_start[row]
    start, decided = starts[oldest], values(recorded, "marker_epoch")[oldest]
    # Within a millisecond, epochs decide: a marker has the same epoch as the data of the next transaction.
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
    """Return rows of FENCE_MARKS, the history of every id. A tombstone's time is null if `txn_state` lacks its record."""
    if not len(fencing):
        return FENCE_MARKS.empty_table()
    at = find(_key(txn_state), _key(fencing))
    written = txn_state["timestamp"].combine_chunks().take(pa.array(at, mask=at < 0))
    time = pc.if_else(pc.equal(fencing["state"], DEAD), written, fencing["update_ms"])
    columns = {name: fencing[name] for name in FENCE_MARKS.names if name != "time_ms"} | {"time_ms": time}
    return pa.table(columns).select(FENCE_MARKS.names).cast(FENCE_MARKS)
