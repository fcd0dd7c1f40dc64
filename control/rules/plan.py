"""A plan: faults, stops and the clock in one document, and some that come with the broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stuntbroker.control.rules.faults import FaultError, check_number, part_of, read_fault
from stuntbroker.control.rules.injector import FAULTS_MAX, read_release
from stuntbroker.control.rules.points import POINTS
from stuntbroker.control.rules.stops import STOPS_MAX, read_stop

if TYPE_CHECKING:
    from stuntbroker.control.control import Control

PRODUCER_APIS: Final = ["Produce", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"]
RULES_MAX: Final = min(FAULTS_MAX, STOPS_MAX)
PARTS: Final = {"about", "seed", "clock", "faults", "stops"}


class Plan(NamedTuple):
    """What `read_plan` has found right."""

    faults: list[dict[str, Any]]
    stops: list[tuple[str, dict[str, Any]]]
    """(point, rule)"""
    is_paused: bool | None
    """None: the clock stays as it is."""


def read_plan(document: Any) -> Plan:
    """A plan that can be carried out as a whole. Raises FaultError.

        {"seed": 7, "clock": {"paused": false},
         "faults": [{"match": {"api": "EndTxn"}, "when": {"times": 1}, "do": {"lose_answer": true}}],
         "stops": [{"point": "txn.PrepareCommit.after", "action": "kill"}]}

    `seed` is that of all faults with a probability and no seed of their own, each of which gets another one from it.
    """
    given = part_of({"plan": document}, "plan", PARTS)
    check_number(given, "plan", "seed", 0, 1 << 62)
    clock = part_of(given, "clock", {"paused"})
    if not isinstance(clock.get("paused", False), bool):
        raise FaultError("clock.paused must be true or false")
    faults = []
    for number, rule in enumerate(_list(given, "faults")):
        faults.append(_seeded(rule, given["seed"] + number) if "seed" in given else rule)
        _read(f"faults[{number}]", lambda rule=faults[-1]: read_release(read_fault("", rule, 0)))
    stops = []
    for number, rule in enumerate(_list(given, "stops")):
        if not isinstance(rule, dict) or not isinstance(rule.get("point"), str):
            raise FaultError(
                f"stops[{number}] has no point", 'as {"point": "txn.PrepareCommit.after", "action": "kill"}'
            )
        without_point = {name: value for name, value in rule.items() if name != "point"}
        _read(f"stops[{number}]", lambda point=rule["point"], rule=without_point: read_stop("", point, rule))
        stops.append((rule["point"], without_point))
    return Plan(faults, stops, clock.get("paused"))


def _list(given: dict[str, Any], name: str) -> list[Any]:
    rules = given.get(name, [])
    if not isinstance(rules, list):
        raise FaultError(f"plan.{name} must be a list")
    if len(rules) > RULES_MAX:
        raise FaultError(f"plan.{name} has more than {RULES_MAX} rules")
    return rules


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


async def apply_plan(control: Control, plan: Plan) -> None:
    """Take all faults and stops away, and carry out the plan instead."""
    for id_ in list(control.stops.stops):
        control.stops.remove(id_)
    for id_ in list(control.injector.faults):
        control.injector.remove(id_)
    for rule in plan.faults:
        control.injector.add(rule)
    for point, rule in plan.stops:
        control.stops.add(point, rule)
    if plan.is_paused is not None:
        await (control.clock.pause() if plan.is_paused else control.clock.resume())


def plan_of(control: Control) -> dict[str, Any]:
    """What is at work now, as a plan."""
    faults = [fault.as_json() for fault in control.injector.faults.values()]
    stops = []
    for stop in control.stops.stops.values():
        shown = stop.as_json()
        if POINTS[stop.point].apis:  # The point says it.
            del shown["match"]["api"]
        stops.append({name: shown[name] for name in ("point", "action", "match", "nth", "times")})
    return {
        "clock": {"paused": control.clock.clock.is_paused},
        "faults": [{name: fault[name] for name in ("match", "when", "do")} for fault in faults],
        "stops": stops,
    }


PLANS: Final[dict[str, dict[str, Any]]] = {
    "commit-answer-lost": {
        "about": "The first commit is carried out, and its answer is lost: the client has to ask again.",
        "faults": [{"match": {"api": "EndTxn"}, "when": {"times": 1}, "do": {"lose_answer": True}}],
    },
    "coordinator-moves-during-commit": {
        "about": "The first two times that a client commits, this broker is not the coordinator any more.",
        "faults": [{"match": {"api": "EndTxn"}, "when": {"times": 2}, "do": {"error": "NOT_COORDINATOR"}}],
    },
    "coordinator-loads": {
        "about": "The coordinator loads its state when clients come, and they have to wait.",
        "faults": [
            {
                "match": {"api": ["InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn"]},
                "when": {"times": 4},
                "do": {"error": "COORDINATOR_LOAD_IN_PROGRESS"},
            }
        ],
    },
    "broker-dies-while-it-commits": {
        "about": "The decision to commit is in the log, no marker is written, and the broker's process ends.",
        "stops": [{"point": "txn.PrepareCommit.after", "action": "kill"}],
    },
    "disk-refuses-a-commit": {
        "about": "The disk refuses the first decision to commit; the second time it is written.",
        "stops": [{"point": "txn.PrepareCommit.before", "action": "fail"}],
    },
    "rebalance-during-transaction": {
        "about": "A member of a group hears at its third heartbeat that the group rebalances.",
        "faults": [
            {"match": {"api": "Heartbeat"}, "when": {"nth": 3, "times": 1}, "do": {"error": "REBALANCE_IN_PROGRESS"}}
        ],
    },
    "slow-broker": {
        "about": "A third of all Produce and EndTxn requests are handled 200 ms later.",
        "seed": 1,
        "faults": [{"match": {"api": ["Produce", "EndTxn"]}, "when": {"probability": 0.33}, "do": {"delay_ms": 200}}],
    },
    "bad-network": {
        "about": "Of all requests of producers, one in twenty is lost with its connection, and the answer to another one.",
        "seed": 1,
        "faults": [
            {"match": {"api": PRODUCER_APIS}, "when": {"probability": 0.05}, "do": {verb: True}}
            for verb in ("close", "lose_answer")
        ],
    },
}
"""Plans that come with the broker, for the falls that are asked about most."""
