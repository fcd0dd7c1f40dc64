"""Build record batches, valid or invalid in any way."""

from __future__ import annotations

import gzip
import struct
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from aiokafka.codec import lz4_encode, snappy_encode, zstd_encode

from stuntbroker.protocol.crc import crc32c

T0: Final = int(time.time()) * 1_000 - 3_600_000
"""Timestamp (ms) of the records of cases: recent, as much older records would cause new segments."""
GZIP, SNAPPY, LZ4, ZSTD = range(1, 5)
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 8, 16, 32, 64
CODECS: Final = {GZIP: partial(gzip.compress, mtime=0), SNAPPY: snappy_encode, LZ4: lz4_encode, ZSTD: zstd_encode}


def varint(value: int) -> bytes:
    left = (value << 1) ^ (value >> 63)
    out = bytearray()
    while left > 127:
        out.append(left & 127 | 128)
        left >>= 7
    return bytes([*out, left])


def record(
    delta: int = 0,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    *,
    time_delta: int = 0,
    headers: Sequence[tuple[bytes, bytes | None]] = (),
    attributes: int = 0,
    header_count: int | None = None,
    length_off: int = 0,
) -> bytes:
    body = bytearray([attributes]) + varint(time_delta) + varint(delta) + _sized(key) + _sized(value)
    body += varint(len(headers) if header_count is None else header_count)
    for name, content in headers:
        body += varint(len(name)) + name + _sized(content)
    return varint(len(body) + length_off) + bytes(body)


def _sized(value: bytes | None) -> bytes:
    return varint(-1) if value is None else varint(len(value)) + value


def batch(records: Sequence[bytes] | bytes = (record(),), **fields: Any) -> bytes:
    """Return a batch of these records. Given header fields are written as they are, even if they do not fit the records."""
    payload = records if isinstance(records, bytes) else b"".join(records)
    attributes = fields.pop("attributes", 0)
    if attributes & 7 in CODECS and not fields.pop("plain", False):
        payload = CODECS[attributes & 7](payload)
    fields.pop("plain", None)
    payload += fields.pop("behind", b"")
    count = fields.pop("count", 1 if isinstance(records, bytes) else len(records))
    base_timestamp = fields.pop("base_timestamp", T0)
    body = (
        struct.pack(
            ">hiqqqhii",
            attributes,
            fields.pop("last_offset_delta", count - 1),
            base_timestamp,
            fields.pop("max_timestamp", base_timestamp),
            fields.pop("producer_id", -1),
            fields.pop("producer_epoch", -1),
            fields.pop("base_sequence", -1),
            count,
        )
        + payload
    )
    head = struct.pack(
        ">qiibI",
        fields.pop("base_offset", 0),
        fields.pop("length", len(body) + 9),
        fields.pop("leader_epoch", -1),
        fields.pop("magic", 2),
        fields.pop("crc", crc32c(body)),
    )
    assert not fields, f"a batch has no {', '.join(fields)}"
    return head + body


def some(records: int, **fields: Any) -> bytes:
    """Return a batch of `records` small records."""
    return batch([record(at, b"k%d" % at, b"v%d" % at) for at in range(records)], **fields)
