"""Patterns of clients: they match what Python's own matcher matches, and none of them takes for ever."""

from __future__ import annotations

import re
from pathlib import Path
from time import process_time

import pytest
from broker_harness import rig
from hypothesis import given, settings
from hypothesis import strategies as st

from stuntbroker.broker.patterns import Pattern
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.list_transactions_request import ListTransactionsRequest

ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d", r"\W", "-", "^", "$", "1", ""])
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "{1,}", "*?"])).map(
            lambda two: f"({two[0]}){two[1]}"
        ),
    ),
    max_leaves=6,
)
ENDLESS = ["(a+)+$", "(a|a)*b", "(a*)*b", ".*.*.*.*.*.*.*b", "(a?){30}a{30}", "(.*a){20}", "((a*)*)*b"]


@settings(max_examples=500)
@given(pattern=PATTERNS, texts=st.lists(st.text("ab1-\n", max_size=6), min_size=1, max_size=5))
def test_a_pattern_matches_what_pythons_own_matches(pattern: str, texts: list[str]) -> None:
    ours, theirs = Pattern(pattern), re.compile(pattern)
    for text in texts:
        if "$" not in pattern or "\n" not in text:  # Python's $ also holds before a last line feed.
            assert ours.matches(text) == (theirs.fullmatch(text) is not None), (pattern, text)


@pytest.mark.parametrize("pattern", ENDLESS)
def test_a_pattern_that_would_run_for_years_takes_a_moment(pattern: str) -> None:
    began = process_time()
    Pattern(pattern).matches("a" * 5_000 + "!")
    assert process_time() - began < 2


REFUSED = ["(", "*", "[a", r"(a)\1", "(?=a)", "(?<!a)b", "(?i)a", r"\ba", "a{2000}", "x" * 1_001]


@pytest.mark.parametrize("pattern", REFUSED)
def test_what_is_no_pattern_or_needs_more_than_an_automaton_is_refused(pattern: str) -> None:
    with pytest.raises(re.error):
        Pattern(pattern)


async def test_transactions_are_listed_by_pattern_and_a_bad_one_is_an_answer(data_dir: Path) -> None:
    async with rig(data_dir) as made:
        client = made.client()
        for name in ("app-1", "app-2", "other"):
            client.ask(InitProducerIdRequest(name, 60_000), 4)
        found = client.ask(ListTransactionsRequest(transactional_id_pattern="app-.*"), 2)
        assert sorted(one.transactional_id for one in found.transaction_states) == ["app-1", "app-2"]
        bad = client.ask(ListTransactionsRequest(transactional_id_pattern="(?=a)"), 2)
        assert bad.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
