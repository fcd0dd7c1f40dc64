"""Describe, create, extend and delete topics, and delete their oldest records."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.errors import BrokerError, NotFound, check
from stuntbroker.protocol.api_keys import CREATE_PARTITIONS, CREATE_TOPICS, DELETE_RECORDS, DELETE_TOPICS
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from stuntbroker.protocol.messages.create_partitions_response import CreatePartitionsResponse
from stuntbroker.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from stuntbroker.protocol.messages.create_topics_response import CreateTopicsResponse
from stuntbroker.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from stuntbroker.protocol.messages.delete_records_response import DeleteRecordsResponse
from stuntbroker.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from stuntbroker.protocol.messages.delete_topics_response import DeleteTopicsResponse

DEFAULTS_FROM: Final = 4
"""First version of CreateTopics that can leave partition count and replication factor to the cluster (KIP-464)."""
REQUEST_TIMEOUT_MS: Final = 30_000


class PartitionDescription(NamedTuple):
    """A partition of a topic in a broker's metadata. Brokers are given by id; `leader` is -1 if there is none."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


class TopicDescription(NamedTuple):
    """A topic, with its partitions in order."""

    name: str
    topic_id: bytes
    """16 bytes; zeros if the broker is older than Kafka 2.8."""
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]


def describe_topics(cluster: Cluster, names: Collection[str] | None = None) -> list[TopicDescription]:
    """Describe these topics (None: all), sorted by name. Raises NotFound for the first missing topic."""

    def attempt() -> list[TopicDescription]:
        topics = []
        for topic in cluster.metadata(names).topics:
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise NotFound(f"there is no topic {topic.name!r}")
            check(f"topic {topic.name!r}", topic.error_code)
            partitions = (
                PartitionDescription(
                    each.partition_index,
                    each.leader_id,
                    each.leader_epoch,
                    tuple(each.replica_nodes),
                    tuple(each.isr_nodes),
                )
                for each in topic.partitions
            )
            name = topic.name or ""
            topics.append(TopicDescription(name, topic.topic_id, topic.is_internal, tuple(sorted(partitions))))
        return sorted(topics)

    return cluster.retrying(attempt)


def create_topic(
    cluster: Cluster,
    topic: str,
    partitions: int = -1,
    configs: Mapping[str, str] | None = None,
    replication_factor: int = -1,
    *,
    if_not_exists: bool = False,
    assignment: Sequence[Sequence[int]] = (),
) -> bool:
    """Create a topic and wait until it has a leader. Return False if it existed before (with `if_not_exists`).

    -1 leaves the number of partitions, or the replication factor, to the cluster. `assignment`: broker ids of the replicas of
    each partition, instead of both numbers. Raises BrokerError.
    """

    def attempt() -> bool:
        assigned = [CreatableReplicaAssignment(*each) for each in enumerate(assignment)]
        entries = [CreatableTopicConfig(name, value) for name, value in (configs or {}).items()]
        request = CreateTopicsRequest([CreatableTopic(topic, partitions, replication_factor, assigned, entries)])
        node_id = cluster.controller_id()
        answer = cluster.ask(node_id, CREATE_TOPICS, request, CreateTopicsResponse, DEFAULTS_FROM)
        result = answer.topics[0]
        if result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS and if_not_exists:
            return False
        check(f"creating topic {topic!r}", result.error_code, result.error_message)
        return True

    def check_leader() -> None:
        try:
            cluster.leader(topic, 0)
        except NotFound as fault:
            raise BrokerError(str(fault), ErrorCode.LEADER_NOT_AVAILABLE) from fault

    is_new = cluster.retrying(attempt)
    cluster.retrying(check_leader)
    return is_new


def delete_topic(cluster: Cluster, topic: str) -> None:
    """Delete a topic. Raises NotFound, or BrokerError."""

    def attempt() -> None:
        # Versions up to 5 carry names, version 6 states.
        request = DeleteTopicsRequest([DeleteTopicState(topic)], [topic], REQUEST_TIMEOUT_MS)
        result = cluster.ask(cluster.controller_id(), DELETE_TOPICS, request, DeleteTopicsResponse).responses[0]
        if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise NotFound(f"there is no topic {topic!r}")
        check(f"deleting topic {topic!r}", result.error_code, result.error_message)

    cluster.retrying(attempt)


def grow_topic(cluster: Cluster, topic: str, partitions: int, assignment: Sequence[Sequence[int]] = ()) -> None:
    """Increase the number of partitions of a topic to `partitions`. Raises NotFound, or BrokerError.

    `assignment`: ids of the brokers of each new partition; if empty, the broker chooses them.
    """
    assignments = [CreatePartitionsAssignment(brokers) for brokers in assignment] or None

    def attempt() -> None:
        request = CreatePartitionsRequest([CreatePartitionsTopic(topic, partitions, assignments)], REQUEST_TIMEOUT_MS)
        answer = cluster.ask(cluster.controller_id(), CREATE_PARTITIONS, request, CreatePartitionsResponse)
        result = answer.results[0]
        if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise NotFound(f"there is no topic {topic!r}")
        check(f"adding partitions to topic {topic!r}", result.error_code, result.error_message)

    cluster.retrying(attempt)


def delete_records(cluster: Cluster, topic: str, partition: int, offset: int) -> int:
    """Delete the records before an offset (-1: all); return the new log start offset. Raises BrokerError."""

    def attempt() -> int:
        wanted = DeleteRecordsTopic(topic, [DeleteRecordsPartition(partition, offset)])
        request = DeleteRecordsRequest([wanted], REQUEST_TIMEOUT_MS)
        answer = cluster.ask(cluster.leader(topic, partition), DELETE_RECORDS, request, DeleteRecordsResponse)
        result = answer.topics[0].partitions[0]
        check(f"deleting the records of {topic}-{partition} before offset {offset}", result.error_code)
        return result.low_watermark

    return cluster.retrying(attempt)
