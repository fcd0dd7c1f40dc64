"""A log that buffers appends until the end of a turn equals one that writes immediately, in records, indexes and producers."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stuntbroker.protocol.batches.records import read_header
from stuntbroker.storage import partition, segment
from stuntbroker.storage.marker import new_marker
from stuntbroker.storage.memory_disk import MemoryDisk
from stuntbroker.storage.partition import PartitionLog
from stuntbroker.storage.producers import ProducerStates
from stuntbroker.storage.turn import Turn
from tests.kit.logs import NOW_MS, batch, facts_of, killed, new_log


def refuse_faults(fault: Exception) -> None:
    pytest.fail(str(fault))


def facts(log: PartitionLog) -> list[Any]:
    return [
        [[getattr(each, name) for name in FIELDS] for each in log.segments],
        facts_of(log.producers),
        (list(log.producers.open_txns.items()), log.aborted, log.next_offset),
        [Path(f"{each.path}.log").read_bytes() for each in log.segments],
    ]


FIELDS = (
    "base_offset", "size", "index_offsets", "index_positions", "index_times", "index_time_offsets", "indexed_to",
    "first_timestamp", "max_timestamp", "max_timestamp_offset", "aborted",
)  # fmt: skip


def appended(log: PartitionLog, random: Random, own: bool, now_ms: int) -> object:
    """Append a record of the broker (`own`), or a client's batch or a marker."""
    if own:
        value = random.choice([None, b"v" * random.choice([1, 200, 9_000])])
        log.append_record(random.choice([b"a", b"b" * 300]), value, now_ms)
        return None
    pid = random.randrange(3)
    known = log.producers.producers.get(pid)
    epoch, sequence = (known.epoch, known.next_sequence) if known else (0, 0)
    if random.random() < 0.3:
        return log.append_marker(
            new_marker(random.random() < 0.7, pid, epoch + random.choice([0, 1, 1, 1]), 0, 0, now_ms)
        )
    size = random.choice([3, 3, 100, 3_900, 9_000])
    data = batch([(b"k", b"v" * size)] * random.randint(1, 2), pid=pid, epoch=epoch, seq=sequence, at=now_ms, txn=True)
    return log.append_client(
        random.choice([bytes, lambda d: memoryview(bytearray(d))])(data), read_header(data), now_ms, True
    )


@settings(max_examples=60)
@given(
    seed=st.integers(),
    own=st.booleans(),
    log_append_time=st.booleans(),
    segment_bytes=st.sampled_from([10_000, 1 << 30]),
    segment_ms=st.sampled_from([5, 1 << 50]),
    offsets_max=st.sampled_from([300, segment.OFFSETS_MAX]),
)
def test_buffered_appends_end_in_the_same_log_as_immediate_appends(
    seed: int, own: bool, offsets_max: int, **config: Any
) -> None:
    random, now_ms = Random(seed), NOW_MS
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(partition, "OFFSETS_MAX", offsets_max)
        at_once, buffered = (new_log(f"{folder}/{name}", **config) for name in "ag")
        turn = buffered.turn = Turn(lambda end: None, refuse_faults, refuse_faults)
        for _ in range(90):
            now_ms += random.choice([0, 0, 0, 1, -1, 3, -20, 50])
            step = random.random()
            at_ms = now_ms if own or random.random() < 0.9 else -1
            assert appended(at_once, Random(step), own, at_ms) == appended(buffered, Random(step), own, at_ms)
            if random.random() < 0.05:
                if own:
                    turn.end()  # The broker's own records become batches only then.
                changed = {"segment_bytes": random.choice([10_000, 1 << 30]), "segment_ms": random.choice([5, 1 << 50])}
                for log in (at_once, buffered):
                    log.configure(replace(log.config, **changed))
            if random.random() < 0.1:
                turn.end()
                assert not buffered.is_in_turn
        turn.end()
        assert facts(buffered) == facts(at_once)
        for log in (at_once, buffered):
            killed(log)


def test_buffered_appends_are_written_completely_despite_short_writes() -> None:
    disk = MemoryDisk()
    disk.write_size_max = 50
    log = new_log("/t-0", disk)
    log.turn = Turn(lambda end: None, refuse_faults, refuse_faults)
    for value in (b"1" * 100, b"2"):
        log.append_record(b"a", value, NOW_MS)
    log.turn.end()
    assert sum(header.size for header, _ in log.batches()) == disk.file_size(f"{log.active.path}.log")
    killed(log)


def test_a_read_returns_a_deferred_record_that_has_no_batch_yet(tmp_path: Path) -> None:
    log = new_log(tmp_path / "t-0")
    log.turn = Turn(lambda end: None, refuse_faults, refuse_faults)
    log.append_record(b"a", b"1", NOW_MS)
    log.append_deferred(b"a", b"2", NOW_MS)
    log.turn.end()
    assert log.own_records and not log.active.pending_batches

    assert read_header(log.read(1, 1 << 20, 2).records).size
    killed(log)


@pytest.mark.parametrize("log_append_time", [False, True])
def test_a_commit_resolves_the_first_batch_of_its_producer_and_has_the_time_type_of_its_topic(
    log_append_time: bool, tmp_path: Path
) -> None:
    log, rules = new_log(tmp_path / "t-0", log_append_time=log_append_time), ProducerStates()
    data = batch(pid=1, epoch=0, seq=0, txn=True)
    rules.appended(read_header(data), log.append_client(data, read_header(data), NOW_MS, True)[1])
    for states in () if log_append_time else (rules, log.producers):
        states.mark_unresolved(read_header(batch(pid=1, epoch=1, seq=0, txn=True)), True, NOW_MS)
        assert states.unresolved_batches
    rules.marker_appended(1, 1, 0, NOW_MS, 1, True)
    log.append_marker(new_marker(True, 1, 1, 0, 2, NOW_MS))

    assert log.producers.unresolved_batches == rules.unresolved_batches
    assert [header.attributes for header, _ in log.batches()][1] == (0x38 if log_append_time else 0x30)
    killed(log)
