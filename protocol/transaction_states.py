"""The states of a transaction and its missing time-out, as the transaction log and the requests about transactions have them."""

from __future__ import annotations

from typing import Final

from stuntbroker.protocol.primitives import INT32_MAX

RUNNING: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")
"""States of a transaction that is not complete."""
STATES: Final = ("Empty", *RUNNING, "CompleteCommit", "CompleteAbort")
"""Names as ListTransactions has them; the index is the number in the transaction log."""
TIMEOUT_NONE: Final = INT32_MAX
"""The time-out in ms of a transaction of two-phase commit (KIP-939): it waits for its producer for ever."""
