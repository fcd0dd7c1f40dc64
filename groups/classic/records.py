"""Records of classic groups in `__consumer_offsets`, in Kafka's format (GroupMetadataKey, GroupMetadataValue 0 to 4)."""

from __future__ import annotations

from dataclasses import replace
from struct import Struct
from typing import Final

from stuntbroker.groups.classic.state import CONSUMER_PROTOCOL, Group, GroupState, Member, Protocol
from stuntbroker.groups.offset_records import version_of
from stuntbroker.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from stuntbroker.protocol.messages.group_metadata_key import GroupMetadataKey
from stuntbroker.protocol.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from stuntbroker.protocol.primitives import Buffer, DecodeError

GROUP_METADATA: Final = 2
"""The kind of a classic group's record: the int16 with which its key begins."""
_GROUP_METADATA_VERSION: Final = 3

_INT16: Final = Struct(">h")


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


def group_id_of(key: Buffer) -> str:
    """Return the group id in the key of a group's record. Raises DecodeError for invalid bytes."""
    return GroupMetadataKey.decode(key, GROUP_METADATA, 2).group


def read_group(group_id: str, value: Buffer) -> Group:
    """Decode the value of a group's record. Raises DecodeError for invalid bytes."""
    message = GroupMetadataValue.decode(value, version_of(value), 2)
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
