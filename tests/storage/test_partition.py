"""The log of one partition: batches are read as they were written, from any offset and across segments."""

from __future__ import annotations

import gc
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stuntbroker.protocol.batches.records import LOG_APPEND_TIME, build_batch, crc_of, read_header
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.storage.disk import MAP_FROM
from stuntbroker.storage.marker import new_marker
from stuntbroker.storage.partition import PartitionLog
from stuntbroker.storage.producers import AbortedTxn, aborted_between
from stuntbroker.storage.segment import INDEX_INTERVAL
from stuntbroker.storage.turn import Turn
from tests.kit.logs import (
    NOW_MS,
    OK,
    View,
    batch,
    files_of,
    killed,
    mark,
    new_log,
    put,
    read_all,
    reopened,
    try_put,
    view,
)

BIG = b"x" * 1_000


def refuse_faults(fault: Exception) -> None:
    pytest.fail(str(fault))


def bases(log: PartitionLog) -> list[int]:
    return [segment.base_offset for segment in log.segments]


# --- appending


def test_a_batch_is_stored_unchanged_except_for_offset_and_leader_epoch(tmp_path: Path) -> None:
    log = new_log(tmp_path / "t-0")
    put(log, batch(3))
    created = batch(2, pid=5, epoch=1, seq=0, codec=4)
    sent = created[:12] + b"\xff\xff\xff\xff" + created[16:]

    assert try_put(log, sent) == (OK, 3, -1)

    stored = read_all(log, 3)
    assert stored == struct.pack(">q", 3) + sent[8:12] + bytes(4) + sent[16:]
    assert read_header(stored).crc == crc_of(stored)


@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_a_batch_may_be_any_kind_of_buffer(tmp_path: Path, kind: Any) -> None:
    log = new_log(tmp_path / "t-0")
    for _ in range(2):
        put(log, kind(batch(2)))

    assert [header.base_offset for header, _ in log.batches()] == [0, 2]


def test_log_append_time_stamps_the_batch_and_its_crc(tmp_path: Path) -> None:
    log = new_log(tmp_path / "t-0", log_append_time=True)

    assert try_put(log, batch(2, pid=5, seq=0, at=NOW_MS - 99), now=NOW_MS) == (OK, 0, NOW_MS)

    stored = read_all(log, 0)
    header = read_header(stored)
    assert (header.attributes & LOG_APPEND_TIME, header.max_timestamp, header.crc) == (8, NOW_MS, crc_of(stored))
    assert log.latest_timestamp() == (NOW_MS, 1)


@pytest.mark.parametrize("append_time", [False, True])
def test_a_duplicate_is_answered_with_its_first_offset_and_time_and_not_written(
    tmp_path: Path, append_time: bool
) -> None:
    """As in UnifiedLog, the append time is the stored timestamp of the batch, for both timestamp types of a topic."""
    log = new_log(tmp_path / "t-0", log_append_time=append_time)
    for n in range(5):
        put(log, batch(3, pid=5, seq=3 * n, at=NOW_MS + n), now=NOW_MS + n)
    before = view(log)

    assert [try_put(log, batch(3, pid=5, seq=3 * n), now=NOW_MS + 99) for n in range(5)] == [
        (OK, 3 * n, NOW_MS + n) for n in range(5)
    ]
    assert view(log) == before


def test_a_refused_batch_changes_nothing(tmp_path: Path) -> None:
    log = new_log(tmp_path / "t-0")
    put(log, batch(3, pid=5, seq=0))
    before = view(log)

    assert try_put(log, batch(3, pid=5, seq=9)) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1, -1)
    assert log.append_marker(new_marker(True, 5, -1, 0, 1, NOW_MS)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert view(log) == before


def test_a_batch_that_no_segment_can_hold_is_refused(tmp_path: Path) -> None:
    data = batch(3)
    assert try_put(new_log(tmp_path / "a", segment_bytes=len(data)), data) == (OK, 0, -1)

    assert try_put(new_log(tmp_path / "b", segment_bytes=len(data) - 1), data)[0] is ErrorCode.RECORD_LIST_TOO_LARGE


def test_records_and_batches_of_the_broker_get_consecutive_offsets(tmp_path: Path) -> None:
    log = new_log(tmp_path / "t-0")

    log.append_record(b"a", b"1", NOW_MS)
    assert log.append_own(build_batch([(b"b", b"2"), (b"c", b"3")], NOW_MS)) == 1
    log.append_record(b"a", None, NOW_MS)
    assert [header.next_offset for header, _ in log.batches()] == [1, 3, 4]


def test_a_log_without_records_makes_no_folder(tmp_path: Path) -> None:
    log = new_log(tmp_path / "t-0")
    log.roll()
    log.close()

    assert not (tmp_path / "t-0").exists()
    assert (log.read(0, 100, 0).records, log.last_stable_offset, log.latest_timestamp()) == (b"", 0, (-1, -1))


def test_waiters_are_called_at_every_append(tmp_path: Path) -> None:
    log, calls = new_log(tmp_path / "t-0"), []
    log.waiters.add(lambda: calls.append(log.next_offset))
    put(log, batch(2, pid=1, seq=0, txn=True))
    mark(log, True, 1)

    assert calls == [2, 3]


# --- rolling


def test_a_segment_is_closed_before_it_would_grow_over_its_size(tmp_path: Path) -> None:
    size = len(batch(1))
    log = new_log(tmp_path / "t-0", segment_bytes=3 * size)
    for _ in range(7):
        put(log, batch(1))

    assert bases(log) == [0, 3, 6]
    assert sorted(files_of(tmp_path / "t-0")) == sorted(
        [f"{base:020d}.{kind}" for base in (0, 3) for kind in ("log", "index", "timeindex", "txnindex", "crc")]
        + [f"{6:020d}.log", f"{3:020d}.snapshot", f"{6:020d}.snapshot"]
    )


def test_a_segment_is_closed_when_a_batch_is_too_much_younger_than_its_first(tmp_path: Path) -> None:
    log = new_log(tmp_path / "t-0", segment_ms=1_000)
    for at in (0, 1_000, 500, 1_001, 2_001, 2_002):
        put(log, batch(1, at=NOW_MS + at))

    assert bases(log) == [0, 3, 5]


def test_a_segment_is_closed_when_its_offsets_no_longer_fit_the_index(tmp_path: Path) -> None:
    log = new_log(tmp_path / "t-0")
    put(log, batch(1))
    log.next_offset = 0x7FFF_FFFF
    put(log, batch(1))
    put(log, batch(1))

    assert bases(log) == [0, 0x8000_0000]


def test_a_larger_segment_size_counts_from_the_next_append_on(tmp_path: Path) -> None:
    log = new_log(tmp_path / "t-0", segment_bytes=len(batch(1)))
    put(log, batch(1))
    log.config.segment_bytes = 1 << 20
    put(log, batch(1))

    assert bases(log) == [0]


# --- reading


@pytest.fixture(scope="module")
def long_log(tmp_path_factory: pytest.TempPathFactory) -> PartitionLog:
    """Batches of 1 to 7 records over several segments with several index entries each."""
    log = new_log(tmp_path_factory.mktemp("long") / "t-0", segment_bytes=30_000)
    for n in range(120):
        put(log, batch([(b"k", BIG)] * (n % 7 + 1) if n % 11 else [(b"k", b"v")], at=NOW_MS + n))
    assert len(log.segments) > 10
    assert all(segment.index_offsets for segment in log.segments[:-1])
    return log


def test_any_offset_is_read_from_the_batch_that_holds_it(long_log: PartitionLog) -> None:
    whole = [(header, bytes(data)) for header, data in long_log.batches()]
    for offset in range(long_log.next_offset):
        at = next(i for i, (header, _) in enumerate(whole) if header.last_offset >= offset)
        assert read_all(long_log, offset, 1) == whole[at][1]
        assert read_all(long_log, offset) == b"".join(data for _, data in whole[at:])
    assert read_all(long_log, long_log.next_offset) == b""


@given(st.data())
def test_a_read_gives_as_many_whole_batches_as_fit(long_log: PartitionLog, data: st.DataObject) -> None:
    """Whole batches up to max_bytes that begin below `end`. With `at_least_one`, the first batch may be larger."""
    offset = data.draw(st.integers(0, long_log.next_offset))
    end = data.draw(st.integers(0, long_log.next_offset))
    limit = data.draw(st.integers(0, 100_000))
    at_least_one = data.draw(st.booleans())

    expected = b""
    for header, each in long_log.batches():
        if header.last_offset < offset:
            continue
        if header.base_offset >= end or (len(expected) + len(each) > limit and (expected or not at_least_one)):
            break
        expected += bytes(each)

    assert read_all(long_log, offset, limit, end, at_least_one=at_least_one) == expected


def test_records_that_were_read_stay_valid_when_their_segment_is_deleted(tmp_path: Path) -> None:
    """Large reads are memory-mapped: the pages stay valid while the reader holds them."""
    log = new_log(tmp_path / "t-0", segment_bytes=200_000)
    for _ in range(250):
        put(log, batch([(b"k", BIG)]))
    expected = read_all(log, 0, 150_000)
    large, _ = log.read(0, 150_000, log.next_offset)
    assert isinstance(large, memoryview)
    assert len(large) >= MAP_FROM

    log.delete_records(log.segments[1].base_offset)
    gc.collect()

    assert not (tmp_path / "t-0" / f"{0:020d}.log").exists()
    assert bytes(large) == expected


def test_a_mapping_that_the_system_refuses_is_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = new_log(tmp_path / "t-0")
    for _ in range(100):
        put(log, batch([(b"k", BIG)]))

    def refuse(*_: object, **__: object) -> None:
        raise OSError(12, "no memory")

    monkeypatch.setattr("stuntbroker.storage.disk.mmap.mmap", refuse)
    assert read_all(log, 0) == b"".join(bytes(data) for _, data in log.batches())


# --- time


@given(st.lists(st.integers(-1, 30), min_size=1, max_size=60), st.booleans(), st.data())
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_batches_since_returns_the_batches_at_or_after_a_timestamp(
    tmp_path_factory: pytest.TempPathFactory, times: list[int], restart: bool, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("times") / "t-0"
    log = new_log(folder, segment_bytes=12_000)
    for at in times:
        put(log, batch([(b"k", BIG)] * 2, at=at))
    if restart:
        log.close()
        log = reopened(folder, clean=True, segment_bytes=12_000)
    start = data.draw(st.integers(0, log.next_offset))
    log.delete_records(start)

    for wanted in range(0, 32):
        actual = [header.base_offset for header, _ in log.batches_since(wanted, log.log_start_offset)]
        assert actual == [2 * n for n, at in enumerate(times) if at >= wanted and 2 * n + 1 >= start]
    log.delete()


def test_the_latest_time_is_reported_with_its_offset(tmp_path: Path) -> None:
    log = new_log(tmp_path / "t-0", segment_bytes=300)
    for at in (5, 9, 7, 9, 1):
        put(log, batch(3, at=at))

    assert log.latest_timestamp() == (9, 5)


# --- index files


def test_index_files_are_kafka_s(tmp_path: Path) -> None:
    log = new_log(tmp_path / "t-0")
    log.next_offset = 1_000
    for n in range(10):
        put(log, batch([(b"k", BIG)] * 2, at=NOW_MS - n if n < 5 else NOW_MS + n, pid=1, seq=2 * n, txn=True))
    mark(log, False, 1, at=NOW_MS + 3)
    size = len(batch([(b"k", BIG)] * 2, pid=1, txn=True))
    log.close()

    files = files_of(tmp_path / "t-0")
    name = f"{1_000:020d}"
    assert INDEX_INTERVAL < 2 * size < 2 * INDEX_INTERVAL
    assert list(struct.iter_unpack(">ii", files[name + ".index"])) == [
        *((2 * n + 1, n * size) for n in (2, 4, 6, 8)),
        (20, 10 * size),
    ]
    assert list(struct.iter_unpack(">qi", files[name + ".timeindex"])) == [
        (NOW_MS, 1),
        *((NOW_MS + n, 2 * n + 1) for n in (6, 8, 9)),
    ]
    assert files[name + ".txnindex"] == struct.pack(">hqqqq", 0, 1, 1_000, 1_020, 1_021)


def test_a_log_without_timestamps_has_no_time_index_and_opens_again(tmp_path: Path) -> None:
    log = new_log(tmp_path / "t-0")
    log.log_start_offset = log.next_offset = 1 << 40
    for _ in range(9):
        put(log, batch([(b"k", BIG)], at=-1))
    before = view(log)
    log.close()

    assert files_of(tmp_path / "t-0")[f"{1 << 40:020d}.timeindex"] == b""
    assert view(reopened(tmp_path / "t-0", clean=True)) == before


# --- transactions


def test_the_last_stable_offset_is_where_the_oldest_open_transaction_began(tmp_path: Path) -> None:
    log = new_log(tmp_path / "t-0")
    seen = [log.last_stable_offset]
    steps: list[Callable[[], int]] = [
        lambda: put(log, batch(2)),
        lambda: put(log, batch(2, pid=1, seq=0, txn=True)),
        lambda: put(log, batch(2, pid=2, seq=0, txn=True)),
        lambda: put(log, batch(2, pid=1, seq=2, txn=True)),
        lambda: mark(log, True, 1),
        lambda: mark(log, False, 9),
        lambda: mark(log, False, 2),
    ]
    for step in steps:
        step()
        seen.append(log.last_stable_offset)

    assert seen == [0, 2, 2, 2, 2, 4, 4, 11]


def test_the_last_stable_offset_is_never_before_the_batch_that_the_log_starts_in(tmp_path: Path) -> None:
    """As in UnifiedLog.maybeIncrementFirstUnstableOffset. The last stable offset may be below the log start offset, but only
    within the same batch."""
    log = new_log(tmp_path / "t-0")
    put(log, batch(2, pid=1, seq=0, txn=True))
    put(log, batch(8))

    actual = {}
    for start in (0, 1, 2, 5, 10):
        log.delete_records(start)
        actual[start] = log.last_stable_offset
    assert actual == {0: 0, 1: 0, 2: 2, 5: 2, 10: 10}


def test_a_marker_without_a_transaction_is_written_and_hides_nothing(tmp_path: Path) -> None:
    log = new_log(tmp_path / "t-0")
    put(log, batch(1))

    assert mark(log, False, 4) == 1
    assert (log.next_offset, log.last_stable_offset, log.aborted) == (2, 2, [])


producers = st.integers(1, 3)
txn_steps = st.one_of(
    st.tuples(st.just("data"), producers, st.integers(1, 3)),
    st.tuples(st.just("end"), producers, st.booleans()),
)


@given(st.lists(txn_steps, max_size=40), st.data())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_exactly_the_aborted_transactions_that_overlap_a_range_are_listed_for_it(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Any], data: st.DataObject
) -> None:
    """The list has exactly the aborted transactions whose offsets overlap the range (KIP-98)."""
    log = new_log(tmp_path_factory.mktemp("aborted") / "t-0", segment_bytes=400)
    began: dict[int, int] = {}
    sent = dict.fromkeys((1, 2, 3), 0)
    spans: list[AbortedTxn] = []
    for kind, pid, what in steps:
        if kind == "data":
            began.setdefault(pid, put(log, batch(what, pid=pid, seq=sent[pid], txn=True)))
            sent[pid] += what
        else:
            at = mark(log, what, pid)
            first = began.pop(pid, None)
            if first is not None and not what:
                spans.append(AbortedTxn(pid, first, at, min(began.values(), default=at + 1)))
    assert log.aborted == spans
    assert log.last_stable_offset == min(began.values(), default=log.next_offset)

    start = data.draw(st.integers(0, log.next_offset))
    end = data.draw(st.integers(start, log.next_offset))
    messages = aborted_between(log.aborted, start, end)
    assert [e for e in spans if e.last_offset >= start and e.first_offset < end] == messages
    log.delete()


def test_a_fetch_lists_aborted_transactions_up_to_the_next_index_entry(tmp_path: Path) -> None:
    """As in UnifiedLog.addAbortedTransactions: the upper bound is the next index entry; without one, all are listed."""
    log = new_log(tmp_path / "t-0")
    for pid in range(1, 7):
        put(log, batch([(b"k", BIG)], pid=pid, seq=0, txn=True))
        mark(log, False, pid)
    size, last = len(batch([(b"k", BIG)], pid=1, txn=True)), log.next_offset
    assert log.segments[-1].index_offsets[0] == 7  # The entry of the marker after the fourth batch.

    def described(offset: int, size: int, end: int = last) -> list[int]:
        return [entry.producer_id for entry in log.aborted_in_fetch(offset, size, end)]

    assert described(0, 0) == described(0, size) == [1, 2, 3, 4]
    assert described(0, 6 * size) == [1, 2, 3, 4, 5, 6]
    assert described(0, 6 * size, 4) == [1, 2, 3, 4]
    assert described(4, size) == [3, 4]
    assert described(last, size) == []


def test_a_marker_has_the_time_type_of_its_topic(tmp_path: Path) -> None:
    actual = []
    for name, log_append_time in (("t", False), ("u", True)):
        log = new_log(tmp_path / name, log_append_time=log_append_time)
        mark(log, True, 1)
        actual.append([header.attributes for header, _ in log.batches()])

    assert actual == [[0x30], [0x38]]


# --- buffered appends


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 12_000), st.sampled_from("tpfre")), max_size=40))
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_a_log_with_buffered_appends_equals_an_unbuffered_log(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int, str]]
) -> None:
    folder = tmp_path_factory.mktemp("turn")
    plain, buffered = new_log(folder / "a", segment_bytes=20_000), new_log(folder / "b", segment_bytes=20_000)
    turn = Turn(lambda end: None, refuse_faults, refuse_faults)
    buffered.turn = turn
    sent = [0, 0, 0, 0]
    for pid, size, kind in steps:
        for log in (plain, buffered):
            if kind in "tp":
                txn = kind == "t" or pid in log.producers.open_txns
                put(log, batch([(b"k", b"x" * size)], pid=pid, seq=sent[pid], txn=txn))
            elif kind == "e":
                mark(log, bool(size % 2), pid)
            elif kind == "r":
                log.roll()
        sent[pid] += kind in "tp"
        if kind == "f":
            turn.end()
        if kind in "fr":
            assert read_all(plain, 0) == read_all(buffered, 0)
    turn.end()
    before = view(plain)
    assert view(buffered) == before
    assert plain.latest_timestamp() == buffered.latest_timestamp()
    if not before.end:
        return
    for log, name in ((plain, "a"), (buffered, "b")):
        log.close()
        restarted = reopened(folder / name, clean=True, segment_bytes=20_000)
        assert view(restarted, batches_remembered=1) == view(plain, batches_remembered=1)
        assert [read_all(restarted, offset, 1) for offset in range(before.end)] == before_each(before)
        killed(restarted)
    logs = [{n: c for n, c in files_of(folder / name).items() if n.endswith(".log")} for name in "ab"]
    assert logs[0] == logs[1]
    for log in (plain, buffered):
        killed(log)


def test_a_first_batch_without_a_timestamp_does_not_close_its_segment(tmp_path: Path) -> None:
    log = new_log(tmp_path / "t-0")
    for at in (-1, NOW_MS, NOW_MS + 1):
        put(log, batch(at=at))

    assert bases(log) == [0]
    killed(log)


def test_a_segment_older_than_segment_ms_is_closed_with_the_next_record(tmp_path: Path) -> None:
    """`segment.ms` was reduced before a restart, so that the segment is too old although its newest record is not."""
    for name in ("at once", "buffered"):
        log = new_log(tmp_path / name)
        for at in (0, 100):
            put(log, batch(at=NOW_MS + at))
        killed(log)
        log = reopened(tmp_path / name, segment_ms=10)
        if name == "buffered":
            log.turn = Turn(lambda end: None, refuse_faults, refuse_faults)
        for at in (5, 50):
            put(log, batch(at=NOW_MS + at))
        assert bases(log) == [0, 3], name
        killed(log)


def before_each(before: View) -> list[bytes]:
    """For each offset, the batch that contains it."""
    return [data for data in before.batches for _ in range(read_header(data).last_offset_delta + 1)]
