"""Changing configuration: what AlterConfigs and IncrementalAlterConfigs have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from stuntbroker.broker.configuration.dynamic_config import DynamicConfig, Refusal
from stuntbroker.broker.configuration.dynamic_properties import LIST
from stuntbroker.broker.configuration.properties import TOPIC as TOPIC_CONFIGS
from stuntbroker.broker.configuration.properties import ConfigError, check_topic_config
from stuntbroker.protocol.config_resources import ResourceType
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.topic_names import TopicNameError, check_name
from stuntbroker.storage.errors import StorageError

if TYPE_CHECKING:
    from stuntbroker.broker.services import HasDynamicConfig, HasEvents, HasNodeId, HasNodes, HasTopics

    class ConfigChangePorts(HasDynamicConfig, HasEvents, HasNodeId, HasNodes, HasTopics, Protocol):
        """Parts of the broker that this module uses."""


# Unlike Kafka: these resource types have no properties, as the protocols that use them are not served.
WITHOUT_CONFIGS: Final[dict[int, tuple[str, ErrorCode, str]]] = {
    ResourceType.BROKER_LOGGER: (
        "This is not the id of this node.",
        ErrorCode.INVALID_CONFIG,
        "Logger {} does not exist!",
    ),
    ResourceType.CLIENT_METRICS: (
        "Subscription name can't be empty",
        ErrorCode.INVALID_REQUEST,
        "Unknown client metrics configuration: {}",
    ),
    ResourceType.GROUP: (
        "Default group resources are not allowed.",
        ErrorCode.INVALID_CONFIG,
        "Unknown group config name: {}",
    ),
}
"""Resource type -> message for an invalid name; error and message for setting any property."""
LIST_PROPERTIES: Final = frozenset(name for name, (prop, _) in TOPIC_CONFIGS.items() if prop.kind == LIST)


class Outcome(NamedTuple):
    """Result of one change: NONE, or an error with its message."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


def common_refusal(
    kind: int, name: str, times: Counter[tuple[int, str]], keys: Sequence[str], nulls: str
) -> Outcome | None:
    """Return the error of a resource from the checks that all types share; None if there is none.

    `times`: occurrences of each resource in the request; `nulls`: the keys without a value.
    """
    if times[kind, name] > 1:
        return Outcome(ErrorCode.INVALID_REQUEST, f"Each resource must appear at most once: {name}")
    if len(set(keys)) < len(keys):
        return Outcome(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    if nulls:
        return Outcome(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {nulls}")
    return None


def set_unknown_property(broker: ConfigChangePorts, kind: int, name: str, keys: Sequence[str]) -> Outcome:
    """Return Kafka's result for setting an unknown property of a resource in WITHOUT_CONFIGS."""
    unnamed, error, message = WITHOUT_CONFIGS[kind]
    if not name or (kind == ResourceType.BROKER_LOGGER and name not in map(str, broker.nodes.ids)):
        return Outcome(ErrorCode.INVALID_REQUEST, unnamed)
    return Outcome(error, message.format(keys[0])) if keys else Outcome()


def change_topic(
    broker: ConfigChangePorts,
    kind: int,
    name: str,
    validate_only: bool,
    new: Callable[[dict[str, str]], dict[str, str | None]],
) -> Outcome:
    """Set a topic's configuration to the result of `new`, which is called with the present one."""
    if kind != ResourceType.TOPIC:
        return Outcome(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")
    if not name:
        return Outcome(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    try:
        check_name(name)
    except TopicNameError as fault:
        return Outcome(ErrorCode.INVALID_TOPIC_EXCEPTION, str(fault))
    topic = broker.topics.get(name)
    try:
        configs = check_topic_config(new(dict(topic.configs) if topic is not None else {}))
    except ConfigError as fault:
        return Outcome(ErrorCode.INVALID_CONFIG, str(fault))
    if topic is None:
        return Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    if not validate_only:
        try:
            broker.topics.set_configs(topic, configs)
        except StorageError as fault:
            return Outcome(ErrorCode.KAFKA_STORAGE_ERROR, str(fault))
        broker.events.info("topic_configured", topic=name, configs=configs)
    return Outcome()


def broker_id_of(name: str) -> int | None:
    """Return the broker id that the name of a resource means; None if it is no number."""
    try:
        return int(name) if name.strip() == name else None
    except ValueError:
        return None


def change_broker(broker: ConfigChangePorts, name: str, change: Callable[[DynamicConfig, str], None]) -> Outcome:
    """Change the configuration of all brokers (`name` is empty), or of the broker with the id `name`."""
    level = name
    if name:
        node_id = broker_id_of(name)
        if node_id is None:
            return Outcome(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
        if node_id not in broker.nodes.by_id:
            return Outcome(
                ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {broker.node_id}, but received {name}"
            )
        level = broker.dynamic_config.node  # Unlike Kafka: all nodes have one configuration.
    try:
        change(broker.dynamic_config, level)
    except Refusal as refusal:
        return Outcome(refusal.error, str(refusal))
    except StorageError as fault:
        return Outcome(ErrorCode.KAFKA_STORAGE_ERROR, str(fault))
    return Outcome()
