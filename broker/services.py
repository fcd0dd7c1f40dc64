"""Protocols for the parts of the broker that connections and handlers may use.

`server.Broker` implements all of them. There is one Protocol per part, such as `HasTopics`: a handler declares the parts that
it uses in the type of its request (`Asking`), and mypy checks that it uses no others. The parts do not import this module:
they get what they use through the constructor, or declare a Protocol.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from stuntbroker.broker.connections.client_connection import ClientRequest, Requester

if TYPE_CHECKING:
    from stuntbroker.broker.clock import Clock
    from stuntbroker.broker.cluster.nodes import Nodes
    from stuntbroker.broker.configuration.config import BrokerConfig
    from stuntbroker.broker.configuration.dynamic_config import DynamicConfig
    from stuntbroker.broker.connections.listener import Listener
    from stuntbroker.broker.connections.open_connections import OpenConnections
    from stuntbroker.broker.connections.read_pace import ReadPace
    from stuntbroker.broker.connections.request_memory import RequestMemory
    from stuntbroker.broker.metadata.acls import Acls
    from stuntbroker.broker.metadata.features import Features
    from stuntbroker.broker.metadata.quotas import ClientQuotas
    from stuntbroker.broker.metadata.scram_credentials import ScramCredentials
    from stuntbroker.broker.metadata.topics import Topics
    from stuntbroker.broker.observation.events import Events
    from stuntbroker.broker.permissions.authorizer import Authorizer
    from stuntbroker.broker.random_source import RandomSource
    from stuntbroker.broker.requests.fetch_sessions import FetchSessions
    from stuntbroker.broker.requests.routes import Routes
    from stuntbroker.broker.requests.slices import LongRequests
    from stuntbroker.broker.timers import Timers
    from stuntbroker.broker.transactions.registry import Transactions
    from stuntbroker.groups.classic.state import Group
    from stuntbroker.groups.coordinator import GroupCoordinator
    from stuntbroker.protocol.acls import Operation, Resource
    from stuntbroker.storage.data_dir import DataDir
    from stuntbroker.storage.syncer import Syncer
    from stuntbroker.storage.turn import Turn

Uses = TypeVar("Uses", covariant=True)


class HasConfig(Protocol):
    """Configuration in force."""

    config: BrokerConfig


class HasNodeId(Protocol):
    """Id of the broker; with several nodes, of the first node."""

    node_id: int


class HasClusterId(Protocol):
    """Cluster id, as in `meta.properties`."""

    cluster_id: str


class HasAuthorizer(Protocol):
    """The authorizer."""

    authorizer: Authorizer


class HasAcls(Protocol):
    """The ACLs of the cluster."""

    @property
    def acls(self) -> Acls:
        """ACLs, loaded on first use."""


class HasEvents(Protocol):
    """The log of events."""

    events: Events


class HasClock(Protocol):
    """Wall clock and monotonic clock."""

    clock: Clock


class HasTimers(Protocol):
    """The broker's scheduler."""

    timers: Timers


class HasSyncer(Protocol):
    """Syncer of files with `--durability power`; otherwise None."""

    syncer: Syncer | None


class HasDataDir(Protocol):
    """The data folder."""

    data_dir: DataDir


class HasLongRequests(Protocol):
    """Requests that are handled in slices."""

    long_requests: LongRequests


class HasFetchSessions(Protocol):
    """Sessions of incremental fetches (KIP-227)."""

    fetch_sessions: FetchSessions


class HasListeners(Protocol):
    """Listeners of all nodes."""

    listeners: list[Listener]


class HasNodes(Protocol):
    """Nodes of the cluster."""

    nodes: Nodes


class HasTurn(Protocol):
    """Appends and responses of the current turn of the event loop."""

    turn: Turn


class HasTopics(Protocol):
    """Topics, and the logs of their partitions."""

    topics: Topics


class HasFeatures(Protocol):
    """Feature levels, such as `transaction.version`."""

    features: Features


class HasQuotas(Protocol):
    """Client quotas."""

    quotas: ClientQuotas


class HasScramCredentials(Protocol):
    """SCRAM credentials of users."""

    @property
    def scram_credentials(self) -> ScramCredentials:
        """SCRAM credentials, loaded on first use."""


class HasTransactions(Protocol):
    """Transactional ids and their transactions."""

    transactions: Transactions


class HasRandomSource(Protocol):
    """The source of random ids."""

    random_source: RandomSource


class HasRouter(Protocol):
    """Router of requests to their handlers."""

    @property
    def router(self) -> Routes:
        """The routes of all APIs."""


class HasConfigChanges(Protocol):
    """Callbacks for properties that change while the broker runs."""

    on_config_change: list[Callable[[], None]]


class HasConnections(Protocol):
    """Open connections of clients."""

    connections: OpenConnections


class HasRequestMemory(Protocol):
    """Memory limit for requests (`queued.max.request.bytes`)."""

    request_memory: RequestMemory


class HasGroups(Protocol):
    """Consumer groups."""

    @property
    def groups(self) -> GroupCoordinator:
        """The group coordinator, created on first use."""


class KnowsGroups(Protocol):
    """Consumer groups, without creating the group coordinator."""

    def known_groups(self) -> list[Group]:
        """Return all consumer groups; empty before the group coordinator is created."""


class LoadsGroups(Protocol):
    """Loading and unloading of groups, when their coordinator moves to another node."""

    def unload_groups(self, partition: int) -> None:
        """Unload the groups of a partition of `__consumer_offsets`."""

    def load_groups(self, partition: int) -> None:
        """Load the groups of a partition of `__consumer_offsets` from its log, and coordinate them."""


class OpensNodes(Protocol):
    """Start and stop of single nodes."""

    async def open_node(self, node_id: int) -> None:
        """Listen again on the addresses of a node. Raises CannotListen."""

    def close_node(self, node_id: int) -> None:
        """Stop listening for a node, and close its connections."""


class HasDynamicConfig(Protocol):
    """Configuration that clients changed while the broker ran."""

    @property
    def dynamic_config(self) -> DynamicConfig:
        """Dynamic broker configuration."""


class ForgetsTopics(Protocol):
    """State of a topic outside `Topics`."""

    def topic_deleted(self, name: str) -> None:
        """Remove the state of a deleted topic, such as committed offsets."""


class RequestServices(HasAuthorizer, HasEvents, HasTurn, Protocol):
    """Parts that a request itself uses."""


class Services(
    HasConfig,
    HasAuthorizer,
    HasAcls,
    HasNodeId,
    HasClusterId,
    HasEvents,
    HasClock,
    HasTimers,
    HasSyncer,
    HasDataDir,
    HasLongRequests,
    HasFetchSessions,
    HasListeners,
    HasNodes,
    HasTurn,
    HasTopics,
    HasFeatures,
    HasQuotas,
    HasScramCredentials,
    HasTransactions,
    HasRandomSource,
    HasRouter,
    HasConfigChanges,
    HasConnections,
    HasRequestMemory,
    HasGroups,
    KnowsGroups,
    LoadsGroups,
    OpensNodes,
    HasDynamicConfig,
    ForgetsTopics,
    Protocol,
):
    """All parts of one broker, for connections and for changes of the cluster."""

    frame_size_max: int
    read_pace: ReadPace
    closed_nodes: set[int]


class AskingPart(Requester, Protocol[Uses]):
    """A request, or a part of one, for code that uses only the parts in `Uses` of the broker."""

    @property
    def broker(self) -> Uses:
        """The broker that handles the request."""

    def is_allowed(self, operation: Operation, resource: Resource, name: str) -> bool:
        """Return whether the client may perform an operation on a resource."""


class Asking(AskingPart[Uses], ClientRequest, Protocol[Uses]):
    """A request for a handler that uses only the parts in `Uses` of the broker."""
