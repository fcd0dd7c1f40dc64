"""GENERATED from tools/schemas by tools/generate.py (`make generate`): AddPartitionsToTxnRequest, key 24, versions 0-5."""

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
_unpack_qh = Struct(">qh").unpack_from
_unpack_qho = Struct(">qh?").unpack_from
_pack_i = Struct(">i").pack
_pack_qh = Struct(">qh").pack
_pack_qho = Struct(">qh?").pack


class AddPartitionsToTxnTopic(Message):
    """An element of `topics` of AddPartitionsToTxnTransaction, `v3_and_below_topics` of AddPartitionsToTxnRequest."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "partitions")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class AddPartitionsToTxnTransaction(Message):
    """An element of `transactions` of AddPartitionsToTxnRequest."""

    FIELDS: ClassVar[tuple[str, ...]] = ("transactional_id", "producer_id", "producer_epoch", "verify_only", "topics")
    __slots__ = FIELDS

    def __init__(
        self,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        verify_only: bool = False,
        topics: Sequence[AddPartitionsToTxnTopic] = (),
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.verify_only = verify_only
        self.topics = topics


class AddPartitionsToTxnRequest(Message):
    """The message AddPartitionsToTxnRequest, versions 0-5."""

    FIELDS: ClassVar[tuple[str, ...]] = ("transactions", "v3_and_below_transactional_id", "v3_and_below_producer_id", "v3_and_below_producer_epoch", "v3_and_below_topics")
    __slots__ = FIELDS

    def __init__(
        self,
        transactions: Sequence[AddPartitionsToTxnTransaction] = (),
        v3_and_below_transactional_id: str = "",
        v3_and_below_producer_id: int = 0,
        v3_and_below_producer_epoch: int = 0,
        v3_and_below_topics: Sequence[AddPartitionsToTxnTopic] = (),
    ) -> None:
        self.transactions = transactions
        self.v3_and_below_transactional_id = v3_and_below_transactional_id
        self.v3_and_below_producer_id = v3_and_below_producer_id
        self.v3_and_below_producer_epoch = v3_and_below_producer_epoch
        self.v3_and_below_topics = v3_and_below_topics

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> AddPartitionsToTxnRequest:
        try:
            if version >= 3:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("AddPartitionsToTxnRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 3:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> AddPartitionsToTxnRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    v3_and_below_transactional_id, pos = read_string(buf, pos)
    v3_and_below_producer_id, v3_and_below_producer_epoch = _unpack_qh(buf, pos)
    pos += 10
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 6:
        raise DecodeError("V3AndBelowTopics counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("V3AndBelowTopics is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    v3_and_below_topics_list: list[AddPartitionsToTxnTopic] = []
    for _ in range(elements):
        v_name, pos = read_string(buf, pos)
        v_elements = _unpack_i(buf, pos)[0]
        pos += 4
        if v_elements > (end - pos) // 4:
            raise DecodeError("Partitions counts more elements than there are bytes", pos)
        if v_elements < 0:
            raise DecodeError("Partitions is null", pos)
        left -= v_elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        v_partitions: Sequence[int] = list(unpack_from(f">{v_elements}i", buf, pos))
        pos += 4 * v_elements
        v = AddPartitionsToTxnTopic(v_name, v_partitions)
        v3_and_below_topics_list.append(v)
    v3_and_below_topics: Sequence[AddPartitionsToTxnTopic] = v3_and_below_topics_list
    message = AddPartitionsToTxnRequest((), v3_and_below_transactional_id, v3_and_below_producer_id, v3_and_below_producer_epoch, v3_and_below_topics)
    return message


def _encode_classic(out: bytearray, message: AddPartitionsToTxnRequest, version: int) -> None:
    write_string(out, message.v3_and_below_transactional_id)
    out += _pack_qh(message.v3_and_below_producer_id, message.v3_and_below_producer_epoch)
    out += _pack_i(len(message.v3_and_below_topics))
    for v in message.v3_and_below_topics:
        write_string(out, v.name)
        out += _pack_i(len(v.partitions))
        out += struct_pack(f">{len(v.partitions)}i", *v.partitions)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> AddPartitionsToTxnRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    if version >= 4:
        elements = buf[pos]
        if elements > 127:
            elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        elements -= 1
        if elements > (end - pos) // 14:
            raise DecodeError("Transactions counts more elements than there are bytes", pos)
        if elements < 0:
            raise DecodeError("Transactions is null", pos)
        left -= elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        transactions_list: list[AddPartitionsToTxnTransaction] = []
        for _ in range(elements):
            t_transactional_id, pos = read_compact_string(buf, pos)
            t_producer_id, t_producer_epoch, t_verify_only = _unpack_qho(buf, pos)
            pos += 11
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
            left -= t_elements
            if left < 0:
                raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
            t_topics_list: list[AddPartitionsToTxnTopic] = []
            for _ in range(t_elements):
                t_t_name, pos = read_compact_string(buf, pos)
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
                left -= t_t_elements
                if left < 0:
                    raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
                t_t_partitions: Sequence[int] = list(unpack_from(f">{t_t_elements}i", buf, pos))
                pos += 4 * t_t_elements
                if buf[pos]:
                    pos, left = skip_counted_tags(buf, pos, left)
                else:
                    pos += 1
                t_t = AddPartitionsToTxnTopic(t_t_name, t_t_partitions)
                t_topics_list.append(t_t)
            t_topics: Sequence[AddPartitionsToTxnTopic] = t_topics_list
            if buf[pos]:
                pos, left = skip_counted_tags(buf, pos, left)
            else:
                pos += 1
            t = AddPartitionsToTxnTransaction(t_transactional_id, t_producer_id, t_producer_epoch, t_verify_only, t_topics)
            transactions_list.append(t)
        transactions: Sequence[AddPartitionsToTxnTransaction] = transactions_list
    else:
        transactions = ()
    if version <= 3:
        v3_and_below_transactional_id, pos = read_compact_string(buf, pos)
    else:
        v3_and_below_transactional_id = ""
    if version <= 3:
        v3_and_below_producer_id, v3_and_below_producer_epoch = _unpack_qh(buf, pos)
        pos += 10
    else:
        v3_and_below_producer_id = 0
        v3_and_below_producer_epoch = 0
    if version <= 3:
        elements = buf[pos]
        if elements > 127:
            elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        elements -= 1
        if elements > (end - pos) // 3:
            raise DecodeError("V3AndBelowTopics counts more elements than there are bytes", pos)
        if elements < 0:
            raise DecodeError("V3AndBelowTopics is null", pos)
        left -= elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        v3_and_below_topics_list: list[AddPartitionsToTxnTopic] = []
        for _ in range(elements):
            v_name, pos = read_compact_string(buf, pos)
            v_elements = buf[pos]
            if v_elements > 127:
                v_elements, pos = read_uvarint(buf, pos)
            else:
                pos += 1
            v_elements -= 1
            if v_elements > (end - pos) // 4:
                raise DecodeError("Partitions counts more elements than there are bytes", pos)
            if v_elements < 0:
                raise DecodeError("Partitions is null", pos)
            left -= v_elements
            if left < 0:
                raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
            v_partitions: Sequence[int] = list(unpack_from(f">{v_elements}i", buf, pos))
            pos += 4 * v_elements
            if buf[pos]:
                pos, left = skip_counted_tags(buf, pos, left)
            else:
                pos += 1
            v = AddPartitionsToTxnTopic(v_name, v_partitions)
            v3_and_below_topics_list.append(v)
        v3_and_below_topics: Sequence[AddPartitionsToTxnTopic] = v3_and_below_topics_list
    else:
        v3_and_below_topics = ()
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = AddPartitionsToTxnRequest(transactions, v3_and_below_transactional_id, v3_and_below_producer_id, v3_and_below_producer_epoch, v3_and_below_topics)
    return message


def _encode_flexible(out: bytearray, message: AddPartitionsToTxnRequest, version: int) -> None:
    if version >= 4:
        count = len(message.transactions) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for t in message.transactions:
            write_compact_string(out, t.transactional_id)
            out += _pack_qho(t.producer_id, t.producer_epoch, t.verify_only)
            count = len(t.topics) + 1
            if count > 127:
                write_uvarint(out, count)
            else:
                out.append(count)
            for t_t in t.topics:
                write_compact_string(out, t_t.name)
                count = len(t_t.partitions) + 1
                if count > 127:
                    write_uvarint(out, count)
                else:
                    out.append(count)
                out += struct_pack(f">{len(t_t.partitions)}i", *t_t.partitions)
                out += b"\x00"
            out += b"\x00"
    if version <= 3:
        write_compact_string(out, message.v3_and_below_transactional_id)
    if version <= 3:
        out += _pack_qh(message.v3_and_below_producer_id, message.v3_and_below_producer_epoch)
    if version <= 3:
        count = len(message.v3_and_below_topics) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for v in message.v3_and_below_topics:
            write_compact_string(out, v.name)
            count = len(v.partitions) + 1
            if count > 127:
                write_uvarint(out, count)
            else:
                out.append(count)
            out += struct_pack(f">{len(v.partitions)}i", *v.partitions)
            out += b"\x00"
    out += b"\x00"
