"""GENERATED from tools/schemas by tools/generate.py (`make generate`): EndTxnMarker, versions 0-0."""

from __future__ import annotations

from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
)

_unpack_i = Struct(">i").unpack_from
_pack_i = Struct(">i").pack


class EndTxnMarker(Message):
    """The message EndTxnMarker, versions 0-0."""

    FIELDS: ClassVar[tuple[str, ...]] = ("coordinator_epoch",)
    __slots__ = FIELDS

    def __init__(
        self,
        coordinator_epoch: int = 0,
    ) -> None:
        self.coordinator_epoch = coordinator_epoch

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> EndTxnMarker:
        try:
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("EndTxnMarker ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> EndTxnMarker:
    coordinator_epoch = _unpack_i(buf, pos)[0]
    pos += 4
    message = EndTxnMarker(coordinator_epoch)
    return message


def _encode_classic(out: bytearray, message: EndTxnMarker, version: int) -> None:
    out += _pack_i(message.coordinator_epoch)
