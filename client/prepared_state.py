"""Producer id and epoch of a prepared transaction, and the transaction version that a client uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, Self

from stuntbroker.protocol.api_keys import END_TXN, PRODUCE, TXN_OFFSET_COMMIT
from stuntbroker.protocol.primitives import INT16_MAX, INT64_MAX
from stuntbroker.protocol.versions import END_TXN_V2_FROM, OFFSETS_V2_FROM, PRODUCE_V2_FROM

PAIR_FROM: Final = 3
"""First version of InitProducerId with the current producer id and epoch (KIP-360)."""


def transaction_version(level: int, versions: Mapping[int, tuple[int, int]]) -> int:
    """Return the transaction version to use: 2 if the cluster has it and the broker has its requests, else 1.

    `level`: the cluster's finalized level of `transaction.version`. `versions`: API key -> the oldest and newest of the broker.
    """
    firsts = ((PRODUCE, PRODUCE_V2_FROM), (END_TXN, END_TXN_V2_FROM), (TXN_OFFSET_COMMIT, OFFSETS_V2_FROM))
    return 2 if level >= 2 and all(versions.get(key, (0, 0))[1] >= first for key, first in firsts) else 1


class PreparedTxnState(NamedTuple):
    """Producer id and epoch that identify a prepared transaction (KIP-939).

    `str` gives `producer id:epoch`, as for Java's PreparedTxnState; the empty text means that no transaction was prepared.
    """

    producer_id: int
    producer_epoch: int

    def __str__(self) -> str:
        return "" if self.producer_id < 0 else f"{self.producer_id}:{self.producer_epoch}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse text that `str` returned. Raises ValueError; TypeError for what is no text, such as a NULL of a database."""
        if not isinstance(text, str):
            raise TypeError(f"{text!r} is no prepared state: it has to be the text that was stored")
        if text in ("", "-1:-1"):
            return cls(-1, -1)
        producer_id, colon, epoch = text.partition(":")
        if not (colon and _is_number(producer_id, INT64_MAX) and _is_number(epoch, INT16_MAX)):
            raise ValueError(f"{text!r} is no prepared state: it is written PRODUCER_ID:EPOCH")
        return cls(int(producer_id), int(epoch))


NO_PRODUCER: Final = PreparedTxnState(-1, -1)


def _is_number(text: str, most: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= most
