"""Regular expressions that clients send: matched in time that grows with the text only.

Python's own matcher can be made to run for years by a pattern of ten characters; this one takes a step a character, as
RE2 does for Kafka: the pattern becomes an automaton, whose states are found as they are needed.

Python reads the pattern. What no automaton can do, or RE2 does not know, is refused: references, looking around, flags.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from re import _constants as c  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any, Final

LENGTH_MAX: Final = 1_000
STATES_MAX: Final = 1_000
STEPS_KEPT: Final = 10_000

Test = Callable[[int], bool]
_CATEGORIES: Final[dict[Any, Test]] = {
    c.CATEGORY_DIGIT: lambda char: chr(char).isdecimal(),
    c.CATEGORY_NOT_DIGIT: lambda char: not chr(char).isdecimal(),
    c.CATEGORY_SPACE: lambda char: chr(char).isspace(),
    c.CATEGORY_NOT_SPACE: lambda char: not chr(char).isspace(),
    c.CATEGORY_WORD: lambda char: chr(char).isalnum() or char == 95,
    c.CATEGORY_NOT_WORD: lambda char: not (chr(char).isalnum() or char == 95),
}
_START: Final = frozenset({c.AT_BEGINNING, c.AT_BEGINNING_STRING})
_END: Final = frozenset({c.AT_END, c.AT_END_STRING})


class Pattern:
    """`matches` tells whether a whole text fits. Raises re.error for what is no pattern, or none that is taken here."""

    def __init__(self, text: str) -> None:
        if len(text) > LENGTH_MAX:
            raise re.error(f"a pattern of {len(text)} characters is too long")
        try:
            tree = _parser.parse(text)
        except (OverflowError, RecursionError) as fault:
            raise re.error(str(fault)) from fault
        if tree.state.flags & ~re.UNICODE:
            raise re.error("flags are not taken")  # Unlike Kafka: RE2 has flags and word boundaries as well.
        self._tests: list[Test | None] = [None]
        """A state's test of the next character; None for one that takes none. State 0 is the end."""
        self._following: list[list[int]] = [[]]
        self._only: dict[int, frozenset[Any]] = {}
        """States that hold at the start or at the end only."""
        self._first = self._closure([self._sequence(tree, 0)], True)
        self._steps: dict[tuple[frozenset[int], str], frozenset[int]] = {}

    def matches(self, text: str) -> bool:
        states, steps = self._first, self._steps
        for char in text:
            found = steps.get((states, char))
            if found is None:
                if len(steps) >= STEPS_KEPT:
                    steps.clear()
                found = steps[states, char] = self._step(states, ord(char))
            if not found:
                return False
            states = found
        return 0 in self._closure(states, not text, True)

    def _step(self, states: frozenset[int], char: int) -> frozenset[int]:
        after: list[int] = []
        for state in states:
            test = self._tests[state]
            if test is not None and test(char):
                after += self._following[state]
        return self._closure(after, False)

    def _closure(self, states: Any, start: bool, end: bool = False) -> frozenset[int]:
        """The states that are reached without a character."""
        found: set[int] = set()
        left = list(states)
        while left:
            state = left.pop()
            if state in found:
                continue
            only = self._only.get(state)
            if only is not None and not (only is _END or start):
                continue
            found.add(state)  # One that holds at the end only is kept until the end is there.
            if self._tests[state] is None and (only is not _END or end):
                left += self._following[state]
        return frozenset(found)

    # --- from what Python read to states, from the end to the start

    def _state(self, test: Test | None, following: list[int]) -> int:
        if len(self._tests) >= STATES_MAX:
            raise re.error("the pattern is too large")
        self._tests.append(test)
        self._following.append(following)
        return len(self._tests) - 1

    def _sequence(self, items: Any, after: int) -> int:
        for op, argument in reversed(list(items)):
            after = self._item(op, argument, after)
        return after

    def _item(self, op: Any, argument: Any, after: int) -> int:
        if op in (c.LITERAL, c.NOT_LITERAL, c.ANY, c.IN):
            return self._state(_test(op, argument), [after])
        if op is c.BRANCH:
            return self._state(None, [self._sequence(branch, after) for branch in argument[1]])
        if op is c.SUBPATTERN and not argument[1] and not argument[2]:
            return self._sequence(argument[3], after)
        if op in (c.MAX_REPEAT, c.MIN_REPEAT):
            least, most, repeated = argument
            return self._repeat(least, most, repeated, after)
        if op is c.AT and argument in _START | _END:
            state = self._state(None, [after])
            self._only[state] = _START if argument in _START else _END
            return state
        raise re.error(f"{str(op).lower()} is not taken")

    def _repeat(self, least: int, most: int, items: Any, after: int) -> int:
        if most is c.MAXREPEAT:
            state = self._state(None, [after])
            self._following[state].append(self._sequence(items, state))
        else:
            state = after
            for _ in range(most - least):
                state = self._state(None, [self._sequence(items, state), after])
        for _ in range(least):
            before = len(self._tests)
            state = self._sequence(items, state)
            if len(self._tests) == before:
                break  # Nothing, any number of times.
        return state


def _test(op: Any, argument: Any) -> Test:
    if op is c.LITERAL:
        return lambda char: char == argument
    if op is c.NOT_LITERAL:
        return lambda char: char != argument
    if op is c.ANY:
        return lambda char: char != 10
    if op is c.RANGE:
        return lambda char: argument[0] <= char <= argument[1]
    if op is c.CATEGORY:
        return _CATEGORIES[argument]
    negated = argument[0][0] is c.NEGATE
    tests = [_test(*one) for one in argument[negated:]]
    return lambda char: any(test(char) for test in tests) is not negated
