"""Recognises clients that speak another protocol than Kafka's, by the first bytes that they send."""

from __future__ import annotations

from typing import Final

HTTP_METHODS: Final = frozenset(
    (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"CONN", b"OPTI", b"TRAC", b"PATC", b"PRI ")
)
"""First four bytes of HTTP requests; the last entry is HTTP/2."""


def refusal_reason(start: bytes) -> str:
    """Return the reason for refusing a frame with these first four bytes; names TLS or HTTP if the client speaks it."""
    if start[:2] == b"\x16\x03":  # A handshake record of any TLS version.
        return (
            "the client speaks TLS, and this listener does not: set security.protocol=PLAINTEXT in the client, "
            "or connect to a listener with TLS"
        )
    if start in HTTP_METHODS:
        return "the client speaks HTTP, and this port serves Kafka's protocol only"
    return "the first four bytes are not the size of a Kafka request"
