"""Dynamic broker configuration: changes for all brokers (level ""), or for this broker (its id), while it runs.

The value in force is the first that is set: this broker's, that of all brokers, the one given at startup, the default. A
change is written to the metadata journal before its response, and survives a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from stuntbroker.broker.configuration.config import BrokerConfig, admits_no_client
from stuntbroker.broker.configuration.dynamic_properties import (
    ASSIGNMENT_INTERVAL_MS_MAX,
    CONNECTION_CREATION_RATE,
    DYNAMIC,
    LIST,
    ONLY_PER_LISTENER,
    PER_BROKER,
)
from stuntbroker.broker.configuration.listener_properties import LISTENER_PREFIX
from stuntbroker.broker.configuration.properties import (
    BROKER,
    MAX_CONNECTIONS,
    MAX_PER_IP,
    MAX_PER_IP_OVERRIDES,
    OF_TOPICS,
    ConfigError,
    Property,
)
from stuntbroker.broker.configuration.value_types import problem_of_value
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.request_values import APPEND, DELETE, SET, SUBTRACT

CLUSTER: Final = ""
MIN_ISR: Final = "min.insync.replicas"
OPERATIONS: Final = {APPEND: "append", SUBTRACT: "subtract"}
# Unlike Kafka: listeners cannot change while the broker runs, nor max.connections become 0, as no client could connect.
NOT_DYNAMIC_HERE: Final = frozenset({"listeners", "listener.security.protocol.map"})
LIMITS_OF_LISTENERS: Final = (".max.connections", ".max.connection.creation.rate", ".num.network.threads")
_LOCKS_OUT_CLIENTS: Final = "it would let no client in; set it when the broker starts"

Levels = dict[str, dict[str, str]]


class Change(NamedTuple):
    """One change of a configuration: operation as in IncrementalAlterConfigs (0 set, 1 delete, 2 append, 3 subtract)."""

    name: str
    operation: int
    value: str


class Refusal(Exception):
    """A change that cannot be made, with Kafka's error and message."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


class DynamicConfig:
    """Changed properties by level; updates `config.values` with each change."""

    def __init__(
        self,
        config: BrokerConfig,
        node_id: int,
        known: Mapping[str, Mapping[str, str]],
        journal: Callable[[dict[str, Any]], None],
    ) -> None:
        """`known`: values from the journal. `journal` writes a change; raises StorageError."""
        self.node = str(node_id)
        self.levels: Levels = {level: dict(known.get(level, {})) for level in (CLUSTER, self.node)}
        self._min_isr_at_start = str(config[MIN_ISR])
        # A new Kafka cluster sets min.insync.replicas for all brokers to its value at the start (KIP-966).
        self.levels[CLUSTER].setdefault(MIN_ISR, self._min_isr_at_start)
        self.changed: Callable[[], None] | None = None
        """Called after values in force have changed."""
        self._config = config
        self._started = dict(config.values)
        self._journal = journal
        self._apply()

    def as_changes(self) -> list[dict[str, Any]]:
        """Return the changes to keep when the journal is rewritten."""
        first = {CLUSTER: {MIN_ISR: self._min_isr_at_start}, self.node: {}}
        return [_line(level, values) for level, values in self.levels.items() if values != first[level]]

    def alter(self, level: str, changes: Sequence[Change], validate_only: bool) -> None:
        """Make all of the changes or none. Raises Refusal, and StorageError."""
        after = dict(self.levels[level])
        for change in changes:
            _change(after, change)
        self._put(level, after, [change for change in changes if change.operation != DELETE], changes, validate_only)

    def replace(self, level: str, values: Mapping[str, str], validate_only: bool) -> None:
        """Replace all properties of a level. Raises Refusal, and StorageError."""
        changes = [Change(name, SET, value) for name, value in values.items()]
        gone = [Change(name, DELETE, "") for name in self.levels[level] if name not in values]
        self._put(level, dict(values), changes, [*changes, *gone], validate_only)

    def _put(
        self,
        level: str,
        after: dict[str, str],
        written: Sequence[Change],
        changes: Sequence[Change],
        validate_only: bool,
    ) -> None:
        _check(level, {change.name: after[change.name] for change in written})
        _check_min_isr(level, after, changes)
        self._check_that_clients_get_in({**self.levels, level: after}, changes)
        if not validate_only and after != self.levels[level]:
            self._journal(_line(level, after))
            self.levels[level] = after
            self._apply()

    def _apply(self) -> None:
        """Recompute the values in force from the levels."""
        values = self._values_of(self.levels)
        before = self._config.values
        self._config.replace(values)
        if values != before and self.changed is not None:
            self.changed()

    def _values_of(self, levels: Levels) -> dict[str, Any]:
        """Return the values in force with these levels. Raises Refusal."""
        values = dict(self._started)
        for level in (CLUSTER, self.node):
            for name, text in levels[level].items():
                known = _property(name)
                if known is not None:
                    value = _read(known, name, text)
                    ceiling = self._config.ceilings.get(name)
                    values[name] = value if ceiling is None else min(value, ceiling)
        return values

    def _check_that_clients_get_in(self, levels: Levels, changes: Sequence[Change]) -> None:
        """Raise Refusal if no client could connect any more, and so none could undo it."""
        values = self._values_of(levels)
        if admits_no_client(values) or not values[MAX_CONNECTIONS]:
            for change in changes:
                if change.name in (MAX_CONNECTIONS, MAX_PER_IP, MAX_PER_IP_OVERRIDES):
                    raise Refusal(
                        ErrorCode.INVALID_REQUEST,
                        f"Invalid value {change.value} for configuration {change.name}: {_LOCKS_OUT_CLIENTS}",
                    )


def _line(level: str, values: dict[str, str]) -> dict[str, Any]:
    return {"broker_configs": level, "set": values}


def _property(name: str) -> Property | None:
    """Return the definition of a dynamic property that has an effect here; None for others."""
    if name not in DYNAMIC or name in PER_BROKER:
        return None
    return BROKER.get(name) or OF_TOPICS.get(name)


def _read(known: Property, name: str, text: str) -> Any:
    try:
        return known.read(text.strip())
    except ConfigError as fault:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"Invalid value {text} for configuration {name}: {fault}") from None


def _change(after: dict[str, str], change: Change) -> None:
    """Make one change to the values of a level. Raises Refusal."""
    name, operation, value = change
    if operation == DELETE:
        after.pop(name, None)
        return
    if operation == SET:
        after[name] = value
        return
    if operation not in OPERATIONS:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"Unknown operations type {operation}")
    kind = DYNAMIC.get(name) or (BROKER[name].kind if name in BROKER else None)
    if kind is None:
        raise Refusal(ErrorCode.INVALID_CONFIG, f"Unknown config name: {name}")
    if kind != LIST:
        verb = OPERATIONS[operation]
        raise Refusal(ErrorCode.INVALID_CONFIG, f"Config value {verb} is not allowed for config key: {name}")
    before = after.get(name, BROKER[name].default if name in BROKER else "")
    after[name] = merged_list(before, value, operation)


def merged_list(before: str, value: str, operation: int) -> str:
    """Return a comma-separated list after APPEND or SUBTRACT of the entries of another list.

    As in Kafka 4.3.1, a blank is part of an entry, and SUBTRACT removes only the first of several equal entries.
    """
    entries = before.split(",") if before else []
    for entry in value.split(","):
        if operation == SUBTRACT and entry in entries:
            entries.remove(entry)
        elif operation == APPEND and entry not in entries:
            entries.append(entry)
    return ",".join(entries)


def _check(level: str, values: Mapping[str, str]) -> None:
    """Check that properties may be set on a level, in Kafka's order; unknown names may. Raises Refusal."""
    # Unlike Kafka: thread counts may change by any factor, and the reasons for invalid values have different wording.
    read_only = [
        name for name in values if (name in BROKER and not BROKER[name].is_dynamic) or name in _read_only_names()
    ]
    if read_only:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: [{', '.join(read_only)}]")
    per_listener = [name for name in values if name in ONLY_PER_LISTENER]
    if per_listener:
        raise Refusal(
            ErrorCode.INVALID_REQUEST,
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            f"[{', '.join(per_listener)}]",
        )
    for name, text in values.items():
        known = _property(name)
        if known is not None:
            _read(known, name, text)
        elif name in DYNAMIC:
            _check_value(name, text)
    per_broker = [name for name in values if name in PER_BROKER or _is_for_one_listener(name)]
    if per_broker and level == CLUSTER:
        raise Refusal(
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs at default cluster level, broker id must be specified: "
            f"[{', '.join(per_broker)}]",
        )
    for name, text in values.items():
        if name in NOT_DYNAMIC_HERE:
            raise Refusal(
                ErrorCode.INVALID_REQUEST, f"Invalid value {text} for configuration {name}: {_LOCKS_OUT_CLIENTS}"
            )


def _is_for_one_listener(name: str) -> bool:
    """Whether a property is for one listener of one broker; limits of a listener may be set for all brokers, too."""
    return name.startswith(LISTENER_PREFIX) and not name.endswith(LIMITS_OF_LISTENERS)


def _read_only_names() -> frozenset[str]:
    """Return Kafka's read-only properties, including those without effect here."""
    from stuntbroker.broker.configuration.kafka_properties import KAFKA_4_3_1  # Only loaded to check a change.

    return KAFKA_4_3_1 - DYNAMIC.keys()


def _check_value(name: str, text: str) -> None:
    """Check the type and the range of a value without effect here. Raises Refusal."""
    if why := problem_of_value(name, DYNAMIC[name], text) or _problem_of_change(name, text):
        raise Refusal(ErrorCode.INVALID_REQUEST, f"Invalid value {text} for configuration {name}: {why}")


def _problem_of_change(name: str, text: str) -> str:
    """Return why Kafka refuses a number that it accepts at the start; an empty text if it accepts it."""
    if name == CONNECTION_CREATION_RATE and int(text) < 1:
        return "Value must be at least 1"
    if name.endswith(".assignment.interval.ms") and int(text) > ASSIGNMENT_INTERVAL_MS_MAX:
        return f"Value must be no more than {ASSIGNMENT_INTERVAL_MS_MAX}"
    return ""


def _check_min_isr(level: str, after: Mapping[str, str], changes: Sequence[Change]) -> None:
    if level != CLUSTER and any(change.name == MIN_ISR for change in changes):
        raise Refusal(
            ErrorCode.INVALID_CONFIG, "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
        )
    if level == CLUSTER and MIN_ISR not in after:
        raise Refusal(
            ErrorCode.INVALID_CONFIG, "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
        )
