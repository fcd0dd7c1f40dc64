"""Partition of a key in an internal topic, by Java's string hash, as in Kafka."""

from __future__ import annotations


def java_hash(text: str) -> int:
    """`String.hashCode()`: over UTF-16 code units, as a signed 32-bit number."""
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
    """The partition of an internal topic that holds `key`.

    -2^31 has no absolute value in 32 bits: Kafka takes 0 for it.
    """
    value = java_hash(key)
    return 0 if value == -0x8000_0000 else abs(value) % partitions
