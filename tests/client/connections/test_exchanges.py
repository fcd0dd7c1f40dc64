"""A request on a connection ends once: with its response, or with the reason why there is none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiokafka.conn import AIOKafkaConnection

from stuntbroker.client.connections.exchanges import Wire
from stuntbroker.client.requests import Call
from stuntbroker.client.transactional_errors import DisconnectedError
from stuntbroker.protocol.api_keys import HEARTBEAT
from stuntbroker.protocol.headers import request_header
from stuntbroker.protocol.messages.heartbeat_request import HeartbeatRequest
from stuntbroker.protocol.messages.heartbeat_response import HeartbeatResponse


class Writer:
    """The writing side of a connection."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.frames: list[bytes] = []
        self._fault = fault

    def write(self, frame: bytes) -> None:
        if self._fault is not None:
            raise self._fault
        self.frames.append(bytes(frame))

    def close(self) -> None:
        pass


Open = Callable[..., AIOKafkaConnection]


@pytest.fixture
async def opened() -> AsyncIterator[Open]:
    """Returns aiokafka's connection as it is after it was opened, without a broker."""
    connections: list[AIOKafkaConnection] = []

    def open_one(timeout_s: float = 60, fault: Exception | None = None) -> AIOKafkaConnection:
        connection = AIOKafkaConnection("broker", 9092, client_id="me", request_timeout_ms=timeout_s * 1000)
        connection._reader, connection._writer = asyncio.StreamReader(), Writer(fault)
        connection._read_task = asyncio.get_running_loop().create_future()
        connections.append(connection)
        return connection

    yield open_one
    for connection in connections:
        connection.close()


def heartbeat() -> Call[HeartbeatResponse]:
    return Call(HEARTBEAT, 0, HeartbeatRequest("group", 1, "member"), HeartbeatResponse)


def respond(connection: AIOKafkaConnection, correlation_id: int, code: int = 0) -> None:
    connection._handle_frame(correlation_id.to_bytes(4, "big") + code.to_bytes(2, "big"))


async def iterations(count: int = 3) -> None:
    """Run a few iterations of the event loop."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_each_request_gets_its_own_response(opened: Open) -> None:
    connection = opened()
    wire = Wire(connection)
    requests = [asyncio.ensure_future(wire.ask(heartbeat())) for _ in range(3)]
    await iterations(1)
    for correlation_id in (1, 2, 3):
        respond(connection, correlation_id, code=correlation_id)

    assert [answer.error_code for answer in await asyncio.gather(*requests)] == [1, 2, 3]
    header = request_header(HEARTBEAT, 0, 2, b"me")
    assert connection._writer.frames[1][4 : 4 + len(header)] == header
    assert int.from_bytes(connection._writer.frames[1][:4], "big") == len(connection._writer.frames[1]) - 4


async def test_a_late_response_ends_the_connection_and_all_requests_on_it(opened: Open) -> None:
    connection = opened(timeout_s=0)
    wire = Wire(connection)
    answers = await asyncio.gather(*(wire.ask(heartbeat()) for _ in range(2)), return_exceptions=True)

    assert [type(each) for each in answers] == [DisconnectedError, DisconnectedError]
    assert str(answers[0]).endswith("Heartbeat: no response in time")
    assert str(answers[1]).endswith("Connection at broker:9092 closed")
    assert not connection.connected()


async def test_each_request_has_the_whole_time_out(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now_s)
    connection = opened(timeout_s=60)
    wire = Wire(connection)
    first = asyncio.ensure_future(wire.ask(heartbeat()))
    await iterations(1)
    respond(connection, 1)
    now_s = 50.0
    second = asyncio.ensure_future(wire.ask(heartbeat()))
    await iterations(1)
    now_s = 109.9
    await iterations()
    assert first.done()
    assert not second.done()
    assert connection.connected()

    now_s = 110.1
    with pytest.raises(DisconnectedError, match="no response in time"):
        await second
    assert not connection.connected()


async def test_a_request_times_out_after_earlier_requests_were_answered(opened: Open) -> None:
    connection = opened(timeout_s=0)
    wire = Wire(connection)
    first = asyncio.ensure_future(wire.ask(heartbeat()))
    asyncio.get_running_loop().call_soon(respond, connection, 1)  # The response arrives before the timer fires.
    await first
    await iterations()
    assert connection.connected()

    with pytest.raises(DisconnectedError, match="no response in time"):
        await wire.ask(heartbeat())


async def test_the_response_to_a_cancelled_request_is_dropped_and_is_never_late(opened: Open) -> None:
    connection = opened(timeout_s=0)
    wire = Wire(connection)
    cancelled = asyncio.ensure_future(wire.ask(heartbeat()))
    asyncio.get_running_loop().call_soon(cancelled.cancel)
    await iterations()
    assert cancelled.cancelled()
    assert connection.connected()

    following = asyncio.ensure_future(wire.ask(heartbeat()))
    asyncio.get_running_loop().call_soon(respond, connection, 1, 7)
    asyncio.get_running_loop().call_soon(respond, connection, 2, 8)
    assert (await following).error_code == 8


async def test_a_response_that_arrives_while_its_caller_is_cancelled_keeps_the_connection_open(opened: Open) -> None:
    connection = opened()
    asking = asyncio.ensure_future(Wire(connection).ask(heartbeat()))
    await iterations(1)
    asking.cancel()
    respond(connection, 1)
    await iterations()

    assert asking.cancelled()
    assert connection.connected()


FAULTS: dict[str, tuple[Exception, str]] = {
    "an error of the socket": (ConnectionResetError("gone"), "Heartbeat: gone"),
    "a transport that uvloop has closed": (RuntimeError("handler is closed"), "Heartbeat: handler is closed"),
}


@pytest.mark.parametrize("name", FAULTS)
async def test_a_failed_write_closes_the_connection_and_is_reported_after_the_call(opened: Open, name: str) -> None:
    fault, text = FAULTS[name]
    connection = opened(fault=fault)
    outcomes: list[Any] = []
    wire = Wire(connection)
    exchange = wire.start(heartbeat(), lambda *outcome: outcomes.append(outcome))

    assert exchange.done()
    assert outcomes == []
    assert not connection.connected()
    await iterations(1)
    ((answer, error),) = outcomes
    assert answer is None
    assert str(error).endswith(text)

    wire.start(heartbeat(), lambda *outcome: outcomes.append(outcome))
    await iterations(1)
    assert str(outcomes[1][1]).endswith("Heartbeat: the connection is closed")
