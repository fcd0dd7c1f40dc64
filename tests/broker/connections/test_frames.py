"""Frames: which ones are refused unread, what slow or silent clients may cost, and the order of responses."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from struct import pack
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stuntbroker.broker.connections.connection import BUFFER_BYTES_INITIAL, KEPT_BYTES_MAX
from stuntbroker.broker.connections.read_pace import READ_AT_ONCE, READS_IN_A_TURN
from stuntbroker.protocol.messages.api_versions_request import ApiVersionsRequest
from stuntbroker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from stuntbroker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from stuntbroker.protocol.primitives import ELEMENTS_MAX, TAGS_MAX, ZERO_UUID
from tests.kit.bystander import Bystander
from tests.kit.rig import Client, Rig, decode, frame, raw_frame, running_rig, turn
from tests.kit.valid_requests import CASES, TOPIC, batch, valid_request

CLIENT_HELLO = bytes.fromhex("160301020001000001fc0303") + bytes(200)
HTTP = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


def produce(data: bytes, name: str = TOPIC, acks: int = -1, partitions: int = 1) -> ProduceRequest:
    parts = [PartitionProduceData(index, data) for index in range(partitions)]
    return ProduceRequest(None, acks, 1_000, [TopicProduceData(name, partition_data=parts)])


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes((value,))


def header(key: int, version: int, flexible: bool = True) -> bytes:
    return pack(">hhih", key, version, 1, -1) + (b"\0" if flexible else b"")


# --- refused


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1, 104_857_601])
async def test_an_invalid_frame_size_closes_the_connection_with_one_log_event(size: int, data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        client.feed(pack(">i", size))
        assert client.transport.closed
        assert rig.events.names() == ["frame_refused"]
        assert client.connection.room == BUFFER_BYTES_INITIAL


SPOKEN = {
    CLIENT_HELLO: "speaks TLS",
    HTTP: "speaks HTTP",
    b"POST / HTTP/1.1\r\n": "speaks HTTP",
    b"\xff" * 8: "are not the size of a Kafka request",
}


@pytest.mark.parametrize("data", SPOKEN, ids=["TLS", "GET", "POST", "nothing known"])
async def test_the_log_names_the_protocol_of_a_client_that_does_not_speak_kafka(data: bytes, data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.client().feed(data)
        ((event, fields),) = rig.events.kept
        assert event == "frame_refused"
        assert SPOKEN[data] in fields["reason"]


@pytest.mark.parametrize("size", range(10))
async def test_a_frame_shorter_than_a_header_closes_the_connection(size: int, data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        client.feed(raw_frame(bytes(size)))
        assert client.transport.closed
        assert rig.events.names() == ["request_malformed"]


@pytest.mark.parametrize("greeting", [CLIENT_HELLO, HTTP], ids=["TLS", "HTTP"])
async def test_another_protocol_is_refused_at_its_first_bytes(greeting: bytes, data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        client.feed(greeting)
        assert client.transport.closed
        assert not client.answers()
        assert rig.events.names() == ["frame_refused"]


async def test_the_frame_size_limit_is_socket_request_max_bytes(data_dir: Path) -> None:
    async with running_rig(data_dir, {"socket.request.max.bytes": "1000"}) as rig:
        client = rig.client()
        client.feed(raw_frame(header(18, 0, False).ljust(1_000, b"\0")))
        assert not client.transport.closed
        client.feed(pack(">i", 1_001))
        assert client.transport.closed


async def test_answers_before_a_bad_frame_still_arrive(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        rig.topic(TOPIC)
        client.feed(frame(produce(batch()), 9) + frame(ApiVersionsRequest(), 0) + pack(">i", -5))
        assert client.transport.closed
        assert len(client.answers()) == 2


# --- a declared size allocates no memory


async def test_a_declared_length_allocates_nothing_until_the_bytes_come(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        client.feed(pack(">i", 104_857_600) + b"abc")
        assert client.connection.room <= 8 * BUFFER_BYTES_INITIAL
        client.feed(bytes(100_000))
        assert client.connection.room <= 1_000_000


async def test_a_large_frame_is_received_without_moving_its_buffer(data_dir: Path) -> None:
    """Moving tens of megabytes for each of twenty clients once delayed all other clients."""
    async with running_rig(data_dir) as rig:
        client = rig.client()
        client.feed(pack(">i", 50_000_000) + bytes(100_000))
        before = client.connection.get_buffer(-1).obj
        client.feed(bytes(45_000_000))
        assert client.connection.get_buffer(-1).obj is before


async def test_each_read_of_a_large_frame_has_a_bounded_size(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        client.feed(pack(">i", 50_000_000) + bytes(10_000_000))
        assert len(client.connection.get_buffer(-1)) == READ_AT_ONCE


async def test_reads_of_large_frames_are_limited_per_turn_and_small_frames_are_always_read(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        clients = [rig.client() for _ in range(4)]
        for client in clients:
            client.feed(pack(">i", 50_000_000) + bytes(1_000_000))
        rig.broker.read_pace.begin_turn()
        reads = 0
        while any(client.transport.reading for client in clients):
            for client in clients:
                if client.transport.reading:
                    client.connection.buffer_updated(len(client.connection.get_buffer(-1)))
                    reads += 1
        assert READS_IN_A_TURN <= reads < READS_IN_A_TURN + len(clients)
        assert rig.client().ask(ApiVersionsRequest(), 0).error_code == 0
        rig.broker.read_pace.begin_turn()
        assert all(client.transport.reading for client in clients)


async def test_a_connection_closed_while_its_reads_are_paused_does_not_resume_reading(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        client.feed(pack(">i", 50_000_000))
        while client.transport.reading:
            client.connection.buffer_updated(len(client.connection.get_buffer(-1)))
        client.connection.close()
        rig.broker.read_pace.begin_turn()
        assert not client.transport.reading


async def test_a_frame_received_byte_by_byte_is_not_copied_for_every_byte(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        client.feed(pack(">i", 50_000_000) + bytes(1_000_000))
        before = client.connection.get_buffer(-1).obj
        client.feed(bytes(1_000), step=1)
        assert client.connection.get_buffer(-1).obj is before


FLOODS: dict[str, tuple[int, int, Callable[[int], bytes]]] = {
    "Metadata": (3, 9, lambda n: uvarint(n + 1) + b"\x01\0" * n + bytes(4)),
    "DeleteTopics": (20, 4, lambda n: uvarint(n + 1) + b"\x01" * n + bytes(5)),
    "OffsetFetch": (9, 8, lambda n: uvarint(n + 1) + b"\x01\0\0" * n + bytes(2)),
    "OffsetFetch, deep": (9, 8, lambda n: b"\x02\x02g\x02\x02t" + uvarint(n + 1) + bytes(4 * n + 4)),
    "FindCoordinator": (10, 4, lambda n: b"\0" + uvarint(n + 1) + b"\x02x" * n + b"\0"),
    "DescribeGroups": (15, 5, lambda n: uvarint(n + 1) + b"\x01" * n + bytes(2)),
    "Produce": (0, 9, lambda n: b"\0\xff\xff" + bytes(4) + uvarint(n + 1) + b"\x01\x01\0" * n + b"\0"),
    "tags": (3, 12, lambda n: b"\x02" + bytes(16) + b"\0" + uvarint(n) + bytes(2 * n + 4)),
    "CreateTopics": (19, 5, lambda n: uvarint(n + 1) + b"\x02x\0\0\0\x01\0\x01\x01\x01\0" * n + bytes(6)),
    "IncrementalAlterConfigs": (44, 1, lambda n: uvarint(n + 1) + b"\x02\x02t\x01\0" * n + bytes(2)),
}

COST_MAX: Final = 60
"""As a multiple of the CPU time for a twentieth of the elements: linear cost is 20, quadratic 400, and more without the limit."""


def cpu_s(client: Client, data: bytes) -> float:
    """Return the CPU time of this process for the data. The garbage collector is off, as it would scan objects of other tests."""
    gc.disable()
    try:
        began_s = time.process_time()
        client.feed(memoryview(data))
        return time.process_time() - began_s
    finally:
        gc.enable()


def cost_of_few_s(rig: Rig, what: str) -> float:
    """Return the CPU time for a twentieth of the elements that a request may have."""
    key, version, build = FLOODS[what]
    few = raw_frame(header(key, version) + build(ELEMENTS_MAX // 20))
    return min(cpu_s(rig.client(), few) for _ in range(3))


@pytest.mark.parametrize("count", [TAGS_MAX + 1, 2**32 - 1])
async def test_a_header_of_too_many_tagged_fields_is_refused_unread(count: int, data_dir: Path) -> None:
    """Tens of millions of tagged fields, each of two bytes, once took a broker down."""
    body = pack(">hhih", 3, 12, 1, -1) + uvarint(count) + bytes(50_000_000)
    async with running_rig(data_dir) as rig:
        client = rig.client()
        bystander = Bystander(rig)
        client.feed(raw_frame(body[:1_000_000]))
        few_s = cost_of_few_s(rig, "Metadata")
        client = rig.client()
        began_s = time.process_time()
        bytes(bytearray(body))
        copied_s = time.process_time() - began_s  # Decoding the fields would take 100 times as long.
        assert cpu_s(client, raw_frame(body)) < COST_MAX * few_s + 5 * copied_s
        assert client.transport.closed
        assert rig.events.names().count("request_malformed") == 2
        bystander.work()


@pytest.mark.parametrize("what", FLOODS)
@pytest.mark.parametrize("count", [ELEMENTS_MAX // 2, ELEMENTS_MAX + 1, 3_000_000])
async def test_a_flood_of_tiny_elements_has_a_bounded_cpu_cost(what: str, count: int, data_dir: Path) -> None:
    key, version, build = FLOODS[what]
    async with running_rig(data_dir, {"auto.create.topics.enable": "false"}) as rig:
        bystander = Bystander(rig)
        few_s = cost_of_few_s(rig, what if what != "tags" else "Metadata")  # Fewer tags are allowed.
        client = rig.client()
        assert cpu_s(client, raw_frame(header(key, version) + build(count))) < COST_MAX * few_s
        if count > ELEMENTS_MAX:
            assert client.transport.closed
            assert rig.events.names() == ["request_malformed"]
        bystander.work()


async def test_tagged_fields_in_elements_count_towards_the_element_limit(data_dir: Path) -> None:
    element = bytes(16) + b"\x02x" + uvarint(1_000) + b"".join(uvarint(n) + b"\0" for n in range(1_000))
    async with running_rig(data_dir, {"auto.create.topics.enable": "false"}) as rig:
        client = rig.client()
        client.feed(raw_frame(header(3, 12) + uvarint(501) + element * 500 + bytes(3)))
        assert client.transport.closed
        assert f"more than {ELEMENTS_MAX} elements" in rig.events.kept[-1][1]["reason"]


# --- client ids


async def test_a_huge_client_id_is_accepted_and_truncated(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        rig.topic(TOPIC)
        assert (
            client.ask(produce(batch()), 9, client_id=b"c" * 32_767).responses[0].partition_responses[0].error_code == 0
        )
        assert client.connection.client_id == "c" * 255


async def test_each_request_may_bring_another_client_id(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        for client_id in (
            None,
            b"",
            b"",
            b"test",
            b"test",
            b"tests",
            b"te",
            b"\0",
            None,
            b"x" * 200,
            b"test",
            b"",
            None,
        ):
            assert client.ask(ApiVersionsRequest("a", "1"), 3, client_id=client_id).error_code == 0
            assert client.connection.client_id == (client_id or b"").decode()


async def test_a_client_id_that_is_not_utf_8_is_no_fault(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        assert client.ask(ApiVersionsRequest(), 0, client_id=b"\xff\xfe\x80").error_code == 0
        assert client.ask(ApiVersionsRequest(), 0, client_id=None).error_code == 0
        assert client.connection.client_id == ""


async def test_a_client_id_with_a_false_length_is_refused_even_when_its_bytes_are_cached(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        client.ask(ApiVersionsRequest(), 0, client_id=b"abc")
        client.feed(raw_frame(pack(">hhih", 16, 0, 1, 900) + b"abc"))
        assert client.transport.closed
        assert not client.answers()


# --- order


def conversation(topic_id: bytes) -> list[bytes]:
    """Return requests of many APIs whose responses depend only on the requests and their order."""
    keys = (2, 3, 10, 15, 18, 23, 32, 60, 61, 65, 66, 75)
    return [
        frame(valid_request(key, version, topic_id), version, correlation=number, client_id=b"c" * (number % 3 * 4_000))
        for number, (key, version) in enumerate(CASES)
        if key in keys
    ]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(cuts=st.lists(st.integers(1, 9_000), min_size=1, max_size=60))
async def test_frames_cut_anywhere_get_the_same_answers_in_the_same_order(
    cuts: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    async with running_rig(tmp_path_factory.mktemp("cut")) as rig:
        topic_id = rig.topic(TOPIC).id
        rig.broker.topics.internal_topic("__consumer_offsets")
        frames = conversation(topic_id)
        whole = rig.client()
        for each in frames:
            whole.feed(each)
        expected = whole.answers()
        assert len(expected) == len(frames)
        stream, at, number = b"".join(frames), 0, 0
        client = rig.client()
        while at < len(stream):
            step = cuts[number % len(cuts)]
            client.feed(stream[at : at + step])
            at, number = at + step, number + 1
        assert client.answers() == expected


async def test_a_thousand_requests_at_once_are_answered_in_order(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        requests = [
            frame(produce(batch(size=n % 500)), 9, correlation=n)
            if n % 3
            else frame(ApiVersionsRequest(), 0, correlation=n)
            for n in range(1_000)
        ]
        client.feed(b"".join(requests))
        answers = client.answers()
        assert [int.from_bytes(answer[:4], "big") for answer in answers] == list(range(1_000))
        offsets = [
            decode(a, 0, 9).responses[0].partition_responses[0].base_offset for n, a in enumerate(answers) if n % 3
        ]
        assert offsets == [2 * n for n in range(len(offsets))]


def fetch(max_wait_ms: int, offset: int = 0) -> FetchRequest:
    wanted = FetchPartition(0, -1, offset, -1, -1, 1_000_000)
    return FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1_000_000, topics=[FetchTopic(TOPIC, partitions=[wanted])]
    )


async def test_a_request_that_waits_holds_back_its_own_connection_only(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        waiting, other = rig.client(), rig.client()
        waiting.feed(frame(fetch(60_000), 12, correlation=1) + frame(ApiVersionsRequest(), 0, correlation=2))
        assert not waiting.answers()
        other.ask(produce(batch()), 9)
        await turn()
        assert [answer[:4] for answer in waiting.answers()] == [pack(">i", 1), pack(">i", 2)]


# --- clients that do not read


async def test_the_broker_stops_reading_from_a_client_that_does_not_read_its_responses(data_dir: Path) -> None:
    async with running_rig(data_dir, {"stuntbroker.write.buffer.bytes": "65536"}) as rig:
        rig.topic(TOPIC)
        bystander = Bystander(rig)
        client = rig.client()
        client.transport.stuck = True
        each = frame(MetadataRequest([MetadataRequestTopic(ZERO_UUID, TOPIC)]), 9)
        count = 50_000
        client.feed(memoryview(each * count))
        assert not client.transport.reading
        assert client.transport.unsent < 200_000
        assert client.connection.room <= BUFFER_BYTES_INITIAL
        bystander.work()
        answered = len(client.answers())
        client.transport.read_again()
        assert client.transport.reading
        assert answered < answered + len(client.answers()) < count


async def test_a_client_that_sends_ahead_while_it_waits_fills_one_buffer_and_no_more(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        client.feed(frame(fetch(60_000), 12) + frame(ApiVersionsRequest(), 0) * 10_000)
        assert not client.transport.reading
        assert client.connection.room == BUFFER_BYTES_INITIAL
        rig.client().ask(produce(batch()), 9)
        await turn()
        assert client.transport.reading
        assert len(client.answers()) > 100


async def test_a_silent_connection_gives_a_large_buffer_back(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        client.ask(produce(batch(1, size=500_000)), 9)
        assert client.connection.room > KEPT_BYTES_MAX
        rig.pass_time(10_000)
        assert client.connection.room == BUFFER_BYTES_INITIAL
        assert client.ask(ApiVersionsRequest(), 0).error_code == 0


async def test_a_batch_in_a_large_frame_is_written_before_its_buffer_is_used_again(data_dir: Path) -> None:
    """Small batches are written at the end of the turn, and refer to the receive buffer because a large frame is not copied."""
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC, 4)
        client = rig.client()
        first = batch(1, size=3_000)
        client.feed(frame(produce(first, partitions=4), 9))
        client.feed(frame(produce(b"\xee" * 15_000), 9))
        client.answers()
        for log in rig.logs(TOPIC):
            assert log.read(0, 1 << 20, 1).records[20:] == first[20:]


# --- limits


async def test_clients_above_max_connections_are_turned_away_and_others_stay(data_dir: Path) -> None:
    async with running_rig(data_dir, {"max.connections": "2"}) as rig:
        first, second = rig.client(), rig.client()
        third = rig.client()
        assert third.transport.aborted
        assert rig.events.names() == ["connection_refused"]
        assert first.ask(ApiVersionsRequest(), 0).error_code == 0
        second.disconnect()
        assert rig.client().ask(ApiVersionsRequest(), 0).error_code == 0


@pytest.mark.parametrize(
    ("properties", "admitted"),
    [
        ({"max.connections.per.ip": "2"}, [True, True, False]),
        (
            {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:1, ::1:5"},
            [True, False, False],
        ),
        ({"max.connections.per.ip": "1", "max.connections.per.ip.overrides": "10.0.0.1:3"}, [True, False, False]),
    ],
)
async def test_connections_from_one_address_above_their_limit_are_turned_away(
    properties: dict[str, str], admitted: list[bool], data_dir: Path
) -> None:
    async with running_rig(data_dir, properties) as rig:
        clients = [rig.client() for _ in admitted]
        assert [not client.transport.aborted for client in clients] == admitted
        clients[0].disconnect()
        assert not rig.client().transport.aborted


async def test_a_connection_that_was_silent_for_too_long_is_closed(data_dir: Path) -> None:
    async with running_rig(data_dir, {"connections.max.idle.ms": "60000"}) as rig:
        rig.topic(TOPIC)
        silent, busy, waiting = rig.client(), rig.client(), rig.client()
        waiting.feed(frame(fetch(2_000_000_000), 12))
        for number in range(7):
            busy.ask(ApiVersionsRequest(), 0, correlation=100 + number)
            rig.pass_time(10_000)
        rig.pass_time(10_000)
        assert (silent.transport.closed, busy.transport.closed, waiting.transport.closed) == (True, False, False)


async def test_a_short_idle_time_is_kept_within_a_fifth(data_dir: Path) -> None:
    async with running_rig(data_dir, {"connections.max.idle.ms": "3000"}) as rig:
        used, unused = rig.client(), rig.client()
        used.ask(ApiVersionsRequest(), 0)
        for _ in range(29):
            rig.pass_time(100)
        assert not used.transport.closed and not unused.transport.closed
        for _ in range(7):
            rig.pass_time(100)
        assert used.transport.closed and unused.transport.closed


async def test_a_closed_connection_whose_client_never_reads_is_aborted(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        client.transport.stuck = True
        client.feed(pack(">i", -1))
        assert client.transport.closed
        assert not client.transport.aborted
        rig.pass_time(10_000)
        assert client.transport.aborted


async def test_hundreds_of_malformed_requests_leak_no_memory_and_no_connection(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        bystander = Bystander(rig)

        def attack(rig_: Rig) -> None:
            client: Client = rig_.client()
            client.feed(raw_frame(header(3, 12) + b"\xff" * 2_000))
            client.disconnect()

        attack(rig)
        tracemalloc.start()
        try:
            for _ in range(300):
                attack(rig)
                rig.events.kept.clear()
            assert tracemalloc.get_traced_memory()[0] < 200_000
        finally:
            tracemalloc.stop()
        assert len(rig.broker.connections) == 1
        bystander.work()


async def test_a_frame_above_the_size_limit_is_refused_when_one_read_receives_it(data_dir: Path) -> None:
    data = frame(produce(batch(size=1_000)), 9)
    async with running_rig(data_dir, {"socket.request.max.bytes": str(len(data) - 5)}) as rig:
        client = rig.client()
        assert len(client.connection.get_buffer(-1)) >= len(data)  # One read receives the frame.
        client.feed(data)
        assert client.transport.closed
        assert "frame_refused" in rig.events.names()


async def test_requests_wait_as_long_as_the_client_does_not_read_or_the_connection_is_held(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        connection = client.connection
        for first_end, second_end in (
            (connection.release, connection.resume_writing),
            (connection.resume_writing, connection.release),
        ):
            connection.hold()
            connection.pause_writing()
            client.feed(frame(MetadataRequest(), 4))
            first_end()
            assert client.answers() == []
            second_end()
            assert len(client.answers()) == 1
