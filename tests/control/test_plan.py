"""Plans are applied completely or not at all, and the API returns the active plan."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from stuntbroker.control.clock import TestClock
from stuntbroker.control.control import Control
from stuntbroker.control.documents import read_plan_file
from stuntbroker.control.host import BrokerHost
from stuntbroker.control.plan import PLANS, apply_plan, plan_of, read_plan
from stuntbroker.control.rules.faults import FaultError
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.topic_names import TXN_STATE
from tests.kit.control_rules import rule
from tests.kit.processes.process import run, serving
from tests.kit.rig import Rig, running_rig
from tests.kit.valid_requests import batch

FAULT = rule("EndTxn", times=1, lose_response=True)
STOP = {"point": "txn.reply", "action": "park", "match": {"transactional_id": "pay"}, "nth": 2, "times": 0}


async def test_a_plan_replaces_all_faults_and_stops(control: Control) -> None:
    control.injector.add(rule(close=True))
    control.stops.add("txn.reply", {})
    plan = {"clock": {"paused": True}, "faults": [FAULT], "stops": [STOP]}

    await apply_plan(control, read_plan(plan))
    assert plan_of(control) == {**plan, "faults": [{**FAULT, "match": {"api": ["EndTxn"]}}], "nodes": []}

    await apply_plan(control, read_plan({}))
    assert plan_of(control) == {"clock": {"paused": True}, "faults": [], "stops": [], "nodes": []}
    await apply_plan(control, read_plan({"clock": {"paused": False}}))
    assert plan_of(control)["clock"] == {"paused": False}


async def test_the_shown_plan_can_be_applied_unchanged(control: Control) -> None:
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
async def test_every_built_in_plan_can_be_applied(name: str, rig: Rig, control: Control) -> None:
    rig.topic("t")
    await apply_plan(control, read_plan(PLANS[name]))
    at_work = plan_of(control)
    assert len(at_work["faults"]) == len(PLANS[name].get("faults", []))
    assert len(at_work["stops"]) == len(PLANS[name].get("stops", []))
    assert at_work["faults"] or at_work["stops"] or PLANS[name]["seeds"]


async def test_a_plan_seeds_states_and_advances_the_clock(rig: Rig, control: Control) -> None:
    rig.topic("t")
    rig.topic("u")
    began_ms = rig.broker.clock.now_ms()
    ids = {"transactional_id": "pay", "producer_epoch": 32_000}
    await apply_plan(
        control, read_plan({"seeds": [{"ids": ids}, {"hanging": {"topic": "?"}}], "clock": {"advance_ms": 60_000}})
    )

    assert rig.broker.transactions.state_of("pay").producer_epoch == 32_000
    assert [rig.broker.topics.log(topic, 0).next_offset for topic in ("t", "u")] == [1, 1]
    assert rig.broker.clock.now_ms() == began_ms + 60_000


SEEDS: dict[str, dict[str, Any]] = {
    "ids": {"transactional_id": "pay", "producer_epoch": 32_000},
    "ids with a producer id": {"transactional_id": "pay", "producer_id": 77, "producer_epoch": 32_766},
    "hanging": {"topic": "t"},
    "next_producer_id": {},
    "next_offset": {"topic": "t", "partition": 1, "offset": 5_000},
    "next_sequence": {"topic": "t", "producer_id": 9, "sequence": 3},
    "coordinator_epoch": {"transactional_id": "pay", "epoch": 7},
}


@pytest.mark.parametrize("name", SEEDS)
async def test_a_plan_of_the_start_does_not_seed_again_after_a_restart(name: str, tmp_path: Path) -> None:
    plan = read_plan({"seeds": [{name.split()[0]: SEEDS[name] or 4_000}]})
    async with running_rig(tmp_path, clock=TestClock()) as rig:
        rig.topic("t", 2)
        empty = state_of(rig)
        await apply_plan(Control(rig.broker), plan, is_start=True)
        assert state_of(rig) != empty
        rig.client().ask(InitProducerIdRequest("pay", 60_000), 4)
        rig.log("t", 1).append_own(bytearray(batch(1)))
    async with running_rig(tmp_path, clock=TestClock()) as rig:
        used = state_of(rig)
        await apply_plan(Control(rig.broker), plan, is_start=True)
        assert state_of(rig) == used


def state_of(rig: Rig) -> Any:
    topics, transactions = rig.broker.topics, rig.broker.transactions
    epochs = [log.leader_epoch for log in topics.internal_topic(TXN_STATE).partitions]
    offsets = [(log.log_start_offset, log.next_offset) for log in topics.get("t").partitions]
    return transactions.state_of("pay"), transactions.producer_ids.next, epochs, offsets


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a topic that is not there": ({"seeds": [{"hanging": {"topic": "none"}}]}, "there is no partition none-0"),
    "no topic at all": ({"seeds": [{"hanging": {"topic": "*"}}]}, "there is no topic '*'"),
    "a node that is not there": ({"nodes": [{"id": 7, "slow_ms": 1}]}, "there is no node 7"),
    "a fault of a node that is not there": (
        {"faults": [{"match": {"node": 7}, "do": {"close": True}}]},
        "there is no node 7",
    ),
    "a stop of a listener that is not there": (
        {"stops": [{"point": "fetch.before", "match": {"listener": "SSL"}}]},
        "there is no listener 'SSL'",
    ),
    "a move to a node that is not there": ({"moves": [{"group": "g", "node": 7}]}, "there is no node 7"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_a_plan_that_this_broker_cannot_apply_changes_nothing(name: str, control: Control) -> None:
    document, reason = REFUSED[name]
    control.injector.add(FAULT)
    before = plan_of(control)

    with pytest.raises(FaultError) as refused:
        await apply_plan(control, read_plan(document))

    assert str(refused.value).startswith(reason)
    assert plan_of(control) == before


async def test_a_plan_that_would_end_a_fork_s_process_changes_nothing(control: Control) -> None:
    host = BrokerHost(control)
    control.injector.add(FAULT)
    _, fork = await host.fork(await host.snapshot())
    before = plan_of(fork.control)
    document = {"faults": [], "stops": [{"point": "txn.PrepareCommit.after", "action": "kill"}]}
    with pytest.raises(FaultError, match="a fork has no process"):
        await apply_plan(fork.control, read_plan(document))
    assert plan_of(fork.control) == before
    await host.remove_forks()


WRONG: dict[str, tuple[Any, str]] = {
    "a node that is true": ({"nodes": [{"id": True, "state": "stopped"}]}, "nodes[0] has no id"),
    "no object": ([], "plan must be an object"),
    "another part": ({"rules": []}, "plan has no rules"),
    "faults that are none": ({"faults": {}}, "plan.faults must be a list"),
    "a fault that cannot be": ({"faults": [FAULT, {}]}, "faults[1]: do must have one verb"),
    "a stop that cannot be": ({"stops": [{"point": "nowhere"}]}, "stops[0]: there is no point 'nowhere'"),
    "a stop at no point": ({"stops": [{}]}, "stops[0] has no point"),
    "too many faults": ({"faults": [FAULT] * 1_001}, "plan.faults has more than 1000 rules"),
    "too many stops": ({"stops": [STOP] * 1_001}, "plan.stops has more than 1000 rules"),
    "a state of no kind": ({"seeds": [{"ids": {}}, {}]}, "seeds[1]: a seed has one part"),
    "a state that cannot be": (
        {"seeds": [{"ids": {"producer_epoch": 32_767}}]},
        "seeds[0]: ids.producer_epoch must be a whole number",
    ),
    "a node without an id": ({"nodes": [{"state": "stopped"}]}, "nodes[0] has no id"),
    "a node that does nothing": ({"nodes": [{"id": 1}]}, "nodes[0]: a node has state and slow_ms"),
    "a move of nothing": ({"moves": [{"node": 1}]}, "moves[0]: move needs one of"),
    "a move to nowhere": ({"moves": [{"topic": "t"}]}, "moves[0]: move.node, the id of a node, is missing"),
    "a clock that goes back": ({"clock": {"advance_ms": -1}}, "clock.advance_ms must be a whole number"),
    "a seed in words": ({"seed": "x"}, "plan.seed must be a whole number"),
    "another clock": ({"clock": {"ms": 1}}, "clock has no ms"),
    "a clock in words": ({"clock": {"paused": "yes"}}, "clock.paused must be true or false"),
}


@pytest.mark.parametrize("name", WRONG)
async def test_an_invalid_plan_is_refused_with_the_location_of_the_mistake(name: str) -> None:
    document, reason = WRONG[name]
    with pytest.raises(FaultError) as refused:
        read_plan(document)
    assert str(refused.value).startswith(reason)


AS_YAML = """
seed: 7
faults:
  - match: {api: EndTxn}
    do: {lose_response: true}
stops:
  - {point: txn.PrepareCommit.after, action: kill, nth: 3}
"""
AS_JSON = {
    "seed": 7,
    "faults": [{"match": {"api": "EndTxn"}, "do": {"lose_response": True}}],
    "stops": [{"point": "txn.PrepareCommit.after", "action": "kill", "nth": 3}],
}

BOMB = "a0: &a0 [1, 1]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
"""YAML in which aliases turn forty lines into 2^40 values."""


def test_a_surrogate_pair_in_yaml_is_one_character_as_in_json(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text('about: "\\ud83d\\ude00"')
    assert read_plan_file(tmp_path / "plan.yaml") == {"about": "\N{GRINNING FACE}"}


@pytest.mark.parametrize(("name", "text"), [("plan.yaml", AS_YAML), ("plan.YML", AS_YAML), ("p", json.dumps(AS_JSON))])
def test_a_plan_in_yaml_is_the_plan_in_json(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    document = read_plan_file(tmp_path / name)

    assert document == AS_JSON
    assert read_plan(document) == read_plan(AS_JSON)


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("plan.json", AS_YAML, "Expecting value"),
        ("plan.yaml", "faults: [", "expected the node content"),
        ("plan.yaml", "!!python/object/apply:os.system ['true']", "could not determine a constructor"),
        ("plan.yaml", "seed: !!int ''", "IndexError: string index out of range"),
        ("plan.yaml", "faults: [{1: 2, a: 3}]", "the name 1 is not a string: put it in quotes"),
        ("plan.yaml", "about: 2026-11-26", "2026-11-26 is not a string, number, true, false or null"),
        ("plan.yaml", 'about: "a\\ud800"', "can't decode bytes"),
        ("plan.json", '{"about": "a\\ud800"}', "surrogates not allowed"),
        ("plan.yaml", "a: &a [1, *a]", "RecursionError|more than 200000 values"),
        ("plan.yaml", BOMB, "more than 200000 values"),
        ("plan.yaml", "seed: 0x" + 6_000 * "F", "a whole number has more than 64 bits"),
        ("plan.yaml", "clock: {<<: {paused: true}}", "the merge key << is not supported"),
    ],
)
def test_a_file_that_is_no_plan_is_refused_in_one_line(name: str, text: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=reason) as refused:
        read_plan_file(tmp_path / name)
    assert "\n" not in str(refused.value)


def test_a_yaml_plan_without_pyyaml_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    (tmp_path / "plan.yaml").write_text(AS_YAML)
    with pytest.raises(ValueError, match=r"pip install 'stuntbroker\[yaml\]', or write JSON"):
        read_plan_file(tmp_path / "plan.yaml")


def test_rules_that_never_fired_are_logged_when_the_broker_ends(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    met = {"match": {"api": "ApiVersions"}, "do": {"delay_ms": 0}}
    unmet = {"match": {"api": "EndTxn"}, "do": {"close": True}}
    plan.write_text(json.dumps({"faults": [met, unmet], "stops": [{"point": "txn.reply"}]}))
    with serving("--control", "--plan", str(plan)) as broker:
        bootstrap = f"127.0.0.1:{broker.address[1]}"
        assert run("topic", "list", "--bootstrap", bootstrap).returncode == 0
        status, _, log = broker.end()
    assert status == 0
    warnings = [line for line in log.splitlines() if "never_fired" in line]
    assert [("fault-2" in line, "EndTxn" in line, "txn.reply" in line) for line in warnings] == [
        (True, True, False),
        (False, False, True),
    ]
