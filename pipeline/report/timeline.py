"""Compute the timeline: a lane per transactional id, bars for its transactions, marks for its fences and epoch bumps.

A screen is about a thousand pixels wide. If an id has more transactions than can be distinguished there, those with the same
outcome that began in the same slice of time are merged into one bar with a count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stuntbroker.pipeline.arrays import Array
from stuntbroker.pipeline.audit.grouping import codes, values
from stuntbroker.pipeline.report.episodes import OUTCOMES
from stuntbroker.pipeline.report.text import USABLE_MS, shown

LANES_MAX: Final = 24
SLICES: Final = 100
APART_MAX: Final = 40
"""Maximum transactions of one id and outcome that are drawn individually."""
MARKS_MAX: Final = 1_000
FEW_MARKS: Final = 30


@dataclass(frozen=True, slots=True)
class Bar:
    """One transaction, or `count` of them that began in the same slice. Times in milliseconds."""

    lane: int
    outcome: str
    start_ms: int
    decided_ms: int
    """-1 before the decision and for a merged bar."""
    end_ms: int
    count: int
    partitions: int
    producer_id: int
    producer_epoch: int
    is_merged: bool
    longest_ms: int
    share: float
    """Merged bars: share of the lane's merged transactions that began in this slice; else 1."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A fence, an epoch change or an end on the timeline. `before` and `after` are (producer id, epoch)."""

    lane: int
    reason: str
    time_ms: int
    count: int
    after: tuple[int, int]
    before: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Timeline:
    """Contents of the timeline, and how much was left out."""

    lanes: tuple[str, ...]
    """Names of the lanes, safe to display, from top to bottom."""
    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...]
    lanes_hidden: int
    transactions_hidden: int
    transactions_merged: int
    marks_hidden: int


def lane_names(table: pa.Table) -> pa.Array:
    """Return the owner of each row: its transactional id, or its producer id if no transactional id is known."""
    nameless = pc.binary_join_element_wise("producer ", pc.cast(table["producer_id"], pa.string()), "")
    return pc.coalesce(table["transactional_id"], nameless).combine_chunks()


def timeline_of(episodes: pa.Table, marks: pa.Table, findings: pa.Table, newest_ms: int) -> Timeline:
    """Return the timeline of rows of EPISODES and FENCE_MARKS; open transactions extend to `newest_ms`."""
    start = values(episodes, "start_ms")
    rows = episodes.filter(pa.array((start >= 0) & (start < USABLE_MS)))
    if not len(rows):
        return Timeline((), (), (), 0, 0, 0, 0)
    names = lane_names(rows)
    encoded = names.dictionary_encode()
    owner = encoded.indices.to_numpy().astype(np.int64)
    order = _lane_order(encoded.dictionary.to_pylist(), owner, rows, findings)
    lanes = order[:LANES_MAX]
    lane_of = np.full(len(order), -1, np.int64)
    lane_of[lanes] = np.arange(len(lanes))
    lane = lane_of[owner]
    kept = np.flatnonzero(lane >= 0)
    bars = _bars(rows.take(pa.array(kept)), lane[kept], newest_ms)
    chosen = [encoded.dictionary[int(number)].as_py() for number in lanes]
    signs, signs_hidden = _marks(marks, chosen)
    return Timeline(
        tuple(shown(name, 60) for name in chosen),
        tuple(bars),
        tuple(signs),
        len(order) - len(lanes),
        len(rows) - len(kept),
        sum(bar.count for bar in bars if bar.is_merged),
        signs_hidden,
    )


def _lane_order(names: list[str], owner: Array, rows: pa.Table, findings: pa.Table) -> Array:
    """Order lanes: by worst finding, then open transactions first, then by number of aborts and of transactions."""
    worst = {"error": 2, "warning": 1}
    trouble = np.zeros(len(names), np.int64)
    index = {name: at for at, name in enumerate(names)}
    columns = (findings[name].to_pylist() for name in ("transactional_id", "producer_id", "severity"))
    for name, pid, severity in zip(*columns, strict=True):
        at = index.get(name if name is not None else f"producer {pid}")
        if at is not None:
            trouble[at] = max(trouble[at], worst.get(severity, 0))
    outcome = rows["outcome"]
    stuck = pc.is_in(outcome, pa.array(["open", "decided"])).to_numpy()
    lost = pc.is_in(outcome, pa.array(["abort", "timeout"])).to_numpy()
    total = np.bincount(owner, minlength=len(names))
    stuck, lost = (np.bincount(owner, which, len(names)) for which in (stuck, lost))
    order: Array = np.lexsort((-total, -lost, stuck == 0, -trouble))
    return order


def _bars(rows: pa.Table, lane: Array, newest_ms: int) -> list[Bar]:
    start, end = values(rows, "start_ms"), _filled(rows["end_ms"], newest_ms)
    end = np.maximum(np.minimum(end, USABLE_MS), start)
    low, high = int(start.min()), int(end.max())
    width = max((high - low) / SLICES, 1.0)
    outcome = pc.index_in(rows["outcome"], pa.array(OUTCOMES)).to_numpy()
    group = lane * len(OUTCOMES) + outcome
    crowded = np.bincount(group)[group] > APART_MAX
    merged = crowded & (end - start < width)
    slices = ((start - low) / width).astype(np.int64)
    # A bar that is not merged gets a unique negative key.
    key = np.where(merged, (group * (SLICES + 2) + slices), -1 - np.arange(len(start)))
    order = np.argsort(key, kind="stable")
    first = np.flatnonzero(np.append(True, key[order][1:] != key[order][:-1]))
    count = np.diff(np.append(first, len(order)))
    at = order[first]
    decided = np.where(count == 1, _filled(rows["decided_ms"], -1)[at], -1)
    together = np.bincount((lane * (SLICES + 2) + slices)[merged], minlength=int(lane.max() + 1) * (SLICES + 2))
    share = np.where(merged[at] & (count > 1), count / np.maximum(together[(lane * (SLICES + 2) + slices)[at]], 1), 1.0)
    ends, longest = (np.maximum.reduceat(column[order], first) for column in (end, end - start))
    columns: list[Any] = [
        lane[at],
        np.array(OUTCOMES)[outcome[at]],
        np.minimum.reduceat(start[order], first),
        decided,
        ends,
        count,
        np.maximum.reduceat(values(rows, "partitions")[order], first),
        values(rows, "producer_id")[at],
        values(rows, "producer_epoch")[at],
        merged[at] & (count > 1),
        longest,
        share,
    ]
    return [Bar(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def _filled(column: pa.ChunkedArray, otherwise: int) -> Array:
    filled: Array = pc.fill_null(column, otherwise).to_numpy()
    return filled


def _marks(marks: pa.Table, lanes: list[str]) -> tuple[list[Mark], int]:
    """Return (marks, number of marks left out): marks are merged by slice of time; epoch bumps at an end are dropped first."""
    lane = pc.index_in(marks["transactional_id"], pa.array(lanes, pa.string()))
    time = marks["time_ms"]
    usable = pc.and_(
        pc.fill_null(pc.and_(pc.greater_equal(time, 0), pc.less(time, USABLE_MS)), False), pc.is_valid(lane)
    )
    rows = marks.append_column("lane", lane).filter(usable).combine_chunks()
    if not len(rows):
        return [], 0
    time = values(rows, "time_ms")
    lane = values(rows, "lane").astype(np.int64)
    reasons = rows["reason"].combine_chunks().dictionary_encode()
    reason = reasons.indices.to_numpy().astype(np.int64)
    group = codes(lane, reason)
    width = max((int(time.max()) - int(time.min())) / (SLICES / 2), 1.0)
    crowded = np.bincount(group)[group] > FEW_MARKS
    slices = np.where(crowded, ((time - time.min()) / width).astype(np.int64), -1 - np.arange(len(time)))
    order = np.lexsort((slices, group))
    begins = np.append(True, (group[order][1:] != group[order][:-1]) | (slices[order][1:] != slices[order][:-1]))
    first = np.flatnonzero(begins)
    count, at = np.diff(np.append(first, len(order))), order[first]
    numbers = (
        values(rows, name)[at].tolist()
        for name in ("producer_id", "producer_epoch", "before_producer_id", "before_producer_epoch")
    )
    names = reasons.take(pa.array(at)).to_pylist()
    listed = [
        Mark(lane_number, name, when, number, (pid, epoch), (old_pid, old_epoch))
        for lane_number, name, when, number, pid, epoch, old_pid, old_epoch in zip(
            lane[at].tolist(), names, time[at].tolist(), count.tolist(), *numbers, strict=True
        )
    ]
    listed.sort(key=lambda mark: mark.reason == "end")
    return listed[:MARKS_MAX], sum(mark.count for mark in listed[MARKS_MAX:])
