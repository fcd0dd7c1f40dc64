"""Options of a producer: their validation, and compression types."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Any, Final, SupportsIndex

from aiokafka import codec

from stuntbroker.client.security import Security, check_security
from stuntbroker.protocol.addresses import PORT_MAX
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


class ConnectionOptions(Security, total=False):
    """Options of connections that producers share."""

    request_timeout_ms: int
    retry_backoff_ms: int
    metadata_max_age_ms: int
    connections_max_idle_ms: int | None


Partitioner = Callable[[bytes | None, list[int], list[int]], int]
"""(key, all partitions, partitions with a leader) -> partition; the same signature as in aiokafka."""
Serializer = Callable[[Any], bytes]


TRANSACTION_TIMEOUT_MS: Final = 60_000
BOOTSTRAP_SERVERS: Final = "localhost"
METADATA_MAX_AGE_MS: Final = 300_000
CONNECTIONS_MAX_IDLE_MS: Final = 540_000
CONNECTION_DEFAULTS: Final = (BOOTSTRAP_SERVERS, METADATA_MAX_AGE_MS, CONNECTIONS_MAX_IDLE_MS)
"""Values of the options that cannot be given together with shared connections."""
BACKOFF_MS_MIN: Final = 1
"""Minimum back-off, even if `retry_backoff_ms` is 0: without it, retries would occupy a processor."""


def check_at_least(least: int, **values: int) -> None:
    """Raise TypeError for a value that is not an integer, ValueError for one below `least`."""
    for name, value in values.items():
        if not isinstance(value, SupportsIndex):
            raise TypeError(f"{name} is {value!r}: it has to be a whole number")
        if value < least:
            raise ValueError(f"{name} is {value}: it has to be at least {least}")


def check_at_most(most: int, **values: int) -> None:
    """Raise ValueError for a value above `most`."""
    for name, value in values.items():
        if value > most:
            raise ValueError(f"{name} is {value}: it can be at most {most}")


def check_fixed(acks: object, enable_idempotence: object) -> None:
    """Raise ValueError unless these options of aiokafka have the values that a transactional producer needs."""
    if acks not in ("all", -1):
        raise ValueError(f"acks is {acks!r}: records of a transaction are acknowledged by 'all'")
    if not enable_idempotence:
        raise ValueError(f"enable_idempotence is {enable_idempotence!r}: a transactional producer always is idempotent")


def check_connecting(
    security: Mapping[str, Any], *, metadata_max_age_ms: int, connections_max_idle_ms: int | None
) -> None:
    """Raise TypeError or ValueError for invalid connection options. `connections_max_idle_ms`: None means no limit."""
    check_security(security)
    check_at_least(1, metadata_max_age_ms=metadata_max_age_ms)
    if connections_max_idle_ms is not None:
        check_at_least(1, connections_max_idle_ms=connections_max_idle_ms)


def timeout_ms_of(transaction_timeout_ms: int | None, enable_2pc: bool) -> int:
    """Return the transaction time-out to request, in ms. Raises ValueError for invalid or conflicting options."""
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


def check_bootstrap(bootstrap_servers: object) -> None:
    """Raise TypeError, ValueError unless this is HOST:PORT, several with commas, or a list of them."""
    servers = [bootstrap_servers] if isinstance(bootstrap_servers, str) else bootstrap_servers
    if not isinstance(servers, list | tuple) or not all(isinstance(server, str) for server in servers):
        raise TypeError(f"bootstrap_servers is {bootstrap_servers!r:.40}: it has to be a text or a list of texts")
    if not any(server.strip() for server in servers):
        raise ValueError(f"bootstrap_servers is {bootstrap_servers!r:.40}: give at least one HOST:PORT")
    if not isinstance(bootstrap_servers, str) and any("," in server for server in servers):
        raise ValueError(f"bootstrap_servers is {bootstrap_servers!r:.40}: each text of a list is one HOST:PORT")
    for address in ",".join(servers).split(","):
        if (reason := _refusal_of(address.strip())) is not None:
            raise ValueError(f"bootstrap_servers is {bootstrap_servers!r:.40}: {reason}")


def _refusal_of(address: str) -> str | None:
    """Return what is wrong with HOST:PORT, HOST, [IPV6]:PORT, [IPV6] or IPV6: aiokafka would connect to somewhere else."""
    if "/" in address:
        return "it is HOST:PORT, without a protocol or a path"
    if address.startswith("["):
        host, bracket, after_bracket = address[1:].partition("]")
        if not bracket or after_bracket[:1] not in ("", ":"):
            return "an IPv6 address with a port is [ADDRESS]:PORT"
        colon, port = after_bracket[:1], after_bracket[1:]
    elif address.count(":") > 1:
        host, colon, port = address, "", ""
    else:
        host, colon, port = address.partition(":")
    if ":" in host and not _is_ipv6(host):
        return f"{host!r} is no IPv6 address; with a port it is [ADDRESS]:PORT"
    if colon and not host:
        return "it is HOST:PORT"
    if colon and not (re.fullmatch(r"[0-9]{1,5}", port.strip()) and int(port) <= PORT_MAX):
        return f"a port is a number from 0 to {PORT_MAX}"
    return None


def _is_ipv6(host: str) -> bool:
    try:
        IPv6Address(host)
    except ValueError:
        return False
    return True


def check_functions(
    key_serializer: object = None,
    value_serializer: object = None,
    partitioner: object = None,
    on_measurement: object = None,
) -> None:
    """Raise TypeError for an option that is neither None nor a function."""
    given = {
        "key_serializer": key_serializer,
        "value_serializer": value_serializer,
        "partitioner": partitioner,
        "on_measurement": on_measurement,
    }
    for name, option in given.items():
        if option is not None and not callable(option):
            raise TypeError(f"{name} is {option!r:.40}: it has to be a function")


def codec_number(compression_type: str | None) -> int:
    """Return the number of a compression type in batches. Raises ValueError, RuntimeError if its library is not installed."""
    if not isinstance(compression_type, str | None) or compression_type not in CODECS:
        names = ", ".join(name for name in CODECS if name)
        raise ValueError(f"compression_type {compression_type!r} is none of {names}, None")
    if not CODECS[compression_type]():
        raise RuntimeError(f"the library for compression_type {compression_type!r} is not installed")
    return CODEC_NAMES.index(compression_type or "none")
