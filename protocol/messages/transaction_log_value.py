"""GENERATED from tools/schemas by tools/generate.py (`make generate`): TransactionLogValue, versions 0-1."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, pack as struct_pack, Struct, unpack_from
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
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
_unpack_q = Struct(">q").unpack_from
_unpack_qhib = Struct(">qhib").unpack_from
_unpack_qq = Struct(">qq").unpack_from
_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_q = Struct(">q").pack
_pack_qhib = Struct(">qhib").pack
_pack_qq = Struct(">qq").pack


class PartitionsSchema(Message):
    """An element of `transaction_partitions` of TransactionLogValue."""

    FIELDS: ClassVar[tuple[str, ...]] = ("topic", "partition_ids")
    __slots__ = FIELDS

    def __init__(
        self,
        topic: str = "",
        partition_ids: Sequence[int] = (),
    ) -> None:
        self.topic = topic
        self.partition_ids = partition_ids


class TransactionLogValue(Message):
    """The message TransactionLogValue, versions 0-1."""

    FIELDS: ClassVar[tuple[str, ...]] = ("producer_id", "previous_producer_id", "next_producer_id", "producer_epoch", "next_producer_epoch", "last_producer_epoch", "transaction_timeout_ms", "transaction_status", "transaction_partitions", "transaction_last_update_timestamp_ms", "transaction_start_timestamp_ms", "client_transaction_version", "timed_out_epoch", "init_version")
    __slots__ = FIELDS

    def __init__(
        self,
        producer_id: int = 0,
        previous_producer_id: int = -1,
        next_producer_id: int = -1,
        producer_epoch: int = 0,
        next_producer_epoch: int = -1,
        last_producer_epoch: int = -1,
        transaction_timeout_ms: int = 0,
        transaction_status: int = 0,
        transaction_partitions: Sequence[PartitionsSchema] | None = (),
        transaction_last_update_timestamp_ms: int = 0,
        transaction_start_timestamp_ms: int = 0,
        client_transaction_version: int = 0,
        timed_out_epoch: int = -1,
        init_version: int = -1,
    ) -> None:
        self.producer_id = producer_id
        self.previous_producer_id = previous_producer_id
        self.next_producer_id = next_producer_id
        self.producer_epoch = producer_epoch
        self.next_producer_epoch = next_producer_epoch
        self.last_producer_epoch = last_producer_epoch
        self.transaction_timeout_ms = transaction_timeout_ms
        self.transaction_status = transaction_status
        self.transaction_partitions = transaction_partitions
        self.transaction_last_update_timestamp_ms = transaction_last_update_timestamp_ms
        self.transaction_start_timestamp_ms = transaction_start_timestamp_ms
        self.client_transaction_version = client_transaction_version
        self.timed_out_epoch = timed_out_epoch
        self.init_version = init_version

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> TransactionLogValue:
        try:
            if version >= 1:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("TransactionLogValue ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 1:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> TransactionLogValue:
    end = len(buf)
    producer_id, producer_epoch, transaction_timeout_ms, transaction_status = _unpack_qhib(buf, pos)
    pos += 15
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 6:
        raise DecodeError("TransactionPartitions counts more elements than there are bytes", pos)
    if elements < 0:
        transaction_partitions: Sequence[PartitionsSchema] | None = None
    else:
        transaction_partitions_list: list[PartitionsSchema] = []
        for _ in range(elements):
            t_topic, pos = read_string(buf, pos)
            t_elements = _unpack_i(buf, pos)[0]
            pos += 4
            if t_elements > (end - pos) // 4:
                raise DecodeError("PartitionIds counts more elements than there are bytes", pos)
            if t_elements < 0:
                raise DecodeError("PartitionIds is null", pos)
            t_partition_ids: Sequence[int] = list(unpack_from(f">{t_elements}i", buf, pos))
            pos += 4 * t_elements
            t = PartitionsSchema(t_topic, t_partition_ids)
            transaction_partitions_list.append(t)
        transaction_partitions = transaction_partitions_list
    transaction_last_update_timestamp_ms, transaction_start_timestamp_ms = _unpack_qq(buf, pos)
    pos += 16
    message = TransactionLogValue(producer_id, -1, -1, producer_epoch, -1, -1, transaction_timeout_ms, transaction_status, transaction_partitions, transaction_last_update_timestamp_ms, transaction_start_timestamp_ms, 0, -1, -1)
    return message


def _encode_classic(out: bytearray, message: TransactionLogValue, version: int) -> None:
    out += _pack_qhib(message.producer_id, message.producer_epoch, message.transaction_timeout_ms, message.transaction_status)
    if message.transaction_partitions is None:
        out += b"\xff\xff\xff\xff"
    else:
        out += _pack_i(len(message.transaction_partitions))
        for t in message.transaction_partitions:
            write_string(out, t.topic)
            out += _pack_i(len(t.partition_ids))
            out += struct_pack(f">{len(t.partition_ids)}i", *t.partition_ids)
    out += _pack_qq(message.transaction_last_update_timestamp_ms, message.transaction_start_timestamp_ms)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> TransactionLogValue:
    end = len(buf)
    producer_id, producer_epoch, transaction_timeout_ms, transaction_status = _unpack_qhib(buf, pos)
    pos += 15
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 3:
        raise DecodeError("TransactionPartitions counts more elements than there are bytes", pos)
    if elements < 0:
        transaction_partitions: Sequence[PartitionsSchema] | None = None
    else:
        transaction_partitions_list: list[PartitionsSchema] = []
        for _ in range(elements):
            t_topic, pos = read_compact_string(buf, pos)
            t_elements = buf[pos]
            if t_elements > 127:
                t_elements, pos = read_uvarint(buf, pos)
            else:
                pos += 1
            t_elements -= 1
            if t_elements > (end - pos) // 4:
                raise DecodeError("PartitionIds counts more elements than there are bytes", pos)
            if t_elements < 0:
                raise DecodeError("PartitionIds is null", pos)
            t_partition_ids: Sequence[int] = list(unpack_from(f">{t_elements}i", buf, pos))
            pos += 4 * t_elements
            if buf[pos]:
                pos = skip_tags(buf, pos)
            else:
                pos += 1
            t = PartitionsSchema(t_topic, t_partition_ids)
            transaction_partitions_list.append(t)
        transaction_partitions = transaction_partitions_list
    transaction_last_update_timestamp_ms, transaction_start_timestamp_ms = _unpack_qq(buf, pos)
    pos += 16
    previous_producer_id: int = -1
    next_producer_id: int = -1
    next_producer_epoch: int = -1
    last_producer_epoch: int = -1
    client_transaction_version: int = 0
    timed_out_epoch: int = -1
    init_version: int = -1
    if buf[pos]:
        tags, after = read_tags(buf, pos)
        if 0 in tags:
            pos, stop = tags[0]
            previous_producer_id = _unpack_q(buf, pos)[0]
            pos += 8
            if pos != stop:
                raise DecodeError("tagged field PreviousProducerId is not of the size given", pos)
        if 1 in tags:
            pos, stop = tags[1]
            next_producer_id = _unpack_q(buf, pos)[0]
            pos += 8
            if pos != stop:
                raise DecodeError("tagged field NextProducerId is not of the size given", pos)
        if 3 in tags:
            pos, stop = tags[3]
            next_producer_epoch = _unpack_h(buf, pos)[0]
            pos += 2
            if pos != stop:
                raise DecodeError("tagged field NextProducerEpoch is not of the size given", pos)
        if 9000 in tags:
            pos, stop = tags[9000]
            last_producer_epoch = _unpack_h(buf, pos)[0]
            pos += 2
            if pos != stop:
                raise DecodeError("tagged field LastProducerEpoch is not of the size given", pos)
        if 2 in tags:
            pos, stop = tags[2]
            client_transaction_version = _unpack_h(buf, pos)[0]
            pos += 2
            if pos != stop:
                raise DecodeError("tagged field ClientTransactionVersion is not of the size given", pos)
        if 9001 in tags:
            pos, stop = tags[9001]
            timed_out_epoch = _unpack_h(buf, pos)[0]
            pos += 2
            if pos != stop:
                raise DecodeError("tagged field TimedOutEpoch is not of the size given", pos)
        if 9002 in tags:
            pos, stop = tags[9002]
            init_version = _unpack_h(buf, pos)[0]
            pos += 2
            if pos != stop:
                raise DecodeError("tagged field InitVersion is not of the size given", pos)
        pos = after
    else:
        pos += 1
    message = TransactionLogValue(producer_id, previous_producer_id, next_producer_id, producer_epoch, next_producer_epoch, last_producer_epoch, transaction_timeout_ms, transaction_status, transaction_partitions, transaction_last_update_timestamp_ms, transaction_start_timestamp_ms, client_transaction_version, timed_out_epoch, init_version)
    return message


def _encode_flexible(out: bytearray, message: TransactionLogValue, version: int) -> None:
    out += _pack_qhib(message.producer_id, message.producer_epoch, message.transaction_timeout_ms, message.transaction_status)
    if message.transaction_partitions is None:
        out += b"\x00"
    else:
        count = len(message.transaction_partitions) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for t in message.transaction_partitions:
            write_compact_string(out, t.topic)
            count = len(t.partition_ids) + 1
            if count > 127:
                write_uvarint(out, count)
            else:
                out.append(count)
            out += struct_pack(f">{len(t.partition_ids)}i", *t.partition_ids)
            out += b"\x00"
    out += _pack_qq(message.transaction_last_update_timestamp_ms, message.transaction_start_timestamp_ms)
    if message.previous_producer_id != -1 or message.next_producer_id != -1 or message.client_transaction_version != 0 or message.next_producer_epoch != -1 or message.last_producer_epoch != -1 or message.timed_out_epoch != -1 or message.init_version != -1:
        tags: list[tuple[int, bytearray]] = []
        outer = out
        if message.previous_producer_id != -1:
            out = bytearray()
            out += _pack_q(message.previous_producer_id)
            tags.append((0, out))
        if message.next_producer_id != -1:
            out = bytearray()
            out += _pack_q(message.next_producer_id)
            tags.append((1, out))
        if message.client_transaction_version != 0:
            out = bytearray()
            out += _pack_h(message.client_transaction_version)
            tags.append((2, out))
        if message.next_producer_epoch != -1:
            out = bytearray()
            out += _pack_h(message.next_producer_epoch)
            tags.append((3, out))
        if message.last_producer_epoch != -1:
            out = bytearray()
            out += _pack_h(message.last_producer_epoch)
            tags.append((9000, out))
        if message.timed_out_epoch != -1:
            out = bytearray()
            out += _pack_h(message.timed_out_epoch)
            tags.append((9001, out))
        if message.init_version != -1:
            out = bytearray()
            out += _pack_h(message.init_version)
            tags.append((9002, out))
        out = outer
        write_tags(out, tags)
    else:
        out.append(0)
