"""Kafka's Java client and franz-go keep transactions atomic on a cluster with a stopped node and moving leaders.

confluent-kafka, aiokafka and our own client are in tests/control/clients/test_nodes_with_clients.py.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

import stuntbroker
from stuntbroker.fixture.broker import Broker
from stuntbroker.fixture.control import ControlClient
from stuntbroker.fixture.nodes import Nodes
from tests.kit.programs.programs import go_program, java_program
from tests.kit.programs.scenarios import Outcomes, run_scenarios

pytestmark = pytest.mark.timeout(600)

PROGRAMS: dict[str, Callable[[], list[str]]] = {"java": java_program, "franz-go": go_program}
CLUSTER = "plan-nodes"
FIRST, STOPPED, THIRD = 1, 2, 3
ROUNDS_MAX = 200
PAUSE_S = 0.1
SCENARIOS = ["committed", "aborted", "exactly_once"]
Run = tuple[Outcomes, Broker]


def wander(nodes: Nodes, client: ControlClient, has_ended: threading.Event) -> None:
    """Move partitions and transaction coordinators between the two running nodes until the program has ended.

    Group coordinators stay: a member that loses its coordinator in a rebalance may have to wait for its session time-out,
    as in Kafka.
    """
    for _ in range(ROUNDS_MAX):
        for topic in client.get("/v1/topics")["topics"]:
            for partition in topic["partitions"] if topic["name"] != "__consumer_offsets" else ():
                other = FIRST if partition["leader"] == THIRD else THIRD
                nodes.move(other, topic=topic["name"], partition=partition["partition"])
        if has_ended.wait(PAUSE_S):
            return


@pytest.fixture(scope="module", params=PROGRAMS)
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    command = PROGRAMS[request.param]()
    few = {"offsets.topic.num.partitions": 5, "transaction.state.log.num.partitions": 5}
    with stuntbroker.broker(few, nodes=3) as broker:
        broker.nodes.stop(STOPPED)
        has_ended = threading.Event()
        client = ControlClient(broker.control_url)  # The thread needs a client of its own.
        wanderer = threading.Thread(target=wander, args=(Nodes(client), client, has_ended))
        wanderer.start()
        try:
            running = ",".join(node.address for node in broker.nodes if node.is_running)
            outcomes = run_scenarios(command, {CLUSTER: running})
        finally:
            has_ended.set()
            wanderer.join()
            client.close()
        yield outcomes, broker


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_client_completes_its_scenario_while_leaders_and_coordinators_move(scenario: str, run: Run) -> None:
    run[0].check(CLUSTER, scenario)


def test_no_promise_was_broken_by_any_of_the_moves(run: Run) -> None:
    _, broker = run

    assert broker.findings() == []
    assert "request_crashed" not in broker.log
