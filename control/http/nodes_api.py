"""Operations of the HTTP API on nodes: list, stop, start and slow nodes; move leaders and coordinators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request

from stuntbroker.control.http import answers
from stuntbroker.control.http.operations import Operation, Problem, body_of, guarded
from stuntbroker.control.http.schemas import MOVE_BODY, NODE_BODY
from stuntbroker.control.nodes import (
    NodeStoppedError,
    NoSuchPlaceError,
    change_node,
    known_node,
    move,
    node_as_json,
    nodes,
)

if TYPE_CHECKING:
    from stuntbroker.control.control import Control


async def _nodes(control: Control, request: Request) -> Any:
    every = control.broker.nodes
    controller = every.controller if every.by_id[every.controller].is_up else None
    return {"controller": controller, "nodes": nodes(control)}


async def _change_node(control: Control, request: Request) -> Any:
    text = request.path_params["id"]
    try:
        node = known_node(control, int(text) if text.isascii() and text.isdigit() and len(text) < 11 else text)
    except NoSuchPlaceError as fault:
        raise Problem(404, str(fault), fault.hint) from fault
    await change_node(control, node, await body_of(request))
    return node_as_json(control, node)


async def _move(control: Control, request: Request) -> Any:
    rule = await body_of(request)
    try:
        return move(control, rule)
    except NoSuchPlaceError as fault:
        raise Problem(404, str(fault), fault.hint) from fault
    except NodeStoppedError as fault:
        raise Problem(409, str(fault), fault.hint) from fault


OPERATIONS: Final = (
    Operation("GET", "/v1/nodes", "List the nodes, with the partitions that each leads", answers.NODES, _nodes),
    Operation(
        "POST", "/v1/nodes/{id}", "Stop, start or slow down a node", answers.NODE, guarded(_change_node, 400), NODE_BODY
    ),
    Operation(
        "POST",
        "/v1/move",
        "Move a partition's leader or a coordinator to another node",
        answers.MOVED_PARTITION,
        guarded(_move, 400),
        MOVE_BODY,
    ),
)
