"""Options of connections, and their validation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import IPv6Address
from typing import Any, Final, SupportsIndex

from stuntbroker.client.security import Security, check_kerberos, check_security
from stuntbroker.protocol.addresses import PORT_MAX

BOOTSTRAP_SERVERS: Final = "localhost"
METADATA_MAX_AGE_MS: Final = 300_000
CONNECTIONS_MAX_IDLE_MS: Final = 540_000
CONNECTION_DEFAULTS: Final = (BOOTSTRAP_SERVERS, METADATA_MAX_AGE_MS, CONNECTIONS_MAX_IDLE_MS)
"""Values of the options that cannot be given together with shared connections."""
BACKOFF_MS_MIN: Final = 1
"""Minimum back-off, even if `retry_backoff_ms` is 0: without it, retries would occupy a processor."""


class ConnectionOptions(Security, total=False):
    """Options of connections that producers share."""

    request_timeout_ms: int
    retry_backoff_ms: int
    metadata_max_age_ms: int
    connections_max_idle_ms: int | None


def check_at_least(least: int, **values: int) -> None:
    """Raise TypeError for a value that is not an integer, ValueError for one below `least`."""
    for name, value in values.items():
        if not isinstance(value, SupportsIndex) or isinstance(value, bool):
            raise TypeError(f"{name} is {value!r}: it has to be a whole number")
        if value < least:
            raise ValueError(f"{name} is {value}: it has to be at least {least}")


def check_at_most(most: int, **values: int) -> None:
    """Raise ValueError for a value above `most`."""
    for name, value in values.items():
        if value > most:
            raise ValueError(f"{name} is {value}: it can be at most {most}")


def check_connecting(
    security: Mapping[str, Any], *, metadata_max_age_ms: int, connections_max_idle_ms: int | None
) -> None:
    """Raise TypeError or ValueError for invalid connection options. `connections_max_idle_ms`: None means no limit."""
    check_security(security)
    check_kerberos(security)
    check_at_least(1, metadata_max_age_ms=metadata_max_age_ms)
    if connections_max_idle_ms is not None:
        check_at_least(1, connections_max_idle_ms=connections_max_idle_ms)


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
