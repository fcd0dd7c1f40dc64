"""GENERATED from tools/schemas by tools/generate.py (`make generate`): ProduceResponse, key 0, versions 3-13."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    ZERO_UUID,
    read_compact_nullable_string,
    read_compact_string,
    read_nullable_string,
    read_string,
    read_tags,
    read_uvarint,
    skip_tags,
    write_compact_string,
    write_nullable_string,
    write_string,
    write_tags,
    write_uvarint,
)

_unpack_u = Struct(">16s").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_ihqq = Struct(">ihqq").unpack_from
_unpack_ihqqq = Struct(">ihqqq").unpack_from
_unpack_ii = Struct(">ii").unpack_from
_unpack_q = Struct(">q").unpack_from
_pack_u = Struct(">16s").pack
_pack_i = Struct(">i").pack
_pack_ihqq = Struct(">ihqq").pack
_pack_ihqqq = Struct(">ihqqq").pack
_pack_iix = Struct(">iix").pack
_pack_q = Struct(">q").pack


class BatchIndexAndErrorMessage(Message):
    """An element of `record_errors` of PartitionProduceResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("batch_index", "batch_index_error_message")
    __slots__ = FIELDS

    def __init__(
        self,
        batch_index: int = 0,
        batch_index_error_message: str | None = None,
    ) -> None:
        self.batch_index = batch_index
        self.batch_index_error_message = batch_index_error_message


class LeaderIdAndEpoch(Message):
    """`current_leader` of PartitionProduceResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("leader_id", "leader_epoch")
    __slots__ = FIELDS

    def __init__(
        self,
        leader_id: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class PartitionProduceResponse(Message):
    """An element of `partition_responses` of TopicProduceResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("index", "error_code", "base_offset", "log_append_time_ms", "log_start_offset", "record_errors", "error_message", "current_leader")
    __slots__ = FIELDS

    def __init__(
        self,
        index: int = 0,
        error_code: int = 0,
        base_offset: int = 0,
        log_append_time_ms: int = -1,
        log_start_offset: int = -1,
        record_errors: Sequence[BatchIndexAndErrorMessage] = (),
        error_message: str | None = None,
        current_leader: LeaderIdAndEpoch | None = None,
    ) -> None:
        self.index = index
        self.error_code = error_code
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.record_errors = record_errors
        self.error_message = error_message
        self.current_leader = current_leader


class TopicProduceResponse(Message):
    """An element of `responses` of ProduceResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "topic_id", "partition_responses")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        partition_responses: Sequence[PartitionProduceResponse] = (),
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_responses = partition_responses


class NodeEndpoint(Message):
    """An element of `node_endpoints` of ProduceResponse."""

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


class ProduceResponse(Message):
    """The message ProduceResponse, versions 3-13."""

    FIELDS: ClassVar[tuple[str, ...]] = ("responses", "throttle_time_ms", "node_endpoints")
    __slots__ = FIELDS

    def __init__(
        self,
        responses: Sequence[TopicProduceResponse] = (),
        throttle_time_ms: int = 0,
        node_endpoints: Sequence[NodeEndpoint] = (),
    ) -> None:
        self.responses = responses
        self.throttle_time_ms = throttle_time_ms
        self.node_endpoints = node_endpoints

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> ProduceResponse:
        try:
            if version >= 9:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("ProduceResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 9:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> ProduceResponse:
    end = len(buf)
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 6:
        raise DecodeError("Responses counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Responses is null", pos)
    responses_list: list[TopicProduceResponse] = []
    for _ in range(elements):
        r_name, pos = read_string(buf, pos)
        r_elements = _unpack_i(buf, pos)[0]
        pos += 4
        if r_elements > (end - pos) // 22:
            raise DecodeError("PartitionResponses counts more elements than there are bytes", pos)
        if r_elements < 0:
            raise DecodeError("PartitionResponses is null", pos)
        r_partition_responses_list: list[PartitionProduceResponse] = []
        for _ in range(r_elements):
            r_p_index, r_p_error_code, r_p_base_offset, r_p_log_append_time_ms = _unpack_ihqq(buf, pos)
            pos += 22
            if version >= 5:
                r_p_log_start_offset = _unpack_q(buf, pos)[0]
                pos += 8
            else:
                r_p_log_start_offset = -1
            if version >= 8:
                r_p_elements = _unpack_i(buf, pos)[0]
                pos += 4
                if r_p_elements > (end - pos) // 6:
                    raise DecodeError("RecordErrors counts more elements than there are bytes", pos)
                if r_p_elements < 0:
                    raise DecodeError("RecordErrors is null", pos)
                r_p_record_errors_list: list[BatchIndexAndErrorMessage] = []
                for _ in range(r_p_elements):
                    r_p_r_batch_index = _unpack_i(buf, pos)[0]
                    pos += 4
                    r_p_r_batch_index_error_message, pos = read_nullable_string(buf, pos)
                    r_p_r = BatchIndexAndErrorMessage(r_p_r_batch_index, r_p_r_batch_index_error_message)
                    r_p_record_errors_list.append(r_p_r)
                r_p_record_errors: Sequence[BatchIndexAndErrorMessage] = r_p_record_errors_list
            else:
                r_p_record_errors = ()
            if version >= 8:
                r_p_error_message, pos = read_nullable_string(buf, pos)
            else:
                r_p_error_message = None
            r_p = PartitionProduceResponse(r_p_index, r_p_error_code, r_p_base_offset, r_p_log_append_time_ms, r_p_log_start_offset, r_p_record_errors, r_p_error_message, None)
            r_partition_responses_list.append(r_p)
        r_partition_responses: Sequence[PartitionProduceResponse] = r_partition_responses_list
        r = TopicProduceResponse(r_name, ZERO_UUID, r_partition_responses)
        responses_list.append(r)
    responses: Sequence[TopicProduceResponse] = responses_list
    throttle_time_ms = _unpack_i(buf, pos)[0]
    pos += 4
    message = ProduceResponse(responses, throttle_time_ms, ())
    return message


def _encode_classic(out: bytearray, message: ProduceResponse, version: int) -> None:
    out += _pack_i(len(message.responses))
    for r in message.responses:
        write_string(out, r.name)
        out += _pack_i(len(r.partition_responses))
        for r_p in r.partition_responses:
            out += _pack_ihqq(r_p.index, r_p.error_code, r_p.base_offset, r_p.log_append_time_ms)
            if version >= 5:
                out += _pack_q(r_p.log_start_offset)
            if version >= 8:
                out += _pack_i(len(r_p.record_errors))
                for r_p_r in r_p.record_errors:
                    out += _pack_i(r_p_r.batch_index)
                    write_nullable_string(out, r_p_r.batch_index_error_message)
            if version >= 8:
                write_nullable_string(out, r_p.error_message)
    out += _pack_i(message.throttle_time_ms)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> ProduceResponse:
    end = len(buf)
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
    responses_list: list[TopicProduceResponse] = []
    for _ in range(elements):
        if version <= 12:
            r_name, pos = read_compact_string(buf, pos)
        else:
            r_name = ""
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
        if r_elements > (end - pos) // 33:
            raise DecodeError("PartitionResponses counts more elements than there are bytes", pos)
        if r_elements < 0:
            raise DecodeError("PartitionResponses is null", pos)
        r_partition_responses_list: list[PartitionProduceResponse] = []
        for _ in range(r_elements):
            r_p_index, r_p_error_code, r_p_base_offset, r_p_log_append_time_ms, r_p_log_start_offset = _unpack_ihqqq(buf, pos)
            pos += 30
            r_p_elements = buf[pos]
            if r_p_elements > 127:
                r_p_elements, pos = read_uvarint(buf, pos)
            else:
                pos += 1
            r_p_elements -= 1
            if r_p_elements > (end - pos) // 6:
                raise DecodeError("RecordErrors counts more elements than there are bytes", pos)
            if r_p_elements < 0:
                raise DecodeError("RecordErrors is null", pos)
            r_p_record_errors_list: list[BatchIndexAndErrorMessage] = []
            for _ in range(r_p_elements):
                r_p_r_batch_index = _unpack_i(buf, pos)[0]
                pos += 4
                r_p_r_batch_index_error_message, pos = read_compact_nullable_string(buf, pos)
                if buf[pos]:
                    pos = skip_tags(buf, pos)
                else:
                    pos += 1
                r_p_r = BatchIndexAndErrorMessage(r_p_r_batch_index, r_p_r_batch_index_error_message)
                r_p_record_errors_list.append(r_p_r)
            r_p_record_errors: Sequence[BatchIndexAndErrorMessage] = r_p_record_errors_list
            r_p_error_message, pos = read_compact_nullable_string(buf, pos)
            r_p_current_leader: LeaderIdAndEpoch | None = None
            if buf[pos]:
                r_p_tags, r_p_after = read_tags(buf, pos)
                if 0 in r_p_tags and version >= 10:
                    pos, r_p_stop = r_p_tags[0]
                    r_p_c_leader_id, r_p_c_leader_epoch = _unpack_ii(buf, pos)
                    pos += 8
                    if buf[pos]:
                        pos = skip_tags(buf, pos)
                    else:
                        pos += 1
                    r_p_current_leader = LeaderIdAndEpoch(r_p_c_leader_id, r_p_c_leader_epoch)
                    if pos != r_p_stop:
                        raise DecodeError("tagged field CurrentLeader is not of the size given", pos)
                pos = r_p_after
            else:
                pos += 1
            r_p = PartitionProduceResponse(r_p_index, r_p_error_code, r_p_base_offset, r_p_log_append_time_ms, r_p_log_start_offset, r_p_record_errors, r_p_error_message, r_p_current_leader)
            r_partition_responses_list.append(r_p)
        r_partition_responses: Sequence[PartitionProduceResponse] = r_partition_responses_list
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
        r = TopicProduceResponse(r_name, r_topic_id, r_partition_responses)
        responses_list.append(r)
    responses: Sequence[TopicProduceResponse] = responses_list
    throttle_time_ms = _unpack_i(buf, pos)[0]
    pos += 4
    node_endpoints: Sequence[NodeEndpoint] = ()
    if buf[pos]:
        tags, after = read_tags(buf, pos)
        if 0 in tags and version >= 10:
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
    message = ProduceResponse(responses, throttle_time_ms, node_endpoints)
    return message


def _encode_flexible(out: bytearray, message: ProduceResponse, version: int) -> None:
    count = len(message.responses) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for r in message.responses:
        if version <= 12:
            write_compact_string(out, r.name)
        if version >= 13:
            out += _pack_u(r.topic_id)
        count = len(r.partition_responses) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for r_p in r.partition_responses:
            out += _pack_ihqqq(r_p.index, r_p.error_code, r_p.base_offset, r_p.log_append_time_ms, r_p.log_start_offset)
            count = len(r_p.record_errors) + 1
            if count > 127:
                write_uvarint(out, count)
            else:
                out.append(count)
            for r_p_r in r_p.record_errors:
                out += _pack_i(r_p_r.batch_index)
                if r_p_r.batch_index_error_message is None:
                    out.append(0)
                else:
                    write_compact_string(out, r_p_r.batch_index_error_message)
                out += b"\x00"
            if r_p.error_message is None:
                out.append(0)
            else:
                write_compact_string(out, r_p.error_message)
            if (r_p.current_leader is not None and version >= 10):
                r_p_tags: list[tuple[int, bytearray]] = []
                r_p_outer = out
                if (r_p.current_leader is not None and version >= 10):
                    out = bytearray()
                    out += _pack_iix(r_p.current_leader.leader_id, r_p.current_leader.leader_epoch)
                    r_p_tags.append((0, out))
                out = r_p_outer
                write_tags(out, r_p_tags)
            else:
                out.append(0)
        out += b"\x00"
    out += _pack_i(message.throttle_time_ms)
    if (message.node_endpoints and version >= 10):
        tags: list[tuple[int, bytearray]] = []
        outer = out
        if (message.node_endpoints and version >= 10):
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
