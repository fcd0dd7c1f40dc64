"""Numbers by IP address, as `max.connections.per.ip.overrides` has them: ADDRESS:NUMBER, separated by commas."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import ip_address

from stuntbroker.protocol.primitives import INT32_MAX


def counts_by_address(text: str) -> dict[str, int]:
    """Return the number of each address. Raises ValueError."""
    return {str(ip_address(address)): int(count) for address, count in _entries(text)}


def problem_of_counts(text: str) -> str:
    """Return what is wrong with the text; an empty text if nothing is."""
    for address, count in _entries(text):
        if not address:
            return f"{count!r} is not ADDRESS:NUMBER"
        try:
            ip_address(address)
        except ValueError:
            return f"{address!r} is not an IP address"
        if not re.fullmatch("[0-9]{1,10}", count) or int(count) > INT32_MAX:
            return f"{count!r} is not a number from 0 to {INT32_MAX}"
    return ""


def _entries(text: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of each entry. An IPv6 address has colons, too, and may be in brackets."""
    for entry in filter(None, map(str.strip, text.split(","))):
        address, _, count = entry.rpartition(":")
        yield address.strip().removeprefix("[").removesuffix("]"), count.strip()
