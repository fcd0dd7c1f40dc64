"""Write the tables of an audit as Parquet.

    DIR/<table>/part-<topic>-<partition>-<base offset>.parquet     rows of one segment, written by the task that reads it;
                                                                   long topic names are cut and get a hash
    DIR/<table>/part.parquet                                       rows computed from all segments

A file is renamed to its final name when it is complete, so that retried tasks leave no partial or duplicate files.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from stuntbroker.pipeline.audit.folder import FolderError, Segment
from stuntbroker.pipeline.audit.offsets_log import OFFSETS
from stuntbroker.pipeline.audit.records import RECORDS
from stuntbroker.pipeline.audit.scan import BATCHES
from stuntbroker.pipeline.audit.txn_log import TXN_STATE

if TYPE_CHECKING:
    from stuntbroker.pipeline.audit.result import Audit

OF_SEGMENTS: Final = {"batches": BATCHES, "txn_state": TXN_STATE, "offsets": OFFSETS, "records": RECORDS}
OF_ALL: Final = ("transactions", "bounds", "segments", "fencing", "latencies", "committed")
COMPRESSION: Final = "zstd"
NAME_BYTES_MAX: Final = 190
NAME_START_BYTES: Final = 150


class SegmentFiles:
    """Files of one segment, one per table; a file is created with its first row."""

    def __init__(self, folder: str, segment: Segment) -> None:
        self._folder = folder
        self._name = f"part-{_short(segment.topic)}-{segment.partition}-{segment.base_offset:020d}.parquet"
        self._writers: dict[str, Any] = {}

    def write(self, table: str, rows: pa.RecordBatch) -> None:
        """Append rows to a table's file for this segment."""
        if table not in OF_SEGMENTS or not len(rows):
            return
        if table not in self._writers:
            self._writers[table] = _writer(self._unfinished(table), OF_SEGMENTS[table])
        self._writers[table].write_batch(rows)

    def finish(self, whole: bool) -> None:
        """Close the files; give them their final names if they are `whole`, else remove them."""
        for table, writer in self._writers.items():
            writer.close()
            if whole:
                os.replace(self._unfinished(table), f"{self._folder}/{table}/{self._name}")
            else:
                os.unlink(self._unfinished(table))

    def _unfinished(self, table: str) -> str:
        """Return the temporary path: one per process, as a task may run twice; readers skip names that begin with `_`."""
        return f"{self._folder}/{table}/_{self._name}.{os.getpid()}"


@dataclass(frozen=True, slots=True)
class TableWriter:
    """Writes tables to `folder`. The object can be pickled for other processes that share the folder."""

    folder: str
    with_records: bool = False

    def make_folders(self) -> None:
        """Create the folders of the tables. Raises FolderError if `folder` is not empty."""
        try:
            os.makedirs(self.folder, exist_ok=True)
            if os.listdir(self.folder):
                raise FolderError(f"{self.folder} is not empty: give a folder that is new")
            for table in (*self._of_segments(), *OF_ALL, "findings"):
                os.makedirs(f"{self.folder}/{table}")
        except FileExistsError as fault:
            raise FolderError(f"{self.folder} is not a folder: give one that is new") from fault
        except OSError as fault:
            raise FolderError(f"cannot write to {self.folder}: {fault.strerror}") from fault

    @contextmanager
    def of(self, segment: Segment) -> Iterator[SegmentFiles]:
        """Yield the files of one segment, which are kept only when the block ends without an exception."""
        files = SegmentFiles(self.folder, segment)
        whole = False
        try:
            yield files
            whole = True
        finally:
            files.finish(whole)

    def finish(self, audit: Audit, findings: pa.Table) -> None:
        """Write the tables of the whole folder, and an empty file for each per-segment table without rows."""
        tables = {name: getattr(audit, name) for name in OF_ALL} | {"findings": findings}
        for name in self._of_segments():
            if not os.listdir(f"{self.folder}/{name}"):
                tables[name] = OF_SEGMENTS[name].empty_table()
        for name, table in tables.items():
            with _writer(f"{self.folder}/{name}/part.parquet", table.schema) as writer:
                writer.write_table(table)

    def _of_segments(self) -> list[str]:
        return [name for name in OF_SEGMENTS if name != "records" or self.with_records]


def _short(topic: str) -> str:
    """Return a topic name shortened so that file names stay below 255 bytes."""
    if len(os.fsencode(topic)) <= NAME_BYTES_MAX:
        return topic
    start = os.fsencode(topic)[:NAME_START_BYTES].decode("utf-8", "ignore")
    return f"{start}-{hashlib.sha256(os.fsencode(topic)).hexdigest()[:16]}"


def _writer(path: str, schema: pa.Schema) -> Any:
    from pyarrow import parquet

    return parquet.ParquetWriter(path, schema, compression=COMPRESSION)
