"""GENERATED from tools/schemas by tools/generate.py (`make generate`): DescribeTransactionsRequest, key 65, versions 0-0."""

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


class DescribeTransactionsRequest(Message):
    """The message DescribeTransactionsRequest, versions 0-0."""

    FIELDS: ClassVar[tuple[str, ...]] = ("transactional_ids",)
    __slots__ = FIELDS

    def __init__(
        self,
        transactional_ids: Sequence[str] = (),
    ) -> None:
        self.transactional_ids = transactional_ids

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> DescribeTransactionsRequest:
        try:
            return _decode_flexible(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("DescribeTransactionsRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        _encode_flexible(out, self, version)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> DescribeTransactionsRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > end - pos:
        raise DecodeError("TransactionalIds counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("TransactionalIds is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    transactional_ids_list: list[str] = []
    for _ in range(elements):
        t, pos = read_compact_string(buf, pos)
        transactional_ids_list.append(t)
    transactional_ids: Sequence[str] = transactional_ids_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = DescribeTransactionsRequest(transactional_ids)
    return message


def _encode_flexible(out: bytearray, message: DescribeTransactionsRequest, version: int) -> None:
    count = len(message.transactional_ids) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for t in message.transactional_ids:
        write_compact_string(out, t)
    out += b"\x00"
