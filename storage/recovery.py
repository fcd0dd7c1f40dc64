"""Opening a partition's folder: what is on disk becomes a PartitionLog again.

| found | done |
|---|---|
| `*.cleaned`, `*.new` | removed: a write that was not finished |
| `*.swap` | a finished compaction: the segments it replaces go, it takes their place |
| a segment that was closed in order | its indexes are loaded |
| the last one after a crash, or any without fitting indexes | read whole: the longest prefix of valid batches stays |
| segments after one that had to be cut | removed: they are past the longest valid prefix |
| producer snapshots | the newest at or before the first segment that was read again; what follows it is replayed |
| indexes without a log, snapshots that nothing begins with | removed |
"""

from __future__ import annotations

import os

from stuntbroker.protocol.primitives import Buffer, DecodeError
from stuntbroker.protocol.records import CONTROL, HEADER_SIZE, BatchHeader, marker_of, read_records
from stuntbroker.storage.partition import NO_SEGMENT, PartitionLog
from stuntbroker.storage.producers import ProducerStates
from stuntbroker.storage.segment import SUFFIXES, Segment


def recover(log: PartitionLog, log_start_offset: int, clean: bool) -> int:
    """Reads the log's folder; returns how many bytes of torn tail were cut off.

    `clean`: the log was closed in order, so that the indexes of its last segment can be trusted.
    """
    log.exists = True
    finish_compaction(log.folder)
    bases = sorted(int(name[:-4]) for name in os.listdir(log.folder) if name.endswith(".log"))
    segments = [Segment(log.folder, base) for base in bases]
    read_again: list[Segment] = []
    cut = 0
    for index, segment in enumerate(segments):
        closed = clean or index < len(segments) - 1
        if closed and segment.load():
            continue
        read_again.append(segment)
        cut_here = _scan(segment)
        cut += cut_here
        if cut_here:
            del segments[index + 1 :]  # Their files go with the orphans.
            break
    log.segments, log.active = segments, segments[-1] if segments else NO_SEGMENT
    log.log_start_offset = max(log_start_offset, segments[0].base_offset if segments else 0)
    log.next_offset = max(_end_of(segments), log.log_start_offset)
    _remove_orphans(log.folder, {segment.base_offset for segment in segments}, log.next_offset)
    _load_producers(log, read_again)
    log.aborted = [entry for segment in segments for entry in segment.aborted]
    log.delete_records(log.log_start_offset)
    return cut


def finish_compaction(folder: str) -> None:
    """Carries out or forgets what a compaction had begun."""
    for name in os.listdir(folder):
        if name.endswith((".new", ".cleaned")):
            os.unlink(f"{folder}/{name}")
        elif name.endswith(".swap"):
            # `<first base>-<end>.swap` replaces every segment that begins in [first base, end).
            base, end = (int(part) for part in name[:-5].split("-"))
            for other in os.listdir(folder):
                stem, suffix = os.path.splitext(other)
                if suffix in SUFFIXES and base <= int(stem) < end and (suffix != ".snapshot" or int(stem) != base):
                    os.unlink(f"{folder}/{other}")
            os.replace(f"{folder}/{name}", f"{folder}/{base:020d}.log")


def _remove_orphans(folder: str, bases: set[int], end: int) -> None:
    """Files of segments that are gone; snapshots ahead of the log, or neither at a segment's beginning nor the last."""
    snapshots = set(_snapshots(folder))
    last = max((offset for offset in snapshots if offset <= end), default=-1)
    for name in os.listdir(folder):
        stem, suffix = os.path.splitext(name)
        if suffix == ".snapshot":
            keep = int(stem) == last or (int(stem) in bases and int(stem) <= end)
        else:
            keep = suffix not in SUFFIXES or int(stem) in bases
        if not keep:
            os.unlink(f"{folder}/{name}")


def _scan(segment: Segment) -> int:
    before = os.fstat(segment.open()).st_size
    for _ in segment.recover():
        pass
    return before - segment.size


def _end_of(segments: list[Segment]) -> int:
    """The offset after the last record."""
    if not segments:
        return 0
    segment = segments[-1]
    end = segment.base_offset
    for _, header in segment.headers(segment.index_positions[-1] if segment.index_positions else 0):
        end = header.next_offset
    return end


def _load_producers(log: PartitionLog, read_again: list[Segment]) -> None:
    """The newest snapshot before what was read again, and what came after it.

    Segments that were read again get their aborted transactions on the way.
    """
    limit = read_again[0].base_offset if read_again else log.next_offset
    start, log.producers = _snapshot_before(log.folder, limit)
    for index, segment in enumerate(log.segments):
        end = log.segments[index + 1].base_offset if index + 1 < len(log.segments) else log.next_offset
        fresh = segment in read_again
        if fresh:
            segment.aborted = []
        if end <= start:
            continue
        for position, header in segment.headers(segment.position_near(start)):
            if header.base_offset >= start and header.producer_id >= 0:
                batch = segment.read(position, header.size) if header.attributes & CONTROL else b""
                replay(log.producers, segment if fresh else None, header, batch)
    if log.config.compact and read_again:
        _restore_cleaned(log)


def _restore_cleaned(log: PartitionLog) -> None:
    """Producers whose batches a compaction took are still in the snapshot after them."""
    _, known = _snapshot_before(log.folder, log.next_offset)
    for producer_id, producer in known.producers.items():
        if producer_id not in log.producers.producers and producer.txn_first_offset < 0:
            log.producers.producers[producer_id] = producer


def _snapshots(folder: str) -> list[int]:
    """Offsets of the snapshots, newest first."""
    return sorted((int(name[:-9]) for name in os.listdir(folder) if name.endswith(".snapshot")), reverse=True)


def _snapshot_before(folder: str, limit: int) -> tuple[int, ProducerStates]:
    for offset in _snapshots(folder):
        if offset > limit:
            continue
        path = f"{folder}/{offset:020d}.snapshot"
        try:
            with open(path, "rb") as file:
                return offset, ProducerStates.from_snapshot(file.read())
        except DecodeError:
            os.unlink(path)
    return 0, ProducerStates()


def replay(producers: ProducerStates, segment: Segment | None, header: BatchHeader, batch: Buffer) -> None:
    """Brings the producers up to date for a batch of the log; `segment`, when given, gets its aborted transactions."""
    if not header.attributes & CONTROL:
        producers.appended(header, header.base_offset)
        return
    for record in read_records(header, batch, HEADER_SIZE):
        marker = marker_of(record)
        if marker is None:
            continue
        commit, coordinator_epoch = marker
        entry = producers.marker_appended(
            header.producer_id, header.producer_epoch, coordinator_epoch, record.timestamp, record.offset, commit
        )
        if entry is not None and segment is not None:
            segment.aborted.append(entry)
