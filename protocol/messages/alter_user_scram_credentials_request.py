"""GENERATED from tools/schemas by tools/generate.py (`make generate`): AlterUserScramCredentialsRequest, key 51, versions 0-0."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    ELEMENTS_MAX,
    Message,
    read_compact_bytes,
    read_compact_string,
    read_uvarint,
    skip_counted_tags,
    skip_tags,
    write_compact_bytes,
    write_compact_string,
    write_uvarint,
)

_unpack_b = Struct(">b").unpack_from
_unpack_bi = Struct(">bi").unpack_from
_pack_bi = Struct(">bi").pack
_pack_bx = Struct(">bx").pack


class ScramCredentialDeletion(Message):
    """An element of `deletions` of AlterUserScramCredentialsRequest."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "mechanism")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        mechanism: int = 0,
    ) -> None:
        self.name = name
        self.mechanism = mechanism


class ScramCredentialUpsertion(Message):
    """An element of `upsertions` of AlterUserScramCredentialsRequest."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "mechanism", "iterations", "salt", "salted_password")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        mechanism: int = 0,
        iterations: int = 0,
        salt: bytes = b"",
        salted_password: bytes = b"",
    ) -> None:
        self.name = name
        self.mechanism = mechanism
        self.iterations = iterations
        self.salt = salt
        self.salted_password = salted_password


class AlterUserScramCredentialsRequest(Message):
    """The message AlterUserScramCredentialsRequest, versions 0-0."""

    FIELDS: ClassVar[tuple[str, ...]] = ("deletions", "upsertions")
    __slots__ = FIELDS

    def __init__(
        self,
        deletions: Sequence[ScramCredentialDeletion] = (),
        upsertions: Sequence[ScramCredentialUpsertion] = (),
    ) -> None:
        self.deletions = deletions
        self.upsertions = upsertions

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> AlterUserScramCredentialsRequest:
        try:
            return _decode_flexible(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("AlterUserScramCredentialsRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        _encode_flexible(out, self, version)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> AlterUserScramCredentialsRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 3:
        raise DecodeError("Deletions counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Deletions is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    deletions_list: list[ScramCredentialDeletion] = []
    for _ in range(elements):
        d_name, pos = read_compact_string(buf, pos)
        d_mechanism = _unpack_b(buf, pos)[0]
        pos += 1
        if buf[pos]:
            pos, left = skip_counted_tags(buf, pos, left)
        else:
            pos += 1
        d = ScramCredentialDeletion(d_name, d_mechanism)
        deletions_list.append(d)
    deletions: Sequence[ScramCredentialDeletion] = deletions_list
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 9:
        raise DecodeError("Upsertions counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Upsertions is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    upsertions_list: list[ScramCredentialUpsertion] = []
    for _ in range(elements):
        u_name, pos = read_compact_string(buf, pos)
        u_mechanism, u_iterations = _unpack_bi(buf, pos)
        pos += 5
        u_salt, pos = read_compact_bytes(buf, pos)
        u_salted_password, pos = read_compact_bytes(buf, pos)
        if buf[pos]:
            pos, left = skip_counted_tags(buf, pos, left)
        else:
            pos += 1
        u = ScramCredentialUpsertion(u_name, u_mechanism, u_iterations, u_salt, u_salted_password)
        upsertions_list.append(u)
    upsertions: Sequence[ScramCredentialUpsertion] = upsertions_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = AlterUserScramCredentialsRequest(deletions, upsertions)
    return message


def _encode_flexible(out: bytearray, message: AlterUserScramCredentialsRequest, version: int) -> None:
    count = len(message.deletions) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for d in message.deletions:
        write_compact_string(out, d.name)
        out += _pack_bx(d.mechanism)
    count = len(message.upsertions) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for u in message.upsertions:
        write_compact_string(out, u.name)
        out += _pack_bi(u.mechanism, u.iterations)
        write_compact_bytes(out, u.salt)
        write_compact_bytes(out, u.salted_password)
        out += b"\x00"
    out += b"\x00"
