"""`--durability power`: a callback of `when_synced` runs once all earlier writes, of any log, are on the disk."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from stuntbroker.storage.disk import CREATE, LOCAL_DISK, Disk
from stuntbroker.storage.partition import PartitionLog
from stuntbroker.storage.syncer import Syncer

LOGS = 4


class Segment:
    """A file whose descriptor is its number."""

    is_new = False

    def __init__(self, number: int) -> None:
        self.fd = number

    def open(self) -> int:
        return self.fd


class Log:
    """A log of one file with counters of writes and of synced writes."""

    folder = ""

    def __init__(self, number: int) -> None:
        self.is_unsynced = False
        self.active = Segment(number)
        self.segments = [self.active]
        self.written = self.durable = 0


class World:
    """A syncer with files in memory. The test decides when and in which order syncs end."""

    def __init__(self) -> None:
        self.logs = [Log(number) for number in range(LOGS)]
        self.in_flight: list[tuple[Callable[[], None], Callable[[BaseException | None], None]]] = []
        self.called = 0
        self.syncer = Syncer(lambda work, done: self.in_flight.append((work, done)), self.fail, disk=cast(Disk, self))

    def fail(self, fault: BaseException) -> None:
        raise AssertionError(fault)

    def duplicate(self, fd: int) -> int:
        return fd

    def close(self, fd: int) -> None:
        pass

    def sync(self, fd: int) -> None:
        self.logs[fd].durable = self.logs[fd].written

    def write(self, log: Log) -> None:
        log.written += 1
        if not log.is_unsynced:
            log.is_unsynced = True
            self.syncer.register(cast(PartitionLog, log))

    def wait(self, then: Callable[[], Any]) -> None:
        written = [log.written for log in self.logs]

        def synced() -> None:
            assert all(log.durable >= before for log, before in zip(self.logs, written, strict=True))
            self.called += 1
            then()

        self.syncer.when_synced(synced)

    def end_one(self, at: int = 0) -> None:
        work, done = self.in_flight.pop(at)
        work()
        done(None)


def test_writes_of_several_callbacks_are_synced_together_before_the_next_callback() -> None:
    """Like two commits: each writes its markers once its Prepare record is durable, and then waits for the markers."""
    world = World()
    world.write(world.logs[0])
    world.wait(lambda: None)
    for log in world.logs[1:3]:
        world.wait(lambda log=log: (world.write(log), world.wait(lambda: None)))  # type: ignore[misc]

    world.end_one()
    assert len(world.in_flight) == 1
    world.end_one()

    assert len(world.in_flight) == 1 and not world.syncer.is_all_synced
    world.end_one()
    assert (world.called, world.in_flight, world.syncer.is_all_synced) == (5, [], True)


@pytest.mark.parametrize("seed", range(20))
def test_a_callback_runs_once_all_earlier_writes_are_synced(seed: int) -> None:
    chance = random.Random(seed)
    world = World()
    waits = 0

    def write_and_wait(depth: int) -> None:
        nonlocal waits
        for _ in range(chance.randrange(3)):
            world.write(chance.choice(world.logs))
        for _ in range(chance.randrange(3) if depth else 0):
            waits += 1
            world.wait(lambda: write_and_wait(depth - 1))

    for _ in range(100):
        write_and_wait(3)
        if world.in_flight and chance.random() < 0.7:
            world.end_one(chance.randrange(len(world.in_flight)))
        assert len(world.in_flight) <= 1
        if world.syncer.is_all_synced:
            assert all(log.durable == log.written for log in world.logs)
    while world.in_flight:
        world.end_one(chance.randrange(len(world.in_flight)))

    assert world.called == waits > 100


def test_a_file_that_cannot_be_opened_for_the_sync_is_a_failed_sync() -> None:
    """Otherwise the writes would never be synced, and the callbacks would never run."""
    faults: list[BaseException] = []

    class Full(World):
        def fail(self, fault: BaseException) -> None:
            faults.append(fault)

        def duplicate(self, fd: int) -> int:
            raise OSError(errno.EMFILE, "Too many open files")

    world = Full()
    world.write(world.logs[0])
    world.wait(lambda: None)
    ((work, done),) = world.in_flight
    with pytest.raises(OSError, match="Too many open files") as raised:
        work()
    done(raised.value)
    assert [str(fault) for fault in faults] == ["[Errno 24] Too many open files"]
    assert not world.called
    assert not world.syncer.is_all_synced


@pytest.mark.parametrize("fault", [0, errno.ENOTSUP, errno.EIO], ids=["full sync", "not on this file system", "fails"])
def test_on_macos_a_sync_reaches_the_drive_or_is_a_failed_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: int
) -> None:
    calls: list[tuple[object, ...]] = []

    def with_full_sync(fd: int, command: int) -> None:
        calls.append(("fcntl", fd, command))
        if fault:
            raise OSError(fault, os.strerror(fault))

    monkeypatch.delattr(os, "fdatasync")
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", with_full_sync)
    monkeypatch.setattr(os, "fsync", lambda fd: calls.append(("fsync", fd)))

    fd = LOCAL_DISK.open_file(str(tmp_path / "file"), CREATE)
    with pytest.raises(OSError, match="Input/output error") if fault == errno.EIO else contextlib.nullcontext():
        LOCAL_DISK.sync(fd)
    LOCAL_DISK.close(fd)

    assert calls == [("fcntl", fd, 51), *([("fsync", fd)] if fault == errno.ENOTSUP else [])]
