"""Collects the values that a consumer in another thread reads during a test."""

import threading
from collections import defaultdict

DEADLINE_S = 30


class Watch:
    """Values by partition, in the order of their arrival. The consumer reads until `ended` is set."""

    def __init__(self) -> None:
        self.values: dict[int, list[str]] = defaultdict(list)
        self.ended = threading.Event()
        self._taken = threading.Condition()

    def take(self, partition: int, value: bytes) -> None:
        with self._taken:
            self.values[partition].append(value.decode())
            self._taken.notify_all()

    def wait_for(self, value: str, partitions: int) -> None:
        """Wait until `value` has arrived from this number of partitions."""
        with self._taken:
            arrived = self._taken.wait_for(
                lambda: sum(value in seen for seen in self.values.values()) == partitions, DEADLINE_S
            )
            assert arrived, f"no {value!r} in {partitions} partitions, but {dict(self.values)}"
