"""Limits on decompressing and reading records for one request, because one event loop serves all clients."""

from __future__ import annotations

from typing import Final

from stuntbroker.protocol.batches.records import HEADER_SIZE, BatchHeader
from stuntbroker.protocol.primitives import Buffer

STEPS_MAX: Final = 110_000
"""Steps of one request. Reading a record or a header is one step and takes 0.1 to 0.5 us: less than 50 ms in all."""
BYTES_PER_STEP: Final = 128
"""Decompressed bytes that count as one step: decompression runs at 300 MB/s or faster, depending on the codec."""
BYTES_MAX: Final = STEPS_MAX * BYTES_PER_STEP
RECORD_STEPS: Final = 3
"""Steps for reading a record's timestamp and offset."""
OPENING_STEPS: Final = 32
"""Steps for decompressing a batch, in addition to those for its bytes."""


class BudgetExceeded(Exception):
    """The operation needs more steps than remain."""


class ReadBudget:
    """Remaining steps of a request."""

    __slots__ = ("steps",)

    def __init__(self, steps: int = STEPS_MAX) -> None:
        self.steps = steps

    @property
    def is_whole(self) -> bool:
        """Whether no step of the budget was used yet."""
        return self.steps == STEPS_MAX

    def opened(self, header: BatchHeader, batch: Buffer, size_max: int = BYTES_MAX) -> tuple[Buffer, int]:
        """Return (buffer with the uncompressed records of a batch, their position in it).

        Raises CompressionError, and BudgetExceeded above `size_max` bytes or the remaining steps.
        """
        if not header.codec:
            return batch, HEADER_SIZE
        from stuntbroker.protocol.batches.compression import CompressionError, TooLarge, measured

        room = min((self.steps - OPENING_STEPS) * BYTES_PER_STEP, size_max)
        if room <= 0:
            raise BudgetExceeded
        try:
            payload, cost = measured(header.codec, batch[HEADER_SIZE:], room)
        except CompressionError as fault:
            self.steps -= OPENING_STEPS + room // BYTES_PER_STEP  # The error may have come after `room` bytes.
            if isinstance(fault, TooLarge):
                raise BudgetExceeded from fault
            raise
        self.steps -= OPENING_STEPS + cost // BYTES_PER_STEP
        return payload, 0
