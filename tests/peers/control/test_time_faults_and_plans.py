"""Time, faults, late requests and plans, with clients of four languages.

Each test is one row of docs/control.md, and runs with each client. What differs between the clients is a table of its own.
"""

from __future__ import annotations

import pytest

from stuntbroker.fixture.broker import Broker
from stuntbroker.fixture.control import transaction
from tests.kit.programs.by_command import Client
from tests.peers.control.payer import (
    BOTH,
    MINUTE_MS,
    SPEAKS_VERSION_2,
    Payer,
    values,
)

# --- time


def test_a_transaction_times_out_while_its_client_sleeps(name: str, client: Client, broker: Broker) -> None:
    payer = Payer(client, broker)
    payer.pays(0, 1)

    broker.clock.advance(ms=MINUTE_MS + 1_000)

    payer.is_refused("commit")
    fence = broker.fences()[-1]
    assert (fence["cause"], fence["client_id"]) == ("timeout", "payer")
    if name in SPEAKS_VERSION_2:  # KIP-890 has a separate error for a commit after an abort.
        assert "INVALID_TXN_STATE" in {error for each in broker.requests() for error in each.errors}
    assert values(broker) == []


def test_a_transaction_stays_open_while_the_clock_is_paused(client: Client, broker: Broker) -> None:
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
    "no answer": {"no_response": True, "times": 1},
    "a closed connection": {"close": True, "times": 1},
    "a lost answer": {"lose_response": True, "times": 1},
    "a request that comes twice": {"duplicate": True, "times": 1},
}
"""Faults of EndTxn that cause no error for the application."""


@pytest.mark.parametrize("fault", GOT_OVER)
def test_a_client_recovers_from_a_fault_of_its_commit(fault: str, client: Client, broker: Broker) -> None:
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
    "an answer of Produce is lost": ("Produce", {"lose_response": True}),
    "Produce comes twice": ("Produce", {"duplicate": True}),
    "the coordinator loads": ("InitProducerId", {"error": "COORDINATOR_LOAD_IN_PROGRESS"}),
    "the answer with the producer id is slow": ("InitProducerId", {"delay_ms": 50}),
}
"""Faults of requests before EndTxn that cause no error for the application."""


@pytest.mark.parametrize("fault", ON_THE_WAY)
def test_a_client_recovers_from_a_fault_on_the_way_to_its_commit(fault: str, client: Client, broker: Broker) -> None:
    api, verb = ON_THE_WAY[fault]
    rule = broker.faults.add(api, times=1, **verb)
    payer = Payer(client, broker)
    payer.pays(0, 1)
    payer.does("commit")

    assert rule.fired == 1
    assert values(broker) == BOTH
    assert broker.findings() == []


def test_a_client_is_given_a_producer_id_that_no_coordinator_knows(client: Client, broker: Broker) -> None:
    broker.faults.add("InitProducerId", respond_only=True, times=1)
    payer = Payer(client, broker)
    payer.does("begin")

    payer.is_refused("send", "paid", 0, "0")

    assert {"INVALID_PRODUCER_ID_MAPPING"} <= {error for each in broker.requests() for error in each.errors}
    assert values(broker) == []


END_TXN_VERSIONS = {"2.1": 1, "2.5": 1, "2.8": 3, "3.3": 3, "3.6": 3, "3.9": 4, "4.0": 5, "4.3": 5}
"""Personality (Kafka version) -> its highest version of EndTxn."""


@pytest.mark.parametrize(
    ("broker", "version"),
    [({"properties": {"stuntbroker.personality": name}}, version) for name, version in END_TXN_VERSIONS.items()],
    indirect=["broker"],
    ids=list(END_TXN_VERSIONS),
)
def test_a_commit_with_a_lost_response_takes_effect_once_on_every_version(
    version: int, name: str, client: Client, broker: Broker
) -> None:
    payer = Payer(client, broker)
    payer.pays(0, 1)
    lost = broker.faults.add("EndTxn", lose_response=True, times=1)

    payer.does("commit")

    assert lost.fired == 1
    assert values(broker) == BOTH
    versions = [each.version for each in broker.requests() if each.api == "EndTxn"]
    assert versions == [version if name in SPEAKS_VERSION_2 else versions[0]] * 2


def test_a_client_accepts_the_response_to_a_commit_that_was_not_executed(client: Client, broker: Broker) -> None:
    payer = Payer(client, broker)
    payer.pays(0, 1)
    broker.faults.add("EndTxn", respond_only=True, times=1)

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


def test_a_commit_with_a_corrupt_response_fails_in_the_client_but_is_committed(client: Client, broker: Broker) -> None:
    payer = Payer(client, broker)
    payer.pays(0, 1)
    corrupt = broker.faults.add("EndTxn", corrupt=True, times=1)

    payer.is_refused("commit")

    assert corrupt.fired == 1
    assert values(broker) == BOTH
    assert broker.findings() == []


# --- late requests


def test_a_late_commit_splits_the_next_transaction_below_transaction_version_2(
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
        assert broker.values("paid") == [b"0", b"0"]  # Half of the aborted transaction is committed.


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
