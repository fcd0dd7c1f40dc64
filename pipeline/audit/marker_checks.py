"""Findings about transaction markers in a partition: markers that end nothing, and missing markers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from stuntbroker.pipeline.arrays import Array
from stuntbroker.pipeline.audit.findings import ERROR, INFORMATION, WARNING, Finding, finding, rows_at
from stuntbroker.pipeline.audit.grouping import codes, codes_of_both, find, follows, running_max, values


def marker_findings(transactions: pa.Table, bounds: pa.Table) -> list[Finding]:
    """Return findings for markers without data, markers with an epoch below their data, and epoch bumps without a marker."""
    place, here = codes_of_both(
        (transactions["topic"], transactions["partition"]), (bounds["topic"], bounds["partition"])
    )
    bound = find(here, place)
    known, damaged = values(bounds, "known_from")[bound], values(bounds, "is_damaged")[bound]
    first, marker = values(transactions, "first_offset"), values(transactions, "marker_offset")
    is_mixed = values(transactions, "producer_epoch") != values(transactions, "last_epoch")
    # Before `known_from`, or in a damaged partition, the marker in between may have been lost.
    mixed = np.flatnonzero(is_mixed & (first >= known) & ~damaged)
    findings = [
        finding(
            "mixed_epochs",
            ERROR,
            row,
            f"epoch {row['producer_epoch']} and then {row['last_epoch']} without a marker between",
        )
        for row in rows_at(transactions, mixed)
    ]
    marked = values(transactions, "marker_epoch")
    old = np.flatnonzero((marked >= 0) & (marked < values(transactions, "last_epoch")))
    findings += [
        finding(
            "marker_suspicious",
            WARNING,
            row,
            f"a marker ({row['marker']}) of epoch {row['marker_epoch']} at offset {row['marker_offset']} ends records of epoch "
            f"{row['last_epoch']}",
        )
        for row in rows_at(transactions, old)
    ]
    owner = codes(place, transactions["producer_id"])
    order = np.lexsort((np.maximum(first, marker), owner))
    epochs = _highest_before(values(transactions, "marker_epoch"), owner, order)
    coordinators = _highest_before(values(transactions, "coordinator_epoch"), owner, order)
    # The marker's data would follow the previous marker; if that range was partly deleted, the data may have been too.
    cut = _highest_before(marker, owner, order) + 1 < known
    lone = np.flatnonzero((first < 0) & ~cut)
    for at, row in zip(lone.tolist(), rows_at(transactions, lone), strict=True):
        row |= {"first_offset": row["marker_offset"], "last_offset": row["marker_offset"]}
        row |= {"producer_epoch": row["marker_epoch"]}
        doubts = []
        if row["marker_epoch"] < epochs[at]:
            doubts.append(f"its epoch is below {epochs[at]}, which the partition had seen")
        if row["coordinator_epoch"] < coordinators[at]:
            doubts.append(f"it is of coordinator epoch {row['coordinator_epoch']} and comes after {coordinators[at]}")
        text = "; ".join((f"a marker ({row['marker']}) without records before it", *doubts))
        if doubts:
            findings.append(finding("marker_suspicious", WARNING, row, text))
        else:
            findings.append(finding("marker_without_data", INFORMATION, row, text))
    return findings


def mark_unknown_producers_suspicious(findings: list[Finding]) -> list[Finding]:
    """Mark markers of unknown producers as suspicious; only valid if the transaction log is complete."""
    text = "no transactional id ever had this producer id"
    return [
        item | {"kind": "marker_suspicious", "severity": WARNING, "evidence": f"{item['evidence']}; {text}"}
        if item["kind"] in ("marker_without_data", "marker_suspicious") and item["transactional_id"] is None
        else item
        for item in findings
    ]


def _highest_before(numbers: Array, owner: Array, order: Array) -> Array:
    """Return, for each row, the largest number in earlier rows of the same owner; -1 if there is none."""
    reached = running_max(numbers[order].astype(np.int64), owner[order])
    highest = np.empty(len(order), np.int64)
    highest[order] = np.where(follows(owner[order]), np.roll(reached, 1), -1)
    return highest
