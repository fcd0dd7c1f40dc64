"""Normalise replies to plain values, without anything that may differ between two correct brokers.

Ids that a broker chooses are renamed in order of appearance: the first producer id of a case is `producer-1` on both sides.
Current timestamps become `now`. Fields that depend on the environment (throttling, addresses, folders, disk sizes) are
dropped.
"""

from __future__ import annotations

import re
import struct
import time
from dataclasses import dataclass
from typing import Any, Final

from stuntbroker.protocol.batches.records import HEADER_SIZE, LENGTH_AT, LOG_APPEND_TIME, LOG_OVERHEAD, read_header
from stuntbroker.protocol.crc import crc32c
from stuntbroker.protocol.primitives import ZERO_UUID, Message
from tests.conformance.batches import T0

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|(?<![\w-])[\w-]{22}(?![\w-])")
NEAR_MS: Final = 600_000
DAY_MS: Final = 86_400_000

NOT_PROTOCOL: Final = {"throttle_time_ms", "port", "log_dir", "total_bytes", "usable_bytes"}
RENAMED: Final = {
    "producer_id": "producer",
    "ongoing_txn_producer_id": "producer",
    "topic_id": "topic",
    "session_id": "session",
    "cluster_id": "cluster",
}
OUR_PRODUCERS: Final = range(5_000_000, 6_000_000)
"""Producer ids that cases invent; these are not renamed. (Fetch session ids are random, and may be in this range.)"""
WITH_UUID: Final = {"member_id", "leader"}
TEXTS: Final = {"error_message", "batch_index_error_message", "documentation"}
TIMES: Final = {
    "timestamp", "last_timestamp", "log_append_time_ms", "transaction_start_time_ms", "last_fetch_timestamp",
    "last_caught_up_timestamp",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Text:
    """Text for people, which two brokers may word differently."""

    value: str | None


class Names:
    """The ids of one side of a case, and their common names for both sides."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, Any], str] = {}

    def knows(self, text: str) -> bool:
        return any(value == actual[0] for _, value in self._names for actual in UUID.finditer(text))

    def of(self, kind: str, value: Any) -> str:
        count = sum(1 for known, _ in self._names if known == kind)
        return self._names.setdefault((kind, value), f"{kind}-{count + 1}")


def shape(value: Any, names: Names, field: str = "") -> Any:
    match value:
        case Message():
            return {name: shape(getattr(value, name), names, name) for name in value.FIELDS if name not in NOT_PROTOCOL}
        case bytes() | bytearray() | memoryview() if field == "records":
            return batches(bytes(value), names)
        case list() | tuple():
            # Members that already have a name come first, so that the order does not affect the names of the others.
            if field == "members":
                value = sorted(value, key=lambda m: (not names.knows(m.member_id), UUID.sub("", m.member_id)))
            return [shape(each, names, field) for each in value]
        case _:
            return _scalar(value, names, field)


def _scalar(value: Any, names: Names, field: str) -> Any:
    if field in TEXTS:
        return Text(value)
    if field == "host":
        return "host" if value else value
    if field in RENAMED:
        kind = RENAMED[field]
        is_own = value in (None, 0, -1, "", ZERO_UUID) or (kind == "producer" and value in OUR_PRODUCERS)
        return value if is_own else names.of(kind, value)
    if field in WITH_UUID and value:
        return UUID.sub(lambda actual: names.of("uuid", actual[0]), value)
    if field in TIMES:
        return _time(value)
    return value.hex() if isinstance(value, bytes | bytearray | memoryview) else value


def _time(value: int) -> int | str:
    if abs(value - T0) < NEAR_MS:
        return f"T0{value - T0:+}"
    return "now" if abs(value - time.time() * 1_000) < DAY_MS else value


def batches(data: bytes, names: Names) -> list[Any]:
    """Return batches with all their contents except the leader epoch; producer ids and the broker's times are normalised."""
    actual: list[Any] = []
    at = 0
    while len(data) - at >= HEADER_SIZE:
        size = struct.unpack_from(">i", data, at + LENGTH_AT)[0] + LOG_OVERHEAD
        if len(data) - at < size:
            break
        actual.append(_batch(data[at : at + size], names))
        at += size
    # Kafka cuts the file at the size limit, not at a batch boundary, so a partial last batch is ignored.
    return actual


def _batch(batch: bytes, names: Names) -> dict[str, Any]:
    head = read_header(batch)
    created: dict[str, Any] = {
        "base_offset": head.base_offset,
        "magic": head.magic,
        "attributes": head.attributes,
        "last_offset_delta": head.last_offset_delta,
        "count": head.count,
        "crc_right": crc32c(batch[21:]) == head.crc,
        "base_sequence": head.base_sequence,
        "producer_epoch": head.producer_epoch,
        "producer_id": shape(head.producer_id, names, "producer_id"),
        "base_timestamp": _time(head.base_timestamp),
        "max_timestamp": _time(head.max_timestamp),
        "records": batch[HEADER_SIZE:].hex(),
    }
    if not head.attributes & LOG_APPEND_TIME and head.producer_id == -1 and created["base_timestamp"] != "now":
        created["crc"] = head.crc
    return created
