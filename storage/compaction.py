"""Log compaction: the last value of each key stays.

A cleaning reads every closed segment below the last stable offset that is old enough (`min.compaction.lag.ms`) twice, in
slices small enough for an event loop: once to learn the last offset of each key, once to write what stays. Neighbours that
fit into one segment become one: first `<base>-<end>.cleaned`, then `.swap`, the moment from which it counts (see
recovery.py); then the old segments go and it takes their place.

| batch | what stays |
|---|---|
| data | records whose key has no later record; whole batches as they came, others rebuilt with their codec |
| data of an aborted transaction | nothing, and its entry in the aborted index goes with it |
| tombstone | nothing once its timestamp is older than delete.retention.ms |
| marker of a transaction | while data of its producer before it stays, or it is a known producer's last |
| without a key | nothing |
| that cannot be opened, or opens to too much | all of it, unless it was aborted |

Between slices anything may happen to the log. Appends do not matter. When its first segments go (retention,
DeleteRecords, deletion of the topic), the cleaning gives up; the next one begins anew.
"""

# Unlike Kafka: it keeps tombstones and markers for `delete.retention.ms` from the first cleaning that found them, and an
# empty batch for the last one of each producer; here the snapshot of the producers remembers them. It opens any batch.

from __future__ import annotations

import contextlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Generator, Iterator
from functools import partial
from itertools import takewhile
from operator import attrgetter
from typing import Final

from stuntbroker.protocol.batches.compression import CompressionError, TooLarge, compress, decompress
from stuntbroker.protocol.batches.records import (
    CONTROL,
    HEADER,
    HEADER_SIZE,
    TRANSACTIONAL,
    BatchHeader,
    only_record,
    seal,
)
from stuntbroker.protocol.batches.walk import Span, spans
from stuntbroker.protocol.primitives import Buffer, DecodeError
from stuntbroker.storage.disk import CREATE_NEW
from stuntbroker.storage.errors import StorageError
from stuntbroker.storage.open_files import OPEN_FILES
from stuntbroker.storage.partition import PartitionLog
from stuntbroker.storage.recovery import finish_compaction
from stuntbroker.storage.segment import SUFFIXES, Segment

SLICE_BYTES: Final = 65_536
"""Bytes of log that one slice reads."""
DIRTY_MIN: Final = 1_024
DIRTY_MAX: Final = 1 << 20
OPENED_MAX: Final = 2 << 20
"""A batch that opens to more bytes than this is kept whole: to compress more of them anew would make a slice too long."""
RECORDS_MAX: Final = 131_072
"""A batch of more records stays whole too."""
RECORD_COST: Final = 64
"""A record that is looked at counts for so many bytes of a slice, whatever its size."""
FREED_PER_STEP: Final = 100
_NEVER: Final = 1 << 63
_last_offset = attrgetter("last_offset")


class _Overtaken(Exception):
    """The segments that were being cleaned are no longer the log's."""


class Cleaning:
    """One pass over one log. Each `next()` does a bounded piece of the work; the pass is over when it ends."""

    def __init__(self, log: PartitionLog, now_ms: int) -> None:
        self._points = log.points
        self.log = log
        self.now_ms = now_ms
        self.last_offset: dict[bytes, int] = {}
        """Offset of the last record of each key, during the first reading."""
        self.live: set[int] = set()
        """These offsets, for the second one."""
        self.opaque: set[int] = set()
        """Base offsets of batches that cannot be opened: they stay whole."""
        self.last_marker: dict[int, int] = {}
        """Producer id -> offset of its last marker."""
        self.kept_by: set[int] = set()
        """Producers of whose current transaction something stays, while the log is written."""
        self.read = 0
        """Bytes since the last slice ended, those that were opened and RECORD_COST for each record among them."""
        self.first: Segment | None = None
        """The log's first segment, as this cleaning knows it."""

    def slices(self) -> Iterator[None]:
        """Raises StorageError when the disk refuses; the log is whole then, cleaned or not."""
        log = self.log
        try:
            finish_compaction(log.disk, log.folder)
            count = len(old_enough(log, self.now_ms))
            if count == len(log.segments):
                log.roll()
            stable = log.last_stable_offset
            closed = log.segments[: min(count, len(log.segments) - 1)]
            segments = [s for i, s in enumerate(closed) if log.segments[i + 1].base_offset <= stable]
            if not segments:
                return
            self.first = segments[0]
            end = log.segments[len(segments)].base_offset
            aborted = _AbortedOffsets(log)
            yield from self._learn(segments, aborted)
            clean_size = 0
            for group in groups(segments, end, log.config.segment_bytes):
                following = log.segments[log.segments.index(group[-1]) + 1].base_offset
                cleaned = yield from self._write(group, following, aborted)
                clean_size += cleaned.size
            log.clean_size = clean_size
            yield from self._empty(self.live.pop, len(self.live))
        except _Overtaken:
            return
        except OSError as fault:
            raise StorageError(f"cannot clean {log.folder}: {fault.strerror}") from fault

    def _slice(self, cost: int) -> Iterator[None]:
        """End a slice when it has cost enough: the event loop goes on, and then the log may be another."""
        self.read += cost
        if self.read < SLICE_BYTES:
            return
        self.read = 0
        yield
        if not self.log.segments or self.log.segments[0] is not self.first:
            raise _Overtaken

    def _learn(self, segments: list[Segment], aborted: _AbortedOffsets) -> Iterator[None]:
        for segment in segments:
            for header, batch in segment.batches(SLICE_BYTES):
                if header.attributes & CONTROL:
                    self.last_marker[header.producer_id] = header.base_offset
                elif not aborted.covers(header):
                    yield from self._learn_keys(header, batch)
                yield from self._slice(header.size)
        yield from self._empty(self.last_offset.popitem, len(self.last_offset))

    def _empty(self, take: Callable[[], object], count: int) -> Iterator[None]:
        """Let go of the elements of a collection: of a million at once would take too long for one slice."""
        for _ in range(0, count, FREED_PER_STEP):
            for _ in range(min(FREED_PER_STEP, count)):
                take()
            count -= FREED_PER_STEP
            yield from self._slice(RECORD_COST * FREED_PER_STEP // 4)

    def _note_last(self, key: bytes, offset: int) -> None:
        before = self.last_offset.get(key)
        if before is not None:
            self.live.discard(before)
        self.last_offset[key] = offset
        self.live.add(offset)

    def _learn_keys(self, header: BatchHeader, batch: bytes) -> Iterator[None]:
        record = only_record(batch)
        if record is not None and not header.last_offset_delta:
            self._note_last(record[0], header.base_offset)
            return
        offsets: dict[bytes, int] = {}
        try:
            yield from self._slice(len(payload := self._open(header, batch)))
            for span in spans(header, payload):
                if span.key is not None:
                    offsets[span.key] = span.offset
                yield from self._slice(RECORD_COST)
        except (CompressionError, DecodeError):
            self.opaque.add(header.base_offset)
            return
        for key, offset in offsets.items():
            self._note_last(key, offset)

    def _write(self, group: list[Segment], end: int, aborted: _AbortedOffsets) -> Generator[None, None, Segment]:
        """Write the remaining records of adjacent segments into one segment, and replace them by it."""
        disk = self.log.disk
        cleaned = Segment(self.log.folder, group[0].base_offset, disk)
        path = f"{self.log.folder}/{group[0].base_offset}-{end}"
        cleaned.fd = disk.open_file(path + ".cleaned", CREATE_NEW)
        try:
            for segment in group:
                for header, batch in segment.batches(SLICE_BYTES):
                    remaining = yield from self._staying(header, batch, aborted)
                    if remaining is not None:
                        kept = BatchHeader._make(HEADER.unpack_from(remaining))
                        cleaned.append(remaining, len(remaining), kept.last_offset, kept.max_timestamp)
                    yield from self._slice(header.size)
            if cleaned.max_timestamp < 0:  # Without timestamps, retention uses the file's modification time.
                disk.set_modified_ns(cleaned.fd, disk.modified_ns(group[-1].path + ".log"))
            if self.log.touched is not None:  # The segments that it replaces were synced.
                cleaned.sync()
            self._points.passing("compaction.swap.before", self.log.topic, self.log.index)
            disk.rename(path + ".cleaned", path + ".swap")
            if self.log.touched is not None:
                disk.sync_path(self.log.folder)
        except BaseException:
            cleaned.close()
            with contextlib.suppress(OSError):
                disk.remove(path + ".cleaned")
            raise
        self._swap(group, cleaned, path, end)
        return cleaned

    def _staying(
        self, header: BatchHeader, batch: bytes, aborted: _AbortedOffsets
    ) -> Generator[None, None, Buffer | None]:
        producer_id = header.producer_id
        if header.attributes & CONTROL:
            known = producer_id in self.log.producers.producers
            if producer_id not in self.kept_by and not (
                known and self.last_marker.get(producer_id) == header.base_offset
            ):
                return None
            self.kept_by.discard(producer_id)
            return batch
        if aborted.covers(header):
            return None
        remaining = yield from self._remaining(header, batch)
        if remaining is not None and header.attributes & TRANSACTIONAL:
            self.kept_by.add(producer_id)
        return remaining

    def _open(self, header: BatchHeader, batch: Buffer) -> Buffer:
        """The records of a batch. Raises CompressionError, also where that would be too much."""
        if header.count > RECORDS_MAX:
            raise TooLarge(f"{header.count} records")
        return decompress(header.codec, batch[HEADER_SIZE:], OPENED_MAX) if header.codec else batch[HEADER_SIZE:]

    def _stays(self, span: Span) -> bool:
        if span.offset not in self.live:
            return False
        return not span.is_tombstone or self.now_ms - span.timestamp < self.log.config.delete_retention_ms

    def _remaining(self, header: BatchHeader, batch: bytes) -> Generator[None, None, Buffer | None]:
        """Return what remains of a batch: the batch unchanged, a rebuilt one, or None."""
        if header.base_offset in self.opaque:
            return batch
        if not header.last_offset_delta:
            if header.base_offset not in self.live:
                return None
            record = only_record(batch)
            if record is not None and record[1] is not None:
                return batch
        payload = self._open(header, batch)
        yield from self._slice(len(payload))
        pieces: list[tuple[int, int]] = []
        latest = -1
        for span in spans(header, payload):
            if self._stays(span):
                pieces.append((span.start, span.stop))
                latest = max(latest, span.timestamp) if len(pieces) > 1 else span.timestamp
            yield from self._slice(RECORD_COST)
        if not pieces:
            return None
        if len(pieces) == header.count:
            return batch
        return _rebuilt(header, b"".join(payload[start:stop] for start, stop in pieces), len(pieces), latest)

    def _swap(self, group: list[Segment], cleaned: Segment, path: str, end: int) -> None:
        """Replace segments in memory, then on disk: if that fails, the `.swap` file tells recovery what to finish."""
        log = self.log
        passing = partial(self._points.passing, topic=log.topic, partition=log.index)
        at = log.segments.index(group[0])
        log.segments[at : at + len(group)] = [cleaned]
        if at == 0:
            self.first = cleaned
        gone = bisect_left(log.aborted, end, key=_last_offset)
        del log.aborted[:gone]
        for segment in group:
            segment.close()
            for suffix in SUFFIXES if segment.base_offset != cleaned.base_offset else SUFFIXES[:-1]:
                with contextlib.suppress(FileNotFoundError):
                    log.disk.remove(segment.path + suffix)
        passing("compaction.swap.middle")
        log.disk.rename(path + ".swap", cleaned.path + ".log")
        passing("compaction.swap.after")
        OPEN_FILES.opened(cleaned)  # Not before: it would open another file again than the one that it is.
        cleaned.write_indexes()


def groups(segments: list[Segment], end: int, size_max: int) -> Iterator[list[Segment]]:
    """Yield groups of adjacent segments that fit into one: up to `size_max` bytes, and offsets relative to its base in int32."""
    group: list[Segment] = []
    ends = [segment.base_offset for segment in segments[1:]] + [end]
    for segment, segment_end in zip(segments, ends, strict=True):
        if group and (
            sum(s.size for s in group) + segment.size > size_max or segment_end - group[0].base_offset > 0x7FFF_FFFF
        ):
            yield group
            group = []
        group.append(segment)
    if group:
        yield group


class _AbortedOffsets:
    """Which batches belong to an aborted transaction: those of its producer between its first offset and its marker."""

    def __init__(self, log: PartitionLog) -> None:
        self.spans: dict[int, list[tuple[int, int]]] = {}
        """Producer id -> (first offset, offset of the marker) of each, in order: a producer has one at a time."""
        for entry in log.aborted:
            self.spans.setdefault(entry.producer_id, []).append((entry.first_offset, entry.last_offset))

    def covers(self, header: BatchHeader) -> bool:
        spans = self.spans.get(header.producer_id)
        if spans is None or not header.attributes & TRANSACTIONAL:
            return False
        at = bisect_right(spans, (header.base_offset, _NEVER)) - 1
        return at >= 0 and header.base_offset < spans[at][1]


def _rebuilt(header: BatchHeader, body: bytes, count: int, max_timestamp: int) -> bytearray:
    """The batch with only these records of it; offsets and sequence numbers stay as they were."""
    out = bytearray(HEADER_SIZE)
    out += compress(header.codec, body) if header.codec else body
    fields = header._replace(length=len(out) - 12, crc=0, count=count, max_timestamp=max_timestamp)
    HEADER.pack_into(out, 0, *fields)
    seal(out)
    return out


def old_enough(log: PartitionLog, now_ms: int) -> list[Segment]:
    """The segments, from the first on, that `min.compaction.lag.ms` lets be cleaned: a young one keeps what follows it too."""
    lag_ms = log.config.min_compaction_lag_ms
    return list(
        takewhile(lambda segment: segment.newest_ms <= now_ms - lag_ms, log.segments) if lag_ms else log.segments
    )


def may_need_cleaning(log: PartitionLog) -> bool:
    """Whether `needs_cleaning` or `close_for_cleaning` may find something to do, whatever the time is.

    Strict: while it is true, a clock that is moved on makes every call of the cleaner on the way.
    """
    return log.config.compact and (_pays(log, log.size, True) or must_close(log))


def needs_cleaning(log: PartitionLog, quiet: bool, now_ms: int) -> bool:
    """Whether so much came since the last cleaning, and is old enough, that another pays.

    While a log is written to, and where it keeps its history, it is cleaned by the megabyte; when it has fallen `quiet`, as
    soon as half of it is new.
    """
    return log.config.compact and _pays(log, sum(segment.size for segment in old_enough(log, now_ms)), quiet)


def _pays(log: PartitionLog, size: int, quiet: bool) -> bool:
    """Whether a cleaning of the first `size` bytes pays. Where it does not, it does for no smaller size."""
    dirty = size - log.clean_size
    least = DIRTY_MIN if quiet and not log.config.keeps_history else DIRTY_MAX
    return dirty > size // 2 and dirty > least


def close_for_cleaning(log: PartitionLog) -> None:
    """Close the active segment of a log that keeps its history once it is large: what is in it grows old, and can be cleaned.

    A segment is as young as its newest record, and one that is always written to would never be cleaned. Raises StorageError.
    """
    if must_close(log):
        log.roll()


def must_close(log: PartitionLog) -> bool:
    """Whether `close_for_cleaning` has something to close."""
    active = log.active.size
    return log.config.keeps_history and active > DIRTY_MAX and active > (log.size - active) // 2
