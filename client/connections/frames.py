"""Response reader for aiokafka's connections, instead of their reader task: saves two event loop iterations per request."""

from __future__ import annotations

import asyncio
from typing import Final

from aiokafka.conn import AIOKafkaConnection, CloseReason

_LENGTH: Final = 4
"""Bytes of the length before each response."""


class ResponseReader(asyncio.Protocol):
    """Passes each complete response to its connection.

    aiokafka's own protocol still handles everything but reading: the end of the connection, and back-pressure on writes.
    """

    def __init__(self, connection: AIOKafkaConnection) -> None:
        self._connection: AIOKafkaConnection | None = connection
        self._streams = connection._protocol
        self._buffer = bytearray()

    def data_received(self, data: bytes) -> None:
        """Process received bytes, which may contain parts of responses."""
        if not self._buffer and len(data) >= _LENGTH and _length(data, 0) == len(data) - _LENGTH:
            self._hand_over(data[_LENGTH:])  # The usual case: exactly one response.
            return
        self._buffer += data
        start = 0
        while self._connection is not None and len(self._buffer) - start >= _LENGTH:
            length = _length(self._buffer, start)
            if length < 0:
                self._close(ValueError(f"a response of {length} bytes"))
                return
            end = start + _LENGTH + length
            if end > len(self._buffer):
                break
            self._hand_over(bytes(self._buffer[start + _LENGTH : end]))
            start = end
        del self._buffer[:start]

    def _hand_over(self, response: bytes) -> None:
        connection = self._connection
        if connection is None or connection._reader is None:
            return  # It was closed meanwhile.
        try:
            connection._handle_frame(response)
        except Exception as fault:  # An unexpected or invalid response.
            connection.close(reason=CloseReason.CONNECTION_BROKEN, exc=fault)

    def eof_received(self) -> bool | None:
        """Close the connection, because the broker has closed its side."""
        self._close(EOFError("the broker has closed the connection"))
        return None

    def connection_lost(self, error: Exception | None) -> None:
        """Close the connection after either side has ended it."""
        self._close(error or EOFError("the connection is closed"))
        self._streams.connection_lost(error)

    def pause_writing(self) -> None:
        """Pause writers: the send buffer is full."""
        self._streams.pause_writing()

    def resume_writing(self) -> None:
        """Resume writers: the send buffer has space again."""
        self._streams.resume_writing()

    def _close(self, fault: Exception) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and connection._reader is not None:
            connection.close(reason=CloseReason.CONNECTION_BROKEN, exc=fault)


def read_without_task(connection: AIOKafkaConnection) -> None:
    """Replace the reader task of a connection on which no request is outstanding."""
    if connection._reader is None or connection._requests or connection._reader._buffer:
        return  # It broke meanwhile, or is in use.
    connection._read_task.cancel()
    connection._writer.transport.set_protocol(ResponseReader(connection))


def _length(data: bytes | bytearray, start: int) -> int:
    return int.from_bytes(data[start : start + _LENGTH], "big", signed=True)
