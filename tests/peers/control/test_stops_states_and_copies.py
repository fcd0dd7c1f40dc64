"""Stops, what is shown, seeds, copies and waiting, with clients of four languages.

Each test is one row of docs/control.md, and runs with each client. What differs between the clients is a table of its own.
"""

from __future__ import annotations

import pytest

from stuntbroker.client.commands.admin import Admin
from stuntbroker.fixture.broker import Broker
from stuntbroker.fixture.control import transaction
from tests.kit.programs.by_command import CallError, Client
from tests.peers.control.payer import (
    BOTH,
    GIVES_UP_WITHOUT_A_BROKER,
    Payer,
    values,
)

# --- stops


def test_a_commit_can_be_parked_between_its_markers(client: Client, broker: Broker) -> None:
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
def test_a_transaction_is_atomic_wherever_its_broker_is_killed(
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


def test_a_client_recovers_from_a_disk_that_refuses_the_commit(client: Client, broker: Broker) -> None:
    payer = Payer(client, broker)
    payer.pays(0, 1)
    stop = broker.stops.fail("txn.PrepareCommit.before")

    payer.does("commit")

    assert stop.fired == 1
    assert values(broker) == BOTH


# --- the state of the broker, and why a producer was fenced


def test_a_second_instance_fences_the_first_and_the_fence_names_both_clients(client: Client, broker: Broker) -> None:
    first = Payer(client, broker, "first")
    first.pays(0)

    second = Payer(client, broker, "second")
    first.is_refused("commit")

    fence = broker.fences()[-1]
    assert (fence["cause"], fence["client_id"], fence["by_client_id"]) == ("newer_instance", "first", "second")
    second.pays(1)
    second.does("commit")
    assert broker.values("paid") == [b"1"]


def test_an_open_transaction_is_shown_with_its_client_and_the_last_stable_offset(
    client: Client, broker: Broker
) -> None:
    payer = Payer(client, broker)
    payer.pays(0)

    shown = transaction(broker.control, "pay-1")
    assert (shown["phase"], [each["topic"] for each in shown["partitions"]]) == ("Ongoing", ["paid"])
    (topic,) = (each for each in broker.control.get("/v1/topics")["topics"] if each["name"] == "paid")
    held_back = topic["partitions"][0]
    assert (held_back["last_stable_offset"], held_back["end_offset"]) == (0, 1)
    assert "payer" in {each.client_id for each in broker.requests() if each.api == "Produce"}

    payer.does("commit")


# --- states that take long to reach


def test_a_client_continues_with_another_producer_id_when_its_epochs_are_used_up(
    client: Client, broker: Broker
) -> None:
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


# --- snapshots and copies


def test_a_reset_removes_transactions_and_records_and_a_new_client_can_commit(client: Client, broker: Broker) -> None:
    payer = Payer(client, broker)
    payer.pays(0, 1)
    broker.reset()

    assert (broker.transactions(), values(broker)) == ([], [])
    heir = Payer(client, broker, "heir")
    heir.pays(1)
    heir.does("commit")
    assert values(broker) == [b"1"]


def test_a_snapshot_restores_an_open_transaction(client: Client, broker: Broker) -> None:
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


def test_a_wait_ends_when_the_transaction_of_a_client_completes(client: Client, broker: Broker) -> None:
    payer = Payer(client, broker)
    payer.pays(0, 1)
    commit = client.start("payer", "commit")

    broker.control.post("/v1/wait", {"until": {"topic": "paid", "partition": 0, "last_stable_offset": 2}})
    broker.control.post("/v1/wait", {"until": {"transactional_id": "pay-1", "phase": "CompleteCommit"}})

    commit.result()
    assert client.call("reader", "read", broker.bootstrap, "paid", 2) in (["0", "1"], ["1", "0"])


def test_assert_exactly_once_accepts_records_that_a_client_copied_once(client: Client, broker: Broker) -> None:
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
