"""Small batches that decompress to very much data: the cost of a request is limited, whatever it contains."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from stuntbroker.broker.handlers import k02_list_offsets
from stuntbroker.broker.produce import produce_checks
from stuntbroker.broker.produce.produce_checks import OPENED_BELOW, OPENED_MAX, check_content
from stuntbroker.protocol.batches import compression
from stuntbroker.protocol.batches.budget import BYTES_PER_STEP, OPENING_STEPS, STEPS_MAX, BudgetExceeded, ReadBudget
from stuntbroker.protocol.batches.compression import XERIAL, compress
from stuntbroker.protocol.batches.records import HEADER, HEADER_SIZE, build_batch, read_header, seal, zigzag
from stuntbroker.protocol.batches.walk import FAULTS_MAX
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.kit.bystander import Bystander
from tests.kit.logs import log_config
from tests.kit.rig import KEYS, START_MS, Client, decode, frame, running_rig, turn

OK, TOO_LARGE, RETRY = ErrorCode.NONE, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.NOT_ENOUGH_REPLICAS
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
MIB: Final = 1 << 20
PARTITIONS: Final = 100
HOUR_MS: Final = 3_600_000


def wrapped(payload: bytes, count: int, codec: int, timestamp: int = START_MS) -> bytes:
    out = build_batch([(b"k", b"")], timestamp)[:HEADER_SIZE] + payload
    fields = read_header(out)._replace(length=len(out) - 12, attributes=codec, last_offset_delta=count - 1, count=count)
    HEADER.pack_into(out, 0, *fields)
    seal(out)
    return bytes(out)


def sized(body: bytes) -> bytes:
    out = bytearray()
    zigzag(out, len(body))
    return bytes(out) + body


def one_record(headers: int = 0, value: int = 0) -> bytes:
    body = bytearray(b"\0\0\0\x02k")
    zigzag(body, value)
    body += bytes(value)
    zigzag(body, headers)
    return sized(bytes(body + b"\0\x01" * headers))


def tiny_records(count: int, key: bytes = b"\x02k") -> bytes:
    out = bytearray()
    for number in range(count):
        body = bytearray(b"\0\0")
        zigzag(body, number)
        out += sized(bytes(body + key + b"\0\0"))
    return bytes(out)


@cache
def bombs() -> dict[str, bytes]:
    return {
        "a MiB of headers": wrapped(compress(ZSTD, one_record(headers=MIB // 2 - 50)), 1, ZSTD),
        "4 MiB of headers": wrapped(compress(ZSTD, one_record(headers=2 * MIB)), 1, ZSTD),
        "40 MiB of headers": wrapped(compress(ZSTD, one_record(headers=20 * MIB)), 1, ZSTD),
        "100,000 records": wrapped(compress(ZSTD, tiny_records(100_000)), 100_000, ZSTD),
        "100,000 records without key": wrapped(compress(GZIP, tiny_records(100_000, b"\x01")), 100_000, GZIP),
        "300,000 records": wrapped(compress(GZIP, tiny_records(300_000)), 300_000, GZIP),
        "a value of a MiB": wrapped(compress(GZIP, one_record(value=MIB - 100)), 1, GZIP),
        "a value of 15 MiB": wrapped(compress(LZ4, one_record(value=15 * MIB)), 1, LZ4),
        "a value of 100 MiB": wrapped(compress(ZSTD, one_record(value=100 * MIB)), 1, ZSTD),
        "gzip members of nothing": wrapped(compress(GZIP, b"") * 700, 1, GZIP),
        "snappy blocks of nothing": wrapped(XERIAL + bytes(8) + b"\0\0\0\x01\0" * 3_000, 1, SNAPPY),
        "snappy that lies": wrapped(b"\x80\x80\x40" + b"\0a", 1, SNAPPY),
        "headers, not compressed": wrapped(one_record(headers=450_000), 1, 0),
        "records late by the header": wrapped(
            compress(ZSTD, tiny_records(100_000)), 100_000, ZSTD, START_MS + 2 * HOUR_MS
        ),
    }


KINDS: Final[dict[str, dict[str, str]]] = {
    "plain": {},
    "compacted": {"cleanup_policy": "compact"},
    "narrow": {"message_timestamp_before_max_ms": "1000"},
    "stamped": {"message_timestamp_type": "LogAppendTime"},
}
UNREAD: Final = {
    # Error of a compacted topic for one such batch, or `...` if it reads the batch. Other topics store batches unread.
    "a MiB of headers": TOO_LARGE,
    "4 MiB of headers": TOO_LARGE,
    "40 MiB of headers": TOO_LARGE,
    "100,000 records": ...,
    "100,000 records without key": ...,
    "300,000 records": TOO_LARGE,
    "a value of a MiB": ...,
    "a value of 15 MiB": ...,
    "a value of 100 MiB": TOO_LARGE,
    "gzip members of nothing": ...,
    "snappy blocks of nothing": ...,
    "snappy that lies": ...,
    "headers, not compressed": TOO_LARGE,
    "records late by the header": ...,
}


class Work:
    """Steps of walking records, and bytes decompressed, since the last request."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.steps = self.bytes = self.opened = 0
        walk, measured = produce_checks.walk, compression.measured

        def walked(payload: Any, pos: int, header: Any, steps: int, *more: Any) -> Any:
            actual = walk(payload, pos, header, steps, *more)
            self.steps += steps - actual.steps
            return actual

        def opened(codec: int, payload: Any, size_max: int) -> Any:
            self.opened += 1
            try:
                created, cost = measured(codec, payload, size_max)
            except compression.CompressionError:
                self.bytes += size_max
                raise
            assert len(created) <= cost
            self.bytes += cost
            return created, cost

        patched.setattr(produce_checks, "walk", walked)
        patched.setattr(compression, "measured", opened)

    def take(self) -> int:
        """Return the total work in steps, and reset it."""
        actual = self.steps + self.opened * OPENING_STEPS + self.bytes // BYTES_PER_STEP
        self.steps = self.bytes = self.opened = 0
        return actual


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Iterator[Work]:
    yield Work(monkeypatch)


def produce(client: Client, topic: str, parts: dict[int, bytes]) -> list[Any]:
    for index in parts:
        log = client.broker.topics.log(topic, index)
        if log is not None:
            log.create_first_segment()  # Otherwise the files would be created in slices.
    data = [PartitionProduceData(index, records) for index, records in parts.items()]
    request = ProduceRequest(None, -1, 1_000, [TopicProduceData(topic, partition_data=data)])
    return list(client.ask(request, 9).responses[0].partition_responses)


@pytest.mark.parametrize("what", UNREAD)
@pytest.mark.parametrize("kind", KINDS)
async def test_no_produce_costs_more_than_its_read_budget(kind: str, what: str, work: Work, data_dir: Path) -> None:
    """Each batch is sent alone, and then to all partitions in one request; another client still works after each request."""
    async with running_rig(data_dir, {"message.max.bytes": str(16 * MIB)}) as rig:
        rig.topic("t", PARTITIONS, **KINDS[kind])
        bystander, client = Bystander(rig), rig.client()
        bomb = bombs()[what]
        work.take()
        tracemalloc.start()
        for parts in ({0: bomb}, dict.fromkeys(range(PARTITIONS), bomb)):
            answers = produce(client, "t", parts)

            assert work.take() <= STEPS_MAX + OPENING_STEPS
            errors = [answer.error_code for answer in answers]
            assert len(errors) == len(parts)
            if kind == "compacted" and UNREAD[what] is not ...:
                assert set(errors[:1]) == {TOO_LARGE}
                assert set(errors[1:]) <= {RETRY, TOO_LARGE}
            assert all(len(answer.record_errors) <= FAULTS_MAX for answer in answers)
            bystander.work()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 3 * (PARTITIONS * len(bomb) + BYTES_PER_STEP * STEPS_MAX) + 8 * MIB


async def test_a_bomb_on_an_ordinary_topic_is_opened_to_a_megabyte_or_not_at_all(work: Work, data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic("t")
        client = rig.client()
        for what in ("a MiB of headers", "4 MiB of headers", "40 MiB of headers", "a value of 15 MiB"):
            bomb = bombs()[what]
            assert [each.error_code for each in produce(client, "t", {0: bomb})] == [OK]
            assert work.bytes <= OPENED_MAX
            assert (work.opened == 1) == (len(bomb) < OPENED_BELOW)
            work.take()


async def test_a_batch_beyond_the_read_budget_of_its_request_is_accepted_on_a_retry(data_dir: Path) -> None:
    """A compacted topic must read every record, so the batches beyond the budget succeed in later requests."""
    async with running_rig(data_dir) as rig:
        rig.topic("t", 30, cleanup_policy="compact")
        client = rig.client()
        left = dict.fromkeys(range(30), wrapped(compress(ZSTD, one_record(value=3 * MIB)), 1, ZSTD))
        rounds = 0
        while left:
            answers = produce(client, "t", left)
            assert {answer.error_code for answer in answers} <= {OK, RETRY}
            assert answers[0].error_code == OK
            left = {answer.index: left[answer.index] for answer in answers if answer.error_code}
            rounds += 1
        assert rounds == 8


async def test_every_record_without_a_key_is_detected_in_a_batch_of_any_size(data_dir: Path) -> None:
    """The response lists these records, up to FAULTS_MAX of them."""
    async with running_rig(data_dir) as rig:
        rig.topic("t", cleanup_policy="compact")
        client = rig.client()
        for count, blamed in ((3, 3), (100_000, FAULTS_MAX)):
            answer = produce(client, "t", {0: wrapped(compress(ZSTD, tiny_records(count, b"\x01")), count, ZSTD)})[0]
            assert answer.error_code == ErrorCode.INVALID_RECORD
            assert [each.batch_index for each in answer.record_errors] == list(range(blamed))
        last = tiny_records(99_999)
        last += sized(b"\0\0" + b"\xbe\x9a\x0c" + b"\x01\0\0")
        answer = produce(client, "t", {0: wrapped(compress(ZSTD, last), 100_000, ZSTD)})[0]
        assert [each.batch_index for each in answer.record_errors] == [99_999]


async def test_a_batch_of_one_megabyte_is_within_the_read_budget(data_dir: Path) -> None:
    """One request may contain 100,000 records in a megabyte, whether it is compressed or not."""
    for codec in (0, GZIP, SNAPPY, LZ4, ZSTD):
        payload = tiny_records(100_000)
        batch = wrapped(compress(codec, payload) if codec else payload, 100_000, codec)
        left = ReadBudget()
        config = log_config(compact=True, delete=False)
        assert check_content(batch, read_header(batch), config, START_MS, left).error is OK
        assert left.steps <= STEPS_MAX - 100_000
        assert check_content(batch, read_header(batch), config, START_MS, left).error is RETRY


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_read_budget_is_exceeded_when_its_steps_are_used_up(codec: int) -> None:
    batch = wrapped(compress(codec, bytes(100_000)), 1, codec)
    header = read_header(batch)
    for steps in (0, OPENING_STEPS, 100_000 // BYTES_PER_STEP + OPENING_STEPS - 1):
        with pytest.raises(BudgetExceeded):
            ReadBudget(steps).opened(header, batch)
    left = ReadBudget(100_000 // BYTES_PER_STEP + OPENING_STEPS + 1)
    assert len(left.opened(header, batch)[0]) == 100_000
    assert left.steps == 1
    left = ReadBudget(1_000)
    with pytest.raises(compression.CompressionError):
        left.opened(header, batch[:-9])
    assert left.steps <= 0


async def test_list_offsets_by_time_stays_within_its_read_budget(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a batch that it does not read, ListOffsets returns the batch's first offset, which is never too late."""
    seen = 0

    def counted(*args: Any) -> Iterator[Any]:
        nonlocal seen
        for span in spans(*args):
            seen += 1
            yield span

    spans = k02_list_offsets.spans
    monkeypatch.setattr(k02_list_offsets, "spans", counted)
    work = Work(monkeypatch)
    async with running_rig(data_dir) as rig:
        rig.topic("t", PARTITIONS)
        client = rig.client()
        count = 100_000
        payload = compress(ZSTD, tiny_records(count))
        bomb = bytearray(wrapped(payload, count, ZSTD))
        HEADER.pack_into(bomb, 0, *read_header(bomb)._replace(max_timestamp=START_MS + 5))  # Later than all records.
        seal(bomb)
        assert {each.error_code for each in produce(client, "t", dict.fromkeys(range(PARTITIONS), bytes(bomb)))} == {OK}
        for topic_time, expected in ((START_MS, 0), (START_MS + 1, 0)):
            seen = 0
            work.take()
            wanted = [ListOffsetsPartition(index, -1, topic_time) for index in range(PARTITIONS)]
            client.feed(frame(ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", wanted)]), 7))
            while client.connection.is_busy:
                await turn(1)
            answer = decode(client.answers()[0], KEYS["ListOffsets"], 7)

            assert work.take() + seen <= STEPS_MAX + OPENING_STEPS
            actual = answer.topics[0].partitions
            assert {(each.error_code, each.offset) for each in actual} == {(OK, expected)}
        huge = [ListOffsetsPartition(0, -1, START_MS + 6)]
        answer = client.ask(ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", huge)]), 7)
        assert answer.topics[0].partitions[0].offset == -1
