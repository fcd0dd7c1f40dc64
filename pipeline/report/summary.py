"""Compute the report's summary: the verdict, the totals, and what holds back readers of committed records."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from stuntbroker.pipeline.audit.findings import ERROR, INFORMATION, WARNING
from stuntbroker.pipeline.audit.folder import Folder
from stuntbroker.pipeline.audit.reports import is_internal, last_stable_offsets
from stuntbroker.pipeline.audit.result import Audit
from stuntbroker.pipeline.counting import count
from stuntbroker.pipeline.report.text import USABLE_MS

SEVERITIES: Final = (ERROR, WARNING, INFORMATION)
READERS_MAX: Final = 200
"""Maximum partitions in the table of readers."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on the folder."""

    level: str
    """good, warning or error."""
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Reader:
    """How far readers of committed records get in a partition, in offsets."""

    topic: str
    partition: int
    log_start_offset: int
    known_from: int
    last_stable_offset: int
    log_end_offset: int
    transactional_id: str | None
    producer_id: int | None
    producer_epoch: int | None
    since_ms: int | None
    is_damaged: bool

    @property
    def is_internal(self) -> bool:
        """Whether the partition is of an internal topic."""
        return is_internal(self.topic)

    @property
    def waiting(self) -> int:
        """Offsets between the last stable offset and the end of the log."""
        return self.log_end_offset - self.last_stable_offset

    @property
    def shares(self) -> tuple[float, float, float]:
        """Percentages of the log that are unknown, readable and waiting."""
        span = self.log_end_offset - self.log_start_offset
        if span <= 0:
            return 0.0, 0.0, 0.0
        known = min(max(self.known_from, self.log_start_offset), self.log_end_offset)
        stable = max(self.last_stable_offset, known)
        parts = (known - self.log_start_offset, stable - known, self.log_end_offset - stable)
        return tuple(round(100 * part / span, 2) for part in parts)  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Summary:
    """The numbers at the top of the report."""

    verdict: Verdict
    severities: dict[str, int]
    kinds: tuple[tuple[str, str, int], ...]
    """(severity, kind, number of findings), in the order of the findings."""
    partitions: int
    topics: int
    bytes: int
    batches: int
    records: int
    transactional_ids: int
    outcomes: dict[str, int]
    """Number of transactions by outcome of the episode."""
    from_partitions: int
    """Transactions that are known only from the partitions."""
    first_ms: int | None
    last_ms: int | None
    readers: tuple[Reader, ...]
    """Ordered: partitions with held-back readers first, internal topics last, then by waiting offsets (most first) and name."""
    held: int
    """Partitions whose readers are held back by an open transaction."""
    unknown: int
    """Partitions whose beginning is unknown (deleted, compacted or damaged)."""

    @property
    def transactions(self) -> int:
        """How many transactions there were."""
        return sum(self.outcomes.values())

    @property
    def aborted(self) -> int:
        """How many transactions were aborted, by their producer or by a time-out."""
        return self.outcomes.get("abort", 0) + self.outcomes.get("timeout", 0)

    @property
    def ended(self) -> int:
        """How many transactions were committed or aborted."""
        return self.aborted + self.outcomes.get("commit", 0)


def summary_of(audit: Audit, folder: Folder, findings: pa.Table, episodes: pa.Table) -> Summary:
    """Return the numbers and the verdict of an audit."""
    readers = _readers(audit)
    held = [row for row in readers if row.producer_id is not None]
    severities = Counter(findings["severity"].to_pylist())
    kinds = Counter(zip(findings["severity"].to_pylist(), findings["kind"].to_pylist(), strict=True))
    first, last = _span(audit.segments, episodes)
    total = {name: int(pc.sum(audit.segments[name]).as_py() or 0) for name in ("bytes", "batches", "records")}
    return Summary(
        verdict=_verdict(severities, len(held), len(episodes)),
        severities={name: severities.get(name, 0) for name in SEVERITIES},
        kinds=tuple((severity, kind, number) for (severity, kind), number in kinds.items()),
        partitions=len(audit.bounds),
        topics=len({row.topic for row in folder.partitions}),
        bytes=total["bytes"],
        batches=total["batches"],
        records=total["records"],
        transactional_ids=len(audit.lasts),
        outcomes={row["values"]: row["counts"] for row in episodes["outcome"].value_counts().to_pylist()},
        from_partitions=int(pc.sum(pc.equal(episodes["source"], "partitions")).as_py() or 0),
        first_ms=first,
        last_ms=last,
        readers=tuple(readers),
        held=len(held),
        unknown=sum(row.known_from > 0 for row in readers),
    )


def _readers(audit: Audit) -> list[Reader]:
    stable = last_stable_offsets(audit.transactions, audit.bounds).to_pylist()
    readers = [
        Reader(
            row["topic"],
            row["partition"],
            bound["log_start_offset"],
            bound["known_from"],
            row["last_stable_offset"],
            row["log_end_offset"],
            row["transactional_id"],
            row["producer_id"],
            row["producer_epoch"],
            row["first_timestamp"],
            bound["is_damaged"],
        )
        for row, bound in zip(stable, audit.bounds.to_pylist(), strict=True)
    ]
    return sorted(
        readers, key=lambda row: (row.producer_id is None, row.is_internal, -row.waiting, row.topic, row.partition)
    )


def _span(segments: pa.Table, episodes: pa.Table) -> tuple[int | None, int | None]:
    """Return the oldest and the newest plausible time."""
    columns = [segments["first_timestamp"], segments["last_timestamp"], episodes["start_ms"], episodes["end_ms"]]
    lows, highs = [], []
    for column in columns:
        usable = column.filter(pc.and_(pc.greater_equal(column, 0), pc.less(column, USABLE_MS)))
        bounds: Any = pc.min_max(usable).as_py()
        if bounds["min"] is not None:
            lows.append(bounds["min"])
            highs.append(bounds["max"])
    return min(lows, default=None), max(highs, default=None)


def _verdict(severities: Counter[str], held: int, transactions: int) -> Verdict:
    errors, warnings = severities[ERROR], severities[WARNING]
    readers = (
        "Readers of committed records reach the end of every partition."
        if not held
        else f"Readers of committed records are held back in {count(held, 'partition')}."
    )
    if errors:
        also = f" and {count(warnings, 'warning')}" if warnings else ""
        text = f"The folder violates guarantees of transactions. {readers}"
        return Verdict("error", f"No: {count(errors, 'error')}{also}", text)
    if warnings:
        text = f"No guarantee is violated, but some transactions wait or look suspicious. {readers}"
        return Verdict("warning", f"With {count(warnings, 'warning')}, and no errors", text)
    if held:
        return Verdict("good", "Yes: nothing is wrong", f"{readers} The open transactions are within their time-outs.")
    text = (
        "Every transaction has the outcome that its coordinator recorded."
        if transactions
        else "There are no transactions."
    )
    return Verdict("good", "Yes: everything is in order", f"{text} {readers}")
