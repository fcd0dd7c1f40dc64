"""One actor per transactional id: a mailbox and the performing of effects, no rules.

Everything about an id enters through `ask`. When nothing stands in the way a request is answered before `ask` returns:
no task, no timer and no future is made. A log that must sync first (`Ports.append` is False) suspends the actor until
it has; requests wait in the mailbox meanwhile. An idle actor is its state and two empty slots.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

from stuntbroker.coordinator.machine import decide
from stuntbroker.coordinator.requests import (
    AddPartitions,
    Append,
    Context,
    Effect,
    EndTxn,
    MarkersWritten,
    Reply,
    Request,
    Seal,
    WriteMarkers,
)
from stuntbroker.coordinator.state import PHASE, Txn
from stuntbroker.protocol.errors import ErrorCode

MAILBOX_LENGTH_MAX: Final = 1_000
MARKERS_AT_ONCE_MAX: Final = 100
"""Partitions of a transaction whose markers are written in one piece."""
MARKERS_WRITTEN: Final = MarkersWritten()
Done = Callable[[Reply], None]


def _refuse(done: Done | None) -> None:
    """Answers a request that a fault met while nobody stood behind it any more: it may be asked again."""
    if done is not None:
        done(Reply(ErrorCode.COORDINATOR_NOT_AVAILABLE))


class Ports(Protocol):
    """What an actor needs of the world; the broker gives it."""

    def context(self) -> Context: ...

    def took_spare(self) -> None:
        """The spare producer id of the last context is somebody's now."""

    def append(self, actor: Actor, txn: Txn, late: bool) -> bool:
        """Writes the state to the log. True when it is as durable as configured, else `when_synced` tells.

        `late`: it may be written with the next one; it comes after the markers in any case.
        """

    def when_synced(self, callback: Callable[[], None]) -> None: ...

    def write_markers(self, txn: Txn) -> bool:
        """Ends the prepared transaction in every partition that still exists. True when that is as durable as configured."""

    def write_markers_in_slices(self, txn: Txn, written: Callable[[], None], failed: Callable[[], None]) -> None:
        """As `write_markers`, for so many partitions that others must have their turn meanwhile.

        Calls `written` when all markers are there and as durable as configured, or `failed`. Never before it returns.
        """

    def seal(self, txn: Txn) -> None:
        """From now on nobody adds records to the transaction without asking first."""

    def changed(self, actor: Actor, before: Txn) -> None:
        """The actor is in another phase now."""


class Actor:
    """The transaction of one id."""

    __slots__ = ("busy", "log", "mailbox", "txn")

    def __init__(self, txn: Txn, log: Any) -> None:
        self.txn = txn
        self.log = log
        """Partition of the transaction log that the id belongs to; only the ports look at it."""
        self.mailbox: list[tuple[Request, Done | None]] | None = None
        self.busy = False

    def at_once(self, request: AddPartitions | EndTxn, ports: Ports) -> Reply | None:
        """`ask` for ports whose log never has to sync first: the reply; None, and nothing done, where it must wait its turn.

        In one piece and without a callback: of what every transaction asks, nearly all is answered by it.
        """
        if self.busy:
            return None
        self.busy = True
        reply = None
        try:
            context = ports.context()
            _, effects, took_spare = decide(self.txn, request, context)
            if took_spare:
                ports.took_spare()
            effect: Any
            for effect in effects:
                kind = effect.__class__
                if kind is Append:
                    txn = effect[0]  # As `_append` does it.
                    ports.append(self, txn, False)
                    before, self.txn = self.txn, txn
                    if txn[PHASE] is not before[PHASE]:
                        ports.changed(self, before)
                elif kind is Reply:
                    reply = effect
                elif kind is WriteMarkers:
                    ports.write_markers(effect[0])
                    self._complete(ports, context)
                else:
                    raise AssertionError(f"{request} has the effect {effect}")
        finally:
            if self.mailbox is None:
                self.busy = False
            else:
                self._rest(ports)
        return reply

    def ask(self, request: Request, done: Done | None, ports: Ports) -> None:
        """Decides and performs; `done` gets the one reply, now or later. A full mailbox is a retriable error."""
        if self.busy:
            if self.mailbox is None:
                self.mailbox = []
            if len(self.mailbox) >= MAILBOX_LENGTH_MAX:
                if done is not None:
                    done(Reply(ErrorCode.CONCURRENT_TRANSACTIONS))
                return
            self.mailbox.append((request, done))
            return
        self.busy = True
        suspended = False
        try:  # As `_decide` does it.
            context = ports.context()
            _, effects, took_spare = decide(self.txn, request, context)
            if took_spare:
                ports.took_spare()
            suspended = self._perform(effects, 0, request, done, ports, context)
        finally:
            if not suspended:
                if self.mailbox is None:
                    self.busy = False
                else:
                    self._rest(ports)

    def _rest(self, ports: Ports) -> None:
        """Nothing is under way: on to who waits. A fault stops only the request that met it; it is raised last."""
        fault: Exception | None = None
        while self.mailbox:
            request, done = self.mailbox.pop(0)
            try:
                if self._decide(request, done, ports):
                    break
            except Exception as met:
                fault = fault or met
                _refuse(done)
        else:
            self.mailbox = None
            self.busy = False
        if fault is not None:
            raise fault

    def _decide(self, request: Request, done: Done | None, ports: Ports) -> bool:
        context = ports.context()
        _, effects, took_spare = decide(self.txn, request, context)
        if took_spare:
            ports.took_spare()
        return self._perform(effects, 0, request, done, ports, context)

    def _perform(
        self, effects: tuple[Effect, ...], at: int, request: Request, done: Done | None, ports: Ports, context: Context
    ) -> bool:
        """Performs effects in order; True when the log must sync before the rest."""
        effect: Any
        for effect in effects[at:] if at else effects:
            at += 1
            kind = effect.__class__
            if kind is Append:
                if not self._append(effect[0], ports):
                    ports.when_synced(partial(self._resume, effects, at, request, done, ports, context))
                    return True
            elif kind is WriteMarkers:
                if len(effect.txn.partitions) > MARKERS_AT_ONCE_MAX:
                    written = partial(self._completed, effects, at, request, done, ports, context)
                    ports.write_markers_in_slices(effect.txn, written, partial(self._give_up, done, ports))
                    return True
                if not ports.write_markers(effect[0]):
                    # A Complete record that were on the disk before a marker would leave that partition open for ever.
                    at = self._answer(effects, at, done)
                    ports.when_synced(partial(self._completed, effects, at, request, done, ports, context))
                    return True
                self._complete(ports, context)
            elif kind is Reply:
                if done is not None:
                    done(effect)
            elif kind is Seal:
                ports.seal(effect.txn)
            else:
                return self._decide(request, done, ports)
        return False

    def _append(self, txn: Txn, ports: Ports, late: bool = False) -> bool:
        """Append, then become."""
        synced = ports.append(self, txn, late)
        before, self.txn = self.txn, txn
        if txn[PHASE] is not before[PHASE]:
            ports.changed(self, before)
        return synced

    def _complete(self, ports: Ports, context: Context) -> None:
        """The Complete record decides nothing that the Prepare record did not: nobody waits for its sync."""
        self._append(decide(self.txn, MARKERS_WRITTEN, context)[0], ports, late=True)

    @staticmethod
    def _answer(effects: tuple[Effect, ...], at: int, done: Done | None) -> int:
        """Gives the reply that is next, if one is: it need not wait for the markers. Returns the position behind it."""
        if at < len(effects) and isinstance(effects[at], Reply):
            if done is not None:
                done(effects[at])  # type: ignore[arg-type]
            return at + 1
        return at

    def _completed(
        self, effects: tuple[Effect, ...], at: int, request: Request, done: Done | None, ports: Ports, context: Context
    ) -> None:
        """The markers are on the disk."""
        try:
            self._complete(ports, context)
        except Exception:
            if at < len(effects):
                _refuse(done)
            self._rest(ports)
            raise
        self._resume(effects, at, request, done, ports, context)

    def _give_up(self, done: Done | None, ports: Ports) -> None:
        """A marker could not be written: the transaction stays prepared, until somebody finishes it."""
        _refuse(done)
        self._rest(ports)

    def _resume(
        self, effects: tuple[Effect, ...], at: int, request: Request, done: Done | None, ports: Ports, context: Context
    ) -> None:
        suspended = False
        try:
            suspended = self._perform(effects, at, request, done, ports, context)
        except Exception:
            _refuse(done)
            raise
        finally:
            if not suspended:
                self._rest(ports)

    def finish(self, ports: Ports) -> None:
        """After a replay or a fault: writes the markers of a prepared transaction again, and completes it."""
        context = ports.context()
        completed = partial(self._completed, (), 0, MARKERS_WRITTEN, None, ports, context)
        if len(self.txn.partitions) > MARKERS_AT_ONCE_MAX:
            self.busy = True
            ports.write_markers_in_slices(self.txn, completed, partial(self._give_up, None, ports))
        elif ports.write_markers(self.txn):
            self._complete(ports, context)
        else:
            self.busy = True
            ports.when_synced(completed)
