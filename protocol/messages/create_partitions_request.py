"""GENERATED from tools/schemas by tools/generate.py (`make generate`): CreatePartitionsRequest, key 37, versions 0-3."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, pack as struct_pack, Struct, unpack_from
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    ELEMENTS_MAX,
    Message,
    read_compact_string,
    read_string,
    read_uvarint,
    skip_counted_tags,
    skip_tags,
    write_compact_string,
    write_string,
    write_uvarint,
)

_unpack_i = Struct(">i").unpack_from
_unpack_io = Struct(">i?").unpack_from
_pack_i = Struct(">i").pack
_pack_io = Struct(">i?").pack
_pack_iox = Struct(">i?x").pack


class CreatePartitionsAssignment(Message):
    """An element of `assignments` of CreatePartitionsTopic."""

    FIELDS: ClassVar[tuple[str, ...]] = ("broker_ids",)
    __slots__ = FIELDS

    def __init__(
        self,
        broker_ids: Sequence[int] = (),
    ) -> None:
        self.broker_ids = broker_ids


class CreatePartitionsTopic(Message):
    """An element of `topics` of CreatePartitionsRequest."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "count", "assignments")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        count: int = 0,
        assignments: Sequence[CreatePartitionsAssignment] | None = (),
    ) -> None:
        self.name = name
        self.count = count
        self.assignments = assignments


class CreatePartitionsRequest(Message):
    """The message CreatePartitionsRequest, versions 0-3."""

    FIELDS: ClassVar[tuple[str, ...]] = ("topics", "timeout_ms", "validate_only")
    __slots__ = FIELDS

    def __init__(
        self,
        topics: Sequence[CreatePartitionsTopic] = (),
        timeout_ms: int = 0,
        validate_only: bool = False,
    ) -> None:
        self.topics = topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> CreatePartitionsRequest:
        try:
            if version >= 2:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("CreatePartitionsRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 2:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> CreatePartitionsRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 10:
        raise DecodeError("Topics counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Topics is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    topics_list: list[CreatePartitionsTopic] = []
    for _ in range(elements):
        t_name, pos = read_string(buf, pos)
        t_count = _unpack_i(buf, pos)[0]
        pos += 4
        t_elements = _unpack_i(buf, pos)[0]
        pos += 4
        if t_elements > (end - pos) // 4:
            raise DecodeError("Assignments counts more elements than there are bytes", pos)
        if t_elements < 0:
            t_assignments: Sequence[CreatePartitionsAssignment] | None = None
        else:
            left -= t_elements
            if left < 0:
                raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
            t_assignments_list: list[CreatePartitionsAssignment] = []
            for _ in range(t_elements):
                t_a_elements = _unpack_i(buf, pos)[0]
                pos += 4
                if t_a_elements > (end - pos) // 4:
                    raise DecodeError("BrokerIds counts more elements than there are bytes", pos)
                if t_a_elements < 0:
                    raise DecodeError("BrokerIds is null", pos)
                left -= t_a_elements
                if left < 0:
                    raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
                t_a_broker_ids: Sequence[int] = list(unpack_from(f">{t_a_elements}i", buf, pos))
                pos += 4 * t_a_elements
                t_a = CreatePartitionsAssignment(t_a_broker_ids)
                t_assignments_list.append(t_a)
            t_assignments = t_assignments_list
        t = CreatePartitionsTopic(t_name, t_count, t_assignments)
        topics_list.append(t)
    topics: Sequence[CreatePartitionsTopic] = topics_list
    timeout_ms, validate_only = _unpack_io(buf, pos)
    pos += 5
    message = CreatePartitionsRequest(topics, timeout_ms, validate_only)
    return message


def _encode_classic(out: bytearray, message: CreatePartitionsRequest, version: int) -> None:
    out += _pack_i(len(message.topics))
    for t in message.topics:
        write_string(out, t.name)
        out += _pack_i(t.count)
        if t.assignments is None:
            out += b"\xff\xff\xff\xff"
        else:
            out += _pack_i(len(t.assignments))
            for t_a in t.assignments:
                out += _pack_i(len(t_a.broker_ids))
                out += struct_pack(f">{len(t_a.broker_ids)}i", *t_a.broker_ids)
    out += _pack_io(message.timeout_ms, message.validate_only)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> CreatePartitionsRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 7:
        raise DecodeError("Topics counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Topics is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    topics_list: list[CreatePartitionsTopic] = []
    for _ in range(elements):
        t_name, pos = read_compact_string(buf, pos)
        t_count = _unpack_i(buf, pos)[0]
        pos += 4
        t_elements = buf[pos]
        if t_elements > 127:
            t_elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        t_elements -= 1
        if t_elements > (end - pos) // 2:
            raise DecodeError("Assignments counts more elements than there are bytes", pos)
        if t_elements < 0:
            t_assignments: Sequence[CreatePartitionsAssignment] | None = None
        else:
            left -= t_elements
            if left < 0:
                raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
            t_assignments_list: list[CreatePartitionsAssignment] = []
            for _ in range(t_elements):
                t_a_elements = buf[pos]
                if t_a_elements > 127:
                    t_a_elements, pos = read_uvarint(buf, pos)
                else:
                    pos += 1
                t_a_elements -= 1
                if t_a_elements > (end - pos) // 4:
                    raise DecodeError("BrokerIds counts more elements than there are bytes", pos)
                if t_a_elements < 0:
                    raise DecodeError("BrokerIds is null", pos)
                left -= t_a_elements
                if left < 0:
                    raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
                t_a_broker_ids: Sequence[int] = list(unpack_from(f">{t_a_elements}i", buf, pos))
                pos += 4 * t_a_elements
                if buf[pos]:
                    pos, left = skip_counted_tags(buf, pos, left)
                else:
                    pos += 1
                t_a = CreatePartitionsAssignment(t_a_broker_ids)
                t_assignments_list.append(t_a)
            t_assignments = t_assignments_list
        if buf[pos]:
            pos, left = skip_counted_tags(buf, pos, left)
        else:
            pos += 1
        t = CreatePartitionsTopic(t_name, t_count, t_assignments)
        topics_list.append(t)
    topics: Sequence[CreatePartitionsTopic] = topics_list
    timeout_ms, validate_only = _unpack_io(buf, pos)
    pos += 5
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = CreatePartitionsRequest(topics, timeout_ms, validate_only)
    return message


def _encode_flexible(out: bytearray, message: CreatePartitionsRequest, version: int) -> None:
    count = len(message.topics) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for t in message.topics:
        write_compact_string(out, t.name)
        out += _pack_i(t.count)
        if t.assignments is None:
            out += b"\x00"
        else:
            count = len(t.assignments) + 1
            if count > 127:
                write_uvarint(out, count)
            else:
                out.append(count)
            for t_a in t.assignments:
                count = len(t_a.broker_ids) + 1
                if count > 127:
                    write_uvarint(out, count)
                else:
                    out.append(count)
                out += struct_pack(f">{len(t_a.broker_ids)}i", *t_a.broker_ids)
                out += b"\x00"
        out += b"\x00"
    out += _pack_iox(message.timeout_ms, message.validate_only)
