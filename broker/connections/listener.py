"""Listeners: the addresses on which the broker listens, and the addresses that it advertises to clients.

A listener has a name, an address to listen on, and usually an advertised address: a client gets the advertised address of
the listener that it connected to. Rules and properties are Kafka's (`listeners`, `advertised.listeners`,
`listener.security.protocol.map`); controller listeners are ignored.
"""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from stuntbroker.broker.configuration.config import BrokerConfig
from stuntbroker.broker.configuration.listener_properties import CLIENT_AUTH, LISTENER_PREFIX, is_listener_property
from stuntbroker.broker.configuration.properties import BROKER, KAFKA, ConfigError
from stuntbroker.broker.connections.binding import PortReservation, bind
from stuntbroker.broker.permissions.authorizer import ANONYMOUS, Principal
from stuntbroker.protocol.addresses import (
    EVERY_ADDRESS,
    PORT_DEFAULT,
    PORT_MAX,
    SECURITY_PROTOCOLS,
    Address,
    parse_address,
)
from stuntbroker.protocol.versions import RELEASE

if TYPE_CHECKING:
    from stuntbroker.broker.security.listener_security import ListenerSecurity

DEFAULT_NAME: Final = "PLAINTEXT"
"""Name of a listener that is configured without a name."""
USUAL_NAMES: Final[dict[str, str]] = {
    **{name: name for name in SECURITY_PROTOCOLS},
    **dict.fromkeys(("HOST", "EXTERNAL", "INTERNAL", "DOCKER"), "PLAINTEXT"),
}
"""Default security protocol of listener names that are not in listener.security.protocol.map."""
PORT_TRIES: Final = 100


class CannotListen(Exception):
    """The address of a listener cannot be bound."""

    def __init__(self, listener: Listener, fault: OSError) -> None:
        super().__init__(f"cannot listen on {listener.host}:{listener.port}: {fault.strerror}")
        self.listener = listener
        self.fault = fault


def parse_listener(text: str, what: str, protocols: Mapping[str, str] = USUAL_NAMES) -> tuple[str, Address]:
    """Return (listener name, address) of `NAME://host:port`, or of `host:port` alone. Raises ConfigError.

    An IPv6 host must be in brackets. `protocols`: security protocol of each name; `what`: the property, for error messages.
    """
    name, separator, address = text.strip().rpartition("://")
    if separator:
        protocol = protocols.get(name.upper())
        if protocol is None:
            raise ConfigError(f"{what}: {text!r}: listener.security.protocol.map has no protocol for {name}")
    try:
        return name.upper() if separator else DEFAULT_NAME, parse_address(address)
    except ValueError as fault:
        raise ConfigError(f"{what}: {fault}") from None


def protocols_by_listener(config: BrokerConfig) -> dict[str, str]:
    """Return the security protocol of each listener name (`listener.security.protocol.map`). Raises ConfigError."""
    protocols = dict(USUAL_NAMES)
    for entry in filter(None, map(str.strip, config["listener.security.protocol.map"].split(","))):
        name, _, protocol = entry.upper().partition(":")
        if not name or protocol not in SECURITY_PROTOCOLS:
            raise ConfigError(
                f"listener.security.protocol.map: {entry!r} is not NAME:PROTOCOL, of {', '.join(SECURITY_PROTOCOLS)}"
            )
        protocols[name] = protocol
    return protocols


def listeners_of(config: BrokerConfig, host: str | None = None, port: int | None = None) -> list[Listener]:
    """Return the listeners for clients, node by node, in the order of `listeners`. Raises ConfigError.

    `host` and `port` of the command line replace those of `listeners`, which must have only one listener then. Each further
    node (`stuntbroker.nodes`) uses the next higher ports.
    """
    bound = _named(config, "listeners")
    advertised = dict(_named(config, "advertised.listeners"))
    if not bound:
        if len(advertised) > 1:
            names = ", ".join(advertised)
            raise ConfigError(
                f"advertised.listeners has {names}, and listeners is not set: name each of them there too"
            )
        bound = [(next(iter(advertised), DEFAULT_NAME), Address("localhost", PORT_DEFAULT))]
    if host is not None or port is not None:
        if len(bound) > 1:
            raise ConfigError(f"--host and --port are for one listener, and listeners has {len(bound)}: leave them out")
        (name, default) = bound[0]
        bound = [(name, Address(default.host if host is None else host, default.port if port is None else port))]
    if unknown := advertised.keys() - {name for name, _ in bound}:
        raise ConfigError(
            f"advertised.listeners: listeners has no {', '.join(sorted(unknown))}: the names must be the same in both"
        )
    for name, address in advertised.items():
        # Unlike Kafka: Kafka refuses only 0.0.0.0.
        if address.host in EVERY_ADDRESS:
            raise ConfigError(
                f"advertised.listeners: {name}://{address}: no client can connect to it: give a host that clients can reach"
            )
    bound_names = [name for name, _ in bound]
    protocols = protocols_by_listener(config)
    personalities = _by_listener(config, "stuntbroker.personality", bound_names)
    profiles = _by_listener(config, "stuntbroker.profile", bound_names)
    principals = _principals(config, bound_names)
    first = [
        Listener(
            name,
            *address,
            config,
            advertised.get(name),
            personalities[name],
            profiles[name],
            security=_security(name, protocols[name], config),
            principal=principals[name],
        )
        for name, address in bound
    ]
    _check_ports([(each.name, Address(each.host, each.port)) for each in first])
    nodes = config["stuntbroker.nodes"]
    for each in first:
        for what, port in (("listeners", each.port), ("advertised.listeners", each.advertised_port)):
            if port and port + nodes - 1 > PORT_MAX:
                raise ConfigError(
                    f"{what}: {nodes} nodes use {port} and the {nodes - 1} ports after it; the largest port is {PORT_MAX}"
                )
    listeners = [listener.of_node(number) for number in range(nodes) for listener in first]
    advice = f": with {nodes} nodes, a listener also uses the {nodes - 1} ports after its own"
    _check_ports([(each.name, Address(each.host, each.port)) for each in listeners], advice)
    return listeners


def properties_of_no_listener(config: BrokerConfig, listeners: Iterable[Listener]) -> list[str]:
    """Return the given properties that no listener uses.

    The listener of `listener.name.<listener>.<property>` may not exist, or have capital letters, as Kafka looks for small ones.
    `ssl.client.auth` without a prefix is for listeners without SASL.
    """
    listeners = list(listeners)
    prefixes = {each.name.lower() for each in listeners}
    unused = [
        name
        for name in config.given
        if is_listener_property(name) and name.removeprefix(LISTENER_PREFIX).partition(".")[0] not in prefixes
    ]
    if CLIENT_AUTH in config.given and not any(
        each.security is not None and each.security.protocol == "SSL" for each in listeners
    ):
        unused.append(CLIENT_AUTH)
    return unused


def _security(name: str, protocol: str, config: BrokerConfig) -> ListenerSecurity | None:
    """Return TLS and SASL of a listener; None for PLAINTEXT. Raises ConfigError."""
    if protocol == "PLAINTEXT":
        return None
    from stuntbroker.broker.security.listener_security import ListenerSecurity

    return ListenerSecurity(name, protocol, config)


def _named(config: BrokerConfig, what: str) -> list[tuple[str, Address]]:
    """Return the entries of `listeners` or `advertised.listeners`, except those of the controller. Raises ConfigError."""
    protocols = protocols_by_listener(config)
    controllers = {name.strip().upper() for name in config["controller.listener.names"].split(",")}
    entries = [entry.strip() for entry in config.values[what].split(",") if entry.strip()]
    named = [
        parse_listener(entry, what, protocols)
        for entry in entries
        if entry.partition("://")[0].upper() not in controllers
    ]
    if entries and not named and what == "listeners":
        raise ConfigError(
            f"listeners: {config.values[what]!r} has listeners of the controller only: add one for clients"
        )
    for name in _repeated(name for name, _ in named):
        raise ConfigError(f"{what}: two listeners have the name {name}")
    return named


def _by_listener(config: BrokerConfig, what: str, names: list[str]) -> dict[str, str]:
    """Return the value of a property for each listener. Raises ConfigError.

    An entry VALUE is for all listeners, NAME:VALUE for one; a listener without an entry gets the property's default.
    """
    values = dict.fromkeys(names, BROKER[what].default)
    seen = set()
    for entry in map(str.strip, config.values[what].split(",")):
        name, _, value = entry.rpartition(":")
        if name and name.upper() not in values:
            raise ConfigError(f"{what}: {entry!r}: listeners has no {name.upper()}")
        if name.upper() in seen:
            raise ConfigError(
                f"{what}: {entry!r}: there is another value for {name.upper() or 'all listeners'} before it"
            )
        seen.add(name.upper())
        values |= {name.upper(): value} if name else dict.fromkeys(names, value)
    return values


def _principals(config: BrokerConfig, names: list[str]) -> dict[str, Principal]:
    """Return the principal of each listener's clients that do not authenticate. Raises ConfigError."""
    principals = dict.fromkeys(names, ANONYMOUS)
    if not config["stuntbroker.principal"]:
        return principals
    from stuntbroker.broker.configuration.permission_values import USER_TYPE

    for entry in filter(None, map(str.strip, config["stuntbroker.principal"].split(";"))):
        listener, _, principal = ("", "", entry) if entry.startswith(USER_TYPE) else entry.partition(":")
        if listener and listener.upper() not in principals:
            raise ConfigError(f"stuntbroker.principal: {entry!r}: listeners has no {listener.upper()}")
        known = Principal(USER_TYPE.rstrip(":"), principal.removeprefix(USER_TYPE))
        principals |= {listener.upper(): known} if listener else dict.fromkeys(names, known)
    return principals


def _repeated(values: Iterable[str]) -> list[str]:
    return [value for value, count in Counter(values).items() if count > 1]


def _check_ports(bound: list[tuple[str, Address]], advice: str = "") -> None:
    """Raise ConfigError if two listeners have the same port, unless one is IPv4 and the other IPv6, as in Kafka."""
    for number, (_, address) in enumerate(bound):
        for _, other in bound[:number]:
            if address.port == other.port and address.port and (":" in address.host) == (":" in other.host):
                raise ConfigError(f"listeners: two listeners have the port {address.port}{advice}")


def bind_all(listeners: list[Listener], backlog: int) -> list[tuple[Listener, list[socket.socket]]]:
    """Bind the listeners of all nodes. Raises CannotListen.

    If the kernel chooses the port of the first node, the further nodes use the ports that follow it.
    """
    is_chosen = any(listener.node_number and not listener.port for listener in listeners)
    for left in reversed(range(PORT_TRIES)):
        first: dict[str, int] = {}
        bound: list[tuple[Listener, list[socket.socket]]] = []
        try:
            for listener in listeners:
                chosen = first.get(listener.name, 0)
                sockets = listener.bind(chosen and chosen + listener.node_number)
                bound.append((listener, sockets))
                first.setdefault(listener.name, listener.addresses[0].port)
                if is_chosen:
                    # Another process may have bound the next port too: the first one to listen gets it.
                    for each in sockets:
                        listener.listen(each, backlog)
            return bound
        except CannotListen:
            for _, sockets in bound:
                for each in sockets:
                    each.close()
            if not is_chosen or not left:
                raise
    raise AssertionError("the last try returns or raises")


def gateway() -> str | None:
    """Return the default gateway's IPv4 address, or None; in a container, clients of mapped ports connect from it."""
    try:
        with open("/proc/net/route", encoding="ascii") as file:
            for line in file.readlines()[1:]:
                fields = line.split()
                if fields[1] == "00000000" and int(fields[3], 16) & 2:
                    return socket.inet_ntoa(int(fields[2], 16).to_bytes(4, "little"))
    except (OSError, ValueError, IndexError):
        return None
    return None


def _verifies(personality: str, *, offsets: bool) -> bool:
    if personality == RELEASE:  # Avoids loading the older personalities.
        return True
    from stuntbroker.broker.requests.personality import verifies

    return verifies(personality, offsets=offsets)


class Listener:
    """One of the broker's listeners: its name, its own address, and the address that it advertises.

    Clients get the configured advertised address. If there is none, clients with TLS get the listener's host name, if it has
    one, and a client of a container's mapped port gets `stuntbroker.mapped.address`, or localhost and the same port; all others
    get the address that they connected to.
    """

    __slots__ = (
        "_advertised",
        "_certified_name",
        "_config",
        "_gateway",
        "addresses",
        "host",
        "name",
        "node_id",
        "node_number",
        "personality",
        "port",
        "principal",
        "profile",
        "reservations",
        "security",
        "verifies_offsets",
        "verifies_records",
    )

    def __init__(
        self,
        name: str,
        host: str,
        port: int,
        config: BrokerConfig,
        advertised: Address | None = None,
        personality: str = RELEASE,
        profile: str = KAFKA,
        node_number: int = 0,
        security: ListenerSecurity | None = None,
        principal: Principal = ANONYMOUS,
    ) -> None:
        self.name = name
        self.node_number = node_number
        """Number of the listener's node, counted from 0."""
        self.node_id = -1
        """Id of the listener's node; set when the broker is created."""
        self.personality = personality
        """Kafka release that the listener imitates."""
        self.verifies_records = _verifies(personality, offsets=False)
        self.verifies_offsets = _verifies(personality, offsets=True)
        self.profile = profile
        """Transaction rules for the listener's clients (`stuntbroker.profile`)."""
        self.security = security
        """TLS and SASL; None on a PLAINTEXT listener."""
        self.principal = principal
        """Principal of the clients that do not authenticate (`stuntbroker.principal`)."""
        self.host = host
        self.port = port
        """0 if the kernel chooses the port."""
        self.addresses: list[Address] = []
        """Addresses of the bound sockets; empty before `bind`."""
        self.reservations: list[PortReservation] = []
        """Reservations of a port that the kernel has chosen."""
        self._advertised = advertised
        self._certified_name = host if security is not None and security.tls is not None and _is_name(host) else None
        """The host name that clients with TLS look for in the certificate; None without TLS, and for an IP address."""
        self._gateway = gateway() if config["stuntbroker.mapped.address"] or _in_container() else None
        self._config = config

    def reopened(self, config: BrokerConfig) -> Listener:
        """Return the same listener, on the same port, for the broker that replaces this one after a restart."""
        port = self.addresses[0].port if self.addresses else self.port
        listener = self._copy(port, config, self._advertised)
        listener.reservations = self.reservations
        return listener

    def beside(self, config: BrokerConfig) -> Listener:
        """Return the same listener for another broker at the same time, on a port chosen by the kernel."""
        return self._copy(0, config, None)

    @property
    def advertised_port(self) -> int:
        """Advertised port; 0 for the port that the client connected to."""
        return 0 if self._advertised is None else self._advertised.port

    def of_node(self, node_number: int) -> Listener:
        """Return the same listener for another node, whose ports are higher by the number of the node."""
        port = self.port + node_number if self.port else 0
        advertised = self._advertised
        if advertised is not None and advertised.port:
            advertised = Address(advertised.host, advertised.port + node_number)
        return self._copy(port, self._config, advertised, node_number)

    def _copy(self, port: int, config: BrokerConfig, advertised: Address | None, node_number: int = -1) -> Listener:
        return Listener(
            self.name,
            self.host,
            port,
            config,
            advertised,
            personality=self.personality,
            profile=self.profile,
            node_number=self.node_number if node_number < 0 else node_number,
            security=self.security,
            principal=self.principal,
        )

    def bind(self, port: int = 0) -> list[socket.socket]:
        """Return bound sockets for every address of the host, all on one port. Raises CannotListen.

        `port`: used if the listener has no port of its own; 0 lets the kernel choose.
        """
        try:
            if self.port or any(each.port == port for each in self.reservations):
                sockets = bind(self.host, self.port or port)
            else:
                self.reservations = []
                sockets = bind(self.host, port, self.reservations)
        except OSError as fault:
            raise CannotListen(self, fault) from fault
        self.addresses = [Address(*bound.getsockname()[:2]) for bound in sockets]
        return sockets

    def listen(self, bound: socket.socket, backlog: int) -> None:
        """Start listening on a bound socket. Raises CannotListen."""
        try:
            bound.listen(backlog)
        except OSError as fault:
            raise CannotListen(self, fault) from fault

    @property
    def reachable(self) -> Address:
        """The bound address, to which a client on this machine can connect; with TLS, under the name in the certificate."""
        bound = self.addresses[0]
        return Address(self._certified_name, bound.port) if self._certified_name is not None else bound.reachable()

    def address_for(self, local: tuple[str, int], peer_host: str) -> Address:
        """Return the address advertised to a client. `local`: the address that it connected to."""
        host, port = local
        if self._advertised is not None:
            return Address(self._advertised.host or host.removeprefix("::ffff:"), self._advertised.port or port)
        if self._certified_name is not None and not (
            self._config["stuntbroker.mapped.address"] and self._is_mapped(host, peer_host)
        ):
            return Address(self._certified_name, port)
        # Unlike Kafka: without an advertised address or host, clients get the address that they connected to.
        if self._is_mapped(host, peer_host):
            mapped = self._config["stuntbroker.mapped.address"]
            return parse_address(mapped) if mapped else Address("localhost", port)
        return Address(host.removeprefix("::ffff:"), port)

    def needs_mapped_address(self, local: tuple[str, int], peer_host: str) -> bool:
        """Return whether a client connected through a mapped port and gets `stuntbroker.mapped.address`."""
        return self._advertised is None and self._certified_name is None and self._is_mapped(local[0], peer_host)

    def _is_mapped(self, host: str, peer_host: str) -> bool:
        """Whether a client connected through a mapped port of the container: from its gateway, and not inside the container."""
        return self._gateway is not None and peer_host == self._gateway and not host.startswith("127.")


def _is_name(host: str) -> bool:
    return bool(host) and ":" not in host and not host.replace(".", "").isdigit()


def _in_container() -> bool:
    import os

    return os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv")
