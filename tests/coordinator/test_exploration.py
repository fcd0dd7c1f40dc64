"""Every interleaving of two producers of one id keeps the promises, and broken rules are found.

`pytest -rP tests/coordinator/test_exploration.py` shows how many states there are, and the ways to the seeded faults.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import txn_explorer
from txn_explorer import Budget, Found, Rules, explore

from stuntbroker.coordinator import machine
from stuntbroker.coordinator.requests import (
    AddPartitions,
    Append,
    Context,
    Decision,
    Effect,
    EndTxn,
    InitProducerId,
    MarkersWritten,
    Reply,
    TimeOut,
    WriteMarkers,
)
from stuntbroker.coordinator.state import Phase, Txn
from stuntbroker.protocol.errors import ErrorCode

TV1, TV2 = (1, 1), (2, 2)
ONCE = (1, 1)
TROUBLE = Budget(crashes=1, losses=1, time_outs=1)
SCENES = {
    # name                          TV of the cluster, transactions, first epoch    clients  what may go wrong
    "TV0":                          (Rules(0, ONCE),         TV1,    Budget(1, 1, 0)),
    "TV1":                          (Rules(1, ONCE),         TV1,    TROUBLE),
    "TV2":                          (Rules(2, ONCE),         TV2,    TROUBLE),
    "TV2, clients of TV1":          (Rules(2, ONCE),         TV1,    Budget(1, 0, 1)),
    "TV2, first client of TV1":     (Rules(2, ONCE),         (1, 2), Budget(1, 0, 1)),
    "TV2, second client of TV1":    (Rules(2, ONCE),         (2, 1), Budget(0, 1, 1)),
    "TV1, last epoch":              (Rules(1, ONCE, 32_766), TV1,    Budget(1, 0, 1)),
    "TV2, last epoch":              (Rules(2, ONCE, 32_766), TV2,    Budget(1, 1, 0)),
    "TV1, two transactions":        (Rules(1, (2, 2)),       TV1,    Budget(0, 0, 1)),
    "TV2, two transactions":        (Rules(2, (2, 2)),       TV2,    Budget(0, 0, 1)),
    "TV2, a late copy":             (Rules(2, (2, 2)),       TV2,    Budget(0, 0, 0, copies=1)),
    "TV2, a late copy and trouble": (Rules(2, (2, 1)),       TV2,    Budget(0, 1, 0, copies=1)),
    "TV2, two crashes":             (Rules(2, ONCE),         TV2,    Budget(2, 0, 0)),
}  # fmt: skip


def told(found: Found) -> str:
    counts = f"{found.states} states, {found.steps} steps, {found.depth} deep {found.broken}"
    return "\n    ".join([counts, *found.path])


def tell(text: str) -> None:
    sys.stdout.write(text + "\n")


@pytest.mark.parametrize("scene", SCENES)
def test_every_interleaving_keeps_the_promises(scene: str) -> None:
    """One outcome, kept when it was answered; nothing of the aborted and the fenced; no id stuck; a producer alone."""
    found = explore(*SCENES[scene])
    tell(f"{scene}: {told(found)}")

    assert not found.broken, told(found)
    assert found.states > 1_000 and found.depth > 30


def test_under_tv1_a_late_copy_of_end_txn_ends_the_wrong_transaction() -> None:
    """What KIP-890 was made for; the explorer must see it, as Kafka has it."""
    found = explore(Rules(1, (2, 1)), TV1, Budget(0, 0, 0, copies=1))
    tell(told(found))

    assert found.broken == "('A', 2) is committed, which nobody asked for"


def test_a_fenced_producer_of_tv2_is_let_in_again_by_the_abort_of_a_successor_of_tv1() -> None:
    """As in Kafka: an epoch one behind looks like a retry, if the successor ends transactions without a bump."""
    found = explore(Rules(2, (2, 2)), (2, 1), Budget(0, 0, 0))
    tell(told(found))

    assert found.broken == "two producers go on as (1, 1)"


def test_states_are_counted_and_a_limit_is_kept() -> None:
    with pytest.raises(AssertionError, match="more than 500 states"):
        explore(Rules(2, ONCE), TV2, TROUBLE, states_max=500)


# --- seeded faults

Seed = Callable[[pytest.MonkeyPatch], None]


def rewritten(
    monkeypatch: pytest.MonkeyPatch, kinds: tuple[type, ...], change: Callable[[Txn, Decision], tuple[Effect, ...]]
) -> None:
    """Decisions on these kinds of requests get other effects."""
    for kind in kinds:
        rule = machine.RULES[kind]

        def changed(txn: Txn, request: Any, at: Context, rule: Callable[..., Decision] = rule) -> Decision:
            decision = rule(txn, request, at)
            return decision._replace(effects=change(txn, decision))

        monkeypatch.setitem(machine.RULES, kind, changed)


def a_take_over_that_does_not_abort(monkeypatch: pytest.MonkeyPatch) -> None:
    def rule(txn: Txn, request: InitProducerId, at: Context) -> Decision:
        return machine._new_identity(txn._replace(phase=Phase.EMPTY), request, at)

    monkeypatch.setitem(machine.RULES, InitProducerId, rule)


def a_fenced_producer_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    def rule(txn: Txn, producer_id: int, producer_epoch: int) -> Reply | None:
        return None if producer_id == txn.producer_id else Reply(ErrorCode.INVALID_PRODUCER_ID_MAPPING)

    monkeypatch.setattr(machine, "_owner_error", rule)


def a_reply_before_the_append(monkeypatch: pytest.MonkeyPatch) -> None:
    rewritten(monkeypatch, (EndTxn,), lambda _, decision: decision.effects[-1:] + decision.effects[:-1])


def markers_before_the_append(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(_: Txn, decision: Decision) -> tuple[Effect, ...]:
        effects = decision.effects
        return (effects[1], effects[0], *effects[2:]) if len(effects) == 3 else effects

    def complete_only_what_is_prepared(txn: Txn, request: Any, at: Context) -> Decision:
        return markers_written(txn, request, at) if txn.phase in machine.COMPLETION else Decision(txn, ())

    markers_written = machine.RULES[MarkersWritten]
    monkeypatch.setitem(machine.RULES, MarkersWritten, complete_only_what_is_prepared)
    rewritten(monkeypatch, (EndTxn,), change)


def markers_with_the_old_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(before: Txn, decision: Decision) -> tuple[Effect, ...]:
        old = before.producer_epoch
        return tuple(
            WriteMarkers(one.txn._replace(producer_epoch=old)) if isinstance(one, WriteMarkers) else one
            for one in decision.effects
        )

    rewritten(monkeypatch, (EndTxn, InitProducerId, TimeOut), change)


def an_end_that_is_not_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is right, but a crash forgets it."""

    def change(_: Txn, decision: Decision) -> tuple[Effect, ...]:
        return tuple(one for one in decision.effects if isinstance(one, Reply)) or decision.effects

    rewritten(monkeypatch, (EndTxn,), change)


def an_end_txn_of_any_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = machine.RULES[EndTxn]

    def changed(txn: Txn, request: EndTxn, at: Context) -> Decision:
        return rule(txn, request._replace(producer_epoch=txn.producer_epoch), at)

    monkeypatch.setitem(machine.RULES, EndTxn, changed)


def a_new_instance_that_the_old_one_may_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The epoch that was taken over stays claimable, as if its owner had bumped it."""

    def change(before: Txn, decision: Decision) -> tuple[Effect, ...]:
        return tuple(
            Append(one.txn._replace(last_producer_epoch=before.producer_epoch - 1))
            if isinstance(one, Append) and one.txn.phase is Phase.EMPTY
            else one
            for one in decision.effects
        )

    rewritten(monkeypatch, (InitProducerId,), change)


def a_restart_that_finishes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(txn_explorer, "PREPARED", frozenset())


def partitions_that_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The record has only the partitions added last."""
    rule = machine.RULES[AddPartitions]

    def changed(txn: Txn, request: Any, at: Context) -> Decision:
        return rule(txn._replace(partitions=frozenset()), request, at)

    monkeypatch.setitem(machine.RULES, AddPartitions, changed)


FAULTS: list[tuple[Seed, str, str]] = [
    # fault                                     scene                       what it breaks
    (a_take_over_that_does_not_abort,           "TV1",                      "stays open for ever"),
    (a_take_over_that_does_not_abort,           "TV2",                      "stays open for ever"),
    (a_fenced_producer_accepted,                "TV1",                      "is committed, which nobody asked for"),
    (a_reply_before_the_append,                 "TV1",                      "told to be committed, and open"),
    (a_reply_before_the_append,                 "TV2",                      "told to be committed, and open"),
    (markers_before_the_append,                 "TV2",                      "and open in the other"),
    (markers_with_the_old_epoch,                "TV2",                      "stays open for ever"),
    (an_end_that_is_not_logged,                 "TV2",                      "told to be committed, and open"),
    (an_end_txn_of_any_epoch,                   "TV2, a late copy",         "is committed, which nobody asked for"),
    (a_new_instance_that_the_old_one_may_follow, "TV1, two transactions",   "two producers go on as"),
    (a_restart_that_finishes_nothing,           "TV1",                      "does not get the id"),
    (partitions_that_are_forgotten,             "TV2",                      "stays open for ever"),
]  # fmt: skip


@pytest.mark.parametrize(("seed", "scene", "breaks"), FAULTS, ids=lambda one: getattr(one, "__name__", None))
def test_a_seeded_fault_is_found(seed: Seed, scene: str, breaks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seed(monkeypatch)
    found = explore(*SCENES[scene])
    tell(f"{seed.__name__}: {told(found)}")

    assert breaks in found.broken
