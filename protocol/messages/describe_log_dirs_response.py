"""GENERATED from tools/schemas by tools/generate.py (`make generate`): DescribeLogDirsResponse, key 35, versions 1-5."""

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

_unpack_o = Struct(">?").unpack_from
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_iqqo = Struct(">iqq?").unpack_from
_unpack_qq = Struct(">qq").unpack_from
_pack_o = Struct(">?").pack
_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_iqqo = Struct(">iqq?").pack
_pack_iqqox = Struct(">iqq?x").pack
_pack_qq = Struct(">qq").pack


class DescribeLogDirsPartition(Message):
    """An element of `partitions` of DescribeLogDirsTopic."""

    FIELDS: ClassVar[tuple[str, ...]] = ("partition_index", "partition_size", "offset_lag", "is_future_key")
    __slots__ = FIELDS

    def __init__(
        self,
        partition_index: int = 0,
        partition_size: int = 0,
        offset_lag: int = 0,
        is_future_key: bool = False,
    ) -> None:
        self.partition_index = partition_index
        self.partition_size = partition_size
        self.offset_lag = offset_lag
        self.is_future_key = is_future_key


class DescribeLogDirsTopic(Message):
    """An element of `topics` of DescribeLogDirsResult."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "partitions")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[DescribeLogDirsPartition] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class DescribeLogDirsResult(Message):
    """An element of `results` of DescribeLogDirsResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("error_code", "log_dir", "topics", "total_bytes", "usable_bytes", "is_cordoned")
    __slots__ = FIELDS

    def __init__(
        self,
        error_code: int = 0,
        log_dir: str = "",
        topics: Sequence[DescribeLogDirsTopic] = (),
        total_bytes: int = -1,
        usable_bytes: int = -1,
        is_cordoned: bool = False,
    ) -> None:
        self.error_code = error_code
        self.log_dir = log_dir
        self.topics = topics
        self.total_bytes = total_bytes
        self.usable_bytes = usable_bytes
        self.is_cordoned = is_cordoned


class DescribeLogDirsResponse(Message):
    """The message DescribeLogDirsResponse, versions 1-5."""

    FIELDS: ClassVar[tuple[str, ...]] = ("throttle_time_ms", "error_code", "results")
    __slots__ = FIELDS

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        results: Sequence[DescribeLogDirsResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results = results

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> DescribeLogDirsResponse:
        try:
            if version >= 2:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("DescribeLogDirsResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 2:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> DescribeLogDirsResponse:
    end = len(buf)
    throttle_time_ms = _unpack_i(buf, pos)[0]
    pos += 4
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 8:
        raise DecodeError("Results counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Results is null", pos)
    results_list: list[DescribeLogDirsResult] = []
    for _ in range(elements):
        r_error_code = _unpack_h(buf, pos)[0]
        pos += 2
        r_log_dir, pos = read_string(buf, pos)
        r_elements = _unpack_i(buf, pos)[0]
        pos += 4
        if r_elements > (end - pos) // 6:
            raise DecodeError("Topics counts more elements than there are bytes", pos)
        if r_elements < 0:
            raise DecodeError("Topics is null", pos)
        r_topics_list: list[DescribeLogDirsTopic] = []
        for _ in range(r_elements):
            r_t_name, pos = read_string(buf, pos)
            r_t_elements = _unpack_i(buf, pos)[0]
            pos += 4
            if r_t_elements > (end - pos) // 21:
                raise DecodeError("Partitions counts more elements than there are bytes", pos)
            if r_t_elements < 0:
                raise DecodeError("Partitions is null", pos)
            r_t_partitions_list: list[DescribeLogDirsPartition] = []
            for _ in range(r_t_elements):
                r_t_p_partition_index, r_t_p_partition_size, r_t_p_offset_lag, r_t_p_is_future_key = _unpack_iqqo(buf, pos)
                pos += 21
                r_t_p = DescribeLogDirsPartition(r_t_p_partition_index, r_t_p_partition_size, r_t_p_offset_lag, r_t_p_is_future_key)
                r_t_partitions_list.append(r_t_p)
            r_t_partitions: Sequence[DescribeLogDirsPartition] = r_t_partitions_list
            r_t = DescribeLogDirsTopic(r_t_name, r_t_partitions)
            r_topics_list.append(r_t)
        r_topics: Sequence[DescribeLogDirsTopic] = r_topics_list
        r = DescribeLogDirsResult(r_error_code, r_log_dir, r_topics, -1, -1, False)
        results_list.append(r)
    results: Sequence[DescribeLogDirsResult] = results_list
    message = DescribeLogDirsResponse(throttle_time_ms, 0, results)
    return message


def _encode_classic(out: bytearray, message: DescribeLogDirsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time_ms)
    out += _pack_i(len(message.results))
    for r in message.results:
        out += _pack_h(r.error_code)
        write_string(out, r.log_dir)
        out += _pack_i(len(r.topics))
        for r_t in r.topics:
            write_string(out, r_t.name)
            out += _pack_i(len(r_t.partitions))
            for r_t_p in r_t.partitions:
                out += _pack_iqqo(r_t_p.partition_index, r_t_p.partition_size, r_t_p.offset_lag, r_t_p.is_future_key)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> DescribeLogDirsResponse:
    end = len(buf)
    throttle_time_ms = _unpack_i(buf, pos)[0]
    pos += 4
    if version >= 3:
        error_code = _unpack_h(buf, pos)[0]
        pos += 2
    else:
        error_code = 0
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 5:
        raise DecodeError("Results counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Results is null", pos)
    results_list: list[DescribeLogDirsResult] = []
    for _ in range(elements):
        r_error_code = _unpack_h(buf, pos)[0]
        pos += 2
        r_log_dir, pos = read_compact_string(buf, pos)
        r_elements = buf[pos]
        if r_elements > 127:
            r_elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        r_elements -= 1
        if r_elements > (end - pos) // 3:
            raise DecodeError("Topics counts more elements than there are bytes", pos)
        if r_elements < 0:
            raise DecodeError("Topics is null", pos)
        r_topics_list: list[DescribeLogDirsTopic] = []
        for _ in range(r_elements):
            r_t_name, pos = read_compact_string(buf, pos)
            r_t_elements = buf[pos]
            if r_t_elements > 127:
                r_t_elements, pos = read_uvarint(buf, pos)
            else:
                pos += 1
            r_t_elements -= 1
            if r_t_elements > (end - pos) // 22:
                raise DecodeError("Partitions counts more elements than there are bytes", pos)
            if r_t_elements < 0:
                raise DecodeError("Partitions is null", pos)
            r_t_partitions_list: list[DescribeLogDirsPartition] = []
            for _ in range(r_t_elements):
                r_t_p_partition_index, r_t_p_partition_size, r_t_p_offset_lag, r_t_p_is_future_key = _unpack_iqqo(buf, pos)
                pos += 21
                if buf[pos]:
                    pos = skip_tags(buf, pos)
                else:
                    pos += 1
                r_t_p = DescribeLogDirsPartition(r_t_p_partition_index, r_t_p_partition_size, r_t_p_offset_lag, r_t_p_is_future_key)
                r_t_partitions_list.append(r_t_p)
            r_t_partitions: Sequence[DescribeLogDirsPartition] = r_t_partitions_list
            if buf[pos]:
                pos = skip_tags(buf, pos)
            else:
                pos += 1
            r_t = DescribeLogDirsTopic(r_t_name, r_t_partitions)
            r_topics_list.append(r_t)
        r_topics: Sequence[DescribeLogDirsTopic] = r_topics_list
        if version >= 4:
            r_total_bytes, r_usable_bytes = _unpack_qq(buf, pos)
            pos += 16
        else:
            r_total_bytes = -1
            r_usable_bytes = -1
        if version >= 5:
            r_is_cordoned = _unpack_o(buf, pos)[0]
            pos += 1
        else:
            r_is_cordoned = False
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
        r = DescribeLogDirsResult(r_error_code, r_log_dir, r_topics, r_total_bytes, r_usable_bytes, r_is_cordoned)
        results_list.append(r)
    results: Sequence[DescribeLogDirsResult] = results_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = DescribeLogDirsResponse(throttle_time_ms, error_code, results)
    return message


def _encode_flexible(out: bytearray, message: DescribeLogDirsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time_ms)
    if version >= 3:
        out += _pack_h(message.error_code)
    count = len(message.results) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for r in message.results:
        out += _pack_h(r.error_code)
        write_compact_string(out, r.log_dir)
        count = len(r.topics) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for r_t in r.topics:
            write_compact_string(out, r_t.name)
            count = len(r_t.partitions) + 1
            if count > 127:
                write_uvarint(out, count)
            else:
                out.append(count)
            for r_t_p in r_t.partitions:
                out += _pack_iqqox(r_t_p.partition_index, r_t_p.partition_size, r_t_p.offset_lag, r_t_p.is_future_key)
            out += b"\x00"
        if version >= 4:
            out += _pack_qq(r.total_bytes, r.usable_bytes)
        if version >= 5:
            out += _pack_o(r.is_cordoned)
        out += b"\x00"
    out += b"\x00"
