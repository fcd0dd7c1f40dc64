"""GENERATED from tools/schemas by tools/generate.py (`make generate`): CreateTopicsRequest, key 19, versions 2-7."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, pack as struct_pack, Struct, unpack_from
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

_unpack_i = Struct(">i").unpack_from
_unpack_io = Struct(">i?").unpack_from
_unpack_ih = Struct(">ih").unpack_from
_pack_i = Struct(">i").pack
_pack_io = Struct(">i?").pack
_pack_iox = Struct(">i?x").pack
_pack_ih = Struct(">ih").pack


class CreatableReplicaAssignment(Message):
    """An element of `assignments` of CreatableTopic."""

    FIELDS: ClassVar[tuple[str, ...]] = ("partition_index", "broker_ids")
    __slots__ = FIELDS

    def __init__(
        self,
        partition_index: int = 0,
        broker_ids: Sequence[int] = (),
    ) -> None:
        self.partition_index = partition_index
        self.broker_ids = broker_ids


class CreatableTopicConfig(Message):
    """An element of `configs` of CreatableTopic."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "value")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        value: str | None = "",
    ) -> None:
        self.name = name
        self.value = value


class CreatableTopic(Message):
    """An element of `topics` of CreateTopicsRequest."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "num_partitions", "replication_factor", "assignments", "configs")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        num_partitions: int = 0,
        replication_factor: int = 0,
        assignments: Sequence[CreatableReplicaAssignment] = (),
        configs: Sequence[CreatableTopicConfig] = (),
    ) -> None:
        self.name = name
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.assignments = assignments
        self.configs = configs


class CreateTopicsRequest(Message):
    """The message CreateTopicsRequest, versions 2-7."""

    FIELDS: ClassVar[tuple[str, ...]] = ("topics", "timeout_ms", "validate_only")
    __slots__ = FIELDS

    def __init__(
        self,
        topics: Sequence[CreatableTopic] = (),
        timeout_ms: int = 60000,
        validate_only: bool = False,
    ) -> None:
        self.topics = topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> CreateTopicsRequest:
        try:
            if version >= 5:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("CreateTopicsRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 5:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> CreateTopicsRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 16:
        raise DecodeError("Topics counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Topics is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    topics_list: list[CreatableTopic] = []
    for _ in range(elements):
        t_name, pos = read_string(buf, pos)
        t_num_partitions, t_replication_factor = _unpack_ih(buf, pos)
        pos += 6
        t_elements = _unpack_i(buf, pos)[0]
        pos += 4
        if t_elements > (end - pos) // 8:
            raise DecodeError("Assignments counts more elements than there are bytes", pos)
        if t_elements < 0:
            raise DecodeError("Assignments is null", pos)
        left -= t_elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        t_assignments_list: list[CreatableReplicaAssignment] = []
        for _ in range(t_elements):
            t_a_partition_index = _unpack_i(buf, pos)[0]
            pos += 4
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
            t_a = CreatableReplicaAssignment(t_a_partition_index, t_a_broker_ids)
            t_assignments_list.append(t_a)
        t_assignments: Sequence[CreatableReplicaAssignment] = t_assignments_list
        t_elements = _unpack_i(buf, pos)[0]
        pos += 4
        if t_elements > (end - pos) // 4:
            raise DecodeError("Configs counts more elements than there are bytes", pos)
        if t_elements < 0:
            raise DecodeError("Configs is null", pos)
        left -= t_elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        t_configs_list: list[CreatableTopicConfig] = []
        for _ in range(t_elements):
            t_c_name, pos = read_string(buf, pos)
            t_c_value, pos = read_nullable_string(buf, pos)
            t_c = CreatableTopicConfig(t_c_name, t_c_value)
            t_configs_list.append(t_c)
        t_configs: Sequence[CreatableTopicConfig] = t_configs_list
        t = CreatableTopic(t_name, t_num_partitions, t_replication_factor, t_assignments, t_configs)
        topics_list.append(t)
    topics: Sequence[CreatableTopic] = topics_list
    timeout_ms, validate_only = _unpack_io(buf, pos)
    pos += 5
    message = CreateTopicsRequest(topics, timeout_ms, validate_only)
    return message


def _encode_classic(out: bytearray, message: CreateTopicsRequest, version: int) -> None:
    out += _pack_i(len(message.topics))
    for t in message.topics:
        write_string(out, t.name)
        out += _pack_ih(t.num_partitions, t.replication_factor)
        out += _pack_i(len(t.assignments))
        for t_a in t.assignments:
            out += _pack_i(t_a.partition_index)
            out += _pack_i(len(t_a.broker_ids))
            out += struct_pack(f">{len(t_a.broker_ids)}i", *t_a.broker_ids)
        out += _pack_i(len(t.configs))
        for t_c in t.configs:
            write_string(out, t_c.name)
            write_nullable_string(out, t_c.value)
    out += _pack_io(message.timeout_ms, message.validate_only)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> CreateTopicsRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 10:
        raise DecodeError("Topics counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Topics is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    topics_list: list[CreatableTopic] = []
    for _ in range(elements):
        t_name, pos = read_compact_string(buf, pos)
        t_num_partitions, t_replication_factor = _unpack_ih(buf, pos)
        pos += 6
        t_elements = buf[pos]
        if t_elements > 127:
            t_elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        t_elements -= 1
        if t_elements > (end - pos) // 6:
            raise DecodeError("Assignments counts more elements than there are bytes", pos)
        if t_elements < 0:
            raise DecodeError("Assignments is null", pos)
        left -= t_elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        t_assignments_list: list[CreatableReplicaAssignment] = []
        for _ in range(t_elements):
            t_a_partition_index = _unpack_i(buf, pos)[0]
            pos += 4
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
            t_a = CreatableReplicaAssignment(t_a_partition_index, t_a_broker_ids)
            t_assignments_list.append(t_a)
        t_assignments: Sequence[CreatableReplicaAssignment] = t_assignments_list
        t_elements = buf[pos]
        if t_elements > 127:
            t_elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        t_elements -= 1
        if t_elements > (end - pos) // 3:
            raise DecodeError("Configs counts more elements than there are bytes", pos)
        if t_elements < 0:
            raise DecodeError("Configs is null", pos)
        left -= t_elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        t_configs_list: list[CreatableTopicConfig] = []
        for _ in range(t_elements):
            t_c_name, pos = read_compact_string(buf, pos)
            t_c_value, pos = read_compact_nullable_string(buf, pos)
            if buf[pos]:
                pos, left = skip_counted_tags(buf, pos, left)
            else:
                pos += 1
            t_c = CreatableTopicConfig(t_c_name, t_c_value)
            t_configs_list.append(t_c)
        t_configs: Sequence[CreatableTopicConfig] = t_configs_list
        if buf[pos]:
            pos, left = skip_counted_tags(buf, pos, left)
        else:
            pos += 1
        t = CreatableTopic(t_name, t_num_partitions, t_replication_factor, t_assignments, t_configs)
        topics_list.append(t)
    topics: Sequence[CreatableTopic] = topics_list
    timeout_ms, validate_only = _unpack_io(buf, pos)
    pos += 5
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = CreateTopicsRequest(topics, timeout_ms, validate_only)
    return message


def _encode_flexible(out: bytearray, message: CreateTopicsRequest, version: int) -> None:
    count = len(message.topics) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for t in message.topics:
        write_compact_string(out, t.name)
        out += _pack_ih(t.num_partitions, t.replication_factor)
        count = len(t.assignments) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for t_a in t.assignments:
            out += _pack_i(t_a.partition_index)
            count = len(t_a.broker_ids) + 1
            if count > 127:
                write_uvarint(out, count)
            else:
                out.append(count)
            out += struct_pack(f">{len(t_a.broker_ids)}i", *t_a.broker_ids)
            out += b"\x00"
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
            out += b"\x00"
        out += b"\x00"
    out += _pack_iox(message.timeout_ms, message.validate_only)
