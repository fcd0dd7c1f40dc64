"""Audit a folder on Spark, with the same functions as the audit in one process.

    segments -> pieces -> [by share] tables of each share -> [by share] comparison with the transaction log -> driver

Tasks read the segments. A first shuffle brings the batches and coordinator records of a share together to build its tables. A
second shuffle brings the entries of the transaction log to the shares with the listed partitions, where they are compared
with the transactions. The driver gets only transactions and small tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from stuntbroker.pipeline.audit.eos import TALLY, ExactlyOnceCheck
from stuntbroker.pipeline.audit.findings import FINDINGS, Finding
from stuntbroker.pipeline.audit.folder import Folder
from stuntbroker.pipeline.audit.result import Audit
from stuntbroker.pipeline.audit.run import Progress, assembled, of_place, read_and_write
from stuntbroker.pipeline.audit.shares import (
    KEPT_BYTES,
    PIECES,
    SHARED,
    Share,
    Tables,
    as_tables,
    decide,
    listed_by_share,
    read_segment,
    shares_of,
    tables_of,
)
from stuntbroker.pipeline.audit.tables import TableWriter
from stuntbroker.pipeline.spark.segments import PIECES_SCHEMA, bunches_of, packed, pieces_of, unpacked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS_MAX: Final = 1 << 16
"""Maximum rows in one piece of a table."""
TASKS_PER_CORE: Final = 4
POLL_S: Final = 0.3

Pieces = Iterator[pa.RecordBatch]


def audit(
    spark: SparkSession,
    folder: Folder,
    tables: TableWriter | None = None,
    progress: Progress | None = None,
    keep: bool | None = None,
) -> Audit:
    """Audit a folder like `run.audit`; the workers write the tables, so the path must be the same for all of them."""
    shares = shares_of(folder)
    keep = sum(segment.size for segment in folder.segments()) <= KEPT_BYTES if keep is None else keep
    tasks = max(1, min(len(shares), TASKS_PER_CORE * spark.sparkContext.defaultParallelism))
    pieces = pieces_of(spark, bunches_of(folder), partial(read_and_write, tables=tables))
    pieces_by_share = (
        pieces.repartition(tasks, "share").groupBy("share").applyInArrow(_tables_of(shares, keep), PIECES_SCHEMA)
    )
    decided = pieces_by_share.repartition(tasks, "share").groupBy("share").applyInArrow(_decide, PIECES_SCHEMA)
    with _watched(spark, progress):
        rows = decided.toArrow()
    return assembled(_in_order(rows), keep, folder)


def _tables_of(shares: list[Share], keep: bool) -> Callable[[Pieces], Pieces]:
    def make(pieces: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        number, parts = _unpack(pieces)
        share = shares[number]
        tables = tables_of(share.partitions, as_tables(((n, r) for _, n, r in parts), PIECES), keep)
        listed = tables.pop("listed", None)
        yield from _pack(number, 0, tables)
        if listed is not None:
            for target, rows in listed_by_share(listed, shares):
                yield from _pack(target, number, {"listed": rows})

    return make


def _decide(pieces: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pass on a share's pieces except `listed`, and add the tables of `decide`."""
    seen: list[tuple[tuple[int, int], str, pa.RecordBatch]] = []
    number = -1
    for rows in pieces:
        kept = rows
        for row in rows.to_pylist():
            number = row["share"]
            if row["name"] in ("bounds", "transactions", "listed"):
                seen += [((row["segment"], row["number"]), row["name"], table) for table in unpacked(row["rows"])]
        yield kept.filter(pc.not_equal(kept["name"], "listed"))
    seen.sort(key=lambda item: item[0])
    mine = as_tables(
        ((name, rows) for _, name, rows in seen), {n: SHARED[n] for n in ("bounds", "transactions", "listed")}
    )
    yield from _pack(number, 1, decide(mine["bounds"], mine["transactions"], mine["listed"]))


def _unpack(pieces: Iterator[pa.RecordBatch]) -> tuple[int, list[tuple[tuple[int, int], str, pa.RecordBatch]]]:
    """Return (share number, (order, name, rows) of all its pieces in order)."""
    parts = []
    number = -1
    for rows in pieces:
        for row in rows.to_pylist():
            number = row["share"]
            parts += [((row["segment"], row["number"]), row["name"], item) for item in unpacked(row["rows"])]
    return number, sorted(parts, key=lambda item: item[0])


def _pack(share: int, origin: int, tables: Tables) -> Iterator[pa.RecordBatch]:
    for name, table in tables.items():
        for count, rows in enumerate(table.combine_chunks().to_batches(ROWS_MAX)):
            yield packed(share, origin, count, name, rows)


def _in_order(parts: pa.Table) -> list[Tables]:
    """Return the tables of every share in the order of the single-process audit: those of `tables_of` first."""
    rows = sorted(
        zip(*(parts[name].to_pylist() for name in ("segment", "share", "number", "name", "rows")), strict=True),
        key=lambda row: row[:3],
    )
    by_share: dict[tuple[int, int], list[tuple[str, pa.RecordBatch]]] = {}
    for origin, share, _, name, content in rows:
        by_share.setdefault((origin, share), []).extend((name, table) for table in unpacked(content))
    return [as_tables(by_share[key], SHARED) for key in sorted(by_share)]


def compare(
    spark: SparkSession, folder: Folder, audited: Audit, chain: ExactlyOnceCheck, progress: Progress | None = None
) -> list[Finding]:
    """Check exactly-once processing like `run.compare`; Spark counts equal records, which may not fit into one process."""
    from pyspark.sql import functions as f

    chain.check(folder, audited.committed)
    pieces = pieces_of(spark, bunches_of(folder, chain.topics()), partial(read_segment, with_records=True))
    tallies = pieces.mapInArrow(
        _tally_of(chain, audited), "key binary, value binary, wanted long, found long, unreadable binary"
    )
    sums = tallies.groupBy("key", "value", "unreadable").agg(*(f.sum(name).alias(name) for name in ("wanted", "found")))
    with _watched(spark, progress):
        wrong = sums.filter("wanted <> found or unreadable is not null").toArrow()
    unreadable = [item for rows in wrong["unreadable"].drop_null().to_pylist() for item in unpacked(rows)]
    tally = wrong.filter(wrong["unreadable"].is_null()).select(TALLY.names).cast(TALLY)
    return [*pa.Table.from_batches(unreadable, FINDINGS).to_pylist(), *chain.findings(tally, audited.bounds)]


def _tally_of(chain: ExactlyOnceCheck, audited: Audit) -> Callable[[Pieces], Pieces]:
    transactions = audited.transactions.filter(pc.is_in(audited.transactions["topic"], pa.array(chain.topics())))
    committed = audited.committed

    def tally(pieces: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in pieces:
            for name, content in zip(rows["name"].to_pylist(), rows["rows"].to_pylist(), strict=True):
                if name == "findings":
                    yield _tallied(TALLY.empty_table(), content)
                for records in unpacked(content) if name == "records" else ():
                    if len(records):
                        mine = of_place(transactions, records["topic"][0].as_py(), records["partition"][0].as_py())
                        yield _tallied(chain.tally(pa.Table.from_batches([records]), mine, committed), None)

    return tally


def _tallied(tally: pa.Table, unreadable: bytes | None) -> pa.RecordBatch:
    """Return rows of TALLY, or one row with the packed findings about undecodable data."""
    if unreadable is not None:
        tally = pa.Table.from_pylist([{"wanted": 0, "found": 0}], TALLY)
    both = tally.append_column("unreadable", pa.array([unreadable] * len(tally), pa.binary()))
    return both.combine_chunks().to_batches()[0] if len(both) else pa.RecordBatch.from_pylist([], both.schema)


@contextmanager
def _watched(spark: SparkSession, progress: Progress | None) -> Iterator[None]:
    """Report the share of finished tasks of the active stages."""
    if progress is None:
        yield
        return
    over = Event()
    tracker: Any = spark.sparkContext.statusTracker()

    def watch() -> None:
        while not over.wait(POLL_S):
            stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
            known = [stage for stage in stages if stage is not None and stage.numTasks]
            if known:
                done, tasks = sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known)
                progress(f"Spark stage {known[0].stageId}", done / tasks)

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
