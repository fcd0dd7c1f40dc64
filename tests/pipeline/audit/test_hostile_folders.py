"""Unusual data folders: compacted logs, several `log.dirs`, files that vanish during the audit, and strange names."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audit_cases import OTHER, PID, A, B, clean, flip, rewritten
from audit_harness import Log, World, every_record
from audit_tables import written

from stuntbroker.cli.data_folder.audit_report import SKIPPED_MAX, report_of, text_of
from stuntbroker.pipeline.audit import run, shares
from stuntbroker.pipeline.audit.eos import ExactlyOnceCheck
from stuntbroker.pipeline.audit.folder import FolderError, Segment, read_folder
from stuntbroker.pipeline.audit.grouping import running_max
from stuntbroker.pipeline.audit.log_checks import OFFSET_SPAN_MAX
from stuntbroker.pipeline.audit.reports import last_stable_offsets
from stuntbroker.pipeline.audit.shares import read_segment
from stuntbroker.pipeline.audit.tables import TableWriter
from stuntbroker.pipeline.report import write_report
from stuntbroker.protocol.batches.records import read_header
from stuntbroker.protocol.data_folder import CLEAN_SHUTDOWN, JOURNAL, PARTITION_METADATA, START_OFFSETS

LOG = "__transaction_state"


@pytest.fixture
def world(tmp_path: Path) -> World:
    created = World(tmp_path / "data")
    clean(created)
    return created


def only_the_last_records(world: World, count: int) -> None:
    """Remove all but the last `count` records of the transaction log, as compaction does."""
    world.log[LOG, 0] = world.states
    rewritten(world, (LOG, 0), drop=lambda offset: offset < world.states.next_offset - count)


# --- A compacted transaction log


def test_a_decision_without_its_marker_is_pending_despite_markers_of_older_transactions(world: World) -> None:
    """Before KIP-890, all transactions have the same epoch; compaction keeps the last record of each transactional id."""
    start_ms = world.begin("two", OTHER, 5, A)
    world.decide("two", OTHER, 5, True, A, start_ms=start_ms)
    only_the_last_records(world, 1)

    assert world.findings() == [("marker_pending", *A, "two")]


def test_a_marker_from_before_a_decision_does_not_contradict_it(world: World) -> None:
    """The abort's decision was compacted away, and the commit has no marker yet; the epoch is the same, as before KIP-890."""
    world.transact("old", 50, 0, False, B, bump=0)
    start_ms = world.begin("old", 50, 0, B, data=False)
    world.decide("old", 50, 0, True, B, start_ms=start_ms)
    only_the_last_records(world, 1)

    assert world.findings() == [("marker_pending", *B, "old")]


# --- What is not in this folder


def test_a_transaction_whose_coordinator_keeps_its_log_elsewhere_is_not_hanging(world: World) -> None:
    """With several `log.dirs`, partition 1 of the transaction log may be in another folder. Our broker has a single folder."""
    world.log[A].produce(1_234, 0)
    world.mark(1_235, 0, True, B)
    assert world.findings() == [("hanging", *A, None), ("marker_suspicious", *B, None)]
    Log(world.folder, LOG, 2)
    assert world.findings() == [("marker_without_data", *B, None), ("unknown_owner", *A, None)]
    (world.folder / JOURNAL).touch()
    assert world.findings() == [("hanging", *A, None), ("marker_suspicious", *B, None)]


def test_decisions_about_a_deleted_topic_of_the_same_name_are_unknown_when_the_new_topic_is_empty(world: World) -> None:
    """The age of partition.metadata shows when the partition was created."""
    shutil.rmtree(world.log[A].folder)
    metadata = Log(world.folder, *A).folder / PARTITION_METADATA
    metadata.write_text("version: 0\n")
    for at_ms, kinds in ((world.now_ms, {"unknown_before"}), (0, {"marker_missing"})):
        os.utime(metadata, ns=(at_ms * 1_000_000, at_ms * 1_000_000))
        assert {kind for kind, *_ in world.findings()} == kinds


# --- How a log begins and ends


def test_a_torn_tail_is_reported_as_corrupt_after_a_clean_shutdown(world: World) -> None:
    """After a clean shutdown, a starting broker truncates nothing, so the damage is not a torn write."""
    world.log[A].produce(60, 0, txn=False)
    flip(world.log[A].path, world.log[A].path.stat().st_size - 1)
    assert [kind for kind, *_ in world.findings()] == ["torn_tail"]
    (world.folder / CLEAN_SHUTDOWN).touch()
    assert [kind for kind, *_ in world.findings()] == ["corrupt"]


def test_the_log_end_offset_is_the_base_offset_of_an_empty_newest_segment(world: World) -> None:
    """Compaction has removed the records before the segment."""
    world.log[A].next_offset += 5
    world.log[A].roll()
    row = next(row for row in world.audit().bounds.to_pylist() if (row["topic"], row["partition"]) == A)

    assert (row["known_from"], row["log_end_offset"]) == (world.log[A].next_offset,) * 2


def test_the_last_stable_offset_is_the_log_start_when_an_open_transaction_was_partly_deleted(world: World) -> None:
    """DeleteRecords may delete up to the high watermark, which is above the last stable offset."""
    world.begin("one", PID, 4, A)
    end = world.log[A].next_offset
    (world.folder / START_OFFSETS).write_text(f"0\n1\nt 0 {end - 1}\n")
    actual = world.audit()
    rows = last_stable_offsets(actual.transactions, actual.bounds).to_pylist()
    stable = next(row for row in rows if (row["topic"], row["partition"]) == A)

    assert (stable["last_stable_offset"], stable["log_end_offset"], stable["transactional_id"]) == (end - 1, end, "one")


def test_an_offset_out_of_the_range_of_its_segment_is_reported_in_the_last_batch(world: World) -> None:
    at = world.log[A].path.stat().st_size
    world.log[A].produce(60, 0, txn=False)
    flip(world.log[A].path, at + 4, 0x80)
    (actual,) = world.audit().findings().to_pylist()

    assert (actual["kind"], actual["first_offset"] > OFFSET_SPAN_MAX) == ("offset_order", True)


def test_each_batch_that_was_copied_into_a_segment_is_reported(world: World) -> None:
    """Other batches of the segment are not reported, including those after the copies."""
    copied = world.log[B].path.read_bytes()
    size = read_header(copied).size
    with world.log[B].path.open("ab") as file:
        file.write(copied[: size + read_header(copied, size).size])
    world.transact("one", PID, 4, True, B)

    assert [row for row in world.findings() if row[0] != "duplicate"] == [("offset_order", *B, "one")] * 2


def test_running_max_is_correct_for_extreme_numbers() -> None:
    numbers = np.array([5, 1 << 62, 3, -(1 << 63), 7, 6], np.int64)
    group = np.array([0, 0, 0, 1, 1, 1])

    assert running_max(numbers, group).tolist() == [5, 1 << 62, 1 << 62, -(1 << 63), 7, 7]


def test_a_corrupt_partition_gives_no_findings_about_its_lost_batches(world: World) -> None:
    """The marker of a transaction and the first batch of the next transaction are corrupt."""
    at = world.log[A].path.stat().st_size
    world.transact("one", PID, 4, True, A, B)
    world.transact("two", OTHER, 6, True, A, B)
    data = bytearray(world.log[A].path.read_bytes())
    size = read_header(data, at).size
    data[at + size + 12 : at + size + 100] = bytes(88)
    world.log[A].path.write_bytes(data)

    assert world.findings() == [("corrupt", *A, None)]


# --- While a broker works


def test_a_segment_deleted_during_the_audit_is_reported_and_its_records_are_unknown(world: World) -> None:
    for place in (A, B):
        world.log[place].roll()
    folder = read_folder(str(world.folder))
    for each in folder.partitions:
        if (each.topic, each.partition) == A:
            os.unlink(each.segments[0].path)
    actual = run.audit(folder).findings().to_pylist()

    assert {(row["kind"], row["topic"], row["partition"]) for row in actual} == {
        ("segment_deleted", *A),
        ("unknown_before", *A),
    }


def test_a_segment_deleted_between_reading_its_headers_and_its_records_is_reported(world: World) -> None:
    world.begin("one", PID, 4, A)
    (segment,) = read_folder(str(world.folder)).segments(LOG)
    pieces = read_segment(segment)
    seen = [next(pieces)]
    os.unlink(segment.path)
    seen += pieces

    assert [(name, rows["fault"].to_pylist()[-1]) for name, rows in seen] == [
        ("batches", None),
        ("batches", "segment_deleted"),
    ]


@pytest.mark.parametrize("name", ["{base:020d}.log.swap", "{base}-{end}.swap"])
def test_a_swap_file_is_read_when_a_segment_that_it_replaces_was_deleted(name: str, tmp_path: Path) -> None:
    """The parameters are the names that Kafka and our broker give to swap files."""
    log = Log(tmp_path, "t")
    paths, ends = [], []
    for number in range(4):
        log.produce(1, 0, txn=False)
        log.produce(1, 0, txn=False)
        paths.append(log.path)
        ends.append(log.next_offset)
        if number < 3:
            log.roll()
    swap = log.folder / name.format(base=2, end=6)
    swap.write_bytes(paths[1].read_bytes() + paths[2].read_bytes())

    def seen() -> tuple[list[int], list[str]]:
        folder = read_folder(str(tmp_path))
        (each,) = folder.partitions
        assert sorted(every_record(folder)["offset"].to_pylist()) == list(range(8))
        return [segment.base_offset for segment in each.segments], [skipped.name for skipped in folder.skipped]

    assert seen() == ([0, 2, 4, 6], [f"t-0/{swap.name}"])
    paths[1].rename(f"{paths[1]}.deleted")
    assert seen() == ([0, 2, 6], [f"t-0/{paths[1].name}.deleted"])
    paths[2].unlink()
    assert seen()[0] == [0, 2, 6]


def test_records_that_a_running_broker_may_have_written_after_the_log_was_read_are_not_hanging(world: World) -> None:
    """This covers data of the current epoch and of new producer ids; a late batch of an older epoch is still hanging."""
    world.log[A].produce(PID, 4)
    world.log[B].produce(1_234, 0)
    world.log[B].produce(OTHER, 4)
    folder = read_folder(str(world.folder))
    kinds = [
        [(row["kind"], row["producer_id"]) for row in run.audit(replace(folder, in_use=in_use)).findings().to_pylist()]
        for in_use in (False, True)
    ]

    assert kinds == [[("hanging", PID), ("hanging", 1_234), ("hanging", OTHER)], [("hanging", OTHER)]]


# --- Names and files that are none


def test_folders_and_files_with_invalid_names_are_skipped(world: World) -> None:
    before = world.audit()
    for name in (b"\xff\xfe-0", b"a\nb-0", b"t-00", b"t-4294967296"):
        os.makedirs(os.fsencode(world.folder) + b"/" + name)
        shutil.copy(world.log[A].path, os.fsencode(world.folder) + b"/" + name + b"/00000000000000000000.log")
    (world.log[A].folder / "00000000000000000900.log").mkdir()
    os.mkfifo(world.log[B].folder / "00000000000000000900.log")
    (world.log[A].folder / "99999999999999999999.log").touch()
    (world.log[A].folder / "00000000000000000000.timeindex.deleted").touch()
    folder = read_folder(str(world.folder))
    actual = run.audit(folder)
    write_report(str(world.folder / "report.html"), actual, folder, actual.findings())

    assert (actual.bounds, actual.findings()) == (before.bounds, before.findings())
    assert [(each.name, each.reason) for each in folder.skipped] == [
        ("a\nb-0", "not the name of a partition"),
        ("t-0/99999999999999999999.log", "not the name of a segment"),
        ("t-4294967296", "not the name of a partition"),
        ("\\xff\\xfe-0", "not the name of a partition"),
    ]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", [START_OFFSETS, ".lock"])
def test_a_pipe_in_the_place_of_a_file_of_the_folder_is_not_waited_for(name: str, world: World) -> None:
    before = world.findings()
    (world.folder / name).unlink(missing_ok=True)
    os.mkfifo(world.folder / name)

    assert world.findings() == before


@pytest.mark.parametrize("line", [b"\xff\xfe 0 1", "t 0 \u00b2".encode(), b"t 0 9999999999999999999", b"t 0"])
def test_a_start_offset_that_is_invalid_is_refused_in_one_line(line: bytes, world: World) -> None:
    (world.folder / START_OFFSETS).write_bytes(b"0\n1\n" + line + b"\n")

    if line.startswith(b"\xff"):  # This entry names a partition that is not in this folder.
        assert world.findings() == []
    else:
        with pytest.raises(FolderError, match="has a line that is no `topic partition offset`"):
            read_folder(str(world.folder))


def test_topics_with_the_longest_names_have_tables(tmp_path: Path) -> None:
    """Kafka allows 249 characters; a file's name has at most 255 bytes."""
    names = ["n" * 248 + end for end in "ab"]
    for name in names:
        Log(tmp_path / "data", name, 10_000).produce(1, 0, count=3)
    folder, writer = read_folder(str(tmp_path / "data")), TableWriter(str(tmp_path / "tables"), with_records=True)
    writer.make_folders()
    actual = run.audit(folder, writer)
    writer.finish(actual, actual.findings())
    tables = written(tmp_path / "tables")

    assert sorted(tables["records"]["topic"].to_pylist()) == sorted(names * 3)
    assert tables["batches"].num_rows == 2


def test_a_table_that_is_being_written_has_a_name_that_readers_pass_over(world: World, tmp_path: Path) -> None:
    writer = TableWriter(str(tmp_path / "tables"))
    writer.make_folders()
    segment = read_folder(str(world.folder)).segments("t")[0]
    for name, rows in run.read_and_write(segment, writer):
        assert name == "batches" and len(rows)
        assert [file.name[0] for file in (tmp_path / "tables" / "batches").iterdir()] == ["_"]
    assert [file.name[0] for file in (tmp_path / "tables" / "batches").iterdir()] == ["p"]


def test_of_many_files_that_are_skipped_some_are_reported(world: World) -> None:
    for number in range(SKIPPED_MAX + 5):
        (world.log[A].folder / f"{number:020d}.log.deleted").touch()
    folder = read_folder(str(world.folder))
    actual = run.audit(folder)
    report = report_of(folder, actual, actual.findings(), [])

    assert len(report["skipped"]) == SKIPPED_MAX + 5
    assert text_of(report).count("skipped") == SKIPPED_MAX + 1 and "and 5 more are skipped" in text_of(report)


# --- Exactly once


def test_records_of_a_corrupt_batch_are_neither_missing_nor_unexpected(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.log["in", 0], world.log["out", 0] = Log(tmp_path, "in"), Log(tmp_path, "out")
    world.log["in", 0].put([(b"k", b"v")])
    world.commit_offset("g", ("in", 0), 1)
    at = world.log["out", 0].path.stat().st_size
    world.log["out", 0].put([(b"k", b"v")])
    chain = ExactlyOnceCheck("g", ("in",), ("out",))
    folder = read_folder(str(tmp_path))
    assert run.compare(folder, run.audit(folder), chain) == []
    flip(world.log["out", 0].path, at + 62)
    (tmp_path / CLEAN_SHUTDOWN).touch()
    folder = read_folder(str(tmp_path))

    assert [row["kind"] for row in run.compare(folder, run.audit(folder), chain)] == ["unknown_before"]


def test_a_segment_deleted_while_topics_are_compared_does_not_end_the_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    world.log["in", 0], world.log["out", 0] = Log(tmp_path, "in"), Log(tmp_path, "out")
    for name in ("in", "out"):
        world.log[name, 0].put([(b"k", b"v")])
    world.commit_offset("g", ("in", 0), 1)
    folder = read_folder(str(tmp_path))
    audited, decode = run.audit(folder), shares.decode_records

    def delete_first(segment: Segment, batches: Any) -> Any:
        os.unlink(segment.path)
        return decode(segment, batches)

    monkeypatch.setattr(shares, "decode_records", delete_first)
    run.compare(folder, audited, ExactlyOnceCheck("g", ("in",), ("out",)))
    assert not any(os.path.exists(each.path) for each in folder.segments("in", "out"))
