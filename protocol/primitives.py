"""Readers and writers of strings, byte strings, variable-length integers and tagged fields, for the generated codecs.

A reader takes `(buf, pos)`, where `buf` holds exactly one frame, and returns `(value, position after it)`. A length or
count is compared with the remaining bytes before memory is allocated. Reading past the end raises DecodeError, or
IndexError or struct.error, which `decode` of a message converts to DecodeError.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any, ClassVar, Final, Self

from stuntbroker.protocol.compiler import mypyc_attr

Buffer = bytes | bytearray | memoryview

ZERO_UUID: Final = bytes(16)
INT16_MAX: Final = 2**15 - 1
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
INT64_MIN: Final = -(2**63)
STRING_MAX: Final = INT16_MAX
"""Maximum bytes of a string; a compact length can encode more, which Kafka refuses too."""
_REPLACED_MAX: Final = STRING_MAX // 3
"""Bytes up to which a string cannot exceed STRING_MAX when each invalid UTF-8 byte is replaced by a 3-byte character."""
# Unlike Kafka: Kafka accepts any number of tagged fields in a section; tens of millions of them crashed it.
TAGS_MAX: Final = 1_024
# Unlike Kafka: Kafka accepts as many elements as fit into a frame; a hundred million would block this broker for minutes.
ELEMENTS_MAX: Final = 50_000
"""Maximum number of elements in all arrays of a request together, including the tagged fields in them."""

_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack


class DecodeError(ValueError):
    """The bytes are not a valid message. `position`: byte at which decoding failed, from the start of the frame."""

    def __init__(self, what: str, position: int) -> None:
        super().__init__(f"{what} (at byte {position})")
        self.position = position


@mypyc_attr(allow_interpreted_subclasses=True)
class Message:
    """Base of messages and the structures in them; compared by value."""

    FIELDS: ClassVar[tuple[str, ...]] = ()
    """Names of the fields, in the order of the constructor."""
    __slots__: Sequence[str] = ()

    def __init__(self, *arguments: Any) -> None:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        if self.__class__ is not other.__class__:
            return NotImplemented
        return all(_same(getattr(self, name), getattr(other, name)) for name in self.FIELDS)

    def __reduce__(self) -> tuple[type[Message], tuple[Any, ...]]:
        """Copy by the constructor: compiled, the default would copy the fields of this class only."""
        return type(self), tuple(getattr(self, name) for name in self.FIELDS)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.FIELDS)
        return f"{type(self).__name__}({fields})"

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> Self:
        """Decode the message from `pos` to the end of `buf`. Raises DecodeError."""
        raise NotImplementedError

    def encode(self, out: bytearray, version: int) -> None:
        """Append the message to `out`; fields that the version does not have are left out."""
        raise NotImplementedError


def _same(left: object, right: object) -> bool:
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(_same, left, right))
    return left == right


def read_uvarint(buf: Buffer, pos: int) -> tuple[int, int]:
    """Return (value, position behind it)."""
    value = shift = 0
    while True:
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFF_FFFF:
                raise DecodeError("unsigned varint above 32 bits", pos)
            return value, pos
        shift += 7
        if shift > 28:
            raise DecodeError("unsigned varint of more than 5 bytes", pos)


def write_uvarint(out: bytearray, value: int) -> None:
    """Append an unsigned varint."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _stop(buf: Buffer, pos: int, length: int) -> int:
    stop = pos + length
    if stop > len(buf):
        raise DecodeError(f"a length of {length} runs past the end", pos)
    return stop


def _long_string(buf: Buffer, pos: int, stop: int) -> str:
    """Decode a string of more than `_REPLACED_MAX` bytes. Raises DecodeError if it would be too long when it is encoded again."""
    text = str(buf[pos:stop], "utf-8", "replace")
    if len(text.encode()) > STRING_MAX:
        raise DecodeError(f"a string of {stop - pos} bytes is not UTF-8", pos)
    return text


def read_nullable_string(buf: Buffer, pos: int) -> tuple[str | None, int]:
    """Return (text or None, position behind it); the length takes 2 bytes."""
    length = _unpack_h(buf, pos)[0]
    pos += 2
    if length < 0:
        return None, pos
    stop = _stop(buf, pos, length)
    if length > _REPLACED_MAX:
        return _long_string(buf, pos, stop), stop
    return str(buf[pos:stop], "utf-8", "replace"), stop


def read_string(buf: Buffer, pos: int) -> tuple[str, int]:
    """Return (text, position behind it); the length takes 2 bytes. Raises DecodeError for null."""
    length = _unpack_h(buf, pos)[0]
    pos += 2
    stop = pos + length
    if length < 0 or stop > len(buf):
        raise DecodeError(f"a string cannot have the length {length} here", pos)
    if length > _REPLACED_MAX:
        return _long_string(buf, pos, stop), stop
    return str(buf[pos:stop], "utf-8", "replace"), stop


def read_compact_nullable_string(buf: Buffer, pos: int) -> tuple[str | None, int]:
    """Return (text or None, position behind it); the length plus one is a varint."""
    length = buf[pos]
    if length > 127:
        length, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    if not length:
        return None, pos
    stop = pos + length - 1
    if stop > len(buf) or length > _REPLACED_MAX:
        if stop > len(buf) or length > STRING_MAX + 1:
            raise DecodeError(f"a string cannot have the length {length - 1} here", pos)
        return _long_string(buf, pos, stop), stop
    return str(buf[pos:stop], "utf-8", "replace"), stop


def read_compact_string(buf: Buffer, pos: int) -> tuple[str, int]:
    """Return (text, position behind it); the length plus one is a varint. Raises DecodeError for null."""
    length = buf[pos]
    if length > 127:
        length, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    stop = pos + length - 1
    if not length or stop > len(buf) or length > _REPLACED_MAX:
        if not length or stop > len(buf) or length > STRING_MAX + 1:
            raise DecodeError(f"a string cannot have the length {length - 1} here", pos)
        return _long_string(buf, pos, stop), stop
    return str(buf[pos:stop], "utf-8", "replace"), stop


def _read_records(buf: Buffer, pos: int) -> tuple[Buffer | None, int]:
    length = _unpack_i(buf, pos)[0]
    pos += 4
    if length < 0:
        return None, pos
    stop = _stop(buf, pos, length)
    return buf[pos:stop], stop


def _read_compact_records(buf: Buffer, pos: int) -> tuple[Buffer | None, int]:
    length = buf[pos]
    if length < 0x80:
        pos += 1
    else:
        second = buf[pos + 1]
        if second < 0x80:
            length = length & 0x7F | second << 7
            pos += 2
        else:
            length, pos = read_uvarint(buf, pos)
    if not length:
        return None, pos
    stop = pos + length - 1
    if stop > len(buf):
        raise DecodeError(f"a length of {length - 1} runs past the end", pos)
    return buf[pos:stop], stop


read_nullable_records = _read_records
read_compact_nullable_records = _read_compact_records


def read_nullable_bytes(buf: Buffer, pos: int) -> tuple[bytes | None, int]:
    """Return (bytes or None, position behind them); the length takes 4 bytes."""
    value, pos = _read_records(buf, pos)
    return None if value is None else bytes(value), pos


def read_bytes(buf: Buffer, pos: int) -> tuple[bytes, int]:
    """Return (bytes, position behind them); the length takes 4 bytes. Raises DecodeError for null."""
    value, pos = _read_records(buf, pos)
    if value is None:
        raise DecodeError("a byte string is null", pos)
    return bytes(value), pos


def read_compact_nullable_bytes(buf: Buffer, pos: int) -> tuple[bytes | None, int]:
    """Return (bytes or None, position behind them); the length plus one is a varint."""
    value, pos = _read_compact_records(buf, pos)
    return None if value is None else bytes(value), pos


def read_compact_bytes(buf: Buffer, pos: int) -> tuple[bytes, int]:
    """Return (bytes, position behind them); the length plus one is a varint. Raises DecodeError for null."""
    value, pos = _read_compact_records(buf, pos)
    if value is None:
        raise DecodeError("a byte string is null", pos)
    return bytes(value), pos


def read_tags(buf: Buffer, pos: int) -> tuple[dict[int, tuple[int, int]], int]:
    """Return (tag -> (start, end) of its payload, position after the section). Raises DecodeError."""
    count, pos = read_uvarint(buf, pos)
    if count > TAGS_MAX:
        raise DecodeError(f"{count} tagged fields, more than {TAGS_MAX}", pos)
    tags: dict[int, tuple[int, int]] = {}
    last = -1
    for _ in range(count):
        tag, pos = read_uvarint(buf, pos)
        size, pos = read_uvarint(buf, pos)
        if tag <= last:
            raise DecodeError(f"tag {tag} follows tag {last}", pos)
        last = tag
        stop = _stop(buf, pos, size)
        tags[tag] = pos, stop
        pos = stop
    return tags, pos


def skip_tags(buf: Buffer, pos: int) -> int:
    """Return the position behind a section of tagged fields."""
    return read_tags(buf, pos)[1]


def skip_counted_tags(buf: Buffer, pos: int, left: int) -> tuple[int, int]:
    """Return (position after the section, number of elements that the request may still have). Raises DecodeError."""
    tags, pos = read_tags(buf, pos)
    left -= len(tags)
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    return pos, left


def write_tags(out: bytearray, tags: Sequence[tuple[int, bytearray]]) -> None:
    """Append a section of tagged fields, which must be in the order of their numbers."""
    write_uvarint(out, len(tags))
    for tag, payload in tags:
        write_uvarint(out, tag)
        write_uvarint(out, len(payload))
        out += payload


def write_string(out: bytearray, value: str) -> None:
    """Append a text with its length in 2 bytes."""
    data = value.encode()
    out += _pack_h(len(data))
    out += data


def write_nullable_string(out: bytearray, value: str | None) -> None:
    """Append a text with its length in 2 bytes, -1 for null."""
    if value is None:
        out += b"\xff\xff"
    else:
        write_string(out, value)


def write_compact_string(out: bytearray, value: str) -> None:
    """Append a text with its length plus one as a varint."""
    data = value.encode()
    length = len(data) + 1
    if length < 128:
        out.append(length)
    else:
        write_uvarint(out, length)
    out += data


def write_compact_nullable_string(out: bytearray, value: str | None) -> None:
    """Append a text with its length plus one as a varint, 0 for null."""
    if value is None:
        out.append(0)
    else:
        write_compact_string(out, value)


def write_bytes(out: bytearray, value: Buffer) -> None:
    """Append bytes with their length in 4 bytes."""
    out += _pack_i(len(value))
    out += value


def write_nullable_bytes(out: bytearray, value: Buffer | None) -> None:
    """Append bytes with their length in 4 bytes, -1 for null."""
    if value is None:
        out += b"\xff\xff\xff\xff"
    else:
        write_bytes(out, value)


def write_compact_bytes(out: bytearray, value: Buffer) -> None:
    """Append bytes with their length plus one as a varint."""
    write_uvarint(out, len(value) + 1)
    out += value


def write_compact_nullable_bytes(out: bytearray, value: Buffer | None) -> None:
    """Append bytes with their length plus one as a varint, 0 for null."""
    if value is None:
        out.append(0)
    else:
        write_compact_bytes(out, value)


def write_records_length(out: bytearray, value: Buffer | None) -> None:
    """Append the length of records in 4 bytes; the records themselves are sent separately."""
    out += _pack_i(-1 if value is None else len(value))


def write_compact_records_length(out: bytearray, value: Buffer | None) -> None:
    """Append the length of records plus one as a varint; the records themselves are sent separately."""
    write_uvarint(out, 0 if value is None else len(value) + 1)
