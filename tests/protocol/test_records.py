"""Record batches: the same bytes as Kafka's, round trips, and malformed batches that are refused."""

from __future__ import annotations

from random import Random
from struct import pack, pack_into

import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from stuntbroker.protocol.batches.records import (
    ABORT_KEY,
    COMMIT_KEY,
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    SEQUENCE_MAX,
    TRANSACTIONAL,
    BatchHeader,
    Record,
    add_sequence,
    build_batch,
    crc_of,
    marker_body,
    marker_of,
    read_header,
    read_records,
    seal,
    unzigzag,
    zigzag,
)
from stuntbroker.protocol.primitives import DecodeError

NOW = 1_700_000_000_000

# Written by Apache Kafka 4.4.0's own classes. The markers have offset 42, leader epoch 3 and coordinator epoch 7.
ABORT_BATCH = bytes.fromhex(
    "000000000000002a000000420000000302b4ebc2a10030000000000000018bcfe568000000018bcfe568000000000000"
    "0003e80005ffffffff000000012000000008000000000c00000000000700"
)
COMMIT_BATCH = bytes.fromhex(
    "000000000000002a00000042000000030240d514e90030000000000000018bcfe568000000018bcfe568000000000000"
    "0003e80005ffffffff000000012000000008000000010c00000000000700"
)
DATA_BATCH = bytes.fromhex(
    "00000000000000000000003affffffff02aa798e5c0010000000000000018bcfe568000000018bcfe568000000000000"
    "0003e80005000000000000000110000000026b027600"
)
DATA_HEADER = BatchHeader(
    base_offset=0,
    length=58,
    leader_epoch=-1,
    magic=2,
    crc=0xAA798E5C,
    attributes=TRANSACTIONAL,
    last_offset_delta=0,
    base_timestamp=NOW,
    max_timestamp=NOW,
    producer_id=1000,
    producer_epoch=5,
    base_sequence=0,
    count=1,
)


def opened(batch: bytes | bytearray) -> list[Record]:
    return list(read_records(read_header(batch), batch, HEADER_SIZE))


@pytest.mark.parametrize(("commit", "golden"), [(True, COMMIT_BATCH), (False, ABORT_BATCH)])
def test_a_marker_has_kafkas_bytes(commit: bool, golden: bytes) -> None:
    batch = pack(">q", 42) + marker_body(commit, 1000, 5, 7, NOW, 3)

    assert batch.hex() == golden.hex()
    assert len(batch) == 78
    assert read_header(golden).crc == crc_of(golden)


@pytest.mark.parametrize(("commit", "golden"), [(True, COMMIT_BATCH), (False, ABORT_BATCH)])
def test_a_marker_is_read_as_kafka_wrote_it(commit: bool, golden: bytes) -> None:
    header = read_header(golden)
    (record,) = opened(golden)

    assert header.control and header.transactional
    assert (header.size, header.last_offset, header.next_offset, header.last_sequence) == (78, 42, 43, -1)
    assert record == Record(42, NOW, COMMIT_KEY if commit else ABORT_KEY, bytes.fromhex("000000000007"))
    assert marker_of(record) == (commit, 7)


def test_a_transactional_batch_has_kafkas_bytes() -> None:
    batch = build_batch(
        [(b"k", b"v")],
        NOW,
        producer_id=1000,
        producer_epoch=5,
        base_sequence=0,
        attributes=TRANSACTIONAL,
        leader_epoch=-1,
    )

    assert batch.hex() == DATA_BATCH.hex()
    assert read_header(DATA_BATCH) == DATA_HEADER
    assert opened(DATA_BATCH) == [Record(0, NOW, b"k", b"v")]


@pytest.mark.parametrize(
    ("key", "value", "marker"),
    [
        (ABORT_KEY,                    "0000 00000007",      (False, 7)),
        (COMMIT_KEY,                   "0000 00000007",      (True, 7)),
        (COMMIT_KEY + b"more",         "0000 00000007",      (True, 7)),
        (b"\x00\x09\x00\x01",          "0000 00000007",      (True, 7)),
        (b"\x00\x09\x00\x00\xff\xff",  "0009 00000007 beef", (False, 7)),
        (COMMIT_KEY,                   "0000 ffffffff",      (True, -1)),
        (b"\x00\x00\x00\x02",          "0000 00000007",      None),  # A leader change.
        (b"\x00\x00\x00\x06",          "0000 00000007",      None),
        (b"\x00\x00\xff\xff",          "0000 00000007",      None),
        (COMMIT_KEY[:3],               "0000 00000007",      None),
        (COMMIT_KEY,                   "0000 000000",        None),
        (b"",                          "",                   None),
    ],
)  # fmt: skip
def test_a_marker_is_recognised_by_the_type_in_its_key_whatever_follows(
    key: bytes, value: str, marker: tuple[bool, int] | None
) -> None:
    assert marker_of(Record(0, 0, key, bytes.fromhex(value))) == marker


def test_a_record_without_key_or_value_is_no_marker() -> None:
    assert marker_of(Record(0, 0, None, b"\x00" * 6)) is None
    assert marker_of(Record(0, 0, COMMIT_KEY, None)) is None


@pytest.mark.parametrize(
    ("sequence", "increment", "sum_of_both"),
    [
        (0, 0, 0),
        (0, 5, 5),
        (SEQUENCE_MAX - 1, 1, SEQUENCE_MAX),
        (SEQUENCE_MAX, 0, SEQUENCE_MAX),
        (SEQUENCE_MAX, 1, 0),
        (SEQUENCE_MAX - 2, 5, 2),
        (SEQUENCE_MAX, SEQUENCE_MAX, SEQUENCE_MAX - 1),
    ],
)
def test_sequence_numbers_continue_from_zero_after_the_highest(sequence: int, increment: int, sum_of_both: int) -> None:
    assert add_sequence(sequence, increment) == sum_of_both
    assert DATA_HEADER._replace(base_sequence=sequence, last_offset_delta=increment).last_sequence == sum_of_both


def test_a_batch_without_sequence_numbers_has_no_last_sequence() -> None:
    assert DATA_HEADER._replace(base_sequence=-1, last_offset_delta=9).last_sequence == -1


fields = st.none() | st.binary(max_size=200)


@given(st.lists(st.tuples(fields, fields), max_size=20), st.integers(-1, 2**62), st.integers(0, 2**62))
def test_a_batch_reads_as_it_was_built(
    pairs: list[tuple[bytes | None, bytes | None]], timestamp: int, offset: int
) -> None:
    batch = build_batch(pairs, timestamp, base_offset=offset)
    header = read_header(batch)

    assert opened(batch) == [Record(offset + i, timestamp, key, value) for i, (key, value) in enumerate(pairs)]
    assert (header.size, header.count, header.crc) == (len(batch), len(pairs), crc_of(batch))
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.magic) == (-1, -1, -1, 2)


headers = st.lists(st.tuples(st.text(max_size=5), fields), max_size=4)


@given(st.lists(st.tuples(st.integers(0, 2**62), fields, fields, headers), min_size=1, max_size=8))
def test_a_batch_of_another_client_reads_as_that_client_built_it(
    rows: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]],
) -> None:
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 20)
    for offset, (timestamp, key, value, head) in enumerate(rows):
        builder.append(offset, timestamp, key, value, head)

    assert opened(bytes(builder.build())) == [
        Record(offset, timestamp, key, value, tuple(head)) for offset, (timestamp, key, value, head) in enumerate(rows)
    ]


@given(st.lists(st.tuples(fields, fields), min_size=1, max_size=8))
def test_another_client_reads_a_batch_as_it_was_built(pairs: list[tuple[bytes | None, bytes | None]]) -> None:
    batch = DefaultRecordBatch(build_batch(pairs, NOW))

    assert batch.validate_crc()
    assert [(record.offset, record.timestamp, record.key, record.value) for record in batch] == [
        (offset, NOW, key, value) for offset, (key, value) in enumerate(pairs)
    ]


def test_every_record_has_the_max_timestamp_of_the_batch_under_log_append_time() -> None:
    header = DATA_HEADER._replace(attributes=LOG_APPEND_TIME, max_timestamp=99)

    assert [record.timestamp for record in read_records(header, DATA_BATCH, HEADER_SIZE)] == [99]


def test_the_crc_detects_every_changed_bit() -> None:
    for at in range(21, len(DATA_BATCH)):
        for bit in range(8):
            damaged = bytearray(DATA_BATCH)
            damaged[at] ^= 1 << bit

            assert crc_of(damaged) != read_header(damaged).crc
            seal(damaged)
            assert crc_of(damaged) == read_header(damaged).crc


def test_the_offset_and_leader_epoch_are_stamped_without_a_new_crc() -> None:
    batch = bytearray(DATA_BATCH)
    pack_into(">q", batch, 0, 2**60)
    pack_into(">i", batch, 12, 17)

    assert crc_of(batch) == read_header(DATA_BATCH).crc


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_varlong_reads_as_written(value: int) -> None:
    out = bytearray(b"\xff")
    zigzag(out, value)

    assert unzigzag(out, 1) == (value, len(out))
    assert len(out) <= 11


@pytest.mark.parametrize(
    ("value", "wire"),
    [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001"), (-65, "8101"), (2**31 - 1, "feffffff0f"),
     (-(2**31), "ffffffff0f"), (2**63 - 1, "feffffffffffffffff01"), (-(2**63), "ffffffffffffffffff01")],
)  # fmt: skip
def test_a_varlong_is_zigzag_low_bits_first(value: int, wire: str) -> None:
    out = bytearray()
    zigzag(out, value)

    assert out.hex() == wire


@pytest.mark.parametrize("wire", ["ffffffffffffffffff03", "ffffffffffffffffff7f", "80" * 10 + "00", "ff" * 20])
def test_a_varlong_of_more_than_64_bits_is_refused(wire: str) -> None:
    with pytest.raises(DecodeError):
        unzigzag(bytes.fromhex(wire), 0)


def rich_batch() -> bytes:
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 20)
    builder.append(0, NOW, b"key", b"value", [("name", b"header"), ("other", None)])
    builder.append(1, NOW + 200, None, b"x" * 80, [])
    builder.append(2, NOW - 5, b"", None, [("", b"")])
    return bytes(builder.build())


def read_or_refuse(header: BatchHeader, payload: bytes) -> bool:
    """Whether the records are as declared. Anything but DecodeError passes through and fails the test."""
    answers = set()
    for buf in (payload, memoryview(payload)):
        try:
            for record in read_records(header, buf):
                assert header.base_offset <= record.offset <= header.last_offset
            answers.add(True)
        except DecodeError:
            answers.add(False)
    assert len(answers) == 1
    return answers.pop()


def test_records_cut_short_are_refused() -> None:
    batch = rich_batch()
    header, payload = read_header(batch), batch[HEADER_SIZE:]

    assert read_or_refuse(header, payload)
    for cut in range(len(payload)):
        assert not read_or_refuse(header, payload[:cut]), f"cut at {cut}"


def test_bytes_after_the_last_record_are_refused() -> None:
    batch = rich_batch()

    for remaining in (b"\x00", batch[HEADER_SIZE:], b"\x0c\x00\x00\x00\x01\x01\x00"):
        assert not read_or_refuse(read_header(batch), batch[HEADER_SIZE:] + remaining)


@pytest.mark.parametrize("count", [-(2**31), -1, 0, 1, 2, 4, 2**31 - 1])
def test_a_wrong_count_of_records_is_refused(count: int) -> None:
    batch = rich_batch()

    assert not read_or_refuse(read_header(batch)._replace(count=count), batch[HEADER_SIZE:])


def test_a_batch_with_a_negative_count_of_records_is_refused() -> None:
    assert not read_or_refuse(DATA_HEADER._replace(count=-1), b"")


def test_a_batch_that_compaction_left_empty_has_no_records() -> None:
    assert list(read_records(DATA_HEADER._replace(count=0, attributes=TRANSACTIONAL | CONTROL), b"")) == []


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ("0c 00 00 02 01 01 00",          "outside its batch"),  # Offset 1 in a batch of one.
        ("0c 00 00 01 01 01 00",          "outside its batch"),  # Offset -1.
        ("0e 00 00 00 01 01 00",          "runs past the end"),
        ("0a 00 00 00 01 01 00",          "wrong length"),
        ("0e 00 00 00 01 01 00 00",       "wrong length"),
        ("01 00 00 00 01 01 00",          "runs past the end"),  # A length of -1.
        ("00",                            "ends too early"),
        ("0c 00 00 00 06 01 00",          "runs past the end"),  # A key longer than its record.
        ("0c 00 00 00 04 01 00",          "ends too early"),
        ("0c 00 00 00 01 01 01",          "more headers"),       # -1 headers.
        ("0c 00 00 00 01 01 7e",          "more headers"),
        ("10 00 00 00 01 01 02 01 01",    "header is null"),
        ("14 00 00 00 01 01 feffffff0f",  "more headers"),
        ("14 00 00 00 feffffff0f 01 00",  "runs past the end"),
        ("feffffffffffffffff01",          "more than 5 bytes"),
        ("fe ff ff ff 0f",                "runs past the end"),
    ],
)  # fmt: skip
def test_a_malformed_record_is_refused(record: str, why: str) -> None:
    with pytest.raises(DecodeError, match=why):
        list(read_records(DATA_HEADER, bytes.fromhex(record)))


def test_damaged_records_are_refused_or_read() -> None:
    batch, random = rich_batch(), Random(7)
    header, payload = read_header(batch), batch[HEADER_SIZE:]
    for at in range(len(payload)):
        for change in (b"\xff" * 10, b"\xfe\xff\xff\xff\x0f", b"\x01", b"\x7f", b"\x80", random.randbytes(3)):
            read_or_refuse(header, payload[:at] + change + payload[at + len(change) :])
            read_or_refuse(header, payload[:at] + change + payload[at:])
    for size in range(60):
        read_or_refuse(header, random.randbytes(size))
