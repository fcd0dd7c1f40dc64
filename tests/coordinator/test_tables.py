"""The decision tables of the coordinator: one test a cell, and none missing."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from table_by_itself import MARKERS_WRITTEN, NOT_ONGOING, TIME_OUT
from table_end_txn import END_TXN_V4, END_TXN_V5
from table_init_producer_id import ASKED_TIMEOUT_MS, INIT_PRODUCER_ID
from table_partitions import ADD_PARTITIONS, VERIFY
from txn_harness import ENDING, PRODUCER, SPARE, context, play, replies, txn_in
from txn_tables import Cell, Outcome, Table

from stuntbroker.coordinator.machine import RULES, decide
from stuntbroker.coordinator.requests import InitProducerId, MarkersWritten, Reply, Request
from stuntbroker.coordinator.state import Phase
from stuntbroker.protocol.errors import ErrorCode

TABLES = (INIT_PRODUCER_ID, ADD_PARTITIONS, VERIFY, END_TXN_V4, END_TXN_V5, TIME_OUT, MARKERS_WRITTEN)


def cell_name(table: Table, cell: Cell) -> str:
    return "-".join([table.name, *(one.name if isinstance(one, Phase) else str(one) for one in cell)])


CELLS = [
    pytest.param(table, cell, outcome, id=cell_name(table, cell))
    for table in TABLES
    for cell, outcome in table.expanded()
]


@pytest.mark.parametrize(("table", "cell", "outcome"), CELLS)
def test_cell(table: Table, cell: Cell, outcome: Outcome) -> None:
    before, request, at = table.ask(*cell)

    assert isinstance(request, table.kind)
    assert decide(before, request, at) == outcome.decision(before, table.always(*cell))


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_no_cell_is_missing_and_none_is_there_twice(table: Table) -> None:
    stated = {cell for cell, _ in table.expanded()}

    assert table.all_cells() - stated == set()
    assert stated - table.all_cells() == set()
    assert table.twice() == []


def test_every_kind_of_request_has_a_table_over_every_phase() -> None:
    over = {(table.kind, cell[0]) for table in TABLES for cell in table.all_cells()}
    asserted = {(MarkersWritten, phase) for phase in Phase if phase not in ENDING}

    assert set(RULES) == set(get_args(Request))
    assert over | asserted == {(kind, phase) for kind in RULES for phase in Phase}


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase not in ENDING])
def test_markers_of_a_transaction_that_is_not_prepared_are_our_own_mistake(phase: Phase) -> None:
    with pytest.raises(KeyError):
        decide(txn_in(phase), MarkersWritten(), context())


def test_an_ongoing_transaction_is_the_only_one_that_times_out() -> None:
    assert {*NOT_ONGOING, Phase.ONGOING} == set(Phase)


# What InitProducerId on an open transaction comes to once the transaction is aborted: (TV, who) -> answer.
FENCED = Reply(ErrorCode.PRODUCER_FENCED)
TAKE_OVERS = [
    # TV  epoch    asked               answer                             last epoch
    (0,   5,       (-1, -1),           Reply(ErrorCode.NONE, PRODUCER, 7), -1),
    (1,   5,       (-1, -1),           Reply(ErrorCode.NONE, PRODUCER, 7), -1),
    (2,   5,       (-1, -1),           Reply(ErrorCode.NONE, PRODUCER, 7), -1),
    (0,   5,       (PRODUCER, 5),      FENCED,                             -1),  # It fenced itself.
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


@pytest.mark.parametrize(("version", "epoch", "asked", "answer", "last"), TAKE_OVERS)
def test_take_over_of_an_open_transaction_aborts_it_and_is_answered_by_the_rules_for_the_aborted_one(
    version: int, epoch: int, asked: tuple[int, int], answer: Reply, last: int
) -> None:
    """KIP-98, KIP-360; under TV2 the owner keeps its claim (KIP-890)."""
    before = txn_in(Phase.ONGOING, epoch)
    after, effects = play(before, InitProducerId(ASKED_TIMEOUT_MS, *asked), context(version))
    kinds = [type(effect).__name__ for effect in effects]
    ending: list[Any] = ["Append", "Reply"] if answer.error == ErrorCode.NONE else ["Reply"]

    assert replies(effects) == [answer]
    assert kinds == ["Append", "WriteMarkers", "Append", "Again", *ending]
    assert after.last_producer_epoch == last
    assert after.phase is (Phase.EMPTY if answer.error == ErrorCode.NONE else Phase.COMPLETE_ABORT)
