"""Places on the way to the disk that a test can know of: there it ends the process, or has the disk refuse."""

from __future__ import annotations

from collections.abc import Callable

OnPass = Callable[[str, str, int], None]
"""Told of a point that is passed, and of topic and partition, "" and -1 where there are none. May raise StorageError."""


class Points:
    """Those of one broker. While nobody wants to be told, passing costs a look at an attribute."""

    __slots__ = ("on_pass",)

    def __init__(self) -> None:
        self.on_pass: OnPass | None = None

    def passing(self, point: str, topic: str = "", partition: int = -1) -> None:
        """The broker comes to a point. Raises StorageError when a test has it fail there."""
        if self.on_pass is not None:
            self.on_pass(point, topic, partition)
