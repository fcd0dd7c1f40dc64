"""Rules for offset commits and fetches that are the same for groups of every type."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from stuntbroker.groups.config import GroupConfig
from stuntbroker.groups.offset_requests import FetchedOffset, FetchedTopic, OffsetCommit
from stuntbroker.groups.offsets import OffsetStore, StoredOffset
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.primitives import ZERO_UUID
from stuntbroker.protocol.versions import GROUP_ID_NOT_FOUND_FROM

COMMITTED_AT_ONCE: Final = 1_000
"""Maximum number of offsets of a long request that are written in one batch."""


def missing_group_error(generation: int, transactional: bool, version: int) -> ErrorCode:
    """Return the error of a commit for a group that does not exist; NONE if the commit creates a simple group."""
    if generation < 0:
        return ErrorCode.NONE
    names_missing_group = not transactional and version >= GROUP_ID_NOT_FOUND_FROM
    return ErrorCode.GROUP_ID_NOT_FOUND if names_missing_group else ErrorCode.ILLEGAL_GENERATION


def metadata_error(metadata: str | None, config: GroupConfig) -> ErrorCode:
    """Return OFFSET_METADATA_TOO_LARGE for metadata of too many characters, counted as Java does (UTF-16)."""
    if metadata is None or len(metadata) * 2 <= config.offset_metadata_size_max:
        return ErrorCode.NONE
    units = len(metadata) if metadata.isascii() else len(metadata.encode("utf-16-be", "surrogatepass")) // 2
    return ErrorCode.NONE if units <= config.offset_metadata_size_max else ErrorCode.OFFSET_METADATA_TOO_LARGE


def stored(commit: OffsetCommit, record_offset: int, now_ms: int, expires_at_ms: int = -1) -> StoredOffset:
    """Return a commit as a StoredOffset. `record_offset`: offset of its record in the log."""
    return StoredOffset(
        record_offset,
        commit.offset,
        commit.leader_epoch if expires_at_ms < 0 else -1,  # The record version with an expiry time has no leader epoch.
        commit.metadata or "",
        now_ms,
        expires_at_ms,
        commit.topic_id if expires_at_ms < 0 else ZERO_UUID,
    )


def fetch(
    store: OffsetStore,
    group_id: str,
    topics: Iterable[tuple[str, bytes, Sequence[int]]],
    require_stable: bool,
    unstable: ErrorCode,
) -> list[FetchedTopic]:
    """Return the committed offsets of (topic, topic id, partitions).

    With `require_stable`, a partition with a pending offset gets the error `unstable`.
    """
    answer = []
    for name, topic_id, partitions in topics:
        fetched = [
            _fetch_partition(store, group_id, name, topic_id, number, require_stable, unstable) for number in partitions
        ]
        answer.append(FetchedTopic(name, topic_id, fetched))
    return answer


def fetch_all(store: OffsetStore, group_id: str, require_stable: bool, unstable: ErrorCode) -> list[FetchedTopic]:
    """Return all committed offsets of a group, without partitions that have only a pending offset."""
    answer: dict[str, FetchedTopic] = {}
    for (name, number), _ in store.committed(group_id):
        topic = answer.setdefault(name, FetchedTopic(name, ZERO_UUID, []))
        topic.partitions.append(_fetch_partition(store, group_id, name, ZERO_UUID, number, require_stable, unstable))
    return list(answer.values())


def _fetch_partition(
    store: OffsetStore,
    group_id: str,
    name: str,
    topic_id: bytes,
    number: int,
    require_stable: bool,
    unstable: ErrorCode,
) -> FetchedOffset:
    place = (name, number)
    if require_stable and store.is_pending(group_id, place):
        return FetchedOffset(number, error=unstable)
    offset = store.get(group_id, place)
    if offset is None:
        return FetchedOffset(number)
    if offset.topic_id != topic_id and ZERO_UUID not in (offset.topic_id, topic_id):
        return FetchedOffset(number)  # Committed for a deleted topic of the same name.
    return FetchedOffset(number, offset.offset, offset.leader_epoch, offset.metadata)
