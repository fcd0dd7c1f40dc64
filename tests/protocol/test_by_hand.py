"""Hand-written codecs and checks on the path of every transaction, compared with the generated codecs and full checks."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from struct import pack_into
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stuntbroker.broker.produce.produce_checks import check_content
from stuntbroker.protocol import produce_codec
from stuntbroker.protocol.batches import check as batch_check
from stuntbroker.protocol.batches.budget import ReadBudget
from stuntbroker.protocol.batches.check import check_batch, plain_header, records_fill
from stuntbroker.protocol.batches.records import (
    BatchHeader,
    build_batch,
    marker_body,
    one_record_batch,
    read_header,
    seal,
    unzigzag,
)
from stuntbroker.protocol.caches import CACHED_MAX
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from stuntbroker.protocol.messages.produce_response import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from stuntbroker.protocol.primitives import DecodeError
from stuntbroker.protocol.produce_codec import ProduceFields, QuickProduceResponse, read_request
from tests.kit.logs import log_config
from tests.kit.message_samples import encoded

NOW = 1_790_000_000_000
SIZE_MAX = 1_000
VERSIONS = [*range(3, 14), 12, 13]
versions = st.sampled_from(VERSIONS)
names = st.sampled_from(["", "t", "Zürich", "x" * 126, "x" * 127, "y" * 249])
some_records = st.sampled_from([None, b"", b"r" * 61, b"r" * 126, b"r" * 127, b"r" * 300, b"r" * 16_383, b"r" * 20_000])
indexes = st.integers(0, 4) | st.integers(-(2**31), 2**31 - 1)
parts = st.lists(st.builds(PartitionProduceData, indexes, some_records), max_size=4)
topics = st.lists(st.builds(TopicProduceData, names, st.binary(min_size=16, max_size=16), parts), max_size=2)
requests = st.builds(ProduceRequest, st.none() | names, st.integers(-1, 1), st.just(30_000), topics)


def expected(request: ProduceRequest) -> ProduceFields:
    actual: dict[tuple[str, bytes], dict[int, bytes | None]] = {}
    for topic in request.topic_data:
        for part in topic.partition_data:
            actual.setdefault((topic.name, topic.topic_id), {})[part.index] = part.records  # type: ignore[assignment]
    return request.transactional_id, request.acks, [(*key, value) for key, value in actual.items()]  # type: ignore[misc]


def listed(request: ProduceFields) -> ProduceFields:
    return request[0], request[1], list(request[2])


# --- Produce


@given(version=versions, request=requests)
def test_a_produce_request_is_read_as_the_generated_codec_reads_it(version: int, request: ProduceRequest) -> None:
    wire = encoded(request, version)

    assert listed(read_request(b"head" + wire, version, 4)) == expected(ProduceRequest.decode(wire, version))
    assert listed(read_request(memoryview(wire), version, 0)) == expected(ProduceRequest.decode(wire, version))


@settings(max_examples=500)
@given(version=versions, request=requests, seed=st.integers())
def test_a_malformed_produce_request_is_refused_by_both_codecs(
    version: int, request: ProduceRequest, seed: int
) -> None:
    random = Random(seed)
    wire = bytearray(encoded(request, version))
    for _ in range(random.randrange(3)):
        wire[random.randrange(len(wire))] = random.choice([0, 1, 2, 0x7F, 0x80, 0xFF, random.randrange(256)])
    del wire[random.choice([len(wire), random.randrange(len(wire) + 1)]) :]
    read_by_both(bytes(wire), version)


@pytest.mark.parametrize("version", range(9, 14))
@pytest.mark.parametrize("size", [61, 126, 127, 16_382, 16_383, 2**21 - 2])
def test_the_usual_produce_request_and_response_need_no_generated_codec(
    version: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic_id = b"" if version < 13 else bytes(range(16))
    data = [PartitionProduceData(index, b"r" * size) for index in (2, 0, 1)]
    request = ProduceRequest("txn-1", -1, 30_000, [TopicProduceData("orders", topic_id, data)])
    wire, said = encoded(request, version), expected(ProduceRequest.decode(encoded(request, version), version))
    outcome = [PartitionProduceResponse(index, 0, 5, -1, 0) for index in (2, 0, 1)]
    answer = encoded(ProduceResponse([TopicProduceResponse("orders", topic_id, outcome)]), version)
    monkeypatch.setattr(ProduceRequest, "decode", None)
    monkeypatch.setattr(ProduceResponse, "encode", None)

    assert listed(read_request(wire, version, 0)) == said
    assert encoded(QuickProduceResponse([TopicProduceResponse("orders", topic_id, outcome)]), version) == answer


ONE_TAG = b"\x01\x05\x01\xff"
NO_TOPIC_ID = bytes(16)


def usual(transactional_id: str | None, counts: range, version: int, name: str = "t", size: int = 61) -> bytes:
    data = [PartitionProduceData(index, b"r" * size) for index in counts]
    return encoded(ProduceRequest(transactional_id, -1, 1, [TopicProduceData(name, NO_TOPIC_ID, data)]), version)


@pytest.mark.parametrize("version", range(9, 14))
def test_an_unusual_request_is_left_to_the_generated_codec(version: int) -> None:
    wire = usual("txn-1", range(1), version)
    twice = usual("txn-1", range(2), version)
    at = twice.index(bytes((0, 0, 0, 1, 62)))
    unusual = {
        "tags of the partition": wire[:-3] + ONE_TAG + wire[-2:],
        "tags of the topic": wire[:-2] + ONE_TAG + wire[-1:],
        "tags of the request": wire[:-1] + ONE_TAG,
        "a partition twice": twice[:at] + bytes(4) + b"\x02R" + twice[at + 66 :],
        "no records": wire[:-65] + b"\0" + wire[-3:],
        "no partition": usual("txn-1", range(0), version),
        "127 partitions": usual("txn-1", range(127), version),
        "a long transactional id": usual("x" * 127, range(1), version),
        "a long name": usual("txn-1", range(1), version, "x" * 127),
        "2 MiB in a partition": usual("txn-1", range(1), version, size=2**21 - 1),
    }
    for why, each in unusual.items():
        assert listed(read_request(each, version, 0)) == expected(ProduceRequest.decode(each, version)), why


@pytest.mark.parametrize("version", [12, 13])
def test_the_cache_of_request_heads_is_bounded(version: int) -> None:
    heads = produce_codec.heads_by_id if version == 13 else produce_codec.heads_by_name
    for n in (*range(CACHED_MAX + 5), 9, 9):
        wire = usual(f"txn-{n}", range(2), version)
        assert listed(read_request(wire, version, 0)) == expected(ProduceRequest.decode(wire, version))
        assert 0 < len(heads) <= CACHED_MAX


def read_by_both(wire: bytes, version: int) -> None:
    try:
        said = expected(ProduceRequest.decode(wire, version))
    except DecodeError:
        with pytest.raises(DecodeError):
            read_request(wire, version, 0)
    else:
        assert listed(read_request(wire, version, 0)) == said


@pytest.mark.parametrize("size", [b"\x80\x00", b"\x80\x80\x00"], ids=["two bytes", "three"])
@pytest.mark.parametrize("version", range(9, 14))
def test_null_records_may_be_encoded_in_more_bytes_than_they_need(version: int, size: bytes) -> None:
    data = [PartitionProduceData(7, None)]
    wire = encoded(ProduceRequest("txn-1", -1, 30_000, [TopicProduceData("orders", bytes(16), data)]), version)
    partition = b"\x00\x00\x00\x07"
    assert wire.count(partition + b"\x00") == 1

    longer = wire.replace(partition + b"\x00", partition + size)

    read_by_both(longer, version)
    read_by_both(longer.replace(size + b"\x00", size), version)  # Without the tagged fields of the partition.


@pytest.mark.parametrize("version", range(9, 14))
def test_a_changed_or_truncated_produce_request_is_read_alike_by_both_codecs(version: int) -> None:
    wire = usual("txn-1", range(2), version)
    for at in range(len(wire)):
        read_by_both(wire[:at], version)
        for value in (0, 1, 2, 3, 5, 20, 62, 0x7F, 0x80, 0xFF):
            read_by_both(wire[:at] + bytes((value,)) + wire[at + 1 :], version)
            read_by_both(wire[:at] + bytes((value,)) + wire[at + 1 :] + bytes(200), version)


@pytest.mark.parametrize("version", range(9, 14))
@pytest.mark.parametrize("count", [1, 126, 127, 128])
@pytest.mark.parametrize("name", ["t", "x" * 126, "x" * 127])
def test_a_produce_response_with_long_counts_or_names_equals_the_generated_codecs(
    version: int, count: int, name: str
) -> None:
    topics = [TopicProduceResponse(name, NO_TOPIC_ID, [PartitionProduceResponse(n, 0, n) for n in range(count)])]

    assert encoded(QuickProduceResponse(topics), version) == encoded(ProduceResponse(topics), version)


texts = st.none() | names
outcomes = st.builds(
    PartitionProduceResponse,
    indexes,
    st.sampled_from(ErrorCode),
    st.integers(-1, 2**63 - 1),
    st.integers(-1, 2**40),
    st.integers(-1, 2**40),
    st.just(()) | st.just([BatchIndexAndErrorMessage(1, "why")]),
    texts,
    st.none() | st.just(LeaderIdAndEpoch(1, 2)),
)
plain_outcomes = st.builds(
    PartitionProduceResponse, indexes, st.just(0), st.integers(0, 2**63 - 1), st.integers(-1, 2**40)
)
answered = st.builds(
    TopicProduceResponse,
    names,
    st.binary(min_size=16, max_size=16),
    st.lists(plain_outcomes, max_size=3)
    | st.lists(outcomes, max_size=3)
    | st.lists(plain_outcomes, min_size=126, max_size=127),
)


@given(version=versions, responses=st.lists(answered, max_size=2))
def test_a_produce_response_is_written_as_the_generated_codec_writes_it(
    version: int, responses: list[TopicProduceResponse]
) -> None:
    assert encoded(QuickProduceResponse(responses), version) == encoded(ProduceResponse(responses), version)


# --- batches


@given(
    key=st.binary(max_size=300),
    value=st.none() | st.binary(max_size=300) | st.just(b"v" * 20_000),
    offset=st.integers(0, 2**62),
    timestamp=st.integers(-1, 2**50),
)
def test_a_batch_of_one_record_is_what_build_batch_makes(
    key: bytes, value: bytes | None, offset: int, timestamp: int
) -> None:
    built = build_batch([(key, value)], timestamp, base_offset=offset, leader_epoch=3)

    assert one_record_batch(offset, 3, timestamp, key, value) == built


def test_a_marker_differs_between_partitions_by_its_offset_alone() -> None:
    body = marker_body(True, 5, 1, 0, NOW, 0)
    for each, other in pairwise([bytes(8) + body, (77).to_bytes(8, "big") + body]):
        assert read_header(each)._replace(base_offset=77) == read_header(other)


CONFIG = log_config(max_message_bytes=SIZE_MAX)
values = st.lists(
    st.none() | st.sampled_from([b"", b"v" * 10, b"v" * 63, b"v" * 64, b"v" * 130]), min_size=1, max_size=5
)
HEADER_FIELDS = [(0, 8), (8, 4), (16, 1), (21, 2), (23, 4), (43, 8), (53, 4), (57, 4)]
"""(position, size) of the header fields that are checked."""


def accepted(batch: bytes | bytearray | memoryview) -> bool:
    """Whether the full checks, which name the error, accept the batch."""
    header, error, _ = check_batch(batch, 9, CONFIG.max_message_bytes)
    if error or header is None or header.size != len(batch):
        return False
    return not check_content(batch, header, CONFIG, NOW, ReadBudget()).error


@given(values=values, producer=st.booleans(), attributes=st.sampled_from([0, 0x10]), seed=st.integers())
def test_plain_header_accepts_exactly_the_uncompressed_batches_that_pass_every_check(
    values: list[bytes | None], producer: bool, attributes: int, seed: int
) -> None:
    random = Random(seed)
    ids = {"producer_id": 5, "producer_epoch": 1, "base_sequence": 0} if producer else {}
    batch = build_batch([(None, value) for value in values], NOW, attributes=attributes, **ids)
    assert plain_header(batch, SIZE_MAX, NOW) == read_header(batch)

    for _ in range(20):
        spoilt = bytearray(batch)
        if random.random() < 0.5:
            at, size = random.choice(HEADER_FIELDS)
            spoilt[at : at + size] = random.choice([-1, 0, 1, 2, 4, 0x20, 70]).to_bytes(size, "big", signed=True)
        else:
            spoilt[random.randrange(61, len(spoilt))] = random.choice(
                [0, 1, 2, 0x7F, 0x80, 0xFF, random.randrange(256)]
            )
        if random.random() < 0.2:
            del spoilt[random.randrange(len(spoilt)) :]
        if random.random() < 0.9 and len(spoilt) > 21:
            seal(spoilt)
        plain = plain_header(memoryview(spoilt), SIZE_MAX, NOW)

        assert plain is None or accepted(spoilt)
        codec = len(spoilt) > 22 and spoilt[22] & 7
        assert plain is not None or codec or not accepted(spoilt)


def chain_fills(batch: bytes | memoryview, header: BatchHeader) -> bool:
    """Whether the records fill the batch, checked record by record."""
    pos = 61
    try:
        for _ in range(header.count):
            length, pos = unzigzag(batch, pos)
            pos += length
            if length <= 0 or pos > len(batch):
                return False
    except (IndexError, DecodeError):
        return False
    return pos == len(batch)


counts = st.sampled_from([1, 2, 5, 6, 15, 16, 63, 64, 65, 130])
rows = st.lists(st.tuples(counts, st.sampled_from([0, 9, 55, 56, 60, 120, 8_300])), min_size=1, max_size=4)
longer_than_a_window = st.sampled_from(
    [[(1, 130_000)], [(600, 120)], [(1_200, 60), (2, 70_000)], [(700, 100), (1, 9), (700, 9)]]
)
ways = st.sampled_from([True] if batch_check.IS_COMPILED else [False, True])


@given(rows=rows | longer_than_a_window, seed=st.integers(), view=st.booleans(), as_compiled=ways)
def test_records_fill_agrees_with_reading_the_lengths_one_by_one(
    rows: list[tuple[int, int]], seed: int, view: bool, as_compiled: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if as_compiled is not batch_check.IS_COMPILED:
            patch.setattr(batch_check, "IS_COMPILED", as_compiled)
        check_records_fill(rows, seed, view)


def check_records_fill(rows: list[tuple[int, int]], seed: int, view: bool) -> None:
    random = Random(seed)
    batch = build_batch([(None, b"\x70" * size) for count, size in rows for _ in range(count)], NOW)
    header = read_header(batch)
    created: Any = memoryview if view else bytes
    assert records_fill(created(batch), header)

    for _ in range(10):
        spoilt = bytearray(batch)
        at = random.randrange(61, len(spoilt))
        spoilt[at] = random.choice([0, 1, 2, 0x7E, 0x80, 0x81, 0xFE, spoilt[at] ^ 2, spoilt[at] ^ 1])
        changed = header._replace(count=header.count + random.choice([0, 0, 0, -1, 1]))

        assert records_fill(created(spoilt), changed) == chain_fills(bytes(spoilt), changed)


LARGEST = b"\xfe" + b"\xff" * 8 + b"\x01"
"""2^63 - 1, the largest varlong."""


@pytest.mark.parametrize("length", [b"\xff" * 12, b"\xff" * 9 + b"\x7f", b"\x80" * 9 + b"\x02", LARGEST], ids=bytes.hex)
@pytest.mark.parametrize("count", [3, 20])
def test_a_record_length_of_64_bits_or_more_is_refused(length: bytes, count: int) -> None:
    batch = build_batch([(None, bytes(30))] * count, NOW)
    batch[61 : 61 + len(length)] = length

    assert not records_fill(bytes(batch), read_header(batch))


@pytest.mark.parametrize(
    "record", [b"\x03" + bytes(1), b"\x81\x01" + bytes(64), b"\0", b"\x80\0"], ids=["-2", "-65", "0", "0 in two bytes"]
)
@pytest.mark.parametrize("count", [3, 15, 16])
def test_records_that_all_have_the_same_length_that_is_not_positive_fill_nothing(count: int, record: bytes) -> None:
    header = read_header(build_batch([(None, b"")], NOW))._replace(count=count, length=49 + len(record) * count)

    assert not records_fill(bytes(61) + record * count, header)


def test_the_cache_of_batch_shapes_is_bounded() -> None:
    for size in range(CACHED_MAX + 5):
        batch = build_batch([(None, bytes(batch_check.SMALL_RECORD_BYTES + size))] * 3, NOW)
        assert records_fill(bytes(batch), read_header(batch))
        assert 0 < len(batch_check.shapes) <= CACHED_MAX


def test_a_batch_that_is_late_long_empty_or_damaged_is_not_plain() -> None:
    batch = build_batch([(None, b"v")] * 3, NOW)

    assert plain_header(batch, len(batch), NOW) is not None
    assert plain_header(batch, len(batch) - 1, NOW) is None
    assert plain_header(batch, len(batch), NOW - 1) is None
    pack_into(">B", batch, 70, batch[70] ^ 1)
    assert plain_header(batch, len(batch), NOW) is None, "a wrong CRC"
    assert plain_header(b"", len(batch), NOW) is None
    for records in (0, -1):
        pack_into(">i", batch, 23, records - 1)
        pack_into(">i", batch, 57, records)
        empty = batch[:61]
        pack_into(">i", empty, 8, 49)
        seal(empty)
        assert plain_header(empty, len(batch), NOW) is None, "no record"
