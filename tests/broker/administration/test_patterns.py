"""Patterns of ListTransactions match as in Kafka, which uses RE2/J, and always in bounded time."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pattern_answers import ANSWERS, TEXTS

from stuntbroker.broker.requests.patterns import LENGTH_MAX, SIMPLE_STARS_MAX, Pattern, PatternError
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.list_transactions_request import ListTransactionsRequest
from tests.kit.rig import running_rig

ENDLESS = [
    "(a+)+$", "(a|a)*b", "(a*)*b", ".*.*.*.*.*.*.*b", "(a?){30}a{30}", "(.*a){999}", "((a*)*)*b", r"\pL{90}", "((.*)*)*" * 1_000,
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "matched"), ANSWERS, ids=[ascii(pattern) for pattern, _ in ANSWERS])
def test_a_pattern_matches_what_kafka_s_matcher_matches(pattern: str, matched: str | None) -> None:
    if matched is None:
        with pytest.raises(PatternError):
            Pattern(pattern)
    else:
        compiled = Pattern(pattern)
        assert "".join("01"[compiled.matches(text)] for text in TEXTS) == matched


@pytest.mark.parametrize("pattern", ENDLESS, ids=[pattern[:20] for pattern in ENDLESS])
def test_a_pattern_prone_to_catastrophic_backtracking_is_matched_quickly(pattern: str) -> None:
    """A backtracking matcher would exceed the time-out of the test."""
    Pattern(pattern).matches("a" * 5_000 + "!")


def test_a_pattern_that_is_too_long_is_refused_with_its_length() -> None:
    with pytest.raises(PatternError, match=f"a pattern of {LENGTH_MAX + 1} characters is longer than {LENGTH_MAX}"):
        Pattern("a" * (LENGTH_MAX + 1))


async def test_transactions_are_listed_by_pattern_and_an_invalid_pattern_gets_an_error(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        for name in ("app-1", "app-2", "other"):
            client.ask(InitProducerIdRequest(name, 60_000), 4)
        actual = client.ask(ListTransactionsRequest(transactional_id_pattern="app-.*"), 2)
        assert sorted(each.transactional_id for each in actual.transaction_states) == ["app-1", "app-2"]
        nested = client.ask(ListTransactionsRequest(transactional_id_pattern="(" * 500 + "other" + ")" * 500), 2)
        assert [each.transactional_id for each in nested.transaction_states] == ["other"]
        bad = client.ask(ListTransactionsRequest(transactional_id_pattern="(?=a)"), 2)
        assert bad.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


async def test_without_re2_a_pattern_is_refused_and_the_log_says_what_to_install(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    async with running_rig(data_dir) as rig:
        answer = rig.client().ask(ListTransactionsRequest(transactional_id_pattern="app-[0-9]+"), 2)
        assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
        [(event, facts)] = rig.events.kept
        assert event == "pattern_refused" and "pip install 'stuntbroker[re2]'" in facts["reason"]


PIECES = st.sampled_from(["a", "B", "7", "_", "-", r"\.", r"\-", r"\*", r"\\", r"\[", ".*"])


@given(
    pattern=st.lists(PIECES, max_size=6).map("".join), texts=st.lists(st.text("aB7_-.*\\[\n", max_size=6), max_size=5)
)
def test_a_simple_pattern_means_the_same_without_re2(pattern: str, texts: list[str]) -> None:
    with_re2 = Pattern(pattern)
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(sys.modules, "re2", None)
        if pattern.count(".*") > SIMPLE_STARS_MAX:
            with pytest.raises(PatternError, match="re2"):
                Pattern(pattern)
            return
        without = Pattern(pattern)
    for text in texts:
        assert without.matches(text) == with_re2.matches(text)


@pytest.mark.parametrize(("pattern", "matched"), ANSWERS, ids=[ascii(pattern) for pattern, _ in ANSWERS])
def test_without_re2_a_pattern_means_what_it_means_to_kafka_or_is_refused(
    pattern: str, matched: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    try:
        compiled = Pattern(pattern)
    except PatternError:
        return
    assert "".join("01"[compiled.matches(text)] for text in TEXTS) == matched
