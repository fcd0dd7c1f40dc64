"""The primitive types that every codec uses."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stuntbroker.protocol import primitives
from stuntbroker.protocol.crc import crc32c
from stuntbroker.protocol.primitives import (
    STRING_MAX,
    TAGS_MAX,
    DecodeError,
    read_tags,
    read_uvarint,
    skip_tags,
    write_tags,
    write_uvarint,
)


@pytest.mark.parametrize(
    ("value", "wire"),
    [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (16_383, "ff7f"), (16_384, "808001"),
     (2**31 - 1, "ffffffff07"), (2**32 - 1, "ffffffff0f")],
)  # fmt: skip
def test_an_unsigned_varint_is_written_low_bits_first(value: int, wire: str) -> None:
    out = bytearray()
    write_uvarint(out, value)

    assert out.hex() == wire
    assert read_uvarint(b"\xff" + out, 1) == (value, 1 + len(out))


@pytest.mark.parametrize("wire", ["ffffffff1f", "ffffffff7f", "808080808000", "ffffffffff01", "ff" * 12])
def test_an_unsigned_varint_of_more_than_32_bits_is_refused(wire: str) -> None:
    with pytest.raises(DecodeError):
        read_uvarint(bytes.fromhex(wire), 0)


@given(st.integers(0, 2**32 - 1))
def test_an_unsigned_varint_reads_as_written(value: int) -> None:
    out = bytearray()
    write_uvarint(out, value)

    assert read_uvarint(out, 0) == (value, len(out))


texts = st.text(max_size=200)
octets = st.binary(max_size=200)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("string", texts),
        ("nullable_string", texts | st.none()),
        ("compact_string", texts),
        ("compact_nullable_string", texts | st.none()),
        ("bytes", octets),
        ("nullable_bytes", octets | st.none()),
        ("compact_bytes", octets),
        ("compact_nullable_bytes", octets | st.none()),
    ],
)
@given(data=st.data())
def test_a_string_or_byte_string_reads_as_written(name: str, values: st.SearchStrategy[Any], data: Any) -> None:
    value = data.draw(values)
    out = bytearray(b"before")
    getattr(primitives, f"write_{name}")(out, value)

    for buf in (bytes(out) + b"after", memoryview(out + b"after")):
        assert getattr(primitives, f"read_{name}")(buf, 6) == (value, len(out))


@pytest.mark.parametrize("kind", ["string", "nullable_string"])
def test_a_compact_string_is_at_most_as_long_as_a_classic_one_can_be(kind: str) -> None:
    """Otherwise a string received in a flexible version could not be sent in a non-flexible one."""
    out = bytearray()
    primitives.write_compact_string(out, "x" * STRING_MAX)
    longer = bytearray()
    primitives.write_compact_string(longer, "x" * (STRING_MAX + 1))
    read = getattr(primitives, f"read_compact_{kind}")

    assert read(out, 0) == ("x" * STRING_MAX, len(out))
    with pytest.raises(DecodeError):
        read(longer, 0)


@pytest.mark.parametrize("wire", ["0003c328ff", "04c328ff"])
def test_bytes_that_are_no_utf_8_are_replaced(wire: str) -> None:
    read = primitives.read_string if wire.startswith("00") else primitives.read_compact_string

    assert read(bytes.fromhex(wire), 0)[0] == "\ufffd(\ufffd"


@pytest.mark.parametrize(
    ("name", "wire"),
    [
        ("string", "0003"), ("string", "ffff"), ("string", "8000"), ("nullable_string", "0003"),
        ("bytes", "00000003"), ("bytes", "ffffffff"), ("bytes", "80000000"), ("nullable_bytes", "7fffffff"),
        ("nullable_records", "00000003"), ("compact_nullable_records", "04"), ("compact_nullable_records", "8001"),
        ("compact_string", "04"), ("compact_string", "00"), ("compact_string", "8001"),
        ("compact_nullable_string", "04"), ("compact_nullable_string", "8001"),
        ("compact_bytes", "04"), ("compact_bytes", "00"), ("compact_nullable_bytes", "ffffffff0f"),
    ],
)  # fmt: skip
def test_a_length_past_the_end_or_null_in_a_non_nullable_field_is_refused(name: str, wire: str) -> None:
    for buf in (bytes.fromhex(wire) + b"ab", memoryview(bytes.fromhex(wire) + b"ab")):
        with pytest.raises(DecodeError):
            getattr(primitives, f"read_{name}")(buf, 0)


@given(st.dictionaries(st.integers(0, 2**32 - 1), st.binary(max_size=20), max_size=8))
def test_a_section_of_tagged_fields_reads_as_written(fields: dict[int, bytes]) -> None:
    out = bytearray(b"\xff")
    write_tags(out, [(tag, bytearray(fields[tag])) for tag in sorted(fields)])
    actual, after = read_tags(out, 1)

    assert {tag: bytes(out[start:stop]) for tag, (start, stop) in actual.items()} == fields
    assert after == skip_tags(out, 1) == len(out)


def test_a_section_holds_no_more_tagged_fields_than_the_limit() -> None:
    fits, exceeds = bytearray(), bytearray()
    write_tags(fits, [(tag, bytearray()) for tag in range(TAGS_MAX)])
    write_tags(exceeds, [(tag, bytearray()) for tag in range(TAGS_MAX + 1)])

    assert skip_tags(fits, 0) == len(fits)
    with pytest.raises(DecodeError, match="1025 tagged fields"):
        skip_tags(exceeds, 0)


def test_a_decode_error_has_the_position() -> None:
    with pytest.raises(DecodeError, match=r"\(at byte 2\)") as refused:
        primitives.read_string(b"\x00\x05ab", 0)

    assert refused.value.position == 2


@pytest.mark.parametrize(
    ("data", "crc"),
    [(b"", 0), (b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43),
     (bytes(range(32)), 0x46DD794E)],
)  # fmt: skip
def test_the_crc_is_castagnolis(data: bytes, crc: int) -> None:
    """The standard check value of CRC-32C, and the test vectors of RFC 3720, B.4."""
    assert crc32c(data) == crc32c(memoryview(data)) == crc32c(bytearray(data)) == crc
