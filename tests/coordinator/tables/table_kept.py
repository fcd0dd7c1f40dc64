"""A transaction recovered with KeepPreparedTxn (KIP-939), and requests of its current, earlier and unrelated producers.

Requests carry the client's producer id and epoch; records and markers carry those of the transaction. In the Prepare
states, the client's producer id and epoch are already those of the next transaction.
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
    THIRD,
    context,
    txn_in,
    with_fields,
)
from txn_tables import (
    ALL,
    CONCURRENT,
    FENCED,
    INVALID_STATE,
    NO_PAIR,
    NOT_MAPPED,
    NOTHING,
    OK,
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
KEPT_PHASES = (P.ONGOING, *ENDING)


class Kept(NamedTuple):
    txn: Pair
    """Producer id and epoch of the records; in the Prepare states, of the markers."""
    client: Pair
    last: int
    """Epoch of the producer that may retry the request that set `client`; -1 if no retry is possible."""
    previous_id: int
    follows: Pair
    """Producer id and epoch after those of the client."""
    who: dict[str, Pair]
    """Producers that send requests, by name; NO_PAIR if this state has no such producer."""
    client_version: int = 2
    phases: tuple[Phase, ...] = (P.ONGOING,)

    def created(self, phase: Phase, **changes: Any) -> Txn:
        txn = txn_in(phase, self.txn[1], self.last, previous_producer_id=self.previous_id)
        return with_fields(
            txn,
            next_producer_id=self.client[0],
            next_producer_epoch=self.client[1],
            timeout_ms=TIMEOUT_NONE,
            client_version=self.client_version,
            **changes,
        )


def who(transaction: Pair, retry: Pair, older: Pair, mixed: Pair, newer: Pair, known: Pair) -> dict[str, Pair]:
    """`mixed`: the epoch of the retry with another producer id of the transaction; `known`: an old epoch of such an id."""
    return {
        "transaction": transaction, "retry": retry, "older": older, "mixed": mixed, "newer": newer, "known": known,
        "stranger": (STRANGER, newer[1] - 1),
    }  # fmt: skip


LAST, FENCE = 32_766, 32_767
KEPT = {
    # --- open: the producer of the last KeepPreparedTxn may end it
    "same id": Kept((PRODUCER, 5), (PRODUCER, 6), 5, PRODUCER, (PRODUCER, 7), who(
        (PRODUCER, 5), (PRODUCER, 5), (PRODUCER, 4), NO_PAIR, (PRODUCER, 7), NO_PAIR)),
    "same id, unnamed": Kept((PRODUCER, 5), (PRODUCER, 6), -1, PRODUCER, (PRODUCER, 7), who(
        (PRODUCER, 5), NO_PAIR, (PRODUCER, 4), NO_PAIR, (PRODUCER, 7), NO_PAIR)),
    "kept again": Kept((PRODUCER, 5), (PRODUCER, 9), 8, PRODUCER, (PRODUCER, 10), who(
        (PRODUCER, 5), (PRODUCER, 8), (PRODUCER, 7), NO_PAIR, (PRODUCER, 10), NO_PAIR)),
    "client at the last": Kept((PRODUCER, 5), (PRODUCER, LAST), LAST - 1, PRODUCER, (SPARE, 0), who(
        (PRODUCER, 5), (PRODUCER, LAST - 1), (PRODUCER, 6), NO_PAIR, (PRODUCER, FENCE), NO_PAIR)),
    "other id": Kept((PRODUCER, LAST), (NEXT, 0), LAST, PRODUCER, (NEXT, 1), who(
        (PRODUCER, LAST), (PRODUCER, LAST), (PRODUCER, 5), (NEXT, LAST), (NEXT, 1), NO_PAIR)),
    "other id, kept again": Kept((PRODUCER, LAST), (NEXT, 6), 5, PRODUCER, (NEXT, 7), who(
        (PRODUCER, LAST), (NEXT, 5), (NEXT, 4), (PRODUCER, 5), (NEXT, 7), (PRODUCER, 6))),
    "other id at the last": Kept((PRODUCER, LAST), (NEXT, LAST), LAST - 1, PRODUCER, (SPARE, 0), who(
        (PRODUCER, LAST), (NEXT, LAST - 1), (NEXT, 0), (PRODUCER, LAST - 1), (NEXT, FENCE), (PRODUCER, 6))),
    "third id": Kept((PRODUCER, LAST), (THIRD, 0), LAST, NEXT, (THIRD, 1), who(
        (PRODUCER, LAST), (NEXT, LAST), (NEXT, 5), (THIRD, LAST), (THIRD, 1), (PRODUCER, 6))),
    # --- ending: `retry` is the producer of the EndTxn
    "ending, same id": Kept((PRODUCER, 6), (PRODUCER, 7), 6, PRODUCER, (PRODUCER, 8), who(
        (PRODUCER, 5), (PRODUCER, 6), (PRODUCER, 4), NO_PAIR, (PRODUCER, 8), NO_PAIR), phases=ENDING),
    "ending, other id": Kept((PRODUCER, FENCE), (NEXT, 1), 0, NEXT, (NEXT, 2), who(
        (PRODUCER, LAST), (NEXT, 0), (PRODUCER, 5), (PRODUCER, 0), (NEXT, 2), (PRODUCER, FENCE)), phases=ENDING),
    "ending, third id": Kept((PRODUCER, FENCE), (THIRD, 0), LAST, NEXT, (THIRD, 1), who(
        (PRODUCER, LAST), (NEXT, LAST), (NEXT, 5), (THIRD, LAST), (THIRD, 1), (PRODUCER, FENCE)), phases=ENDING),
    "ending, client at the last": Kept((PRODUCER, 6), (PRODUCER, LAST), LAST - 1, PRODUCER, (SPARE, 0), who(
        (PRODUCER, 5), (PRODUCER, LAST - 1), (PRODUCER, 7), NO_PAIR, (PRODUCER, FENCE), NO_PAIR), phases=ENDING),
    # EndTxn v0-4 bumps no epoch, and after a time-out under TV0 and TV1 no producer may retry.
    "ending, not bumped": Kept((PRODUCER, 5), (PRODUCER, 6), -1, PRODUCER, (PRODUCER, 7), who(
        (PRODUCER, 5), NO_PAIR, (PRODUCER, 4), NO_PAIR, (PRODUCER, 7), NO_PAIR), 0, ENDING),
}  # fmt: skip
WHO = ("client", "retry", "transaction", "older", "mixed", "newer", "known", "stranger")
OUTSIDERS = ("transaction", "older", "newer", "known")
OPEN = tuple(name for name, each in KEPT.items() if each.phases == (P.ONGOING,))
CLOSING = tuple(name for name, each in KEPT.items() if each.phases == ENDING)
NAMED = tuple(name for name in OPEN if KEPT[name].last != -1)
MIXED = tuple(name for name in OPEN if KEPT[name].who["mixed"] != NO_PAIR)


def asks(stored: str, asker: str) -> Pair:
    kept = KEPT[stored]
    return kept.client if asker == "client" else NO_PAIR if asker == "anyone" else kept.who[asker]


def impossible(phase: Phase, stored: str, asker: str, *remaining: Any) -> bool:
    if phase not in KEPT[stored].phases:
        return True
    if asker in ("anyone", "client"):
        return False
    # "transaction" and "retry" may be the same producer.
    same = asker == "transaction" and asks(stored, asker) == asks(stored, "retry")
    return same or asks(stored, asker) == NO_PAIR or asks(stored, asker)[1] > FENCE


def spare_of(stored: str) -> bool:
    return KEPT[stored].follows[0] == SPARE


# --- InitProducerId


def ask_init(phase: Phase, stored: str, asker: str, version: int, keep: bool) -> RequestInState:
    before = KEPT[stored].created(phase)
    return before, InitProducerId(ASKED_TIMEOUT_MS, *asks(stored, asker), keep_prepared=keep), context(version)


def always_init(phase: Phase, stored: str, asker: str, version: int, keep: bool) -> dict[str, Any]:
    if keep:  # KeepPreparedTxn does not add a time-out to a transaction without time-out.
        return {"updated_at_ms": NOW}
    return {"updated_at_ms": NOW, "client_version": 2 if version == 2 else 0}


def keeps(stored: str, last: int) -> Outcome:
    kept = KEPT[stored]
    spare = spare_of(stored)
    return becomes(
        "append seal reply",
        P.ONGOING,
        kept.follows,
        kept.txn,
        allocated_producer_id=spare,
        next_producer_id=kept.follows[0],
        next_producer_epoch=kept.follows[1],
        last_producer_epoch=last,
        previous_producer_id=kept.client[0] if spare else PRODUCER,
    )


def fences(stored: str, effects: str, version: int, **changes: Any) -> Outcome:
    """Abort by a take-over or a time-out, which fences the client. Under TV2 the client may claim the next epoch."""
    kept = KEPT[stored]
    return becomes(
        effects,
        P.PREPARE_ABORT,
        allocated_producer_id=spare_of(stored),
        producer_epoch=kept.txn[1] + 1,
        next_producer_id=kept.follows[0],
        next_producer_epoch=kept.follows[1],
        previous_producer_id=kept.client[0],
        last_producer_epoch=kept.client[1] if version == 2 else -1,
        **changes,
    )


INIT_ROWS: list[tuple[Any, ...]] = [
    # phase     stored   asker                                    TV   keep
    (P.ONGOING, OPEN,    (*OUTSIDERS, "stranger"),                ALL, ALL,   stays(FENCED)),
    (P.ONGOING, OPEN,    "retry",                                 ALL, False, stays(FENCED)),  # Only with KeepPreparedTxn.
    (P.ONGOING, MIXED,   "mixed",                                 ALL, False, stays(FENCED)),
    (ENDING,    CLOSING, ("anyone", "client"),                    ALL, ALL,   stays(CONCURRENT)),
    (ENDING,    CLOSING, "retry",                                 ALL, ALL,   stays(CONCURRENT)),
    (ENDING,    CLOSING, (*OUTSIDERS, "stranger"),                ALL, ALL,   stays(FENCED)),
    (ENDING,    CLOSING, "mixed",                                 ALL, False, stays(FENCED)),
]  # fmt: skip
for each in KEPT:
    # A retry is recognised by producer id and epoch together: the same epoch with another producer id is fenced.
    INIT_ROWS.append((KEPT[each].phases, each, "mixed", ALL, True, stays(FENCED)))
for each in OPEN:
    INIT_ROWS += [
        (P.ONGOING, each, "anyone", ALL,    True,  keeps(each, -1)),
        (P.ONGOING, each, "client", ALL,    True,  keeps(each, KEPT[each].client[1])),
        (P.ONGOING, each, "retry",  ALL,    True,  stays(OK, *KEPT[each].client, KEPT[each].txn)),
        (P.ONGOING, each, ("anyone", "client"), (0, 1), False, fences(each, "append markers again", 1)),
        (P.ONGOING, each, ("anyone", "client"), 2, False, fences(each, "append markers again", 2)),
    ]  # fmt: skip

INIT_KEPT = Table(
    "InitProducerId, kept",
    InitProducerId,
    (KEPT_PHASES, tuple(KEPT), ("anyone", *WHO), (0, 1, 2), (False, True)),
    INIT_ROWS,
    ask_init,
    always_init,
    impossible,
)

# --- AddPartitions and Verify

PARTITIONS = {"known": frozenset({ORDERS}), "new": frozenset({AUDIT})}


def refusals(*remaining: Any) -> list[tuple[Any, ...]]:
    """Rows that refuse every producer id and epoch other than the client's."""
    everybody = ("retry", "mixed", *OUTSIDERS)
    return [
        (KEPT_PHASES, ALL, everybody, *remaining, stays(FENCED)),
        (KEPT_PHASES, ALL, "stranger", *remaining, stays(NOT_MAPPED)),
    ]


def ask_add(phase: Phase, stored: str, asker: str, which: str, version: int) -> RequestInState:
    return KEPT[stored].created(phase), AddPartitions(*asks(stored, asker), PARTITIONS[which], version), context()


ADD_KEPT = Table(
    "AddPartitions, kept", AddPartitions, (KEPT_PHASES, tuple(KEPT), WHO, tuple(PARTITIONS), (0, 2)),
    [
        (P.ONGOING, OPEN,    "client", ALL, ALL, stays(INVALID_STATE)),
        (ENDING,    CLOSING, "client", ALL, ALL, stays(CONCURRENT)),
        *refusals(ALL, ALL),
    ],
    ask_add, lambda *cell: {}, impossible,
)  # fmt: skip


def ask_verify(phase: Phase, stored: str, asker: str, which: str) -> RequestInState:
    (partition,) = PARTITIONS[which]
    return KEPT[stored].created(phase), Verify(*asks(stored, asker), partition), context()


VERIFY_KEPT = Table(
    "Verify, kept", Verify, (KEPT_PHASES, tuple(KEPT), WHO, tuple(PARTITIONS)),
    [
        (P.ONGOING, OPEN,    "client", ALL, stays(INVALID_STATE)),
        (ENDING,    CLOSING, "client", ALL, stays(CONCURRENT)),
        *refusals(ALL),
    ],
    ask_verify, lambda *cell: {}, impossible,
)  # fmt: skip

# --- EndTxn


def ask_end(phase: Phase, stored: str, asker: str, commit: bool, version: int) -> RequestInState:
    return KEPT[stored].created(phase), EndTxn(*asks(stored, asker), commit, version), context()


def ends(stored: str, phase: Phase, version: int) -> Outcome:
    kept = KEPT[stored]
    if version == 0:
        return becomes("append markers reply", phase, NO_PAIR, client_version=0, previous_producer_id=kept.client[0])
    return becomes(
        "append markers reply",
        phase,
        kept.follows,
        allocated_producer_id=spare_of(stored),
        client_version=2,
        producer_epoch=kept.txn[1] + 1,
        next_producer_id=kept.follows[0],
        next_producer_epoch=kept.follows[1],
        previous_producer_id=kept.client[0],
        last_producer_epoch=kept.client[1],
    )


END_ROWS: list[tuple[Any, ...]] = [
    # phase            stored   asker               outcome version
    (P.ONGOING,        OPEN,    ("retry", "mixed", *OUTSIDERS), ALL, ALL, stays(FENCED)),
    (P.ONGOING,        OPEN,    "stranger",         ALL,    ALL, stays(NOT_MAPPED)),
    (ENDING,           CLOSING, ("mixed", *OUTSIDERS), ALL, ALL, stays(FENCED)),
    (ENDING,           CLOSING, "stranger",         ALL,    ALL, stays(NOT_MAPPED)),
    # Version 5: no response has returned the client's new epoch yet; a retry has the previous one.
    (ENDING,           CLOSING, "client",           ALL,    2,   stays(FENCED)),
    (P.PREPARE_COMMIT, CLOSING, "retry",            COMMIT, 2,   stays(CONCURRENT)),
    (P.PREPARE_COMMIT, CLOSING, "retry",            ABORT,  2,   stays(INVALID_STATE)),
    (P.PREPARE_ABORT,  CLOSING, "retry",            ABORT,  2,   stays(CONCURRENT)),
    (P.PREPARE_ABORT,  CLOSING, "retry",            COMMIT, 2,   stays(INVALID_STATE)),
    # Versions 0-4: producer id and epoch are the same before and after the end.
    (P.PREPARE_COMMIT, CLOSING, "client",           COMMIT, 0,   stays(CONCURRENT)),
    (P.PREPARE_COMMIT, CLOSING, "client",           ABORT,  0,   stays(INVALID_STATE)),
    (P.PREPARE_ABORT,  CLOSING, "client",           ABORT,  0,   stays(CONCURRENT)),
    (P.PREPARE_ABORT,  CLOSING, "client",           COMMIT, 0,   stays(INVALID_STATE)),
    (ENDING,           CLOSING, "retry",            ALL,    0,   stays(FENCED)),
]  # fmt: skip
for each in OPEN:
    for version in (0, 2):
        END_ROWS += [
            (P.ONGOING, each, "client", COMMIT, version, ends(each, P.PREPARE_COMMIT, version)),
            (P.ONGOING, each, "client", ABORT, version, ends(each, P.PREPARE_ABORT, version)),
        ]

END_KEPT = Table(
    "EndTxn, kept",
    EndTxn,
    (KEPT_PHASES, tuple(KEPT), WHO, (COMMIT, ABORT), (0, 2)),
    END_ROWS,
    ask_end,
    lambda *cell: {"updated_at_ms": NOW},
    impossible,
)

# --- requests that no client sends

MOMENTS = {"deadline": STARTED + ASKED_TIMEOUT_MS, "after": STARTED + ASKED_TIMEOUT_MS + 1, "years after": 10**15}
PAST = ("after", "years after")


def ask_time_out(
    phase: Phase, stored: str, moment: str, version: int, limited: bool, remembers: bool
) -> RequestInState:
    before = KEPT[stored].created(phase)
    if limited:  # The transaction was opened with a time-out.
        before = with_fields(before, timeout_ms=ASKED_TIMEOUT_MS)
    before = with_fields(before, init_version=6 if remembers else -1)
    return before, TimeOut(), context(version, MOMENTS[moment])


def always_time_out(phase: Phase, stored: str, moment: str, version: int, *remaining: bool) -> dict[str, Any]:
    return {"updated_at_ms": MOMENTS[moment], "client_version": 2 if version == 2 else 0}


TIME_OUT_ROWS: list[tuple[Any, ...]] = [
    # phase     stored   moment      TV   limited KIP-588
    (ENDING,    CLOSING, ALL,        ALL, ALL,    ALL,   NOTHING),
    (P.ONGOING, OPEN,    ALL,        ALL, False,  ALL,   NOTHING),
    (P.ONGOING, OPEN,    "deadline", ALL, True,   ALL,   NOTHING),
]  # fmt: skip
for each in OPEN:
    messages = {"timed_out_epoch": KEPT[each].client[1]}
    TIME_OUT_ROWS += [
        (P.ONGOING, each, PAST, (0, 1), True, False, fences(each, "append markers", 1)),
        (P.ONGOING, each, PAST, 2,      True, False, fences(each, "append markers", 2)),
        (P.ONGOING, each, PAST, ALL,    True, True,  fences(each, "append markers", 2, **messages)),
    ]  # fmt: skip

TIME_OUT_KEPT = Table(
    "TimeOut, kept",
    TimeOut,
    (KEPT_PHASES, tuple(KEPT), tuple(MOMENTS), (0, 1, 2), (True, False), (False, True)),
    TIME_OUT_ROWS,
    ask_time_out,
    always_time_out,
    lambda phase, stored, *remaining: phase not in KEPT[stored].phases,
)


def completes(stored: str, phase: Phase) -> Outcome:
    return becomes("append", phase, producer_id=KEPT[stored].client[0], producer_epoch=KEPT[stored].client[1])


MARKERS_KEPT = Table(
    "MarkersWritten, kept", MarkersWritten, (ENDING, CLOSING),
    [
        row
        for stored in CLOSING
        for row in (
            (P.PREPARE_COMMIT, stored, completes(stored, P.COMPLETE_COMMIT)),
            (P.PREPARE_ABORT, stored, completes(stored, P.COMPLETE_ABORT)),
        )
    ],
    lambda phase, stored: (KEPT[stored].created(phase), MarkersWritten(), context()),
    lambda *cell: {
        "updated_at_ms": NOW, "partitions": frozenset(), "next_producer_id": -1, "next_producer_epoch": -1,
    },
)  # fmt: skip

TABLES = (INIT_KEPT, ADD_KEPT, VERIFY_KEPT, END_KEPT, TIME_OUT_KEPT, MARKERS_KEPT)
