"""SCRAM mechanisms (KIP-554), by the names and numbers that clients and brokers use."""

from __future__ import annotations

from typing import Final, NamedTuple


class ScramMechanism(NamedTuple):
    """A SCRAM mechanism: its name, its hash function, and its number in requests."""

    name: str
    hash_name: str
    number: int


SHA_256: Final = ScramMechanism("SCRAM-SHA-256", "sha256", 1)
SHA_512: Final = ScramMechanism("SCRAM-SHA-512", "sha512", 2)
SCRAM_MECHANISMS: Final = {mechanism.name: mechanism for mechanism in (SHA_256, SHA_512)}
"""Name -> mechanism."""
SCRAM_NUMBERS: Final = {mechanism.number: mechanism for mechanism in SCRAM_MECHANISMS.values()}
"""Number in requests -> mechanism."""
ITERATIONS_MIN: Final = 4_096
ITERATIONS_MAX: Final = 16_384
