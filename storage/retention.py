"""Log retention by age and by size (`retention.ms`, `retention.bytes`)."""

from __future__ import annotations

from stuntbroker.storage.log_config import LogConfig
from stuntbroker.storage.partition import PartitionLog
from stuntbroker.storage.segment import Segment


def apply_retention(log: PartitionLog, now_ms: int) -> bool:
    """Delete segments that are too old or above the size limit; return whether the log start offset changed."""
    # Unlike Kafka: records from the last stable offset on are kept. Kafka deletes up to the high watermark.
    config, before = log.config, log.log_start_offset
    log.drop_below_start()  # A segment below the log start offset is kept while it is the last one.
    if not config.delete:
        return False
    while log.segments and (log.segments[0].size or len(log.segments) > 1):
        first = log.segments[0]
        if not first.size:  # Compaction has removed all its records.
            log.drop_first()
            log.log_start_offset = max(log.log_start_offset, log.segments[0].base_offset)
            continue
        expires_ms = _expires_ms(first, config)
        has_to_go = _is_oversize(log) or (expires_ms is not None and expires_ms <= now_ms)
        if not has_to_go or log.last_stable_offset < log.end_of(0):
            break
        if len(log.segments) == 1:
            log.roll()
        log.log_start_offset = max(log.log_start_offset, log.segments[1].base_offset)
        log.drop_below_start()
    return log.log_start_offset > before


def retention_due_ms(log: PartitionLog) -> int | None:
    """Return the time in ms since 1970 from which `apply_retention` may delete a segment; None if time alone deletes none."""
    config, segments = log.config, log.segments
    if len(segments) > 1 and segments[1].base_offset <= log.log_start_offset:
        return 0
    if not config.delete or not segments or not (segments[0].size or len(segments) > 1):
        return None
    first = segments[0]
    return 0 if not first.size or _is_oversize(log) else _expires_ms(first, config)


def _expires_ms(segment: Segment, config: LogConfig) -> int | None:
    """Return the time in ms since 1970 from which a segment is too old; None if it never is."""
    return segment.newest_ms + config.retention_ms + 1 if config.retention_ms >= 0 else None


def _is_oversize(log: PartitionLog) -> bool:
    """Return whether a log is so large that its first segment has to go."""
    return 0 <= log.config.retention_bytes <= log.size - log.segments[0].size
