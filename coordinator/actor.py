"""One actor per transactional id: a mailbox and the performing of effects, no rules.

Everything about an id enters through `ask`. When nothing stands in the way a request is answered before `ask` returns: no
task, no timer and no future is made. A log that must sync first (`TxnLog.synced` is False) suspends the actor until it has;
requests wait in the mailbox meanwhile. An idle actor is its state and two empty slots.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from stuntbroker.coordinator.machine import decide
from stuntbroker.coordinator.requests import (
    Append,
    Context,
    Effect,
    MarkersWritten,
    Reply,
    Request,
    WriteMarkers,
)
from stuntbroker.coordinator.state import Txn
from stuntbroker.protocol.errors import ErrorCode

MAILBOX_LENGTH_MAX: Final = 1_000
Done = Callable[[Reply], None]


class Ports(Protocol):
    """What an actor needs of the world; the broker gives it."""

    def context(self) -> Context: ...

    def took_spare(self) -> None:
        """The spare producer id of the last context is somebody's now."""

    def append(self, actor: Actor, txn: Txn) -> bool:
        """Writes the state to the log. True when it is as durable as configured, else `when_synced` tells."""

    def when_synced(self, callback: Callable[[], None]) -> None: ...

    def write_markers(self, txn: Txn) -> None:
        """Ends the prepared transaction in every partition that still exists."""

    def changed(self, actor: Actor, before: Txn) -> None:
        """The actor has another state now."""


class Actor:
    """The transaction of one id."""

    __slots__ = ("busy", "log_partition", "mailbox", "txn")

    def __init__(self, txn: Txn, log_partition: int) -> None:
        self.txn = txn
        self.log_partition = log_partition
        """Partition of the transaction log that the id belongs to."""
        self.mailbox: list[tuple[Request, Done | None]] | None = None
        self.busy = False

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
        try:
            suspended = self._decide(request, done, ports)
        except BaseException:
            self.busy = False
            raise
        if not suspended:
            self._rest(ports)

    def _rest(self, ports: Ports) -> None:
        """Nothing is under way: on to who waits."""
        self.busy = False
        if self.mailbox:
            request, done = self.mailbox.pop(0)
            self.ask(request, done, ports)
        else:
            self.mailbox = None

    def _decide(self, request: Request, done: Done | None, ports: Ports) -> bool:
        context = ports.context()
        decision = decide(self.txn, request, context)
        if decision.took_spare:
            ports.took_spare()
        return self._perform(decision.effects, 0, request, done, ports)

    def _perform(
        self, effects: tuple[Effect, ...], at: int, request: Request, done: Done | None, ports: Ports
    ) -> bool:
        """Performs effects in order; True when the log must sync before the rest."""
        while at < len(effects):
            effect = effects[at]
            at += 1
            kind = type(effect)
            if kind is Append:
                synced = ports.append(self, effect.txn)  # type: ignore[union-attr]
                before, self.txn = self.txn, effect.txn  # type: ignore[union-attr]
                ports.changed(self, before)
                if not synced:
                    ports.when_synced(lambda at=at: self._resume(effects, at, request, done, ports))  # type: ignore[misc]
                    return True
            elif kind is WriteMarkers:
                ports.write_markers(effect.txn)  # type: ignore[union-attr]
                self._complete(ports)
            elif kind is Reply:
                if done is not None:
                    done(effect)  # type: ignore[arg-type]
            else:
                return self._decide(request, done, ports)
        return False

    def _complete(self, ports: Ports) -> None:
        """The Complete record decides nothing that the Prepare record did not: nobody waits for its sync."""
        (append,) = decide(self.txn, MarkersWritten(), ports.context()).effects
        assert isinstance(append, Append)
        ports.append(self, append.txn)
        before, self.txn = self.txn, append.txn
        ports.changed(self, before)

    def _resume(
        self, effects: tuple[Effect, ...], at: int, request: Request, done: Done | None, ports: Ports
    ) -> None:
        if not self._perform(effects, at, request, done, ports):
            self._rest(ports)

    def finish(self, ports: Ports) -> None:
        """After a replay or a fault: writes the markers of a prepared transaction again, and completes it."""
        ports.write_markers(self.txn)
        self._complete(ports)
