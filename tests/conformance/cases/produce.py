"""Produce: batches of every kind, and the records that Fetch returns for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from stuntbroker.protocol.crc import crc32c
from tests.conformance.batches import (
    CODECS,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    T0,
    TRANSACTIONAL,
    ZSTD,
    batch,
    record,
    some,
)
from tests.conformance.side import Side

PRODUCER: Final = 5_000_001
UNKNOWN_ID: Final = bytes.fromhex("00112233445546778899aabbccddeeff")
HOUR_MS: Final = 3_600_000


def _put(
    side: Side, topic: str, note: str, records: bytes | None, version: int = 12, *, partition: int = 0, **more: Any
) -> Any:
    fields: dict[str, Any] = {"acks": -1, "timeout_ms": 5_000} | more
    data = [{"name": topic, "partition_data": [{"index": partition, "records": records}]}]
    return side.ask("Produce", version, note, topic_data=data, **fields)


def _all(side: Side, topic: str, version: int = 12, **more: Any) -> None:
    part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    side.ask("Fetch", version, "everything", topics=[{"topic": topic, "partitions": [part]}], **more)


def _each(side: Side, topic: str, notes: Iterable[str]) -> None:
    """Fetch the partitions, one for each note."""
    for at, note in enumerate(notes):
        part = {"partition": at, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        side.ask("Fetch", 12, note, topics=[{"topic": topic, "partitions": [part]}])


def produce_at_every_version(side: Side) -> None:
    topic = side.topic("t")
    known = side.topic_id(topic)
    for version in range(3, 14):
        for acks in (-1, 0, 1):
            data = [{"name": topic, "topic_id": known, "partition_data": [{"index": 0, "records": some(2)}]}]
            if acks:
                side.ask("Produce", version, f"acks {acks}", topic_data=data, acks=acks, timeout_ms=5_000)
            else:
                side.send("Produce", version, topic_data=data, acks=0, timeout_ms=5_000)
                side._waiting["main"].pop()
    _all(side, topic)


def produce_nowhere(side: Side) -> None:
    topic = side.topic("t")
    for version in (3, 8, 9, 12):
        _put(side, side.name("none"), "unknown topic", some(1), version)
        _put(side, "a b", "bad name", some(1), version)
        _put(side, topic, "unknown partition", some(1), version, partition=1)
        _put(side, topic, "partition -1", some(1), version, partition=-1)
        for acks in (2, -2, 100):
            _put(side, topic, f"acks {acks}", some(1), version, acks=acks)
        for timeout in (-1, 0):
            _put(side, topic, f"timeout {timeout}", some(1), version, timeout_ms=timeout)
        part = {"index": 0, "records": some(1)}
        side.ask(
            "Produce",
            version,
            "a partition twice",
            acks=-1,
            timeout_ms=99,
            topic_data=[{"name": topic, "partition_data": [part, part]}],
        )
        each = {"name": topic, "partition_data": [part]}
        side.ask("Produce", version, "a topic twice", acks=-1, timeout_ms=99, topic_data=[each, each])
        side.ask("Produce", version, "nothing", acks=-1, timeout_ms=99, topic_data=[])
        side.ask(
            "Produce",
            version,
            "no partitions",
            acks=-1,
            timeout_ms=99,
            topic_data=[{"name": topic, "partition_data": []}],
        )
        side.ask(
            "Produce",
            version,
            "good and bad",
            acks=-1,
            timeout_ms=99,
            topic_data=[each, {"name": side.name("no"), "partition_data": [part]}],
        )
    for unknown in (UNKNOWN_ID, bytes(16)):
        data = [{"topic_id": unknown, "partition_data": [{"index": 0, "records": some(1)}]}]
        side.ask("Produce", 13, "unknown id", acks=-1, timeout_ms=99, topic_data=data)
    _all(side, topic)


def produce_without_answer(side: Side) -> None:
    """With acks=0 there is no response; after an error the broker closes the connection."""
    topic = side.topic("t")
    for note, name, records in (
        ("right", topic, some(1)), ("unknown topic", side.name("none"), some(1)),
        ("bad crc", topic, some(1, crc=1)), ("magic 1", topic, some(1, magic=1)),
        ("empty", topic, b""), ("bad name", "a b", some(1)),
    ):  # fmt: skip
        side.send(
            "Produce",
            9,
            acks=0,
            timeout_ms=99,
            topic_data=[{"name": name, "partition_data": [{"index": 0, "records": records}]}],
        )
        side._waiting["main"].clear()
        side.send("ApiVersions", 0)
        reply = side.hear()
        side.note(note, reply if repr(reply) == "closed" else reply.error_code)
    _all(side, topic)


def batches_that_are_wrong(side: Side) -> None:
    good = some(2)
    wrong = {  # Null is left out, as Kafka never replies to it.
        "empty": b"",
        "a byte": b"\x00",
        "zeroes": bytes(61),
        "60 bytes": good[:60],
        "a header": good[:61],
        "a byte short": good[:-1],
        "a byte too many": good + b"\x00",
        "17 bytes too many": good + bytes(17),
        "half of another": good + good[:40],
        "two batches": good + good,
        "bad crc": some(2, crc=1),
        "magic 0": some(2, magic=0),
        "magic 1": some(2, magic=1),
        "magic 3": some(2, magic=3),
        "magic -1": some(2, magic=-1),
        "length too small": some(2, length=48),
        "length 0": some(2, length=0),
        "length -1": some(2, length=-1),
        "length too large": some(2, length=len(good)),
        "length huge": some(2, length=0x7FFFFFFF),
        "length one less": some(2, length=len(good) - 13),
        "count too large": some(2, count=3, last_offset_delta=2),
        "count too small": some(2, count=1, last_offset_delta=0),
        "count 0": some(2, count=0, last_offset_delta=1),
        "count -1": some(2, count=-1, last_offset_delta=1),
        "count huge": some(2, count=0x7FFFFFFF, last_offset_delta=0x7FFFFFFE),
        "delta too large": some(2, last_offset_delta=2),
        "delta too small": some(2, last_offset_delta=0),
        "delta -1": some(2, last_offset_delta=-1),
        "no records": batch([], last_offset_delta=0),
        "no records, delta -1": batch([]),
        "base offset 7": some(2, base_offset=7),
        "base offset -1": some(2, base_offset=-1),
        "leader epoch 7": some(2, leader_epoch=7),
        "log append time": some(2, attributes=LOG_APPEND_TIME),
        "control": some(1, attributes=CONTROL),
        "control, transactional": some(
            1, attributes=CONTROL | TRANSACTIONAL, producer_id=PRODUCER, producer_epoch=0, base_sequence=0
        ),
        "delete horizon": some(2, attributes=DELETE_HORIZON),
        "attribute 128": some(2, attributes=128),
        "attribute 32768": some(2, attributes=-32768),
        "transactional": some(2, attributes=TRANSACTIONAL, producer_id=PRODUCER, producer_epoch=0, base_sequence=0),
        "transactional without producer": some(2, attributes=TRANSACTIONAL),
        "max timestamp wrong": some(2, max_timestamp=T0 + 5),
        "max timestamp -1": some(2, max_timestamp=-1),
        "timestamp -1": some(2, base_timestamp=-1, max_timestamp=-1),
        "timestamp -2": some(2, base_timestamp=-2, max_timestamp=-2),
        "timestamp 0": some(2, base_timestamp=0),
        "timestamp far": some(2, base_timestamp=9_000_000_000_000),
        "right": good,
    }
    topic = side.topic("t", len(wrong))
    for version in (3, 9, 12):
        for at, (note, records) in enumerate(wrong.items()):
            _put(side, topic, note, records, version, partition=at)
    _each(side, topic, wrong)


def records_that_are_wrong(side: Side) -> None:
    wrong: dict[str, list[bytes] | bytes] = {
        "delta from 1": [record(1), record(2)],
        "delta with a hole": [record(0), record(2)],
        "delta twice": [record(0), record(0)],
        "delta backwards": [record(1), record(0)],
        "delta -1": [record(-1), record(0)],
        "length one less": [record(0, length_off=-1), record(1)],
        "length one more": [record(0, length_off=1), record(1)],
        "length 0": [b"\x00", record(1)],
        "length negative": [b"\x01", record(1)],
        "length huge": [b"\xfe\xff\xff\xff\x0f", record(1)],
        "length without end": [b"\xff" * 11, record(1)],
        "attributes 1": [record(0, attributes=1), record(1)],
        "headers": [record(0, headers=[(b"a", b"1"), (b"b", None), (b"a", b"")]), record(1)],
        "header count -1": [record(0, header_count=-1), record(1)],
        "header count 1": [record(0, header_count=1), record(1)],
        "header count huge": [record(0, header_count=0x7FFFFFFF), record(1)],
        "header name not UTF-8": [record(0, headers=[(b"\xff", b"1")]), record(1)],
        "header name empty": [record(0, headers=[(b"", b"1")]), record(1)],
        "null value": [record(0, b"k", None), record(1, None, None)],
        "empty value": [record(0, b"", b""), record(1)],
        "key length -2": [bytes([2 * 7, 0, 0, 0, 3, 0, 0, 0]), record(1)],
        "time delta negative": [record(0, time_delta=-5), record(1)],
        "time delta huge": [record(0, time_delta=1 << 40), record(1)],
        "header name null": [record(0, headers=[(b"a", b"1")]).replace(b"\x02a", b"\x01"), record(1)],
        "header count 1 of 2": [record(0, headers=[(b"a", b"1"), (b"b", b"2")], header_count=1), record(1)],
        "key length -64": [bytes([2 * 7, 0, 0, 0, 0x7F, 0, 0, 0]), record(1)],
        "value length -2": [bytes([2 * 6, 0, 0, 0, 0, 3, 0]), record(1)],
        "delta in two bytes": [bytes([2 * 9, 0, 0, 0x80, 0, 2, 107, 2, 118, 0]), record(1)],
        "third with a delta": [record(0), record(1), record(7)],
        "third with a header count -1": [record(0), record(1), record(2, header_count=-1)],
        "nothing at all": b"",
        "garbage": bytes(range(200)),
        "zeroes": bytes(30),
    }
    for codec in (0, *CODECS):
        topic = side.topic(f"c{codec}", len(wrong))
        for at, (note, records) in enumerate(wrong.items()):
            data = batch(records, attributes=codec, count=2 if isinstance(records, bytes) else len(records))
            _put(side, topic, f"codec {codec}, {note}", data, partition=at)
        _each(side, topic, wrong)


def compressed(side: Side) -> None:
    topic, wrong = side.topic("t", 8), side.topic("w", 8 * 8)
    for version in (3, 6, 7, 9, 12):
        for codec in (*CODECS, 5, 6, 7):
            _put(side, topic, f"codec {codec}", some(3, attributes=codec), version, partition=codec)
            payload = some(3, attributes=codec)[61:]
            for at, (note, broken) in enumerate((
                ("not compressed", b"plain"), ("empty", b""), ("cut", payload[: len(payload) // 2]), ("zeroes", bytes(40)),
                ("a byte wrong", payload[:-6] + bytes([payload[-6] ^ 255]) + payload[-5:]),
                ("more behind", payload + b"xyz"), ("twice", payload + payload), ("much behind", payload + bytes(40)),
            )):  # fmt: skip
                if version in (3, 12):
                    _put(
                        side,
                        wrong,
                        f"codec {codec}, {note}",
                        batch(broken, attributes=codec, plain=True, count=3),
                        version,
                        partition=8 * codec + at,
                    )
    for version in (4, 9, 10, 12):
        for codec in CODECS:
            part = {"partition": codec, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
            side.ask("Fetch", version, f"codec {codec}", topics=[{"topic": topic, "partitions": [part]}])


def compacted(side: Side) -> None:
    for codec in (0, *CODECS):
        topic = side.topic(f"c{codec}", cleanup_policy="compact")
        for version in (3, 8, 12):
            _put(
                side, topic, "null key", batch([record(0), record(1, None), record(2, None)], attributes=codec), version
            )
            _put(side, topic, "null value", batch([record(0, b"k", None)], attributes=codec), version)
            _put(side, topic, "empty key", batch([record(0, b"", b"v")], attributes=codec), version)
        _all(side, topic)


def timestamps(side: Side) -> None:
    now = T0 + HOUR_MS
    own = side.topic("c")
    append = side.topic("a", message_timestamp_type="LogAppendTime")
    narrow = side.topic("n", message_timestamp_before_max_ms="600000", message_timestamp_after_max_ms="600000")
    for topic in (own, append, narrow):
        for codec in (0, 1):
            for note, base, deltas in (
                ("old", T0 - HOUR_MS, (0, 5, 3)), ("now", now, (0, 0, 0)), ("an hour on", now + HOUR_MS - 60_000, (0, 1, 2)),
                ("two hours on", now + 2 * HOUR_MS, (0, 1, 2)), ("one of them two hours on", now,
                (0, 2 * HOUR_MS, 0)), ("none", -1, (0, 0, 0)),
            ):  # fmt: skip
                records = [record(at, time_delta=delta) for at, delta in enumerate(deltas)]
                for version in (7, 12):
                    _put(
                        side,
                        topic,
                        f"{note}, codec {codec}",
                        batch(records, attributes=codec, base_timestamp=base, max_timestamp=base + max(deltas)),
                        version,
                    )
        part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        reply = side.quiet("Fetch", 12, topics=[{"topic": topic, "partitions": [part]}])
        side.note("high watermark", reply.responses[0].partitions[0].high_watermark)
        if topic != append:
            side.note("fetched", reply.responses[0])


def sizes(side: Side) -> None:
    topic = side.topic("t", max_message_bytes="1000", segment_bytes="1048576")
    for size in (1, 500, 920, 929, 930, 931, 932, 933, 934, 935, 940, 1_000, 5_000):
        _put(side, topic, f"{size} bytes", batch([record(value=bytes(size))]))
    for codec in CODECS:
        _put(side, topic, f"{codec}", batch([record(value=bytes(5_000))], attributes=codec))
    for version in (3, 8, 12):
        _put(side, topic, "too large", batch([record(value=bytes(5_000))]), version)
    _all(side, topic)
    segment = side.topic("s", max_message_bytes="3000000", segment_bytes="1048576")
    _put(side, segment, "more than a segment", batch([record(value=bytes(1_100_000))]))
    _put(side, segment, "less than a segment", batch([record(value=bytes(1_000_000))]))


def idempotent(side: Side) -> None:
    for codec in (0, 1):
        topic = side.topic(f"c{codec}")

        def put(
            note: str,
            sequence: int,
            count: int = 1,
            epoch: int = 0,
            producer: int = PRODUCER,
            version: int = 12,
            topic: str = topic,
            codec: int = codec,
        ) -> None:
            records = some(count, producer_id=producer, producer_epoch=epoch, base_sequence=sequence, attributes=codec)
            _put(side, topic, note, records, version)

        put("first", 0, 2)
        put("again", 0, 2)
        put("part of it", 0, 1)
        put("the other part", 1, 1)
        put("gap", 3)
        put("next", 2)
        put("backwards", 1)
        for at in range(3, 10):
            put(f"number {at}", at)
        for at in range(2, 10):
            put(f"number {at} again", at)
        put("old epoch", 10, epoch=-1)
        put("new epoch, not from 0", 10, epoch=1)
        put("new epoch", 0, epoch=1)
        put("the epoch before", 10, epoch=0)
        put("epoch leap", 0, epoch=5)
        put("epoch 32767", 0, epoch=32767)
        put("unknown producer not from 0", 7, producer=PRODUCER + 1)
        put("unknown producer next", 8, producer=PRODUCER + 1)
        put("to the end", 2**31 - 2, 2, producer=PRODUCER + 2)
        put("wraps", 0, 1, producer=PRODUCER + 2)
        put("wraps inside", 2**31 - 1, 3, producer=PRODUCER + 3)
        put("behind the wrap", 2, 1, producer=PRODUCER + 3)
        put("wraps inside again", 2**31 - 1, 3, producer=PRODUCER + 3)
        put("sequence -1", -1, producer=PRODUCER + 4)
        put("sequence -2", -2, producer=PRODUCER + 4)
        put("epoch -1", 0, epoch=-1, producer=PRODUCER + 4)
        put("epoch -2", 0, epoch=-2, producer=PRODUCER + 4)
        put("producer -2", 0, producer=-2)
        put("producer -1", 0, producer=-1)
        for version in (3, 5, 8):
            put(f"gap v{version}", 100, producer=PRODUCER + 1, version=version)
            put("old epoch", 100, epoch=0, version=version)
        _all(side, topic)
        side.ask("DescribeProducers", 0, "who", topics=[{"name": topic, "partition_indexes": [0]}])


def a_batch_that_was_made_elsewhere(side: Side) -> None:
    """The CRC covers everything after it; the fields that a broker sets are before it."""
    topic = side.topic("t")
    data = bytearray(some(2))
    assert crc32c(bytes(data[21:])) == int.from_bytes(data[17:21], "big")
    data[0:8] = (99).to_bytes(8, "big")
    data[12:16] = (77).to_bytes(4, "big")
    _put(side, topic, "stamped", bytes(data))
    _put(side, topic, "zstd on a topic", some(1, attributes=ZSTD), 3)
    _all(side, topic)
    for compression in ("uncompressed", "gzip", "zstd"):
        other = side.topic(f"r-{compression}", compression_type=compression)
        _put(side, other, "two", some(2))
        part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        reply = side.quiet("Fetch", 12, topics=[{"topic": other, "partitions": [part]}])
        side.note(f"high watermark, {compression}", reply.responses[0].partitions[0].high_watermark)
