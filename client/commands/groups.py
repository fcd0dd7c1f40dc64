"""Consumer groups: members and committed offsets, and changing the offsets of a group without members."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.errors import ConnectionFailed, NotFound, check
from stuntbroker.protocol.api_keys import (
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
)
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.delete_groups_request import DeleteGroupsRequest
from stuntbroker.protocol.messages.delete_groups_response import DeleteGroupsResponse
from stuntbroker.protocol.messages.describe_groups_request import DescribeGroupsRequest
from stuntbroker.protocol.messages.describe_groups_response import DescribeGroupsResponse
from stuntbroker.protocol.messages.list_groups_request import ListGroupsRequest
from stuntbroker.protocol.messages.list_groups_response import ListGroupsResponse
from stuntbroker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from stuntbroker.protocol.messages.offset_commit_response import OffsetCommitResponse
from stuntbroker.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from stuntbroker.protocol.messages.offset_delete_response import OffsetDeleteResponse
from stuntbroker.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from stuntbroker.protocol.messages.offset_fetch_response import OffsetFetchResponse
from stuntbroker.protocol.primitives import read_string
from stuntbroker.protocol.topic_names import TopicPartition
from stuntbroker.protocol.versions import SEVERAL_FROM

STATES: Final = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead")
"""States of groups of the classic protocol."""
NAMES_MAX: Final = 9
"""OffsetCommit and OffsetFetch name topics by id from version 10 on."""
ALL_TOPICS_FROM: Final = 2
"""First version of OffsetFetch that returns all topics for a null list."""


class GroupListing(NamedTuple):
    """A group as its coordinator lists it. `state` is empty if the broker is older than Kafka 2.6."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str


class Member(NamedTuple):
    """A member of a classic group, with the partitions that it was assigned."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    partitions: tuple[TopicPartition, ...]


class GroupDescription(NamedTuple):
    """A group and its members; `state` is Kafka's name, `Dead` for a group that does not exist."""

    group_id: str
    coordinator_id: int
    state: str
    protocol_type: str
    protocol: str
    members: tuple[Member, ...]


class Committed(NamedTuple):
    """The offset that a group committed for a partition."""

    offset: int
    leader_epoch: int
    metadata: str


def list_groups(cluster: Cluster, states: Collection[str] = ()) -> list[GroupListing]:
    """Return the groups of all brokers, or only those in one of `states`, sorted by id."""

    def attempt() -> list[GroupListing]:
        groups = []
        for node_id in cluster.broker_ids():
            least = 4 if states else 0
            answer = cluster.ask(node_id, LIST_GROUPS, ListGroupsRequest(list(states)), ListGroupsResponse, least)
            check(f"ListGroups to broker {node_id}", answer.error_code)
            groups += [
                GroupListing(each.group_id, each.protocol_type, each.group_state, each.group_type)
                for each in answer.groups
            ]
        return sorted(groups)

    return cluster.retrying(attempt)


def describe_groups(cluster: Cluster) -> list[GroupDescription]:
    """Describe all groups of the cluster."""
    described = []
    for each in list_groups(cluster):
        try:
            described.append(describe_group(cluster, each.group_id))
        except NotFound:  # Deleted between the two requests.
            continue
    return described


def describe_group(cluster: Cluster, group_id: str) -> GroupDescription:
    """Describe a group and its members. Raises NotFound if the coordinator does not know the group."""

    def attempt() -> GroupDescription:
        node_id = cluster.group_coordinator(group_id)
        answer = cluster.ask(node_id, DESCRIBE_GROUPS, DescribeGroupsRequest([group_id]), DescribeGroupsResponse)
        (group,) = answer.groups
        if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND or group.group_state == "Dead":
            raise NotFound(f"there is no group {group_id!r}")
        check(f"group {group_id!r}", group.error_code, group.error_message)
        members = tuple(
            Member(
                each.member_id,
                each.group_instance_id,
                each.client_id,
                each.client_host,
                assigned_partitions(each.member_assignment) if group.protocol_type == "consumer" else (),
            )
            for each in group.members
        )
        return GroupDescription(
            group_id, node_id, group.group_state, group.protocol_type, group.protocol_data, tuple(sorted(members))
        )

    return cluster.retrying(attempt)


def assigned_partitions(assignment: bytes) -> tuple[TopicPartition, ...]:
    """Return the partitions in a member's assignment (ConsumerProtocolAssignment: version, topics, user data)."""
    if len(assignment) < 6:
        return ()
    partitions, pos = [], 6
    for _ in range(int.from_bytes(assignment[2:6], "big", signed=True)):
        topic, pos = read_string(assignment, pos)
        count = int.from_bytes(assignment[pos : pos + 4], "big", signed=True)
        pos += 4
        for _ in range(count):
            partitions.append((topic or "", int.from_bytes(assignment[pos : pos + 4], "big", signed=True)))
            pos += 4
    return tuple(sorted(partitions))


def committed_offsets(
    cluster: Cluster, group_id: str, *, require_stable: bool = False
) -> dict[TopicPartition, Committed]:
    """Return all committed offsets of a group, by partition; empty for a group that does not exist.

    `require_stable` (KIP-447): wait for offsets that are part of an open transaction (UNSTABLE_OFFSET_COMMIT is retried).
    """

    def attempt() -> dict[TopicPartition, Committed]:
        group = OffsetFetchRequestGroup(group_id, topics=None)
        request = OffsetFetchRequest(group_id, None, [group], require_stable)
        node_id = cluster.group_coordinator(group_id)
        least = 7 if require_stable else ALL_TOPICS_FROM
        version = min(cluster.version(node_id, OFFSET_FETCH, least), NAMES_MAX)
        answer = cluster.ask(node_id, OFFSET_FETCH, request, OffsetFetchResponse, least, NAMES_MAX)
        result = answer.groups[0] if version >= SEVERAL_FROM[OFFSET_FETCH] else answer
        check(f"the offsets of group {group_id!r}", result.error_code)
        offsets = {}
        for topic in result.topics:
            for part in topic.partitions:
                check(f"the offset of group {group_id!r} in {topic.name}-{part.partition_index}", part.error_code)
                if part.committed_offset >= 0:
                    committed = Committed(part.committed_offset, part.committed_leader_epoch, part.metadata or "")
                    offsets[topic.name, part.partition_index] = committed
        return dict(sorted(offsets.items()))

    return cluster.retrying(attempt)


def commit_offsets(cluster: Cluster, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit offsets for a group without members. Raises BrokerError, for example if the group has members."""
    by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        by_topic.setdefault(topic, []).append(OffsetCommitRequestPartition(partition, offset))
    topics = [OffsetCommitRequestTopic(topic, partitions=partitions) for topic, partitions in by_topic.items()]

    def attempt() -> None:
        request = OffsetCommitRequest(group_id, topics=topics)
        node_id = cluster.group_coordinator(group_id)
        answer = cluster.ask(node_id, OFFSET_COMMIT, request, OffsetCommitResponse, most=NAMES_MAX)
        committed = 0
        for topic in answer.topics:
            for part in topic.partitions:
                what = f"committing an offset of group {group_id!r} in {topic.name}-{part.partition_index}"
                if part.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                    check(what, part.error_code, "the group has members: stop them first")
                check(what, part.error_code)
                committed += 1
        if committed != len(offsets):
            raise ConnectionFailed("the response to OffsetCommit lacks partitions of the request")

    cluster.retrying(attempt)


def delete_offsets(
    cluster: Cluster, group_id: str, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """Delete a group's offsets of partitions that none of its members is subscribed to; return an error code for each.

    Raises BrokerError if the group cannot be changed at all.
    """
    by_topic: dict[str, list[OffsetDeleteRequestPartition]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(OffsetDeleteRequestPartition(partition))
    topics = [OffsetDeleteRequestTopic(topic, each) for topic, each in by_topic.items()]

    def attempt() -> dict[TopicPartition, int]:
        node_id = cluster.group_coordinator(group_id)
        answer = cluster.ask(node_id, OFFSET_DELETE, OffsetDeleteRequest(group_id, topics), OffsetDeleteResponse)
        check(f"deleting offsets of group {group_id!r}", answer.error_code)
        return {
            (topic.name, part.partition_index): part.error_code for topic in answer.topics for part in topic.partitions
        }

    return cluster.retrying(attempt)


def delete_group(cluster: Cluster, group_id: str) -> None:
    """Delete a group that has no members. Raises NotFound, or BrokerError."""

    def attempt() -> None:
        node_id = cluster.group_coordinator(group_id)
        answer = cluster.ask(node_id, DELETE_GROUPS, DeleteGroupsRequest([group_id]), DeleteGroupsResponse)
        (result,) = answer.results
        if result.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            raise NotFound(f"there is no group {group_id!r}")
        check(f"deleting group {group_id!r}", result.error_code, result.error_message)

    cluster.retrying(attempt)
