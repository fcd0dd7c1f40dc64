"""Reading a log of segments, by offset and by timestamp."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any, Final, NamedTuple

from stuntbroker.protocol.batches.records import BatchHeader
from stuntbroker.protocol.primitives import Buffer
from stuntbroker.storage.producers import AbortedTxn, aborted_between
from stuntbroker.storage.segment import Segment

NO_SEGMENT: Final = Segment("", 0)
"""Active segment of a log that has no segments; nothing is ever appended to it."""
OwnRecord = tuple[Any, Any, int]
"""(key, value, timestamp in ms) of a record of the broker's own; key and value are bytes, or objects that its log encodes."""
_base_offset_of: Final = attrgetter("base_offset")


class ReadResult(NamedTuple):
    """What a read of a log returns, which ends with a segment, as in Kafka."""

    records: Buffer
    """Complete batches; large ones are the file's own pages."""
    continues: bool
    """Whether later segments have more batches below the end offset."""


class SegmentedLog:
    """Segments in order of offset; appends go to the last one."""

    __slots__ = ("aborted", "active", "log_start_offset", "next_offset", "own_records", "segments", "waiters")

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.active = NO_SEGMENT
        """The last segment, to which batches are appended."""
        self.log_start_offset = 0
        self.next_offset = 0
        """Offset that the next record gets; also the high watermark."""
        self.aborted: list[AbortedTxn] = []
        self.own_records: list[OwnRecord] = []
        """The broker's own records that are appended but not in a batch yet; they follow all batches."""
        self.waiters: set[Callable[[], None]] = set()
        """Called when there are more records to read, some before the producers are updated: a waiter may only note that."""

    def forget_limits(self) -> None:
        """Let the next append look at everything again, because the log's configuration, or whether it exists, has changed."""
        self.active.fast_path_size_max = -1

    def wake_waiters(self) -> None:
        """Call the functions that wait for more records."""
        for waiter in self.waiters:
            waiter()

    def flush_buffered(self) -> None:
        """Write everything that is buffered. Raises StorageError."""
        raise NotImplementedError

    def assign_offsets(self) -> None:
        """Give the broker's own buffered records their offsets: then `next_offset` is the end of the log. Raises StorageError."""
        if self.own_records:
            self.flush_buffered()

    @property
    def size(self) -> int:
        """Bytes in all segments."""
        return sum(segment.size for segment in self.segments)

    def end_of(self, index: int) -> int:
        """Return the end offset of the segment at this index."""
        return self.segments[index + 1].base_offset if index + 1 < len(self.segments) else self.next_offset

    def read(self, offset: int, max_bytes: int, end_offset: int, *, at_least_one: bool = True) -> ReadResult:
        """Read complete batches of one segment: from the one that contains `offset`, below `end_offset`, up to `max_bytes`.

        `at_least_one`: return the first batch even if it is larger than `max_bytes`.
        """
        if self.active.pending_batches or self.own_records:
            self.flush_buffered()
        for at in range(self._segment_at(offset), len(self.segments)):
            segment = self.segments[at]
            position_and_header = segment.find(offset)
            if position_and_header is None:  # Compaction has removed what followed in this segment.
                continue
            position, header = position_and_header
            if header.base_offset >= end_offset:
                break
            records: Buffer = b""
            if at_least_one or header.size <= max_bytes:
                records = segment.read(position, segment.whole_batches(position, max_bytes, end_offset))
            return ReadResult(records, end_offset > self.end_of(at))
        return ReadResult(b"", False)

    def _segment_at(self, offset: int) -> int:
        """Index of the last segment that begins at or before `offset`."""
        return max(0, bisect_right(self.segments, offset, key=_base_offset_of) - 1)

    def aborted_in_fetch(self, offset: int, size: int, end_offset: int) -> list[AbortedTxn]:
        """Return the aborted transactions of a read_committed fetch of `size` bytes, up to the next index entry, as in Kafka."""
        if self.aborted and offset < end_offset:
            self.flush_buffered()
            for at in range(self._segment_at(offset), len(self.segments)):
                segment = self.segments[at]
                if position_and_header := segment.find(offset):
                    position, _ = position_and_header
                    bound = segment.fetch_upper_bound_offset(position, size, end_offset)
                    return aborted_between(self.aborted, offset, self.end_of(at) if bound is None else bound)
        return []

    def batches_since(self, timestamp: int, offset: int) -> Iterator[tuple[BatchHeader, Buffer]]:
        """Yield the batches from `offset` on whose max timestamp is not below `timestamp`."""
        self.flush_buffered()
        for segment in list(self.segments):
            position = segment.position_for_timestamp(timestamp, offset)
            if position is None:
                continue
            for at, header in segment.headers(position):
                if header.max_timestamp >= timestamp:
                    yield header, segment.read(at, header.size)

    def latest_timestamp(self) -> tuple[int, int]:
        """Return (largest timestamp, last offset of the batch that has it); (-1, -1) for an empty log."""
        best = (-1, -1)
        for segment in self.segments:
            if segment.size and segment.max_timestamp > best[0]:
                best = (segment.max_timestamp, segment.max_timestamp_offset)
        return best

    def batches(self) -> Iterator[tuple[BatchHeader, Buffer]]:
        """Yield every batch from the log start offset on."""
        self.flush_buffered()
        for segment in list(self.segments):
            for position, header in segment.headers():
                if header.last_offset >= self.log_start_offset:
                    yield header, segment.read(position, header.size)
