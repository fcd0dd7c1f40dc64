"""AlterReplicaLogDirs, key 34, versions 1-2: move replicas to another log directory. v2 flexible.

The data folder is the only log directory, so a valid request changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.broker.requests.slices import ELEMENT_COST, Steps, run_in_slices
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.alter_replica_log_dirs_request import AlterReplicaLogDirsRequest
from stuntbroker.protocol.messages.alter_replica_log_dirs_response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasDataDir, HasLongRequests, HasTopics

    class Uses(HasDataDir, HasLongRequests, HasTopics, Protocol):
        """Parts of the broker that this module uses."""


KEY: Final = 34
VERSIONS = range(1, 3)


def handle(request: Asking[Uses], body: AlterReplicaLogDirsRequest, version: int) -> AlterReplicaLogDirsResponse | None:
    """Accept the data folder, and refuse other log directories; None when the response comes later."""
    return run_in_slices(request, _move_replicas(request.broker, body))


def _move_replicas(broker: Uses, body: AlterReplicaLogDirsRequest) -> Steps[AlterReplicaLogDirsResponse]:
    log_dir = broker.data_dir.log_dir
    errors: dict[str, dict[int, ErrorCode]] = {}
    """Topic -> partition -> error. The last path of a partition in the request counts."""
    for target in body.dirs:
        for topic in target.topics:
            yield ELEMENT_COST
            for index in topic.partitions:
                yield ELEMENT_COST
                if target.path != log_dir:  # Kafka checks the path before the partition.
                    error = ErrorCode.LOG_DIR_NOT_FOUND
                elif broker.topics.log(topic.name, index) is None:
                    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                else:
                    error = ErrorCode.NONE
                errors.setdefault(topic.name, {})[index] = error
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                name, [AlterReplicaLogDirPartitionResult(index, error) for index, error in partitions.items()]
            )
            for name, partitions in errors.items()
        ]
    )
