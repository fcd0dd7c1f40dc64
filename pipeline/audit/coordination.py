"""Findings that need both sides: what the coordinators decided, and what the partitions were told.

A decision is a Prepare record: it lists the partitions that must get a marker with its producer id and epoch. One
producer id and epoch can have many decisions (before KIP-890), so decisions and markers of a partition are counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stuntbroker.pipeline.audit.findings import ERROR, INFORMATION, WARNING, Finding, file_of, finding, rows_at
from stuntbroker.pipeline.audit.grouping import codes, codes_of_both, find, follows, last_rows, values
from stuntbroker.pipeline.audit.lock_step import Array
from stuntbroker.pipeline.audit.txn_log import TIMEOUT_NONE

SWEEP_MS: Final = 10_000
"""How much longer than its time-out a transaction may live: brokers look for them at this interval."""
PREPARED: Final = {"PrepareCommit": "commit", "PrepareAbort": "abort"}


@dataclass(frozen=True, slots=True)
class Coordination:
    """Findings of this module, made from three tables; `transactions` have ids, `txn_state` is in order."""

    transactions: pa.Table
    txn_state: pa.Table
    bounds: pa.Table

    def findings(self, now_ms: int) -> list[Finding]:
        """`now_ms` is the time that ages are told at: the end of the log, or the time of the audit."""
        opened = np.flatnonzero(pc.equal(self.transactions["marker"], "open").to_numpy())
        last = self.txn_state.take(pa.array(last_rows(codes(self.txn_state["transactional_id"]))))
        added = self._added(opened, last)
        found, explained = self._unmarked(opened[~added])
        kept = ~np.isin(opened, explained)
        return found + self._open(opened[kept], added[kept], last, now_ms)

    def _added(self, opened: Array, last: pa.Table) -> Array:
        """Which of the open transactions their coordinator has, with the epoch and partition of their data."""
        rows, ongoing = self.transactions.take(pa.array(opened)), _listed(last, ("Ongoing",))
        there, listed = codes_of_both(
            (rows["topic"], rows["partition"], rows["producer_id"], rows["last_epoch"]),
            tuple(ongoing[name] for name in ("topic", "partition", "producer_id", "producer_epoch")),
        )
        found: Array = np.isin(there, listed)
        return found

    def _unmarked(self, opened: Array) -> tuple[list[Finding], Array]:
        """(findings, which of these transactions they are about): decisions that a partition has no marker of."""
        decisions = _listed(self.txn_state, tuple(PREPARED))
        places, known = codes_of_both(
            (decisions["topic"], decisions["partition"]), (self.bounds["topic"], self.bounds["partition"])
        )
        # Not a deleted topic's, or another broker's: the coordinator drops these from its list too.
        here = np.isin(places, known)
        decisions, bound = decisions.filter(pa.array(here)), find(known, places[here])
        missing, told = self._balance(decisions)
        rest = self.transactions.take(pa.array(opened))
        names = ("topic", "partition", "producer_id")
        mine, theirs = codes_of_both(tuple(decisions[n] for n in names), tuple(rest[n] for n in names))
        data = find(theirs, mine)
        fits = data >= 0
        if len(opened):
            fits &= values(rest, "producer_epoch")[data] <= values(decisions, "producer_epoch")
        key = codes(mine, decisions["producer_epoch"], decisions["marker"])
        from_end, from_start = _rank(key[::-1])[::-1], _rank(key)
        newest = fits & (missing > 0) & (from_end == 0) & ~told
        short = newest | (from_start < missing - np.bincount(key, newest, len(key) + 1)[key])
        damaged = values(self.bounds, "is_damaged")[bound]
        cut = ~newest & ~told & (damaged | self._cut_off(bound, values(decisions, "update_ms")))
        found = self._unknown(decisions, short & cut, bound)
        for at in np.flatnonzero(short & ~cut & ~(newest & damaged)).tolist():
            (row,) = rows_at(decisions, [at])
            (about,) = rows_at(rest, [data[at]]) if newest[at] else [None]
            found.append(_unmarked(row, about, bool(told[at])))
        return found, opened[data[newest]]

    def _balance(self, decisions: pa.Table) -> tuple[Array, Array]:
        """(how many markers are missing, whether there are too many of the other kind), with the epoch of each."""
        marks = self.transactions.filter(pc.not_equal(self.transactions["marker"], "open"))
        names = ("topic", "partition", "producer_id")
        mine, theirs = codes_of_both(
            (*(decisions[n] for n in names), decisions["producer_epoch"]), (*(marks[n] for n in names), marks["marker_epoch"])
        )
        size = int(max(mine.max(initial=-1), theirs.max(initial=-1))) + 1
        commits, says = (pc.equal(table["marker"], "commit").to_numpy() for table in (decisions, marks))
        commit, abort = (
            np.bincount(mine[commits == kind], minlength=size) - np.bincount(theirs[says == kind], minlength=size)
            for kind in (True, False)
        )
        return np.where(commits, commit[mine], abort[mine]), np.where(commits, abort[mine], commit[mine]) < 0

    def _cut_off(self, bound: Array, decided_ms: Array) -> Array:
        """Whether a marker of that time may have been before what there is to see. Markers have the broker's time."""
        place, own = codes_of_both(
            (self.transactions["topic"], self.transactions["partition"]), (self.bounds["topic"], self.bounds["partition"])
        )
        row, from_offset = find(own, place), values(self.bounds, "known_from")
        offset, time = values(self.transactions, "marker_offset"), values(self.transactions, "marker_timestamp")
        seen = (offset >= 0) & (row >= 0) & (offset >= from_offset[row])
        earliest = np.full(len(self.bounds), np.iinfo(np.int64).max)
        np.minimum.at(earliest, row[seen], time[seen])
        found: Array = (from_offset[bound] > 0) & (decided_ms <= earliest[bound])
        return found

    def _unknown(self, decisions: pa.Table, unknown: Array, bound: Array) -> list[Finding]:
        counts = np.bincount(bound[unknown], minlength=len(self.bounds))
        return [
            finding(
                "unknown_before", INFORMATION, row,
                f"{counts[at]} decisions list the partition, whose markers would have been before offset {row['known_from']}",
                last_offset=row["known_from"] - 1,
            )
            for at, row in zip(np.flatnonzero(counts).tolist(), rows_at(self.bounds, np.flatnonzero(counts)), strict=True)
        ]  # fmt: skip

    def _open(self, opened: Array, added: Array, last: pa.Table, now_ms: int) -> list[Finding]:
        """What keeps transactions without a marker open."""
        if not len(opened):
            return []
        ids = {row["transactional_id"]: row for row in last.drop_columns(["partitions"]).to_pylist()}
        bounds = {(row["topic"], row["partition"]): row for row in self.bounds.to_pylist()}
        found = []
        for row, is_added in zip(rows_at(self.transactions, opened), added.tolist(), strict=True):
            bound = bounds[row["topic"], row["partition"]]
            behind = f"offsets {row['first_offset']} to {bound['log_end_offset'] - 1} wait for it"
            state = ids.get(row["transactional_id"])
            if is_added and state is not None:
                found += _held(row, state, behind, now_ms)
            elif not bound["is_damaged"]:  # Else the marker may be in the piece that is broken, which is told already.
                found.append(_hanging(row, state, behind))
        return found


def _rank(key: Array) -> Array:
    """How many rows with the same key are before each."""
    order = np.argsort(key, kind="stable")
    first = np.flatnonzero(~follows(key[order]))
    found = np.empty(len(key), np.int64)
    found[order] = np.arange(len(key)) - np.repeat(first, np.diff(np.append(first, len(key))))
    return found


def _unmarked(decision: Finding, data: Finding | None, told_otherwise: bool) -> Finding:
    """A decision that a partition has no marker of, and the transaction that waits for it."""
    text = f"{decision['state']} at offset {decision['log_offset']} of the transaction log lists the partition"
    if told_otherwise:
        other = "abort" if decision["marker"] == "commit" else "commit"
        text = f"{text}, which has the marker of an {other} with epoch {decision['producer_epoch']}"
        return finding("marker_contradicts", ERROR, decision, text)
    span: Finding = {}
    if data is not None:
        span = {"first_offset": data["first_offset"], "last_offset": data["last_offset"], "file": file_of(data)}
    if decision["is_last"]:
        return finding("marker_pending", WARNING, decision, f"{text}, which has no marker yet", **span)
    return finding("marker_missing", ERROR, decision, f"{text}, which has no marker for it", **span)


def _held(row: Finding, state: Finding, behind: str, now_ms: int) -> list[Finding]:
    """An open transaction that its coordinator knows of."""
    age_ms = now_ms - state["start_ms"]
    if state["timeout_ms"] == TIMEOUT_NONE:
        return [finding("open_two_phase", WARNING, row, f"open for {age_ms} ms without a time-out; {behind}")]
    if age_ms > state["timeout_ms"] + SWEEP_MS:
        text = f"open for {age_ms} ms with a time-out of {state['timeout_ms']} ms; {behind}"
        return [finding("overdue", WARNING, row, text)]
    return []


def _hanging(row: Finding, state: Finding | None, behind: str) -> Finding:
    if state is None or state["producer_id"] < 0:
        why = "no transactional id has this producer id"
    elif state["state"] == "Ongoing":
        why = "the transaction that is open has another epoch" if state["producer_epoch"] != row["last_epoch"] else (
            "the partition was never added to the transaction"
        )  # fmt: skip
    else:
        why = f"its coordinator has {state['state']} with producer id {state['producer_id']}, epoch {state['producer_epoch']}"
    return finding("hanging", ERROR, row, f"{why}; {behind}")


def _listed(txn_state: pa.Table, states: tuple[str, ...]) -> pa.Table:
    """A row for every partition that records in these states list, in order; `marker` is what they decide.

    `is_last`: no newer record of the id follows.
    """
    is_last = np.zeros(len(txn_state), bool)
    is_last[last_rows(codes(txn_state["transactional_id"]))] = True
    rows = txn_state.append_column("is_last", pa.array(is_last))
    rows = rows.filter(pc.is_in(rows["state"], pa.array(states)))
    lists = rows["partitions"].combine_chunks()
    parents, flat = pc.list_parent_indices(lists), pc.list_flatten(lists)
    kept: Any = rows.drop_columns(["partitions"]).take(parents)
    names = kept["state"].combine_chunks()
    decided = pc.case_when(pc.make_struct(*(pc.equal(names, n) for n in PREPARED)), *map(pa.scalar, PREPARED.values()))
    return (
        kept.append_column("topic", pc.struct_field(flat, "topic"))
        .append_column("partition", pc.struct_field(flat, "partition"))
        .append_column("marker", decided)
    )
