"""Kafka's own client in Java and franz-go, of a cluster whose nodes stop in turn and whose leaders move: nothing is torn.

confluent-kafka, aiokafka and our own client are in tests/control/test_nodes_with_clients.py.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from stuntbroker import run_broker
from stuntbroker.fixture.broker import Broker
from stuntbroker.fixture.nodes import Nodes
from tests.peers.programs import go_program, java_program
from tests.peers.scenarios import Outcomes, run_scenarios

pytestmark = pytest.mark.timeout(600)

PROGRAMS: dict[str, Callable[[], list[str]]] = {"java": java_program, "franz-go": go_program}
CLUSTER = "plan-nodes"
ROUNDS_MAX = 60
PAUSE_S = 0.1
SCENARIOS = ["committed", "aborted", "exactly_once"]
Run = tuple[Outcomes, Broker]


def wander(nodes: Nodes, has_ended: threading.Event) -> None:
    """Stop each node in turn and start it again, and give back what it led: never two at once, until the program has ended."""
    for number in range(ROUNDS_MAX):
        node = number % 3 + 1
        nodes.stop(node)
        has_ended.wait(PAUSE_S)
        nodes.start(node)
        for topic in nodes._client.get("/v1/topics")["topics"]:
            for partition in topic["partitions"]:
                if partition["replicas"][0] == node:
                    nodes.move(node, topic=topic["name"], partition=partition["partition"])
        if has_ended.wait(PAUSE_S):
            return


@pytest.fixture(scope="module", params=PROGRAMS)
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    command = PROGRAMS[request.param]()
    few = {"offsets.topic.num.partitions": 5, "transaction.state.log.num.partitions": 5}
    with run_broker(few, nodes=3) as broker:
        has_ended = threading.Event()
        wanderer = threading.Thread(target=wander, args=(Nodes(broker.control), has_ended))
        wanderer.start()
        try:
            outcomes = run_scenarios(command, {CLUSTER: broker.bootstrap})
        finally:
            has_ended.set()
            wanderer.join()
        yield outcomes, broker


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_client_finds_its_way_while_nodes_stop_and_leaders_move(scenario: str, run: Run) -> None:
    run[0].check(CLUSTER, scenario)


def test_no_promise_was_broken_by_any_of_the_moves(run: Run) -> None:
    _, broker = run

    assert broker.findings() == []
    assert "request_crashed" not in broker.log
