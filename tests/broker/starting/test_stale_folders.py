"""The next broker removes the temporary folder of a killed broker, and no other folder."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from stuntbroker.broker.configuration.config import BrokerConfig
from stuntbroker.broker.connections.listener import listeners_of
from stuntbroker.broker.random_source import SeededRandomSource
from stuntbroker.broker.server import Broker
from stuntbroker.broker.stale_folders import remove_stale_folders
from stuntbroker.broker.temporary_folder import make_temporary_folder
from stuntbroker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from stuntbroker.storage.errors import StorageError
from stuntbroker.storage.memory_disk import MemoryDisk
from tests.kit.processes.process import Peer, serving, until

NAME = "stuntbroker-0123456789ab"


def leave_behind(root: Path, name: str = NAME) -> Path:
    """Create the temporary folder that a killed broker leaves."""
    folder = root / name
    (folder / "orders-0").mkdir(parents=True)
    folder.chmod(0o700)
    for file in (".lock", "metadata.journal", "meta.properties", "orders-0/partition.metadata"):
        (folder / file).touch()
    return folder


def test_the_folder_of_a_killed_broker_is_removed_by_the_next_start(tmp_path: Path) -> None:
    with serving(TMPDIR=str(tmp_path)) as killed:
        with Peer(killed.address) as peer:
            peer.ask(MetadataRequest([MetadataRequestTopic(name="orders")]), 9)
        killed.kill()
    (left,) = tmp_path.iterdir()
    with serving(TMPDIR=str(tmp_path)), serving(TMPDIR=str(tmp_path)) as broker:
        until(lambda: not left.exists(), "the folder of the killed broker is removed")
        assert len(list(tmp_path.iterdir())) == 2
        assert broker.end()[0] == 0


def test_the_removal_of_a_stale_folder_does_not_follow_links(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    folder = leave_behind(tmp_path)
    (folder / "payments-0").symlink_to(tmp_path / "precious")
    (folder / "orders-0" / "link").symlink_to(tmp_path / "precious")

    remove_stale_folders(str(tmp_path))

    assert [path.name for path in tmp_path.iterdir()] == ["precious"]
    assert (tmp_path / "precious" / "file").exists()


def move_behind_a_link(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to("elsewhere")


NOT_STALE: dict[str, Callable[[Path], object]] = {
    "a link": move_behind_a_link,
    "another name": lambda folder: folder.rename(folder.with_name("stuntbroker-mine")),
    "open to others": lambda folder: folder.chmod(0o755),
    "no lock": lambda folder: (folder / ".lock").unlink(),
    "a lock that is a link": lambda folder: (
        (folder / ".lock").unlink(),
        (folder / ".lock").symlink_to("meta.properties"),
    ),
    "no journal": lambda folder: (folder / "metadata.journal").unlink(),
    "closed in order": lambda folder: (folder / ".kafka_cleanshutdown").touch(),
}


@pytest.mark.parametrize("what", NOT_STALE)
def test_a_folder_that_no_killed_broker_left_stays(what: str, tmp_path: Path) -> None:
    NOT_STALE[what](leave_behind(tmp_path))
    before = sorted(tmp_path.rglob("*"))

    remove_stale_folders(str(tmp_path))

    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_a_folder_of_another_user_stays(tmp_path: Path) -> None:
    folder = leave_behind(tmp_path)
    os.chown(folder, 12_345, -1)

    remove_stale_folders(str(tmp_path))

    assert folder.exists()


def test_a_folder_in_use_stays(tmp_path: Path) -> None:
    folder = leave_behind(tmp_path)
    with open(folder / ".lock", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        remove_stale_folders(str(tmp_path))

    assert (folder / "orders-0" / "partition.metadata").exists()


async def test_a_broker_on_a_disk_in_memory_has_its_temporary_folder_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    disk = MemoryDisk()
    config = BrokerConfig({})
    broker = Broker(config, disk=disk, random_source=SeededRandomSource(1), listeners=listeners_of(config, port=0))
    await broker.start()
    (folder,) = disk.names_in(str(tmp_path))
    assert folder == Path(broker.data_dir.path).name
    await broker.stop()
    assert disk.names_in(str(tmp_path)) == []
    assert list(tmp_path.iterdir()) == []


def test_a_temporary_folder_that_exists_is_not_used() -> None:
    disk = MemoryDisk()
    make_temporary_folder(disk, SeededRandomSource(1))
    with pytest.raises(StorageError, match="cannot make a temporary folder"):
        make_temporary_folder(disk, SeededRandomSource(1))
