"""The result of an audit: its tables and findings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stuntbroker.pipeline.audit.coordination import open_findings
from stuntbroker.pipeline.audit.findings import Finding, as_findings


@dataclass(frozen=True, slots=True)
class Audit:
    """The result of an audit: its tables, and the findings."""

    batches: pa.Table
    """Rows of BATCHES; `batches`, `txn_state` and `offsets` are empty unless `is_whole`."""
    txn_state: pa.Table
    offsets: pa.Table
    bounds: pa.Table
    transactions: pa.Table
    """Rows of TRANSACTIONS with `transactional_id`."""
    unreadable: tuple[Finding, ...]
    segments: pa.Table
    """Rows of SEGMENTS, which summarise `batches` in a large folder."""
    lasts: pa.Table
    """The last record of every transactional id."""
    fencing: pa.Table
    latencies: pa.Table
    committed: pa.Table
    """Rows of COMMITTED: the effective committed offsets of groups."""
    waiting: pa.Table
    """Open transactions, as rows of OPEN_TRANSACTIONS with `transactional_id`."""
    known: tuple[Finding, ...]
    """Findings that do not depend on the current time."""
    is_whole: bool
    is_partial: bool
    in_use: bool
    """As in `Folder`."""

    def findings(self, now_ms: int | None = None) -> pa.Table:
        """Return rows of FINDINGS, errors first. Ages are relative to `now_ms` (default: newest time in the logs)."""
        now_ms = self.newest_ms() if now_ms is None else now_ms
        items = [
            *self.known,
            *open_findings(self.waiting, self.lasts, self.bounds, now_ms, self.is_partial, self.in_use),
        ]
        return as_findings(sorted(items, key=_rank))

    def newest_ms(self) -> int:
        """Return the newest time (ms) in the logs that was set by a broker, not a producer; -1 if there is none."""
        times = (self.transactions["marker_timestamp"], self.lasts["update_ms"])
        return max((pc.max(column).as_py() or -1 for column in times), default=-1)


def _rank(item: Finding) -> tuple[Any, ...]:
    """Return the sort key: severity, then place."""
    order = ("error", "warning", "information")
    words = (item["topic"] or "", item["partition"] or 0, item["first_offset"] or 0, item["kind"], item["evidence"])
    return order.index(item["severity"]), *words
