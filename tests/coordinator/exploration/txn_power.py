"""The disk of `--durability power`: what is written is there for sure when a sync that began later has ended.

When the power goes, each file is as it was at any moment since the last sync, whatever the others are. Who waits for a
sync, the coordinator or a producer, waits for one that begins behind the write.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

from txn_batches import acknowledged, settled
from txn_world import File, World, with_client


class Synced(NamedTuple):
    """The coordinator waits for the disk before the effects behind this."""


def behind_sync(work: tuple[Any, ...]) -> tuple[Any, ...]:
    """What is done when the disk has what was just written."""
    return Synced(), *work


class Sync(NamedTuple):
    """Under way: up to where each file will be durable, and who waits for it."""

    until: tuple[int, ...]
    actor: bool
    clients: tuple[int, ...]


class Disk(NamedTuple):
    """Of each file the states in which it may be found: the durable one first, the written one last."""

    files: tuple[File, ...]
    sync: Sync | None = None


def written(world: World) -> tuple[Any, ...]:
    """What the files hold: the transaction log, the partitions. That records are refused is not on the disk."""
    return world.durable, *(log._replace(sealed=frozenset()) for log in world.logs)


def blank(world: World) -> World:
    return world._replace(disk=Disk(tuple((each,) for each in written(world))))


def kept_up(world: World) -> World:
    """With what the last step wrote."""
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
    """What may be found when the power comes back."""
    assert world.disk is not None
    for at in product(*(range(len(file)) for file in world.disk.files)):
        yield f"the power goes, {at} is found", tuple(file[i] for file, i in zip(world.disk.files, at, strict=True))


def is_unsettled(world: World) -> bool:
    return world.disk is not None and any(len(file) > 1 for file in world.disk.files)
