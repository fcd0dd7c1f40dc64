"""Responses of group coordinators in the form that aiokafka's consumer understands.

aiokafka sends version 0 and 1 of most requests, and gives up on some errors after which Kafka's own consumer tries again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aiokafka.protocol.commit import OffsetFetchRequest
from aiokafka.protocol.group import HeartbeatRequest, JoinGroupRequest

from stuntbroker.client.backoff import next_backoff_s
from stuntbroker.client.producer.errors import UnsupportedVersionError
from stuntbroker.client.requests import Call
from stuntbroker.protocol.api_keys import OFFSET_FETCH
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages import offset_fetch_request as requests
from stuntbroker.protocol.messages.offset_fetch_response import OffsetFetchResponse

if TYPE_CHECKING:
    from aiokafka.client import AIOKafkaClient

STABLE_VERSION: Final = 7
"""The first version with RequireStable, and the last that names a single group."""
BACKOFF_S: Final = 0.02
NO_OFFSET: Final = -1
_LOADING: Final = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
_RETRIED: Final[tuple[tuple[type, ErrorCode, ErrorCode], ...]] = (
    (HeartbeatRequest, _LOADING, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    (JoinGroupRequest, ErrorCode.REBALANCE_IN_PROGRESS, _LOADING),
    (OffsetFetchRequest, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR),
    (OffsetFetchRequest, ErrorCode.REQUEST_TIMED_OUT, _LOADING),
)
"""(request, error on which aiokafka gives up, error on which it tries again, with another coordinator if necessary)"""


class StableOffsets(NamedTuple):
    """A response to OffsetFetch in the form that aiokafka's consumer reads."""

    topics: list[tuple[str, list[tuple[int, int, str, int]]]]
    """[(topic, [(partition, offset, metadata, error code)])]"""

    def codes(self) -> set[int]:
        """Return the error codes of the partitions, with 0 for those without an error."""
        return {part[3] for _, parts in self.topics for part in parts}


def retriable_code(request: Any, code: int) -> int:
    """Return the error code of a response to aiokafka's request, in a form with which aiokafka tries again where it should."""
    for kind, given_up, retried in _RETRIED:
        if code == given_up and isinstance(request, kind):
            return retried
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
