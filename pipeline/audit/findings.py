"""What is wrong, by the tables of the audit. Pure functions: tables in, rows of FINDINGS out.

| kind | severity | what |
|---|---|---|
| corrupt | error | bytes in a segment that are no valid batch |
| format | error | messages older than record batches: nothing can be said of them |
| torn_tail | information | the newest segment, not closed in order, has no whole batch at its end; the broker cuts that off |
| gone | information | a segment that a broker deleted while the folder was read |
| offset_order | error | a batch whose offsets do not rise with those around it |
| hanging | error | records of a transaction that nobody will end: its coordinator is done with it, or never knew of them |
| overdue | warning | a transaction is open beyond its time-out, and was not aborted |
| open_two_phase | warning | a transaction of KIP-939 waits for its owner, and holds back readers meanwhile |
| unknown_owner | information | open, and its coordinator's part of the transaction log is not in this folder |
| marker_pending | warning | decided, its markers not all written; the coordinator does that when it is started again |
| marker_missing | error | decided and said to be complete, but a partition of it has no marker |
| marker_contradicts | error | a partition was told another outcome than was decided |
| marker_undecided | error | a marker of an epoch that the coordinator has not given out yet |
| marker_without_data | information | a transaction without records in a partition that was added to it, or a repeated marker |
| marker_suspicious | warning | the same by an older coordinator, for an older epoch or of an unknown producer; below its data |
| mixed_epochs | error | an epoch went up within a transaction, which only its end may do |
| stale_epoch | error | records of an epoch below one that the partition had seen: their producer was fenced |
| duplicate | error | sequence numbers that were there before |
| gap | error | sequence numbers that are missing |
| undecodable | error | a batch or a record with a right CRC that cannot be read |
| unknown_before | information | decided, but its marker may have been cut off, or in a topic that had the name before |
| output_missing, output_duplicate, output_unexpected | error | see `eos` |

What retention, compaction or a fault has taken is unknown, never missing.
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
        "evidence": pa.string(),
    }
)
"""Columns that do not apply to a finding are null."""
ERROR, WARNING, INFORMATION = "error", "warning", "information"
Finding = dict[str, Any]


def as_findings(rows: Iterable[Finding]) -> pa.Table:
    """Return findings as a table."""
    return pa.Table.from_pylist(list(rows), FINDINGS)


def concat_findings(findings: pa.Table, more: pa.Table) -> pa.Table:
    """Both, errors first."""
    rows = pa.concat_tables([findings, more]).to_pylist()
    order = (ERROR, WARNING, INFORMATION)
    return as_findings(sorted(rows, key=lambda row: order.index(row["severity"])))


def file_of(row: Finding) -> str:
    """A row's segment, as a path from the data folder."""
    return f"{row['topic']}-{row['partition']}/{row['segment_base_offset']:020d}.log"


def finding(kind: str, severity: str, row: Finding, evidence: str, **more: Any) -> Finding:
    """A finding about a row of some table, from which it takes what it has of its columns."""
    fields = {name: row.get(name) for name in FINDINGS.names}
    if row.get("segment_base_offset") is not None:
        fields["file"] = file_of(row)
    return fields | {"kind": kind, "severity": severity, "evidence": evidence} | more


def grouped(findings: Iterable[Finding]) -> list[tuple[Finding, int]]:
    """The findings in their order; of identical notes only the first, with how many there are.

    Notes are the findings of severity information. They are identical when they differ in nothing but place and producer.
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
