"""Random sequences of requests, the same to both brokers: every reply and every batch is compared.

A few fixed seeds; `make conformance` runs as many others as wanted, and makes what differs short.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.conformance.conftest import Pair
from tests.conformance.random_acts import EPILOGUE, THEMES, Act, sequence
from tests.conformance.random_run import run, shorten

STEPS = 60
SEEDS = {
    "transactions": range(1, 13),
    "producers": range(1, 9),
    "groups": range(1, 3),
    "topics": range(1, 7),
    "mixed": range(1, 9),
}


def test_every_theme_has_its_seeds() -> None:
    assert list(SEEDS) == list(THEMES)


@pytest.mark.parametrize("theme", THEMES)
def test_random_sequences_get_the_replies_of_kafka(pair: Pair, theme: str) -> None:
    replies = 0
    for seed in SEEDS[theme]:
        acts = [*sequence(theme, seed, STEPS), *EPILOGUE]
        outcome = run(acts, pair.kafka, pair.ours)
        if outcome.found:
            outcome = run(acts, pair.kafka, pair.ours)  # On a busy machine Kafka may be late once.
        replies += outcome.replies

        again = f'make conformance ARGS="--only {theme} --first-seed {seed} --seeds 1" tells the story'
        assert [str(each) for each in outcome.found] == [], again
    assert replies > len(SEEDS[theme]) * STEPS // 2


@pytest.mark.parametrize("theme", THEMES)
def test_a_sequence_comes_from_its_seed_alone(theme: str) -> None:
    assert sequence(theme, 7, STEPS) == sequence(theme, 7, STEPS) != sequence(theme, 8, STEPS)
    assert sequence(theme, 7, 10) == sequence(theme, 7, STEPS)[:10]


def test_what_differs_is_made_as_short_as_it_can_be() -> None:
    acts = [Act(name, {}) for name in "abcdefghijklmnopqrst"]
    needed = {"c", "k", "s"}

    def differs(some: Sequence[Act]) -> bool:
        return needed <= {act.kind for act in some}

    assert [act.kind for act in shorten(acts, differs)] == ["c", "k", "s"]
