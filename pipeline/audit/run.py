"""The whole audit of a folder in one process: every table, and what is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stuntbroker.pipeline.audit import offsets_log, txn_log
from stuntbroker.pipeline.audit.coordination import Coordination
from stuntbroker.pipeline.audit.findings import Finding, as_findings
from stuntbroker.pipeline.audit.folder import Folder, Segment
from stuntbroker.pipeline.audit.log_checks import file_findings, offset_findings, sequence_findings, undecodable
from stuntbroker.pipeline.audit.marker_checks import marker_findings
from stuntbroker.pipeline.audit.records import RECORDS, decode_records
from stuntbroker.pipeline.audit.scan import BATCHES, scan
from stuntbroker.pipeline.audit.transactions import bounds_of, transactions_of, with_ids


@dataclass(frozen=True, slots=True)
class Audit:
    batches: pa.Table
    txn_state: pa.Table
    offsets: pa.Table
    bounds: pa.Table
    transactions: pa.Table
    """With `transactional_id`."""
    unreadable: tuple[Finding, ...]

    def findings(self, now_ms: int | None = None) -> pa.Table:
        """Rows of FINDINGS, errors first. Ages are told at `now_ms`, without it at the newest time in the logs."""
        now_ms = self.newest_ms() if now_ms is None else now_ms
        found = [
            *file_findings(self.batches),
            *self.unreadable,
            *offset_findings(self.batches),
            *sequence_findings(self.batches, self.bounds),
            *marker_findings(self.transactions, self.txn_state, self.bounds),
            *Coordination(self.transactions, self.txn_state, self.bounds).findings(now_ms),
        ]
        order = ("error", "warning", "information")
        return as_findings(sorted(found, key=lambda one: order.index(one["severity"])))

    def newest_ms(self) -> int:
        """The newest time that a broker, not a producer, has written down."""
        times = (self.transactions["marker_timestamp"], self.txn_state["update_ms"])
        return max((pc.max(column).as_py() or -1 for column in times), default=-1)


def audit(folder: Folder) -> Audit:
    batches: list[pa.RecordBatch] = []
    tables: dict[str, list[pa.RecordBatch]] = {txn_log.TOPIC: [], offsets_log.TOPIC: []}
    unreadable: list[Finding] = []
    for segment in folder.segments():
        for found in scan(segment):
            batches.append(found)
            if segment.topic in tables:
                rows, faults = read_log(segment, found)
                tables[segment.topic] += rows
                unreadable += faults
    all_batches = pa.Table.from_batches(batches, BATCHES)
    order = [("log_partition", "ascending"), ("log_offset", "ascending")]
    txn_state = pa.Table.from_batches(tables[txn_log.TOPIC], txn_log.TXN_STATE).sort_by(order)
    offsets = pa.Table.from_batches(tables[offsets_log.TOPIC], offsets_log.OFFSETS).sort_by(order)
    transactions = with_ids(transactions_of(all_batches), txn_state)
    bounds = bounds_of(all_batches, folder.partitions)
    return Audit(all_batches, txn_state, offsets, bounds, transactions, tuple(unreadable))


def read_log(segment: Segment, batches: pa.RecordBatch) -> tuple[list[pa.RecordBatch], list[Finding]]:
    """The rows that one of the coordinators' logs holds, and what of it cannot be read."""
    read: Any = txn_log.read_txn_state if segment.topic == txn_log.TOPIC else offsets_log.read_offsets
    rows, unreadable = [], []
    for decoded in decode_records(segment, batches):
        found, faults = read(decoded.records)
        rows.append(found)
        unreadable += undecodable(segment.topic, segment.partition, decoded.faults)
        unreadable += undecodable(segment.topic, segment.partition, faults, "offset")
    return rows, unreadable


def records_of(folder: Folder, *topics: str) -> tuple[pa.Table, list[Finding]]:
    """All records of these topics at once, and what of them cannot be read."""
    found, unreadable = [], []
    for segment in folder.segments(*topics):
        for batches in scan(segment):
            for decoded in decode_records(segment, batches):
                found.append(decoded.records)
                unreadable += undecodable(segment.topic, segment.partition, decoded.faults)
    return pa.Table.from_batches(found, RECORDS), unreadable
