"""GENERATED from tools/schemas by tools/generate.py (`make generate`): ListGroupsRequest, key 16, versions 0-5."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    ELEMENTS_MAX,
    Message,
    read_compact_string,
    read_uvarint,
    skip_tags,
    write_compact_string,
    write_uvarint,
)


class ListGroupsRequest(Message):
    """The message ListGroupsRequest, versions 0-5."""

    FIELDS: ClassVar[tuple[str, ...]] = ("states_filter", "types_filter")
    __slots__ = FIELDS

    def __init__(
        self,
        states_filter: Sequence[str] = (),
        types_filter: Sequence[str] = (),
    ) -> None:
        self.states_filter = states_filter
        self.types_filter = types_filter

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> ListGroupsRequest:
        try:
            if version >= 3:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("ListGroupsRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 3:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> ListGroupsRequest:
    message = ListGroupsRequest((), ())
    return message


def _encode_classic(out: bytearray, message: ListGroupsRequest, version: int) -> None:
    pass


def _decode_flexible(buf: Buffer, pos: int, version: int) -> ListGroupsRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    if version >= 4:
        elements = buf[pos]
        if elements > 127:
            elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        elements -= 1
        if elements > end - pos:
            raise DecodeError("StatesFilter counts more elements than there are bytes", pos)
        if elements < 0:
            raise DecodeError("StatesFilter is null", pos)
        left -= elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        states_filter_list: list[str] = []
        for _ in range(elements):
            s, pos = read_compact_string(buf, pos)
            states_filter_list.append(s)
        states_filter: Sequence[str] = states_filter_list
    else:
        states_filter = ()
    if version >= 5:
        elements = buf[pos]
        if elements > 127:
            elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        elements -= 1
        if elements > end - pos:
            raise DecodeError("TypesFilter counts more elements than there are bytes", pos)
        if elements < 0:
            raise DecodeError("TypesFilter is null", pos)
        left -= elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        types_filter_list: list[str] = []
        for _ in range(elements):
            t, pos = read_compact_string(buf, pos)
            types_filter_list.append(t)
        types_filter: Sequence[str] = types_filter_list
    else:
        types_filter = ()
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = ListGroupsRequest(states_filter, types_filter)
    return message


def _encode_flexible(out: bytearray, message: ListGroupsRequest, version: int) -> None:
    if version >= 4:
        count = len(message.states_filter) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for s in message.states_filter:
            write_compact_string(out, s)
    if version >= 5:
        count = len(message.types_filter) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for t in message.types_filter:
            write_compact_string(out, t)
    out += b"\x00"
