"""The audit of a folder on Spark: the same functions as in one process, each where its data is.

    segments -> pieces -> [by share] tables of each share -> [by share] with what the transaction log lists of it -> here

Every segment is read by a task of its own. Batches and records of the coordinators' logs meet once, with those of the
same share; what a share tells by itself is made there. What the transaction log lists goes to the shares that have
the partitions, and is held against their transactions there. To the driver come transactions and what is small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from stuntbroker.pipeline.audit.eos import TALLY, Chain
from stuntbroker.pipeline.audit.findings import FINDINGS, Finding
from stuntbroker.pipeline.audit.folder import Folder
from stuntbroker.pipeline.audit.run import Audit, Progress, assembled, of_place, read_and_write
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
"""In one piece of a table."""
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
    """As `run.audit`; the tables are written by the workers, and must be at the same path for all of them."""
    shares = shares_of(folder)
    keep = sum(segment.size for segment in folder.segments()) <= KEPT_BYTES if keep is None else keep
    tasks = max(1, min(len(shares), TASKS_PER_CORE * spark.sparkContext.defaultParallelism))
    pieces = pieces_of(spark, bunches_of(folder), partial(read_and_write, tables=tables))
    made = pieces.repartition(tasks, "share").groupBy("share").applyInArrow(_tables_of(shares, keep), PIECES_SCHEMA)
    decided = made.repartition(tasks, "share").groupBy("share").applyInArrow(_decide, PIECES_SCHEMA)
    with _watched(spark, progress):
        found = decided.toArrow()
    return assembled(_in_order(found), keep, folder)


def _tables_of(shares: list[Share], keep: bool) -> Callable[[Pieces], Pieces]:
    def make(pieces: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        number, found = _unpack(pieces)
        share = shares[number]
        made = tables_of(share.partitions, as_tables(((n, r) for _, n, r in found), PIECES), keep)
        listed = made.pop("listed", None)
        yield from _pack(number, 0, made)
        if listed is not None:
            for target, rows in listed_by_share(listed, shares):
                yield from _pack(target, number, {"listed": rows})

    return make


def _decide(pieces: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Passes on what there is of a share, but what is listed, and adds what is decided by that."""
    seen: list[tuple[tuple[int, int], str, pa.RecordBatch]] = []
    number = -1
    for rows in pieces:
        kept = rows
        for row in rows.to_pylist():
            number = row["share"]
            if row["name"] in ("bounds", "transactions", "listed"):
                seen += [((row["segment"], row["number"]), row["name"], found) for found in unpacked(row["rows"])]
        yield kept.filter(pc.not_equal(kept["name"], "listed"))
    seen.sort(key=lambda one: one[0])
    mine = as_tables(
        ((name, rows) for _, name, rows in seen), {n: SHARED[n] for n in ("bounds", "transactions", "listed")}
    )
    yield from _pack(number, 1, decide(mine["bounds"], mine["transactions"], mine["listed"]))


def _unpack(pieces: Iterator[pa.RecordBatch]) -> tuple[int, list[tuple[tuple[int, int], str, pa.RecordBatch]]]:
    """(number of the share, (order, name, rows) of all its pieces)"""
    found = []
    number = -1
    for rows in pieces:
        for row in rows.to_pylist():
            number = row["share"]
            found += [((row["segment"], row["number"]), row["name"], one) for one in unpacked(row["rows"])]
    return number, sorted(found, key=lambda one: one[0])


def _pack(share: int, origin: int, tables: Tables) -> Iterator[pa.RecordBatch]:
    for name, table in tables.items():
        for count, rows in enumerate(table.combine_chunks().to_batches(ROWS_MAX)):
            yield packed(share, origin, count, name, rows)


def _in_order(found: pa.Table) -> list[Tables]:
    """The tables of every share, in the order in which one process makes them: first all that shares tell alone."""
    rows = sorted(
        zip(*(found[name].to_pylist() for name in ("segment", "share", "number", "name", "rows")), strict=True),
        key=lambda row: row[:3],
    )
    made: dict[tuple[int, int], list[tuple[str, pa.RecordBatch]]] = {}
    for origin, share, _, name, content in rows:
        made.setdefault((origin, share), []).extend((name, one) for one in unpacked(content))
    return [as_tables(made[key], SHARED) for key in sorted(made)]


def compare(
    spark: SparkSession, folder: Folder, found: Audit, chain: Chain, progress: Progress | None = None
) -> list[Finding]:
    """As `run.compare`; equal records are counted by Spark, so that they need not fit into one process."""
    from pyspark.sql import functions as f

    chain.check(folder, found.committed)
    pieces = pieces_of(spark, bunches_of(folder, chain.topics()), partial(read_segment, with_records=True))
    tallies = pieces.mapInArrow(
        _tally_of(chain, found), "key binary, value binary, wanted long, found long, unreadable binary"
    )
    sums = tallies.groupBy("key", "value", "unreadable").agg(*(f.sum(name).alias(name) for name in ("wanted", "found")))
    with _watched(spark, progress):
        wrong = sums.filter("wanted <> found or unreadable is not null").toArrow()
    unreadable = [one for rows in wrong["unreadable"].drop_null().to_pylist() for one in unpacked(rows)]
    tally = wrong.filter(wrong["unreadable"].is_null()).select(TALLY.names).cast(TALLY)
    return [*pa.Table.from_batches(unreadable, FINDINGS).to_pylist(), *chain.findings(tally, found.bounds)]


def _tally_of(chain: Chain, found: Audit) -> Callable[[Pieces], Pieces]:
    transactions = found.transactions.filter(pc.is_in(found.transactions["topic"], pa.array(chain.topics())))
    committed = found.committed

    def tally(pieces: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in pieces:
            for name, content in zip(rows["name"].to_pylist(), rows["rows"].to_pylist(), strict=True):
                if name == "findings":
                    yield _tallied(TALLY.empty_table(), content)
                for one in unpacked(content) if name == "records" else ():
                    if len(one):
                        mine = of_place(transactions, one["topic"][0].as_py(), one["partition"][0].as_py())
                        yield _tallied(chain.tally(pa.Table.from_batches([one]), mine, committed), None)

    return tally


def _tallied(tally: pa.Table, unreadable: bytes | None) -> pa.RecordBatch:
    """Rows of TALLY, or one row with what could not be read."""
    if unreadable is not None:
        tally = pa.Table.from_pylist([{"wanted": 0, "found": 0}], TALLY)
    both = tally.append_column("unreadable", pa.array([unreadable] * len(tally), pa.binary()))
    return both.combine_chunks().to_batches()[0] if len(both) else pa.RecordBatch.from_pylist([], both.schema)


@contextmanager
def _watched(spark: SparkSession, progress: Progress | None) -> Iterator[None]:
    """Tells how many tasks of the stages at work are done."""
    if progress is None:
        yield
        return
    over = Event()
    tracker: Any = spark.sparkContext.statusTracker()

    def watch() -> None:
        while not over.wait(POLL_S):
            stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
            known = [one for one in stages if one is not None and one.numTasks]
            if known:
                done, tasks = sum(one.numCompletedTasks for one in known), sum(one.numTasks for one in known)
                progress(f"Spark stage {known[0].stageId}", done / tasks)

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
