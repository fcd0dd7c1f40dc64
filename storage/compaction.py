"""Log compaction: the last value of each key stays.

A cleaning reads every closed segment below the last stable offset twice, in slices small enough for an event loop: once to
learn the last offset of each key, once to write what stays into `<first base>-<end>.cleaned`. Renaming that to `.swap` is the
moment from which it counts (see recovery.py); then the old segments go and it takes their place.

| batch | what stays |
|---|---|
| data | records whose key has no later record; whole batches are kept as they came, others are rebuilt with their codec |
| data of an aborted transaction | nothing |
| tombstone | nothing once it is older than delete.retention.ms |
| marker of a transaction | while data of its producer before it stays, or it is the producer's last and the producer is known |
| without a key | nothing |
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from stuntbroker.protocol.primitives import Buffer
from stuntbroker.protocol.records import (
    CONTROL,
    HEADER,
    HEADER_SIZE,
    TRANSACTIONAL,
    BatchHeader,
    Record,
    read_records,
    seal,
    unzigzag,
    zigzag,
)
from stuntbroker.storage.compression import CompressionError, compress, decompress
from stuntbroker.storage.partition import PartitionLog
from stuntbroker.storage.segment import Segment

SLICE_BYTES: Final = 65_536
"""Bytes of log that one slice reads."""
DIRTY_MIN: Final = 1_024
DIRTY_MAX: Final = 1 << 20
OPENED_MAX: Final = 64 << 20
"""A batch that opens to more than this is kept whole."""


class Cleaning:
    """One pass over one log. Each `next()` does a bounded piece of the work; the pass is over when it ends."""

    def __init__(self, log: PartitionLog, now_ms: int) -> None:
        self.log = log
        self.now_ms = now_ms
        self.last_offset: dict[bytes, int] = {}
        self.live: set[int] = set()
        """Offsets of the last record of each key, once the first reading is over."""
        self.opaque: set[int] = set()
        """Base offsets of batches that cannot be opened: they stay whole."""

    def slices(self) -> Iterator[None]:
        log = self.log
        log.roll()
        stable = log.last_stable_offset
        segments = [s for i, s in enumerate(log.segments[:-1]) if log.segments[i + 1].base_offset <= stable]
        if not segments:
            return
        end = log.segments[len(segments)].base_offset
        aborted = _AbortedOffsets(log)
        for segment in segments:
            for header, batch in _batches(segment):
                if header is None:
                    yield
                    continue
                if header.attributes & CONTROL or aborted.covers(header):
                    continue
                if header.count == 1 and not header.codec:
                    key = _only_key(batch)
                    if key is not None:
                        self.last_offset[key] = header.base_offset + header.last_offset_delta
                    continue
                for record in self._open(header, batch):
                    if record.key is not None:
                        self.last_offset[record.key] = record.offset
        self.live = set(self.last_offset.values())
        self.last_offset = {}
        cleaned = Segment(log.folder, segments[0].base_offset)
        path = f"{log.folder}/{segments[0].base_offset}-{end}"
        yield from self._write(segments, cleaned, path, aborted)
        os.replace(path + ".cleaned", path + ".swap")
        self._swap(segments, cleaned, path)

    def _write(self, segments: list[Segment], cleaned: Segment, path: str, aborted: _AbortedOffsets) -> Iterator[None]:
        kept_by: set[int] = set()
        last_marker: dict[int, int] = {}
        for segment in segments:
            for header, _ in _batches(segment, markers_only=True):
                if header is not None:
                    last_marker[header.producer_id] = header.base_offset
        cleaned.fd = os.open(path + ".cleaned", os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        for segment in segments:
            for header, batch in _batches(segment):
                if header is None:
                    yield
                    continue
                if header.attributes & CONTROL:
                    known = header.producer_id in self.log.producers.producers
                    if header.producer_id not in kept_by and not (
                        known and last_marker[header.producer_id] == header.base_offset
                    ):
                        continue
                    kept_by.discard(header.producer_id)
                elif aborted.covers(header):
                    continue
                else:
                    rest = self._rest(header, batch)
                    if rest is None:
                        continue
                    batch = rest
                    if header.attributes & TRANSACTIONAL:
                        kept_by.add(header.producer_id)
                kept = BatchHeader._make(HEADER.unpack_from(batch))
                cleaned.append(batch, len(batch), kept.last_offset, kept.max_timestamp)

    def _open(self, header: BatchHeader, batch: Buffer) -> list[Record]:
        try:
            if header.codec:
                return list(read_records(header, decompress(header.codec, batch[HEADER_SIZE:], OPENED_MAX)))
            return list(read_records(header, batch, HEADER_SIZE))
        except (CompressionError, ValueError):
            self.opaque.add(header.base_offset)
            return []

    def _stays(self, record: Record) -> bool:
        if record.offset not in self.live:
            return False
        return record.value is not None or self.now_ms - record.timestamp < self.log.config.delete_retention_ms

    def _rest(self, header: BatchHeader, batch: Buffer) -> Buffer | None:
        """What stays of a batch: all of it as it came, a rebuilt one, or None."""
        if header.base_offset in self.opaque:
            return batch
        if header.count == 1 and header.base_offset + header.last_offset_delta not in self.live:
            return None
        records = self._open(header, batch)
        kept = [record for record in records if self._stays(record)]
        if not kept:
            return None
        if len(kept) == len(records):
            return batch
        payload = decompress(header.codec, batch[HEADER_SIZE:], OPENED_MAX) if header.codec else batch[HEADER_SIZE:]
        return _rebuilt(header, payload, {record.offset for record in kept}, max(r.timestamp for r in kept))

    def _swap(self, segments: list[Segment], cleaned: Segment, path: str) -> None:
        log = self.log
        aborted = [entry for segment in segments for entry in segment.aborted]
        for segment in segments:
            for suffix in (".log", ".index", ".timeindex", ".txnindex"):
                try:
                    os.unlink(segment.path + suffix)
                except FileNotFoundError:
                    continue
            segment.close()
        os.replace(path + ".swap", cleaned.path + ".log")
        cleaned.aborted = [entry for entry in aborted if entry.last_offset >= log.log_start_offset]
        cleaned.write_indexes()
        old = sum(segment.size for segment in segments)
        log.segments[: len(segments)] = [cleaned]
        log.size += cleaned.size - old
        log.clean_size = cleaned.size


def _only_key(batch: Buffer) -> bytes | None:
    """The key of a batch's only record, which is not compressed."""
    _, pos = unzigzag(batch, HEADER_SIZE)
    _, pos = unzigzag(batch, pos + 1)
    _, pos = unzigzag(batch, pos)
    length, pos = unzigzag(batch, pos)
    return None if length < 0 else bytes(batch[pos : pos + length])


class _AbortedOffsets:
    """Which batches belong to an aborted transaction: those of its producer between its first offset and its marker."""

    def __init__(self, log: PartitionLog) -> None:
        self.spans: dict[int, list[tuple[int, int]]] = {}
        for entry in log.aborted:
            self.spans.setdefault(entry.producer_id, []).append((entry.first_offset, entry.last_offset))

    def covers(self, header: BatchHeader) -> bool:
        spans = self.spans.get(header.producer_id)
        if spans is None or not header.attributes & TRANSACTIONAL:
            return False
        return any(first <= header.base_offset < last for first, last in spans)


def _batches(
    segment: Segment, markers_only: bool = False
) -> Iterator[tuple[BatchHeader, Buffer] | tuple[None, None]]:
    """The batches of a segment; (None, None) after every SLICE_BYTES of it."""
    position, next_slice = 0, SLICE_BYTES
    window, start = memoryview(b""), 0
    while position < segment.size:
        at = position - start
        header = None
        if at + HEADER_SIZE <= len(window):
            header = BatchHeader._make(HEADER.unpack_from(window, at))
        if header is None or at + header.size > len(window):
            size = max(SLICE_BYTES, header.size if header else 0)
            window, start, at = memoryview(segment.read(position, min(size, segment.size - position))), position, 0
            header = BatchHeader._make(HEADER.unpack_from(window, 0))
            if header.size > len(window):
                window = memoryview(segment.read(position, header.size))
        if not markers_only or header.attributes & CONTROL:
            yield header, bytes(window[at : at + header.size])
        position += header.size
        if position >= next_slice and not markers_only:
            next_slice = position + SLICE_BYTES
            yield None, None


def _rebuilt(header: BatchHeader, payload: Buffer, keep: set[int], max_timestamp: int) -> bytearray:
    """The batch with only the records at these offsets; offsets and sequence numbers stay as they were."""
    body = bytearray()
    pos = count = 0
    for _ in range(header.count):
        length, at = unzigzag(payload, pos)
        stop = at + length
        delta, _ = unzigzag(payload, unzigzag(payload, at + 1)[1])
        if header.base_offset + delta in keep:
            zigzag(body, length)
            body += payload[at:stop]
            count += 1
        pos = stop
    data = compress(header.codec, bytes(body)) if header.codec else body
    out = bytearray(HEADER_SIZE)
    out += data
    fields = header._replace(length=len(out) - 12, crc=0, count=count, max_timestamp=max_timestamp)
    HEADER.pack_into(out, 0, *fields)
    seal(out)
    return out


def needs_cleaning(log: PartitionLog, quiet: bool) -> bool:
    """Whether so much came since the last cleaning that another pays.

    While a log is written to, it is cleaned by the megabyte; when it has fallen `quiet`, as soon as half of it is new.
    """
    dirty = log.size - log.clean_size
    return log.config.compact and dirty > log.size // 2 and dirty > (DIRTY_MIN if quiet else DIRTY_MAX)
