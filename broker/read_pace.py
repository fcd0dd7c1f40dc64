"""How much of large requests the broker receives in one turn of the event loop.

A socket can hold many megabytes, and to copy them out of it takes time: a gigabyte a second or less when the memory is new. So a
connection takes READ_AT_ONCE at a time, and when all of them have taken READS_IN_A_TURN such pieces of large requests in one
turn, those that are in the middle of one wait for the next turn. Small requests are not counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from stuntbroker.broker.connection import Connection

READ_AT_ONCE: Final = 65_536
"""Bytes that a connection takes out of its socket by one read."""
READS_IN_A_TURN: Final = 128
"""Of large requests, by all connections: 8 MiB."""


class ReadPace:
    """Counts the reads of one turn. `call_in_next_turn`: calls a function once, when the loop has seen to everybody else."""

    def __init__(self, call_in_next_turn: Callable[[Callable[[], None]], Any]) -> None:
        self._call_in_next_turn = call_in_next_turn
        self._left = READS_IN_A_TURN
        self._waiting: list[Connection] = []

    def may_read_on(self, connection: Connection) -> bool:
        """Counts one read of a large request; if it was the last of this turn, `connection.read_on` is called in the next one."""
        if self._left == READS_IN_A_TURN:
            self._call_in_next_turn(self.begin_turn)
        self._left -= 1
        if self._left > 0:
            return True
        self._waiting.append(connection)
        return False

    def begin_turn(self) -> None:
        """Lets those read on who waited for this turn."""
        self._left = READS_IN_A_TURN
        waiting, self._waiting = self._waiting, []
        for connection in waiting:
            connection.read_on()
