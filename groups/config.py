"""Configuration of the group coordinator."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """Properties of groups and offsets, which the broker's configuration has checked."""

    session_timeout_ms_min: int
    """`group.min.session.timeout.ms`. Below it, JoinGroup gets INVALID_SESSION_TIMEOUT."""

    session_timeout_ms_max: int
    """`group.max.session.timeout.ms`."""

    initial_rebalance_delay_ms: int
    """`group.initial.rebalance.delay.ms`: how long the first rebalance of a group waits for members."""

    group_size_max: int
    """`group.max.size`. Above it, JoinGroup gets GROUP_MAX_SIZE_REACHED."""

    members_bytes_max: int
    """`stuntbroker.groups.max.bytes`: maximum bytes of the metadata and assignments of all members of all groups. Above it,
    JoinGroup and SyncGroup get GROUP_MAX_SIZE_REACHED."""

    offset_metadata_size_max: int
    """`offset.metadata.max.bytes`. Kafka counts UTF-16 code units, not bytes."""

    offsets_retention_ms: int
    """`offsets.retention.minutes`, in milliseconds here."""

    offsets_retention_check_interval_ms: int
    """`offsets.retention.check.interval.ms`: interval at which expired offsets and empty groups are removed."""

    new_member_join_timeout_ms: int = 300_000
    """How long a new member may wait in its first JoinGroup. A constant in Kafka, without a property."""
