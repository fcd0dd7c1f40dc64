"""Ranges of a partition, fetched from a broker that runs: whole, in pieces, over restarts, and where records are gone."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from live_broker import START_MS, LiveBroker, make_topic

from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.connection import Deadline, Pending
from stuntbroker.client.commands.fetching import FetchSizes, PartitionFetch, TopicPartition, find_topics, list_offsets
from stuntbroker.client.commands.reader import read_partition
from stuntbroker.client.errors import BrokerError, NotFound, TimedOut
from stuntbroker.pipeline.decode import find_batches
from stuntbroker.pipeline.encode import encode
from stuntbroker.pipeline.fetch_arrow import Wanted, fetch_range
from stuntbroker.pipeline.writer import TransactionalWriter
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from stuntbroker.protocol.messages.delete_records_response import DeleteRecordsResponse
from stuntbroker.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from stuntbroker.protocol.messages.delete_topics_response import DeleteTopicsResponse
from stuntbroker.protocol.request_values import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED

DELETE_TOPICS, DELETE_RECORDS = 20, 21
MIXED = TopicPartition("mixed", 0)
SMALL = FetchSizes(1 << 20, 3_000)
"""Small limits, so that a range takes many responses."""
Row = tuple[int, int, bytes | None, bytes | None]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveBroker]:
    with LiveBroker(tmp_path_factory.mktemp("fetched")) as created:
        yield created


@pytest.fixture(scope="module")
def cluster(broker: LiveBroker) -> Iterator[Cluster]:
    """A cluster with committed and aborted transactions of three producers, and one open transaction."""
    with broker.cluster() as created:
        make_topic(created, "mixed")
        chance = random.Random(5)
        writers = [TransactionalWriter(created, f"mixed-{number}") for number in range(3)]
        for writer in writers:
            writer.init(False)
        running = dict.fromkeys(range(3), 0)
        for number in range(120):
            which = chance.randrange(3)
            count = chance.randrange(1, 60)
            values = pa.array([b"%d/%d" % (number, each) + b"x" * chance.randrange(80) for each in range(count)])
            for each in encode(None, values, START_MS + number):
                writers[which].produce("mixed", 0, [each.data])
                writers[which].flush()
            running[which] += 1
            if running[which] == 3:
                running[which] = 0
                writers[which].abort() if chance.random() < 0.35 else writers[which].commit()
        for which in range(3):
            writers[which].commit()
        writers[0].produce("mixed", 0, [next(encode(None, pa.array([b"open"]), START_MS)).data])
        writers[0].flush()
        yield created


def never(what: str) -> None:
    raise AssertionError(what)


def fetched(
    cluster: Cluster,
    where: TopicPartition,
    start: int,
    end: int,
    isolation: int = READ_COMMITTED,
    lost: object = never,
) -> list[Row]:
    wanted = Wanted(where, start, end, isolation, SMALL, False, 2.0)
    actual: list[Row] = []
    for each in fetch_range(cluster, wanted, lost):  # type: ignore[arg-type]
        columns = (each.offset.tolist(), each.timestamp_ms.tolist(), each.key.to_pylist(), each.value.to_pylist())
        actual += zip(*columns, strict=True)
    return actual


def offset_of(cluster: Cluster, where: TopicPartition, which: int, isolation: int = READ_COMMITTED) -> int:
    return list_offsets(cluster, {where: which}, isolation)[where]


@pytest.mark.parametrize("isolation", [READ_COMMITTED, READ_UNCOMMITTED])
@pytest.mark.parametrize("pieces", [1, 2, 17])
def test_pieces_together_are_the_records_that_a_consumer_gets(cluster: Cluster, isolation: int, pieces: int) -> None:
    """A piece may start in the middle of a batch or of an aborted transaction."""
    expected = [tuple(row)[:4] for row in read_partition(cluster, "mixed", 0, isolation)]
    end = offset_of(cluster, MIXED, LATEST, isolation)
    bounds = [0, *sorted(random.Random(pieces).sample(range(1, end), pieces - 1)), end]

    actual = [
        row for start, stop in itertools.pairwise(bounds) for row in fetched(cluster, MIXED, start, stop, isolation)
    ]

    assert actual == expected
    assert len(actual) > 1_000


def test_offsets_are_listed_for_all_partitions_at_once(cluster: Cluster) -> None:
    make_topic(cluster, "three", 3)
    writer = TransactionalWriter(cluster, "three")
    writer.init(False)
    for partition in range(3):
        times = pa.array([START_MS + 10 * each for each in range(partition + 1)])
        writer.produce(
            "three", partition, (each.data for each in encode(None, pa.array([b"v"] * (partition + 1)), times))
        )
    writer.commit()
    partitions = find_topics(cluster, ["three", "nowhere"])["three"].partitions

    def listed(which: int) -> list[int]:
        return list(list_offsets(cluster, dict.fromkeys(partitions, which), READ_COMMITTED).values())

    assert listed(EARLIEST) == [0, 0, 0]
    assert listed(LATEST) == [2, 3, 4]
    assert listed(START_MS + 5) == [1, 1, 1]  # In the first partition, offset 1 is the marker.
    assert listed(2**60) == [-1, -1, -1]
    assert find_topics(cluster, None)["__transaction_state"].is_internal
    with pytest.raises(NotFound, match="three-3"):
        list_offsets(cluster, {TopicPartition("three", 3): LATEST}, READ_COMMITTED)


def produced(cluster: Cluster, topic: str, count: int) -> TopicPartition:
    """Create a topic with `count` batches of one record each."""
    make_topic(cluster, topic)
    writer = TransactionalWriter(cluster, topic)
    writer.init(False)
    for each in range(count):
        writer.produce(topic, 0, (batch.data for batch in encode(None, pa.array([b"%d" % each]), START_MS)))
    writer.commit()
    return TopicPartition(topic, 0)


def test_records_that_were_deleted_are_reported_and_the_rest_is_read(cluster: Cluster) -> None:
    where = produced(cluster, "shortened", 10)
    request = DeleteRecordsRequest([DeleteRecordsTopic(where.topic, [DeleteRecordsPartition(0, 6)])], 30_000)
    answer = cluster.ask(cluster.leader(*where), DELETE_RECORDS, request, DeleteRecordsResponse)
    assert answer.topics[0].partitions[0].error_code == 0
    said: list[str] = []

    assert [row[0] for row in fetched(cluster, where, 2, 9, lost=said.append)] == [6, 7, 8]
    assert said == ["partition shortened-0 begins at offset 6, offsets 2 to 5 are lost"]
    assert fetched(cluster, where, 2, 5, lost=said.append) == []
    assert said[1:] == ["partition shortened-0 begins at offset 6, offsets 2 to 4 are lost"]
    assert fetched(cluster, where, 90, 95, lost=said.append) == []
    assert said[2:] == ["partition shortened-0 ends before offset 90, offsets 90 to 94 are lost"]


def test_a_topic_that_is_deleted_while_it_is_read_is_reported(cluster: Cluster) -> None:
    where = produced(cluster, "deleted", 300)
    said: list[str] = []
    actual: list[int] = []
    for each in fetch_range(cluster, Wanted(where, 0, 300, READ_COMMITTED, SMALL, False, 2.0), said.append):
        if not actual:
            request = DeleteTopicsRequest([DeleteTopicState(where.topic)], [where.topic], 30_000)
            answer = cluster.ask(cluster.controller_id(), DELETE_TOPICS, request, DeleteTopicsResponse)
            assert answer.responses[0].error_code == 0
        actual += each.offset.tolist()

    assert actual == list(range(len(actual)))
    assert said == [f"partition deleted-0 does not exist any more, offsets {len(actual)} to 299 are lost"]


def test_a_partition_that_is_missing_for_a_moment_is_not_lost(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first request reaches a broker whose metadata does not have the partition yet."""
    where, take, faults = produced(cluster, "moment", 10), PartitionFetch.take, [NotFound("no such partition")]

    def missing_at_first(fetch: PartitionFetch, offset: int, bytes_max: int) -> object:
        if faults:
            raise faults.pop()
        return take(fetch, offset, bytes_max)

    monkeypatch.setattr(PartitionFetch, "take", missing_at_first)
    assert len(fetched(cluster, where, 0, 10)) == 10


def test_a_prefetched_response_is_not_used_for_another_offset(cluster: Cluster) -> None:
    where = produced(cluster, "ahead", 5)
    fetch = PartitionFetch(cluster, where, READ_COMMITTED, SMALL)
    fetch.prefetch(3, 1)

    assert [find_batches(fetch.take(offset, 1).records or b"").next_offset for offset in (0, 1)] == [1, 2]


def test_a_fetch_without_records_times_out(cluster: Cluster) -> None:
    """The wanted end is above the last stable offset, so records never arrive."""
    end = offset_of(cluster, MIXED, LATEST)
    wanted = Wanted(MIXED, end, end + 1, READ_COMMITTED, SMALL._replace(wait_ms_max=10), False, 0.05)

    with pytest.raises(TimedOut, match=f"mixed-0: no records from offset {end}"):
        list(fetch_range(cluster, wanted, never))


def test_an_error_that_is_no_data_loss_is_raised(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(fetch: PartitionFetch, offset: int, bytes_max: int) -> None:
        raise BrokerError("Fetch", ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    monkeypatch.setattr(PartitionFetch, "take", refused)
    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
        fetched(cluster, MIXED, 0, 5)


def test_a_range_is_read_to_its_end_over_a_broker_restart(tmp_path: Path) -> None:
    with LiveBroker(tmp_path) as own, own.cluster() as cluster:
        where = produced(cluster, "interrupted", 300)
        actual: list[int] = []
        for each in fetch_range(cluster, Wanted(where, 0, 300, READ_COMMITTED, SMALL, False, 30.0), never):
            if not actual:
                own.kill()
                own.start()
            actual += each.offset.tolist()

    assert actual == list(range(300))


def test_a_fetch_waits_no_longer_than_the_time_out_of_its_cluster(
    monkeypatch: pytest.MonkeyPatch, cluster: Cluster
) -> None:
    fetch = PartitionFetch(cluster, produced(cluster, "waited-for", 1), READ_COMMITTED, SMALL)
    result, waits_s = Pending.result, list[float]()

    def recorded(pending: Pending[Any], deadline: Deadline) -> Any:
        if pending.name == "Fetch":
            waits_s.append(deadline.left_s())
        return result(pending, deadline)

    monkeypatch.setattr(Pending, "result", recorded)
    monkeypatch.setattr(cluster, "_timeout_s", 5.0)
    assert fetch.take(0, 1_000).records
    assert 0 < waits_s[0] <= 5.0
