"""Limits of one request's decompression and record reading, as one event loop serves all clients."""

from __future__ import annotations

from typing import Final

from stuntbroker.protocol.batches.records import HEADER_SIZE, BatchHeader
from stuntbroker.protocol.primitives import Buffer

STEPS_MAX: Final = 110_000
"""A record or a header is a step of 0.1 to 0.5 us, which makes less than 50 ms together."""
BYTES_PER_STEP: Final = 128
"""Bytes are opened at 300 MB/s or faster, depending on the codec."""
BYTES_MAX: Final = STEPS_MAX * BYTES_PER_STEP
OPENING_STEPS: Final = 32
"""Steps for opening a batch, whatever its size."""


class BudgetExceeded(Exception):
    """The operation needs more steps than are left."""


class ReadBudget:
    """Remaining steps of a request."""

    __slots__ = ("steps",)

    def __init__(self, steps: int = STEPS_MAX) -> None:
        self.steps = steps

    @property
    def is_whole(self) -> bool:
        """Whether nothing of the budget was used yet."""
        return self.steps == STEPS_MAX

    def opened(self, header: BatchHeader, batch: Buffer, size_max: int = BYTES_MAX) -> tuple[Buffer, int]:
        """The records of a batch, and where they begin in it. Raises CompressionError, BudgetExceeded above `size_max` bytes."""
        if not header.codec:
            return batch, HEADER_SIZE
        from stuntbroker.protocol.batches.compression import CompressionError, TooLarge, measured

        room = min((self.steps - OPENING_STEPS) * BYTES_PER_STEP, size_max)
        if room <= 0:
            raise BudgetExceeded
        try:
            payload, cost = measured(header.codec, batch[HEADER_SIZE:], room)
        except CompressionError as fault:
            self.steps -= OPENING_STEPS + room // BYTES_PER_STEP  # It may have come so far.
            if isinstance(fault, TooLarge):
                raise BudgetExceeded from fault
            raise
        self.steps -= OPENING_STEPS + cost // BYTES_PER_STEP
        return payload, 0
