"""GENERATED from tools/schemas by tools/generate.py (`make generate`): DescribeUserScramCredentialsRequest, key 50, versions 0-0."""

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
    skip_counted_tags,
    skip_tags,
    write_compact_string,
    write_uvarint,
)


class UserName(Message):
    """An element of `users` of DescribeUserScramCredentialsRequest."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name",)
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
    ) -> None:
        self.name = name


class DescribeUserScramCredentialsRequest(Message):
    """The message DescribeUserScramCredentialsRequest, versions 0-0."""

    FIELDS: ClassVar[tuple[str, ...]] = ("users",)
    __slots__ = FIELDS

    def __init__(
        self,
        users: Sequence[UserName] | None = (),
    ) -> None:
        self.users = users

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> DescribeUserScramCredentialsRequest:
        try:
            return _decode_flexible(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("DescribeUserScramCredentialsRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        _encode_flexible(out, self, version)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> DescribeUserScramCredentialsRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 2:
        raise DecodeError("Users counts more elements than there are bytes", pos)
    if elements < 0:
        users: Sequence[UserName] | None = None
    else:
        left -= elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        users_list: list[UserName] = []
        for _ in range(elements):
            u_name, pos = read_compact_string(buf, pos)
            if buf[pos]:
                pos, left = skip_counted_tags(buf, pos, left)
            else:
                pos += 1
            u = UserName(u_name)
            users_list.append(u)
        users = users_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = DescribeUserScramCredentialsRequest(users)
    return message


def _encode_flexible(out: bytearray, message: DescribeUserScramCredentialsRequest, version: int) -> None:
    if message.users is None:
        out += b"\x00"
    else:
        count = len(message.users) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for u in message.users:
            write_compact_string(out, u.name)
            out += b"\x00"
    out += b"\x00"
