"""CreateTopics, key 19, versions 2-7.

v4 -1 partitions or replicas mean the broker's default. v5 flexible, the response describes the new topic. v7 topic id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.broker.configuration.config_view import topic_configs
from stuntbroker.broker.configuration.properties import PARTITIONS_MAX
from stuntbroker.broker.metadata.topic_creation import TopicRefused, check_new_topic
from stuntbroker.broker.metadata.topics import Topic
from stuntbroker.broker.requests.slices import ELEMENT_COST, PARTITION_CHANGE_COST, Steps, cost_of_change, run_in_slices
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from stuntbroker.protocol.messages.create_topics_response import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)
from stuntbroker.protocol.versions import CREATED_TOPICS_DESCRIBED_FROM
from stuntbroker.storage.errors import StorageError

if TYPE_CHECKING:
    from stuntbroker.broker.configuration.config_view import ConfigViewPorts
    from stuntbroker.broker.metadata.topic_creation import TopicCreationPorts
    from stuntbroker.broker.services import Asking, HasLongRequests, HasSyncer

    class Uses(TopicCreationPorts, ConfigViewPorts, HasLongRequests, HasSyncer, Protocol):
        """Parts of the broker that this module uses."""


KEY: Final = 19
VERSIONS = range(2, 8)
CONFIG_COST: Final = 20
"""Cost, in slice units, of a topic whose configuration is in the response."""


def handle(request: Asking[Uses], body: CreateTopicsRequest, version: int) -> CreateTopicsResponse | None:
    """Create topics; None when the response comes later."""
    names = Counter(topic.name for topic in body.topics)
    default: int = request.broker.config["num.partitions"]
    counts = (len(topic.assignments) or topic.num_partitions for topic in body.topics)
    if sum(default if count == -1 else max(0, count) for count in counts) > PARTITIONS_MAX:
        return _too_many(names)
    return run_in_slices(request, _steps(request.broker, body, names, version))


def _steps(broker: Uses, body: CreateTopicsRequest, names: Counter[str], version: int) -> Steps[CreateTopicsResponse]:
    results: dict[str, CreatableTopicResult] = {}
    created: set[str] = set()
    cost = 0
    for wanted in body.topics:
        yield cost
        name, cost = wanted.name, ELEMENT_COST
        if names[name] > 1:
            results[name] = CreatableTopicResult(
                name, error_code=ErrorCode.INVALID_REQUEST, error_message="Duplicate topic name."
            )
        elif body.timeout_ms <= 0:
            timed_out = ErrorCode.REQUEST_TIMED_OUT
            results[name] = CreatableTopicResult(name, error_code=timed_out, error_message=None)
        else:
            colliding = broker.topics.colliding(name, created)  # Topics of one request may collide with each other.
            result = _create_topic(broker, wanted, colliding, body.validate_only, version)
            results[name] = result
            changed = not result.error_code and not body.validate_only
            if changed:
                created.add(name)
            cost = CONFIG_COST + (
                cost_of_change(broker.syncer is not None, result.num_partitions) if changed else PARTITION_CHANGE_COST
            )
    return CreateTopicsResponse(topics=list(results.values()))


def _too_many(names: Iterable[str]) -> CreateTopicsResponse:
    message = "Excessively large number of partitions per request."
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name, error_code=ErrorCode.POLICY_VIOLATION, error_message=message, configs=[])
            for name in names
        ]
    )


def _create_topic(
    broker: Uses, wanted: CreatableTopic, colliding: str | None, validate_only: bool, version: int
) -> CreatableTopicResult:
    try:
        new = check_new_topic(broker, wanted, colliding)
        count, copies = new.partitions, wanted.replication_factor
        if validate_only:
            topic = Topic(wanted.name, broker.topics.new_id(), new.configs)
            topic.placements = broker.topics.new_placements(range(count), new.replicas, copies)
        else:
            topic = broker.topics.create(
                wanted.name, count, new.configs, replicas=new.replicas, replication_factor=copies
            )
            broker.events.info("topic_created", topic=wanted.name, partitions=count, on_demand=False)
    except TopicRefused as refusal:
        return CreatableTopicResult(wanted.name, error_code=refusal.error, error_message=str(refusal), configs=[])
    except StorageError as fault:
        return CreatableTopicResult(
            wanted.name, error_code=ErrorCode.KAFKA_STORAGE_ERROR, error_message=str(fault), configs=[]
        )
    result = CreatableTopicResult(wanted.name, topic.id, ErrorCode.NONE, None, 0, count, topic.replication_factor, [])
    if version >= CREATED_TOPICS_DESCRIBED_FROM:
        # Values as given; only DescribeConfigs shows them as parsed.
        result.configs = [
            CreatableTopicConfigs(
                config.name, topic.configs.get(config.name, config.value), False, config.source, False
            )
            for config in topic_configs(broker, topic)
        ]
    return result
