"""The nodes of a broker in a test's hands: what each of them is doing, and how one is stopped, started and made slow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from stuntbroker.broker.cluster.moves import start_node, stop_node
from stuntbroker.broker.cluster.nodes import Node
from stuntbroker.control.rules.faults import TIMES_MS_MAX, Fault, FaultError, check_number, part_of

if TYPE_CHECKING:
    from stuntbroker.control.control import Control

RUNNING, STOPPED = NODE_STATES = ("running", "stopped")
SLOW: Final = "delay_ms"


def nodes(control: Control) -> list[dict[str, Any]]:
    """Every node."""
    return [node_as_json(control, node) for node in control.broker.nodes.by_id.values()]


def node_as_json(control: Control, node: Node) -> dict[str, Any]:
    """A node as it is now."""
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


def _slow_fault(control: Control, node_id: int) -> Fault | None:
    """The fault that makes a node slow: the one that delays everything there."""
    for fault in control.injector.faults.values():
        if fault.verb == SLOW and fault.match == {"node": node_id} and not fault.when:
            return fault
    return None


async def change_node(control: Control, node: Node, change: Any) -> None:
    """Stop, start or slow down a node. Raises FaultError, CannotListen, StorageError."""
    given = part_of({"node": change}, "node", {"state", "slow_ms"})
    check_number(given, "node", "slow_ms", 0, TIMES_MS_MAX)
    state = given.get("state")
    if not given or (state is not None and state not in NODE_STATES):
        raise FaultError("a node has state and slow_ms", 'as {"state": "stopped"}, or {"state": "running"}')
    if "slow_ms" in given:
        _slow_down(control, node.id, given["slow_ms"])
    if state == STOPPED:
        stop_node(control.broker, node)
    elif state == RUNNING:
        await start_node(control.broker, node)


def _slow_down(control: Control, node_id: int, slow_ms: int) -> None:
    before = _slow_fault(control, node_id)
    if before is not None:
        control.injector.remove(before.id)
    if slow_ms:
        control.injector.add({"match": {"node": node_id}, "do": {SLOW: slow_ms}})
