"""Binds listening sockets, and reserves the ports that the kernel has chosen."""

from __future__ import annotations

import socket


class PortReservation:
    """Keeps a port for the broker while no socket listens on it, because a node was stopped or the broker is restarted.

    Without it, the kernel could give the port to another process, or to a client that is just trying to connect to that port:
    such a client would be connected to itself. A reservation is a bound socket that never listens, so that connections are
    refused. The port is free again when nothing refers to the reservation any more.
    """

    def __init__(self, bound: socket.socket) -> None:
        self.port: int = bound.getsockname()[1]
        self._descriptor = bound.detach()  # No socket object, which could be destroyed before this one.

    def fileno(self) -> int:
        """Return the descriptor; a duplicate of it keeps the port, too, even in another process."""
        return self._descriptor

    def __del__(self) -> None:
        socket.close(self._descriptor)


def bind(host: str, port: int, reservations: list[PortReservation] | None = None) -> list[socket.socket]:
    """Return bound sockets for every address of `host`, all on one port (0: chosen by the kernel). Raises OSError.

    `reservations`: gets reservations of the port, unless the system does not have them.
    """
    families = {"localhost": ("127.0.0.1", "::1"), "": ("0.0.0.0", "::"), "0.0.0.0": ("0.0.0.0",)}.get(host, (host,))
    sockets: list[socket.socket] = []
    for number, address in enumerate(families):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            if number == 0 and address not in ("127.0.0.1", "0.0.0.0", "::1", "::"):
                family, _, _, _, resolved = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
                address = str(resolved[0])
            bound = _bound(family, address, port)
        except OSError:
            if number == 0:
                raise
            continue  # IPv6 is not available, or its port is in use: IPv4 is enough.
        port = bound.getsockname()[1]
        sockets.append(bound if reservations is None else _reserved(bound, family, address, port, reservations))
    return sockets


def _bound(family: int, address: str, port: int) -> socket.socket:
    """Return a bound, non-blocking socket. Raises OSError."""
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind((address, port))
    except OSError:
        bound.close()
        raise
    bound.setblocking(False)
    return bound


def _reserved(
    bound: socket.socket, family: int, address: str, port: int, reservations: list[PortReservation]
) -> socket.socket:
    """Return a second socket on the port of a bound one, which becomes a reservation; the bound one if there can be no second."""
    try:
        second = _bound(family, address, port)
    except OSError:  # Only Linux binds two sockets to a port for SO_REUSEADDR, as long as at most one of them listens.
        return bound
    reservations.append(PortReservation(bound))
    return second
