"""GENERATED from tools/schemas by tools/generate.py (`make generate`): AddPartitionsToTxnResponse, key 24, versions 0-5."""

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
    read_string,
    read_tags,
    read_uvarint,
    skip_tags,
    write_compact_string,
    write_string,
    write_tags,
    write_uvarint,
)

_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_ih = Struct(">ih").unpack_from
_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_ih = Struct(">ih").pack
_pack_ihx = Struct(">ihx").pack


class AddPartitionsToTxnPartitionResult(Message):
    """An element of `results_by_partition` of AddPartitionsToTxnTopicResult."""

    FIELDS: ClassVar[tuple[str, ...]] = ("partition_index", "partition_error_code")
    __slots__ = FIELDS

    def __init__(
        self,
        partition_index: int = 0,
        partition_error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.partition_error_code = partition_error_code


class AddPartitionsToTxnTopicResult(Message):
    """An element of `topic_results` of AddPartitionsToTxnResult, `results_by_topic_v3_and_below` of AddPartitionsToTxnResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "results_by_partition")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        results_by_partition: Sequence[AddPartitionsToTxnPartitionResult] = (),
    ) -> None:
        self.name = name
        self.results_by_partition = results_by_partition


class AddPartitionsToTxnResult(Message):
    """An element of `results_by_transaction` of AddPartitionsToTxnResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("transactional_id", "topic_results")
    __slots__ = FIELDS

    def __init__(
        self,
        transactional_id: str = "",
        topic_results: Sequence[AddPartitionsToTxnTopicResult] = (),
    ) -> None:
        self.transactional_id = transactional_id
        self.topic_results = topic_results


class AddPartitionsToTxnResponse(Message):
    """The message AddPartitionsToTxnResponse, versions 0-5."""

    FIELDS: ClassVar[tuple[str, ...]] = ("throttle_time_ms", "error_code", "results_by_transaction", "results_by_topic_v3_and_below", "fence_reason")
    __slots__ = FIELDS

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        results_by_transaction: Sequence[AddPartitionsToTxnResult] = (),
        results_by_topic_v3_and_below: Sequence[AddPartitionsToTxnTopicResult] = (),
        fence_reason: str | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results_by_transaction = results_by_transaction
        self.results_by_topic_v3_and_below = results_by_topic_v3_and_below
        self.fence_reason = fence_reason

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> AddPartitionsToTxnResponse:
        try:
            if version >= 3:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("AddPartitionsToTxnResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 3:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> AddPartitionsToTxnResponse:
    end = len(buf)
    throttle_time_ms = _unpack_i(buf, pos)[0]
    pos += 4
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 6:
        raise DecodeError("ResultsByTopicV3AndBelow counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("ResultsByTopicV3AndBelow is null", pos)
    results_by_topic_v3_and_below_list: list[AddPartitionsToTxnTopicResult] = []
    for _ in range(elements):
        rbtvab_name, pos = read_string(buf, pos)
        rbtvab_elements = _unpack_i(buf, pos)[0]
        pos += 4
        if rbtvab_elements > (end - pos) // 6:
            raise DecodeError("ResultsByPartition counts more elements than there are bytes", pos)
        if rbtvab_elements < 0:
            raise DecodeError("ResultsByPartition is null", pos)
        rbtvab_results_by_partition_list: list[AddPartitionsToTxnPartitionResult] = []
        for _ in range(rbtvab_elements):
            rbtvab_r_partition_index, rbtvab_r_partition_error_code = _unpack_ih(buf, pos)
            pos += 6
            rbtvab_r = AddPartitionsToTxnPartitionResult(rbtvab_r_partition_index, rbtvab_r_partition_error_code)
            rbtvab_results_by_partition_list.append(rbtvab_r)
        rbtvab_results_by_partition: Sequence[AddPartitionsToTxnPartitionResult] = rbtvab_results_by_partition_list
        rbtvab = AddPartitionsToTxnTopicResult(rbtvab_name, rbtvab_results_by_partition)
        results_by_topic_v3_and_below_list.append(rbtvab)
    results_by_topic_v3_and_below: Sequence[AddPartitionsToTxnTopicResult] = results_by_topic_v3_and_below_list
    message = AddPartitionsToTxnResponse(throttle_time_ms, 0, (), results_by_topic_v3_and_below, None)
    return message


def _encode_classic(out: bytearray, message: AddPartitionsToTxnResponse, version: int) -> None:
    out += _pack_i(message.throttle_time_ms)
    out += _pack_i(len(message.results_by_topic_v3_and_below))
    for rbtvab in message.results_by_topic_v3_and_below:
        write_string(out, rbtvab.name)
        out += _pack_i(len(rbtvab.results_by_partition))
        for rbtvab_r in rbtvab.results_by_partition:
            out += _pack_ih(rbtvab_r.partition_index, rbtvab_r.partition_error_code)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> AddPartitionsToTxnResponse:
    end = len(buf)
    throttle_time_ms = _unpack_i(buf, pos)[0]
    pos += 4
    if version >= 4:
        error_code = _unpack_h(buf, pos)[0]
        pos += 2
    else:
        error_code = 0
    if version >= 4:
        elements = buf[pos]
        if elements > 127:
            elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        elements -= 1
        if elements > (end - pos) // 3:
            raise DecodeError("ResultsByTransaction counts more elements than there are bytes", pos)
        if elements < 0:
            raise DecodeError("ResultsByTransaction is null", pos)
        results_by_transaction_list: list[AddPartitionsToTxnResult] = []
        for _ in range(elements):
            r_transactional_id, pos = read_compact_string(buf, pos)
            r_elements = buf[pos]
            if r_elements > 127:
                r_elements, pos = read_uvarint(buf, pos)
            else:
                pos += 1
            r_elements -= 1
            if r_elements > (end - pos) // 3:
                raise DecodeError("TopicResults counts more elements than there are bytes", pos)
            if r_elements < 0:
                raise DecodeError("TopicResults is null", pos)
            r_topic_results_list: list[AddPartitionsToTxnTopicResult] = []
            for _ in range(r_elements):
                r_t_name, pos = read_compact_string(buf, pos)
                r_t_elements = buf[pos]
                if r_t_elements > 127:
                    r_t_elements, pos = read_uvarint(buf, pos)
                else:
                    pos += 1
                r_t_elements -= 1
                if r_t_elements > (end - pos) // 7:
                    raise DecodeError("ResultsByPartition counts more elements than there are bytes", pos)
                if r_t_elements < 0:
                    raise DecodeError("ResultsByPartition is null", pos)
                r_t_results_by_partition_list: list[AddPartitionsToTxnPartitionResult] = []
                for _ in range(r_t_elements):
                    r_t_r_partition_index, r_t_r_partition_error_code = _unpack_ih(buf, pos)
                    pos += 6
                    if buf[pos]:
                        pos = skip_tags(buf, pos)
                    else:
                        pos += 1
                    r_t_r = AddPartitionsToTxnPartitionResult(r_t_r_partition_index, r_t_r_partition_error_code)
                    r_t_results_by_partition_list.append(r_t_r)
                r_t_results_by_partition: Sequence[AddPartitionsToTxnPartitionResult] = r_t_results_by_partition_list
                if buf[pos]:
                    pos = skip_tags(buf, pos)
                else:
                    pos += 1
                r_t = AddPartitionsToTxnTopicResult(r_t_name, r_t_results_by_partition)
                r_topic_results_list.append(r_t)
            r_topic_results: Sequence[AddPartitionsToTxnTopicResult] = r_topic_results_list
            if buf[pos]:
                pos = skip_tags(buf, pos)
            else:
                pos += 1
            r = AddPartitionsToTxnResult(r_transactional_id, r_topic_results)
            results_by_transaction_list.append(r)
        results_by_transaction: Sequence[AddPartitionsToTxnResult] = results_by_transaction_list
    else:
        results_by_transaction = ()
    if version <= 3:
        elements = buf[pos]
        if elements > 127:
            elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        elements -= 1
        if elements > (end - pos) // 3:
            raise DecodeError("ResultsByTopicV3AndBelow counts more elements than there are bytes", pos)
        if elements < 0:
            raise DecodeError("ResultsByTopicV3AndBelow is null", pos)
        results_by_topic_v3_and_below_list: list[AddPartitionsToTxnTopicResult] = []
        for _ in range(elements):
            rbtvab_name, pos = read_compact_string(buf, pos)
            rbtvab_elements = buf[pos]
            if rbtvab_elements > 127:
                rbtvab_elements, pos = read_uvarint(buf, pos)
            else:
                pos += 1
            rbtvab_elements -= 1
            if rbtvab_elements > (end - pos) // 7:
                raise DecodeError("ResultsByPartition counts more elements than there are bytes", pos)
            if rbtvab_elements < 0:
                raise DecodeError("ResultsByPartition is null", pos)
            rbtvab_results_by_partition_list: list[AddPartitionsToTxnPartitionResult] = []
            for _ in range(rbtvab_elements):
                rbtvab_r_partition_index, rbtvab_r_partition_error_code = _unpack_ih(buf, pos)
                pos += 6
                if buf[pos]:
                    pos = skip_tags(buf, pos)
                else:
                    pos += 1
                rbtvab_r = AddPartitionsToTxnPartitionResult(rbtvab_r_partition_index, rbtvab_r_partition_error_code)
                rbtvab_results_by_partition_list.append(rbtvab_r)
            rbtvab_results_by_partition: Sequence[AddPartitionsToTxnPartitionResult] = rbtvab_results_by_partition_list
            if buf[pos]:
                pos = skip_tags(buf, pos)
            else:
                pos += 1
            rbtvab = AddPartitionsToTxnTopicResult(rbtvab_name, rbtvab_results_by_partition)
            results_by_topic_v3_and_below_list.append(rbtvab)
        results_by_topic_v3_and_below: Sequence[AddPartitionsToTxnTopicResult] = results_by_topic_v3_and_below_list
    else:
        results_by_topic_v3_and_below = ()
    fence_reason: str | None = None
    if buf[pos]:
        tags, after = read_tags(buf, pos)
        if 9000 in tags:
            pos, stop = tags[9000]
            fence_reason, pos = read_compact_nullable_string(buf, pos)
            if pos != stop:
                raise DecodeError("tagged field FenceReason is not of the size given", pos)
        pos = after
    else:
        pos += 1
    message = AddPartitionsToTxnResponse(throttle_time_ms, error_code, results_by_transaction, results_by_topic_v3_and_below, fence_reason)
    return message


def _encode_flexible(out: bytearray, message: AddPartitionsToTxnResponse, version: int) -> None:
    out += _pack_i(message.throttle_time_ms)
    if version >= 4:
        out += _pack_h(message.error_code)
    if version >= 4:
        count = len(message.results_by_transaction) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for r in message.results_by_transaction:
            write_compact_string(out, r.transactional_id)
            count = len(r.topic_results) + 1
            if count > 127:
                write_uvarint(out, count)
            else:
                out.append(count)
            for r_t in r.topic_results:
                write_compact_string(out, r_t.name)
                count = len(r_t.results_by_partition) + 1
                if count > 127:
                    write_uvarint(out, count)
                else:
                    out.append(count)
                for r_t_r in r_t.results_by_partition:
                    out += _pack_ihx(r_t_r.partition_index, r_t_r.partition_error_code)
                out += b"\x00"
            out += b"\x00"
    if version <= 3:
        count = len(message.results_by_topic_v3_and_below) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for rbtvab in message.results_by_topic_v3_and_below:
            write_compact_string(out, rbtvab.name)
            count = len(rbtvab.results_by_partition) + 1
            if count > 127:
                write_uvarint(out, count)
            else:
                out.append(count)
            for rbtvab_r in rbtvab.results_by_partition:
                out += _pack_ihx(rbtvab_r.partition_index, rbtvab_r.partition_error_code)
            out += b"\x00"
    if message.fence_reason is not None:
        tags: list[tuple[int, bytearray]] = []
        outer = out
        if message.fence_reason is not None:
            out = bytearray()
            if message.fence_reason is None:
                out.append(0)
            else:
                write_compact_string(out, message.fence_reason)
            tags.append((9000, out))
        out = outer
        write_tags(out, tags)
    else:
        out.append(0)
