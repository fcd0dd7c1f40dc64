"""What a test can do to a broker, with clients of four languages: time, faults, stops, late requests, seeds, nodes, copies.

Each test is one row of docs/control.md, and runs with each client. What differs between the clients is a table of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from stuntbroker import run_broker
from stuntbroker.client.admin import Admin
from stuntbroker.fixture.broker import Broker
from stuntbroker.fixture.control import transaction
from tests.peers.programs.by_command import CALL_S_MAX, AioKafka, CallError, Client, ConfluentKafka, Program
from tests.peers.programs.programs import go_program, java_program

CLIENTS: dict[str, Callable[[], Client]] = {
    "java": lambda: Program(java_program()),
    "franz-go": lambda: Program(go_program()),
    "confluent-kafka": ConfluentKafka,
    "aiokafka": AioKafka,
}
SPEAKS_VERSION_2 = {"java", "franz-go"}
"""Clients with KIP-890: their epoch rises with each transaction."""
GIVES_UP_WITHOUT_A_BROKER = {"franz-go"}
"""Clients whose commit fails when nobody listens, and that ask for an abort then, whatever the outcome was."""
WITHOUT_GENERATIONS = {"aiokafka"}
"""Clients that send the offsets of any generation, as before KIP-447: nothing fences them but the transactional id."""
MINUTE_MS = 60_000


@pytest.fixture(scope="module", params=CLIENTS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def clients(name: str) -> Iterator[Client]:
    running = CLIENTS[name]()
    yield running
    running.close()


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    options = {"properties": {}, "nodes": 1, **getattr(request, "param", {})}
    with run_broker(options["properties"], topics={"paid": 2}, nodes=options["nodes"]) as running:
        yield running
        assert "request_crashed" not in running.log


@pytest.fixture
def client(clients: Client, broker: Broker) -> Iterator[Client]:
    """Whose producers are closed before their broker."""
    yield clients
    broker.faults.clear()
    broker.stops.clear()
    clients.close_producers()


class Payer:
    """One producer of a client, and what it does most of the time."""

    def __init__(self, client: Client, broker: Broker, name: str = "payer", transactional_id: str = "pay-1") -> None:
        self.client, self.name = client, name
        client.call(name, "open", broker.bootstrap, transactional_id, MINUTE_MS)

    def does(self, verb: str, *arguments: object) -> None:
        self.client.call(self.name, verb, *arguments)

    def pays(self, *partitions: int) -> None:
        """Begin a transaction with a record in each of these partitions."""
        self.does("begin")
        for partition in partitions:
            self.does("send", "paid", partition, str(partition))

    def is_refused(self, verb: str, *arguments: object) -> str:
        with pytest.raises(CallError) as refused:
            self.does(verb, *arguments)
        return str(refused.value)


def values(broker: Broker) -> list[bytes | None]:
    return sorted(broker.values("paid"), key=str)


BOTH = [b"0", b"1"]


# --- time


def test_a_transaction_times_out_while_its_client_sleeps(name: str, client: Client, broker: Broker) -> None:
    payer = Payer(client, broker)
    payer.pays(0, 1)

    broker.clock.advance(ms=MINUTE_MS + 1_000)

    payer.is_refused("commit")
    fence = broker.fences()[-1]
    assert (fence["cause"], fence["client_id"]) == ("timeout", "payer")
    if name in SPEAKS_VERSION_2:  # KIP-890: to commit what was aborted is an error of its own.
        assert "INVALID_TXN_STATE" in {error for each in broker.requests() for error in each.errors}
    assert values(broker) == []


def test_while_time_stands_still_a_transaction_stays_open(client: Client, broker: Broker) -> None:
    broker.clock.pause()
    payer = Payer(client, broker)
    payer.pays(0, 1)

    broker.clock.advance(ms=MINUTE_MS - 1)
    payer.does("commit")

    assert values(broker) == BOTH


# --- faults

GOT_OVER = {
    "a coordinator that is not there": {"error": "COORDINATOR_NOT_AVAILABLE", "times": 2},
    "another coordinator": {"error": "NOT_COORDINATOR", "times": 1},
    "a slow answer": {"delay_ms": 50, "times": 1},
    "a throttle": {"throttle_ms": 50, "times": 1},
    "no answer": {"no_answer": True, "times": 1},
    "a closed connection": {"close": True, "times": 1},
    "a lost answer": {"lose_answer": True, "times": 1},
    "a request that comes twice": {"duplicate": True, "times": 1},
}
"""Faults of a commit of which an application hears nothing."""


@pytest.mark.parametrize("fault", GOT_OVER)
def test_a_client_gets_over_a_fault_of_its_commit(fault: str, client: Client, broker: Broker) -> None:
    payer = Payer(client, broker)
    payer.pays(0, 1)
    rule = broker.faults.add("EndTxn", transactional_id="pay-*", **GOT_OVER[fault])

    payer.does("commit")

    assert rule.fired == GOT_OVER[fault]["times"]
    assert values(broker) == BOTH
    payer.pays(0)
    payer.does("abort")
    assert values(broker) == BOTH


ON_THE_WAY = {
    "an answer of Produce is lost": ("Produce", {"lose_answer": True}),
    "Produce comes twice": ("Produce", {"duplicate": True}),
    "the coordinator loads": ("InitProducerId", {"error": "COORDINATOR_LOAD_IN_PROGRESS"}),
    "the answer with the producer id is slow": ("InitProducerId", {"delay_ms": 50}),
}
"""Faults of the requests before a commit of which an application hears nothing."""


@pytest.mark.parametrize("fault", ON_THE_WAY)
def test_a_client_gets_over_a_fault_on_the_way_to_its_commit(fault: str, client: Client, broker: Broker) -> None:
    api, verb = ON_THE_WAY[fault]
    rule = broker.faults.add(api, times=1, **verb)
    payer = Payer(client, broker)
    payer.pays(0, 1)
    payer.does("commit")

    assert rule.fired == 1
    assert values(broker) == BOTH
    assert broker.findings() == []


def test_a_client_is_given_a_producer_id_that_no_coordinator_knows(client: Client, broker: Broker) -> None:
    broker.faults.add("InitProducerId", answer_only=True, times=1)
    payer = Payer(client, broker)
    payer.does("begin")

    payer.is_refused("send", "paid", 0, "0")

    assert {"INVALID_PRODUCER_ID_MAPPING"} <= {error for each in broker.requests() for error in each.errors}
    assert values(broker) == []


END_TXN_VERSIONS = {"2.1": 1, "2.5": 1, "2.8": 3, "3.9": 4, "4.3": 5}
"""Personality -> the highest version of EndTxn that it has."""


@pytest.mark.parametrize(
    ("broker", "version"),
    [({"properties": {"stuntbroker.personality": name}}, version) for name, version in END_TXN_VERSIONS.items()],
    indirect=["broker"],
    ids=list(END_TXN_VERSIONS),
)
def test_a_commit_whose_answer_is_lost_is_made_once_on_every_version(
    version: int, name: str, client: Client, broker: Broker
) -> None:
    payer = Payer(client, broker)
    payer.pays(0, 1)
    lost = broker.faults.add("EndTxn", lose_answer=True, times=1)

    payer.does("commit")

    assert lost.fired == 1
    assert values(broker) == BOTH
    versions = [each.version for each in broker.requests() if each.api == "EndTxn"]
    assert versions == [version if name in SPEAKS_VERSION_2 else versions[0]] * 2


def test_a_client_believes_an_answer_to_what_was_not_carried_out(client: Client, broker: Broker) -> None:
    payer = Payer(client, broker)
    payer.pays(0, 1)
    broker.faults.add("EndTxn", answer_only=True, times=1)

    payer.does("commit")

    assert values(broker) == []
    assert transaction(broker.control, "pay-1")["phase"] == "Ongoing"


def test_a_commit_is_held_for_as_long_as_the_test_wants(client: Client, broker: Broker) -> None:
    payer = Payer(client, broker)
    payer.pays(0, 1)
    held = broker.faults.add("EndTxn", hold=True, times=1)

    commit = client.start("payer", "commit")
    broker.wait_until(lambda: held.held == 1)
    assert values(broker) == [] and not commit.done()
    held.release()

    commit.result()
    assert values(broker) == BOTH


def test_two_commits_arrive_in_the_other_order(client: Client, broker: Broker) -> None:
    first, second = Payer(client, broker, "first", "pay-1"), Payer(client, broker, "second", "pay-2")
    first.pays(0)
    second.pays(0)
    swapped = broker.faults.add("EndTxn", reorder=True, times=1)

    earlier = client.start("first", "commit")
    broker.wait_until(lambda: swapped.fired == 1)
    later = client.start("second", "commit")

    earlier.result()
    later.result()
    by_marker = [each.first_offset for each in broker.outcomes(["paid"])]
    assert by_marker == [1, 0]


def test_a_commit_fails_whose_answer_is_corrupt_and_has_committed(client: Client, broker: Broker) -> None:
    payer = Payer(client, broker)
    payer.pays(0, 1)
    corrupt = broker.faults.add("EndTxn", corrupt=True, times=1)

    payer.is_refused("commit")

    assert corrupt.fired == 1
    assert values(broker) == BOTH
    assert broker.findings() == []


# --- stops


def test_a_commit_stands_between_its_markers(client: Client, broker: Broker) -> None:
    payer = Payer(client, broker)
    payer.pays(0, 1)
    stop = broker.stops.park("txn.marker.after", transactional_id="pay-*")

    commit = client.start("payer", "commit")
    stop.wait()
    assert len(values(broker)) == 1
    stop.release()

    commit.result()
    assert values(broker) == BOTH


@pytest.mark.parametrize("point", ["txn.PrepareCommit.before", "txn.PrepareCommit.after", "txn.marker.after"])
def test_a_transaction_is_whole_whatever_its_broker_dies_at(
    point: str, name: str, client: Client, broker: Broker
) -> None:
    payer = Payer(client, broker)
    payer.pays(0, 1)
    broker.stops.kill(point)

    commit = client.start("payer", "commit")
    broker.wait_until(lambda: not broker.is_running)
    broker.restart()

    is_committed = True
    try:
        commit.result()
    except CallError:
        assert name in GIVES_UP_WITHOUT_A_BROKER
        payer.does("abort")
        is_committed = point != "txn.PrepareCommit.before"
    assert values(broker) == (BOTH if is_committed else [])
    payer.pays(0)
    payer.does("commit")


def test_a_client_gets_over_a_disk_that_refuses_the_commit(client: Client, broker: Broker) -> None:
    payer = Payer(client, broker)
    payer.pays(0, 1)
    stop = broker.stops.fail("txn.PrepareCommit.before")

    payer.does("commit")

    assert stop.fired == 1
    assert values(broker) == BOTH


# --- late requests


def test_a_late_commit_tears_the_next_transaction_unless_its_client_speaks_version_2(
    name: str, client: Client, broker: Broker
) -> None:
    payer = Payer(client, broker)
    payer.pays(0)
    payer.does("commit")
    payer.pays(0)

    errors = broker.deliver_late("EndTxn", "pay-1")

    if name in SPEAKS_VERSION_2:
        assert errors == ["PRODUCER_FENCED"]
        assert broker.values("paid") == [b"0"]
        payer.does("abort")
        assert broker.values("paid") == [b"0"]
    else:
        assert errors == []
        assert broker.values("paid") == [b"0", b"0"]
        payer.does("send", "paid", 1, "1")
        payer.does("abort")
        assert broker.values("paid") == [b"0", b"0"]  # Half of a transaction that was aborted.


# --- what there is, and why a producer was fenced


def test_a_second_instance_fences_the_first_and_the_broker_knows_who(client: Client, broker: Broker) -> None:
    first = Payer(client, broker, "first")
    first.pays(0)

    second = Payer(client, broker, "second")
    first.is_refused("commit")

    fence = broker.fences()[-1]
    assert (fence["cause"], fence["client_id"], fence["by_client_id"]) == ("newer_instance", "first", "second")
    second.pays(1)
    second.does("commit")
    assert broker.values("paid") == [b"1"]


def test_an_open_transaction_is_shown_with_its_client_and_what_it_holds_back(client: Client, broker: Broker) -> None:
    payer = Payer(client, broker)
    payer.pays(0)

    shown = transaction(broker.control, "pay-1")
    assert (shown["phase"], [each["topic"] for each in shown["partitions"]]) == ("Ongoing", ["paid"])
    (topic,) = (each for each in broker.control.get("/v1/topics")["topics"] if each["name"] == "paid")
    held_back = topic["partitions"][0]
    assert (held_back["last_stable_offset"], held_back["end_offset"]) == (0, 1)
    assert "payer" in {each.client_id for each in broker.requests() if each.api == "Produce"}

    payer.does("commit")


# --- states that take long to come to


def test_a_client_goes_on_with_another_producer_id_when_its_epochs_are_used_up(client: Client, broker: Broker) -> None:
    broker.seed(ids={"transactional_id": "pay-1", "producer_epoch": 32_764})
    for count in range(4):
        payer = Payer(client, broker, f"payer-{count}")
        payer.pays(0)
        payer.does("commit")

    assert broker.values("paid") == [b"0"] * 4
    assert len({each.producer_id for each in broker.records("paid")}) == 2


def test_a_client_writes_and_reads_where_offsets_are_near_their_end(client: Client, broker: Broker) -> None:
    near_the_end = (1 << 63) - 2_000_000
    broker.seed(next_offset={"topic": "paid", "partition": 0, "offset": near_the_end})
    payer = Payer(client, broker)
    payer.pays(0)
    payer.does("commit")

    assert [each.offset for each in broker.records("paid")] == [near_the_end]


def test_a_client_works_with_a_producer_id_beyond_32_bits(client: Client, broker: Broker) -> None:
    broker.seed(next_producer_id=1 << 40)
    payer = Payer(client, broker)
    payer.pays(0, 1)
    payer.does("commit")

    assert {each.producer_id >= 1 << 40 for each in broker.records("paid")} == {True}
    assert values(broker) == BOTH


def test_a_hanging_transaction_stops_readers_until_it_is_aborted(client: Client, broker: Broker) -> None:
    hanging = broker.seed(hanging={"topic": "paid", "partition": 0})
    payer = Payer(client, broker)
    payer.pays(0)
    payer.does("commit")

    reading = client.start("reader", "read", broker.bootstrap, "paid", 1)
    broker.wait_until(lambda: any(each.api == "Fetch" for each in broker.requests()))
    assert broker.values("paid") == [] and not reading.done()
    Admin(broker.cluster).abort_at("paid", 0, hanging["first_offset"])

    assert reading.result() == ["0"]


# --- plans


def test_a_plan_makes_its_producers_transaction_time_out(client: Client, broker: Broker) -> None:
    broker.apply_plan("transaction-times-out")
    payer = Payer(client, broker)
    payer.pays(0)

    payer.is_refused("commit")

    assert transaction(broker.control, "pay-1")["phase"] == "CompleteAbort"
    successor = Payer(client, broker, "successor")
    successor.pays(1)
    successor.does("commit")
    assert broker.values("paid") == [b"1"]


def test_a_plan_makes_a_zombie_of_its_client(client: Client, broker: Broker) -> None:
    broker.apply_plan("zombie-after-a-pause")
    zombie = Payer(client, broker)
    zombie.pays(0)

    zombie.is_refused("commit")

    fence = broker.fences()[-1]
    assert (fence["cause"], fence["client_id"]) == ("newer_instance", "payer")
    assert fence["by_client_id"] == "stuntbroker-newer-instance"
    assert broker.values("paid") == []


def test_a_plan_uses_up_the_epochs_of_a_producer(client: Client, broker: Broker) -> None:
    broker.apply_plan("epoch-roll-over")
    for count in range(6):
        payer = Payer(client, broker, f"payer-{count}")
        payer.pays(0)
        payer.does("commit")

    assert broker.values("paid") == [b"0"] * 6
    assert len({each.producer_id for each in broker.records("paid")}) > 1


# --- nodes


@pytest.mark.parametrize("broker", [{"nodes": 3}], indirect=True, ids=["three nodes"])
def test_a_commit_finds_a_coordinator_that_has_moved_and_leaders_that_are_gone(client: Client, broker: Broker) -> None:
    payer = Payer(client, broker)
    payer.pays(0, 1)
    broker.nodes.move(broker.nodes.coordinator("pay-1") % 3 + 1, transactional_id="pay-1", load_ms=50)
    broker.nodes.stop(broker.nodes.leader("paid", 0))

    payer.does("commit")

    assert values(broker) == BOTH
    assert broker.findings() == []


@pytest.mark.parametrize("broker", [{"nodes": 3}], indirect=True, ids=["three nodes"])
def test_a_client_waits_for_a_slow_node(client: Client, broker: Broker) -> None:
    payer = Payer(client, broker)
    broker.nodes.slow(broker.nodes.leader("paid", 0), 50)
    payer.pays(0, 1)
    payer.does("commit")

    slow = [each for each in broker.requests() if each.api == "Produce" and each.took_ms >= 50]
    assert slow
    assert values(broker) == BOTH


# --- groups


def group_of(broker: Broker) -> dict[str, Any]:
    """The group of the only member, or an empty one."""
    groups = broker.control.get("/v1/groups")["groups"]
    return dict(groups[0]) if groups else {"state": "", "generation": -1, "members": []}


@contextmanager
def following(client: Client, broker: Broker) -> Iterator[None]:
    """A member of a group that waits for one record; at the end it gets one."""
    call = client.start("member", "follow", broker.bootstrap, "paid", 1)
    yield
    broker.wait_until(lambda: group_of(broker)["state"] == "Stable")
    payer = Payer(client, broker)
    payer.pays(0)
    payer.does("commit")
    assert call.result(CALL_S_MAX) == ["0"]


def test_a_member_stands_between_join_and_sync_and_is_shown(client: Client, broker: Broker) -> None:
    stop = broker.stops.park("group.sync.before")
    with following(client, broker):
        stop.wait()
        shown = group_of(broker)
        assert (shown["group_id"], shown["state"], len(shown["members"])) == ("member", "CompletingRebalance", 1)
        stop.release()


def test_a_member_whose_session_has_ended_joins_again(client: Client, broker: Broker) -> None:
    with following(client, broker):
        broker.wait_until(lambda: group_of(broker)["state"] == "Stable")
        before = group_of(broker)["generation"]
        broker.clock.advance(ms=MINUTE_MS)
        broker.wait_until(lambda: group_of(broker)["generation"] > before)
    assert {"UNKNOWN_MEMBER_ID"} <= {error for each in broker.requests(limit=1_000) for error in each.errors}


def test_a_member_that_was_thrown_out_commits_no_offset_and_the_broker_knows_why(
    name: str, client: Client, broker: Broker
) -> None:
    payer = Payer(client, broker)
    payer.pays(0)
    payer.does("commit")
    parked = broker.stops.park("offsets.stage.before")
    relay = client.start("relay", "relay", broker.bootstrap, "paid", "relay-1", MINUTE_MS)
    parked.wait()
    (offset,) = (each.fields for each in broker.requests() if each.api == "TxnOffsetCommit")
    assert (offset.get("generation_id_or_member_epoch", -1) >= 0) == (name not in WITHOUT_GENERATIONS)

    broker.clock.advance(ms=MINUTE_MS - 1_000)  # Its session has ended, and its transaction not yet.
    parked.remove()

    if name in WITHOUT_GENERATIONS:
        relay.result(CALL_S_MAX)
        assert group_of(broker)["offsets"] == [{"topic": "paid", "partition": 0, "offset": 1}]
        return
    with pytest.raises(CallError):
        relay.result(CALL_S_MAX)
    fence = broker.fences()[-1]
    assert (fence["cause"], fence["client_id"], fence["request"]) == ("group_generation", "relay", "TxnOffsetCommit")
    assert group_of(broker)["offsets"] == []


@pytest.mark.parametrize("broker", [{"nodes": 3}], indirect=True, ids=["three nodes"])
def test_a_member_finds_the_coordinator_of_its_group_when_it_has_moved(client: Client, broker: Broker) -> None:
    with following(client, broker):
        broker.wait_until(lambda: group_of(broker)["state"] == "Stable")
        elsewhere = group_of(broker)["coordinator"] % 3 + 1
        broker.nodes.move(elsewhere, group="member")
        broker.wait_until(lambda: any("NOT_COORDINATOR" in each.errors for each in broker.requests(limit=1_000)))
    assert group_of(broker)["coordinator"] == elsewhere


# --- snapshots and copies


def test_after_a_reset_a_client_begins_anew(client: Client, broker: Broker) -> None:
    payer = Payer(client, broker)
    payer.pays(0, 1)
    broker.reset()

    assert (broker.transactions(), values(broker)) == ([], [])
    heir = Payer(client, broker, "heir")
    heir.pays(1)
    heir.does("commit")
    assert values(broker) == [b"1"]


def test_a_state_comes_back_with_its_open_transaction(client: Client, broker: Broker) -> None:
    payer = Payer(client, broker)
    payer.pays(0, 1)
    snapshot = broker.snapshot()
    payer.does("commit")
    copy = broker.fork(snapshot)

    assert (values(broker), values(copy)) == (BOTH, [])
    heir = Payer(client, copy, "heir")
    heir.pays(0)
    heir.does("commit")
    assert (values(broker), values(copy)) == (BOTH, [b"0"])

    broker.restore(snapshot)
    assert values(broker) == []
    assert transaction(broker.control, "pay-1")["phase"] == "Ongoing"


# --- waiting, and promises


def test_a_test_waits_for_what_a_client_does(client: Client, broker: Broker) -> None:
    payer = Payer(client, broker)
    payer.pays(0, 1)
    commit = client.start("payer", "commit")

    broker.control.post("/v1/wait", {"until": {"topic": "paid", "partition": 0, "last_stable_offset": 2}})
    broker.control.post("/v1/wait", {"until": {"transactional_id": "pay-1", "phase": "CompleteCommit"}})

    commit.result()
    assert client.call("reader", "read", broker.bootstrap, "paid", 2) in (["0", "1"], ["1", "0"])


def test_what_a_client_copies_once_is_found_exactly_once(client: Client, broker: Broker) -> None:
    broker.create_topic("orders")
    for number in range(3):
        broker.produce("orders", f"{number}")
    payer = Payer(client, broker)
    for number, end in enumerate(("commit", "abort", "commit", "commit")):
        payer.does("begin")
        payer.does("send", "paid", number % 2, str(max(0, number - 1)))
        payer.does(end)

    broker.assert_exactly_once("orders", "paid", key=lambda record: record.value)
    assert broker.findings() == []
