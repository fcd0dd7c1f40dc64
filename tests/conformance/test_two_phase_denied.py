"""Permission to use two-phase commit: an ACL in Kafka, `stuntbroker.deny.two.phase.commit` in Stuntbroker."""

from __future__ import annotations

from typing import Any, Final

from stuntbroker.protocol.errors import ErrorCode
from tests.conformance.compare import run_case
from tests.conformance.conftest import Pair
from tests.conformance.side import Side

DENIED: Final = ("denied", "secret-", "secret-1")
ALLOWED: Final = ("denied-not", "Denied", "secret", "", None)
WISHES: Final[list[dict[str, Any]]] = [
    {}, {"transaction_timeout_ms": 0}, {"transaction_timeout_ms": 900_001}, {"producer_id": 5_000_099, "producer_epoch": -1},
    {"producer_id": -1, "producer_epoch": 3}, {"producer_id": 5_000_099, "producer_epoch": 3},
]  # fmt: skip


def init(side: Side, transactional_id: str | None, version: int, **wanted: Any) -> Any:
    request = {"transactional_id": transactional_id, "transaction_timeout_ms": 60_000} | wanted
    return side.ask("InitProducerId", version, f"{transactional_id!r} {wanted}", **request)


def two_phase_by_whom(side: Side) -> None:
    for name in (*DENIED, *ALLOWED):
        for wanted in WISHES:
            init(side, name, 5, **wanted)
            init(side, name, 6, **wanted)
            init(side, name, 6, enable_2pc=True, **wanted)
            if name in DENIED:  # Kafka does not implement KeepPreparedTxn, so other ids would differ.
                init(side, name, 6, enable_2pc=True, keep_prepared_txn=True, **wanted)


def test_denied_two_phase_commit_is_refused_before_any_other_check(forgetful_pair: Pair) -> None:
    actual = run_case(two_phase_by_whom, *forgetful_pair, "two-phase")

    assert [str(each) for each in actual] == []


def test_denied_two_phase_commit_returns_transactional_id_authorization_failed(forgetful_pair: Pair) -> None:
    for address in forgetful_pair:
        side = Side(address, "denied")
        try:
            codes = {name: init(side, name, 6, enable_2pc=True).error_code for name in (*DENIED, *ALLOWED)}
        finally:
            side.close()
        refused = {name for name, code in codes.items() if code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
        assert refused == set(DENIED)
