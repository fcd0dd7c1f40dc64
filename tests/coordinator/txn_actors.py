"""An actor in a given phase, and requests for it."""

from __future__ import annotations

from txn_harness import AUDIT, ORDERS, PRODUCER, txn_in

from stuntbroker.coordinator.actor import Actor
from stuntbroker.coordinator.requests import AddPartitions, EndTxn, Verify
from stuntbroker.coordinator.state import Phase

ADD = AddPartitions(PRODUCER, 5, frozenset({ORDERS}), 2)
ADD_AUDIT = AddPartitions(PRODUCER, 5, frozenset({AUDIT}), 2)
COMMIT = EndTxn(PRODUCER, 5, True, 2)
COMMIT_STEPS = ["append PREPARE_COMMIT", "markers commit", "append COMPLETE_COMMIT", "reply NONE"]
VERIFY = Verify(PRODUCER, 5, ORDERS)


def actor_in(phase: Phase) -> Actor:
    return Actor(txn_in(phase), 0)
