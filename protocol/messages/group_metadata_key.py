"""GENERATED from tools/schemas by tools/generate.py (`make generate`): GroupMetadataKey, versions 0-0."""

from __future__ import annotations

from struct import error as StructError
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    read_string,
    write_string,
)


class GroupMetadataKey(Message):
    """The message GroupMetadataKey, versions 0-0."""

    FIELDS: ClassVar[tuple[str, ...]] = ("group",)
    __slots__ = FIELDS

    def __init__(
        self,
        group: str = "",
    ) -> None:
        self.group = group

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> GroupMetadataKey:
        try:
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("GroupMetadataKey ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> GroupMetadataKey:
    group, pos = read_string(buf, pos)
    message = GroupMetadataKey(group)
    return message


def _encode_classic(out: bytearray, message: GroupMetadataKey, version: int) -> None:
    write_string(out, message.group)
