"""Nodes of the cluster, and the placement of a partition: its replicas, leader and in-sync replicas.

A group or a transactional id is coordinated by the leader of its partition of `__consumer_offsets` or `__transaction_state`,
as in Kafka. With one node, the usual case, all partitions share one placement.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from stuntbroker.broker.connections.client_connection import ClientConnection
    from stuntbroker.broker.connections.listener import Listener
    from stuntbroker.protocol.addresses import Address

NO_LEADER: Final = -1


class NamesLeader(Protocol):
    """A partition of a response with an optional current leader."""

    current_leader: Any


class Endpoint(NamedTuple):
    """Address of a node for a client."""

    node_id: int
    host: str
    port: int
    rack: str | None


class Node:
    """One broker of the cluster."""

    __slots__ = ("id", "is_up", "listeners", "rack")

    def __init__(self, node_id: int, rack: str | None) -> None:
        self.id = node_id
        self.rack = rack
        self.is_up = True
        self.listeners: dict[str, Listener] = {}
        """Listener name -> listener."""


class Placement:
    """Replicas, in-sync replicas and leader of a partition."""

    __slots__ = ("in_sync", "is_loading", "leader", "replicas")

    def __init__(self, replicas: Sequence[int], leader: int) -> None:
        self.replicas = tuple(replicas)
        """Node ids, the preferred leader first."""
        self.leader = leader
        """NO_LEADER while no node may lead."""
        self.in_sync = self.replicas
        """Replicas whose node is up; if none is, the last one that was."""
        self.is_loading = False
        """True while a new leader has not loaded the partition's groups or transactional ids."""

    @property
    def preferred_leader(self) -> int:
        """The node that leads the partition when all are up."""
        return self.replicas[0]

    @property
    def is_loaded(self) -> bool:
        """Whether its leader has loaded the groups or transactional ids of the partition."""
        return self.leader != NO_LEADER and not self.is_loading


class Nodes:
    """All nodes by id."""

    def __init__(self, node_id: int, listeners: Iterable[Listener], racks: Sequence[str]) -> None:
        """`node_id`: id of the first node; the other ids follow it. `racks`: assigned to the nodes in turn."""
        self.first = node_id
        self.by_id: dict[int, Node] = {}
        for listener in listeners:
            listener.node_id = node_id + listener.node_number
            rack = racks[listener.node_number % len(racks)] or None if racks else None
            node = self.by_id.setdefault(listener.node_id, Node(listener.node_id, rack))
            node.listeners[listener.name] = listener
        self.ids = tuple(self.by_id) or (node_id,)
        self.are_many = len(self.ids) > 1
        self._only = Placement(self.ids, node_id)

    def new_placement(self, index: int, replication_factor: int) -> Placement:
        """Return the placement of a new partition: leaders round robin over the running nodes, followers on the next ones."""
        # Unlike Kafka: the first leader is not chosen at random.
        if not self.are_many:
            return self._only
        up = [node_id for node_id in self.ids if self.by_id[node_id].is_up]
        others = [node_id for node_id in self.ids if node_id not in up]
        replicas = [up[(index + copy) % len(up)] for copy in range(min(replication_factor, len(up)))]
        replicas += others[: replication_factor - len(replicas)]
        placement = Placement(replicas, replicas[0])
        self.update_in_sync(placement)
        placement.leader = self.next_leader(placement)
        return placement

    def restored(self, replicas: Sequence[int], leader: int) -> Placement | None:
        """Return the placement of a partition read from the journal; None if none of its nodes is configured any more."""
        left = [node_id for node_id in replicas if node_id in self.ids]
        if not left:
            return None
        if not self.are_many:
            return self._only
        return Placement(left, leader if leader in left else left[0])

    def update_in_sync(self, placement: Placement) -> None:
        """Update the in-sync replicas to those whose nodes are up; if none is, keep the last one."""
        before = placement.in_sync
        if any(self.by_id[node_id].is_up for node_id in before):
            placement.in_sync = tuple(node_id for node_id in placement.replicas if self.by_id[node_id].is_up)
        else:
            placement.in_sync = (placement.leader,) if placement.leader in before else before[:1]

    def next_leader(self, placement: Placement) -> int:
        """Return the current leader if it is in sync and up, else the first such replica; NO_LEADER if there is none."""
        able = [node_id for node_id in placement.in_sync if self.by_id[node_id].is_up]
        if placement.leader in able:
            return placement.leader
        return able[0] if able else NO_LEADER

    @property
    def controller(self) -> int:
        """The controller, to which clients send changes of the cluster: the first node that is up."""
        return next((node.id for node in self.by_id.values() if node.is_up), self.first)

    def stopped(self, placement: Placement) -> list[int]:
        """The replicas of a partition whose node is not up."""
        return [node_id for node_id in placement.replicas if not self.by_id[node_id].is_up] if self.are_many else []

    def endpoints_of_leaders(self, partitions: Iterable[NamesLeader], client: ClientConnection) -> list[Endpoint]:
        """Return the endpoints of the leaders that the partitions of a response name (KIP-951)."""
        leaders = {each.current_leader.leader_id for each in partitions if each.current_leader is not None}
        return [self.endpoint(node_id, client) for node_id in sorted(leaders) if node_id != NO_LEADER]

    def endpoints(self, client: ClientConnection) -> list[Endpoint]:
        """Return the endpoints of the nodes that are up, at the addresses that the client can reach."""
        return [self.endpoint(node.id, client) for node in self.by_id.values() if node.is_up]

    def endpoint(self, node_id: int, client: ClientConnection) -> Endpoint:
        """Return the endpoint of a node, at the address that the client can reach."""
        node = self.by_id[node_id]
        address = self._address(node, client)
        return Endpoint(node_id, address.host, address.port, node.rack)

    def _address(self, node: Node, client: ClientConnection) -> Address:
        own = client.listener
        listener = node.listeners[own.name]
        if listener is own:
            return own.address_for(client.local, client.host)
        return listener.address_for((client.local[0], listener.addresses[0].port), client.host)
