"""Plans against clients of other languages: Kafka's own in Java and franz-go get over what a client must, and nothing is torn.

aiokafka's, confluent-kafka's and our own clients under faults are in tests/control/clients/test_with_clients.py and tests/client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from stuntbroker import run_broker
from stuntbroker.fixture.broker import Broker
from tests.peers.programs.programs import go_program, java_program
from tests.peers.programs.scenarios import Outcomes, run_scenarios

pytestmark = pytest.mark.timeout(600)

PLANS = ("commit-answer-lost", "coordinator-moves-during-commit", "coordinator-loads", "slow-broker")
"""Not bad-network: franz-go gives up when a connection is closed at its first request."""
PROGRAMS: dict[str, Callable[[], list[str]]] = {"java": java_program, "franz-go": go_program}
Run = tuple[Outcomes, dict[str, Broker]]


@pytest.fixture(scope="module", params=PROGRAMS)
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Every scenario under every plan, each plan with a broker of its own, in one run of the program."""
    command = PROGRAMS[request.param]()
    with ExitStack() as stack:
        brokers = {}
        for plan in PLANS:
            brokers[plan] = stack.enter_context(run_broker())
            brokers[plan].apply_plan(plan)
        yield run_scenarios(command, {f"plan-{plan}": each.bootstrap for plan, each in brokers.items()}), brokers


@pytest.mark.parametrize("scenario", ["committed", "aborted", "exactly_once"])
@pytest.mark.parametrize("plan", PLANS)
def test_a_client_gets_over_what_a_plan_has_in_store(plan: str, scenario: str, run: Run) -> None:
    outcomes, _ = run
    outcomes.check(f"plan-{plan}", scenario)


@pytest.mark.parametrize("plan", PLANS)
def test_every_fault_of_a_plan_was_met_and_no_promise_was_broken(plan: str, run: Run) -> None:
    _, brokers = run
    assert [each["id"] for each in brokers[plan].faults.all() if not each["fired"]] == []
    assert brokers[plan].findings() == []
