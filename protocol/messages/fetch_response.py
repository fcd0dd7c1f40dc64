"""GENERATED from tools/schemas by tools/generate.py (`make generate`): FetchResponse, key 1, versions 4-18."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    ZERO_UUID,
    read_compact_nullable_records,
    read_compact_nullable_string,
    read_compact_string,
    read_nullable_records,
    read_string,
    read_tags,
    read_uvarint,
    skip_tags,
    write_compact_records_length,
    write_compact_string,
    write_records_length,
    write_string,
    write_tags,
    write_uvarint,
)

_unpack_u = Struct(">16s").unpack_from
_unpack_hi = Struct(">hi").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_ihi = Struct(">ihi").unpack_from
_unpack_ihqq = Struct(">ihqq").unpack_from
_unpack_ihqqq = Struct(">ihqqq").unpack_from
_unpack_ii = Struct(">ii").unpack_from
_unpack_iq = Struct(">iq").unpack_from
_unpack_q = Struct(">q").unpack_from
_unpack_qi = Struct(">qi").unpack_from
_unpack_qq = Struct(">qq").unpack_from
_pack_u = Struct(">16s").pack
_pack_hi = Struct(">hi").pack
_pack_i = Struct(">i").pack
_pack_ihi = Struct(">ihi").pack
_pack_ihqq = Struct(">ihqq").pack
_pack_ihqqq = Struct(">ihqqq").pack
_pack_iix = Struct(">iix").pack
_pack_iqx = Struct(">iqx").pack
_pack_q = Struct(">q").pack
_pack_qix = Struct(">qix").pack
_pack_qq = Struct(">qq").pack
_pack_qqx = Struct(">qqx").pack


class EpochEndOffset(Message):
    """`diverging_epoch` of PartitionData."""

    FIELDS: ClassVar[tuple[str, ...]] = ("epoch", "end_offset")
    __slots__ = FIELDS

    def __init__(
        self,
        epoch: int = -1,
        end_offset: int = -1,
    ) -> None:
        self.epoch = epoch
        self.end_offset = end_offset


class LeaderIdAndEpoch(Message):
    """`current_leader` of PartitionData."""

    FIELDS: ClassVar[tuple[str, ...]] = ("leader_id", "leader_epoch")
    __slots__ = FIELDS

    def __init__(
        self,
        leader_id: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class SnapshotId(Message):
    """`snapshot_id` of PartitionData."""

    FIELDS: ClassVar[tuple[str, ...]] = ("end_offset", "epoch")
    __slots__ = FIELDS

    def __init__(
        self,
        end_offset: int = -1,
        epoch: int = -1,
    ) -> None:
        self.end_offset = end_offset
        self.epoch = epoch


class AbortedTransaction(Message):
    """An element of `aborted_transactions` of PartitionData."""

    FIELDS: ClassVar[tuple[str, ...]] = ("producer_id", "first_offset")
    __slots__ = FIELDS

    def __init__(
        self,
        producer_id: int = 0,
        first_offset: int = 0,
    ) -> None:
        self.producer_id = producer_id
        self.first_offset = first_offset


class PartitionData(Message):
    """An element of `partitions` of FetchableTopicResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("partition_index", "error_code", "high_watermark", "last_stable_offset", "log_start_offset", "diverging_epoch", "current_leader", "snapshot_id", "aborted_transactions", "preferred_read_replica", "records")
    __slots__ = FIELDS

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        high_watermark: int = 0,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        diverging_epoch: EpochEndOffset | None = None,
        current_leader: LeaderIdAndEpoch | None = None,
        snapshot_id: SnapshotId | None = None,
        aborted_transactions: Sequence[AbortedTransaction] | None = (),
        preferred_read_replica: int = -1,
        records: Buffer | None = b"",
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.diverging_epoch = diverging_epoch
        self.current_leader = current_leader
        self.snapshot_id = snapshot_id
        self.aborted_transactions = aborted_transactions
        self.preferred_read_replica = preferred_read_replica
        self.records = records


class FetchableTopicResponse(Message):
    """An element of `responses` of FetchResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("topic", "topic_id", "partitions")
    __slots__ = FIELDS

    def __init__(
        self,
        topic: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: Sequence[PartitionData] = (),
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = partitions


class NodeEndpoint(Message):
    """An element of `node_endpoints` of FetchResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("node_id", "host", "port", "rack")
    __slots__ = FIELDS

    def __init__(
        self,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
    ) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack


class FetchResponse(Message):
    """The message FetchResponse, versions 4-18."""

    FIELDS: ClassVar[tuple[str, ...]] = ("throttle_time_ms", "error_code", "session_id", "responses", "node_endpoints")
    __slots__ = FIELDS

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        session_id: int = 0,
        responses: Sequence[FetchableTopicResponse] = (),
        node_endpoints: Sequence[NodeEndpoint] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.session_id = session_id
        self.responses = responses
        self.node_endpoints = node_endpoints

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> FetchResponse:
        try:
            if version >= 12:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("FetchResponse ends too early", len(buf)) from fault

    def encode_parts(self, out: bytearray, version: int) -> list[Buffer]:
        if version >= 12:
            return _encode_flexible(out, self, version)
        else:
            return _encode_classic(out, self, version)

    def encode(self, out: bytearray, version: int) -> None:
        for part in self.encode_parts(bytearray(), version):
            out += part


def _decode_classic(buf: Buffer, pos: int, version: int) -> FetchResponse:
    end = len(buf)
    throttle_time_ms = _unpack_i(buf, pos)[0]
    pos += 4
    if version >= 7:
        error_code, session_id = _unpack_hi(buf, pos)
        pos += 6
    else:
        error_code = 0
        session_id = 0
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 6:
        raise DecodeError("Responses counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Responses is null", pos)
    responses_list: list[FetchableTopicResponse] = []
    for _ in range(elements):
        r_topic, pos = read_string(buf, pos)
        r_elements = _unpack_i(buf, pos)[0]
        pos += 4
        if r_elements > (end - pos) // 30:
            raise DecodeError("Partitions counts more elements than there are bytes", pos)
        if r_elements < 0:
            raise DecodeError("Partitions is null", pos)
        r_partitions_list: list[PartitionData] = []
        for _ in range(r_elements):
            r_p_partition_index, r_p_error_code, r_p_high_watermark, r_p_last_stable_offset = _unpack_ihqq(buf, pos)
            pos += 22
            if version >= 5:
                r_p_log_start_offset = _unpack_q(buf, pos)[0]
                pos += 8
            else:
                r_p_log_start_offset = -1
            r_p_elements = _unpack_i(buf, pos)[0]
            pos += 4
            if r_p_elements > (end - pos) // 16:
                raise DecodeError("AbortedTransactions counts more elements than there are bytes", pos)
            if r_p_elements < 0:
                r_p_aborted_transactions: Sequence[AbortedTransaction] | None = None
            else:
                r_p_aborted_transactions_list: list[AbortedTransaction] = []
                for _ in range(r_p_elements):
                    r_p_a_producer_id, r_p_a_first_offset = _unpack_qq(buf, pos)
                    pos += 16
                    r_p_a = AbortedTransaction(r_p_a_producer_id, r_p_a_first_offset)
                    r_p_aborted_transactions_list.append(r_p_a)
                r_p_aborted_transactions = r_p_aborted_transactions_list
            if version >= 11:
                r_p_preferred_read_replica = _unpack_i(buf, pos)[0]
                pos += 4
            else:
                r_p_preferred_read_replica = -1
            r_p_records, pos = read_nullable_records(buf, pos)
            r_p = PartitionData(r_p_partition_index, r_p_error_code, r_p_high_watermark, r_p_last_stable_offset, r_p_log_start_offset, None, None, None, r_p_aborted_transactions, r_p_preferred_read_replica, r_p_records)
            r_partitions_list.append(r_p)
        r_partitions: Sequence[PartitionData] = r_partitions_list
        r = FetchableTopicResponse(r_topic, ZERO_UUID, r_partitions)
        responses_list.append(r)
    responses: Sequence[FetchableTopicResponse] = responses_list
    message = FetchResponse(throttle_time_ms, error_code, session_id, responses, ())
    return message


def _encode_classic(out: bytearray, message: FetchResponse, version: int) -> list[Buffer]:
    parts: list[Buffer] = []
    out += _pack_i(message.throttle_time_ms)
    if version >= 7:
        out += _pack_hi(message.error_code, message.session_id)
    out += _pack_i(len(message.responses))
    for r in message.responses:
        write_string(out, r.topic)
        out += _pack_i(len(r.partitions))
        for r_p in r.partitions:
            out += _pack_ihqq(r_p.partition_index, r_p.error_code, r_p.high_watermark, r_p.last_stable_offset)
            if version >= 5:
                out += _pack_q(r_p.log_start_offset)
            if r_p.aborted_transactions is None:
                out += b"\xff\xff\xff\xff"
            else:
                out += _pack_i(len(r_p.aborted_transactions))
                for r_p_a in r_p.aborted_transactions:
                    out += _pack_qq(r_p_a.producer_id, r_p_a.first_offset)
            if version >= 11:
                out += _pack_i(r_p.preferred_read_replica)
            write_records_length(out, r_p.records)
            if r_p.records:
                parts.append(out)
                parts.append(r_p.records)
                out = bytearray()
    parts.append(out)
    return parts


def _decode_flexible(buf: Buffer, pos: int, version: int) -> FetchResponse:
    end = len(buf)
    throttle_time_ms, error_code, session_id = _unpack_ihi(buf, pos)
    pos += 10
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 2:
        raise DecodeError("Responses counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Responses is null", pos)
    responses_list: list[FetchableTopicResponse] = []
    for _ in range(elements):
        if version <= 12:
            r_topic, pos = read_compact_string(buf, pos)
        else:
            r_topic = ""
        if version >= 13:
            r_topic_id = _unpack_u(buf, pos)[0]
            pos += 16
        else:
            r_topic_id = ZERO_UUID
        r_elements = buf[pos]
        if r_elements > 127:
            r_elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        r_elements -= 1
        if r_elements > (end - pos) // 37:
            raise DecodeError("Partitions counts more elements than there are bytes", pos)
        if r_elements < 0:
            raise DecodeError("Partitions is null", pos)
        r_partitions_list: list[PartitionData] = []
        for _ in range(r_elements):
            r_p_partition_index, r_p_error_code, r_p_high_watermark, r_p_last_stable_offset, r_p_log_start_offset = _unpack_ihqqq(buf, pos)
            pos += 30
            r_p_elements = buf[pos]
            if r_p_elements > 127:
                r_p_elements, pos = read_uvarint(buf, pos)
            else:
                pos += 1
            r_p_elements -= 1
            if r_p_elements > (end - pos) // 17:
                raise DecodeError("AbortedTransactions counts more elements than there are bytes", pos)
            if r_p_elements < 0:
                r_p_aborted_transactions: Sequence[AbortedTransaction] | None = None
            else:
                r_p_aborted_transactions_list: list[AbortedTransaction] = []
                for _ in range(r_p_elements):
                    r_p_a_producer_id, r_p_a_first_offset = _unpack_qq(buf, pos)
                    pos += 16
                    if buf[pos]:
                        pos = skip_tags(buf, pos)
                    else:
                        pos += 1
                    r_p_a = AbortedTransaction(r_p_a_producer_id, r_p_a_first_offset)
                    r_p_aborted_transactions_list.append(r_p_a)
                r_p_aborted_transactions = r_p_aborted_transactions_list
            r_p_preferred_read_replica = _unpack_i(buf, pos)[0]
            pos += 4
            r_p_records, pos = read_compact_nullable_records(buf, pos)
            r_p_diverging_epoch: EpochEndOffset | None = None
            r_p_current_leader: LeaderIdAndEpoch | None = None
            r_p_snapshot_id: SnapshotId | None = None
            if buf[pos]:
                r_p_tags, r_p_after = read_tags(buf, pos)
                if 0 in r_p_tags:
                    pos, r_p_stop = r_p_tags[0]
                    r_p_d_epoch, r_p_d_end_offset = _unpack_iq(buf, pos)
                    pos += 12
                    if buf[pos]:
                        pos = skip_tags(buf, pos)
                    else:
                        pos += 1
                    r_p_diverging_epoch = EpochEndOffset(r_p_d_epoch, r_p_d_end_offset)
                    if pos != r_p_stop:
                        raise DecodeError("tagged field DivergingEpoch is not of the size given", pos)
                if 1 in r_p_tags:
                    pos, r_p_stop = r_p_tags[1]
                    r_p_c_leader_id, r_p_c_leader_epoch = _unpack_ii(buf, pos)
                    pos += 8
                    if buf[pos]:
                        pos = skip_tags(buf, pos)
                    else:
                        pos += 1
                    r_p_current_leader = LeaderIdAndEpoch(r_p_c_leader_id, r_p_c_leader_epoch)
                    if pos != r_p_stop:
                        raise DecodeError("tagged field CurrentLeader is not of the size given", pos)
                if 2 in r_p_tags:
                    pos, r_p_stop = r_p_tags[2]
                    r_p_s_end_offset, r_p_s_epoch = _unpack_qi(buf, pos)
                    pos += 12
                    if buf[pos]:
                        pos = skip_tags(buf, pos)
                    else:
                        pos += 1
                    r_p_snapshot_id = SnapshotId(r_p_s_end_offset, r_p_s_epoch)
                    if pos != r_p_stop:
                        raise DecodeError("tagged field SnapshotId is not of the size given", pos)
                pos = r_p_after
            else:
                pos += 1
            r_p = PartitionData(r_p_partition_index, r_p_error_code, r_p_high_watermark, r_p_last_stable_offset, r_p_log_start_offset, r_p_diverging_epoch, r_p_current_leader, r_p_snapshot_id, r_p_aborted_transactions, r_p_preferred_read_replica, r_p_records)
            r_partitions_list.append(r_p)
        r_partitions: Sequence[PartitionData] = r_partitions_list
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
        r = FetchableTopicResponse(r_topic, r_topic_id, r_partitions)
        responses_list.append(r)
    responses: Sequence[FetchableTopicResponse] = responses_list
    node_endpoints: Sequence[NodeEndpoint] = ()
    if buf[pos]:
        tags, after = read_tags(buf, pos)
        if 0 in tags and version >= 16:
            pos, stop = tags[0]
            elements = buf[pos]
            if elements > 127:
                elements, pos = read_uvarint(buf, pos)
            else:
                pos += 1
            elements -= 1
            if elements > (end - pos) // 11:
                raise DecodeError("NodeEndpoints counts more elements than there are bytes", pos)
            if elements < 0:
                raise DecodeError("NodeEndpoints is null", pos)
            node_endpoints_list: list[NodeEndpoint] = []
            for _ in range(elements):
                n_node_id = _unpack_i(buf, pos)[0]
                pos += 4
                n_host, pos = read_compact_string(buf, pos)
                n_port = _unpack_i(buf, pos)[0]
                pos += 4
                n_rack, pos = read_compact_nullable_string(buf, pos)
                if buf[pos]:
                    pos = skip_tags(buf, pos)
                else:
                    pos += 1
                n = NodeEndpoint(n_node_id, n_host, n_port, n_rack)
                node_endpoints_list.append(n)
            node_endpoints = node_endpoints_list
            if pos != stop:
                raise DecodeError("tagged field NodeEndpoints is not of the size given", pos)
        pos = after
    else:
        pos += 1
    message = FetchResponse(throttle_time_ms, error_code, session_id, responses, node_endpoints)
    return message


def _encode_flexible(out: bytearray, message: FetchResponse, version: int) -> list[Buffer]:
    parts: list[Buffer] = []
    out += _pack_ihi(message.throttle_time_ms, message.error_code, message.session_id)
    count = len(message.responses) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for r in message.responses:
        if version <= 12:
            write_compact_string(out, r.topic)
        if version >= 13:
            out += _pack_u(r.topic_id)
        count = len(r.partitions) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for r_p in r.partitions:
            out += _pack_ihqqq(r_p.partition_index, r_p.error_code, r_p.high_watermark, r_p.last_stable_offset, r_p.log_start_offset)
            if r_p.aborted_transactions is None:
                out += b"\x00"
            else:
                count = len(r_p.aborted_transactions) + 1
                if count > 127:
                    write_uvarint(out, count)
                else:
                    out.append(count)
                for r_p_a in r_p.aborted_transactions:
                    out += _pack_qqx(r_p_a.producer_id, r_p_a.first_offset)
            out += _pack_i(r_p.preferred_read_replica)
            write_compact_records_length(out, r_p.records)
            if r_p.records:
                parts.append(out)
                parts.append(r_p.records)
                out = bytearray()
            if r_p.diverging_epoch is not None or r_p.current_leader is not None or r_p.snapshot_id is not None:
                r_p_tags: list[tuple[int, bytearray]] = []
                r_p_outer = out
                if r_p.diverging_epoch is not None:
                    out = bytearray()
                    out += _pack_iqx(r_p.diverging_epoch.epoch, r_p.diverging_epoch.end_offset)
                    r_p_tags.append((0, out))
                if r_p.current_leader is not None:
                    out = bytearray()
                    out += _pack_iix(r_p.current_leader.leader_id, r_p.current_leader.leader_epoch)
                    r_p_tags.append((1, out))
                if r_p.snapshot_id is not None:
                    out = bytearray()
                    out += _pack_qix(r_p.snapshot_id.end_offset, r_p.snapshot_id.epoch)
                    r_p_tags.append((2, out))
                out = r_p_outer
                write_tags(out, r_p_tags)
            else:
                out.append(0)
        out += b"\x00"
    if (message.node_endpoints and version >= 16):
        tags: list[tuple[int, bytearray]] = []
        outer = out
        if (message.node_endpoints and version >= 16):
            out = bytearray()
            count = len(message.node_endpoints) + 1
            if count > 127:
                write_uvarint(out, count)
            else:
                out.append(count)
            for n in message.node_endpoints:
                out += _pack_i(n.node_id)
                write_compact_string(out, n.host)
                out += _pack_i(n.port)
                if n.rack is None:
                    out.append(0)
                else:
                    write_compact_string(out, n.rack)
                out += b"\x00"
            tags.append((0, out))
        out = outer
        write_tags(out, tags)
    else:
        out.append(0)
    parts.append(out)
    return parts
