"""AddPartitions and Verify: phase x producer x partition x version of the request (KIP-98, KIP-890)."""

from __future__ import annotations

from typing import Any

from txn_harness import AUDIT, ENDING, NOW, ORDERS, PRODUCER, SETTLED, STARTED, STRANGER, context, txn_in
from txn_tables import ABORTABLE, ALL, CONCURRENT, FENCED, NOT_MAPPED, OK, RequestInState, Table, becomes, stays

from stuntbroker.coordinator.requests import AddPartitions, Verify
from stuntbroker.coordinator.state import Phase

P = Phase
OWNERS = {
    "owner": (PRODUCER, 5),
    "older": (PRODUCER, 4),  # The previous epoch, which InitProducerId still accepts.
    "newer": (PRODUCER, 6),
    "stranger": (STRANGER, 5),
    "strange old": (STRANGER, 4),  # The producer id is checked before the epoch.
}
PARTITIONS = {"known": frozenset({ORDERS}), "new": frozenset({AUDIT}), "both": frozenset({ORDERS, AUDIT})}


def ask_add(phase: Phase, asker: str, which: str, version: int) -> RequestInState:
    before = txn_in(phase, client_version=2 - version)
    return before, AddPartitions(*OWNERS[asker], PARTITIONS[which], version), context()


def always_add(phase: Phase, asker: str, which: str, version: int) -> dict[str, Any]:
    joined = phase is P.ONGOING
    return {
        "partitions": PARTITIONS[which] | (PARTITIONS["known"] if joined else frozenset()),
        "started_at_ms": STARTED if joined else NOW,
        "updated_at_ms": NOW,
        "client_version": version,
    }


ONGOING = becomes("append reply", P.ONGOING, (-1, -1))
ADD_ROWS = [
    # phase     asker                       partitions       request version
    (SETTLED,   "owner",                    ALL,             ALL,   ONGOING),
    (P.ONGOING, "owner",                    ("new", "both"), ALL,   ONGOING),
    (P.ONGOING, "owner",                    "known",         ALL,   stays(OK)),
    (ENDING,    "owner",                    ALL,             ALL,   stays(CONCURRENT)),
    (ALL,       ("older", "newer"),         ALL,             ALL,   stays(FENCED)),
    (ALL,       ("stranger", "strange old"), ALL,            ALL,   stays(NOT_MAPPED)),
]  # fmt: skip

ADD_PARTITIONS = Table(
    "AddPartitions",
    AddPartitions,
    (tuple(Phase), tuple(OWNERS), tuple(PARTITIONS), (0, 2)),
    ADD_ROWS,
    ask_add,
    always_add,
)


def ask_verify(phase: Phase, asker: str, which: str) -> RequestInState:
    (partition,) = PARTITIONS[which]
    return txn_in(phase), Verify(*OWNERS[asker], partition), context()


VERIFY_ROWS = [
    # phase     asker                       partition
    (P.ONGOING, "owner",                    "known", stays(OK)),
    (P.ONGOING, "owner",                    "new",   stays(ABORTABLE)),
    (SETTLED,   "owner",                    ALL,     stays(ABORTABLE)),
    (ENDING,    "owner",                    ALL,     stays(CONCURRENT)),
    (ALL,       ("older", "newer"),         ALL,     stays(FENCED)),
    (ALL,       ("stranger", "strange old"), ALL,    stays(NOT_MAPPED)),
]  # fmt: skip

VERIFY = Table(
    "Verify", Verify, (tuple(Phase), tuple(OWNERS), ("known", "new")), VERIFY_ROWS, ask_verify, lambda *cell: {}
)
