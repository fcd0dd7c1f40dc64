"""Claims to partitions, with which a group fences members of older generations (KIP-447 as drafted; not in Kafka).

A claim is part of InitProducerId: the producer's group, its generation and its assigned partitions.
"""

from __future__ import annotations

from typing import Final

from stuntbroker.protocol.errors import ErrorCode

GENERATION_NONE: Final = -1
"""Generation of a client that is not a member, and of a group without generations."""
REMEMBERED_MAX: Final = 10_000
"""Maximum number of groups whose claimed generation is remembered."""


class Generations:
    """The newest known generation of each group, from its rebalances or from a claim."""

    def __init__(self) -> None:
        self._claimed: dict[str, int] = {}

    def newest(self, group_id: str, reached: int) -> int:
        """Return the newest generation that a producer has claimed for the group, or `reached` if it is newer."""
        return max(self._claimed.get(group_id, GENERATION_NONE), reached)

    def claim(self, group_id: str, reached: int, generation: int) -> ErrorCode:
        """Record a claimed generation; return ILLEGAL_GENERATION for an older one, as OffsetCommit does.

        `reached`: the generation of the group, or GENERATION_NONE.
        """
        newest = self.newest(group_id, reached)
        if generation < newest:
            return ErrorCode.ILLEGAL_GENERATION
        if generation > newest:
            self._claimed.pop(group_id, None)
            if len(self._claimed) >= REMEMBERED_MAX:
                del self._claimed[next(iter(self._claimed))]  # The group with the oldest claim.
            self._claimed[group_id] = generation
        return ErrorCode.NONE

    def forget(self, group_id: str) -> None:
        """Forget the claimed generation of a deleted group."""
        self._claimed.pop(group_id, None)
