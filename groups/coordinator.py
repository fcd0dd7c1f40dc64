"""The group coordinator: all groups of a broker, their offsets, and the log that stores both.

All methods are synchronous. `join` and `sync` call the given `reply`, immediately or later; all others return
their result. A change is appended to the log before the response is sent. If the append fails, its exception is
raised to the caller and nothing has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from stuntbroker.groups.claims import GENERATION_NONE, Generations
from stuntbroker.groups.classic.actor import GroupActor, Ports, TimerHandle, Timers
from stuntbroker.groups.classic.membership import heartbeat
from stuntbroker.groups.classic.offset_rules import commit_error, expiry_of, group_delete_error, offset_delete_error
from stuntbroker.groups.classic.records import group_key, group_value
from stuntbroker.groups.classic.requests import (
    JoinGroup,
    JoinReply,
    LeaveGroup,
    Leaver,
    LeaveReply,
    Loaded,
    SyncGroup,
    SyncReply,
)
from stuntbroker.groups.classic.state import Group, GroupState, members_bytes
from stuntbroker.groups.commits import fetch, fetch_all, metadata_error, missing_group_error
from stuntbroker.groups.config import GroupConfig
from stuntbroker.groups.ledger import Ledger, OffsetsLog
from stuntbroker.groups.offset_records import OffsetRecord
from stuntbroker.groups.offset_requests import FetchedTopic, OffsetCommit
from stuntbroker.groups.offsets import OffsetStore, StoredOffset, expired_places
from stuntbroker.groups.records import GroupRecord
from stuntbroker.protocol.batches.records import BatchHeader
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.primitives import Buffer
from stuntbroker.protocol.topic_names import TopicPartition

GROUP_TYPE: Final = "classic"
_COMMITS_KEEP_ALIVE: Final = (GroupState.STABLE, GroupState.PREPARING_REBALANCE)


class GroupCoordinator:
    """All groups and their committed offsets, behind one object; handlers translate requests to its methods."""

    def __init__(
        self,
        log: OffsetsLog,
        timers: Timers,
        now_ms: Callable[[], int],
        config: GroupConfig,
        new_member_id: Callable[[str], str],
        events: Callable[[str, dict[str, object]], None] | None = None,
    ) -> None:
        """Create a coordinator without groups. `new_member_id`: returns an unused member id that begins with a prefix."""
        self._timers = timers
        self._now_ms = now_ms
        self._config = config
        self._new_member_id = new_member_id
        self.ledger = Ledger(log, now_ms)
        self._ports = Ports(self._append_group, timers, now_ms, config, events)
        self.actors: dict[str, GroupActor] = {}
        self._generations = Generations()
        self._unloaded: set[int] = set()
        """Partitions whose groups are not loaded: a request that has waited, or is handled in slices, gets NOT_COORDINATOR."""
        self._sweep: TimerHandle | None = None
        self._members_bytes = 0
        """Upper bound of the bytes kept for all members; recounted exactly when the limit is reached."""

    # Start and stop

    def replay(self, partition: int, batches: Iterable[tuple[BatchHeader, Buffer]]) -> None:
        """Load the groups and offsets of one partition. Each buffer is a whole batch that is not compressed."""
        for record in self.ledger.replay(partition, batches):
            match record:
                case OffsetRecord(group_id, _, offset):
                    if offset is not None:
                        self._actor_for_offsets(group_id)
                case GroupRecord(group_id, None):
                    self.actors.pop(group_id, None)
                case GroupRecord(group_id, Group() as group):
                    self.actors[group_id] = GroupActor(group, self._ports)

    def start(self) -> None:
        """Start all timers, after all partitions were replayed: the session time-out of each member begins now."""
        self._members_bytes = self._count_members_bytes()
        for actor in tuple(self.actors.values()):
            if actor.group.members:
                actor.ask(Loaded())
        self._arm_sweep()

    def unload(self, partition: int) -> None:
        """Forget the groups of a partition; waiting requests get NOT_COORDINATOR."""
        self._unloaded.add(partition)
        unloaded = [group_id for group_id in self.actors if self.partition_of(group_id) == partition]
        actors = [self.actors.pop(group_id) for group_id in unloaded]
        for group_id in unloaded:
            self._generations.forget(group_id)
        self.ledger.forget(partition)
        for actor in actors:  # Last: each response lets its connection handle further requests.
            actor.unload()

    def load(self, partition: int, batches: Iterable[tuple[BatchHeader, Buffer]]) -> None:
        """Load the groups of a partition that was unloaded; their members' session time-outs begin now."""
        self.ledger.forget(partition)
        self.replay(partition, batches)
        self._unloaded.discard(partition)
        self._members_bytes = self._count_members_bytes()
        for group_id, actor in tuple(self.actors.items()):
            if actor.group.members and self.partition_of(group_id) == partition:
                actor.ask(Loaded())

    def is_loaded(self, group_id: str) -> bool:
        """Return whether the partition of a group is loaded; the group need not exist."""
        return not self._unloaded or self.partition_of(group_id) not in self._unloaded

    def _loading_error(self, group_id: str) -> ErrorCode:
        """Return NOT_COORDINATOR if the group is not loaded, else NONE."""
        return ErrorCode.NONE if self.is_loaded(group_id) else ErrorCode.NOT_COORDINATOR

    def stop(self) -> None:
        """Cancel all timers."""
        for actor in self.actors.values():
            actor.disarm_all()
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None

    # Membership

    def join(self, request: JoinGroup, reply: Callable[[JoinReply], None]) -> None:
        """Handle JoinGroup; calls `reply` when the rebalance is complete, or immediately with an error."""
        error = self._join_error(request)
        if error != ErrorCode.NONE:
            reply(JoinReply(error, request.member_id))
            return
        if not request.member_id:
            prefix = request.client_id if request.instance_id is None else request.instance_id
            request = replace(request, new_member_id=self._new_member_id(prefix))
        actor = self.actors.get(request.group_id)
        if actor is not None:
            actor.ask(request, reply)
        elif request.member_id:
            reply(JoinReply(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
        else:
            # A new group is stored while it is still empty, even if the request fails.
            group = Group(request.group_id, entered_at_ms=self._now_ms())
            self._append_group(group)
            self.actors[request.group_id] = actor = GroupActor(group, self._ports)
            actor.ask(request, reply)

    def _append_group(self, group: Group) -> None:
        self.ledger.append_group(group.group_id, (group_key(group.group_id), group_value(group)))

    def _join_error(self, request: JoinGroup) -> ErrorCode:
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        if error := self._loading_error(request.group_id):
            return error
        config = self._config
        if not config.session_timeout_ms_min <= request.session_timeout_ms <= config.session_timeout_ms_max:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        if not self._reserve_bytes(sum(len(protocol.metadata) for protocol in request.protocols)):
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        return ErrorCode.NONE

    def _reserve_bytes(self, more_bytes: int) -> bool:
        """Reserve memory for members' metadata and assignments; return False if the limit would be exceeded."""
        # Unlike Kafka: Kafka has no such limit.
        if not more_bytes:
            return True
        if self._members_bytes + more_bytes > self._config.members_bytes_max:
            self._members_bytes = self._count_members_bytes()
            if self._members_bytes + more_bytes > self._config.members_bytes_max:
                return False
        self._members_bytes += more_bytes
        return True

    def _count_members_bytes(self) -> int:
        return sum(members_bytes(actor.group) for actor in self.actors.values())

    def sync(self, request: SyncGroup, reply: Callable[[SyncReply], None]) -> None:
        """Handle SyncGroup: store the leader's assignments, or wait for them; `reply` gets the member's own assignment."""
        if not request.group_id:
            reply(SyncReply(ErrorCode.INVALID_GROUP_ID))
            return
        actor = self.actors.get(request.group_id)
        if actor is None:
            reply(SyncReply(self._loading_error(request.group_id) or ErrorCode.UNKNOWN_MEMBER_ID))
            return
        if not self._reserve_bytes(sum(len(assignment) for _, assignment in request.assignments)):
            reply(SyncReply(ErrorCode.GROUP_MAX_SIZE_REACHED))
            return
        actor.ask(request, reply)

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Keep a member alive; return the error of the response."""
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID
        actor = self.actors.get(group_id)
        if actor is None:
            return self._loading_error(group_id) or ErrorCode.UNKNOWN_MEMBER_ID
        error = heartbeat(actor.group, member_id, instance_id, generation)
        if error == ErrorCode.NONE or error == ErrorCode.REBALANCE_IN_PROGRESS:
            actor.touch(member_id)
        return error

    def leave_group(self, group_id: str, leavers: Sequence[Leaver]) -> LeaveReply:
        """Remove members from a group; the reply has an error code for each of them."""
        if not group_id:
            return LeaveReply(ErrorCode.INVALID_GROUP_ID)
        actor = self.actors.get(group_id)
        if actor is None and (error := self._loading_error(group_id)):
            return LeaveReply(error)
        if actor is None:
            return LeaveReply(ErrorCode.NONE, (ErrorCode.UNKNOWN_MEMBER_ID,) * len(leavers))
        answers: list[LeaveReply] = []
        actor.ask(LeaveGroup(tuple(leavers)), answers.append)
        return answers[0]

    # Administration of groups

    def partition_of(self, group_id: str) -> int:
        """Return the partition of `__consumer_offsets` that holds the group."""
        return self.ledger.partition_of(group_id)

    def group(self, group_id: str) -> Group | None:
        """Return the group, None when it has no state."""
        actor = self.actors.get(group_id)
        return None if actor is None else actor.group

    def list_groups(self, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[Group]:
        """Return the groups with one of the states and types; an empty filter matches all."""
        if types and GROUP_TYPE not in {name.lower() for name in types}:
            return []
        wanted = {name.lower().strip() for name in states}
        groups = [actor.group for actor in self.actors.values()]
        return [group for group in groups if not wanted or group.state.value.lower() in wanted]

    def delete_group(self, group_id: str) -> ErrorCode:
        """Delete a group without members, and its offsets; return the error of the response."""
        group = self.group(group_id)
        error = self._loading_error(group_id) or group_delete_error(group)
        if error == ErrorCode.NONE:
            self._remove(group_id, self.ledger.store_of(group_id).places(group_id), with_group=True)
        return error

    # Claims of members (KIP-447 as drafted)

    def claim(self, group_id: str, generation: int) -> ErrorCode:
        """Accept a claim for a generation of the group; ILLEGAL_GENERATION when a newer one is known."""
        group = self.group(group_id)
        reached = GENERATION_NONE if group is None or group.generation == 0 else group.generation
        return self._generations.claim(group_id, reached, generation)

    # Offsets

    def commit(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        commits: Sequence[OffsetCommit],
        version: int,
        retention_ms: int = -1,
    ) -> list[ErrorCode]:
        """Commit offsets; return one error per commit, in order. `version`: of the OffsetCommit request."""
        actor = self.actors.get(group_id)
        if actor is None:
            error = self._loading_error(group_id) or missing_group_error(generation, False, version)
        else:
            error = commit_error(actor.group, member_id, instance_id, generation, False)
        if error != ErrorCode.NONE:
            return [error] * len(commits)
        if actor is not None and actor.group.state in _COMMITS_KEEP_ALIVE:
            actor.touch(member_id)
        return self._commit(group_id, commits, retention_ms)

    def commit_transactional(
        self,
        group_id: str,
        producer_id: int,
        producer_epoch: int,
        member_id: str,
        instance_id: str | None,
        generation: int,
        commits: Sequence[OffsetCommit],
        version: int,
    ) -> list[ErrorCode]:
        """Store offsets that are committed with the transaction; return one error per commit, in order.

        The caller has checked that the group id is valid and the transaction open. `version`: of the TxnOffsetCommit request.
        """
        actor = self.actors.get(group_id)
        if actor is None:
            error = self._loading_error(group_id) or missing_group_error(generation, True, version)
        else:
            error = commit_error(actor.group, member_id, instance_id, generation, True)
        if error != ErrorCode.NONE:
            return [error] * len(commits)
        return self._commit(group_id, commits, -1, producer_id, producer_epoch)

    def apply_marker(self, partition: int, producer_id: int, commit: bool) -> None:
        """Commit or drop a producer's pending offsets after its marker was appended to a `__consumer_offsets` partition."""
        self.ledger.store(partition).end_txn(producer_id, commit)

    def fetch(
        self,
        group_id: str,
        topics: Iterable[tuple[str, bytes, Sequence[int]]],
        require_stable: bool,
        unstable: ErrorCode = ErrorCode.UNSTABLE_OFFSET_COMMIT,
        snapshot: OffsetStore | None = None,
    ) -> list[FetchedTopic]:
        """Return the committed offsets of (topic, topic id or zeros, partitions).

        `unstable`: error for a partition with a pending transactional offset if `require_stable` is set. `snapshot`: look there
        instead of at the current offsets. The group has to be loaded (`is_loaded`).
        """
        store = self.ledger.store_of(group_id) if snapshot is None else snapshot
        return fetch(store, group_id, topics, require_stable, unstable)

    def snapshot(self, group_id: str) -> OffsetStore:
        """Return a copy of the offsets of a group, which has to be loaded (`is_loaded`)."""
        return self.ledger.store_of(group_id).snapshot(group_id)

    def fetch_all(
        self, group_id: str, require_stable: bool, unstable: ErrorCode = ErrorCode.UNSTABLE_OFFSET_COMMIT
    ) -> list[FetchedTopic]:
        """Return all committed offsets of a group, which has to be loaded (`is_loaded`)."""
        return fetch_all(self.ledger.store_of(group_id), group_id, require_stable, unstable)

    def pending_of(self, group_id: str) -> list[tuple[TopicPartition, int, StoredOffset]]:
        """Return (place, producer id, offset) of each pending transactional offset of a group."""
        return self.ledger.store_of(group_id).pending_of(group_id)

    def pending_producers(self, group_id: str, places: Iterable[TopicPartition]) -> set[int]:
        """Return the producer ids that have a pending offset of the group at one of the places."""
        return self.ledger.store_of(group_id).pending_producers(group_id, places)

    def delete_offsets(self, group_id: str, places: Sequence[TopicPartition]) -> tuple[ErrorCode, list[ErrorCode]]:
        """Delete offsets; return the error of the request and, if that is NONE, one per place."""
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID, []
        group = self.group(group_id)
        error = self._loading_error(group_id) or offset_delete_error(group)
        if group is None or error != ErrorCode.NONE:
            return error, []
        kept = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        errors = [kept if group.is_subscribed_to(topic) else ErrorCode.NONE for topic, _ in places]
        store = self.ledger.store_of(group_id)
        deletable = [place for place, code in zip(places, errors, strict=True) if code != kept]
        self._remove(group_id, [place for place in deletable if store.has_any(group_id, place)])
        return ErrorCode.NONE, errors

    def topic_deleted(self, name: str) -> None:
        """Delete all offsets of a topic that was deleted."""
        for group_id, places in self.ledger.places_of_topic(name):
            self._remove(group_id, places)

    def expire(self) -> None:
        """Remove expired offsets, and empty groups that have no offsets left."""
        now_ms = self._now_ms()
        for group_id, actor in tuple(self.actors.items()):
            store = self.ledger.store_of(group_id)
            expiry = expiry_of(actor.group)
            expired = [] if expiry is None else expired_places(store, group_id, expiry, now_ms, self._config)
            keeps = len(expired) < len(store.committed(group_id)) or store.has_pending(group_id)
            is_over = not keeps and actor.group.state is GroupState.EMPTY
            self._remove(group_id, expired, with_group=is_over)

    def _arm_sweep(self) -> None:
        at_ms = self._timers.now_ms() + self._config.offsets_retention_check_interval_ms
        self._sweep = self._timers.call_at(at_ms, self._swept)

    def _swept(self) -> None:
        self._arm_sweep()  # First, so that an exception does not end the sweeps.
        self.expire()

    def _actor_for_offsets(self, group_id: str) -> None:
        """Create a simple group (offsets without members) if the group does not exist."""
        if group_id not in self.actors:
            self.actors[group_id] = GroupActor(Group(group_id, entered_at_ms=self._now_ms()), self._ports)

    def _commit(
        self,
        group_id: str,
        commits: Sequence[OffsetCommit],
        retention_ms: int,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> list[ErrorCode]:
        errors = [metadata_error(commit.metadata, self._config) for commit in commits]
        if ErrorCode.OFFSET_METADATA_TOO_LARGE in errors:
            commits = [commit for commit, error in zip(commits, errors, strict=True) if not error]
        if commits:
            self.ledger.append_offsets(group_id, commits, retention_ms, producer_id, producer_epoch)
        if errors:
            # Unlike Kafka: if all offsets were refused, Kafka lists the group only after the next record in its partition.
            self._actor_for_offsets(group_id)
        return errors

    def _remove(self, group_id: str, places: Sequence[TopicPartition], with_group: bool = False) -> None:
        self.ledger.append_tombstones(group_id, places, (group_key(group_id), None) if with_group else None)
        if with_group:
            self.actors.pop(group_id).mark_dead()
            self._generations.forget(group_id)
