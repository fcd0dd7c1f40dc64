"""GENERATED from tools/schemas by tools/generate.py (`make generate`): AlterClientQuotasResponse, key 49, versions 0-1."""

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

_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack


class EntityData(Message):
    """An element of `entity` of EntryData."""

    FIELDS: ClassVar[tuple[str, ...]] = ("entity_type", "entity_name")
    __slots__ = FIELDS

    def __init__(
        self,
        entity_type: str = "",
        entity_name: str | None = "",
    ) -> None:
        self.entity_type = entity_type
        self.entity_name = entity_name


class EntryData(Message):
    """An element of `entries` of AlterClientQuotasResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("error_code", "error_message", "entity")
    __slots__ = FIELDS

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        entity: Sequence[EntityData] = (),
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.entity = entity


class AlterClientQuotasResponse(Message):
    """The message AlterClientQuotasResponse, versions 0-1."""

    FIELDS: ClassVar[tuple[str, ...]] = ("throttle_time_ms", "entries")
    __slots__ = FIELDS

    def __init__(
        self,
        throttle_time_ms: int = 0,
        entries: Sequence[EntryData] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.entries = entries

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> AlterClientQuotasResponse:
        try:
            if version >= 1:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("AlterClientQuotasResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 1:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> AlterClientQuotasResponse:
    end = len(buf)
    throttle_time_ms = _unpack_i(buf, pos)[0]
    pos += 4
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 8:
        raise DecodeError("Entries counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Entries is null", pos)
    entries_list: list[EntryData] = []
    for _ in range(elements):
        e_error_code = _unpack_h(buf, pos)[0]
        pos += 2
        e_error_message, pos = read_nullable_string(buf, pos)
        e_elements = _unpack_i(buf, pos)[0]
        pos += 4
        if e_elements > (end - pos) // 4:
            raise DecodeError("Entity counts more elements than there are bytes", pos)
        if e_elements < 0:
            raise DecodeError("Entity is null", pos)
        e_entity_list: list[EntityData] = []
        for _ in range(e_elements):
            e_e_entity_type, pos = read_string(buf, pos)
            e_e_entity_name, pos = read_nullable_string(buf, pos)
            e_e = EntityData(e_e_entity_type, e_e_entity_name)
            e_entity_list.append(e_e)
        e_entity: Sequence[EntityData] = e_entity_list
        e = EntryData(e_error_code, e_error_message, e_entity)
        entries_list.append(e)
    entries: Sequence[EntryData] = entries_list
    message = AlterClientQuotasResponse(throttle_time_ms, entries)
    return message


def _encode_classic(out: bytearray, message: AlterClientQuotasResponse, version: int) -> None:
    out += _pack_i(message.throttle_time_ms)
    out += _pack_i(len(message.entries))
    for e in message.entries:
        out += _pack_h(e.error_code)
        write_nullable_string(out, e.error_message)
        out += _pack_i(len(e.entity))
        for e_e in e.entity:
            write_string(out, e_e.entity_type)
            write_nullable_string(out, e_e.entity_name)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> AlterClientQuotasResponse:
    end = len(buf)
    throttle_time_ms = _unpack_i(buf, pos)[0]
    pos += 4
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 5:
        raise DecodeError("Entries counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Entries is null", pos)
    entries_list: list[EntryData] = []
    for _ in range(elements):
        e_error_code = _unpack_h(buf, pos)[0]
        pos += 2
        e_error_message, pos = read_compact_nullable_string(buf, pos)
        e_elements = buf[pos]
        if e_elements > 127:
            e_elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        e_elements -= 1
        if e_elements > (end - pos) // 3:
            raise DecodeError("Entity counts more elements than there are bytes", pos)
        if e_elements < 0:
            raise DecodeError("Entity is null", pos)
        e_entity_list: list[EntityData] = []
        for _ in range(e_elements):
            e_e_entity_type, pos = read_compact_string(buf, pos)
            e_e_entity_name, pos = read_compact_nullable_string(buf, pos)
            if buf[pos]:
                pos = skip_tags(buf, pos)
            else:
                pos += 1
            e_e = EntityData(e_e_entity_type, e_e_entity_name)
            e_entity_list.append(e_e)
        e_entity: Sequence[EntityData] = e_entity_list
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
        e = EntryData(e_error_code, e_error_message, e_entity)
        entries_list.append(e)
    entries: Sequence[EntryData] = entries_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = AlterClientQuotasResponse(throttle_time_ms, entries)
    return message


def _encode_flexible(out: bytearray, message: AlterClientQuotasResponse, version: int) -> None:
    out += _pack_i(message.throttle_time_ms)
    count = len(message.entries) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for e in message.entries:
        out += _pack_h(e.error_code)
        if e.error_message is None:
            out.append(0)
        else:
            write_compact_string(out, e.error_message)
        count = len(e.entity) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for e_e in e.entity:
            write_compact_string(out, e_e.entity_type)
            if e_e.entity_name is None:
                out.append(0)
            else:
                write_compact_string(out, e_e.entity_name)
            out += b"\x00"
        out += b"\x00"
    out += b"\x00"
