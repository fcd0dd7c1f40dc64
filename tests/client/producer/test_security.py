"""Options of security reach aiokafka's connections, and who is refused is told so: TLS to a broker behind a proxy, SASL."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from struct import pack, unpack_from
from typing import Any, NoReturn

import pytest
import trustme
import uvloop
from model_broker import ModelBroker

from stuntbroker.client import (
    AuthenticationError,
    Connections,
    ProduceFailedError,
    State,
    TransactionalProducer,
    blocking,
)
from stuntbroker.protocol.addresses import Address
from stuntbroker.protocol.api_keys import END_TXN
from stuntbroker.protocol.messages.api_versions_response import ApiVersion


@asynccontextmanager
async def tls_proxy(broker: ModelBroker, authority: trustme.CA) -> AsyncIterator[None]:
    """Let the broker be reached by TLS only, at the address that its metadata tells."""
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
def test_everything_goes_by_tls_when_it_is_asked_for(level: int, run: Any) -> None:
    run(write(level))


class SaslBroker(ModelBroker):
    """Takes one user, by SASL/PLAIN."""

    HANDSHAKE, AUTHENTICATE, FAILED = 17, 36, 58

    def __init__(self, level: int = 2) -> None:
        super().__init__(level)
        self.password = "right"

    def _known(self) -> list[ApiVersion]:
        return [*super()._known(), ApiVersion(self.HANDSHAKE, 0, 1), ApiVersion(self.AUTHENTICATE, 0, 0)]

    def _answer(self, frame: bytes) -> bytes | None:
        key, _, correlation_id = unpack_from(">hhi", frame)
        if key == self.HANDSHAKE:
            answer = pack(">ihih5s", correlation_id, 0, 1, 5, b"PLAIN")
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


async def test_a_wrong_password_is_fatal_at_once() -> None:
    with SaslBroker() as broker:
        refused = sasl(broker, "wrong")
        with pytest.raises(AuthenticationError, match=r"trust each other.*who") as raised:
            await TransactionalProducer(transactional_id="id", **refused).start()
        with pytest.raises(AuthenticationError):
            await Connections(**refused).start()
        with pytest.raises(AuthenticationError):
            await asyncio.to_thread(blocking.TransactionalProducer(transactional_id="id", **refused).start)

    assert raised.value.code == broker.FAILED


@pytest.mark.parametrize("is_known", [True, False], ids=["a topic that is known", "another topic"])
async def test_a_password_that_is_taken_back_ends_the_producer_instead_of_being_tried_for_ever(is_known: bool) -> None:
    with SaslBroker() as broker:
        async with TransactionalProducer(transactional_id="id", **sasl(broker)) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            if is_known:
                await producer.send_and_wait("t", b"written", partition=0)
            broker.password = "another"
            broker.break_connections()
            while any(link.connection.connected() for link in producer._connections._links.values()):
                await asyncio.sleep(0)
            with pytest.raises(ProduceFailedError if is_known else AuthenticationError):
                await producer.send_and_wait("t", b"lost", partition=0)
            for call in (producer.commit_transaction, producer.abort_transaction):
                with pytest.raises(AuthenticationError):
                    await call()
            assert producer.state is State.FATAL_ERROR


async def test_a_commit_that_took_place_is_reported_as_such_whatever_comes_behind_it() -> None:
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
