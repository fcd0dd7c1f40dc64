"""Options of security reach aiokafka's connections: TLS to a broker behind a proxy, and SASL."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trustme
import uvloop
from aiokafka.errors import KafkaConnectionError
from model_broker import ModelBroker

from stuntbroker.client import TransactionalProducer, blocking
from stuntbroker.client.connection import Address


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
            with pytest.raises(KafkaConnectionError):
                await TransactionalProducer(ssl_context=ssl.create_default_context(), **options).start()
        assert broker.committed == [b"by TLS", b"by TLS from a thread"]


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("level", [1, 2])
def test_everything_goes_by_tls_when_it_is_asked_for(level: int, run: Any) -> None:
    run(write(level))


async def test_options_of_sasl_are_those_of_aiokafkas_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[str, Any]] = []

    class Client:
        def __init__(self, **options: Any) -> None:
            given.append(options)

        _sync_task = None

        async def bootstrap(self) -> None:
            raise KafkaConnectionError("not needed")

        async def close(self) -> None:
            pass

        async def _get_conn(self) -> None:
            pass

    monkeypatch.setattr("stuntbroker.client.producer.connections.AIOKafkaClient", Client)
    security = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "user",
        "sasl_plain_password": "password",
    }
    with pytest.raises(KafkaConnectionError):
        await TransactionalProducer(transactional_id="id", **security).start()
    assert security.items() <= given[0].items()
