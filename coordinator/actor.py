"""One actor per transactional id: it performs the effects of decisions. The rules are in `machine`.

Every request for an id enters through `ask`. While the actor is idle, a request is answered before `ask` returns, without a task,
a timer or a future. If the log must sync first (`Ports.append` returns False), the actor is suspended until the sync is done,
and further requests wait in its mailbox. An idle actor keeps only its state in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from stuntbroker.coordinator.machine import decide
from stuntbroker.coordinator.requests import (
    AddPartitions,
    Append,
    Context,
    Effect,
    EndTxn,
    MarkersWritten,
    Redecide,
    RejectNewRecords,
    Reply,
    Request,
    WriteMarkers,
)
from stuntbroker.coordinator.state import Txn, with_identity
from stuntbroker.protocol.errors import ErrorCode

MAILBOX_LENGTH_MAX: Final = 1_000
MARKERS_IN_A_SLICE_MAX: Final = 100
"""Partitions of a transaction whose markers are written in one turn of the event loop."""
MARKERS_WRITTEN: Final = MarkersWritten()
OnReply = Callable[[Reply], None]
Hold = Callable[["Actor", Request, tuple[Effect, ...], int, Callable[[], None]], bool]
"""Called with the actor, the request, its effects, the number performed so far, and a function that resumes the others.

Returns True if it holds the request and will call that function; False to continue. May raise StorageError.
"""


class AfterMarkers(NamedTuple):
    """Callbacks for writing markers in several turns of the event loop; exactly one is called."""

    written: Callable[[], None]
    """All are written, and as durable as configured."""
    failed: Callable[[], None]
    waiting: Callable[[], None]
    """Some partition has no leader to write its marker. `Actor.finish` is called once it has a leader."""


class Ports(Protocol):
    """Interface of an actor to the broker, which implements it."""

    hold: Hold | None
    """Called before each effect and after the last one; None while there are no stop points."""
    markers_at_once_max: int
    """Number of partitions above which a transaction's markers are written in slices."""

    def context(self) -> Context:
        """Return the time, the transaction version and the next producer id."""

    def producer_id_allocated(self) -> None:
        """Record that a decision has allocated the next producer id of the last context."""

    def append(self, actor: Actor, txn: Txn, deferred: bool) -> bool:
        """Append the state to the log; return whether it is durable as configured. If not, use `when_synced` to wait for it.

        `deferred`: write the state after the markers, together with the next append to the log.
        """

    def when_synced(self, callback: Callable[[], None]) -> None:
        """Call back when everything that was written until now is as durable as configured."""

    def write_markers(self, txn: Txn) -> bool:
        """Write a marker to every partition that still exists; return whether they are durable as configured."""

    def write_markers_in_slices(self, txn: Txn, following: AfterMarkers) -> None:
        """Write the markers in several turns of the event loop. Calls one of `following`, after this function returns."""

    def reject_new_records(self, txn: Txn) -> None:
        """Refuse further records in the transaction unless the coordinator agrees."""

    def phase_changed(self, actor: Actor, before: Txn) -> None:
        """Handle a change of the transaction's phase."""


class _Execution:
    """A request in progress: its decision, and the number of effects performed so far."""

    __slots__ = ("context", "effects", "held_at", "on_reply", "position", "request")

    def __init__(self, request: Request, on_reply: OnReply | None) -> None:
        self.request = request
        self.on_reply = on_reply
        """None if the reply is not needed or was already sent."""
        self.context: Context
        self.effects: tuple[Effect, ...] = ()
        self.position = 0
        """Index of the effect that is performed next."""
        self.held_at = -1
        """Last position at which `Ports.hold` was called."""

    def reply(self, reply: Reply) -> None:
        on_reply, self.on_reply = self.on_reply, None
        if on_reply is not None:
            on_reply(reply)

    def refuse(self) -> None:
        """Reply COORDINATOR_NOT_AVAILABLE, a retriable error, after an exception."""
        self.reply(Reply(ErrorCode.COORDINATOR_NOT_AVAILABLE))


class Suspended:
    """A request held at a stop point, recreated in a copy of the broker. Its reply is dropped."""

    __slots__ = ("_actor", "_execution", "_ports")

    def __init__(self, actor: Actor, execution: _Execution, ports: Ports) -> None:
        self._actor = actor
        self._execution = execution
        self._ports = ports

    def resume(self) -> None:
        """Perform the effects that are left. Raises StorageError."""
        self._actor.resume(self._execution, self._ports)

    def write_markers(self, txn: Txn) -> None:
        """Write the markers of a prepared transaction in slices, then perform the effects that are left."""
        self._actor.write_markers_in_slices(txn, self._execution, self._ports)


class Actor:
    """The transaction of one transactional id."""

    __slots__ = ("busy", "log", "mailbox", "txn")

    def __init__(self, txn: Txn, log: Any) -> None:
        self.txn = txn
        self.log = log
        """The partition of the transaction log for this id. Only the ports use it."""
        self.mailbox: list[_Execution] | None = None
        self.busy = False

    def ask(self, request: Request, on_reply: OnReply | None, ports: Ports) -> None:
        """Handle a request. `on_reply` is called once, now or later; with CONCURRENT_TRANSACTIONS if the mailbox is full.

        Raises StorageError instead if an effect fails before this function returns; if one fails later, the reply is
        COORDINATOR_NOT_AVAILABLE. The error may also be that of a request that waited in the mailbox.
        """
        execution = _Execution(request, on_reply)
        if not self.busy:
            self._run(execution, ports)
        elif self.mailbox is None:
            self.mailbox = [execution]
        elif len(self.mailbox) < MAILBOX_LENGTH_MAX:
            self.mailbox.append(execution)
        else:
            execution.reply(Reply(ErrorCode.CONCURRENT_TRANSACTIONS))

    def try_immediately(self, request: AddPartitions | EndTxn, ports: Ports) -> Reply | None:
        """Handle a request if the actor is idle and return the reply; else return None and do nothing.

        Saves a callback for each request: 6 % of the instructions of a lone transaction. A test compares it with `ask`.
        Only for ports that never sync, and for transactions with up to MARKERS_IN_A_SLICE_MAX partitions.
        """
        if self.busy:
            return None
        replies: list[Reply] = []
        self._run(_Execution(request, replies.append), ports)
        return replies[0]

    def set_ids(self, producer_id: int | None, producer_epoch: int, now_ms: int, ports: Ports) -> None:
        """Set producer id and epoch of an idle transactional id without an open transaction, for tests."""
        self._append(with_identity(self.txn, producer_id, producer_epoch, now_ms), ports, deferred=False)

    def suspend(self, request: Request, effects: tuple[Effect, ...], position: int, ports: Ports) -> Suspended:
        """Recreate a request whose first `position` effects were performed; the returned object resumes it."""
        execution = _Execution(request, None)
        execution.context = ports.context()
        execution.effects, execution.position, execution.held_at = effects, position, position
        self.busy = True
        return Suspended(self, execution, ports)

    def finish(self, ports: Ports) -> None:
        """Write the markers of a prepared transaction (again) and complete it, after a restart or a failed write."""
        execution = _Execution(MARKERS_WRITTEN, None)
        execution.context = ports.context()
        execution.effects = (WriteMarkers(self.txn),)
        self.busy = True
        self.resume(execution, ports)

    def _run(self, execution: _Execution, ports: Ports) -> None:
        self.busy = True
        suspended = False
        try:
            suspended = self._decide_and_perform(execution, ports)
        finally:
            if not suspended:
                self.drain_mailbox(ports)

    def drain_mailbox(self, ports: Ports) -> None:
        """Handle the requests in the mailbox. An exception ends only its own request; the first one is raised at the end."""
        fault: Exception | None = None
        while self.mailbox:
            execution = self.mailbox.pop(0)
            try:
                if self._decide_and_perform(execution, ports):
                    break
            except Exception as error:
                fault = fault or error
                execution.refuse()
        else:
            self.mailbox = None
            self.busy = False
        if fault is not None:
            raise fault

    def _decide_and_perform(self, execution: _Execution, ports: Ports) -> bool:
        execution.context = context = ports.context()
        decision = decide(self.txn, execution.request, context)
        if decision.allocated_producer_id:
            ports.producer_id_allocated()
        execution.effects, execution.position, execution.held_at = decision.effects, 0, -1
        return self._perform(execution, ports)

    def _perform(self, execution: _Execution, ports: Ports) -> bool:
        """Perform the remaining effects in order. Return True if the actor is suspended; `resume` then performs the others."""
        effects = execution.effects
        position = execution.position
        hold = ports.hold
        while True:
            if hold is not None and execution.held_at < position:
                execution.position = execution.held_at = position
                if hold(self, execution.request, effects, position, partial(self.resume, execution, ports)):
                    return True
            if position == len(effects):
                return False
            effect = effects[position]
            position += 1
            if isinstance(effect, Append):
                if not self._append(effect.txn, ports, deferred=False):
                    execution.position = position
                    ports.when_synced(partial(self.resume, execution, ports))
                    return True
            elif isinstance(effect, Reply):
                execution.reply(effect)
            elif isinstance(effect, WriteMarkers):
                execution.position = position
                if self._write_markers_and_complete(effect.txn, execution, ports):
                    return True
            elif isinstance(effect, RejectNewRecords):
                ports.reject_new_records(effect.txn)
            else:
                assert isinstance(effect, Redecide)
                return self._decide_and_perform(execution, ports)

    def _write_markers_and_complete(self, txn: Txn, execution: _Execution, ports: Ports) -> bool:
        """Write the markers and append the Complete record, or begin to; return whether the actor is suspended."""
        if len(txn.partitions) > ports.markers_at_once_max:
            self.write_markers_in_slices(txn, execution, ports)
            return True
        if ports.write_markers(txn):
            self._complete(execution.context, ports)
            return False
        # The Complete record must not reach the disk before a marker: that partition's transaction would never end.
        self._reply_before_complete(execution)
        ports.when_synced(partial(self._complete_and_continue, execution, ports))
        return True

    def _reply_before_complete(self, execution: _Execution) -> None:
        """Send the reply that follows the markers, if there is one, without waiting for the Complete record.

        The Prepare record has decided the outcome. The client receives the reply once the markers are durable.
        """
        effects, position = execution.effects, execution.position
        if position < len(effects) and isinstance(reply := effects[position], Reply):
            execution.position = position + 1
            execution.reply(reply)

    def write_markers_in_slices(self, txn: Txn, execution: _Execution, ports: Ports) -> None:
        """Write the markers, then complete the transaction and perform the effects that are left of a request."""
        ports.write_markers_in_slices(
            txn,
            AfterMarkers(
                partial(self._complete_and_continue, execution, ports),
                partial(self._give_up, execution, ports),
                partial(self._stay_prepared, execution, ports),
            ),
        )

    def _append(self, txn: Txn, ports: Ports, deferred: bool) -> bool:
        """Append the state to the log, then make it the current one; return whether it is durable."""
        is_durable = ports.append(self, txn, deferred)
        before, self.txn = self.txn, txn
        if txn.phase is not before.phase:
            ports.phase_changed(self, before)
        return is_durable

    def _complete(self, context: Context, ports: Ports) -> None:
        """Append the Complete record, deferred: no reply waits for it, as the Prepare record has decided the outcome."""
        self._append(decide(self.txn, MARKERS_WRITTEN, context).txn, ports, deferred=True)

    def _complete_and_continue(self, execution: _Execution, ports: Ports) -> None:
        """Append the Complete record once the markers are durable, then resume the request."""
        try:
            self._complete(execution.context, ports)
        except Exception:
            execution.refuse()
            self.drain_mailbox(ports)
            raise
        self.resume(execution, ports)

    def resume(self, execution: _Execution, ports: Ports) -> None:
        """Perform the effects that are left after a suspension. Raises StorageError."""
        suspended = False
        try:
            suspended = self._perform(execution, ports)
        except Exception:
            execution.refuse()
            raise
        finally:
            if not suspended:
                self.drain_mailbox(ports)

    def _stay_prepared(self, execution: _Execution, ports: Ports) -> None:
        """Stay prepared while a partition has no leader to write its marker; a request for a new transaction is to be retried."""
        self._reply_before_complete(execution)
        execution.reply(Reply(ErrorCode.CONCURRENT_TRANSACTIONS))
        self.drain_mailbox(ports)

    def _give_up(self, execution: _Execution, ports: Ports) -> None:
        """Refuse the request because a marker could not be written; the transaction stays prepared until `finish` succeeds."""
        execution.refuse()
        self.drain_mailbox(ports)
