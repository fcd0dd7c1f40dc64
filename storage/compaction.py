"""Log compaction: keep the last record of each key.

A cleaning reads every closed segment below the last stable offset that is old enough (`min.compaction.lag.ms`) twice, in
slices small enough for an event loop: first to find the last offset of each key, then to write the records that are kept.
Adjacent segments that fit into one are merged. The new segment is written as `<base>-<end>.cleaned` and renamed to `.swap`,
which makes the cleaning final (see recovery.py); then the old segments are deleted and the new one takes their place.

| batch | what is kept |
|---|---|
| data | records whose key has no later record; a batch that loses none is unchanged, others are rebuilt with their codec |
| data of an aborted transaction | nothing; its entry in the aborted-transaction index is removed too |
| tombstone | the record, until its timestamp is older than delete.retention.ms |
| transaction marker | the marker, while earlier data of its producer is kept or it is the last one of a known producer |
| records without a key | nothing |
| batch that cannot be decompressed or is too large to be rewritten | all of it, unless its transaction was aborted |

Between slices the log may change. Appends do not affect the cleaning. When the first segments are deleted (retention,
DeleteRecords, deletion of the topic), the cleaning is abandoned; the next one starts from the beginning.
"""

# Unlike Kafka: Kafka keeps tombstones and markers for `delete.retention.ms` after the first cleaning that found them, and an
# empty batch for the last batch of each producer; here the producer snapshot has the producers. Kafka decompresses any batch.

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
    LOG_OVERHEAD,
    TRANSACTIONAL,
    BatchHeader,
    only_record,
    read_header,
    seal,
)
from stuntbroker.protocol.batches.walk import Span, spans
from stuntbroker.protocol.data_folder import SEGMENT_SUFFIXES
from stuntbroker.protocol.primitives import Buffer, DecodeError
from stuntbroker.storage.disk import CREATE_NEW
from stuntbroker.storage.errors import StorageError
from stuntbroker.storage.open_files import OPEN_FILES
from stuntbroker.storage.partition import PartitionLog
from stuntbroker.storage.recovery import finish_compaction
from stuntbroker.storage.segment import OFFSETS_MAX, Segment

SLICE_BYTES: Final = 65_536
"""Bytes of log that one slice reads."""
DIRTY_MIN: Final = 1_024
DIRTY_MAX: Final = 1 << 20
OPENED_MAX: Final = 2 << 20
"""Uncompressed bytes above which a batch is kept whole, because compressing more again would make a slice too long."""
RECORDS_MAX: Final = 131_072
"""Number of records above which a batch is kept whole too."""
RECORD_COST: Final = 64
"""Bytes of a slice that inspecting one record counts as, whatever the record's size."""
FREED_PER_STEP: Final = 100
_NEVER: Final = 1 << 63
_last_offset = attrgetter("last_offset")


class _SegmentsReplaced(Exception):
    """The segments that were being cleaned are no longer in the log."""


class Cleaning:
    """One compaction pass over one log, run in bounded pieces by the iterator that `slices` returns."""

    def __init__(self, log: PartitionLog, now_ms: int, with_active: bool = True) -> None:
        """`with_active`: close the active segment first, if it is old enough, so that it is cleaned too."""
        self._points = log.points
        self._with_active = with_active
        self.log = log
        self.now_ms = now_ms
        self.last_offset: dict[bytes, int] = {}
        """Key -> offset of its last record, filled by the first reading."""
        self.live: set[int] = set()
        """The offsets in `last_offset`, for the second reading."""
        self.opaque: set[int] = set()
        """Base offsets of batches that cannot be decompressed and are kept whole."""
        self.last_marker: dict[int, int] = {}
        """Producer id -> offset of its last marker."""
        self.kept_by: set[int] = set()
        """Second reading: ids of producers with kept records in the transaction at the current position."""
        self.read = 0
        """Cost of the current slice in bytes: bytes read and decompressed, and RECORD_COST for each record."""
        self.first: Segment | None = None
        """The first segment of the log when it was last seen; if another one is first, the cleaning is abandoned."""

    def slices(self) -> Iterator[None]:
        """Clean the log, one slice for each `next()`. Raises StorageError on a disk error; the log is intact then."""
        log = self.log
        try:
            finish_compaction(log.disk, log.folder)
            if self._with_active and len(old_enough(log, self.now_ms)) == len(log.segments):
                log.roll()
            segments = cleanable(log, self.now_ms)
            if not segments:
                return
            self.first = segments[0]
            end = log.segments[len(segments)].base_offset
            aborted = _AbortedOffsets(log)
            yield from self._find_last_offsets(segments, aborted)
            clean_size = 0
            for group in groups(segments, end, log.config.segment_bytes):
                following = log.segments[log.segments.index(group[-1]) + 1].base_offset
                cleaned = yield from self._write(group, following, aborted)
                clean_size += cleaned.size
            log.clean_size = clean_size
            yield from self._empty(self.live.pop, len(self.live))
        except _SegmentsReplaced:
            return
        except OSError as fault:
            raise StorageError(f"cannot clean {log.folder}: {fault.strerror}") from fault

    def _slice(self, cost: int) -> Iterator[None]:
        """End the slice when its cost reaches SLICE_BYTES. Raises _SegmentsReplaced if the first segments are gone by then."""
        self.read += cost
        if self.read < SLICE_BYTES:
            return
        self.read = 0
        yield
        if not self.log.segments or self.log.segments[0] is not self.first:
            raise _SegmentsReplaced

    def _find_last_offsets(self, segments: list[Segment], aborted: _AbortedOffsets) -> Iterator[None]:
        for segment in segments:
            for header, batch in segment.batches(SLICE_BYTES):
                if header.attributes & CONTROL:
                    self.last_marker[header.producer_id] = header.base_offset
                elif not aborted.covers(header):
                    yield from self._note_last_offsets(header, batch)
                yield from self._slice(header.size)
        yield from self._empty(self.last_offset.popitem, len(self.last_offset))

    def _empty(self, take: Callable[[], object], count: int) -> Iterator[None]:
        """Remove the elements of a collection in slices: freeing a million at once would take too long."""
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

    def _note_last_offsets(self, header: BatchHeader, batch: bytes) -> Iterator[None]:
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
                    remaining = yield from self._kept_part(header, batch, aborted)
                    if remaining is not None:
                        kept = read_header(remaining)
                        cleaned.append(remaining, len(remaining), kept.last_offset, kept.max_timestamp)
                    yield from self._slice(header.size)
            if cleaned.max_timestamp < 0:  # Without timestamps, retention uses the file's modification time.
                disk.set_modified_ns(cleaned.fd, disk.modified_ns(group[-1].path + ".log"))
            if self.log.register_unsynced is not None:  # The segments that are being replaced were synced.
                cleaned.sync()
            self._points.pass_point("compaction.swap.before", self.log.topic, self.log.index)
            disk.rename(path + ".cleaned", path + ".swap")
            if self.log.register_unsynced is not None:
                disk.sync_path(self.log.folder)
        except BaseException:
            cleaned.close()
            with contextlib.suppress(OSError):
                disk.remove(path + ".cleaned")
            raise
        self._swap(group, cleaned, path, end)
        return cleaned

    def _kept_part(
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
        """Return the uncompressed records of a batch. Raises CompressionError, also above OPENED_MAX or RECORDS_MAX."""
        if header.count > RECORDS_MAX:
            raise TooLarge(f"{header.count} records")
        return decompress(header.codec, batch[HEADER_SIZE:], OPENED_MAX) if header.codec else batch[HEADER_SIZE:]

    def _is_kept(self, span: Span) -> bool:
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
            if self._is_kept(span):
                pieces.append((span.start, span.stop))
                latest = max(latest, span.timestamp) if len(pieces) > 1 else span.timestamp
            yield from self._slice(RECORD_COST)
        if not pieces:
            return None
        if len(pieces) == header.count:
            return batch
        return _rebuilt(header, b"".join(payload[start:stop] for start, stop in pieces), len(pieces), latest)

    def _swap(self, group: list[Segment], cleaned: Segment, path: str, end: int) -> None:
        """Replace segments in memory, then on disk. If that fails, recovery finishes the replacement from the `.swap` file."""
        log = self.log
        pass_point = partial(self._points.pass_point, topic=log.topic, partition=log.index)
        at = log.segments.index(group[0])
        log.segments[at : at + len(group)] = [cleaned]
        if at == 0:
            self.first = cleaned
        gone = bisect_left(log.aborted, end, key=_last_offset)
        del log.aborted[:gone]
        for segment in group:
            segment.close()
            for suffix in SEGMENT_SUFFIXES if segment.base_offset != cleaned.base_offset else SEGMENT_SUFFIXES[:-1]:
                with contextlib.suppress(FileNotFoundError):
                    log.disk.remove(segment.path + suffix)
        pass_point("compaction.swap.middle")
        log.disk.rename(path + ".swap", cleaned.path + ".log")
        pass_point("compaction.swap.after")
        OPEN_FILES.opened(cleaned)  # Only after the rename: a segment that is closed and reopened uses its final name.
        cleaned.write_indexes()


def groups(segments: list[Segment], end: int, size_max: int) -> Iterator[list[Segment]]:
    """Yield groups of adjacent segments that fit into one segment: at most `size_max` bytes, relative offsets within int32."""
    group: list[Segment] = []
    size = 0
    ends = [segment.base_offset for segment in segments[1:]] + [end]
    for segment, segment_end in zip(segments, ends, strict=True):
        if group and (size + segment.size > size_max or segment_end - group[0].base_offset > OFFSETS_MAX):
            yield group
            group, size = [], 0
        group.append(segment)
        size += segment.size
    if group:
        yield group


class _AbortedOffsets:
    """The offsets of aborted transactions: from the first offset of each transaction to its marker."""

    def __init__(self, log: PartitionLog) -> None:
        self.spans: dict[int, list[tuple[int, int]]] = {}
        """Producer id -> (first offset, marker offset) of each of its aborted transactions, in order of offset."""
        for entry in log.aborted:
            self.spans.setdefault(entry.producer_id, []).append((entry.first_offset, entry.last_offset))

    def covers(self, header: BatchHeader) -> bool:
        spans = self.spans.get(header.producer_id)
        if spans is None or not header.attributes & TRANSACTIONAL:
            return False
        at = bisect_right(spans, (header.base_offset, _NEVER)) - 1
        return at >= 0 and header.base_offset < spans[at][1]


def _rebuilt(header: BatchHeader, body: bytes, count: int, max_timestamp: int) -> bytearray:
    """Return a batch with only the kept records, `body`; offsets and sequence numbers do not change."""
    out = bytearray(HEADER_SIZE)
    out += compress(header.codec, body) if header.codec else body
    fields = header._replace(length=len(out) - LOG_OVERHEAD, crc=0, count=count, max_timestamp=max_timestamp)
    HEADER.pack_into(out, 0, *fields)
    seal(out)
    return out


def old_enough(log: PartitionLog, now_ms: int) -> list[Segment]:
    """Return the leading segments that are older than `min.compaction.lag.ms`; the first younger segment ends the list."""
    lag_ms = log.config.min_compaction_lag_ms
    return list(
        takewhile(lambda segment: segment.newest_ms <= now_ms - lag_ms, log.segments) if lag_ms else log.segments
    )


def cleanable(log: PartitionLog, now_ms: int | None = None) -> list[Segment]:
    """Return the closed segments below the last stable offset that are old enough; None for `now_ms`: at any time."""
    stable = log.last_stable_offset
    old = log.segments if now_ms is None else old_enough(log, now_ms)
    closed = old[: len(log.segments) - 1]
    return [segment for index, segment in enumerate(closed) if log.segments[index + 1].base_offset <= stable]


def cleaning_due_ms(log: PartitionLog, now_ms: int) -> int | None:
    """Return from when on one of the functions below finds something to do, if nobody writes; None: never.

    A clock that a test advances need not run the cleaner before.
    """
    if must_close(log) or has_dirty_segments(log, now_ms) or needs_cleaning(log, True, now_ms):
        return now_ms
    will_be_enough = log.config.compact and _has_enough_dirty_bytes(log, _stable_size(log, log.segments), True)
    if not (will_be_enough or has_dirty_segments(log, None)):
        return None
    ages_ms = (segment.newest_ms + log.config.min_compaction_lag_ms for segment in log.segments)
    return min((due_ms for due_ms in ages_ms if due_ms > now_ms), default=now_ms)


def has_dirty_segments(log: PartitionLog, now_ms: int | None) -> bool:
    """Whether more than `min.cleanable.dirty.ratio` of what can be cleaned without the active segment is new: Kafka's rule."""
    if not log.config.compact or log.config.is_internal_log or len(log.segments) == 1:
        return False
    size = sum(segment.size for segment in cleanable(log, now_ms))
    dirty = size - log.clean_size
    return dirty > 0 and dirty > size * log.config.min_cleanable_dirty_ratio


def needs_cleaning(log: PartitionLog, quiet: bool, now_ms: int) -> bool:
    """Whether enough old data was appended since the last cleaning to clean the active segment too.

    More than half of the old segments' bytes must be new, and more than DIRTY_MAX bytes; in a `quiet` log, to which nothing
    is written any more, DIRTY_MIN bytes are enough, unless the log keeps its history.
    """
    return log.config.compact and _has_enough_dirty_bytes(log, _stable_size(log, old_enough(log, now_ms)), quiet)


def _stable_size(log: PartitionLog, segments: list[Segment]) -> int:
    """Return the size of those of the log's first segments that end at or below the last stable offset."""
    ends = [*(segment.base_offset for segment in log.segments[1 : len(segments) + 1]), log.next_offset]
    stable = log.last_stable_offset
    return sum(segment.size for segment, end in zip(segments, ends, strict=False) if end <= stable)


def _has_enough_dirty_bytes(log: PartitionLog, size: int, quiet: bool) -> bool:
    """Whether the first `size` bytes have enough new data for a cleaning. If they do not, no smaller size has."""
    dirty = size - log.clean_size
    least = DIRTY_MIN if quiet and not log.config.is_internal_log else DIRTY_MAX
    return dirty > size // 2 and dirty > least


def close_for_cleaning(log: PartitionLog) -> None:
    """Close a large active segment of a log that keeps its history, so that it can be cleaned. Raises StorageError.

    The age of a segment is that of its newest record: an active segment that is always written to would never be old enough.
    """
    if must_close(log):
        log.roll()


def must_close(log: PartitionLog) -> bool:
    """Whether `close_for_cleaning` would close the active segment."""
    active = log.active.size
    return (
        log.config.compact and log.config.is_internal_log and active > DIRTY_MAX and active > (log.size - active) // 2
    )
