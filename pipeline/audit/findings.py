"""Findings of the audit: their kinds, their table, and pure functions to build it.

| kind | severity | meaning |
|---|---|---|
| corrupt | error | bytes in a segment that are not a valid batch |
| format | error | messages older than record batches, which the audit cannot check |
| torn_tail | information | the newest segment, not closed cleanly, ends in an incomplete batch; the broker truncates it |
| segment_deleted | information | a segment that a broker deleted while the folder was read |
| offset_order | error | a batch whose offsets are out of order |
| hanging | error | records of a transaction that will never end: its coordinator has completed it or never knew of it |
| overdue | warning | a transaction is open beyond its time-out, and was not aborted |
| open_two_phase | warning | a transaction of KIP-939 waits for its owner, and holds back readers meanwhile |
| unknown_owner | information | open, and its coordinator's partition of the transaction log is not in this folder |
| marker_pending | warning | decided, but some markers are not written yet; the coordinator writes them after a restart |
| marker_missing | error | decided and recorded as complete, but a partition has no marker |
| marker_contradicts | error | the marker in a partition contradicts the decision |
| marker_undecided | error | a marker with an epoch that the coordinator has not allocated yet |
| marker_without_data | information | a partition was added to a transaction but not written to, or the marker was repeated |
| marker_suspicious | warning | a marker without data, of an old coordinator, epoch or unknown producer; or below its data |
| mixed_epochs | error | an epoch went up within a transaction, which only its end may do |
| stale_epoch | error | records with an epoch below one already seen in the partition: their producer was fenced |
| duplicate | error | repeated sequence numbers |
| gap | error | missing sequence numbers |
| undecodable | error | a batch or record with a correct CRC that cannot be decoded |
| unknown_before | information | decided, but the marker may have been deleted, or was in an earlier topic of the same name |
| output_missing, output_duplicate, output_unexpected | error | see `eos` |

Data removed by retention, compaction or a fault counts as unknown, never as missing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import pyarrow as pa

FINDINGS: Final = pa.schema(
    {
        "kind": pa.string(),
        "severity": pa.string(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "transactional_id": pa.string(),
        "producer_id": pa.int64(),
        "producer_epoch": pa.int16(),
        "first_offset": pa.int64(),
        "last_offset": pa.int64(),
        "file": pa.string(),
        "file_position": pa.int64(),
        "log_offset": pa.int64(),
        "evidence": pa.string(),
    }
)
"""Columns that do not apply to a finding are null.

`file_position`: byte in the segment at which the finding's batch begins. `log_offset`: offset of the coordinator's record that
the finding is about, in its partition of the transaction log.
"""
ERROR, WARNING, INFORMATION = "error", "warning", "information"
Finding = dict[str, Any]


def as_findings(rows: Iterable[Finding]) -> pa.Table:
    """Return findings as a table."""
    return pa.Table.from_pylist(list(rows), FINDINGS)


def concat_findings(findings: pa.Table, more: pa.Table) -> pa.Table:
    """Concatenate findings and sort them by severity, errors first."""
    rows = pa.concat_tables([findings, more]).to_pylist()
    order = (ERROR, WARNING, INFORMATION)
    return as_findings(sorted(rows, key=lambda row: order.index(row["severity"])))


def file_of(row: Finding) -> str:
    """Return the path of a row's segment, relative to the data folder."""
    return f"{row['topic']}-{row['partition']}/{row['segment_base_offset']:020d}.log"


def finding(kind: str, severity: str, row: Finding, evidence: str, **more: Any) -> Finding:
    """Return a finding about a row of any table; columns of FINDINGS that the row has are copied."""
    fields = {name: row.get(name) for name in FINDINGS.names}
    if row.get("segment_base_offset") is not None:
        fields["file"] = file_of(row)
    return fields | {"kind": kind, "severity": severity, "evidence": evidence} | more


def grouped(findings: Iterable[Finding]) -> list[tuple[Finding, int]]:
    """Merge identical notes: return (first finding, number of findings) pairs in order.

    Notes are findings of severity information; they are identical if they differ only in place and producer.
    """
    groups: list[Finding] = []
    counts: list[int] = []
    seen: dict[tuple[Any, ...], int] = {}
    for at, row in enumerate(findings):
        note = row["kind"], row["transactional_id"], row["evidence"]
        key = note if row["severity"] == INFORMATION else (at,)
        if key in seen:
            counts[seen[key]] += 1
            continue
        seen[key] = len(groups)
        groups.append(row)
        counts.append(1)
    return list(zip(groups, counts, strict=True))


def rows_at(table: pa.Table, rows: Any) -> list[Finding]:
    """Return some rows of a table as dictionaries."""
    picked: list[Finding] = table.take(pa.array(np.asarray(rows, np.int64))).to_pylist()
    return picked
