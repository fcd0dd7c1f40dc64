"""OffsetFetch, key 9, versions 1-10.

Returns the committed offsets of consumer groups. v2 null topics mean all topics; top-level error. v3 throttle
time. v5 leader epochs. v6 flexible. v7 RequireStable: an error for offsets with a pending transactional commit
(KIP-447). v8 several groups. v9 member id and epoch, which only other group types use. v10 topic ids instead of
names.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Protocol

from stuntbroker.broker.configuration.properties import KIP_447_DRAFT
from stuntbroker.broker.requests.slices import ELEMENT_COST, Steps, run_in_slices
from stuntbroker.groups.offset_requests import FetchedTopic
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from stuntbroker.protocol.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from stuntbroker.protocol.primitives import ZERO_UUID
from stuntbroker.protocol.versions import GROUP_ERROR_FROM, SEVERAL_FROM, TOPIC_IDS_FROM

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasGroups, HasLongRequests, HasTopics
    from stuntbroker.groups.coordinator import GroupCoordinator

    class Uses(HasGroups, HasLongRequests, HasTopics, Protocol):
        """Parts of the broker that this module uses."""


Wanted = tuple[str, bytes, Sequence[int]]
"""(topic, topic id or zeros, partitions)"""

KEY = 9
VERSIONS = range(1, 11)

REQUIRE_STABLE_FROM = 7
FETCHED_AT_ONCE = 1_000
"""Topics and partitions whose offsets are looked up in one step."""
LOOKED_UP_PER_UNIT = 5
COPIED_PER_UNIT = 500
"""Offsets that are looked up, and copied, for one unit of cost."""
RETRY_LATER = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def handle(request: Asking[Uses], body: OffsetFetchRequest, version: int) -> OffsetFetchResponse | None:
    """Return the committed offsets of one group or several; None when the response comes later."""
    steps = _single(request, body, version) if version < SEVERAL_FROM[KEY] else _steps(request, body, version)
    return run_in_slices(request, steps)


def _single(request: Asking[Uses], body: OffsetFetchRequest, version: int) -> Steps[OffsetFetchResponse]:
    """Handle a request of versions 1-7, for one group."""
    groups = request.broker.groups
    stable, unstable = body.require_stable, ErrorCode.UNSTABLE_OFFSET_COMMIT
    if version < REQUIRE_STABLE_FROM and request.listener.profile == KIP_447_DRAFT:
        stable, unstable = True, RETRY_LATER
    wanted = None
    if body.topics is not None:
        wanted = [(topic.name, ZERO_UUID, topic.partition_indexes) for topic in body.topics]
    topics = yield from _fetch(groups, body.group_id, wanted, stable, unstable)
    if topics is None:
        error = ErrorCode.NOT_COORDINATOR
        return OffsetFetchResponse(
            topics=_all_failed(body, error) if version < GROUP_ERROR_FROM else [], error_code=error
        )
    must_retry = any(fetched.error == RETRY_LATER for topic in topics for fetched in topic.partitions)
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                topic.name, [OffsetFetchResponsePartition(*fetched) for fetched in topic.partitions]
            )
            for topic in topics
        ],
        error_code=RETRY_LATER if must_retry else ErrorCode.NONE,
    )


def _all_failed(body: OffsetFetchRequest, error: ErrorCode) -> list[OffsetFetchResponseTopic]:
    """Return an error for each partition, for versions that have none for the group."""
    return [
        OffsetFetchResponseTopic(
            topic.name, [OffsetFetchResponsePartition(index, -1, -1, "", error) for index in topic.partition_indexes]
        )
        for topic in body.topics or ()
    ]


def _steps(request: Asking[Uses], body: OffsetFetchRequest, version: int) -> Steps[OffsetFetchResponse]:
    answered = []
    # Unlike Kafka: a repeated request for all offsets of a group is answered once; a response may be 1,000 times as long.
    whole = {requested.group_id: requested for requested in body.groups if requested.topics is None}
    for requested in body.groups:
        if requested.topics is None and whole.pop(requested.group_id, None) is None:
            continue
        group = yield from _group(request, requested, body.require_stable, version)
        answered.append(group)
        yield ELEMENT_COST + sum(len(topic.partitions) for topic in group.topics) // 2
    return OffsetFetchResponse(groups=answered)


def _fetch(
    groups: GroupCoordinator, group_id: str, wanted: Sequence[Wanted] | None, stable: bool, unstable: ErrorCode
) -> Generator[int, None, list[FetchedTopic] | None]:
    """Return the committed offsets of partitions, up to FETCHED_AT_ONCE in each step. `wanted`: None for all.

    They are those of one moment, so that no transaction is half visible. Return None if another node has become the
    coordinator of the group meanwhile.
    """
    if not groups.is_loaded(group_id):
        return None
    if wanted is None:
        return groups.fetch_all(group_id, stable, unstable)
    count = sum(1 + len(numbers) for _, _, numbers in wanted)
    if count <= FETCHED_AT_ONCE:
        topics = groups.fetch(group_id, wanted, stable, unstable)
        yield ELEMENT_COST + count // LOOKED_UP_PER_UNIT
        return topics
    snapshot = groups.snapshot(group_id)
    yield ELEMENT_COST + len(snapshot.committed(group_id)) // COPIED_PER_UNIT
    topics = []
    for name, topic_id, numbers in wanted:
        topics.append(FetchedTopic(name, topic_id, []))
        for start in range(0, len(numbers), FETCHED_AT_ONCE):
            if not groups.is_loaded(group_id):
                return None
            some = [(name, topic_id, numbers[start : start + FETCHED_AT_ONCE])]
            topics[-1].partitions.extend(groups.fetch(group_id, some, stable, unstable, snapshot)[0].partitions)
            yield ELEMENT_COST + len(some[0][2]) // LOOKED_UP_PER_UNIT
    return topics


def _group(
    request: Asking[Uses], requested: OffsetFetchRequestGroup, require_stable: bool, version: int
) -> Generator[int, None, OffsetFetchResponseGroup]:
    groups = request.broker.groups
    unknown: list[OffsetFetchResponseTopics] = []
    wanted: list[Wanted] | None = None
    if requested.topics is not None:
        wanted = []
        for topic in requested.topics:
            name = topic.name if version < TOPIC_IDS_FROM[KEY] else request.broker.topics.name_of(topic.topic_id)
            if name is None:
                unknown.append(_unknown_id(topic.topic_id, topic.partition_indexes))
            else:
                wanted.append((name, topic.topic_id, topic.partition_indexes))
    unstable = ErrorCode.UNSTABLE_OFFSET_COMMIT
    topics = yield from _fetch(groups, requested.group_id, wanted, require_stable, unstable)
    if topics is None:
        return OffsetFetchResponseGroup(requested.group_id, [], ErrorCode.NOT_COORDINATOR)
    if wanted is None and version >= TOPIC_IDS_FROM[KEY]:
        topics = _with_ids(request, topics)
    known = [
        OffsetFetchResponseTopics(
            topic.name, topic.topic_id, [OffsetFetchResponsePartitions(*fetched) for fetched in topic.partitions]
        )
        for topic in topics
    ]
    return OffsetFetchResponseGroup(requested.group_id, known + unknown)


def _unknown_id(topic_id: bytes, numbers: Sequence[int]) -> OffsetFetchResponseTopics:
    error = ErrorCode.UNKNOWN_TOPIC_ID
    partitions = [OffsetFetchResponsePartitions(number, -1, -1, "", error) for number in numbers]
    return OffsetFetchResponseTopics("", topic_id, partitions)


def _with_ids(request: Asking[Uses], topics: list[FetchedTopic]) -> list[FetchedTopic]:
    """Return the topics that still exist, with their ids; a deleted topic has no id."""
    identified = []
    for fetched in topics:
        topic = request.broker.topics.get(fetched.name)
        if topic is not None:
            identified.append(fetched._replace(topic_id=topic.id))
    return identified
