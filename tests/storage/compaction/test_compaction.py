"""Compaction retains the last value of each key, and a replay of the log gives the same state as before."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stuntbroker.protocol.batches.compression import decompress
from stuntbroker.protocol.batches.records import HEADER_SIZE, build_batch, read_header, read_records, seal
from stuntbroker.storage import compaction
from stuntbroker.storage.compaction import (
    DIRTY_MAX,
    cleaning_due_ms,
    close_for_cleaning,
    has_dirty_segments,
    needs_cleaning,
)
from stuntbroker.storage.marker import new_marker
from stuntbroker.storage.partition import PartitionLog
from stuntbroker.storage.producers import aborted_between
from tests.kit.logs import (
    NOW_MS,
    OK,
    Seen,
    batch,
    clean,
    committed,
    compacted,
    ended,
    killed,
    mark,
    new_log,
    newest,
    offsets,
    put,
    read_all,
    reopened,
    seen,
    view,
)

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


# --- retained records


def test_the_last_value_of_each_key_keeps_its_offset(tmp_path: Path) -> None:
    log = compacted(tmp_path / "t-0")
    for key, value in ((b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"c", b"1"), (b"a", b"3")):
        log.append_record(key, value, NOW_MS)

    clean(log)

    assert seen(log) == [(1, b"b", b"1"), (3, b"c", b"1"), (4, b"a", b"3")]
    assert (log.log_start_offset, log.next_offset) == (0, 5)
    log.append_record(b"b", b"2", NOW_MS)
    assert seen(log)[-1] == (5, b"b", b"2")


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_a_partly_retained_batch_is_rebuilt_with_its_codec(tmp_path: Path, codec: int) -> None:
    """Offsets, timestamps, producer id and sequence stay the same, also after repeated compactions."""
    log = compacted(tmp_path / "t-0")
    pairs: list[tuple[bytes | None, bytes | None]] = [(b"k%d" % n, b"v%d" % n * 40) for n in range(6)]
    put(log, batch(pairs, pid=8, epoch=1, seq=4, codec=codec, at=NOW_MS - 7))
    first = next(log.batches())[0]
    left = {n: (n, b"k%d" % n, b"v%d" % n * 40) for n in range(6)}
    for key in (3, 5, 0, 4, 1):
        put(log, batch([(b"k%d" % key, b"new")]))
        del left[key]
        clean(log)
        clean(log)
        assert [record for record in seen(log) if record[0] < 6] == list(left.values())
        header, data = next(log.batches())
        assert header[5:13] == (*first[5:12], len(left))
        payload = decompress(codec, data[HEADER_SIZE:], 9_999) if codec else data[HEADER_SIZE:]
        assert {r.timestamp for r in read_records(header, payload)} == {NOW_MS - 7}
        log.close()
        assert view(reopened(tmp_path / "t-0", compact=True)).batches == view(log).batches


def test_a_fully_retained_batch_is_not_changed(tmp_path: Path) -> None:
    log = compacted(tmp_path / "t-0")
    for codec in range(5):
        put(log, batch([(b"%d-%d" % (codec, n), b"v") for n in range(9)], codec=codec))
    before = view(log).batches

    clean(log)

    assert view(log).batches == before


def test_headers_and_times_of_records_survive_a_rebuild(tmp_path: Path) -> None:
    body = bytearray()
    for n, key in enumerate((b"a", b"b", b"c")):
        record = bytes([0, 200 + 2 * n, 1, 2 * n, 2]) + key + b"\x02v" + b"\x02" + b"\x02h" + b"\x02" + bytes([n])
        body += bytes([2 * len(record)]) + record
    data = bytearray(build_batch([(b"", b"")] * 3, NOW_MS))[:HEADER_SIZE] + body
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    data[35:43] = (NOW_MS + 102).to_bytes(8, "big")
    seal(data)
    log = compacted(tmp_path / "t-0")
    put(log, bytes(data))
    put(log, batch([(b"c", b"new")]))
    expected = list(read_records(read_header(data), bytes(data), HEADER_SIZE))[:2]

    clean(log)

    header, kept = next(log.batches())
    assert list(read_records(header, bytes(kept), HEADER_SIZE)) == expected
    assert header.max_timestamp == expected[1].timestamp == NOW_MS + 101


def test_a_tombstone_stays_for_delete_retention_ms_and_takes_older_values_with_it(tmp_path: Path) -> None:
    log = compacted(tmp_path / "t-0", delete_retention_ms=1_000)
    log.append_record(b"a", b"1", NOW_MS)
    log.append_record(b"a", None, NOW_MS)
    log.append_record(b"b", b"1", NOW_MS)

    clean(log, now=NOW_MS + 999)
    assert seen(log) == [(1, b"a", None), (2, b"b", b"1")]
    clean(log, now=NOW_MS + 1_000)
    assert seen(log) == [(2, b"b", b"1")]


def test_records_without_a_key_are_removed(tmp_path: Path) -> None:
    log = compacted(tmp_path / "t-0")
    put(log, batch([(None, b"1"), (b"a", b"1"), (None, b"2")]))
    put(log, batch([(None, b"3")]))

    clean(log)

    assert seen(log) == [(1, b"a", b"1")]


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_a_batch_that_cannot_be_opened_stays_whole(tmp_path: Path, codec: int) -> None:
    """Such a batch can arrive while the topic is not compacted yet."""
    log = compacted(tmp_path / "t-0")
    broken = bytearray(batch([(b"a", b"1" * 99)], codec=codec))
    broken[61:] = b"\xff" * (len(broken) - 61)
    seal(broken)
    put(log, bytes(broken))
    put(log, batch([(b"a", b"2")]))
    before = view(log).batches

    clean(log)

    assert view(log).batches == before


def test_a_batch_that_decompresses_to_too_many_bytes_is_retained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "OPENED_MAX", 1_000)
    log = compacted(tmp_path / "t-0")
    put(log, batch([(b"a", b"1" * 2_000)], codec=4))
    put(log, batch([(b"a", b"2")]))

    clean(log)

    assert offsets(log) == [0, 1]


def test_nothing_from_the_last_stable_offset_on_is_touched(tmp_path: Path) -> None:
    log = compacted(tmp_path / "t-0", segment_bytes=200)
    for n in range(6):
        put(log, batch([(b"a", b"%d" % n)]))
    put(log, batch([(b"a", b"open")], pid=1, seq=0, txn=True))
    for n in range(6):
        put(log, batch([(b"a", b"%d" % n)]))
    log.roll()
    stable = log.last_stable_offset

    clean(log)
    assert offsets(log)[0] >= 4
    assert [at for at in offsets(log) if at >= stable] == list(range(stable, log.next_offset))

    mark(log, False, 1)
    log.roll()
    clean(log)
    assert seen(log) == [(12, b"a", b"5")]


def test_an_aborted_transaction_is_removed_with_its_index_entry_and_its_producer_is_remembered(tmp_path: Path) -> None:
    log = compacted(tmp_path / "t-0")
    put(log, batch([(b"a", b"old")]))
    put(log, batch([(b"a", b"never"), (b"b", b"never")], pid=1, epoch=3, seq=0, txn=True))
    mark(log, False, 1, epoch=3)

    clean(log)

    assert offsets(log) == [0, 3]
    assert (seen(log), log.aborted) == ([(0, b"a", b"old")], [])
    log.close()
    restarted = reopened(tmp_path / "t-0", clean=True)
    assert (restarted.aborted, restarted.producers.producers[1].epoch) == ([], 3)


def test_a_marker_is_retained_while_records_of_its_transaction_are(tmp_path: Path) -> None:
    """The last marker of each producer is retained too, because it has the producer epoch."""
    log = compacted(tmp_path / "t-0")
    for n, (key, commit) in enumerate([(b"a", True), (b"a", True), (b"b", False), (b"c", True), (b"d", False)]):
        put(log, batch([(key, b"%d" % n)], pid=1, seq=n, txn=True))
        mark(log, commit, 1)
    expected = newest(committed(log))
    assert expected == {b"a": b"1", b"c": b"3"}

    for _ in range(2):
        clean(log)
        assert newest(committed(log)) == expected
        assert offsets(log) == [2, 3, 6, 7, 9]


def test_producers_whose_batches_were_cleaned_away_are_known_after_a_crash(tmp_path: Path) -> None:
    """The crash leaves the compacted segment without its index, so that the segment is scanned again."""
    log = compacted(tmp_path / "t-0")
    put(log, batch([(b"a", b"1")], pid=1, epoch=3, seq=7))
    put(log, batch([(b"a", b"2")]))
    clean(log)
    killed(log)
    (tmp_path / "t-0" / f"{0:020d}.index").unlink()

    restarted = reopened(tmp_path / "t-0", compact=True)

    assert offsets(restarted) == [1]
    assert (restarted.producers.producers[1].epoch, restarted.producers.producers[1].last_sequence) == (3, 7)


# --- any history

keys = st.sampled_from([b"a", b"b", b"c"])
records = st.lists(st.tuples(keys, st.none() | st.binary(max_size=3)), min_size=1, max_size=4)
history = st.lists(
    st.one_of(
        st.tuples(st.just("plain"), records, st.integers(0, 4)),
        st.tuples(st.just("txn"), records, st.integers(1, 3)),
        st.tuples(st.just("end"), st.booleans(), st.integers(1, 3)),
        st.tuples(st.just("clean"), st.integers(0, 3), st.none()),
        st.tuples(st.just("restart"), st.booleans(), st.none()),
    ),
    max_size=50,
)


@given(history)
@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_a_replay_of_a_compacted_log_gives_the_same_state_as_the_full_log(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[Any, ...]]
) -> None:
    """The newest committed values, open transactions and producer states equal those of the uncompacted log."""
    root = tmp_path_factory.mktemp("history")
    config: dict[str, Any] = {"segment_bytes": 400, "delete_retention_ms": 1 << 50}
    whole, log = new_log(root / "whole", **config), compacted(root / "t-0", **config)
    (root / "t-0").mkdir()
    sent = [0, 0, 0, 0]
    for kind, what, more in steps:
        if kind == "clean":
            clean(log)
        elif kind == "restart":
            ended(log, clean=what)
            log = reopened(root / "t-0", clean=what, compact=True, delete=False, **config)
        else:
            for each in (whole, log):
                if kind == "plain":
                    put(each, batch(what, codec=more))
                elif kind == "txn":
                    put(each, batch(what, pid=more, seq=sent[more], txn=True))
                else:
                    mark(each, what, more)
            if kind == "txn":
                sent[more] += len(what)
        assert newest(committed(log)) == newest(committed(whole))
        ours, theirs = view(log, batches_remembered=1), view(whole, batches_remembered=1)
        assert ours._replace(size=0, batches=[], aborted=[]) == theirs._replace(size=0, batches=[], aborted=[])
        stable = log.last_stable_offset
        assert newest(readable(log, stable)) == newest(readable(whole, stable))
    killed(log)
    killed(whole)


def readable(log: PartitionLog, end: int) -> Iterable[Seen]:
    """Records that a read_committed consumer returns (KIP-98): without those of aborted transactions."""
    gone = aborted_between(log.aborted, 0, end)
    records, at = read_all(log, 0, end=end), 0
    while at < len(records):
        header = read_header(records, at)
        data = records[at : at + header.size]
        at += header.size
        dropped = header.transactional and any(
            header.producer_id == entry.producer_id and entry.first_offset <= header.base_offset < entry.last_offset
            for entry in gone
        )
        if header.control or dropped:
            continue
        payload = decompress(header.codec, data[HEADER_SIZE:], 1 << 20) if header.codec else data[HEADER_SIZE:]
        yield from (Seen(r.offset, r.key, r.value) for r in read_records(header, payload))


# --- size of the log


@pytest.mark.parametrize("busy", [False, True])
def test_many_state_changes_on_few_ids_stay_within_twice_the_live_size(tmp_path: Path, busy: bool) -> None:
    """100,000 changes of 1,000 ids, with a check for compaction after every 10,000 changes.

    The dirty part of a log is bounded independently of the number of changes: half of the log or a fixed number of bytes
    (1 KiB in a quiet log, 1 MiB in a busy one).
    """
    log = compacted(tmp_path / "t-0", delete_retention_ms=0, segment_bytes=100 << 20)
    chance, began, cleaned = random.Random(5), time.perf_counter(), 0
    value = b"x" * 90
    spent = 0.0
    for n in range(100_000):
        log.append_record(b"transactional-id-%04d" % chance.randrange(1_000), value, NOW_MS)
        if n % 10_000 == 9_999 and needs_cleaning(log, not busy, NOW_MS):
            read, began = log.size, time.perf_counter()
            clean(log)
            spent += time.perf_counter() - began
            cleaned += read // 174
    live = 1_000 * (log.size // sum(1 for _ in log.batches()))
    print(f"cleaning: {spent / cleaned * 1e6:.2f} us a record")  # noqa: T201

    assert log.size <= (2 * live if not busy else live + (1 << 20) + 174 * 10_000)
    assert len({key for _, key, _ in seen(log)}) == 1_000


def test_a_log_is_cleaned_when_half_of_it_is_new(tmp_path: Path) -> None:
    log = compacted(tmp_path / "t-0")
    assert not needs_cleaning(log, True, NOW_MS)
    for n in range(40):
        log.append_record(b"%d" % n, b"x" * 100, NOW_MS)
    assert needs_cleaning(log, True, NOW_MS)
    clean(log)
    assert not needs_cleaning(log, True, NOW_MS)
    for n in range(39):
        log.append_record(b"%d" % n, b"x" * 100, NOW_MS)
    assert not needs_cleaning(log, True, NOW_MS) and cleaning_due_ms(log, NOW_MS) is None
    for n in range(3):
        log.append_record(b"%d" % n, b"x" * 100, NOW_MS)
    assert needs_cleaning(log, True, NOW_MS) and cleaning_due_ms(log, NOW_MS) == NOW_MS
    assert not needs_cleaning(log, False, NOW_MS)
    assert OK is log.append_marker(new_marker(True, 1, 0, 0, 1, NOW_MS))


@pytest.mark.parametrize(("ratio", "is_cleaned"), [(0.01, True), (0.5, True), (0.99, False)])
def test_small_closed_segments_are_cleaned_by_kafka_s_rule_without_the_active_one(
    ratio: float, is_cleaned: bool, tmp_path: Path
) -> None:
    log = compacted(tmp_path / "t-0", min_cleanable_dirty_ratio=ratio, segment_bytes=100)
    for _ in range(4):
        put(log, batch([(b"k", b"x" * 30)]))
    assert (len(log.segments), needs_cleaning(log, True, NOW_MS)) == (4, False)
    assert has_dirty_segments(log, NOW_MS)  # The whole log is dirty.
    clean(log, with_active=False)
    assert offsets(log) == [2, 3]
    assert not has_dirty_segments(log, NOW_MS)

    for _ in range(3):
        put(log, batch([(b"k", b"x" * 30)]))
    assert has_dirty_segments(log, NOW_MS) is is_cleaned is (cleaning_due_ms(log, NOW_MS) == NOW_MS)


def test_segments_behind_an_open_transaction_do_not_count_as_dirty(tmp_path: Path) -> None:
    log = compacted(tmp_path / "t-0", min_cleanable_dirty_ratio=0.0, segment_bytes=100)
    put(log, batch([(b"k", b"open")], pid=1, epoch=0, seq=0, txn=True))
    for _ in range(4):
        put(log, batch([(b"k", b"x" * 30)]))
    assert len(log.segments) > 3 and not has_dirty_segments(log, NOW_MS)
    log.append_marker(new_marker(True, 1, 0, 0, 1, NOW_MS))
    assert has_dirty_segments(log, NOW_MS)


def test_deleted_segments_no_longer_count_as_clean(tmp_path: Path) -> None:
    log = compacted(tmp_path / "t-0", segment_bytes=4_000)
    for n in range(40):
        put(log, batch([(b"%d" % n, b"x" * 500)]))
    clean(log)
    log.roll()
    log.log_start_offset = log.next_offset
    log.drop_below_start()
    assert log.clean_size == log.size == 0
    for _ in range(20):
        put(log, batch([(b"same", b"y" * 500)]))
    assert needs_cleaning(log, True, NOW_MS) and has_dirty_segments(log, NOW_MS)


def test_what_an_open_transaction_protects_needs_no_cleaning(tmp_path: Path) -> None:
    log = compacted(tmp_path / "t-0")
    put(log, batch([(b"k", b"open")], pid=1, epoch=0, seq=0, txn=True))
    for _ in range(20):
        put(log, batch([(b"k", b"x" * 500)]))
    assert not needs_cleaning(log, True, NOW_MS) and cleaning_due_ms(log, NOW_MS) is None
    log.append_marker(new_marker(True, 1, 0, 0, 1, NOW_MS))
    assert needs_cleaning(log, True, NOW_MS)


def test_an_internal_log_is_cleaned_by_the_megabyte_however_quiet_it_is(tmp_path: Path) -> None:
    log = compacted(tmp_path / "t-0", is_internal_log=True)
    for n in range(5_000):
        log.append_record(b"%d" % (n % 2), b"x" * 100, NOW_MS)
        if n % 1_000 == 999:
            close_for_cleaning(log)
    assert log.size < DIRTY_MAX and len(log.segments) == 1 and not needs_cleaning(log, True, NOW_MS)
    assert cleaning_due_ms(log, NOW_MS) is None
    for n in range(3_000):
        log.append_record(b"%d" % (n % 2), b"x" * 100, NOW_MS)
    assert needs_cleaning(log, True, NOW_MS) and cleaning_due_ms(log, NOW_MS) == NOW_MS


def test_a_busy_internal_log_stays_within_a_fixed_size_plus_the_records_within_the_lag(tmp_path: Path) -> None:
    """The active segment never gets old while it is written to, so it is closed when it is large."""
    second, per_second, lag_ms = 1_000, 100, 10_000
    log = compacted(tmp_path / "t-0", is_internal_log=True, min_compaction_lag_ms=lag_ms, delete_retention_ms=0)
    largest = 0
    for n in range(50):
        now_ms = NOW_MS + n * second
        for k in range(per_second):
            log.append_record(b"%d" % (k % 10), b"x" * 2_000, now_ms)
        close_for_cleaning(log)
        if needs_cleaning(log, False, now_ms):
            clean(log, now=now_ms)
        largest = max(largest, log.size)
        young = [
            record.timestamp for header, data in log.batches() for record in read_records(header, data, HEADER_SIZE)
        ]
        assert len([at for at in young if at > now_ms - lag_ms]) == min(n + 1, lag_ms // second) * per_second
    assert largest < 3 * DIRTY_MAX + (lag_ms // second) * per_second * 2_100


# --- min.compaction.lag.ms

LAG_MS = 10_000
OLD, YOUNG, UNTIMED = NOW_MS - LAG_MS, NOW_MS - LAG_MS + 1, -1
SEGMENTS_IN_LAG = {
    "all are old": ([OLD, OLD, OLD, OLD], [3]),
    "the last are young": ([OLD, OLD, OLD, YOUNG, YOUNG], [2, 3, 4]),
    "a young one keeps what follows it": ([OLD, OLD, YOUNG, OLD, OLD], [1, 2, 3, 4]),
    "the first is young": ([YOUNG, OLD, OLD], [0, 1, 2]),
    "none has a time": ([UNTIMED, UNTIMED, UNTIMED], [2]),
}


def lagging(folder: Path, times: list[int]) -> PartitionLog:
    """One segment per timestamp, all records with the same key. All files have an old modification time."""
    log = compacted(folder, min_compaction_lag_ms=LAG_MS, segment_bytes=100)
    for at in times:
        put(log, batch([(b"k", b"x" * 30)], at=at))
        log.flush_buffered()
        os.utime(log.active.path + ".log", (0, OLD / 1_000))
    assert len(log.segments) == len(times)
    return log


@pytest.mark.parametrize("case", SEGMENTS_IN_LAG)
def test_a_segment_is_cleaned_when_its_newest_record_is_old_enough(case: str, tmp_path: Path) -> None:
    times, left = SEGMENTS_IN_LAG[case]
    log = lagging(tmp_path / "t-0", times)

    clean(log)

    assert offsets(log) == left


def test_a_log_within_the_compaction_lag_gets_no_new_segments_from_a_compaction(tmp_path: Path) -> None:
    log = compacted(tmp_path / "t-0", min_compaction_lag_ms=LAG_MS)
    for n in range(40):
        log.append_record(b"%d" % (n % 2), b"x" * 100, NOW_MS)
    assert not needs_cleaning(log, True, NOW_MS + LAG_MS - 1)
    assert cleaning_due_ms(log, NOW_MS) == NOW_MS + LAG_MS
    clean(log, now=NOW_MS + LAG_MS - 1)
    assert (len(log.segments), len(offsets(log))) == (1, 40)
    assert needs_cleaning(log, True, NOW_MS + LAG_MS)
    clean(log, now=NOW_MS + LAG_MS)
    assert offsets(log) == [38, 39]


def test_compaction_keeps_the_age_of_records_without_a_timestamp(tmp_path: Path) -> None:
    log = lagging(tmp_path / "t-0", [UNTIMED, UNTIMED])
    clean(log)
    assert log.segments[0].newest_ms == OLD
