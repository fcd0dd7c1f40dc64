"""The same requests to Apache Kafka and to our broker: every response is the same.

Each broker is a separate process; both get the requests in parallel. Needs a JDK.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.kit.brokers.kafka_broker import apache_kafka
from tests.kit.brokers.our_broker import our_broker
from tests.kit.groups.group_wire import Transcript, Wire, commit_fields, join_fields, leavers, message, sync_fields

pytestmark = pytest.mark.timeout(300)
Walk = Callable[[str, Transcript], None]
READY_S_MAX = 30
UNKNOWN_ID = b"\7" * 16


def until_ready(wire: Wire, api: str, version: int, **fields: Any) -> Any:
    """Repeat a request until it succeeds: Kafka returns errors until it has created its internal topics."""
    end = time.monotonic() + READY_S_MAX
    while True:
        answer = wire.ask(api, version, **fields)
        if not answer.error_code or time.monotonic() > end:
            assert not answer.error_code, answer
            return answer
        time.sleep(0.1)


def prepare(address: str) -> dict[bytes, str]:
    with Wire(address, "setup") as wire:
        topics = [message("create_topics", "CreatableTopic", name, 2, 1) for name in ("t", "u")]
        created = wire.ask("create_topics", 7, topics)
        until_ready(wire, "find_coordinator", 2, key="g")
        until_ready(wire, "find_coordinator", 2, key="txn", key_type=1)
        # FindCoordinator succeeds before the coordinator has loaded its log.
        while wire.ask("join_group", 9, **join_fields("m", "not there")).error_code != 25:
            time.sleep(0.1)
        until_ready(wire, "init_producer_id", 4, transactional_id="txn", transaction_timeout_ms=60_000)
    return {bytes(topic.topic_id): f"<id of {topic.name}>" for topic in created.topics}


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    folder = tmp_path_factory.mktemp("like-kafka")
    with our_broker(folder / "ours", folder / "ours.log") as ours, apache_kafka(folder / "kafka") as kafka:
        yield ours, kafka


@pytest.fixture(scope="module")
def topic_ids(addresses: tuple[str, str]) -> list[dict[bytes, str]]:
    return [prepare(address) for address in addresses]


def strangers(address: str, messages: Transcript) -> None:
    """Requests for groups that do not exist, and requests that are invalid for any group."""
    with Wire(address, "c") as wire:
        for version in range(10):
            messages.add(f"join {version}", wire.ask("join_group", version, **join_fields("m", version=version)))
            for changes in ({"session_timeout_ms": 5}, {"group_id": ""}, {"group_id": "bad", "protocols": ()}):
                request = {"group_id": "g", "version": version, **changes}
                messages.add(f"join {version} {changes}", wire.ask("join_group", version, **join_fields(**request)))
        for version in range(6):
            for group_id in ("g", ""):
                name = f"{version} of {group_id!r}"
                messages.add(f"sync {name}", wire.ask("sync_group", version, **sync_fields("m", 1, group_id)))
                members = leavers(("m", None), ("", "i"))
                messages.add(f"leave {name}", wire.ask("leave_group", version, group_id, "m", members))
                if version < 5:
                    messages.add(f"heartbeat {name}", wire.ask("heartbeat", version, group_id, 1, "m"))
        messages.add("sync without a protocol", wire.ask("sync_group", 5, "g", 1, "m"))
        for version in range(7):
            messages.add(f"describe {version}", wire.ask("describe_groups", version, ["nobody"], version >= 3))
        for version in range(3):
            messages.add(f"delete {version}", wire.ask("delete_groups", version, ["nobody", ""]))
        for group_id in ("nobody", ""):
            messages.add(f"offset delete {group_id}", wire.ask("offset_delete", 0, group_id))


def alone(address: str, messages: Transcript) -> None:
    """A group with one member, from join to leave, with every version of JoinGroup."""
    for version in range(10):
        group_id = f"alone{version}"
        with Wire(address, f"client{version}") as wire:

            def ask(label: str, api: str, at: int, *arguments: Any, **fields: Any) -> Any:
                return messages.add(f"{version} {label}", wire.ask(api, at, *arguments, **fields))  # noqa: B023

            joined = ask("join", "join_group", version, **join_fields("", group_id, version))
            if joined.error_code:
                joined = ask("join", "join_group", version, **join_fields(joined.member_id, group_id, version))
            me = joined.member_id
            commit = commit_fields(group_id, ("t", 0), ("t", 9), ("x", 0))
            mine = {"generation_id_or_member_epoch": 1, "member_id": me}
            ask("join again", "join_group", version, **join_fields(me, group_id, version))
            ask("describe", "describe_groups", 6, [group_id], True)
            ask("heartbeat", "heartbeat", 4, group_id, 1, me)
            ask("commit too early", "offset_commit", 8, **commit, **mine)
            ask("sync of another time", "sync_group", 5, **sync_fields(me, 7, group_id))
            ask("sync of another type", "sync_group", 5, **sync_fields(me, 1, group_id, protocol_type="z"))
            ask("sync", "sync_group", min(version, 5), **sync_fields(me, 1, group_id, [me]))
            ask("sync again", "sync_group", min(version, 5), **sync_fields(me, 1, group_id))
            for at in range(7):
                ask(f"describe {at}", "describe_groups", at, [group_id], at >= 3)
            for changes in (mine, {**mine, "generation_id_or_member_epoch": 2}, {}, {**mine, "member_id": "z"}):
                ask("commit", "offset_commit", 8, **commit, **changes)
            numbers = [message("offset_delete", "OffsetDeleteRequestPartition", number) for number in (0, 9)]
            topics = [message("offset_delete", "OffsetDeleteRequestTopic", name, numbers) for name in ("t", "u", "x")]
            ask("offset delete", "offset_delete", 0, group_id, topics)
            ask("delete", "delete_groups", 2, [group_id])
            ask("leave", "leave_group", min(version, 5), group_id, me, leavers((me, None), ("z", None)))
            ask("heartbeat of the past", "heartbeat", 4, group_id, 1, me)
            ask("join of the past", "join_group", version, **join_fields(me, group_id, version))
            ask("describe empty", "describe_groups", 6, [group_id], True)


def offsets(address: str, messages: Transcript) -> None:
    """Commits to groups without members, and every kind of OffsetFetch."""
    (by_id,) = [each for each, name in messages.topic_ids.items() if name == "<id of t>"]
    with Wire(address, "c") as wire:

        def ask(label: str, api: str, at: int, *arguments: Any, **fields: Any) -> Any:
            return messages.add(f"{label} {at}", wire.ask(api, at, *arguments, **fields))

        for at in range(2, 10):
            ask("commit", "offset_commit", at, **commit_fields("simple", ("t", 0), ("x", 0), ("u", 5)))
            fenced = {"generation_id_or_member_epoch": 3, "member_id": "m"}
            ask("commit to nobody", "offset_commit", at, **commit_fields("nobody", ("t", 0), **fenced))
        ask("retention", "offset_commit", 4, **commit_fields("simple", ("t", 1), retention_time_ms=100_000))
        ask("by id", "offset_commit", 10, **commit_fields("simple", (by_id, 0), (UNKNOWN_ID, 0), (bytes(16), 0)))
        ask("unnamed group", "offset_commit", 8, **commit_fields("", ("t", 0)))
        for metadata in ("m" * 4_096, "m" * 4_097, "é" * 4_096, "\U0001f600" * 2_049, None):
            ask("metadata", "offset_commit", 8, **commit_fields("large", ("t", 0), metadata=metadata))
        for at in range(1, 8):
            wanted = [message("offset_fetch", "OffsetFetchRequestTopic", name, [0, 1, 7]) for name in ("t", "x")]
            ask("fetch", "offset_fetch", at, "simple", wanted)
            if at >= 2:
                ask("fetch all", "offset_fetch", at, "simple", None)
        for at in (8, 9, 10):
            named = [("t", by_id), ("x", UNKNOWN_ID)]
            topics = [message("offset_fetch", "OffsetFetchRequestTopics", *each, [0, 1]) for each in named]
            groups = [
                message("offset_fetch", "OffsetFetchRequestGroup", group_id, topics=wanted)
                for group_id in ("simple", "nobody", "")
                for wanted in (topics, None)
            ]
            ask("fetch", "offset_fetch", at, groups=groups, require_stable=True)
        for at in range(6):
            states, types = (["EMPTY"] if at >= 4 else []), (["Classic"] if at >= 5 else [])
            listed = wire.ask("list_groups", at, states, types)
            messages.add(f"list {at}", [each for each in listed.groups if each.group_id in ("simple", "large")])
        ask("list of another type", "list_groups", 5, [], ["nonsense"])
        ask("delete", "delete_groups", 2, ["simple"])
        ask("fetch deleted", "offset_fetch", 5, "simple", None)


def static(address: str, messages: Transcript) -> None:
    """Restarted static members, with every JoinGroup version that supports them."""
    for version in range(5, 10):
        group_id = f"static{version}"
        with Wire(address, "a") as each, Wire(address, "b") as other:

            def join(wire: Wire, member_id: str, instance_id: str) -> dict[str, Any]:
                return join_fields(member_id, group_id, version, group_instance_id=instance_id)  # noqa: B023

            def enter(wire: Wire, member_id: str, instance_id: str) -> Any:
                answer = wire.ask("join_group", version, **join(wire, member_id, instance_id))  # noqa: B023
                return messages.add(f"join {version} {instance_id}", answer)  # noqa: B023

            a = enter(each, "", "a").member_id
            fields = sync_fields(a, 1, group_id, [a], group_instance_id="a")
            messages.add("sync", each.ask("sync_group", 5, **fields))
            other.send("join_group", version, **join(other, "", "b"))
            assert other.is_silent()
            enter(each, a, "a")
            b = messages.add("join b", other.receive()).member_id
            other.send("sync_group", 5, **sync_fields(b, 2, group_id, group_instance_id="b"))
            fields = sync_fields(a, 2, group_id, [a, b], group_instance_id="a")
            messages.add("sync a", each.ask("sync_group", 5, **fields))
            messages.add("sync b", other.receive())
            b_again = enter(other, "", "b").member_id
            messages.add("old heartbeat", other.ask("heartbeat", 4, group_id, 2, b, "b"))
            fields = sync_fields(b, 2, group_id, group_instance_id="b")
            messages.add("old sync", other.ask("sync_group", 5, **fields))
            enter(other, b, "b")
            messages.add("old leave", other.ask("leave_group", 5, group_id, "", leavers((b, "b"))))
            mine = {"generation_id_or_member_epoch": 2, "member_id": b, "group_instance_id": "b"}
            messages.add("old commit", other.ask("offset_commit", 8, **commit_fields(group_id, ("t", 0), **mine)))
            fields = sync_fields(b_again, 2, group_id, group_instance_id="b")
            messages.add("new sync", other.ask("sync_group", 5, **fields))
            enter(each, "", "a")
            gone = leavers(("", "b"), ("", "z"), ("z", "a"))
            messages.add("leave by name", each.ask("leave_group", 5, group_id, "", gone))


def together(address: str, messages: Transcript) -> None:
    """Two members join one after the other; then one of them does not rejoin."""
    with Wire(address, "a") as each, Wire(address, "b") as other, Wire(address, "c") as aside:

        def enter(wire: Wire, **changes: Any) -> str:
            member_id: str = wire.ask("join_group", 9, **join_fields(**changes)).member_id
            wire.send("join_group", 9, **join_fields(member_id, **changes))
            return member_id

        a = enter(each, protocols=("x", "range"))
        messages.add("join a", each.receive())
        messages.add("sync a", each.ask("sync_group", 5, **sync_fields(a, 1, given=[a], protocol_name="x")))
        b = enter(other)
        assert other.is_silent()
        messages.add("heartbeat", each.ask("heartbeat", 4, "g", 1, a))
        messages.add("sync too late", each.ask("sync_group", 5, **sync_fields(a, 1, protocol_name="x")))
        mine = {"generation_id_or_member_epoch": 1, "member_id": a}
        messages.add("commit", each.ask("offset_commit", 8, **commit_fields("g", ("t", 0), **mine)))
        messages.add("describe", aside.ask("describe_groups", 5, ["g"]))
        messages.add("join a", each.ask("join_group", 9, **join_fields(a)))
        messages.add("join b", other.receive())
        other.send("sync_group", 5, **sync_fields(b, 2))
        assert other.is_silent()
        messages.add("sync a", each.ask("sync_group", 5, **sync_fields(a, 2, given=[a, b])))
        messages.add("sync b", other.receive())
        messages.add("follower again", other.ask("join_group", 9, **join_fields(b)))
        messages.add("other protocol", aside.ask("join_group", 9, **join_fields(protocols=("z",))))
        messages.add("other type", other.ask("join_group", 9, **join_fields(b, protocol_type="connect")))
        messages.add("leave", aside.ask("leave_group", 5, "g", "", leavers((b, None))))
        messages.add("heartbeat of who left", other.ask("heartbeat", 4, "g", 2, b))
        messages.add("heartbeat", each.ask("heartbeat", 4, "g", 2, a))
        messages.add("join a", each.ask("join_group", 9, **join_fields(a, rebalance_timeout_ms=1_500)))
        messages.add("sync a", each.ask("sync_group", 5, **sync_fields(a, 3, given=[a])))
        enter(other, rebalance_timeout_ms=1_500)
        messages.add("join without a", other.receive())
        messages.add("heartbeat of who stayed away", each.ask("heartbeat", 4, "g", 3, a))


def silent(address: str, messages: Transcript) -> None:
    """The session time-outs of a member without heartbeats and of an unused member id."""
    with Wire(address, "a") as each, Wire(address, "b") as other:
        fields = {"group_id": "silent", "session_timeout_ms": 6_000}
        a = each.ask("join_group", 9, **join_fields(**fields)).member_id
        messages.add("join", each.ask("join_group", 9, **join_fields(a, **fields)))
        messages.add("sync", each.ask("sync_group", 5, **sync_fields(a, 1, "silent", [a])))
        b = other.ask("join_group", 9, **join_fields(**fields)).member_id
        time.sleep(6.8)
        messages.add("heartbeat", each.ask("heartbeat", 4, "silent", 1, a))
        messages.add("join", other.ask("join_group", 9, **join_fields(b, **fields)))
        messages.add("describe", other.ask("describe_groups", 6, ["silent"]))


def in_transactions(address: str, messages: Transcript) -> None:
    """KIP-447: which members may commit in a transaction, and the OffsetFetch responses while it is open."""
    with Wire(address, "a") as wire:
        producer = until_ready(wire, "init_producer_id", 4, transactional_id="txn", transaction_timeout_ms=60_000)
        ids = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
        me = wire.ask("join_group", 3, **join_fields("", "member", 3)).member_id
        wire.ask("sync_group", 5, **sync_fields(me, 1, "member", [me]))
        for group_id in ("simple in txn", "missing", "member"):
            until_ready(wire, "add_offsets_to_txn", 3, transactional_id="txn", group_id=group_id, **ids)
        partition = message("txn_offset_commit", "TxnOffsetCommitRequestPartition", 0, 42, committed_metadata="m")
        topic = message("txn_offset_commit", "TxnOffsetCommitRequestTopic", name="t", partitions=[partition])
        for group_id, generation, member_id in (
            ("simple in txn", -1, ""), ("missing", 3, "m"), ("member", 1, me), ("member", 0, me), ("member", 1, "z"),
            ("member", -1, ""), ("member", -1, me),
        ):  # fmt: skip
            for version in (0, 3, 4):
                fields = {"generation_id_or_member_epoch": generation, "member_id": member_id} if version else {}
                request = {"transactional_id": "txn", "group_id": group_id, "topics": [topic], **ids, **fields}
                answer = wire.ask("txn_offset_commit", version, **request)
                messages.add(f"commit {version} {group_id} {generation} {bool(member_id)}", answer)

        def fetch(label: str) -> None:
            topics = [message("offset_fetch", "OffsetFetchRequestTopics", "t", bytes(16), [0, 1])]
            for stable in (False, True):
                for wanted in (topics, None):
                    groups = [message("offset_fetch", "OffsetFetchRequestGroup", "simple in txn", topics=wanted)]
                    answer = wire.ask("offset_fetch", 9, groups=groups, require_stable=stable)
                    messages.add(f"fetch {label} {stable} {wanted is None}", answer)

        fetch("while it is open")
        messages.add("plain commit", wire.ask("offset_commit", 8, **commit_fields("simple in txn", ("t", 0))))
        fetch("after a plain commit")
        messages.add("end", wire.ask("end_txn", 3, transactional_id="txn", committed=True, **ids))
        time.sleep(0.5)
        fetch("after the end")


def removed_meanwhile(address: str, messages: Transcript) -> None:
    """Pending offsets of an open transaction when the offsets, the group or the topic are deleted (KIP-447)."""
    with Wire(address, "a") as wire:

        def removals(group_id: str) -> list[tuple[str, int, dict[str, Any]]]:
            numbers = [message("offset_delete", "OffsetDeleteRequestPartition", number) for number in (0, 1)]
            topics = [message("offset_delete", "OffsetDeleteRequestTopic", "gone", numbers)]
            return [
                ("offset_delete", 0, {"group_id": group_id, "topics": topics}),
                ("delete_groups", 2, {"groups_names": [group_id]}),
                ("delete_topics", 5, {"topic_names": ["gone"], "timeout_ms": 10_000}),
            ]

        def fetch(label: str, group_id: str) -> None:
            numbers = [message("offset_fetch", "OffsetFetchRequestTopics", "gone", bytes(16), [0, 1])]
            for stable in (False, True):
                for wanted in (numbers, None):
                    groups = [message("offset_fetch", "OffsetFetchRequestGroup", group_id, topics=wanted)]
                    answer = wire.ask("offset_fetch", 9, groups=groups, require_stable=stable)
                    messages.add(f"fetch {label} {group_id} {stable} {wanted is None}", answer)

        def settled(group_id: str, numbers: list[int]) -> None:
            """Wait until the marker is written: Kafka responds to EndTxn before that."""
            topics = [message("offset_fetch", "OffsetFetchRequestTopic", "gone", numbers)]
            end = time.monotonic() + READY_S_MAX
            while time.monotonic() < end:
                answer = wire.ask("offset_fetch", 7, group_id, topics, require_stable=True)
                if all(each.error_code != 88 for each in answer.topics[0].partitions):
                    return
                time.sleep(0.05)
            raise AssertionError(f"{group_id} stays unstable")

        def known() -> None:
            """Wait until Kafka's broker has learned of the topic from its controller."""
            end = time.monotonic() + READY_S_MAX
            fields = commit_fields("scratch", ("gone", 0), ("gone", 1))
            while time.monotonic() < end:
                answer = wire.ask("offset_commit", 8, **fields)
                if not any(part.error_code for topic in answer.topics for part in topic.partitions):
                    return
                time.sleep(0.05)
            raise AssertionError("the topic does not come to be")

        for which in range(3):
            for plain in (False, True):
                wire.ask("create_topics", 7, [message("create_topics", "CreatableTopic", "gone", 2, 1)])
                known()
                group_id = f"removed {which} {plain}"
                until_ready(wire, "find_coordinator", 2, key=group_id)
                producer = until_ready(
                    wire, "init_producer_id", 4, transactional_id="txn", transaction_timeout_ms=60_000
                )
                ids = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
                until_ready(wire, "add_offsets_to_txn", 3, transactional_id="txn", group_id=group_id, **ids)
                if plain:
                    messages.add("plain", wire.ask("offset_commit", 8, **commit_fields(group_id, ("gone", 0))))
                partition = message("txn_offset_commit", "TxnOffsetCommitRequestPartition", 0, 42)
                topic = message("txn_offset_commit", "TxnOffsetCommitRequestTopic", name="gone", partitions=[partition])
                request = {"transactional_id": "txn", "group_id": group_id, "topics": [topic], **ids}
                messages.add("pending", wire.ask("txn_offset_commit", 3, **request))
                fetch("pending", group_id)
                api, version, fields = removals(group_id)[which]
                messages.add(f"{api} with {plain}", wire.ask(api, version, **fields))
                if api == "delete_topics":
                    settled(group_id, [0])
                fetch("removed", group_id)
                messages.add("describe", wire.ask("describe_groups", 6, [group_id]))
                if plain and api != "delete_topics":
                    messages.add("plain again", wire.ask("offset_commit", 8, **commit_fields(group_id, ("gone", 1))))
                messages.add("end", wire.ask("end_txn", 3, transactional_id="txn", committed=True, **ids))
                settled(group_id, [0, 1])
                fetch("ended", group_id)


WALKS = (strangers, alone, offsets, static, together, silent, in_transactions, removed_meanwhile)


@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: str(walk.__name__))
def test_every_group_response_is_that_of_kafka(
    walk: Walk, addresses: tuple[str, str], topic_ids: list[dict[bytes, str]], tmp_path: Path
) -> None:
    messages = [Transcript(), Transcript()]
    for transcript, ids in zip(messages, topic_ids, strict=True):
        transcript.topic_ids = ids
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(walk, addresses, messages))

    ours, kafkas = (transcript.lines for transcript in messages)
    assert ours == kafkas
