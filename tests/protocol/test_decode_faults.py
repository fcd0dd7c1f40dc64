"""Malformed messages raise DecodeError and no other exception, and decoding them takes little memory."""

from __future__ import annotations

import tracemalloc
from importlib import import_module
from random import Random
from typing import Any

import pytest
from schema import Message

from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.produce_response import ProduceResponse
from stuntbroker.protocol.messages.request_header import RequestHeader
from stuntbroker.protocol.primitives import TAGS_MAX, DecodeError, write_uvarint
from tests.kit.message_samples import class_of, encoded, in_every_version, random_message

EXTREMES = [
    b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\xff\xff\xff\xfe", b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff\x0f", b"\xfe\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x1f", b"\xff\xff\xff\xff\x7f",
    b"\x80\x80\x80\x80\x80\x00", b"\xff" * 10, b"\x80\x08", b"\x7f\xff", b"\xff\xfe",
]  # fmt: skip
"""Extreme lengths and counts: the highest, -1, -2, the lowest, and varints of five or more bytes."""
MEMORY_MAX = 100_000
"""Bytes of memory that decoding a frame of some hundred bytes may take."""


def class_named(module: str) -> Any:
    """The message class of a module, which has the name of the module in CamelCase."""
    name = "".join(word.capitalize() for word in module.split("_"))
    return getattr(import_module(f"stuntbroker.protocol.messages.{module}"), name)


def decode_or_refuse(kind: Any, frame: bytes, version: int) -> bool:
    """Whether the frame decodes. Anything but DecodeError passes through and fails the test."""
    answers = set()
    for buf in (frame, memoryview(frame)):
        try:
            kind.decode(buf, version)
            answers.add(True)
        except DecodeError as refused:
            assert refused.position <= len(frame)
            answers.add(False)
    assert len(answers) == 1
    return answers.pop()


def wires(message: Message, version: int, samples: int, longest: int = 150) -> list[bytes]:
    """Encodings of random messages, short enough to test every byte."""
    random = Random(f"{message.name} {version}")
    actual = [encoded(random_message(message, version, random), version) for _ in range(10 * samples)]
    short = [wire for wire in actual if len(wire) <= longest] or [min(actual, key=len)]
    return sorted(short, key=len)[-samples:]


@in_every_version
def test_a_message_cut_short_is_refused(message: Message, version: int) -> None:
    kind = class_of(message)
    for wire in wires(message, version, 2):
        for cut in range(len(wire)):
            assert not decode_or_refuse(kind, wire[:cut], version), f"cut at {cut}"


@in_every_version
def test_damaged_bytes_are_refused_or_read(message: Message, version: int) -> None:
    kind, random = class_of(message), Random(f"{message.name} {version}")
    (wire,) = wires(message, version, 1)
    for at in range(len(wire)):
        for flip in (0x01, 0x80, 0xFF, random.randrange(1, 256)):
            decode_or_refuse(kind, wire[:at] + bytes([wire[at] ^ flip]) + wire[at + 1 :], version)


@in_every_version
def test_random_bytes_are_refused_or_read(message: Message, version: int) -> None:
    kind, random = class_of(message), Random(f"{message.name} {version}")
    for size in (0, 1, 2, 4, 8, 16, 40, 100):
        for _ in range(5):
            decode_or_refuse(kind, random.randbytes(size), version)
            decode_or_refuse(kind, bytes(random.choice(b"\x00\x00\x00\x01\x02\x7f\xff") for _ in range(size)), version)


@in_every_version
def test_extreme_lengths_and_counts_are_refused_or_read(message: Message, version: int) -> None:
    kind = class_of(message)
    (wire,) = wires(message, version, 1)
    for at in range(len(wire)):
        for extreme in EXTREMES:
            decode_or_refuse(kind, wire[:at] + extreme + wire[at + len(extreme) :], version)


@pytest.mark.parametrize(
    ("name", "version", "frame"),
    [
        ("metadata_request", 0, "7fffffff"),
        ("metadata_request", 0, "00000002 0000 00"),  # An element takes two bytes at least.
        ("metadata_request", 9, "04 01 00 01 00 00"),
        ("find_coordinator_request", 4, "00 ffffffff0f"),
        ("describe_producers_request", 0, "02 02 61 03 00000000 000000"),
        ("list_transactions_request", 0, "01 03 0000000000000000 00000000000000"),
    ],
)
def test_a_count_of_more_elements_than_there_are_bytes_is_refused_before_any_is_read(
    name: str, version: int, frame: str
) -> None:
    with pytest.raises(DecodeError, match="counts more elements than there are bytes"):
        class_named(name).decode(bytes.fromhex(frame), version)


def peak_of(kind: Any, frame: bytes, version: int) -> int:
    """Bytes allocated at the worst moment of decoding."""
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    try:
        kind.decode(frame, version)
    except DecodeError:
        pass
    return tracemalloc.get_traced_memory()[1] - before


@in_every_version
def test_a_lying_count_costs_no_memory(message: Message, version: int) -> None:
    kind = class_of(message)
    (wire,) = wires(message, version, 1, longest=100)
    tracemalloc.start()
    try:
        peaks = [
            peak_of(kind, (wire[:at] + lie + wire[at:])[:300], version)
            for at in range(min(len(wire), 150))
            for lie in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f")
        ]
    finally:
        tracemalloc.stop()

    assert max(peaks, default=0) < MEMORY_MAX


@pytest.mark.parametrize("count", [TAGS_MAX + 1, 30_000_000, 2**31 - 1, 2**32 - 1])
def test_a_header_of_millions_of_tagged_fields_is_refused_unread(count: int) -> None:
    """The count alone is enough to refuse it."""
    out = bytearray()
    RequestHeader(26, 5, 7, "c").encode(out, 2)
    del out[-1]
    write_uvarint(out, count)
    frame = bytes(out) + bytes(i % 128 for i in range(4096))
    tracemalloc.start()
    try:
        peak = peak_of(RequestHeader, frame, 2)
    finally:
        tracemalloc.stop()

    assert peak < 10_000
    with pytest.raises(DecodeError, match="tagged fields"):
        RequestHeader.decode(frame, 2)


def tagged_section(*fields: tuple[int, int, bytes]) -> bytes:
    """(tag, declared size, payload) of each field."""
    out = bytearray()
    write_uvarint(out, len(fields))
    for tag, size, payload in fields:
        write_uvarint(out, tag)
        write_uvarint(out, size)
        out += payload
    return bytes(out)


@pytest.mark.parametrize(
    ("section", "why"),
    [
        (tagged_section((5, 1, b"a"), (5, 1, b"b")), "follows"),
        (tagged_section((5, 1, b"a"), (4, 1, b"b")), "follows"),
        (tagged_section((5, 2, b"a")), "past the end"),
        (tagged_section((5, 2**31 - 1, b"a")), "past the end"),
        (tagged_section((5, 2**32 - 1, b"a")), "past the end"),
        (b"\x01\x05", "too early"),
        (b"\x01", "too early"),
        (b"\x80\x80\x80\x80\x80\x00", "more than 5 bytes"),
        (b"\xff\xff\xff\xff\x7f", "above 32 bits"),
    ],
)  # fmt: skip
def test_a_malformed_section_of_tagged_fields_is_refused(section: bytes, why: str) -> None:
    body = encoded(EndTxnRequest("t", 1000, 3, True), 5)[:-1]

    with pytest.raises(DecodeError, match=why):
        EndTxnRequest.decode(body + section, 5)


@pytest.mark.parametrize("size", [0, 1, 3, 5])
def test_a_known_tagged_field_has_exactly_the_size_given(size: int) -> None:
    """An empty array of node endpoints takes one byte. The decoder does not read into the next tagged field."""
    body = b"\x01" + b"\x00\x00\x00\x00"  # No topics, no throttling.
    right = body + tagged_section((0, 1, b"\x01"), (9, 4, b"abcd"))
    wrong = body + tagged_section((0, size, b"\x01" + b"x" * max(0, size - 1)), (9, 4, b"abcd"))

    assert ProduceResponse.decode(right, 10).node_endpoints == []
    if size != 1:
        with pytest.raises(DecodeError):
            ProduceResponse.decode(wrong, 10)


@pytest.mark.parametrize(
    ("name", "version", "field", "frame"),
    [
        ("metadata_request", 0, "Topics", "ffffffff"),
        ("metadata_request", 9, "Name", "02 00 00 01 00 00 00"),
        ("fetch_response", 4, "Responses", "00000000 ffffffff"),
        ("fetch_response", 12, "Responses", "00000000 0000 00000000 00 00"),
        ("end_txn_request", 0, "string", "ffff 0000000000000001 0001 01"),
        ("end_txn_request", 3, "string", "00 0000000000000001 0001 01 00"),
        ("join_group_response", 6, "ProtocolName", "00000000 0000 00000001 00 01 01 01 00"),
        ("sync_group_response", 3, "byte string", "00000000 0000 ffffffff"),
        ("sync_group_response", 4, "byte string", "00000000 0000 00 00"),
    ],
)  # fmt: skip
def test_null_where_none_is_allowed_is_refused(name: str, version: int, field: str, frame: str) -> None:
    with pytest.raises(DecodeError, match=field):
        class_named(name).decode(bytes.fromhex(frame), version)
