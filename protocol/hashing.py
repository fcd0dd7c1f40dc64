"""Partition of a key: in an internal topic by Java's string hash, in others by the murmur2 of Kafka's default partitioner."""

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


def partition_of_key(key: bytes, partitions: int) -> int:
    """The partition that Kafka's default partitioner chooses for a record's key."""
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
