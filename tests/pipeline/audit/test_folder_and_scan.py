"""Reading a data folder, and the batch headers of its segments."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest
from audit_harness import NOW_MS, Log, World, batch_with_headers, batches_of, compressed, segment_at

from stuntbroker.pipeline.audit.folder import FolderError, Skipped, read_folder
from stuntbroker.pipeline.audit.scan import scan
from stuntbroker.protocol.batches.records import CODECS, CONTROL, TRANSACTIONAL, build_batch, read_header

UNFINISHED = "left by an unfinished write, compaction or deletion"


def test_partitions_are_read_and_other_folders_and_files_are_skipped_with_a_reason(tmp_path: Path) -> None:
    for topic, index in (("a-b", 10), ("a-b", 9), ("__consumer_offsets", 0)):
        log = Log(tmp_path, topic, index)
        log.produce(1, 0, 0, 5)
        log.roll()
    (tmp_path / "empty-3").mkdir()
    (tmp_path / "notes").mkdir()
    for name in ("t-0.c0ffee-delete", "t-1.c0ffee-future", "t-2.c0ffee-stray", "__cluster_metadata-0"):
        Log(tmp_path, name.removesuffix("-0"), 0).folder.rename(tmp_path / name)
    for name in ("00000000000000000000.log.cleaned", "00000000000000000000-00000000000000000005.swap", "x.log"):
        (tmp_path / "a-b-9" / name).touch()
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\na-b 9 3\n")

    actual = read_folder(str(tmp_path))

    places = [
        (p.topic, p.partition, p.log_start_offset, [s.base_offset for s in p.segments]) for p in actual.partitions
    ]
    assert places == [("__consumer_offsets", 0, 0, [0, 5]), ("a-b", 9, 3, [0, 5]), ("a-b", 10, 0, [0, 5])]
    assert [s.active for s in actual.partitions[0].segments] == [False, True]
    assert {each.name: each.reason for each in actual.skipped} == {
        "t-0.c0ffee-delete": "its topic was deleted",
        "t-1.c0ffee-future": "an unfinished copy from another log directory",
        "t-2.c0ffee-stray": "a stray partition, which belongs to no topic",
        "__cluster_metadata-0": "the metadata log of KRaft controllers, which has no transactions",
        "a-b-9/00000000000000000000.log.cleaned": UNFINISHED,
        "a-b-9/00000000000000000000-00000000000000000005.swap": UNFINISHED,
        "a-b-9/x.log": "not the name of a segment",
    }
    assert all(isinstance(each, Skipped) for each in actual.skipped)
    assert {s.topic for s in actual.segments("a-b")} == {"a-b"}
    assert [s.size for s in actual.segments()] == sorted((s.size for s in actual.segments()), reverse=True)


def test_an_unreadable_data_folder_is_refused_with_advice(tmp_path: Path) -> None:
    log = Log(tmp_path / "data", "t")
    (tmp_path / "other").mkdir()
    for path, text in (
        (tmp_path / "none", "cannot read the data folder .*: No such file or directory"),
        (tmp_path / "other", "no partition in .*: give a broker's data folder"),
        (log.folder, "is the folder of a partition: give the data folder that contains it"),
    ):
        with pytest.raises(FolderError, match=text):
            read_folder(str(path))
    (tmp_path / "data" / "log-start-offset-checkpoint").write_text("0\n1\nt zero 5\n")
    with pytest.raises(FolderError, match="no `topic partition offset`: 't zero 5'"):
        read_folder(str(tmp_path / "data"))


def test_a_row_has_the_fields_of_the_batch_header(tmp_path: Path) -> None:
    log = Log(tmp_path, "t", start=100)
    log.append(compressed(batch_with_headers([(b"k", b"v", [])] * 3, pid=5, epoch=2, seq=9), 4))
    log.mark(True, 5, 3, NOW_MS + 7, 11)
    rows = batches_of(tmp_path).to_pylist()

    first, marker = rows
    data = log.path.read_bytes()
    header = read_header(data)
    assert first == {
        "topic": "t", "partition": 0, "segment_base_offset": 100, "position": 0, "size": header.size, "fault": None,
        "crc_ok": True, "base_offset": 100, "last_offset": 102, "leader_epoch": 0, "attributes": 4,
        "compression": "zstd", "base_timestamp": header.base_timestamp, "max_timestamp": header.max_timestamp,
        "producer_id": 5, "producer_epoch": 2, "base_sequence": 9, "count": 3, "is_transactional": False,
        "is_control": False, "marker": "none", "coordinator_epoch": -1,
    }  # fmt: skip
    changed = {name: marker[name] for name in ("base_offset", "position", "marker", "coordinator_epoch", "is_control")}
    assert changed == {
        "base_offset": 103, "position": header.size, "marker": "commit", "coordinator_epoch": 11, "is_control": True,
    }  # fmt: skip


CONTROL_RECORDS = [
    # A key of version 1 with more in it, and a value of version 1; other kinds of control records are no markers.
    (b"\x00\x01\x00\x00more", b"\x00\x01\x00\x00\x00\x09more", "abort", 9),
    (b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x07", "commit", 7),
    (b"\x00\x00\x00\x02", b"\x00\x00\x00\x00\x00\x07", "none", -1),
    (b"\x00\x00", b"\x00\x00\x00\x00\x00\x07", "none", -1),
    (b"\x00\x00\x00\x01", None, "none", -1),
]


@pytest.mark.parametrize(("key", "value", "marker", "epoch"), CONTROL_RECORDS)
def test_markers_of_any_shape_are_read(
    key: bytes, value: bytes | None, marker: str, epoch: int, tmp_path: Path
) -> None:
    log = Log(tmp_path, "t")
    log.append(build_batch([(key, value)], NOW_MS, producer_id=1, producer_epoch=0, attributes=TRANSACTIONAL | CONTROL))
    (row,) = batches_of(tmp_path).to_pylist()

    assert (row["marker"], row["coordinator_epoch"]) == (marker, epoch)


def test_a_scan_in_small_pieces_is_the_same(tmp_path: Path) -> None:
    log = Log(tmp_path, "t")
    for number in range(20):
        log.append(compressed(batch_with_headers([(b"k", b"v" * 50, [])] * 2), number % len(CODECS)))
    data = bytearray(log.path.read_bytes())
    data[900] ^= 255
    data[1_500:1_600] = bytes(100)
    log.path.write_bytes(data + bytes(50))
    segment = segment_at(log.path)
    whole = [row for actual in scan(segment) for row in actual.to_pylist()]

    for rows_max in (1, 2, 3, 7):
        pieces = list(scan(segment, rows_max))
        assert max(piece.num_rows for piece in pieces) <= rows_max
        assert [row for piece in pieces for row in piece.to_pylist()] == whole
    assert sum(row["size"] for row in whole) == len(data) + 50


@pytest.mark.parametrize("byte", [8, 9, 10, 11, 16, 17, 21, 40, 61, 71])
def test_a_corrupt_byte_makes_only_its_own_batch_corrupt(byte: int, tmp_path: Path) -> None:
    """Wherever the byte is, the scan reports the position of the corrupt batch and finds all other batches."""
    log = Log(tmp_path, "t")
    at = [log.produce(3, 0, n, 1) for n in range(5)]
    for mask in (1, 4, 0x80, 0xFF):
        data = bytearray(log.path.read_bytes())
        data[at[2] + byte] ^= mask
        log.path.with_suffix(".broken").write_bytes(data)
        rows = [row for actual in scan(segment_at(log.path.with_suffix(".broken"))) for row in actual.to_pylist()]

        assert [(row["position"], row["fault"]) for row in rows] == [
            (position, "corrupt" if n == 2 else None) for n, position in enumerate(at)
        ]


def test_a_batch_inside_a_record_value_is_not_read_as_a_batch_of_the_log(tmp_path: Path) -> None:
    """After a corrupt batch, the search for the next batch must skip a batch inside a record's value."""
    log = Log(tmp_path, "t")
    first = log.produce(3, 0, 0, 1)
    broken = log.put([(b"k", bytes(build_batch([(b"k", b"v")], NOW_MS)))])
    last = log.produce(3, 0, 1, 1)
    data = bytearray(log.path.read_bytes())
    data[broken + 10] ^= 0x40
    log.path.write_bytes(data)
    rows = batches_of(tmp_path).to_pylist()

    assert [(row["position"], row["fault"]) for row in rows] == [(first, None), (broken, "corrupt"), (last, None)]


def test_messages_older_than_record_batches_are_reported(tmp_path: Path) -> None:
    body = b"\x01\x00" + NOW_MS.to_bytes(8, "big") + b"\xff\xff\xff\xff" + b"\x00\x00\x00\x30" + bytes(48)
    log = Log(tmp_path, "t")
    message = bytes(8) + (4 + len(body)).to_bytes(4, "big") + zlib.crc32(body).to_bytes(4, "big") + body
    log.path.write_bytes(message * 2)

    assert [row["fault"] for row in batches_of(tmp_path).to_pylist()] == ["format", "format"]


def test_empty_segments_have_no_rows_and_no_findings(tmp_path: Path) -> None:
    world = World(tmp_path)

    assert [list(scan(segment)) for segment in read_folder(str(tmp_path)).segments()] == [[]] * 4
    assert world.findings() == []
