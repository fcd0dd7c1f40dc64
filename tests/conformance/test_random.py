"""Run the same random sequences of requests on both brokers, and compare every reply and every batch.

These tests use a few fixed seeds; `make conformance` runs any number of others, and shortens sequences that differ.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.conformance.conftest import Pair
from tests.conformance.sequences.random_acts import ACTS_BETWEEN_WAITS, EPILOGUE, THEMES, WAITS, Act, sequence
from tests.conformance.sequences.random_run import Outcome, played, run, shorten

STEPS = 60
STEPS_BY_THEME = {"expiry": 3 * ACTS_BETWEEN_WAITS + 2}
"""Three groups of acts with two waits between them."""
SEEDS = {
    "transactions": range(1, 13),
    "producers": range(1, 9),
    "first_batches": range(1, 13),
    "groups": range(1, 3),
    "topics": range(1, 7),
    "mixed": range(1, 9),
    "features": range(1, 5),
    "expiry": range(1, 9),
}


def test_every_theme_has_its_seeds() -> None:
    assert list(SEEDS) == list(THEMES)


@pytest.mark.parametrize("theme", [theme for theme in THEMES if theme not in WAITS])
def test_random_sequences_get_the_replies_of_kafka(pair: Pair, theme: str) -> None:
    compare(pair, theme)


@pytest.mark.parametrize("theme", WAITS)
def test_random_sequences_over_whatever_expires_get_the_replies_of_kafka(forgetful_pair: Pair, theme: str) -> None:
    """The sequences use transactional ids, producers and offsets again after they have expired."""
    compare(forgetful_pair, theme, "producers")


def compare(pair: Pair, theme: str, first_to_expire: str = "") -> None:
    def play(acts: Sequence[Act]) -> Outcome:
        return run(acts, *pair, theme=theme, first_to_expire=first_to_expire)

    replies, seeds, steps = 0, SEEDS[theme], STEPS_BY_THEME.get(theme, STEPS)
    sequences = [[*sequence(theme, seed, steps), *EPILOGUE] for seed in seeds]
    for seed, acts, outcome in zip(seeds, sequences, played(theme, play, sequences), strict=True):
        last = play(acts) if outcome.findings else outcome  # Kafka may be too slow once on a busy machine.
        replies += last.replies

        restarted = f'make conformance ARGS="--only {theme} --first-seed {seed} --seeds 1" tells the story'
        assert [str(each) for each in last.findings] == [], restarted
    assert replies > len(seeds) * steps // 2


@pytest.mark.parametrize("theme", THEMES)
def test_a_sequence_comes_from_its_seed_alone(theme: str) -> None:
    assert sequence(theme, 7, STEPS) == sequence(theme, 7, STEPS) != sequence(theme, 8, STEPS)
    assert sequence(theme, 7, 10) == sequence(theme, 7, STEPS)[:10]


def test_a_differing_sequence_is_shortened_to_the_needed_requests() -> None:
    acts = [Act(name, {}) for name in "abcdefghijklmnopqrst"]
    needed = {"c", "k", "s"}

    def differs(some: Sequence[Act]) -> bool:
        return needed <= {act.kind for act in some}

    assert [act.kind for act in shorten(acts, differs)] == ["c", "k", "s"]
