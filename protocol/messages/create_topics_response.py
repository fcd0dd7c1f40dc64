"""GENERATED from tools/schemas by tools/generate.py (`make generate`): CreateTopicsResponse, key 19, versions 2-7."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    ZERO_UUID,
    read_compact_nullable_string,
    read_compact_string,
    read_nullable_string,
    read_string,
    read_tags,
    read_uvarint,
    skip_tags,
    write_compact_string,
    write_nullable_string,
    write_string,
    write_tags,
    write_uvarint,
)

_unpack_u = Struct(">16s").unpack_from
_unpack_obo = Struct(">?b?").unpack_from
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_ih = Struct(">ih").unpack_from
_pack_u = Struct(">16s").pack
_pack_obox = Struct(">?b?x").pack
_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_ih = Struct(">ih").pack


class CreatableTopicConfigs(Message):
    """An element of `configs` of CreatableTopicResult."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "value", "read_only", "config_source", "is_sensitive")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        value: str | None = "",
        read_only: bool = False,
        config_source: int = -1,
        is_sensitive: bool = False,
    ) -> None:
        self.name = name
        self.value = value
        self.read_only = read_only
        self.config_source = config_source
        self.is_sensitive = is_sensitive


class CreatableTopicResult(Message):
    """An element of `topics` of CreateTopicsResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "topic_id", "error_code", "error_message", "topic_config_error_code", "num_partitions", "replication_factor", "configs")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        error_code: int = 0,
        error_message: str | None = "",
        topic_config_error_code: int = 0,
        num_partitions: int = -1,
        replication_factor: int = -1,
        configs: Sequence[CreatableTopicConfigs] | None = (),
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message
        self.topic_config_error_code = topic_config_error_code
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.configs = configs


class CreateTopicsResponse(Message):
    """The message CreateTopicsResponse, versions 2-7."""

    FIELDS: ClassVar[tuple[str, ...]] = ("throttle_time_ms", "topics")
    __slots__ = FIELDS

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: Sequence[CreatableTopicResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> CreateTopicsResponse:
        try:
            if version >= 5:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("CreateTopicsResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 5:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> CreateTopicsResponse:
    end = len(buf)
    throttle_time_ms = _unpack_i(buf, pos)[0]
    pos += 4
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 6:
        raise DecodeError("Topics counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Topics is null", pos)
    topics_list: list[CreatableTopicResult] = []
    for _ in range(elements):
        t_name, pos = read_string(buf, pos)
        t_error_code = _unpack_h(buf, pos)[0]
        pos += 2
        t_error_message, pos = read_nullable_string(buf, pos)
        t = CreatableTopicResult(t_name, ZERO_UUID, t_error_code, t_error_message, 0, -1, -1, ())
        topics_list.append(t)
    topics: Sequence[CreatableTopicResult] = topics_list
    message = CreateTopicsResponse(throttle_time_ms, topics)
    return message


def _encode_classic(out: bytearray, message: CreateTopicsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time_ms)
    out += _pack_i(len(message.topics))
    for t in message.topics:
        write_string(out, t.name)
        out += _pack_h(t.error_code)
        write_nullable_string(out, t.error_message)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> CreateTopicsResponse:
    end = len(buf)
    throttle_time_ms = _unpack_i(buf, pos)[0]
    pos += 4
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 12:
        raise DecodeError("Topics counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Topics is null", pos)
    topics_list: list[CreatableTopicResult] = []
    for _ in range(elements):
        t_name, pos = read_compact_string(buf, pos)
        if version >= 7:
            t_topic_id = _unpack_u(buf, pos)[0]
            pos += 16
        else:
            t_topic_id = ZERO_UUID
        t_error_code = _unpack_h(buf, pos)[0]
        pos += 2
        t_error_message, pos = read_compact_nullable_string(buf, pos)
        t_num_partitions, t_replication_factor = _unpack_ih(buf, pos)
        pos += 6
        t_elements = buf[pos]
        if t_elements > 127:
            t_elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        t_elements -= 1
        if t_elements > (end - pos) // 6:
            raise DecodeError("Configs counts more elements than there are bytes", pos)
        if t_elements < 0:
            t_configs: Sequence[CreatableTopicConfigs] | None = None
        else:
            t_configs_list: list[CreatableTopicConfigs] = []
            for _ in range(t_elements):
                t_c_name, pos = read_compact_string(buf, pos)
                t_c_value, pos = read_compact_nullable_string(buf, pos)
                t_c_read_only, t_c_config_source, t_c_is_sensitive = _unpack_obo(buf, pos)
                pos += 3
                if buf[pos]:
                    pos = skip_tags(buf, pos)
                else:
                    pos += 1
                t_c = CreatableTopicConfigs(t_c_name, t_c_value, t_c_read_only, t_c_config_source, t_c_is_sensitive)
                t_configs_list.append(t_c)
            t_configs = t_configs_list
        t_topic_config_error_code: int = 0
        if buf[pos]:
            t_tags, t_after = read_tags(buf, pos)
            if 0 in t_tags:
                pos, t_stop = t_tags[0]
                t_topic_config_error_code = _unpack_h(buf, pos)[0]
                pos += 2
                if pos != t_stop:
                    raise DecodeError("tagged field TopicConfigErrorCode is not of the size given", pos)
            pos = t_after
        else:
            pos += 1
        t = CreatableTopicResult(t_name, t_topic_id, t_error_code, t_error_message, t_topic_config_error_code, t_num_partitions, t_replication_factor, t_configs)
        topics_list.append(t)
    topics: Sequence[CreatableTopicResult] = topics_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = CreateTopicsResponse(throttle_time_ms, topics)
    return message


def _encode_flexible(out: bytearray, message: CreateTopicsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time_ms)
    count = len(message.topics) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for t in message.topics:
        write_compact_string(out, t.name)
        if version >= 7:
            out += _pack_u(t.topic_id)
        out += _pack_h(t.error_code)
        if t.error_message is None:
            out.append(0)
        else:
            write_compact_string(out, t.error_message)
        out += _pack_ih(t.num_partitions, t.replication_factor)
        if t.configs is None:
            out += b"\x00"
        else:
            count = len(t.configs) + 1
            if count > 127:
                write_uvarint(out, count)
            else:
                out.append(count)
            for t_c in t.configs:
                write_compact_string(out, t_c.name)
                if t_c.value is None:
                    out.append(0)
                else:
                    write_compact_string(out, t_c.value)
                out += _pack_obox(t_c.read_only, t_c.config_source, t_c.is_sensitive)
        if t.topic_config_error_code != 0:
            t_tags: list[tuple[int, bytearray]] = []
            t_outer = out
            if t.topic_config_error_code != 0:
                out = bytearray()
                out += _pack_h(t.topic_config_error_code)
                t_tags.append((0, out))
            out = t_outer
            write_tags(out, t_tags)
        else:
            out.append(0)
    out += b"\x00"
