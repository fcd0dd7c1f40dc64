"""GENERATED from tools/schemas by tools/generate.py (`make generate`): InitProducerIdRequest, key 22, versions 0-6."""

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
    read_tags,
    read_uvarint,
    skip_counted_tags,
    write_compact_string,
    write_nullable_string,
    write_tags,
    write_uvarint,
)

_unpack_oo = Struct(">??").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_qh = Struct(">qh").unpack_from
_pack_oo = Struct(">??").pack
_pack_i = Struct(">i").pack
_pack_qh = Struct(">qh").pack


class AssignedTopic(Message):
    """An element of `assigned_partitions` of InitProducerIdRequest."""

    FIELDS: ClassVar[tuple[str, ...]] = ("topic", "partitions")
    __slots__ = FIELDS

    def __init__(
        self,
        topic: str = "",
        partitions: Sequence[int] = (),
    ) -> None:
        self.topic = topic
        self.partitions = partitions


class InitProducerIdRequest(Message):
    """The message InitProducerIdRequest, versions 0-6."""

    FIELDS: ClassVar[tuple[str, ...]] = ("transactional_id", "transaction_timeout_ms", "producer_id", "producer_epoch", "enable_2pc", "keep_prepared_txn", "consumer_group_id", "generation_id", "assigned_partitions")
    __slots__ = FIELDS

    def __init__(
        self,
        transactional_id: str | None = "",
        transaction_timeout_ms: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
        enable_2pc: bool = False,
        keep_prepared_txn: bool = False,
        consumer_group_id: str = "",
        generation_id: int = -1,
        assigned_partitions: Sequence[AssignedTopic] = (),
    ) -> None:
        self.transactional_id = transactional_id
        self.transaction_timeout_ms = transaction_timeout_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.enable_2pc = enable_2pc
        self.keep_prepared_txn = keep_prepared_txn
        self.consumer_group_id = consumer_group_id
        self.generation_id = generation_id
        self.assigned_partitions = assigned_partitions

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> InitProducerIdRequest:
        try:
            if version >= 2:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("InitProducerIdRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 2:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> InitProducerIdRequest:
    transactional_id, pos = read_nullable_string(buf, pos)
    transaction_timeout_ms = _unpack_i(buf, pos)[0]
    pos += 4
    message = InitProducerIdRequest(transactional_id, transaction_timeout_ms, -1, -1, False, False, "", -1, ())
    return message


def _encode_classic(out: bytearray, message: InitProducerIdRequest, version: int) -> None:
    write_nullable_string(out, message.transactional_id)
    out += _pack_i(message.transaction_timeout_ms)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> InitProducerIdRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    transactional_id, pos = read_compact_nullable_string(buf, pos)
    transaction_timeout_ms = _unpack_i(buf, pos)[0]
    pos += 4
    if version >= 3:
        producer_id, producer_epoch = _unpack_qh(buf, pos)
        pos += 10
    else:
        producer_id = -1
        producer_epoch = -1
    if version >= 6:
        enable_2pc, keep_prepared_txn = _unpack_oo(buf, pos)
        pos += 2
    else:
        enable_2pc = False
        keep_prepared_txn = False
    consumer_group_id: str = ""
    generation_id: int = -1
    assigned_partitions: Sequence[AssignedTopic] = ()
    if buf[pos]:
        tags, after = read_tags(buf, pos)
        if 9000 in tags:
            pos, stop = tags[9000]
            consumer_group_id, pos = read_compact_string(buf, pos)
            if pos != stop:
                raise DecodeError("tagged field ConsumerGroupId is not of the size given", pos)
        if 9001 in tags:
            pos, stop = tags[9001]
            generation_id = _unpack_i(buf, pos)[0]
            pos += 4
            if pos != stop:
                raise DecodeError("tagged field GenerationId is not of the size given", pos)
        if 9002 in tags:
            pos, stop = tags[9002]
            elements = buf[pos]
            if elements > 127:
                elements, pos = read_uvarint(buf, pos)
            else:
                pos += 1
            elements -= 1
            if elements > (end - pos) // 3:
                raise DecodeError("AssignedPartitions counts more elements than there are bytes", pos)
            if elements < 0:
                raise DecodeError("AssignedPartitions is null", pos)
            left -= elements
            if left < 0:
                raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
            assigned_partitions_list: list[AssignedTopic] = []
            for _ in range(elements):
                a_topic, pos = read_compact_string(buf, pos)
                a_elements = buf[pos]
                if a_elements > 127:
                    a_elements, pos = read_uvarint(buf, pos)
                else:
                    pos += 1
                a_elements -= 1
                if a_elements > (end - pos) // 4:
                    raise DecodeError("Partitions counts more elements than there are bytes", pos)
                if a_elements < 0:
                    raise DecodeError("Partitions is null", pos)
                left -= a_elements
                if left < 0:
                    raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
                a_partitions: Sequence[int] = list(unpack_from(f">{a_elements}i", buf, pos))
                pos += 4 * a_elements
                if buf[pos]:
                    pos, left = skip_counted_tags(buf, pos, left)
                else:
                    pos += 1
                a = AssignedTopic(a_topic, a_partitions)
                assigned_partitions_list.append(a)
            assigned_partitions = assigned_partitions_list
            if pos != stop:
                raise DecodeError("tagged field AssignedPartitions is not of the size given", pos)
        pos = after
    else:
        pos += 1
    message = InitProducerIdRequest(transactional_id, transaction_timeout_ms, producer_id, producer_epoch, enable_2pc, keep_prepared_txn, consumer_group_id, generation_id, assigned_partitions)
    return message


def _encode_flexible(out: bytearray, message: InitProducerIdRequest, version: int) -> None:
    if message.transactional_id is None:
        out.append(0)
    else:
        write_compact_string(out, message.transactional_id)
    out += _pack_i(message.transaction_timeout_ms)
    if version >= 3:
        out += _pack_qh(message.producer_id, message.producer_epoch)
    if version >= 6:
        out += _pack_oo(message.enable_2pc, message.keep_prepared_txn)
    if message.consumer_group_id != "" or message.generation_id != -1 or message.assigned_partitions:
        tags: list[tuple[int, bytearray]] = []
        outer = out
        if message.consumer_group_id != "":
            out = bytearray()
            write_compact_string(out, message.consumer_group_id)
            tags.append((9000, out))
        if message.generation_id != -1:
            out = bytearray()
            out += _pack_i(message.generation_id)
            tags.append((9001, out))
        if message.assigned_partitions:
            out = bytearray()
            count = len(message.assigned_partitions) + 1
            if count > 127:
                write_uvarint(out, count)
            else:
                out.append(count)
            for a in message.assigned_partitions:
                write_compact_string(out, a.topic)
                count = len(a.partitions) + 1
                if count > 127:
                    write_uvarint(out, count)
                else:
                    out.append(count)
                out += struct_pack(f">{len(a.partitions)}i", *a.partitions)
                out += b"\x00"
            tags.append((9002, out))
        out = outer
        write_tags(out, tags)
    else:
        out.append(0)
