"""GENERATED from tools/schemas by tools/generate.py (`make generate`): WriteTxnMarkersRequest, key 27, versions 1-2."""

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
    read_uvarint,
    skip_counted_tags,
    skip_tags,
    write_compact_string,
    write_uvarint,
)

_unpack_b = Struct(">b").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_qho = Struct(">qh?").unpack_from
_pack_b = Struct(">b").pack
_pack_i = Struct(">i").pack
_pack_qho = Struct(">qh?").pack


class WritableTxnMarkerTopic(Message):
    """An element of `topics` of WritableTxnMarker."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "partition_indexes")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        partition_indexes: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.partition_indexes = partition_indexes


class WritableTxnMarker(Message):
    """An element of `markers` of WriteTxnMarkersRequest."""

    FIELDS: ClassVar[tuple[str, ...]] = ("producer_id", "producer_epoch", "transaction_result", "topics", "coordinator_epoch", "transaction_version")
    __slots__ = FIELDS

    def __init__(
        self,
        producer_id: int = 0,
        producer_epoch: int = 0,
        transaction_result: bool = False,
        topics: Sequence[WritableTxnMarkerTopic] = (),
        coordinator_epoch: int = 0,
        transaction_version: int = 0,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.transaction_result = transaction_result
        self.topics = topics
        self.coordinator_epoch = coordinator_epoch
        self.transaction_version = transaction_version


class WriteTxnMarkersRequest(Message):
    """The message WriteTxnMarkersRequest, versions 1-2."""

    FIELDS: ClassVar[tuple[str, ...]] = ("markers",)
    __slots__ = FIELDS

    def __init__(
        self,
        markers: Sequence[WritableTxnMarker] = (),
    ) -> None:
        self.markers = markers

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> WriteTxnMarkersRequest:
        try:
            return _decode_flexible(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("WriteTxnMarkersRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        _encode_flexible(out, self, version)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> WriteTxnMarkersRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 17:
        raise DecodeError("Markers counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Markers is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    markers_list: list[WritableTxnMarker] = []
    for _ in range(elements):
        m_producer_id, m_producer_epoch, m_transaction_result = _unpack_qho(buf, pos)
        pos += 11
        m_elements = buf[pos]
        if m_elements > 127:
            m_elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        m_elements -= 1
        if m_elements > (end - pos) // 3:
            raise DecodeError("Topics counts more elements than there are bytes", pos)
        if m_elements < 0:
            raise DecodeError("Topics is null", pos)
        left -= m_elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        m_topics_list: list[WritableTxnMarkerTopic] = []
        for _ in range(m_elements):
            m_t_name, pos = read_compact_string(buf, pos)
            m_t_elements = buf[pos]
            if m_t_elements > 127:
                m_t_elements, pos = read_uvarint(buf, pos)
            else:
                pos += 1
            m_t_elements -= 1
            if m_t_elements > (end - pos) // 4:
                raise DecodeError("PartitionIndexes counts more elements than there are bytes", pos)
            if m_t_elements < 0:
                raise DecodeError("PartitionIndexes is null", pos)
            left -= m_t_elements
            if left < 0:
                raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
            m_t_partition_indexes: Sequence[int] = list(unpack_from(f">{m_t_elements}i", buf, pos))
            pos += 4 * m_t_elements
            if buf[pos]:
                pos, left = skip_counted_tags(buf, pos, left)
            else:
                pos += 1
            m_t = WritableTxnMarkerTopic(m_t_name, m_t_partition_indexes)
            m_topics_list.append(m_t)
        m_topics: Sequence[WritableTxnMarkerTopic] = m_topics_list
        m_coordinator_epoch = _unpack_i(buf, pos)[0]
        pos += 4
        if version >= 2:
            m_transaction_version = _unpack_b(buf, pos)[0]
            pos += 1
        else:
            m_transaction_version = 0
        if buf[pos]:
            pos, left = skip_counted_tags(buf, pos, left)
        else:
            pos += 1
        m = WritableTxnMarker(m_producer_id, m_producer_epoch, m_transaction_result, m_topics, m_coordinator_epoch, m_transaction_version)
        markers_list.append(m)
    markers: Sequence[WritableTxnMarker] = markers_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = WriteTxnMarkersRequest(markers)
    return message


def _encode_flexible(out: bytearray, message: WriteTxnMarkersRequest, version: int) -> None:
    count = len(message.markers) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for m in message.markers:
        out += _pack_qho(m.producer_id, m.producer_epoch, m.transaction_result)
        count = len(m.topics) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for m_t in m.topics:
            write_compact_string(out, m_t.name)
            count = len(m_t.partition_indexes) + 1
            if count > 127:
                write_uvarint(out, count)
            else:
                out.append(count)
            out += struct_pack(f">{len(m_t.partition_indexes)}i", *m_t.partition_indexes)
            out += b"\x00"
        out += _pack_i(m.coordinator_epoch)
        if version >= 2:
            out += _pack_b(m.transaction_version)
        out += b"\x00"
    out += b"\x00"
