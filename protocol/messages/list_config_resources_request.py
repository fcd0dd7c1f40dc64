"""GENERATED from tools/schemas by tools/generate.py (`make generate`): ListConfigResourcesRequest, key 74, versions 0-1."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, pack as struct_pack, unpack_from
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    ELEMENTS_MAX,
    Message,
    read_uvarint,
    skip_tags,
    write_uvarint,
)


class ListConfigResourcesRequest(Message):
    """The message ListConfigResourcesRequest, versions 0-1."""

    FIELDS: ClassVar[tuple[str, ...]] = ("resource_types",)
    __slots__ = FIELDS

    def __init__(
        self,
        resource_types: Sequence[int] = (),
    ) -> None:
        self.resource_types = resource_types

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> ListConfigResourcesRequest:
        try:
            return _decode_flexible(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("ListConfigResourcesRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        _encode_flexible(out, self, version)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> ListConfigResourcesRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    if version >= 1:
        elements = buf[pos]
        if elements > 127:
            elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        elements -= 1
        if elements > end - pos:
            raise DecodeError("ResourceTypes counts more elements than there are bytes", pos)
        if elements < 0:
            raise DecodeError("ResourceTypes is null", pos)
        left -= elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        resource_types: Sequence[int] = list(unpack_from(f">{elements}b", buf, pos))
        pos += 1 * elements
    else:
        resource_types = ()
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = ListConfigResourcesRequest(resource_types)
    return message


def _encode_flexible(out: bytearray, message: ListConfigResourcesRequest, version: int) -> None:
    if version >= 1:
        count = len(message.resource_types) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        out += struct_pack(f">{len(message.resource_types)}b", *message.resource_types)
    out += b"\x00"
