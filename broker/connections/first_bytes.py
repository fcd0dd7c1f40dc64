"""What a client speaks instead of Kafka's protocol, by the first bytes that it sends."""

from __future__ import annotations

from typing import Final

HTTP_METHODS: Final = frozenset(
    (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"CONN", b"OPTI", b"TRAC", b"PATC", b"PRI ")
)
"""How a request of HTTP begins; the last one is HTTP/2."""


def refusal_reason(start: bytes) -> str:
    """Why no frame can begin with these four bytes: a guess at what the client speaks instead of Kafka's protocol."""
    if start[:2] == b"\x16\x03":  # A handshake record of any TLS version.
        return "the client speaks TLS, and only PLAINTEXT is served: set security.protocol=PLAINTEXT in the client"
    if start in HTTP_METHODS:
        return "the client speaks HTTP, and this port serves Kafka's protocol only"
    return "no request has this size"
