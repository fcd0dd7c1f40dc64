"""Findings from comparing the coordinators' decisions with the markers in the partitions.

A decision is a Prepare record: it lists the partitions that must get a marker with its producer id and epoch. Before
KIP-890, one producer id and epoch can have many decisions, so decisions and markers of a partition are counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stuntbroker.pipeline.arrays import Array
from stuntbroker.pipeline.audit.findings import ERROR, INFORMATION, WARNING, Finding, file_of, finding, rows_at
from stuntbroker.pipeline.audit.grouping import codes, codes_of_both, find, last_rows, rank_in_group, values
from stuntbroker.pipeline.audit.transactions import TRANSACTIONS
from stuntbroker.pipeline.counting import count
from stuntbroker.protocol.topic_names import TXN_STATE as TXN_TOPIC
from stuntbroker.protocol.transaction_states import ONGOING, PREPARE_ABORT, PREPARE_COMMIT, TIMEOUT_NONE

SWEEP_MS: Final = 10_000
"""Time beyond its time-out that a transaction may stay open: the interval at which brokers abort timed-out transactions."""
PREPARED: Final = {PREPARE_COMMIT: "commit", PREPARE_ABORT: "abort"}

TXN_LOG_PARTITIONS: Final = pa.schema(
    {
        "topic": pa.string(),
        "partition": pa.int32(),
        "transactional_id": pa.string(),
        "producer_id": pa.int64(),
        "producer_epoch": pa.int16(),
        "state": pa.string(),
        "marker": pa.string(),
        "log_offset": pa.int64(),
        "update_ms": pa.int64(),
        "is_last": pa.bool_(),
    }
)
"""One row for every partition that a record of the transaction log lists.

`marker` is the decision, null before it. `is_last`: no newer record of the id follows.
"""
OPEN_TRANSACTIONS: Final = TRANSACTIONS.append(pa.field("is_added", pa.bool_()))
"""Open transactions; `is_added`: the transaction is Ongoing in the transaction log, with this epoch and partition."""


def listed_in(txn_state: pa.Table) -> pa.Table:
    """Return rows of TXN_LOG_PARTITIONS: all decisions, and ongoing transactions in the last record of an id.

    Records are in log order.
    """
    is_last = np.zeros(len(txn_state), bool)
    is_last[last_rows(codes(txn_state["transactional_id"]))] = True
    rows = txn_state.append_column("is_last", pa.array(is_last))
    ongoing = pc.and_(pc.equal(rows["state"], ONGOING), rows["is_last"])
    rows = rows.filter(pc.or_(pc.is_in(rows["state"], pa.array([*PREPARED])), ongoing))
    lists = rows["partitions"].combine_chunks()
    parents, flat = pc.list_parent_indices(lists), pc.list_flatten(lists)
    kept: Any = rows.drop_columns(["partitions"]).take(parents)
    names = kept["state"].combine_chunks()
    decided = pc.case_when(pc.make_struct(*(pc.equal(names, n) for n in PREPARED)), *map(pa.scalar, PREPARED.values()))
    pairs = {name: pc.struct_field(flat, name) for name in ("topic", "partition")}
    columns = (
        {name: kept[name] for name in TXN_LOG_PARTITIONS.names if name in kept.column_names}
        | pairs
        | {"marker": decided}
    )
    return pa.table([columns[name] for name in TXN_LOG_PARTITIONS.names], schema=TXN_LOG_PARTITIONS)


@dataclass(frozen=True, slots=True)
class Coordination:
    """Some partitions, all their transactions, and the rows of TXN_LOG_PARTITIONS for them, in transaction log order."""

    transactions: pa.Table
    listed: pa.Table
    bounds: pa.Table

    def findings(self) -> tuple[list[Finding], pa.Table]:
        """Return (findings that do not depend on the current time, rows of OPEN_TRANSACTIONS that these do not explain)."""
        opened = np.flatnonzero(pc.equal(self.transactions["marker"], "open").to_numpy())
        added = self._added(opened)
        findings, explained = self._unmarked(opened[~added])
        kept = ~np.isin(opened, explained)
        waiting = self.transactions.take(pa.array(opened[kept])).append_column("is_added", pa.array(added[kept]))
        return findings, waiting.cast(OPEN_TRANSACTIONS)

    def _added(self, opened: Array) -> Array:
        """Return a mask of the open transactions that are in the transaction log with the epoch and partition of their data."""
        rows = self.transactions.take(pa.array(opened))
        ongoing = self.listed.filter(pc.is_null(self.listed["marker"]))
        there, listed = codes_of_both(
            (rows["topic"], rows["partition"], rows["producer_id"], rows["last_epoch"]),
            tuple(ongoing[name] for name in ("topic", "partition", "producer_id", "producer_epoch")),
        )
        added: Array = np.isin(there, listed)
        return added

    def _unmarked(self, opened: Array) -> tuple[list[Finding], Array]:
        """Return (findings about decisions without a marker in a partition, the open transactions that they are about)."""
        decisions = self.listed.filter(pc.is_valid(self.listed["marker"]))
        places, known = codes_of_both(
            (decisions["topic"], decisions["partition"]), (self.bounds["topic"], self.bounds["partition"])
        )
        # Ignore partitions of deleted topics or other brokers; the coordinator drops deleted partitions too.
        here = np.isin(places, known)
        decisions, bound = decisions.filter(pa.array(here)), find(known, places[here])
        missing, balanced = self._balance(decisions)
        unmarked = self.transactions.take(pa.array(opened))
        names = ("topic", "partition", "producer_id")
        mine, theirs = codes_of_both(tuple(decisions[n] for n in names), tuple(unmarked[n] for n in names))
        data = find(theirs, mine)
        fits = data >= 0
        if len(opened):
            fits &= values(unmarked, "producer_epoch")[data] <= values(decisions, "producer_epoch")
        key = codes(mine, decisions["producer_epoch"], decisions["marker"])
        from_end, from_start = rank_in_group(key[::-1])[::-1], rank_in_group(key)
        # An open transaction whose decision is its id's last record certainly waits for it; no counting is needed. Before
        # KIP-890, markers may outnumber decisions, as decisions are compacted and markers are sent again.
        waits = fits & values(decisions, "is_last")
        newest = (from_end == 0) & (waits | (fits & (missing > 0) & ~balanced))
        balanced &= ~waits
        short = newest | (from_start < missing - np.bincount(key, newest, len(key) + 1)[key])
        damaged = values(self.bounds, "is_damaged")[bound]
        decided_ms = values(decisions, "update_ms")
        cut = (
            ~newest
            & ~balanced
            & (damaged | self._cut_off(bound, decided_ms) | self._belongs_to_earlier_topic(bound, decided_ms))
        )
        findings = self._unknown(short & cut, bound)
        for at in np.flatnonzero(short & ~cut & ~(newest & damaged)).tolist():
            (row,) = rows_at(decisions, [at])
            (about,) = rows_at(unmarked, [data[at]]) if newest[at] else [None]
            findings.append(_unmarked(row, about, bool(balanced[at])))
        return findings, opened[data[newest]]

    def _balance(self, decisions: pa.Table) -> tuple[Array, Array]:
        """Return (number of missing markers, whether the opposite marker is in excess and was written since) per decision.

        Decisions and markers are matched by partition, producer id and epoch.
        """
        marks = self.transactions.filter(pc.not_equal(self.transactions["marker"], "open"))
        names = ("topic", "partition", "producer_id")
        mine, theirs = codes_of_both(
            (*(decisions[n] for n in names), decisions["producer_epoch"]),
            (*(marks[n] for n in names), marks["marker_epoch"]),
        )
        size = int(max(mine.max(initial=-1), theirs.max(initial=-1))) + 1
        commits, says = (pc.equal(table["marker"], "commit").to_numpy() for table in (decisions, marks))
        commit, abort = (
            np.bincount(mine[commits == kind], minlength=size) - np.bincount(theirs[says == kind], minlength=size)
            for kind in (True, False)
        )
        latest = np.full((2, size), -1, np.int64)
        for kind in (True, False):
            np.maximum.at(latest[int(kind)], theirs[says == kind], values(marks, "marker_timestamp")[says == kind])
        since = latest[(~commits).astype(np.int64), mine] >= values(decisions, "update_ms")
        other = np.where(commits, abort[mine], commit[mine])
        return np.where(commits, commit[mine], abort[mine]), (other < 0) & since

    def _cut_off(self, bound: Array, decided_ms: Array) -> Array:
        """Whether a marker of that time may lie in the deleted part of the log. Markers have the broker's time."""
        place, own = codes_of_both(
            (self.transactions["topic"], self.transactions["partition"]),
            (self.bounds["topic"], self.bounds["partition"]),
        )
        row, from_offset = find(own, place), values(self.bounds, "known_from")
        offset, time = values(self.transactions, "marker_offset"), values(self.transactions, "marker_timestamp")
        seen = (offset >= 0) & (row >= 0) & (offset >= from_offset[row])
        earliest = np.full(len(self.bounds), np.iinfo(np.int64).max)
        np.minimum.at(earliest, row[seen], time[seen])
        cut_off: Array = (from_offset[bound] > 0) & (decided_ms <= earliest[bound])
        return cut_off

    def _belongs_to_earlier_topic(self, bound: Array, decided_ms: Array) -> Array:
        """Whether a decision is older than all transactions in the partition, and so is about an earlier topic of that name."""
        place, own = codes_of_both(
            (self.transactions["topic"], self.transactions["partition"]),
            (self.bounds["topic"], self.bounds["partition"]),
        )
        row = find(own, place)
        began, ended = values(self.transactions, "first_timestamp"), values(self.transactions, "marker_timestamp")
        is_lone = values(self.transactions, "first_offset") < 0
        time = np.where(is_lone, ended, np.where(ended < 0, began, np.minimum(began, ended)))
        never = np.iinfo(np.int64).max
        earliest = np.full(len(self.bounds), never)
        np.minimum.at(earliest, row[row >= 0], time[row >= 0])
        earliest = np.where(earliest == never, values(self.bounds, "created_ms"), earliest)
        before: Array = decided_ms < earliest[bound]
        return before

    def _unknown(self, unknown: Array, bound: Array) -> list[Finding]:
        counts = np.bincount(bound[unknown], minlength=len(self.bounds))
        return [
            finding(
                "unknown_before",
                INFORMATION,
                row,
                f"{count(int(counts[at]), 'decision lists', 'decisions list')} the partition; the markers may have been "
                + _where(row),
                first_offset=None if row["known_from"] else row["log_start_offset"],
                last_offset=row["known_from"] - 1 if row["known_from"] else None,
            )
            for at, row in zip(
                np.flatnonzero(counts).tolist(), rows_at(self.bounds, np.flatnonzero(counts)), strict=True
            )
        ]


def open_findings(
    waiting: pa.Table, lasts: pa.Table, bounds: pa.Table, now_ms: int, is_partial: bool = False, in_use: bool = False
) -> list[Finding]:
    """Return findings that explain open transactions: why they have no marker.

    `waiting` have ids; `lasts` has the last record of every id; ages are relative to `now_ms`. `is_partial`: part of the
    transaction log is elsewhere. `in_use`: partitions may be newer than the transaction log as read.
    """
    if not len(waiting):
        return []
    wanted = lasts.filter(pc.is_in(lasts["transactional_id"], waiting["transactional_id"].combine_chunks()))
    ids = {row["transactional_id"]: row for row in wanted.drop_columns(["partitions"]).to_pylist()}
    places = {(row["topic"], row["partition"]): row for row in bounds.to_pylist()}
    broken = {row["partition"] for row in bounds.to_pylist() if row["topic"] == TXN_TOPIC and row["is_damaged"]}
    findings = []
    for row in waiting.to_pylist():
        bound = places[row["topic"], row["partition"]]
        behind = f"offsets {row['first_offset']} to {bound['log_end_offset'] - 1} wait for it"
        state = ids.get(row["transactional_id"])
        if row["is_added"] and state is not None:
            findings += _held(row, state, behind, now_ms)
        elif bound["is_damaged"] or (broken if state is None else state["log_partition"] in broken):
            continue  # The marker or the coordinator's record may be in the damaged piece, which has a finding of its own.
        elif in_use and (state is None or row["last_epoch"] >= state["producer_epoch"] >= 0):
            continue
        elif state is None and is_partial:
            text = f"its coordinator's part of the transaction log is not in this folder; {behind}"
            findings.append(finding("unknown_owner", INFORMATION, row, text))
        else:
            findings.append(_hanging(row, state, behind))
    return findings


def undecided(transactions: pa.Table, lasts: pa.Table, bounds: pa.Table) -> list[Finding]:
    """Return findings for markers above their id's current epoch: a coordinator logs a decision before sending markers."""
    broken = [row["partition"] for row in bounds.to_pylist() if row["topic"] == TXN_TOPIC and row["is_damaged"]]
    lasts = lasts.filter(pc.invert(pc.is_in(lasts["log_partition"], pa.array(broken, pa.int32()))))
    row = find(values(lasts, "producer_id"), values(transactions, "producer_id"))
    if not len(lasts):
        return []
    above = (row >= 0) & (values(transactions, "marker_epoch") > values(lasts, "producer_epoch")[row])
    at = np.flatnonzero(above)
    return [
        finding(
            "marker_undecided",
            ERROR,
            transaction,
            f"a marker ({transaction['marker']}) of epoch {transaction['marker_epoch']}, but {state['state']} with epoch "
            f"{state['producer_epoch']} at offset {state['log_offset']} of the transaction log is the last of its id",
            producer_epoch=transaction["marker_epoch"],
            first_offset=transaction["marker_offset"],
            last_offset=transaction["marker_offset"],
            log_offset=state["log_offset"],
        )
        for transaction, state in zip(rows_at(transactions, at), rows_at(lasts, row[at]), strict=True)
    ]


def _where(bound: Finding) -> str:
    """Describe the part of a partition whose markers cannot be read."""
    if bound["known_from"]:
        return f"before offset {bound['known_from']}"
    return "in the corrupt part of the log" if bound["is_damaged"] else "in an earlier topic of the same name"


def _unmarked(decision: Finding, data: Finding | None, is_contradicted: bool) -> Finding:
    """Return the finding for a decision without a marker in a partition; `data` is the open transaction that waits for it."""
    text = f"{decision['state']} at offset {decision['log_offset']} of the transaction log lists the partition"
    if is_contradicted:
        other = "abort" if decision["marker"] == "commit" else "commit"
        text = f"{text}, which has a marker of the other outcome, {other}, with epoch {decision['producer_epoch']}"
        return finding("marker_contradicts", ERROR, decision, text)
    span: Finding = {}
    if data is not None:
        span = {"first_offset": data["first_offset"], "last_offset": data["last_offset"], "file": file_of(data)}
    if decision["is_last"]:
        return finding("marker_pending", WARNING, decision, f"{text}, which has no marker yet", **span)
    return finding("marker_missing", ERROR, decision, f"{text}, which has no marker of this transaction", **span)


def _held(row: Finding, state: Finding, behind: str, now_ms: int) -> list[Finding]:
    """Return findings about an open transaction that its coordinator knows."""
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
    elif state["state"] == ONGOING:
        why = (
            "the open transaction of the coordinator has another epoch"
            if state["producer_epoch"] != row["last_epoch"]
            else ("the partition was never added to the transaction")
        )
    else:
        why = f"its coordinator has {state['state']} with producer id {state['producer_id']}, epoch {state['producer_epoch']}"
    return finding("hanging", ERROR, row, f"{why}; {behind}")
