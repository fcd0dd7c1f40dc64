"""GENERATED from tools/schemas by tools/generate.py (`make generate`): DescribeUserScramCredentialsResponse, key 50, versions 0-0."""

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
    read_uvarint,
    skip_tags,
    write_compact_string,
    write_uvarint,
)

_unpack_bi = Struct(">bi").unpack_from
_unpack_h = Struct(">h").unpack_from
_unpack_ih = Struct(">ih").unpack_from
_pack_bix = Struct(">bix").pack
_pack_h = Struct(">h").pack
_pack_ih = Struct(">ih").pack


class CredentialInfo(Message):
    """An element of `credential_infos` of DescribeUserScramCredentialsResult."""

    FIELDS: ClassVar[tuple[str, ...]] = ("mechanism", "iterations")
    __slots__ = FIELDS

    def __init__(
        self,
        mechanism: int = 0,
        iterations: int = 0,
    ) -> None:
        self.mechanism = mechanism
        self.iterations = iterations


class DescribeUserScramCredentialsResult(Message):
    """An element of `results` of DescribeUserScramCredentialsResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("user", "error_code", "error_message", "credential_infos")
    __slots__ = FIELDS

    def __init__(
        self,
        user: str = "",
        error_code: int = 0,
        error_message: str | None = "",
        credential_infos: Sequence[CredentialInfo] = (),
    ) -> None:
        self.user = user
        self.error_code = error_code
        self.error_message = error_message
        self.credential_infos = credential_infos


class DescribeUserScramCredentialsResponse(Message):
    """The message DescribeUserScramCredentialsResponse, versions 0-0."""

    FIELDS: ClassVar[tuple[str, ...]] = ("throttle_time_ms", "error_code", "error_message", "results")
    __slots__ = FIELDS

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        results: Sequence[DescribeUserScramCredentialsResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.results = results

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> DescribeUserScramCredentialsResponse:
        try:
            return _decode_flexible(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("DescribeUserScramCredentialsResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        _encode_flexible(out, self, version)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> DescribeUserScramCredentialsResponse:
    end = len(buf)
    throttle_time_ms, error_code = _unpack_ih(buf, pos)
    pos += 6
    error_message, pos = read_compact_nullable_string(buf, pos)
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 6:
        raise DecodeError("Results counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Results is null", pos)
    results_list: list[DescribeUserScramCredentialsResult] = []
    for _ in range(elements):
        r_user, pos = read_compact_string(buf, pos)
        r_error_code = _unpack_h(buf, pos)[0]
        pos += 2
        r_error_message, pos = read_compact_nullable_string(buf, pos)
        r_elements = buf[pos]
        if r_elements > 127:
            r_elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        r_elements -= 1
        if r_elements > (end - pos) // 6:
            raise DecodeError("CredentialInfos counts more elements than there are bytes", pos)
        if r_elements < 0:
            raise DecodeError("CredentialInfos is null", pos)
        r_credential_infos_list: list[CredentialInfo] = []
        for _ in range(r_elements):
            r_c_mechanism, r_c_iterations = _unpack_bi(buf, pos)
            pos += 5
            if buf[pos]:
                pos = skip_tags(buf, pos)
            else:
                pos += 1
            r_c = CredentialInfo(r_c_mechanism, r_c_iterations)
            r_credential_infos_list.append(r_c)
        r_credential_infos: Sequence[CredentialInfo] = r_credential_infos_list
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
        r = DescribeUserScramCredentialsResult(r_user, r_error_code, r_error_message, r_credential_infos)
        results_list.append(r)
    results: Sequence[DescribeUserScramCredentialsResult] = results_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = DescribeUserScramCredentialsResponse(throttle_time_ms, error_code, error_message, results)
    return message


def _encode_flexible(out: bytearray, message: DescribeUserScramCredentialsResponse, version: int) -> None:
    out += _pack_ih(message.throttle_time_ms, message.error_code)
    if message.error_message is None:
        out.append(0)
    else:
        write_compact_string(out, message.error_message)
    count = len(message.results) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for r in message.results:
        write_compact_string(out, r.user)
        out += _pack_h(r.error_code)
        if r.error_message is None:
            out.append(0)
        else:
            write_compact_string(out, r.error_message)
        count = len(r.credential_infos) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for r_c in r.credential_infos:
            out += _pack_bix(r_c.mechanism, r_c.iterations)
        out += b"\x00"
    out += b"\x00"
