"""TimeOut and MarkersWritten: requests that no client sends."""

from __future__ import annotations

from typing import Any

from txn_harness import ENDING, NOW, PRODUCER, SPARE, STARTED, TIMEOUT_MS, context, txn_in
from txn_tables import ALL, NOTHING, RequestInState, Table, becomes

from stuntbroker.coordinator.requests import MarkersWritten, TimeOut
from stuntbroker.coordinator.state import Phase
from stuntbroker.protocol.transaction_states import TIMEOUT_NONE

P = Phase
NOT_ONGOING = tuple(phase for phase in Phase if phase is not P.ONGOING)
DEADLINE = STARTED + TIMEOUT_MS
MOMENTS = {"too early": NOW, "deadline": DEADLINE, "after": DEADLINE + 1, "years after": 10**15}
EPOCHS = {"plain": 5, "last": 32_766, "fence": 32_767}


def ask_time_out(phase: Phase, stored: str, moment: str, version: int, limited: bool) -> RequestInState:
    timeout_ms = TIMEOUT_MS if limited else TIMEOUT_NONE
    before = txn_in(phase, EPOCHS[stored], timeout_ms=timeout_ms, client_version=2 - version)
    return before, TimeOut(), context(version, MOMENTS[moment])


def always_time_out(phase: Phase, stored: str, moment: str, version: int, limited: bool) -> dict[str, Any]:
    return {"updated_at_ms": MOMENTS[moment], "client_version": 2 if version == 2 else 0}


def fences(epoch: int, last: int, **changes: Any) -> Any:
    """Abort by a time-out: the epoch is bumped, and there is no reply."""
    return becomes("append markers", P.PREPARE_ABORT, producer_epoch=epoch, last_producer_epoch=last, **changes)


SPARED: dict[str, Any] = {"next_producer_id": SPARE, "allocated_producer_id": True}
PAST = ("after", "years after")
TIME_OUT_ROWS = [
    # phase       stored   moment                     TV      limited
    (NOT_ONGOING, ALL,     ALL,                       ALL,    ALL,   NOTHING),
    (P.ONGOING,   ALL,     ("too early", "deadline"), ALL,    ALL,   NOTHING),
    (P.ONGOING,   ALL,     PAST,                      ALL,    False, NOTHING),  # Two-phase (KIP-939).
    (P.ONGOING,   "plain", PAST,                      (0, 1), True,  fences(6, -1)),
    (P.ONGOING,   "plain", PAST,                      2,      True,  fences(6, 5)),  # The owner may claim it (KIP-890).
    (P.ONGOING,   "last",  PAST,                      (0, 1), True,  fences(32_767, -1)),
    (P.ONGOING,   "last",  PAST,                      2,      True,  fences(32_767, 32_766, **SPARED)),
    (P.ONGOING,   "fence", PAST,                      (0, 1), True,  fences(32_767, -1)),
    (P.ONGOING,   "fence", PAST,                      2,      True,  fences(32_767, 32_767, **SPARED)),
]  # fmt: skip

TIME_OUT = Table(
    "TimeOut",
    TimeOut,
    (tuple(Phase), tuple(EPOCHS), tuple(MOMENTS), (0, 1, 2), (True, False)),
    TIME_OUT_ROWS,
    ask_time_out,
    always_time_out,
)


def ask_markers(phase: Phase, stored: str, client: int) -> RequestInState:
    next_id = SPARE if stored == "used up" else -1
    epoch = 32_767 if stored == "used up" else 5
    return txn_in(phase, epoch, epoch - 1, next_producer_id=next_id, client_version=client), MarkersWritten(), context()


MARKERS_ROWS = [
    # phase             stored     TV of the client
    (P.PREPARE_COMMIT, "plain",   ALL, becomes("append", P.COMPLETE_COMMIT)),
    (P.PREPARE_ABORT,  "plain",   ALL, becomes("append", P.COMPLETE_ABORT)),
    (P.PREPARE_COMMIT, "used up", ALL, becomes("append", P.COMPLETE_COMMIT, producer_id=SPARE, producer_epoch=0)),
    (P.PREPARE_ABORT,  "used up", ALL, becomes("append", P.COMPLETE_ABORT, producer_id=SPARE, producer_epoch=0)),
]  # fmt: skip

MARKERS_WRITTEN = Table(
    "MarkersWritten", MarkersWritten, (tuple(Phase), ("plain", "used up"), (0, 2)), MARKERS_ROWS, ask_markers,
    lambda *cell: {
        "updated_at_ms": NOW, "partitions": frozenset(), "next_producer_id": -1, "previous_producer_id": PRODUCER,
    },
    lambda phase, *_: phase not in ENDING,
)  # fmt: skip
