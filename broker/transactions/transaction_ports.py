"""Interfaces that transactions use: the services of the broker, and the stop points of a test."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from stuntbroker.broker.clock import Clock
    from stuntbroker.broker.configuration.config import BrokerConfig
    from stuntbroker.broker.connections.listener import Listener
    from stuntbroker.broker.metadata.features import Features
    from stuntbroker.broker.metadata.topics import Topics
    from stuntbroker.broker.observation.events import Events
    from stuntbroker.broker.timers import Timers
    from stuntbroker.coordinator.actor import Actor, AfterMarkers
    from stuntbroker.coordinator.requests import Effect, Request
    from stuntbroker.coordinator.state import Txn
    from stuntbroker.protocol.topic_names import TopicPartition
    from stuntbroker.storage.syncer import Syncer


class TxnStops(Protocol):
    """Stop points for transactions, set by a test."""

    def hold(
        self, actor: Actor, request: Request, effects: tuple[Effect, ...], position: int, resume: Callable[[], None]
    ) -> bool:
        """Called like `coordinator.actor.Hold`."""

    def write_markers(
        self, txn: Txn, write: Callable[[Iterable[TopicPartition]], None], following: AfterMarkers
    ) -> None:
        """Write the markers of a transaction by `write`, then call one of `following`."""


class GroupOffsets(Protocol):
    """The part of the group coordinator that transactions use."""

    def apply_marker(self, partition: int, producer_id: int, commit: bool) -> None:
        """Commit or drop the pending offsets of a producer in a partition of `__consumer_offsets`."""


class WithGroups(Protocol):
    """A broker that creates its group coordinator on first use."""

    @property
    def groups(self) -> GroupOffsets:
        """Consumer groups, whose offsets may be part of a transaction."""


class TransactionServices(WithGroups, Protocol):
    """The parts of a broker that transactions use."""

    config: BrokerConfig
    listeners: list[Listener]
    clock: Clock
    timers: Timers
    events: Events
    topics: Topics
    features: Features
    syncer: Syncer | None
