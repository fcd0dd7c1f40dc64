"""GENERATED from tools/schemas by tools/generate.py (`make generate`): WriteTxnMarkersResponse, key 27, versions 1-2."""

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
    read_tags,
    read_uvarint,
    skip_tags,
    write_compact_string,
    write_tags,
    write_uvarint,
)

_unpack_ih = Struct(">ih").unpack_from
_unpack_q = Struct(">q").unpack_from
_pack_ihx = Struct(">ihx").pack
_pack_q = Struct(">q").pack


class WritableTxnMarkerPartitionResult(Message):
    """An element of `partitions` of WritableTxnMarkerTopicResult."""

    FIELDS: ClassVar[tuple[str, ...]] = ("partition_index", "error_code")
    __slots__ = FIELDS

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class WritableTxnMarkerTopicResult(Message):
    """An element of `topics` of WritableTxnMarkerResult."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "partitions")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[WritableTxnMarkerPartitionResult] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class WritableTxnMarkerResult(Message):
    """An element of `markers` of WriteTxnMarkersResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("producer_id", "topics")
    __slots__ = FIELDS

    def __init__(
        self,
        producer_id: int = 0,
        topics: Sequence[WritableTxnMarkerTopicResult] = (),
    ) -> None:
        self.producer_id = producer_id
        self.topics = topics


class WriteTxnMarkersResponse(Message):
    """The message WriteTxnMarkersResponse, versions 1-2."""

    FIELDS: ClassVar[tuple[str, ...]] = ("markers", "fence_reason")
    __slots__ = FIELDS

    def __init__(
        self,
        markers: Sequence[WritableTxnMarkerResult] = (),
        fence_reason: str | None = None,
    ) -> None:
        self.markers = markers
        self.fence_reason = fence_reason

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> WriteTxnMarkersResponse:
        try:
            return _decode_flexible(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("WriteTxnMarkersResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        _encode_flexible(out, self, version)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> WriteTxnMarkersResponse:
    end = len(buf)
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 10:
        raise DecodeError("Markers counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Markers is null", pos)
    markers_list: list[WritableTxnMarkerResult] = []
    for _ in range(elements):
        m_producer_id = _unpack_q(buf, pos)[0]
        pos += 8
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
        m_topics_list: list[WritableTxnMarkerTopicResult] = []
        for _ in range(m_elements):
            m_t_name, pos = read_compact_string(buf, pos)
            m_t_elements = buf[pos]
            if m_t_elements > 127:
                m_t_elements, pos = read_uvarint(buf, pos)
            else:
                pos += 1
            m_t_elements -= 1
            if m_t_elements > (end - pos) // 7:
                raise DecodeError("Partitions counts more elements than there are bytes", pos)
            if m_t_elements < 0:
                raise DecodeError("Partitions is null", pos)
            m_t_partitions_list: list[WritableTxnMarkerPartitionResult] = []
            for _ in range(m_t_elements):
                m_t_p_partition_index, m_t_p_error_code = _unpack_ih(buf, pos)
                pos += 6
                if buf[pos]:
                    pos = skip_tags(buf, pos)
                else:
                    pos += 1
                m_t_p = WritableTxnMarkerPartitionResult(m_t_p_partition_index, m_t_p_error_code)
                m_t_partitions_list.append(m_t_p)
            m_t_partitions: Sequence[WritableTxnMarkerPartitionResult] = m_t_partitions_list
            if buf[pos]:
                pos = skip_tags(buf, pos)
            else:
                pos += 1
            m_t = WritableTxnMarkerTopicResult(m_t_name, m_t_partitions)
            m_topics_list.append(m_t)
        m_topics: Sequence[WritableTxnMarkerTopicResult] = m_topics_list
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
        m = WritableTxnMarkerResult(m_producer_id, m_topics)
        markers_list.append(m)
    markers: Sequence[WritableTxnMarkerResult] = markers_list
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
    message = WriteTxnMarkersResponse(markers, fence_reason)
    return message


def _encode_flexible(out: bytearray, message: WriteTxnMarkersResponse, version: int) -> None:
    count = len(message.markers) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for m in message.markers:
        out += _pack_q(m.producer_id)
        count = len(m.topics) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for m_t in m.topics:
            write_compact_string(out, m_t.name)
            count = len(m_t.partitions) + 1
            if count > 127:
                write_uvarint(out, count)
            else:
                out.append(count)
            for m_t_p in m_t.partitions:
                out += _pack_ihx(m_t_p.partition_index, m_t_p.error_code)
            out += b"\x00"
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
