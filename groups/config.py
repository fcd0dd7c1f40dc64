"""Configuration of the group coordinator."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """Properties of groups and offsets. The defaults are Kafka's, except where a comment says otherwise."""

    session_timeout_ms_min: int = 6_000
    """`group.min.session.timeout.ms`. Below it, JoinGroup gets INVALID_SESSION_TIMEOUT."""

    session_timeout_ms_max: int = 1_800_000
    """`group.max.session.timeout.ms`."""

    # Unlike Kafka: 0, not 3000, so that the consumer of a test starts without a delay.
    initial_rebalance_delay_ms: int = 0
    """`group.initial.rebalance.delay.ms`: how long the first rebalance of a group waits for members."""

    # Unlike Kafka: 10,000; Kafka has no limit by default.
    group_size_max: int = 10_000
    """`group.max.size`. Above it, JoinGroup gets GROUP_MAX_SIZE_REACHED."""

    members_bytes_max: int = 256 << 20
    """`stuntbroker.groups.max.bytes`: maximum bytes of the metadata and assignments of all members of all groups. Above it,
    JoinGroup and SyncGroup get GROUP_MAX_SIZE_REACHED."""

    new_member_join_timeout_ms: int = 300_000
    """How long a new member may wait in its first JoinGroup. A constant in Kafka, without a property."""

    offset_metadata_size_max: int = 4_096
    """`offset.metadata.max.bytes`. Kafka counts UTF-16 code units, not bytes."""

    offsets_retention_ms: int = 7 * 24 * 3_600_000
    """`offsets.retention.minutes`, in milliseconds here."""

    offsets_retention_check_interval_ms: int = 600_000
    """`offsets.retention.check.interval.ms`: interval at which expired offsets and empty groups are removed."""

    def __post_init__(self) -> None:
        if not 0 < self.session_timeout_ms_min <= self.session_timeout_ms_max:
            raise ValueError(
                f"session time-outs from {self.session_timeout_ms_min} to {self.session_timeout_ms_max} ms:"
                " the minimum must be above 0, and not above the maximum"
            )
        if self.initial_rebalance_delay_ms < 0:
            raise ValueError(f"an initial rebalance delay of {self.initial_rebalance_delay_ms} ms is below 0")
        if self.group_size_max < 1:
            raise ValueError(f"a maximum group size of {self.group_size_max} is below 1")
        if self.offset_metadata_size_max < 0:
            raise ValueError(f"an offset metadata size of {self.offset_metadata_size_max} is below 0")
        if self.offsets_retention_ms < 1 or self.offsets_retention_check_interval_ms < 1:
            raise ValueError("offsets retention and its check interval must be at least 1 ms")
