"""Connections that break at random under the producers of this process, whatever broker is at the other end."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from struct import unpack_from
from typing import Any

import pytest
from aiokafka.conn import AIOKafkaConnection, CloseReason

from stuntbroker.client.producer import connections
from stuntbroker.protocol.api_keys import API_VERSIONS, METADATA

OF_AIOKAFKA = {API_VERSIONS, METADATA}
"""APIs whose requests do not break a connection: those of aiokafka itself."""


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
        read_without_task, handle_frame = connections.read_without_task, AIOKafkaConnection._handle_frame

        def read_and_break(connection: AIOKafkaConnection) -> None:
            read_without_task(connection)
            if connection._writer is not None:
                connection._writer = _BreakingWriter(connection._writer, self)

        def lose(connection: AIOKafkaConnection, response: bytes) -> None:
            writer = connection._writer
            if isinstance(writer, _BreakingWriter) and unpack_from(">i", response)[0] in writer.lost:
                connection.close(reason=CloseReason.CONNECTION_BROKEN)
            else:
                handle_frame(connection, response)

        with monkeypatch.context() as patched:
            patched.setattr(connections, "read_without_task", read_and_break)
            patched.setattr(AIOKafkaConnection, "_handle_frame", lose)
            yield

    def breaks_before(self, key: int) -> bool | None:
        """Return whether to break the connection before a request is sent (True) or after it (False); None: neither."""
        exhausted = self.lost + self.unsent >= self._faults_max
        if key in OF_AIOKAFKA or exhausted or self._chance.random() >= self._probability:
            return None
        is_before = self._chance.random() < 0.3
        self.unsent += is_before
        self.lost += not is_before
        return is_before


class _BreakingWriter:
    """The writing side of a connection, with these faults."""

    def __init__(self, writer: Any, faults: FaultyWire) -> None:
        self.lost: set[int] = set()
        """Correlation ids of the requests whose response is lost."""
        self._writer = writer
        self._faults = faults

    def write(self, frame: bytes) -> None:
        key, _, correlation_id = unpack_from(">hhi", frame, 4)
        is_before = self._faults.breaks_before(key)
        if is_before:
            raise ConnectionResetError("broken before the request was sent")
        if is_before is False:
            self.lost.add(correlation_id)
        self._writer.write(frame)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)
