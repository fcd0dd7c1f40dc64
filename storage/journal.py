"""One line of `metadata.journal`: a change as a JSON object in ASCII, whose last member is the CRC-32C of the rest.

    {"delete":"orders","crc":"d2efbfdf"}

The CRC is that of the line as it would be without it: `{"delete":"orders"}`. Lines without one are older than it; both may
stand in one journal.
"""

from __future__ import annotations

import json
from typing import Any, Final

from stuntbroker.protocol.crc import crc32c

_CRC: Final = b'"crc":"'
_SEAL_SIZE: Final = len(_CRC) + 8 + len(b'"}')


def line_of(change: dict[str, Any]) -> bytes:
    """The line, its end included."""
    body = json.dumps(change, separators=(",", ":")).encode()
    comma = b"," if change else b""
    return b'%s%s%s%08x"}\n' % (body[:-1], comma, _CRC, crc32c(body))


def change_of(line: bytes) -> dict[str, Any]:
    """Decode a journal line, given without its line end. Raises ValueError with the reason if it is damaged."""
    if _has_crc(line):
        body = line[:-_SEAL_SIZE].removesuffix(b",") + b"}"
        if line[-10:-2] != b"%08x" % crc32c(body):
            raise ValueError("wrong CRC")
        line = body
    try:
        change = json.loads(line)
    except (ValueError, RecursionError) as fault:
        raise ValueError(f"not JSON ({fault})") from None
    if not isinstance(change, dict):
        raise ValueError("no JSON object")
    return change


def is_whole(line: bytes) -> bool:
    """Whether this was written as a line to its last byte but the end. Only known of lines with a CRC."""
    try:
        change_of(line)
    except ValueError:
        return False
    return _has_crc(line)


def _has_crc(line: bytes) -> bool:
    return line[-_SEAL_SIZE:].startswith(_CRC) and line.endswith(b'"}')
