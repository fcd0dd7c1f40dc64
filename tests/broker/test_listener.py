"""The address that a client is told: the one by which it came, unless configuration or a container says otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest
from broker_harness import rig

from stuntbroker.broker import listener
from stuntbroker.broker.config import BrokerConfig, ConfigError
from stuntbroker.broker.listener import Address, Advertised, bind, client_listeners, parse_address
from stuntbroker.broker.server import Broker
from stuntbroker.protocol.messages.describe_cluster_request import DescribeClusterRequest
from stuntbroker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from stuntbroker.protocol.messages.metadata_request import MetadataRequest

GATEWAY = "172.17.0.1"
TABLE = {
    #                                        advertised, mapped, gateway, came by, from -> told
    "by loopback": ("", 0, None, ("127.0.0.1", 9092), "127.0.0.1", ("127.0.0.1", 9092)),
    "by IPv6 loopback": ("", 0, None, ("::1", 9092), "::1", ("::1", 9092)),
    "by an IPv4 address on an IPv6 socket": (
        "",
        0,
        None,
        ("::ffff:10.0.0.5", 9092),
        "::ffff:10.0.0.9",
        ("10.0.0.5", 9092),
    ),
    "by a network address": ("", 0, None, ("10.0.0.5", 9092), "10.0.0.9", ("10.0.0.5", 9092)),
    "as configured": ("kafka:29092", 0, None, ("10.0.0.5", 9092), "10.0.0.9", ("kafka", 29092)),
    "as configured, with a scheme": ("PLAINTEXT://kafka:29092", 0, None, ("::1", 1), "::1", ("kafka", 29092)),
    "as configured, the first of two": ("PLAINTEXT://a:1,HOST://b:2", 0, None, ("::1", 1), "::1", ("a", 1)),
    "as configured, IPv6": ("PLAINTEXT://[fe80::1]:9", 0, None, ("::1", 1), "::1", ("fe80::1", 9)),
    "as configured, mapped port or not": ("kafka:1", 2, GATEWAY, ("172.17.0.2", 9092), GATEWAY, ("kafka", 1)),
    "through a mapped port": ("", 49_153, GATEWAY, ("172.17.0.2", 9092), GATEWAY, ("localhost", 49_153)),
    "through a port mapped to itself": ("", 0, GATEWAY, ("172.17.0.2", 9092), GATEWAY, ("localhost", 9092)),
    "from another container": ("", 49_153, GATEWAY, ("172.17.0.2", 9092), "172.17.0.3", ("172.17.0.2", 9092)),
    "from within the container": ("", 49_153, GATEWAY, ("127.0.0.1", 9092), "127.0.0.1", ("127.0.0.1", 9092)),
}


@pytest.mark.parametrize("what", TABLE)
def test_a_client_is_told_an_address_that_it_can_reach(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    configured, mapped, gateway, local, peer, told = TABLE[what]
    monkeypatch.setattr(listener, "gateway", lambda: gateway)
    monkeypatch.setattr(listener, "_in_container", lambda: gateway is not None)
    assert Advertised(configured, mapped).for_client(local, peer) == told


async def test_every_answer_with_an_address_tells_the_same(data_dir: Path) -> None:
    async with rig(data_dir, {"advertised.listeners": "PLAINTEXT://elsewhere:7"}) as made:
        client = made.client(peer=("10.0.0.9", 50_000), local=("10.0.0.5", 9_092))
        metadata = client.ask(MetadataRequest([]), 12).brokers[0]
        cluster = client.ask(DescribeClusterRequest(), 0).brokers[0]
        coordinator = client.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4).coordinators[0]
        assert [(one.host, one.port) for one in (metadata, cluster, coordinator)] == [("elsewhere", 7)] * 3


@pytest.mark.parametrize(
    ("text", "address", "shown"),
    [
        ("localhost:9092", ("localhost", 9092), "localhost:9092"),
        (" PLAINTEXT://0.0.0.0:1 ", ("0.0.0.0", 1), "0.0.0.0:1"),
        ("[::1]:9092", ("::1", 9092), "[::1]:9092"),
        ("plaintext://h:0", ("h", 0), "h:0"),
    ],
)
def test_an_address_is_read_and_shown(text: str, address: tuple[str, int], shown: str) -> None:
    found = parse_address(text, "x")
    assert found == Address(*address)
    assert str(found) == shown


@pytest.mark.parametrize(
    "text", ["", "host", "host:", "host:port", "host:65536", "host:-1", "SSL://h:1", "SASL_SSL://h:1"]
)
def test_an_address_that_is_none_is_refused_with_its_name(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^--what: "):
        parse_address(text, "--what")


MAP = "listener.security.protocol.map"
CONTROLLERS = "controller.listener.names"
LISTENERS: dict[str, tuple[dict[str, str], list[tuple[str, int]]]] = {
    "none": ({}, []),
    "one": ({"listeners": "PLAINTEXT://h:1"}, [("h", 1)]),
    "every address": ({"listeners": "PLAINTEXT://:9092"}, [("", 9092)]),
    "two": ({"listeners": "PLAINTEXT://a:1, HOST://b:2"}, [("a", 1), ("b", 2)]),
    "the controller's is not for clients": ({"listeners": "C://a:1,PLAINTEXT://b:2", CONTROLLERS: "C"}, [("b", 2)]),
    "a name in the map": ({"listeners": "INSIDE://a:1", MAP: "INSIDE:PLAINTEXT,C:SSL"}, [("a", 1)]),
}


@pytest.mark.parametrize("what", LISTENERS)
def test_listeners_are_those_that_clients_can_come_by(what: str) -> None:
    properties, addresses = LISTENERS[what]
    assert client_listeners(BrokerConfig(properties)) == addresses


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"listeners": "SSL://:1"}, "listeners: 'SSL://:1': only PLAINTEXT"),
        ({"listeners": "PLAINTEXT://:1,SASL_PLAINTEXT://:2"}, "listeners: 'SASL_PLAINTEXT://:2': only PLAINTEXT"),
        ({"listeners": "INSIDE://:1", MAP: "INSIDE:SASL_SSL"}, "only PLAINTEXT"),
        ({"listeners": "INSIDE://:1"}, f"{MAP} has no protocol for INSIDE"),
        ({MAP: "INSIDE"}, f"{MAP}: 'INSIDE' is not NAME:PROTOCOL"),
    ],
)
def test_a_listener_that_would_not_be_served_is_refused(properties: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        client_listeners(BrokerConfig(properties))


def test_the_map_of_protocols_counts_for_the_advertised_address_too(tmp_path: Path) -> None:
    config = BrokerConfig({"advertised.listeners": "INSIDE://kafka:1", MAP: "INSIDE:PLAINTEXT"})
    broker = Broker(config, str(tmp_path / "data"))
    assert broker.advertised.for_client(("::1", 1), "::1") == ("kafka", 1)
    broker.data_dir.abandon()


@pytest.mark.parametrize(
    ("host", "reachable"), [("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("10.0.0.5", "10.0.0.5"), ("::1", "::1")]
)
def test_an_address_that_stands_for_all_is_reached_by_loopback(host: str, reachable: str) -> None:
    assert Address(host, 9092).reachable() == Address(reachable, 9092)


def test_localhost_listens_on_both_loopbacks_with_one_port() -> None:
    sockets = bind("localhost", 0)
    try:
        assert {one.getsockname()[1] for one in sockets} == {sockets[0].getsockname()[1]}
        assert sockets[0].getsockname()[0] == "127.0.0.1"
    finally:
        for one in sockets:
            one.close()
