"""GENERATED from tools/schemas by tools/generate.py (`make generate`): AlterClientQuotasRequest, key 49, versions 0-1."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    ELEMENTS_MAX,
    Message,
    read_compact_nullable_string,
    read_compact_string,
    read_nullable_string,
    read_string,
    read_uvarint,
    skip_counted_tags,
    skip_tags,
    write_compact_string,
    write_nullable_string,
    write_string,
    write_uvarint,
)

_unpack_o = Struct(">?").unpack_from
_unpack_do = Struct(">d?").unpack_from
_unpack_i = Struct(">i").unpack_from
_pack_o = Struct(">?").pack
_pack_ox = Struct(">?x").pack
_pack_do = Struct(">d?").pack
_pack_dox = Struct(">d?x").pack
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


class OpData(Message):
    """An element of `ops` of EntryData."""

    FIELDS: ClassVar[tuple[str, ...]] = ("key", "value", "remove")
    __slots__ = FIELDS

    def __init__(
        self,
        key: str = "",
        value: float = 0.0,
        remove: bool = False,
    ) -> None:
        self.key = key
        self.value = value
        self.remove = remove


class EntryData(Message):
    """An element of `entries` of AlterClientQuotasRequest."""

    FIELDS: ClassVar[tuple[str, ...]] = ("entity", "ops")
    __slots__ = FIELDS

    def __init__(
        self,
        entity: Sequence[EntityData] = (),
        ops: Sequence[OpData] = (),
    ) -> None:
        self.entity = entity
        self.ops = ops


class AlterClientQuotasRequest(Message):
    """The message AlterClientQuotasRequest, versions 0-1."""

    FIELDS: ClassVar[tuple[str, ...]] = ("entries", "validate_only")
    __slots__ = FIELDS

    def __init__(
        self,
        entries: Sequence[EntryData] = (),
        validate_only: bool = False,
    ) -> None:
        self.entries = entries
        self.validate_only = validate_only

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> AlterClientQuotasRequest:
        try:
            if version >= 1:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("AlterClientQuotasRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 1:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> AlterClientQuotasRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 8:
        raise DecodeError("Entries counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Entries is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    entries_list: list[EntryData] = []
    for _ in range(elements):
        e_elements = _unpack_i(buf, pos)[0]
        pos += 4
        if e_elements > (end - pos) // 4:
            raise DecodeError("Entity counts more elements than there are bytes", pos)
        if e_elements < 0:
            raise DecodeError("Entity is null", pos)
        left -= e_elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        e_entity_list: list[EntityData] = []
        for _ in range(e_elements):
            e_e_entity_type, pos = read_string(buf, pos)
            e_e_entity_name, pos = read_nullable_string(buf, pos)
            e_e = EntityData(e_e_entity_type, e_e_entity_name)
            e_entity_list.append(e_e)
        e_entity: Sequence[EntityData] = e_entity_list
        e_elements = _unpack_i(buf, pos)[0]
        pos += 4
        if e_elements > (end - pos) // 11:
            raise DecodeError("Ops counts more elements than there are bytes", pos)
        if e_elements < 0:
            raise DecodeError("Ops is null", pos)
        left -= e_elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        e_ops_list: list[OpData] = []
        for _ in range(e_elements):
            e_o_key, pos = read_string(buf, pos)
            e_o_value, e_o_remove = _unpack_do(buf, pos)
            pos += 9
            e_o = OpData(e_o_key, e_o_value, e_o_remove)
            e_ops_list.append(e_o)
        e_ops: Sequence[OpData] = e_ops_list
        e = EntryData(e_entity, e_ops)
        entries_list.append(e)
    entries: Sequence[EntryData] = entries_list
    validate_only = _unpack_o(buf, pos)[0]
    pos += 1
    message = AlterClientQuotasRequest(entries, validate_only)
    return message


def _encode_classic(out: bytearray, message: AlterClientQuotasRequest, version: int) -> None:
    out += _pack_i(len(message.entries))
    for e in message.entries:
        out += _pack_i(len(e.entity))
        for e_e in e.entity:
            write_string(out, e_e.entity_type)
            write_nullable_string(out, e_e.entity_name)
        out += _pack_i(len(e.ops))
        for e_o in e.ops:
            write_string(out, e_o.key)
            out += _pack_do(e_o.value, e_o.remove)
    out += _pack_o(message.validate_only)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> AlterClientQuotasRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 3:
        raise DecodeError("Entries counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Entries is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    entries_list: list[EntryData] = []
    for _ in range(elements):
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
        left -= e_elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        e_entity_list: list[EntityData] = []
        for _ in range(e_elements):
            e_e_entity_type, pos = read_compact_string(buf, pos)
            e_e_entity_name, pos = read_compact_nullable_string(buf, pos)
            if buf[pos]:
                pos, left = skip_counted_tags(buf, pos, left)
            else:
                pos += 1
            e_e = EntityData(e_e_entity_type, e_e_entity_name)
            e_entity_list.append(e_e)
        e_entity: Sequence[EntityData] = e_entity_list
        e_elements = buf[pos]
        if e_elements > 127:
            e_elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        e_elements -= 1
        if e_elements > (end - pos) // 11:
            raise DecodeError("Ops counts more elements than there are bytes", pos)
        if e_elements < 0:
            raise DecodeError("Ops is null", pos)
        left -= e_elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        e_ops_list: list[OpData] = []
        for _ in range(e_elements):
            e_o_key, pos = read_compact_string(buf, pos)
            e_o_value, e_o_remove = _unpack_do(buf, pos)
            pos += 9
            if buf[pos]:
                pos, left = skip_counted_tags(buf, pos, left)
            else:
                pos += 1
            e_o = OpData(e_o_key, e_o_value, e_o_remove)
            e_ops_list.append(e_o)
        e_ops: Sequence[OpData] = e_ops_list
        if buf[pos]:
            pos, left = skip_counted_tags(buf, pos, left)
        else:
            pos += 1
        e = EntryData(e_entity, e_ops)
        entries_list.append(e)
    entries: Sequence[EntryData] = entries_list
    validate_only = _unpack_o(buf, pos)[0]
    pos += 1
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = AlterClientQuotasRequest(entries, validate_only)
    return message


def _encode_flexible(out: bytearray, message: AlterClientQuotasRequest, version: int) -> None:
    count = len(message.entries) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for e in message.entries:
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
        count = len(e.ops) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for e_o in e.ops:
            write_compact_string(out, e_o.key)
            out += _pack_dox(e_o.value, e_o.remove)
        out += b"\x00"
    out += _pack_ox(message.validate_only)
