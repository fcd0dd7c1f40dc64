"""Types of resources that have a configuration (DescribeConfigs, AlterConfigs and similar requests)."""

from __future__ import annotations

from enum import IntEnum


class ResourceType(IntEnum):
    """Type of a resource with a configuration, by Kafka's numbers (ConfigResource.Type)."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32
