"""GENERATED from tools/schemas by tools/generate.py (`make generate`): TransactionLogKey, versions 0-0."""

from __future__ import annotations

from struct import error as StructError
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    read_string,
    write_string,
)


class TransactionLogKey(Message):
    """The message TransactionLogKey, versions 0-0."""

    FIELDS: ClassVar[tuple[str, ...]] = ("transactional_id",)
    __slots__ = FIELDS

    def __init__(
        self,
        transactional_id: str = "",
    ) -> None:
        self.transactional_id = transactional_id

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> TransactionLogKey:
        try:
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("TransactionLogKey ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> TransactionLogKey:
    transactional_id, pos = read_string(buf, pos)
    message = TransactionLogKey(transactional_id)
    return message


def _encode_classic(out: bytearray, message: TransactionLogKey, version: int) -> None:
    write_string(out, message.transactional_id)
