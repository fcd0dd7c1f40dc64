"""Parsing of addresses in configuration and on command lines."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stuntbroker.protocol.addresses import Address, parse_address, parse_bootstrap

ADDRESSES: dict[str, list[tuple[str, int]] | None] = {
    "localhost:9092": [("localhost", 9092)],
    " a:1 , b:65535": [("a", 1), ("b", 65_535)],
    "[::1]:9092": [("::1", 9092)],
    "::1:9092": None,
    "[]:1": None,
    "localhost": None,
    ":9092": None,
    "a:": None,
    "a:0": None,
    "a:65536": None,
    "a:-1": None,
    "a:1234567890123": None,
    "a:٣": None,
    "a:1,": None,
    "": None,
}


LISTENERS: dict[str, Address | None] = {
    ":9092": Address("", 9092),
    "localhost:0": Address("localhost", 0),
    "::1:9092": Address("::1", 9092),
    "[fe80::1%eth0]:1": Address("fe80::1%eth0", 1),
    "my_host.example:1": Address("my_host.example", 1),
    "${HOST}:9092": None,
    "_{HOSTNAME_COMMAND}:9092": None,
    "my host:1": None,
    "h\u00f6st:1": None,
    "host": None,
    "host:65536": None,
    "host:-1": None,
    "": None,
}


@pytest.mark.parametrize(
    ("read", "text", "expected"),
    [
        *((parse_bootstrap, text, expected) for text, expected in ADDRESSES.items()),
        *((parse_address, text, expected) for text, expected in LISTENERS.items()),
    ],
)
def test_an_address_needs_host_and_port_and_a_listener_address_may_omit_both(
    read: Callable[[str], object], text: str, expected: object
) -> None:
    if expected is None:
        with pytest.raises(ValueError, match="is not HOST:PORT"):
            read(text)
    else:
        assert read(text) == expected


@pytest.mark.parametrize("address", [Address("a", 1), Address("10.0.0.5", 65_535), Address("::1", 9092)])
def test_an_address_is_read_as_it_is_shown(address: Address) -> None:
    assert parse_bootstrap(str(address)) == [address]


@pytest.mark.parametrize(
    ("host", "reachable"), [("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("10.0.0.5", "10.0.0.5"), ("::1", "::1")]
)
def test_a_wildcard_address_is_reached_by_loopback(host: str, reachable: str) -> None:
    assert Address(host, 9092).reachable() == Address(reachable, 9092)
