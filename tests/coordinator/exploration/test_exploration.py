"""Model checking: every interleaving of one id's producers keeps the invariants, and every seeded fault is found.

`pytest -rP tests/coordinator/exploration` shows the number of states and the shortest path to each seeded fault.
`make explore` explores larger scenes.
"""

from __future__ import annotations

import sys
from itertools import product

import pytest
from txn_explorer import Exploration, explore
from txn_faults import FAULTS, Seed
from txn_scenes import DEEP, LAST, ONCE, REMEMBERED, SCENES, TROUBLE, TV1, TV2, TWO_PHASE, two
from txn_world import Budget, Log, Rules

from stuntbroker.storage.producers import TXN_OPEN


def described(actual: Exploration) -> str:
    counts = f"{actual.states} states, {actual.steps} steps, {actual.depth} deep {actual.broken}"
    return "\n    ".join([counts, *actual.path])


def tell(text: str) -> None:
    sys.stdout.write(text + "\n")


@pytest.mark.parametrize("scene", SCENES)
def test_every_interleaving_keeps_the_promises(scene: str) -> None:
    """Each transaction has one outcome, an acknowledged outcome stays, and a prepared transaction ends as its producer's
    database decided. Aborted and fenced producers commit nothing, no id gets stuck, and no producer epoch goes back."""
    actual = explore(*SCENES[scene])
    tell(f"{scene}: {described(actual)}")

    assert not actual.broken, described(actual)
    assert actual.states > 1_000 and actual.depth > 30


def test_there_are_scenes_of_both_protocols_under_every_transaction_version_and_deeper_ones() -> None:
    assert {scene[0].transaction_version for scene in SCENES.values()} == {0, 1, 2}
    assert {scene[0].transaction_version for scene in TWO_PHASE.values()} == {0, 1, 2}
    assert {scene[0].transaction_version for scene in REMEMBERED.values()} == {0, 1, 2}
    assert set(SCENES) & set(DEEP) == set()


def test_an_explored_partition_is_open_to_the_same_producers_as_a_real_partition() -> None:
    """The model of a partition and the real `ProducerStates` agree on when Produce can skip the coordinator."""
    deeds = frozenset({("A", 1)})
    for stored, request, is_open, rejects_new_records in product((0, 1), (0, 1, 2), (False, True), (False, True)):
        log = Log(((1, stored),), ((1, deeds),) if is_open else ())
        states = log.producers()
        states.open_txns = {1: 0} if is_open else {}
        if rejects_new_records:
            log = log.seal(1)
            states.reject_new_records(1)

        assert (states.txn_status(1, request) == TXN_OPEN) == log.takes((1, request))


# --- what Kafka's rules let happen: the explorer must see it


def test_under_tv1_a_late_copy_of_end_txn_ends_the_wrong_transaction() -> None:
    """The hanging-transaction bug that KIP-890 fixes. Kafka has it under TV1, so the explorer must find it."""
    actual = explore(Rules(1, (2, 1)), TV1, Budget(0, 0, 0, copies=1))
    tell(described(actual))

    assert actual.broken == "('A', 2) is committed, which nobody asked for"


def test_a_fenced_tv2_producer_is_accepted_after_the_abort_of_a_tv1_successor() -> None:
    """As in Kafka: if the successor ends transactions without an epoch bump, the previous epoch looks like a retry."""
    actual = explore(Rules(2, (2, 2)), two(2, 1), Budget(0, 0, 0))
    tell(described(actual))

    assert actual.broken == "two producers go on as (1, 1)"


def test_a_claim_after_the_last_epoch_may_be_repeated_under_profile_kip_588() -> None:
    """Profile kip-588. In Kafka the first InitProducerId that names the previous producer id removes that id."""
    actual = explore(Rules(2, ONCE, LAST, True), TV2, Budget(0, 1, 1))
    tell(described(actual))

    assert actual.broken == ""


def test_an_exploration_fails_above_its_limit_of_states() -> None:
    with pytest.raises(AssertionError, match="more than 500 states"):
        explore(Rules(2, ONCE), TV2, TROUBLE, states_max=500)


@pytest.mark.parametrize(("seed", "scene", "breaks"), FAULTS, ids=lambda each: getattr(each, "__name__", None))
def test_a_seeded_fault_is_found(seed: Seed, scene: str, breaks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seed(monkeypatch)
    actual = explore(*SCENES[scene])
    tell(f"{seed.__name__}: {described(actual)}")

    assert breaks in actual.broken
