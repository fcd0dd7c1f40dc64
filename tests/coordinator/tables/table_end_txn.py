"""EndTxn: phase x which epoch it carries x commit or abort, by versions 0-4 and by version 5 (KIP-890)."""

from __future__ import annotations

from typing import Any

from txn_harness import ENDING, NEXT, NOW, PRODUCER, SETTLED, SPARE, STARTED, STRANGER, context, txn_in
from txn_tables import (
    ALL,
    CONCURRENT,
    FENCED,
    INVALID_STATE,
    NOT_MAPPED,
    OK,
    Outcome,
    RequestInState,
    Table,
    becomes,
    stays,
)

from stuntbroker.coordinator.requests import EndTxn
from stuntbroker.coordinator.state import Phase
from stuntbroker.protocol.transaction_states import EPOCH_LAST

P = Phase
COMMIT, ABORT = True, False

# --- versions 0-4: the same decisions under every transaction version of the cluster

ASKERS_V4 = {
    "owner": (PRODUCER, 5),
    "one before": (PRODUCER, 4),
    "newer": (PRODUCER, 6),
    "stranger": (STRANGER, 5),
    "strange old": (STRANGER, 4),  # The producer id is checked before the epoch.
}


def ask_v4(phase: Phase, asker: str, commit: bool, version: int) -> RequestInState:
    return txn_in(phase), EndTxn(*ASKERS_V4[asker], commit, 0), context(version)


PREPARED = {
    COMMIT: becomes("append markers reply", P.PREPARE_COMMIT, (-1, -1)),
    ABORT: becomes("append markers reply", P.PREPARE_ABORT, (-1, -1)),
}
ROWS_V4 = [
    # phase            asker                        outcome  TV
    (P.ONGOING,         "owner",                    COMMIT, ALL, PREPARED[COMMIT]),
    (P.ONGOING,         "owner",                    ABORT,  ALL, PREPARED[ABORT]),
    (P.PREPARE_COMMIT,  "owner",                    COMMIT, ALL, stays(CONCURRENT)),
    (P.PREPARE_COMMIT,  "owner",                    ABORT,  ALL, stays(INVALID_STATE)),
    (P.PREPARE_ABORT,   "owner",                    COMMIT, ALL, stays(INVALID_STATE)),
    (P.PREPARE_ABORT,   "owner",                    ABORT,  ALL, stays(CONCURRENT)),
    (P.COMPLETE_COMMIT, "owner",                    COMMIT, ALL, stays(OK)),
    (P.COMPLETE_COMMIT, "owner",                    ABORT,  ALL, stays(INVALID_STATE)),
    (P.COMPLETE_ABORT,  "owner",                    COMMIT, ALL, stays(INVALID_STATE)),
    (P.COMPLETE_ABORT,  "owner",                    ABORT,  ALL, stays(OK)),
    (P.EMPTY,           "owner",                    ALL,    ALL, stays(INVALID_STATE)),
    (ALL,               ("one before", "newer"),    ALL,    ALL, stays(FENCED)),
    (ALL,               ("stranger", "strange old"), ALL,   ALL, stays(NOT_MAPPED)),
]  # fmt: skip

END_TXN_V4 = Table(
    "EndTxn v0-4",
    EndTxn,
    (tuple(Phase), tuple(ASKERS_V4), (COMMIT, ABORT), (0, 1, 2)),
    ROWS_V4,
    ask_v4,
    lambda *cell: {"updated_at_ms": NOW, "client_version": 0},
)

# --- version 5

STORED: dict[str, dict[str, Any]] = {
    "plain": {"epoch": 5, "last": 4},
    "last": {"epoch": 32_766, "last": 32_765},
    "fence": {"epoch": 32_767, "last": 32_766},
    "rotated": {"epoch": 0, "last": 32_766, "producer_id": NEXT},  # The producer id before is PRODUCER.
}
ASKERS_V5 = ("current", "retry", "older", "newer", "stranger")


def names(stored: str, asker: str) -> tuple[int, int]:
    epoch: int = STORED[stored]["epoch"]
    rotated = stored == "rotated"
    owner = NEXT if rotated else PRODUCER
    return {
        "current": (owner, epoch),
        "retry": (PRODUCER, EPOCH_LAST if rotated else epoch - 1),
        "older": (PRODUCER, EPOCH_LAST - 1 if rotated else epoch - 2),
        "newer": (owner, epoch + 1),
        "stranger": (STRANGER, epoch - 1),
    }[asker]


def ask_v5(phase: Phase, stored: str, asker: str, commit: bool) -> RequestInState:
    before = txn_in(phase, client_version=0, **STORED[stored])
    return before, EndTxn(*names(stored, asker), commit, 2), context()


def always_v5(phase: Phase, stored: str, asker: str, commit: bool) -> dict[str, Any]:
    owner = NEXT if stored == "rotated" else PRODUCER
    started_at_ms = STARTED if phase is P.ONGOING else NOW
    return {
        "updated_at_ms": NOW, "client_version": 2, "previous_producer_id": owner, "started_at_ms": started_at_ms,
    }  # fmt: skip


def impossible_v5(phase: Phase, stored: str, asker: str, commit: bool) -> bool:
    return stored == "fence" and asker == "newer"  # 32,768


def ends(phase: Phase, stored: str) -> Outcome:
    """Every EndTxn bumps the epoch; after the last epoch the client gets a new producer id."""
    if stored == "plain":
        return becomes("append markers reply", phase, (PRODUCER, 6), producer_epoch=6, last_producer_epoch=5)
    if stored == "rotated":
        return becomes("append markers reply", phase, (NEXT, 1), producer_epoch=1, last_producer_epoch=0)
    return becomes(
        "append markers reply",
        phase,
        (SPARE, 0),
        producer_epoch=32_767,
        last_producer_epoch=32_766,
        next_producer_id=SPARE,
        allocated_producer_id=True,
    )


def answers(stored: str) -> Outcome:
    """The retry gets the same response as the first request: the producer id and epoch of the next transaction."""
    owner = NEXT if stored == "rotated" else PRODUCER
    return stays(OK, owner, STORED[stored]["epoch"])


ROWS_V5: list[tuple[Any, ...]] = [
    # phase             stored  asker                outcome
    (P.ONGOING,         ALL,    "retry",             ALL,    stays(FENCED)),
    (P.PREPARE_COMMIT,  ("plain", "last", "fence"), "retry", COMMIT, stays(CONCURRENT)),
    (P.PREPARE_COMMIT,  ("plain", "last", "fence"), "retry", ABORT, stays(INVALID_STATE)),
    (P.PREPARE_ABORT,   ("plain", "last", "fence"), "retry", COMMIT, stays(INVALID_STATE)),
    (P.PREPARE_ABORT,   ("plain", "last", "fence"), "retry", ABORT, stays(CONCURRENT)),
    (ENDING,            "rotated", "retry",          ALL,    stays(FENCED)),
    (ENDING,            ALL,    "current",           ALL,    stays(FENCED)),
    (P.COMPLETE_COMMIT, ALL,    "retry",             ABORT,  stays(INVALID_STATE)),
    (P.COMPLETE_COMMIT, ALL,    "current",           COMMIT, stays(INVALID_STATE)),
    (P.COMPLETE_ABORT,  ALL,    "retry",             COMMIT, stays(INVALID_STATE)),
    (P.COMPLETE_ABORT,  ALL,    "current",           COMMIT, stays(INVALID_STATE)),
    (P.EMPTY,           ("plain", "last", "fence"), "retry", ALL, stays(FENCED)),
    (P.EMPTY,           "rotated", "retry",          ALL,    stays(FENCED)),
    (P.EMPTY,           ALL,    "current",           COMMIT, stays(INVALID_STATE)),
    (ALL, ("plain", "last", "fence"), ("older", "newer"), ALL, stays(FENCED)),
    (ALL,               "rotated", "older",          ALL,    stays(NOT_MAPPED)),  # An old epoch of the previous producer id.
    (ALL,               "rotated", "newer",          ALL,    stays(FENCED)),
    (ALL,               ALL,    "stranger",          ALL,    stays(NOT_MAPPED)),
]  # fmt: skip
for each in STORED:
    ROWS_V5 += [
        (P.ONGOING,         each, "current", COMMIT, ends(P.PREPARE_COMMIT, each)),
        (P.ONGOING,         each, "current", ABORT,  ends(P.PREPARE_ABORT, each)),
        (SETTLED,           each, "current", ABORT,  ends(P.PREPARE_ABORT, each)),  # Abort without partitions.
        (P.COMPLETE_COMMIT, each, "retry",   COMMIT, answers(each)),
        (P.COMPLETE_ABORT,  each, "retry",   ABORT,  answers(each)),
    ]  # fmt: skip

END_TXN_V5 = Table(
    "EndTxn v5",
    EndTxn,
    (tuple(Phase), tuple(STORED), ASKERS_V5, (COMMIT, ABORT)),
    ROWS_V5,
    ask_v5,
    always_v5,
    impossible_v5,
)
