"""Bound sockets: the addresses of localhost, and ports that stay the broker's while it does not listen."""

from __future__ import annotations

import errno
import socket
import sys

import pytest

from stuntbroker.broker.configuration.config import BrokerConfig
from stuntbroker.broker.connections.binding import bind
from stuntbroker.broker.connections.listener import Listener, listeners_of
from tests.kit.processes.free_ports import free_port, is_free

BACKLOG = 5
needs_reservations = pytest.mark.skipif(sys.platform != "linux", reason="only Linux can reserve a port")


def test_localhost_listens_on_both_loopbacks_with_one_port() -> None:
    sockets = bind("localhost", 0)
    try:
        assert {each.getsockname()[1] for each in sockets} == {sockets[0].getsockname()[1]}
        assert sockets[0].getsockname()[0] == "127.0.0.1"
    finally:
        for each in sockets:
            each.close()


def new_listener(port: int = 0) -> Listener:
    (listener,) = listeners_of(BrokerConfig({}), "127.0.0.1", port)
    return listener


def listen_and_close(listener: Listener, port: int = 0) -> int:
    """Listen, and close the sockets; return the port."""
    for each in listener.bind(port):
        listener.listen(each, BACKLOG)
        each.close()
    return listener.addresses[0].port


@needs_reservations
def test_a_port_that_the_kernel_chose_is_kept_until_the_last_listener_is_gone() -> None:
    listener = new_listener()
    port = listen_and_close(listener)
    assert not is_free(port)
    assert listen_and_close(listener, port) == port
    restarted = listener.reopened(BrokerConfig({}))
    assert listen_and_close(restarted) == port
    del listener
    assert not is_free(port)
    del restarted
    assert is_free(port)


def test_a_port_that_was_given_is_free_while_its_listener_is_closed() -> None:
    given = free_port()
    assert listen_and_close(new_listener(given)) == given
    assert is_free(given)


def test_a_system_without_reservations_listens_on_the_only_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    class OnePerPort(socket.socket):
        ports: set[int] = set()

        def bind(self, address: tuple[str, int]) -> None:  # type: ignore[override]
            if address[1] in self.ports:
                raise OSError(errno.EADDRINUSE, "Address already in use")
            super().bind(address)
            self.ports.add(self.getsockname()[1])

    listener = new_listener()
    monkeypatch.setattr(socket, "socket", OnePerPort)
    port = listen_and_close(listener)
    monkeypatch.undo()
    assert listener.reservations == []
    assert is_free(port)
