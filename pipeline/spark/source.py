"""Read topics as a DataFrame or a stream, with the columns, options and rules of Spark's own Kafka source.

The driver plans ranges of offsets, and the tasks read them as Arrow record batches.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.connection import Deadline
from stuntbroker.client.commands.fetching import MISSING_S, POLL_INTERVAL_S, TopicPartition, find_topics, list_offsets
from stuntbroker.client.errors import NotFound
from stuntbroker.client.security_properties import security_of
from stuntbroker.pipeline.counting import count
from stuntbroker.pipeline.spark.connections import explaining_timeouts
from stuntbroker.pipeline.spark.offsets import (
    DataLoss,
    Offsets,
    OffsetsJson,
    Range,
    SourceError,
    admit,
    from_json,
    lost_data,
    new_offsets,
    resolve,
    split,
    to_json,
)
from stuntbroker.pipeline.spark.source_options import SourceOptions, Subscription, columns, parse_options
from stuntbroker.protocol.request_values import EARLIEST, LATEST, READ_UNCOMMITTED

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from stuntbroker.pipeline.decode import Columns


log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Piece(InputPartition):
    """Offsets that one task reads, from `start` (inclusive) to `end` (exclusive)."""

    topic: str
    partition: int
    start: int
    end: int


def _telling_what_to_do() -> AbstractContextManager[None]:
    return explaining_timeouts("kafkaConsumer.pollTimeoutMs")


class _Reader:
    """Common parts of both readers: listing partitions and offsets, and reading one piece. Raises SourceError."""

    def __init__(self, options: Mapping[str, str], schema: StructType, streaming: bool) -> None:
        self.options: SourceOptions = parse_options(options, streaming)
        self._schema = schema
        expected = f"struct<{','.join(map(':'.join, columns(self.options.include_headers)))}>"
        if schema.simpleString() != expected:
            raise SourceError(f"the schema of this source is fixed, it is {expected}: leave out .schema(...)")

    def _open(self) -> Cluster:
        security = security_of(dict(self.options.security))
        cluster = Cluster(self.options.bootstrap, self.options.timeout_s, security=security)
        cluster.retry_unreachable = True  # Wait for unreachable brokers, already for the first batch.
        return cluster

    def _partitions(self, cluster: Cluster, all_of_them: bool) -> list[TopicPartition]:
        """Return the subscribed partitions that exist. With `all_of_them`, raise SourceError if one does not exist."""
        wanted: Subscription = self.options.subscription
        if wanted.pattern is not None:
            pattern = re.compile(wanted.pattern)
            topics = find_topics(cluster, None)
            chosen = [item for name, item in topics.items() if pattern.search(name) and not item.is_internal]
            return sorted(partition for item in chosen for partition in item.partitions)
        names = wanted.topics or tuple(sorted({item.topic for item in wanted.partitions or ()}))
        known = find_topics(cluster, names)
        if all_of_them and (missing := [name for name in names if name not in known]):
            raise SourceError(f"there is no topic {', '.join(map(repr, missing))}: create it, or correct the name")
        there = sorted(partition for item in known.values() for partition in item.partitions)
        if wanted.partitions is None:
            return there
        if all_of_them and (absent := sorted(set(wanted.partitions) - set(there))):
            raise SourceError(f"assign names {', '.join(map(str, absent))}, which is not there: {_counts(there)}")
        return [item for item in wanted.partitions if item in set(there)]

    def _listing(self, cluster: Cluster) -> Callable[[Mapping[TopicPartition, int]], Offsets]:
        return lambda wanted: list_offsets(cluster, wanted, self.options.isolation)

    def _offsets(self, cluster: Cluster, partitions: Collection[TopicPartition], which: int) -> Offsets:
        return list_offsets(cluster, dict.fromkeys(partitions, which), self.options.isolation)

    def _lost(self, what: str) -> None:
        if self.options.fail_on_data_loss:
            raise DataLoss(what)
        log.warning("%s; the query continues, because failOnDataLoss is false", what)

    def _pieces(self, ranges: Sequence[Range]) -> list[Piece]:
        cut = split(ranges, self.options.min_partitions, self.options.max_records_per_partition)
        return [Piece(*each.where, each.start, each.end) for each in cut]

    def _read(self, piece: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(piece, Piece):  # Spark's placeholder when there is nothing to read.
            return
        from pyspark.sql.pandas.types import to_arrow_schema

        from stuntbroker.pipeline.fetch_arrow import Wanted, fetch_range

        options = self.options
        wanted = Wanted(
            TopicPartition(piece.topic, piece.partition),
            piece.start,
            piece.end,
            options.isolation,
            options.sizes,
            options.include_headers,
            options.timeout_s,
        )
        arrow = to_arrow_schema(self._schema, timezone="UTC")
        with self._open() as cluster, _telling_what_to_do():
            for columns in fetch_range(cluster, wanted, self._lost):
                if len(columns.offset):
                    yield _as_rows(columns, wanted.where, arrow)


def _counts(partitions: Sequence[TopicPartition]) -> str:
    names = sorted({partition.topic for partition in partitions})
    said = (
        f"topic {name!r} has {count(sum(partition.topic == name for partition in partitions), 'partition')}"
        for name in names
    )
    return ", ".join(said) or "there is no such topic"


def _as_rows(columns: Columns, where: TopicPartition, schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    count = len(columns.offset)
    times = pa.array(columns.timestamp_ms * 1_000).view(schema.field("timestamp").type)
    arrays = [
        columns.key,
        columns.value,
        pa.repeat(where.topic, count),
        pa.repeat(pa.scalar(where.partition, pa.int32()), count),
        pa.array(columns.offset),
        times,
        pa.array(columns.timestamp_type),
    ]
    if columns.headers is not None:
        arrays.append(columns.headers.cast(schema.field("headers").type))
    return pa.record_batch(arrays, schema=schema)


class BatchReader(_Reader, DataSourceReader):
    """Reader for `spark.read`: by default from the earliest to the latest offsets."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        super().__init__(options, schema, streaming=False)

    def partitions(self) -> Sequence[InputPartition]:
        """Return the ranges of offsets that tasks read, on the driver."""
        with self._open() as cluster, _telling_what_to_do():
            return self._pieces(self._ranges(cluster))

    def _ranges(self, cluster: Cluster) -> list[Range]:
        partitions = self._partitions(cluster, all_of_them=True)
        start = resolve(self.options.start, partitions, self._listing(cluster)).offsets
        end, moving = resolve(self.options.end, partitions, self._listing(cluster))
        named = [partition for partition in partitions if partition not in moving]
        for partition, latest in self._offsets(cluster, named, LATEST).items():
            if end[partition] > latest:
                self._lost(
                    f"{self.options.end.option} is offset {end[partition]} for {partition}, which ends at {latest}"
                )
                end[partition] = latest
        for partition in partitions:
            if start[partition] > end[partition]:
                raise SourceError(
                    f"partition {partition} starts at offset {start[partition]} ({self.options.start.option}), after its end "
                    f"{end[partition]} ({self.options.end.option}): correct one of them. The offsets of a topic that "
                    "was deleted and created again are new"
                )
        return [Range(partition, start[partition], end[partition]) for partition in partitions]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of one range, in a task."""
        return self._read(partition)


class StreamReader(_Reader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reader for `spark.readStream`: by default from the latest offsets; new partitions from their earliest offset.

    Spark does not store the initial offset: after a restart without a committed batch, it asks for it again. The first batch
    therefore reads nothing from partitions that begin at the latest offset, so that their start becomes the end of the first
    batch, which Spark stores.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        super().__init__(options, schema, streaming=True)
        self._cluster: Cluster | None = None
        self._initial: Offsets | None = None
        self._moving: frozenset[TopicPartition] = frozenset()
        self._has_begun = False
        self._latest: Offsets | None = None
        self._target: Offsets | None = None
        self._delay: Deadline | None = None

    # --- on the driver

    def initialOffset(self) -> OffsetsJson:
        """Return the start offsets of a new query."""
        if self._initial is None:
            cluster = self._connected()
            with _telling_what_to_do():
                partitions = self._partitions(cluster, all_of_them=True)
            self._initial, self._moving = resolve(self.options.start, partitions, self._listing(cluster))
        return to_json(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the read limit of a batch that the options set."""
        if self.options.min_offsets is not None:
            return ReadMinRows(self.options.min_offsets)
        return ReadAllAvailable() if self.options.max_offsets is None else ReadMaxRows(self.options.max_offsets)

    def prepareForTriggerAvailableNow(self) -> None:
        """Make the current end offsets the end of the query."""
        self._target = self._ends()

    def latestOffset(self, start: OffsetsJson, limit: ReadLimit) -> OffsetsJson:
        """Return the end offsets of the next batch."""
        begin = from_json(start)
        latest = self._latest = self._with_missing(begin, self._ends() if self._target is None else self._target)
        left_out: frozenset[TopicPartition] = frozenset()
        if begin == self._initial and not self._has_begun:
            self._has_begun, left_out = True, self._moving
            ahead = {place: offset for place, offset in begin.items() if place in latest and offset > latest[place]}
            if ahead and self._target is not None:  # The target was read before the start offsets.
                ends = self._ends()
                latest |= {place: offset for place, offset in ahead.items() if offset <= ends.get(place, -1)}
        if self._target is not None:
            self._target = latest
        self._wait_for_stable(begin, latest)
        for lost in lost_data(begin, latest):
            self._lost(lost)
        if isinstance(limit, ReadMinRows) and self._target is None and self._waits(new_offsets(begin, latest), limit):
            return start
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        if isinstance(limit, ReadMinRows):
            most = self.options.max_offsets
        end = latest
        if most is not None:
            end = admit(self._earliest(latest.keys() - begin.keys()) | begin, latest, most)
        return to_json(end | {partition: begin[partition] for partition in left_out})

    def reportLatestOffset(self) -> OffsetsJson | None:
        """Return the ends of the logs, for the query's progress."""
        return None if self._latest is None else to_json(self._latest)

    def partitions(self, start: OffsetsJson, end: OffsetsJson) -> Sequence[InputPartition]:
        """Return the ranges of offsets of one batch, on the driver."""
        begin, stop = from_json(start), from_json(end)
        if begin == self._initial:  # After a restart, the initial offset may be re-read and lie after the stored end.
            begin |= {partition: min(begin[partition], stop[partition]) for partition in self._moving & stop.keys()}
        for lost in lost_data(begin, stop):
            self._lost(lost)
        for partition, first in self._earliest(stop.keys() - begin.keys()).items():
            if first:
                self._lost(f"partition {partition} is new, but begins at offset {first}")
            begin[partition] = first
        return self._pieces([Range(partition, begin[partition], stop[partition]) for partition in stop])

    def stop(self) -> None:
        """Close the connections."""
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    def _waits(self, new: int, limit: ReadMinRows) -> bool:
        """Whether the batch waits for more rows: never the first batch, and never longer than `maxTriggerDelay`."""
        if self._delay is not None and self._delay.left_s() and new < limit.min_rows:
            return True
        self._delay = Deadline(self.options.max_trigger_delay_s)
        return False

    def _ends(self) -> Offsets:
        """Return the end offsets of existing partitions. Raises NotFound if brokers disagree for longer than MISSING_S."""
        cluster, deadline = self._connected(), Deadline(MISSING_S)
        with _telling_what_to_do():
            while True:
                try:
                    return self._offsets(cluster, self._partitions(cluster, all_of_them=False), LATEST)
                except NotFound:
                    if not deadline.left_s():
                        raise
                    cluster.pause(POLL_INTERVAL_S)

    def _with_missing(self, begin: Offsets, latest: Offsets) -> Offsets:
        """Wait up to MISSING_S for missing partitions: a broker may have outdated metadata, or may have just started."""
        deadline = Deadline(MISSING_S)
        while (missing := begin.keys() - latest.keys()) and deadline.left_s():
            self._connected().pause(POLL_INTERVAL_S)
            ends = self._ends()
            latest = latest | {partition: ends[partition] for partition in missing & ends.keys()}
        return latest

    def _wait_for_stable(self, begin: Offsets, latest: Offsets) -> None:
        """Treat partitions read beyond the last stable offset (by read_uncommitted) as having no new records yet."""
        behind = [partition for partition, offset in begin.items() if latest.get(partition, offset) < offset]
        if behind:
            written = list_offsets(self._connected(), dict.fromkeys(behind, LATEST), READ_UNCOMMITTED)
            latest.update(
                {partition: begin[partition] for partition in behind if begin[partition] <= written[partition]}
            )

    def _earliest(self, partitions: Collection[TopicPartition]) -> Offsets:
        return self._offsets(self._connected(), partitions, EARLIEST) if partitions else {}

    def _connected(self) -> Cluster:
        if self._cluster is None:
            self._cluster = self._open()
        return self._cluster

    # --- on an executor

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of one range, in a task."""
        return self._read(partition)
