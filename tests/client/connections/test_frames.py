"""Responses are read as they were sent, however their bytes arrive."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stuntbroker.client.connections.frames import ResponseReader


class Connection:
    """What the reader needs of aiokafka's connection."""

    def __init__(self, refuses: bytes | None = None) -> None:
        self.responses: list[bytes] = []
        self.closed: list[Any] = []
        self._reader: object | None = object()
        self._protocol = self
        self._refuses = refuses

    def _handle_frame(self, response: bytes) -> None:
        if response == self._refuses:
            raise IndexError("nobody asked")
        self.responses.append(bytes(response))

    def close(self, reason: object, exc: Exception) -> None:
        self._reader = None
        self.closed.append(exc)

    def connection_lost(self, error: Exception | None) -> None:
        self.closed.append("lost")


def framed(response: bytes) -> bytes:
    return len(response).to_bytes(4, "big") + response


@given(st.lists(st.binary(max_size=40), max_size=8), st.lists(st.integers(0, 60), max_size=20))
def test_responses_are_whole_wherever_their_bytes_are_divided(responses: list[bytes], sizes: list[int]) -> None:
    connection = Connection()
    reader = ResponseReader(connection)
    data = b"".join(map(framed, responses))
    for size in sizes:
        reader.data_received(data[:size])
        data = data[size:]
    reader.data_received(data)

    assert connection.responses == responses
    assert connection.closed == []


@pytest.mark.parametrize("tail", [b"", framed(b"after"), framed(b"after")[:3]], ids=["alone", "more", "a part more"])
def test_a_response_that_cannot_be_read_closes_the_connection_and_no_other_is_read(tail: bytes) -> None:
    connection = Connection(refuses=b"bad")
    reader = ResponseReader(connection)
    reader.data_received(framed(b"good") + framed(b"bad") + tail)
    reader.data_received(framed(b"later"))

    assert connection.responses == [b"good"]
    assert [type(each) for each in connection.closed] == [IndexError]


def test_a_length_below_zero_closes_the_connection() -> None:
    connection = Connection()
    ResponseReader(connection).data_received(b"\xff\xff\xff\xff" + framed(b"later"))

    assert connection.responses == []
    assert str(connection.closed[0]) == "a response of -1 bytes"


def test_eof_and_the_loss_of_the_connection_are_each_reported_once() -> None:
    connection = Connection()
    reader = ResponseReader(connection)
    reader.eof_received()
    reader.connection_lost(None)

    assert [str(each) for each in connection.closed] == ["the broker has closed the connection", "lost"]
