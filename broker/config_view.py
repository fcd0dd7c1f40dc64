"""Configuration as DescribeConfigs shows it: values, where they come from, and what stands behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from stuntbroker.broker.config import BROKER, TOPIC, WITHOUT_DEFAULT, Property, show
from stuntbroker.broker.features import TRANSACTION_VERSION

if TYPE_CHECKING:
    from stuntbroker.broker.server import Broker
    from stuntbroker.broker.topics import Topic

TOPIC_CONFIG: Final = 1
DYNAMIC_DEFAULT_BROKER_CONFIG: Final = 3
STATIC_BROKER_CONFIG: Final = 4
DEFAULT_CONFIG: Final = 5
MIN_ISR: Final = "min.insync.replicas"


class Synonym(NamedTuple):
    name: str
    value: str
    source: int


class Entry(NamedTuple):
    name: str
    value: str | None
    set_here: bool
    source: int
    kind: int
    read_only: bool
    synonyms: list[Synonym]


def topic_configs(broker: Broker, topic: Topic) -> list[Entry]:
    entries = []
    for name, (one, broker_name) in TOPIC.items():
        synonyms = []
        if name in topic.configs:
            synonyms.append(Synonym(name, topic.configs[name], TOPIC_CONFIG))
        if broker_name is not None:
            if broker_name in broker.config.given:
                synonyms.append(Synonym(broker_name, show(broker.config[broker_name]), STATIC_BROKER_CONFIG))
            synonyms += _defaults(broker_name, one)
        value = topic.configs[name] if name in topic.configs else show(broker.config.topic_default(name))
        source = synonyms[0].source if synonyms else DEFAULT_CONFIG
        entries.append(Entry(name, value, name in topic.configs, source, one.kind, False, synonyms))
    return entries


def broker_configs(broker: Broker) -> list[Entry]:
    entries = []
    for name, one in BROKER.items():
        given = name in broker.config.given
        value = show(broker.config[name]) if given or name not in WITHOUT_DEFAULT else None
        if name == TRANSACTION_VERSION:
            value = show(broker.features.transaction_version)
        synonyms = [Synonym(name, show(broker.config[name]), STATIC_BROKER_CONFIG)] if given else []
        if one.default != "":
            synonyms += _defaults(name, one)
        source = STATIC_BROKER_CONFIG if given else DEFAULT_CONFIG
        entries.append(Entry(name, value, given, source, one.kind, True, synonyms))
    return entries


def _defaults(name: str, one: Property) -> list[Synonym]:
    """What a broker property is when nobody sets it."""
    if name in WITHOUT_DEFAULT or name == "node.id":
        return []
    default = Synonym(name, show(BROKER.get(name, one).default), DEFAULT_CONFIG)
    if name == MIN_ISR:  # A new cluster sets it itself, for all its brokers (eligible leader replicas, KIP-966).
        return [Synonym(name, default.value, DYNAMIC_DEFAULT_BROKER_CONFIG), default]
    return [default]
