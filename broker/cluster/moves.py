"""Changes in the cluster: leader changes, reassignments, and nodes that stop or restart.

Every change of leader begins a leader epoch and wakes the requests that wait for the partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from stuntbroker.broker.cluster.nodes import NO_LEADER, Node
from stuntbroker.protocol.topic_names import OFFSETS
from stuntbroker.storage.errors import StorageError

if TYPE_CHECKING:
    from stuntbroker.broker.metadata.topics import Topic
    from stuntbroker.broker.services import (
        HasDataDir,
        HasEvents,
        HasNodes,
        HasTimers,
        HasTopics,
        HasTransactions,
        LoadsGroups,
        OpensNodes,
    )

    class MovePorts(
        HasDataDir, HasEvents, HasNodes, HasTimers, HasTopics, HasTransactions, LoadsGroups, OpensNodes, Protocol
    ):
        """Parts of the broker that this module uses."""


def change_leader(
    broker: MovePorts, topic: Topic, index: int, leader: int, load_ms: int = 0, leader_epoch: int | None = None
) -> None:
    """Make a node the leader of a partition, or leave it without one (NO_LEADER). Raises StorageError.

    `leader_epoch`: by default the next one. `load_ms`: how long the coordinators of an internal partition are loading.
    """
    placement, log = topic.placements[index], topic.partitions[index]
    before, epoch = placement.leader, log.leader_epoch + 1 if leader_epoch is None else leader_epoch
    broker.data_dir.begin_leader_epoch(log, epoch)
    placement.leader = leader
    try:
        broker.topics.journal_placements(topic, [index])
        broker.events.info("leader_changed", topic=topic.name, partition=index, leader=leader, leader_epoch=epoch)
    except StorageError:
        placement.leader = before  # The new leader epoch stays.
        raise
    finally:
        if topic.is_internal:
            _hand_over(broker, topic, index, load_ms)
        for waiter in list(log.waiters):
            waiter()
        if placement.leader != NO_LEADER:
            broker.transactions.leader_elected(log.name)


def _hand_over(broker: MovePorts, topic: Topic, index: int, load_ms: int) -> None:
    """Unload the coordinators of an internal partition and reload their state from its log, after `load_ms`."""
    placement, epoch = topic.placements[index], topic.partitions[index].leader_epoch
    placement.is_loading = load_ms > 0  # First: unloading answers requests, behind which others wait.
    if topic.name == OFFSETS:
        broker.unload_groups(index)
    else:
        broker.transactions.leader_changed()

    def load() -> None:
        if topic.partitions[index].leader_epoch == epoch:  # Otherwise the leader changed meanwhile.
            placement.is_loading = False
            if topic.name == OFFSETS:
                broker.load_groups(index)

    if placement.leader == NO_LEADER:
        return
    if load_ms:
        broker.timers.call_later(load_ms, load)
    else:
        load()


def reassign(broker: MovePorts, topic: Topic, index: int, replicas: Sequence[int]) -> None:
    """Reassign a partition to other nodes; its leader stays if it is among them. Raises StorageError."""
    # Unlike Kafka: a reassignment completes immediately, as there is nothing to copy.
    placement, before = topic.placements[index], topic.placements[index].replicas
    placement.replicas = tuple(replicas)
    placement.in_sync = placement.replicas
    broker.nodes.update_in_sync(placement)
    try:
        leader = broker.nodes.next_leader(placement)
        loses_a_replica = not set(before) <= set(replicas)  # A new leader epoch, as in Kafka.
        if leader != placement.leader or loses_a_replica:
            change_leader(broker, topic, index, leader)
        else:
            broker.topics.journal_placements(topic, [index])
    except StorageError:
        placement.replicas = placement.in_sync = before
        broker.nodes.update_in_sync(placement)
        raise


def stop_node(broker: MovePorts, node: Node) -> None:
    """Stop a node as in a controlled shutdown: close its connections, move its leaderships. Raises StorageError.

    May be called again after a failure.
    """
    node.is_up = False
    broker.transactions.update_markers_at_once_max()
    broker.close_node(node.id)
    _elect_leaders(broker, node)


async def start_node(broker: MovePorts, node: Node) -> None:
    """Restart a node; it leads its partitions that are without a leader. Raises CannotListen, StorageError."""
    if not node.is_up:
        await broker.open_node(node.id)
        node.is_up = True
        broker.transactions.update_markers_at_once_max()
    _elect_leaders(broker, node)


def _elect_leaders(broker: MovePorts, node: Node) -> None:
    """Elect a running replica as leader of each partition of a node. Raises the first StorageError, after all were tried."""
    failure: StorageError | None = None
    for topic in list(broker.topics):
        for index, placement in enumerate(topic.placements):
            if node.id in placement.replicas:
                broker.nodes.update_in_sync(placement)
                leader = broker.nodes.next_leader(placement)
                if leader != placement.leader:
                    try:
                        change_leader(broker, topic, index, leader)
                    except StorageError as fault:
                        failure = failure or fault
    if failure is not None:
        raise failure


def elect_preferred(broker: MovePorts, topic: Topic, index: int) -> bool:
    """Elect the preferred replica; return whether it is in sync and running. Raises StorageError."""
    placement = topic.placements[index]
    preferred = placement.preferred_leader
    if preferred not in placement.in_sync or not broker.nodes.by_id[preferred].is_up:
        return False
    change_leader(broker, topic, index, preferred)
    return True


def elect_any(broker: MovePorts, topic: Topic, index: int) -> bool:
    """Elect any running replica of a leaderless partition (unclean election); return whether it did. Raises StorageError."""
    placement = topic.placements[index]
    up = [node_id for node_id in placement.replicas if broker.nodes.by_id[node_id].is_up]
    if placement.leader != NO_LEADER or not up:
        return False
    before, placement.in_sync = placement.in_sync, tuple(up)
    try:
        change_leader(broker, topic, index, up[0])
    except StorageError:
        placement.in_sync = before
        raise
    return True
