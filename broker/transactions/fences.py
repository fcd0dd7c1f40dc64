"""Causes of fences: the broker remembers why a producer was fenced, and logs the cause when the producer gets an error.

    producer_fenced by_client=10.0.0.8:4812 by_client_id=worker-2 cause=newer_instance client=10.0.0.7:4711
        client_id=worker-1 fenced_before_ms=1203 transactional_id=pay-1

| cause | meaning |
|---|---|
| newer_instance | another client called InitProducerId with this transactional id |
| epoch_exhausted | as newer_instance, but the epochs were used up, and the other client got a new producer id |
| timeout | the transaction was open for longer than its time-out, and the coordinator aborted it |
| admin | an administrator ended the transaction, or fenced its producer |
| group_generation | the consumer has left the group, or has an old generation: another member may have its partitions |
| late_request | the producer was not fenced: the request has an old epoch of the same producer |
| id_expired | the transactional id was not used for `transactional.id.expiration.ms`, and the coordinator removed it |
| coordinator_move | a marker had an old coordinator epoch: its sender is not the coordinator any more |
| unknown | the producer was fenced before the last start of the broker, or too many others were fenced since |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from stuntbroker.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from stuntbroker.broker.clock import Clock
    from stuntbroker.broker.connections.client_connection import Requester
    from stuntbroker.broker.observation.events import Events
    from stuntbroker.coordinator.state import Txn

Value = TypeVar("Value")
FENCES_MAX: Final = 10_000
"""Maximum number of transactional ids whose latest fences are kept."""
FENCES_OF_AN_ID: Final = 4
"""Maximum number of fences kept per id; the producer of an older fence may return late."""
ADMIN_CLIENT: Final = "adminclient"
"""Prefix of the default client ids of Apache Kafka's admin clients."""
OUR_ADMIN_CLIENT: Final = "stuntbroker"
"""Client id of `stuntbroker txn`. The client ids of this project's producers are longer."""
FENCED: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
FENCING: Final = FENCED | {ErrorCode.INVALID_PRODUCER_ID_MAPPING}
"""Errors that a fenced producer gets; INVALID_PRODUCER_ID_MAPPING if its transactional id has a new producer id."""
NO_MEMBER: Final = frozenset({ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID})
"""Errors of a producer that commits the offsets of a fenced consumer (KIP-447)."""


class Identity(NamedTuple):
    """Producer id and epoch of a request, which identify the producer; it may use several connections."""

    producer_id: int
    producer_epoch: int


class Holder(NamedTuple):
    """The producer that holds a transactional id, through all epoch bumps of its own transactions (KIP-890)."""

    client: str
    """Address of the client that called InitProducerId."""
    first_seen_ms: int
    """Time of that call, in ms since 1970; -1 if it is unknown."""
    first: Identity
    """Producer id and epoch in the response to that call."""

    def has_had(self, identity: Identity, last: Identity) -> bool:
        """Whether this producer has ever had `identity`. `last`: its current identity, or the one when it was fenced."""
        if identity.producer_id != last.producer_id:
            return identity.producer_id == self.first.producer_id and identity >= self.first
        # If the producer id has changed, its epochs were used up and began again at 0.
        began = self.first.producer_epoch if self.first.producer_id == last.producer_id else 0
        return began <= identity.producer_epoch <= last.producer_epoch


UNKNOWN: Final = Holder("", -1, Identity(-1, -1))


class Fence:
    """Why a producer was fenced: the cause, and the client that caused it, if any."""

    __slots__ = ("at_ms", "by_client", "by_client_id", "cause", "fenced", "is_logged", "last")

    def __init__(
        self, cause: str, by_client_id: str, by_client: str, fenced: Holder, last: Identity, at_ms: int
    ) -> None:
        self.cause = cause
        self.by_client_id = by_client_id
        self.by_client = by_client
        """Address of the client that caused the fence; empty if the broker did."""
        self.fenced = fenced
        """The producer that was fenced; UNKNOWN if it got its id before the last start of the broker."""
        self.last = last
        """Producer id and epoch of the fenced producer at that time."""
        self.at_ms = at_ms
        """Time of the fence, in ms of the monotonic clock."""
        self.is_logged = False
        """Whether the fence was logged."""


class Refusal(NamedTuple):
    """A fencing error that was returned to a producer."""

    transactional_id: str
    client_id: str
    client: str
    """Address of the refused producer."""
    api_key: int
    """API key of the refused request."""
    at_ms: int
    """Time of the refusal, in ms since 1970."""
    fence: Fence | None
    """None if the cause is unknown."""
    fenced_before_ms: int
    """Time from the fence to the refusal, in ms; -1 if the cause is unknown."""
    first_seen_ms: int
    """Time at which the producer got the transactional id, in ms since 1970; -1 if it is unknown."""


class Fences:
    """The latest fences of each transactional id, and the current holder of each id."""

    def __init__(self, clock: Clock, events: Events, state_of: Callable[[str], Txn | None]) -> None:
        self._clock = clock
        self._events = events
        self._state_of = state_of
        self._fences: dict[str, list[Fence]] = {}
        """Transactional id -> its fences, oldest first."""
        self._holders: dict[str, Holder] = {}
        """Transactional id -> its current holder."""
        self._unknown: dict[str, None] = {}
        """Transactional ids whose producers were refused and logged with cause `unknown`."""
        self.refused: Callable[[Refusal], None] | None = None
        """Called for every response with a fencing error, not only for the first, which is logged."""
        self.added: Callable[[str, Fence, int], None] | None = None
        """Called when a producer is fenced, with its transactional id and the time in ms since 1970."""

    def record_holder(self, transactional_id: str, client: str, given: Identity, is_same_producer: bool) -> None:
        """Record the address of the client that holds a transactional id from now on.

        `is_same_producer`: the client already held the id, and has only requested a new epoch (KIP-360).
        """
        if not is_same_producer or transactional_id not in self._holders:
            _put(self._holders, transactional_id, Holder(client, self._clock.now_ms(), given))

    def record_fence(self, txn: Txn, cause: str, request: Requester | None) -> None:
        """Record that the current producer of a transaction was fenced by a client, or by the broker (`request` is None).

        Do nothing if its latest fence has the same cause: an administrator ends a transaction in one partition after the other.
        """
        transactional_id = txn.transactional_id
        by_client_id, by_client = ("", "") if request is None else (request.client_id, request.peer)
        holder = self._holders.get(transactional_id, UNKNOWN)
        last = Identity(txn.producer_id, txn.producer_epoch)
        before = self._fences.get(transactional_id, [])
        if before and (before[-1].cause, before[-1].last) == (cause, last):
            return
        fence = Fence(cause, by_client_id, by_client, holder, last, self._clock.monotonic_ms())
        self._unknown.pop(transactional_id, None)
        self._fences.pop(transactional_id, None)  # The latest fence is the last to be forgotten.
        _put(self._fences, transactional_id, [*before[1 - FENCES_OF_AN_ID :], fence])
        if self.added is not None:
            self.added(transactional_id, fence, self._clock.now_ms())

    def record_expiry(self, transactional_id: str) -> None:
        """Record that a transactional id expired, as the cause for the errors that its producer will get."""
        txn = self._state_of(transactional_id) if transactional_id in self._holders else None
        if txn is not None:
            self.record_fence(txn, "id_expired", None)

    def record_refusal(self, request: Requester, transactional_id: str, identity: Identity, error: int) -> None:
        """Log one line per fence, when its producer first gets a fencing error."""
        if error in FENCED:
            self._report_refusal(request, transactional_id, identity, self._fence_of(transactional_id, identity))
        elif error in FENCING:
            # Without a fence, the producer id is unknown or expired.
            if fence := self._fence_of(transactional_id, identity):
                self._report_refusal(request, transactional_id, identity, fence)
        elif error == ErrorCode.INVALID_TXN_STATE:
            # Error for EndTxn after a time-out under transaction version 2 (KIP-890).
            fences = self._fences.get(transactional_id, [])
            if fences and fences[-1].cause == "timeout" and fences[-1].fenced.has_had(identity, fences[-1].last):
                self._report_refusal(request, transactional_id, identity, fences[-1])
        elif error in NO_MEMBER:
            holder = self._holders.get(transactional_id, UNKNOWN)
            self._report_refusal(request, transactional_id, identity, self._new("group_generation", holder, identity))
        elif error == ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            # The sender is an old coordinator, and no producer.
            self._report_refusal(request, transactional_id, identity, self._new("coordinator_move", UNKNOWN, identity))

    def _new(self, cause: str, holder: Holder, identity: Identity) -> Fence:
        """Return a fence for a cause that is detected only by this error."""
        return Fence(cause, "", "", holder, identity, self._clock.monotonic_ms())

    def _report_refusal(
        self, request: Requester, transactional_id: str, identity: Identity, fence: Fence | None
    ) -> None:
        clock = self._clock
        if self.refused is not None:
            before_ms = -1 if fence is None else clock.monotonic_ms() - fence.at_ms
            self.refused(
                Refusal(
                    transactional_id,
                    request.client_id,
                    request.peer,
                    request.route.key,
                    clock.now_ms(),
                    fence,
                    before_ms,
                    fence.fenced.first_seen_ms if fence and fence.fenced.has_had(identity, fence.last) else -1,
                )
            )
        facts: dict[str, object] = {"cause": "unknown"}
        if fence is not None:
            if fence.is_logged:
                return
            fence.is_logged = True
            facts = {"cause": fence.cause, "fenced_before_ms": clock.monotonic_ms() - fence.at_ms}
            if fence.by_client:
                facts |= {"by_client_id": fence.by_client_id, "by_client": fence.by_client}
        elif transactional_id in self._unknown:
            return
        else:
            _put(self._unknown, transactional_id, None)
        self._events.warning(
            "producer_fenced",
            transactional_id=transactional_id,
            client_id=request.client_id,
            client=request.peer,
            **facts,
        )

    def _fence_of(self, transactional_id: str, identity: Identity) -> Fence | None:
        """Return the fence of the producer that had this epoch; if there is none, the last fence of the id."""
        fences = self._fences.get(transactional_id, [])
        own = [fence for fence in fences if fence.fenced.has_had(identity, fence.last)]
        # A marker of an administrator does not change the epoch: a later fence with the same epoch is the cause.
        if own:
            return [fence for fence in own if fence.last == own[0].last][-1]
        txn, holder = self._state_of(transactional_id), self._holders.get(transactional_id)
        if txn is not None and holder is not None:
            now = Identity(txn.producer_id, txn.producer_epoch)
            if identity != now and holder.has_had(identity, now):
                return self._new("late_request", holder, identity)
        return fences[-1] if fences else None


def _put(by_id: dict[str, Value], transactional_id: str, value: Value) -> None:
    """Set an entry, and forget the oldest if there are too many."""
    by_id[transactional_id] = value
    if len(by_id) > FENCES_MAX:
        del by_id[next(iter(by_id))]


def cause_of(request: Requester, is_same_producer_id: bool) -> str:
    """Return the cause for fencing the previous producer by an InitProducerId request without a producer id."""
    if request.client_id.startswith(ADMIN_CLIENT) or request.client_id == OUR_ADMIN_CLIENT:
        return "admin"
    return "newer_instance" if is_same_producer_id else "epoch_exhausted"
