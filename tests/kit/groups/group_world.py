"""A group coordinator with a log in memory and a manual clock."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from stuntbroker.broker.configuration.config import BrokerConfig
from stuntbroker.broker.group_ports import group_config
from stuntbroker.groups.classic.requests import JoinGroup, JoinReply, SyncGroup, SyncReply
from stuntbroker.groups.classic.state import Group, GroupState, Protocol
from stuntbroker.groups.coordinator import GroupCoordinator
from stuntbroker.groups.offset_records import OffsetRecord
from stuntbroker.groups.offset_requests import FetchedOffset, OffsetCommit
from stuntbroker.groups.records import GroupRecord, read_record
from stuntbroker.protocol.batches.records import (
    HEADER_SIZE,
    BatchHeader,
    marker_body,
    read_header,
    read_records,
)
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from stuntbroker.protocol.primitives import ZERO_UUID

SESSION_MS = 10_000
REBALANCE_MS = 60_000


class DiskFull(Exception):
    pass


class MemoryLog:
    def __init__(self, partition_count: int = 50) -> None:
        self.partition_count = partition_count
        self.batches: dict[int, list[bytearray]] = {}
        self.is_full = False

    def append(self, partition: int, batch: bytearray) -> int:
        if self.is_full:
            raise DiskFull
        batches = self.batches.setdefault(partition, [])
        base_offset = read_header(batches[-1]).next_offset if batches else 0
        batch[:8] = base_offset.to_bytes(8, "big")
        batches.append(batch)
        return base_offset

    def read(self, partition: int) -> Iterator[tuple[BatchHeader, bytearray]]:
        return ((read_header(batch), batch) for batch in self.batches.get(partition, ()))

    def records(self) -> list[OffsetRecord | GroupRecord | None]:
        """Return all records except markers, partition by partition."""
        return [
            read_record(record.offset, record.key, record.value)
            for partition in self.batches
            for header, batch in self.read(partition)
            if not header.control
            for record in read_records(header, batch, HEADER_SIZE)
        ]


class Handle:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualTime:
    def __init__(self) -> None:
        self.now = 1_700_000_000_000
        self._heap: list[tuple[int, int, Handle]] = []
        self._number = 0

    def now_ms(self) -> int:
        return self.now

    def call_at(self, at_ms: int, callback: Callable[[], None]) -> Handle:
        self._number += 1
        handle = Handle(callback)
        heapq.heappush(self._heap, (at_ms, self._number, handle))
        return handle

    def pass_ms(self, ms: int) -> None:
        end = self.now + ms
        while self._heap and self._heap[0][0] <= end:
            at_ms, _, handle = heapq.heappop(self._heap)
            self.now = max(self.now, at_ms)
            if handle.callback is not None:
                handle.callback()
        self.now = end

    @property
    def running(self) -> int:
        return sum(handle.callback is not None for _, _, handle in self._heap)


DEFAULTS = group_config(BrokerConfig({}))


class World:
    def __init__(self, **config: int) -> None:
        self.log = MemoryLog()
        self.time = ManualTime()
        self.config = replace(DEFAULTS, **config)
        self.events: list[tuple[str, dict[str, object]]] = []
        self._ids = 0
        self.groups = self._coordinator()
        self.groups.start()

    def _coordinator(self) -> GroupCoordinator:
        return GroupCoordinator(
            self.log,
            self.time,
            self.time.now_ms,
            self.config,
            self._new_member_id,
            lambda name, facts: self.events.append((name, facts)),
        )

    def _new_member_id(self, prefix: str) -> str:
        self._ids += 1
        return f"{prefix}-{self._ids}"

    def replayed(self) -> GroupCoordinator:
        """Return a new coordinator that has replayed the log, as after a restart."""
        groups = self._coordinator()
        for partition in range(self.log.partition_count):
            groups.replay(partition, self.log.read(partition))
        return groups

    def restart(self) -> None:
        self.groups.stop()
        self.groups = self.replayed()
        self.groups.start()

    # Members

    def join(self, member_id: str = "", group_id: str = "g", **changes: Any) -> list[JoinReply]:
        """Send JoinGroup; the returned list receives the reply when it arrives."""
        replies: list[JoinReply] = []
        self.groups.join(join(member_id, group_id, **changes), replies.append)
        return replies

    def sync(self, member_id: str, generation: int, group_id: str = "g", **changes: Any) -> list[SyncReply]:
        replies: list[SyncReply] = []
        request = sync(member_id, generation, group_id, **changes)
        self.groups.sync(request, replies.append)
        return replies

    def enter(self, group_id: str = "g", **changes: Any) -> tuple[str, list[JoinReply]]:
        """Join as a dynamic member the way current clients do, requesting a member id first."""
        (request,) = self.join("", group_id, **changes)
        assert request.error is ErrorCode.MEMBER_ID_REQUIRED
        return request.member_id, self.join(request.member_id, group_id, **changes)

    def stable(self, size: int = 1, group_id: str = "g", **changes: Any) -> list[str]:
        """Bring a group of `size` dynamic members to Stable; return the member ids, the leader first."""
        first, _ = self.enter(group_id, **changes)
        members = [first, *(self.enter(group_id, **changes)[0] for _ in range(size - 1))]
        if size > 1:
            self.join(first, group_id, **changes)
        self.settle(group_id)
        return members

    def settle(self, group_id: str = "g") -> None:
        """Send SyncGroup for all members of the group; member m is assigned b"m"."""
        group = self.group(group_id)
        assert group.state is GroupState.COMPLETING_REBALANCE
        given = tuple((member_id, member_id.encode()) for member_id in group.members)
        for member_id in group.members:
            mine = given if member_id == group.leader_id else ()
            instance_id = group.members[member_id].instance_id
            self.sync(member_id, group.generation, group_id, assignments=mine, instance_id=instance_id)
        assert self.group(group_id).state is GroupState.STABLE

    def heartbeat(self, member_id: str, generation: int, group_id: str = "g") -> ErrorCode:
        return self.groups.heartbeat(group_id, member_id, None, generation)

    def group(self, group_id: str = "g") -> Group:
        group = self.groups.group(group_id)
        assert group is not None
        return group

    @property
    def state(self) -> GroupState:
        return self.group().state

    # Offsets

    def commit(
        self,
        offset: int,
        member_id: str = "",
        generation: int = -1,
        group_id: str = "g",
        topic: str = "t",
        partition: int = 0,
    ) -> ErrorCode:
        commits = [OffsetCommit(topic, partition, offset)]
        return self.groups.commit(group_id, member_id, None, generation, commits, version=8)[0]

    def commit_in_txn(
        self, producer_id: int, offset: int, group_id: str = "g", topic: str = "t", partition: int = 0
    ) -> ErrorCode:
        commits = [OffsetCommit(topic, partition, offset)]
        return self.groups.commit_transactional(group_id, producer_id, 0, "", None, -1, commits, version=3)[0]

    def end_txn(self, producer_id: int, commit: bool, group_id: str = "g") -> None:
        partition = self.groups.partition_of(group_id)
        self.log.append(partition, bytearray(8) + marker_body(commit, producer_id, 0, 0, self.time.now, 0))
        self.groups.apply_marker(partition, producer_id, commit)

    def offset(self, group_id: str = "g", topic: str = "t", partition: int = 0, stable: bool = False) -> FetchedOffset:
        ((actual,),) = (t.partitions for t in self.groups.fetch(group_id, [(topic, ZERO_UUID, [partition])], stable))
        return actual


def subscription(*topics: str) -> bytes:
    out = bytearray(b"\x00\x01")
    ConsumerProtocolSubscription(topics=topics).encode(out, 1)
    return bytes(out)


def protocols(*names: str, topics: tuple[str, ...] = ("t",)) -> tuple[Protocol, ...]:
    return tuple(Protocol(name, subscription(*topics)) for name in names)


def join(member_id: str = "", group_id: str = "g", **changes: Any) -> JoinGroup:
    fields: dict[str, Any] = {
        "instance_id": None,
        "client_id": "c",
        "client_host": "/127.0.0.1",
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": REBALANCE_MS,
        "protocol_type": "consumer",
        "protocols": protocols("range"),
        "requires_member_id": True,
        "skips_assignment": True,
    }
    return JoinGroup(group_id=group_id, member_id=member_id, **{**fields, **changes})


def sync(member_id: str, generation: int, group_id: str = "g", **changes: Any) -> SyncGroup:
    fields: dict[str, Any] = {
        "instance_id": None,
        "protocol_type": None,
        "protocol_name": None,
        "assignments": (),
    }
    return SyncGroup(group_id=group_id, member_id=member_id, generation=generation, **{**fields, **changes})
