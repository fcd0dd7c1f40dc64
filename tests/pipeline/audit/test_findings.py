"""The audit finds each kind of fault planted in a clean folder, and reports nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from audit_cases import (
    CASES,
    OTHER,
    PID,
    A,
    B,
    ExpectedFinding,
    clean,
    rewritten,
    transactions_with_offsets,
)
from audit_harness import World, batch_with_headers


def test_offsets_that_transactions_commit_are_no_findings(tmp_path: Path) -> None:
    world = World(tmp_path)
    clean(world)
    transactions_with_offsets(world)
    assert world.findings() == []


def test_a_clean_folder_has_no_findings(tmp_path: Path) -> None:
    world = World(tmp_path)
    clean(world)

    assert world.findings() == []


@pytest.mark.parametrize(("plant", "expected"), CASES, ids=[plant.__name__ for plant, _ in CASES])
def test_the_audit_finds_exactly_the_planted_faults(
    plant: Callable[[World], None], expected: list[ExpectedFinding], tmp_path: Path
) -> None:
    world = World(tmp_path)
    clean(world)
    plant(world)

    assert world.findings() == expected


def test_records_removed_by_retention_are_unknown_and_not_missing(tmp_path: Path) -> None:
    """The transaction log still has the decisions of deleted transactions; each partition has only a new segment."""
    world = World(tmp_path)
    clean(world)
    start_ms = world.begin("one", PID, 4, A, B)  # This transaction began before the retained segment.
    cuts = [log.next_offset for log in world.log.values()]
    for log in world.log.values():
        log.path.unlink()
        log.roll()
    world.log[B].produce(PID, 4, None, 2, world.tick())
    world.decide("one", PID, 5, True, A, B, start_ms=start_ms)
    world.mark(PID, 5, True, A, B)
    world.complete("one", PID, 5, True, start_ms)
    world.transact("two", OTHER, 5, True, A, B, bump=0)
    world.log[B].produce(99, 0, 9, 3, txn=False)

    assert world.findings() == [("unknown_before", *A, None), ("unknown_before", *B, None)]
    rows = world.audit().findings().to_pylist()
    assert [row["last_offset"] for row in rows] == [cut - 1 for cut in cuts]
    assert [row["evidence"].split(";")[0] for row in rows] == [f"{n} decisions list the partition" for n in (7, 4)]


def test_a_marker_missing_above_the_log_start_offset_is_reported(tmp_path: Path) -> None:
    world = World(tmp_path)
    clean(world)
    world.log[A].path.unlink()
    world.log[A].roll()
    world.transact("one", PID, 4, True, A)
    start_ms = world.begin("one", PID, 5, A, data=False)
    world.decide("one", PID, 6, True, A, start_ms=start_ms)
    world.complete("one", PID, 6, True, start_ms)

    assert world.findings() == [("marker_missing", *A, "one"), ("unknown_before", *A, None)]


def test_records_before_a_partly_compacted_batch_are_unknown(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.log[A].produce(99, 0, txn=False)
    world.log[A].append(batch_with_headers([(b"k", b"v", [])] * 2, deltas=(0, 2), pid=99, epoch=0, seq=1))
    world.log[A].produce(99, 0, 4, txn=False)
    known = {(row["topic"], row["partition"]): row["known_from"] for row in world.audit().bounds.to_pylist()}

    assert (known[A], known[B], world.findings()) == (4, 0, [])


def test_records_removed_by_compaction_are_unknown_and_not_missing(tmp_path: Path) -> None:
    world = World(tmp_path)
    clean(world)
    rewritten(world, A, drop=lambda offset: 3 <= offset < 12)
    rewritten(world, B, drop=lambda offset: offset in (0, 2))

    assert world.findings() == [("unknown_before", *A, None), ("unknown_before", *B, None)]


def test_an_absent_partition_gives_no_findings(tmp_path: Path) -> None:
    """The topic was deleted, or another broker has the partition."""
    world = World(tmp_path)
    clean(world)
    world.log[B].path.unlink()
    world.log[B].folder.rmdir()

    assert world.findings() == []
