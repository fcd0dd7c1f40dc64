"""Requests on aiokafka's connections whose response is passed to a callback: no task waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from struct import pack_into
from typing import Any, Final

from aiokafka.conn import AIOKafkaConnection, CloseReason

from stuntbroker.client.connection import reason
from stuntbroker.client.producer.errors import DisconnectedError
from stuntbroker.client.requests import Call
from stuntbroker.protocol.api_keys import APIS
from stuntbroker.protocol.headers import request_header

OnAnswer = Callable[[Any, DisconnectedError | None], None]
"""Called once by the event loop, with the response and None, or with None and the reason why there is none."""
_LENGTH: Final = bytes(4)


class Exchange:
    """A request without a response yet: aiokafka's connection holds it in place of a future, and uses the methods of futures."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, connection: AIOKafkaConnection, key: int, on_answer: OnAnswer
    ) -> None:
        self._loop = loop
        self._connection = connection
        self._key = key
        self._on_answer: OnAnswer | None = on_answer
        self._timer: asyncio.TimerHandle | None = None

    def done(self) -> bool:
        """Return whether the callback was called, or is about to be, or the exchange was forgotten."""
        return self._on_answer is None

    def set_result(self, answer: Any) -> None:
        """Pass the response to the callback."""
        on_answer = self._end()
        if on_answer is not None:
            on_answer(answer, None)

    def set_exception(self, fault: BaseException) -> None:
        """Pass the reason why there will be no response to the callback, soon: the caller may hold a lock."""
        on_answer = self._end()
        if on_answer is not None:
            error = DisconnectedError(f"{APIS[self._key].name}: {reason(fault)}")
            self._loop.call_soon(on_answer, None, error)

    def forget(self) -> None:
        """Call nothing back any more; the response is read and dropped."""
        self._end()

    def watch(self, timeout_s: float) -> None:
        """End the exchange, and the connection, if there is no response in time."""
        self._timer = self._loop.call_later(timeout_s, self._be_late)

    def _end(self) -> OnAnswer | None:
        on_answer, self._on_answer = self._on_answer, None
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        return on_answer

    def _be_late(self) -> None:
        on_answer = self._end()
        # A late response would be taken for the response to the next request.
        self._connection.close(reason=CloseReason.CONNECTION_TIMEOUT)
        if on_answer is not None:
            on_answer(None, DisconnectedError(f"{APIS[self._key].name}: no response in time"))


def start_exchange(
    loop: asyncio.AbstractEventLoop, connection: AIOKafkaConnection, call: Call[Any], on_answer: OnAnswer
) -> Exchange:
    """Send a request, and return at once. If that fails, the callback gets the reason."""
    exchange = Exchange(loop, connection, call.API_KEY, on_answer)
    if connection._writer is None:
        exchange.set_exception(ConnectionError("the connection is closed"))
        return exchange
    correlation_id = connection._next_correlation_id()
    frame = bytearray(_LENGTH)
    frame += request_header(call.API_KEY, call.API_VERSION, correlation_id, connection._client_id.encode())
    call.encode_into(frame)
    pack_into(">i", frame, 0, len(frame) - len(_LENGTH))
    try:
        connection._writer.write(frame)
    except (OSError, RuntimeError) as fault:  # RuntimeError: uvloop's transport was just closed.
        connection.close(reason=CloseReason.CONNECTION_BROKEN)
        exchange.set_exception(fault)
        return exchange
    connection._requests.append((correlation_id, call, exchange))
    exchange.watch(connection._request_timeout)
    return exchange
