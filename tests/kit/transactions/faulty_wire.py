"""Faults on the connections between this process's producers and any broker."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from struct import pack, unpack_from
from typing import Any

import pytest
from aiokafka.conn import AIOKafkaConnection, CloseReason

from stuntbroker.client.connections import connections
from stuntbroker.protocol.api_keys import API_VERSIONS, APIS, METADATA
from stuntbroker.protocol.headers import has_flexible_request_header, has_flexible_response_header
from stuntbroker.protocol.primitives import Message, skip_tags
from tests.kit.transactions.faults import Fault, Script, name_of, refusal

OF_AIOKAFKA = {API_VERSIONS, METADATA}
"""APIs without faults, whose requests aiokafka itself sends."""
_LENGTH_AND_HEADER = ">ihhih"
_HEADER_SIZE = 14


class FaultyWire:
    """Does what a script says to requests: refuses them unsent, or loses or replaces the response of one that was sent.

    A code of None breaks the connection: before the request is sent, or, if it is to be applied, in place of its response.
    """

    def __init__(self, script: Script) -> None:
        self.counts: Counter[str] = Counter()
        """Requests by name: see `faults.name_of`."""
        self.unsent = 0
        """Connections that were broken before a request was sent."""
        self.lost = 0
        """Connections that were broken in place of the response to a request that was applied."""
        self.refused = 0
        """Responses that were replaced, or made up."""
        self._script = script

    @contextmanager
    def installed(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Give the faults to connections that are opened in the block."""
        read_without_task, handle_frame = connections.read_without_task, AIOKafkaConnection._handle_frame

        def read_with_faults(connection: AIOKafkaConnection) -> None:
            read_without_task(connection)
            if connection._writer is not None:
                connection._writer = _Writer(connection, self, partial(handle_frame, connection))

        def handle(connection: AIOKafkaConnection, response: bytes) -> None:
            writer = connection._writer
            if isinstance(writer, _Writer):
                writer.deliver(response)
            else:
                handle_frame(connection, response)

        with monkeypatch.context() as patched:
            patched.setattr(connections, "read_without_task", read_with_faults)
            patched.setattr(AIOKafkaConnection, "_handle_frame", handle)
            yield

    def next_fault(self, request: Message) -> Fault | None:
        name = name_of(request)
        self.counts[name] += 1
        return self._script(name, self.counts[name])


class _Writer:
    """The writing side of a connection, with these faults."""

    def __init__(
        self, connection: AIOKafkaConnection, faults: FaultyWire, handle_frame: Callable[[bytes], None]
    ) -> None:
        self._connection = connection
        self._writer: Any = connection._writer
        self._faults = faults
        self._handle_frame = handle_frame
        self._replaced: dict[int, bytes | None] = {}
        """Correlation id -> replacement of the response; None breaks the connection."""
        self._refused: dict[int, bytes] = {}
        """Correlation id -> response of a request that was not sent, until its turn comes."""

    def write(self, frame: bytes) -> None:
        _, key, version, correlation_id, length = unpack_from(_LENGTH_AND_HEADER, frame)
        if key in OF_AIOKAFKA:
            self._writer.write(frame)
            return
        start = _HEADER_SIZE + length
        if has_flexible_request_header(key, version):
            start = skip_tags(frame, start)
        module = import_module(f"stuntbroker.protocol.messages.{APIS[key].module}_request")
        request = getattr(module, f"{APIS[key].name}Request").decode(bytes(frame), version, start)
        fault = self._faults.next_fault(request)
        if fault is None:
            self._writer.write(frame)
            return
        response = None if fault.code is None else _encoded(key, version, correlation_id, refusal(request, fault.code))
        if fault.is_applied:
            self._replaced[correlation_id] = response
            self._writer.write(frame)
        elif response is None:
            self._faults.unsent += 1
            raise ConnectionResetError("broken before the request was sent")
        else:
            self._refused[correlation_id] = response
            asyncio.get_running_loop().call_soon(self._deliver_refused)

    def deliver(self, response: bytes) -> None:
        """Pass on a response, or what replaces it, and then the responses to unsent requests that had to wait for it."""
        correlation_id = unpack_from(">i", response)[0]
        self._faults.refused += self._replaced.get(correlation_id) is not None
        in_its_place = self._replaced.pop(correlation_id, response)
        if in_its_place is None:
            self._faults.lost += 1
            self._connection.close(reason=CloseReason.CONNECTION_BROKEN)
        else:
            self._handle_frame(in_its_place)
            self._deliver_refused()

    def _deliver_refused(self) -> None:
        """Pass on the responses of unsent requests that no other request precedes: aiokafka expects them in order."""
        requests = self._connection._requests
        while requests and (response := self._refused.pop(requests[0][0], None)) is not None:
            self._faults.refused += 1
            self._handle_frame(response)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)


class BreaksAtRandom:
    """A script: requests that are not sent, and responses that are lost, until there were `faults_max`."""

    def __init__(self, chance: random.Random, probability: float, faults_max: int) -> None:
        self._chance = chance
        self._probability = probability
        self._faults_left = faults_max

    def __call__(self, name: str, count: int) -> Fault | None:
        if not self._faults_left or self._chance.random() >= self._probability:
            return None
        is_applied = self._chance.random() >= 0.3
        self._faults_left -= 1
        return Fault(None, is_applied)


def _encoded(key: int, version: int, correlation_id: int, response: Message) -> bytes:
    frame = bytearray(pack(">i", correlation_id))
    if has_flexible_response_header(key, version):
        frame.append(0)
    response.encode(frame, version)
    return bytes(frame)
