"""DescribeConfigs, key 32, versions 1-4: configuration of topics and of the broker.

v3 types, and documentation if the request asks for it. v4 flexible.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.broker.configuration.config_view import Entry, broker_configs, cluster_configs, topic_configs
from stuntbroker.broker.configuration.listener_properties import is_secret
from stuntbroker.broker.configuration.properties import BROKER as BROKER_PROPERTIES
from stuntbroker.broker.configuration.properties import TOPIC as TOPIC_PROPERTIES
from stuntbroker.broker.configuration.unknown_types import unknown_type_refusal
from stuntbroker.broker.requests.slices import ELEMENT_COST, Steps, run_in_slices
from stuntbroker.protocol.config_resources import ResourceType
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from stuntbroker.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from stuntbroker.protocol.topic_names import TopicNameError, check_name

if TYPE_CHECKING:
    from stuntbroker.broker.configuration.config_view import ConfigViewPorts
    from stuntbroker.broker.services import Asking, HasLongRequests, HasTopics

    class Uses(ConfigViewPorts, HasLongRequests, HasTopics, Protocol):
        """Parts of the broker that this module uses."""


KEY: Final = 32
VERSIONS = range(1, 5)
UNNAMED: Final[dict[int, str]] = {
    ResourceType.BROKER_LOGGER: "Broker id must not be empty",
    ResourceType.CLIENT_METRICS: "Client metrics subscription name must not be empty",
    ResourceType.GROUP: "Group name must not be empty",
}


def handle(request: Asking[Uses], body: DescribeConfigsRequest, version: int) -> DescribeConfigsResponse | None:
    """Describe the configuration of each resource; None when the response comes later."""
    broker = request.broker
    if refusal := unknown_type_refusal(body):
        return refusal
    # Unlike Kafka: a resource requested twice is described once, as the response is 100 times as long as the request.
    unique = {
        (resource.resource_type, resource.resource_name, tuple(resource.configuration_keys or ())): resource
        for resource in body.resources
    }
    steps = _steps(broker, request.listener.node_id, list(unique.values()), body)
    return run_in_slices(request, steps)


def _steps(
    broker: Uses, node_id: int, resources: Iterable[DescribeConfigsResource], body: DescribeConfigsRequest
) -> Steps[DescribeConfigsResponse]:
    results = []
    cost = 0
    for resource in resources:
        yield cost
        result = _describe_resource(broker, node_id, resource, body)
        results.append(result)
        cost = ELEMENT_COST + len(result.configs)
    return DescribeConfigsResponse(results=results)


def _describe_resource(
    broker: Uses, node_id: int, resource: DescribeConfigsResource, body: DescribeConfigsRequest
) -> DescribeConfigsResult:
    resource_type, name = resource.resource_type, resource.resource_name

    def answer(error: ErrorCode, message: str | None, entries: Sequence[Entry] = ()) -> DescribeConfigsResult:
        keys = frozenset(resource.configuration_keys or ())
        wanted = [entry for entry in entries if not keys or entry.name in keys]
        with_documentation = body.include_documentation
        configs = [
            _result(
                entry, body.include_synonyms, _documentation(resource_type, entry.name) if with_documentation else None
            )
            for entry in wanted
        ]
        return DescribeConfigsResult(error, message, resource_type, name, configs)

    if resource_type == ResourceType.TOPIC:
        try:
            check_name(name)
        except TopicNameError as fault:
            return answer(ErrorCode.INVALID_TOPIC_EXCEPTION, str(fault))
        topic = broker.topics.get(name)
        if topic is None:
            return answer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
        return answer(ErrorCode.NONE, "", topic_configs(broker, topic))
    if resource_type == ResourceType.BROKER:
        if name == "":
            return answer(ErrorCode.NONE, "", cluster_configs(broker))
        if name != str(node_id):
            return answer(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id, expected {node_id} or empty string, but received {name}",
            )
        return answer(ErrorCode.NONE, "", broker_configs(broker, node_id))
    if not name:
        return answer(ErrorCode.INVALID_REQUEST, UNNAMED[resource_type])
    if resource_type == ResourceType.BROKER_LOGGER and name != str(node_id):
        return answer(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {node_id} but received {name}")
    # Unlike Kafka: these resources have no configuration; that of Kafka's groups is for protocols that are not served.
    return answer(ErrorCode.NONE, "")


def _documentation(resource_type: int, name: str) -> str | None:
    """Return the documentation of a property; None for an unknown one."""
    # Unlike Kafka: our own texts, which describe what a property does in this broker.
    if resource_type == ResourceType.TOPIC:
        return TOPIC_PROPERTIES[name][0].documentation
    if resource_type != ResourceType.BROKER:
        return None
    if name in BROKER_PROPERTIES:
        return BROKER_PROPERTIES[name].documentation
    from stuntbroker.broker.configuration.config_docs import UNUSED_DOC, UNUSED_DOCS
    from stuntbroker.broker.configuration.kafka_properties import UNUSED

    return UNUSED_DOCS.get(name, UNUSED_DOC) if name in UNUSED else None


def _result(entry: Entry, synonyms: bool, documentation: str | None) -> DescribeConfigsResourceResult:
    is_sensitive = is_secret(entry.name)
    return DescribeConfigsResourceResult(
        entry.name,
        None if is_sensitive else entry.value,
        entry.read_only,
        entry.source,
        is_sensitive,
        [
            DescribeConfigsSynonym(synonym.name, None if is_sensitive else synonym.value, synonym.source)
            for synonym in entry.synonyms
        ]
        if synonyms
        else [],
        entry.kind,
        documentation,
    )
