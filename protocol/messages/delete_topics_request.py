"""GENERATED from tools/schemas by tools/generate.py (`make generate`): DeleteTopicsRequest, key 20, versions 1-6."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    ELEMENTS_MAX,
    Message,
    ZERO_UUID,
    read_compact_nullable_string,
    read_compact_string,
    read_string,
    read_uvarint,
    skip_counted_tags,
    skip_tags,
    write_compact_string,
    write_string,
    write_uvarint,
)

_unpack_u = Struct(">16s").unpack_from
_unpack_i = Struct(">i").unpack_from
_pack_ux = Struct(">16sx").pack
_pack_i = Struct(">i").pack
_pack_ix = Struct(">ix").pack


class DeleteTopicState(Message):
    """An element of `topics` of DeleteTopicsRequest."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "topic_id")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str | None = None,
        topic_id: bytes = ZERO_UUID,
    ) -> None:
        self.name = name
        self.topic_id = topic_id


class DeleteTopicsRequest(Message):
    """The message DeleteTopicsRequest, versions 1-6."""

    FIELDS: ClassVar[tuple[str, ...]] = ("topics", "topic_names", "timeout_ms")
    __slots__ = FIELDS

    def __init__(
        self,
        topics: Sequence[DeleteTopicState] = (),
        topic_names: Sequence[str] = (),
        timeout_ms: int = 0,
    ) -> None:
        self.topics = topics
        self.topic_names = topic_names
        self.timeout_ms = timeout_ms

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> DeleteTopicsRequest:
        try:
            if version >= 4:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("DeleteTopicsRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 4:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> DeleteTopicsRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 2:
        raise DecodeError("TopicNames counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("TopicNames is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    topic_names_list: list[str] = []
    for _ in range(elements):
        tn, pos = read_string(buf, pos)
        topic_names_list.append(tn)
    topic_names: Sequence[str] = topic_names_list
    timeout_ms = _unpack_i(buf, pos)[0]
    pos += 4
    message = DeleteTopicsRequest((), topic_names, timeout_ms)
    return message


def _encode_classic(out: bytearray, message: DeleteTopicsRequest, version: int) -> None:
    out += _pack_i(len(message.topic_names))
    for tn in message.topic_names:
        write_string(out, tn)
    out += _pack_i(message.timeout_ms)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> DeleteTopicsRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    if version >= 6:
        elements = buf[pos]
        if elements > 127:
            elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        elements -= 1
        if elements > (end - pos) // 18:
            raise DecodeError("Topics counts more elements than there are bytes", pos)
        if elements < 0:
            raise DecodeError("Topics is null", pos)
        left -= elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        topics_list: list[DeleteTopicState] = []
        for _ in range(elements):
            t_name, pos = read_compact_nullable_string(buf, pos)
            t_topic_id = _unpack_u(buf, pos)[0]
            pos += 16
            if buf[pos]:
                pos, left = skip_counted_tags(buf, pos, left)
            else:
                pos += 1
            t = DeleteTopicState(t_name, t_topic_id)
            topics_list.append(t)
        topics: Sequence[DeleteTopicState] = topics_list
    else:
        topics = ()
    if version <= 5:
        elements = buf[pos]
        if elements > 127:
            elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        elements -= 1
        if elements > end - pos:
            raise DecodeError("TopicNames counts more elements than there are bytes", pos)
        if elements < 0:
            raise DecodeError("TopicNames is null", pos)
        left -= elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        topic_names_list: list[str] = []
        for _ in range(elements):
            tn, pos = read_compact_string(buf, pos)
            topic_names_list.append(tn)
        topic_names: Sequence[str] = topic_names_list
    else:
        topic_names = ()
    timeout_ms = _unpack_i(buf, pos)[0]
    pos += 4
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = DeleteTopicsRequest(topics, topic_names, timeout_ms)
    return message


def _encode_flexible(out: bytearray, message: DeleteTopicsRequest, version: int) -> None:
    if version >= 6:
        count = len(message.topics) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for t in message.topics:
            if t.name is None:
                out.append(0)
            else:
                write_compact_string(out, t.name)
            out += _pack_ux(t.topic_id)
    if version <= 5:
        count = len(message.topic_names) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for tn in message.topic_names:
            write_compact_string(out, tn)
    out += _pack_ix(message.timeout_ms)
