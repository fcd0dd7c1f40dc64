"""What can be configured, by Kafka's numbers (DescribeConfigs, AlterConfigs and their like)."""

from __future__ import annotations

from enum import IntEnum


class ResourceType(IntEnum):
    """A kind of thing that has a configuration (ConfigResource.Type)."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32
