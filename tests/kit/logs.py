"""Partition logs without a broker, and views of their contents for comparisons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from stuntbroker.protocol.batches.compression import compress, decompress
from stuntbroker.protocol.batches.records import (
    CONTROL,
    HEADER_SIZE,
    TRANSACTIONAL,
    BatchHeader,
    build_batch,
    marker_of,
    read_header,
    read_records,
    seal,
)
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.primitives import Buffer
from stuntbroker.storage.compaction import Cleaning
from stuntbroker.storage.disk import LOCAL_DISK, Disk
from stuntbroker.storage.log_config import NO_LIMIT, LogConfig
from stuntbroker.storage.marker import new_marker
from stuntbroker.storage.partition import PartitionLog
from stuntbroker.storage.producers import ProducerStates, RememberedBatch
from stuntbroker.storage.recovery import recover

NOW_MS = 1_700_000_000_000
OK = ErrorCode.NONE
Pair = tuple[bytes | None, bytes | None]


LOG_DEFAULTS: dict[str, Any] = {
    "segment_bytes": 1 << 30,
    "segment_ms": 604_800_000,
    "retention_ms": 604_800_000,
    "retention_bytes": -1,
    "compact": False,
    "delete": True,
    "delete_retention_ms": 86_400_000,
    "min_compaction_lag_ms": 0,
    "min_cleanable_dirty_ratio": 0.5,
    "log_append_time": False,
    "max_message_bytes": 1_048_588,
    "timestamp_after_ms_max": 3_600_000,
    "timestamp_before_ms_max": NO_LIMIT,
    "is_internal_log": False,
    "zstd": False,
}


def log_config(**config: Any) -> LogConfig:
    """Return the configuration of a topic's log: Kafka's defaults, and what is given instead."""
    return LogConfig(**(LOG_DEFAULTS | config))


def new_log(folder: Path | str, disk: Disk = LOCAL_DISK, **config: Any) -> PartitionLog:
    """Return an empty log; its folder is created with the first record."""
    create = lambda log: disk.make_folder(log.folder)  # noqa: E731
    return PartitionLog("t", 0, str(folder), log_config(**config), create, disk)


def reopened(
    folder: Path | str,
    disk: Disk = LOCAL_DISK,
    *,
    clean: bool = False,
    start: int = 0,
    truncate: bool = False,
    **config: Any,
) -> PartitionLog:
    """Recover the log of a folder, as after a restart."""
    log = new_log(folder, disk, **config)
    recover(log, start, clean, truncate)
    return log


def killed(log: PartitionLog) -> None:
    """Leave the log as after kill -9: write nothing more, and only close the test's file descriptors."""
    for segment in log.segments:
        segment.close()


def ended(log: PartitionLog, *, clean: bool) -> None:
    (log.close if clean else partial(killed, log))()


def batch(
    records: Sequence[Pair] | int = 1,
    *,
    pid: int = -1,
    epoch: int = -1,
    seq: int = -1,
    at: int = NOW_MS,
    txn: bool = False,
    codec: int = 0,
) -> bytes:
    """Return a client's batch of these records, or of `records` generated records."""
    pairs = [(b"k%d" % n, b"v%d" % n) for n in range(records)] if isinstance(records, int) else records
    created = build_batch(
        pairs,
        at,
        producer_id=pid,
        producer_epoch=epoch if pid < 0 or epoch >= 0 else 0,
        base_sequence=seq,
        attributes=(TRANSACTIONAL if txn else 0) | codec,
    )
    if codec:
        created[HEADER_SIZE:] = compress(codec, bytes(created[HEADER_SIZE:]))
        created[8:12] = (len(created) - 12).to_bytes(4, "big")
        seal(created)
    return bytes(created)


def try_put(log: PartitionLog, data: bytes, *, now: int = NOW_MS, zero: bool = False) -> tuple[ErrorCode, int, int]:
    """Append a client's batch; return (error, base offset, log append time)."""
    return log.append_client(data, read_header(data), now, opens_transaction=zero)[:3]


def put(log: PartitionLog, data: bytes, *, now: int = NOW_MS) -> int:
    """Append a client's batch, which must succeed; return its base offset."""
    error, offset, _ = try_put(log, data, now=now)
    assert error is OK
    return offset


def read_all(log: PartitionLog, offset: int, bytes_max: int = 1 << 30, end: int | None = None, **how: bool) -> bytes:
    """Read as a client does: each read ends with its segment, and the next one begins behind its last batch."""
    end, taken, continues = log.next_offset if end is None else end, b"", True
    while continues:
        records, continues = log.read(offset, bytes_max - len(taken), end, **how)
        if not records:
            break
        taken += bytes(records)
        *_, offset = end_offsets(records)
        how = {"at_least_one": False}
    return taken


def end_offsets(records: Buffer) -> Iterator[int]:
    """Yield the offset behind each batch."""
    at = 0
    while at < len(records):
        header = read_header(records, at)
        at += header.size
        yield header.next_offset


def mark(
    log: PartitionLog,
    commit: bool,
    pid: int,
    epoch: int = 0,
    *,
    coordinator_epoch: int = 0,
    tv: int = 1,
    at: int = NOW_MS,
) -> int:
    """Append a marker, which must succeed; return its offset."""
    offset = log.next_offset
    assert log.append_marker(new_marker(commit, pid, epoch, coordinator_epoch, tv, at)) is OK
    return offset


class View(NamedTuple):
    """The state of a log that is visible to clients or affects the next append."""

    start: int
    end: int
    stable: int
    size: int
    batches: list[bytes]
    producers: dict[int, tuple[Any, ...]]
    open_txns: list[tuple[int, int]]
    aborted: list[tuple[int, ...]]


def view(log: PartitionLog, *, batches_remembered: int = 5) -> View:
    return View(
        log.log_start_offset,
        log.next_offset,
        log.last_stable_offset,
        log.size,
        [bytes(data) for _, data in log.batches()],
        {
            pid: (
                p.epoch,
                remembered(p.batches[-batches_remembered:]),
                p.last_timestamp,
                p.coordinator_epoch,
                p.txn_first_offset,
            )
            for pid, p in log.producers.producers.items()
        },
        list(log.producers.open_txns.items()),
        [tuple(entry) for entry in log.aborted],
    )


class Seen(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None


def records_in(header: BatchHeader, data: bytes) -> list[Seen]:
    payload = decompress(header.codec, data[HEADER_SIZE:], 1 << 30) if header.codec else data[HEADER_SIZE:]
    return [Seen(r.offset, r.key, r.value) for r in read_records(header, payload)]


def committed(log: PartitionLog) -> list[Seen]:
    """Return the records that a replay treats as committed, in the order of their markers."""
    actual: list[Seen] = []
    pending: dict[int, list[Seen]] = {}
    for header, data in log.batches():
        if header.attributes & CONTROL:
            for record in read_records(header, bytes(data), HEADER_SIZE):
                marker = marker_of(record)
                assert marker is not None
                ended = pending.pop(header.producer_id, [])
                actual += ended if marker.commit else []
        elif header.attributes & TRANSACTIONAL:
            pending.setdefault(header.producer_id, []).extend(records_in(header, bytes(data)))
        else:
            actual += records_in(header, bytes(data))
    return actual


def newest(records: Iterable[Seen]) -> dict[bytes | None, bytes | None]:
    """Return the last value of each key, without keys whose last record is a tombstone."""
    state: dict[bytes | None, bytes | None] = {}
    for record in sorted(records):
        state[record.key] = record.value
    return {key: value for key, value in state.items() if value is not None}


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def compacted(folder: Path | str, disk: Disk = LOCAL_DISK, **config: Any) -> PartitionLog:
    return new_log(folder, disk, **{"compact": True, "delete": False} | config)


def clean(log: PartitionLog, *, now: int = NOW_MS, with_active: bool = True) -> int:
    """Run a whole compaction; return the number of its slices."""
    return sum(1 for _ in Cleaning(log, now, with_active).slices())


def seen(log: PartitionLog) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in committed(log)]


def offsets(log: PartitionLog) -> list[int]:
    return [header.base_offset for header, _ in log.batches()]


def dirty(
    folder: Path | str, disk: Disk = LOCAL_DISK, *, count: int = 3_000, ids: int = 20, **config: Any
) -> PartitionLog:
    log = compacted(folder, disk, **config)
    for n in range(count):
        log.append_record(b"id-%d" % (n % ids), b"%08d" % n + b"x" * 90, NOW_MS)
    return log


def remembered(batches: list[RememberedBatch]) -> list[tuple[int, int, int, int, int]]:
    """Return (first sequence, last sequence, first offset, last offset, timestamp in ms) of batches that a producer has sent."""
    return [
        (each.first_sequence, each.last_sequence, each.first_offset, each.last_offset, each.timestamp_ms)
        for each in batches
    ]


def facts_of(producers: ProducerStates) -> dict[int, dict[str, object]]:
    """Return all that is known of each producer. A compiled class has no `__slots__` to read."""
    return {
        producer_id: {
            name: remembered(producer.batches) if name == "batches" else value
            for name in dir(producer)
            if not name.startswith("_") and not callable(value := getattr(producer, name))
        }
        for producer_id, producer in producers.producers.items()
    }
