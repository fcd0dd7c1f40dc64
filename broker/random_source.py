"""The only source of random bytes, for the ids of topics, clusters, members and fetch sessions."""

from __future__ import annotations

import os


class RandomSource:
    """The system's source of random bytes."""

    __slots__ = ()

    def random_bytes(self, count: int) -> bytes:
        """Return `count` random bytes."""
        return os.urandom(count)


class SeededRandomSource(RandomSource):
    """A source that returns the same bytes in every run with the same seed, for tests with repeatable ids."""

    __slots__ = ("_random",)

    def __init__(self, seed: int) -> None:
        from random import Random  # Only tests need it, and it takes longer to load than the broker's own modules.

        self._random = Random(seed)

    def random_bytes(self, count: int) -> bytes:
        """Return the next `count` bytes of the seed's sequence."""
        return self._random.randbytes(count)
