"""Claims to partitions, by which a group fences its members of old (KIP-447 as drafted; nothing that Kafka has).

A claim is what a member says when it asks for a producer id: its group, its generation, the partitions that it was assigned.
"""

from __future__ import annotations

from typing import Final

from stuntbroker.groups.classic.state import Group
from stuntbroker.protocol.errors import ErrorCode

GENERATION_NONE: Final = -1
"""Of a client that is no member, and of a group without generations."""
REMEMBERED_MAX: Final = 10_000
"""Groups whose generation is known from claims alone."""


class Generations:
    """The newest generation that each group was seen in: by its own rebalances, or by a claim."""

    def __init__(self) -> None:
        self._claimed: dict[str, int] = {}

    def newest(self, group_id: str, group: Group | None) -> int:
        """Return the newest generation that the group has reached, or that a producer has claimed for it."""
        claimed = self._claimed.get(group_id, GENERATION_NONE)
        reached = GENERATION_NONE if group is None or group.generation == 0 else group.generation
        return max(claimed, reached)

    def claim(self, group_id: str, group: Group | None, generation: int) -> ErrorCode:
        """ILLEGAL_GENERATION for who was left behind; as a plain commit of such a member gets it."""
        newest = self.newest(group_id, group)
        if generation < newest:
            return ErrorCode.ILLEGAL_GENERATION
        if generation > newest:
            self._claimed.pop(group_id, None)
            if len(self._claimed) >= REMEMBERED_MAX:
                del self._claimed[next(iter(self._claimed))]  # The one that has not moved for longest.
            self._claimed[group_id] = generation
        return ErrorCode.NONE

    def forget(self, group_id: str) -> None:
        """Forget the claimed generation of a deleted group."""
        self._claimed.pop(group_id, None)
