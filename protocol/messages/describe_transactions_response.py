"""GENERATED from tools/schemas by tools/generate.py (`make generate`): DescribeTransactionsResponse, key 65, versions 0-0."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, pack as struct_pack, Struct, unpack_from
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    read_compact_string,
    read_uvarint,
    skip_tags,
    write_compact_string,
    write_uvarint,
)

_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_iqqh = Struct(">iqqh").unpack_from
_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_iqqh = Struct(">iqqh").pack


class TopicData(Message):
    """An element of `topics` of TransactionState."""

    FIELDS: ClassVar[tuple[str, ...]] = ("topic", "partitions")
    __slots__ = FIELDS

    def __init__(
        self,
        topic: str = "",
        partitions: Sequence[int] = (),
    ) -> None:
        self.topic = topic
        self.partitions = partitions


class TransactionState(Message):
    """An element of `transaction_states` of DescribeTransactionsResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("error_code", "transactional_id", "transaction_state", "transaction_timeout_ms", "transaction_start_time_ms", "producer_id", "producer_epoch", "topics")
    __slots__ = FIELDS

    def __init__(
        self,
        error_code: int = 0,
        transactional_id: str = "",
        transaction_state: str = "",
        transaction_timeout_ms: int = 0,
        transaction_start_time_ms: int = 0,
        producer_id: int = 0,
        producer_epoch: int = 0,
        topics: Sequence[TopicData] = (),
    ) -> None:
        self.error_code = error_code
        self.transactional_id = transactional_id
        self.transaction_state = transaction_state
        self.transaction_timeout_ms = transaction_timeout_ms
        self.transaction_start_time_ms = transaction_start_time_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.topics = topics


class DescribeTransactionsResponse(Message):
    """The message DescribeTransactionsResponse, versions 0-0."""

    FIELDS: ClassVar[tuple[str, ...]] = ("throttle_time_ms", "transaction_states")
    __slots__ = FIELDS

    def __init__(
        self,
        throttle_time_ms: int = 0,
        transaction_states: Sequence[TransactionState] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.transaction_states = transaction_states

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> DescribeTransactionsResponse:
        try:
            return _decode_flexible(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("DescribeTransactionsResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        _encode_flexible(out, self, version)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> DescribeTransactionsResponse:
    end = len(buf)
    throttle_time_ms = _unpack_i(buf, pos)[0]
    pos += 4
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 28:
        raise DecodeError("TransactionStates counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("TransactionStates is null", pos)
    transaction_states_list: list[TransactionState] = []
    for _ in range(elements):
        t_error_code = _unpack_h(buf, pos)[0]
        pos += 2
        t_transactional_id, pos = read_compact_string(buf, pos)
        t_transaction_state, pos = read_compact_string(buf, pos)
        t_transaction_timeout_ms, t_transaction_start_time_ms, t_producer_id, t_producer_epoch = _unpack_iqqh(buf, pos)
        pos += 22
        t_elements = buf[pos]
        if t_elements > 127:
            t_elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        t_elements -= 1
        if t_elements > (end - pos) // 3:
            raise DecodeError("Topics counts more elements than there are bytes", pos)
        if t_elements < 0:
            raise DecodeError("Topics is null", pos)
        t_topics_list: list[TopicData] = []
        for _ in range(t_elements):
            t_t_topic, pos = read_compact_string(buf, pos)
            t_t_elements = buf[pos]
            if t_t_elements > 127:
                t_t_elements, pos = read_uvarint(buf, pos)
            else:
                pos += 1
            t_t_elements -= 1
            if t_t_elements > (end - pos) // 4:
                raise DecodeError("Partitions counts more elements than there are bytes", pos)
            if t_t_elements < 0:
                raise DecodeError("Partitions is null", pos)
            t_t_partitions: Sequence[int] = list(unpack_from(f">{t_t_elements}i", buf, pos))
            pos += 4 * t_t_elements
            if buf[pos]:
                pos = skip_tags(buf, pos)
            else:
                pos += 1
            t_t = TopicData(t_t_topic, t_t_partitions)
            t_topics_list.append(t_t)
        t_topics: Sequence[TopicData] = t_topics_list
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
        t = TransactionState(t_error_code, t_transactional_id, t_transaction_state, t_transaction_timeout_ms, t_transaction_start_time_ms, t_producer_id, t_producer_epoch, t_topics)
        transaction_states_list.append(t)
    transaction_states: Sequence[TransactionState] = transaction_states_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = DescribeTransactionsResponse(throttle_time_ms, transaction_states)
    return message


def _encode_flexible(out: bytearray, message: DescribeTransactionsResponse, version: int) -> None:
    out += _pack_i(message.throttle_time_ms)
    count = len(message.transaction_states) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for t in message.transaction_states:
        out += _pack_h(t.error_code)
        write_compact_string(out, t.transactional_id)
        write_compact_string(out, t.transaction_state)
        out += _pack_iqqh(t.transaction_timeout_ms, t.transaction_start_time_ms, t.producer_id, t.producer_epoch)
        count = len(t.topics) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for t_t in t.topics:
            write_compact_string(out, t_t.topic)
            count = len(t_t.partitions) + 1
            if count > 127:
                write_uvarint(out, count)
            else:
                out.append(count)
            out += struct_pack(f">{len(t_t.partitions)}i", *t_t.partitions)
            out += b"\x00"
        out += b"\x00"
    out += b"\x00"
