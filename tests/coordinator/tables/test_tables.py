"""The decision tables of the coordinator: the rules decide every cell as the table says, and no cell is missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, get_args

import pytest
import table_kept
import table_kip_588
from all_tables import TABLES
from table_by_itself import NOT_ONGOING
from table_init_producer_id import ASKED_TIMEOUT_MS
from txn_harness import ENDING, PRODUCER, SPARE, context, play, replies, txn_in, with_fields
from txn_tables import Cell, Outcome, Table

from stuntbroker.coordinator.machine import RULES, decide
from stuntbroker.coordinator.requests import AddPartitions, EndTxn, InitProducerId, MarkersWritten, Reply, Request
from stuntbroker.coordinator.state import COMPLETED, Phase, Txn
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.transaction_states import EPOCH_LAST, TIMEOUT_NONE
from tests.kit.cases import check_each


def cell_name(table: Table, cell: Cell) -> str:
    return "-".join([table.name, *(each.name if isinstance(each, Phase) else str(each) for each in cell)])


def check_cell(table: Table, cell: Cell, outcome: Outcome) -> None:
    before, request, at = table.ask(*cell)

    assert isinstance(request, table.kind)
    assert decide(before, request, at) == outcome.decision(before, table.always(*cell))


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_cell_has_the_decision_of_the_rules(table: Table) -> None:
    check_each([(cell_name(table, cell), (table, cell, outcome)) for cell, outcome in table.expanded()], check_cell)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_no_cell_is_missing_or_duplicated(table: Table) -> None:
    stated = {cell for cell, _ in table.expanded()}

    assert table.all_cells() - stated == set()
    assert stated - table.all_cells() == set()
    assert table.twice() == []


class RequestKind(NamedTuple):
    """Properties of a cell that the tables must contain in every possible combination."""

    kind: type
    phase: Phase
    kept: bool
    timed_out: bool
    """The state remembers a time-out (profile kip-588)."""
    keep: bool | None
    client_version: int | None


def kept_class(txn: Txn) -> tuple[int, bool]:
    """(number of further producer ids that the client has used in this transaction, whether its epochs are used up)."""
    ids = {txn.producer_id, txn.previous_producer_id, txn.next_producer_id}
    return (0 if txn.next_producer_id == txn.producer_id else len(ids) - 1), txn.next_producer_epoch >= EPOCH_LAST


def request_of(table: Table) -> Iterator[tuple[RequestKind, Txn]]:
    for cell in table.all_cells():
        txn, request, _ = table.ask(*cell)
        keep, version = getattr(request, "keep_prepared", None), getattr(request, "client_version", None)
        yield RequestKind(table.kind, txn.phase, txn.is_recovered, txn.timed_out_epoch != -1, keep, version), txn


def kinds_of_all_requests() -> set[RequestKind]:
    keeps = {InitProducerId: (False, True)}
    versions = {AddPartitions: (0, 2), EndTxn: (0, 2)}
    return {
        RequestKind(kind, phase, kept, timed_out, keep, version)
        for kind in RULES
        for phase in Phase
        for kept in (False, True)[: 1 + (phase in table_kept.KEPT_PHASES)]
        for timed_out in (False, True)[: 1 + (phase in table_kip_588.REMEMBERED)]
        for keep in keeps.get(kind, (None,))
        for version in versions.get(kind, (None,))
        if kind is not MarkersWritten or phase in ENDING
    }


def test_every_request_has_cells_in_every_state_recovered_or_not_and_timed_out_or_not() -> None:
    assert set(RULES) == set(get_args(Request))
    assert {each for table in TABLES for each, _ in request_of(table)} == kinds_of_all_requests()


@pytest.mark.parametrize("kind", RULES, ids=lambda kind: kind.__name__)
def test_every_request_has_cells_for_every_client_pair_of_a_recovered_transaction(kind: type) -> None:
    """KIP-939: the client has the transaction's producer id, a second or a third one, or is at the last epoch."""
    actual: dict[Phase, set[tuple[int, bool]]] = {}
    for item, txn in (each for table in TABLES if table.kind is kind for each in request_of(table)):
        if item.kept:
            actual.setdefault(item.phase, set()).add(kept_class(txn))
    phases = ENDING if kind is MarkersWritten else table_kept.KEPT_PHASES

    assert {phase for phase in phases if not actual[phase] >= {(0, False), (0, True), (1, False), (2, False)}} == set()


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase not in ENDING])
def test_markers_written_for_an_unprepared_transaction_raise_a_key_error(phase: Phase) -> None:
    with pytest.raises(KeyError):
        decide(txn_in(phase), MarkersWritten(), context())


def test_only_an_ongoing_transaction_times_out() -> None:
    assert {*NOT_ONGOING, Phase.ONGOING} == set(Phase)


# Replies to InitProducerId on an open transaction, after that transaction is aborted.
FENCED = Reply(ErrorCode.PRODUCER_FENCED)
TAKE_OVERS = [
    # TV  epoch    asked               answer                             last epoch
    (0,   5,       (-1, -1),           Reply(ErrorCode.NONE, PRODUCER, 7), -1),
    (1,   5,       (-1, -1),           Reply(ErrorCode.NONE, PRODUCER, 7), -1),
    (2,   5,       (-1, -1),           Reply(ErrorCode.NONE, PRODUCER, 7), -1),
    (0,   5,       (PRODUCER, 5),      FENCED,                             -1),  # The abort fenced this producer itself.
    (1,   5,       (PRODUCER, 5),      FENCED,                             -1),
    (2,   5,       (PRODUCER, 5),      Reply(ErrorCode.NONE, PRODUCER, 6), 5),
    (1,   5,       (PRODUCER, 4),      FENCED,                             -1),
    (2,   5,       (PRODUCER, 4),      FENCED,                             5),
    (1,   32_765,  (-1, -1),           Reply(ErrorCode.NONE, SPARE, 0),    -1),
    (2,   32_765,  (-1, -1),           Reply(ErrorCode.NONE, SPARE, 0),    -1),
    (1,   32_766,  (-1, -1),           Reply(ErrorCode.NONE, SPARE, 0),    -1),
    (2,   32_766,  (-1, -1),           Reply(ErrorCode.NONE, SPARE, 1),    -1),
    (1,   32_766,  (PRODUCER, 32_766), Reply(ErrorCode.UNKNOWN_SERVER_ERROR), -1),
    (2,   32_766,  (PRODUCER, 32_766), Reply(ErrorCode.NONE, SPARE, 0),    32_766),
]  # fmt: skip


@pytest.mark.parametrize(("version", "epoch", "pair", "answer", "last"), TAKE_OVERS)
def test_a_take_over_aborts_the_open_transaction_and_is_decided_on_the_aborted_state(
    version: int, epoch: int, pair: tuple[int, int], answer: Reply, last: int
) -> None:
    """KIP-98, KIP-360. Under TV2 the owner can still claim the next epoch (KIP-890)."""
    before = txn_in(Phase.ONGOING, epoch)
    after, effects = play(before, InitProducerId(ASKED_TIMEOUT_MS, *pair), context(version))
    kinds = [type(effect).__name__ for effect in effects]
    ending: list[Any] = ["Append", "Reply"] if answer.error == ErrorCode.NONE else ["Reply"]

    assert replies(effects) == [answer]
    assert kinds == ["Append", "WriteMarkers", "Append", "Redecide", *ending]
    assert after.last_producer_epoch == last
    assert after.phase is (Phase.EMPTY if answer.error == ErrorCode.NONE else Phase.COMPLETE_ABORT)


# --- the time-out of a transaction after its recovery

NONE_OR_SOME = [
    # opened with    kept with      has
    (TIMEOUT_NONE,   TIMEOUT_NONE,  TIMEOUT_NONE),
    (TIMEOUT_NONE,   45_000,        TIMEOUT_NONE),
    (60_000,         45_000,        45_000),
    (60_000,         TIMEOUT_NONE,  TIMEOUT_NONE),
]  # fmt: skip


@pytest.mark.parametrize(("opened", "kept", "has"), NONE_OR_SOME)
def test_a_recovery_adds_no_time_out_to_a_transaction_opened_without_time_out(opened: int, kept: int, has: int) -> None:
    """KIP-939: Enable2Pc and KeepPreparedTxn do not depend on each other."""
    before = txn_in(Phase.ONGOING, timeout_ms=opened)

    assert decide(before, InitProducerId(kept, keep_prepared=True), context()).txn.timeout_ms == has


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", [0, 2])
def test_the_init_producer_id_version_of_a_producer_persists_through_its_transactions(
    version: int, commit: bool
) -> None:
    """Profile kip-588: the error after a time-out in a later transaction depends on this version."""
    txn = with_fields(txn_in(Phase.ONGOING), init_version=6)

    prepared = decide(txn, EndTxn(PRODUCER, txn.producer_epoch, commit, version), context()).txn
    completed = decide(prepared, MarkersWritten(), context()).txn
    added = AddPartitions(PRODUCER, completed.producer_epoch, frozenset({("orders", 7)}), version)
    restarted = decide(completed, added, context()).txn

    assert [each.init_version for each in (prepared, completed, restarted)] == [6, 6, 6]
    assert (completed.phase in COMPLETED, restarted.phase) == (True, Phase.ONGOING)
