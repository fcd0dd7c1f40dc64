"""Records of `__consumer_offsets`, in Kafka's format.

A key begins with an int16, the kind of record; a value begins with an int16, its version. A null value is a
tombstone.

    kind  key                            value
    0, 1  group, topic, partition        an offset, versions 0 to 4
    2     group                          a classic group with its members, versions 0 to 4

Other kinds belong to groups of other types; such records are ignored.
"""

from __future__ import annotations

from dataclasses import replace
from struct import Struct
from typing import Final, NamedTuple

from stuntbroker.groups.classic.state import CONSUMER_PROTOCOL, Group, GroupState, Member, Protocol
from stuntbroker.groups.offsets import Place, StoredOffset
from stuntbroker.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from stuntbroker.protocol.messages.group_metadata_key import GroupMetadataKey
from stuntbroker.protocol.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from stuntbroker.protocol.messages.offset_commit_key import OffsetCommitKey
from stuntbroker.protocol.messages.offset_commit_value import OffsetCommitValue
from stuntbroker.protocol.primitives import Buffer, DecodeError

OFFSET_COMMIT: Final = 1
GROUP_METADATA: Final = 2
_OFFSET_COMMIT_KINDS: Final = (0, OFFSET_COMMIT)
_VALUE_VERSIONS: Final = range(5)

_GROUP_METADATA_VERSION: Final = 3
_OFFSET_VERSION: Final = 4
_OFFSET_VERSION_WITH_EXPIRY: Final = 1
"""The only version that can carry a retention time; it has no leader epoch."""

_INT16: Final = Struct(">h")


class OffsetRecord(NamedTuple):
    """A record of a committed offset; `offset` is None for a tombstone."""

    group_id: str
    place: Place
    offset: StoredOffset | None
    """None for a tombstone."""


class GroupRecord(NamedTuple):
    """A record of a group's state; `group` is None for a tombstone."""

    group_id: str
    group: Group | None
    """None for a tombstone."""


def offset_key(group_id: str, place: Place) -> bytearray:
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


def group_key(group_id: str) -> bytearray:
    """Return the key of a group's record (GroupMetadataKey with its version)."""
    out = bytearray(b"\x00\x02")
    GroupMetadataKey(group_id).encode(out, GROUP_METADATA)
    return out


def group_value(group: Group) -> bytearray:
    """Return the value of a group's record (GroupMetadataValue with its version)."""
    out = bytearray(_INT16.pack(_GROUP_METADATA_VERSION))
    protocol_name = group.protocol_name
    assert protocol_name is not None or not group.members, f"{group.group_id} has members but no protocol"
    GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=protocol_name,
        leader=group.leader_id,
        current_state_timestamp=-1 if group.entered_at_ms is None else group.entered_at_ms,
        members=[
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(protocol_name or ""),
                assignment=member.assignment,
            )
            for member in group.members.values()
        ],
    ).encode(out, _GROUP_METADATA_VERSION)
    return out


def read_record(record_offset: int, key: Buffer | None, value: Buffer | None) -> OffsetRecord | GroupRecord | None:
    """Decode a record; return None for one of another kind. Raises DecodeError for invalid bytes."""
    if key is None or len(key) < 2:
        raise DecodeError("a record of the offsets topic has no key", 0)
    kind = _INT16.unpack_from(key)[0]
    if kind in _OFFSET_COMMIT_KINDS:
        offset_commit = OffsetCommitKey.decode(key, kind, 2)
        place = (offset_commit.topic, offset_commit.partition)
        offset = None if value is None else _read_offset(record_offset, value)
        return OffsetRecord(offset_commit.group, place, offset)
    if kind == GROUP_METADATA:
        group_id = GroupMetadataKey.decode(key, kind, 2).group
        return GroupRecord(group_id, None if value is None else _read_group(group_id, value))
    return None


def _version_of(value: Buffer) -> int:
    version = int(_INT16.unpack_from(value)[0]) if len(value) >= 2 else -1
    if version not in _VALUE_VERSIONS:
        raise DecodeError(f"a value of the version {version}, which is not in 0..{_VALUE_VERSIONS[-1]}", 0)
    return version


def _read_offset(record_offset: int, value: Buffer) -> StoredOffset:
    message = OffsetCommitValue.decode(value, _version_of(value), 2)
    return StoredOffset(
        record_offset,
        message.offset,
        message.leader_epoch,
        message.metadata,
        message.commit_timestamp,
        message.expire_timestamp,
        message.topic_id,
    )


def _read_group(group_id: str, value: Buffer) -> Group:
    message = GroupMetadataValue.decode(value, _version_of(value), 2)
    group = Group(
        group_id,
        state=GroupState.STABLE if message.members else GroupState.EMPTY,
        entered_at_ms=None if message.current_state_timestamp < 0 else message.current_state_timestamp,
        protocol_type=message.protocol_type or None,
        protocol_name=message.protocol,
        generation=message.generation,
        leader_id=message.leader,
        members={member.member_id: _read_member(member, message.protocol) for member in message.members},
    )
    return replace(group, subscribed_topics=subscribed_topics(group))


def _read_member(member: MemberMetadata, protocol_name: str | None) -> Member:
    # Versions before 1 have no rebalance time-out.
    has_timeout = member.rebalance_timeout >= 0
    rebalance_timeout_ms = member.rebalance_timeout if has_timeout else member.session_timeout
    return Member(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=rebalance_timeout_ms,
        session_timeout_ms=member.session_timeout,
        protocols=(Protocol(protocol_name or "", member.subscription),),
        assignment=member.assignment,
    )


def subscribed_topics(group: Group) -> frozenset[str] | None:
    """Return the topics in the members' subscriptions under the chosen protocol; None if they cannot be decoded."""
    if group.protocol_type != CONSUMER_PROTOCOL:
        return None
    if not group.members:
        return frozenset()
    if group.protocol_name is None:
        return None
    topics: set[str] = set()
    for member in group.members.values():
        metadata = member.metadata(group.protocol_name)
        try:
            if len(metadata) < 2 or metadata[0] & 0x80:
                return None
            # Every version begins like version 0, which is all that is needed here.
            topics.update(ConsumerProtocolSubscription.decode(metadata, 0, 2).topics)
        except DecodeError:
            return None
    return frozenset(topics)
