"""The broker: the objects that exist while it runs, and its start and stop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from stuntbroker.broker.clock import Clock
from stuntbroker.broker.cluster.nodes import Nodes
from stuntbroker.broker.configuration.config import BrokerConfig
from stuntbroker.broker.connections.connection import Connection
from stuntbroker.broker.connections.listener import CannotListen, Listener, bind_all, listeners_of
from stuntbroker.broker.connections.open_connections import OpenConnections
from stuntbroker.broker.connections.read_pace import ReadPace
from stuntbroker.broker.metadata.cluster_metadata import ClusterMetadata
from stuntbroker.broker.metadata.identity import identity_of
from stuntbroker.broker.metadata.metadata_journal import MetadataJournal
from stuntbroker.broker.metadata.topics import Topics
from stuntbroker.broker.observation.events import Events
from stuntbroker.broker.permissions.authorizer import Authorizer, ConfiguredAuthorizer
from stuntbroker.broker.random_source import RandomSource
from stuntbroker.broker.requests.fetch_sessions import FetchSessions
from stuntbroker.broker.requests.router import Router
from stuntbroker.broker.requests.slices import LongRequests
from stuntbroker.broker.temporary_folder import make_temporary_folder
from stuntbroker.broker.timers import Timers
from stuntbroker.broker.transactions.producer_ids import ProducerIds
from stuntbroker.broker.transactions.registry import Transactions
from stuntbroker.protocol.topic_names import OFFSETS
from stuntbroker.storage.data_dir import DataDir
from stuntbroker.storage.disk import LOCAL_DISK, Disk
from stuntbroker.storage.errors import StorageError
from stuntbroker.storage.points import Points
from stuntbroker.storage.syncer import Executor, Syncer
from stuntbroker.storage.turn import Turn

if TYPE_CHECKING:
    from stuntbroker.broker.configuration.dynamic_config import DynamicConfig
    from stuntbroker.broker.housekeeping import Housekeeping
    from stuntbroker.broker.metadata.acls import Acls
    from stuntbroker.broker.metadata.scram_credentials import ScramCredentials
    from stuntbroker.groups.classic.state import Group
    from stuntbroker.groups.coordinator import GroupCoordinator
    from stuntbroker.protocol.messages.create_topics_request import CreatableTopic

DESCRIPTORS_CHECK_MS = 1_000
STOP_GRACE_S = 2.0


class Broker:
    """All nodes of a cluster, usually one. Call `start` and `stop` in the event loop's thread."""

    def __init__(
        self,
        config: BrokerConfig,
        data_dir: str | None = None,
        durability: str = "process",
        events: Events | None = None,
        clock: Clock | None = None,
        truncate_damaged: bool = False,
        listeners: list[Listener] | None = None,
        random_source: RandomSource | None = None,
        disk: Disk = LOCAL_DISK,
        sync_executor: Executor | None = None,
    ) -> None:
        """`sync_executor`: runs syncs outside the event loop, with durability "power"; by default in a thread."""
        self.config = config
        self.events = events or Events()
        self.clock = clock or Clock()
        self.random_source = random_source or RandomSource()
        self.frame_size_max: int = config["socket.request.max.bytes"]
        self.listeners = listeners_of(config) if listeners is None else listeners
        self.connections = OpenConnections(config, self.clock, self.events)
        self.request_memory = self.connections.request_memory
        self.read_pace = ReadPace(self._in_next_turn)
        self.fetch_sessions = FetchSessions(config["max.incremental.fetch.session.cache.slots"], self.random_source)
        self.long_requests = LongRequests(self._in_next_turn)
        self.router = Router()
        self.authorizer: Authorizer = ConfiguredAuthorizer(config)
        self.broken = False
        """Whether a write or sync has failed, so that memory and disk differ."""
        self.failed: Callable[[str], None] | None = None
        """Called with the reason when the broker cannot continue (a failed sync, for example)."""
        self.on_config_change: list[Callable[[], None]] = []
        """Called after properties have changed while the broker runs."""
        self._servers: dict[int, list[asyncio.Server]] = {}
        """Node id -> servers."""
        self.closed_nodes: set[int] = set()
        """Nodes that take no clients: they are stopped, or the broker is. A client may have been accepted just before."""
        self._housekeeping: Housekeeping | None = None
        self.is_temporary = data_dir is None
        """Whether the data folder is removed when the broker stops."""
        self._groups: GroupCoordinator | None = None
        self.durability = durability
        points = Points()
        self.turn = Turn(self._in_next_turn, self._write_failed, self._answer_refused, points)
        self.syncer = (
            Syncer(sync_executor or self._run_beside, self._sync_failed, points, disk)
            if durability == "power"
            else None
        )
        self.data_dir = DataDir(
            data_dir or make_temporary_folder(disk, self.random_source),
            truncate_damaged,
            disk,
            points,
            path_created=None if self.syncer is None else self.syncer.path_created,
            check_writable=self.turn.check,
        )
        try:
            self._open()
        except BaseException:  # The caller reports it; the folder must be free for the next try.
            self.data_dir.abandon()
            raise

    def _open(self) -> None:
        """Restore the broker's state from the data folder."""
        data_dir, config = self.data_dir, self.config
        identity = identity_of(data_dir, config, self.random_source)
        self.cluster_id, self.node_id, self.is_new = identity
        if self.syncer is not None and self.is_new:
            self.syncer.path_created(data_dir.parent)
        rack, are_many = config["broker.rack"], config["stuntbroker.nodes"] > 1
        racks = [each.strip() for each in rack.split(",")] if are_many else [rack]
        self.nodes = Nodes(self.node_id, self.listeners, racks)
        journal = MetadataJournal(data_dir, self.turn, syncs=self.syncer is not None)
        self.topics = Topics(data_dir, journal, config, self.syncer, self.turn, self.random_source, self.nodes)
        metadata = ClusterMetadata(identity, data_dir, journal, config, self.topics, self.events, self._config_changed)
        self._metadata, self.features, self.quotas = metadata, metadata.features, metadata.quotas
        self.transactions = Transactions(self, ProducerIds(metadata.producer_ids_below, metadata.reserve_producer_ids))

    def _config_changed(self) -> None:
        self.topics.reconfigure()
        for callback in list(self.on_config_change):
            callback()

    @property
    def dynamic_config(self) -> DynamicConfig:
        """Dynamic broker configuration."""
        return self._metadata.dynamic_config

    @property
    def scram_credentials(self) -> ScramCredentials:
        """SCRAM credentials of users."""
        return self._metadata.scram_credentials

    @property
    def acls(self) -> Acls:
        """ACLs."""
        return self._metadata.acls

    @property
    def groups(self) -> GroupCoordinator:
        """The group coordinator; created on first use, for a quick start."""
        return self._groups or self._load_groups()

    def _load_groups(self) -> GroupCoordinator:
        from stuntbroker.broker.group_ports import make_groups

        self._groups = make_groups(self)
        return self._groups

    def unload_groups(self, partition: int) -> None:
        """Unload the groups of a partition of `__consumer_offsets`, as another node coordinates them."""
        if self._groups is not None:
            self._groups.unload(partition)

    def load_groups(self, partition: int) -> None:
        """Load the groups of a partition of `__consumer_offsets` from its log, and coordinate them."""
        if self._groups is not None:
            from stuntbroker.storage.recovery import checked_batches

            self._groups.load(partition, checked_batches(self.topics.logs[OFFSETS, partition]))

    def known_groups(self) -> list[Group]:
        """Return all groups; empty if the group coordinator was not needed yet."""
        return [] if self._groups is None else self._groups.list_groups()

    # --- start and stop

    async def start(self, topics: Collection[CreatableTopic] = ()) -> None:
        """Replay the logs, create those of `topics` that are missing, and listen. Raises CannotListen, ConfigError."""
        loop = self._loop = asyncio.get_running_loop()
        self.timers = Timers(loop, self.clock, self._timer_failed)
        pass_point = self.data_dir.points.pass_point
        pass_point("start.replay.before")
        self.transactions.replay()
        if OFFSETS in self.topics.by_name:
            self._load_groups()  # The members' session time-outs begin now.
        self.data_dir.mark_in_use()
        pass_point("start.replay.after")
        self.transactions.resume()
        pass_point("start.finish.after")
        if topics:
            from stuntbroker.broker.metadata.topic_creation import create_missing_topics

            create_missing_topics(self, topics)
        wait_ms = self.config["stuntbroker.mapped.address.wait.ms"]
        if wait_ms and "stuntbroker.mapped.address" not in self.config.given:
            from stuntbroker.broker.connections.address_wait import AddressWait

            AddressWait(self, wait_ms)
        if self.config["authorizer.class.name"]:
            from stuntbroker.broker.permissions.acl_authorizer import AclAuthorizer
            from stuntbroker.broker.permissions.gate import install

            self.authorizer = AclAuthorizer(self.config, self.acls, self.authorizer)
            install(self.router)
        if self.nodes.are_many:
            from stuntbroker.broker.cluster.gate import GATED, NodeGate

            self.router.add_check(NodeGate(self).check, GATED)
        for listener, sockets in bind_all(self.listeners, self.config["socket.listen.backlog.size"]):
            await self._listen(listener, sockets)
        self.begin_housekeeping()

    async def open_node(self, node_id: int) -> None:
        """Listen again on the addresses of a node. Raises CannotListen."""
        self.closed_nodes.discard(node_id)
        try:
            for listener in self.nodes.by_id[node_id].listeners.values():
                await self._listen(listener, listener.bind(listener.addresses[0].port))
        except CannotListen:
            self.close_node(node_id)
            raise

    def close_node(self, node_id: int) -> None:
        """Stop listening for a node, and close its connections immediately."""
        self.closed_nodes.add(node_id)
        for server in self._servers.pop(node_id, ()):
            server.close()
        for connection in list(self.connections):
            if connection.listener.node_id == node_id:
                connection.abort()

    async def _listen(self, listener: Listener, sockets: list[socket.socket]) -> None:
        loop = asyncio.get_running_loop()
        backlog = self.config["socket.listen.backlog.size"]
        security, tls = listener.security, None
        if security is not None and (tls := security.tls) is not None:
            security.report_handshakes(
                lambda reason: self.events.warning("tls_handshake_failed", listener=listener.name, reason=reason)
            )
        for bound in sockets:
            try:
                server = await loop.create_server(
                    lambda: self.new_connection(listener), sock=bound, backlog=backlog, ssl=tls
                )
            except OSError as fault:  # Another process has begun to listen on it since it was bound.
                raise CannotListen(listener, fault) from fault
            self._servers.setdefault(listener.node_id, []).append(server)

    def new_connection(self, listener: Listener) -> Connection:
        """Return the connection of a client that has connected to a listener. Called by the event loop, and by tests."""
        if listener.security is None:
            return Connection(self, listener)
        from stuntbroker.broker.connections.secured_connection import SecuredConnection

        return SecuredConnection(self, listener)

    def begin_housekeeping(self) -> None:
        """Start the periodic work: overdue transactions, expiry, retention, cleaning. `start` does it last."""
        from stuntbroker.broker.housekeeping import CHECK_MS, Housekeeping

        config, every = self.config, self.timers.every
        housekeeping = self._housekeeping = Housekeeping(self)
        transactions = self.transactions
        every(
            config["transaction.abort.timed.out.transaction.cleanup.interval.ms"],
            transactions.sweep,
            transactions.sweep_wanted_at_ms,
        )
        every(
            config["transaction.remove.expired.transaction.cleanup.interval.ms"],
            transactions.expire,
            transactions.expire_wanted_at_ms,
        )
        every(lambda: config["log.cleaner.backoff.ms"], housekeeping.clean, housekeeping.clean_wanted_at_ms)
        every(
            config["log.retention.check.interval.ms"],
            housekeeping.delete_expired_segments,
            housekeeping.deletion_wanted_at_ms,
        )
        every(
            config["producer.id.expiration.check.interval.ms"],
            housekeeping.expire_producers,
            housekeeping.expire_producers_wanted_at_ms,
        )
        every(CHECK_MS, housekeeping.check_connections, lambda: None)
        # Idle time is measured by the system clock.
        every(housekeeping.idle_check_interval_ms, housekeeping.close_idle_connections, lambda: None)
        every(DESCRIPTORS_CHECK_MS, housekeeping.check_file_descriptors, lambda: None)

    async def abandon(self) -> None:
        """Stop immediately and leave the data folder as it is, for a broker that uses or replaces it next."""
        self._close_servers()
        self.broken = True
        if self.syncer is not None:
            self.syncer.stop()
        self._end_requests()
        for connection in list(self.connections):
            connection.abort()
        await asyncio.sleep(0)
        self.data_dir.abandon()

    def _close_servers(self) -> None:
        self.closed_nodes.update(self.nodes.ids)
        for servers in self._servers.values():
            for server in servers:
                server.close()

    def _end_requests(self) -> None:
        """Drop unfinished requests and timers, and stop housekeeping."""
        self.long_requests.clear()
        self.timers.close()
        if self._housekeeping is not None:
            self._housekeeping.close()

    async def stop(self) -> None:
        """Stop accepting clients and requests; acknowledged writes are on the disk when this returns."""
        self._close_servers()
        self.turn.end()
        if self.syncer is not None and not self.broken:
            synced = asyncio.Event()
            self.syncer.when_synced(synced.set)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(synced.wait(), STOP_GRACE_S)
        for connection in list(self.connections):
            connection.close()
        self._end_requests()
        await asyncio.sleep(0)  # Lets the transports send the written responses.
        self.events.log_suppressed(at_end=True)
        self._release_data_dir()

    def _release_data_dir(self) -> None:
        if self.broken:
            self.data_dir.abandon()  # The next start reads everything again, as after a crash.
        else:
            self.data_dir.close()
        if self.is_temporary:
            self.data_dir.remove()

    def remove_stale_folders(self) -> None:
        """Start a thread that removes the temporary folders of killed brokers."""
        if self.is_temporary:
            from threading import Thread

            from stuntbroker.broker.stale_folders import remove_stale_folders

            Thread(target=remove_stale_folders, args=(self.data_dir.parent,), daemon=True).start()

    def topic_deleted(self, name: str) -> None:
        """Delete the committed offsets of a deleted topic."""
        if self._groups is not None:
            self._groups.topic_deleted(name)

    # --- durability

    def _in_next_turn(self, call: Callable[[], None]) -> None:
        self._loop.call_soon(call)

    def _write_failed(self, fault: StorageError) -> None:
        """Mark the broker as broken after a failed write, and report it. Kafka also stops when its last log directory fails."""
        self.broken = True
        if self.syncer is not None:
            self.syncer.stop()
        self.events.error("write_failed", fault=str(fault))
        if self.failed is not None:
            self.failed(str(fault))

    def _timer_failed(self, fault: Exception) -> None:
        """Log a failed timer call: one line for a StorageError, a traceback for any other exception."""
        if isinstance(fault, StorageError):
            self.events.error("timer_failed", fault=str(fault))
        else:
            self.events.error("timer_failed", exc_info=fault)

    def _answer_refused(self, fault: Exception) -> None:
        """Log a response that a transport rejected: the request was performed, and the connection is closed."""
        self.events.error("response_rejected", exc_info=fault)

    def _run_beside(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = asyncio.ensure_future(loop.run_in_executor(None, work))
        future.add_done_callback(lambda f: done(f.exception()))

    def _sync_failed(self, fault: BaseException) -> None:
        """Mark the broker as broken and report it: responses that wait for a sync are never sent."""
        self.broken = True
        self.events.error("sync_failed", fault=str(fault))
        if self.failed is not None:
            self.failed(f"the disk refused a sync: {fault}")
