"""Clients of Java, Go, Node and Python get the same responses under each plan of faults that comes with the broker.

All clients make the same calls under a plan, each on its own broker, at the same time. Tests in tests/client run this
project's own clients under plans.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest

import stuntbroker
from stuntbroker.client.commands.admin import Admin
from stuntbroker.control.plan import PLANS
from stuntbroker.fixture.broker import Broker
from tests.kit.programs.by_command import CALL_S_MAX, AioKafka, CallError, Client, ConfluentKafka, Program
from tests.kit.programs.programs import go_program, java_program, node_program

pytestmark = pytest.mark.timeout(600)

CLIENTS: dict[str, Callable[[], Client]] = {
    "java": lambda: Program(java_program()),
    "franz-go": lambda: Program(go_program()),
    "kafkajs": lambda: Program(node_program()),
    "confluent-kafka": ConfluentKafka,
    "aiokafka": AioKafka,
}
SPEAKS_VERSION_2 = {"java", "franz-go"}
"""Clients that implement KIP-890."""
NEVER_ASKS_AGAIN = "kafkajs"
"""Never retries EndTxn, so the application needs a new producer after an error. It sends its first InitProducerId twice."""
GIVES_UP_WITHOUT_A_BROKER = "franz-go"
TRACED = {"InitProducerId", "EndTxn"}
"""APIs that all producers use alike; producers with KIP-890 do not send AddPartitionsToTxn."""
Answer = tuple[str, str, str, tuple[str, ...]]
"""Client id, API, state of the request, and the errors in its response."""


class Play(NamedTuple):
    """The results of a client under a plan."""

    refused: list[str]
    """Calls that failed for the application."""
    committed: list[str]
    """Values that a read_committed reader gets."""
    trace: list[Answer]
    unmet: list[str]
    """Ids of the plan's faults and stops that did not fire."""
    findings: list[dict[str, str]]


class Player:
    """Makes a client's calls under a plan, with one producer after the other."""

    def __init__(self, client: Client, broker: Broker) -> None:
        self.client, self.broker = client, broker
        self.refused: list[str] = []

    def tries(self, producer: str, verb: str, *arguments: object) -> bool:
        """Make a call; return whether it succeeds."""
        try:
            self.client.call(producer, verb, *arguments)
        except CallError:
            self.refused.append(f"{producer} {verb}")
            return False
        return True

    def pays(self, producer: str, end: str) -> bool:
        """Run a transaction in both partitions; return whether all its calls succeed."""
        steps: list[tuple[object, ...]] = [("begin",)]
        steps += [("send", "paid", partition, f"{producer} {partition}") for partition in (0, 1)]
        return all(self.tries(producer, *step) for step in [*steps, (end,)])


def open_and_pay(player: Player, producer: str = "first") -> bool:
    return player.tries(producer, "open", player.broker.bootstrap, "pay-1", 60_000) and player.pays(producer, "commit")


def commit_and_abort(player: Player) -> None:
    """Commit and abort a transaction with one producer; if the first transaction fails, commit with a second producer."""
    if open_and_pay(player):
        player.pays("first", "abort")
    else:
        open_and_pay(player, "second")


def until_new_id(player: Player) -> None:
    """Start enough producer instances to use up the epochs that the plan leaves."""
    for number in range(6):
        open_and_pay(player, f"instance-{number}")


def many_times(player: Player) -> None:
    """Run enough transactions to meet a fault in one of twenty requests; after a failure, continue with a new producer."""
    producer = ""
    is_open = False
    for number in range(30):
        producer = producer if is_open else f"instance-{number}"
        is_open = player.pays(producer, "commit") if is_open else open_and_pay(player, producer)


def through_a_death(player: Player) -> None:
    """Commit transactions until the broker's process ends, and start it again."""

    has_died = threading.Event()

    def commits() -> None:
        player.tries("first", "open", player.broker.bootstrap, "pay-1", 60_000)
        while not has_died.is_set() and player.pays("first", "commit"):
            pass

    with ThreadPoolExecutor(1) as pool:
        committing = pool.submit(commits)
        player.broker.wait_until(lambda: not player.broker.is_running)
        has_died.set()
        player.broker.restart()
        committing.result()
    open_and_pay(player, "second")


def before_a_hanging_one(player: Player) -> None:
    """Committed records cannot be read until an administrator aborts the hanging transaction before them."""
    commit_and_abort(player)
    assert player.broker.values("paid") == [b"first 1"]
    Admin(player.broker.cluster).abort_at("paid", 0, 0)


FIRST, SECOND = (["first 0", "first 1"], ["second 0", "second 1"])


def follow_through_a_rebalance(player: Player) -> None:
    """A group member waits for records, which a producer writes after the member has joined a second time."""
    following = player.client.start("member", "follow", player.broker.bootstrap, "paid", 2)
    player.broker.wait_until(lambda: player.broker.faults.all()[0]["fired"] == 1)
    player.broker.control.post("/v1/wait", {"until": {"group": "member", "generation": 2, "state": "Stable"}})
    commit_and_abort(player)
    assert sorted(following.result(CALL_S_MAX)) == FIRST


ROLES: Mapping[str, Callable[[Player], None]] = {
    "bad-network": many_times,
    "broker-dies-while-it-commits": through_a_death,
    "disk-full": through_a_death,
    "epoch-roll-over": until_new_id,
    "hanging-transaction": before_a_hanging_one,
    "rebalance-during-transaction": follow_through_a_rebalance,
}
"""Plan -> what the clients do under it; the default is `commit_and_abort`."""
BY_CHANCE_OR_DEATH = {"bad-network", "broker-dies-while-it-commits", "disk-full"}
"""Plans whose responses depend on how many requests a client sends, or on when it reconnects."""
ENDLESS = {"bad-network", "disk-full"}
"""Plans under which the number of committed records depends on the client."""
OUTCOMES: Mapping[str, tuple[list[str], list[str]]] = {
    "broker-dies-while-it-commits": ([], FIRST + SECOND),
    "epoch-roll-over": ([], [f"instance-{number} {partition}" for number in range(6) for partition in (0, 1)]),
    "transaction-times-out": (["first commit"], SECOND),
    "zombie-after-a-pause": (["first commit"], SECOND),
}
"""Plan -> failed calls and committed values; by default, no call fails and `FIRST` is committed."""


@pytest.fixture(scope="module")
def clients() -> Iterator[dict[str, Client]]:
    """Yield the clients whose JDK, Go or Node.js is installed.

    test_a_client_program_runs_or_is_skipped_with_the_reason reports the others.
    """
    with contextlib.ExitStack() as stack:
        running = {}
        for name, start in CLIENTS.items():
            with contextlib.suppress(pytest.skip.Exception):
                running[name] = stack.enter_context(contextlib.closing(start()))
        yield running


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_program_runs_or_is_skipped_with_the_reason(name: str, clients: dict[str, Client]) -> None:
    if name not in clients:
        CLIENTS[name]().close()  # This skips the test, with the reason.
    assert name in clients


def play(plan: str, client: Client) -> Play:
    with stuntbroker.broker(topics={"paid": 2}) as broker:
        broker.apply_plan(plan)
        player = Player(client, broker)
        ROLES.get(plan, commit_and_abort)(player)
        trace = [
            ("member" if each.api == "Heartbeat" else each.client_id, each.api, each.state, tuple(each.errors))
            for each in broker.requests(limit=1_000)
            if each.api in TRACED or (each.api == "Heartbeat" and each.fault)
        ]
        unmet = [each["id"] for each in [*broker.faults.all(), *broker.stops.all()] if not each["fired"]]
        committed = sorted((value or b"").decode() for value in broker.values("paid"))
        broker.faults.clear()
        broker.stops.clear()
        client.close_producers()
        return Play(player.refused, committed, trace, unmet, broker.findings())


@pytest.fixture(scope="module", params=sorted(PLANS))
def plan(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def plays(plan: str, clients: dict[str, Client]) -> dict[str, Play]:
    """Return the results of each client under the plan."""
    with ThreadPoolExecutor(len(clients)) as pool:
        return dict(zip(clients, pool.map(lambda client: play(plan, client), clients.values()), strict=True))


def comparable(name: str, trace: list[Answer]) -> list[Answer]:
    """Return the trace, for KafkaJS without its second InitProducerId and only up to its first failed EndTxn."""
    if name != NEVER_ASKS_AGAIN:
        return trace
    compared: list[Answer] = []
    for answer in trace:
        _, api, state, errors = answer
        if api == "InitProducerId" and not errors and compared and compared[-1] == answer:
            continue
        compared.append(answer)
        if api == "EndTxn" and (errors or state != "answered"):
            break
    return compared


@pytest.mark.parametrize("plan", sorted(PLANS.keys() - BY_CHANCE_OR_DEATH), indirect=True, scope="module")
def test_every_client_is_answered_the_same(plan: str, plays: dict[str, Play]) -> None:
    traces = {name: comparable(name, each.trace) for name, each in plays.items()}
    longest_traces = []
    for family in (plays.keys() & SPEAKS_VERSION_2, plays.keys() - SPEAKS_VERSION_2):
        longest = max((traces[name] for name in family), key=len, default=[])
        if longest:
            longest_traces.append([(client_id, api, state, bool(errors)) for client_id, api, state, errors in longest])
        for name in family:
            assert traces[name] == longest[: len(traces[name])], name
            assert name == NEVER_ASKS_AGAIN or len(traces[name]) == len(longest), name
    assert longest_traces[0] == longest_traces[-1]  # Transaction versions 2 and 1 differ only in their error codes.


@pytest.mark.parametrize("plan", sorted(PLANS.keys() - ENDLESS), indirect=True, scope="module")
def test_an_application_gets_only_the_errors_that_its_plan_causes(plan: str, plays: dict[str, Play]) -> None:
    refused, committed = OUTCOMES.get(plan, ([], FIRST))
    for name, each in plays.items():
        if name == NEVER_ASKS_AGAIN or (name == GIVES_UP_WITHOUT_A_BROKER and plan == "broker-dies-while-it-commits"):
            assert set(each.refused) - set(refused) <= {"first commit", "second commit"}, name
        else:
            assert (each.refused, each.committed) == (refused, committed), name


def test_transactions_stay_atomic_and_every_fault_and_stop_of_a_plan_fires(plan: str, plays: dict[str, Play]) -> None:
    for name, each in plays.items():
        halves = [[value.removesuffix(end) for value in each.committed if value.endswith(end)] for end in (" 0", " 1")]
        assert halves[0] == halves[1], name
        assert each.findings == [], name
        assert each.unmet == [], name


@pytest.mark.parametrize("plan", ["bad-network"], indirect=True, scope="module")
def test_every_client_commits_over_a_bad_network(plan: str, plays: dict[str, Play]) -> None:
    assert all(each.committed for each in plays.values())
