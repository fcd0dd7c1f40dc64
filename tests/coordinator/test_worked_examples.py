"""KIP-939's two worked examples, row by row: one epoch overflow in an ordinary transaction, two in a recovered one.

The KIP writes -1 for a previous producer id that equals the current one, where Kafka's log has the current id. It writes
epoch 0 with the next producer id of an ordinary overflow, where Kafka's log has no epoch. In the second example, the row
with MAX-1 crashes has MAX as the stored epoch but MAX-1 in the response and in the commit: MAX-1 must be stored.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from txn_harness import ID, ORDERS, context

from stuntbroker.coordinator.machine import decide
from stuntbroker.coordinator.requests import (
    OK,
    AddPartitions,
    Append,
    Context,
    EndTxn,
    InitProducerId,
    MarkersWritten,
    Reply,
    Request,
    WriteMarkers,
)
from stuntbroker.coordinator.state import Phase, Txn, new_txn
from stuntbroker.protocol.transaction_states import TIMEOUT_NONE

MAX = 32_767
E = Phase.EMPTY
NO_PAIR = (-1, -1)
CRASHES = MAX - 3


class Row(NamedTuple):
    request: Request | None
    """None: the transition to Complete once the markers are written."""
    phase: Phase
    producer: tuple[int, int]
    previous_id: int
    following: tuple[int, int]
    answer: Reply | None
    times: int = 1


INIT = InitProducerId(60_000)
KEEP = InitProducerId(TIMEOUT_NONE, keep_prepared=True)
COMMIT = True
ADD = AddPartitions(42, MAX - 1, frozenset({ORDERS}), 2)

VANILLA = [
    Row(INIT, Phase.EMPTY, (42, MAX - 1), -1, NO_PAIR, Reply(OK, 42, MAX - 1)),
    Row(ADD, Phase.ONGOING, (42, MAX - 1), -1, NO_PAIR, Reply(OK)),
    Row(EndTxn(42, MAX - 1, COMMIT, 2), Phase.PREPARE_COMMIT, (42, MAX), -1, (85, 0), Reply(OK, 85, 0)),
    Row(None, Phase.COMPLETE_COMMIT, (85, 0), 42, NO_PAIR, None),
]
TWO_PHASE = [
    Row(InitProducerId(TIMEOUT_NONE), Phase.EMPTY, (42, MAX - 1), -1, NO_PAIR, Reply(OK, 42, MAX - 1)),
    Row(ADD, Phase.ONGOING, (42, MAX - 1), -1, NO_PAIR, Reply(OK)),
    Row(KEEP, Phase.ONGOING, (42, MAX - 1), -1, (73, 0), Reply(OK, 73, 0, 42, MAX - 1)),
    Row(KEEP, Phase.ONGOING, (42, MAX - 1), -1, (73, 1), Reply(OK, 73, 1, 42, MAX - 1)),
    Row(KEEP, Phase.ONGOING, (42, MAX - 1), -1, (73, MAX - 2), Reply(OK, 73, MAX - 2, 42, MAX - 1), CRASHES),
    Row(KEEP, Phase.ONGOING, (42, MAX - 1), -1, (73, MAX - 1), Reply(OK, 73, MAX - 1, 42, MAX - 1)),
    Row(EndTxn(73, MAX - 1, COMMIT, 2), Phase.PREPARE_COMMIT, (42, MAX), 73, (85, 0), Reply(OK, 85, 0)),
    Row(None, Phase.COMPLETE_COMMIT, (85, 0), 73, NO_PAIR, None),
]


def seen(txn: Txn) -> tuple[Phase, tuple[int, int], int, tuple[int, int]]:
    """The state in the notation of the KIP's rows."""
    previous_id = -1 if txn.previous_producer_id == txn.producer_id else txn.previous_producer_id
    next_epoch = 0 if txn.next_producer_id != -1 and not txn.is_recovered else txn.next_producer_epoch
    return txn.phase, (txn.producer_id, txn.producer_epoch), previous_id, (txn.next_producer_id, next_epoch)


def spares_of(rows: list[Row]) -> list[int]:
    """Producer ids in the order in which the example allocates them."""
    return list(dict.fromkeys(row.following[0] for row in rows if row.following[0] >= 0))


@pytest.mark.parametrize("rows", [VANILLA, TWO_PHASE], ids=["vanilla overflow", "two-phase commit with two overflows"])
def test_every_row_of_the_worked_example_is_what_happens(rows: list[Row]) -> None:
    txn = new_txn(ID, 42)
    spares = spares_of(rows)
    marked: list[Txn] = []
    for row in rows:
        for _ in range(row.times):
            at: Context = context(spare=spares[0] if spares else 99)._replace(initial_epoch=MAX - 1)
            decision = decide(txn, row.request or MarkersWritten(), at)
            if decision.allocated_producer_id:
                spares.pop(0)
            txn = decision.txn
        marked += [effect.txn for effect in decision.effects if isinstance(effect, WriteMarkers)]
        replies = [effect for effect in decision.effects if isinstance(effect, Reply)]

        assert seen(txn) == row[1:5]
        assert replies == ([] if row.answer is None else [row.answer])
        assert isinstance(decision.effects[0], Append)

    # Markers carry the producer id and epoch of the transaction, not those of the client that ended it.
    assert [(txn.producer_id, txn.producer_epoch) for txn in marked] == [(42, MAX)]
    assert spares == []
