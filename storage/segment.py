"""One segment of a partition's log: its batches in one file, and three indexes to find them by.

Files of a segment are named by its first offset, twenty digits:

    .log        record batches, one after another
    .index      8 bytes an entry: int32 last offset of a batch less the base offset, int32 position of the batch
    .timeindex  12 bytes an entry: int64 largest timestamp so far, int32 offset that has it less the base offset
    .txnindex   34 bytes an entry: int16 version 0, then producer id, first and last offset, last stable offset (int64)
    .crc        uint32 CRC-32C of these three, one after another; missing beside what older versions or Kafka wrote

The log is valid up to its longest run of whole batches with a right CRC and rising offsets. Valid batches behind that run
mean that the file was damaged, and not that a crash cut its last write short. The indexes are kept in memory and written
when the segment is closed; after a crash they are made anew from the log.
"""

from __future__ import annotations

import contextlib
import re
import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from struct import Struct
from typing import Final

from stuntbroker.protocol.batches.records import EPOCH_AT, HEADER_SIZE, LOG_OVERHEAD, BatchHeader, crc_of, read_header
from stuntbroker.protocol.crc import crc32c
from stuntbroker.protocol.primitives import Buffer
from stuntbroker.storage.disk import CREATE, LOCAL_DISK, WRITE, Disk
from stuntbroker.storage.errors import StorageError, storage_error
from stuntbroker.storage.large_batch import LargeBatch
from stuntbroker.storage.leader_epochs import FIRST_EPOCH
from stuntbroker.storage.open_files import OPEN_FILES
from stuntbroker.storage.producers import AbortedTxn

INDEX_INTERVAL: Final = 4_096
"""Bytes of log between two index entries (`index.interval.bytes`)."""
SCAN_BYTES: Final = 1 << 20
CANDIDATE_READS_MAX: Final = 8
"""How often a damaged file is read for what looks like a batch in it."""
OFFSETS_MAX: Final = 0x7FFF_FFFF
"""Offsets of one segment, counted from its first."""
INDEXES: Final = (".index", ".timeindex", ".txnindex")
SUFFIXES: Final = (".log", *INDEXES, ".crc", ".snapshot")

INDEX_ENTRY = Struct(">ii")
TIME_ENTRY = Struct(">qi")
TXN_ENTRY = Struct(">hqqqq")
_CRC = Struct(">I")
_pack_epoch_and_magic = Struct(">ib").pack


def segment_name(base_offset: int) -> str:
    """Return the name that a segment's files have, without its suffix."""
    return f"{base_offset:020d}"


class TooManyCandidates(Exception):
    """Too much of a damaged file looks like batches: not all of it was tried."""


class Segment:
    """`size` bytes of batches whose offsets begin at `base_offset`."""

    __slots__ = (
        "aborted",
        "base_offset",
        "disk",
        "fd",
        "first_timestamp",
        "pending_batches",
        "has_producers",
        "index_offsets",
        "index_positions",
        "index_times",
        "indexed_to",
        "is_checked",
        "is_new",
        "leader_epochs",
        "fast_path_timestamp_max",
        "fast_path_size_max",
        "max_timestamp",
        "max_timestamp_offset",
        "path",
        "size",
    )

    def __init__(self, folder: str, base_offset: int, disk: Disk = LOCAL_DISK) -> None:
        self.disk = disk
        self.path = f"{folder}/{segment_name(base_offset)}"
        self.base_offset = base_offset
        self.fd = -1
        self.is_new = False
        """The file may be one that its folder does not show yet after a power cut."""
        self.has_producers = True
        """Some batch may be of a producer: false once `scan` has met none."""
        self.is_checked = False
        """`scan` has found every batch to be as it was written."""
        self.leader_epochs: tuple[int, ...] = (FIRST_EPOCH,)
        """Leader epochs that the partition has had, for who looks at batches that may be damaged."""
        self.size = 0
        self.pending_batches: list[Buffer] = []
        """Batches at the end that are appended and not written yet; `size` counts them."""
        self._reset()

    def _reset(self) -> None:
        self.index_offsets = array("q")
        """Last offset of the batch at the same place of index_positions."""
        self.index_positions = array("I")
        self.index_times: list[tuple[int, int]] = []
        """(largest timestamp so far, its offset), timestamps rising."""
        self.indexed_to = 0
        """Position of the last batch that has an index entry."""
        self.first_timestamp = -1
        self.fast_path_size_max = -1
        """Size, and below the largest timestamp, up to which a buffered batch needs no index entry and no new segment."""
        self.fast_path_timestamp_max = -1
        self.max_timestamp = -1
        self.max_timestamp_offset = -1
        self.aborted: list[AbortedTxn] = []

    @property
    def pending(self) -> bool:
        """Whether batches wait to be written: its file stays open for them."""
        return bool(self.pending_batches)

    def open(self) -> int:
        """The descriptor of the log file, made on first use."""
        if self.fd < 0:
            try:
                # A segment that holds something is never made anew: its file may have been deleted.
                self.fd = self.disk.open_file(self.path + ".log", WRITE if self.size else CREATE)
                self.is_new = not self.size
            except OSError as fault:
                raise storage_error(f"cannot open {self.path}.log", fault) from fault
            OPEN_FILES.opened(self)
        return self.fd

    def append(self, batch: Buffer, size: int, last_offset: int, max_timestamp: int) -> None:
        """Write one whole batch at the end; a write that fails leaves nothing behind."""
        if self.pending_batches:
            self.flush()
        try:
            self.disk.write_all(self.open(), batch, self.size)
        except OSError as fault:
            raise self._undone(self.size, fault) from fault
        self.note(size, last_offset, max_timestamp)

    def take_file(self, batch: LargeBatch, last_offset: int, max_timestamp: int) -> bool:
        """Make the file that a large batch was written to the log file of this segment, which must be empty.

        Returns False when that cannot be done, and then nothing has changed.
        """
        assert not self.size
        try:
            fd = batch.become(self.path + ".log", memoryview(batch.batch)[:HEADER_SIZE])
        except (OSError, StorageError):
            return False
        self.close()
        self.fd, self.is_new = fd, True
        OPEN_FILES.opened(self)
        self.first_timestamp = -1
        self.note(batch.size, last_offset, max_timestamp)
        return True

    def flush(self) -> None:
        """Write what is buffered."""
        pending_batches = self.pending_batches
        if pending_batches:
            self.pending_batches = []
            data = pending_batches[0] if len(pending_batches) == 1 else b"".join(pending_batches)
            fd, size = self.fd, len(data)
            position = self.size - size
            try:
                self.disk.write_all(fd if fd >= 0 else self.open(), data, position)
            except OSError as fault:
                raise self._undone(position, fault) from fault

    def _undone(self, position: int, fault: OSError) -> StorageError:
        with contextlib.suppress(OSError):  # Otherwise the remains are overwritten, or cut off at the next start.
            self.disk.truncate(self.fd, position)
        return StorageError(f"cannot write to {self.path}.log: {fault.strerror}")

    @property
    def newest_ms(self) -> int:
        """Time of the newest record; where no record has one, the time when the file was last written, as in Kafka."""
        if self.max_timestamp >= 0:
            return self.max_timestamp
        return self.disk.modified_ns(self.path + ".log") // 1_000_000

    def note(self, size: int, last_offset: int, max_timestamp: int) -> None:
        """Brings size and indexes up to date for a batch that is in the file at `self.size`."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if self.first_timestamp < 0:
            self.first_timestamp = max_timestamp
        if self.size - self.indexed_to > INDEX_INTERVAL:
            self.index_offsets.append(last_offset)
            self.index_positions.append(self.size)
            if self.max_timestamp > (self.index_times[-1][0] if self.index_times else -1):
                self.index_times.append((self.max_timestamp, self.max_timestamp_offset))
            self.indexed_to = self.size
        self.size += size

    def position_near(self, offset: int) -> int:
        """Position of a batch at or before the one that holds `offset`."""
        at = bisect_right(self.index_offsets, offset) - 1
        return self.index_positions[at] if at >= 0 else 0

    def find(self, offset: int) -> tuple[int, BatchHeader] | None:
        """Position and header of the first batch whose last offset is not below `offset`."""
        for position, header in self.headers(self.position_near(offset)):
            if header.base_offset + header.last_offset_delta >= offset:
                return position, header
        return None

    def headers(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """The headers from `position` on, read in small pieces."""
        window = b""
        start = position
        step = 4_096
        while position + HEADER_SIZE <= self.size:
            at = position - start
            if at + HEADER_SIZE > len(window):
                window = self.disk.read(self.open(), step, position)  # It may have been closed between two pieces.
                start, at = position, 0
                step = min(step * 4, SCAN_BYTES)
                if len(window) < HEADER_SIZE:
                    return
            header = read_header(window, at)
            size = header.length + LOG_OVERHEAD
            # The file is corrupt: the position of the next batch is unknown.
            if size < HEADER_SIZE:
                return
            yield position, header
            position += size

    def batches(self, piece: int = SCAN_BYTES) -> Iterator[tuple[BatchHeader, bytes]]:
        """Every batch, whole and as it is, read in pieces of so many bytes; it ends where a batch runs past the file's end."""
        position, window, start = 0, b"", 0
        while position < self.size:
            at = position - start
            left = len(window) - at
            size = HEADER_SIZE
            if left >= HEADER_SIZE:
                header = read_header(window, at)
                size = header.length + LOG_OVERHEAD
            if left < size:
                window = self.disk.read(self.open(), min(max(piece, size), self.size - position), position)
                start = position
                if len(window) < size:
                    return
                continue
            if size < HEADER_SIZE:
                return
            yield header, window[at : at + size]
            position += size

    def read(self, position: int, size: int) -> Buffer:
        """`size` bytes from `position`: a copy, or a view of the file's own pages when they are many."""
        return self.disk.map(self.fd if self.fd >= 0 else self.open(), size, position)

    def whole_batches(self, position: int, limit: int, end_offset: int) -> int:
        """Bytes from `position` that hold whole batches below `end_offset`, the first one even when over `limit`."""
        stop = min(position + limit, self.size)
        taken = 0
        near = min(bisect_right(self.index_positions, stop), bisect_left(self.index_offsets, end_offset)) - 1
        if near >= 0 and self.index_positions[near] > position:
            taken = self.index_positions[near] - position
        for at, header in self.headers(position + taken):
            if header.base_offset >= end_offset or (taken and at + header.size > stop):
                break
            taken = at + header.size - position
        return taken

    def bound_behind(self, position: int, size: int, end_offset: int) -> int | None:
        """The offset of the first index entry behind so many bytes, which end below `end_offset`; None without one."""
        stop = min(position + size, self.size)
        if position_and_header := self.find(end_offset):
            position_of_end, _ = position_and_header
            stop = min(stop, position_of_end)
        slot = bisect_left(self.index_positions, stop)
        return self.index_offsets[slot] if slot < len(self.index_offsets) else None

    def offset_for_time(self, timestamp: int, from_offset: int = 0) -> int | None:
        """Position of the first batch, from `from_offset` on, whose largest timestamp is not below `timestamp`."""
        if self.max_timestamp < timestamp:
            return None
        at = bisect_left(self.index_times, (timestamp, -1)) - 1
        start = max(from_offset, self.index_times[at][1] if at >= 0 else 0)
        for position, header in self.headers(self.position_near(start)):
            if header.max_timestamp >= timestamp and header.last_offset >= from_offset:
                return position
        return None

    def scan(self, gaps_below: int) -> int:
        """Read the whole file: take size and indexes from its longest valid beginning; return how many bytes follow that.

        Offsets may be missing between two batches that are wholly below `gaps_below`: above it, a missing offset is damage.
        """
        fd = self.open()
        length = self.disk.size(fd)
        self.size = 0
        self._reset()
        has_producers = False
        next_offset = self.base_offset
        window = memoryview(b"")
        start = end = 0
        while True:
            at = self.size - start
            size = HEADER_SIZE
            if at + HEADER_SIZE <= end:
                header = read_header(window, at)
                size = header.length + LOG_OVERHEAD
            if at + size > end:
                if self.size + size > length:
                    break
                start = self.size
                window = memoryview(self.disk.read(fd, min(max(SCAN_BYTES, size), length - start), start))
                end = len(window)
                if end < size:  # Another process truncates the file.
                    break
                continue
            if not self._is_valid(header, window[at : at + size]):
                break
            has_producers = has_producers or header.producer_id >= 0
            if header.base_offset < next_offset or next_offset < header.base_offset > gaps_below:
                break
            next_offset = header.next_offset
            self.note(size, header.last_offset, header.max_timestamp)
        self.is_checked, self.has_producers = True, has_producers
        return length - self.size

    def _is_valid(self, header: BatchHeader, batch: Buffer) -> bool:
        """Whether a batch of this log is as it was written; its header has no CRC for the fields before `attributes`."""
        return (
            len(batch) >= HEADER_SIZE
            and header.magic == 2
            and header.leader_epoch in self.leader_epochs
            and self._may_hold(header.base_offset)
            and header.crc == crc_of(batch)
        )

    def _may_hold(self, base_offset: int) -> bool:
        """Whether a batch of this segment may begin with this offset."""
        return self.base_offset <= base_offset <= self.base_offset + OFFSETS_MAX

    def find_valid_batch(self, position: int) -> int | None:
        """Position of the first valid batch from `position` on, at whatever byte it begins; None when there is none.

        Data can be full of what looks like headers of large batches: raises TooManyCandidates when CANDIDATE_READS_MAX times
        the file was read for them and none was valid.
        """
        fd = self.open()
        length = self.disk.size(fd)
        left = SCAN_BYTES + CANDIDATE_READS_MAX * length
        candidates = re.compile(b"|".join(re.escape(_pack_epoch_and_magic(each, 2)) for each in self.leader_epochs))
        while position + HEADER_SIZE <= length:
            window = self.disk.read(fd, SCAN_BYTES, position)
            candidate = candidates.search(window, EPOCH_AT)
            while candidate is not None and (at := candidate.start()) < len(window) - (HEADER_SIZE - EPOCH_AT):
                start = at - EPOCH_AT
                header = read_header(window, start)
                size = header.length + LOG_OVERHEAD
                if HEADER_SIZE <= size <= length - position - start and self._may_hold(header.base_offset):
                    left -= size
                    if left < 0:
                        raise TooManyCandidates
                    if self._is_valid(header, self.disk.read(fd, size, position + start)):
                        return position + start
                candidate = candidates.search(window, at + 1)
            position += max(1, len(window) - HEADER_SIZE)
        return None

    def cut(self) -> None:
        """Remove what follows the valid beginning that `scan` found."""
        self.disk.truncate(self.open(), self.size)

    def load(self) -> bool:
        """Take size and indexes from a segment that was closed; False when they do not fit: it must be recovered."""
        try:
            self.size = self.disk.file_size(self.path + ".log")
            data = [self.disk.read_file(self.path + suffix) for suffix in INDEXES]
            entries = list(INDEX_ENTRY.iter_unpack(data[0]))
            times = list(TIME_ENTRY.iter_unpack(data[1]))
            aborted = [AbortedTxn(*entry[1:]) for entry in TXN_ENTRY.iter_unpack(data[2])]
            if not self._are_right(b"".join(data), entries):
                return False
        except (OSError, struct.error):  # Not there, or with a size that is no multiple of the entry's.
            return False
        if bool(times) != bool(self.size) or (entries and entries[-1][1] >= self.size):
            return False
        self.index_offsets = array("q", (offset + self.base_offset for offset, _ in entries))
        self.index_positions = array("I", (position for _, position in entries))
        self.index_times = [(time, offset + self.base_offset) for time, offset in times]
        if times:
            self.max_timestamp, self.max_timestamp_offset = self.index_times[-1]
        self.indexed_to = entries[-1][1] if entries else 0
        self.aborted = aborted
        for _, header in self.headers():
            self.first_timestamp = header.max_timestamp
            break
        return self._ends_as_indexed()

    def _are_right(self, indexes: bytes, entries: list[tuple[int, int]]) -> bool:
        """Whether the indexes are as they were written; without a CRC, whether the offset index can be one."""
        try:
            return self.disk.read_file(self.path + ".crc") == _CRC.pack(crc32c(indexes))
        except FileNotFoundError:
            return _rises(entries)

    def _ends_as_indexed(self) -> bool:
        """Whether the last entry of the offset index is right, and whole batches fill the file from there."""
        end = self.index_positions[-1] if self.index_positions else 0
        if self.index_offsets:
            first = next(self.headers(end), None)
            if first is None or first[1].last_offset != self.index_offsets[-1]:
                return False
        for position, header in self.headers(end):
            if header.size < HEADER_SIZE:
                return False
            end = position + header.size
        return end == self.size

    def write_indexes(self) -> None:
        """Write the index files that `load` needs: all of them, so that a missing one is noticed."""
        base = self.base_offset
        times = self.index_times.copy()
        if self.max_timestamp > (times[-1][0] if times else -1):
            times.append((self.max_timestamp, self.max_timestamp_offset))
        entries = zip(self.index_offsets, self.index_positions, strict=True)
        data = [
            b"".join(INDEX_ENTRY.pack(o - base, p) for o, p in entries),
            b"".join(TIME_ENTRY.pack(t, o - base) for t, o in times),
            b"".join(TXN_ENTRY.pack(0, *entry) for entry in self.aborted),
        ]
        for suffix, content in zip(INDEXES, data, strict=True):
            self.disk.replace_file(self.path + suffix, content)
        self.disk.replace_file(self.path + ".crc", _CRC.pack(crc32c(b"".join(data))))

    def sync(self) -> None:
        """Sync the log file, which may have been closed since it was written. Raises OSError, StorageError."""
        if self.size:
            self.disk.sync(self.open())

    def close(self) -> None:
        """Close the log file; it is opened again when it is used."""
        if self.fd >= 0:
            self.disk.close(self.fd)
            self.fd = -1
            OPEN_FILES.closed(self)

    def delete(self) -> None:
        """Remove the files. Pages that a reader has mapped stay until it lets go of them."""
        self.close()
        for suffix in SUFFIXES:
            try:
                self.disk.remove(self.path + suffix)
            except FileNotFoundError:
                continue


def _rises(entries: list[tuple[int, int]]) -> bool:
    offset = position = -1
    for entry in entries:
        if entry[0] <= offset or entry[1] <= position:
            return False
        offset, position = entry
    return True
