"""Lines of `metadata.journal`: each is a change as a JSON object in ASCII, whose last member is a CRC-32C.

    {"delete":"orders","crc":"d2efbfdf"}

The CRC is computed over the line without that member: `{"delete":"orders"}`. Older versions wrote lines without a CRC; a
journal may contain both kinds.
"""

from __future__ import annotations

import json
from typing import Any, Final

from stuntbroker.protocol.crc import crc32c

_CRC: Final = b'"crc":"'
_CRC_MEMBER_SIZE: Final = len(_CRC) + 8 + len(b'"}')


def line_of(change: dict[str, Any]) -> bytes:
    """Return the journal line of a change, including the line end."""
    body = json.dumps(change, separators=(",", ":")).encode()
    comma = b"," if change else b""
    return b'%s%s%s%08x"}\n' % (body[:-1], comma, _CRC, crc32c(body))


def change_of(line: bytes) -> dict[str, Any]:
    """Decode a journal line, given without its line end. Raises ValueError with the reason if it is damaged."""
    if _has_crc(line):
        body = line[:-_CRC_MEMBER_SIZE].removesuffix(b",") + b"}"
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
    """Whether a line without its line end is complete, as its CRC shows; False for a line without a CRC."""
    try:
        change_of(line)
    except ValueError:
        return False
    return _has_crc(line)


def _has_crc(line: bytes) -> bool:
    return line[-_CRC_MEMBER_SIZE:].startswith(_CRC) and line.endswith(b'"}')
