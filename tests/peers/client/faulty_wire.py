"""Connections that break at random under the producers of this process, whatever broker is at the other end."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from aiokafka.conn import AIOKafkaConnection, CloseReason
from aiokafka.errors import KafkaConnectionError

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
        send = AIOKafkaConnection.send

        def faulty(connection: AIOKafkaConnection, request: Any, *arguments: Any, **options: Any) -> Awaitable[Any]:
            is_one_of_ours = isinstance(request, Call) and request.API_KEY != API_VERSIONS
            exhausted = self.lost + self.unsent >= self._faults_max
            if not is_one_of_ours or exhausted or self._chance.random() >= self._probability:
                return send(connection, request, *arguments, **options)
            if self._chance.random() < 0.3:
                self.unsent += 1
                connection.close(reason=CloseReason.CONNECTION_BROKEN)
                raise KafkaConnectionError("broken before the request was sent")
            self.lost += 1
            return _lose(connection, send(connection, request, *arguments, **options))

        with monkeypatch.context() as patched:
            patched.setattr(AIOKafkaConnection, "send", faulty)
            yield


async def _lose(connection: AIOKafkaConnection, response: Awaitable[Any]) -> Any:
    await response
    connection.close(reason=CloseReason.CONNECTION_BROKEN)
    raise KafkaConnectionError("broken before the response arrived")
