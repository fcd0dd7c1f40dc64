"""States to start from, ports for an actor (`World`), and `play`, which performs effects like the actor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stuntbroker.coordinator.actor import MARKERS_IN_A_SLICE_MAX, Actor, Hold
from stuntbroker.coordinator.machine import decide
from stuntbroker.coordinator.requests import (
    Append,
    Context,
    Effect,
    MarkersWritten,
    Redecide,
    Reply,
    Request,
    WriteMarkers,
)
from stuntbroker.coordinator.state import COMPLETED, PREPARED, Phase, Txn, txn_of
from stuntbroker.protocol.topic_names import TopicPartition

ID = "payments"
PRODUCER = 1_000
NEXT = 1_500
"""The producer id allocated after an epoch overflow, in states with one overflow."""
THIRD = 1_700
"""The producer id allocated after a second overflow, in a recovered transaction (KIP-939)."""
SPARE = 2_000
STRANGER = 77
NOW = 50_000
STARTED = 10_000
TIMEOUT_MS = 60_000
ORDERS: TopicPartition = ("orders", 0)
AUDIT: TopicPartition = ("audit", 3)

SETTLED = (Phase.EMPTY, Phase.COMPLETE_COMMIT, Phase.COMPLETE_ABORT)
ENDING = (Phase.PREPARE_COMMIT, Phase.PREPARE_ABORT)


def with_fields(txn: Txn, **fields: Any) -> Txn:
    """The same state with other values in some fields, whether or not a transition leads there."""
    return txn_of(**(txn.as_dict() | fields))


def replaced(request: Any, **fields: Any) -> Any:
    """The same request with other values in some fields."""
    return type(request)(**{name: getattr(request, name) for name in request.__match_args__} | fields)


def pair_of(request: Any) -> tuple[int, int]:
    """The producer id and epoch of a request."""
    return request.producer_id, request.producer_epoch


def txn_in(phase: Phase, epoch: int = 5, last: int = 4, **changes: Any) -> Txn:
    """A state in this phase; an open or prepared transaction contains the partition orders-0."""
    held = frozenset({ORDERS}) if phase is Phase.ONGOING or phase in PREPARED else frozenset()
    started_at_ms = -1 if phase is Phase.EMPTY else STARTED
    txn = txn_of(
        ID,
        producer_id=PRODUCER,
        previous_producer_id=PRODUCER,
        producer_epoch=epoch,
        last_producer_epoch=last,
        timeout_ms=TIMEOUT_MS,
        phase=phase,
        partitions=held,
        started_at_ms=started_at_ms,
        updated_at_ms=STARTED,
        client_version=2,
    )
    return with_fields(txn, **changes)


def context(transaction_version: int = 2, now_ms: int = NOW, spare: int = SPARE) -> Context:
    return Context(now_ms, transaction_version, spare)


def play(txn: Txn, request: Request, at: Context) -> tuple[Txn, list[Effect]]:
    """Decide a request and perform the effects like the actor: write markers immediately, and decide again on Redecide."""
    done: list[Effect] = []
    for _ in range(3):
        decision = decide(txn, request, at)
        if decision.allocated_producer_id:
            at = at._replace(next_producer_id=at.next_producer_id + 1)
        for effect in decision.effects:
            done.append(effect)
            match effect:
                case Append(after):
                    txn = after
                case WriteMarkers():
                    (append,) = decide(txn, MarkersWritten(), at).effects
                    assert isinstance(append, Append)
                    done.append(append)
                    txn = append.txn
        if not decision.effects or not isinstance(decision.effects[-1], Redecide):
            return txn, done
    raise AssertionError("Redecide without an end")


def replies(effects: list[Effect] | tuple[Effect, ...]) -> list[Reply]:
    return [effect for effect in effects if isinstance(effect, Reply)]


class Refused(Exception):
    """A port refused to write, like a disk that fails."""


class World:
    """Ports of an actor that record every call in one transcript."""

    def __init__(self, transaction_version: int = 2) -> None:
        self.hold: Hold | None = None
        self.markers_at_once_max = MARKERS_IN_A_SLICE_MAX
        self.at = context(transaction_version)
        self.transcript: list[str] = []
        self.appended: list[Txn] = []
        self.marked: list[Txn] = []
        self.sealed: list[Txn] = []
        self.must_sync = False
        """If True, appends and markers are durable only after `sync`."""
        self.refuse_append = False
        self.refuse_markers = False
        self.refuse_seal = False
        self._waiting: list[Callable[[], None]] = []

    def context(self) -> Context:
        return self.at

    def producer_id_allocated(self) -> None:
        self.at = self.at._replace(next_producer_id=self.at.next_producer_id + 1)

    def append(self, actor: Actor, txn: Txn, deferred: bool) -> bool:
        if self.refuse_append:
            raise Refused
        assert deferred == (txn.phase in COMPLETED)
        self.appended.append(txn)
        self.transcript.append(f"append {txn.phase.name}")
        return not self.must_sync

    def when_synced(self, callback: Callable[[], None]) -> None:
        self._waiting.append(callback)

    def sync(self) -> None:
        waiting, self._waiting = self._waiting, []
        self.transcript.append("synced")
        for callback in waiting:
            callback()

    def write_markers(self, txn: Txn) -> bool:
        if self.refuse_markers:
            raise Refused
        self.marked.append(txn)
        self.transcript.append(f"markers {'commit' if txn.phase is Phase.PREPARE_COMMIT else 'abort'}")
        return not self.must_sync

    def reject_new_records(self, txn: Txn) -> None:
        if self.refuse_seal:
            raise Refused
        self.sealed.append(txn)
        self.transcript.append("seal")

    def phase_changed(self, actor: Actor, before: Txn) -> None:
        assert actor.txn.phase is not before.phase

    def hear(self, name: str = "") -> Callable[[Reply], None]:
        """A reply callback that adds the reply to the transcript, prefixed with this name."""
        prefix = f"{name} " if name else ""
        return lambda reply: self.transcript.append(f"{prefix}reply {reply.error.name}")
