"""The host of a broker: snapshots, replacing the broker by one in another state, and forks.

`restore` and `reset` replace the broker by one with the same listeners and data folder, in another state. Clients lose their
connections and reconnect, as after a restart. `fork` starts a copy with its own ports, in-memory disk and control API.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Final

from stuntbroker.broker.server import Broker
from stuntbroker.control.clock import TestClock
from stuntbroker.control.control import Control
from stuntbroker.control.rules.faults import FaultError
from stuntbroker.control.snapshot import Snapshot, take_snapshot, write_files
from stuntbroker.protocol.data_folder import PROPERTIES
from stuntbroker.storage.folder_files import foreign_entries, own_files, remove_empty_folder
from stuntbroker.storage.memory_disk import MemoryDisk

if TYPE_CHECKING:
    from stuntbroker.broker.connections.listener import Listener
    from stuntbroker.coordinator.actor import Suspended
    from stuntbroker.protocol.messages.create_topics_request import CreatableTopic

SNAPSHOTS_MAX: Final = 1_000
FORKS_MAX: Final = 200
FORK_FOLDER: Final = "/data"
"""The data folder of a fork, on its disk in memory."""
MAPPED_ADDRESS: Final = "stuntbroker.mapped.address"


class BrokerHost:
    """Host of one broker at a time, with snapshots and forks. Call the methods in the event loop's thread."""

    def __init__(self, control: Control, topics: Collection[CreatableTopic] = ()) -> None:
        """`topics`: topics created when the broker of `control` started; `reset` creates them again."""
        self.broker = control.broker
        self.control = control
        self.snapshots: dict[str, Snapshot] = {}
        self.forks: dict[str, BrokerHost] = {}
        self.control_address = ""
        """Address of this host's control API; empty if it has none."""
        self.open_control: Callable[[BrokerHost], Awaitable[Callable[[], None]]] | None = None
        """Opens a control API for a fork, sets its address, and returns a function that closes it."""
        self.on_replaced: list[Callable[[Broker], None]] = []
        """Callbacks that are called with each new broker that replaces another one."""
        self._topics = topics
        self._starts_empty = self.broker.is_new
        self._close_control: Callable[[], None] | None = None
        self._snapshots_taken = 0
        self._forks_started = 0
        self._one_at_a_time = asyncio.Lock()

    # --- snapshots

    async def snapshot(self, name: str = "") -> Snapshot:
        """Take a snapshot. Raises FaultError, StorageError, OSError."""
        if len(self.snapshots) >= SNAPSHOTS_MAX:
            raise FaultError(
                f"there are {SNAPSHOTS_MAX} snapshots already", "delete those that are not needed any more"
            )
        async with self._one_at_a_time:
            self._snapshots_taken += 1
            snapshot = await take_snapshot(self.control, f"snapshot-{self._snapshots_taken}", name)
            self.snapshots[snapshot.id] = snapshot
        return snapshot

    async def current_state(self) -> Snapshot:
        """Return a snapshot of now that is not kept, for forks. Raises FaultError, StorageError, OSError."""
        async with self._one_at_a_time:
            return await take_snapshot(self.control, "", "")

    def find(self, name: str) -> Snapshot | None:
        """Return a snapshot by id or name (the newest one with that name); None if there is none."""
        newest_first = list(reversed(self.snapshots.values()))
        named = [each for each in newest_first if name and each.name == name]
        return self.snapshots.get(name) or (named[0] if named else None)

    async def restore(self, snapshot: Snapshot) -> None:
        """Replace the broker by one with the state of a snapshot. Raises StorageError."""
        clock = TestClock()
        async with self._one_at_a_time:
            clock.set_to(snapshot.now_ms, snapshot.is_paused)
            await self._replace(clock, snapshot.files, snapshot)

    async def reset(self) -> None:
        """Replace the broker by an empty one with the initial topics. Raises FaultError, StorageError."""
        if not self._starts_empty:
            raise FaultError(
                "the data folder had data when the broker started, which would be lost",
                "take a snapshot at the beginning, and restore the snapshot",
            )
        data_dir = self.broker.data_dir
        # Cluster id and node id stay the same.
        identity = {PROPERTIES: data_dir.disk.read_file(f"{data_dir.path}/{PROPERTIES}")}
        async with self._one_at_a_time:
            await self._replace(TestClock(), identity, None)

    async def _replace(self, clock: TestClock, files: dict[str, bytes], snapshot: Snapshot | None) -> None:
        before = self.broker
        data_dir, config = before.data_dir, before.config.as_given()
        if foreign := foreign_entries(data_dir):
            raise FaultError(
                f"{data_dir.path}/{foreign[0]} does not belong to the broker", "move it out of the data folder"
            )
        listeners = [listener.reopened(config) for listener in before.listeners]
        self.control.clock.forget()
        await before.abandon()
        self.control.injector.forget()
        try:
            for path in own_files(data_dir):
                data_dir.disk.remove(f"{data_dir.path}/{path}")
            for topic, index in data_dir.logs:
                remove_empty_folder(data_dir, topic, index)
            write_files(files, data_dir.disk, data_dir.path, sync=before.durability == "power")
            broker = Broker(
                config,
                data_dir.path,
                before.durability,
                before.events,
                clock,
                listeners=listeners,
                random_source=before.random_source,
                disk=data_dir.disk,
            )
            broker.is_temporary, broker.failed = before.is_temporary, before.failed
            if address := before.config[MAPPED_ADDRESS]:  # The container's mapped port is unchanged.
                config.replace({**config.values, MAPPED_ADDRESS: address})
            control = await _start(broker, () if snapshot else self._topics, snapshot)
        except Exception as fault:
            if before.failed is not None:
                before.failed(f"the broker could not be put into another state: {fault}")
            raise
        control.stops.ids.continue_from(self.control.stops.ids)
        control.injector.ids.continue_from(self.control.injector.ids)
        self.broker, self.control = broker, control
        for callback in self.on_replaced:
            callback(broker)

    # --- forks

    async def fork(self, snapshot: Snapshot) -> tuple[str, BrokerHost]:
        """Start a copy of the broker from a snapshot; return its id and host. Raises FaultError, CannotListen."""
        if len(self.forks) >= FORKS_MAX:
            raise FaultError(f"there are {FORKS_MAX} forks already", "delete those that are not needed any more")
        before = self.broker
        config, clock, disk = before.config.as_given(), TestClock(), MemoryDisk()
        clock.set_to(snapshot.now_ms, snapshot.is_paused)
        write_files(snapshot.files, disk, FORK_FOLDER)
        listeners = [listener.beside(config) for listener in before.listeners]
        broker = Broker(
            config,
            FORK_FOLDER,
            before.durability,
            before.events,
            clock,
            listeners=listeners,
            random_source=before.random_source,
            disk=disk,
        )
        control = await _start(broker, (), snapshot, has_process=False)
        host = BrokerHost(control)
        try:
            if self.open_control is not None:
                host._close_control = await self.open_control(host)
        except BaseException:
            await broker.abandon()
            raise
        self._forks_started += 1
        id_ = f"fork-{self._forks_started}"
        self.forks[id_] = host
        return id_, host

    async def remove_fork(self, id_: str) -> None:
        """Stop a fork and its own forks, and discard their data. Does nothing if the fork was already removed."""
        fork = self.forks.pop(id_, None)
        if fork is not None:
            await fork.close()

    async def close(self) -> None:
        """Stop the broker of this host, which is a fork."""
        await self.remove_forks()
        if self._close_control is not None:
            self._close_control()
        self.control.clock.forget()
        await self.broker.abandon()
        self.control.injector.forget()

    async def remove_forks(self) -> None:
        """Stop all forks."""
        for id_ in list(self.forks):
            await self.remove_fork(id_)


def addresses_of(listeners: list[Listener]) -> dict[str, str]:
    """Listener name -> the address at which a client on this machine reaches it, at the first node."""
    return {each.name: str(each.reachable) for each in listeners if each.node_number == 0}


async def _start(
    broker: Broker, topics: Collection[CreatableTopic], snapshot: Snapshot | None, has_process: bool = True
) -> Control:
    """Start a broker whose files are in place, and park again the transactions that were parked in the snapshot."""
    suspended: list[Suspended] = []

    def suspend() -> None:
        for _, parked in snapshot.parked if snapshot is not None else ():
            actor = broker.transactions.adopt(parked.txn)
            suspended.append(actor.suspend(parked.request, parked.effects, parked.position, broker.transactions))

    broker.transactions.replayed = suspend
    try:
        await broker.start(topics)
    except BaseException:
        await broker.abandon()
        raise
    control = Control(broker, has_process)
    if snapshot is not None:
        control.injector.take_over(snapshot.faults)
        control.stops.take_over(snapshot.stops, list(zip(snapshot.parked, suspended, strict=True)))
        if snapshot.is_paused:
            await control.clock.pause()
    return control
