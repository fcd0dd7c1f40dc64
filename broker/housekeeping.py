"""Periodic work: cleaning compacted logs in slices, retention, expiry of idle producers and clients."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.storage.errors import StorageError
from stuntbroker.storage.partition import PartitionLog

if TYPE_CHECKING:
    from stuntbroker.broker.services import (
        HasClock,
        HasConfig,
        HasConnections,
        HasDataDir,
        HasEvents,
        HasRequestMemory,
        HasTimers,
        HasTopics,
    )
    from stuntbroker.storage.compaction import Cleaning

    class Uses(
        HasClock, HasConfig, HasConnections, HasDataDir, HasEvents, HasRequestMemory, HasTimers, HasTopics, Protocol
    ):
        """Parts of the broker that this module uses."""


CHECK_MS: Final = 10_000
"""How often connections are checked."""
IDLE_CHECK_MS_MIN: Final = 100
_ENDED: Final = object()
"""Returned for the slice after the last one."""


class Housekeeping:
    """Retention, compaction, expiry and closing of idle connections, called by timers."""

    def __init__(self, broker: Uses) -> None:
        self.broker = broker
        self._waiting: list[Cleaning] = []
        self._slices: Iterator[None] | None = None
        self._log: PartitionLog | None = None
        self._ends: dict[PartitionLog, int] = {}
        """End offset of each compacted log at the last `clean`."""
        self._spare_descriptor: int | None = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        """A spare file descriptor, closed when no others are left, so that structlog can be loaded."""

    def clean(self) -> None:
        """Find the logs that need cleaning, and clean them one after another, one slice per turn of the event loop."""
        if self._slices is not None or self._waiting:
            return
        from stuntbroker.storage.compaction import (  # Not loaded before the broker is ready.
            Cleaning,
            close_for_cleaning,
            has_dirty_segments,
            needs_cleaning,
        )

        ends: dict[PartitionLog, int] = {}
        now_ms = self.broker.clock.now_ms()
        for log in self._logs():
            if log.config.compact and log.size:
                ends[log] = log.next_offset
                try:
                    close_for_cleaning(log)
                except (StorageError, OSError) as fault:
                    self._report("log_not_cleaned", log, fault)
                    continue
                with_active = needs_cleaning(log, self._ends.get(log) == log.next_offset, now_ms)
                if with_active or has_dirty_segments(log, now_ms):
                    self._waiting.append(Cleaning(log, now_ms, with_active))
        self._ends = ends
        if self._waiting:
            self._step()

    def clean_wanted_at_ms(self) -> int | None:
        """Return the monotonic ms before which `clean` has nothing to do; None: nothing until a client writes."""
        from stuntbroker.storage.compaction import cleaning_due_ms

        now_ms = self.broker.clock.now_ms()
        return self._earliest_ms(cleaning_due_ms(log, now_ms) for log in self._logs() if log.size)

    def _step(self) -> None:
        broker = self.broker
        if self._slices is None:
            if not self._waiting:
                return
            cleaning = self._waiting.pop()
            self._log, self._slices = cleaning.log, cleaning.slices()
        assert self._log is not None
        exists = broker.topics.log(self._log.topic, self._log.index) is self._log
        is_done = True
        try:
            is_done = not exists or next(self._slices, _ENDED) is _ENDED
        except (StorageError, OSError) as fault:
            self._report("log_not_cleaned", self._log, fault)
        finally:  # After any other exception too, the next log is cleaned.
            if is_done:
                self._slices = None
            broker.timers.soon(self._step)

    def delete_expired_segments(self) -> None:
        """Delete the segments that have outlived their topic's retention."""
        from stuntbroker.storage.retention import apply_retention  # Not loaded before the broker is ready.

        now_ms = self.broker.clock.now_ms()
        has_deleted = False
        for log in self._logs():
            try:
                has_deleted |= apply_retention(log, now_ms)
            except (StorageError, OSError) as fault:
                self._report("retention_failed", log, fault)
        if has_deleted:
            try:
                self.broker.data_dir.write_start_offsets()
            except StorageError as fault:  # Written again with the next deletion, and at shutdown.
                self.broker.events.error("start_offsets_not_written", fault=str(fault))

    def deletion_wanted_at_ms(self) -> int | None:
        """Return the monotonic ms before which `delete_expired_segments` has nothing to do; None: nothing until a log changes."""
        from stuntbroker.storage.retention import retention_due_ms  # Not loaded before the broker is ready.

        return self._earliest_ms(retention_due_ms(log) for log in self._logs())

    def _report(self, event: str, log: PartitionLog, fault: Exception) -> None:
        self.broker.events.error(event, topic=log.topic, partition=log.index, fault=str(fault))

    def _logs(self) -> Iterator[PartitionLog]:
        return (log for topic in self.broker.topics for log in topic.partitions)

    def _earliest_ms(self, times_ms: Iterable[int | None]) -> int | None:
        """Return the earliest of some wall-clock times, converted to monotonic ms; None if there is none."""
        earliest_ms = min((each for each in times_ms if each is not None), default=None)
        return None if earliest_ms is None else self.broker.clock.monotonic_at_ms(earliest_ms)

    def expire_producers(self) -> None:
        """Forget producers that have been silent for `producer.id.expiration.ms`."""
        now_ms, age_ms = self.broker.clock.now_ms(), self.broker.config["producer.id.expiration.ms"]
        for log in self._logs():
            log.producers.expire(now_ms, age_ms)

    def expire_producers_wanted_at_ms(self) -> int | None:
        """Return the monotonic ms before which no producer expires; None: none until a log changes."""
        age_ms = self.broker.config["producer.id.expiration.ms"]
        return self._earliest_ms(log.producers.expiry_due_ms(age_ms) for log in self._logs())

    def check_connections(self) -> None:
        """Free the large buffers of silent connections, and close those that were left in the middle of something."""
        for connection in list(self.broker.connections):
            connection.release_buffer()
            if connection.transport is None:
                connection.abort()  # The connection is closing, and its client does not read the remaining bytes.
        self.broker.request_memory.close_stalled()
        self.broker.events.log_suppressed()

    def idle_check_interval_ms(self) -> int:
        """Return how often to look for idle connections: an idle one is closed late by at most a fifth of its time."""
        idle_ms = self.broker.config["connections.max.idle.ms"]
        return max(IDLE_CHECK_MS_MIN, min(CHECK_MS, idle_ms // 10)) if idle_ms >= 0 else CHECK_MS

    def close_idle_connections(self) -> None:
        """Close connections that were idle for `connections.max.idle.ms`."""
        now_ms, idle_ms = self.broker.clock.client_ms(), self.broker.config["connections.max.idle.ms"]
        for connection in list(self.broker.connections):
            if connection.was_active():
                connection.active_ms = now_ms
            elif 0 <= idle_ms < now_ms - connection.active_ms and not connection.is_busy:
                connection.abort()

    def check_file_descriptors(self) -> None:
        """Log when the file descriptors run out: libuv then resets new clients without reporting it."""
        was_exhausted = self._spare_descriptor is None
        try:
            more = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as fault:
            if self._spare_descriptor is not None and fault.errno in (errno.EMFILE, errno.ENFILE):
                self.close()
                self.broker.events.error(
                    "file_descriptors_exhausted",
                    connections=len(self.broker.connections),
                    hint="new clients are reset, files are not opened: raise the limit (ulimit -n), or lower max.connections",
                )
            return
        if was_exhausted:
            self._spare_descriptor = more
            self.broker.events.info("file_descriptors_freed", connections=len(self.broker.connections))
        else:
            os.close(more)

    def close(self) -> None:
        """Close the spare file descriptor."""
        if self._spare_descriptor is not None:
            os.close(self._spare_descriptor)
            self._spare_descriptor = None
