"""Read the segments of a data folder with Spark: one input partition per large segment, largest first.

    spark.dataSource.register(SegmentSource)
    spark.read.format("stuntbroker-segments").option("table", "batches").load(FOLDER)

returns a table of the audit as a DataFrame: batches, records, txn_state or offsets, of all topics or of the topics in the
option `topics` (separated by commas). Every worker must see the folder under the same path.

The audit itself uses `pieces_of`. Each of its rows is a whole piece of a table in Arrow's stream format, so that the JVM
moves bytes without decoding rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from stuntbroker.pipeline.audit.folder import Folder, FolderError, Segment, read_folder
from stuntbroker.pipeline.audit.scan import BATCHES
from stuntbroker.pipeline.audit.shares import PIECES, read_segment, shares_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    Read = Callable[[Segment], Iterable[tuple[str, pa.RecordBatch]]]

NAME: Final = "stuntbroker-segments"
PIECES_SCHEMA: Final = "share int, segment int, number int, name string, rows binary"
"""A row holds a piece of the table `name`; `segment` is the segment's index in its share, `number` orders its pieces."""
TABLES: Final = ("batches", "records", "txn_state", "offsets")
KNOWN: Final = ("path", "table", "topics")
TOPICS_SHOWN_MAX: Final = 20
"""Maximum number of topics listed in the error for a missing topic."""
BUNCH_BYTES: Final = 1 << 25
"""One task reads small segments until they have this size in bytes together."""


class SegmentOfShare(NamedTuple):
    """A segment, its share's number, and its index in the share."""

    share: int
    place: int
    segment: Segment


@dataclass(frozen=True)
class Bunch(InputPartition):
    """Segments that one task reads."""

    segments: tuple[SegmentOfShare, ...]


def bunches_of(folder: Folder, topics: Sequence[str] = ()) -> list[Bunch]:
    """Return one bunch per large segment, largest first; small segments share a bunch."""
    every = [
        SegmentOfShare(share.number, number, segment)
        for share in shares_of(folder)
        for number, segment in enumerate(share.segments())
        if not topics or segment.topic in topics
    ]
    every.sort(key=lambda item: -item.segment.size)
    bunches: list[Bunch] = []
    taken: list[SegmentOfShare] = []
    size = 0
    for item in every:
        taken.append(item)
        size += item.segment.size
        if size >= BUNCH_BYTES:
            bunches.append(Bunch(tuple(taken)))
            taken, size = [], 0
    return [*bunches, Bunch(tuple(taken))] if taken else bunches


class SegmentSource(DataSource):
    """A data source for the tables of a folder, for queries beyond the audit."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return NAME

    def schema(self) -> StructType:
        """Return the columns of the requested table."""
        from pyspark.sql.pandas.types import from_arrow_schema

        return from_arrow_schema(PIECES[self._table()])

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a data folder. Raises ValueError for a wrong option."""
        from stuntbroker.pipeline.spark.source_options import check_names

        check_names(NAME, self.options.keys(), KNOWN)
        if not (path := str(self.options.get("path", ""))):
            raise ValueError("no data folder is given: load(FOLDER)")
        topics = (topic.strip() for topic in str(self.options.get("topics", "")).split(","))
        return SegmentReader(path, self._table(), tuple(filter(None, topics)))

    def _table(self) -> str:
        table = str(self.options.get("table", "batches"))
        if table not in TABLES:
            raise ValueError(f"there is no table {table!r}: it must be one of {', '.join(TABLES)}")
        return table


class SegmentReader(DataSourceReader):
    """Reads the segments of a data folder, one bunch per task."""

    def __init__(self, path: str, table: str, topics: tuple[str, ...]) -> None:
        self._path, self._table, self._topics = path, table, topics

    def partitions(self) -> Sequence[InputPartition]:
        """Return the bunches of segments to read. Raises FolderError."""
        folder = read_folder(self._path)
        _check_topics(folder, self._topics)
        return bunches_of(folder, self._topics) or [Bunch(())]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of a bunch of segments."""
        assert isinstance(partition, Bunch)
        for item in partition.segments:
            for name, rows in read_segment(item.segment, self._table == "records"):
                if name == self._table:
                    yield rows


def _check_topics(folder: Folder, topics: Sequence[str]) -> None:
    """Raise FolderError for the first topic without segments, which includes topics that never had a record."""
    there = sorted({partition.topic for partition in folder.partitions})
    for topic in topics:
        if topic not in there:
            near = get_close_matches(topic, there, 1)
            some = ", ".join(there[:TOPICS_SHOWN_MAX]) + (", ..." if len(there) > TOPICS_SHOWN_MAX else "")
            hint = f"did you mean {near[0]}?" if near else f"the folder has {some}"
            raise FolderError(f"{folder.path} has no records of a topic {topic!r}: {hint}")


def pieces_of(spark: SparkSession, bunches: Sequence[Bunch], read: Read) -> DataFrame:
    """Return the tables of `read` for every segment as rows of PIECES_SCHEMA, one task per bunch."""

    def read_bunches(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        nothing = pa.RecordBatch.from_pylist([], BATCHES)
        for rows in numbers:
            for number in rows["id"].to_pylist():
                for item in bunches[number].segments:
                    # An empty first piece, so that every share has a piece even if its partitions are empty.
                    yield packed(item.share, item.place, 0, "batches", nothing)
                    for count, (name, batch) in enumerate(read(item.segment), 1):
                        yield packed(item.share, item.place, count, name, batch)

    # `range` makes one Spark partition per number, without a Python process for planning.
    return spark.range(0, len(bunches), 1, max(len(bunches), 1)).mapInArrow(read_bunches, PIECES_SCHEMA)


def packed(share: int, segment: int, number: int, name: str, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return a row of PIECES_SCHEMA with these rows."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
        stream.write_batch(rows)
    columns = [
        pa.array([share], pa.int32()),
        pa.array([segment], pa.int32()),
        pa.array([number], pa.int32()),
        pa.array([name]),
        pa.array([sink.getvalue().to_pybytes()], pa.binary()),
    ]
    return pa.record_batch(columns, ["share", "segment", "number", "name", "rows"])


def unpacked(rows: bytes) -> list[pa.RecordBatch]:
    """Return the record batches of an Arrow stream."""
    with pa.ipc.open_stream(rows) as stream:
        return list(stream)
