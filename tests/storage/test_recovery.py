"""Recovery of a log after kill -9 at any byte, after a clean shutdown, and with damaged, truncated or missing files."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from struct import pack
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stuntbroker.storage import segment as segment_module
from stuntbroker.storage.disk import LOCAL_DISK, Disk
from stuntbroker.storage.errors import StorageError
from stuntbroker.storage.memory_disk import MemoryDisk
from stuntbroker.storage.partition import PartitionLog
from stuntbroker.storage.segment import CANDIDATE_READS_MAX, SCAN_BYTES, Segment
from tests.kit.logs import NOW_MS, View, batch, ended, files_of, killed, mark, new_log, put, reopened, view

SEGMENT_BYTES = 600
Step = Callable[[PartitionLog], object]


def data(pid: int, seq: int, count: int = 1, *, txn: bool = True, **how: Any) -> Step:
    return lambda log: put(log, batch(count, pid=pid, seq=seq, txn=txn, **how))


def end(pid: int, commit: bool, **how: Any) -> Step:
    return lambda log: mark(log, commit, pid, **how)


STORY: list[Step] = [
    data(1, 0, 2), data(2, 0), data(-1, -1, 3, txn=False), end(1, True), data(1, 2), end(2, False),
    data(3, 0, 4), data(5, 0, txn=False), data(4, 0, codec=1), end(1, False), data(5, 1, txn=False),
    end(3, True), data(2, 1), data(1, 3, 2), end(4, False, coordinator_epoch=2), data(3, 4, codec=4),
    data(1, 5), end(6, True), end(1, False), data(3, 5), data(1, 6), end(3, False), data(5, 2, txn=False),
]  # fmt: skip
"""Transactions of several producers across several segments; some are open at the end."""


def described(folder: Path | str, steps: list[Step], disk: Disk = LOCAL_DISK, **config: Any) -> PartitionLog:
    log = new_log(folder, disk, **{"segment_bytes": SEGMENT_BYTES} | config)
    for step in steps:
        step(log)
    return log


def write_back(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)


class Prefixes(list[View]):
    """A list with a short repr, because Hypothesis prints the arguments of a failing test."""

    def __repr__(self) -> str:
        return "prefixes"


@pytest.fixture(scope="module")
def prefixes(tmp_path_factory: pytest.TempPathFactory) -> Prefixes:
    """For each n, the state of a log that got only the first n steps."""
    root = tmp_path_factory.mktemp("prefixes")
    actual = Prefixes()
    for count in range(len(STORY) + 1):
        log = described(root / str(count), STORY[:count])
        actual.append(view(log, batches_remembered=1))
        killed(log)
    return actual


@pytest.fixture(scope="module")
def story_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("story") / "t-0"
    log = described(folder, STORY)
    assert len(log.segments) >= 4
    assert log.producers.open_txns
    assert len(log.aborted) >= 3
    killed(log)
    return files_of(folder)


def last_log(files: dict[str, bytes]) -> str:
    return max(name for name in files if name.endswith(".log"))


def test_a_log_cut_at_any_byte_recovers_all_complete_batches_before_the_cut(
    tmp_path: Path, prefixes: list[View], story_files: dict[str, bytes]
) -> None:
    """Offsets, records, producers, open and aborted transactions are those after the last complete batch."""
    last = last_log(story_files)
    content = story_files[last]
    before = sum(len(data) for name, data in story_files.items() if name.endswith(".log")) - len(content)

    for size in range(len(content) + 1):
        write_back(tmp_path, story_files | {last: content[:size]})
        log = reopened(tmp_path, segment_bytes=SEGMENT_BYTES)
        actual = view(log, batches_remembered=1)
        killed(log)

        assert actual == max((p for p in prefixes if p.size <= before + size), key=lambda p: p.size)
        assert (tmp_path / last).stat().st_size == actual.size - before


@given(st.data())
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_a_flipped_bit_refuses_the_log_unless_nothing_valid_is_behind_it(
    tmp_path: Path, prefixes: list[View], story_files: dict[str, bytes], data: st.DataObject
) -> None:
    """This includes the header fields before the CRC. With `truncate`, the log ends before the damaged batch."""
    last = last_log(story_files)
    content = bytearray(story_files[last])
    before = sum(len(data) for name, data in story_files.items() if name.endswith(".log")) - len(content)
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= 1 << data.draw(st.integers(0, 7))
    write_back(tmp_path, story_files | {last: bytes(content)})
    whole = max((p for p in prefixes if p.size <= before + at), key=lambda p: p.size)
    is_last = whole.size == max(p.size for p in prefixes if p.size < prefixes[-1].size)

    try:
        log = reopened(tmp_path, segment_bytes=SEGMENT_BYTES)
        actual = view(log, batches_remembered=1)
        killed(log)
        assert is_last and actual == whole
    except StorageError as fault:
        assert f"is damaged at position {whole.size - before}, " in str(fault)
    log = reopened(tmp_path, truncate=True, segment_bytes=SEGMENT_BYTES)
    actual = view(log, batches_remembered=1)
    killed(log)

    assert actual == whole


@pytest.mark.parametrize(
    "tail", [b"\x00" * 5_000, b"\xff" * 5_000, b"\x00" * 8 + b"\x7f\xff\xff\xff", random.Random(7).randbytes(3_000)]
)
def test_rubbish_at_the_end_is_cut(
    tmp_path: Path, prefixes: list[View], story_files: dict[str, bytes], tail: bytes
) -> None:
    last = last_log(story_files)
    write_back(tmp_path, story_files | {last: story_files[last] + tail})

    assert view(reopened(tmp_path, segment_bytes=SEGMENT_BYTES), batches_remembered=1) == prefixes[-1]
    assert (tmp_path / last).read_bytes() == story_files[last]


def test_a_tail_of_many_possible_batches_is_damage_and_is_scanned_within_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = described(tmp_path / "t-0", [data(-1, -1, 3, txn=False)])
    killed(log)
    path = tmp_path / "t-0" / f"{0:020d}.log"
    content = path.read_bytes()
    header = content[:61]
    count = 10_000
    tail = b"".join(header[:8] + pack(">i", 61 * (count - at) - 12) + header[12:] for at in range(count))
    path.write_bytes(content + tail)
    read = 0
    pread = os.pread

    def counted(fd: int, size: int, position: int) -> bytes:
        nonlocal read
        read += size
        return pread(fd, size, position)

    monkeypatch.setattr(os, "pread", counted)

    with pytest.raises(StorageError, match="the bytes that follow contain too many possible batches"):
        reopened(tmp_path / "t-0")
    assert read < (CANDIDATE_READS_MAX + 4) * (len(content) + len(tail)) + 4 * SCAN_BYTES
    killed(reopened(tmp_path / "t-0", truncate=True))
    assert path.read_bytes() == content


def test_batches_whose_offsets_go_back_are_damage(tmp_path: Path) -> None:
    log = described(tmp_path / "t-0", [data(-1, -1, 3, txn=False)] * 2)
    killed(log)
    path = tmp_path / "t-0" / f"{0:020d}.log"
    content = path.read_bytes()
    path.write_bytes(content + content[: len(content) // 2])

    with pytest.raises(
        StorageError, match=f"{path} is damaged at position {len(content)}, after offset 5: valid records follow"
    ):
        reopened(tmp_path / "t-0")
    log = reopened(tmp_path / "t-0", truncate=True)
    assert log.next_offset == 6
    killed(log)
    assert path.read_bytes() == content


def test_batches_larger_than_a_piece_of_the_scan_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefixes: list[View], story_files: dict[str, bytes]
) -> None:
    for piece in (61, 64, 100, 200, 1_000):
        monkeypatch.setattr(segment_module, "SCAN_BYTES", piece)
        write_back(tmp_path, {name: data for name, data in story_files.items() if name.endswith(".log")})
        log = reopened(tmp_path, segment_bytes=SEGMENT_BYTES)
        assert view(log, batches_remembered=1) == prefixes[-1]
        killed(log)


def test_a_damaged_segment_in_the_middle_refuses_the_log_and_truncate_ends_it_there(
    tmp_path: Path, prefixes: list[View]
) -> None:
    """Its index is missing, so the segment is scanned. `truncate` removes all later segments."""
    killed(described(tmp_path / "t-0", STORY))
    files = files_of(tmp_path / "t-0")
    second = sorted(name for name in files if name.endswith(".log"))[1]
    del files[second.replace(".log", ".index")]
    write_back(tmp_path / "t-0", files | {second: files[second][:-1]})

    with pytest.raises(
        StorageError, match=f"{second} is damaged at position .*: valid records follow at position 0 of "
    ):
        reopened(tmp_path / "t-0", segment_bytes=SEGMENT_BYTES)
    actual = view(reopened(tmp_path / "t-0", truncate=True, segment_bytes=SEGMENT_BYTES), batches_remembered=1)

    first = sorted(name for name in files if name.endswith(".log"))[0]
    whole = len(files[first]) + len(files[second]) - 1
    assert actual == max((p for p in prefixes if p.size <= whole), key=lambda p: p.size)
    assert max(name for name in files_of(tmp_path / "t-0") if name.endswith(".log")) == second
    assert [n for n in files_of(tmp_path / "t-0") if n.endswith(".snapshot")] == [second.replace(".log", ".snapshot")]


@given(st.data())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_missing_or_damaged_indexes_and_snapshots_are_rebuilt(
    tmp_path: Path, prefixes: list[View], story_files: dict[str, bytes], data: st.DataObject
) -> None:
    side = sorted(name for name in story_files if not name.endswith(".log"))
    harmed = data.draw(st.sets(st.sampled_from(side), min_size=1))
    cut = data.draw(st.booleans())
    files = {n: c if n not in harmed else c[:-3] for n, c in story_files.items() if cut or n not in harmed}
    write_back(tmp_path, files)

    log = reopened(tmp_path, segment_bytes=SEGMENT_BYTES)
    actual = view(log, batches_remembered=1)
    log.close()

    assert actual == prefixes[-1]
    restarted = reopened(tmp_path, clean=True, segment_bytes=SEGMENT_BYTES)
    assert view(restarted, batches_remembered=1) == prefixes[-1]
    killed(restarted)


@pytest.mark.parametrize("entry", [(5, 0), (2, 1), (1, 1), (8, 4), (2, 0.5), (14, 5)])
def test_a_wrong_offset_index_is_not_used(tmp_path: Path, entry: tuple[int, float]) -> None:
    """`entry`: (offset, number of batches before its position). A correct entry has the last offset of a batch: 2, 5, ..."""
    log = described(tmp_path / "t-0", [data(-1, -1, 3, txn=False)] * 5, segment_bytes=1 << 20)
    before = view(log)
    log.close()
    index = tmp_path / "t-0" / f"{0:020d}.index"
    assert index.read_bytes() == b""
    index.write_bytes(entry[0].to_bytes(4, "big") + int(entry[1] * before.size / 5).to_bytes(4, "big"))

    restarted = reopened(tmp_path / "t-0", clean=True)
    assert view(restarted) == before
    for offset in range(15):
        assert bytes(restarted.read(offset, 1, 15).records) == before.batches[offset // 3]


@pytest.mark.parametrize("count", range(len(STORY) + 1))
def test_a_log_that_was_closed_is_opened_without_being_read(
    prefixes: list[View], monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    disk = MemoryDisk()
    log = described("/t-0", STORY[:count], disk)
    disk.make_folder("/t-0")
    log.close()

    def scan(segment: Segment) -> None:
        pytest.fail(f"{segment.path} was read")

    monkeypatch.setattr(Segment, "scan", scan)
    pieces = 0

    def counted(call: str, path: str) -> None:
        nonlocal pieces
        pieces += call == "read" and path.endswith(".log")

    disk.on_call = counted
    restarted = reopened("/t-0", disk, clean=True, segment_bytes=SEGMENT_BYTES)

    assert pieces <= 4 * len(restarted.segments)
    disk.on_call = None
    monkeypatch.undo()
    assert view(restarted, batches_remembered=1) == prefixes[count]
    STORY[count](restarted) if count < len(STORY) else None
    assert view(restarted, batches_remembered=1) == prefixes[min(count + 1, len(STORY))]
    killed(restarted)


@given(st.lists(st.sampled_from(["step", "kill", "close", "roll"]), max_size=60))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_order_of_appends_and_restarts_is_the_same_log(
    tmp_path_factory: pytest.TempPathFactory, prefixes: list[View], walk: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("walk") / "t-0"
    folder.mkdir()
    log = new_log(folder, segment_bytes=SEGMENT_BYTES)
    count = 0
    for what in walk:
        if what == "step" and count < len(STORY):
            STORY[count](log)
            count += 1
        elif what == "roll":
            log.roll()
        elif what in ("kill", "close"):
            ended(log, clean=what == "close")
            log = reopened(folder, clean=what == "close", segment_bytes=SEGMENT_BYTES)
            snapshots = [n for n in files_of(folder) if n.endswith(".snapshot")]
            assert len(snapshots) <= len(log.segments) + 1
        assert view(log, batches_remembered=1) == prefixes[count]
    killed(log)


def test_open_transactions_continue_after_a_crash(tmp_path: Path) -> None:
    killed(described(tmp_path / "t-0", [data(1, 0, 2), data(2, 0)]))
    log = reopened(tmp_path / "t-0")
    data(1, 2)(log)
    mark(log, False, 1)
    mark(log, True, 2)

    assert [tuple(entry) for entry in log.aborted] == [(1, 0, 4, 2)]
    assert log.last_stable_offset == log.next_offset == 6


def test_a_batch_that_was_acknowledged_is_a_duplicate_after_a_crash(tmp_path: Path) -> None:
    killed(described(tmp_path / "t-0", [data(1, 3 * n, 3, txn=False) for n in range(6)], segment_bytes=1 << 20))
    log = reopened(tmp_path / "t-0")

    assert [put(log, batch(3, pid=1, seq=3 * n)) for n in range(1, 6)] == [3, 6, 9, 12, 15]
    assert log.next_offset == 18


@pytest.mark.parametrize(
    "stray",
    [f"{0:020d}.log.new", f"{77:020d}.snapshot.new", "0-9.cleaned", f"{77:020d}.index", f"{77:020d}.timeindex",
     f"{77:020d}.txnindex", f"{77:020d}.snapshot"],
)  # fmt: skip
def test_files_left_over_by_a_crash_are_removed(tmp_path: Path, stray: str) -> None:
    log = described(tmp_path / "t-0", STORY[:3])
    before = view(log)
    killed(log)
    (tmp_path / "t-0" / stray).write_bytes(b"left over")

    log = reopened(tmp_path / "t-0", segment_bytes=SEGMENT_BYTES)

    assert view(log) == before
    assert sorted(files_of(tmp_path / "t-0")) == [f"{0:020d}.log"]


def test_a_log_whose_tail_was_lost_continues_at_its_log_start_offset(tmp_path: Path) -> None:
    """The log start offset of the checkpoint is beyond the recovered end, so the log continues at the log start offset."""
    killed(described(tmp_path / "t-0", [data(-1, -1, 3, txn=False)] * 2))
    log = reopened(tmp_path / "t-0", start=9)

    assert (log.log_start_offset, log.next_offset, list(log.batches())) == (9, 9, [])
    assert put(log, batch(1)) == 9
    before = view(log)
    killed(log)
    assert view(reopened(tmp_path / "t-0", start=9)) == before


def test_a_restart_restores_the_timestamps_of_segments(tmp_path: Path) -> None:
    """Rolling by `segment.ms` counts from the first batch of the segment, after a clean restart and after a crash."""
    for clean in (False, True):
        folder = tmp_path / str(clean)
        log = described(
            folder, [data(-1, -1, txn=False, at=NOW_MS), data(-1, -1, txn=False, at=NOW_MS + 5)], segment_ms=10
        )
        ended(log, clean=clean)
        log = reopened(folder, clean=clean, segment_ms=10)
        put(log, batch(1, at=NOW_MS + 10))
        put(log, batch(1, at=NOW_MS + 11))

        assert [s.base_offset for s in log.segments] == [0, 3]
        assert log.latest_timestamp() == (NOW_MS + 11, 3)


# --- damaged indexes

INDEXES = (".index", ".timeindex", ".txnindex")


def closed_log(folder: Path) -> View:
    """A cleanly closed log of one segment, with several entries in each index."""
    log = new_log(folder)
    for n in range(8):
        put(log, batch([(b"k", b"v" * 5_000)], pid=1, epoch=n, seq=0, at=NOW_MS + n, txn=True))
        mark(log, n % 2 == 0, 1, n, at=NOW_MS + n)
    known = view(log, batches_remembered=1)
    log.close()
    return known


@pytest.mark.parametrize("suffix", INDEXES)
def test_an_index_with_any_flipped_bit_is_rebuilt(suffix: str, tmp_path: Path) -> None:
    known = closed_log(tmp_path / "t-0")
    path = tmp_path / "t-0" / f"{0:020d}{suffix}"
    content = path.read_bytes()
    assert len(content) > 40
    for at in range(0, len(content), 3):
        damaged = bytearray(content)
        damaged[at] ^= 1 << at % 8
        path.write_bytes(damaged)
        log = reopened(tmp_path / "t-0", clean=True)
        assert view(log, batches_remembered=1) == known
        assert [len(log.read(offset, 1, 16).records) > 0 for offset in range(16)] == [True] * 16
        log.close()
        assert path.read_bytes() == content


@pytest.mark.parametrize(
    "entries", [b"\xff" * 80, bytes(16), b"\x80" + bytes(7), b"\x00\x00\x00\x05\x80\x00\x00\x00" * 2]
)
def test_an_invalid_index_without_a_crc_is_rebuilt(entries: bytes, tmp_path: Path) -> None:
    known = closed_log(tmp_path / "t-0")
    (tmp_path / "t-0" / f"{0:020d}.crc").unlink()
    log = reopened(tmp_path / "t-0", clean=True)
    assert view(log, batches_remembered=1) == known
    killed(log)
    (tmp_path / "t-0" / f"{0:020d}.index").write_bytes(entries)
    log = reopened(tmp_path / "t-0", clean=True)
    assert view(log, batches_remembered=1) == known
    killed(log)


def test_a_batch_with_an_offset_outside_its_segment_is_not_recovered(tmp_path: Path) -> None:
    log = new_log(tmp_path / "t-0")
    for _ in range(3):
        put(log, batch(1))
    killed(log)
    path = tmp_path / "t-0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[len(data) // 3 * 2] ^= 0x40  # The highest byte of the last base offset, which no CRC covers.
    path.write_bytes(data)
    log = reopened(tmp_path / "t-0")
    assert log.next_offset == 2
    log.close()


@pytest.mark.parametrize("length", [-12, -1, 0, 48, -(2**31)])
def test_an_invalid_batch_length_ends_the_readable_part_of_a_segment(length: int, tmp_path: Path) -> None:
    """The log was closed cleanly, so the restart does not scan it."""
    closed_log(tmp_path / "t-0")
    path = tmp_path / "t-0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[8:12] = length.to_bytes(4, "big", signed=True)
    path.write_bytes(data)
    log = reopened(tmp_path / "t-0", clean=True)
    assert [position for position, _ in log.segments[0].headers()] == []
    assert log.next_offset == 16
    killed(log)


def test_a_log_start_offset_beyond_the_end_is_refused_after_a_clean_shutdown(tmp_path: Path) -> None:
    closed_log(tmp_path / "t-0")
    before = files_of(tmp_path / "t-0")
    with pytest.raises(StorageError, match=f"^{tmp_path}/t-0 ends at offset 16, but by .* it begins at 99; nothing"):
        reopened(tmp_path / "t-0", clean=True, start=99)
    assert files_of(tmp_path / "t-0") == before
    log = reopened(tmp_path / "t-0", clean=True, start=16)
    assert (log.log_start_offset, log.next_offset) == (16, 16)
    killed(log)
    log = reopened(tmp_path / "t-0", start=99)
    assert (log.log_start_offset, log.next_offset) == (99, 99)
    killed(log)
