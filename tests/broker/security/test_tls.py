"""TLS on a listener, over real sockets."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from struct import unpack

import pytest
import trustme

from stuntbroker.protocol.messages.api_versions_request import ApiVersionsRequest
from tests.kit.rig import Rig, frame, running_rig


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def properties(authority: trustme.CA, folder: Path, client_auth: str = "none") -> dict[str, str]:
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(folder / "server.pem"))
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    return {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.location": str(folder / "server.pem"),
        "ssl.truststore.location": str(folder / "ca.pem"),
        "listener.name.ssl.ssl.client.auth": client_auth,
    }


async def versions(rig: Rig, context: ssl.SSLContext | None) -> bytes:
    """Ask for the versions over a new connection, and return the answer; empty if the broker closes it."""
    _, port = rig.broker.listeners[0].addresses[0]
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=context, server_hostname="localhost" if context else None
    )
    try:
        writer.write(frame(ApiVersionsRequest("x", "1"), 3))
        (size,) = unpack(">i", await reader.readexactly(4))
        return await reader.readexactly(size)
    except asyncio.IncompleteReadError:
        return b""
    finally:
        writer.close()


def client_context(authority: trustme.CA, user: str = "") -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    if user:
        authority.issue_cert(f"{user}@example.org", common_name=user).configure_cert(context)
    return context


async def test_a_client_with_tls_is_served(authority: trustme.CA, tmp_path: Path) -> None:
    async with running_rig(properties=properties(authority, tmp_path)) as rig:
        assert await versions(rig, client_context(authority))


@pytest.mark.parametrize("client_auth", ["requested", "required"])
async def test_a_certificate_names_the_principal(authority: trustme.CA, tmp_path: Path, client_auth: str) -> None:
    async with running_rig(properties=properties(authority, tmp_path, client_auth)) as rig:
        principals: list[str] = []
        connected = rig.broker.connected

        def remember(connection: object) -> bool:
            asyncio.get_running_loop().call_soon(lambda: principals.append(connection.principal.name))  # type: ignore[attr-defined]
            return connected(connection)  # type: ignore[arg-type]

        rig.broker.connected = remember  # type: ignore[method-assign,assignment]
        assert await versions(rig, client_context(authority, "alice"))
        assert principals[0].startswith("CN=alice,")


async def test_a_client_that_does_not_speak_tls_is_named_in_the_log(authority: trustme.CA, tmp_path: Path) -> None:
    async with running_rig(properties=properties(authority, tmp_path)) as rig:
        try:
            assert await versions(rig, None) == b""
        except ConnectionError:
            pass  # The same, seen a little later.
        (reason,) = [facts["reason"] for name, facts in rig.events.kept if name == "tls_handshake_failed"]
        assert "the client does not speak TLS" in reason


async def test_a_client_without_the_required_certificate_is_refused(authority: trustme.CA, tmp_path: Path) -> None:
    async with running_rig(properties=properties(authority, tmp_path, "required")) as rig:
        try:
            assert await versions(rig, client_context(authority)) == b""
        except (ConnectionError, ssl.SSLError):
            pass  # The same: TLS 1.3 lets the client finish first.
        (reason,) = [facts["reason"] for name, facts in rig.events.kept if name == "tls_handshake_failed"]
        assert "the client has no certificate" in reason
