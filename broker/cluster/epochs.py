"""Errors for requests whose leader epoch differs from the partition's current leader epoch (KIP-320)."""

from __future__ import annotations

from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.storage.leader_epochs import NO_EPOCH


def epoch_error(known: int, current: int) -> ErrorCode:
    """Return the error for a request whose client knows the epoch `known`, -1 for none; `current` is the partition's."""
    if known in (NO_EPOCH, current):
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if known < current else ErrorCode.UNKNOWN_LEADER_EPOCH
