"""The state diagram of a group, and the fields of its state."""

from __future__ import annotations

import pytest

from stuntbroker.groups.classic.state import SUCCESSORS, Group, GroupState, advance

S = GroupState


def test_every_state_has_its_successors() -> None:
    assert set(SUCCESSORS) == set(GroupState)


def test_every_other_state_can_become_dead_and_dead_is_final() -> None:
    assert {state for state, after in SUCCESSORS.items() if S.DEAD in after} == set(S) - {S.DEAD}
    assert SUCCESSORS[S.DEAD] == frozenset()


@pytest.mark.parametrize("before", S)
@pytest.mark.parametrize("after", S)
def test_a_group_moves_along_the_diagram_only(before: GroupState, after: GroupState) -> None:
    group = Group("g", state=before)
    if after in SUCCESSORS[before]:
        assert advance(group, after, 5) == Group("g", state=after, entered_at_ms=5)
    else:
        with pytest.raises(AssertionError):
            advance(group, after, 5)


@pytest.mark.parametrize(
    ("protocol_type", "subscribed", "expected"),
    [
        ("consumer", frozenset({"t"}), True),
        ("consumer", frozenset({"u"}), False),
        ("consumer", None, True),
        ("connect", None, False),
        (None, None, False),
    ],
)
def test_consumer_groups_with_unknown_subscriptions_count_as_subscribed_to_every_topic(
    protocol_type: str | None, subscribed: frozenset[str] | None, expected: bool
) -> None:
    group = Group("g", protocol_type=protocol_type, subscribed_topics=subscribed)

    assert group.is_subscribed_to("t") is expected
