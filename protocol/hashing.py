"""Hashes that map keys to partitions: Java's string hash for internal topics, murmur2 for Kafka's default partitioner."""

from __future__ import annotations

from typing import Final

from stuntbroker.protocol.caches import keep

hashes: Final[dict[str, int]] = {}
"""Cache: a client names the same id or group in all its requests."""
KEY_LENGTH_MAX: Final = 255
"""Characters of a key above which its hash is not kept, to bound the memory of the cache."""


def java_hash(text: str) -> int:
    """Return Java's `String.hashCode()`, computed over UTF-16 code units, as a signed 32-bit integer."""
    value = 0
    if text.isascii():
        for unit in text.encode("ascii"):
            value = value * 31 + unit
    else:
        data = text.encode("utf-16-be", "surrogatepass")
        for high, low in zip(data[::2], data[1::2], strict=True):
            value = value * 31 + (high << 8 | low)
    value &= 0xFFFF_FFFF
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


def partition_for(key: str, partitions: int) -> int:
    """Return the partition of an internal topic that holds `key`.

    -2^31 has no absolute value in 32 bits: Kafka uses partition 0 then.
    """
    value = hashes.get(key)
    if value is None:
        value = java_hash(key)
        if len(key) <= KEY_LENGTH_MAX:
            keep(hashes, key, value)
    return 0 if value == -0x8000_0000 else abs(value) % partitions


def partition_of_key(key: bytes, partitions: int) -> int:
    """Return the partition that Kafka's default partitioner chooses for a record's key."""
    return (murmur2(key) & 0x7FFF_FFFF) % partitions


def murmur2(data: bytes) -> int:
    """Return the hash of a key as Kafka's default partitioner computes it (Utils.murmur2), as 32 unsigned bits."""
    mask, multiplier = 0xFFFF_FFFF, 0x5BD1_E995
    length = len(data)
    hashed = 0x9747_B28C ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * multiplier & mask
        word = (word ^ word >> 24) * multiplier & mask
        hashed = (hashed * multiplier & mask) ^ word
    if length & 3:
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * multiplier & mask
    hashed = (hashed ^ hashed >> 13) * multiplier & mask
    return hashed ^ hashed >> 15
