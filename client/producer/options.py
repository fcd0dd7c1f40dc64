"""Options of a producer that do not concern its connections: their validation, and compression types."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from aiokafka import codec

from stuntbroker.client.connections.options import check_at_least, check_at_most
from stuntbroker.protocol.batches.records import CODEC_NAMES
from stuntbroker.protocol.primitives import INT32_MAX
from stuntbroker.protocol.transaction_states import TIMEOUT_NONE

CODECS: Final[dict[str | None, Callable[[], bool]]] = {
    None: lambda: True,
    "gzip": codec.has_gzip,
    "snappy": codec.has_snappy,
    "lz4": codec.has_lz4,
    "zstd": codec.has_zstd,
}
"""Compression type -> whether its library is installed."""


Partitioner = Callable[[bytes | None, list[int], list[int]], int]
"""(key, all partitions, partitions with a leader) -> partition; the same signature as in aiokafka."""
Serializer = Callable[[Any], bytes]


TRANSACTION_TIMEOUT_MS: Final = 60_000


def check_fixed(acks: object, enable_idempotence: object) -> None:
    """Raise ValueError unless these options of aiokafka have the values that a transactional producer needs."""
    if acks not in ("all", -1):
        raise ValueError(f"acks is {acks!r}: records of a transaction are acknowledged by 'all'")
    check_flag("enable_idempotence", enable_idempotence)
    if not enable_idempotence:
        raise ValueError(f"enable_idempotence is {enable_idempotence!r}: a transactional producer always is idempotent")


def check_flag(name: str, value: object) -> None:
    """Raise TypeError unless an option is True or False: any text, also "false", would count as true."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} is {value!r:.40}: it has to be True or False")


def timeout_ms_of(transaction_timeout_ms: int | None, enable_2pc: bool) -> int:
    """Return the transaction time-out to request, in ms. Raises TypeError, ValueError for invalid or conflicting options."""
    check_flag("enable_2pc", enable_2pc)
    if enable_2pc:
        if transaction_timeout_ms is not None:
            raise ValueError("transaction_timeout_ms cannot be set with enable_2pc: such transactions do not time out")
        return TIMEOUT_NONE
    timeout_ms = TRANSACTION_TIMEOUT_MS if transaction_timeout_ms is None else transaction_timeout_ms
    check_at_least(1, transaction_timeout_ms=timeout_ms)
    check_at_most(INT32_MAX, transaction_timeout_ms=timeout_ms)
    return timeout_ms


@dataclass(frozen=True, kw_only=True, slots=True)
class SendingOptions:
    """A producer's options for sending records, under their public names. Raises ValueError for numbers out of range."""

    codec: int
    """Number of the compression type in a batch's attributes."""
    max_batch_size: int
    max_request_size: int
    linger_ms: int
    request_timeout_ms: int
    delivery_timeout_ms: int
    retry_backoff_ms: int
    buffer_memory: int

    def __post_init__(self) -> None:
        # Unlike Kafka: delivery_timeout_ms may be less than linger_ms plus request_timeout_ms.
        check_at_least(0, linger_ms=self.linger_ms, retry_backoff_ms=self.retry_backoff_ms)
        check_at_least(
            1,
            max_batch_size=self.max_batch_size,
            max_request_size=self.max_request_size,
            request_timeout_ms=self.request_timeout_ms,
            delivery_timeout_ms=self.delivery_timeout_ms,
            buffer_memory=self.buffer_memory,
        )
        check_at_most(
            INT32_MAX,
            max_batch_size=self.max_batch_size,
            max_request_size=self.max_request_size,
            request_timeout_ms=self.request_timeout_ms,
        )


def check_functions(
    key_serializer: object = None,
    value_serializer: object = None,
    partitioner: object = None,
    on_measurement: object = None,
    tracer: object = None,
    **deserializers: object,
) -> None:
    """Raise TypeError for an option that is neither None nor a function, and for a `tracer` that is none."""
    functions = {
        "key_serializer": key_serializer,
        "value_serializer": value_serializer,
        "partitioner": partitioner,
        "on_measurement": on_measurement,
        **deserializers,
    }
    for name, option in functions.items():
        if option is not None and not callable(option):
            raise TypeError(f"{name} is {option!r:.40}: it has to be a function")
        if inspect.iscoroutinefunction(option):
            raise TypeError(
                f"{name} is {option!r:.40}: it is called, not awaited, so it cannot be a coroutine function"
            )
    if tracer is not None and not callable(getattr(tracer, "start_span", None)):
        raise TypeError(
            f"tracer is {tracer!r:.40}: it has to be a tracer, such as opentelemetry.trace.get_tracer(NAME)"
        )


def codec_number(compression_type: str | None) -> int:
    """Return the number of a compression type in batches. Raises ValueError, RuntimeError if its library is not installed."""
    if not isinstance(compression_type, str | None) or compression_type not in CODECS:
        names = ", ".join(name for name in CODECS if name)
        raise ValueError(f"compression_type {compression_type!r} is none of {names}, None")
    if not CODECS[compression_type]():
        raise RuntimeError(f"the library for compression_type {compression_type!r} is not installed")
    return CODEC_NAMES.index(compression_type or "none")
