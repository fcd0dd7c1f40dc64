"""Stop points of disk writes, at which a test can end the process or make a write fail."""

from __future__ import annotations

from collections.abc import Callable

OnPass = Callable[[str, str, int], None]
"""Called with the point, topic and partition ("" and -1 if there is none). May raise StorageError."""


class Points:
    """The stop points of one broker. Without a callback, passing a point costs one attribute access."""

    __slots__ = ("on_pass",)

    def __init__(self) -> None:
        self.on_pass: OnPass | None = None

    def pass_point(self, point: str, topic: str = "", partition: int = -1) -> None:
        """Pass a stop point. Raises StorageError if a test makes the broker fail there."""
        if self.on_pass is not None:
            self.on_pass(point, topic, partition)
