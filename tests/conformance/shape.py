"""A reply as plain values in which nothing is left that may differ between two right brokers.

Ids that a broker chooses are renamed in the order in which they appear: the first producer id of a case is `producer-1`
on both sides. Times of day become `now`. What is not the protocol's (throttling, addresses, folders, sizes of disks) goes.
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
"""Producer ids that cases make up stay what they are. (Fetch session ids are random: some fall into this range.)"""
WITH_UUID: Final = {"member_id", "leader"}
TEXTS: Final = {"error_message", "batch_index_error_message", "documentation"}
TIMES: Final = {
    "timestamp", "last_timestamp", "log_append_time_ms", "transaction_start_time_ms", "last_fetch_timestamp",
    "last_caught_up_timestamp",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Text:
    """For people: two brokers may say it in different words."""

    value: str | None


class Names:
    """Ids of one side of one case, and what they are called in both."""

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
            return {
                name: shape(getattr(value, name), names, name) for name in value.__slots__ if name not in NOT_PROTOCOL
            }
        case bytes() | bytearray() | memoryview() if field == "records":
            return batches(bytes(value), names)
        case list() | tuple():
            # Those that have a name already first, lest the order decide what the others are called.
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
    """Byte for byte, but for what the broker stamps (leader epoch) and what the broker chose (producer id, its own times)."""
    actual: list[Any] = []
    at = 0
    while len(data) - at >= HEADER_SIZE:
        size = struct.unpack_from(">i", data, at + LENGTH_AT)[0] + LOG_OVERHEAD
        if len(data) - at < size:
            break
        actual.append(_batch(data[at : at + size], names))
        at += size
    # Kafka cuts a file where the limit is, not where a batch ends: how much of the next one comes is chance.
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
