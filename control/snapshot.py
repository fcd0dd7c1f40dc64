"""Snapshots of a broker: its files, clock, rules, and parked transactions.

A copy starts from the files of a snapshot as after a kill, except that parked transactions are parked at the same place again,
with the same effects performed. State that belongs to connections is not part of a snapshot: parked or held requests, fetch
sessions, and group members that are not in `__consumer_offsets`.
"""

from __future__ import annotations

import asyncio
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from stuntbroker.control.rules.faults import Fault, FaultError
from stuntbroker.control.rules.stops import ParkedTransaction, Stop
from stuntbroker.storage.disk import Disk
from stuntbroker.storage.folder_files import own_files

if TYPE_CHECKING:
    from stuntbroker.control.control import Control
    from stuntbroker.storage.data_dir import DataDir

BYTES_MAX: Final = 1 << 30
"""Maximum size of the files of a snapshot."""
WAIT_MS_MAX: Final = 5_000
"""Maximum ms, by the system clock, that a snapshot waits for unfinished work."""


@dataclass(frozen=True)
class Snapshot:
    """An immutable snapshot, from which copies of the broker are made."""

    id: str
    name: str
    """Name given by the test; may be empty."""
    files: dict[str, bytes]
    """Path in the data folder -> content."""
    now_ms: int
    is_paused: bool
    stops: tuple[Stop, ...]
    parked: tuple[tuple[str, ParkedTransaction], ...]
    """(id of the stop, transaction that is parked at it)"""
    faults: tuple[Fault, ...]
    """Faults whose `created_at_ms` is relative to the snapshot, as a copy has another clock."""

    @property
    def size(self) -> int:
        """Total size of the files in bytes."""
        return sum(map(len, self.files.values()))

    def as_json(self) -> dict[str, object]:
        """Return the snapshot's entry in a listing."""
        parked = [each.transactional_id for _, each in self.parked]
        return {
            "id": self.id,
            "name": self.name,
            "now_ms": self.now_ms,
            "files": len(self.files),
            "bytes": self.size,
            "parked": parked,
        }


async def take_snapshot(control: Control, id_: str, name: str) -> Snapshot:
    """Take a snapshot when no requests are in progress other than parked ones. Raises FaultError."""
    broker = control.broker
    held = list(broker.connections)
    for connection in held:
        connection.hold()  # Otherwise some request might always be in progress.
    try:
        parked = await _wait_until_idle(control)
        return _state_of(control, id_, name, parked)  # Before any connection resumes and handles its pending requests.
    finally:
        for connection in held:
            connection.release()


def _state_of(control: Control, id_: str, name: str, parked: tuple[tuple[str, ParkedTransaction], ...]) -> Snapshot:
    """Build the snapshot of a broker without work in progress other than parked. Raises FaultError, StorageError, OSError."""
    broker, clock = control.broker, control.clock.clock
    for log in broker.data_dir.logs.values():
        log.flush_buffered()
    return Snapshot(
        id_,
        name,
        _files_of(broker.data_dir),
        clock.now_ms(),
        control.clock.is_paused,
        tuple(stop.without_parked() for stop in control.stops.stops.values()),
        parked,
        tuple(_with_relative_age(fault, clock.monotonic_ms()) for fault in control.injector.faults.values()),
    )


async def _wait_until_idle(control: Control) -> tuple[tuple[str, ParkedTransaction], ...]:
    """Wait until only parked work is in progress; return the parked transactions. Raises FaultError."""
    broker = control.broker
    deadline_ms = broker.clock.client_ms() + WAIT_MS_MAX
    while True:
        broker.turn.end()
        parked = tuple(control.stops.parked_transactions())
        busy = set(broker.transactions.busy_ids()) - {each.transactional_id for _, each in parked}
        if not busy and not broker.timers.is_busy and not broker.long_requests:
            return parked
        if broker.clock.client_ms() > deadline_ms:
            what = ", ".join(sorted(busy)[:5]) or "work in slices"
            raise FaultError(f"{what} is still in progress after {WAIT_MS_MAX} ms", "see GET /v1/transactions")
        await asyncio.sleep(0)


def _with_relative_age(fault: Fault, now_ms: int) -> Fault:
    aged = deepcopy(fault)
    aged.created_at_ms -= now_ms
    return aged


def _files_of(data_dir: DataDir) -> dict[str, bytes]:
    """Return the files of the data folder. Raises FaultError if they are larger than BYTES_MAX."""
    disk, paths = data_dir.disk, own_files(data_dir)
    size = sum(disk.file_size(f"{data_dir.path}/{path}") for path in paths)
    if size > BYTES_MAX:
        raise FaultError(
            f"the data folder has {size} bytes, a snapshot at most {BYTES_MAX}", "keep less data in the test"
        )
    return {path: disk.read_file(f"{data_dir.path}/{path}") for path in paths}


def write_files(files: dict[str, bytes], disk: Disk, folder: str, *, sync: bool = False) -> None:
    """Write the files of a snapshot into a folder; with `sync`, they survive a power cut from then on. Raises OSError."""
    disk.make_folder(folder)
    folders = {folder: None}
    for path, content in files.items():
        if "/" in path:
            inner = f"{folder}/{path.partition('/')[0]}"
            disk.make_folder(inner)
            folders[inner] = None
        disk.write_file(f"{folder}/{path}", content, sync=sync)
    if sync:
        for path in folders:
            disk.sync_path(path)
