"""Requests on aiokafka's connections whose response is passed to a callback: no task waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from struct import pack_into
from typing import Any, Final

from aiokafka.conn import AIOKafkaConnection, CloseReason

from stuntbroker.client.errors import reason
from stuntbroker.client.requests import Answer, Call
from stuntbroker.client.transactional_errors import DisconnectedError
from stuntbroker.protocol.api_keys import APIS
from stuntbroker.protocol.headers import request_header

OnAnswer = Callable[[Any, DisconnectedError | None], None]
"""Called once by the event loop, with the response and None, or with None and the reason why there is none."""
_LENGTH: Final = bytes(4)


class Exchange:
    """A request without a response yet: aiokafka's connection holds it in place of a future, and uses the methods of futures."""

    def __init__(self, loop: asyncio.AbstractEventLoop, key: int, deadline_s: float, on_answer: OnAnswer) -> None:
        self.deadline_s = deadline_s
        """When the response is late, in seconds of the event loop's clock."""
        self._loop = loop
        self._key = key
        self._on_answer: OnAnswer | None = on_answer

    def done(self) -> bool:
        """Return whether the callback was called, or is about to be, or the exchange was forgotten."""
        return self._on_answer is None

    def set_result(self, answer: Any) -> None:
        """Pass the response to the callback."""
        on_answer, self._on_answer = self._on_answer, None
        if on_answer is not None:
            on_answer(answer, None)

    def set_exception(self, fault: BaseException) -> None:
        """Pass the reason why there will be no response to the callback, soon: the caller may hold a lock."""
        on_answer, self._on_answer = self._on_answer, None
        if on_answer is not None:
            error = DisconnectedError(f"{APIS[self._key].name}: {reason(fault)}")
            self._loop.call_soon(on_answer, None, error)

    def forget(self) -> None:
        """Call nothing back any more; the response is read and dropped."""
        self._on_answer = None


class Wire:
    """A connection of aiokafka's, to send requests without tasks.

    A response that is late ends the connection: otherwise it would be taken for that of the next request. As responses come
    in the order of requests, one timer, for the oldest request, is enough.
    """

    def __init__(self, connection: AIOKafkaConnection) -> None:
        self.connection = connection
        self._loop = asyncio.get_running_loop()
        self._client_id: bytes = connection._client_id.encode()
        self._timeout_s: float = connection._request_timeout
        self._timer: asyncio.TimerHandle | None = None

    def close(self) -> None:
        """Watch the connection no more, which is closed: a timer would keep it in memory."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def start(self, call: Call[Any], on_answer: OnAnswer) -> Exchange:
        """Send a request, and return at once. If that fails, the callback gets the reason."""
        connection, deadline_s = self.connection, self._loop.time() + self._timeout_s
        exchange = Exchange(self._loop, call.API_KEY, deadline_s, on_answer)
        if connection._writer is None:
            exchange.set_exception(ConnectionError("the connection is closed"))
            return exchange
        correlation_id = connection._next_correlation_id()
        frame = bytearray(_LENGTH)
        frame += request_header(call.API_KEY, call.API_VERSION, correlation_id, self._client_id)
        call.encode_into(frame)
        pack_into(">i", frame, 0, len(frame) - len(_LENGTH))
        try:
            connection._writer.write(frame)
        except (OSError, RuntimeError) as fault:  # RuntimeError: uvloop's transport was just closed.
            connection.close(reason=CloseReason.CONNECTION_BROKEN)
            exchange.set_exception(fault)
            return exchange
        connection._requests.append((correlation_id, call, exchange))
        if self._timer is None:
            self._timer = self._loop.call_at(deadline_s, self._watch)
        return exchange

    async def ask(self, call: Call[Answer]) -> Answer:
        """Send a request, and return the response. Raises DisconnectedError."""
        future: asyncio.Future[Answer] = self._loop.create_future()
        exchange = self.start(call, partial(_resolve, future))
        try:
            return await future
        finally:
            exchange.forget()  # If the caller was cancelled.

    def _watch(self) -> None:
        """End the connection if the oldest response is late, else wait for the time when it would be."""
        exchanges = [each for _, _, each in self.connection._requests if isinstance(each, Exchange) and not each.done()]
        self._timer = None
        if not exchanges:
            return
        oldest = exchanges[0]
        if oldest.deadline_s <= self._loop.time():
            oldest.set_exception(TimeoutError())
            self.connection.close(reason=CloseReason.CONNECTION_TIMEOUT)
        else:
            self._timer = self._loop.call_at(oldest.deadline_s, self._watch)


def _resolve(future: asyncio.Future[Any], answer: Any, fault: DisconnectedError | None) -> None:
    if future.done():
        return  # The caller was cancelled just now.
    if fault is None:
        future.set_result(answer)
    else:
        future.set_exception(fault)
