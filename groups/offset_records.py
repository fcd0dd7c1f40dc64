"""Records of committed offsets in `__consumer_offsets`, in Kafka's format (OffsetCommitKey, OffsetCommitValue 0 to 4)."""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from stuntbroker.groups.offsets import StoredOffset
from stuntbroker.protocol.messages.offset_commit_key import OffsetCommitKey
from stuntbroker.protocol.messages.offset_commit_value import OffsetCommitValue
from stuntbroker.protocol.primitives import Buffer, DecodeError
from stuntbroker.protocol.topic_names import TopicPartition

OFFSET_COMMIT: Final = 1
OFFSET_COMMIT_KINDS: Final = (0, OFFSET_COMMIT)
"""Kinds of records that hold an offset: the int16 with which a key begins."""
_VALUE_VERSIONS: Final = range(5)
_OFFSET_VERSION: Final = 4
_OFFSET_VERSION_WITH_EXPIRY: Final = 1
"""The only version that can carry a retention time; it has no leader epoch."""

_INT16: Final = Struct(">h")


class OffsetRecord(NamedTuple):
    """A record of a committed offset; `offset` is None for a tombstone."""

    group_id: str
    place: TopicPartition
    offset: StoredOffset | None
    """None for a tombstone."""


def offset_key(group_id: str, place: TopicPartition) -> bytearray:
    """Return the key of an offset's record (OffsetCommitKey with its version)."""
    out = bytearray(b"\x00\x01")
    OffsetCommitKey(group_id, *place).encode(out, OFFSET_COMMIT)
    return out


def offset_value(offset: StoredOffset) -> bytearray:
    """Return the value of an offset's record (OffsetCommitValue with its version)."""
    version = _OFFSET_VERSION if offset.expires_at_ms < 0 else _OFFSET_VERSION_WITH_EXPIRY
    out = bytearray(_INT16.pack(version))
    OffsetCommitValue(
        offset.offset,
        offset.leader_epoch,
        offset.metadata,
        offset.committed_at_ms,
        offset.expires_at_ms,
        offset.topic_id,
    ).encode(out, version)
    return out


def version_of(value: Buffer) -> int:
    """Return the version with which a value begins. Raises DecodeError for one that is not in 0..4."""
    version = int(_INT16.unpack_from(value)[0]) if len(value) >= 2 else -1
    if version not in _VALUE_VERSIONS:
        raise DecodeError(f"a value of the version {version}, which is not in 0..{_VALUE_VERSIONS[-1]}", 0)
    return version


def read_offset(record_offset: int, kind: int, key: Buffer, value: Buffer | None) -> OffsetRecord:
    """Decode a record of one of the kinds OFFSET_COMMIT_KINDS. Raises DecodeError for invalid bytes."""
    offset_commit = OffsetCommitKey.decode(key, kind, 2)
    place = (offset_commit.topic, offset_commit.partition)
    offset = None if value is None else _stored_offset(record_offset, value)
    return OffsetRecord(offset_commit.group, place, offset)


def _stored_offset(record_offset: int, value: Buffer) -> StoredOffset:
    message = OffsetCommitValue.decode(value, version_of(value), 2)
    return StoredOffset(
        record_offset,
        message.offset,
        message.leader_epoch,
        message.metadata,
        message.commit_timestamp,
        message.expire_timestamp,
        message.topic_id,
    )
