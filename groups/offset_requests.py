"""Offsets to commit and fetched offsets, the same for every group type."""

from __future__ import annotations

from typing import NamedTuple

from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.primitives import ZERO_UUID


class OffsetCommit(NamedTuple):
    """An offset that a group commits for one partition."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = None
    topic_id: bytes = ZERO_UUID


class FetchedOffset(NamedTuple):
    """The OffsetFetch response for one partition; the offset is -1 if none is committed."""

    partition: int
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE


class FetchedTopic(NamedTuple):
    """The OffsetFetch response for the partitions of one topic."""

    name: str
    topic_id: bytes
    partitions: list[FetchedOffset]
