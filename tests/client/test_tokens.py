"""Clients whose OAUTHBEARER tokens the broker refuses, at the start and while they run."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaConnectionError
from aiokafka.structs import TopicPartition

from stuntbroker.client import AuthenticationError, State, TransactionalConsumer, TransactionalProducer
from stuntbroker.fixture.broker import Broker

pytestmark = pytest.mark.stuntbroker(
    properties={"listeners": "SASL_PLAINTEXT://localhost:0", "sasl.enabled.mechanisms": "OAUTHBEARER"}, topics={"in": 1}
)
HOUR_S = 3_600
IN = TopicPartition("in", 0)
REFUSED = "does not accept the credentials of this client: .*the token is refused"


class Tokens(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka has no types.
    """Provides unsecured tokens, which have expired if `are_valid` is False."""

    def __init__(self) -> None:
        self.are_valid = True
        self.is_hanging = False

    async def token(self) -> str:
        """Return a new token."""
        while self.is_hanging:
            await asyncio.sleep(60)
        expiry_s = time.time() + (HOUR_S if self.are_valid else -HOUR_S)
        claims = {"sub": "alice", "iat": expiry_s - 2 * HOUR_S, "exp": expiry_s}
        parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode() for part in ({"alg": "none"}, claims)]
        return ".".join(part.rstrip("=") for part in parts) + "."


def connecting(broker: Broker, tokens: Tokens) -> dict[str, Any]:
    return {
        "bootstrap_servers": broker.bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": tokens,
        "retry_backoff_ms": 10,
    }


async def lose_connections(broker: Broker) -> None:
    await asyncio.to_thread(broker.restart, kill=True)


def producer_of(options: dict[str, Any]) -> TransactionalProducer:
    return TransactionalProducer(transactional_id="id", **options)


def consumer_of(options: dict[str, Any]) -> TransactionalConsumer:
    return TransactionalConsumer("in", group_id="group", **options)


@pytest.mark.parametrize("create", [producer_of, consumer_of])
async def test_an_expired_token_fails_the_start(create: Callable[[dict[str, Any]], Any], stuntbroker: Broker) -> None:
    tokens = Tokens()
    tokens.are_valid = False
    client = create(connecting(stuntbroker, tokens))
    with pytest.raises(AuthenticationError, match=REFUSED):
        await client.start()
    await client.stop()


@pytest.mark.parametrize("create", [producer_of, consumer_of])
async def test_a_provider_that_gives_no_token_fails_the_start_after_the_time_out_of_a_request(
    create: Callable[[dict[str, Any]], Any], stuntbroker: Broker
) -> None:
    tokens = Tokens()
    tokens.is_hanging = True
    client = create(connecting(stuntbroker, tokens) | {"request_timeout_ms": 50})
    with pytest.raises(KafkaConnectionError, match=": sasl_oauth_token_provider gave no token within 50 ms"):
        await client.start()
    await client.stop()


async def test_a_provider_whose_shared_task_is_cancelled_fails_an_attempt_and_not_the_client(
    stuntbroker: Broker,
) -> None:
    class Shared(Tokens):
        """Awaits a task that another user of the task has cancelled."""

        async def token(self) -> str:
            if self.is_hanging:
                shared = asyncio.ensure_future(super().token())
                shared.cancel()
                return await shared
            return await super().token()

    tokens = Shared()
    tokens.is_hanging = True
    producer = producer_of(connecting(stuntbroker, tokens))
    with pytest.raises(KafkaConnectionError, match="sasl_oauth_token_provider was cancelled, and gave no token"):
        await producer.start()
    tokens.is_hanging = False
    await producer.start()
    await producer.init_transactions()
    tokens.is_hanging = True
    await lose_connections(stuntbroker)
    while await producer._connections.refresh():  # Wait until the background task has called the cancelled provider.
        await asyncio.sleep(0.01)
    tokens.is_hanging = False
    async with producer.transaction():
        await producer.send("in", b"x")
    await producer.stop()


@pytest.mark.parametrize("create", [producer_of, consumer_of])
async def test_a_provider_of_another_type_is_refused(
    create: Callable[[dict[str, Any]], Any], stuntbroker: Broker
) -> None:
    with pytest.raises(TypeError, match=r"has to be an aiokafka\.abc\.AbstractTokenProvider"):
        create(connecting(stuntbroker, Tokens().token))  # type: ignore[arg-type]


async def test_a_token_that_expires_is_fatal_to_a_producer(stuntbroker: Broker) -> None:
    tokens = Tokens()
    async with producer_of(connecting(stuntbroker, tokens)) as producer:
        await producer.init_transactions()
        tokens.are_valid = False
        await lose_connections(stuntbroker)
        with pytest.raises(AuthenticationError, match=REFUSED):
            async with producer.transaction():
                await producer.send("in", b"x")
        assert producer.state is State.FATAL_ERROR


CALLS: dict[str, Callable[[TransactionalConsumer], Awaitable[object]]] = {
    "getone": lambda consumer: consumer.getone(),
    "getmany": lambda consumer: consumer.getmany(timeout_ms=20_000),
    "commit": lambda consumer: consumer.commit({IN: 0}),
    "reset_to_committed": lambda consumer: consumer.reset_to_committed(),
    "end_offsets": lambda consumer: consumer.end_offsets([IN]),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("is_waiting", [False, True])
async def test_a_token_that_expires_ends_the_calls_of_a_consumer_until_there_is_a_valid_one(
    is_waiting: bool, name: str, stuntbroker: Broker
) -> None:
    tokens = Tokens()
    async with consumer_of(connecting(stuntbroker, tokens)) as consumer:
        tokens.are_valid = False
        calling = asyncio.ensure_future(CALLS["getone"](consumer)) if is_waiting else None
        await lose_connections(stuntbroker)
        if calling is not None:
            with pytest.raises(AuthenticationError, match=REFUSED):
                await calling
        with pytest.raises(AuthenticationError, match=REFUSED):
            while True:  # Repeat until a background task has also lost its connection.
                await CALLS[name](consumer)
        tokens.are_valid = True
        while True:
            try:
                await consumer.commit({IN: 0})
                break
            except AuthenticationError:  # The next connection is opened in the background.
                await asyncio.sleep(0.01)
        async with producer_of(connecting(stuntbroker, tokens)) as producer:
            await producer.init_transactions()
            async with producer.transaction():
                await producer.send("in", b"x")
        assert (await consumer.getone()).value == b"x"
