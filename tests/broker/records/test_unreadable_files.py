"""After a disk error while records are read, the request gets an error or its connection is closed; the broker keeps running."""

from __future__ import annotations

import errno

from stuntbroker.protocol.batches.records import build_batch
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.fetch_request import FetchPartition, FetchTopic
from stuntbroker.protocol.primitives import Buffer
from stuntbroker.storage.memory_disk import MemoryDisk
from tests.kit.produce_and_fetch import GOOD, fetch, produce
from tests.kit.rig import START_MS, Client, decode, frame, running_rig, turn
from tests.kit.valid_requests import TOPIC


class FailingDisk(MemoryDisk):
    """A disk whose reads fail with `fault`, if it is set."""

    fault: Exception | None = None

    def read(self, fd: int, size: int, position: int) -> bytes:
        if self.fault is not None:
            raise self.fault
        return super().read(fd, size, position)

    def map(self, fd: int, size: int, position: int) -> Buffer:
        return self.read(fd, size, position)


EIO = OSError(errno.EIO, "Input/output error")


def write(client: Client, data: bytes = GOOD) -> None:
    assert client.ask(produce(data), 9).responses[0].partition_responses[0].error_code == 0


async def test_a_partition_that_cannot_be_read_has_an_error_and_the_others_their_records() -> None:
    disk = FailingDisk()
    async with running_rig(disk=disk) as rig:
        rig.topic(TOPIC, 2)
        client = rig.client()
        write(client)
        disk.fault = EIO
        wanted = [FetchPartition(index, -1, 0, -1, -1, 1_000_000) for index in range(2)]
        answer = client.ask(fetch(topics=[FetchTopic(TOPIC, partitions=wanted)]), 12)
        errors = [(part.partition_index, part.error_code) for part in answer.responses[0].partitions]
        assert errors == [(0, ErrorCode.KAFKA_STORAGE_ERROR), (1, ErrorCode.NONE)]
        disk.fault = None
        assert client.ask(fetch(), 12).responses[0].partitions[0].records == GOOD


async def test_a_fetch_that_waits_is_answered_when_its_records_cannot_be_read() -> None:
    disk = FailingDisk()
    async with running_rig(disk=disk) as rig:
        rig.topic(TOPIC)
        reader = rig.client()
        reader.feed(frame(fetch(), 12))
        await turn()
        assert not reader.answers()
        disk.fault = EIO
        write(rig.client())
        await turn()
        (answer,) = reader.answers()
        assert decode(answer, 1, 12).responses[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_fetch_that_waits_and_fails_unexpectedly_closes_its_connection() -> None:
    disk = FailingDisk()
    async with running_rig(disk=disk) as rig:
        rig.topic(TOPIC)
        reader = rig.client()
        reader.feed(frame(fetch(), 12))
        disk.fault = ValueError("a mistake of ours")
        write(rig.client())
        await turn()
        assert reader.transport.is_closing()
        assert rig.events.names().count("request_crashed") == 1
        rig.events.kept.clear()


async def test_a_failed_compaction_is_repeated_after_the_back_off() -> None:
    disk = FailingDisk()
    async with running_rig(disk=disk, properties={"log.cleaner.backoff.ms": "1000"}) as rig:
        rig.topic(TOPIC, cleanup_policy="compact", segment_bytes="1048576", min_cleanable_dirty_ratio="0.01")
        client = rig.client()
        for _ in range(3):
            write(client, bytes(build_batch([(b"k", bytes(600_000))], START_MS)))
        before = rig.log(TOPIC, 0).size

        async def clean() -> None:
            for _ in range(3):
                rig.pass_time(1_000)
                await turn(20)

        disk.fault = ValueError("a mistake of ours")
        await clean()
        assert rig.events.names().count("timer_failed") > 0
        assert rig.log(TOPIC, 0).size == before
        rig.events.kept.clear()
        disk.fault = None
        await clean()
        assert rig.log(TOPIC, 0).size < before
