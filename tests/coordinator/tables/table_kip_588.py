"""Profile kip-588: decisions after a transaction timed out, until its producer claims the next epoch.

The state remembers the time-out from the Prepare record until the next transition of the id. The InitProducerId version
that the producer used changes no decision: only the translation of the reply to an error code uses it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from txn_harness import (
    AUDIT,
    ENDING,
    NEXT,
    NOW,
    ORDERS,
    PRODUCER,
    SPARE,
    STARTED,
    STRANGER,
    TIMEOUT_MS,
    context,
    txn_in,
    with_fields,
)
from txn_tables import (
    ABORTABLE,
    ALL,
    CONCURRENT,
    FENCED,
    INVALID_STATE,
    NO_PAIR,
    NOT_MAPPED,
    NOTHING,
    OK,
    SERVER_ERROR,
    TIMED_OUT,
    Outcome,
    RequestInState,
    Table,
    becomes,
    stays,
)

from stuntbroker.coordinator.requests import AddPartitions, EndTxn, InitProducerId, MarkersWritten, TimeOut, Verify
from stuntbroker.coordinator.state import Phase, Txn
from stuntbroker.protocol.transaction_states import TIMEOUT_NONE

P = Phase
Pair = tuple[int, int]
COMMIT, ABORT = True, False
ASKED_TIMEOUT_MS = 45_000
LAST, FENCE = 32_766, 32_767
REMEMBERED = (P.PREPARE_ABORT, P.COMPLETE_ABORT)
INIT_VERSIONS = (2, 3, 4)
"""InitProducerId versions of clients before 2.5, of 2.5 and 2.6, and of later ones."""


class TimedOut(NamedTuple):
    phase: Phase
    stored: Pair
    slow: Pair
    """The producer whose transaction timed out."""
    before: Pair
    """The producer that had the id before `slow`."""
    changes: dict[str, Any]

    def created(self, init_version: int = 4) -> Txn:
        producer_id, epoch = self.stored
        return with_fields(
            txn_in(self.phase, epoch, self.slow[1], producer_id=producer_id),
            partitions=frozenset({ORDERS}) if self.phase in ENDING else frozenset(),
            timed_out_epoch=self.slow[1],
            init_version=init_version,
            **self.changes,
        )


KEPT_SAME = {"next_producer_id": PRODUCER, "next_producer_epoch": 7}
KEPT_OTHER = {"next_producer_id": NEXT, "next_producer_epoch": 1, "previous_producer_id": NEXT}
CAME: dict[str, TimedOut] = {
    "ending":           TimedOut(P.PREPARE_ABORT, (PRODUCER, 6), (PRODUCER, 5), (PRODUCER, 4), {}),
    "ending, TV1 last": TimedOut(P.PREPARE_ABORT, (PRODUCER, FENCE), (PRODUCER, LAST), (PRODUCER, 4), {}),
    "ending, TV2 last": TimedOut(
        P.PREPARE_ABORT, (PRODUCER, FENCE), (PRODUCER, LAST), (PRODUCER, 4), {"next_producer_id": NEXT}),
    "ending, kept":     TimedOut(P.PREPARE_ABORT, (PRODUCER, 6), (PRODUCER, 6), (PRODUCER, 4), KEPT_SAME),
    "ending, kept, other id": TimedOut(P.PREPARE_ABORT, (PRODUCER, FENCE), (NEXT, 0), (PRODUCER, 4), KEPT_OTHER),
    "over":             TimedOut(P.COMPLETE_ABORT, (PRODUCER, 6), (PRODUCER, 5), (PRODUCER, 4), {}),
    "over, TV1 last":   TimedOut(P.COMPLETE_ABORT, (PRODUCER, FENCE), (PRODUCER, LAST), (PRODUCER, 4), {}),
    "over, TV2 last":   TimedOut(
        P.COMPLETE_ABORT, (NEXT, 0), (PRODUCER, LAST), (PRODUCER, 4), {"previous_producer_id": PRODUCER}),
    "over, kept":       TimedOut(P.COMPLETE_ABORT, (PRODUCER, 7), (PRODUCER, 6), (PRODUCER, 5), {}),
    "over, kept, other id": TimedOut(
        P.COMPLETE_ABORT, (NEXT, 1), (NEXT, 0), (PRODUCER, 4), {"previous_producer_id": NEXT}),
}  # fmt: skip
WHO = ("owner", "slow", "before", "stranger")
ENDED = ("ending", "ending, TV1 last", "ending, TV2 last")
KEPT = ("ending, kept", "ending, kept, other id")
OVER = tuple(name for name, each in CAME.items() if each.phase is P.COMPLETE_ABORT)
ROTATED = ("over, TV2 last", "over, kept, other id")
SAME_ID = tuple(name for name in OVER if name not in ROTATED)


def asks(came: str, asker: str) -> Pair:
    each = CAME[came]
    if asker == "owner":
        return each.created().client_pair
    return {"anyone": NO_PAIR, "slow": each.slow, "before": each.before, "stranger": (STRANGER, each.slow[1])}[asker]


def impossible(phase: Phase, came: str, asker: str, *remaining: Any) -> bool:
    return CAME[came].phase is not phase


def at(version: int = 2) -> Any:
    return context(version)


# --- InitProducerId


def ask_init(phase: Phase, came: str, asker: str, init_version: int, keep: bool) -> RequestInState:
    request = InitProducerId(ASKED_TIMEOUT_MS, *asks(came, asker), keep_prepared=keep, version=6 if keep else 4)
    return CAME[came].created(init_version), request, at()


def always_init(phase: Phase, came: str, asker: str, init_version: int, keep: bool) -> dict[str, Any]:
    return {
        "timeout_ms": ASKED_TIMEOUT_MS, "started_at_ms": -1, "updated_at_ms": NOW, "timed_out_epoch": -1,
        "init_version": 6 if keep else 4, "previous_producer_id": CAME[came].stored[0],
    }  # fmt: skip


def owner(pair: Pair, last: int, **changes: Any) -> Outcome:
    return becomes(
        "append reply", P.EMPTY, pair, producer_id=pair[0], producer_epoch=pair[1], last_producer_epoch=last, **changes
    )


INIT_ROWS: list[tuple[Any, ...]] = [
    # phase           came   asker                 init version, keep
    (P.PREPARE_ABORT, ENDED, ("anyone", "owner", "slow", "before"), ALL, ALL, stays(CONCURRENT)),
    (P.PREPARE_ABORT, KEPT, ("anyone", "owner"),   ALL, ALL,   stays(CONCURRENT)),
    (P.PREPARE_ABORT, KEPT, "slow",                ALL, False, stays(CONCURRENT)),
    (P.PREPARE_ABORT, KEPT, "slow",                ALL, True,  stays(CONCURRENT)),
    (P.PREPARE_ABORT, KEPT, "before",              ALL, ALL,   stays(FENCED)),
    (REMEMBERED, ALL, "stranger",                  ALL, ALL,   stays(FENCED)),
    (P.COMPLETE_ABORT, ("over", "over, kept", *ROTATED), "before", ALL, ALL, stays(FENCED)),
    (P.COMPLETE_ABORT, "over, TV1 last", "before", ALL, ALL,   stays(SERVER_ERROR)),
    # The slow producer claims the epoch that its time-out created.
    (P.COMPLETE_ABORT, "over", "slow",             ALL, ALL,   owner((PRODUCER, 6), 5)),
    (P.COMPLETE_ABORT, "over, TV1 last", "slow",   ALL, ALL,   owner((SPARE, 0), LAST, allocated_producer_id=True)),
    # The slow producer may retry that: the state remembers its previous producer id.
    (P.COMPLETE_ABORT, "over, TV2 last", "slow",   ALL, ALL,   owner((NEXT, 0), LAST, previous_producer_id=PRODUCER)),
    (P.COMPLETE_ABORT, "over, kept", "slow",       ALL, ALL,   owner((PRODUCER, 7), 6)),
    (P.COMPLETE_ABORT, "over, kept, other id", "slow", ALL, ALL, owner((NEXT, 1), 0)),
    (P.COMPLETE_ABORT, "over", "owner",            ALL, ALL,   owner((PRODUCER, 7), 6)),
    (P.COMPLETE_ABORT, "over, TV1 last", "owner",  ALL, ALL,   owner((SPARE, 0), FENCE, allocated_producer_id=True)),
    (P.COMPLETE_ABORT, "over, TV2 last", "owner",  ALL, ALL,   owner((NEXT, 1), 0)),
    (P.COMPLETE_ABORT, "over, kept", "owner",      ALL, ALL,   owner((PRODUCER, 8), 7)),
    (P.COMPLETE_ABORT, "over, kept, other id", "owner", ALL, ALL, owner((NEXT, 2), 1)),
    # A new instance fences the slow producer.
    (P.COMPLETE_ABORT, "over", "anyone",           ALL, ALL,   owner((PRODUCER, 7), -1)),
    (P.COMPLETE_ABORT, "over, TV1 last", "anyone", ALL, ALL,   owner((SPARE, 0), -1, allocated_producer_id=True)),
    (P.COMPLETE_ABORT, "over, TV2 last", "anyone", ALL, ALL,   owner((NEXT, 1), -1)),
    (P.COMPLETE_ABORT, "over, kept", "anyone",     ALL, ALL,   owner((PRODUCER, 8), -1)),
    (P.COMPLETE_ABORT, "over, kept, other id", "anyone", ALL, ALL, owner((NEXT, 2), -1)),
]  # fmt: skip
INIT_588 = Table(
    "InitProducerId, KIP-588",
    InitProducerId,
    (REMEMBERED, tuple(CAME), ("anyone", *WHO), INIT_VERSIONS, (False, True)),
    INIT_ROWS,
    ask_init,
    always_init,
    impossible,
)

# --- AddPartitions, Verify, EndTxn


def described(*remaining: Any) -> list[tuple[Any, ...]]:
    """Rows for every producer other than the owner of the stored producer id and epoch."""
    return [
        (REMEMBERED, (*ENDED, *OVER), "slow", *remaining, stays(TIMED_OUT)),
        (P.PREPARE_ABORT, KEPT, "slow", *remaining, stays(TIMED_OUT)),
        (REMEMBERED, (*ENDED, *KEPT, *SAME_ID), "before", *remaining, stays(FENCED)),
        (P.COMPLETE_ABORT, ROTATED, "before", *remaining, stays(NOT_MAPPED)),
        (REMEMBERED, ALL, "stranger", *remaining, stays(NOT_MAPPED)),
    ]


def ask_add(phase: Phase, came: str, asker: str, init_version: int, version: int) -> RequestInState:
    return CAME[came].created(init_version), AddPartitions(*asks(came, asker), frozenset({AUDIT}), version), at()


def always_add(phase: Phase, came: str, asker: str, init_version: int, version: int) -> dict[str, Any]:
    return {
        "partitions": frozenset({AUDIT}), "started_at_ms": NOW, "updated_at_ms": NOW, "client_version": version,
        "timed_out_epoch": -1, "previous_producer_id": CAME[came].stored[0],
    }  # fmt: skip


ADD_588 = Table(
    "AddPartitions, KIP-588", AddPartitions, (REMEMBERED, tuple(CAME), WHO, INIT_VERSIONS, (0, 2)),
    [
        (P.PREPARE_ABORT,  (*ENDED, *KEPT), "owner", ALL, ALL, stays(CONCURRENT)),
        (P.COMPLETE_ABORT, OVER, "owner", ALL, ALL, becomes("append reply", P.ONGOING, NO_PAIR)),
        *described(ALL, ALL),
    ],
    ask_add, always_add, impossible,
)  # fmt: skip

VERIFY_588 = Table(
    "Verify, KIP-588", Verify, (REMEMBERED, tuple(CAME), WHO, INIT_VERSIONS),
    [
        (P.PREPARE_ABORT,  (*ENDED, *KEPT), "owner", ALL, stays(CONCURRENT)),
        (P.COMPLETE_ABORT, OVER, "owner", ALL, stays(ABORTABLE)),
        *described(ALL),
    ],
    lambda phase, came, asker, init_version: (
        CAME[came].created(init_version), Verify(*asks(came, asker), ORDERS), at()
    ),
    lambda *cell: {}, impossible,
)  # fmt: skip


def ask_end(phase: Phase, came: str, asker: str, init_version: int, commit: bool, version: int) -> RequestInState:
    return CAME[came].created(init_version), EndTxn(*asks(came, asker), commit, version), at()


def empty_abort(came: str) -> Outcome:
    producer_id, epoch = CAME[came].stored
    changes: dict[str, Any] = {"producer_epoch": min(epoch + 1, FENCE), "last_producer_epoch": epoch}
    pair = producer_id, epoch + 1
    if epoch == FENCE:  # The time-out used the last epoch: the end has no epoch left to bump.
        pair = SPARE, 0
        changes |= {"next_producer_id": SPARE, "allocated_producer_id": True, "last_producer_epoch": LAST}
    return becomes(
        "append markers reply",
        P.PREPARE_ABORT,
        pair,
        started_at_ms=NOW,
        updated_at_ms=NOW,
        client_version=2,
        timed_out_epoch=-1,
        previous_producer_id=producer_id,
        **changes,
    )


OVER_OWNER = [
    row
    for came in OVER
    for row in (
        (P.COMPLETE_ABORT, came, "owner", ALL, COMMIT, ALL, stays(INVALID_STATE)),
        (P.COMPLETE_ABORT, came, "owner", ALL, ABORT, 0, stays(OK)),
        (P.COMPLETE_ABORT, came, "owner", ALL, ABORT, 2, empty_abort(came)),
    )
]
END_588 = Table(
    "EndTxn, KIP-588", EndTxn, (REMEMBERED, tuple(CAME), WHO, INIT_VERSIONS, (COMMIT, ABORT), (0, 2)),
    [
        (P.PREPARE_ABORT,  (*ENDED, *KEPT), "owner", ALL, COMMIT, 0,   stays(INVALID_STATE)),
        (P.PREPARE_ABORT,  (*ENDED, *KEPT), "owner", ALL, ABORT,  0,   stays(CONCURRENT)),
        (P.PREPARE_ABORT,  (*ENDED, *KEPT), "owner", ALL, ALL,    2,   stays(FENCED)),
        *OVER_OWNER,
        *described(ALL, ALL, ALL),
    ],
    ask_end, lambda *cell: {}, impossible,
)  # fmt: skip

# --- requests that no client sends

MARKERS_588 = Table(
    "MarkersWritten, KIP-588", MarkersWritten, ((P.PREPARE_ABORT,), (*ENDED, *KEPT), INIT_VERSIONS),
    [
        (P.PREPARE_ABORT, "ending", ALL, becomes("append", P.COMPLETE_ABORT)),
        (P.PREPARE_ABORT, "ending, TV1 last", ALL, becomes("append", P.COMPLETE_ABORT)),
        (P.PREPARE_ABORT, "ending, TV2 last", ALL, becomes("append", P.COMPLETE_ABORT, producer_id=NEXT, producer_epoch=0)),
        (P.PREPARE_ABORT, "ending, kept", ALL, becomes("append", P.COMPLETE_ABORT, producer_epoch=7)),
        (P.PREPARE_ABORT, "ending, kept, other id", ALL,
         becomes("append", P.COMPLETE_ABORT, producer_id=NEXT, producer_epoch=1)),
    ],
    lambda phase, came, init_version: (CAME[came].created(init_version), MarkersWritten(), at()),
    lambda *cell: {
        "updated_at_ms": NOW, "partitions": frozenset(), "next_producer_id": -1, "next_producer_epoch": -1,
    },
)  # fmt: skip

AGAIN_588 = Table(
    "TimeOut of what timed out, KIP-588",
    TimeOut,
    (REMEMBERED, tuple(CAME)),
    [(REMEMBERED, ALL, NOTHING)],
    lambda phase, came: (CAME[came].created(), TimeOut(), at()._replace(now_ms=10**15)),
    lambda *cell: {},
    lambda phase, came: CAME[came].phase is not phase,
)

EPOCHS = {"plain": (PRODUCER, 5), "last": (PRODUCER, LAST)}
AFTER = STARTED + TIMEOUT_MS + 1


def ask_time_out(phase: Phase, stored: str, version: int, limited: bool, init_version: int) -> RequestInState:
    before = txn_in(phase, EPOCHS[stored][1], init_version=init_version, client_version=2 - version)
    if not limited:
        before = with_fields(before, timeout_ms=TIMEOUT_NONE)
    return before, TimeOut(), at(version)._replace(now_ms=AFTER)


def remembers(version: int, stored: str) -> Outcome:
    epoch = EPOCHS[stored][1]
    spared: dict[str, Any] = (
        {"next_producer_id": SPARE, "allocated_producer_id": True} if version == 2 and epoch == LAST else {}
    )
    return becomes(
        "append markers",
        P.PREPARE_ABORT,
        producer_epoch=epoch + 1,
        last_producer_epoch=epoch,
        timed_out_epoch=epoch,
        client_version=2 if version == 2 else 0,
        updated_at_ms=AFTER,
        **spared,
    )


NOT_ONGOING = tuple(phase for phase in Phase if phase is not P.ONGOING)
TIME_OUT_588 = Table(
    "TimeOut, KIP-588", TimeOut, (tuple(Phase), tuple(EPOCHS), (0, 1, 2), (True, False), INIT_VERSIONS),
    [
        (NOT_ONGOING, ALL, ALL, ALL,   ALL, NOTHING),
        (P.ONGOING,   ALL, ALL, False, ALL, NOTHING),
        *[(P.ONGOING, each, version, True, ALL, remembers(version, each)) for each in EPOCHS for version in (0, 1, 2)],
    ],
    ask_time_out, lambda *cell: {},
)  # fmt: skip

TABLES = (INIT_588, ADD_588, VERIFY_588, END_588, MARKERS_588, AGAIN_588, TIME_OUT_588)
