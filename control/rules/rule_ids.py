"""Ids of rules, numbered by kind; an id is never reused, even after another broker replaces the first one."""

from __future__ import annotations


class RuleIds:
    """The ids of one kind of rules in a broker: `fault-1`, `fault-2` and so on."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._last = 0

    @property
    def next(self) -> str:
        """Id of the next rule; unchanged until `use_next`."""
        return f"{self._kind}-{self._last + 1}"

    def use_next(self) -> None:
        """Count `next` as used."""
        self._last += 1

    def skip_to(self, id_: str) -> None:
        """Mark an id, and all lower ones, as used by rules that were copied from another broker."""
        self._last = max(self._last, int(id_.rpartition("-")[2]))

    def continue_from(self, before: RuleIds) -> None:
        """Mark all ids that `before` has used as used."""
        self._last = max(self._last, before._last)
