"""GENERATED from tools/schemas by tools/generate.py (`make generate`): ProducerSnapshot, versions 1-1."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
)

_unpack_I = Struct(">I").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_qhiqiqiq = Struct(">qhiqiqiq").unpack_from
_pack_I = Struct(">I").pack
_pack_i = Struct(">i").pack
_pack_qhiqiqiq = Struct(">qhiqiqiq").pack


class ProducerEntry(Message):
    """An element of `producer_entries` of ProducerSnapshot."""

    FIELDS: ClassVar[tuple[str, ...]] = ("producer_id", "epoch", "last_sequence", "last_offset", "offset_delta", "timestamp", "coordinator_epoch", "current_txn_first_offset")
    __slots__ = FIELDS

    def __init__(
        self,
        producer_id: int = 0,
        epoch: int = 0,
        last_sequence: int = 0,
        last_offset: int = 0,
        offset_delta: int = 0,
        timestamp: int = 0,
        coordinator_epoch: int = 0,
        current_txn_first_offset: int = 0,
    ) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.last_sequence = last_sequence
        self.last_offset = last_offset
        self.offset_delta = offset_delta
        self.timestamp = timestamp
        self.coordinator_epoch = coordinator_epoch
        self.current_txn_first_offset = current_txn_first_offset


class ProducerSnapshot(Message):
    """The message ProducerSnapshot, versions 1-1."""

    FIELDS: ClassVar[tuple[str, ...]] = ("crc", "producer_entries")
    __slots__ = FIELDS

    def __init__(
        self,
        crc: int = 0,
        producer_entries: Sequence[ProducerEntry] = (),
    ) -> None:
        self.crc = crc
        self.producer_entries = producer_entries

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> ProducerSnapshot:
        try:
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("ProducerSnapshot ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> ProducerSnapshot:
    end = len(buf)
    crc = _unpack_I(buf, pos)[0]
    pos += 4
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 46:
        raise DecodeError("ProducerEntries counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("ProducerEntries is null", pos)
    producer_entries_list: list[ProducerEntry] = []
    for _ in range(elements):
        p_producer_id, p_epoch, p_last_sequence, p_last_offset, p_offset_delta, p_timestamp, p_coordinator_epoch, p_current_txn_first_offset = _unpack_qhiqiqiq(buf, pos)
        pos += 46
        p = ProducerEntry(p_producer_id, p_epoch, p_last_sequence, p_last_offset, p_offset_delta, p_timestamp, p_coordinator_epoch, p_current_txn_first_offset)
        producer_entries_list.append(p)
    producer_entries: Sequence[ProducerEntry] = producer_entries_list
    message = ProducerSnapshot(crc, producer_entries)
    return message


def _encode_classic(out: bytearray, message: ProducerSnapshot, version: int) -> None:
    out += _pack_I(message.crc)
    out += _pack_i(len(message.producer_entries))
    for p in message.producer_entries:
        out += _pack_qhiqiqiq(p.producer_id, p.epoch, p.last_sequence, p.last_offset, p.offset_delta, p.timestamp, p.coordinator_epoch, p.current_txn_first_offset)
