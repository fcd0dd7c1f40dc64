"""Nodes of a cluster and members of groups, with clients of four languages.

Each test is one row of docs/control.md, and runs with each client. What differs between the clients is a table of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from stuntbroker.fixture.broker import Broker
from tests.kit.programs.by_command import CALL_S_MAX, CallError, Client
from tests.peers.control.payer import (
    BOTH,
    MINUTE_MS,
    WITHOUT_GENERATIONS,
    Payer,
    values,
)

# --- nodes


@pytest.mark.parametrize("broker", [{"nodes": 3}], indirect=True, ids=["three nodes"])
def test_a_commit_succeeds_after_its_coordinator_moved_and_a_leader_stopped(client: Client, broker: Broker) -> None:
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
    """Return the broker's only group, or an empty group if there is none."""
    groups = broker.control.get("/v1/groups")["groups"]
    return dict(groups[0]) if groups else {"state": "", "generation": -1, "members": []}


@contextmanager
def following(client: Client, broker: Broker) -> Iterator[None]:
    """Run a group member that waits for one record; at the end of the block, write that record."""
    call = client.start("member", "follow", broker.bootstrap, "paid", 1)
    yield
    broker.wait_until(lambda: group_of(broker)["state"] == "Stable")
    payer = Payer(client, broker)
    payer.pays(0)
    payer.does("commit")
    assert call.result(CALL_S_MAX) == ["0"]


def test_a_member_parked_between_join_and_sync_is_shown(client: Client, broker: Broker) -> None:
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


def test_a_removed_member_commits_no_offset_and_the_fence_names_the_cause(
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

    broker.clock.advance(ms=MINUTE_MS - 1_000)  # The member's session has timed out, and the transaction has not.
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
        # librdkafka fetches its offsets only once, so the coordinator must not move before the response.
        broker.wait_until(lambda: any(each.api == "Fetch" for each in broker.requests(limit=1_000)))
        elsewhere = group_of(broker)["coordinator"] % 3 + 1
        broker.nodes.move(elsewhere, group="member")
        broker.wait_until(lambda: any("NOT_COORDINATOR" in each.errors for each in broker.requests(limit=1_000)))
    assert group_of(broker)["coordinator"] == elsewhere
