"""DescribeLogDirs, key 35, versions 1-5: sizes of partitions. v2 flexible. v4 size and free space of the disk. v5 cordoning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.broker.requests.slices import ELEMENT_COST, Steps, run_in_slices
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from stuntbroker.protocol.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasDataDir, HasLongRequests, HasTopics

    class Uses(HasDataDir, HasLongRequests, HasTopics, Protocol):
        """Parts of the broker that this module uses."""


KEY: Final = 35
VERSIONS = range(1, 6)


def handle(request: Asking[Uses], body: DescribeLogDirsRequest, version: int) -> DescribeLogDirsResponse | None:
    """Return the sizes of partitions; None when the response comes later."""
    return run_in_slices(request, _steps(request, body))


def _steps(request: Asking[Uses], body: DescribeLogDirsRequest) -> Steps[DescribeLogDirsResponse]:
    broker, node_id = request.broker, request.listener.node_id
    wanted = None
    if body.topics is not None:
        wanted = {(topic.topic, index) for topic in body.topics for index in topic.partitions}
    topics = []
    for topic in list(broker.topics):
        yield ELEMENT_COST + len(topic.partitions) // 4
        partitions = [
            DescribeLogDirsPartition(log.index, log.size, 0, False)
            for log, place in zip(topic.partitions, topic.placements, strict=True)
            if node_id in place.replicas and (wanted is None or (topic.name, log.index) in wanted)
        ]
        if partitions:
            topics.append(DescribeLogDirsTopic(topic.name, partitions))
    folder = broker.data_dir
    result = DescribeLogDirsResult(ErrorCode.NONE, folder.log_dir, topics, *folder.disk.space(folder.path))
    return DescribeLogDirsResponse(results=[result])
