"""Where the broker listens, and the address that it tells a client to come back to."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Final, NamedTuple

from stuntbroker.broker.config import BrokerConfig, ConfigError

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
USUAL_NAMES: Final[dict[str, str]] = {
    **{name: name for name in PROTOCOLS},
    **dict.fromkeys(("HOST", "EXTERNAL", "INTERNAL", "DOCKER"), "PLAINTEXT"),
}
"""Name of a listener -> its security protocol, where listener.security.protocol.map has no other."""


class Address(NamedTuple):
    """A host, as a name or an IP address, and a port."""

    host: str
    port: int

    def reachable(self) -> Address:
        """The loopback address instead of the one that stands for all addresses: no client can connect to that."""
        return Address({"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host), self.port)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str, what: str, protocols: Mapping[str, str] = USUAL_NAMES) -> Address:
    """`host:port`, `[v6]:port`, or either after `PLAINTEXT://` or another name that `protocols` has."""
    scheme, separator, address = text.strip().partition("://")
    if separator:
        protocol = protocols.get(scheme.upper())
        if protocol is None:
            raise ConfigError(f"{what}: {text!r}: listener.security.protocol.map has no protocol for {scheme}")
        if protocol != "PLAINTEXT":
            raise ConfigError(f"{what}: {text!r}: only PLAINTEXT listeners are served")
    host, colon, port = (address if separator else text.strip()).rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise ConfigError(f"{what}: {text!r} is not HOST:PORT")
    return Address(host.strip("[]"), int(port))


def protocols_by_listener(config: BrokerConfig) -> dict[str, str]:
    """Return the security protocol of each listener name (`listener.security.protocol.map`). Raises ConfigError."""
    protocols = dict(USUAL_NAMES)
    for entry in filter(None, map(str.strip, config["listener.security.protocol.map"].split(","))):
        name, _, protocol = entry.upper().partition(":")
        if not name or protocol not in PROTOCOLS:
            raise ConfigError(
                f"listener.security.protocol.map: {entry!r} is not NAME:PROTOCOL, of {', '.join(PROTOCOLS)}"
            )
        protocols[name] = protocol
    return protocols


def client_listeners(config: BrokerConfig) -> list[Address]:
    """What `listeners` has, but for the listeners of the controller, which is not served. Raises ConfigError."""
    protocols = protocols_by_listener(config)
    controllers = {name.strip().upper() for name in config["controller.listener.names"].split(",")}
    entries = filter(None, map(str.strip, config["listeners"].split(",")))
    return [
        parse_address(entry, "listeners", protocols)
        for entry in entries
        if entry.partition("://")[0].upper() not in controllers
    ]


def bind(host: str, port: int) -> list[socket.socket]:
    """Bound sockets for every address of `host`, all on one port (0: the kernel's choice). Raises OSError."""
    families = {"localhost": ("127.0.0.1", "::1"), "": ("0.0.0.0", "::"), "0.0.0.0": ("0.0.0.0",)}.get(host, (host,))
    sockets: list[socket.socket] = []
    for number, address in enumerate(families):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            if number == 0 and address not in ("127.0.0.1", "0.0.0.0", "::1", "::"):
                family, _, _, _, resolved = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
                address = str(resolved[0])
            bound = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            bound.bind((address, port))
        except OSError:
            if number == 0:
                raise
            continue  # No IPv6 here, or the port is taken there: IPv4 alone will do.
        bound.setblocking(False)
        port = bound.getsockname()[1]
        sockets.append(bound)
    return sockets


def gateway() -> str | None:
    """The default gateway's IPv4 address: inside a container, the address that mapped ports come from."""
    try:
        with open("/proc/net/route", encoding="ascii") as file:
            for line in file.readlines()[1:]:
                fields = line.split()
                if fields[1] == "00000000" and int(fields[3], 16) & 2:
                    return socket.inet_ntoa(int(fields[2], 16).to_bytes(4, "little"))
    except (OSError, ValueError, IndexError):
        return None
    return None


class Advertised:
    """Which address to tell: the configured one; for a client that came through a container's mapped port, localhost and
    that port; else the very address by which the client came."""

    __slots__ = ("_fixed", "_gateway", "_mapped_port")

    def __init__(self, advertised_listeners: str, mapped_port: int, protocols: Mapping[str, str] = USUAL_NAMES) -> None:
        first = advertised_listeners.split(",")[0]
        self._fixed = parse_address(first, "advertised.listeners", protocols) if first.strip() else None
        self._gateway = gateway() if mapped_port or _in_container() else None
        self._mapped_port = mapped_port

    def for_client(self, local: tuple[str, int], peer_host: str) -> Address:
        """Return the address that a client is told. `local`: the address that it has connected to."""
        if self._fixed is not None:
            return self._fixed
        host, port = local
        if self._gateway is not None and peer_host == self._gateway and not host.startswith("127."):
            return Address("localhost", self._mapped_port or port)
        return Address(host.removeprefix("::ffff:"), port)


def _in_container() -> bool:
    import os

    return os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv")
