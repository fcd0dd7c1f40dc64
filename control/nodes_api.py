"""The operations of the HTTP API about nodes: which there are, stop, start and slow ones, and who leads what."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request

from stuntbroker.broker.cluster.moves import change_leader, reassign, start_node, stop_node
from stuntbroker.broker.cluster.nodes import Node
from stuntbroker.broker.listener import CannotListen
from stuntbroker.broker.topic_names import OFFSETS, TXN_STATE
from stuntbroker.control.faults import Fault, FaultError, check_number, check_text, part_of
from stuntbroker.control.operations import Operation, Problem, body_of
from stuntbroker.control.schemas import MOVE_BODY, NODE_BODY, NODE_STATES, RUNNING, STOPPED
from stuntbroker.protocol.hashing import partition_for
from stuntbroker.storage.errors import StorageError

if TYPE_CHECKING:
    from stuntbroker.broker.topics import Topic
    from stuntbroker.control.control import Control

SLOW: Final = "delay_ms"
INT_MAX: Final = (1 << 31) - 1
LOAD_MS_MAX: Final = 24 * 3_600_000
OfControl = Callable[["Control", Request], Awaitable[Any]]


def _slow_fault(control: Control, node_id: int) -> Fault | None:
    """The fault that makes a node slow: the one that delays everything there."""
    for fault in control.injector.faults.values():
        if fault.verb == SLOW and fault.match == {"node": node_id} and not fault.when:
            return fault
    return None


def _node_as_json(control: Control, node: Node) -> dict[str, Any]:
    broker, slow = control.broker, _slow_fault(control, node.id)
    led = {topic.name: sum(place.leader == node.id for place in topic.placements) for topic in broker.topics}
    return {
        "id": node.id,
        "rack": node.rack,
        "state": RUNNING if node.is_up else STOPPED,
        "slow_ms": 0 if slow is None else slow.value,
        "listeners": {name: str(each.addresses[0].reachable()) for name, each in node.listeners.items()},
        "connections": sum(each.listener.node_id == node.id for each in broker.connections),
        "leads": {name: count for name, count in sorted(led.items()) if count},
    }


async def _nodes(control: Control, request: Request) -> Any:
    nodes = control.broker.nodes
    return {
        "controller": nodes.controller,
        "nodes": [_node_as_json(control, node) for node in nodes.by_id.values()],
    }


def _known_node(control: Control, node_id: Any) -> Node:
    node = control.broker.nodes.by_id.get(node_id)
    if node is None:
        ids = ", ".join(map(str, control.broker.nodes.ids))
        raise Problem(404, f"there is no node {node_id}", f"there are {ids}; serve --nodes N makes more")
    return node


async def _change_node(control: Control, request: Request) -> Any:
    text = request.path_params["id"]
    node = _known_node(control, int(text) if text.isascii() and text.isdigit() and len(text) < 11 else text)
    change = part_of({"node": await body_of(request)}, "node", {"state", "slow_ms"})
    check_number(change, "node", "slow_ms", 0, LOAD_MS_MAX)
    state = change.get("state")
    if not change or (state is not None and state not in NODE_STATES):
        raise FaultError("a node has state and slow_ms", 'as {"state": "stopped"}, or {"state": "running"}')
    if "slow_ms" in change:
        _slow_down(control, node.id, change["slow_ms"])
    if state == STOPPED and node.is_up:
        stop_node(control.broker, node)
    elif state == RUNNING and not node.is_up:
        await start_node(control.broker, node)
    return _node_as_json(control, node)


def _slow_down(control: Control, node_id: int, slow_ms: int) -> None:
    before = _slow_fault(control, node_id)
    if before is not None:
        control.injector.remove(before.id)
    if slow_ms:
        control.injector.add({"match": {"node": node_id}, "do": {SLOW: slow_ms}})


async def _move(control: Control, request: Request) -> Any:
    broker = control.broker
    move = part_of({"move": await body_of(request)}, "move", set(MOVE_BODY["properties"]))
    for name in ("topic", "group", "transactional_id"):
        check_text(move, "move", name)
    for name, highest in (("partition", INT_MAX), ("node", INT_MAX), ("load_ms", LOAD_MS_MAX)):
        check_number(move, "move", name, 0, highest)
    topic, index = _place(control, move)
    if "node" not in move:
        raise FaultError("move.node says where it goes", 'as {"topic": "orders", "partition": 0, "node": 2}')
    node = _known_node(control, move["node"])
    if not node.is_up:
        raise Problem(409, f"node {node.id} is stopped", "start it before, or give another one")
    load_ms = move.get("load_ms", 0)
    if load_ms and not topic.internal:
        raise FaultError("move.load_ms is for a coordinator", "give a group or a transactional_id, or leave it out")
    placement = topic.placements[index]
    if node.id not in placement.replicas:
        replicas = [node.id if each == placement.leader else each for each in placement.replicas]
        reassign(broker, topic, index, replicas if node.id in replicas else [node.id, *replicas[1:]])
    if placement.leader != node.id or load_ms:
        change_leader(broker, topic, index, node.id, load_ms)
    return {
        "topic": topic.name,
        "partition": index,
        "node": placement.leader,
        "leader_epoch": topic.partitions[index].leader_epoch,
    }


def _place(control: Control, move: dict[str, Any]) -> tuple[Topic, int]:
    """The partition that moves: one of a topic, or the one that a group or a transactional id is kept in."""
    kinds = [name for name in ("topic", "group", "transactional_id") if name in move]
    if len(kinds) != 1 or ("partition" in move and kinds != ["topic"]):
        raise FaultError("move says what moves: a topic and a partition, a group, or a transactional_id")
    (kind,) = kinds
    topics, name = control.broker.topics, move[kind]
    if kind != "topic":
        topic = topics.internal(OFFSETS if kind == "group" else TXN_STATE)
        return topic, partition_for(name, len(topic.partitions))
    known, index = topics.get(name), move.get("partition", 0)
    if known is None or index >= len(known.partitions):
        raise Problem(404, f"there is no partition {name}-{index}", "GET /v1/topics lists them")
    return known, index


def _guarded(answer: OfControl) -> OfControl:
    """The same operation, whose failures are answered as problems."""

    async def guarded(control: Control, request: Request) -> Any:
        try:
            return await answer(control, request)
        except FaultError as fault:
            raise Problem(400, str(fault), fault.hint) from fault
        except (StorageError, CannotListen) as fault:
            raise Problem(503, f"it cannot be done: {fault}", "is a stop at work that has it fail?") from fault

    return guarded


OPERATIONS: Final = (
    Operation("GET", "/v1/nodes", "All nodes, with what each of them leads", _nodes),
    Operation("POST", "/v1/nodes/{id}", "Stop, start or slow down a node", _guarded(_change_node), NODE_BODY),
    Operation("POST", "/v1/move", "Have another node lead or coordinate something", _guarded(_move), MOVE_BODY),
)
