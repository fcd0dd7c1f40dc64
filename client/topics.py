"""Topics that a client needs for itself: made when they are missing, looked at when they are not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from stuntbroker.client.cluster import Cluster
from stuntbroker.client.errors import BrokerError, NotFound, check
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from stuntbroker.protocol.messages.create_topics_response import CreateTopicsResponse
from stuntbroker.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from stuntbroker.protocol.messages.describe_configs_response import DescribeConfigsResponse

CREATE_TOPICS: Final = 19
DESCRIBE_CONFIGS: Final = 32
DEFAULT_REPLICATION_FROM: Final = 4
"""CreateTopics leaves the replication factor to the cluster (KIP-464)."""
TOPIC_RESOURCE: Final = 2


def create_topic(cluster: Cluster, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
    """Makes a topic unless it is there, and waits until its partitions have leaders."""

    def attempt() -> None:
        wanted = [CreatableTopicConfig(name, value) for name, value in configs.items()]
        request = CreateTopicsRequest([CreatableTopic(topic, partitions, -1, (), wanted)])
        node_id = cluster.controller_id()
        answer = cluster.ask(node_id, CREATE_TOPICS, request, CreateTopicsResponse, DEFAULT_REPLICATION_FROM)
        result = answer.topics[0]
        if result.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
            check(f"making topic {topic!r}", result.error_code, result.error_message)

    def is_ready() -> None:
        try:
            cluster.leader(topic, 0)
        except NotFound as fault:
            raise BrokerError(str(fault), ErrorCode.LEADER_NOT_AVAILABLE) from fault

    cluster.retrying(attempt)
    cluster.retrying(is_ready)


def topic_config(cluster: Cluster, topic: str, name: str) -> str | None:
    """What one property of a topic is. Raises BrokerError when there is no such topic."""

    def attempt() -> str | None:
        request = DescribeConfigsRequest([DescribeConfigsResource(TOPIC_RESOURCE, topic, [name])])
        answer = cluster.ask(cluster.controller_id(), DESCRIBE_CONFIGS, request, DescribeConfigsResponse)
        (result,) = answer.results
        check(f"the configuration of topic {topic!r}", result.error_code, result.error_message)
        return next((entry.value for entry in result.configs if entry.name == name), None)

    return cluster.retrying(attempt)
