"""Test control of nodes: their state; stop, start and slow a node; move leaders and coordinators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from stuntbroker.broker.cluster.moves import change_leader, reassign, start_node, stop_node
from stuntbroker.broker.cluster.nodes import Node
from stuntbroker.control.rules.faults import DELAY, TIMES_MS_MAX, Fault, FaultError, check_number, check_text, part_of
from stuntbroker.protocol.primitives import INT32_MAX
from stuntbroker.protocol.topic_names import OFFSETS, TXN_STATE

if TYPE_CHECKING:
    from stuntbroker.broker.metadata.topics import Topic
    from stuntbroker.control.control import Control

RUNNING, STOPPED = NODE_STATES = ("running", "stopped")
MOVE_FIELDS: Final = {"topic", "partition", "group", "transactional_id", "node", "load_ms"}


class NoSuchPlaceError(FaultError):
    """A node or a partition does not exist."""


class NodeStoppedError(FaultError):
    """A node is stopped, but must be running."""


def nodes(control: Control) -> list[dict[str, Any]]:
    """Return the state of every node as JSON."""
    return [node_as_json(control, node) for node in control.broker.nodes.by_id.values()]


def node_as_json(control: Control, node: Node) -> dict[str, Any]:
    """Return the state of a node as JSON."""
    broker, slow = control.broker, _slow_fault(control, node.id)
    led = {topic.name: sum(place.leader == node.id for place in topic.placements) for topic in broker.topics}
    return {
        "id": node.id,
        "rack": node.rack,
        "state": RUNNING if node.is_up else STOPPED,
        "slow_ms": 0 if slow is None else slow.value,
        "listeners": {name: str(each.reachable) for name, each in node.listeners.items()},
        "connections": sum(each.listener.node_id == node.id for each in broker.connections),
        "leads": {name: count for name, count in sorted(led.items()) if count},
    }


def _slow_fault(control: Control, node_id: int) -> Fault | None:
    """Return the fault that delays all requests of a node; None if there is none."""
    for fault in control.injector.faults.values():
        if fault.is_slow_node and fault.match == {"node": node_id}:
            return fault
    return None


def known_node(control: Control, node_id: Any) -> Node:
    """Return the node with an id. Raises NoSuchPlaceError."""
    node = control.broker.nodes.by_id.get(node_id)
    if node is None:
        ids = ", ".join(map(str, control.broker.nodes.ids))
        raise NoSuchPlaceError(f"there is no node {node_id}", f"there are {ids}; serve --nodes N makes more")
    return node


def read_node_change(change: Any) -> dict[str, Any]:
    """Validate a node change: state, slow_ms. Raises FaultError."""
    given = part_of({"node": change}, "node", {"state", "slow_ms"})
    check_number(given, "node", "slow_ms", 0, TIMES_MS_MAX)
    state = given.get("state")
    if not given or (state is not None and state not in NODE_STATES):
        raise FaultError("a node has state and slow_ms", 'as {"state": "stopped"}, or {"state": "running"}')
    return given


async def change_node(control: Control, node: Node, change: Any) -> None:
    """Stop, start or slow down a node. Raises FaultError, CannotListen, StorageError."""
    given = read_node_change(change)
    if "slow_ms" in given:
        _slow_down(control, node.id, given["slow_ms"])
    async with control.node_lock:  # A start waits for the event loop.
        if given.get("state") == STOPPED:
            stop_node(control.broker, node)
        elif given.get("state") == RUNNING:
            await start_node(control.broker, node)


def read_move(rule: Any) -> dict[str, Any]:
    """Validate a move: what moves, and to which node. Raises FaultError."""
    move = part_of({"move": rule}, "move", MOVE_FIELDS)
    for name in ("topic", "group", "transactional_id"):
        check_text(move, "move", name)
    for name, highest in (("partition", INT32_MAX), ("node", INT32_MAX), ("load_ms", TIMES_MS_MAX)):
        check_number(move, "move", name, 0, highest)
    kinds = [name for name in ("topic", "group", "transactional_id") if name in move]
    if len(kinds) != 1 or ("partition" in move and kinds != ["topic"]):
        raise FaultError(
            "move needs one of: a topic with a partition, a group, or a transactional_id",
            'as {"transactional_id": "pay-1", "node": 2}',
        )
    if not move[kinds[0]]:
        raise FaultError(f"move.{kinds[0]} is empty", 'as {"transactional_id": "pay-1", "node": 2}')
    if "node" not in move:
        raise FaultError("move.node, the id of a node, is missing", 'as {"topic": "orders", "partition": 0, "node": 2}')
    return move


def move(control: Control, rule: Any) -> dict[str, Any]:
    """Make another node the leader of a partition, or the coordinator of a group or a transactional id.

    Raises FaultError (NoSuchPlaceError, NodeStoppedError, or for an invalid move) and StorageError.
    """
    broker = control.broker
    given = read_move(rule)
    topic, index = _place(control, given)
    node = known_node(control, given["node"])
    if not node.is_up:
        raise NodeStoppedError(f"node {node.id} is stopped", "start it first, or give another node")
    load_ms = given.get("load_ms", 0)
    if load_ms and not topic.is_internal:
        raise FaultError(
            "move.load_ms applies to coordinators only", "give a group or a transactional_id, or leave it out"
        )
    placement = topic.placements[index]
    if node.id not in placement.replicas:
        replicas = [node.id if each == placement.leader else each for each in placement.replicas]
        reassign(broker, topic, index, replicas if node.id in replicas else [node.id, *replicas[1:]])
    if placement.leader != node.id or load_ms or placement.is_loading:
        change_leader(broker, topic, index, node.id, load_ms)
    return {
        "topic": topic.name,
        "partition": index,
        "node": placement.leader,
        "leader_epoch": topic.partitions[index].leader_epoch,
    }


def _place(control: Control, given: dict[str, Any]) -> tuple[Topic, int]:
    """Return the partition to move: of a topic, or the internal partition of a group or transactional id."""
    topics = control.broker.topics
    for kind, log in (("group", OFFSETS), ("transactional_id", TXN_STATE)):
        if kind in given:
            topic = topics.internal_topic(log)
            return topic, topic.partition_of(given[kind])
    name, index = given["topic"], given.get("partition", 0)
    known = topics.get(name)
    if known is None or index >= len(known.partitions):
        raise NoSuchPlaceError(f"there is no partition {name}-{index}", "GET /v1/topics lists them")
    return known, index


def _slow_down(control: Control, node_id: int, slow_ms: int) -> None:
    before = _slow_fault(control, node_id)
    if before is not None:
        control.injector.remove(before.id)
    if slow_ms:
        control.injector.add({"match": {"node": node_id}, "do": {DELAY: slow_ms}})
