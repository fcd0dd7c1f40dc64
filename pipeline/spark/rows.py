"""Encode the rows of a DataFrame as record batches, without Python code per row.

The columns are those of Spark's own Kafka sink: `value` and, optionally, `key`, `topic`, `partition` and `headers`; other
columns are ignored. Rows are collected into chunks, so that each partition gets batches of a reasonable size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stuntbroker.client.commands.producing import now_ms
from stuntbroker.pipeline.encode import BATCH_BYTES_MAX, compressed, encode, partitions_of

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

CHUNK_BYTES: Final = 4 << 20
CHUNK_ROWS: Final = 200_000
"""A chunk of rows is encoded when it reaches CHUNK_BYTES or CHUNK_ROWS."""
HEADERS: Final = "array<struct<key: string, value: binary>>"


class BadRows(ValueError):
    """The DataFrame, or a row of it, cannot be written. The message is one line: the problem and what to do."""


class Piece(NamedTuple):
    """An encoded record batch for one partition."""

    topic: str
    partition: int
    data: bytearray
    rows: int


def check_schema(schema: StructType, topic: str | None) -> None:
    """Check the columns and their types. Raises BadRows."""
    from pyspark.sql.types import BinaryType, IntegerType, StringType

    types: dict[str, DataType] = {field.name: field.dataType for field in schema.fields}
    has = (
        f"the DataFrame has {', '.join(f'{name} {kind.simpleString()}' for name, kind in types.items()) or 'no column'}"
    )
    if "value" not in types:
        raise BadRows(f"column 'value' is missing (string or binary): {has}")
    if topic is None and "topic" not in types:
        raise BadRows(f"the topic is missing: set the option 'topic', or add a column 'topic': {has}")
    allowed = {
        "value": ("string or binary", (StringType, BinaryType)),
        "key": ("string or binary", (StringType, BinaryType)),
        "topic": ("string", (StringType,)),
        "partition": ("int", (IntegerType,)),
    }
    for name, (words, kinds) in allowed.items():
        kind = types.get(name)
        if kind is not None and not isinstance(kind, kinds):
            raise BadRows(f"column {name!r} is {kind.simpleString()}, it must be {words}: cast the column first")
    if "headers" in types:
        _check_headers(types["headers"])


def _check_headers(kind: DataType) -> None:
    from pyspark.sql.types import ArrayType, BinaryType, StringType, StructType

    element = kind.elementType if isinstance(kind, ArrayType) else None
    fields = [(field.name, type(field.dataType)) for field in element.fields] if isinstance(element, StructType) else []
    if fields != [("key", StringType), ("value", BinaryType)]:
        raise BadRows(f"column 'headers' is {kind.simpleString()}, it must be {HEADERS}")


def pieces(
    batches: Iterable[pa.RecordBatch],
    topic: str | None,
    partitions: Callable[[str], int],
    compression: str = "none",
    first: int = 0,
    spread: bool = True,
    bytes_max: Callable[[str], int] = lambda _: BATCH_BYTES_MAX,
) -> Iterator[Piece]:
    """Yield encoded batches, each for one partition. Raises BadRows.

    `partitions` returns the number of partitions of a topic, `bytes_max` its maximum batch size. Rows without key and
    partition go to partition `first`; with `spread`, each chunk of rows goes to the next partition.
    """
    sticky = first
    for chunk in _chunks(batches):
        for name, rows in _by_topic(chunk, topic):
            yield from _encoded(rows, name, partitions(name), sticky, compression, bytes_max(name))
        sticky += spread


def _chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    pending: list[pa.RecordBatch] = []
    size = count = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        pending.append(batch)
        size += batch.nbytes
        count += batch.num_rows
        if size >= CHUNK_BYTES or count >= CHUNK_ROWS:
            yield _joined(pending)
            pending, size, count = [], 0, 0
    if pending:
        yield _joined(pending)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _column(rows: pa.RecordBatch, name: str) -> pa.Array | None:
    at = rows.schema.get_field_index(name)
    return None if at < 0 else rows.column(at)


def _by_topic(rows: pa.RecordBatch, topic: str | None) -> Iterator[tuple[str, pa.RecordBatch]]:
    if topic is not None:
        yield topic, rows
        return
    names = _column(rows, "topic")
    if names is None or names.null_count:
        raise BadRows("a row has no topic: set the option 'topic', or fill the column 'topic' everywhere")
    for name in pc.unique(names).to_pylist():
        yield name, rows.filter(pc.equal(names, name))


def _encoded(
    rows: pa.RecordBatch, topic: str, partitions: int, sticky: int, compression: str, bytes_max: int
) -> Iterator[Piece]:
    key, value = _column(rows, "key"), _column(rows, "value")
    count = rows.num_rows
    try:
        chosen = partitions_of(key, count, partitions, _column(rows, "partition"), sticky)
    except ValueError as fault:
        raise BadRows(f"topic {topic!r}: {fault}") from fault
    columns = [key, value, _column(rows, "headers")]
    ends = np.cumsum(np.bincount(chosen, minlength=partitions))
    if ends[0] != count and not (chosen == chosen[0]).all():
        order = pa.array(np.argsort(chosen, kind="stable"))
        columns = [None if item is None else item.take(order) for item in columns]
    first, now = 0, now_ms()
    for partition, end in enumerate(ends.tolist()):
        if end == first:
            continue
        key, value, headers = (None if item is None else item[first:end] for item in columns)
        try:
            for item in encode(key, value, now, bytes_max, headers=headers):
                yield Piece(topic, partition, compressed(item.data, compression), item.records)
        except ValueError as fault:
            raise BadRows(f"topic {topic!r}: {fault}") from fault
        first = end
