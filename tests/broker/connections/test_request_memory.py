"""The receive buffers of all connections share a memory limit, and incomplete large requests do not block small ones."""

from __future__ import annotations

from pathlib import Path
from struct import pack

import pytest

from stuntbroker.broker.configuration.config import BrokerConfig
from stuntbroker.broker.configuration.properties import ConfigError
from stuntbroker.broker.connections.request_memory import SMALL_BUFFER_BYTES_MAX
from stuntbroker.broker.housekeeping import CHECK_MS
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.api_versions_request import ApiVersionsRequest
from stuntbroker.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.kit.groups.group_requests import GROUP
from tests.kit.rig import Client, Rig, decode, frame, running_rig
from tests.kit.valid_requests import TOPIC, batch

MIB = 1 << 20
LIMIT = 8 * MIB
PROPERTIES = {"queued.max.request.bytes": str(LIMIT), "socket.request.max.bytes": str(LIMIT)}


def large_produce() -> bytes:
    """Return a complete frame of 3 MiB."""
    data = batch(1, size=3 * MIB)
    return frame(
        ProduceRequest(None, -1, 1_000, [TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, data)])]), 9
    )


def held(rig: Rig) -> int:
    return sum(connection.room for connection in rig.broker.connections)


def half_sent(rig: Rig, count: int, size: int = 7 * MIB) -> list[Client]:
    """Connect clients that declare a large frame and send only a quarter of it, or less if the broker stops reading."""
    clients = [rig.client() for _ in range(count)]
    for client in clients:
        client.feed(pack(">i", size) + bytes(size // 4), step=100_000)
    return clients


async def test_half_sent_requests_hold_no_more_than_the_limit_and_small_ones_continue(data_dir: Path) -> None:
    async with running_rig(data_dir, PROPERTIES) as rig:
        clients = half_sent(rig, 20)
        memory = rig.broker.request_memory
        assert memory.used == held(rig) <= LIMIT + 20 * SMALL_BUFFER_BYTES_MAX
        assert [client.transport.reading for client in clients].count(False) > 10
        assert rig.events.names().count("request_memory_used_up") == 1
        assert rig.client().ask(ApiVersionsRequest(), 0).error_code == 0
        for client in clients:
            client.disconnect()
        assert memory.used == held(rig)


async def test_a_request_that_waits_for_memory_continues_when_other_requests_release_it(data_dir: Path) -> None:
    async with running_rig(data_dir, PROPERTIES) as rig:
        rig.topic(TOPIC, max_message_bytes=str(4 * MIB))
        holders = half_sent(rig, 5, 6 * MIB)
        client, request = rig.client(), memoryview(large_produce())
        at = len(request)
        sent = client.feed(request, step=60_000)
        assert not client.transport.reading and not client.answers()
        for holder in holders:
            holder.disconnect()
        assert client.transport.reading
        # Send the bytes that the client's socket held back.
        client.feed(request[sent:at])
        assert decode(client.answers()[0], 0, 9).responses[0].partition_responses[0].error_code == 0


async def test_requests_that_share_the_memory_limit_are_all_answered_without_a_deadlock(data_dir: Path) -> None:
    """Each request holds a part of the memory. One request may exceed the limit; otherwise all would wait for each other."""
    async with running_rig(data_dir, PROPERTIES) as rig:
        rig.topic(TOPIC, max_message_bytes=str(4 * MIB))
        memory, request = rig.broker.request_memory, memoryview(large_produce())
        clients = [rig.client() for _ in range(20)]
        sent = dict.fromkeys(clients, 0)
        answers = 0
        for rounds in range(2_000):
            for client in clients:
                at = sent[client]
                if client.transport.reading and at < len(request):
                    count = min(len(client.connection.get_buffer(-1)), 50_000, len(request) - at)
                    client.feed(request[at : at + count])
                    sent[client] += count
                    answers += len(client.answers())
                assert memory.used == held(rig) <= LIMIT + len(request) + 20 * SMALL_BUFFER_BYTES_MAX
            rig.broker.read_pace.begin_turn()
            if rounds % 50 == 0:
                rig.pass_time(CHECK_MS)
            if answers == len(clients):
                break
        assert answers == len(clients)
        assert "request_stalled" not in rig.events.names()


async def test_requests_that_stopped_in_the_middle_lose_their_connections_while_others_wait(data_dir: Path) -> None:
    async with running_rig(data_dir, PROPERTIES) as rig:
        stalled = half_sent(rig, 2, 2 * MIB)
        waiting = half_sent(rig, 6, 7 * MIB)
        assert any(not client.transport.reading for client in waiting)
        rig.pass_time(CHECK_MS)
        rig.pass_time(CHECK_MS)
        assert all(client.transport.aborted for client in stalled)
        assert {"request_stalled", "request_memory_used_up"} <= set(rig.events.names())


async def test_one_request_at_a_time_goes_beyond_the_limit(data_dir: Path) -> None:
    async with running_rig(data_dir, PROPERTIES) as rig:
        clients = half_sent(rig, 30, 7 * MIB)
        while waiting := [client for client in clients if not client.transport.reading]:
            for client in clients:
                if client not in waiting:
                    client.disconnect()
            clients = waiting
            assert any(client.transport.reading for client in waiting)
            assert rig.broker.request_memory.used == held(rig) <= LIMIT + 7 * MIB + 30 * SMALL_BUFFER_BYTES_MAX


async def test_the_memory_of_an_answered_request_is_released_when_it_is_needed(data_dir: Path) -> None:
    async with running_rig(data_dir, PROPERTIES) as rig:
        rig.topic(TOPIC, max_message_bytes=str(4 * MIB))
        clients = [rig.client() for _ in range(8)]
        for client in clients:
            client.feed(large_produce())
            assert decode(client.answers()[0], 0, 9).responses[0].partition_responses[0].error_code == 0
        assert rig.events.names() == []
        assert rig.broker.request_memory.used == held(rig) <= LIMIT


@pytest.mark.parametrize("limit", [1_000, 100_000])
async def test_the_metadata_of_members_has_one_limit_for_all_groups(data_dir: Path, limit: int) -> None:
    async with running_rig(data_dir, {"stuntbroker.groups.max.bytes": str(limit)}) as rig:
        client = rig.client()

        def join(group: str, size: int) -> int:
            protocols = [JoinGroupRequestProtocol("range", bytes(size))]
            client.feed(frame(JoinGroupRequest(group, 30_000, 30_000, "", None, "consumer", protocols), 3))
            rig.pass_time(0)
            code: int = decode(client.answers()[0], 11, 3).error_code
            return code

        assert join(GROUP, limit - 1) == 0
        assert join("other", 2) == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert join("other", 1) == 0
        rig.pass_time(30_001)  # Both members time out.
        assert join("third", limit) == 0


@pytest.mark.parametrize("limit", ["1", str((100 << 20) - 1)])
def test_a_memory_limit_below_the_request_size_limit_is_refused_at_the_start(limit: str) -> None:
    with pytest.raises(ConfigError, match=r"^queued\.max\.request\.bytes: .*socket\.request\.max\.bytes"):
        BrokerConfig({"queued.max.request.bytes": limit})


@pytest.mark.parametrize("limit", ["0", "-1"])
async def test_the_memory_limit_of_requests_can_be_disabled(limit: str, data_dir: Path) -> None:
    async with running_rig(data_dir, {"queued.max.request.bytes": limit}) as rig:
        clients = half_sent(rig, 3, 40 * MIB)
        assert all(client.transport.reading for client in clients)
