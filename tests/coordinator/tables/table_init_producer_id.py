"""InitProducerId: phase x stored state x producer x cluster's transaction version x KeepPreparedTxn (KIP-98, 360, 890, 939)."""

from __future__ import annotations

from typing import Any

from txn_harness import ENDING, NEXT, NOW, PRODUCER, SETTLED, SPARE, STRANGER, context, txn_in
from txn_tables import ALL, CONCURRENT, FENCED, SERVER_ERROR, RequestInState, Table, becomes, stays

from stuntbroker.coordinator.requests import InitProducerId
from stuntbroker.coordinator.state import Phase
from stuntbroker.protocol.transaction_states import EPOCH_LAST

P = Phase
ASKED_TIMEOUT_MS = 45_000

STORED = {
    "new":       {"epoch": -1, "last": -1},  # The log has no record of the id yet.
    "bumped":    {"epoch": 5, "last": 4},  # The owner bumped the epoch, and may retry that.
    "taken":     {"epoch": 5, "last": -1},  # A new instance, without producer id, bumped the epoch.
    "last":      {"epoch": 32_766, "last": 32_765},
    "fence":     {"epoch": 32_767, "last": -1},  # Left by a time-out in the last epoch (TV 0 and 1).
    "rotated":   {"epoch": 0, "last": 32_766, "producer_id": NEXT},  # The producer id before is PRODUCER.
}  # fmt: skip

ASKERS = ("anyone", "current", "one before", "older", "newer", "stranger")


def names(stored: str, asker: str) -> tuple[int, int]:
    """Producer id and epoch that the request carries."""
    epoch = STORED[stored]["epoch"]
    if stored == "new":
        epoch = 5  # The producer's epoch before the id expired.
    rotated = stored == "rotated"
    owner = NEXT if rotated else PRODUCER
    return {
        "anyone": (-1, -1),
        "current": (owner, epoch),
        "one before": (PRODUCER, EPOCH_LAST if rotated else epoch - 1),
        "older": (PRODUCER, 5 if rotated else epoch - 3),
        "newer": (owner, epoch + 1),
        "stranger": (STRANGER, epoch),
    }[asker]


def ask(phase: Phase, stored: str, asker: str, version: int, keep: bool) -> RequestInState:
    before = txn_in(phase, **STORED[stored])
    return before, InitProducerId(ASKED_TIMEOUT_MS, *names(stored, asker), keep_prepared=keep), context(version)


def always(phase: Phase, stored: str, asker: str, version: int, keep: bool) -> dict[str, Any]:
    before = txn_in(phase, **STORED[stored])
    if phase is P.ONGOING and keep:
        return {"timeout_ms": ASKED_TIMEOUT_MS, "updated_at_ms": NOW, "previous_producer_id": before.producer_id}
    if phase is P.ONGOING:
        return {
            "updated_at_ms": NOW,
            "client_version": 2 if version == 2 else 0,
            "previous_producer_id": before.producer_id,
        }
    return {
        "timeout_ms": ASKED_TIMEOUT_MS, "partitions": frozenset(), "started_at_ms": -1, "updated_at_ms": NOW,
        "previous_producer_id": before.producer_id,
    }  # fmt: skip


def impossible(phase: Phase, stored: str, asker: str, version: int, keep: bool) -> bool:
    return (stored == "new" and phase is not P.EMPTY) or (stored == "fence" and asker == "newer")  # 32,768


def owner(producer_id: int, epoch: int, last: int, **changes: Any) -> Any:
    return becomes(
        "append reply",
        P.EMPTY,
        (producer_id, epoch),
        producer_id=producer_id,
        producer_epoch=epoch,
        last_producer_epoch=last,
        **changes,
    )


def fences(epoch: int, last: int, **changes: Any) -> Any:
    """Abort the open transaction, then decide the same request again."""
    return becomes("append markers again", P.PREPARE_ABORT, producer_epoch=epoch, last_producer_epoch=last, **changes)


def keeps(stored: str, following: tuple[int, int], last: int, **changes: Any) -> Any:
    """The open transaction stays open, and the client gets a new producer id and epoch to end it with (KIP-939)."""
    ongoing = NEXT if stored == "rotated" else PRODUCER, STORED[stored]["epoch"]
    return becomes(
        "append seal reply",
        P.ONGOING,
        following,
        ongoing,
        next_producer_id=following[0],
        next_producer_epoch=following[1],
        last_producer_epoch=last,
        **changes,
    )


SPARED: dict[str, Any] = {"allocated_producer_id": True}
ROTATES: dict[str, Any] = {"allocated_producer_id": True, "next_producer_id": SPARE}
OLD = ("older", "newer")
OWNERS = ("anyone", "current", "one before", *OLD)

ROWS = [
    # phase    stored                        asker                       TV      keep
    (P.EMPTY,  "new",                        ALL,                        ALL, ALL, owner(PRODUCER, 0, -1)),

    (SETTLED,  ("bumped", "taken"),          "anyone",                   ALL, ALL, owner(PRODUCER, 6, -1)),
    (SETTLED,  ("bumped", "taken"),          "current",                  ALL, ALL, owner(PRODUCER, 6, 5)),
    (SETTLED,  "bumped",                     "one before",               ALL, ALL, owner(PRODUCER, 5, 4)),  # A retry.
    (SETTLED,  "taken",                      "one before",               ALL, ALL, stays(FENCED)),
    (SETTLED,  ("bumped", "taken"),          OLD,                        ALL, ALL, stays(FENCED)),

    (SETTLED,  ("last", "fence"),            "anyone",                   ALL, ALL, owner(SPARE, 0, -1, **SPARED)),
    (SETTLED,  "last",                       "current",                  ALL, ALL, owner(SPARE, 0, 32_766, **SPARED)),
    (SETTLED,  "fence",                      "current",                  ALL, ALL, owner(SPARE, 0, 32_767, **SPARED)),
    (SETTLED,  ("last", "fence"),            ("one before", *OLD),       ALL, ALL, stays(SERVER_ERROR)),

    (SETTLED,  "rotated",                    "anyone",                   ALL, ALL, owner(NEXT, 1, -1)),
    (SETTLED,  "rotated",                    "current",                  ALL, ALL, owner(NEXT, 1, 0)),
    (SETTLED,  "rotated",                    "one before",               ALL, ALL, owner(NEXT, 0, 32_766)),  # A retry.
    (SETTLED,  "rotated",                    OLD,                        ALL, ALL, stays(FENCED)),
    (SETTLED,  ("bumped", "taken", "last", "fence", "rotated"), "stranger", ALL, ALL, stays(FENCED)),

    # The owner aborts the open transaction, whichever epoch it names.
    (P.ONGOING, ("bumped", "taken"),         OWNERS,                     (0, 1), False, fences(6, -1)),
    (P.ONGOING, ("bumped", "taken"),         OWNERS,                     2, False, fences(6, 5)),
    (P.ONGOING, "last",                      OWNERS,                     (0, 1), False, fences(32_767, -1)),
    (P.ONGOING, "last",                      OWNERS,                     2, False, fences(32_767, 32_766, **ROTATES)),
    (P.ONGOING, "fence",                     OWNERS,                     (0, 1), False, fences(32_767, -1)),
    (P.ONGOING, "fence",                     OWNERS,                     2, False, fences(32_767, 32_767, **ROTATES)),
    (P.ONGOING, "rotated",                   ("anyone", "current", "one before", "newer"), (0, 1), False, fences(1, -1)),
    (P.ONGOING, "rotated",                   ("anyone", "current", "one before", "newer"), 2, False, fences(1, 0)),
    (P.ONGOING, "rotated",                   "older",                    ALL, False, stays(FENCED)),
    (P.ONGOING, ALL,                         "stranger",                 ALL, False, stays(FENCED)),

    # KeepPreparedTxn recovers the transaction for a new instance or its owner, under every transaction version.
    (P.ONGOING, ALL,                         ("one before", *OLD),       ALL, True, stays(FENCED)),
    (P.ONGOING, "bumped",                    "anyone",                   ALL, True, keeps("bumped", (PRODUCER, 6), -1)),
    (P.ONGOING, "bumped",                    "current",                  ALL, True, keeps("bumped", (PRODUCER, 6), 5)),
    (P.ONGOING, "taken",                     "anyone",                   ALL, True, keeps("taken", (PRODUCER, 6), -1)),
    (P.ONGOING, "taken",                     "current",                  ALL, True, keeps("taken", (PRODUCER, 6), 5)),
    (P.ONGOING, "last",                      "anyone",                   ALL, True, keeps("last", (SPARE, 0), -1, **SPARED)),
    (P.ONGOING, "last",                      "current",                  ALL, True, keeps("last", (SPARE, 0), 32_766, **SPARED)),
    (P.ONGOING, "fence",                     "anyone",                   ALL, True, keeps("fence", (SPARE, 0), -1, **SPARED)),
    (P.ONGOING, "fence",                     "current",                  ALL, True, keeps("fence", (SPARE, 0), 32_767, **SPARED)),
    (P.ONGOING, "rotated",                   "anyone",                   ALL, True, keeps("rotated", (NEXT, 1), -1)),
    (P.ONGOING, "rotated",                   "current",                  ALL, True, keeps("rotated", (NEXT, 1), 0)),
    (P.ONGOING, ALL,                         "stranger",                 ALL, True, stays(FENCED)),

    (ENDING,   ("bumped", "taken", "last", "fence"), OWNERS,             ALL, ALL, stays(CONCURRENT)),
    (ENDING,   "rotated",                    ("anyone", "current", "one before", "newer"), ALL, ALL, stays(CONCURRENT)),
    (ENDING,   "rotated",                    "older",                    ALL, ALL, stays(FENCED)),
    (ENDING,   ALL,                          "stranger",                 ALL, ALL, stays(FENCED)),
]  # fmt: skip

INIT_PRODUCER_ID = Table(
    "InitProducerId",
    InitProducerId,
    (tuple(Phase), tuple(STORED), ASKERS, (0, 1, 2), (False, True)),
    ROWS,
    ask,
    always,
    impossible,
)
