"""Configuration as DescribeConfigs shows it: values, their sources and their synonyms."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from stuntbroker.broker.configuration.dynamic_config import CLUSTER
from stuntbroker.broker.configuration.dynamic_properties import DYNAMIC, LIST
from stuntbroker.broker.configuration.listener_properties import LISTENER_PREFIX, OF_AUTHORIZERS, base_of, kind_of
from stuntbroker.broker.configuration.properties import (
    BROKER,
    INTERNAL_SEGMENT_BYTES,
    TOPIC,
    WITHOUT_DEFAULT,
    Property,
    show,
)
from stuntbroker.protocol.config_resources import ConfigSource
from stuntbroker.protocol.features import TRANSACTION_VERSION

if TYPE_CHECKING:
    from stuntbroker.broker.metadata.topics import Topic
    from stuntbroker.broker.services import HasConfig, HasDataDir, HasDynamicConfig, HasFeatures

    class ConfigViewPorts(HasConfig, HasDataDir, HasDynamicConfig, HasFeatures, Protocol):
        """Parts of the broker that this module uses."""


IN_HOURS: Final = {"log.retention.ms": ("log.retention.hours", "168"), "log.roll.ms": ("log.roll.hours", "168")}
"""Property in milliseconds -> the property in hours, with its default, that Kafka shows as the last synonym."""
LOG_DIRS: Final = "log.dirs"


class Synonym(NamedTuple):
    """One level at which a property has a value: its name there, the value, and Kafka's number for the source."""

    name: str
    value: str
    source: int


class Entry(NamedTuple):
    """One property as DescribeConfigs shows it. `synonyms`: its values at every level, the one in force first."""

    name: str
    value: str | None
    source: int
    kind: int
    read_only: bool
    synonyms: list[Synonym]


def topic_configs(broker: ConfigViewPorts, topic: Topic) -> list[Entry]:
    """Return all properties of a topic, in the order of their definition."""
    entries = []
    for name, (prop, broker_name) in TOPIC.items():
        if name == INTERNAL_SEGMENT_BYTES and name not in topic.configs:
            continue
        synonyms = []
        value = (
            _shown(topic.configs[name], prop.kind) if name in topic.configs else show(broker.config.topic_default(name))
        )
        if name in topic.configs:
            synonyms.append(Synonym(name, value, ConfigSource.DYNAMIC_TOPIC_CONFIG))
        if broker_name is not None:
            synonyms += _values_by_level(broker, broker_name, _default_of(broker_name, prop))
        source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
        entries.append(Entry(name, value, source, prop.kind, False, synonyms))
    return entries


def broker_configs(broker: ConfigViewPorts, node_id: int) -> list[Entry]:
    """Return all properties of a node, also those without effect here, and other names that were set while the broker ran."""
    from stuntbroker.broker.configuration.kafka_properties import UNUSED  # Only loaded to be shown.

    entries = []
    for name, prop in BROKER.items():
        kind = prop.kind
        # Kafka's definition does not have these two: set, they are shown like unknown properties, whose values may be secret.
        if name in OF_AUTHORIZERS:
            if name not in broker.config.given:
                continue
            kind = 0
        synonyms = _values_by_level(broker, name, _default_of(name, prop))
        source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
        is_set = source != ConfigSource.DEFAULT_CONFIG
        value = _shown(show(broker.config.values[name]), prop.kind) if is_set or name not in WITHOUT_DEFAULT else None
        if name in ("node.id", "broker.id"):
            value = str(node_id)
        if name == TRANSACTION_VERSION:
            value = show(broker.features.transaction_version)
        entries.append(Entry(name, value, source, kind, not prop.is_dynamic, synonyms))
    for name, (kind, default) in UNUSED.items():
        synonyms = _values_by_level(broker, name, default)
        if name == LOG_DIRS:  # The data folder, whatever was given.
            synonyms = [Synonym(name, broker.data_dir.log_dir, ConfigSource.STATIC_BROKER_CONFIG)]
        value = _shown(synonyms[0].value, kind) if synonyms else None
        source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
        entries.append(Entry(name, value, source, kind, name not in DYNAMIC, synonyms))
    for name in _other_names(broker):
        base = base_of(name)
        default = (
            UNUSED[base].default if base in UNUSED else _default_of(base, BROKER[base]) if base in BROKER else None
        )
        synonyms = _values_by_level(broker, name, None)
        if base != name:  # Without a value of its own, the listener has that of the broker.
            synonyms += _values_by_level(broker, base, default)
        is_read_only = base != name or name not in DYNAMIC
        entries.append(Entry(name, synonyms[0].value, synonyms[0].source, kind_of(name) or 0, is_read_only, synonyms))
    return entries


def _other_names(broker: ConfigViewPorts) -> Iterable[str]:
    """Return the names of properties for one listener, and of unknown ones, that are set."""
    from stuntbroker.broker.configuration.kafka_properties import UNUSED

    levels = broker.dynamic_config.levels.values()
    of_listeners = [name for name in broker.config.given if name.startswith(LISTENER_PREFIX)]
    names = dict.fromkeys([*of_listeners, *(name for level in levels for name in level)])
    return [name for name in names if name not in BROKER and name not in UNUSED]


def cluster_configs(broker: ConfigViewPorts) -> list[Entry]:
    """Return the properties that were set for all brokers while this one ran."""
    return [
        Entry(
            name,
            text,
            ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
            kind_of(name) or 0,
            name not in DYNAMIC,
            [Synonym(name, text, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)],
        )
        for name, text in broker.dynamic_config.levels[CLUSTER].items()
    ]


def _shown(value: str, kind: int) -> str:
    """Return a value as the broker parses it: the entries of a list without blanks or duplicates."""
    if kind != LIST:
        return value
    return ",".join(dict.fromkeys(entry.strip() for entry in value.split(",")))


def _default_of(name: str, prop: Property) -> str | None:
    """Return the default of a broker property as Kafka shows it. `prop`: the property, or that of topics whose default it is."""
    if name in WITHOUT_DEFAULT or name == "node.id":
        return None
    return show(BROKER.get(name, prop).default)


def _values_by_level(broker: ConfigViewPorts, name: str, default: str | None) -> list[Synonym]:
    """Return the value of a broker property at every level that has one, the value in force first."""
    dynamic = broker.dynamic_config
    synonyms = []
    for level, source in (
        (dynamic.node, ConfigSource.DYNAMIC_BROKER_CONFIG),
        (CLUSTER, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
    ):
        if name in dynamic.levels[level]:
            synonyms.append(Synonym(name, dynamic.levels[level][name], source))
    if name in broker.config.given:
        synonyms.append(Synonym(name, broker.config.given[name].strip(), ConfigSource.STATIC_BROKER_CONFIG))
    if synonyms and name in IN_HOURS:
        synonyms.append(Synonym(*IN_HOURS[name], ConfigSource.DEFAULT_CONFIG))
    if default is not None:
        synonyms.append(Synonym(name, default, ConfigSource.DEFAULT_CONFIG))
    return synonyms
