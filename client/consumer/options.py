"""Options of a consumer that AIOKafkaConsumer would take unchecked: their validation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor

from stuntbroker.client.connections.options import check_at_least, check_bootstrap
from stuntbroker.client.consumer.types import ConsumerOptions
from stuntbroker.client.producer.arguments import check_text
from stuntbroker.client.producer.options import check_functions
from stuntbroker.client.security import Security, check_kerberos, check_security

READ_COMMITTED: Final = "read_committed"
RESETS: Final = ("earliest", "latest", "none")
SESSION_TIMEOUT_MS: Final = 10_000
HEARTBEAT_INTERVAL_MS: Final = 3_000
"""Defaults of aiokafka."""
_OPTIONAL: Final = frozenset({"rebalance_timeout_ms", "max_poll_records", "connections_max_idle_ms"})
"""Options of which None means no limit, or another default."""
_NUMBERS: Final = frozenset(
    name for name in ConsumerOptions.__annotations__ if name.endswith(("_ms", "_bytes", "_records"))
)
_POSITIVE: Final = frozenset(
    {
        "heartbeat_interval_ms",
        "max_poll_interval_ms",
        "max_poll_records",
        "metadata_max_age_ms",
        "rebalance_timeout_ms",
        "request_timeout_ms",
        "session_timeout_ms",
    }
)


def check_consumer_options(
    *,
    group_id: str,
    auto_offset_reset: str = "earliest",
    tracer: object = None,
    on_measurement: object = None,
    **options: Any,
) -> str:
    """Return `auto_offset_reset` in lower case. Raises TypeError, ValueError."""
    check_text("group_id", group_id)
    if not group_id:
        raise ValueError("group_id is empty: a TransactionalConsumer reads as a member of a group")
    if unknown := sorted(options.keys() - ConsumerOptions.__annotations__.keys()):
        raise TypeError(f"unknown option {unknown[0]!r} of TransactionalConsumer")
    check_bootstrap(options.get("bootstrap_servers", "localhost"))
    deserializers = {name: options.get(name) for name in ("key_deserializer", "value_deserializer")}
    check_functions(tracer=tracer, on_measurement=on_measurement, **deserializers)
    check_text("client_id", options.get("client_id", ""))
    for name in ("group_instance_id", "client_rack"):
        if options.get(name) is not None:
            check_text(name, options[name])
    security = {name: option for name, option in options.items() if name in Security.__annotations__}
    check_security(security)
    check_kerberos(security)
    _check_numbers({name: value for name, value in options.items() if name in _NUMBERS})
    _check_assignors(options.get("partition_assignment_strategy"))
    if options.get("isolation_level", READ_COMMITTED) != READ_COMMITTED:
        raise ValueError("a TransactionalConsumer reads with isolation_level='read_committed'")
    if options.get("enable_auto_commit", False):
        raise ValueError("a TransactionalConsumer does not commit by itself: use send_offsets_to_transaction")
    reset = auto_offset_reset.lower() if isinstance(auto_offset_reset, str) else auto_offset_reset
    if reset not in RESETS:
        raise ValueError(f"auto_offset_reset is {auto_offset_reset!r}: it is one of {', '.join(RESETS)}")
    return reset


def _check_numbers(numbers: Mapping[str, Any]) -> None:
    given = {name: value for name, value in numbers.items() if value is not None or name not in _OPTIONAL}
    for name, value in given.items():
        check_at_least(1 if name in _POSITIVE else 0, **{name: value})
    session_ms = given.get("session_timeout_ms", SESSION_TIMEOUT_MS)
    heartbeat_ms = given.get("heartbeat_interval_ms", HEARTBEAT_INTERVAL_MS)
    if heartbeat_ms >= session_ms and given.keys() & {"session_timeout_ms", "heartbeat_interval_ms"}:
        raise ValueError(
            f"heartbeat_interval_ms is {heartbeat_ms}: it has to be less than session_timeout_ms, which is {session_ms}, "
            "or the coordinator removes the consumer from its group between two heartbeats"
        )


def _check_assignors(assignors: object) -> None:
    if assignors is None:
        return
    classes = assignors if isinstance(assignors, tuple | list) else None
    if classes is None or not all(
        isinstance(each, type) and issubclass(each, AbstractPartitionAssignor) for each in classes
    ):
        raise TypeError(f"partition_assignment_strategy is {assignors!r:.40}: it has to be a list of assignor classes")
    if not classes:
        raise ValueError("partition_assignment_strategy is empty: give at least one assignor class")
