"""GENERATED from tools/schemas by tools/generate.py (`make generate`): HeartbeatRequest, key 12, versions 0-4."""

from __future__ import annotations

from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    read_compact_nullable_string,
    read_compact_string,
    read_nullable_string,
    read_string,
    skip_tags,
    write_compact_string,
    write_nullable_string,
    write_string,
)

_unpack_i = Struct(">i").unpack_from
_pack_i = Struct(">i").pack


class HeartbeatRequest(Message):
    """The message HeartbeatRequest, versions 0-4."""

    FIELDS: ClassVar[tuple[str, ...]] = ("group_id", "generation_id", "member_id", "group_instance_id")
    __slots__ = FIELDS

    def __init__(
        self,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> HeartbeatRequest:
        try:
            if version >= 4:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("HeartbeatRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 4:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> HeartbeatRequest:
    group_id, pos = read_string(buf, pos)
    generation_id = _unpack_i(buf, pos)[0]
    pos += 4
    member_id, pos = read_string(buf, pos)
    if version >= 3:
        group_instance_id, pos = read_nullable_string(buf, pos)
    else:
        group_instance_id = None
    message = HeartbeatRequest(group_id, generation_id, member_id, group_instance_id)
    return message


def _encode_classic(out: bytearray, message: HeartbeatRequest, version: int) -> None:
    write_string(out, message.group_id)
    out += _pack_i(message.generation_id)
    write_string(out, message.member_id)
    if version >= 3:
        write_nullable_string(out, message.group_instance_id)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> HeartbeatRequest:
    group_id, pos = read_compact_string(buf, pos)
    generation_id = _unpack_i(buf, pos)[0]
    pos += 4
    member_id, pos = read_compact_string(buf, pos)
    group_instance_id, pos = read_compact_nullable_string(buf, pos)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = HeartbeatRequest(group_id, generation_id, member_id, group_instance_id)
    return message


def _encode_flexible(out: bytearray, message: HeartbeatRequest, version: int) -> None:
    write_compact_string(out, message.group_id)
    out += _pack_i(message.generation_id)
    write_compact_string(out, message.member_id)
    if message.group_instance_id is None:
        out.append(0)
    else:
        write_compact_string(out, message.group_instance_id)
    out += b"\x00"
