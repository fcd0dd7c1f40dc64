"""Ids of rules: each kind counts its own, and gives no id twice, also when a broker takes the place of another."""

from __future__ import annotations


class RuleIds:
    """The ids of one kind of rules in a broker: `fault-1`, `fault-2` and so on."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._last = 0

    @property
    def next(self) -> str:
        """The id that the next rule will have. Reading it gives it to nobody yet."""
        return f"{self._kind}-{self._last + 1}"

    def give(self) -> None:
        """Count `next` as given."""
        self._last += 1

    def pass_over(self, id_: str) -> None:
        """Give neither this id nor one before it: a rule of another broker has it."""
        self._last = max(self._last, int(id_.rpartition("-")[2]))

    def go_on_from(self, before: RuleIds) -> None:
        """Give no id that was given there."""
        self._last = max(self._last, before._last)
