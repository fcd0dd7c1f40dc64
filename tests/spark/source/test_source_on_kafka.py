"""The source reads the same rows from Apache Kafka as Spark's own source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from live_broker import make_topic, rows
from pyspark.testing import assertDataFrameEqual
from source_query import Query, produce

from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.protocol.addresses import parse_bootstrap
from tests.kit.brokers.kafka_broker import apache_kafka

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with apache_kafka(tmp_path_factory.mktemp("kafka")) as bootstrap:
        yield bootstrap


@pytest.fixture(scope="module")
def cluster(kafka: str) -> Iterator[Cluster]:
    """Yield a cluster with a topic of committed and aborted transactions in two partitions."""
    with Cluster(parse_bootstrap(kafka)) as created:
        make_topic(created, "seen", 2)
        for number in range(6):
            produce(created, "seen", number % 2, *rows(f"{number}", 40), commit=number not in (2, 3))
        yield created


def committed() -> list[str]:
    return sorted(each for number in (0, 1, 4, 5) for each in rows(f"{number}", 40))


def test_rows_are_those_of_sparks_own_source(spark: SparkSession, kafka: str, cluster: Cluster) -> None:
    def read(form: str) -> DataFrame:
        reader = spark.read.format(form).option("kafka.bootstrap.servers", kafka).option("subscribe", "seen")
        return reader.option("minPartitions", 5).option("kafka.isolation.level", "read_committed").load()

    expected = read("kafka").collect()
    assertDataFrameEqual(read("stuntbroker"), expected)
    assert sorted(bytes(row.value).decode() for row in expected) == committed()


def test_a_stream_in_small_batches_gives_every_committed_row_once(
    spark: SparkSession, kafka: str, cluster: Cluster, tmp_path: Path
) -> None:
    query = Query(spark, kafka, tmp_path, subscribe="seen", maxOffsetsPerTrigger=100)
    query.run()
    produce(cluster, "seen", 0, "later")
    query.run()

    assert query.values == sorted([*committed(), "later"])
    assert [len(values) for values in query.batches.values()][-1] == 1
