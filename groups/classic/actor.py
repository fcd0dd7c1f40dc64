"""The actor of one group: its state, its timers and its waiting requests. The rules are in `membership.decide`.

Requests and timer events enter through `ask`, one at a time; heartbeats and commits of offsets only `touch` their member. Replies
are called last, after the new state is in place, so that requests which a reply triggers see it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol, assert_never

from stuntbroker.groups.classic.membership import decide
from stuntbroker.groups.classic.requests import (
    Arm,
    Complete,
    Decision,
    Disarm,
    JoinReply,
    Park,
    Request,
    Respond,
    SessionExpired,
    SyncReply,
    TimerKey,
    session_of,
)
from stuntbroker.groups.classic.state import Group, GroupState, advance
from stuntbroker.groups.config import GroupConfig
from stuntbroker.protocol.errors import ErrorCode

Answered = Callable[[Any], None]
"""Called with the reply to a request, possibly after the client has disconnected."""

RETRY_AFTER_MS: Final = 1_000
"""Delay before a timer event is retried whose group record could not be appended."""


class TimerHandle(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Cancel the call."""


class Timers(Protocol):
    """Timers of a monotonic clock; each calls back once, at or after its time."""

    def now_ms(self) -> int:
        """Return the time in ms."""

    def call_at(self, at_ms: int, callback: Callable[[], None]) -> TimerHandle:
        """Schedule a call at the time `at_ms` of the monotonic clock."""


class Ports:
    """Dependencies that all actors of a coordinator share."""

    __slots__ = ("config", "events", "now_ms", "store", "timers")

    def __init__(
        self,
        store: Callable[[Group], None],
        timers: Timers,
        now_ms: Callable[[], int],
        config: GroupConfig,
        events: Callable[[str, dict[str, object]], None] | None,
    ) -> None:
        self.store = store
        self.timers = timers
        self.now_ms = now_ms
        """Wall-clock time in ms, for stored timestamps."""
        self.config = config
        self.events = events


class _Deadline:
    """When `event` is due. Postponing only updates `at_ms`: the timer re-arms itself when it wakes."""

    __slots__ = ("at_ms", "event", "handle", "wakes_at_ms")

    def __init__(self, at_ms: int, event: Request) -> None:
        self.at_ms = at_ms
        self.event = event
        self.wakes_at_ms = at_ms
        self.handle: TimerHandle


class GroupActor:
    """One group: performs the effects of decisions, and keeps waiting requests and running timers."""

    __slots__ = ("_deadlines", "_ports", "group", "waiting_joins", "waiting_syncs")

    def __init__(self, group: Group, ports: Ports) -> None:
        self.group = group
        self._ports = ports
        self._deadlines: dict[TimerKey, _Deadline] = {}
        self.waiting_joins: dict[str, Answered] = {}
        self.waiting_syncs: dict[str, Answered] = {}
        """Member id -> how its waiting JoinGroup, or SyncGroup, is answered."""

    def ask(self, request: Request, reply: Answered | None = None) -> None:
        """Decide a request and perform the decision; `reply` is called now or later."""
        ports = self._ports
        self.perform(decide(self.group, request, ports.now_ms(), ports.config), reply)

    def perform(self, decision: Decision, reply: Answered | None = None) -> None:
        """Append the record, change the state, perform the effects, then reply. If the append fails, nothing has changed."""
        timers = self._ports.timers
        if decision.store is not None:
            self._ports.store(decision.store)
        self._become(decision.group)
        answers: list[tuple[Answered, object]] = []
        for effect in decision.effects:
            match effect:
                case Arm():
                    self._arm(effect.key, timers.now_ms() + effect.delay_ms, effect.event)
                case Disarm():
                    self._disarm(effect.key)
                case Park():
                    assert reply is not None
                    (self.waiting_joins if effect.joins else self.waiting_syncs)[effect.member_id] = reply
                case Complete():
                    waiting = self.waiting_joins if isinstance(effect.reply, JoinReply) else self.waiting_syncs
                    answers.append((waiting.pop(effect.member_id), effect.reply))
                case Respond():
                    assert reply is not None
                    answers.append((reply, effect.reply))
                case _:
                    assert_never(effect)
        for answered, result in answers:
            answered(result)

    def touch(self, member_id: str) -> None:
        """Restart the session time-out of a member that sent a request."""
        at_ms = self._ports.timers.now_ms() + self.group.members[member_id].session_timeout_ms
        self._arm(session_of(member_id), at_ms, SessionExpired(member_id))

    def unload(self) -> None:
        """Cancel all timers, and answer waiting requests with NOT_COORDINATOR."""
        self.disarm_all()
        joins, self.waiting_joins = self.waiting_joins, {}
        syncs, self.waiting_syncs = self.waiting_syncs, {}
        for member_id, answered in joins.items():
            answered(JoinReply(ErrorCode.NOT_COORDINATOR, member_id))
        for answered in syncs.values():
            answered(SyncReply(ErrorCode.NOT_COORDINATOR))

    def mark_dead(self) -> None:
        """Cancel all timers and become DEAD, after the group was removed from the log."""
        self.disarm_all()
        self._become(advance(self.group, GroupState.DEAD, self._ports.now_ms()))

    def disarm_all(self) -> None:
        """Cancel all timers of the group."""
        for key in tuple(self._deadlines):
            self._disarm(key)

    def _become(self, group: Group) -> None:
        before, self.group = self.group, group
        if before.state is not group.state and self._ports.events is not None:
            self._ports.events(
                "group_state_changed",
                {
                    "group_id": group.group_id,
                    "from_state": before.state.value,
                    "to_state": group.state.value,
                    "generation": group.generation,
                    "members": len(group.members),
                },
            )

    def _arm(self, key: TimerKey, at_ms: int, event: Request) -> None:
        deadline = self._deadlines.get(key)
        if deadline is not None and deadline.wakes_at_ms <= at_ms:
            deadline.at_ms = at_ms
            deadline.event = event
            return
        self._disarm(key)
        self._deadlines[key] = deadline = _Deadline(at_ms, event)
        deadline.handle = self._ports.timers.call_at(at_ms, partial(self._wake, key))

    def _disarm(self, key: TimerKey) -> None:
        deadline = self._deadlines.pop(key, None)
        if deadline is not None:
            deadline.handle.cancel()

    def _wake(self, key: TimerKey) -> None:
        deadline = self._deadlines.pop(key, None)
        if deadline is None:
            return
        now_ms = self._ports.timers.now_ms()
        if deadline.at_ms > now_ms:
            self._arm(key, deadline.at_ms, deadline.event)
            return
        try:
            self.ask(deadline.event)
        except Exception:
            # The state is unchanged, so the event is still due.
            self._arm(key, now_ms + RETRY_AFTER_MS, deadline.event)
            raise
