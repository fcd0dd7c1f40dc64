"""Connects the group coordinator to the broker: the `__consumer_offsets` log, clock and timers, new member ids."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.broker.metadata.topics import Topic
from stuntbroker.broker.random_source import RandomSource
from stuntbroker.groups.config import GroupConfig
from stuntbroker.groups.coordinator import GroupCoordinator
from stuntbroker.protocol.topic_names import OFFSETS
from stuntbroker.storage.recovery import checked_batches

if TYPE_CHECKING:
    from stuntbroker.broker.configuration.config import BrokerConfig
    from stuntbroker.broker.services import HasClock, HasConfig, HasEvents, HasRandomSource, HasTimers, HasTopics

    class Uses(HasRandomSource, HasClock, HasConfig, HasEvents, HasTimers, HasTopics, Protocol):
        """Parts of the broker that this module uses."""


MINUTE_MS: Final = 60_000


class OffsetsLog:
    """The log of `__consumer_offsets`, as the group coordinator uses it."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.partition_count = len(topic.partitions)

    def append(self, partition: int, batch: bytearray) -> int:
        """Append a batch to a partition of the topic; return its offset. Raises StorageError."""
        return self.topic.partitions[partition].append_own(batch)


def new_member_id(random_source: RandomSource, prefix: str) -> str:
    """Return a member id in Kafka's form: `prefix` and a random UUID."""
    h = random_source.random_bytes(16).hex()
    return f"{prefix}-{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"


def group_config(config: BrokerConfig) -> GroupConfig:
    """Return the properties of groups and offsets."""
    return GroupConfig(
        session_timeout_ms_min=config["group.min.session.timeout.ms"],
        session_timeout_ms_max=config["group.max.session.timeout.ms"],
        initial_rebalance_delay_ms=config["group.initial.rebalance.delay.ms"],
        group_size_max=config["group.max.size"],
        members_bytes_max=config["stuntbroker.groups.max.bytes"],
        offset_metadata_size_max=config["offset.metadata.max.bytes"],
        offsets_retention_ms=config["offsets.retention.minutes"] * MINUTE_MS,
        offsets_retention_check_interval_ms=config["offsets.retention.check.interval.ms"],
    )


def make_groups(broker: Uses) -> GroupCoordinator:
    """Return the group coordinator of a broker, with the groups and offsets replayed from its log."""
    topic = broker.topics.internal_topic(OFFSETS)

    def events(name: str, facts: dict[str, object]) -> None:
        broker.events.info(name, **facts)

    groups = GroupCoordinator(
        OffsetsLog(topic),
        broker.timers,
        broker.clock.now_ms,
        group_config(broker.config),
        partial(new_member_id, broker.random_source),
        events,
    )
    for index, log in enumerate(topic.partitions):
        groups.replay(index, checked_batches(log))
    groups.start()
    return groups
