"""GENERATED from tools/schemas by tools/generate.py (`make generate`): DescribeProducersResponse, key 61, versions 0-0."""

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
    read_uvarint,
    skip_tags,
    write_compact_string,
    write_uvarint,
)

_unpack_i = Struct(">i").unpack_from
_unpack_ih = Struct(">ih").unpack_from
_unpack_qiiqiq = Struct(">qiiqiq").unpack_from
_pack_i = Struct(">i").pack
_pack_ih = Struct(">ih").pack
_pack_qiiqiqx = Struct(">qiiqiqx").pack


class ProducerState(Message):
    """An element of `active_producers` of PartitionResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("producer_id", "producer_epoch", "last_sequence", "last_timestamp", "coordinator_epoch", "current_txn_start_offset")
    __slots__ = FIELDS

    def __init__(
        self,
        producer_id: int = 0,
        producer_epoch: int = 0,
        last_sequence: int = -1,
        last_timestamp: int = -1,
        coordinator_epoch: int = 0,
        current_txn_start_offset: int = -1,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.last_sequence = last_sequence
        self.last_timestamp = last_timestamp
        self.coordinator_epoch = coordinator_epoch
        self.current_txn_start_offset = current_txn_start_offset


class PartitionResponse(Message):
    """An element of `partitions` of TopicResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("partition_index", "error_code", "error_message", "active_producers")
    __slots__ = FIELDS

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        active_producers: Sequence[ProducerState] = (),
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.active_producers = active_producers


class TopicResponse(Message):
    """An element of `topics` of DescribeProducersResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "partitions")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[PartitionResponse] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class DescribeProducersResponse(Message):
    """The message DescribeProducersResponse, versions 0-0."""

    FIELDS: ClassVar[tuple[str, ...]] = ("throttle_time_ms", "topics")
    __slots__ = FIELDS

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: Sequence[TopicResponse] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> DescribeProducersResponse:
        try:
            return _decode_flexible(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("DescribeProducersResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        _encode_flexible(out, self, version)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> DescribeProducersResponse:
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
        raise DecodeError("Topics counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Topics is null", pos)
    topics_list: list[TopicResponse] = []
    for _ in range(elements):
        t_name, pos = read_compact_string(buf, pos)
        t_elements = buf[pos]
        if t_elements > 127:
            t_elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        t_elements -= 1
        if t_elements > (end - pos) // 9:
            raise DecodeError("Partitions counts more elements than there are bytes", pos)
        if t_elements < 0:
            raise DecodeError("Partitions is null", pos)
        t_partitions_list: list[PartitionResponse] = []
        for _ in range(t_elements):
            t_p_partition_index, t_p_error_code = _unpack_ih(buf, pos)
            pos += 6
            t_p_error_message, pos = read_compact_nullable_string(buf, pos)
            t_p_elements = buf[pos]
            if t_p_elements > 127:
                t_p_elements, pos = read_uvarint(buf, pos)
            else:
                pos += 1
            t_p_elements -= 1
            if t_p_elements > (end - pos) // 37:
                raise DecodeError("ActiveProducers counts more elements than there are bytes", pos)
            if t_p_elements < 0:
                raise DecodeError("ActiveProducers is null", pos)
            t_p_active_producers_list: list[ProducerState] = []
            for _ in range(t_p_elements):
                t_p_a_producer_id, t_p_a_producer_epoch, t_p_a_last_sequence, t_p_a_last_timestamp, t_p_a_coordinator_epoch, t_p_a_current_txn_start_offset = _unpack_qiiqiq(buf, pos)
                pos += 36
                if buf[pos]:
                    pos = skip_tags(buf, pos)
                else:
                    pos += 1
                t_p_a = ProducerState(t_p_a_producer_id, t_p_a_producer_epoch, t_p_a_last_sequence, t_p_a_last_timestamp, t_p_a_coordinator_epoch, t_p_a_current_txn_start_offset)
                t_p_active_producers_list.append(t_p_a)
            t_p_active_producers: Sequence[ProducerState] = t_p_active_producers_list
            if buf[pos]:
                pos = skip_tags(buf, pos)
            else:
                pos += 1
            t_p = PartitionResponse(t_p_partition_index, t_p_error_code, t_p_error_message, t_p_active_producers)
            t_partitions_list.append(t_p)
        t_partitions: Sequence[PartitionResponse] = t_partitions_list
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
        t = TopicResponse(t_name, t_partitions)
        topics_list.append(t)
    topics: Sequence[TopicResponse] = topics_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = DescribeProducersResponse(throttle_time_ms, topics)
    return message


def _encode_flexible(out: bytearray, message: DescribeProducersResponse, version: int) -> None:
    out += _pack_i(message.throttle_time_ms)
    count = len(message.topics) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for t in message.topics:
        write_compact_string(out, t.name)
        count = len(t.partitions) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for t_p in t.partitions:
            out += _pack_ih(t_p.partition_index, t_p.error_code)
            if t_p.error_message is None:
                out.append(0)
            else:
                write_compact_string(out, t_p.error_message)
            count = len(t_p.active_producers) + 1
            if count > 127:
                write_uvarint(out, count)
            else:
                out.append(count)
            for t_p_a in t_p.active_producers:
                out += _pack_qiiqiqx(t_p_a.producer_id, t_p_a.producer_epoch, t_p_a.last_sequence, t_p_a.last_timestamp, t_p_a.coordinator_epoch, t_p_a.current_txn_start_offset)
            out += b"\x00"
        out += b"\x00"
    out += b"\x00"
