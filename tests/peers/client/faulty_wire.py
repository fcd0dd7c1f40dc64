"""Connections that break at random under the producers of this process, whatever broker is at the other end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from aiokafka.conn import AIOKafkaConnection, CloseReason

from stuntbroker.client.producer import connections
from stuntbroker.client.producer.errors import DisconnectedError
from stuntbroker.client.producer.exchanges import Exchange, OnAnswer, Wire
from stuntbroker.client.requests import Call
from stuntbroker.protocol.api_keys import API_VERSIONS


class FaultyWire:
    """Breaks a connection before a request is sent, or after it was applied, so that only its response is lost."""

    def __init__(self, chance: random.Random, probability: float, faults_max: int) -> None:
        self.lost = 0
        """Requests that were applied and whose response was lost."""
        self.unsent = 0
        self._chance = chance
        self._probability = probability
        self._faults_max = faults_max

    @contextmanager
    def installed(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Break connections in the block."""
        with monkeypatch.context() as patched:
            patched.setattr(connections, "Wire", lambda connection: _BreakingWire(connection, self))
            yield

    def breaks_before(self, call: Call[Any]) -> bool | None:
        """Return whether to break the connection before the request is sent (True) or after it (False); None: neither."""
        exhausted = self.lost + self.unsent >= self._faults_max
        if call.API_KEY == API_VERSIONS or exhausted or self._chance.random() >= self._probability:
            return None
        is_before = self._chance.random() < 0.3
        self.unsent += is_before
        self.lost += not is_before
        return is_before


class _BreakingWire:
    """A wire with these faults; it cannot be a subclass, because Wire may be compiled."""

    def __init__(self, connection: AIOKafkaConnection, faults: FaultyWire) -> None:
        self.connection = connection
        self._wire = Wire(connection)
        self._faults = faults
        self._loop = asyncio.get_running_loop()

    def start(self, call: Call[Any], on_answer: OnAnswer) -> Exchange:
        is_before = self._faults.breaks_before(call)
        if is_before is None:
            return self._wire.start(call, on_answer)
        if is_before:
            self._break()
            return self._wire.start(call, on_answer)

        def lose(answer: Any, fault: DisconnectedError | None) -> None:
            self._loop.call_soon(self._break)
            on_answer(None, fault or DisconnectedError("broken before the response arrived"))

        return self._wire.start(call, lose)

    async def ask(self, call: Call[Any]) -> Any:
        future = self._loop.create_future()

        def resolve(answer: Any, fault: DisconnectedError | None) -> None:
            if not future.done():
                future.set_result((answer, fault))

        exchange = self.start(call, resolve)
        try:
            answer, fault = await future
        finally:
            exchange.forget()
        if fault is not None:
            raise fault
        return answer

    def _break(self) -> None:
        self.connection.close(reason=CloseReason.CONNECTION_BROKEN)
