"""Control of nodes in a test: over HTTP, with the `ctl` command and with the `Broker` object."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

import stuntbroker
from stuntbroker.cli.main import run
from stuntbroker.control.clock import TestClock
from stuntbroker.control.control import Control
from stuntbroker.control.nodes import change_node
from stuntbroker.fixture.broker import Broker
from stuntbroker.fixture.control import ControlError
from tests.kit.rig import running_rig


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with stuntbroker.broker({"broker.rack": "a,b"}, topics={"orders": 3, "readers": 1}, nodes=3) as running:
        yield running


@pytest.fixture(autouse=True)
def undone(broker: Broker) -> Iterator[None]:
    yield
    broker.nodes.undo()
    broker.faults.clear()


def refusal(broker: Broker, path: str, body: object) -> tuple[int, str]:
    with pytest.raises(ControlError) as raised:
        broker.control.post(path, body)
    return raised.value.status, str(raised.value)


def test_the_ready_line_and_the_list_have_every_node(broker: Broker) -> None:
    nodes = broker.nodes.all()

    assert [(node.id, node.is_running, node.rack) for node in nodes] == [(1, True, "a"), (2, True, "b"), (3, True, "a")]
    assert broker.bootstrap == ",".join(node.address for node in nodes)
    ports = [int(node.address.rpartition(":")[2]) for node in nodes]
    assert ports == list(range(ports[0], ports[0] + 3))
    assert [node.leads["orders"] for node in nodes] == [1, 1, 1]


def test_requests_and_clients_are_shown_with_their_listener_and_node(broker: Broker) -> None:
    leader = broker.nodes.leader("orders", 1)
    broker.produce("orders", "for its leader", partition=1)

    produced = [each for each in broker.requests() if each.api == "Produce"][-1]
    assert (produced.listener, produced.node) == ("PLAINTEXT", leader)
    assert ("PLAINTEXT", leader) in {
        (each["listener"], each["node"]) for each in broker.control.get("/v1/clients")["clients"]
    }


def test_a_node_is_stopped_and_started(broker: Broker) -> None:
    broker.nodes.stop(2)
    broker.nodes.stop(2)  # It is stopped already.

    assert [node.id for node in broker.nodes if not node.is_running] == [2]
    assert broker.nodes.leader("orders", 1) == 3
    assert [each["in_sync"] for each in topic_of(broker, "orders")] == [[1, 3], [3, 1], [3, 1]]

    broker.nodes.start(2)

    assert [node.is_running for node in broker.nodes] == [True] * 3
    assert broker.nodes.move(2, topic="orders", partition=1) == 2


def topic_of(broker: Broker, name: str) -> list[dict[str, object]]:
    (topic,) = [each for each in broker.control.get("/v1/topics")["topics"] if each["name"] == name]
    partitions: list[dict[str, object]] = topic["partitions"]
    return partitions


def test_a_plan_stops_and_slows_nodes_and_moves_what_they_lead(broker: Broker) -> None:
    moves = [{"topic": "readers", "node": 3}, {"transactional_id": "pay", "node": 3}]
    broker.apply_plan({"nodes": [{"id": 2, "state": "stopped"}, {"id": 3, "slow_ms": 1}], "moves": moves})
    at_work = broker.control.get("/v1/plan")
    assert at_work["faults"] == []
    assert at_work["nodes"] == [
        {"id": 2, "state": "stopped", "slow_ms": 0},
        {"id": 3, "state": "running", "slow_ms": 1},
    ]

    assert [(node.id, node.is_running, node.slow_ms) for node in broker.nodes] == [
        (1, True, 0),
        (2, False, 0),
        (3, True, 1),
    ]
    assert broker.nodes.leader("readers", 0) == 3
    assert refusal(broker, "/v1/move", {"topic": "readers", "node": 2})[0] == 409
    with pytest.raises(ControlError, match="node 2 is stopped"):
        broker.apply_plan({"moves": [{"topic": "readers", "node": 2}]})


def test_a_restart_starts_every_node_and_keeps_leaders(broker: Broker) -> None:
    epoch = broker.nodes.move(3, topic="readers")
    broker.nodes.stop(1)
    before = broker.bootstrap

    broker.restart(kill=True)

    assert broker.bootstrap == before
    assert [node.is_running for node in broker.nodes] == [True] * 3
    assert (broker.nodes.leader("readers"), topic_of(broker, "readers")[0]["leader_epoch"]) == (3, epoch)


def test_a_copy_has_the_nodes_and_leaders_of_its_original(broker: Broker) -> None:
    broker.nodes.move(2, topic="orders", partition=0)
    fork = broker.fork()

    assert [node.is_running for node in fork.nodes] == [True] * 3
    assert {node.address for node in fork.nodes}.isdisjoint({node.address for node in broker.nodes})
    assert fork.nodes.leader("orders", 0) == 2
    fork.nodes.stop(2)
    assert broker.nodes.leader("orders", 0) == 2
    broker.remove_fork(next(iter(broker._forks)))


def test_a_slow_node_is_listed_as_a_delay_fault(broker: Broker) -> None:
    broker.nodes.slow(2, ms=50)
    broker.nodes.slow(2, ms=70)

    assert [node.slow_ms for node in broker.nodes] == [0, 70, 0]
    assert [(each["match"], each["do"]) for each in broker.faults.all()] == [({"node": 2}, {"delay_ms": 70})]
    broker.nodes.slow(2, ms=0)
    assert broker.faults.all() == []


def test_other_faults_still_fire_on_a_slow_node(broker: Broker) -> None:
    before = broker.faults.add("Metadata", close=True, times=1)
    for node in broker.nodes:
        broker.nodes.slow(node.id, ms=1)
    after = broker.faults.add("InitProducerId", error="CONCURRENT_TRANSACTIONS", times=1)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap, "transactional.id": "slow", "log_level": 0}
    )
    producer.init_transactions(10)

    assert (before.fired, after.fired) == (1, 1)


@pytest.mark.parametrize(
    "path, body, status, text",
    [
        ("/v1/nodes/9", {"state": "stopped"}, 404, "there is no node 9; there are 1, 2, 3"),
        ("/v1/nodes/x", {"state": "stopped"}, 404, "there is no node x"),
        ("/v1/nodes/2", {}, 400, "a node has state and slow_ms"),
        ("/v1/nodes/2", {"state": "off"}, 400, "a node has state and slow_ms"),
        ("/v1/nodes/2", {"slow_ms": -1}, 400, "node.slow_ms must be a whole number"),
        ("/v1/nodes/2", {"speed": 1}, 400, "node has no speed"),
        ("/v1/move", {"topic": "orders"}, 400, "move.node, the id of a node, is missing"),
        ("/v1/move", {"node": 2}, 400, "move needs one of"),
        ("/v1/move", {"topic": "orders", "group": "g", "node": 2}, 400, "move needs one of"),
        ("/v1/move", {"group": "g", "partition": 1, "node": 2}, 400, "move needs one of"),
        ("/v1/move", {"topic": "orders", "partition": 3, "node": 2}, 404, "there is no partition orders-3"),
        ("/v1/move", {"topic": "none", "node": 2}, 404, "there is no partition none-0"),
        ("/v1/move", {"topic": "orders", "node": 7}, 404, "there is no node 7"),
        ("/v1/move", {"topic": "orders", "node": 2, "load_ms": 5}, 400, "move.load_ms applies to coordinators only"),
        ("/v1/move", {"topic": 5, "node": 2}, 400, "move.topic must be a text"),
    ],
)
def test_invalid_requests_for_nodes_are_refused_with_a_reason(
    path: str, body: object, status: int, text: str, broker: Broker
) -> None:
    actual = refusal(broker, path, body)

    assert actual[0] == status
    assert text in actual[1]


def test_nothing_moves_to_a_node_that_is_stopped(broker: Broker) -> None:
    broker.nodes.stop(3)

    assert refusal(broker, "/v1/move", {"group": "g", "node": 3})[0] == 409


def test_ctl_controls_nodes_and_coordinators(
    broker: Broker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STUNTBROKER_CONTROL_URL", broker.control_url)

    assert run(["ctl", "node", "3", "stopped"]) == 0
    assert run(["ctl", "nodes"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in shown[-3:]] == [["1", "running"], ["2", "running"], ["3", "stopped"]]
    assert run(["ctl", "node", "3", '{"state": "running"}', "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["nodes"][0]["state"] == "running"
    assert run(["ctl", "move", '{"transactional_id": "pay", "node": 3}']) == 0
    assert capsys.readouterr().out.startswith("node 3 leads __transaction_state-")
    assert run(["ctl", "move", '{"topic": "none", "node": 3}']) == 1
    assert "there is no partition none-0" in capsys.readouterr().err


def test_a_fault_can_be_limited_to_a_node(broker: Broker) -> None:
    fault = broker.faults.add("ApiVersions", node=2, delay_ms=1, client_id="stuntbroker-fixture")
    counts = []
    for node in broker.nodes:
        assert Broker(None, node.address).is_running
        counts.append(fault.fired)

    assert counts == [0, 1, 1]


def test_a_coordinator_epoch_can_be_seeded_and_markers_of_older_epochs_are_refused(broker: Broker) -> None:

    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "old"})
    producer.init_transactions(10)
    shown = broker.seed(coordinator_epoch={"transactional_id": "old", "epoch": 7_000})
    assert shown["epoch"] == 7_000
    for value in (b"1", b"2"):
        producer.begin_transaction()
        producer.produce("orders", value, partition=0)
        producer.commit_transaction(10)

    assert [each.end for each in broker.outcomes(["orders"])] == ["committed", "committed"]
    errors = broker.deliver_late("WriteTxnMarkers", "old", topic="orders", partition=0)
    assert errors == ["TRANSACTION_COORDINATOR_FENCED"]
    fence = broker.fences()[-1]
    assert (fence["cause"], fence["request"], fence["transactional_id"]) == (
        "coordinator_move",
        "WriteTxnMarkers",
        "old",
    )
    errors = broker.deliver_late("WriteTxnMarkers", "old", topic="orders", partition=0, coordinator_epoch=7_001)
    assert errors == [] and broker.fences()[-1] == fence
    with pytest.raises(ControlError, match="epoch must be a whole number from 7001"):
        broker.seed(coordinator_epoch={"transactional_id": "old", "epoch": 7_000})


async def test_starting_a_node_twice_at_the_same_time_starts_it_once(tmp_path: Path) -> None:
    async with running_rig(tmp_path, {"stuntbroker.nodes": "2"}, clock=TestClock()) as rig:
        control = Control(rig.broker)
        node = rig.broker.nodes.by_id[2]
        await change_node(control, node, {"state": "stopped"})
        await asyncio.gather(*(change_node(control, node, {"state": "running"}) for _ in range(2)))
        assert node.is_up and node.id not in rig.broker.closed_nodes


def test_undo_starts_the_nodes_that_a_plan_has_stopped(broker: Broker) -> None:
    broker.apply_plan({"nodes": [{"id": 2, "state": "stopped"}, {"id": 3, "slow_ms": 1}]})
    broker.undo()
    assert [(node.is_running, node.slow_ms) for node in broker.nodes] == [(True, 0)] * 3
