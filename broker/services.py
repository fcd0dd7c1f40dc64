"""What connections and handlers may use of the broker that they belong to.

`server.Broker` puts these together. Each part has a port of its own, `HasTopics` and so on: a handler names the ports that it
uses, in the type of its connection (`Asking`), and mypy holds it to them. No part that is named here imports this file: a part
takes what it uses by its constructor, or as a Protocol of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from stuntbroker.broker.connections.client_connection import ClientConnection

if TYPE_CHECKING:
    from stuntbroker.broker.chance import Chance
    from stuntbroker.broker.clock import Clock
    from stuntbroker.broker.cluster.nodes import Nodes
    from stuntbroker.broker.configuration.config import BrokerConfig
    from stuntbroker.broker.configuration.dynamic_config import DynamicConfig
    from stuntbroker.broker.connections.listener import Listener
    from stuntbroker.broker.connections.read_pace import ReadPace
    from stuntbroker.broker.connections.request_memory import RequestMemory
    from stuntbroker.broker.metadata.features import Features
    from stuntbroker.broker.metadata.quotas import ClientQuotas
    from stuntbroker.broker.metadata.topics import Topics
    from stuntbroker.broker.observation.events import Events
    from stuntbroker.broker.requests.authorizer import Authorizer, Operation, Resource
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

Uses = TypeVar("Uses", covariant=True)


class HasConfig(Protocol):
    """Properties, as they are now."""

    config: BrokerConfig


class HasNodeId(Protocol):
    """Id of the broker; of several nodes, of the first."""

    node_id: int


class HasClusterId(Protocol):
    """As in `meta.properties`."""

    cluster_id: str


class HasEvents(Protocol):
    """The log of events."""

    events: Events


class HasClock(Protocol):
    """Wall clock, and one that never steps."""

    clock: Clock


class HasTimers(Protocol):
    """Calls that become due."""

    timers: Timers


class HasSyncer(Protocol):
    """Syncs files with `--durability power`; else None."""

    syncer: Syncer | None


class HasDataDir(Protocol):
    """The data folder."""

    data_dir: DataDir


class HasLongRequests(Protocol):
    """Requests that are worked off in slices."""

    long_requests: LongRequests


class HasFetchSessions(Protocol):
    """Sessions of incremental fetches (KIP-227)."""

    fetch_sessions: FetchSessions


class HasNodes(Protocol):
    """Nodes, and what they lead."""

    nodes: Nodes


class HasTopics(Protocol):
    """Topics, and the logs of their partitions."""

    topics: Topics


class HasFeatures(Protocol):
    """Levels of `transaction.version` and of others."""

    features: Features


class HasQuotas(Protocol):
    """Quotas of clients."""

    quotas: ClientQuotas


class HasTransactions(Protocol):
    """Transactional ids and their transactions."""

    transactions: Transactions


class HasChance(Protocol):
    """The source of random ids."""

    chance: Chance


class HasRouter(Protocol):
    """The way of requests to their handlers."""

    router: Router


class HasConfigChanges(Protocol):
    """Who is called when properties were changed while the broker runs."""

    on_config_change: list[Callable[[], None]]


class HasConnections(Protocol):
    """The clients that are connected."""

    connections: set[ClientConnection]


class HasRequestMemory(Protocol):
    """What large requests may take of the memory."""

    request_memory: RequestMemory


class HasGroups(Protocol):
    """Consumer groups."""

    @property
    def groups(self) -> GroupCoordinator:
        """The coordinator of consumer groups, made when it is first needed."""


class KnowsGroups(Protocol):
    """The groups there are."""

    def known_groups(self) -> list[Group]:
        """All consumer groups; none while the coordinator was not needed."""


class HasDynamicConfig(Protocol):
    """Configuration that was changed while the broker ran."""

    @property
    def dynamic_config(self) -> DynamicConfig:
        """Dynamic broker configuration."""


class ForgetsTopics(Protocol):
    """Whoever knows of topics beside the table of topics."""

    def topic_deleted(self, name: str) -> None:
        """Forget what was known of a topic elsewhere."""


class Services(
    HasConfig,
    HasNodeId,
    HasClusterId,
    HasEvents,
    HasClock,
    HasTimers,
    HasSyncer,
    HasDataDir,
    HasLongRequests,
    HasFetchSessions,
    HasNodes,
    HasTopics,
    HasFeatures,
    HasQuotas,
    HasTransactions,
    HasChance,
    HasRouter,
    HasConfigChanges,
    HasConnections,
    HasRequestMemory,
    HasGroups,
    KnowsGroups,
    HasDynamicConfig,
    ForgetsTopics,
    Protocol,
):
    """All parts of one broker: for connections, and for who moves partitions from node to node."""

    frame_size_max: int
    listeners: list[Listener]

    turn: Turn

    authorizer: Authorizer
    read_pace: ReadPace

    async def open_node(self, node_id: int) -> None:
        """Listen where a node has listened before."""

    def close_node(self, node_id: int) -> None:
        """Listen no more for a node, and close its connections."""

    def unload_groups(self, partition: int) -> None:
        """Forget the groups of a partition of `__consumer_offsets`."""

    def load_groups(self, partition: int) -> None:
        """Coordinate the groups of a partition of `__consumer_offsets`, as they are in the log."""

    def connected(self, connection: ClientConnection) -> bool:
        """Take note of a client; False when there are too many."""

    def disconnected(self, connection: ClientConnection) -> None:
        """Forget a client that is gone."""


class Asking(ClientConnection, Protocol[Uses]):
    """A client's connection as a handler sees it, which uses no more of the broker than `Uses` has."""

    @property
    def broker(self) -> Uses:
        """The broker that it belongs to."""

    def is_allowed(self, operation: Operation, resource: Resource, name: str) -> bool:
        """Return whether the client may perform an operation on a resource."""
