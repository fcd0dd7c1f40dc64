"""Values of transactions: names of the states, largest epochs, the time-out of those without one, and transaction versions."""

from __future__ import annotations

from typing import Final

from stuntbroker.protocol.primitives import INT32_MAX

EMPTY: Final = "Empty"
ONGOING: Final = "Ongoing"
PREPARE_COMMIT: Final = "PrepareCommit"
PREPARE_ABORT: Final = "PrepareAbort"
COMPLETE: Final = ("CompleteCommit", "CompleteAbort")
RUNNING: Final = (ONGOING, PREPARE_COMMIT, PREPARE_ABORT)
"""States of a transaction that is not complete."""
STATES: Final = (EMPTY, *RUNNING, *COMPLETE)
"""Names of all states, as in ListTransactions; the index is the number in the transaction log."""
EPOCH_MAX: Final = 32_767
"""Largest producer epoch, that of markers that fence a producer with the last epoch; no client ever holds it."""
EPOCH_LAST: Final = EPOCH_MAX - 1
"""The last epoch that a client ever holds; EPOCH_MAX is reserved for fencing."""
TRANSACTION_V0: Final = 0
TRANSACTION_V2: Final = 2
"""Transaction versions of requests, markers and states of the log. With 2, the end of a transaction bumps the epoch (KIP-890)."""
TIMEOUT_NONE: Final = INT32_MAX
"""Time-out in ms of a two-phase commit transaction (KIP-939), which never times out."""
