"""GENERATED from tools/schemas by tools/generate.py (`make generate`): ListTransactionsResponse, key 66, versions 0-2."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    read_compact_string,
    read_uvarint,
    skip_tags,
    write_compact_string,
    write_uvarint,
)

_unpack_ih = Struct(">ih").unpack_from
_unpack_q = Struct(">q").unpack_from
_pack_ih = Struct(">ih").pack
_pack_q = Struct(">q").pack


class TransactionState(Message):
    """An element of `transaction_states` of ListTransactionsResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("transactional_id", "producer_id", "transaction_state")
    __slots__ = FIELDS

    def __init__(
        self,
        transactional_id: str = "",
        producer_id: int = 0,
        transaction_state: str = "",
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.transaction_state = transaction_state


class ListTransactionsResponse(Message):
    """The message ListTransactionsResponse, versions 0-2."""

    FIELDS: ClassVar[tuple[str, ...]] = ("throttle_time_ms", "error_code", "unknown_state_filters", "transaction_states")
    __slots__ = FIELDS

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        unknown_state_filters: Sequence[str] = (),
        transaction_states: Sequence[TransactionState] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.unknown_state_filters = unknown_state_filters
        self.transaction_states = transaction_states

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> ListTransactionsResponse:
        try:
            return _decode_flexible(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("ListTransactionsResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        _encode_flexible(out, self, version)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> ListTransactionsResponse:
    end = len(buf)
    throttle_time_ms, error_code = _unpack_ih(buf, pos)
    pos += 6
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > end - pos:
        raise DecodeError("UnknownStateFilters counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("UnknownStateFilters is null", pos)
    unknown_state_filters_list: list[str] = []
    for _ in range(elements):
        u, pos = read_compact_string(buf, pos)
        unknown_state_filters_list.append(u)
    unknown_state_filters: Sequence[str] = unknown_state_filters_list
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 11:
        raise DecodeError("TransactionStates counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("TransactionStates is null", pos)
    transaction_states_list: list[TransactionState] = []
    for _ in range(elements):
        t_transactional_id, pos = read_compact_string(buf, pos)
        t_producer_id = _unpack_q(buf, pos)[0]
        pos += 8
        t_transaction_state, pos = read_compact_string(buf, pos)
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
        t = TransactionState(t_transactional_id, t_producer_id, t_transaction_state)
        transaction_states_list.append(t)
    transaction_states: Sequence[TransactionState] = transaction_states_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = ListTransactionsResponse(throttle_time_ms, error_code, unknown_state_filters, transaction_states)
    return message


def _encode_flexible(out: bytearray, message: ListTransactionsResponse, version: int) -> None:
    out += _pack_ih(message.throttle_time_ms, message.error_code)
    count = len(message.unknown_state_filters) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for u in message.unknown_state_filters:
        write_compact_string(out, u)
    count = len(message.transaction_states) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for t in message.transaction_states:
        write_compact_string(out, t.transactional_id)
        out += _pack_q(t.producer_id)
        write_compact_string(out, t.transaction_state)
        out += b"\x00"
    out += b"\x00"
