"""Log recovery: read a partition's folder into a PartitionLog.

| on disk | action |
|---|---|
| `.cleaned`, `.large`, and a segment's files with the suffix `.new` | removed: an unfinished write |
| `<first base>-<end>.swap` | a finished compaction: replaces the segments in that range of offsets |
| a segment that was closed cleanly | its indexes are loaded |
| the last segment after a crash, or any whose indexes are missing or wrong | scanned: its longest valid prefix is kept |
| bytes after that prefix, after a crash, without a valid batch among them | cut off: an unfinished write |
| bytes after that prefix with valid batches among them, or in a log that was closed cleanly | refused: damage or power failure |
| damage, with `--recover truncate` | cut off with all later segments, as Apache Kafka does |
| producer snapshots | the newest one at or before the first scanned segment is loaded; later batches are replayed |
| indexes without a log, snapshots at offsets where no segment begins | removed |
| a folder, a link or a device with the name of a segment's file | refused |
| files with any other name | left alone |
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from stuntbroker.protocol.batches.records import CONTROL, HEADER_SIZE, BatchHeader, crc_of, marker_of, read_records
from stuntbroker.protocol.data_folder import (
    LARGE_BATCH_SUFFIX,
    LEADER_EPOCHS,
    SEGMENT_FILE,
    SWAP_FILE,
    segment_name,
)
from stuntbroker.protocol.primitives import INT64_MAX, Buffer, DecodeError
from stuntbroker.storage.disk import Disk, Kind
from stuntbroker.storage.errors import StorageError
from stuntbroker.storage.leader_epochs import up_to_offset
from stuntbroker.storage.partition import PartitionLog
from stuntbroker.storage.producers import ProducerStates
from stuntbroker.storage.segment import Segment, TooManyCandidates
from stuntbroker.storage.segmented_log import NO_SEGMENT

_UNFINISHED: Final = re.compile(
    rf"{SEGMENT_FILE.pattern}\.new|{re.escape(LEADER_EPOCHS)}\.new|[0-9]{{1,19}}{re.escape(LARGE_BATCH_SUFFIX)}"
)
_UNFINISHED_CLEANING: Final = re.compile(r"[0-9]{1,19}-[0-9]{1,19}\.cleaned")


def recover(log: PartitionLog, log_start_offset: int, clean: bool, truncate: bool = False) -> int:
    """Read the log's folder; return how many bytes of torn tail were cut off. Raises StorageError for a damaged log.

    `clean`: the log was closed cleanly, so that the indexes of its last segment can be trusted.
    `truncate`: scan every segment, and truncate a damaged log where the damage begins.
    """
    log.exists = True
    _remove_unfinished_writes(log.disk, log.folder)
    finish_compaction(log.disk, log.folder)
    bases = sorted(base for _, base, suffix in _files(log.disk, log.folder) if suffix == ".log")
    segments = [Segment(log.folder, base, log.disk) for base in bases]
    for segment in segments:
        segment.leader_epochs = tuple(each.epoch for each in log.leader_epochs)
    try:
        scanned, cut = _read_segments(segments, log_start_offset, clean, truncate)
    except StorageError:
        for segment in segments:
            segment.close()
        raise
    end = _end_of(segments)
    if clean and not cut and log_start_offset > end:
        # Possible only after a crash of the machine: then the log is empty and continues at the checkpointed start offset.
        raise StorageError(
            f"{log.folder} ends at offset {end}, but by log-start-offset-checkpoint it begins at {log_start_offset}; nothing was "
            "changed: put back a copy of that file, or delete that line of it"
        )
    log.segments, log.active = segments, segments[-1] if segments else NO_SEGMENT
    log.log_start_offset = max(log_start_offset, segments[0].base_offset if segments else 0)
    log.next_offset = max(end, log.log_start_offset)
    if log.leader_epoch:  # The batches before the start of an epoch may have been cut off.
        log.leader_epochs = up_to_offset(log.leader_epochs, log.next_offset)
    _remove_orphans(log, {segment.base_offset for segment in segments}, log.next_offset)
    _load_producers(log, scanned)
    log.aborted = [entry for segment in segments for entry in segment.aborted]
    log.delete_records(log.log_start_offset)
    return cut


def _read_segments(
    segments: list[Segment], log_start_offset: int, clean: bool, truncate: bool
) -> tuple[list[Segment], int]:
    """Load or scan each segment; return the scanned segments, and the number of bytes cut off.

    If a segment is truncated, all later ones are removed from the list.
    """
    scanned: list[Segment] = []
    cut = 0
    for index, segment in enumerate(segments):
        is_last = index == len(segments) - 1
        if not truncate and (clean or not is_last) and segment.load():
            continue
        scanned.append(segment)
        # Compaction leaves gaps between offsets, but never cleans the last segment.
        left = segment.scan(gaps_below=log_start_offset if is_last else INT64_MAX)
        if left:
            # Unlike Kafka: Kafka always cuts off whatever follows the valid prefix, as `truncate` does.
            if not truncate:
                _refuse_damage(segment, segments[index + 1 :], clean)
            segment.cut()
            cut = left + sum(segment.disk.file_size(later.path + ".log") for later in segments[index + 1 :])
            del segments[index + 1 :]  # Their files go with the orphans.
            break
    return scanned, cut


def _refuse_damage(segment: Segment, later: list[Segment], clean: bool) -> None:
    """Raise StorageError unless the bytes after a segment's valid prefix are a write that a crash interrupted.

    A power failure may leave valid records behind a gap, if the disk wrote later sectors before earlier ones. None of them was
    synced, but a damaged file looks the same.
    """
    end = _end_of([segment])
    if clean:
        raise damaged(segment, segment.size, end, "the log was closed cleanly, so this is not an interrupted write")
    if why := _records_behind(segment, later):
        why += ", so the file was damaged, or the power failed before it was synced"
        consequence = " (after a power failure with --durability power, that loses nothing acknowledged)"
        raise damaged(segment, segment.size, end, why, consequence)


def _records_behind(segment: Segment, later: list[Segment]) -> str | None:
    """Return why records seem to follow the valid prefix of a segment, for an error message; None if none do."""
    for other in (segment, *later):
        file = "" if other is segment else f" of {other.path}.log"
        try:
            position = other.find_valid_batch(segment.size if other is segment else 0)
        except TooManyCandidates:
            return f"the bytes that follow{file} contain too many possible batches to check"
        if position is not None:
            return f"valid records follow at position {position}{file}"
    return None


def damaged(segment: Segment, position: int, end: int, why: str, consequence: str = "") -> StorageError:
    """Return the error for a log that is damaged after offset `end` - 1. `consequence`: of truncating the log."""
    return StorageError(
        f"{segment.path}.log is damaged at position {position}, after offset {end - 1}: {why}; the log was not changed: "
        "restore a copy of the data folder, or start with --recover truncate, which truncates the log there, as Apache Kafka does"
        f"{consequence}"
    )


def _remove_unfinished_writes(disk: Disk, folder: str) -> None:
    for name in disk.names_in(folder):
        if _UNFINISHED.fullmatch(name):
            disk.remove(f"{folder}/{name}")


def finish_compaction(disk: Disk, folder: str) -> None:
    """Remove the file of an unfinished cleaning, and complete a compaction that has reached its `.swap` file."""
    for name in disk.names_in(folder):
        if _UNFINISHED_CLEANING.fullmatch(name):
            disk.remove(f"{folder}/{name}")
        elif swap := SWAP_FILE.fullmatch(name):
            # The swap file replaces every segment that begins in [first base, end).
            first, end = int(swap[1]), int(swap[2])
            for path, base, suffix in list(_files(disk, folder)):
                if first <= base < end and (suffix != ".snapshot" or base != first):
                    disk.remove(path)
            disk.rename(f"{folder}/{name}", f"{folder}/{segment_name(first)}.log")


def _files(disk: Disk, folder: str) -> Iterator[tuple[str, int, str]]:
    """Yield (path, offset in the name, suffix) of every segment file and snapshot. Raises StorageError."""
    for name, kind in disk.entries_in(folder):
        if ours := SEGMENT_FILE.fullmatch(name):
            path = f"{folder}/{name}"
            if kind is not Kind.FILE:
                raise disk.not_regular(path)
            yield path, int(ours[1]), ours[2]


def checked_batches(log: PartitionLog) -> Iterator[tuple[BatchHeader, bytes]]:
    """Yield the batches of the broker's own log, with their CRCs checked. Raises StorageError at a damaged batch."""
    log.flush_buffered()
    for segment in list(log.segments):
        end, offset = 0, segment.base_offset
        is_checked = segment.is_checked
        for header, batch in segment.batches():
            if not is_checked and (header.crc != crc_of(batch) or header.base_offset < offset):
                break
            end, offset = end + len(batch), header.next_offset
            if offset > log.log_start_offset:
                yield header, batch
        if end != segment.size:
            raise damaged(segment, end, offset, "a batch of an internal topic is corrupt")


def _remove_orphans(log: PartitionLog, bases: set[int], end: int) -> None:
    """Remove files of segments that do not exist, and snapshots beyond the end of the log or not at the start of a segment.

    The newest snapshot up to `end` is kept.
    """
    last = max((offset for offset in _snapshots(log) if offset <= end), default=-1)
    for path, base, suffix in list(_files(log.disk, log.folder)):
        keep = base in bases
        if suffix == ".snapshot":
            keep = base == last or (keep and base <= end)
        if not keep:
            log.disk.remove(path)


def _end_of(segments: list[Segment]) -> int:
    """Return the offset after the last record; 0 without segments."""
    if not segments:
        return 0
    segment = segments[-1]
    end = segment.base_offset
    for _, header in segment.headers(segment.index_positions[-1] if segment.index_positions else 0):
        end = header.next_offset
    return end


def _load_producers(log: PartitionLog, scanned: list[Segment]) -> None:
    """Load the newest snapshot at or before the start of the scanned segments, and replay the batches after it.

    The replay also restores the aborted transactions of the scanned segments.
    """
    limit = scanned[0].base_offset if scanned else log.next_offset
    start, log.producers = _snapshot_before(log, limit)
    for index, segment in enumerate(log.segments):
        end = log.segments[index + 1].base_offset if index + 1 < len(log.segments) else log.next_offset
        fresh = segment in scanned
        if fresh:
            segment.aborted = []
        if end <= start or not segment.has_producers:
            continue
        for position, header in segment.headers(segment.position_near(start)):
            if header.base_offset >= start and header.producer_id >= 0:
                batch = segment.read(position, header.size) if header.attributes & CONTROL else b""
                replay(log.producers, segment if fresh else None, header, batch)
    if log.config.compact and scanned:
        _restore_cleaned(log)


def _restore_cleaned(log: PartitionLog) -> None:
    """Restore producers whose batches were removed by compaction, from the newest snapshot."""
    _, known = _snapshot_before(log, log.next_offset)
    for producer_id, producer in known.producers.items():
        if producer_id not in log.producers.producers and not producer.has_open_txn:
            log.producers.producers[producer_id] = producer


def _snapshots(log: PartitionLog) -> list[int]:
    """Return the offsets of the snapshots, newest first."""
    return sorted((base for _, base, suffix in _files(log.disk, log.folder) if suffix == ".snapshot"), reverse=True)


def _snapshot_before(log: PartitionLog, limit: int) -> tuple[int, ProducerStates]:
    for offset in _snapshots(log):
        if offset > limit:
            continue
        path = f"{log.folder}/{segment_name(offset)}.snapshot"
        try:
            return offset, ProducerStates.from_snapshot(log.disk.read_file(path))
        except DecodeError:
            log.disk.remove(path)
    return 0, ProducerStates()


def replay(producers: ProducerStates, segment: Segment | None, header: BatchHeader, batch: Buffer) -> None:
    """Update the producers for a batch of the log, and `segment`, if given, for a transaction that the batch aborts."""
    if not header.attributes & CONTROL:
        producers.appended(header, header.base_offset)
        return
    for record in read_records(header, batch, HEADER_SIZE):
        marker = marker_of(record)
        if marker is None:
            continue
        entry = producers.marker_appended(
            header.producer_id,
            header.producer_epoch,
            marker.coordinator_epoch,
            record.timestamp,
            record.offset,
            marker.commit,
        )
        if entry is not None and segment is not None:
            segment.aborted.append(entry)
