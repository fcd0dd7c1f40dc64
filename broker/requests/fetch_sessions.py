"""Incremental fetch sessions (KIP-227): the broker remembers a consumer's partitions and sends only what changed."""

from __future__ import annotations

from typing import Any, Final

from stuntbroker.broker.random_source import RandomSource
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.primitives import INT32_MAX

FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0


class FetchedPartition:
    """Session state of one partition: what is fetched, and the offsets of the last response."""

    __slots__ = ("fetch_partition", "high_watermark", "last_stable_offset", "log_start_offset", "was_found")

    def __init__(self, fetch_partition: Any) -> None:
        self.fetch_partition = fetch_partition
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.was_found = False
        """Whether a response has had the partition without an error."""


Key = tuple[Any, int]
"""(topic name or id, partition)"""


class FetchSession:
    """Fetch session of a client (KIP-227): its id, its epoch and its partitions."""

    __slots__ = ("epoch", "id", "partitions", "uses_ids")

    def __init__(self, session_id: int, uses_ids: bool) -> None:
        self.id = session_id
        self.epoch = 1
        self.uses_ids = uses_ids
        self.partitions: dict[Key, FetchedPartition] = {}


class FetchSessions:
    """Cache of at most `slots` sessions; evicts the least recently used."""

    def __init__(self, slots: int, random_source: RandomSource) -> None:
        self.slots = slots
        self._random_source = random_source
        self.sessions: dict[int, FetchSession] = {}

    def new(self, uses_ids: bool) -> FetchSession | None:
        """Return a new session; if all slots are taken, it replaces the least recently used one. None if there are no slots."""
        if not self.slots:
            return None
        if len(self.sessions) >= self.slots:
            del self.sessions[next(iter(self.sessions))]
        session_id = 0
        while session_id == 0 or session_id in self.sessions:
            session_id = int.from_bytes(self._random_source.random_bytes(4), "big") & INT32_MAX
        session = self.sessions[session_id] = FetchSession(session_id, uses_ids)
        return session

    def use(self, session_id: int, epoch: int, uses_ids: bool) -> tuple[FetchSession | None, ErrorCode]:
        """Return the session of an incremental request and raise its epoch by one; or return (None, error)."""
        session = self.sessions.get(session_id)
        if session is None:
            return None, ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return None, ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.uses_ids is not uses_ids:
            return None, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        session.epoch = 1 if epoch == INT32_MAX else epoch + 1
        del self.sessions[session_id]
        self.sessions[session_id] = session
        return session, ErrorCode.NONE

    def close(self, session_id: int) -> None:
        """Remove a session; do nothing if there is none with this id."""
        self.sessions.pop(session_id, None)
