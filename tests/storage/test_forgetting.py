"""DeleteRecords and retention: which records are deleted and retained, and that a failed write has no effect."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stuntbroker.storage.disk import LOCAL_DISK, Disk
from stuntbroker.storage.errors import StorageError
from stuntbroker.storage.memory_disk import MemoryDisk
from stuntbroker.storage.partition import PartitionLog
from stuntbroker.storage.retention import apply_retention, retention_due_ms
from tests.kit.logs import NOW_MS, batch, ended, files_of, killed, mark, new_log, put, reopened, view

SIZE = len(batch(1))


def filled(folder: Path | str, count: int, disk: Disk = LOCAL_DISK, **config: Any) -> PartitionLog:
    """Two batches of one record a segment, one millisecond apart."""
    log = new_log(folder, disk, segment_bytes=2 * SIZE, **config)
    for n in range(count):
        put(log, batch(1, at=NOW_MS + n))
    return log


def offsets(log: PartitionLog) -> list[int]:
    return [header.base_offset for header, _ in log.batches()]


# --- DeleteRecords


@pytest.mark.parametrize("before", range(8))
def test_deleting_records_moves_the_start_and_drops_whole_segments_below_it(tmp_path: Path, before: int) -> None:
    log = filled(tmp_path / "t-0", 7)

    log.delete_records(before)

    assert (log.log_start_offset, log.next_offset) == (before, 7)
    assert offsets(log) == list(range(before, 7))
    assert [s.base_offset for s in log.segments] == [base for base in (0, 2, 4, 6) if base + 2 > before or base == 6]
    assert log.size == sum(s.size for s in log.segments)
    names = {f"{segment.base_offset:020d}" for segment in log.segments}
    assert {name.split(".")[0] for name in files_of(tmp_path / "t-0")} == names


def test_the_log_start_offset_never_decreases(tmp_path: Path) -> None:
    log = filled(tmp_path / "t-0", 5)
    log.delete_records(3)
    log.delete_records(1)

    assert log.log_start_offset == 3


def test_producers_outlive_their_records(tmp_path: Path) -> None:
    """KIP-360: producer states stay although every batch was deleted, also after a crash and after a clean restart."""
    log = new_log(tmp_path / "t-0", segment_bytes=SIZE)
    for seq in range(3):
        put(log, batch(1, pid=4, epoch=2, seq=seq))
    log.roll()
    log.delete_records(3)
    assert offsets(log) == []
    killed(log)

    for clean in (False, True):
        log = reopened(tmp_path / "t-0", clean=clean, start=3)
        assert (log.producers.producers[4].epoch, log.producers.producers[4].last_sequence) == (2, 2)
        log.close()


def test_aborted_transactions_below_the_start_are_forgotten(tmp_path: Path) -> None:
    log = new_log(tmp_path / "t-0")
    for seq in range(3):
        put(log, batch(1, pid=1, seq=seq, txn=True))
        mark(log, False, 1)

    for before, left in ((1, [1, 3, 5]), (2, [3, 5]), (4, [5]), (6, [])):
        log.delete_records(before)
        assert [entry.last_offset for entry in log.aborted] == left


# --- retention


@pytest.mark.parametrize(("age_ms", "start"), [(0, 0), (101, 0), (102, 2), (103, 2), (104, 4), (106, 6), (107, 7)])
def test_segments_with_only_records_older_than_retention_ms_are_deleted(
    tmp_path: Path, age_ms: int, start: int
) -> None:
    """The active segment is closed and deleted too."""
    log = filled(tmp_path / "t-0", 7, retention_ms=100)

    assert apply_retention(log, NOW_MS + age_ms) is (start > 0)

    assert (log.log_start_offset, offsets(log), log.next_offset) == (start, list(range(start, 7)), 7)
    put(log, batch(1))
    assert offsets(log)[-1] == 7


@pytest.mark.parametrize(("limit", "start"), [(-1, 0), (7, 0), (6, 0), (5, 2), (4, 2), (3, 4), (2, 4), (1, 6), (0, 7)])
def test_segments_are_deleted_while_the_log_has_retention_bytes_without_them(
    tmp_path: Path, limit: int, start: int
) -> None:
    log = filled(tmp_path / "t-0", 7, retention_ms=-1, retention_bytes=limit * SIZE if limit >= 0 else -1)

    apply_retention(log, NOW_MS)

    assert (log.log_start_offset, offsets(log)) == (start, list(range(start, 7)))


def test_a_log_that_is_only_compacted_keeps_everything(tmp_path: Path) -> None:
    log = filled(tmp_path / "t-0", 5, retention_ms=1, retention_bytes=0, delete=False)

    assert not apply_retention(log, NOW_MS + 1_000)
    assert offsets(log) == list(range(5))


def test_records_without_a_time_are_as_old_as_their_file(tmp_path: Path) -> None:
    """As in Kafka, which deletes such records by `retention.ms` too."""
    log = new_log(tmp_path / "t-0", retention_ms=1_000)
    put(log, batch(1, at=-1))
    path = log.segments[0].path + ".log"
    os.utime(path, (0, NOW_MS / 1_000))
    assert not apply_retention(log, NOW_MS + 1_000)
    assert apply_retention(log, NOW_MS + 1_001)
    assert (log.log_start_offset, log.next_offset) == (1, 1)


def test_record_timestamps_take_precedence_over_the_time_of_the_file(tmp_path: Path) -> None:
    log = new_log(tmp_path / "t-0", retention_ms=1_000, segment_ms=2 * NOW_MS)
    put(log, batch(1, at=-1))
    put(log, batch(1, at=NOW_MS))
    os.utime(log.segments[0].path + ".log", (0, 0))
    assert not apply_retention(log, NOW_MS + 1_000)
    assert apply_retention(log, NOW_MS + 1_001)


@pytest.mark.parametrize("limit", [{"retention_ms": 1}, {"retention_ms": -1, "retention_bytes": 0}])
def test_retention_stops_before_the_segment_of_the_oldest_open_transaction(
    tmp_path: Path, limit: dict[str, int]
) -> None:
    log = new_log(tmp_path / "t-0", segment_bytes=SIZE * 2, **limit)
    for _ in range(5):
        put(log, batch(1))
    put(log, batch(1, pid=1, seq=0, txn=True))
    for _ in range(4):
        put(log, batch(1))

    apply_retention(log, NOW_MS + 1_000)
    assert (log.log_start_offset, log.last_stable_offset) == (4, 5)

    mark(log, True, 1)
    apply_retention(log, NOW_MS + 1_000)
    assert (log.log_start_offset, offsets(log)) == (11, [])


def test_an_empty_first_segment_does_not_hold_up_retention(tmp_path: Path) -> None:
    """A compaction that retains no records leaves such a segment."""
    log = filled(tmp_path / "t-0", 6, retention_ms=100)
    first = log.segments[0]
    first.close()
    first.size, first.max_timestamp = 0, -1

    assert apply_retention(log, NOW_MS + 104)
    assert log.log_start_offset == 4


@given(st.lists(st.integers(0, 12), max_size=6), st.booleans())
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_a_restart_keeps_the_log_start_offset_after_deletions(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], clean: bool
) -> None:
    folder = tmp_path_factory.mktemp("cuts") / "t-0"
    log = filled(folder, 9)
    for cut in cuts:
        log.delete_records(min(cut, log.next_offset))
        put(log, batch(1))
    apply_retention(log, NOW_MS)  # Deletes a segment that was active when its records were deleted.
    before = view(log)
    ended(log, clean=clean)

    assert view(reopened(folder, clean=clean, start=before.start)) == before


# --- disk errors


class Refusing:
    """Makes the first write of the disk write only `short` bytes, and every later write fail with `fault`."""

    def __init__(self, disk: MemoryDisk, fault: int, short: int) -> None:
        self.writes = 0
        self.fault = fault
        disk.write_size_max, disk.on_call = short, self

    def __call__(self, call: str, path: str) -> int | None:
        self.writes += call == "write"
        return self.fault if call == "write" and self.writes > 1 else None


def recover_disk(disk: MemoryDisk) -> None:
    """End the disk errors."""
    disk.write_size_max = disk.on_call = None


def test_an_append_is_written_completely_despite_short_writes() -> None:
    disk = MemoryDisk()
    log = filled("/t-0", 3, disk)
    disk.write_size_max = 7
    put(log, batch(1, pid=1, seq=0))
    before = view(log)
    killed(log)

    assert view(reopened("/t-0", disk)) == before


@pytest.mark.parametrize("short", [0, 1, 60, SIZE - 1])
@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("count", [0, 2, 3])
def test_an_append_that_the_disk_refuses_leaves_nothing_behind(short: int, fault: int, count: int) -> None:
    """File and memory stay as before the append, at the start of a log, at the start of a segment and within a segment."""
    disk = MemoryDisk()
    log = filled("/t-0", count, disk)
    before = view(log)
    Refusing(disk, fault, short)

    with pytest.raises(StorageError, match=r"cannot (write to|close) .*\.log: "):
        put(log, batch(1, pid=1, seq=0, txn=True))
    with pytest.raises(StorageError):
        mark(log, False, 1)

    assert view(log) == before
    assert sum(len(data) for path, data in disk.files().items() if path.endswith(".log")) == before.size
    recover_disk(disk)
    assert put(log, batch(1, pid=1, seq=0, txn=True)) == count
    after = view(log)
    killed(log)
    assert view(reopened("/t-0", disk)) == after


@pytest.mark.parametrize("room", [0, 1, SIZE - 1])
def test_an_append_to_a_full_disk_leaves_nothing_behind(room: int) -> None:
    disk = MemoryDisk()
    log = filled("/t-0", 3, disk)
    before = view(log)
    disk.capacity = disk.used + room

    with pytest.raises(StorageError, match=r"cannot write to .*\.log: No space left on device"):
        put(log, batch(1))

    assert view(log) == before
    disk.capacity = None
    assert put(log, batch(1)) == 3


def test_a_partial_write_that_cannot_be_undone_is_truncated_at_the_next_start() -> None:
    disk = MemoryDisk()
    log = filled("/t-0", 3, disk)
    before = view(log)
    refuse_writes = Refusing(disk, errno.EIO, 30)
    disk.on_call = lambda call, path: errno.EIO if call == "truncate" else refuse_writes(call, path)
    with pytest.raises(StorageError, match="cannot write"):
        put(log, batch(1))
    assert view(log) == before
    recover_disk(disk)
    killed(log)
    assert sum(len(data) for path, data in disk.files().items() if path.endswith(".log")) == before.size + 30

    assert view(reopened("/t-0", disk)) == before


@pytest.mark.parametrize("step", [".index", ".timeindex", ".txnindex", ".snapshot", "open"])
def test_a_segment_that_cannot_be_closed_or_begun_refuses_the_append_and_no_more(step: str) -> None:
    disk = MemoryDisk()
    log = filled("/t-0", 4, disk)
    put(log, batch(1, pid=3, seq=0, txn=True))
    put(log, batch(1, pid=3, seq=1, txn=True))
    before = view(log)

    def refuse(call: str, path: str) -> int | None:
        if step == "open":
            return errno.EACCES if call == "open_file" and path.endswith("6.log") else None
        return errno.ENOSPC if call == "rename" and path.endswith(f"{step}.new") else None

    disk.on_call = refuse
    for _ in range(2):
        with pytest.raises(StorageError):
            put(log, batch(1))
    assert view(log) == before
    recover_disk(disk)

    assert put(log, batch(1)) == 6
    after = view(log, batches_remembered=1)  # A snapshot has only the last batch of a producer.
    killed(log)
    assert view(reopened("/t-0", disk), batches_remembered=1) == after


def test_a_read_of_a_deleted_segment_does_not_recreate_its_file(tmp_path: Path) -> None:
    log = filled(tmp_path / "t-0", 5)
    gone = log.segments[0]
    log.delete_records(4)

    with pytest.raises(StorageError, match="cannot open"):
        gone.read(0, SIZE)
    assert not (tmp_path / "t-0" / f"{0:020d}.log").exists()


# --- when retention is due


@pytest.mark.parametrize("start", [0, 1, 3])
@pytest.mark.parametrize("retention_bytes", [-1, SIZE, 4 * SIZE, 100 * SIZE])
@pytest.mark.parametrize("retention_ms", [-1, 0, 1_000])
@pytest.mark.parametrize("delete", [True, False])
def test_retention_deletes_nothing_before_its_due_time_and_something_at_its_due_time(
    tmp_path: Path, delete: bool, retention_ms: int, retention_bytes: int, start: int
) -> None:
    log = filled(tmp_path / "t-0", 5, delete=delete, retention_ms=retention_ms, retention_bytes=retention_bytes)
    log.delete_records(start)
    due_ms = retention_due_ms(log)
    before = offsets(log)

    apply_retention(log, NOW_MS * 1_000 if due_ms is None else due_ms - 1)
    assert due_ms == 0 or offsets(log) == before
    if due_ms is not None:
        apply_retention(log, due_ms)
        assert len(offsets(log)) < len(before)


def test_retention_is_due_immediately_for_segments_below_the_log_start_offset(tmp_path: Path) -> None:
    log = filled(tmp_path / "t-0", 2, delete=False)
    log.log_start_offset = 2
    assert retention_due_ms(log) is None  # There is only the active segment.
    put(log, batch(1, at=NOW_MS))

    assert retention_due_ms(log) == 0
    apply_retention(log, NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [2]
    assert retention_due_ms(new_log(tmp_path / "u-0", retention_ms=1_000)) is None
