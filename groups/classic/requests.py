"""What a group can be asked, what it answers, and what must be done about it: values only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from stuntbroker.groups.classic.state import Group, Protocol
from stuntbroker.protocol.errors import ErrorCode

# Requests of clients


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroup:
    """A member wants to be in the group. `new_member_id` is the id that it gets if it has none."""

    group_id: str
    member_id: str
    """Empty when the member has no id yet."""

    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[Protocol, ...]
    requires_member_id: bool
    """From version 4: a new dynamic member must come back with the id that it is given."""

    skips_assignment: bool
    """From version 9: a static leader can be told that it leads and need not assign anything."""

    new_member_id: str = ""
    """The id to give to who has none. Chance is an argument."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroup:
    """A member asks for its assignment; the leader's request brings those of all members."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    assignments: tuple[tuple[str, bytes], ...]
    """(member id, assignment); only the leader sends any."""


class Leaver(NamedTuple):
    """A member that leaves: by its member id, or by its instance id when that is empty."""

    member_id: str
    """"" when an administrator removes a static member by its instance id."""

    instance_id: str | None


@dataclass(frozen=True, slots=True)
class LeaveGroup:
    """Members leave, or are removed by an administrator."""

    group_id: str
    leavers: tuple[Leaver, ...]


# What time brings


@dataclass(frozen=True, slots=True)
class SessionExpired:
    """A member was not heard of for its session time-out, or waited too long in its first JoinGroup."""

    member_id: str


@dataclass(frozen=True, slots=True)
class InitialDelayOver:
    """A delay of an initial rebalance has passed; `remaining_ms` is how much longer it may be made."""

    delay_ms: int
    """How long this part of the delay was."""

    remaining_ms: int
    """How much the delay may still grow."""


@dataclass(frozen=True, slots=True)
class JoinDeadline:
    """The rebalance time-out of the group is over: who has not joined again is out."""


@dataclass(frozen=True, slots=True)
class SyncDeadline:
    """The rebalance time-out is over since the generation began: who has not sent SyncGroup is out."""

    generation: int


@dataclass(frozen=True, slots=True)
class Loaded:
    """The group was read from the log: its members have their session time-out to be heard of."""


Request = JoinGroup | SyncGroup | LeaveGroup | SessionExpired | InitialDelayOver | JoinDeadline | SyncDeadline | Loaded


# Answers


class JoinedMember(NamedTuple):
    """A member as the leader gets it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinReply(NamedTuple):
    """The answer to JoinGroup."""

    error: ErrorCode
    member_id: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()
    """For the leader only."""


class SyncReply(NamedTuple):
    """The answer to SyncGroup."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class LeaveReply(NamedTuple):
    """The answer to LeaveGroup, with an error for each member that was named."""

    error: ErrorCode
    members: tuple[ErrorCode, ...] = ()
    """One per leaver, in the order of the request."""


Reply = JoinReply | SyncReply | LeaveReply


# Effects


class TimerKind(Enum):
    """What a timer of a group limits."""

    SESSION = auto()
    JOIN = auto()
    SYNC = auto()


class TimerKey(NamedTuple):
    """A timer of a group; the member id is that of a session."""

    kind: TimerKind
    member_id: str = ""


JOIN_TIMER = TimerKey(TimerKind.JOIN)
SYNC_TIMER = TimerKey(TimerKind.SYNC)


def session_of(member_id: str) -> TimerKey:
    """Return the key of a member's session timer."""
    return TimerKey(TimerKind.SESSION, member_id)


class Answer(NamedTuple):
    """Answers the request at hand."""

    reply: Reply


class Park(NamedTuple):
    """Keeps the request at hand, to be answered by a later Complete of the member."""

    member_id: str
    joins: bool


class Complete(NamedTuple):
    """Answers the parked request of a member: its JoinGroup or its SyncGroup, as the reply is."""

    member_id: str
    reply: JoinReply | SyncReply


class Arm(NamedTuple):
    """Has `event` decided upon `delay_ms` from now, unless the same key is armed anew or disarmed before."""

    key: TimerKey
    delay_ms: int
    event: Request


class Disarm(NamedTuple):
    """Effect: a timer is stopped."""

    key: TimerKey


Effect = Answer | Park | Complete | Arm | Disarm


class Decision(NamedTuple):
    """In this order: `store` is appended to the log, the group becomes `group`, the effects are performed.

    When the append fails, nothing has happened.
    """

    group: Group
    store: Group | None = None
    effects: tuple[Effect, ...] = ()
