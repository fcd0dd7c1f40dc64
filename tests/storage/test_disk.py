"""The broker follows no symbolic links in a data folder, and only the owner can read the files."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from stuntbroker.protocol.data_folder import CLEAN_SHUTDOWN, JOURNAL, PARTITION_METADATA, PROPERTIES, START_OFFSETS
from stuntbroker.storage.compaction import Cleaning
from stuntbroker.storage.data_dir import DataDir
from stuntbroker.storage.disk import CREATE, LOCAL_DISK
from stuntbroker.storage.errors import StorageError
from tests.kit.logs import batch, log_config, new_log, put, reopened

TOPIC_ID = b"\1" * 16
OUTSIDE = b"not the broker's\n" * 10


def _link(at: Path, outside: Path) -> None:
    at.unlink(missing_ok=True)
    at.symlink_to(outside)


@pytest.mark.parametrize("opened", [
    lambda path: LOCAL_DISK.open_file(path, CREATE),
    LOCAL_DISK.read_file,
    lambda path: LOCAL_DISK.write_file(path, b""),
    lambda path: LOCAL_DISK.replace_file(path.removesuffix(".new"), b""),
], ids=["open", "read", "write", "replace"])  # fmt: skip
@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_a_path_that_is_not_a_regular_file_is_refused_by_name(
    tmp_path: Path, kind: str, opened: Callable[[str], object]
) -> None:
    outside, path = tmp_path / "outside", tmp_path / "file.new"
    outside.write_bytes(OUTSIDE)
    {"link": lambda: path.symlink_to(outside), "folder": path.mkdir, "pipe": lambda: os.mkfifo(path)}[kind]()

    with pytest.raises(StorageError, match=f"{path} is (a link|a folder|not a regular file)"):
        opened(str(path))

    assert outside.read_bytes() == OUTSIDE


@pytest.mark.parametrize("name", [JOURNAL, PROPERTIES, START_OFFSETS, f"{START_OFFSETS}.new", CLEAN_SHUTDOWN, ".lock"])
def test_a_link_in_the_place_of_a_data_folder_s_file_is_never_written_through(tmp_path: Path, name: str) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "data"
    outside.write_bytes(OUTSIDE)
    data = DataDir(str(folder))
    data.journal({"create": "t"})
    data.write_properties({"cluster.id": "c", "node.id": "1"})
    data.close()
    _link(folder / name, outside)

    try:
        restarted = DataDir(str(folder))
        restarted.properties()
        list(restarted.read_journal())
        restarted.open_journal()
        restarted.close()
    except StorageError as fault:
        assert f"{folder}/{name} is a link" in str(fault)
    else:
        assert name == CLEAN_SHUTDOWN  # The broker never reads this file: it replaces the link by a file.

    assert outside.read_bytes() == OUTSIDE


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex", ".txnindex", ".snapshot"])
@pytest.mark.parametrize("clean", [False, True], ids=["killed", "clean"])
def test_a_link_with_the_name_of_a_segment_s_file_refuses_the_start(tmp_path: Path, suffix: str, clean: bool) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "t-0"
    outside.write_bytes(OUTSIDE)
    log = new_log(folder)
    put(log, batch(3))
    log.close()
    _link(folder / f"{100:020d}{suffix}", outside)

    with pytest.raises(StorageError, match="is a link"):
        reopened(folder, clean=clean)

    assert outside.read_bytes() == OUTSIDE


@pytest.mark.parametrize("suffix", [".cleaned", ".swap"])
def test_a_cleaning_writes_through_no_link(tmp_path: Path, suffix: str) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "t-0"
    outside.write_bytes(OUTSIDE)
    log = new_log(folder, compact=True)
    for number in range(4):
        put(log, batch([(b"key", b"%d" % number)]))
    (folder / f"0-4{suffix}").symlink_to(outside)

    try:
        for _ in Cleaning(log, 0).slices():
            pass
    except StorageError as fault:
        assert "is a link" in str(fault)

    assert outside.read_bytes() == OUTSIDE


@pytest.mark.parametrize("name", [PARTITION_METADATA, "leader-epoch-checkpoint"])
def test_a_link_to_a_folder_is_no_partition(tmp_path: Path, name: str) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "data"
    outside.mkdir()
    (outside / name).write_bytes(OUTSIDE)
    data = DataDir(str(folder))
    data.journal({"create": "t"})
    (folder / "t-0").symlink_to(outside)

    with pytest.raises(StorageError, match="t-0 is not a folder"):
        data.reconcile({"t": (TOPIC_ID, 1)}, {}, lambda: TOPIC_ID)

    assert (outside / name).read_bytes() == OUTSIDE
    data.abandon()


def test_a_new_data_folder_can_be_read_by_its_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    data = DataDir(str(folder))
    data.write_properties({"cluster.id": "c", "node.id": "1"})
    data.journal({"create": "t"})
    log, _ = data.partition("t", 0, TOPIC_ID, log_config())
    put(log, batch(3))
    log.roll()
    data.close()

    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.rglob("*"))}
    assert len(modes) > 10
    assert {path: oct(mode) for path, mode in modes.items() if mode != (0o700 if path.is_dir() else 0o600)} == {}
