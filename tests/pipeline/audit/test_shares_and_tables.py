"""The audit does not depend on how a folder is divided into shares; Parquet tables equal the tables in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from audit_cases import CASES, A, B, clean
from audit_harness import World, batch_with_headers, every_record
from audit_tables import FIELDS, everything, written

from stuntbroker.pipeline.audit import run, shares
from stuntbroker.pipeline.audit.folder import Folder, FolderError, read_folder
from stuntbroker.pipeline.audit.run import audit
from stuntbroker.pipeline.audit.tables import OF_ALL, OF_SEGMENTS, TableWriter


def folder_of(world: World) -> Folder:
    return read_folder(str(world.folder))


@pytest.mark.parametrize("plant", [plant for plant, _ in CASES], ids=lambda plant: plant.__name__)
def test_a_share_for_every_partition_gives_the_same_audit(
    plant: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    clean(world)
    world.commit_offset("g", A, 5, 7, 4)
    plant(world)
    together = audit(folder_of(world))
    monkeypatch.setattr(run, "shares_of", lambda folder: shares.shares_of(folder, 0))
    alone = audit(folder_of(world))

    assert everything(alone) == everything(together)


def test_a_share_is_whole_partitions_and_a_log_is_never_with_others(tmp_path: Path) -> None:
    world = World(tmp_path)
    clean(world)
    size = sum(segment.size for segment in folder_of(world).segments("t"))
    actual = {
        most: [[(p.topic, p.partition) for p in share.partitions] for share in shares.shares_of(folder_of(world), most)]
        for most in (0, size, 1 << 30)
    }
    logs = [[("__consumer_offsets", 0)], [("__transaction_state", 0)]]

    assert actual == {0: [*logs, [A], [B]], size: [*logs, [A, B]], 1 << 30: [*logs, [A, B]]}
    assert [share.number for share in shares.shares_of(folder_of(world), 0)] == [0, 1, 2, 3]


def test_a_large_folder_keeps_no_batches_and_has_the_same_findings(tmp_path: Path) -> None:
    world = World(tmp_path)
    clean(world)
    world.begin("one", 7, 4, A, B)
    world.log[B].produce(1_234, 0, 0)
    whole, large = audit(folder_of(world)), audit(folder_of(world), keep=False)

    assert (whole.is_whole, large.is_whole) == (True, False)
    assert (len(large.batches), len(large.txn_state), len(large.offsets)) == (0, 0, 0)
    assert large.findings() == whole.findings() and len(whole.findings())
    remaining = [name for name in FIELDS if name not in ("batches", "txn_state", "offsets", "is_whole")]
    assert [name for name in remaining if getattr(large, name) != getattr(whole, name)] == []


@pytest.mark.parametrize("with_records", [False, True])
def test_tables_are_written_as_they_are_in_memory(tmp_path: Path, with_records: bool) -> None:
    world = World(tmp_path / "data")
    clean(world)
    world.log[A].roll()
    world.transact("one", 7, 4, True, A, B)
    world.commit_offset("g", A, 5)
    writer = TableWriter(str(tmp_path / "tables"), with_records)
    writer.make_folders()
    actual = audit(folder_of(world), writer)
    writer.finish(actual, actual.findings())
    tables = written(tmp_path / "tables")

    assert sorted(tables) == sorted({*OF_SEGMENTS, *OF_ALL, "findings"} - (set() if with_records else {"records"}))
    for name in ("txn_state", "offsets", *OF_ALL):
        assert tables[name] == getattr(actual, name), name
    assert tables["findings"] == actual.findings()
    by_segment = [(name, "ascending") for name in ("topic", "partition", "segment_base_offset", "position")]
    assert tables["batches"].sort_by(by_segment) == actual.batches.sort_by(by_segment)
    if with_records:
        every = every_record(folder_of(world))
        by_offset = [("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")]
        assert tables["records"].sort_by(by_offset) == every.sort_by(by_offset)


def test_a_table_without_a_row_has_its_columns(tmp_path: Path) -> None:
    world = World(tmp_path / "data")
    writer = TableWriter(str(tmp_path / "tables"), True)
    writer.make_folders()
    actual = audit(folder_of(world), writer)
    writer.finish(actual, actual.findings())
    tables = written(tmp_path / "tables")

    assert {len(table) for name, table in tables.items() if name not in ("bounds", "segments")} == {0}
    assert all(tables[name].schema == schema for name, schema in OF_SEGMENTS.items())


def test_a_folder_with_something_in_it_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "notes").touch()
    with pytest.raises(FolderError, match="is not empty: give a folder that is new"):
        TableWriter(str(tmp_path)).make_folders()
    (tmp_path / "a-file").touch()
    with pytest.raises(FolderError, match="a-file is not a folder: give one that is new"):
        TableWriter(str(tmp_path / "a-file")).make_folders()


def test_a_segment_that_was_not_read_to_its_end_leaves_no_file(tmp_path: Path) -> None:
    world = World(tmp_path / "data")
    clean(world)
    segment = folder_of(world).segments("t")[0]
    writer = TableWriter(str(tmp_path / "tables"))
    writer.make_folders()
    with pytest.raises(KeyError), writer.of(segment) as files:
        files.write(*next(iter(shares.read_segment(segment))))
        raise KeyError
    assert list((tmp_path / "tables" / "batches").iterdir()) == []
    for _ in range(2):  # A task that Spark retries writes the same tables again.
        assert [name for name, _ in run.read_and_write(segment, writer)] == ["batches"]
    assert [each.name for each in (tmp_path / "tables" / "batches").iterdir()] == [
        "part-t-0-00000000000000000000.parquet"
    ]


def test_the_segments_table_has_counts_sizes_and_timestamps(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.transact("one", 7, 0, True, A)
    world.log[A].roll()
    world.log[A].append(batch_with_headers([(b"k", b"v", [])] * 3, at=5_000))
    (first, second) = [
        row for row in audit(folder_of(world)).segments.to_pylist() if (row["topic"], row["partition"]) == A
    ]

    assert (first["batches"], first["records"], first["control_batches"], second["segment_base_offset"]) == (2, 2, 1, 3)
    assert first["transactional_bytes"] == first["bytes"] - 78
    assert (second["records"], second["transactional_bytes"]) == (3, 0)
    assert (second["first_timestamp"], second["last_timestamp"]) == (5_000, 5_900)
