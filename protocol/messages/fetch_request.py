"""GENERATED from tools/schemas by tools/generate.py (`make generate`): FetchRequest, key 1, versions 4-18."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, pack as struct_pack, Struct, unpack_from
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    ELEMENTS_MAX,
    Message,
    ZERO_UUID,
    read_compact_nullable_string,
    read_compact_string,
    read_string,
    read_tags,
    read_uvarint,
    skip_counted_tags,
    write_compact_string,
    write_string,
    write_tags,
    write_uvarint,
)

_unpack_u = Struct(">16s").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_ii = Struct(">ii").unpack_from
_unpack_iiibii = Struct(">iiibii").unpack_from
_unpack_iiiib = Struct(">iiiib").unpack_from
_unpack_iiqiqi = Struct(">iiqiqi").unpack_from
_unpack_iq = Struct(">iq").unpack_from
_unpack_q = Struct(">q").unpack_from
_pack_u = Struct(">16s").pack
_pack_i = Struct(">i").pack
_pack_ii = Struct(">ii").pack
_pack_iiibii = Struct(">iiibii").pack
_pack_iiiib = Struct(">iiiib").pack
_pack_iiqiqi = Struct(">iiqiqi").pack
_pack_iqx = Struct(">iqx").pack
_pack_q = Struct(">q").pack


class ReplicaState(Message):
    """`replica_state` of FetchRequest."""

    FIELDS: ClassVar[tuple[str, ...]] = ("replica_id", "replica_epoch")
    __slots__ = FIELDS

    def __init__(
        self,
        replica_id: int = -1,
        replica_epoch: int = -1,
    ) -> None:
        self.replica_id = replica_id
        self.replica_epoch = replica_epoch


class FetchPartition(Message):
    """An element of `partitions` of FetchTopic."""

    FIELDS: ClassVar[tuple[str, ...]] = ("partition", "current_leader_epoch", "fetch_offset", "last_fetched_epoch", "log_start_offset", "partition_max_bytes", "replica_directory_id", "high_watermark")
    __slots__ = FIELDS

    def __init__(
        self,
        partition: int = 0,
        current_leader_epoch: int = -1,
        fetch_offset: int = 0,
        last_fetched_epoch: int = -1,
        log_start_offset: int = -1,
        partition_max_bytes: int = 0,
        replica_directory_id: bytes = ZERO_UUID,
        high_watermark: int = 9223372036854775807,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.partition_max_bytes = partition_max_bytes
        self.replica_directory_id = replica_directory_id
        self.high_watermark = high_watermark


class FetchTopic(Message):
    """An element of `topics` of FetchRequest."""

    FIELDS: ClassVar[tuple[str, ...]] = ("topic", "topic_id", "partitions")
    __slots__ = FIELDS

    def __init__(
        self,
        topic: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: Sequence[FetchPartition] = (),
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = partitions


class ForgottenTopic(Message):
    """An element of `forgotten_topics_data` of FetchRequest."""

    FIELDS: ClassVar[tuple[str, ...]] = ("topic", "topic_id", "partitions")
    __slots__ = FIELDS

    def __init__(
        self,
        topic: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: Sequence[int] = (),
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = partitions


class FetchRequest(Message):
    """The message FetchRequest, versions 4-18."""

    FIELDS: ClassVar[tuple[str, ...]] = ("cluster_id", "replica_id", "replica_state", "max_wait_ms", "min_bytes", "max_bytes", "isolation_level", "session_id", "session_epoch", "topics", "forgotten_topics_data", "rack_id")
    __slots__ = FIELDS

    def __init__(
        self,
        cluster_id: str | None = None,
        replica_id: int = -1,
        replica_state: ReplicaState | None = None,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        max_bytes: int = 2147483647,
        isolation_level: int = 0,
        session_id: int = 0,
        session_epoch: int = -1,
        topics: Sequence[FetchTopic] = (),
        forgotten_topics_data: Sequence[ForgottenTopic] = (),
        rack_id: str = "",
    ) -> None:
        self.cluster_id = cluster_id
        self.replica_id = replica_id
        self.replica_state = replica_state
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation_level = isolation_level
        self.session_id = session_id
        self.session_epoch = session_epoch
        self.topics = topics
        self.forgotten_topics_data = forgotten_topics_data
        self.rack_id = rack_id

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> FetchRequest:
        try:
            if version >= 12:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("FetchRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 12:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> FetchRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level = _unpack_iiiib(buf, pos)
    pos += 17
    if version >= 7:
        session_id, session_epoch = _unpack_ii(buf, pos)
        pos += 8
    else:
        session_id = 0
        session_epoch = -1
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 6:
        raise DecodeError("Topics counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Topics is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    topics_list: list[FetchTopic] = []
    for _ in range(elements):
        t_topic, pos = read_string(buf, pos)
        t_elements = _unpack_i(buf, pos)[0]
        pos += 4
        if t_elements > (end - pos) // 16:
            raise DecodeError("Partitions counts more elements than there are bytes", pos)
        if t_elements < 0:
            raise DecodeError("Partitions is null", pos)
        left -= t_elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        t_partitions_list: list[FetchPartition] = []
        for _ in range(t_elements):
            t_p_partition = _unpack_i(buf, pos)[0]
            pos += 4
            if version >= 9:
                t_p_current_leader_epoch = _unpack_i(buf, pos)[0]
                pos += 4
            else:
                t_p_current_leader_epoch = -1
            t_p_fetch_offset = _unpack_q(buf, pos)[0]
            pos += 8
            if version >= 5:
                t_p_log_start_offset = _unpack_q(buf, pos)[0]
                pos += 8
            else:
                t_p_log_start_offset = -1
            t_p_partition_max_bytes = _unpack_i(buf, pos)[0]
            pos += 4
            t_p = FetchPartition(t_p_partition, t_p_current_leader_epoch, t_p_fetch_offset, -1, t_p_log_start_offset, t_p_partition_max_bytes, ZERO_UUID, 9223372036854775807)
            t_partitions_list.append(t_p)
        t_partitions: Sequence[FetchPartition] = t_partitions_list
        t = FetchTopic(t_topic, ZERO_UUID, t_partitions)
        topics_list.append(t)
    topics: Sequence[FetchTopic] = topics_list
    if version >= 7:
        elements = _unpack_i(buf, pos)[0]
        pos += 4
        if elements > (end - pos) // 6:
            raise DecodeError("ForgottenTopicsData counts more elements than there are bytes", pos)
        if elements < 0:
            raise DecodeError("ForgottenTopicsData is null", pos)
        left -= elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        forgotten_topics_data_list: list[ForgottenTopic] = []
        for _ in range(elements):
            f_topic, pos = read_string(buf, pos)
            f_elements = _unpack_i(buf, pos)[0]
            pos += 4
            if f_elements > (end - pos) // 4:
                raise DecodeError("Partitions counts more elements than there are bytes", pos)
            if f_elements < 0:
                raise DecodeError("Partitions is null", pos)
            left -= f_elements
            if left < 0:
                raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
            f_partitions: Sequence[int] = list(unpack_from(f">{f_elements}i", buf, pos))
            pos += 4 * f_elements
            f = ForgottenTopic(f_topic, ZERO_UUID, f_partitions)
            forgotten_topics_data_list.append(f)
        forgotten_topics_data: Sequence[ForgottenTopic] = forgotten_topics_data_list
    else:
        forgotten_topics_data = ()
    if version >= 11:
        rack_id, pos = read_string(buf, pos)
    else:
        rack_id = ""
    message = FetchRequest(None, replica_id, None, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch, topics, forgotten_topics_data, rack_id)
    return message


def _encode_classic(out: bytearray, message: FetchRequest, version: int) -> None:
    out += _pack_iiiib(message.replica_id, message.max_wait_ms, message.min_bytes, message.max_bytes, message.isolation_level)
    if version >= 7:
        out += _pack_ii(message.session_id, message.session_epoch)
    out += _pack_i(len(message.topics))
    for t in message.topics:
        write_string(out, t.topic)
        out += _pack_i(len(t.partitions))
        for t_p in t.partitions:
            out += _pack_i(t_p.partition)
            if version >= 9:
                out += _pack_i(t_p.current_leader_epoch)
            out += _pack_q(t_p.fetch_offset)
            if version >= 5:
                out += _pack_q(t_p.log_start_offset)
            out += _pack_i(t_p.partition_max_bytes)
    if version >= 7:
        out += _pack_i(len(message.forgotten_topics_data))
        for f in message.forgotten_topics_data:
            write_string(out, f.topic)
            out += _pack_i(len(f.partitions))
            out += struct_pack(f">{len(f.partitions)}i", *f.partitions)
    if version >= 11:
        write_string(out, message.rack_id)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> FetchRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    if version <= 14:
        replica_id = _unpack_i(buf, pos)[0]
        pos += 4
    else:
        replica_id = -1
    max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch = _unpack_iiibii(buf, pos)
    pos += 21
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 2:
        raise DecodeError("Topics counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Topics is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    topics_list: list[FetchTopic] = []
    for _ in range(elements):
        if version <= 12:
            t_topic, pos = read_compact_string(buf, pos)
        else:
            t_topic = ""
        if version >= 13:
            t_topic_id = _unpack_u(buf, pos)[0]
            pos += 16
        else:
            t_topic_id = ZERO_UUID
        t_elements = buf[pos]
        if t_elements > 127:
            t_elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        t_elements -= 1
        if t_elements > (end - pos) // 33:
            raise DecodeError("Partitions counts more elements than there are bytes", pos)
        if t_elements < 0:
            raise DecodeError("Partitions is null", pos)
        left -= t_elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        t_partitions_list: list[FetchPartition] = []
        for _ in range(t_elements):
            t_p_partition, t_p_current_leader_epoch, t_p_fetch_offset, t_p_last_fetched_epoch, t_p_log_start_offset, t_p_partition_max_bytes = _unpack_iiqiqi(buf, pos)
            pos += 32
            t_p_replica_directory_id: bytes = ZERO_UUID
            t_p_high_watermark: int = 9223372036854775807
            if buf[pos]:
                t_p_tags, t_p_after = read_tags(buf, pos)
                left -= len(t_p_tags)
                if left < 0:
                    raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
                if 0 in t_p_tags and version >= 17:
                    pos, t_p_stop = t_p_tags[0]
                    t_p_replica_directory_id = _unpack_u(buf, pos)[0]
                    pos += 16
                    if pos != t_p_stop:
                        raise DecodeError("tagged field ReplicaDirectoryId is not of the size given", pos)
                if 1 in t_p_tags and version >= 18:
                    pos, t_p_stop = t_p_tags[1]
                    t_p_high_watermark = _unpack_q(buf, pos)[0]
                    pos += 8
                    if pos != t_p_stop:
                        raise DecodeError("tagged field HighWatermark is not of the size given", pos)
                pos = t_p_after
            else:
                pos += 1
            t_p = FetchPartition(t_p_partition, t_p_current_leader_epoch, t_p_fetch_offset, t_p_last_fetched_epoch, t_p_log_start_offset, t_p_partition_max_bytes, t_p_replica_directory_id, t_p_high_watermark)
            t_partitions_list.append(t_p)
        t_partitions: Sequence[FetchPartition] = t_partitions_list
        if buf[pos]:
            pos, left = skip_counted_tags(buf, pos, left)
        else:
            pos += 1
        t = FetchTopic(t_topic, t_topic_id, t_partitions)
        topics_list.append(t)
    topics: Sequence[FetchTopic] = topics_list
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 2:
        raise DecodeError("ForgottenTopicsData counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("ForgottenTopicsData is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    forgotten_topics_data_list: list[ForgottenTopic] = []
    for _ in range(elements):
        if version <= 12:
            f_topic, pos = read_compact_string(buf, pos)
        else:
            f_topic = ""
        if version >= 13:
            f_topic_id = _unpack_u(buf, pos)[0]
            pos += 16
        else:
            f_topic_id = ZERO_UUID
        f_elements = buf[pos]
        if f_elements > 127:
            f_elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        f_elements -= 1
        if f_elements > (end - pos) // 4:
            raise DecodeError("Partitions counts more elements than there are bytes", pos)
        if f_elements < 0:
            raise DecodeError("Partitions is null", pos)
        left -= f_elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        f_partitions: Sequence[int] = list(unpack_from(f">{f_elements}i", buf, pos))
        pos += 4 * f_elements
        if buf[pos]:
            pos, left = skip_counted_tags(buf, pos, left)
        else:
            pos += 1
        f = ForgottenTopic(f_topic, f_topic_id, f_partitions)
        forgotten_topics_data_list.append(f)
    forgotten_topics_data: Sequence[ForgottenTopic] = forgotten_topics_data_list
    rack_id, pos = read_compact_string(buf, pos)
    cluster_id: str | None = None
    replica_state: ReplicaState | None = None
    if buf[pos]:
        tags, after = read_tags(buf, pos)
        if 0 in tags:
            pos, stop = tags[0]
            cluster_id, pos = read_compact_nullable_string(buf, pos)
            if pos != stop:
                raise DecodeError("tagged field ClusterId is not of the size given", pos)
        if 1 in tags and version >= 15:
            pos, stop = tags[1]
            r_replica_id, r_replica_epoch = _unpack_iq(buf, pos)
            pos += 12
            if buf[pos]:
                pos, left = skip_counted_tags(buf, pos, left)
            else:
                pos += 1
            replica_state = ReplicaState(r_replica_id, r_replica_epoch)
            if pos != stop:
                raise DecodeError("tagged field ReplicaState is not of the size given", pos)
        pos = after
    else:
        pos += 1
    message = FetchRequest(cluster_id, replica_id, replica_state, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch, topics, forgotten_topics_data, rack_id)
    return message


def _encode_flexible(out: bytearray, message: FetchRequest, version: int) -> None:
    if version <= 14:
        out += _pack_i(message.replica_id)
    out += _pack_iiibii(message.max_wait_ms, message.min_bytes, message.max_bytes, message.isolation_level, message.session_id, message.session_epoch)
    count = len(message.topics) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for t in message.topics:
        if version <= 12:
            write_compact_string(out, t.topic)
        if version >= 13:
            out += _pack_u(t.topic_id)
        count = len(t.partitions) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for t_p in t.partitions:
            out += _pack_iiqiqi(t_p.partition, t_p.current_leader_epoch, t_p.fetch_offset, t_p.last_fetched_epoch, t_p.log_start_offset, t_p.partition_max_bytes)
            if (t_p.replica_directory_id != ZERO_UUID and version >= 17) or (t_p.high_watermark != 9223372036854775807 and version >= 18):
                t_p_tags: list[tuple[int, bytearray]] = []
                t_p_outer = out
                if (t_p.replica_directory_id != ZERO_UUID and version >= 17):
                    out = bytearray()
                    out += _pack_u(t_p.replica_directory_id)
                    t_p_tags.append((0, out))
                if (t_p.high_watermark != 9223372036854775807 and version >= 18):
                    out = bytearray()
                    out += _pack_q(t_p.high_watermark)
                    t_p_tags.append((1, out))
                out = t_p_outer
                write_tags(out, t_p_tags)
            else:
                out.append(0)
        out += b"\x00"
    count = len(message.forgotten_topics_data) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for f in message.forgotten_topics_data:
        if version <= 12:
            write_compact_string(out, f.topic)
        if version >= 13:
            out += _pack_u(f.topic_id)
        count = len(f.partitions) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        out += struct_pack(f">{len(f.partitions)}i", *f.partitions)
        out += b"\x00"
    write_compact_string(out, message.rack_id)
    if message.cluster_id is not None or (message.replica_state is not None and version >= 15):
        tags: list[tuple[int, bytearray]] = []
        outer = out
        if message.cluster_id is not None:
            out = bytearray()
            if message.cluster_id is None:
                out.append(0)
            else:
                write_compact_string(out, message.cluster_id)
            tags.append((0, out))
        if (message.replica_state is not None and version >= 15):
            out = bytearray()
            out += _pack_iqx(message.replica_state.replica_id, message.replica_state.replica_epoch)
            tags.append((1, out))
        out = outer
        write_tags(out, tags)
    else:
        out.append(0)
