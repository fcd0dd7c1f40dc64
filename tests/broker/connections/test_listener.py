"""The address in responses is the one that the client connected to, unless configuration or a container overrides it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from struct import unpack

import pytest

from stuntbroker.broker.configuration.config import BrokerConfig
from stuntbroker.broker.configuration.dynamic_config import Change
from stuntbroker.broker.configuration.properties import ConfigError
from stuntbroker.broker.connections import listener
from stuntbroker.broker.connections.listener import listeners_of, parse_listener, properties_of_no_listener
from stuntbroker.protocol.addresses import Address
from stuntbroker.protocol.messages.describe_cluster_request import DescribeClusterRequest
from stuntbroker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from stuntbroker.protocol.messages.metadata_request import MetadataRequest
from tests.kit.keystore_files import write_keystores
from tests.kit.rig import KEYS, decode, frame, running_rig

MECHANISMS = "sasl.enabled.mechanisms"
MAP = "listener.security.protocol.map"
CONTROLLERS = "controller.listener.names"
GATEWAY = "172.17.0.1"
TABLE = {
    #                                        advertised, mapped, gateway, local address, client host -> address in responses
    "by loopback": ("", "", None, ("127.0.0.1", 9092), "127.0.0.1", ("127.0.0.1", 9092)),
    "by IPv6 loopback": ("", "", None, ("::1", 9092), "::1", ("::1", 9092)),
    "by an IPv4 address on an IPv6 socket": (
        "",
        "",
        None,
        ("::ffff:10.0.0.5", 9092),
        "::ffff:10.0.0.9",
        ("10.0.0.5", 9092),
    ),
    "by a network address": ("", "", None, ("10.0.0.5", 9092), "10.0.0.9", ("10.0.0.5", 9092)),
    "as configured": ("kafka:29092", "", None, ("10.0.0.5", 9092), "10.0.0.9", ("kafka", 29092)),
    "as configured, at the port by which it came": (
        "kafka:0",
        "",
        None,
        ("10.0.0.5", 9092),
        "10.0.0.9",
        ("kafka", 9092),
    ),
    "as configured, with the host by which it came": (
        "HOST://:1",
        "",
        None,
        ("10.0.0.5", 9092),
        "10.0.0.9",
        ("10.0.0.5", 1),
    ),
    "as configured, with a name": ("HOST://kafka:29092", "", None, ("::1", 1), "::1", ("kafka", 29092)),
    "as configured, IPv6": ("PLAINTEXT://[fe80::1]:9", "", None, ("::1", 1), "::1", ("fe80::1", 9)),
    "as configured, mapped port or not": (
        "kafka:1",
        "localhost:2",
        GATEWAY,
        ("172.17.0.2", 9092),
        GATEWAY,
        ("kafka", 1),
    ),
    "through a mapped port": ("", "localhost:49153", GATEWAY, ("172.17.0.2", 9092), GATEWAY, ("localhost", 49_153)),
    "through a mapped port of another host": (
        "",
        "[fd00::7]:49153",
        GATEWAY,
        ("172.17.0.2", 9092),
        GATEWAY,
        ("fd00::7", 49_153),
    ),
    "through a port mapped to itself": ("", "", GATEWAY, ("172.17.0.2", 9092), GATEWAY, ("localhost", 9092)),
    "from another container": (
        "",
        "localhost:49153",
        GATEWAY,
        ("172.17.0.2", 9092),
        "172.17.0.3",
        ("172.17.0.2", 9092),
    ),
    "from within the container": (
        "",
        "localhost:49153",
        GATEWAY,
        ("127.0.0.1", 9092),
        "127.0.0.1",
        ("127.0.0.1", 9092),
    ),
}


@pytest.mark.parametrize("what", TABLE)
def test_the_advertised_address_is_reachable_for_the_client(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    configured, mapped, gateway, local, peer, messages = TABLE[what]
    monkeypatch.setattr(listener, "gateway", lambda: gateway)
    monkeypatch.setattr(listener, "_in_container", lambda: gateway is not None)
    properties = {"advertised.listeners": configured, "stuntbroker.mapped.address": mapped}
    (only,) = listeners_of(BrokerConfig(properties))
    assert only.address_for(local, peer) == messages


@pytest.mark.parametrize(
    ("host", "advertised"),
    [("localhost", "localhost"), ("kafka.example", "kafka.example"), ("0.0.0.0", "10.0.0.5"), ("10.0.0.5", "10.0.0.5")],
)
def test_a_tls_listener_advertises_its_host_as_in_the_certificate(host: str, advertised: str, tmp_path: Path) -> None:
    write_keystores(tmp_path)
    properties = {"listeners": f"SSL://{host}:9093", "ssl.keystore.location": str(tmp_path / "server.pem")}
    (only,) = listeners_of(BrokerConfig(properties))

    assert only.address_for(("10.0.0.5", 9093), "10.0.0.9") == (advertised, 9093)


async def test_metadata_has_the_advertised_address_of_the_listener_that_the_client_uses(data_dir: Path) -> None:
    properties = {
        "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0,BARE://127.0.0.1:0",
        "advertised.listeners": "outside://localhost:29092,INSIDE://kafka:9092",
        MAP: "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,BARE:PLAINTEXT",
    }
    async with running_rig(data_dir, properties) as rig:
        ports = [each.addresses[0].port for each in rig.broker.listeners]
        assert len(set(ports)) == 3
        said = []
        for port in ports:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(frame(MetadataRequest([]), 12))
            (size,) = unpack(">i", await reader.readexactly(4))
            (broker,) = decode(await reader.readexactly(size), KEYS["Metadata"], 12).brokers
            said.append((broker.host, broker.port))
            writer.close()
        assert said == [("kafka", 9092), ("localhost", 29092), ("127.0.0.1", ports[2])]


async def test_every_response_with_an_address_has_the_same_address(data_dir: Path) -> None:
    async with running_rig(data_dir, {"advertised.listeners": "PLAINTEXT://elsewhere:7"}) as rig:
        client = rig.client(peer=("10.0.0.9", 50_000), local=("10.0.0.5", 9_092))
        metadata = client.ask(MetadataRequest([]), 12).brokers[0]
        cluster = client.ask(DescribeClusterRequest(), 0).brokers[0]
        coordinator = client.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4).coordinators[0]
        assert [(each.host, each.port) for each in (metadata, cluster, coordinator)] == [("elsewhere", 7)] * 3


@pytest.mark.parametrize(
    ("text", "address", "shown"),
    [
        ("localhost:9092", ("localhost", 9092), "localhost:9092"),
        (" PLAINTEXT://0.0.0.0:1 ", ("0.0.0.0", 1), "0.0.0.0:1"),
        ("[::1]:9092", ("::1", 9092), "[::1]:9092"),
        ("plaintext://h:0", ("h", 0), "h:0"),
    ],
)
def test_a_listener_address_is_parsed_and_formatted(text: str, address: tuple[str, int], shown: str) -> None:
    name, actual = parse_listener(text, "x")
    assert (name, actual) == ("PLAINTEXT", Address(*address))
    assert str(actual) == shown


@pytest.mark.parametrize("text", ["", "host", "host:", "host:port", "host:65536", "host:-1", "NONE://h:1"])
def test_an_address_that_is_invalid_is_refused_with_its_name(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^--what: "):
        parse_listener(text, "--what")


LISTENERS: dict[str, tuple[dict[str, str], list[tuple[str, str, int]]]] = {
    "none": ({}, [("PLAINTEXT", "localhost", 9092)]),
    "one": ({"listeners": "PLAINTEXT://h:1"}, [("PLAINTEXT", "h", 1)]),
    "every address": ({"listeners": "PLAINTEXT://:9092"}, [("PLAINTEXT", "", 9092)]),
    "two": ({"listeners": "PLAINTEXT://a:1, host://b:2"}, [("PLAINTEXT", "a", 1), ("HOST", "b", 2)]),
    "one port for IPv4 and IPv6": (
        {"listeners": "PLAINTEXT://1.2.3.4:1,HOST://[::1]:1"},
        [("PLAINTEXT", "1.2.3.4", 1), ("HOST", "::1", 1)],
    ),
    "the controller's is not for clients": (
        {"listeners": "C://a:1,PLAINTEXT://b:2", "advertised.listeners": "C://a:1", CONTROLLERS: "C"},
        [("PLAINTEXT", "b", 2)],
    ),
    "a name in the map": ({"listeners": "INSIDE://a:1", MAP: "INSIDE:PLAINTEXT,C:SSL"}, [("INSIDE", "a", 1)]),
    "an advertised one alone": ({"advertised.listeners": "HOST://a:1"}, [("HOST", "localhost", 9092)]),
}


@pytest.mark.parametrize("what", LISTENERS)
def test_only_the_listeners_for_clients_are_opened(what: str) -> None:
    properties, expected = LISTENERS[what]
    assert [(each.name, each.host, each.port) for each in listeners_of(BrokerConfig(properties))] == expected


@pytest.mark.parametrize(
    ("host", "port", "expected"),
    [(None, None, ("h", 1)), ("", 0, ("", 0)), (None, 7, ("h", 7)), ("::1", None, ("::1", 1))],
)
def test_the_command_line_wins_over_the_only_listener(
    host: str | None, port: int | None, expected: tuple[str, int]
) -> None:
    (only,) = listeners_of(BrokerConfig({"listeners": "HOST://h:1"}), host, port)
    assert (only.name, only.host, only.port) == ("HOST", *expected)


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"listeners": "SSL://:1"}, "listener SSL: ssl.keystore.location: not set"),
        ({"listeners": "PLAINTEXT://:1,SASL_PLAINTEXT://:2"}, "listener SASL_PLAINTEXT: GSSAPI is not served"),
        (
            {"listeners": "IN://:1", MAP: "IN:SASL_SSL", MECHANISMS: "PLAIN"},
            "listener IN: ssl.keystore.location: not set",
        ),
        ({"listeners": "SASL_PLAINTEXT://:1", MECHANISMS: "PLAIN"}, "has PLAIN, and there is no user"),
        ({"listeners": "SASL_PLAINTEXT://:1", MECHANISMS: ""}, "an empty list is not served"),
        ({"listeners": "SASL_PLAINTEXT://:1", MECHANISMS: "PLIAN"}, "listener SASL_PLAINTEXT: PLIAN is not served"),
        (
            {
                "listeners": "SASL_PLAINTEXT://:1",
                MECHANISMS: "PLAIN",
                "stuntbroker.users": "a:b",
                "listener.name.sasl_plaintext.connections.max.reauth.ms": "x",
            },
            "listener.name.sasl_plaintext.connections.max.reauth.ms: 'x' is not a whole number",
        ),
        ({"listeners": "SSL://:1", "ssl.keystore.location": "/nowhere/x.jks"}, "/nowhere/x.jks: No such file"),
        ({"listeners": "INSIDE://:1"}, f"{MAP} has no protocol for INSIDE"),
        ({"listeners": f"HOST://:{'9' * 5_000}"}, "is not HOST:PORT"),
        ({"listeners": "HOST://:65536"}, "is not HOST:PORT"),
        ({MAP: "INSIDE"}, f"{MAP}: 'INSIDE' is not NAME:PROTOCOL"),
        ({"listeners": "HOST://a:1,host://b:2"}, "listeners: two listeners have the name HOST"),
        (
            {"stuntbroker.profile": "kip-588,kip-447-draft"},
            "stuntbroker.profile: 'kip-447-draft': there is another value for all listeners before it",
        ),
        (
            {"listeners": "OLD://a:1", MAP: "OLD:PLAINTEXT", "stuntbroker.personality": "OLD:2.5,old:2.8"},
            "stuntbroker.personality: 'old:2.8': there is another value for OLD before it",
        ),
        ({"listeners": "HOST://a:1,DOCKER://b:1"}, "listeners: two listeners have the port 1"),
        ({"listeners": "C://a:1", CONTROLLERS: "C"}, "has listeners of the controller only"),
        ({"advertised.listeners": "HOST://a:1,HOST://b:1"}, "advertised.listeners: two listeners have the name HOST"),
        ({"advertised.listeners": "HOST://a:1,DOCKER://b:1"}, "HOST, DOCKER, and listeners is not set"),
        ({"listeners": "HOST://a:1", "advertised.listeners": "DOCKER://a:1"}, "listeners has no DOCKER"),
        ({"advertised.listeners": "HOST://0.0.0.0:1"}, "HOST://0.0.0.0:1: no client can connect to it"),
        ({"advertised.listeners": "HOST://[::]:1"}, "no client can connect to it"),
    ],
)
def test_listeners_that_would_not_be_served_are_refused(properties: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        listeners_of(BrokerConfig(properties))


MAPPED = ("stuntbroker.mapped.address", "stuntbroker.mapped.address.wait.ms")


async def test_clients_outside_the_container_wait_until_the_mapped_address_is_set(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "gateway", lambda: GATEWAY)
    monkeypatch.setattr(listener, "_in_container", lambda: True)
    requests = (
        (MetadataRequest([]), 12),
        (DescribeClusterRequest(), 0),
        (FindCoordinatorRequest(coordinator_keys=["g"]), 4),
    )
    async with running_rig(data_dir, {MAPPED[1]: "60000"}) as rig:
        outside = [rig.client(peer=(GATEWAY, 50_000), local=("172.17.0.2", 9_092)) for _ in requests]
        for client, (request, version) in zip(outside, requests, strict=True):
            client.feed(frame(request, version))
            assert client.answers() == []
        inside = rig.client(peer=("127.0.0.1", 50_000), local=("127.0.0.1", 9_092))
        assert inside.ask(MetadataRequest([]), 12).brokers[0].host == "127.0.0.1"

        rig.broker.dynamic_config.alter("", [Change(MAPPED[0], 0, "localhost:49153")], validate_only=False)

        for client, (request, version) in zip(outside, requests, strict=True):
            (answer,) = client.answers()
            decoded = decode(answer, KEYS[type(request).__name__.removesuffix("Request")], version)
            (messages,) = decoded.coordinators if version == 4 else decoded.brokers
            assert (messages.host, messages.port) == ("localhost", 49_153)
        assert rig.broker.router.interceptors == ()

    async with running_rig(data_dir, {MAPPED[1]: "60000"}) as rig:  # The container has a new port.
        client = rig.client(peer=(GATEWAY, 50_000), local=("172.17.0.2", 9_092))
        client.feed(frame(MetadataRequest([]), 12))
        assert client.answers() == []
        rig.broker.dynamic_config.alter("", [Change(MAPPED[0], 0, "localhost:49154")], validate_only=False)
        (answer,) = client.answers()
        assert decode(answer, KEYS["Metadata"], 12).brokers[0].port == 49_154


async def test_clients_outside_the_container_get_localhost_when_the_mapped_address_times_out(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "gateway", lambda: GATEWAY)
    monkeypatch.setattr(listener, "_in_container", lambda: True)
    async with running_rig(data_dir, {MAPPED[1]: "60000"}) as rig:
        client = rig.client(peer=(GATEWAY, 50_000), local=("172.17.0.2", 9_092))
        client.feed(frame(MetadataRequest([]), 12))
        rig.pass_time(59_999)
        assert client.answers() == []
        rig.pass_time(1)
        (answer,) = client.answers()
        assert decode(answer, KEYS["Metadata"], 12).brokers[0].host == "localhost"
        assert client.ask(MetadataRequest([]), 12).brokers[0].host == "localhost"


def test_a_property_of_an_unknown_listener_has_no_effect() -> None:
    config = BrokerConfig({"listeners": "A://:1", MAP: "A:PLAINTEXT", "listener.name.b.ssl.client.auth": "none"})
    assert properties_of_no_listener(config, listeners_of(config)) == ["listener.name.b.ssl.client.auth"]


@pytest.mark.parametrize(
    ("given", "unused"),
    [
        ({"listener.name.A.ssl.client.auth": "none"}, ["listener.name.A.ssl.client.auth"]),
        ({"ssl.client.auth": "none"}, ["ssl.client.auth"]),
    ],
)
def test_a_property_that_no_listener_reads_has_no_effect(given: dict[str, str], unused: list[str]) -> None:
    """As in Kafka, listener names in properties are lower-case, and `ssl.client.auth` needs a listener with TLS and no SASL."""
    config = BrokerConfig({"listeners": "A://:1", MAP: "A:PLAINTEXT", **given})
    assert properties_of_no_listener(config, listeners_of(config)) == unused
