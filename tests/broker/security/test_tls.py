"""TLS on a listener, over real sockets."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from struct import pack, unpack
from types import MappingProxyType
from typing import Any

import pytest
import trustme

from stuntbroker.broker.configuration.config import BrokerConfig
from stuntbroker.broker.security.listener_security import ListenerSecurity
from stuntbroker.protocol.messages.api_versions_request import ApiVersionsRequest
from stuntbroker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from stuntbroker.security import tls
from tests.kit.keystore_files import PASSWORD, write_keystores
from tests.kit.logs import batch, put
from tests.kit.rig import Rig, decode, frame, running_rig
from tests.kit.valid_requests import TOPIC


@asynccontextmanager
async def secured_rig(
    folder: Path, client_auth: str = "none", more: Mapping[str, str] = MappingProxyType({})
) -> AsyncIterator[tuple[Rig, trustme.CA]]:
    """Run a broker whose only listener has TLS; yield its rig and the CA of its certificate."""
    authority = write_keystores(folder)
    properties = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.location": str(folder / "server.pkcs12"),
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.location": str(folder / "trust.pem"),
        "listener.name.ssl.ssl.client.auth": client_auth,
        "stuntbroker.write.buffer.bytes": "65536",
        **more,
    }
    async with running_rig(properties=properties) as rig:
        yield rig, authority


async def principals_while_served(rig: Rig, context: ssl.SSLContext | None) -> list[str]:
    """Ask for the versions over a new connection; return the principals of all connections then, or none if it is refused."""
    _, port = rig.broker.listeners[0].addresses[0]
    name = "localhost" if context else None
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
    try:
        writer.write(frame(ApiVersionsRequest("x", "1"), 3))
        (size,) = unpack(">i", await reader.readexactly(4))
        await reader.readexactly(size)
        return [each.principal.name for each in rig.broker.connections]
    except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
        return []  # The broker has closed the connection.
    finally:
        writer.close()


def client_context(authority: trustme.CA, user: str = "") -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    if user:
        authority.issue_cert(f"{user}@example.org", common_name=user).configure_cert(context)
    return context


def refusal_of(rig: Rig) -> str:
    (reason,) = [facts["reason"] for name, facts in rig.events.kept if name == "tls_handshake_failed"]
    return str(reason)


async def test_a_client_with_tls_is_served(tmp_path: Path) -> None:
    async with secured_rig(tmp_path) as (rig, authority):
        assert await principals_while_served(rig, client_context(authority)) == ["ANONYMOUS"]


@pytest.mark.parametrize("client_auth", ["requested", "required"])
async def test_a_certificate_names_the_principal(tmp_path: Path, client_auth: str) -> None:
    async with secured_rig(tmp_path, client_auth) as (rig, authority):
        (principal,) = await principals_while_served(rig, client_context(authority, "alice"))
        assert principal.startswith("CN=alice,")


async def test_a_client_that_does_not_speak_tls_is_named_in_the_log(tmp_path: Path) -> None:
    async with secured_rig(tmp_path) as (rig, _):
        assert await principals_while_served(rig, None) == []
        assert "the client does not speak TLS" in refusal_of(rig)


async def test_a_client_without_the_required_certificate_is_refused(tmp_path: Path) -> None:
    async with secured_rig(tmp_path, "required") as (rig, authority):
        assert await principals_while_served(rig, client_context(authority)) == []
        assert "the client has no certificate" in refusal_of(rig)


@pytest.mark.parametrize(
    ("rules", "principal"), [("RULE:^CN=(\\w+),.*$/$1/U", "ALICE"), ("RULE:^CN=bob.*$/bob/", None)]
)
async def test_rules_name_the_user_of_a_certificate_and_refuse_it_if_none_applies(
    rules: str, principal: str | None, tmp_path: Path
) -> None:
    async with secured_rig(tmp_path, "required", {"ssl.principal.mapping.rules": rules}) as (rig, authority):
        assert await principals_while_served(rig, client_context(authority, "alice")) == (
            [principal] if principal else []
        )
        refused = [facts["reason"] for name, facts in rig.events.kept if name == "authentication_failed"]
        assert [reason.partition(" applies to ")[0] for reason in refused] == (
            [] if principal else ["no rule of ssl.principal.mapping.rules"]
        )


@pytest.mark.parametrize(
    ("own", "asks"), [({}, False), ({"listener.name.sasl_ssl.ssl.client.auth": "required"}, True)], ids=["all", "own"]
)
async def test_a_listener_with_sasl_asks_for_certificates_only_if_its_own_property_says_so(
    own: dict[str, str], asks: bool, tmp_path: Path
) -> None:
    write_keystores(tmp_path)
    listener = ListenerSecurity("SASL_SSL", "SASL_SSL", BrokerConfig({
        "ssl.keystore.location": str(tmp_path / "server.pem"), "ssl.truststore.location": str(tmp_path / "trust.pem"),
        "sasl.enabled.mechanisms": "PLAIN", "stuntbroker.users": "a:b", "ssl.client.auth": "required", **own,
    }))  # fmt: skip
    assert listener.tls is not None
    assert listener.tls.verify_mode == (ssl.CERT_REQUIRED if asks else ssl.CERT_NONE)


@pytest.mark.parametrize("trusts", ["intermediate", "leaf"])
async def test_whatever_a_truststore_has_is_trusted_by_broker_and_client(trusts: str, tmp_path: Path) -> None:
    """The truststore has an intermediate CA, or the certificate itself; both are usual in Java."""
    authority = trustme.CA().create_child_ca()
    certificate = authority.issue_cert("localhost", common_name="alice")
    anchor = authority.cert_pem if trusts == "intermediate" else certificate.cert_chain_pems[0]
    anchor.write_to_path(str(tmp_path / "anchor.pem"))
    certificate.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "own.pem"))
    stores = {
        "ssl.keystore.location": str(tmp_path / "own.pem"),
        "ssl.truststore.location": str(tmp_path / "anchor.pem"),
    }
    properties = {"listeners": "SSL://127.0.0.1:0", "ssl.client.auth": "required", **stores}
    async with running_rig(properties=properties) as rig:
        client = tls.client_context(
            lambda name: {"ssl.endpoint.identification.algorithm": "https", **stores}.get(name, "")
        )
        (principal,) = await principals_while_served(rig, client)
        assert principal.startswith("CN=alice,")


# --- large responses


class Reader:
    """A client that sends Fetch, for all records, and ApiVersions before it reads any response."""

    def __init__(self, rig: Rig) -> None:
        self.log = rig.log(TOPIC, 0)
        for _ in range(20):
            put(self.log, batch([(b"k", bytes(900_000))]))

    @asynccontextmanager
    async def asking(self, rig: Rig, authority: trustme.CA) -> AsyncIterator[Any]:
        """Send the requests; yield the broker's connection once it has paused because this client does not read."""
        wanted = [FetchTopic(TOPIC, partitions=[FetchPartition(0, -1, 0, -1, -1, 1 << 26)])]
        _, port = rig.broker.listeners[0].addresses[0]
        self._reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=client_context(authority), server_hostname="localhost"
        )
        try:
            writer.write(frame(FetchRequest(max_bytes=1 << 26, topics=wanted), 12, correlation=1))
            writer.write(frame(ApiVersionsRequest("x", "1"), 3, correlation=2))
            async with asyncio.timeout(60):
                while not (paused := [each for each in rig.broker.connections if each.is_paused]):
                    await asyncio.sleep(0.001)
            yield paused[0]
        finally:
            writer.transport.abort()

    async def receive(self) -> bytes:
        (size,) = unpack(">i", await self._reader.readexactly(4))
        return await self._reader.readexactly(size)

    async def receive_records(self) -> None:
        """Receive all of the log's records."""
        answer = await self.receive()
        assert answer[:4] == pack(">i", 1)
        assert decode(answer, 1, 12).responses[0].partitions[0].records == self.log.read(0, 1 << 26, 20).records


async def test_a_large_response_is_encrypted_only_as_fast_as_its_client_reads(tmp_path: Path) -> None:
    """A client that does not read must not fill the memory with encrypted bytes. The responses keep their order."""
    async with secured_rig(tmp_path) as (rig, authority):
        rig.topic(TOPIC)
        reader = Reader(rig)
        async with reader.asking(rig, authority) as connection:
            assert connection.transport.get_write_buffer_size() < 1 << 20
            await reader.receive_records()
            assert (await reader.receive())[:4] == pack(">i", 2)


async def test_a_connection_that_is_closed_sends_its_large_response_first(tmp_path: Path) -> None:
    async with secured_rig(tmp_path) as (rig, authority):
        rig.topic(TOPIC)
        reader = Reader(rig)
        async with reader.asking(rig, authority) as connection:
            connection.close()
            await reader.receive_records()
            with pytest.raises(asyncio.IncompleteReadError):
                await reader.receive()
