"""DescribeProducers, key 61, version 0: producers of a partition and their open transactions (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.broker.metadata.unknown_topics import unknown_or_invalid
from stuntbroker.broker.requests.slices import ELEMENT_COST, Steps, run_in_slices
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.describe_producers_request import DescribeProducersRequest
from stuntbroker.protocol.messages.describe_producers_response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasLongRequests, HasTopics

    class Uses(HasLongRequests, HasTopics, Protocol):
        """Parts of the broker that this module uses."""


KEY: Final = 61
VERSIONS = range(0, 1)


def handle(request: Asking[Uses], body: DescribeProducersRequest, version: int) -> DescribeProducersResponse | None:
    """Describe the producers of partitions; None when the response comes later."""
    return run_in_slices(request, _steps(request, body))


def _steps(request: Asking[Uses], body: DescribeProducersRequest) -> Steps[DescribeProducersResponse]:
    broker, node_id = request.broker, request.listener.node_id
    topics = []
    for topic in body.topics:
        partitions = []
        missing = unknown_or_invalid(topic.name)
        for index in topic.partition_indexes:
            known, log = broker.topics.get(topic.name), broker.topics.log(topic.name, index)
            if log is None or known is None:
                partitions.append(PartitionResponse(index, missing))
                yield ELEMENT_COST
                continue
            if node_id not in known.placements[index].replicas:
                partitions.append(PartitionResponse(index, ErrorCode.NOT_LEADER_OR_FOLLOWER))
                yield ELEMENT_COST
                continue
            producers = [
                ProducerState(
                    producer_id,
                    producer.epoch,
                    producer.last_sequence,
                    producer.last_timestamp,
                    producer.coordinator_epoch,
                    producer.txn_first_offset,
                )
                for producer_id, producer in log.producers.producers.items()
            ]
            partitions.append(PartitionResponse(index, ErrorCode.NONE, None, producers))
            yield ELEMENT_COST + len(producers) // 4
        topics.append(TopicResponse(topic.name, partitions))
    return DescribeProducersResponse(topics=topics)
