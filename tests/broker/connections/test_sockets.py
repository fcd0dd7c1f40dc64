"""Misbehaving clients on real sockets do not harm the other clients of a real broker process."""

from __future__ import annotations

import os
import random
import resource
import signal
import socket
import struct
from pathlib import Path
from struct import pack

from stuntbroker.protocol.messages.api_versions_request import ApiVersionsRequest
from stuntbroker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from stuntbroker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.kit.processes.process import Peer, Process, serving, until
from tests.kit.rig import frame
from tests.kit.valid_requests import TOPIC, batch

RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: closing the socket resets the connection."""


def memory(broker: Process) -> int:
    """Return the resident memory of the broker process in bytes."""
    for line in Path(f"/proc/{broker.process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    raise AssertionError("no VmRSS")


def produce(data: bytes) -> ProduceRequest:
    return ProduceRequest(None, -1, 1_000, [TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, data)])])


def work(peer: Peer) -> int:
    """Produce two records; return the offset of the first."""
    part = peer.ask(produce(batch()), 9).responses[0].partition_responses[0]
    assert part.error_code == 0
    offset: int = part.base_offset
    return offset


def make_topic(peer: Peer) -> None:
    assert peer.ask(MetadataRequest([MetadataRequestTopic(name=TOPIC)]), 9).topics[0].error_code == 0


def fetch(max_wait_ms: int) -> FetchRequest:
    topics = [FetchTopic(TOPIC, partitions=[FetchPartition(0, -1, 0, -1, -1, 10_000_000)])]
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1 << 30, max_bytes=1 << 30, topics=topics)


def test_a_thousand_pipelined_requests_are_answered_in_order() -> None:
    with serving() as broker, Peer(broker.address) as peer:
        make_topic(peer)
        peer.socket.sendall(b"".join(frame(produce(batch()), 9, correlation=number) for number in range(1_000)))
        assert [peer.receive()[:4] for _ in range(1_000)] == [pack(">i", number) for number in range(1_000)]


def test_clients_that_never_read_block_no_other_client_and_use_bounded_memory() -> None:
    with serving("--set", "stuntbroker.write.buffer.bytes=65536") as broker, Peer(broker.address) as peer:
        make_topic(peer)
        work(peer)
        before = memory(broker)
        bad = [Peer(broker.address) for _ in range(3)]
        each = frame(MetadataRequest([MetadataRequestTopic(name=TOPIC)]), 9)
        for client in bad:
            client.socket.setblocking(False)
            left = memoryview(each * 200_000)
            while left:  # Until the broker stops reading.
                try:
                    left = left[client.socket.send(left) :]
                except BlockingIOError:
                    work(peer)
                    work(peer)
                    try:
                        left = left[client.socket.send(left) :]
                    except BlockingIOError:
                        break
            assert left
        assert memory(broker) - before < 30 << 20
        assert work(peer) > 0
        for client in bad:
            client.socket.close()
        assert broker.end()[0] == 0


def test_declared_lengths_of_a_hundred_megabytes_cost_nothing() -> None:
    with serving() as broker, Peer(broker.address) as peer:
        make_topic(peer)
        before = memory(broker)
        bad = [Peer(broker.address) for _ in range(100)]
        for client in bad:
            client.socket.sendall(pack(">i", 104_857_600) + b"abc")
        work(peer)
        assert memory(broker) - before < 50 << 20
        for client in bad:
            client.socket.close()


def test_garbage_and_resets_from_many_clients_harm_no_other_client() -> None:
    chance = random.Random(1)
    with serving("--log-level", "error") as broker, Peer(broker.address) as peer:
        make_topic(peer)
        for number in range(300):
            with Peer(broker.address) as bad:
                data = chance.randbytes(chance.randrange(200))
                if number % 3:
                    data = pack(">ihhih", len(data) + 10, chance.randrange(70), chance.randrange(10), 1, -1) + data
                bad.socket.sendall(data)
                if number % 2:
                    bad.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            if number % 30 == 0:
                work(peer)
        assert work(peer) == 20
        assert broker.end() == (0, "", "")


def test_exhausted_file_descriptors_and_their_recovery_are_each_logged_once(tmp_path: Path) -> None:
    """While descriptors are exhausted, libuv resets new connections without reporting it; existing connections still work."""
    nothing_to_tidy_up = str(tmp_path)  # Otherwise a clean-up thread would close files.
    with serving("--log-level", "info", TMPDIR=nothing_to_tidy_up) as broker, Peer(broker.address) as peer:
        work_before = peer.ask(ApiVersionsRequest(), 0).error_code
        pid, kind = broker.process.pid, resource.RLIMIT_NOFILE
        allowed = resource.prlimit(pid, kind)
        # Wait for the end of a start-up thread, which opens and closes files.
        until(lambda: len(os.listdir(f"/proc/{pid}/task")) == 1, "the end of what the start does beside the loop")
        open_now = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
        first_free = min(set(range(len(open_now) + 1)) - open_now)
        assert broker.process.stderr is not None
        os.set_blocking(broker.process.stderr.fileno(), False)
        said = bytearray()

        def described(what: bytes) -> bool:
            said.extend(broker.process.stderr.read() or b"")  # type: ignore[union-attr]
            return what in said

        resource.prlimit(pid, kind, (first_free, allowed[1]))
        until(lambda: described(b"file_descriptors_exhausted"), "the line that says so")
        assert peer.ask(ApiVersionsRequest(), 0).error_code == work_before == 0
        resource.prlimit(pid, kind, allowed)
        until(lambda: described(b"file_descriptors_freed"), "the line that says that it is over")
        with Peer(broker.address) as other:
            assert other.ask(ApiVersionsRequest(), 0).error_code == 0
        assert said.count(b"file_descriptors") == 2


def test_a_shutdown_does_not_wait_for_waiting_requests() -> None:
    with serving() as broker, Peer(broker.address) as peer, Peer(broker.address) as half:
        make_topic(peer)
        peer.send(fetch(2_000_000_000), 12)
        half.socket.sendall(frame(ApiVersionsRequest(), 0)[:-1])
        assert broker.end(signal.SIGTERM)[0] == 0


def test_a_client_that_disconnects_while_it_waits_frees_its_connection_slot() -> None:
    with serving("--set", "max.connections=2") as broker, Peer(broker.address) as peer:
        make_topic(peer)
        with Peer(broker.address) as waiting:
            waiting.send(fetch(2_000_000_000), 12)

        def back() -> bool:
            try:
                with Peer(broker.address) as other:
                    return bool(other.ask(ApiVersionsRequest(), 0).api_keys)
            except ConnectionError:
                return False

        until(back, "the place of the one that left")
