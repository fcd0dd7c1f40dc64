"""Decode the records of a coordinator's log as rows: many at once if they have the usual form, otherwise one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stuntbroker.pipeline.arrays import Array
from stuntbroker.pipeline.audit.lanes import NotText
from stuntbroker.protocol.primitives import DecodeError

Fault = tuple[int, str]
"""Offset of an undecodable record, and the error."""


@dataclass(frozen=True, slots=True)
class Log:
    """How the records of one internal topic are decoded: in lanes, or one by one."""

    schema: pa.Schema
    """Schema of the rows; its first columns hold the columns `place` of RECORDS, under possibly different names."""
    place: tuple[str, ...]
    kinds: tuple[bytes, ...]
    """Prefixes (version) of the keys to decode; records with other keys are skipped, as a coordinator does."""
    read_lanes: Callable[[pa.RecordBatch], list[tuple[Array, pa.Table]]]
    """Decodes records of the usual form to (record numbers, rows); may raise NotText."""
    read_record: Callable[[bytes | None, bytes | None], tuple[Any, ...]]
    """Decodes a key and a value to the columns after `place`. Raises DecodeError or ValueError."""

    def read(self, records: pa.RecordBatch) -> tuple[pa.RecordBatch, list[Fault]]:
        """Return (rows of the schema in record order, faults)."""
        kinds = pc.fill_null(pc.binary_slice(records["key"], 0, 2), self.kinds[0])
        is_wanted = pc.is_in(kinds, pa.array(self.kinds, pa.binary()))
        wanted = np.flatnonzero(pc.and_not(is_wanted, records["is_control"]))
        if len(wanted) < len(records):
            records = records.take(pa.array(wanted))
        try:
            pieces = self.read_lanes(records)
        except NotText:
            pieces = []
        is_left = np.ones(len(records), bool)
        for numbers, _ in pieces:
            is_left[numbers] = False
        left, faults = np.flatnonzero(is_left), list[Fault]()
        if len(left):
            rows, read, faults = self.one_by_one(records.take(pa.array(left)))
            pieces = [*pieces, (left[read], rows)]
        if not sum(len(rows) for _, rows in pieces):
            return pa.RecordBatch.from_pylist([], self.schema), faults
        numbers = np.concatenate([each for each, _ in pieces])
        both = pa.concat_tables([rows for _, rows in pieces])
        if (numbers[1:] < numbers[:-1]).any():
            both = both.take(pa.array(np.argsort(numbers)))
        return both.combine_chunks().to_batches()[0], faults

    def one_by_one(self, records: pa.RecordBatch) -> tuple[pa.Table, list[int], list[Fault]]:
        """Decode records one by one; return (rows, their record numbers, faults)."""
        rows: list[tuple[Any, ...]] = []
        read: list[int] = []
        faults: list[Fault] = []
        columns = (records[name].to_pylist() for name in (*self.place, "key", "value"))
        offset_at = self.place.index("offset")
        for number, (*place, key, value) in enumerate(zip(*columns, strict=True)):
            try:
                rows.append((*place, *self.read_record(key, value)))
                read.append(number)
            except (DecodeError, ValueError) as fault:
                faults.append((place[offset_at], str(fault)))
        by_field = zip(*rows, strict=True) if rows else [()] * len(self.schema)
        arrays = [pa.array(values, field.type) for values, field in zip(by_field, self.schema, strict=True)]
        return pa.table(arrays, schema=self.schema), read, faults

    def rows_of(self, records: pa.RecordBatch, numbers: Array, decoded: dict[str, Any]) -> pa.Table:
        """Return rows for the records `numbers`; `decoded` has the columns after `place` by name."""
        mine = records.select(list(self.place))
        if len(numbers) < len(records):
            mine = mine.take(pa.array(numbers))
        columns = [*mine.columns]
        for field in self.schema.names[len(self.place) :]:
            column = decoded[field]
            columns.append(
                pa.array(column, self.schema.field(field).type) if isinstance(column, np.ndarray) else column
            )
        return pa.table(columns, schema=self.schema)
