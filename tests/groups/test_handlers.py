"""The handlers of the group APIs: the fields of each version, with a broker that has two topics."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.delete_groups_request import DeleteGroupsRequest
from stuntbroker.protocol.messages.describe_groups_request import DescribeGroupsRequest
from stuntbroker.protocol.messages.heartbeat_request import HeartbeatRequest
from stuntbroker.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from stuntbroker.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from stuntbroker.protocol.messages.list_groups_request import ListGroupsRequest
from stuntbroker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from stuntbroker.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from stuntbroker.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from stuntbroker.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from stuntbroker.protocol.primitives import ZERO_UUID
from tests.kit.groups.group_world import World, subscription

E = ErrorCode
T_ID, U_ID, UNKNOWN_ID = b"\1" * 16, b"\2" * 16, b"\3" * 16

HANDLERS = {
    "k08_offset_commit": ("offset_commit", range(2, 11)),
    "k09_offset_fetch": ("offset_fetch", range(1, 11)),
    "k11_join_group": ("join_group", range(10)),
    "k12_heartbeat": ("heartbeat", range(5)),
    "k13_leave_group": ("leave_group", range(6)),
    "k14_sync_group": ("sync_group", range(6)),
    "k15_describe_groups": ("describe_groups", range(7)),
    "k16_list_groups": ("list_groups", range(6)),
    "k42_delete_groups": ("delete_groups", range(3)),
    "k47_offset_delete": ("offset_delete", range(1)),
}


class FakeTopics:
    def __init__(self, *topics: Any) -> None:
        self.topics = topics

    def get(self, name: str) -> Any:
        return next((topic for topic in self.topics if topic.name == name), None)

    def by_id(self, topic_id: bytes) -> Any:
        return next((topic for topic in self.topics if topic.id == topic_id), None)

    def name_of(self, topic_id: bytes) -> Any:
        topic = self.by_id(topic_id)
        return None if topic is None else topic.name

    def find(self, name: str, topic_id: bytes, by_id: bool) -> Any:
        return self.by_id(topic_id) if by_id else self.get(name)


class Client:
    """Encodes and decodes each request and each response, like a connection."""

    client_id = "c"
    host = "127.0.0.1"
    route = SimpleNamespace(in_parts=False)

    def __init__(self, world: World) -> None:
        topics = FakeTopics(
            SimpleNamespace(name="t", id=T_ID, partitions=[None, None]),
            SimpleNamespace(name="u", id=U_ID, partitions=[None]),
        )
        self.listener = SimpleNamespace(profile="kafka", node_id=1)
        self.broker = SimpleNamespace(groups=world.groups, topics=topics, nodes=SimpleNamespace(are_many=False))
        self.replies: list[Any] = []

    def reply(self, response: Any) -> None:
        self.replies.append(response)

    def ask(self, handler: str, request: Any, version: int) -> Any:
        """The response; None if it is not ready yet."""
        module = importlib.import_module(f"stuntbroker.broker.handlers.{handler}")
        assert version in module.VERSIONS
        self.replies.clear()
        response = module.handle(self, reread(request, version), version)
        if response is None and self.replies:
            response = self.replies.pop()
        return None if response is None else reread(response, version)


def reread(message: Any, version: int) -> Any:
    out = bytearray()
    message.encode(out, version)
    return type(message).decode(memoryview(bytes(out)), version)


@pytest.fixture
def client(world: World) -> Client:
    return Client(world)


@pytest.mark.parametrize("handler", HANDLERS)
def test_a_handler_declares_its_key_and_versions(handler: str) -> None:
    module = importlib.import_module(f"stuntbroker.broker.handlers.{handler}")

    assert int(handler[1:3]) == module.KEY
    assert HANDLERS[handler][1] == module.VERSIONS
    source = Path(__file__).parents[2] / "broker" / "handlers" / f"{handler}.py"  # A compiled module has no docstring.
    assert f"key {module.KEY}, version" in (ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or "")


def join_request(member_id: str = "", version: int = 9, **changes: Any) -> JoinGroupRequest:
    fields: dict[str, Any] = {
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 20_000 if version else -1,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol("range", subscription("t"))],
    }
    return JoinGroupRequest("g", member_id=member_id, **{**fields, **changes})


def enter(client: Client, version: int = 9) -> str:
    joined = client.ask("k11_join_group", join_request(version=version), version)
    if joined.error_code == E.MEMBER_ID_REQUIRED:
        joined = client.ask("k11_join_group", join_request(joined.member_id, version), version)
    assert joined.error_code == E.NONE
    member_id: str = joined.member_id
    given = [SyncGroupRequestAssignment(member_id, b"all")]
    request = SyncGroupRequest("g", joined.generation_id, member_id, None, "consumer", "range", given)
    assert client.ask("k14_sync_group", request, 5).assignment == b"all"
    return member_id


def test_the_host_of_a_member_is_written_as_java_does(client: Client) -> None:
    client.host = "::1"
    client.ask("k11_join_group", join_request(), 3)

    (member,) = client.broker.groups.group("g").members.values()
    assert member.client_host == "/0:0:0:0:0:0:0:1"


@pytest.mark.parametrize("version", range(10))
def test_join_group(client: Client, version: int) -> None:
    first = client.ask("k11_join_group", join_request(version=version), version)
    if version >= 4:
        none = None if version >= 7 else ""
        assert (first.error_code, first.generation_id, first.protocol_name) == (
            E.MEMBER_ID_REQUIRED,
            -1,
            none,
        )
        first = client.ask("k11_join_group", join_request(first.member_id, version), version)

    assert (first.error_code, first.generation_id, first.protocol_name) == (E.NONE, 1, "range")
    assert first.leader == first.member_id == "c-1"
    assert first.protocol_type == ("consumer" if version >= 7 else None)
    assert [(each.member_id, each.metadata) for each in first.members] == [("c-1", subscription("t"))]
    group = client.broker.groups.group("g")
    assert group.members["c-1"].rebalance_timeout_ms == (20_000 if version else 10_000)
    assert group.members["c-1"].client_host == "/127.0.0.1"


@pytest.mark.parametrize("version", range(10))
def test_join_group_of_an_unknown_member_returns_no_protocol(client: Client, version: int) -> None:
    enter(client)
    answer = client.ask("k11_join_group", join_request("x", version), version)

    assert (answer.error_code, answer.member_id) == (E.UNKNOWN_MEMBER_ID, "x")
    assert answer.protocol_name == (None if version >= 7 else "")


@pytest.mark.parametrize("version", range(5, 10))
def test_join_group_of_a_static_member(client: Client, version: int) -> None:
    request = join_request(version=version, group_instance_id="i")
    answer = client.ask("k11_join_group", request, version)

    assert (answer.error_code, answer.members[0].group_instance_id) == (E.NONE, "i")


@pytest.mark.parametrize("version", range(6))
def test_sync_group(client: Client, version: int) -> None:
    member_id = enter(client)
    request = SyncGroupRequest("g", 1, member_id, None, "consumer", "range")
    answer = client.ask("k14_sync_group", request, version)

    assert (answer.error_code, answer.assignment) == (E.NONE, b"all")
    assert answer.protocol_name == ("range" if version >= 5 else None)


@pytest.mark.parametrize(("protocol_type", "protocol_name"), [(None, "range"), ("consumer", None)])
def test_sync_group_must_name_its_protocol_from_version_5(
    client: Client, protocol_type: str | None, protocol_name: str | None
) -> None:
    request = SyncGroupRequest("g", 1, "nobody", None, protocol_type, protocol_name)

    assert client.ask("k14_sync_group", request, 5).error_code == E.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("version", range(5))
def test_heartbeat(client: Client, version: int) -> None:
    member_id = enter(client)

    assert client.ask("k12_heartbeat", HeartbeatRequest("g", 1, member_id), version).error_code == E.NONE
    assert client.ask("k12_heartbeat", HeartbeatRequest("g", 2, member_id), version).error_code == E.ILLEGAL_GENERATION


@pytest.mark.parametrize("version", range(3))
def test_leave_group_with_one_member(client: Client, version: int) -> None:
    member_id = enter(client)

    def leave_group(member: str, group: str = "g") -> int:
        return int(client.ask("k13_leave_group", LeaveGroupRequest(group, member), version).error_code)

    assert leave_group("x") == E.UNKNOWN_MEMBER_ID
    assert leave_group("x", "nobody") == E.UNKNOWN_MEMBER_ID
    assert leave_group("x", "") == E.INVALID_GROUP_ID
    assert leave_group(member_id) == E.NONE


@pytest.mark.parametrize("version", range(3, 6))
def test_leave_group_with_several_members(client: Client, version: int) -> None:
    member_id = enter(client)

    def leave_group(group: str, *members: str) -> tuple[int, list[int]]:
        request = LeaveGroupRequest(group, members=[MemberIdentity(member) for member in members])
        answer = client.ask("k13_leave_group", request, version)
        return answer.error_code, [each.error_code for each in answer.members]

    assert leave_group("g", "x", member_id) == (E.NONE, [E.UNKNOWN_MEMBER_ID, E.NONE])
    assert leave_group("nobody", "x") == (E.NONE, [E.UNKNOWN_MEMBER_ID])
    assert leave_group("", "x") == (E.INVALID_GROUP_ID, [])


def commit_request(*places: tuple[Any, int], **changes: Any) -> OffsetCommitRequest:
    topics = [
        OffsetCommitRequestTopic(
            *((topic, ZERO_UUID) if isinstance(topic, str) else ("", topic)),
            [OffsetCommitRequestPartition(number, 5)],
        )
        for topic, number in places
    ]
    return OffsetCommitRequest("g", topics=topics, **changes)


def codes(answer: Any) -> list[int]:
    return [partition.error_code for topic in answer.topics for partition in topic.partitions]


@pytest.mark.parametrize("version", range(2, 10))
def test_offset_commit_by_name(client: Client, version: int) -> None:
    request = commit_request(("t", 0), ("t", 9), ("x", 0), ("u", 0), ("u", -1))
    answer = client.ask("k08_offset_commit", request, version)
    unknown = E.UNKNOWN_TOPIC_OR_PARTITION

    assert codes(answer) == [E.NONE, unknown, unknown, E.NONE, unknown]
    assert [topic.name for topic in answer.topics] == ["t", "t", "x", "u", "u"]


def test_offset_commit_by_id(client: Client) -> None:
    answer = client.ask("k08_offset_commit", commit_request((T_ID, 1), (UNKNOWN_ID, 0), (ZERO_UUID, 0)), 10)

    assert codes(answer) == [E.NONE, E.UNKNOWN_TOPIC_ID, E.UNKNOWN_TOPIC_ID]
    assert [topic.topic_id for topic in answer.topics] == [T_ID, UNKNOWN_ID, ZERO_UUID]


@pytest.mark.parametrize(("version", "error"), [(8, E.ILLEGAL_GENERATION), (9, E.GROUP_ID_NOT_FOUND)])
def test_offset_commit_to_a_group_that_does_not_exist(client: Client, version: int, error: ErrorCode) -> None:
    request = commit_request(("t", 0), ("x", 0), generation_id_or_member_epoch=1, member_id="m")

    assert codes(client.ask("k08_offset_commit", request, version)) == [error, E.UNKNOWN_TOPIC_OR_PARTITION]


def test_offset_commit_to_an_unknown_topic_creates_no_group(client: Client) -> None:
    client.ask("k08_offset_commit", commit_request(("x", 0)), 8)

    assert client.broker.groups.group("g") is None


@pytest.mark.parametrize("version", range(1, 8))
def test_offset_fetch_of_one_group(client: Client, version: int) -> None:
    client.ask("k08_offset_commit", commit_request(("t", 1)), 8)
    wanted = [OffsetFetchRequestTopic("t", [0, 1]), OffsetFetchRequestTopic("x", [0])]
    answer = client.ask("k09_offset_fetch", OffsetFetchRequest("g", wanted), version)

    assert [(topic.name, [each.committed_offset for each in topic.partitions]) for topic in answer.topics] == [
        ("t", [-1, 5]),
        ("x", [-1]),
    ]
    assert codes(answer) == [E.NONE] * 3
    if version >= 2:
        (topic,) = client.ask("k09_offset_fetch", OffsetFetchRequest("g", None), version).topics
        assert [(each.partition_index, each.committed_offset) for each in topic.partitions] == [(1, 5)]


@pytest.mark.parametrize("version", [8, 9])
def test_offset_fetch_of_several_groups(client: Client, version: int) -> None:
    client.ask("k08_offset_commit", commit_request(("t", 1)), 8)
    groups = [
        OffsetFetchRequestGroup("g", topics=None),
        OffsetFetchRequestGroup("h", topics=[OffsetFetchRequestTopics("t", partition_indexes=[0])]),
    ]
    first, second = client.ask("k09_offset_fetch", OffsetFetchRequest(groups=groups), version).groups

    assert (first.group_id, first.error_code, codes(first)) == ("g", E.NONE, [E.NONE])
    assert first.topics[0].partitions[0].committed_offset == 5
    assert second.topics[0].partitions[0].committed_offset == -1


def test_offset_fetch_by_id(client: Client, world: World) -> None:
    client.ask("k08_offset_commit", commit_request(("t", 1)), 8)
    world.commit(7, topic="gone")
    wanted = [OffsetFetchRequestTopics(topic_id=each, partition_indexes=[1]) for each in (UNKNOWN_ID, T_ID)]
    groups = [OffsetFetchRequestGroup("g", topics=wanted), OffsetFetchRequestGroup("g", topics=None)]
    some, every = client.ask("k09_offset_fetch", OffsetFetchRequest(groups=groups), 10).groups

    assert [(topic.topic_id, topic.partitions[0].committed_offset) for topic in some.topics] == [
        (T_ID, 5),
        (UNKNOWN_ID, -1),
    ]
    assert codes(some) == [E.NONE, E.UNKNOWN_TOPIC_ID]
    assert [topic.topic_id for topic in every.topics] == [T_ID]


@pytest.mark.parametrize("version", range(7, 11))
@pytest.mark.parametrize("require_stable", [False, True])
def test_offset_fetch_of_a_pending_offset(client: Client, world: World, version: int, require_stable: bool) -> None:
    world.commit_in_txn(7, 5)
    if version == 7:
        request = OffsetFetchRequest("g", [OffsetFetchRequestTopic("t", [0])], require_stable=require_stable)
        answer = client.ask("k09_offset_fetch", request, version)
    else:
        wanted = [OffsetFetchRequestTopics("t", T_ID, [0])]
        groups = [OffsetFetchRequestGroup("g", topics=wanted)]
        request = OffsetFetchRequest(groups=groups, require_stable=require_stable)
        (answer,) = client.ask("k09_offset_fetch", request, version).groups

    assert codes(answer) == [E.UNSTABLE_OFFSET_COMMIT if require_stable else E.NONE]
    assert answer.topics[0].partitions[0].committed_offset == -1


@pytest.mark.parametrize("version", range(7))
def test_describe_groups(client: Client, version: int) -> None:
    member_id = enter(client)
    request = DescribeGroupsRequest(["g", "x"], include_authorized_operations=version >= 3)
    there, missing = client.ask("k15_describe_groups", request, version).groups

    assert (there.group_state, there.protocol_type, there.protocol_data) == ("Stable", "consumer", "range")
    assert [(each.member_id, each.client_id, each.client_host) for each in there.members] == [
        (member_id, "c", "/127.0.0.1")
    ]
    assert (there.members[0].member_metadata, there.members[0].member_assignment) == (
        subscription("t"),
        b"all",
    )
    assert there.authorized_operations == (0b1101_0100_1000 if version >= 3 else -(2**31))
    assert missing.group_state == "Dead"
    if version >= 6:
        assert (missing.error_code, missing.error_message) == (E.GROUP_ID_NOT_FOUND, "Group x not found.")
    else:
        assert missing.error_code == E.NONE


def test_describe_groups_shows_no_protocol_before_the_group_is_stable(client: Client, world: World) -> None:
    world.enter()
    (shown,) = client.ask("k15_describe_groups", DescribeGroupsRequest(["g"]), 5).groups

    assert (shown.group_state, shown.protocol_data) == ("CompletingRebalance", "")
    assert shown.members[0].member_metadata == b""


@pytest.mark.parametrize("version", range(6))
def test_list_groups(client: Client, version: int) -> None:
    enter(client)
    (listed,) = client.ask("k16_list_groups", ListGroupsRequest(), version).groups

    assert (listed.group_id, listed.protocol_type) == ("g", "consumer")
    assert listed.group_state == ("Stable" if version >= 4 else "")
    assert listed.group_type == ("classic" if version >= 5 else "")


@pytest.mark.parametrize("version", range(3))
def test_delete_groups(client: Client, world: World, version: int) -> None:
    enter(client)
    world.commit(1, group_id="h")
    answer = client.ask("k42_delete_groups", DeleteGroupsRequest(["g", "h", "h", "x"]), version)

    assert [(each.group_id, each.error_code) for each in answer.results] == [
        ("g", E.NON_EMPTY_GROUP),
        ("h", E.NONE),
        ("x", E.GROUP_ID_NOT_FOUND),
    ]


def test_offset_delete(client: Client) -> None:
    member_id = enter(client)
    places = commit_request(("t", 0), ("u", 0), generation_id_or_member_epoch=1, member_id=member_id)
    assert codes(client.ask("k08_offset_commit", places, 8)) == [E.NONE, E.NONE]
    numbers = [OffsetDeleteRequestPartition(0), OffsetDeleteRequestPartition(9)]
    request = OffsetDeleteRequest("g", [OffsetDeleteRequestTopic(name, numbers) for name in ("t", "u", "x")])
    answer = client.ask("k47_offset_delete", request, 0)
    unknown = E.UNKNOWN_TOPIC_OR_PARTITION

    assert answer.error_code == E.NONE
    assert codes(answer) == [E.GROUP_SUBSCRIBED_TO_TOPIC, unknown, E.NONE, unknown, unknown, unknown]


def test_offset_delete_of_a_group_that_does_not_exist(client: Client) -> None:
    request = OffsetDeleteRequest("x", [OffsetDeleteRequestTopic("t", [OffsetDeleteRequestPartition(0)])])
    answer = client.ask("k47_offset_delete", request, 0)

    assert (answer.error_code, list(answer.topics)) == (E.GROUP_ID_NOT_FOUND, [])


@pytest.mark.parametrize("version", [8, 9])
def test_offset_fetch_returns_a_group_requested_twice_with_all_topics_only_once(version: int) -> None:
    client = Client(World())
    named = [OffsetFetchRequestTopics("t", partition_indexes=[0])]
    request = (("g", None), ("h", None), ("g", None), ("g", named))
    wanted = [OffsetFetchRequestGroup(name, topics=topics) for name, topics in request]
    actual = client.ask("k09_offset_fetch", OffsetFetchRequest(groups=wanted), version).groups
    assert [(group.group_id, len(group.topics)) for group in actual] == [("g", 0), ("h", 0), ("g", 1)]
