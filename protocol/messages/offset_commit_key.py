"""GENERATED from tools/schemas by tools/generate.py (`make generate`): OffsetCommitKey, versions 0-0."""

from __future__ import annotations

from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    read_string,
    write_string,
)

_unpack_i = Struct(">i").unpack_from
_pack_i = Struct(">i").pack


class OffsetCommitKey(Message):
    """The message OffsetCommitKey, versions 0-0."""

    FIELDS: ClassVar[tuple[str, ...]] = ("group", "topic", "partition")
    __slots__ = FIELDS

    def __init__(
        self,
        group: str = "",
        topic: str = "",
        partition: int = 0,
    ) -> None:
        self.group = group
        self.topic = topic
        self.partition = partition

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> OffsetCommitKey:
        try:
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("OffsetCommitKey ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> OffsetCommitKey:
    group, pos = read_string(buf, pos)
    topic, pos = read_string(buf, pos)
    partition = _unpack_i(buf, pos)[0]
    pos += 4
    message = OffsetCommitKey(group, topic, partition)
    return message


def _encode_classic(out: bytearray, message: OffsetCommitKey, version: int) -> None:
    write_string(out, message.group)
    write_string(out, message.topic)
    out += _pack_i(message.partition)
