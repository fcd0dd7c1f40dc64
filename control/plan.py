"""Plans: seeded states, faults, stops, clock and nodes in one document; and the plans that come with the broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stuntbroker.control.nodes import RUNNING, change_node, known_node, move, nodes, read_move, read_node_change
from stuntbroker.control.rules.faults import ADVANCE_MS_MAX, FaultError, check_number, part_of, read_fault
from stuntbroker.control.rules.injector import FAULTS_MAX, read_release
from stuntbroker.control.rules.points import POINTS, START
from stuntbroker.control.rules.stops import STOPS_MAX, read_stop
from stuntbroker.control.rules.wildcards import matches_pattern
from stuntbroker.control.seed import is_already_seeded, read_seed, seed, wait_until_durable

if TYPE_CHECKING:
    from stuntbroker.control.control import Control

PRODUCER_APIS: Final = ["Produce", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"]
RULES_MAX: Final = min(FAULTS_MAX, STOPS_MAX)
PARTS: Final = {"about", "seed", "seeds", "clock", "faults", "stops", "nodes", "moves"}
QUARTER_OF_AN_HOUR_MS: Final = 15 * 60_000
"""Default of `transaction.max.timeout.ms`."""
ABORT_CHECK_INTERVALS_MS: Final = 20_000
"""Twice Kafka's default interval between two checks for transactions that have timed out."""


class Plan(NamedTuple):
    """A plan that `read_plan` has validated."""

    seeds: list[dict[str, Any]]
    faults: list[dict[str, Any]]
    stops: list[tuple[str, dict[str, Any]]]
    """(point, rule)"""
    nodes: list[tuple[int, dict[str, Any]]]
    """(node id, change)"""
    moves: list[dict[str, Any]]
    is_paused: bool | None
    """None: do not pause or resume the clock."""
    advance_ms: int


def read_plan(document: Any) -> Plan:
    """Validate a plan, so that all of it can be applied. Raises FaultError.

        {"seed": 7, "clock": {"paused": false, "advance_ms": 60000},
         "seeds": [{"ids": {"transactional_id": "pay-1", "producer_epoch": 32765}}],
         "faults": [{"match": {"api": "EndTxn"}, "when": {"times": 1}, "do": {"lose_response": true}}],
         "stops": [{"point": "txn.PrepareCommit.after", "action": "kill"}],
         "nodes": [{"id": 2, "state": "stopped"}], "moves": [{"transactional_id": "pay-1", "node": 3}]}

    `seed`: each fault with a probability and no seed gets a different seed that is derived from this one.
    """
    given = part_of({"plan": document}, "plan", PARTS)
    check_number(given, "plan", "seed", 0, 1 << 62)
    clock = part_of(given, "clock", {"paused", "advance_ms"})
    if not isinstance(clock.get("paused", False), bool):
        raise FaultError("clock.paused must be true or false", 'as {"clock": {"paused": true}}')
    check_number(clock, "clock", "advance_ms", 0, ADVANCE_MS_MAX)
    seeds = _list(given, "seeds")
    for number, rule in enumerate(seeds):
        _read(f"seeds[{number}]", lambda rule=rule: read_seed(rule))
    faults = []
    for number, rule in enumerate(_list(given, "faults")):
        faults.append(_seeded(rule, given["seed"] + number) if "seed" in given else rule)
        _read(f"faults[{number}]", lambda rule=faults[-1]: read_release(read_fault("", rule, 0)))
    stops = []
    for number, rule in enumerate(_list(given, "stops")):
        hint = 'as {"point": "txn.PrepareCommit.after", "action": "kill"}'
        point, remainder = _named(f"stops[{number}]", rule, "point", str, hint)
        _read(f"stops[{number}]", lambda point=point, remainder=remainder: read_stop("", point, remainder))
        stops.append((point, remainder))
    nodes = []
    for number, rule in enumerate(_list(given, "nodes")):
        node_id, remainder = _named(f"nodes[{number}]", rule, "id", int, 'as {"id": 2, "state": "stopped"}')
        _read(f"nodes[{number}]", lambda remainder=remainder: read_node_change(remainder))
        nodes.append((node_id, remainder))
    moves = _list(given, "moves")
    for number, rule in enumerate(moves):
        _read(f"moves[{number}]", lambda rule=rule: read_move(rule))
    return Plan(seeds, faults, stops, nodes, moves, clock.get("paused"), clock.get("advance_ms", 0))


def _list(given: dict[str, Any], name: str) -> list[Any]:
    rules = given.get(name, [])
    if not isinstance(rules, list):
        raise FaultError(f"plan.{name} must be a list", "GET /v1/plans lists the built-in plans as examples")
    if len(rules) > RULES_MAX:
        raise FaultError(
            f"plan.{name} has more than {RULES_MAX} rules", "combine several rules into one with a pattern"
        )
    return rules


def _named(where: str, rule: Any, name: str, kind: type, hint: str) -> tuple[Any, dict[str, Any]]:
    """Return what a rule is about, and the rest of it. Raises FaultError."""
    if not isinstance(rule, dict) or type(rule.get(name)) is not kind:
        raise FaultError(f"{where} has no {name}", hint)
    return rule[name], {key: value for key, value in rule.items() if key != name}


def _read(where: str, read: Any) -> None:
    try:
        read()
    except FaultError as fault:
        raise FaultError(f"{where}: {fault}", fault.hint) from fault


def _seeded(rule: Any, seed: int) -> Any:
    when = rule.get("when") if isinstance(rule, dict) else None
    if not isinstance(when, dict) or "probability" not in when or "seed" in when:
        return rule
    return {**rule, "when": {**when, "seed": seed}}


async def apply_plan(control: Control, plan: Plan, is_start: bool = False) -> None:
    """Apply a plan: seed its states, replace all faults and stops, then change nodes, leaders and the clock.

    `is_start`: the broker is starting, perhaps on an existing data folder; states that exist already are not seeded again.

    Raises FaultError for a state, node, listener or partition that this broker cannot have: earlier steps stay applied, and
    unless the change of a node or a move failed, the faults and stops are unchanged. Raises StorageError, CannotListen.
    """
    for node_id, _ in plan.nodes:
        known_node(control, node_id)
    for rule in plan.moves:
        known_node(control, rule["node"])
    stops = [(point, rule) for point, rule in plan.stops if not (is_start and point in START)]
    for point, rule in stops:
        control.stops.read(point, rule)
    for rule in plan.faults:
        control.injector.read(rule)
    for rule in plan.seeds:
        for each in _seeds_of_topics(control, rule):
            if not (is_start and is_already_seeded(control.broker, each)):
                seed(control.broker, each)
    if plan.seeds:
        await wait_until_durable(control.broker)
    control.remove_rules()
    for rule in plan.faults:
        control.injector.add(rule)
    for point, rule in stops:
        control.stops.add(point, rule)
    for node_id, change in plan.nodes:
        await change_node(control, known_node(control, node_id), change)
    for rule in plan.moves:
        move(control, rule)
    if plan.is_paused is not None:
        await (control.clock.pause() if plan.is_paused else control.clock.resume())
    if plan.advance_ms:
        await control.clock.advance(plan.advance_ms)


def _seeds_of_topics(control: Control, rule: dict[str, Any]) -> list[dict[str, Any]]:
    """Expand a topic pattern into one seed per matching topic, for plans that do not know the names. Raises FaultError."""
    hanging = rule.get("hanging", {})
    pattern = hanging.get("topic", "")
    if "*" not in pattern and "?" not in pattern:
        return [rule]
    names = [
        topic.name for topic in control.broker.topics if not topic.is_internal and matches_pattern(topic.name, pattern)
    ]
    if not names:
        raise FaultError(f"there is no topic {pattern!r}", "create a topic first, for example with --topic orders")
    return [{"hanging": {**hanging, "topic": name}} for name in names]


def plan_of(control: Control) -> dict[str, Any]:
    """Return the active faults, stops and clock state as a plan; completed moves between nodes are not included."""
    faults = [fault.as_json() for fault in control.injector.faults.values() if not fault.is_slow_node]
    stops = []
    for stop in control.stops.stops.values():
        shown = stop.as_json()
        if POINTS[stop.point].apis:  # Implied by the point.
            del shown["match"]["api"]
        stops.append({name: shown[name] for name in ("point", "action", "match", "nth", "times")})
    return {
        "clock": {"paused": control.clock.is_paused},
        "faults": [{name: fault[name] for name in ("match", "when", "do")} for fault in faults],
        "stops": stops,
        "nodes": [
            {name: node[name] for name in ("id", "state", "slow_ms")}
            for node in nodes(control)
            if node["slow_ms"] or node["state"] != RUNNING
        ],
    }


PLANS: Final[dict[str, dict[str, Any]]] = {
    "commit-response-lost": {
        "about": "The response to the first commit is lost, and the transaction is committed: the client has to retry.",
        "faults": [{"match": {"api": "EndTxn"}, "when": {"times": 1}, "do": {"lose_response": True}}],
    },
    "coordinator-moves-during-commit": {
        "about": "The first two commits are refused because the coordinator has moved to another broker.",
        "faults": [{"match": {"api": "EndTxn"}, "when": {"times": 2}, "do": {"error": "NOT_COORDINATOR"}}],
    },
    "coordinator-loads": {
        "about": "The coordinator loads its state when clients connect, and they have to wait.",
        "faults": [
            {
                "match": {"api": ["InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn"]},
                "when": {"times": 4},
                "do": {"error": "COORDINATOR_LOAD_IN_PROGRESS"},
            }
        ],
    },
    "broker-dies-while-it-commits": {
        "about": "The broker's process ends when the decision to commit is in the log, and no marker is written.",
        "stops": [{"point": "txn.PrepareCommit.after", "action": "kill"}],
    },
    "disk-refuses-a-commit": {
        "about": "Writing the first decision to commit fails; the second attempt succeeds.",
        "stops": [{"point": "txn.PrepareCommit.before", "action": "fail"}],
    },
    "disk-full": {
        "about": "The disk is full at the fiftieth write: the broker's process ends, and no acknowledged record is lost.",
        "stops": [{"point": "log.write.before", "action": "fail", "nth": 50}],
    },
    "epoch-roll-over": {
        "about": "Every transactional id is near its last epoch, after which its producer gets a new producer id.",
        "faults": [{"match": {"api": "InitProducerId"}, "do": {"producer_epoch": 32_763}}],
    },
    "hanging-transaction": {
        "about": "Every topic has a hanging transaction, before which read_committed consumers stop.",
        "seeds": [{"hanging": {"topic": "*"}}],
    },
    "rebalance-during-transaction": {
        "about": "The third heartbeat of a group member is answered with a rebalance.",
        "faults": [
            {"match": {"api": "Heartbeat"}, "when": {"nth": 3, "times": 1}, "do": {"error": "REBALANCE_IN_PROGRESS"}}
        ],
    },
    "transaction-times-out": {
        "about": "15 minutes pass before the client's first commit, and the transaction times out.",
        "faults": [
            {
                "match": {"api": "EndTxn"},
                "when": {"times": 1},
                "do": {"advance_ms": QUARTER_OF_AN_HOUR_MS + ABORT_CHECK_INTERVALS_MS},
            }
        ],
    },
    "zombie-after-a-pause": {
        "about": "A new instance of the producer starts before the client's first commit: the client is a zombie.",
        "faults": [{"match": {"api": "EndTxn"}, "when": {"times": 1}, "do": {"newer_instance": True}}],
    },
    "slow-broker": {
        "about": "A third of all Produce and EndTxn requests are handled 200 ms later.",
        "seed": 1,
        "faults": [{"match": {"api": ["Produce", "EndTxn"]}, "when": {"probability": 0.33}, "do": {"delay_ms": 200}}],
    },
    "bad-network": {
        "about": "One in twenty requests of producers is lost with its connection, and so is one in twenty responses.",
        "seed": 1,
        "faults": [
            {"match": {"api": PRODUCER_APIS}, "when": {"probability": 0.05}, "do": {verb: True}}
            for verb in ("close", "lose_response")
        ],
    },
}
"""Plans that come with the broker, for the most common failures."""
