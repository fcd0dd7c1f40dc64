"""Compaction in slices: bounded work per slice, concurrent use of the log, crashes and disk errors."""

from __future__ import annotations

import errno
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from stuntbroker.protocol.batches.compression import compress
from stuntbroker.protocol.batches.records import HEADER_SIZE, seal, zigzag
from stuntbroker.storage import compaction
from stuntbroker.storage.compaction import OPENED_MAX, RECORD_COST, SLICE_BYTES, Cleaning, groups
from stuntbroker.storage.errors import StorageError
from stuntbroker.storage.large_batch import PIECE_SIZE, LargeBatch
from stuntbroker.storage.memory_disk import MemoryDisk
from stuntbroker.storage.partition import PartitionLog
from stuntbroker.storage.retention import apply_retention
from stuntbroker.storage.segment import Segment
from tests.kit.logs import (
    NOW_MS,
    batch,
    clean,
    committed,
    compacted,
    dirty,
    files_of,
    killed,
    mark,
    newest,
    offsets,
    put,
    reopened,
    seen,
    view,
)

# --- in slices


def test_a_slice_reads_a_bounded_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = dirty(tmp_path / "t-0", count=6_000)
    put(log, batch([(b"large", b"x" * 200_000)]))
    mark(log, True, 1)
    total, largest = log.size, 200_100
    read = Segment.read
    taken = [0]

    def counted(segment: Segment, position: int, size: int) -> Any:
        taken[-1] += size
        return read(segment, position, size)

    monkeypatch.setattr(Segment, "read", counted)
    for _ in Cleaning(log, NOW_MS).slices():
        taken.append(0)

    assert len(taken) > 2 * total // (SLICE_BYTES + largest)
    assert max(taken) <= largest + 2 * SLICE_BYTES
    assert sum(taken) < 2.5 * total


class Opened:
    """Counts the bytes that are decompressed and the records that are read in each slice."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.bytes, self.records = [0], [0]
        decompress, spans = compaction.decompress, compaction.spans

        def opened(codec: int, payload: Any, size_max: int) -> Any:
            created = decompress(codec, payload, size_max)
            self.bytes[-1] += len(created)
            return created

        def looked_at(header: Any, payload: Any) -> Iterator[Any]:
            for span in spans(header, payload):
                self.records[-1] += 1
                yield span

        patched.setattr(compaction, "decompress", opened)
        patched.setattr(compaction, "spans", looked_at)

    def clean(self, log: PartitionLog) -> int:
        """Compact the whole log and return the peak memory in bytes."""
        tracemalloc.start()
        for _ in Cleaning(log, NOW_MS).slices():
            self.bytes.append(0)
            self.records.append(0)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak


def bomb_of_headers(size: int) -> bytes:
    """A batch of some hundred bytes: one record with key `k` and very many headers, compressed."""
    body = bytearray(b"\0\0\0\x02k\x02v")
    zigzag(body, size // 2)
    body += b"\0\x01" * (size // 2)
    payload = bytearray()
    zigzag(payload, len(body))
    out = bytearray(batch([(b"k", b"v")])[:HEADER_SIZE]) + compress(4, bytes(payload + body))
    out[8:12] = (len(out) - 12).to_bytes(4, "big")
    out[22] = 4
    seal(out)
    return bytes(out)


def test_a_bomb_is_opened_in_a_slice_of_its_own_and_its_headers_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = compacted(tmp_path / "t-0")
    size = OPENED_MAX // 2
    for _ in range(5):
        put(log, bomb_of_headers(size - 100))
    put(log, bomb_of_headers(OPENED_MAX + 100))
    put(log, batch([(b"k", b"last")]))
    opened = Opened(monkeypatch)

    peak = opened.clean(log)

    assert max(opened.bytes) <= size
    assert sum(opened.records) == 5
    assert peak < 3 * OPENED_MAX
    assert offsets(log) == [5, 6], "what opens to too much stays whole"


def test_a_slice_looks_at_a_bounded_number_of_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "RECORDS_MAX", 24_000)
    log = compacted(tmp_path / "t-0")
    put(log, batch([(b"k%d" % (n % 7_000), b"") for n in range(20_000)], codec=4))
    put(log, batch([(b"k%d" % n, b"1") for n in range(10, 18_000)]))
    put(log, batch([(b"k%d" % n, b"") for n in range(24_001)], codec=4))
    log.append_record(b"end", b"", NOW_MS)
    opened = Opened(monkeypatch)

    opened.clean(log)

    per_slice = SLICE_BYTES // RECORD_COST
    assert max(opened.records) <= per_slice
    assert sum(opened.records) == 2 * (20_000 + 17_990)
    assert [header.count for header, _ in log.batches()] == [10, 17_990, 24_001, 1]


@pytest.mark.parametrize("codec", [0, 1, 4])
def test_the_log_may_be_deleted_while_one_of_its_batches_is_compacted(tmp_path: Path, codec: int) -> None:
    """Deletion during the first pass over the log, and during the second."""
    for slices in (1, 3, 8, 12, 15):
        log = compacted(tmp_path / f"{slices}-0")
        for start in (0, 1):
            put(log, batch([(b"k%d" % n, b"%d" % start) for n in range(start, 5_000)], codec=codec))
        log.append_record(b"end", b"", NOW_MS)
        running = half_way(log, slices)
        log.delete()
        assert list(running) == []
        assert files_of(tmp_path / f"{slices}-0") == {}


def test_the_log_is_read_and_written_between_slices(tmp_path: Path) -> None:
    """Meanwhile segments are closed, and transactions begin and end."""
    log = dirty(tmp_path / "t-0", segment_bytes=40_000)
    expected, added = newest(committed(log)), 0
    for step in Cleaning(log, NOW_MS).slices():
        assert step is None
        for n in range(20):
            log.append_record(b"new-%d" % n, b"%d" % added + b"y" * 100, NOW_MS)
            expected[b"new-%d" % n] = b"%d" % added + b"y" * 100
        put(log, batch([(b"id-1", b"pending")], pid=1, seq=added, txn=True))
        mark(log, False, 1)
        added += 1
        assert newest(committed(log)) == expected
        assert log.read(log.next_offset - 1, 1, log.next_offset).records
    assert added > 5
    assert newest(committed(log)) == expected
    log.close()
    assert newest(committed(reopened(tmp_path / "t-0", clean=True))) == expected


def half_way(log: PartitionLog, slices: int) -> Iterator[None]:
    running = Cleaning(log, NOW_MS).slices()
    for _ in range(slices):
        next(running)
    return running


@pytest.mark.parametrize("slices", range(1, 15, 2))
@pytest.mark.parametrize("how", ["records", "retention", "topic", "close", "dropped", "nothing"])
def test_the_log_may_be_changed_closed_or_deleted_between_slices(tmp_path: Path, how: str, slices: int) -> None:
    log = dirty(tmp_path / "t-0", segment_bytes=40_000, delete=True, retention_bytes=200_000, retention_ms=-1)
    running = half_way(log, slices)
    log.append_record(b"id-0", b"newest", NOW_MS)
    if how == "records":
        log.delete_records(1_234)
    elif how == "retention":
        assert apply_retention(log, NOW_MS)
    elif how == "topic":
        log.delete()
    elif how == "close":
        log.close()
    elif how == "dropped":
        del running
        running = iter(())
    start, expected = log.log_start_offset, newest(committed(log))

    for _ in running:
        pass

    assert newest(r for r in committed(log) if r.offset >= start) == expected
    assert (log.log_start_offset, log.size) == (start, sum(s.size for s in log.segments))
    assert not [name for name in files_of(tmp_path / "t-0") if name.endswith((".cleaned", ".swap"))]
    if how == "topic":
        assert files_of(tmp_path / "t-0") == {}
        return
    clean(log)
    assert newest(r for r in committed(log) if r.offset >= start) == expected
    killed(log)
    restarted = reopened(tmp_path / "t-0", start=start)
    assert newest(committed(restarted)) == expected
    killed(restarted)


def test_compaction_keeps_segments_within_segment_bytes(tmp_path: Path) -> None:
    """Otherwise positions and offsets would not fit into the entries of the index."""
    log = dirty(tmp_path / "t-0", count=2_000, ids=1_000, segment_bytes=40_000)
    clean(log)

    assert len(log.segments) > 3
    assert all(segment.size <= 40_000 for segment in log.segments)
    clean(log)
    assert len(seen(log)) == 1_000


def test_segments_whose_offsets_are_too_far_apart_are_not_joined() -> None:
    created = [Segment("x", base) for base in (0, 10, 2**31 - 1, 2**31 + 10)]

    assert [[s.base_offset for s in group] for group in groups(created, 2**31 + 99, 1 << 30)] == [
        [0, 10],
        [2**31 - 1, 2**31 + 10],
    ]


def test_a_restart_finds_the_same_log_and_snapshots_do_not_pile_up(tmp_path: Path) -> None:
    log = compacted(tmp_path / "t-0")
    for n in range(12):
        put(log, batch([(b"a", b"%d" % n)], pid=1, seq=n, txn=True))
        mark(log, n % 3 > 0, 1)
        clean(log)
    before = view(log, batches_remembered=1)
    killed(log)
    snapshots = [name for name in files_of(tmp_path / "t-0") if name.endswith(".snapshot")]

    assert view(reopened(tmp_path / "t-0", compact=True), batches_remembered=1) == before
    assert snapshots == [f"{log.segments[-1].base_offset:020d}.snapshot"]


# --- a crash at any step


class Crash(BaseException):
    pass


class CrashAt:
    """Simulates a process that is killed after `at` calls of the disk, not counting reads: every later call raises Crash."""

    def __init__(self, disk: MemoryDisk, at: int) -> None:
        self.calls = 0
        self.at = at
        disk.on_call = self

    def __call__(self, call: str, path: str) -> None:
        if call != "read":
            self.calls += 1
            if self.calls > self.at:
                raise Crash


def with_history(disk: MemoryDisk, *, synced: bool) -> PartitionLog:
    """A log with transactions, a third of them aborted. `synced`: all files are synced, so that a power cut loses nothing."""
    log = compacted("/t-0", disk, segment_bytes=500)
    for n in range(12):
        put(log, batch([(b"%d" % (n % 3), b"%d" % n), (b"x", b"%d" % n)]))
        put(log, batch([(b"y%d" % (n % 2), b"%d" % n)], pid=1, seq=n, txn=True))
        mark(log, n % 3 > 0, 1)
    if synced:
        log.register_unsynced = lambda log: None
        for path in disk.files():
            disk.sync_path(path)
        for folder in ("/", "/t-0"):
            disk.sync_path(folder)
    return log


@pytest.mark.parametrize("power", [False, True], ids=["killed", "power cut"])
def test_a_crash_at_any_step_of_a_cleaning_loses_nothing(power: bool) -> None:
    for at in range(400):
        disk = MemoryDisk()
        log = with_history(disk, synced=power)
        expected, end = newest(committed(log)), log.next_offset
        steps = CrashAt(disk, at)
        crashed = False
        try:
            clean(log)
        except Crash:
            crashed = True
        disk.on_call = None
        for seed in range(4 if power else 1):
            left = disk.after_power_cut(Random(seed)) if power else disk.copy()
            for _ in range(2):
                restarted = reopened("/t-0", left, compact=True, delete=False, segment_bytes=500)
                assert (newest(committed(restarted)), restarted.next_offset) == (expected, end), (at, seed)
                assert not [path for path in left.files() if path.endswith((".cleaned", ".swap", ".new"))]
                assert restarted.producers.producers[1].last_sequence == 11
                clean(restarted)
                assert newest(committed(restarted)) == expected
                killed(restarted)
        if not crashed:
            assert steps.calls >= 20
            return
    pytest.fail("a cleaning never ends")


def test_a_failed_swap_leaves_the_log_readable_and_the_next_compaction_repeats_it() -> None:
    disk = MemoryDisk()
    log = dirty("/t-0", disk, segment_bytes=40_000)
    expected = newest(committed(log))
    disk.on_call = lambda call, path: errno.EIO if call == "rename" and path.endswith(".swap") else None
    for _ in range(2):
        with pytest.raises(StorageError, match="cannot clean"):
            clean(log)
        assert newest(committed(log)) == expected
        log.append_record(b"id-0", b"n", NOW_MS)
        expected[b"id-0"] = b"n"
        assert sum(path.endswith(".swap") for path in disk.files()) == 1
    disk.on_call = None
    clean(log)
    assert newest(committed(log)) == expected
    killed(log)
    assert newest(committed(reopened("/t-0", disk))) == expected


def test_a_large_batch_that_is_being_written_survives_a_cleaning(tmp_path: Path) -> None:
    log = dirty(tmp_path / "t-0")
    data = batch([(b"large", b"x" * (2 * PIECE_SIZE))])
    large = LargeBatch(log.disk, log.folder, data, len(data))
    log.large_batches.append(large)
    large.write_piece()
    clean(log)
    while not large.is_written:
        large.write_piece()
    put(log, data)
    large.discard()
    assert seen(log)[-1][1:] == (b"large", b"x" * (2 * PIECE_SIZE))
    assert [path.suffix for path in (tmp_path / "t-0").iterdir()].count(".large") == 0
