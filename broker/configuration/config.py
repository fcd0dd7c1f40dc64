"""The configuration of a broker: validation of the given properties, and the values in force."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, overload

from stuntbroker.broker.configuration.listener_properties import OF_AUTHORIZERS, is_listener_property, prefix_of
from stuntbroker.broker.configuration.properties import (
    BROKER,
    IN_OTHER_UNITS,
    INTERNAL_REPLICATION_FACTORS,
    MAX_PER_IP,
    MAX_PER_IP_OVERRIDES,
    OF_TOPICS,
    TOPIC,
    ConfigError,
    read_property,
)
from stuntbroker.protocol.primitives import INT32_MAX

REPLICATION_FACTOR: Final = 3
"""Default replication factor, limited by the number of nodes."""

if TYPE_CHECKING:
    from stuntbroker.broker.configuration.property_names import FlagName, NumberName, TextName


def _check_unused(name: str, text: str) -> None:
    """Raise ConfigError for a property that neither Kafka nor Stuntbroker has, or a value that Kafka refuses."""
    from stuntbroker.broker.configuration.kafka_properties import UNUSED, is_kafka_property, nearest_property
    from stuntbroker.broker.configuration.value_types import problem_of_value

    if name in UNUSED:
        if why := problem_of_value(name, UNUSED[name].kind, text):
            raise ConfigError(f"{name}: {text!r} is not valid: {why}")
        return
    # Unlike Kafka: an unknown property is an error. Kafka ignores it, and a test with a misspelt property tests something else.
    if is_kafka_property(name):
        return
    # In the configuration of a broker, the name of a topic's property stands for the default of all topics.
    nearest = TOPIC[name][1] if name in TOPIC else nearest_property(name, BROKER)
    if nearest is not None:
        advice = f"did you mean {nearest}?"
    elif name.startswith("stuntbroker."):
        advice = f"there are: {', '.join(sorted(n for n in BROKER if n.startswith('stuntbroker.')))}"
    else:
        advice = "no property has a similar name: remove the property"
    raise ConfigError(f"{name} is not a property of Apache Kafka 4.3.1 or of Stuntbroker; {advice}")


def admits_no_client(values: Mapping[str, Any]) -> bool:
    """Return whether no address may have a connection."""
    return not values[MAX_PER_IP] and not values[MAX_PER_IP_OVERRIDES]


class BrokerConfig:
    """The values in force, by name: `config["num.partitions"]`. Construction raises ConfigError for an invalid property.

    The mapping `values` is never modified: a change while the broker runs replaces it (`replace`).
    """

    __slots__ = ("_values", "ceilings", "given", "unused")

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        self._values: dict[str, Any] = {name: prop.default for name, prop in BROKER.items()}
        self.given: Mapping[str, str] = MappingProxyType(dict(given or {}))
        self.ceilings: dict[str, int] = {}
        """Limits of the operating system that override configured values."""
        self.unused: list[str] = []
        """Properties of Kafka that were given and have no effect here."""
        for name, text in self.given.items():
            known = BROKER if name in BROKER else OF_TOPICS
            if name in known:
                self._values[name] = read_property(known, name, text)
            elif is_listener_property(name):
                continue
            else:
                _check_unused(name, text)
            if name not in known or not known[name].has_effect:
                self.unused.append(name)
        if not self._values["authorizer.class.name"]:
            self.unused += [name for name in OF_AUTHORIZERS if name in self.given]
        self._convert_units()
        low, high = (self._values[f"group.{end}.session.timeout.ms"] for end in ("min", "max"))
        if low > high:  # Unlike Kafka: an error; Kafka starts, and no member can ever join.
            raise ConfigError(
                f"group.max.session.timeout.ms: {high} is less than group.min.session.timeout.ms, which is {low}"
            )
        queued_max, request_max = self._values["queued.max.request.bytes"], self._values["socket.request.max.bytes"]
        if 0 < queued_max < request_max:
            raise ConfigError(
                f"queued.max.request.bytes: {queued_max} is less than the size limit of one request, {request_max} "
                "(socket.request.max.bytes): raise it, lower the other, or set it to -1 for no limit"
            )
        if "broker.id" in self.given and "node.id" not in self.given:
            self._values["node.id"] = self._values["broker.id"]
        if admits_no_client(self._values):
            raise ConfigError(f"{MAX_PER_IP}: 0 lets no client in, unless {MAX_PER_IP_OVERRIDES} is set")
        self._check_nodes()

    def _check_nodes(self) -> None:
        nodes = self._values["stuntbroker.nodes"]
        if self._values["node.id"] + nodes - 1 > INT32_MAX:
            raise ConfigError(f"node.id: the ids of {nodes} nodes follow node.id, and the largest id is {INT32_MAX}")
        # Unlike Kafka: up to 3 copies by default, not 1, so that a topic stays available while a node is stopped.
        for name in ("default.replication.factor", *INTERNAL_REPLICATION_FACTORS):
            if name not in self.given:
                self._values[name] = min(nodes, REPLICATION_FACTOR)
        copies = self._values["default.replication.factor"]
        # Unlike Kafka: an error; Kafka starts, and no topic can be created with the default.
        if copies > nodes and not self.accepts_any_replication_factor:
            raise ConfigError(
                f"default.replication.factor: {copies} is above the number of brokers, {nodes}; set it to {nodes}, start more "
                "nodes (--nodes), or set stuntbroker.replication.factor=any to accept it with fewer replicas"
            )
        # Unlike Kafka: ignored; Kafka starts, and can never create these topics. Configurations for clusters set both properties.
        self.unused += [name for name in INTERNAL_REPLICATION_FACTORS if self._values[name] > nodes]

    def _convert_units(self) -> None:
        """Set each time that is not given in milliseconds from the first other unit that is given."""
        for name, others in IN_OTHER_UNITS.items():
            for other, unit_ms in others:
                if name not in self.given and other in self.given:
                    value = self._values[other]
                    self._values[name] = value if value == -1 else value * unit_ms
                    break

    @overload
    def __getitem__(self, name: NumberName) -> int: ...
    @overload
    def __getitem__(self, name: FlagName) -> bool: ...
    @overload
    def __getitem__(self, name: TextName) -> str: ...
    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def of_listener(self, listener_name: str, name: str, mechanism: str = "") -> Any:
        """Return the value of a property for one listener, or for one SASL mechanism of it. Raises ConfigError.

        The first that is given counts: `listener.name.<listener>.<mechanism>.<property>`, `listener.name.<listener>.<property>`,
        `<property>`.
        """
        prefix = prefix_of(listener_name)
        own = f"{prefix}{mechanism.lower()}.{name}" if mechanism else ""
        if own not in self.given:
            own = prefix + name
        if own not in self.given:
            return self._values[name]
        try:
            return BROKER[name].read(self.given[own].strip())
        except ConfigError as fault:
            raise ConfigError(f"{own}: {fault}") from None

    @property
    def values(self) -> Mapping[str, Any]:
        """All values in force, by name."""
        return MappingProxyType(self._values)

    def replace(self, values: Mapping[str, Any]) -> None:
        """Replace all values in force."""
        self._values = dict(values)

    def as_given(self) -> BrokerConfig:
        """Return the configuration as given at startup, without the changes made while the broker ran."""
        config = BrokerConfig(self.given)
        config.ceilings.update(self.ceilings)
        lowered = {name: min(config.values[name], most) for name, most in self.ceilings.items()}
        config.replace({**config.values, **lowered})
        return config

    @property
    def accepts_any_replication_factor(self) -> bool:
        """Whether a replication factor above the number of nodes is accepted (`stuntbroker.replication.factor=any`)."""
        return bool(self._values["stuntbroker.replication.factor"] == "any")

    def topic_default(self, name: str) -> Any:
        """Return the default of a topic property: the value of the broker property, if there is one."""
        prop, broker_name = TOPIC[name]
        return prop.default if broker_name is None else self._values.get(broker_name, prop.default)
