"""Responses of group coordinators in the form that aiokafka's consumer understands.

aiokafka sends version 0 and 1 of most requests, and gives up on some errors after which Kafka's own consumer tries again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aiokafka.protocol.commit import OffsetFetchRequest
from aiokafka.protocol.group import HeartbeatRequest, JoinGroupRequest, SyncGroupRequest

from stuntbroker.client.backoff import next_backoff_s
from stuntbroker.client.requests import Call
from stuntbroker.client.transactional_errors import UnsupportedVersionError
from stuntbroker.protocol.api_keys import OFFSET_FETCH
from stuntbroker.protocol.errors import RETRIABLE, ErrorCode
from stuntbroker.protocol.messages import offset_fetch_request as requests
from stuntbroker.protocol.messages.offset_fetch_response import OffsetFetchResponse

if TYPE_CHECKING:
    from aiokafka.client import AIOKafkaClient

STABLE_VERSION: Final = 7
"""The first version with RequireStable, and the last that names a single group."""
BACKOFF_S: Final = 0.02
NO_OFFSET: Final = -1
_E = ErrorCode


class _Retries(NamedTuple):
    """After which errors in the response to a request aiokafka tries again."""

    handled: frozenset[ErrorCode]
    """aiokafka knows what to do after these."""
    replaced: dict[int, ErrorCode]
    """Error -> the one that aiokafka gets instead."""
    default: ErrorCode
    """What aiokafka gets instead of every other error after which Kafka's own consumer tries again."""


_RETRIES: Final[dict[type, _Retries]] = {
    HeartbeatRequest: _Retries(
        frozenset({_E.COORDINATOR_NOT_AVAILABLE, _E.NOT_COORDINATOR}), {}, _E.COORDINATOR_NOT_AVAILABLE
    ),
    JoinGroupRequest: _Retries(
        frozenset({_E.COORDINATOR_NOT_AVAILABLE, _E.NOT_COORDINATOR}),
        {_E.REBALANCE_IN_PROGRESS: _E.COORDINATOR_LOAD_IN_PROGRESS},
        _E.COORDINATOR_LOAD_IN_PROGRESS,
    ),
    SyncGroupRequest: _Retries(
        frozenset({_E.COORDINATOR_NOT_AVAILABLE, _E.NOT_COORDINATOR}), {}, _E.COORDINATOR_NOT_AVAILABLE
    ),
    OffsetFetchRequest: _Retries(
        frozenset({_E.UNKNOWN_TOPIC_OR_PARTITION, _E.NOT_COORDINATOR, _E.UNSTABLE_OFFSET_COMMIT}),
        {_E.COORDINATOR_NOT_AVAILABLE: _E.NOT_COORDINATOR},
        _E.COORDINATOR_LOAD_IN_PROGRESS,
    ),
}


class StableOffsets(NamedTuple):
    """A response to OffsetFetch in the form that aiokafka's consumer reads."""

    topics: list[tuple[str, list[tuple[int, int, str, int]]]]
    """[(topic, [(partition, offset, metadata, error code)])]"""

    def codes(self) -> set[int]:
        """Return the error codes of the partitions, with 0 for those without an error."""
        return {part[3] for _, parts in self.topics for part in parts}


def retriable_code(request: Any, code: int) -> int:
    """Return the error code of a response to aiokafka's request, in a form with which aiokafka tries again where it should."""
    for kind, retries in _RETRIES.items():
        if isinstance(request, kind):
            is_given_up = code in RETRIABLE and code not in retries.handled
            return retries.replaced.get(code, retries.default if is_given_up else code)
    return code


async def fetch_stable_offsets(
    client: AIOKafkaClient, send: Any, node_id: int, request: OffsetFetchRequest, group: int
) -> StableOffsets:
    """Send OffsetFetch until no offset is part of an open transaction. Raises UnsupportedVersionError, aiokafka's errors.

    `send`: the client's own method; `group`: its group of connections.
    """
    topics = [requests.OffsetFetchRequestTopic(name, partitions) for name, partitions in request._partitions or ()]
    message = requests.OffsetFetchRequest(request._consumer_group, topics, (), True)
    backoff_s = BACKOFF_S
    while True:
        connection = await client._get_conn(node_id, group=group)
        if connection is not None and connection._versions.get(OFFSET_FETCH, (0, 0))[1] < STABLE_VERSION:
            raise UnsupportedVersionError(
                f"the broker at {connection.host}:{connection.port} has no OffsetFetch {STABLE_VERSION}: "
                "offsets of open transactions could be overlooked"
            )
        call = Call(OFFSET_FETCH, STABLE_VERSION, message, OffsetFetchResponse)
        answer: OffsetFetchResponse = await send(node_id, call, group=group)
        offsets = _as_aiokafka_reads(answer, request, message)
        if ErrorCode.UNSTABLE_OFFSET_COMMIT not in offsets.codes():
            return offsets
        await asyncio.sleep(backoff_s)
        backoff_s = next_backoff_s(backoff_s)


def _as_aiokafka_reads(
    answer: OffsetFetchResponse, request: OffsetFetchRequest, message: requests.OffsetFetchRequest
) -> StableOffsets:
    """Convert a response for aiokafka, which knows versions 0 and 1: an error of the whole response is set on every partition."""
    if answer.error_code:
        code = retriable_code(request, answer.error_code)
        whole = [
            (topic.name, [(index, NO_OFFSET, "", code) for index in topic.partition_indexes])
            for topic in message.topics or ()
        ]
        return StableOffsets(whole)
    return StableOffsets(
        [
            (
                topic.name,
                [
                    (
                        part.partition_index,
                        part.committed_offset,
                        part.metadata or "",
                        retriable_code(request, part.error_code),
                    )
                    for part in topic.partitions
                ],
            )
            for topic in answer.topics
        ]
    )
