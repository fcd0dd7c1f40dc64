"""Security options apply to aiokafka's connections (TLS to a proxy, SASL), and a refused client gets a clear error."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from struct import pack, unpack_from
from typing import Any, NoReturn

import pytest
import trustme
import uvloop
from aiokafka.errors import KafkaConnectionError
from model_broker import ModelBroker

from stuntbroker.client import (
    AuthenticationError,
    Connections,
    ProduceFailedError,
    State,
    TransactionalConsumer,
    TransactionalProducer,
    blocking,
)
from stuntbroker.protocol.addresses import Address
from stuntbroker.protocol.api_keys import END_TXN
from stuntbroker.protocol.messages.api_versions_response import ApiVersion
from tests.kit.processes.process import serving


@asynccontextmanager
async def tls_proxy(broker: ModelBroker, authority: trustme.CA) -> AsyncIterator[None]:
    """Put a TLS proxy in front of the broker, at the address in the broker's metadata."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    host, port = broker.address

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(host, port)
        await asyncio.gather(copy(reader, back), copy(there, writer), return_exceptions=True)

    async with await asyncio.start_server(serve, "localhost", 0, ssl=context) as server:
        broker.address = Address("localhost", server.sockets[0].getsockname()[1])
        yield


async def write(level: int) -> None:
    authority = trustme.CA()
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    with ModelBroker(level) as broker:
        async with tls_proxy(broker, authority):
            options: dict[str, Any] = {
                "bootstrap_servers": str(broker.address),
                "transactional_id": "id",
                "security_protocol": "SSL",
            }
            async with TransactionalProducer(ssl_context=trusting, **options) as producer:
                await producer.init_transactions()
                async with producer.transaction():
                    await producer.send("t", b"by TLS")

            def write_blocking() -> None:
                with blocking.TransactionalProducer(ssl_context=trusting, **options) as producer:
                    producer.init_transactions()
                    with producer.transaction():
                        producer.send("t", b"by TLS from a thread")

            await asyncio.to_thread(write_blocking)
            with pytest.raises(AuthenticationError):
                await TransactionalProducer(ssl_context=ssl.create_default_context(), **options).start()
        assert broker.committed == [b"by TLS", b"by TLS from a thread"]


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("level", [1, 2])
def test_producers_use_tls_for_every_connection(level: int, run: Any) -> None:
    run(write(level))


class SaslBroker(ModelBroker):
    """Takes one user, by SASL/PLAIN."""

    HANDSHAKE, AUTHENTICATE, FAILED, UNSUPPORTED = 17, 36, 58, 33

    def __init__(self, level: int = 2) -> None:
        super().__init__(level)
        self.password = "right"

    def _known(self) -> list[ApiVersion]:
        return [*super()._known(), ApiVersion(self.HANDSHAKE, 0, 1), ApiVersion(self.AUTHENTICATE, 0, 0)]

    def _answer(self, frame: bytes) -> bytes | None:
        key, _, correlation_id = unpack_from(">hhi", frame)
        if key == self.HANDSHAKE:
            answer = pack(">ihih5s", correlation_id, 0 if b"PLAIN" in frame else self.UNSUPPORTED, 1, 5, b"PLAIN")
        elif key == self.AUTHENTICATE:
            is_right = frame.endswith(f"\0user\0{self.password}".encode())
            answer = pack(">ihh3si", correlation_id, 0 if is_right else self.FAILED, 3, b"who", 0)
        else:
            return super()._answer(frame)
        return pack(">i", len(answer)) + answer

    def break_connections(self) -> None:
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


def sasl(broker: SaslBroker, password: str = "right") -> dict[str, Any]:
    return {
        "bootstrap_servers": str(broker.address),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "user",
        "sasl_plain_password": password,
    }


async def test_a_user_with_the_right_password_commits() -> None:
    with SaslBroker() as broker:
        async with TransactionalProducer(transactional_id="id", **sasl(broker)) as producer:
            await producer.init_transactions()
            async with producer.transaction():
                await producer.send("t", b"by SASL")

        assert broker.committed == [b"by SASL"]


async def test_a_wrong_password_makes_start_fail_immediately() -> None:
    with SaslBroker() as broker:
        refused = sasl(broker, "wrong")
        with pytest.raises(AuthenticationError, match=r"does not accept the credentials of this client.*who") as raised:
            await TransactionalProducer(transactional_id="id", **refused).start()
        with pytest.raises(AuthenticationError):
            await Connections(**refused).start()
        with pytest.raises(AuthenticationError):
            await asyncio.to_thread(blocking.TransactionalProducer(transactional_id="id", **refused).start)
        with pytest.raises(AuthenticationError):
            async with TransactionalConsumer("t", group_id="group", **refused):
                raise AssertionError("it was taken")
        with pytest.raises(AuthenticationError):
            await asyncio.to_thread(blocking.TransactionalConsumer("t", group_id="group", **refused).start)

    assert raised.value.code == broker.FAILED


async def test_a_mechanism_that_the_broker_does_not_have_is_named() -> None:
    with SaslBroker() as broker:
        other = sasl(broker) | {"sasl_mechanism": "SCRAM-SHA-256"}
        with pytest.raises(AuthenticationError) as raised:
            await TransactionalProducer(transactional_id="id", **other).start()

    assert "UNSUPPORTED_SASL_MECHANISM (sasl_mechanism is SCRAM-SHA-256): " in str(raised.value)
    assert "AIOKafkaConnection" not in str(raised.value)


async def test_a_failed_bootstrap_connection_reports_the_error_of_the_operating_system() -> None:
    for connecting in (
        TransactionalProducer(transactional_id="id", bootstrap_servers="127.0.0.1:1"),
        TransactionalConsumer("t", group_id="group", bootstrap_servers="127.0.0.1:1"),
    ):
        with pytest.raises(KafkaConnectionError, match=r"127\.0\.0\.1:1: .*Connect") as raised:
            await connecting.start()
        assert isinstance(raised.value.__cause__, ConnectionRefusedError)
        await connecting.stop()


async def test_a_broker_that_does_not_answer_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        producer = TransactionalProducer(transactional_id="id", bootstrap_servers=address, request_timeout_ms=200)
        with pytest.raises(
            KafkaConnectionError, match=f"no connection to a bootstrap server: {address}: no answer within 200 ms"
        ):
            await producer.start()
        await producer.stop()


@pytest.fixture
def asks_for_certificates() -> Iterator[tuple[str, trustme.CA]]:
    """Yield address and authority of a server that requires client certificates; OpenSSL refuses others by a TLS alert."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    listening = socket.create_server(("localhost", 0))

    def serve() -> None:
        with suppress(OSError):  # accept() fails when the socket is closed.
            while True:
                plain, _ = listening.accept()
                with plain.dup() as other:
                    with suppress(OSError):
                        context.wrap_socket(plain, server_side=True).close()
                    while other.recv(1 << 16):  # Unread data would reset the connection, and the alert could be lost.
                        pass

    thread = threading.Thread(target=serve)
    thread.start()
    yield f"localhost:{listening.getsockname()[1]}", authority
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    thread.join()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["TLS 1.2", "TLS 1.3"])
@pytest.mark.parametrize("has_certificate", [False, True], ids=["no certificate", "another one's certificate"])
async def test_a_refused_client_certificate_raises_authentication_error(
    asks_for_certificates: tuple[str, trustme.CA], version: ssl.TLSVersion, has_certificate: bool
) -> None:
    address, authority = asks_for_certificates
    context = ssl.create_default_context()
    authority.configure_trust(context)
    context.maximum_version = version
    if has_certificate:
        trustme.CA().issue_cert("client").configure_cert(context)
    producer = TransactionalProducer(
        bootstrap_servers=address, transactional_id="id", security_protocol="SSL", ssl_context=context
    )
    with pytest.raises(AuthenticationError, match=r"refuses this client: .*alert"):
        await producer.start()
    await producer.stop()


@pytest.mark.parametrize("is_known", [True, False], ids=["a topic that is known", "another topic"])
async def test_a_revoked_password_is_fatal_to_a_running_producer(is_known: bool) -> None:
    with SaslBroker() as broker:
        async with TransactionalProducer(transactional_id="id", **sasl(broker)) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            if is_known:
                await producer.send_and_wait("t", b"written", partition=0)
            broker.password = "another"
            broker.break_connections()
            while any(link.wire.connection.connected() for link in producer._connections._links.values()):
                await asyncio.sleep(0)
            with pytest.raises(ProduceFailedError if is_known else AuthenticationError):
                await producer.send_and_wait("t", b"lost", partition=0)
            for call in (producer.commit_transaction, producer.abort_transaction):
                with pytest.raises(AuthenticationError):
                    await call()
            assert producer.state is State.FATAL_ERROR


async def test_a_commit_succeeds_when_authentication_fails_only_afterwards() -> None:
    with SaslBroker() as broker:
        async with TransactionalProducer(transactional_id="id", **sasl(broker)) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send_and_wait("t", b"committed", partition=0)
            end = broker.handlers[END_TXN]

            async def refuse(node_id: int) -> NoReturn:
                raise AuthenticationError("the connection broke, and the next one is refused")

            def end_and_refuse(request: Any, version: int) -> Any:
                producer._connections.link = refuse  # type: ignore[method-assign]
                return end(request, version)

            broker.handlers[END_TXN] = end_and_refuse
            await producer.commit_transaction()
            assert broker.committed == [b"committed"]
            with pytest.raises(AuthenticationError):
                await producer.begin_transaction()


async def test_a_connection_that_the_broker_closes_without_a_word_is_explained() -> None:
    listener = ("--set", "listeners=SASL_PLAINTEXT://127.0.0.1:0", "--set", "stuntbroker.users=alice:secret")
    with serving(*listener, "--set", "sasl.enabled.mechanisms=PLAIN") as broker:
        producer = TransactionalProducer(
            bootstrap_servers="{}:{}".format(*broker.address), transactional_id="pay", sasl_plain_username="alice"
        )
        with pytest.raises(
            KafkaConnectionError, match="security_protocol is PLAINTEXT: does the listener need another"
        ):
            await producer.start()
