"""The parts of the broker that Produce uses. They are declared here because a compiled module cannot declare them itself."""

from __future__ import annotations

from typing import Protocol

from stuntbroker.broker.services import HasClock, HasConfig, HasEvents, HasLongRequests, HasTopics, HasTransactions


class ProducePorts(HasClock, HasConfig, HasEvents, HasLongRequests, HasTopics, HasTransactions, Protocol):
    """Parts of the broker that the handler of Produce and its fast path use."""
