"""Audit a whole folder in one process, share by share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stuntbroker.pipeline.audit.coordination import undecided
from stuntbroker.pipeline.audit.eos import TALLY, ExactlyOnceCheck, add
from stuntbroker.pipeline.audit.findings import Finding
from stuntbroker.pipeline.audit.folder import Folder, Segment
from stuntbroker.pipeline.audit.grouping import find, values
from stuntbroker.pipeline.audit.log_checks import OF_FILES
from stuntbroker.pipeline.audit.marker_checks import mark_unknown_producers_suspicious
from stuntbroker.pipeline.audit.result import Audit
from stuntbroker.pipeline.audit.shares import (
    KEPT_BYTES,
    PIECES,
    SHARED,
    Tables,
    as_tables,
    decide,
    listed_by_share,
    read_segment,
    shares_of,
    tables_of,
)
from stuntbroker.pipeline.audit.tables import TableWriter
from stuntbroker.pipeline.audit.transactions import with_ids
from stuntbroker.protocol.topic_names import TXN_STATE as TXN_TOPIC

Progress = Callable[[str, float], None]
"""Called with the current step and its progress, from 0 to 1, on every change."""


def audit(
    folder: Folder, tables: TableWriter | None = None, progress: Progress | None = None, keep: bool | None = None
) -> Audit:
    """Audit a folder. `tables` writes rows as they are read; `keep` keeps batches in memory (default: by folder size)."""
    shares = shares_of(folder)
    total = sum(segment.size for segment in folder.segments())
    keep = total <= KEPT_BYTES if keep is None else keep
    results: list[Tables] = []
    done = 0
    for share in shares:
        pieces: list[tuple[str, pa.RecordBatch]] = []
        for segment in share.segments():
            for name, rows in read_and_write(segment, tables):
                pieces.append((name, rows))
                if progress is not None and name == "batches" and len(rows):
                    progress("reading", (done + rows["position"][-1].as_py()) / total)
            done += segment.size
        results.append(tables_of(share.partitions, as_tables(pieces, PIECES), keep))
    listed = dict(listed_by_share(joined(results, "listed"), shares))
    none = SHARED["listed"].empty_table()
    if progress is not None:
        progress("deciding", 0.0)
    results += [
        decide(result["bounds"], result["transactions"], listed.get(number, none))
        for number, result in enumerate(results)
    ]
    return assembled(results, keep, folder)


def read_and_write(segment: Segment, tables: TableWriter | None) -> Iterable[tuple[str, pa.RecordBatch]]:
    """Yield the tables of `read_segment` except `records`, which are only written."""
    if tables is None:
        yield from read_segment(segment)
        return
    with tables.of(segment) as files:
        for name, rows in read_segment(segment, tables.with_records):
            files.write(name, rows)
            if name != "records":
                yield name, rows


def joined(results: Iterable[Mapping[str, pa.Table]], name: str) -> pa.Table:
    """Concatenate a table of all shares."""
    return pa.concat_tables([SHARED[name].empty_table(), *(result[name] for result in results if name in result)])


def assembled(results: Iterable[Tables], keep: bool, folder: Folder) -> Audit:
    """Combine the results of `tables_of` and `decide` for every share, in share order, into one audit."""
    results = list(results)
    all_of = {name: joined(results, name) for name in SHARED}
    owners = all_of["owners"].sort_by("producer_id")
    known = _named(all_of["findings"].to_pylist(), owners)
    if not folder.is_partial and _whole_txn_log(all_of["lasts"], all_of["bounds"]):
        known = mark_unknown_producers_suspicious(known)
    transactions = with_ids(all_of["transactions"], owners)
    if not folder.in_use:  # Otherwise a decision may be newer than the transaction log as read.
        known += undecided(transactions, all_of["lasts"], all_of["bounds"])
    return Audit(
        **{name: all_of[name] for name in ("batches", "txn_state", "offsets", "bounds", "segments", "lasts")},
        **{name: all_of[name] for name in ("fencing", "latencies", "committed")},
        transactions=transactions,
        waiting=with_ids(all_of["waiting"], owners),
        unreadable=tuple(item for item in known if item["kind"] == "undecodable"),
        known=tuple(known),
        is_whole=keep,
        is_partial=folder.is_partial,
        in_use=folder.in_use,
    )


def _named(findings: list[Finding], owners: pa.Table) -> list[Finding]:
    """Add the transactional ids of producers to findings, except where a wrong CRC makes the producer id unreliable."""
    pids = np.array([-1 if item["producer_id"] is None else item["producer_id"] for item in findings], np.int64)
    row = find(values(owners, "producer_id"), pids)
    ids = owners["transactional_id"].take(pa.array(row, mask=row < 0)).to_pylist()
    return [
        item | {"transactional_id": name} if item["transactional_id"] is None and item["kind"] not in OF_FILES else item
        for item, name in zip(findings, ids, strict=True)
    ]


def _whole_txn_log(lasts: pa.Table, bounds: pa.Table) -> bool:
    """Whether the transaction log still has all transactional ids."""
    known = [row["known_from"] for row in bounds.to_pylist() if row["topic"] == TXN_TOPIC]
    return bool(len(lasts)) and not any(known)


def compare(folder: Folder, audited: Audit, chain: ExactlyOnceCheck, progress: Progress | None = None) -> list[Finding]:
    """Check exactly-once processing of a group's input by reading its topics again. Raises FolderError."""
    chain.check(folder, audited.committed)
    tally, unreadable = TALLY.empty_table(), []
    segments = folder.segments(*chain.topics())
    for number, segment in enumerate(segments):
        transactions = of_place(audited.transactions, segment.topic, segment.partition)
        for name, rows in read_segment(segment, with_records=True):
            if name == "records":
                records = pa.Table.from_batches([rows])
                tally = add([tally, chain.tally(records, transactions, audited.committed)])
            elif name == "findings":
                unreadable += rows.to_pylist()
        if progress is not None:
            progress("comparing", (number + 1) / len(segments))
    return [*unreadable, *chain.findings(tally, audited.bounds)]


def of_place(table: pa.Table, topic: str, partition: int) -> pa.Table:
    """Return the rows of one partition."""
    return table.filter(pc.and_(pc.equal(table["topic"], topic), pc.equal(table["partition"], partition)))
