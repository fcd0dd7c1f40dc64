"""Names of the broker's own topics."""

from __future__ import annotations

from typing import Final

OFFSETS: Final = "__consumer_offsets"
TXN_STATE: Final = "__transaction_state"
INTERNAL: Final = frozenset({OFFSETS, TXN_STATE})
