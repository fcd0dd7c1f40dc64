"""Collect the evidence for a finding: nearby batches, the coordinator's records, and the rest of the transaction."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stuntbroker.pipeline.arrays import Array
from stuntbroker.pipeline.audit.findings import Finding
from stuntbroker.pipeline.audit.grouping import codes_of_both

LISTED_MAX: Final = 1_000
"""Findings in the table."""
SECTIONS_MAX: Final = 120
"""Findings with a section of their own."""
AROUND: Final = 3
PIECES_MAX: Final = 8

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Rows of BATCHES, TXN_STATE and TRANSACTIONS; `is_it` is true in the rows of the finding itself.

    `left_out` of a batch or record: number of omitted rows between it and the previous row, -1 if unknown.
    """

    batches: tuple[Row, ...] = ()
    records: tuple[Row, ...] = ()
    pieces: tuple[Row, ...] = ()


def chosen(findings: pa.Table, most: int, each: int) -> list[int]:
    """Return at most `most` row numbers of `findings`, in order, preferring the first `each` findings of every kind."""
    if len(findings) <= most:
        return list(range(len(findings)))
    rank: dict[str, int] = {}
    keys = []
    for at, kind in enumerate(findings["kind"].to_pylist()):
        seen = rank[kind] = rank.get(kind, -1) + 1
        keys.append((seen // each, at))
    return sorted(at for _, at in sorted(keys)[:most])


@dataclass(frozen=True, slots=True)
class Sources:
    """Tables to search for evidence."""

    batches: pa.Table
    """Rows of BATCHES, either of whole segments or with a column `number`, their row number in the segment."""
    txn_state: pa.Table
    """All records of the ids that have findings, or at least the last record of each."""
    transactions: pa.Table
    has_all_records: bool


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Finds the evidence of findings one by one; the batches are sorted only once."""

    sources: Sources
    order: Array
    """Rows of the batches by partition, segment and position."""
    starts: dict[tuple[str, int], tuple[int, int]]
    """Partition -> its range (start, stop) in `order`."""
    _states: dict[Any, pa.Table] = field(default_factory=dict)

    @classmethod
    def of(cls, sources: Sources, findings: Iterable[Finding]) -> Neighbours:
        """Return a searcher for the partitions that these findings name."""
        named = sorted(
            {
                (finding["topic"], finding["partition"])
                for finding in findings
                if None not in (finding["topic"], finding["partition"])
            }
        )
        places = (pa.array([t for t, _ in named], pa.string()), pa.array([p for _, p in named], pa.int32()))
        theirs, wanted = codes_of_both((sources.batches["topic"], sources.batches["partition"]), places)
        rows = np.flatnonzero(np.isin(theirs, wanted))
        some = sources.batches.select(["position", "segment_base_offset"]).take(pa.array(rows))
        order = rows[np.lexsort((some["position"].to_numpy(), some["segment_base_offset"].to_numpy(), theirs[rows]))]
        low, high = (np.searchsorted(theirs[order], wanted, side) for side in ("left", "right"))
        return cls(sources, order, dict(zip(named, zip(low.tolist(), high.tolist(), strict=True), strict=True)))

    def evidence_of(self, finding: Finding) -> Evidence:
        """Return what lies around a finding: batches, coordinator records and transactions."""
        records, time_ms = self.records_of(finding)
        return Evidence(self._batches(finding, time_ms), records, self._pieces(finding, time_ms))

    def records_of(self, finding: Finding) -> tuple[tuple[Row, ...], int | None]:
        """Return (the id's records around the finding, update time in ms of the best match)."""
        rows = self._state_of(finding["transactional_id"], finding["producer_id"])
        if not len(rows):
            return (), None
        offset, epoch = rows["log_offset"].to_numpy(), rows["producer_epoch"].to_numpy()
        if finding["log_offset"] is not None:
            best = np.flatnonzero(offset == finding["log_offset"])
        elif finding["producer_epoch"] is not None:
            mine = rows["producer_id"].to_numpy() == finding["producer_id"]
            best = np.flatnonzero(mine & (epoch == finding["producer_epoch"]))
        else:
            best = np.arange(len(rows))[-1:]
        anchor = int(best[-1]) if len(best) else len(rows) - 1
        wanted = [*range(anchor - AROUND, anchor + AROUND + 2), len(rows) - 1]
        picked = _window(rows, wanted, {anchor} if len(best) else set())
        for row in picked:
            row["lists_it"] = {"topic": finding["topic"], "partition": finding["partition"]} in row["partitions"]
            row["partitions"] = len(row["partitions"])
        return tuple(picked), int(rows["update_ms"][anchor].as_py()) if len(best) else None

    def _state_of(self, name: str | None, pid: int | None) -> pa.Table:
        key = name if name is not None else pid
        if key is None:
            return self.sources.txn_state.slice(0, 0)
        if key not in self._states:
            column = "transactional_id" if name is not None else "producer_id"
            self._states[key] = self.sources.txn_state.filter(pc.equal(self.sources.txn_state[column], key))
        return self._states[key]

    def _batches(self, finding: Finding, time_ms: int | None) -> tuple[Row, ...]:
        low, high = self.starts.get((finding["topic"], finding["partition"]), (0, 0))
        if low == high:
            return ()
        rows = self.sources.batches.take(pa.array(self.order[low:high]))
        about = _about(finding, rows, time_ms)
        if not len(about):
            return ()
        ends = {int(about[0]), int(about[-1])}
        wanted = [at + step for at in ends for step in range(-AROUND, AROUND + 1)]
        return tuple(_window(rows, wanted, set(about.tolist())))

    def _pieces(self, finding: Finding, time_ms: int | None) -> tuple[Row, ...]:
        """Return the parts of the producer's transaction in all partitions; those nearest in time if epochs are ambiguous."""
        if finding["producer_id"] is None or finding["producer_epoch"] is None:
            return ()
        table = self.sources.transactions
        table = table.filter(pc.equal(table["producer_id"], finding["producer_id"]))
        epoch, marked = table["last_epoch"].to_numpy(), table["marker_epoch"].to_numpy()
        # From transaction version 2 on, the epoch of a decision is one above the epoch of its data.
        is_open = pc.equal(table["marker"], "open").to_numpy()
        named_epoch = int(finding["producer_epoch"])
        rows = table.filter(
            pa.array((epoch == named_epoch) | (marked == named_epoch) | (is_open & (epoch == named_epoch - 1)))
        )
        picked: list[Row] = rows.to_pylist() if len(rows) <= 10_000 else rows.slice(len(rows) - 10_000).to_pylist()
        for row in picked:
            there = (row["topic"], row["partition"]) == (finding["topic"], finding["partition"])
            begin = row["first_offset"] if row["first_offset"] >= 0 else row["marker_offset"]
            row["is_it"] = there and finding["first_offset"] in (None, begin)
            row["far"] = 0 if time_ms is None else abs(max(row["marker_timestamp"], row["first_timestamp"]) - time_ms)
        picked.sort(key=lambda row: (not row["is_it"], row["far"]))
        return tuple(sorted(picked[:PIECES_MAX], key=lambda row: (row["topic"], row["partition"], row["first_offset"])))


def _about(finding: Finding, rows: pa.Table, time_ms: int | None) -> Array:
    """Return the row numbers of the batches that the finding is about; `rows` are a partition's batches in file order."""
    base, last = (pc.fill_null(rows[name], -1).to_numpy() for name in ("base_offset", "last_offset"))
    here = np.ones(len(rows), bool)
    if finding["file"]:
        in_file = rows["segment_base_offset"].to_numpy() == int(finding["file"].rpartition("/")[2].partition(".")[0])
        here = in_file if in_file.any() else here
    pid = pc.fill_null(rows["producer_id"], -1).to_numpy()
    owned = pid == finding["producer_id"] if finding["producer_id"] is not None else np.ones(len(rows), bool)
    if finding["file_position"] is not None:
        chosen = np.flatnonzero(here & (rows["position"].to_numpy() == finding["file_position"]))
    elif finding["first_offset"] is not None:
        until = finding["last_offset"] if finding["last_offset"] is not None else finding["first_offset"]
        chosen = np.flatnonzero(owned & (base >= 0) & (base <= until) & (last >= finding["first_offset"]))
    elif finding["last_offset"] is not None:  # Everything up to this offset is gone: show the first batch after it.
        chosen = np.flatnonzero(base > finding["last_offset"])[:1]
    elif time_ms is not None:
        # For `marker_contradicts` show the nearest marker, else the nearest batch.
        may_contradict = pc.fill_null(rows["is_control"], False).to_numpy() | (finding["kind"] != "marker_contradicts")
        mine = np.flatnonzero(owned & may_contradict)
        time = pc.fill_null(rows["max_timestamp"], 0).to_numpy()[mine]
        chosen = mine[np.argsort(np.abs(time - time_ms), kind="stable")[:1]]
    else:
        chosen = np.empty(0, np.int64)
    return chosen


def _window(rows: pa.Table, wanted: Iterable[int], about: set[int]) -> list[Row]:
    """Return the wanted rows that exist, with `is_it` and `left_out` added."""
    numbers = sorted({at for at in wanted if 0 <= at < len(rows)})
    picked: list[Row] = rows.take(pa.array(numbers, pa.int64())).to_pylist()
    places = rows["number"].to_pylist() if "number" in rows.column_names else range(len(rows))
    before = None
    for row, at in zip(picked, numbers, strict=True):
        row["is_it"] = at in about
        row["left_out"] = 0 if before is None else places[at] - before - 1 if places[at] >> 40 == before >> 40 else -1
        before = places[at]
    return picked
