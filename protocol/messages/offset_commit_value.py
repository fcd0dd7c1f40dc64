"""GENERATED from tools/schemas by tools/generate.py (`make generate`): OffsetCommitValue, versions 0-4."""

from __future__ import annotations

from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    ZERO_UUID,
    read_compact_string,
    read_string,
    read_tags,
    write_compact_string,
    write_string,
    write_tags,
)

_unpack_u = Struct(">16s").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_q = Struct(">q").unpack_from
_unpack_qi = Struct(">qi").unpack_from
_pack_u = Struct(">16s").pack
_pack_i = Struct(">i").pack
_pack_q = Struct(">q").pack
_pack_qi = Struct(">qi").pack


class OffsetCommitValue(Message):
    """The message OffsetCommitValue, versions 0-4."""

    FIELDS: ClassVar[tuple[str, ...]] = ("offset", "leader_epoch", "metadata", "commit_timestamp", "expire_timestamp", "topic_id")
    __slots__ = FIELDS

    def __init__(
        self,
        offset: int = 0,
        leader_epoch: int = -1,
        metadata: str = "",
        commit_timestamp: int = 0,
        expire_timestamp: int = -1,
        topic_id: bytes = ZERO_UUID,
    ) -> None:
        self.offset = offset
        self.leader_epoch = leader_epoch
        self.metadata = metadata
        self.commit_timestamp = commit_timestamp
        self.expire_timestamp = expire_timestamp
        self.topic_id = topic_id

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> OffsetCommitValue:
        try:
            if version >= 4:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("OffsetCommitValue ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 4:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> OffsetCommitValue:
    offset = _unpack_q(buf, pos)[0]
    pos += 8
    if version >= 3:
        leader_epoch = _unpack_i(buf, pos)[0]
        pos += 4
    else:
        leader_epoch = -1
    metadata, pos = read_string(buf, pos)
    commit_timestamp = _unpack_q(buf, pos)[0]
    pos += 8
    if version >= 1 and version <= 1:
        expire_timestamp = _unpack_q(buf, pos)[0]
        pos += 8
    else:
        expire_timestamp = -1
    message = OffsetCommitValue(offset, leader_epoch, metadata, commit_timestamp, expire_timestamp, ZERO_UUID)
    return message


def _encode_classic(out: bytearray, message: OffsetCommitValue, version: int) -> None:
    out += _pack_q(message.offset)
    if version >= 3:
        out += _pack_i(message.leader_epoch)
    write_string(out, message.metadata)
    out += _pack_q(message.commit_timestamp)
    if version >= 1 and version <= 1:
        out += _pack_q(message.expire_timestamp)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> OffsetCommitValue:
    offset, leader_epoch = _unpack_qi(buf, pos)
    pos += 12
    metadata, pos = read_compact_string(buf, pos)
    commit_timestamp = _unpack_q(buf, pos)[0]
    pos += 8
    topic_id: bytes = ZERO_UUID
    if buf[pos]:
        tags, after = read_tags(buf, pos)
        if 0 in tags:
            pos, stop = tags[0]
            topic_id = _unpack_u(buf, pos)[0]
            pos += 16
            if pos != stop:
                raise DecodeError("tagged field topicId is not of the size given", pos)
        pos = after
    else:
        pos += 1
    message = OffsetCommitValue(offset, leader_epoch, metadata, commit_timestamp, -1, topic_id)
    return message


def _encode_flexible(out: bytearray, message: OffsetCommitValue, version: int) -> None:
    out += _pack_qi(message.offset, message.leader_epoch)
    write_compact_string(out, message.metadata)
    out += _pack_q(message.commit_timestamp)
    if message.topic_id != ZERO_UUID:
        tags: list[tuple[int, bytearray]] = []
        outer = out
        if message.topic_id != ZERO_UUID:
            out = bytearray()
            out += _pack_u(message.topic_id)
            tags.append((0, out))
        out = outer
        write_tags(out, tags)
    else:
        out.append(0)
