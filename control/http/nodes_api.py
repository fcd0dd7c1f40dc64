"""The operations of the HTTP API about nodes: which there are, stop, start and slow ones, and who leads what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request

from stuntbroker.broker.cluster.moves import change_leader, reassign
from stuntbroker.broker.cluster.nodes import Node
from stuntbroker.broker.topic_names import OFFSETS, TXN_STATE
from stuntbroker.control.http.operations import Operation, Problem, body_of, guarded
from stuntbroker.control.http.schemas import MOVE_BODY, NODE_BODY
from stuntbroker.control.nodes import change_node, node_as_json, nodes
from stuntbroker.control.rules.faults import TIMES_MS_MAX, FaultError, check_number, check_text, part_of
from stuntbroker.protocol.hashing import partition_for

if TYPE_CHECKING:
    from stuntbroker.broker.topics import Topic
    from stuntbroker.control.control import Control

INT_MAX: Final = (1 << 31) - 1


async def _nodes(control: Control, request: Request) -> Any:
    return {"controller": control.broker.nodes.controller, "nodes": nodes(control)}


def _known_node(control: Control, node_id: Any) -> Node:
    node = control.broker.nodes.by_id.get(node_id)
    if node is None:
        ids = ", ".join(map(str, control.broker.nodes.ids))
        raise Problem(404, f"there is no node {node_id}", f"there are {ids}; serve --nodes N makes more")
    return node


async def _change_node(control: Control, request: Request) -> Any:
    text = request.path_params["id"]
    node = _known_node(control, int(text) if text.isascii() and text.isdigit() and len(text) < 11 else text)
    await change_node(control, node, await body_of(request))
    return node_as_json(control, node)


async def _move(control: Control, request: Request) -> Any:
    broker = control.broker
    move = part_of({"move": await body_of(request)}, "move", set(MOVE_BODY["properties"]))
    for name in ("topic", "group", "transactional_id"):
        check_text(move, "move", name)
    for name, highest in (("partition", INT_MAX), ("node", INT_MAX), ("load_ms", TIMES_MS_MAX)):
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
    if placement.leader != node.id or load_ms or placement.is_loading:
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


OPERATIONS: Final = (
    Operation("GET", "/v1/nodes", "All nodes, with what each of them leads", _nodes),
    Operation("POST", "/v1/nodes/{id}", "Stop, start or slow down a node", guarded(_change_node, 400), NODE_BODY),
    Operation("POST", "/v1/move", "Have another node lead or coordinate something", guarded(_move, 400), MOVE_BODY),
)
