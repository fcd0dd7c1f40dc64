"""Configuration of a log, from its topic's properties."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from stuntbroker.protocol.primitives import INT64_MAX
from stuntbroker.storage.large_batch import LARGE_BATCH_SIZE

NO_LIMIT: Final = INT64_MAX


@dataclass(slots=True, kw_only=True)
class LogConfig:
    """Configuration of one log. The names are Kafka's, with the unit at the end; the defaults are those of the properties."""

    segment_bytes: int
    segment_ms: int
    retention_ms: int
    retention_bytes: int
    compact: bool
    delete: bool
    delete_retention_ms: int
    min_compaction_lag_ms: int
    min_cleanable_dirty_ratio: float
    log_append_time: bool
    max_message_bytes: int
    timestamp_after_ms_max: int
    timestamp_before_ms_max: int
    is_internal_log: bool
    """Whether this is one of the broker's own logs, which is cleaned rarely, so that an audit finds recent records in it."""
    zstd: bool
    """Whether the topic's `compression.type` is zstd."""
    plain_bytes_max: int = field(init=False)
    """Maximum size in bytes of a batch that is accepted by its header and record lengths; -1 if every record must be read."""

    def __post_init__(self) -> None:
        every_record = self.compact or self.timestamp_before_ms_max != NO_LIMIT
        self.plain_bytes_max = -1 if every_record else min(self.max_message_bytes, self.segment_bytes, LARGE_BATCH_SIZE)

    def timestamp_max(self, now_ms: int) -> int:
        """Return the largest timestamp in ms that a client's record may have."""
        return now_ms + self.timestamp_after_ms_max
