"""What connections and handlers may use of the broker that they belong to.

`server.Broker` puts these together. No part that is named here imports this file: a part takes what it uses, by its
constructor, or as a Protocol of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from stuntbroker.broker.chance import Chance
    from stuntbroker.broker.clock import Clock
    from stuntbroker.broker.cluster.nodes import Nodes
    from stuntbroker.broker.configuration.config import BrokerConfig
    from stuntbroker.broker.configuration.dynamic_config import DynamicConfig
    from stuntbroker.broker.connections.client_connection import ClientConnection
    from stuntbroker.broker.connections.listener import Listener
    from stuntbroker.broker.connections.read_pace import ReadPace
    from stuntbroker.broker.connections.request_memory import RequestMemory
    from stuntbroker.broker.metadata.features import Features
    from stuntbroker.broker.metadata.quotas import ClientQuotas
    from stuntbroker.broker.metadata.topics import Topics
    from stuntbroker.broker.observation.events import Events
    from stuntbroker.broker.requests.authorizer import Authorizer
    from stuntbroker.broker.requests.fetch_sessions import FetchSessions
    from stuntbroker.broker.requests.router import Router
    from stuntbroker.broker.requests.slices import LongRequests
    from stuntbroker.broker.timers import Timers
    from stuntbroker.broker.transactions.registry import Transactions
    from stuntbroker.groups.classic.state import Group
    from stuntbroker.groups.coordinator import GroupCoordinator
    from stuntbroker.storage.data_dir import DataDir
    from stuntbroker.storage.syncer import Syncer
    from stuntbroker.storage.turn import Turn


class Services(Protocol):
    """The parts of one broker; `server.Broker` says what each of them is."""

    config: BrokerConfig
    node_id: int
    cluster_id: str
    frame_size_max: int
    listeners: list[Listener]
    connections: set[ClientConnection]
    on_config_change: list[Callable[[], None]]

    events: Events
    clock: Clock
    chance: Chance
    timers: Timers
    turn: Turn
    syncer: Syncer | None
    data_dir: DataDir

    router: Router
    authorizer: Authorizer
    request_memory: RequestMemory
    read_pace: ReadPace
    long_requests: LongRequests
    fetch_sessions: FetchSessions

    nodes: Nodes
    topics: Topics
    features: Features
    quotas: ClientQuotas
    transactions: Transactions

    @property
    def groups(self) -> GroupCoordinator:
        """The coordinator of consumer groups."""

    @property
    def dynamic_config(self) -> DynamicConfig:
        """Dynamic broker configuration."""

    async def open_node(self, node_id: int) -> None:
        """Listen where a node has listened before."""

    def close_node(self, node_id: int) -> None:
        """Listen no more for a node, and close its connections."""

    def unload_groups(self, partition: int) -> None:
        """Forget the groups of a partition of `__consumer_offsets`."""

    def load_groups(self, partition: int) -> None:
        """Coordinate the groups of a partition of `__consumer_offsets`, as they are in the log."""

    def known_groups(self) -> list[Group]:
        """All consumer groups."""

    def topic_deleted(self, name: str) -> None:
        """Forget what was known of a topic elsewhere."""

    def connected(self, connection: ClientConnection) -> bool:
        """Take note of a client; False when there are too many."""

    def disconnected(self, connection: ClientConnection) -> None:
        """Forget a client that is gone."""
