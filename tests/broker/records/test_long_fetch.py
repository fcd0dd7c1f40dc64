"""A Fetch of very many partitions is read in slices; between them, partitions may grow and the client may disconnect."""

from __future__ import annotations

import pytest

from stuntbroker.broker.handlers.k01_fetch import PARTITIONS_AT_ONCE
from stuntbroker.protocol.messages.fetch_request import FetchPartition, FetchTopic
from tests.kit.produce_and_fetch import GOOD, fetch, produce
from tests.kit.rig import Client, Rig, decode, frame, running_rig, turn

COUNT = 3 * PARTITIONS_AT_ONCE
TOPIC = "many"
MAX_WAIT_MS = 500
TURNS_MAX = 20
"""Turns of the event loop that are enough to read everything several times."""


def feed_fetch(client: Client, min_bytes: int) -> None:
    partitions = [FetchPartition(index, -1, 0, -1, -1, 1_000_000) for index in range(COUNT)]
    topics = [FetchTopic(TOPIC, partitions=partitions)]
    client.feed(frame(fetch(min_bytes=min_bytes, max_wait_ms=MAX_WAIT_MS, topics=topics), 12))


def write(rig: Rig, index: int) -> None:
    request = produce(GOOD)
    (topic,) = request.topic_data
    topic.name, topic.partition_data[0].index = TOPIC, index
    (written,) = rig.client().ask(request, 9).responses[0].partition_responses
    assert not written.error_code


async def read_partitions(client: Client) -> list[int]:
    """Return the partitions with records in the response, none if there is no response."""
    for _ in range(TURNS_MAX):
        await turn()
    answers = client.answers()
    return [
        part.partition_index
        for answer in answers
        for topic in decode(answer, 1, 12).responses
        for part in topic.partitions
        if part.records
    ]


def waiters(rig: Rig) -> int:
    return sum(len(log.waiters) for log in rig.logs(TOPIC))


@pytest.mark.parametrize("index", [0, COUNT - 1], ids=["read before", "read after"])
async def test_a_fetch_returns_a_record_appended_between_two_slices(index: int) -> None:
    async with running_rig() as rig:
        rig.topic(TOPIC, partitions=COUNT)
        reader = rig.client()
        feed_fetch(reader, min_bytes=1)
        write(rig, index)
        assert await read_partitions(reader) == [index]
        assert waiters(rig) == 0


async def test_records_appended_between_slices_and_during_the_wait_count_towards_min_bytes() -> None:
    async with running_rig() as rig:
        rig.topic(TOPIC, partitions=COUNT)
        reader = rig.client()
        feed_fetch(reader, min_bytes=2 * len(GOOD))
        write(rig, 0)
        assert await read_partitions(reader) == []
        write(rig, 1)
        assert await read_partitions(reader) == [0, 1]
        assert waiters(rig) == 0


async def test_a_wait_that_ends_between_two_slices_is_answered() -> None:
    async with running_rig() as rig:
        rig.topic(TOPIC, partitions=COUNT)
        reader = rig.client()
        write(rig, 0)
        feed_fetch(reader, min_bytes=2 * len(GOOD))
        rig.pass_time(MAX_WAIT_MS)
        assert await read_partitions(reader) == [0]
        assert waiters(rig) == 0


async def test_a_client_that_disconnects_between_two_slices_leaves_nothing_behind() -> None:
    async with running_rig() as rig:
        rig.topic(TOPIC, partitions=COUNT)
        reader = rig.client()
        feed_fetch(reader, min_bytes=1)
        assert waiters(rig) > 0
        reader.connection.connection_lost(None)
        write(rig, 0)
        assert await read_partitions(reader) == []
        assert (waiters(rig), len(rig.broker.long_requests)) == (0, 0)
