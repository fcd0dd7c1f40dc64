"""One group, alive: its state, the timers that are running for it and the requests that wait in it. No rules.

Everything about a group enters through `ask`, one request at a time, timers too. Replies are made last, when
the group has become what it is to be, so that whatever a reply sets off meets a finished step.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol, assert_never

from stuntbroker.groups.classic.membership import decide
from stuntbroker.groups.classic.requests import (
    Answer,
    Arm,
    Complete,
    Decision,
    Disarm,
    JoinReply,
    Park,
    Request,
    SessionExpired,
    SyncReply,
    TimerKey,
    session_of,
)
from stuntbroker.groups.classic.state import Group, GroupState, advance
from stuntbroker.groups.config import GroupConfig
from stuntbroker.protocol.errors import ErrorCode

Answered = Callable[[Any], None]
"""Takes the reply to one request. It may be called long after the client has gone, and must bear that."""

RETRY_AFTER_MS: Final = 1_000
"""When a step that time brought could not be stored."""


class TimerHandle(Protocol):
    """A call that is due at some time."""

    def cancel(self) -> None:
        """Cancel the call."""


class Timers(Protocol):
    """Calls back once, at or after a time of a clock of its own, which never steps."""

    def now_ms(self) -> int:
        """Return the time in ms."""

    def call_at(self, at_ms: int, callback: Callable[[], None]) -> TimerHandle:
        """Call back at a time in ms."""


class Ports:
    """What all actors of a coordinator share."""

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
        """The wall clock's: for what is stored."""
        self.config = config
        self.events = events


class _Deadline:
    """When `event` is due. A later due time is only noted: the timer finds it when it wakes."""

    __slots__ = ("at_ms", "event", "handle", "wakes_at_ms")

    def __init__(self, at_ms: int, event: Request) -> None:
        self.at_ms = at_ms
        self.event = event
        self.wakes_at_ms = at_ms
        self.handle: TimerHandle


class GroupActor:
    """One group: performs the effects of decisions, and keeps the requests and timers that wait."""

    __slots__ = ("_deadlines", "_joins", "_ports", "_syncs", "group")

    def __init__(self, group: Group, ports: Ports) -> None:
        self.group = group
        self._ports = ports
        self._deadlines: dict[TimerKey, _Deadline] = {}
        self._joins: dict[str, Answered] = {}
        self._syncs: dict[str, Answered] = {}

    def ask(self, request: Request, reply: Answered | None = None) -> None:
        """Decide a request, and perform what follows; `reply` gets the answer, now or later."""
        ports = self._ports
        self.perform(decide(self.group, request, ports.now_ms(), ports.config), reply)

    def perform(self, decision: Decision, reply: Answered | None = None) -> None:
        """Append, become, answer. When the append fails, nothing has happened."""
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
                    (self._joins if effect.joins else self._syncs)[effect.member_id] = reply
                case Complete():
                    waiting = self._joins if isinstance(effect.reply, JoinReply) else self._syncs
                    answers.append((waiting.pop(effect.member_id), effect.reply))
                case Answer():
                    assert reply is not None
                    answers.append((reply, effect.reply))
                case _:
                    assert_never(effect)
        for answered, result in answers:
            answered(result)

    def touch(self, member_id: str) -> None:
        """The member was heard of: its session begins anew."""
        at_ms = self._ports.timers.now_ms() + self.group.members[member_id].session_timeout_ms
        deadline = self._deadlines.get(session_of(member_id))
        if deadline is not None and deadline.wakes_at_ms <= at_ms:
            deadline.at_ms = at_ms
        else:
            self._arm(session_of(member_id), at_ms, SessionExpired(member_id))

    def unload(self) -> None:
        """Another coordinator has the group from now on."""
        self.disarm_all()
        joins, self._joins = self._joins, {}
        syncs, self._syncs = self._syncs, {}
        for member_id, answered in joins.items():
            answered(JoinReply(ErrorCode.NOT_COORDINATOR, member_id))
        for answered in syncs.values():
            answered(SyncReply(ErrorCode.NOT_COORDINATOR))

    def die(self) -> None:
        """The group has been removed from the log."""
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
            # The group is what it was, so what was due is still due.
            self._arm(key, now_ms + RETRY_AFTER_MS, deadline.event)
            raise
