"""The plans that come with the broker, played to clients of Java, Go, Node and Python: each gets the same answers.

Every client does the same under a plan, with a broker of its own, all at the same time. The clients of this project are under
plans in tests/client.
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
"""Clients with KIP-890."""
NEVER_ASKS_AGAIN = "kafkajs"
"""Sends EndTxn once: an application that is refused begins with another producer. It asks for its first producer id twice."""
GIVES_UP_WITHOUT_A_BROKER = "franz-go"
TRACED = {"InitProducerId", "EndTxn"}
"""What every producer sends alike. AddPartitionsToTxn is not sent with KIP-890."""
Answer = tuple[str, str, str, tuple[str, ...]]
"""Client id, API, what became of the request, and the errors in its answer."""


class Play(NamedTuple):
    """What a client met under a plan."""

    refused: list[str]
    """The calls that the client did not get over."""
    committed: list[str]
    """Values that a read_committed reader gets."""
    trace: list[Answer]
    unmet: list[str]
    """Ids of the plan's faults and stops that nothing met."""
    findings: list[dict[str, str]]


class Player:
    """A client that plays its part, each producer after the other."""

    def __init__(self, client: Client, broker: Broker) -> None:
        self.client, self.broker = client, broker
        self.refused: list[str] = []

    def tries(self, producer: str, verb: str, *arguments: object) -> bool:
        """Whether it works."""
        try:
            self.client.call(producer, verb, *arguments)
        except CallError:
            self.refused.append(f"{producer} {verb}")
            return False
        return True

    def pays(self, producer: str, end: str) -> bool:
        """A transaction over both partitions, and whether its end worked."""
        steps: list[tuple[object, ...]] = [("begin",)]
        steps += [("send", "paid", partition, f"{producer} {partition}") for partition in (0, 1)]
        return all(self.tries(producer, *step) for step in [*steps, (end,)])


def open_and_pay(player: Player, producer: str = "first") -> bool:
    return player.tries(producer, "open", player.broker.bootstrap, "pay-1", 60_000) and player.pays(producer, "commit")


def commit_and_abort(player: Player) -> None:
    """Two transactions of one producer; who cannot end its first one begins with another producer."""
    if open_and_pay(player):
        player.pays("first", "abort")
    else:
        open_and_pay(player, "second")


def until_new_id(player: Player) -> None:
    """As many instances as use up the epochs that the plan leaves them."""
    for number in range(6):
        open_and_pay(player, f"instance-{number}")


def many_times(player: Player) -> None:
    """So many transactions that a fault of one request in twenty is met; who gives up begins with another producer."""
    producer = ""
    is_open = False
    for number in range(30):
        producer = producer if is_open else f"instance-{number}"
        is_open = player.pays(producer, "commit") if is_open else open_and_pay(player, producer)


def through_a_death(player: Player) -> None:
    """The broker's process ends in the middle, and is started again."""

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
    """What is committed cannot be read until an administrator has aborted what hangs in front of it."""
    commit_and_abort(player)
    assert player.broker.values("paid") == [b"first 1"]
    Admin(player.broker.cluster).abort_at("paid", 0, 0)


FIRST, SECOND = (["first 0", "first 1"], ["second 0", "second 1"])


def follow_through_a_rebalance(player: Player) -> None:
    """A member of a group waits for records, and a producer writes them once it has joined for the second time."""
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
"""What the clients do under a plan, when it is not `commit_and_abort`."""
BY_CHANCE_OR_DEATH = {"bad-network", "broker-dies-while-it-commits", "disk-full"}
"""Plans under which the answers depend on how many requests a client needs, or on when it finds the broker again."""
ENDLESS = {"bad-network", "disk-full"}
"""Plans under which how much is committed depends on the client."""
OUTCOMES: Mapping[str, tuple[list[str], list[str]]] = {
    "broker-dies-while-it-commits": ([], FIRST + SECOND),
    "epoch-roll-over": ([], [f"instance-{number} {partition}" for number in range(6) for partition in (0, 1)]),
    "transaction-times-out": (["first commit"], SECOND),
    "zombie-after-a-pause": (["first commit"], SECOND),
}
"""Calls that are refused, and what is committed, when it is not all and `FIRST`."""


@pytest.fixture(scope="module")
def clients() -> Iterator[dict[str, Client]]:
    """Those for which there is a JDK, a Go or a Node.js.

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
        CLIENTS[name]().close()  # Skips with the reason.
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
    """What each client met under the plan."""
    with ThreadPoolExecutor(len(clients)) as pool:
        return dict(zip(clients, pool.map(lambda client: play(plan, client), clients.values()), strict=True))


def comparable(name: str, trace: list[Answer]) -> list[Answer]:
    """Without the second producer id that KafkaJS asks for, and up to where it gives up."""
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
    assert longest_traces[0] == longest_traces[-1]  # Of transaction versions 2 and 1, whose errors differ.


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
