"""GENERATED from tools/schemas by tools/generate.py (`make generate`): ElectLeadersResponse, key 43, versions 0-2."""

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
    read_nullable_string,
    read_string,
    read_uvarint,
    skip_tags,
    write_compact_string,
    write_nullable_string,
    write_string,
    write_uvarint,
)

_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_ih = Struct(">ih").unpack_from
_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_ih = Struct(">ih").pack


class PartitionResult(Message):
    """An element of `partition_result` of ReplicaElectionResult."""

    FIELDS: ClassVar[tuple[str, ...]] = ("partition_id", "error_code", "error_message")
    __slots__ = FIELDS

    def __init__(
        self,
        partition_id: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.partition_id = partition_id
        self.error_code = error_code
        self.error_message = error_message


class ReplicaElectionResult(Message):
    """An element of `replica_election_results` of ElectLeadersResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("topic", "partition_result")
    __slots__ = FIELDS

    def __init__(
        self,
        topic: str = "",
        partition_result: Sequence[PartitionResult] = (),
    ) -> None:
        self.topic = topic
        self.partition_result = partition_result


class ElectLeadersResponse(Message):
    """The message ElectLeadersResponse, versions 0-2."""

    FIELDS: ClassVar[tuple[str, ...]] = ("throttle_time_ms", "error_code", "replica_election_results")
    __slots__ = FIELDS

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        replica_election_results: Sequence[ReplicaElectionResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.replica_election_results = replica_election_results

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> ElectLeadersResponse:
        try:
            if version >= 2:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("ElectLeadersResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 2:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> ElectLeadersResponse:
    end = len(buf)
    throttle_time_ms = _unpack_i(buf, pos)[0]
    pos += 4
    if version >= 1:
        error_code = _unpack_h(buf, pos)[0]
        pos += 2
    else:
        error_code = 0
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 6:
        raise DecodeError("ReplicaElectionResults counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("ReplicaElectionResults is null", pos)
    replica_election_results_list: list[ReplicaElectionResult] = []
    for _ in range(elements):
        r_topic, pos = read_string(buf, pos)
        r_elements = _unpack_i(buf, pos)[0]
        pos += 4
        if r_elements > (end - pos) // 8:
            raise DecodeError("PartitionResult counts more elements than there are bytes", pos)
        if r_elements < 0:
            raise DecodeError("PartitionResult is null", pos)
        r_partition_result_list: list[PartitionResult] = []
        for _ in range(r_elements):
            r_p_partition_id, r_p_error_code = _unpack_ih(buf, pos)
            pos += 6
            r_p_error_message, pos = read_nullable_string(buf, pos)
            r_p = PartitionResult(r_p_partition_id, r_p_error_code, r_p_error_message)
            r_partition_result_list.append(r_p)
        r_partition_result: Sequence[PartitionResult] = r_partition_result_list
        r = ReplicaElectionResult(r_topic, r_partition_result)
        replica_election_results_list.append(r)
    replica_election_results: Sequence[ReplicaElectionResult] = replica_election_results_list
    message = ElectLeadersResponse(throttle_time_ms, error_code, replica_election_results)
    return message


def _encode_classic(out: bytearray, message: ElectLeadersResponse, version: int) -> None:
    out += _pack_i(message.throttle_time_ms)
    if version >= 1:
        out += _pack_h(message.error_code)
    out += _pack_i(len(message.replica_election_results))
    for r in message.replica_election_results:
        write_string(out, r.topic)
        out += _pack_i(len(r.partition_result))
        for r_p in r.partition_result:
            out += _pack_ih(r_p.partition_id, r_p.error_code)
            write_nullable_string(out, r_p.error_message)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> ElectLeadersResponse:
    end = len(buf)
    throttle_time_ms, error_code = _unpack_ih(buf, pos)
    pos += 6
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 3:
        raise DecodeError("ReplicaElectionResults counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("ReplicaElectionResults is null", pos)
    replica_election_results_list: list[ReplicaElectionResult] = []
    for _ in range(elements):
        r_topic, pos = read_compact_string(buf, pos)
        r_elements = buf[pos]
        if r_elements > 127:
            r_elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        r_elements -= 1
        if r_elements > (end - pos) // 8:
            raise DecodeError("PartitionResult counts more elements than there are bytes", pos)
        if r_elements < 0:
            raise DecodeError("PartitionResult is null", pos)
        r_partition_result_list: list[PartitionResult] = []
        for _ in range(r_elements):
            r_p_partition_id, r_p_error_code = _unpack_ih(buf, pos)
            pos += 6
            r_p_error_message, pos = read_compact_nullable_string(buf, pos)
            if buf[pos]:
                pos = skip_tags(buf, pos)
            else:
                pos += 1
            r_p = PartitionResult(r_p_partition_id, r_p_error_code, r_p_error_message)
            r_partition_result_list.append(r_p)
        r_partition_result: Sequence[PartitionResult] = r_partition_result_list
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
        r = ReplicaElectionResult(r_topic, r_partition_result)
        replica_election_results_list.append(r)
    replica_election_results: Sequence[ReplicaElectionResult] = replica_election_results_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = ElectLeadersResponse(throttle_time_ms, error_code, replica_election_results)
    return message


def _encode_flexible(out: bytearray, message: ElectLeadersResponse, version: int) -> None:
    out += _pack_ih(message.throttle_time_ms, message.error_code)
    count = len(message.replica_election_results) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for r in message.replica_election_results:
        write_compact_string(out, r.topic)
        count = len(r.partition_result) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for r_p in r.partition_result:
            out += _pack_ih(r_p.partition_id, r_p.error_code)
            if r_p.error_message is None:
                out.append(0)
            else:
                write_compact_string(out, r_p.error_message)
            out += b"\x00"
        out += b"\x00"
    out += b"\x00"
