"""The source reads the same rows as Spark's own Kafka source; a query migrates by changing the name of its format."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from live_broker import START_MS, batch, make_topic
from pyspark.errors import AnalysisException
from pyspark.testing import assertDataFrameEqual

from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.pipeline.encode import encode
from stuntbroker.pipeline.writer import TransactionalWriter

if TYPE_CHECKING:
    from live_broker import LiveBroker
    from pyspark.sql import DataFrame, SparkSession

COMMITTED = {"kafka.isolation.level": "read_committed"}
ROWS = 400


@pytest.fixture(scope="module")
def topic(cluster: Cluster) -> str:
    """Create a topic of two partitions with committed and aborted transactions, and an open transaction at the end."""
    make_topic(cluster, "mixed", 2)
    writer = TransactionalWriter(cluster, "mixed-writer")
    writer.init(False)
    for number in range(3):
        keys = pa.array([None if each % 5 == 0 else b"key-%d" % each for each in range(ROWS)])
        values = pa.array([None if each % 7 == 0 else b"%d" % number + b"x" * (each % 200) for each in range(ROWS)])
        times = pa.array([START_MS + 10_000 * number + each for each in range(ROWS)])
        for partition in range(2):
            writer.produce(
                "mixed", partition, (each.data for each in encode(keys, values, times, batch_bytes_max=4_000))
            )
        writer.flush()
        writer.abort() if number == 1 else writer.commit()
    writer.produce("mixed", 0, batch("open"))
    writer.flush()
    return "mixed"


def read(spark: SparkSession, form: str, broker: LiveBroker, **options: Any) -> DataFrame:
    reader = spark.read.format(form).option("kafka.bootstrap.servers", str(broker.address))
    given = {name.replace("_", "."): str(value) for name, value in options.items()}
    return reader.options(**given).load()


def offsets(**partitions: int) -> str:
    return json.dumps({"mixed": {name.removeprefix("p"): offset for name, offset in partitions.items()}})


SAME_ROWS: dict[str, dict[str, Any]] = {
    "everything": {"subscribe": "mixed"},
    "uncommitted": {"subscribe": "mixed", "kafka.isolation.level": "read_uncommitted"},
    "offsets": {"assign": '{"mixed": [0, 1]}', "startingOffsets": offsets(p0=7, p1=-2), "endingOffsets": offsets(p0=-1, p1=300)},
    "a part of a name": {"subscribePattern": "ixe"},
    "the end of a name": {"subscribePattern": "xed$"},
    "times": {"subscribePattern": "mix.*", "startingTimestamp": START_MS + 100, "endingTimestamp": START_MS + 20_050,
              "minPartitions": 7},
}  # fmt: skip


@pytest.mark.parametrize("options", SAME_ROWS.values(), ids=SAME_ROWS.keys())
def test_rows_and_schema_are_those_of_sparks_own_source(
    spark: SparkSession, broker: LiveBroker, topic: str, options: dict[str, Any]
) -> None:
    ours = read(spark, "stuntbroker", broker, **options)
    theirs = read(spark, "kafka", broker, **(COMMITTED | options))

    assert ours.schema == theirs.schema
    expected = theirs.collect()
    assertDataFrameEqual(ours, expected)
    assert len(expected) > ROWS


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "topic": ({"subscribe": "mixed,nowhere"}, "there is no topic 'nowhere': create it, or correct the name"),
    "partition": ({"assign": '{"mixed": [0, 2]}'}, "assign names mixed-2, which is not there: topic 'mixed' has 2 partitions"),
    "broker": ({"subscribe": "mixed", "kafka.bootstrap.servers": "127.0.0.1:1", "kafkaConsumer.pollTimeoutMs": 100},
               "cannot connect to 127.0.0.1:1: .*: check that a broker runs there, .* kafkaConsumer.pollTimeoutMs"),
    "end": ({"subscribe": "mixed", "endingOffsets": offsets(p0=3, p1=10**6)},
            "endingOffsets is offset 1000000 for mixed-1, which ends at .* failOnDataLoss=false"),
    "start after the end": ({"subscribe": "mixed", "startingOffsets": offsets(p0=9, p1=0), "endingOffsets": offsets(p0=3, p1=-1)},
                            r"mixed-0 starts at offset 9 \(startingOffsets\), after its end 3 \(endingOffsets\): correct one"),
    "start after the end of the partition": ({"subscribe": "mixed", "startingOffsets": offsets(p0=0, p1=10**6)},
                                             "mixed-1 starts at offset 1000000 .startingOffsets., after its end"),
    "start after the end by time": ({"subscribe": "mixed", "startingTimestamp": START_MS + 20_000, "endingTimestamp": START_MS},
                                    "starts at offset .* .startingTimestamp., after its end 0 .endingTimestamp."),
    "option": ({"subscribe": "mixed", "startingOffset": "earliest"}, "did you mean startingOffsets?"),
}  # fmt: skip


@pytest.mark.parametrize(("options", "text"), WRONG.values(), ids=WRONG.keys())
def test_a_query_that_cannot_be_answered_says_in_one_line_what_to_do(
    spark: SparkSession, broker: LiveBroker, topic: str, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(AnalysisException) as raised:
        read(spark, "stuntbroker", broker, **options).count()

    assert [line for line in str(raised.value).splitlines() if re.search(text, line)], raised.value


def test_the_schema_is_fixed(spark: SparkSession, broker: LiveBroker, topic: str) -> None:
    reader = spark.read.format("stuntbroker").schema("value string").option("subscribe", "mixed")

    with pytest.raises(AnalysisException, match="the schema of this source is fixed"):
        reader.option("kafka.bootstrap.servers", str(broker.address)).load().count()


def test_headers_and_all_codecs_are_read_as_sparks_own_sink_wrote_them(
    spark: SparkSession, broker: LiveBroker, cluster: Cluster
) -> None:
    make_topic(cluster, "packed")
    rows = (
        spark.range(0, 300, 1, 1)
        .selectExpr(
            "if(id % 7 = 0, null, cast(id as string)) as key",
            "repeat(cast(id as string), cast(id % 50 as int)) as value",
            "array(struct('a' as key, encode(string(id), 'utf-8') as value), struct('b' as key, binary(null) as value)) as two",
        )
        .selectExpr("key", "value", "if(length(value) % 3 = 0, two, null) as headers")
    )
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        writer = rows.write.format("kafka").option("kafka.bootstrap.servers", str(broker.address))
        writer.option("topic", "packed").option("kafka.compression.type", codec).option("kafka.linger.ms", 100).save()
    expected = read(spark, "kafka", broker, subscribe="packed", includeHeaders=True).collect()

    assertDataFrameEqual(read(spark, "stuntbroker", broker, subscribe="packed", includeHeaders=True), expected)
    assert len(expected) == 5 * 300
    assert 100 < sum(row.headers is None for row in expected) < 1_400
