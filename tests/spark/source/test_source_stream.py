"""The source as a stream reads each row once, across restarts, limits, new partitions and deleted records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from live_broker import batch, make_topic, rows
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import _parse_datatype_string
from source_query import Query, produce

from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.fetching import TopicPartition, end_offset
from stuntbroker.client.errors import NotFound
from stuntbroker.pipeline.spark import source
from stuntbroker.pipeline.spark.data_source import StuntbrokerDataSource
from stuntbroker.pipeline.spark.offsets import DataLoss
from stuntbroker.pipeline.spark.progress import offsets_behind_latest
from stuntbroker.pipeline.spark.source import StreamReader
from stuntbroker.pipeline.writer import TransactionalWriter
from stuntbroker.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from stuntbroker.protocol.messages.create_partitions_response import CreatePartitionsResponse
from stuntbroker.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from stuntbroker.protocol.messages.delete_topics_response import DeleteTopicsResponse
from stuntbroker.protocol.request_values import READ_UNCOMMITTED

if TYPE_CHECKING:
    from live_broker import LiveBroker
    from pyspark.sql import SparkSession

CREATE_PARTITIONS, DELETE_TOPICS = 37, 20


def add_partition(cluster: Cluster, topic: str, count: int) -> None:
    request = CreatePartitionsRequest([CreatePartitionsTopic(topic, count, None)], 30_000)
    answer = cluster.ask(cluster.controller_id(), CREATE_PARTITIONS, request, CreatePartitionsResponse)
    assert answer.results[0].error_code == 0, answer.results[0].error_message


def delete_topic(cluster: Cluster, topic: str) -> None:
    request = DeleteTopicsRequest([DeleteTopicState(topic)], [topic], 30_000)
    answer = cluster.ask(cluster.controller_id(), DELETE_TOPICS, request, DeleteTopicsResponse)
    assert answer.responses[0].error_code == 0


def test_every_row_once_over_limits_restarts_and_new_partitions(
    spark: SparkSession, broker: LiveBroker, cluster: Cluster, tmp_path: Path
) -> None:
    make_topic(cluster, "limited", 2)
    large, small = rows("large", 30), rows("small", 9)
    produce(cluster, "limited", 0, *large)
    produce(cluster, "limited", 0, *rows("aborted", 10), commit=False)
    produce(cluster, "limited", 1, *small)
    query = Query(spark, str(broker.address), tmp_path, subscribe="limited", maxOffsetsPerTrigger=20)
    query.run()

    assert query.values == sorted([*large, *small])
    assert len(query.batches) == 3  # There are 52 offsets, including those of markers and aborted records.
    assert {value[:5] for value in query.batches[0]} == {"large", "small"}

    add_partition(cluster, "limited", 3)
    produce(cluster, "limited", 2, "new")
    produce(cluster, "limited", 1, "later")
    query.run()

    assert query.values == sorted([*large, *small, "new", "later"])
    assert json.loads(query.progress[-1].sources[0].endOffset)["limited"] == {"0": 42, "1": 12, "2": 2}


def test_offsets_behind_the_latest_are_those_of_sparks_own_source(
    spark: SparkSession, broker: LiveBroker, cluster: Cluster, tmp_path: Path
) -> None:
    make_topic(cluster, "behind", 2)
    produce(cluster, "behind", 0, *rows("large", 20))
    produce(cluster, "behind", 1, *rows("small", 5))
    actual = {}
    for form in ("stuntbroker", "kafka"):
        query = Query(spark, str(broker.address), tmp_path / form, subscribe="behind", maxOffsetsPerTrigger=9)
        query.form = form
        query.run()
        actual[form] = [each.sources[0] for each in query.progress]

    ours, theirs = (
        [offsets_behind_latest(each) for each in actual["stuntbroker"]],
        [each.metrics for each in actual["kafka"]],
    )
    assert ours == theirs
    assert len(ours) > 1 and ours[-1]["maxOffsetsBehindLatest"] == "0"


def test_a_query_of_sparks_own_source_continues_from_its_checkpoint(
    spark: SparkSession, broker: LiveBroker, cluster: Cluster, tmp_path: Path
) -> None:
    make_topic(cluster, "moved")
    produce(cluster, "moved", 0, "first")
    query = Query(spark, str(broker.address), tmp_path, subscribe="moved", kafka_isolation_level="read_committed")
    query.form = "kafka"
    query.run()
    produce(cluster, "moved", 0, "second")
    query.form = "stuntbroker"
    query.run()

    assert list(query.batches.values()) == [["first"], ["second"]]


def test_a_stream_keeps_its_latest_start_offset_when_it_fails_before_its_first_commit(
    spark: SparkSession, broker: LiveBroker, cluster: Cluster, tmp_path: Path
) -> None:
    make_topic(cluster, "failing")
    produce(cluster, "failing", 0, "before")
    query = Query(spark, str(broker.address), tmp_path, subscribe="failing", startingOffsets="latest")

    def fail(batch_id: int) -> None:
        produce(cluster, "failing", 0, "while it failed")
        raise RuntimeError("on purpose")

    with pytest.raises(StreamingQueryException, match="on purpose"):
        query.run(fail)
    query.run()

    assert query.values == ["while it failed"]


def test_deleted_data_is_an_error_unless_fail_on_data_loss_is_false(
    spark: SparkSession, broker: LiveBroker, cluster: Cluster, tmp_path: Path
) -> None:
    for topic in ("kept", "deleted"):
        make_topic(cluster, f"loss-{topic}")
        produce(cluster, f"loss-{topic}", 0, topic)
    query = Query(spark, str(broker.address), tmp_path, subscribePattern="loss-.*")
    query.run()
    delete_topic(cluster, "loss-deleted")
    produce(cluster, "loss-kept", 0, "more")

    with pytest.raises(
        StreamingQueryException, match=r"loss-deleted-0, read up to offset 2, does not exist.*failOnDataLoss"
    ):
        query.run()
    query = Query(spark, str(broker.address), tmp_path, subscribe="loss-kept,loss-deleted", failOnDataLoss=False)
    query.run()

    assert query.values == ["more"]


@pytest.mark.parametrize("starts_anew", [True, False])
def test_what_is_available_now_includes_partitions_that_are_missing_for_a_moment(
    starts_anew: bool, broker: LiveBroker, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that has just started may not list all partitions yet. Spark requests the end offsets before the start."""
    topic = f"late-{starts_anew}"
    make_topic(cluster, topic, 2)
    for index in range(2):
        produce(cluster, topic, index, *rows("now", 3))
    there = StreamReader._partitions
    answers = [slice(0), slice(2), slice(1), slice(2)] if starts_anew else [slice(1), slice(1), slice(2)]

    def known(reader: StreamReader, cluster: Cluster, all_of_them: bool) -> list[TopicPartition]:
        return there(reader, cluster, all_of_them)[answers.pop(0)]

    monkeypatch.setattr(StreamReader, "_partitions", known)
    monkeypatch.setattr(Cluster, "pause", lambda *_: None)
    given = {"kafka.bootstrap.servers": str(broker.address), "subscribe": topic, "startingOffsets": "earliest"}
    reader = StreamReader(given, _parse_datatype_string(StuntbrokerDataSource({}).schema()))
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset() if starts_anew else {topic: {"0": 4, "1": 2}}
    target = reader.latestOffset(start, ReadAllAvailable())
    produce(cluster, topic, 1, "later")

    assert target == {topic: {"0": 4, "1": 4}}
    assert reader.latestOffset(target, ReadAllAvailable()) == target
    assert answers == []
    reader.stop()


@pytest.mark.parametrize(("start", "is_lost"), [(4, False), (8, False), (9, True)])
def test_what_is_available_now_begins_at_a_given_offset_only_if_the_partition_has_it(
    start: int, is_lost: bool, broker: LiveBroker, cluster: Cluster
) -> None:
    """Spark requests the end offsets before the start offsets, so records may be written in between."""
    topic = f"begins-at-{start}"
    make_topic(cluster, topic)
    produce(cluster, topic, 0, *rows("before", 3))  # This writes a marker too.
    given = {
        "kafka.bootstrap.servers": str(broker.address), "subscribe": topic,
        "startingOffsets": json.dumps({topic: {"0": start}}),
    }  # fmt: skip
    reader = StreamReader(given, _parse_datatype_string(StuntbrokerDataSource({}).schema()))
    reader.prepareForTriggerAvailableNow()
    produce(cluster, topic, 0, *rows("after", 3))
    begin = reader.initialOffset()
    if is_lost:
        with pytest.raises(DataLoss, match="begins-at-9-0"):
            reader.latestOffset(begin, ReadAllAvailable())
    else:
        assert reader.latestOffset(begin, ReadAllAvailable()) == {topic: {"0": start}}
    reader.stop()


def test_brokers_that_do_not_agree_on_a_topic_for_a_moment_are_asked_again(
    broker: LiveBroker, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One broker lists the topic's partitions, and another broker does not know them yet."""
    make_topic(cluster, "disputed")
    listed, faults = source.list_offsets, [NotFound("there is no partition disputed-0")] * 2

    def list_offsets(*given: Any) -> Any:
        if faults:
            raise faults.pop()
        return listed(*given)

    monkeypatch.setattr(source, "list_offsets", list_offsets)
    monkeypatch.setattr(Cluster, "pause", lambda *_: None)
    given = {"kafka.bootstrap.servers": str(broker.address), "subscribe": "disputed"}
    reader = StreamReader(given, _parse_datatype_string(StuntbrokerDataSource({}).schema()))
    assert reader.latestOffset({"disputed": {"0": 0}}, ReadAllAvailable()) == {"disputed": {"0": 0}}
    reader.stop()


def test_a_batch_waits_for_enough_rows_but_not_the_first_nor_longer_than_the_delay(
    spark: SparkSession, broker: LiveBroker, cluster: Cluster, tmp_path: Path
) -> None:
    make_topic(cluster, "few")
    produce(cluster, "few", 0, "first")
    query = Query(spark, str(broker.address), tmp_path, subscribe="few", minOffsetsPerTrigger=4, maxTriggerDelay="1h")
    seen: list[int] = []

    running = query.load().writeStream.foreachBatch(lambda frame, batch_id: seen.append(frame.count())).start()
    try:
        running.processAllAvailable()
        assert seen == [1]
        produce(cluster, "few", 0, "second")  # The record and its marker take two offsets.
        running.processAllAvailable()
        assert seen == [1]
        produce(cluster, "few", 0, "third", "fourth")
        running.processAllAvailable()
        assert seen == [1, 3]
    finally:
        running.stop()


def test_a_stream_that_stopped_behind_an_open_transaction_waits_for_it(
    spark: SparkSession, broker: LiveBroker, cluster: Cluster
) -> None:
    """A stream that read uncommitted records with Spark's own source may have such offsets; no data is lost there."""
    make_topic(cluster, "held")
    produce(cluster, "held", 0, "before")
    with broker.cluster() as own:
        writer = TransactionalWriter(own, "held")
        writer.init()
        writer.produce("held", 0, batch("open", "too"))
        writer.flush()
        given = {"kafka.bootstrap.servers": str(broker.address), "subscribe": "held", "startingOffsets": "earliest"}
        reader = StreamReader(given, _parse_datatype_string(StuntbrokerDataSource({}).schema()))
        stable, written = end_offset(cluster, "held", 0), end_offset(cluster, "held", 0, READ_UNCOMMITTED)
        assert (stable, written) == (2, 4)
        assert reader.latestOffset({"held": {"0": written}}, ReadAllAvailable()) == {"held": {"0": written}}
        with pytest.raises(DataLoss, match="ends at 2 now"):
            reader.latestOffset({"held": {"0": written + 1}}, ReadAllAvailable())
        writer.commit()
        assert reader.latestOffset({"held": {"0": written}}, ReadAllAvailable()) == {"held": {"0": written + 1}}
        reader.stop()
