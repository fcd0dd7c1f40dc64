"""Interceptors run before the handlers of one broker, for one API or for all, and can be removed without a trace."""

from __future__ import annotations

import gc
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from stuntbroker.broker.connections.connection import Connection
from stuntbroker.broker.requests.apis import NO_RESPONSE
from stuntbroker.broker.requests.interception import intercept_response
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.api_versions_request import ApiVersionsRequest
from stuntbroker.protocol.messages.api_versions_response import ApiVersionsResponse
from stuntbroker.protocol.messages.heartbeat_request import HeartbeatRequest
from stuntbroker.protocol.messages.heartbeat_response import HeartbeatResponse
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.kit.produce_and_fetch import fetch
from tests.kit.rig import KEYS, Rig, decode, frame, running_rig
from tests.kit.valid_requests import TOPIC, batch

HEARTBEAT = KEYS["Heartbeat"]


def beat(rig: Rig) -> ErrorCode:
    return ErrorCode(rig.client().ask(HeartbeatRequest("g", 1, "m"), 4).error_code)


def passing(log: list[tuple[str, int]], name: str, handle: Any, request: Any, body: Any, version: int) -> Any:
    log.append((name, request.route.key))
    return handle(request, body, version)


async def test_interceptors_are_called_in_the_order_in_which_they_were_added(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        log: list[tuple[str, int]] = []
        first, second, other = (partial(passing, log, name) for name in ("first", "second", "other"))
        rig.broker.router.add_interceptor(first)
        rig.broker.router.add_interceptor(second, HEARTBEAT)
        rig.broker.router.add_interceptor(other, KEYS["Fetch"])
        assert beat(rig) == ErrorCode.UNKNOWN_MEMBER_ID
        assert log == [("first", HEARTBEAT), ("second", HEARTBEAT)]
        assert rig.client().ask(ApiVersionsRequest(), 0).error_code == 0
        assert log[2:] == [("first", KEYS["ApiVersions"])]


async def test_an_interceptor_can_answer_instead_of_the_handler_until_it_is_removed(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        open_before = rig.client()
        open_before.ask(HeartbeatRequest("g", 1, "m"), 4)

        def refuse(handle: Any, request: Any, body: Any, version: int) -> Any:
            return HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)

        rig.broker.router.add_interceptor(refuse, HEARTBEAT)
        assert open_before.ask(HeartbeatRequest("g", 1, "m"), 4).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        rig.broker.router.remove_interceptor(refuse, HEARTBEAT)
        assert open_before.ask(HeartbeatRequest("g", 1, "m"), 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        with pytest.raises(ValueError):
            rig.broker.router.remove_interceptor(refuse, HEARTBEAT)


async def test_an_interceptor_can_drop_or_delay_the_response(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        held: list[Any] = []

        def lose(handle: Any, request: Any, body: Any, version: int) -> Any:
            handle(request, body, version)
            return NO_RESPONSE

        def hold(handle: Any, request: Any, body: Any, version: int) -> None:
            held.append(partial(request.reply, handle(request, body, version)))

        rig.broker.router.add_interceptor(lose, KEYS["Produce"])
        rig.broker.router.add_interceptor(hold, KEYS["ApiVersions"])
        client = rig.client()
        data = [TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, batch(1))])]
        client.feed(frame(ProduceRequest(None, -1, 1_000, data), 9))
        assert client.answers() == []
        assert rig.log(TOPIC, 0).next_offset == 1
        client.feed(frame(ApiVersionsRequest(), 0))
        assert client.answers() == []
        held[0]()
        (answer,) = client.answers()
        assert isinstance(decode(answer, KEYS["ApiVersions"], 0), ApiVersionsResponse)


async def test_an_interceptor_applies_to_one_broker_only(data_dir: Path, tmp_path: Path) -> None:
    async with running_rig(data_dir) as rig, running_rig(tmp_path / "other") as other:
        log: list[tuple[str, int]] = []
        rig.broker.router.add_interceptor(partial(passing, log, "made"))
        beat(other)
        assert log == []
        beat(rig)
        assert log == [("made", HEARTBEAT)]


async def test_without_an_interceptor_a_request_goes_straight_to_its_handler(data_dir: Path) -> None:
    from stuntbroker.broker.handlers import k12_heartbeat

    async with running_rig(data_dir) as rig:
        beat(rig)
        assert rig.broker.router.routes[HEARTBEAT << 16 | 4].handle is k12_heartbeat.handle


@pytest.mark.parametrize("end", ["disconnect", "abort"])
async def test_a_fetch_handled_after_its_client_disconnected_does_not_wait(data_dir: Path, end: str) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        held: list[Any] = []

        def hold(handle: Any, request: Any, body: Any, version: int) -> None:
            held.append(partial(request.handle_later, handle, body, version))

        rig.broker.router.add_interceptor(hold, KEYS["Fetch"])
        client = rig.client()
        client.feed(frame(fetch(), 12))
        (client.disconnect if end == "disconnect" else client.connection.abort)()
        held[0]()
        assert not rig.log(TOPIC, 0).waiters


def connections_in_memory() -> int:
    return sum(isinstance(each, Connection) for each in gc.get_objects())


async def test_a_client_that_leaves_while_its_request_is_intercepted_leaves_no_memory(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)

        def look(handle: Any, request: Any, body: Any, version: int) -> Any:
            return intercept_response(handle, request, body, version, lambda answer: answer)

        rig.broker.router.add_interceptor(look, KEYS["Fetch"])
        gc.collect()
        gc.disable()
        try:
            before = connections_in_memory()
            client = rig.client()
            client.feed(frame(fetch(), 12))
            assert connections_in_memory() == before + 1
            client.disconnect()
            client.transport.protocol = None
            del client
            assert connections_in_memory() == before
        finally:
            gc.enable()
