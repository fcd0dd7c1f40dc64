"""A transition sets exactly the fields that are given, and keeps every other field of a transaction's state."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from stuntbroker.coordinator.state import COMPLETE_COMMIT, EMPTY, FIELDS, ONGOING, advance, txn_of

NOW_MS = 5_000
BEFORE: dict[str, Any] = {name: 100 + number for number, name in enumerate(FIELDS)} | {
    "transactional_id": "txn",
    "phase": COMPLETE_COMMIT,
    "partitions": frozenset({("orders", 0)}),
}
AFTER: dict[str, Any] = BEFORE | {
    "phase": ONGOING,
    "updated_at_ms": NOW_MS,
    "previous_producer_id": BEFORE["producer_id"],
    "next_producer_id": -1,
    "next_producer_epoch": -1,
    "timed_out_epoch": -1,
}
"""The state after a transition without any argument."""
ARGUMENTS = [
    name for name, each in inspect.signature(advance).parameters.items() if each.kind is inspect.Parameter.KEYWORD_ONLY
]


def test_a_state_has_the_fields_that_it_is_built_from() -> None:
    assert txn_of(**BEFORE).as_dict() == BEFORE


@pytest.mark.parametrize("name", FIELDS[1:])
def test_a_field_that_is_not_given_says_that_there_is_none(name: str) -> None:
    none = {"phase": EMPTY, "partitions": frozenset(), "client_version": 0}.get(name, -1)
    fields = {key: value for key, value in BEFORE.items() if key != name}

    assert txn_of(**fields).as_dict() == BEFORE | {name: none}


def test_a_transition_keeps_the_fields_that_are_not_given() -> None:
    assert advance(txn_of(**BEFORE), ONGOING, NOW_MS).as_dict() == AFTER


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_transition_sets_the_field_that_is_given_and_no_other(name: str) -> None:
    value: Any = frozenset({("payments", 1)}) if name == "partitions" else 900
    assert advance(txn_of(**BEFORE), ONGOING, NOW_MS, **{name: value}).as_dict() == AFTER | {name: value}
