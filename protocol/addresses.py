"""Addresses: a host and a port, as `bootstrap.servers`, `listeners` and Metadata have them; security protocols of listeners."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
PORT_MAX: Final = 65_535
PORT_DEFAULT: Final = 9_092
"""The port of a broker, where none is given."""
BOOTSTRAP_DEFAULT: Final = f"localhost:{PORT_DEFAULT}"
HOST: Final = re.compile(r"[0-9A-Za-z._:%-]*")
"""Characters of a host name or IP address, as in Kafka; an IPv6 address has colons, and may have a zone after `%`."""
EVERY_ADDRESS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Wildcard address (all addresses of a machine) -> loopback address of the same family."""


class Address(NamedTuple):
    """A host, as a name or an IP address, and a port."""

    host: str
    port: int

    def reachable(self) -> Address:
        """Return the address with a wildcard host replaced by the loopback address, to which a client can connect."""
        return Address(EVERY_ADDRESS.get(self.host, self.host), self.port)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """Return the address in `HOST:PORT`, with an IPv6 host in brackets. Raises ValueError.

    As for a listener, the host may be empty (all addresses), and the port may be 0 (any free port).
    """
    host, colon, port = text.rpartition(":")
    if not (colon and port.isascii() and port.isdigit() and len(port) < 6 and int(port) <= PORT_MAX):
        raise ValueError(f"{text!r} is not HOST:PORT")
    host = host.removeprefix("[").removesuffix("]")
    if not HOST.fullmatch(host):
        raise ValueError(f"{text!r} is not HOST:PORT: a host has letters, digits and '-', '.', '_' only")
    return Address(host, int(port))


def parse_bootstrap(text: str) -> list[Address]:
    """Return the addresses in `HOST:PORT[,HOST:PORT...]`, to which a client can connect. Raises ValueError."""
    addresses = []
    for part in map(str.strip, text.split(",")):
        address = parse_address(part)
        is_bare_ipv6 = ":" in address.host and not part.startswith("[")
        if is_bare_ipv6 or not all(address):
            raise ValueError(f"{part!r} is not HOST:PORT")
        addresses.append(address)
    return addresses


def java_address(host: str) -> str:
    """Return an IP address as Java writes it: that of version 6 with all eight numbers, as `0:0:0:0:0:0:0:1`."""
    if ":" not in host:
        return host
    from ipaddress import IPv6Address

    address = IPv6Address(host.partition("%")[0])
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return ":".join(f"{int(number, 16):x}" for number in address.exploded.split(":"))
