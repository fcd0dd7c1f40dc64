"""Limit on the bytes of large requests that the broker receives in one turn of the event loop.

A socket can hold many megabytes, and copying them takes time: about one second per gigabyte if the memory is new. Therefore a
connection reads READ_AT_ONCE bytes at a time. After READS_IN_A_TURN such reads of large requests by all connections together,
connections that are receiving a large request wait for the next turn. Small requests are not counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from stuntbroker.broker.connections.client_connection import ClientConnection

READ_AT_ONCE: Final = 65_536
"""Maximum bytes that a connection reads from its socket at a time."""
READS_IN_A_TURN: Final = 128
"""Maximum number of reads of large requests by all connections together in one turn: 8 MiB."""


class ReadPace:
    """Counts the reads of one turn. `call_in_next_turn` calls a function once, in the next turn of the event loop."""

    def __init__(self, call_in_next_turn: Callable[[Callable[[], None]], Any]) -> None:
        self._call_in_next_turn = call_in_next_turn
        self._left = READS_IN_A_TURN
        self._waiting: list[ClientConnection] = []

    def count_read(self, connection: ClientConnection) -> bool:
        """Count one read of a large request; return False if the next has to wait until `connection.read_on` is called."""
        if self._left == READS_IN_A_TURN:
            self._call_in_next_turn(self.begin_turn)
        self._left -= 1
        if self._left > 0:
            return True
        self._waiting.append(connection)
        return False

    def begin_turn(self) -> None:
        """Resume the connections that waited for this turn."""
        self._left = READS_IN_A_TURN
        waiting, self._waiting = self._waiting, []
        for connection in waiting:
            connection.read_on()
