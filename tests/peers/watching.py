"""What a reader has seen who runs in another thread, for as long as a test lasts."""

import threading
from collections import defaultdict

DEADLINE_S = 30


class Watch:
    """Values by partition, in the order of their arrival. The reader takes until `ended` is set."""

    def __init__(self) -> None:
        self.values: dict[int, list[str]] = defaultdict(list)
        self.ended = threading.Event()
        self._taken = threading.Condition()

    def take(self, partition: int, value: bytes) -> None:
        with self._taken:
            self.values[partition].append(value.decode())
            self._taken.notify_all()

    def wait_for(self, value: str, partitions: int) -> None:
        """Until each of so many partitions has shown `value`."""
        with self._taken:
            arrived = self._taken.wait_for(
                lambda: sum(value in seen for seen in self.values.values()) == partitions, DEADLINE_S
            )
            assert arrived, f"no {value!r} in {partitions} partitions, but {dict(self.values)}"
