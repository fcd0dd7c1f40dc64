"""Offsets to commit and fetched offsets, the same for every group type."""

from __future__ import annotations

from typing import NamedTuple

from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.primitives import ZERO_UUID


class OffsetCommit(NamedTuple):
    """How far a group has come in one partition."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = None
    topic_id: bytes = ZERO_UUID


class FetchedOffset(NamedTuple):
    """The answer for one partition of OffsetFetch; -1 where nothing is committed."""

    partition: int
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE


class FetchedTopic(NamedTuple):
    """The answers for the partitions of one topic of OffsetFetch."""

    name: str
    topic_id: bytes
    partitions: list[FetchedOffset]
