"""One segment of a partition's log: a file of batches and three indexes.

The files of a segment are named by its base offset, in twenty digits:

    .log        record batches, one after another
    .index      8 bytes per entry: int32 last offset of a batch minus the base offset, int32 position of the batch
    .timeindex  12 bytes per entry: int64 largest timestamp so far, int32 its offset minus the base offset
    .txnindex   34 bytes per entry: int16 version 0, then producer id, first and last offset, last stable offset (int64)
    .crc        uint32 CRC-32C of the three index files in this order; older versions and Kafka do not write it

The valid prefix of a log is its longest run of complete batches with a correct CRC and rising offsets. Valid batches after that
prefix are taken as a sign that the file was damaged, and not that a kill interrupted its last write. The indexes are kept in
memory and written when the segment is closed; after a crash they are rebuilt from the log.
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
from stuntbroker.protocol.data_folder import INDEX_SUFFIXES, SEGMENT_SUFFIXES, segment_name
from stuntbroker.protocol.primitives import INT64_MAX, Buffer
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
"""Candidates for batches in a damaged file are read until their bytes exceed this many times the file's size."""
OFFSETS_MAX: Final = 0x7FFF_FFFF
"""Largest offset in a segment, relative to its base offset."""
INDEX_ENTRY: Final = Struct(">ii")
TIME_ENTRY: Final = Struct(">qi")
TXN_ENTRY: Final = Struct(">hqqqq")
_CRC: Final = Struct(">I")
_pack_epoch_and_magic: Final = Struct(">ib").pack


class TooManyCandidates(Exception):
    """Too many positions of a damaged file look like batches to check them all."""


class Segment:
    """One segment: `size` bytes of batches whose offsets begin at `base_offset`."""

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
        "index_time_offsets",
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
        """Whether the file was created and its folder not synced yet: a power cut may remove it."""
        self.has_producers = True
        """Whether a batch may have a producer id; False if `scan` has read none."""
        self.is_checked = False
        """Whether `scan` has checked the CRC of every batch."""
        self.leader_epochs: tuple[int, ...] = (FIRST_EPOCH,)
        """Leader epochs of the partition; a batch with another one is damaged."""
        self.size = 0
        self.pending_batches: list[Buffer] = []
        """Batches at the end that are appended but not written yet; `size` includes them."""
        self._reset()

    def _reset(self) -> None:
        self.index_offsets = array("q")
        """Last offset of each batch in `index_positions`."""
        self.index_positions = array("I")
        self.index_times = array("q")
        """The largest timestamp so far, in rising order, and (below) its offset."""
        self.index_time_offsets = array("q")
        self.indexed_to = 0
        """Position of the last batch that has an index entry."""
        self.first_timestamp = -1
        self.fast_path_size_max = -1
        """Segment size and (below) timestamp up to which a buffered batch needs neither an index entry nor a new segment."""
        self.fast_path_timestamp_max = -1
        self.max_timestamp = -1
        self.max_timestamp_offset = -1
        self.aborted: list[AbortedTxn] = []

    @property
    def pending(self) -> bool:
        """Whether batches are waiting to be written: the file must stay open."""
        return bool(self.pending_batches)

    def open(self) -> int:
        """Return the descriptor of the log file, which is opened on first use. Raises StorageError."""
        if self.fd < 0:
            try:
                # The file of a non-empty segment must exist: creating it would hide that it was deleted.
                self.fd = self.disk.open_file(self.path + ".log", WRITE if self.size else CREATE)
                self.is_new = not self.size
            except OSError as fault:
                raise storage_error(f"cannot open {self.path}.log", fault) from fault
            OPEN_FILES.opened(self)
        return self.fd

    def append(self, batch: Buffer, size: int, last_offset: int, max_timestamp: int) -> None:
        """Write one batch at the end. Raises StorageError; a failed write is undone."""
        if self.pending_batches:
            self.flush()
        try:
            self.disk.write_all(self.open(), batch, self.size)
        except OSError as fault:
            raise self._undo_write(self.size, fault) from fault
        self.update_indexes(size, last_offset, max_timestamp)

    def take_file(self, batch: LargeBatch, last_offset: int, max_timestamp: int) -> bool:
        """Use the file of a large batch as the log file of this segment, which must be empty.

        Returns False if the file could not be renamed; then nothing has changed.
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
        self.update_indexes(batch.size, last_offset, max_timestamp)
        return True

    def flush(self) -> None:
        """Write all buffered batches. Raises StorageError."""
        pending_batches = self.pending_batches
        if pending_batches:
            self.pending_batches = []
            data = pending_batches[0] if len(pending_batches) == 1 else b"".join(pending_batches)
            fd, size = self.fd, len(data)
            position = self.size - size
            try:
                self.disk.write_all(fd if fd >= 0 else self.open(), data, position)
            except OSError as fault:
                raise self._undo_write(position, fault) from fault

    def _undo_write(self, position: int, fault: OSError) -> StorageError:
        with contextlib.suppress(OSError):  # If this fails, the remains are overwritten, or cut off at the next start.
            self.disk.truncate(self.fd, position)
        return StorageError(f"cannot write to {self.path}.log: {fault.strerror}")

    @property
    def newest_ms(self) -> int:
        """Largest timestamp in ms; if no record has one, the modification time of the file, as in Kafka."""
        if self.max_timestamp >= 0:
            return self.max_timestamp
        return self.disk.modified_ns(self.path + ".log") // 1_000_000

    def timestamp_max(self, segment_ms: int) -> int:
        """Return the largest timestamp that still belongs to this segment, by `segment.ms`."""
        # Unlike Kafka: if the first batch has no timestamp, Kafka takes the time when the segment was created.
        return self.first_timestamp + segment_ms if self.first_timestamp >= 0 else INT64_MAX

    def update_indexes(self, size: int, last_offset: int, max_timestamp: int) -> None:
        """Update size and indexes for a batch that was written or buffered at position `self.size`."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if not self.size:
            self.first_timestamp = max_timestamp
        if self.size - self.indexed_to > INDEX_INTERVAL:
            self.index_offsets.append(last_offset)
            self.index_positions.append(self.size)
            if self.max_timestamp > (self.index_times[-1] if self.index_times else -1):
                self.index_times.append(self.max_timestamp)
                self.index_time_offsets.append(self.max_timestamp_offset)
            self.indexed_to = self.size
        self.size += size

    def position_near(self, offset: int) -> int:
        """Return the position of a batch at or before the batch that contains `offset`."""
        at = bisect_right(self.index_offsets, offset) - 1
        return self.index_positions[at] if at >= 0 else 0

    def find(self, offset: int) -> tuple[int, BatchHeader] | None:
        """Return position and header of the first batch whose last offset is not below `offset`; None if there is none."""
        for position, header in self.headers(self.position_near(offset)):
            if header.base_offset + header.last_offset_delta >= offset:
                return position, header
        return None

    def headers(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """Yield (position, header) of each batch from `position` on, read in small pieces. Raises StorageError."""
        window = b""
        start = position
        step = 4_096
        while position + HEADER_SIZE <= self.size:
            at = position - start
            if at + HEADER_SIZE > len(window):
                # The file may have been closed between two pieces.
                window = self._read(step, position)
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
        """Yield every batch unchecked, read in pieces of `piece` bytes; stop at a batch that runs past the end of the file."""
        position, window, start = 0, b"", 0
        while position < self.size:
            at = position - start
            left = len(window) - at
            size = HEADER_SIZE
            if left >= HEADER_SIZE:
                header = read_header(window, at)
                size = header.length + LOG_OVERHEAD
            if left < size:
                window = self._read(min(max(piece, size), self.size - position), position)
                start = position
                if len(window) < size:
                    return
                continue
            if size < HEADER_SIZE:
                return
            yield header, window[at : at + size]
            position += size

    def read(self, position: int, size: int) -> Buffer:
        """Read `size` bytes from `position`: as a copy, or as a memory-mapped view if there are many. Raises StorageError."""
        try:
            return self.disk.map(self.fd if self.fd >= 0 else self.open(), size, position)
        except OSError as fault:
            raise self._unreadable(fault) from fault

    def _read(self, size: int, position: int) -> bytes:
        try:
            return self.disk.read(self.open(), size, position)
        except OSError as fault:
            raise self._unreadable(fault) from fault

    def _unreadable(self, fault: OSError) -> StorageError:
        return storage_error(f"cannot read {self.path}.log", fault)

    def whole_batches(self, position: int, limit: int, end_offset: int) -> int:
        """Return the size in bytes of the complete batches from `position` on that are below `end_offset` and within `limit`.

        The first batch is included even if it is larger than `limit`.
        """
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

    def fetch_upper_bound_offset(self, position: int, size: int, end_offset: int) -> int | None:
        """Return the offset of the first index entry after `size` bytes from `position`, or after `end_offset` if that is first.

        None if there is no such entry.
        """
        stop = min(position + size, self.size)
        if position_and_header := self.find(end_offset):
            position_of_end, _ = position_and_header
            stop = min(stop, position_of_end)
        slot = bisect_left(self.index_positions, stop)
        return self.index_offsets[slot] if slot < len(self.index_offsets) else None

    def position_for_timestamp(self, timestamp: int, from_offset: int = 0) -> int | None:
        """Return the position of the first batch from `from_offset` on whose max timestamp is not below `timestamp`; or None."""
        if self.max_timestamp < timestamp:
            return None
        at = bisect_left(self.index_times, timestamp) - 1
        start = max(from_offset, self.index_time_offsets[at] if at >= 0 else 0)
        for position, header in self.headers(self.position_near(start)):
            if header.max_timestamp >= timestamp and header.last_offset >= from_offset:
                return position
        return None

    def scan(self, gaps_below: int) -> int:
        """Read the whole file and rebuild size and indexes from its valid prefix; return the number of bytes after the prefix.

        Between batches below `gaps_below`, offsets may be missing; from there on, a missing offset is damage.
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
                if end < size:  # Another process has truncated the file.
                    break
                continue
            if not self._is_valid(header, window[at : at + size]):
                break
            has_producers = has_producers or header.producer_id >= 0
            if header.base_offset < next_offset or next_offset < header.base_offset > gaps_below:
                break
            next_offset = header.next_offset
            self.update_indexes(size, header.last_offset, header.max_timestamp)
        self.is_checked, self.has_producers = True, has_producers
        return length - self.size

    def _is_valid(self, header: BatchHeader, batch: Buffer) -> bool:
        """Whether a batch of this segment is undamaged; the CRC does not cover the fields before `attributes`."""
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
        """Return the position of the first valid batch that begins at any byte from `position` on; None if there is none.

        Record data can contain bytes that look like headers of large batches. Raises TooManyCandidates after reading
        CANDIDATE_READS_MAX times the size of the file without finding a valid batch.
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
        """Remove everything after the valid prefix that `scan` found."""
        self.disk.truncate(self.open(), self.size)

    def load(self) -> bool:
        """Load size and indexes of a closed segment; return False if they do not match the log: it must be scanned."""
        try:
            self.size = self.disk.file_size(self.path + ".log")
            data = [self.disk.read_file(self.path + suffix) for suffix in INDEX_SUFFIXES]
            entries = list(INDEX_ENTRY.iter_unpack(data[0]))
            times = list(TIME_ENTRY.iter_unpack(data[1]))
            aborted = [AbortedTxn(*entry[1:]) for entry in TXN_ENTRY.iter_unpack(data[2])]
            if not self._indexes_are_intact(b"".join(data), entries):
                return False
        except (OSError, struct.error):  # A file is missing, or its size is not a multiple of the entry size.
            return False
        if bool(times) != bool(self.size) or (entries and entries[-1][1] >= self.size):
            return False
        self.index_offsets = array("q", (offset + self.base_offset for offset, _ in entries))
        self.index_positions = array("I", (position for _, position in entries))
        self.index_times = array("q", (time for time, _ in times))
        self.index_time_offsets = array("q", (offset + self.base_offset for _, offset in times))
        if times:
            self.max_timestamp, self.max_timestamp_offset = self.index_times[-1], self.index_time_offsets[-1]
        self.indexed_to = entries[-1][1] if entries else 0
        self.aborted = aborted
        for _, header in self.headers():
            self.first_timestamp = header.max_timestamp
            break
        return self._ends_as_indexed()

    def _indexes_are_intact(self, indexes: bytes, entries: list[tuple[int, int]]) -> bool:
        """Whether the CRC of the indexes is correct; without a CRC file, whether the offset index rises."""
        try:
            return self.disk.read_file(self.path + ".crc") == _CRC.pack(crc32c(indexes))
        except FileNotFoundError:
            return _rises(entries)

    def _ends_as_indexed(self) -> bool:
        """Whether the last entry of the offset index is correct, and complete batches fill the file from there on."""
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
        """Write all index files, even empty ones, so that `load` notices a missing one. Raises OSError."""
        base = self.base_offset
        times = list(zip(self.index_times, self.index_time_offsets, strict=True))
        if self.max_timestamp > (times[-1][0] if times else -1):
            times.append((self.max_timestamp, self.max_timestamp_offset))
        entries = zip(self.index_offsets, self.index_positions, strict=True)
        data = [
            b"".join(INDEX_ENTRY.pack(o - base, p) for o, p in entries),
            b"".join(TIME_ENTRY.pack(t, o - base) for t, o in times),
            b"".join(TXN_ENTRY.pack(0, *entry) for entry in self.aborted),
        ]
        for suffix, content in zip(INDEX_SUFFIXES, data, strict=True):
            self.disk.replace_file(self.path + suffix, content)
        self.disk.replace_file(self.path + ".crc", _CRC.pack(crc32c(b"".join(data))))

    def sync(self) -> None:
        """Sync the log file, which may have been closed since it was written. Raises OSError, StorageError."""
        if self.size:
            self.disk.sync(self.open())

    def close(self) -> None:
        """Close the log file; it is reopened on the next use."""
        if self.fd >= 0:
            self.disk.close(self.fd)
            self.fd = -1
            OPEN_FILES.closed(self)

    def delete(self) -> None:
        """Remove the segment's files. Views that readers have mapped stay valid. Raises StorageError."""
        self.close()
        for suffix in SEGMENT_SUFFIXES:
            try:
                self.disk.remove(self.path + suffix)
            except FileNotFoundError:
                continue
            except OSError as fault:
                raise storage_error(f"cannot remove {self.path}{suffix}", fault) from fault


def _rises(entries: list[tuple[int, int]]) -> bool:
    offset = position = -1
    for entry in entries:
        if entry[0] <= offset or entry[1] <= position:
            return False
        offset, position = entry
    return True
