"""GENERATED from tools/schemas by tools/generate.py (`make generate`): DescribeConfigsResponse, key 32, versions 1-4."""

from __future__ import annotations

from collections.abc import Sequence
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
    read_uvarint,
    skip_tags,
    write_compact_string,
    write_nullable_string,
    write_string,
    write_uvarint,
)

_unpack_obo = Struct(">?b?").unpack_from
_unpack_b = Struct(">b").unpack_from
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_pack_obo = Struct(">?b?").pack
_pack_b = Struct(">b").pack
_pack_bx = Struct(">bx").pack
_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack


class DescribeConfigsSynonym(Message):
    """An element of `synonyms` of DescribeConfigsResourceResult."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "value", "source")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        value: str | None = "",
        source: int = 0,
    ) -> None:
        self.name = name
        self.value = value
        self.source = source


class DescribeConfigsResourceResult(Message):
    """An element of `configs` of DescribeConfigsResult."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "value", "read_only", "config_source", "is_sensitive", "synonyms", "config_type", "documentation")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        value: str | None = "",
        read_only: bool = False,
        config_source: int = -1,
        is_sensitive: bool = False,
        synonyms: Sequence[DescribeConfigsSynonym] = (),
        config_type: int = 0,
        documentation: str | None = "",
    ) -> None:
        self.name = name
        self.value = value
        self.read_only = read_only
        self.config_source = config_source
        self.is_sensitive = is_sensitive
        self.synonyms = synonyms
        self.config_type = config_type
        self.documentation = documentation


class DescribeConfigsResult(Message):
    """An element of `results` of DescribeConfigsResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("error_code", "error_message", "resource_type", "resource_name", "configs")
    __slots__ = FIELDS

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        resource_type: int = 0,
        resource_name: str = "",
        configs: Sequence[DescribeConfigsResourceResult] = (),
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs = configs


class DescribeConfigsResponse(Message):
    """The message DescribeConfigsResponse, versions 1-4."""

    FIELDS: ClassVar[tuple[str, ...]] = ("throttle_time_ms", "results")
    __slots__ = FIELDS

    def __init__(
        self,
        throttle_time_ms: int = 0,
        results: Sequence[DescribeConfigsResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = results

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> DescribeConfigsResponse:
        try:
            if version >= 4:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("DescribeConfigsResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 4:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> DescribeConfigsResponse:
    end = len(buf)
    throttle_time_ms = _unpack_i(buf, pos)[0]
    pos += 4
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 11:
        raise DecodeError("Results counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Results is null", pos)
    results_list: list[DescribeConfigsResult] = []
    for _ in range(elements):
        r_error_code = _unpack_h(buf, pos)[0]
        pos += 2
        r_error_message, pos = read_nullable_string(buf, pos)
        r_resource_type = _unpack_b(buf, pos)[0]
        pos += 1
        r_resource_name, pos = read_string(buf, pos)
        r_elements = _unpack_i(buf, pos)[0]
        pos += 4
        if r_elements > (end - pos) // 11:
            raise DecodeError("Configs counts more elements than there are bytes", pos)
        if r_elements < 0:
            raise DecodeError("Configs is null", pos)
        r_configs_list: list[DescribeConfigsResourceResult] = []
        for _ in range(r_elements):
            r_c_name, pos = read_string(buf, pos)
            r_c_value, pos = read_nullable_string(buf, pos)
            r_c_read_only, r_c_config_source, r_c_is_sensitive = _unpack_obo(buf, pos)
            pos += 3
            r_c_elements = _unpack_i(buf, pos)[0]
            pos += 4
            if r_c_elements > (end - pos) // 5:
                raise DecodeError("Synonyms counts more elements than there are bytes", pos)
            if r_c_elements < 0:
                raise DecodeError("Synonyms is null", pos)
            r_c_synonyms_list: list[DescribeConfigsSynonym] = []
            for _ in range(r_c_elements):
                r_c_s_name, pos = read_string(buf, pos)
                r_c_s_value, pos = read_nullable_string(buf, pos)
                r_c_s_source = _unpack_b(buf, pos)[0]
                pos += 1
                r_c_s = DescribeConfigsSynonym(r_c_s_name, r_c_s_value, r_c_s_source)
                r_c_synonyms_list.append(r_c_s)
            r_c_synonyms: Sequence[DescribeConfigsSynonym] = r_c_synonyms_list
            if version >= 3:
                r_c_config_type = _unpack_b(buf, pos)[0]
                pos += 1
            else:
                r_c_config_type = 0
            if version >= 3:
                r_c_documentation, pos = read_nullable_string(buf, pos)
            else:
                r_c_documentation = ""
            r_c = DescribeConfigsResourceResult(r_c_name, r_c_value, r_c_read_only, r_c_config_source, r_c_is_sensitive, r_c_synonyms, r_c_config_type, r_c_documentation)
            r_configs_list.append(r_c)
        r_configs: Sequence[DescribeConfigsResourceResult] = r_configs_list
        r = DescribeConfigsResult(r_error_code, r_error_message, r_resource_type, r_resource_name, r_configs)
        results_list.append(r)
    results: Sequence[DescribeConfigsResult] = results_list
    message = DescribeConfigsResponse(throttle_time_ms, results)
    return message


def _encode_classic(out: bytearray, message: DescribeConfigsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time_ms)
    out += _pack_i(len(message.results))
    for r in message.results:
        out += _pack_h(r.error_code)
        write_nullable_string(out, r.error_message)
        out += _pack_b(r.resource_type)
        write_string(out, r.resource_name)
        out += _pack_i(len(r.configs))
        for r_c in r.configs:
            write_string(out, r_c.name)
            write_nullable_string(out, r_c.value)
            out += _pack_obo(r_c.read_only, r_c.config_source, r_c.is_sensitive)
            out += _pack_i(len(r_c.synonyms))
            for r_c_s in r_c.synonyms:
                write_string(out, r_c_s.name)
                write_nullable_string(out, r_c_s.value)
                out += _pack_b(r_c_s.source)
            if version >= 3:
                out += _pack_b(r_c.config_type)
            if version >= 3:
                write_nullable_string(out, r_c.documentation)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> DescribeConfigsResponse:
    end = len(buf)
    throttle_time_ms = _unpack_i(buf, pos)[0]
    pos += 4
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 7:
        raise DecodeError("Results counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Results is null", pos)
    results_list: list[DescribeConfigsResult] = []
    for _ in range(elements):
        r_error_code = _unpack_h(buf, pos)[0]
        pos += 2
        r_error_message, pos = read_compact_nullable_string(buf, pos)
        r_resource_type = _unpack_b(buf, pos)[0]
        pos += 1
        r_resource_name, pos = read_compact_string(buf, pos)
        r_elements = buf[pos]
        if r_elements > 127:
            r_elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        r_elements -= 1
        if r_elements > (end - pos) // 9:
            raise DecodeError("Configs counts more elements than there are bytes", pos)
        if r_elements < 0:
            raise DecodeError("Configs is null", pos)
        r_configs_list: list[DescribeConfigsResourceResult] = []
        for _ in range(r_elements):
            r_c_name, pos = read_compact_string(buf, pos)
            r_c_value, pos = read_compact_nullable_string(buf, pos)
            r_c_read_only, r_c_config_source, r_c_is_sensitive = _unpack_obo(buf, pos)
            pos += 3
            r_c_elements = buf[pos]
            if r_c_elements > 127:
                r_c_elements, pos = read_uvarint(buf, pos)
            else:
                pos += 1
            r_c_elements -= 1
            if r_c_elements > (end - pos) // 4:
                raise DecodeError("Synonyms counts more elements than there are bytes", pos)
            if r_c_elements < 0:
                raise DecodeError("Synonyms is null", pos)
            r_c_synonyms_list: list[DescribeConfigsSynonym] = []
            for _ in range(r_c_elements):
                r_c_s_name, pos = read_compact_string(buf, pos)
                r_c_s_value, pos = read_compact_nullable_string(buf, pos)
                r_c_s_source = _unpack_b(buf, pos)[0]
                pos += 1
                if buf[pos]:
                    pos = skip_tags(buf, pos)
                else:
                    pos += 1
                r_c_s = DescribeConfigsSynonym(r_c_s_name, r_c_s_value, r_c_s_source)
                r_c_synonyms_list.append(r_c_s)
            r_c_synonyms: Sequence[DescribeConfigsSynonym] = r_c_synonyms_list
            r_c_config_type = _unpack_b(buf, pos)[0]
            pos += 1
            r_c_documentation, pos = read_compact_nullable_string(buf, pos)
            if buf[pos]:
                pos = skip_tags(buf, pos)
            else:
                pos += 1
            r_c = DescribeConfigsResourceResult(r_c_name, r_c_value, r_c_read_only, r_c_config_source, r_c_is_sensitive, r_c_synonyms, r_c_config_type, r_c_documentation)
            r_configs_list.append(r_c)
        r_configs: Sequence[DescribeConfigsResourceResult] = r_configs_list
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
        r = DescribeConfigsResult(r_error_code, r_error_message, r_resource_type, r_resource_name, r_configs)
        results_list.append(r)
    results: Sequence[DescribeConfigsResult] = results_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = DescribeConfigsResponse(throttle_time_ms, results)
    return message


def _encode_flexible(out: bytearray, message: DescribeConfigsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time_ms)
    count = len(message.results) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for r in message.results:
        out += _pack_h(r.error_code)
        if r.error_message is None:
            out.append(0)
        else:
            write_compact_string(out, r.error_message)
        out += _pack_b(r.resource_type)
        write_compact_string(out, r.resource_name)
        count = len(r.configs) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for r_c in r.configs:
            write_compact_string(out, r_c.name)
            if r_c.value is None:
                out.append(0)
            else:
                write_compact_string(out, r_c.value)
            out += _pack_obo(r_c.read_only, r_c.config_source, r_c.is_sensitive)
            count = len(r_c.synonyms) + 1
            if count > 127:
                write_uvarint(out, count)
            else:
                out.append(count)
            for r_c_s in r_c.synonyms:
                write_compact_string(out, r_c_s.name)
                if r_c_s.value is None:
                    out.append(0)
                else:
                    write_compact_string(out, r_c_s.value)
                out += _pack_bx(r_c_s.source)
            out += _pack_b(r_c.config_type)
            if r_c.documentation is None:
                out.append(0)
            else:
                write_compact_string(out, r_c.documentation)
            out += b"\x00"
        out += b"\x00"
    out += b"\x00"
