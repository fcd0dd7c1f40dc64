"""GENERATED from tools/schemas by tools/generate.py (`make generate`): ListTransactionsRequest, key 66, versions 0-2."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, pack as struct_pack, Struct, unpack_from
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    ELEMENTS_MAX,
    Message,
    read_compact_nullable_string,
    read_compact_string,
    read_uvarint,
    skip_tags,
    write_compact_string,
    write_uvarint,
)

_unpack_q = Struct(">q").unpack_from
_pack_q = Struct(">q").pack


class ListTransactionsRequest(Message):
    """The message ListTransactionsRequest, versions 0-2."""

    FIELDS: ClassVar[tuple[str, ...]] = ("state_filters", "producer_id_filters", "duration_filter", "transactional_id_pattern")
    __slots__ = FIELDS

    def __init__(
        self,
        state_filters: Sequence[str] = (),
        producer_id_filters: Sequence[int] = (),
        duration_filter: int = -1,
        transactional_id_pattern: str | None = None,
    ) -> None:
        self.state_filters = state_filters
        self.producer_id_filters = producer_id_filters
        self.duration_filter = duration_filter
        self.transactional_id_pattern = transactional_id_pattern

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> ListTransactionsRequest:
        try:
            return _decode_flexible(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("ListTransactionsRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        _encode_flexible(out, self, version)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> ListTransactionsRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > end - pos:
        raise DecodeError("StateFilters counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("StateFilters is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    state_filters_list: list[str] = []
    for _ in range(elements):
        s, pos = read_compact_string(buf, pos)
        state_filters_list.append(s)
    state_filters: Sequence[str] = state_filters_list
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 8:
        raise DecodeError("ProducerIdFilters counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("ProducerIdFilters is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    producer_id_filters: Sequence[int] = list(unpack_from(f">{elements}q", buf, pos))
    pos += 8 * elements
    if version >= 1:
        duration_filter = _unpack_q(buf, pos)[0]
        pos += 8
    else:
        duration_filter = -1
    if version >= 2:
        transactional_id_pattern, pos = read_compact_nullable_string(buf, pos)
    else:
        transactional_id_pattern = None
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = ListTransactionsRequest(state_filters, producer_id_filters, duration_filter, transactional_id_pattern)
    return message


def _encode_flexible(out: bytearray, message: ListTransactionsRequest, version: int) -> None:
    count = len(message.state_filters) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for s in message.state_filters:
        write_compact_string(out, s)
    count = len(message.producer_id_filters) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    out += struct_pack(f">{len(message.producer_id_filters)}q", *message.producer_id_filters)
    if version >= 1:
        out += _pack_q(message.duration_filter)
    if version >= 2:
        if message.transactional_id_pattern is None:
            out.append(0)
        else:
            write_compact_string(out, message.transactional_id_pattern)
    out += b"\x00"
