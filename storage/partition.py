"""The log of one partition: appends, producer state, the last stable offset, and writing to disk.

One process holds all replicas of a partition, so the high watermark is the end of the log.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from struct import Struct
from typing import Any, Final

from stuntbroker.protocol.batches.records import (
    EPOCH_AT,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC_AT,
    TRANSACTIONAL,
    BatchHeader,
    one_record_batch,
    read_header,
    with_append_time,
)
from stuntbroker.protocol.data_folder import segment_name
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.primitives import Buffer
from stuntbroker.storage.disk import LOCAL_DISK, Disk
from stuntbroker.storage.errors import LogDeleted, StorageError, TooManyOpenFiles, storage_error
from stuntbroker.storage.large_batch import LargeBatch
from stuntbroker.storage.leader_epochs import FIRST_EPOCH, FIRST_LEADER, LeaderEpochs
from stuntbroker.storage.log_config import LogConfig
from stuntbroker.storage.marker import MARKER_SIZE, Marker, new_marker
from stuntbroker.storage.points import Points
from stuntbroker.storage.producers import Producer, ProducerStates, RememberedBatch, last_offset_of
from stuntbroker.storage.segment import INDEX_INTERVAL, OFFSETS_MAX, Segment
from stuntbroker.storage.segmented_log import NO_SEGMENT, OwnRecord, SegmentedLog
from stuntbroker.storage.turn import Turn, allow_writing, ignore_fault

BUFFERED_BELOW: Final = 8_192
"""Batches below this many bytes are buffered until the end of the turn; larger ones are written immediately."""
OK = ErrorCode.NONE
_stamp: Final = Struct(">q")
_pack_offset: Final = _stamp.pack
_stamp_epoch: Final = Struct(">i")
_pack_epoch: Final = _stamp_epoch.pack
_stamped: Final = Struct(">qii").pack


Appended = tuple[ErrorCode, int, int]
"""(error, base offset, log append time in ms); offset and time are -1 if there is none."""


class PartitionLog(SegmentedLog):
    """The log of one partition. Not thread-safe: only the event loop may use it."""

    __slots__ = (
        "batch_of",
        "check_writable",
        "clean_size",
        "config",
        "create",
        "deferred",
        "disk",
        "exists",
        "failed",
        "flush_first",
        "folder",
        "index",
        "is_deleted",
        "is_in_turn",
        "is_unsynced",
        "large_batches",
        "leader_epoch",
        "leader_epochs",
        "name",
        "points",
        "producers",
        "register_unsynced",
        "topic",
        "turn",
    )

    def __init__(
        self,
        topic: str,
        index: int,
        folder: str,
        config: LogConfig,
        create: Callable[[PartitionLog], None],
        disk: Disk = LOCAL_DISK,
    ) -> None:
        super().__init__()
        self.topic = topic
        self.index = index
        self.name = (topic, index)
        self.folder = folder
        self.disk = disk
        self.config = config
        self.create = create
        """Creates the partition's folder; called before the first segment is created."""
        self.exists = False
        self.is_deleted = False
        """Whether the topic was deleted: nothing may be appended and no file created any more."""
        self.leader_epoch = FIRST_EPOCH
        """Partition leader epoch written into appended batches."""
        self.leader_epochs: LeaderEpochs = FIRST_LEADER
        """All leader epochs so far; the last one is `leader_epoch`."""
        self.producers = ProducerStates()
        self.clean_size = 0
        """Size in bytes of the segments that the last compaction wrote."""
        self.is_in_turn = False
        """Whether the turn writes what is buffered here at its end."""
        self.is_unsynced = False
        """Whether the syncer is to sync what was written."""
        self.register_unsynced: Callable[[PartitionLog], None] | None = None
        """Called with the log at its first write after a sync; None if writes need no sync."""
        self.failed: Callable[[StorageError], None] = ignore_fault
        """Called with the error of every failed write."""
        self.check_writable: Callable[[], None] = allow_writing
        """Raises StorageError after a write to any log of the broker has failed, so that nothing more is written."""
        self.points = Points()
        self.turn: Turn | None = None
        """If set, small appends are buffered and written at the end of the turn."""
        self.flush_first = False
        """Whether a turn writes this log before the others: True for the transaction log."""
        self.batch_of: Callable[[int, int, int, Any, Any], bytes] = one_record_batch
        """Encodes one of `records` as a batch: (base offset, leader epoch, timestamp in ms, key, value)."""
        self.large_batches: list[LargeBatch] = []
        """Batches of pending requests that are written to files of their own before they are appended."""
        self.deferred: dict[Any, OwnRecord] = {}
        """Key -> record of `append_deferred`, until the end of the turn."""

    def attach_to(self, turn: Turn, *, buffers: bool) -> None:
        """Attach the log to a broker's turn: after the first failed write to any of its logs, none of them is written.

        `buffers`: buffer small appends and write them at the end of the turn.
        """
        self.failed, self.check_writable, self.points = turn.fail, turn.check, turn.points
        if buffers:
            self.turn = turn

    def configure(self, config: LogConfig) -> None:
        """Apply a changed configuration from the next batch on."""
        self.config = config
        self.forget_limits()

    # --- offsets

    @property
    def last_stable_offset(self) -> int:
        """End offset for read_committed consumers: the first offset of the oldest open transaction, or the end of the log."""
        offset = self.producers.first_unstable_offset()
        if offset is None:
            return self.next_offset
        return offset if offset >= self.log_start_offset else self._first_kept_offset()

    def _first_kept_offset(self) -> int:
        """Return the base offset of the batch that contains the log start offset, as in Kafka; may be below it."""
        self.flush_buffered()
        for segment in self.segments[self._segment_at(self.log_start_offset) :]:
            if first := segment.find(self.log_start_offset):
                return first[1].base_offset
        return self.log_start_offset

    # --- appending

    def append_client(
        self, batch: Buffer, header: BatchHeader, now_ms: int, opens_transaction: bool = False
    ) -> Appended:
        """Append a client's batch, whose header and CRC the caller has checked. Raises StorageError.

        `opens_transaction`: as for `ProducerStates.admit`.
        """
        config, producers, producer = self.config, self.producers, None
        if header.length > config.segment_bytes - LOG_OVERHEAD:
            return ErrorCode.RECORD_LIST_TOO_LARGE, -1, -1
        if header.producer_id >= 0:
            producer = producers.producers.get(header.producer_id)
            if not (header.attributes & TRANSACTIONAL and producers.continues(producer, header)):
                admitted = producers.admit(header, opens_transaction)
                if admitted:
                    if isinstance(admitted, RememberedBatch):
                        return OK, admitted.first_offset, admitted.timestamp_ms
                    return admitted, -1, -1
                producer = None
            # Otherwise the batch continues the producer's sequence, and `admit` would return OK (test_append_shortcuts.py
            # compares the two). Without this a concurrent transaction takes 5 % more CPU.
        stamped_ms = -1
        if config.log_append_time:
            batch, stamped_ms = with_append_time(batch, header, now_ms), now_ms
            header = read_header(batch)
        return OK, self.append_admitted(batch, header, producer), stamped_ms

    def append_admitted(self, batch: Buffer, header: BatchHeader, producer: Producer | None) -> int:
        """Append a client's batch that was admitted; return its offset. Raises StorageError.

        `producer`: the producer, when the batch is transactional and continues its sequence in its epoch; else None.
        """
        _, length, _, _, _, _, delta, _, max_timestamp, producer_id, _, sequence, _ = header
        base_offset = self.next_offset
        size = length + LOG_OVERHEAD
        if batch.__class__ is bytes:
            batch = _stamped(base_offset, length, self.leader_epoch) + batch[MAGIC_AT:]
        elif size < BUFFERED_BELOW:  # The batch may be in a buffer that is reused before the end of the turn.
            batch = _stamped(base_offset, length, self.leader_epoch) + bytes(batch[MAGIC_AT:])
        else:
            _stamp.pack_into(batch, 0, base_offset)
            _stamp_epoch.pack_into(batch, EPOCH_AT, self.leader_epoch)
        self._write(batch, size, base_offset + delta, max_timestamp)
        if producer is not None:
            self.producers.open_txn(producer, producer_id, base_offset)
            producer.remember(sequence, delta, base_offset, max_timestamp)
        elif producer_id >= 0:
            self.producers.appended(header, base_offset)
        return base_offset

    def append_own(self, batch: bytearray) -> int:
        """Append a batch of the broker's own (internal topics); return its base offset. Raises StorageError."""
        header = read_header(batch)
        base_offset = self.next_offset
        _stamp.pack_into(batch, 0, base_offset)
        _stamp_epoch.pack_into(batch, EPOCH_AT, self.leader_epoch)
        self._write(batch, len(batch), base_offset + header.last_offset_delta, header.max_timestamp)
        if header.producer_id >= 0:
            self.producers.appended(header, base_offset)
        return base_offset

    def append_record(self, key: Any, value: Any, timestamp_ms: int) -> None:
        """Append one record of the broker's own, or a tombstone. Raises StorageError.

        `key` and `value`: bytes, None, or other objects that `batch_of` accepts. With a turn, batches are encoded and offsets
        assigned at its end, because encoding many records in a row takes half the time.
        """
        if self.deferred and key in self.deferred:
            assert self.turn is not None
            self.turn.flush()
            self.take_deferred()
        self.own_records.append((key, value, timestamp_ms))
        if self.turn is None:
            self.batch_records()
        elif not self.is_in_turn:
            self.is_in_turn = True
            self.turn.register(self)

    def append_deferred(self, key: Any, value: Any, timestamp_ms: int) -> None:
        """Append a record that must follow everything written in this turn, and for which no response waits.

        The record is written with the next append to this log, or by `flush_buffered`.
        """
        if self.turn is None:
            self.append_record(key, value, timestamp_ms)
            return
        if not self.deferred:
            self.turn.defer(self)
        self.deferred[key] = key, value, timestamp_ms

    def take_deferred(self) -> None:
        """Append the deferred records after everything that was written in this turn."""
        self.own_records += self.deferred.values()
        self.deferred = {}

    def batch_records(self) -> None:
        """Put the broker's own buffered records into batches with offsets. Raises StorageError."""
        records, self.own_records = self.own_records, []
        for key, value, timestamp_ms in records:
            offset = self.next_offset
            batch = self.batch_of(offset, self.leader_epoch, timestamp_ms, key, value)
            self._write(batch, len(batch), offset, timestamp_ms, turn_is_ending=True)

    def flush_buffered(self) -> None:
        """Write all buffered appends without waiting for the end of the turn. Raises StorageError."""
        if self.turn is not None and (self.turn.armed or self.deferred):
            self.turn.flush()
            self.take_deferred()
        try:
            if self.own_records:
                self.batch_records()
            self.active.flush()
        except StorageError as fault:
            self.failed(fault)
            raise

    def append_marker(self, marker: Marker) -> ErrorCode:
        """Append a marker, which ends the producer's transaction in this partition. Raises StorageError.

        As in Kafka, the marker is written even if no transaction is open.
        """
        producer_id, epoch, coordinator_epoch = marker.producer_id, marker.producer_epoch, marker.coordinator_epoch
        producers, commit, now_ms, body = self.producers, marker.commit, marker.time_ms, marker.body
        error = producers.check_marker(producer_id, epoch, coordinator_epoch, marker.transaction_version)
        if error:
            return error
        offset = self.next_offset
        if self.config.log_append_time:
            body = new_marker(
                commit, producer_id, epoch, coordinator_epoch, marker.transaction_version, now_ms, LOG_APPEND_TIME
            ).body
        if self.leader_epoch != FIRST_EPOCH:
            body = body[: EPOCH_AT - 8] + _pack_epoch(self.leader_epoch) + body[EPOCH_AT - 4 :]
        self._write(_pack_offset(offset) + body, MARKER_SIZE, offset, now_ms)
        entry = producers.marker_appended(producer_id, epoch, coordinator_epoch, now_ms, offset, commit)
        if entry is not None:
            self.aborted.append(entry)
            self.active.aborted.append(entry)
        return OK

    def _write(
        self, batch: Buffer, size: int, last_offset: int, max_timestamp: int, turn_is_ending: bool = False
    ) -> None:
        """Write or buffer a batch at the end of the active segment; every append ends here. Raises StorageError.

        Small batches are buffered until the end of the turn, with which the log is registered unless the turn is ending.
        Within a segment's fast path limits, a batch needs neither index entry nor new segment; saves 8 % of a lone transaction.
        """
        segment = self.active
        stop = segment.size + size
        if stop <= segment.fast_path_size_max and max_timestamp <= segment.fast_path_timestamp_max:
            segment.pending_batches.append(batch)
            segment.size = stop
            if max_timestamp > segment.max_timestamp:
                segment.max_timestamp = max_timestamp
                segment.max_timestamp_offset = last_offset
        elif self.turn is None or (size >= BUFFERED_BELOW and not turn_is_ending):
            self._write_now(batch, size, last_offset, max_timestamp)
            return
        else:
            segment, config = self._segment_for(size, last_offset, max_timestamp), self.config
            segment.pending_batches.append(batch)
            segment.update_indexes(size, last_offset, max_timestamp)
            # Until one of these limits is exceeded, the fast path above is taken.
            segment.fast_path_size_max = min(config.segment_bytes, segment.indexed_to + INDEX_INTERVAL)
            segment.fast_path_timestamp_max = segment.timestamp_max(config.segment_ms)
            spans_too_long = segment.max_timestamp > segment.fast_path_timestamp_max
            if spans_too_long or last_offset - segment.base_offset >= OFFSETS_MAX // 2:
                segment.fast_path_size_max = -1
        self.next_offset = last_offset + 1
        if not self.is_in_turn and not turn_is_ending:
            self.is_in_turn = True
            self.turn.register(self)  # type: ignore[union-attr]

    def _write_now(self, batch: Buffer, size: int, last_offset: int, max_timestamp: int) -> None:
        self.check_writable()
        if self.turn is not None and self.turn.armed:
            self.turn.flush()
        large = self.find_large(batch) if self.large_batches else None
        ahead = large if large is not None and large.is_written else None
        # Unlike Kafka: a large batch begins a new segment, even if it would fit into the active one.
        segment = self._segment_for(size, last_offset, max_timestamp) if ahead is None else self._roll()
        try:
            self._pass_point("log.write.before")
            if ahead is None or not segment.take_file(ahead, last_offset, max_timestamp):
                segment.append(batch, size, last_offset, max_timestamp)
            self._pass_point("log.write.after")
        except StorageError as fault:
            self.failed(fault)
            raise
        self.next_offset = last_offset + 1
        if self.register_unsynced is not None and not self.is_unsynced:
            self.is_unsynced = True
            self.register_unsynced(self)
        self.wake_waiters()

    def find_large(self, batch: Buffer) -> LargeBatch | None:
        """Return the LargeBatch of this buffer, if its request writes the batch ahead; else None."""
        return next((large for large in self.large_batches if large.batch is batch), None)

    def _segment_for(self, size: int, last_offset: int, max_timestamp: int) -> Segment:
        """Return the segment for a batch of this size: the active one, or a new one. Raises StorageError."""
        if self.is_deleted:
            raise LogDeleted(f"the topic {self.topic} was deleted")
        segments = self.segments
        segment = segments[-1] if segments else self._roll()
        config = self.config
        if not segment.size:
            segment.first_timestamp = max_timestamp
        elif (
            segment.size + size > config.segment_bytes
            or max_timestamp > segment.timestamp_max(config.segment_ms)
            or last_offset - segment.base_offset > OFFSETS_MAX
        ):
            segment = self._roll()
            segment.first_timestamp = max_timestamp
        return segment

    def flush(self) -> None:
        """Write everything that was appended in this turn. Raises StorageError."""
        self.is_in_turn = False
        if self.own_records:
            self.batch_records()
        self.active.flush()

    def _roll(self) -> Segment:
        """Close the active segment and open a new one at the end of the log. Raises StorageError."""
        if self.is_deleted:
            raise LogDeleted(f"the topic {self.topic} was deleted")
        if self.segments and not self.active.size:
            return self.active
        try:
            self.check_writable()
            self._pass_point("segment.roll.before")
            if self.segments:
                self._end_segment()
            elif not self.exists:
                self.create(self)
                self.exists = True
            segment = Segment(self.folder, self.next_offset, self.disk)
            segment.open()
            self._pass_point("segment.roll.after")
        except TooManyOpenFiles:
            raise
        except StorageError as fault:
            self.failed(fault)
            raise
        self.segments.append(segment)
        self.active = segment
        return segment

    def _pass_point(self, point: str) -> None:
        """Pass a stop point. Raises StorageError if a test makes the broker fail there."""
        self.points.pass_point(point, self.topic, self.index)

    def _end_segment(self) -> None:
        last = self.active
        if last.pending_batches:
            if self.turn is not None and self.turn.armed:
                self.turn.flush()
            last.flush()
        try:
            if self.register_unsynced is not None:  # The syncer syncs only the last two segments.
                last.sync()
            last.write_indexes()
            self._write_snapshot()
        except OSError as fault:
            raise storage_error(f"cannot close {last.path}.log", fault) from fault

    def create_first_segment(self) -> None:
        """Create the folder and the first segment if they do not exist. Raises StorageError; no data is lost then."""
        if not self.segments:
            self._roll()

    def use_leader_epochs(self, epochs: LeaderEpochs) -> None:
        """Set the leader epoch history, whose last epoch is used for appends from now on."""
        self.leader_epochs = epochs
        self.leader_epoch = epochs[-1].epoch

    def roll(self) -> None:
        """Close the active segment unless it is empty, so that retention and compaction can process it. Raises StorageError."""
        self.flush_buffered()
        if self.segments and self.segments[-1].size:
            self._roll()

    def _write_snapshot(self) -> None:
        self._pass_point("snapshot.write.before")
        self.disk.replace_file(f"{self.folder}/{segment_name(self.next_offset)}.snapshot", self.producers.snapshot())
        self._pass_point("snapshot.write.after")

    # --- deleting records

    def delete_records(self, before_offset: int) -> None:
        """Raise the log start offset; delete segments that are wholly below it."""
        if before_offset > self.log_start_offset:
            self.log_start_offset = before_offset
        self.drop_below_start()

    def drop_below_start(self) -> None:
        """Delete segments and aborted-transaction entries below the log start offset, but never the last segment."""
        while len(self.segments) > 1 and self.segments[1].base_offset <= self.log_start_offset:
            self.drop_first()
        keep = bisect_left(self.aborted, self.log_start_offset, key=last_offset_of)
        del self.aborted[:keep]

    def drop_first(self) -> None:
        """Delete the first segment."""
        self._pass_point("segment.delete.before")
        segment = self.segments.pop(0)
        self.clean_size = max(0, self.clean_size - segment.size)  # What is clean comes first.
        segment.delete()
        self._pass_point("segment.delete.after")

    # --- opening and closing

    def close(self) -> None:
        """Close the log and write the indexes and the snapshot that a clean start needs. Raises StorageError, OSError."""
        self.flush_buffered()
        if self.segments:
            self.segments[-1].write_indexes()
            self._write_snapshot()
        for segment in self.segments:
            segment.close()

    def delete(self) -> None:
        """Delete all segments, for good; the folder stays."""
        self.is_deleted = True
        for segment in self.segments:
            segment.delete()
        self.segments, self.active, self.own_records = [], NO_SEGMENT, []
