"""The log of one partition: segments, offsets, what transactions hide from readers, and what producers may append.

One process holds every replica, so the high watermark is the end of the log: what has been written.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from operator import attrgetter
from struct import Struct
from typing import Final, NamedTuple

from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.primitives import Buffer
from stuntbroker.protocol.records import (
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    SEQUENCE_MAX,
    TRANSACTIONAL,
    BatchHeader,
    HeaderFields,
    one_record_batch,
    read_header,
    with_append_time,
)
from stuntbroker.storage.errors import StorageError
from stuntbroker.storage.log_config import LEADER_EPOCH, LogConfig
from stuntbroker.storage.marker import MARKER_SIZE, Marker, new_marker
from stuntbroker.storage.producers import (
    BATCHES_REMEMBERED,
    AbortedTxn,
    Producer,
    ProducerStates,
    aborted_between,
    last_offset_of,
)
from stuntbroker.storage.segment import INDEX_INTERVAL, OFFSETS_MAX, Segment, segment_name
from stuntbroker.storage.turn import Turn

GATHERED_BELOW: Final = 8_192
"""Smaller appends are gathered for the end of the turn, larger ones written at once."""
OK = ErrorCode.NONE
NO_SEGMENT: Final = Segment("", 0)
"""Active while a log has none: it has no room, and nothing is ever put into it."""
_stamp = Struct(">q")
_pack_offset = _stamp.pack
_base_offset_of = attrgetter("base_offset")
_stamp_epoch = Struct(">i")
_stamped = Struct(">qii").pack


Appended = tuple[ErrorCode, int, int]
"""(error, base offset, log append time in ms): -1 for an offset or a time that there is not."""


class ReadResult(NamedTuple):
    parts: list[Buffer]
    size: int


def _told_by_raising(fault: StorageError) -> None:
    """Of a log by itself, only who asked for the write hears of it."""


class PartitionLog:
    """Everything about the records of one partition. Not safe for threads: one event loop owns it."""

    __slots__ = (
        "aborted", "active", "clean_size", "config", "create", "dirty", "exists", "failed", "folder", "index", "late", "leads",
        "log_start_offset", "name",
        "next_offset", "producers", "segments", "topic", "touched", "turn", "waiters",
    )  # fmt: skip

    def __init__(
        self, topic: str, index: int, folder: str, config: LogConfig, create: Callable[[PartitionLog], None]
    ) -> None:
        self.topic = topic
        self.index = index
        self.name = (topic, index)
        self.folder = folder
        self.config = config
        self.create = create
        """Makes the folder, before the first byte is written."""
        self.exists = False
        self.segments: list[Segment] = []
        self.active = NO_SEGMENT
        """The last segment, which takes what is appended."""
        self.log_start_offset = 0
        self.next_offset = 0
        """Offset that the next record gets; also the high watermark."""
        self.producers = ProducerStates()
        self.aborted: list[AbortedTxn] = []
        self.clean_size = 0
        """Bytes that the last compaction left."""
        self.dirty = False
        """Something was written since the last sync. Only kept when `touched` is there to hear of it."""
        self.touched: Callable[[PartitionLog], None] | None = None
        self.waiters: set[Callable[[], None]] = set()
        """Called after every append, before producers and markers are noted: they may only take note of it."""
        self.failed: Callable[[StorageError], None] = _told_by_raising
        """Told of a write that failed, whoever asked for it."""
        self.turn: Turn | None = None
        """When there is one, small appends are gathered, and written when it ends."""
        self.leads = False
        """Written before others when a turn ends: the transaction log."""
        self.late: dict[bytes, tuple[bytes, int]] = {}
        """Value and timestamp by key of `append_late`, until the turn is over."""

    # --- offsets

    @property
    def size(self) -> int:
        """Bytes in all segments."""
        return sum(segment.size for segment in self.segments)

    @property
    def last_stable_offset(self) -> int:
        for offset in self.producers.open_txns.values():
            return offset if offset >= self.log_start_offset else self._first_kept_offset()
        return self.next_offset

    def _first_kept_offset(self) -> int:
        """Where the batch begins that the log start is in, as in Kafka: it may be below the log start."""
        self.settle()
        for segment in self.segments[self._segment_at(self.log_start_offset) :]:
            if found := segment.find(self.log_start_offset):
                return found[1].base_offset
        return self.log_start_offset

    # --- appending

    def append_client(
        self, batch: Buffer, header: BatchHeader, now_ms: int, must_start_at_zero: bool = False
    ) -> Appended:
        """Appends a client's batch whose header and CRC were checked. Raises StorageError."""
        _, length, _, _, _, attributes, _, _, _, producer_id, epoch, sequence, _ = header
        config, producers, producer = self.config, self.producers, None
        if length > config.segment_bytes - LOG_OVERHEAD:
            return ErrorCode.RECORD_LIST_TOO_LARGE, -1, -1
        if producer_id >= 0:
            producer = producers.producers.get(producer_id)
            if (
                producer is None
                or producer.next_sequence != sequence
                or producer.epoch != epoch
                or not attributes & TRANSACTIONAL
                or producers.doubts
            ):
                admitted = producers.admit(header, must_start_at_zero)
                if admitted is not OK:
                    if isinstance(admitted, tuple):
                        return OK, admitted[2], admitted[4]
                    return admitted, -1, -1
                producer = None
            # Else it goes on where its producer is, and `admit` would say OK.
        stamped_ms = -1
        if config.log_append_time:
            batch, stamped_ms = with_append_time(batch, header, now_ms), now_ms
            header = read_header(batch)
        return OK, self.append_admitted(batch, header, producer), stamped_ms

    def append_admitted(self, batch: Buffer, header: HeaderFields, producer: Producer | None) -> int:
        """Appends a client's batch that nothing speaks against; returns its offset. Raises StorageError.

        `producer`: the one that it goes on for, transactional, with the next sequence number of its epoch; None: any other.
        """
        _, length, _, _, _, _, delta, _, max_timestamp, producer_id, _, sequence, _ = header
        base_offset = self.next_offset
        size = length + LOG_OVERHEAD
        if batch.__class__ is bytes:
            batch = _stamped(base_offset, length, LEADER_EPOCH) + batch[16:]
        elif size < GATHERED_BELOW:  # It may lie in a buffer that is used again before the turn is over.
            batch = _stamped(base_offset, length, LEADER_EPOCH) + bytes(batch[16:])
        else:
            _stamp.pack_into(batch, 0, base_offset)
            _stamp_epoch.pack_into(batch, 12, LEADER_EPOCH)
        self._write(batch, size, base_offset + delta, max_timestamp)
        if producer is not None:
            if producer.txn_first_offset < 0:
                producer.txn_first_offset = self.producers.open_txns[producer_id] = base_offset
            last = sequence + delta
            if last < SEQUENCE_MAX and len(producer.batches) < BATCHES_REMEMBERED:
                producer.batches.append((sequence, last, base_offset, base_offset + delta, max_timestamp))
                producer.next_sequence = last + 1
                producer.last_timestamp = max_timestamp
            else:
                producer.remember(sequence, delta, base_offset, max_timestamp)
        elif producer_id >= 0:
            self.producers.appended(header, base_offset)
        return base_offset

    def append_own(self, batch: bytearray) -> int:
        """Appends a batch that the broker made (internal topics). Raises StorageError."""
        header = read_header(batch)
        base_offset = self.next_offset
        _stamp.pack_into(batch, 0, base_offset)
        self._write(batch, len(batch), base_offset + header.last_offset_delta, header.max_timestamp)
        if header.producer_id >= 0:
            self.producers.appended(header, base_offset)
        return base_offset

    def append_record(self, key: bytes, value: bytes | None, timestamp_ms: int) -> int:
        """Appends one record of the broker's own, or a tombstone. Raises StorageError."""
        if self.late and key in self.late:
            assert self.turn is not None
            self.turn.flush()
            self.gather_late()
        offset = self.next_offset
        batch = one_record_batch(offset, LEADER_EPOCH, timestamp_ms, key, value)
        self._write(batch, len(batch), offset, timestamp_ms)
        return offset

    def append_late(self, key: bytes, value: bytes, timestamp_ms: int) -> None:
        """Appends a record that must come after everything that this turn writes, and for which nobody waits.

        It gets its offset when the turn is over, and is written together with the next one, or by `settle`.
        """
        if self.turn is None:
            self.append_record(key, value, timestamp_ms)
            return
        if not self.late:
            self.turn.has_late(self)
        self.late[key] = value, timestamp_ms

    def gather_late(self) -> None:
        late, self.late = self.late, {}
        for key, (value, timestamp_ms) in late.items():
            offset = self.next_offset
            batch = one_record_batch(offset, LEADER_EPOCH, timestamp_ms, key, value)
            self._write(batch, len(batch), offset, timestamp_ms, late=True)

    def settle(self) -> None:
        """Writes everything that was gathered, whether the turn is over or not."""
        if self.turn is not None and (self.turn.armed or self.late):
            self.turn.flush()
            self.gather_late()
        try:
            self.active.flush()
        except StorageError as fault:
            self.failed(fault)
            raise

    def append_marker(self, marker: Marker) -> ErrorCode:
        """Ends the producer's transaction here. Written even when none is open, as in Kafka. Raises StorageError."""
        commit, producer_id, epoch, coordinator_epoch, transaction_version, now_ms, body = marker
        producers = self.producers
        producer = producers.producers.get(producer_id)
        if producer is None or producer.epoch >= epoch or producer.coordinator_epoch > coordinator_epoch:
            error = producers.check_marker(producer_id, epoch, coordinator_epoch, transaction_version)
            if error is not OK:
                return error
        offset = self.next_offset
        if self.config.log_append_time:
            body = new_marker(*marker[:6], LOG_APPEND_TIME).body
        self._write(_pack_offset(offset) + body, MARKER_SIZE, offset, now_ms)
        if producer is None or producers.doubts or producer.txn_first_offset < 0 or not commit:
            entry = producers.marker_appended(producer_id, epoch, coordinator_epoch, now_ms, offset, commit)
            if entry is not None:
                self.aborted.append(entry)
                self.active.aborted.append(entry)
            return OK
        # As that does it, for what nearly every marker is: the commit of an open transaction.
        if producer.epoch != epoch:
            producer.epoch, producer.batches, producer.next_sequence = epoch, [], 0
        producer.coordinator_epoch = coordinator_epoch
        producer.last_timestamp = now_ms
        producer.txn_first_offset = -1
        producer.sealed = False
        del producers.open_txns[producer_id]
        return OK

    def _write(self, batch: Buffer, size: int, last_offset: int, max_timestamp: int, late: bool = False) -> None:
        """Every append ends here: small ones are gathered for the end of the turn, `late` ones for the write after it."""
        segment = self.active
        stop = segment.size + size
        if stop <= segment.look_at and max_timestamp <= segment.look_after:
            segment.gathered.append(batch)  # As below, while there is nothing to index.
            segment.size = stop
            if max_timestamp > segment.max_timestamp:
                segment.max_timestamp = max_timestamp
                segment.max_timestamp_offset = last_offset
        elif self.turn is None or (size >= GATHERED_BELOW and not late):
            self._write_now(batch, size, last_offset, max_timestamp)
            return
        else:
            segment, config = self._segment_for(size, last_offset, max_timestamp), self.config
            segment.gathered.append(batch)
            segment.note(size, last_offset, max_timestamp)
            # Until one of these is passed, nothing need be asked again.
            near_its_end = last_offset - segment.base_offset >= OFFSETS_MAX // 2
            look_at = min(config.segment_bytes, segment.indexed_to + INDEX_INTERVAL)
            segment.look_at, segment.look_after = -1 if near_its_end else look_at, segment.first_timestamp + config.segment_ms
        self.next_offset = last_offset + 1
        if not self.dirty and not late:
            self.dirty = True
            self.turn.touched(self)  # type: ignore[union-attr]

    def _write_now(self, batch: Buffer, size: int, last_offset: int, max_timestamp: int) -> None:
        if self.turn is not None and self.turn.armed:
            self.turn.flush()
        segment = self._segment_for(size, last_offset, max_timestamp)
        try:
            segment.append(batch, size, last_offset, max_timestamp)
        except StorageError as fault:
            self.failed(fault)
            raise
        self.next_offset = last_offset + 1
        if self.touched is not None and not self.dirty:
            self.dirty = True
            self.touched(self)
        if self.waiters:
            for waiter in self.waiters:
                waiter()

    def _segment_for(self, size: int, last_offset: int, max_timestamp: int) -> Segment:
        """The segment that takes a batch of this size: the active one, or a new one."""
        segments = self.segments
        segment = segments[-1] if segments else self._roll()
        config = self.config
        if not segment.size:
            segment.first_timestamp = max_timestamp
        elif (
            segment.size + size > config.segment_bytes
            or max_timestamp - segment.first_timestamp > config.segment_ms
            or last_offset - segment.base_offset > OFFSETS_MAX
        ):
            segment = self._roll()
            segment.first_timestamp = max_timestamp
        return segment

    def flush(self) -> None:
        """Writes what this turn has appended. Raises StorageError."""
        self.dirty = False
        self.active.flush()

    def _roll(self) -> Segment:
        """Closes the active segment and begins another at the end of the log. Raises StorageError."""
        if self.segments and not self.active.size:
            return self.active
        try:
            if self.segments:
                self._end_segment()
            elif not self.exists:
                self.create(self)
                self.exists = True
            segment = Segment(self.folder, self.next_offset)
            segment.open()
        except StorageError as fault:
            self.failed(fault)
            raise
        self.segments.append(segment)
        self.active = segment
        return segment

    def _end_segment(self) -> None:
        last = self.active
        if last.gathered:
            if self.turn is not None and self.turn.armed:
                self.turn.flush()
            last.flush()
        try:
            if self.touched is not None:  # Only the last segments are synced with what waits for an answer.
                last.sync()
            last.write_indexes()
            self._write_snapshot()
        except OSError as fault:
            raise StorageError(f"cannot close {last.path}.log: {fault.strerror}") from fault

    def roll(self) -> None:
        """Closes the active segment, so that deletion and compaction may look at it."""
        self.settle()
        if self.segments and self.segments[-1].size:
            self._roll()

    def _write_snapshot(self) -> None:
        path = f"{self.folder}/{segment_name(self.next_offset)}.snapshot"
        with open(path + ".new", "wb") as file:
            file.write(self.producers.snapshot())
        os.replace(path + ".new", path)

    # --- reading

    def read(self, offset: int, max_bytes: int, end_offset: int, *, at_least_one: bool = True) -> ReadResult:
        """Whole batches from the one that holds `offset`, below `end_offset`, up to `max_bytes`.

        `at_least_one`: the first batch comes even when it is larger.
        """
        parts: list[Buffer] = []
        total = 0
        if self.active.gathered:
            self.settle()
        for segment in self.segments[self._segment_at(offset) :]:
            found = segment.find(offset)
            if found is None:
                continue
            position, header = found
            if header.base_offset >= end_offset:
                break
            limit = max_bytes - total
            if header.size > limit and (parts or not at_least_one):
                break
            size = segment.whole_batches(position, limit, end_offset)
            if size:
                parts.append(segment.read(position, size))
                total += size
            if total >= max_bytes or position + size < segment.size:
                break
        return ReadResult(parts, total)

    def _segment_at(self, offset: int) -> int:
        """Index of the last segment that begins at or before `offset`."""
        return max(0, bisect_right(self.segments, offset, key=_base_offset_of) - 1)

    def aborted_in_fetch(self, offset: int, size: int, end_offset: int) -> list[AbortedTxn]:
        """What a read_committed fetch of `size` bytes tells: those up to the next index entry behind them, as in Kafka."""
        if self.aborted and offset < end_offset:
            self.settle()
            for at in range(self._segment_at(offset), len(self.segments)):
                segment = self.segments[at]
                if found := segment.find(offset):
                    position = found[0]
                    # Kafka's fetch ends with a segment; what is read here may go on into the next ones.
                    while position + size > segment.size and at + 1 < len(self.segments):
                        size -= segment.size - position
                        at += 1
                        segment, position = self.segments[at], 0
                    bound = segment.bound_behind(position, size, end_offset)
                    return aborted_between(self.aborted, offset, self.end_of(at) if bound is None else bound)
        return []

    def batches_since(self, timestamp: int, offset: int) -> Iterator[tuple[BatchHeader, Buffer]]:
        """The batches from `offset` on, whole, that hold a record of this time or later."""
        self.settle()
        for segment in list(self.segments):
            position = segment.offset_for_time(timestamp, offset)
            if position is None:
                continue
            for at, header in segment.headers(position):
                if header.max_timestamp >= timestamp:
                    yield header, segment.read(at, header.size)

    def latest_timestamp(self) -> tuple[int, int]:
        """(largest timestamp, offset of the batch's last record that has it); (-1, -1) in an empty log."""
        best = (-1, -1)
        for segment in self.segments:
            if segment.size and segment.max_timestamp > best[0]:
                best = (segment.max_timestamp, segment.max_timestamp_offset)
        return best

    def batches(self) -> Iterator[tuple[BatchHeader, Buffer]]:
        """Every batch from the start of the log, whole."""
        self.settle()
        for segment in list(self.segments):
            for position, header in segment.headers():
                if header.last_offset >= self.log_start_offset:
                    yield header, segment.read(position, header.size)

    # --- forgetting

    def delete_records(self, before_offset: int) -> None:
        """Moves the log start; what lies wholly below it goes."""
        if before_offset > self.log_start_offset:
            self.log_start_offset = before_offset
        self.drop_below_start()

    def drop_below_start(self) -> None:
        """What lies wholly below the log start goes, as far as something follows it."""
        while len(self.segments) > 1 and self.segments[1].base_offset <= self.log_start_offset:
            self.drop_first()
        keep = bisect_left(self.aborted, self.log_start_offset, key=last_offset_of)
        del self.aborted[:keep]

    def drop_first(self) -> None:
        segment = self.segments.pop(0)
        segment.delete()

    def end_of(self, index: int) -> int:
        """The offset behind a segment."""
        return self.segments[index + 1].base_offset if index + 1 < len(self.segments) else self.next_offset

    # --- opening and closing

    def close(self) -> None:
        """Writes what a clean start needs."""
        self.settle()
        if self.segments:
            self.segments[-1].write_indexes()
            self._write_snapshot()
        for segment in self.segments:
            segment.close()

    def delete(self) -> None:
        for segment in self.segments:
            segment.delete()
        self.segments, self.active = [], NO_SEGMENT

