"""The parts of the broker that Produce and TxnOffsetCommit use. A compiled module cannot declare them itself."""

from __future__ import annotations

from typing import Protocol

from stuntbroker.broker.services import (
    HasClock,
    HasConfig,
    HasEvents,
    HasGroups,
    HasLongRequests,
    HasTopics,
    HasTransactions,
)


class ProducePorts(HasClock, HasConfig, HasEvents, HasLongRequests, HasTopics, HasTransactions, Protocol):
    """Parts of the broker that the handler of Produce and its fast path use."""


class TxnOffsetCommitPorts(HasConfig, HasGroups, HasLongRequests, HasTopics, HasTransactions, Protocol):
    """Parts of the broker that the handler of TxnOffsetCommit uses."""
