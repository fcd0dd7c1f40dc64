"""OffsetCommit, key 8, versions 2-10.

Commits offsets of a consumer group. v3 throttle time. v5 without retention time. v6 leader epochs.
v7 instance id. v8 flexible. v9 GROUP_ID_NOT_FOUND for an unknown group. v10 topic ids instead of names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from stuntbroker.broker.metadata.unknown_topics import unknown_topic
from stuntbroker.broker.requests.slices import SLICE_COST, Steps, run_in_slices
from stuntbroker.groups.commits import COMMITTED_AT_ONCE
from stuntbroker.groups.offset_requests import OffsetCommit
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.offset_commit_request import OffsetCommitRequest
from stuntbroker.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from stuntbroker.protocol.versions import TOPIC_IDS_FROM

if TYPE_CHECKING:
    from stuntbroker.broker.metadata.topics import Topic
    from stuntbroker.broker.services import Asking, HasGroups, HasLongRequests, HasTopics

    class Uses(HasGroups, HasLongRequests, HasTopics, Protocol):
        """Parts of the broker that this module uses."""


KEY = 8
VERSIONS = range(2, 11)


def handle(request: Asking[Uses], body: OffsetCommitRequest, version: int) -> OffsetCommitResponse | None:
    """Store the offsets of a group; None when the response comes later."""
    return run_in_slices(request, _steps(request, body, version))


def _steps(request: Asking[Uses], body: OffsetCommitRequest, version: int) -> Steps[OffsetCommitResponse]:
    topics, by_id = request.broker.topics, version >= TOPIC_IDS_FROM[KEY]
    commits: list[tuple[OffsetCommit, Topic, OffsetCommitResponsePartition]] = []
    answers: list[OffsetCommitResponseTopic] = []
    for requested in body.topics:
        topic = topics.find(requested.name, requested.topic_id, by_id)
        count = 0 if topic is None else len(topic.partitions)
        partitions = []
        for partition in requested.partitions:
            number = partition.partition_index
            answer = OffsetCommitResponsePartition(number)
            partitions.append(answer)
            if topic is None:
                answer.error_code = unknown_topic(by_id)
            elif not 0 <= number < count:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                commit = OffsetCommit(
                    topic.name,
                    number,
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    partition.committed_metadata,
                    topic.id,
                )
                commits.append((commit, topic, answer))
        if partitions:
            answers.append(OffsetCommitResponseTopic(requested.name, requested.topic_id, partitions))
    response = OffsetCommitResponse(topics=answers)
    # Unlike Kafka: many offsets are written in several batches; Kafka writes all offsets of a request in one batch.
    for start in range(0, len(commits), COMMITTED_AT_ONCE):
        if start:
            yield SLICE_COST
        some = []
        for commit, topic, answer in commits[start : start + COMMITTED_AT_ONCE]:
            if topics.get(topic.name) is topic:
                some.append((commit, answer))
            else:  # It was deleted between two steps; a new topic of this name has no offsets.
                answer.error_code = unknown_topic(by_id)
        errors = request.broker.groups.commit(
            body.group_id,
            body.member_id,
            body.group_instance_id,
            body.generation_id_or_member_epoch,
            [commit for commit, _ in some],
            version,
            body.retention_time_ms,
        )
        for (_, answer), error in zip(some, errors, strict=True):
            answer.error_code = error
    return response
