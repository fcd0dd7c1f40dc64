"""Which rows and schemas the sink accepts, and its errors for the others. These tests need no Spark session."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from stuntbroker.pipeline.decision_stores import DecisionsPlace
from stuntbroker.pipeline.spark import rows as module
from stuntbroker.pipeline.spark.rows import BadRows, check_schema, pieces
from stuntbroker.pipeline.spark.sink_options import BadOption, SinkOptions, sink_options
from stuntbroker.protocol.batches.records import HEADER_SIZE, read_header, read_records

NEEDED = {"kafka.bootstrap.servers": "localhost:9092", "sinkId": "orders"}


def test_options_have_defaults_and_are_case_insensitive() -> None:
    assert sink_options({name.upper(): value for name, value in NEEDED.items()}, stream=True) == SinkOptions(
        "localhost:9092",
        None,
        "orders",
        True,
        DecisionsPlace("kafka", "stuntbroker-decisions"),
        "none",
        60_000,
        120_000,
    )
    given = NEEDED | {
        "topic": "t", "mode": "Single", "decisions": "kafka:d", "kafka.compression.type": "ZSTD", "queryName": "q",
        "kafka.transaction.timeout.ms": "5", "kafka.delivery.timeout.ms": "7", "checkpointLocation": "/c",
    }  # fmt: skip
    place = DecisionsPlace("kafka", "d")
    expected = SinkOptions("localhost:9092", "t", "orders-jobs", False, place, "zstd", 5, 7)
    assert sink_options(given, stream=False) == expected


@pytest.mark.parametrize("more", [
    {"kafka.acks": "all"}, {"kafka.acks": "-1"}, {"kafka.linger.ms": "100"}, {"kafka.security.protocol": "PLAINTEXT"},
])  # fmt: skip
def test_options_of_a_producer_that_ask_for_what_the_sink_does_anyway_are_accepted(more: dict[str, str]) -> None:
    assert sink_options(NEEDED | more, stream=True) == sink_options(NEEDED, stream=True)


WRONG_OPTIONS = {
    "unknown, with a near one": ({"sink_id": "x"}, "has no option 'sink_id': did you mean sinkId?"),
    "unknown": ({"zzz": "x"}, "has no option 'zzz': there are kafka.bootstrap.servers, topic"),
    "of a producer": ({"kafka.enable.idempotence": "true"}, "the sink always writes idempotently with acks=all"),
    "acks of the leader": (
        {"kafka.acks": "1"},
        "option kafka.acks='1': a transaction can only be committed when all in-sync",
    ),
    "a protocol": (
        {"kafka.security.protocol": "TLS"},
        "option kafka.security.protocol=TLS: it must be one of PLAINTEXT",
    ),
    "a mechanism": ({"kafka.sasl.mechanism": "PLAIN"}, "option kafka.sasl.mechanism has no effect without TLS or SASL"),
    "of Kafka's client": ({"kafka.compression": "x"}, "did you mean kafka.compression.type?"),
    "no sink": ({"sinkId": ""}, "option sinkId is missing: give a name that no other query has"),
    "a sink that is no name": ({"sinkId": "a/b"}, "option sinkId: sink id 'a/b': it must be 1 to 180 of letters"),
    "a sink too long": ({"sinkId": "a" * 176}, "it must be 1 to 180"),
    "a sink like those of jobs": ({"sinkId": "a-jobs"}, "names that end in '-jobs' are those of batch writes"),
    "no brokers": ({"kafka.bootstrap.servers": ""}, "option kafka.bootstrap.servers is missing: HOST:PORT"),
    "wrong brokers": ({"kafka.bootstrap.servers": "a"}, "option kafka.bootstrap.servers: 'a' is not HOST:PORT"),
    "a mode": ({"mode": "3pc"}, "option mode='3pc': it must be 2pc or single"),
    "decisions": ({"decisions": "s3:x"}, "option decisions='s3:x': it must be kafka:TOPIC or dir:PATH"),
    "decisions of one transaction": (
        {"mode": "single", "decisions": "dir:/x"},
        "with mode=single it must be kafka:TOPIC",
    ),
    "a codec": ({"kafka.compression.type": "rar"}, "it must be one of none, gzip, snappy, lz4, zstd"),
    "a time": ({"kafka.transaction.timeout.ms": "1s"}, "option kafka.transaction.timeout.ms='1s': it must be a number"),
    "a version alone": ({"writeVersion": "1"}, "options writeId and writeVersion belong together"),
    "a write alone": ({"writeId": "w"}, "options writeId and writeVersion belong together"),
    "a write that is no name": (
        {"writeId": "a/b", "writeVersion": "1"},
        "option writeId='a/b': it must be 1 to 180 of",
    ),
    "a version that is no number": (
        {"writeId": "w", "writeVersion": "-1"},
        "option writeVersion='-1': it must be a whole",
    ),
    "no time": ({"kafka.delivery.timeout.ms": "0"}, "1 to 2147483647"),
}


@pytest.mark.parametrize("case", WRONG_OPTIONS)
def test_a_wrong_option_is_named(case: str) -> None:
    given, words = WRONG_OPTIONS[case]
    with pytest.raises(BadOption) as caught:
        sink_options(NEEDED | given, stream=False)
    assert words in str(caught.value)


def test_write_id_and_write_version_are_rejected_for_a_stream() -> None:
    with pytest.raises(BadOption, match="a stream numbers its batches itself"):
        sink_options(NEEDED | {"writeId": "w", "writeVersion": "1"}, stream=True)


def _of(text: str) -> StructType:
    """Return a schema without a session, for the types that these tests use."""
    from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, LongType, StringType

    simple: dict[str, DataType] = {
        "string": StringType(),
        "binary": BinaryType(),
        "int": IntegerType(),
        "bigint": LongType(),
    }
    pair = StructType().add("key", StringType()).add("value", BinaryType())
    simple |= {"headers": ArrayType(pair), "strings": ArrayType(StringType())}
    simple |= {"texts": ArrayType(StructType().add("key", StringType()).add("value", StringType()))}
    created = StructType()
    for field in filter(None, text.split(", ")):
        name, kind = field.split()
        created.add(name, simple[kind])
    return created


@pytest.mark.parametrize("good", [
    "value string", "value binary", "x bigint, value string",
    "key string, value binary, topic string, partition int, headers headers",
])  # fmt: skip
def test_valid_combinations_of_columns_are_accepted(good: str) -> None:
    check_schema(_of(good), "t")


WRONG_COLUMNS = {
    "": "column 'value' is missing (string or binary): the DataFrame has no column",
    "values string": "column 'value' is missing (string or binary): the DataFrame has values string",
    "value bigint": "column 'value' is bigint, it must be string or binary: cast the column first",
    "value string, key int": "column 'key' is int, it must be string or binary: cast the column first",
    "value string, partition bigint": "column 'partition' is bigint, it must be int: cast the column first",
    "value string, topic binary": "column 'topic' is binary, it must be string: cast the column first",
    "value string, headers strings": "column 'headers' is array<string>, it must be array<struct<key: string, value: binary>>",
    "value string, headers texts": "it must be array<struct<key: string, value: binary>>",
}


@pytest.mark.parametrize("wrong", WRONG_COLUMNS)
def test_a_wrong_column_is_named(wrong: str) -> None:
    with pytest.raises(BadRows) as caught:
        check_schema(_of(wrong), "t")
    assert WRONG_COLUMNS[wrong] in str(caught.value)


def test_the_topic_comes_from_the_option_or_the_column() -> None:
    check_schema(_of("value string, topic string"), None)
    with pytest.raises(BadRows, match="the topic is missing: set the option 'topic'"):
        check_schema(_of("value string"), None)


# --- rows

Row = dict[str, object]


def table(rows: list[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows)


def written(
    rows: list[list[Row]], topic: str | None = "t", partitions: int = 4, **more: object
) -> list[tuple[str, int, str]]:
    """Return (topic, partition, value) of each record, in the order of the batches."""
    actual = []
    for each in pieces(map(table, rows), topic, lambda name: partitions, **more):  # type: ignore[arg-type]
        records = list(read_records(read_header(each.data), each.data, HEADER_SIZE))
        assert len(records) == each.rows
        actual += [(each.topic, each.partition, (record.value or b"").decode()) for record in records]
    return actual


def test_keys_decide_on_partitions_as_in_other_clients() -> None:
    keys = ["21", "foobar", "abc", "a-little-bit-long-string"]
    hashes = [-973932308, -790332482, 479470107, -985981536]
    actual = written([[{"value": key, "key": key} for key in keys]], partitions=7)

    assert {value: partition for _, partition, value in actual} == {
        key: (each & 0x7FFF_FFFF) % 7 for key, each in zip(keys, hashes, strict=True)
    }


def test_rows_keep_their_order_in_a_partition() -> None:
    rows: list[Row] = [{"value": f"{number:04d}", "key": f"{number % 37}"} for number in range(1_000)]
    actual = written([rows[:400], rows[400:]])

    for partition in range(4):
        values = [value for _, each, value in actual if each == partition]
        assert values == sorted(values) and values
    assert sorted(value for _, _, value in actual) == [row["value"] for row in rows]


def test_rows_without_a_key_are_spread_chunk_by_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK_ROWS", 10)
    batches: list[list[Row]] = [[{"value": "x"}] * 10 for _ in range(8)]

    assert Counter(partition for _, partition, _ in written(batches)) == {0: 20, 1: 20, 2: 20, 3: 20}
    assert {partition for _, partition, _ in written(batches, first=6, spread=False)} == {2}


def test_small_batches_are_combined() -> None:
    rows: list[Row] = [{"value": "x"}]
    assert len(list(pieces([table(rows)] * 500, "t", lambda name: 4))) == 1


def test_the_option_topic_is_stronger_than_the_column() -> None:
    rows: list[Row] = [{"value": f"{number}", "topic": "ab"[number % 2]} for number in range(6)]

    assert {(topic, value) for topic, _, value in written([rows], topic=None)} == {
        ("a", "0"), ("a", "2"), ("a", "4"), ("b", "1"), ("b", "3"), ("b", "5"),
    }  # fmt: skip
    assert {topic for topic, _, _ in written([rows], topic="t")} == {"t"}


def test_a_chosen_partition_is_taken() -> None:
    rows: list[Row] = [
        {"value": "a", "partition": 3},
        {"value": "b", "partition": None},
        {"value": "c", "partition": 1},
    ]
    assert sorted(written([rows])) == [("t", 0, "b"), ("t", 1, "c"), ("t", 3, "a")]


WRONG_ROWS: dict[str, tuple[Row, str]] = {
    "no topic": ({"value": "a", "topic": None}, "a row has no topic: set the option 'topic', or fill the column"),
    "a partition too high": ({"value": "a", "topic": "t", "partition": 4}, "topic 't': partition 4 is not in 0..3"),
    "a partition too low": ({"value": "a", "topic": "t", "partition": -1}, "topic 't': partition -1 is not in 0..3"),
    "a header without a name": (
        {"value": "a", "topic": "t", "headers": [{"key": None, "value": b"x"}]}, "topic 't': a header has no name",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG_ROWS)
def test_a_wrong_row_is_refused(case: str) -> None:
    row, words = WRONG_ROWS[case]
    with pytest.raises(BadRows) as caught:
        written([[row]], topic=None)
    assert words in str(caught.value)
