"""Decision tables: rows over axes, expanded into cells, each of which states everything that a decision does.

A row gives for every axis one value, several in a tuple, or ALL; the first axis is always the phase.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final, NamedTuple

from txn_harness import with_fields

from stuntbroker.coordinator.requests import (
    TRANSACTION_TIMED_OUT,
    Append,
    Context,
    Decision,
    Effect,
    Redecide,
    RejectNewRecords,
    Reply,
    Request,
    WriteMarkers,
)
from stuntbroker.coordinator.state import Phase, Txn
from stuntbroker.protocol.errors import ErrorCode

ALL: Final = object()
OK: Final = ErrorCode.NONE
FENCED: Final = ErrorCode.PRODUCER_FENCED
CONCURRENT: Final = ErrorCode.CONCURRENT_TRANSACTIONS
INVALID_STATE: Final = ErrorCode.INVALID_TXN_STATE
NOT_MAPPED: Final = ErrorCode.INVALID_PRODUCER_ID_MAPPING
ABORTABLE: Final = ErrorCode.TRANSACTION_ABORTABLE
SERVER_ERROR: Final = ErrorCode.UNKNOWN_SERVER_ERROR
TIMED_OUT: Final = TRANSACTION_TIMED_OUT
NO_PAIR: Final = (-1, -1)


class Outcome(NamedTuple):
    effects: str
    """Names of the effects in order."""
    reply: Reply | None
    changes: dict[str, Any] | None
    """Fields of the state that change; None if the state stays the same."""
    allocated_producer_id: bool

    def decision(self, before: Txn, always: dict[str, Any]) -> Decision:
        after = before if self.changes is None else with_fields(before, **(always | self.changes))
        created: dict[str, Effect | None] = {
            "append": Append(after), "markers": WriteMarkers(after), "seal": RejectNewRecords(after), "reply": self.reply,
            "again": Redecide(),
        }  # fmt: skip
        effects = tuple(created[name] for name in self.effects.split())
        return Decision(after, effects, self.allocated_producer_id)  # type: ignore[arg-type]


def stays(error: int, producer_id: int = -1, epoch: int = -1, ongoing: tuple[int, int] = NO_PAIR) -> Outcome:
    return Outcome("reply", Reply(error, producer_id, epoch, *ongoing), None, False)


NOTHING: Final = Outcome("", None, None, False)


def becomes(
    effects: str,
    phase: Phase,
    reply: tuple[int, int] | None = None,
    ongoing: tuple[int, int] = NO_PAIR,
    *,
    allocated_producer_id: bool = False,
    **changes: Any,
) -> Outcome:
    """`reply`: producer id and epoch of the successful reply; (-1, -1) if the reply has none."""
    answer = None if reply is None else Reply(OK, *reply, *ongoing)
    return Outcome(effects, answer, {"phase": phase, **changes}, allocated_producer_id)


Cell = tuple[Any, ...]
RequestInState = tuple[Txn, Request, Context]


@dataclass(frozen=True)
class Table:
    name: str
    kind: type
    """Type of its requests."""
    axes: tuple[Sequence[Any], ...]
    rows: Sequence[tuple[Any, ...]]
    """One entry for each axis, then the outcome."""
    ask: Callable[..., RequestInState]
    """State, request and context of a cell."""
    always: Callable[..., dict[str, Any]]
    """Fields that every decision of this table sets, computed from the cell."""
    impossible: Callable[..., bool] = lambda *cell: False

    def expanded(self) -> list[tuple[Cell, Outcome]]:
        actual = []
        for *entries, outcome in self.rows:
            assert len(entries) == len(self.axes), f"{self.name}: {entries}"
            choices = [
                axis if entry is ALL else entry if isinstance(entry, tuple) else (entry,)
                for entry, axis in zip(entries, self.axes, strict=True)
            ]
            actual += [(cell, outcome) for cell in product(*choices) if not self.impossible(*cell)]
        return actual

    def all_cells(self) -> set[Cell]:
        return {cell for cell in product(*self.axes) if not self.impossible(*cell)}

    def twice(self) -> list[Cell]:
        return [cell for cell, times in Counter(cell for cell, _ in self.expanded()).items() if times > 1]
