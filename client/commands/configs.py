"""Configurations of topics, brokers and groups: reading and changing them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.errors import NotFound, check
from stuntbroker.protocol.api_keys import DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS, LIST_CONFIG_RESOURCES
from stuntbroker.protocol.config_resources import ResourceType
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from stuntbroker.protocol.messages.describe_configs_response import DescribeConfigsResponse
from stuntbroker.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from stuntbroker.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from stuntbroker.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from stuntbroker.protocol.messages.list_config_resources_response import ListConfigResourcesResponse
from stuntbroker.protocol.request_values import DELETE, SET


class ConfigEntry(NamedTuple):
    """One property of a resource. `value` is None for a property without a value, or one that is sensitive."""

    name: str
    value: str | None
    source: int
    is_read_only: bool
    is_sensitive: bool
    synonyms: tuple[tuple[str, str | None, int], ...]
    """(name, value, source) of each place that sets this property, in order of precedence."""


def describe_config(
    cluster: Cluster, kind: ResourceType, name: str, keys: Collection[str] | None = None
) -> list[ConfigEntry]:
    """Return the properties of a resource (only `keys`, if given), by name. Raises BrokerError, also for an unknown resource."""

    def attempt() -> list[ConfigEntry]:
        wanted = None if keys is None else list(keys)
        request = DescribeConfigsRequest([DescribeConfigsResource(kind, name, wanted)], include_synonyms=True)
        answer = cluster.ask(_broker_of(cluster, kind, name), DESCRIBE_CONFIGS, request, DescribeConfigsResponse)
        (result,) = answer.results
        check(f"the configuration of {kind.name.lower()} {name!r}", result.error_code, result.error_message)
        entries = [
            ConfigEntry(
                entry.name,
                entry.value,
                entry.config_source,
                entry.read_only,
                entry.is_sensitive,
                tuple((each.name, each.value, each.source) for each in entry.synonyms),
            )
            for entry in result.configs
        ]
        return sorted(entries)

    return cluster.retrying(attempt)


def alter_config(
    cluster: Cluster, kind: ResourceType, name: str, values: Mapping[str, str], deleted: Collection[str] = ()
) -> None:
    """Set `values`, and reset the properties in `deleted` to their defaults. Raises NotFound, BrokerError."""
    configs = [AlterableConfig(key, SET, value) for key, value in values.items()]
    configs += [AlterableConfig(key, DELETE, None) for key in deleted]

    def attempt() -> None:
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(kind, name, configs)])
        node_id = _broker_of(cluster, kind, name)
        answer = cluster.ask(node_id, INCREMENTAL_ALTER_CONFIGS, request, IncrementalAlterConfigsResponse)
        (result,) = answer.responses
        if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise NotFound(f"there is no topic {name!r}")
        check(f"changing the configuration of {kind.name.lower()} {name!r}", result.error_code, result.error_message)

    cluster.retrying(attempt)


def list_configured(cluster: Cluster, kind: ResourceType) -> list[str]:
    """Return the names of the resources of a kind that have a configuration (KIP-1142). Raises BrokerError."""

    def attempt() -> list[str]:
        request = ListConfigResourcesRequest([kind])
        answer = cluster.ask(cluster.controller_id(), LIST_CONFIG_RESOURCES, request, ListConfigResourcesResponse)
        check(f"listing {kind.name.lower()} configurations", answer.error_code)
        return sorted(each.resource_name for each in answer.config_resources if each.resource_type == kind)

    return cluster.retrying(attempt)


def topic_config(cluster: Cluster, topic: str, name: str) -> str | None:
    """Return the value of a topic property. Raises BrokerError if there is no such topic."""
    return next((entry.value for entry in describe_config(cluster, ResourceType.TOPIC, topic, [name])), None)


def _broker_of(cluster: Cluster, kind: ResourceType, name: str) -> int:
    """Return the broker to query: a broker for its own configuration, else the controller."""
    is_broker = kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER)
    return int(name) if is_broker and name.isdecimal() else cluster.controller_id()
