"""GENERATED from tools/schemas by tools/generate.py (`make generate`): FindCoordinatorRequest, key 10, versions 0-6."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    ELEMENTS_MAX,
    Message,
    read_compact_string,
    read_string,
    read_uvarint,
    skip_tags,
    write_compact_string,
    write_string,
    write_uvarint,
)

_unpack_b = Struct(">b").unpack_from
_pack_b = Struct(">b").pack


class FindCoordinatorRequest(Message):
    """The message FindCoordinatorRequest, versions 0-6."""

    FIELDS: ClassVar[tuple[str, ...]] = ("key", "key_type", "coordinator_keys")
    __slots__ = FIELDS

    def __init__(
        self,
        key: str = "",
        key_type: int = 0,
        coordinator_keys: Sequence[str] = (),
    ) -> None:
        self.key = key
        self.key_type = key_type
        self.coordinator_keys = coordinator_keys

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> FindCoordinatorRequest:
        try:
            if version >= 3:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("FindCoordinatorRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 3:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> FindCoordinatorRequest:
    key, pos = read_string(buf, pos)
    if version >= 1:
        key_type = _unpack_b(buf, pos)[0]
        pos += 1
    else:
        key_type = 0
    message = FindCoordinatorRequest(key, key_type, ())
    return message


def _encode_classic(out: bytearray, message: FindCoordinatorRequest, version: int) -> None:
    write_string(out, message.key)
    if version >= 1:
        out += _pack_b(message.key_type)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> FindCoordinatorRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    if version <= 3:
        key, pos = read_compact_string(buf, pos)
    else:
        key = ""
    key_type = _unpack_b(buf, pos)[0]
    pos += 1
    if version >= 4:
        elements = buf[pos]
        if elements > 127:
            elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        elements -= 1
        if elements > end - pos:
            raise DecodeError("CoordinatorKeys counts more elements than there are bytes", pos)
        if elements < 0:
            raise DecodeError("CoordinatorKeys is null", pos)
        left -= elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        coordinator_keys_list: list[str] = []
        for _ in range(elements):
            c, pos = read_compact_string(buf, pos)
            coordinator_keys_list.append(c)
        coordinator_keys: Sequence[str] = coordinator_keys_list
    else:
        coordinator_keys = ()
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = FindCoordinatorRequest(key, key_type, coordinator_keys)
    return message


def _encode_flexible(out: bytearray, message: FindCoordinatorRequest, version: int) -> None:
    if version <= 3:
        write_compact_string(out, message.key)
    out += _pack_b(message.key_type)
    if version >= 4:
        count = len(message.coordinator_keys) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for c in message.coordinator_keys:
            write_compact_string(out, c)
    out += b"\x00"
