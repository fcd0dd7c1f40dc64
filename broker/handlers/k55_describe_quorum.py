"""DescribeQuorum, key 55, versions 0-2: the quorum of the metadata log, whose only voter and leader is this broker.

v1 times of the voters. v2 messages, directory ids, and the endpoints of the controllers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.broker.requests.slices import ELEMENT_COST, Steps, run_in_slices
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from stuntbroker.protocol.messages.describe_quorum_response import (
    DescribeQuorumResponse,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)
from stuntbroker.protocol.primitives import ZERO_UUID
from stuntbroker.protocol.topic_names import CLUSTER_METADATA

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasClock, HasDataDir, HasLongRequests, HasNodeId

    class Uses(HasClock, HasDataDir, HasLongRequests, HasNodeId, Protocol):
        """Parts of the broker that this module uses."""


KEY: Final = 55
VERSIONS = range(0, 3)
LEADER_EPOCH: Final = 1


def handle(request: Asking[Uses], body: DescribeQuorumRequest, version: int) -> DescribeQuorumResponse | None:
    """Describe a quorum of one, the first node; None when the response comes later."""
    wanted = [
        (topic.topic_name, [partition.partition_index for partition in topic.partitions]) for topic in body.topics
    ]
    if wanted == [(CLUSTER_METADATA, [0])]:
        return _describe(request.broker)
    return run_in_slices(request, _reject(wanted))


def _describe(broker: Uses) -> DescribeQuorumResponse:
    # Unlike Kafka: the metadata log is a journal without offsets, epochs and a listener of its own. Its end offset is the
    # number of its lines, its leader epoch stays the first one, and the controller has no endpoint.
    end_offset, now_ms = broker.data_dir.journal_lines, broker.clock.now_ms()
    # The directory id is zero, as in Kafka with `controller.quorum.voters`: the data folder has no id.
    voter = ReplicaState(broker.node_id, ZERO_UUID, end_offset, now_ms, now_ms)
    partition = PartitionData(0, ErrorCode.NONE, "", broker.node_id, LEADER_EPOCH, end_offset, [voter], [])
    return DescribeQuorumResponse(topics=[TopicData(CLUSTER_METADATA, [partition])], nodes=[Node(broker.node_id, [])])


def _reject(wanted: list[tuple[str, list[int]]]) -> Steps[DescribeQuorumResponse]:
    """Reject all partitions, as Kafka does unless the request names exactly the partition of the metadata log."""
    error, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
    topics = []
    for name, indexes in wanted:
        yield ELEMENT_COST
        partitions = []
        for index in indexes:
            yield ELEMENT_COST
            partitions.append(PartitionData(index, error, message))
        topics.append(TopicData(name, partitions))
    return DescribeQuorumResponse(topics=topics)
