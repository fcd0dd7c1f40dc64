"""Error codes for fenced and timed-out producers, by profile, version of InitProducerId and version of the request."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any, cast

import pytest

from stuntbroker.broker.transactions.coordinator_errors import (
    ABORTABLE_FROM,
    CONCURRENT_FROM,
    PRODUCER_FENCED_FROM,
    coordinator_code,
    leader_code,
)
from stuntbroker.broker.transactions.fences import Identity
from stuntbroker.coordinator.requests import TRANSACTION_TIMED_OUT
from stuntbroker.coordinator.state import new_txn, txn_of
from stuntbroker.protocol.errors import DraftCode, ErrorCode
from tests.kit.cases import check_each

TXN = "payments"
FENCED, INVALID_EPOCH = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH
UNKNOWN_ID = ErrorCode.UNKNOWN_PRODUCER_ID
OTHERS = (
    ErrorCode.NONE,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.INVALID_TXN_STATE,
)

BEFORE_2_5, OF_2_5, LATEST = "before 2.5", "2.5 and 2.6", "latest"
TIERS: dict[str, tuple[int, ...]] = {
    "not known": (-1,),
    BEFORE_2_5: (0, 1, 2),
    OF_2_5: (3,),
    LATEST: (4, 5, 6),
    "forgotten": (-2,),  # The id no longer exists.
}
PROFILES = (False, True)
ERRORS = (FENCED, TRANSACTION_TIMED_OUT, *OTHERS)

TABLE: dict[tuple[int, str, bool, bool], int] = {
    # error                  tier        knows  kip-588
    (TRANSACTION_TIMED_OUT, BEFORE_2_5, False, True): INVALID_EPOCH,
    (TRANSACTION_TIMED_OUT, BEFORE_2_5, True,  True): DraftCode.PRODUCER_FENCED,
    (TRANSACTION_TIMED_OUT, OF_2_5,     False, True): UNKNOWN_ID,
    (TRANSACTION_TIMED_OUT, OF_2_5,     True,  True): UNKNOWN_ID,
    (TRANSACTION_TIMED_OUT, LATEST,     False, True): UNKNOWN_ID,
    (TRANSACTION_TIMED_OUT, LATEST,     True,  True): DraftCode.TRANSACTION_TIMED_OUT,
}  # fmt: skip
for tier in TIERS:
    TABLE[FENCED, tier, False, True] = INVALID_EPOCH
    TABLE[FENCED, tier, True, True] = DraftCode.PRODUCER_FENCED
    # Without the profile, a time-out in a log that was written under the profile has the codes of a fence.
    for error in (FENCED, TRANSACTION_TIMED_OUT):
        TABLE[error, tier, False, False] = INVALID_EPOCH
        TABLE[error, tier, True, False] = FENCED
    for knows, profile in product((False, True), PROFILES):
        for error in OTHERS:
            TABLE[error, tier, knows, profile] = error
for tier in ("not known", "forgotten"):
    TABLE[TRANSACTION_TIMED_OUT, tier, False, True] = INVALID_EPOCH
    TABLE[TRANSACTION_TIMED_OUT, tier, True, True] = DraftCode.PRODUCER_FENCED

CELLS = [
    (f"{code}-init v{init_version}-{remaining}", (init_version, *remaining, code))
    for (error, tier, *flags), code in TABLE.items()
    for init_version in TIERS[tier]
    for remaining in [(error, *flags)]
]


def connection(remembers: bool, init_version: int) -> Any:
    txn = txn_of(**(new_txn(TXN, 1).as_dict() | {"init_version": init_version}))
    actor = None if init_version == -2 else SimpleNamespace(txn=txn)
    fences = SimpleNamespace(record_refusal=lambda *_: None)
    transactions = SimpleNamespace(actor_of=lambda name: actor if name == TXN else None, fences=fences)
    listener = SimpleNamespace(profile="kip-588" if remembers else "kafka")
    return cast(Any, SimpleNamespace(broker=SimpleNamespace(transactions=transactions), listener=listener))


@pytest.mark.parametrize("key", PRODUCER_FENCED_FROM)
def test_code(key: int) -> None:
    def check(init_version: int, error: int, knows: bool, profile: bool, code: int) -> None:
        version = PRODUCER_FENCED_FROM[key] - (not knows)
        assert coordinator_code(connection(profile, init_version), TXN, Identity(1, 0), error, key, version) == code

    check_each(CELLS, check)


LEADERS = [
    # error                             carried from      before that
    (FENCED,                            None,             INVALID_EPOCH),
    (TRANSACTION_TIMED_OUT,             None,             INVALID_EPOCH),
    (ErrorCode.TRANSACTION_ABORTABLE,   ABORTABLE_FROM,   ErrorCode.INVALID_TXN_STATE),
    (ErrorCode.CONCURRENT_TRANSACTIONS, CONCURRENT_FROM,  ErrorCode.NOT_ENOUGH_REPLICAS),
    (ErrorCode.INVALID_TXN_STATE,       {0: 0, 28: 0},    None),
    (ErrorCode.INVALID_PRODUCER_ID_MAPPING, {0: 0, 28: 0}, None),
]  # fmt: skip
"""First version of Produce (0) and TxnOffsetCommit (28) that can return the error, or None; older ones get the last column."""


@pytest.mark.parametrize(("error", "carried_from", "before"), LEADERS)
@pytest.mark.parametrize(("key", "versions"), [(0, range(3, 14)), (28, range(6))])
def test_code_of_a_leader(
    error: int, carried_from: dict[int, int] | None, before: int | None, key: int, versions: range
) -> None:
    actual = [leader_code(error, key, version) for version in versions]
    assert actual == [
        error if carried_from is not None and version >= carried_from[key] else before for version in versions
    ]


def test_no_cell_of_the_table_is_missing() -> None:
    assert set(TABLE) == set(product(ERRORS, TIERS, (False, True), PROFILES))


def test_the_draft_error_codes_are_those_of_kip_588() -> None:
    """KIP-588 proposed 90 and 91. Kafka has since assigned 90 to PRODUCER_FENCED."""
    assert (DraftCode.TRANSACTION_TIMED_OUT, DraftCode.PRODUCER_FENCED, FENCED) == (90, 91, 90)
