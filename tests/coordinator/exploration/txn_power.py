"""The disk of `--durability power`: a write is durable when a sync that began after the write has ended.

After a power cut, each file is in any state that it had since its last sync, independently of the other files. The
coordinator and the producers wait for a sync that begins after their write.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

from txn_batches import acknowledged, settled
from txn_world import File, World, with_client


class Synced(NamedTuple):
    """An effect: the coordinator waits for a sync before it performs the following effects."""


def behind_sync(work: tuple[Any, ...]) -> tuple[Any, ...]:
    """Effects that wait until the last write is synced."""
    return Synced(), *work


class Sync(NamedTuple):
    """A sync in progress: how far it makes each file durable, and whether the coordinator and which clients wait for it."""

    until: tuple[int, ...]
    actor: bool
    clients: tuple[int, ...]


class Disk(NamedTuple):
    """For each file, its possible states after a power cut: the durable state first, the last written state last."""

    files: tuple[File, ...]
    sync: Sync | None = None


def written(world: World) -> tuple[Any, ...]:
    """Contents of the files: transaction log and partitions. `sealed` is only in memory."""
    return world.durable, *(log._replace(sealed=frozenset()) for log in world.logs)


def blank(world: World) -> World:
    return world._replace(disk=Disk(tuple((each,) for each in written(world))))


def kept_up(world: World) -> World:
    """Add the writes of the last step to the files."""
    disk = world.disk
    if disk is None:
        return world
    now = written(world)
    if all(file[-1] == each for file, each in zip(disk.files, now, strict=True)):
        return world
    files = tuple(file if file[-1] == each else (*file, each) for file, each in zip(disk.files, now, strict=True))
    return world._replace(disk=disk._replace(files=files))


def waits(world: World) -> bool:
    return bool(world.work) and isinstance(world.work[0], Synced)


def syncs(world: World) -> Iterator[tuple[str, World]]:
    disk = world.disk
    assert disk is not None
    if disk.sync is None:
        clients = tuple(at for at, client in enumerate(world.clients) if client.acking)
        if waits(world) or clients:
            sync = Sync(tuple(len(file) - 1 for file in disk.files), waits(world), clients)
            yield "a sync begins", world._replace(disk=disk._replace(sync=sync))
        return
    files = tuple(file[until:] for file, until in zip(disk.files, disk.sync.until, strict=True))
    after = world._replace(disk=Disk(files))
    if disk.sync.actor:
        after = after._replace(work=world.work[1:], requests=world.requests if world.work[1:] else None)
    for at in disk.sync.clients:
        after = heard_ack(after, at)
    yield "a sync ends", after


def heard_ack(world: World, at: int) -> World:
    client = world.clients[at]
    if client.enlisting is not None:
        return settled(world, at, client.enlisting.bad)
    return acknowledged(with_client(world, at, acking=False), at)


def power_cuts(world: World) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Every combination of file states after a power cut."""
    assert world.disk is not None
    for at in product(*(range(len(file)) for file in world.disk.files)):
        yield f"the power goes, {at} is found", tuple(file[i] for file, i in zip(world.disk.files, at, strict=True))


def is_unsettled(world: World) -> bool:
    return world.disk is not None and any(len(file) > 1 for file in world.disk.files)
