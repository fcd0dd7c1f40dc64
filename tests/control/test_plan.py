"""Plans: carried out as a whole or not at all, and told as they are."""

from __future__ import annotations

from typing import Any

import pytest

from stuntbroker.control.control import Control
from stuntbroker.control.faults import FaultError
from stuntbroker.control.plan import PLANS, apply_plan, plan_of, read_plan
from tests.control.rules import rule

FAULT = rule("EndTxn", times=1, lose_answer=True)
STOP = {"point": "txn.reply", "action": "park", "match": {"transactional_id": "pay"}, "nth": 2, "times": 0}


async def test_a_plan_takes_the_place_of_all_that_there_was(control: Control) -> None:
    control.injector.add(rule(close=True))
    control.stops.add("txn.reply", {})
    plan = {"clock": {"paused": True}, "faults": [FAULT], "stops": [STOP]}

    await apply_plan(control, read_plan(plan))
    assert plan_of(control) == {**plan, "faults": [{**FAULT, "match": {"api": ["EndTxn"]}}]}

    await apply_plan(control, read_plan({}))
    assert plan_of(control) == {"clock": {"paused": True}, "faults": [], "stops": []}
    await apply_plan(control, read_plan({"clock": {"paused": False}}))
    assert plan_of(control)["clock"] == {"paused": False}


async def test_a_plan_that_was_told_can_be_carried_out_again(control: Control) -> None:
    for point in ("txn.end.before", "request.after", "log.write.before"):
        control.stops.add(point, {"action": "kill"})
    control.injector.add(FAULT)
    at_work = plan_of(control)
    await apply_plan(control, read_plan(at_work))
    assert plan_of(control) == at_work


def test_a_seed_is_for_faults_with_a_probability_and_no_seed_of_their_own() -> None:
    some = rule("Produce", probability=0.5, close=True)
    own = rule("Produce", probability=0.5, seed=3, close=True)
    plan = read_plan({"seed": 7, "faults": [FAULT, some, own, some]})
    assert [fault["when"].get("seed") for fault in plan.faults] == [None, 8, 3, 10]


@pytest.mark.parametrize("name", PLANS)
async def test_every_plan_that_comes_with_the_broker_can_be_carried_out(name: str, control: Control) -> None:
    await apply_plan(control, read_plan(PLANS[name]))
    at_work = plan_of(control)
    assert len(at_work["faults"]) == len(PLANS[name].get("faults", []))
    assert len(at_work["stops"]) == len(PLANS[name].get("stops", []))
    assert at_work["faults"] or at_work["stops"]


WRONG: dict[str, tuple[Any, str]] = {
    "no object": ([], "plan must be an object"),
    "another part": ({"rules": []}, "plan has no rules"),
    "faults that are none": ({"faults": {}}, "plan.faults must be a list"),
    "a fault that cannot be": ({"faults": [FAULT, {}]}, "faults[1]: do must have one verb"),
    "a stop that cannot be": ({"stops": [{"point": "nowhere"}]}, "stops[0]: there is no point 'nowhere'"),
    "a stop at no point": ({"stops": [{}]}, "stops[0] has no point"),
    "too many faults": ({"faults": [FAULT] * 1_001}, "plan.faults has more than 1000 rules"),
    "too many stops": ({"stops": [STOP] * 1_001}, "plan.stops has more than 1000 rules"),
    "a seed in words": ({"seed": "x"}, "plan.seed must be a whole number"),
    "another clock": ({"clock": {"ms": 1}}, "clock has no ms"),
    "a clock in words": ({"clock": {"paused": "yes"}}, "clock.paused must be true or false"),
}


@pytest.mark.parametrize("name", WRONG)
async def test_a_plan_that_is_wrong_anywhere_is_refused_with_the_place(name: str) -> None:
    document, reason = WRONG[name]
    with pytest.raises(FaultError) as refused:
        read_plan(document)
    assert str(refused.value).startswith(reason)
