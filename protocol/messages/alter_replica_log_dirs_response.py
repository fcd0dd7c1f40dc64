"""GENERATED from tools/schemas by tools/generate.py (`make generate`): AlterReplicaLogDirsResponse, key 34, versions 1-2."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    read_compact_string,
    read_string,
    read_uvarint,
    skip_tags,
    write_compact_string,
    write_string,
    write_uvarint,
)

_unpack_i = Struct(">i").unpack_from
_unpack_ih = Struct(">ih").unpack_from
_pack_i = Struct(">i").pack
_pack_ih = Struct(">ih").pack
_pack_ihx = Struct(">ihx").pack


class AlterReplicaLogDirPartitionResult(Message):
    """An element of `partitions` of AlterReplicaLogDirTopicResult."""

    FIELDS: ClassVar[tuple[str, ...]] = ("partition_index", "error_code")
    __slots__ = FIELDS

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class AlterReplicaLogDirTopicResult(Message):
    """An element of `results` of AlterReplicaLogDirsResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("topic_name", "partitions")
    __slots__ = FIELDS

    def __init__(
        self,
        topic_name: str = "",
        partitions: Sequence[AlterReplicaLogDirPartitionResult] = (),
    ) -> None:
        self.topic_name = topic_name
        self.partitions = partitions


class AlterReplicaLogDirsResponse(Message):
    """The message AlterReplicaLogDirsResponse, versions 1-2."""

    FIELDS: ClassVar[tuple[str, ...]] = ("throttle_time_ms", "results")
    __slots__ = FIELDS

    def __init__(
        self,
        throttle_time_ms: int = 0,
        results: Sequence[AlterReplicaLogDirTopicResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = results

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> AlterReplicaLogDirsResponse:
        try:
            if version >= 2:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("AlterReplicaLogDirsResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 2:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> AlterReplicaLogDirsResponse:
    end = len(buf)
    throttle_time_ms = _unpack_i(buf, pos)[0]
    pos += 4
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 6:
        raise DecodeError("Results counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Results is null", pos)
    results_list: list[AlterReplicaLogDirTopicResult] = []
    for _ in range(elements):
        r_topic_name, pos = read_string(buf, pos)
        r_elements = _unpack_i(buf, pos)[0]
        pos += 4
        if r_elements > (end - pos) // 6:
            raise DecodeError("Partitions counts more elements than there are bytes", pos)
        if r_elements < 0:
            raise DecodeError("Partitions is null", pos)
        r_partitions_list: list[AlterReplicaLogDirPartitionResult] = []
        for _ in range(r_elements):
            r_p_partition_index, r_p_error_code = _unpack_ih(buf, pos)
            pos += 6
            r_p = AlterReplicaLogDirPartitionResult(r_p_partition_index, r_p_error_code)
            r_partitions_list.append(r_p)
        r_partitions: Sequence[AlterReplicaLogDirPartitionResult] = r_partitions_list
        r = AlterReplicaLogDirTopicResult(r_topic_name, r_partitions)
        results_list.append(r)
    results: Sequence[AlterReplicaLogDirTopicResult] = results_list
    message = AlterReplicaLogDirsResponse(throttle_time_ms, results)
    return message


def _encode_classic(out: bytearray, message: AlterReplicaLogDirsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time_ms)
    out += _pack_i(len(message.results))
    for r in message.results:
        write_string(out, r.topic_name)
        out += _pack_i(len(r.partitions))
        for r_p in r.partitions:
            out += _pack_ih(r_p.partition_index, r_p.error_code)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> AlterReplicaLogDirsResponse:
    end = len(buf)
    throttle_time_ms = _unpack_i(buf, pos)[0]
    pos += 4
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 3:
        raise DecodeError("Results counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Results is null", pos)
    results_list: list[AlterReplicaLogDirTopicResult] = []
    for _ in range(elements):
        r_topic_name, pos = read_compact_string(buf, pos)
        r_elements = buf[pos]
        if r_elements > 127:
            r_elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        r_elements -= 1
        if r_elements > (end - pos) // 7:
            raise DecodeError("Partitions counts more elements than there are bytes", pos)
        if r_elements < 0:
            raise DecodeError("Partitions is null", pos)
        r_partitions_list: list[AlterReplicaLogDirPartitionResult] = []
        for _ in range(r_elements):
            r_p_partition_index, r_p_error_code = _unpack_ih(buf, pos)
            pos += 6
            if buf[pos]:
                pos = skip_tags(buf, pos)
            else:
                pos += 1
            r_p = AlterReplicaLogDirPartitionResult(r_p_partition_index, r_p_error_code)
            r_partitions_list.append(r_p)
        r_partitions: Sequence[AlterReplicaLogDirPartitionResult] = r_partitions_list
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
        r = AlterReplicaLogDirTopicResult(r_topic_name, r_partitions)
        results_list.append(r)
    results: Sequence[AlterReplicaLogDirTopicResult] = results_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = AlterReplicaLogDirsResponse(throttle_time_ms, results)
    return message


def _encode_flexible(out: bytearray, message: AlterReplicaLogDirsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time_ms)
    count = len(message.results) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for r in message.results:
        write_compact_string(out, r.topic_name)
        count = len(r.partitions) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for r_p in r.partitions:
            out += _pack_ihx(r_p.partition_index, r_p.error_code)
        out += b"\x00"
    out += b"\x00"
