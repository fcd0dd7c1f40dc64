"""Permissions that are missing: what is abortable goes on once it is permitted, and what is fatal ends (KIP-691)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import stuntbroker
from stuntbroker.client import (
    CommitFailedError,
    ProduceFailedError,
    State,
    TransactionAbortableError,
    TransactionalProducer,
)
from stuntbroker.client.transactional_errors import FatalError
from stuntbroker.fixture.broker import Broker

PROPERTIES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "stuntbroker.principal": "User:alice",
}


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker on which alice may use the transactional id x and write to topics whose names begin with `open`."""
    with stuntbroker.broker(properties=PROPERTIES, topics={"open": 1, "closed": 1, "open-later": 1}) as broker:
        broker.acls.allow("alice", "WRITE", transactional_id="x")
        broker.acls.allow("alice", "WRITE", topic="open", prefixed=True)
        yield broker


def producer_of(broker: Broker, transactional_id: str = "x") -> TransactionalProducer:
    return TransactionalProducer(
        bootstrap_servers=broker.bootstrap, transactional_id=transactional_id, retry_backoff_ms=5
    )


async def test_a_forbidden_topic_fails_the_transaction_but_not_the_producer(broker: Broker) -> None:
    async with producer_of(broker) as producer:
        await producer.init_transactions()
        broker.acls.deny("alice", "WRITE", topic="open-later")
        await producer.begin_transaction()
        await producer.send_and_wait("open", b"1")
        with pytest.raises(ProduceFailedError) as refused:
            await producer.send_and_wait("open-later", b"1")
        assert "TOPIC_AUTHORIZATION_FAILED" in str(refused.value)
        with pytest.raises(CommitFailedError):
            await producer.commit_transaction()
        await producer.abort_transaction()
        broker.assert_committed("open", [])

        broker.acls.clear("alice")
        broker.acls.allow("alice", "ALL", topic="*", transactional_id="*")
        async with producer.transaction():
            await producer.send("open", b"2")
            await producer.send("open-later", b"2")

    broker.assert_committed("open", ["2"])
    broker.assert_committed("open-later", ["2"])


async def test_a_forbidden_group_fails_the_transaction_but_not_the_producer(broker: Broker) -> None:
    async with producer_of(broker) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send("open", b"1")
        with pytest.raises(TransactionAbortableError) as refused:
            await producer.send_offsets_to_transaction({("open", 0): 1}, "g")
        assert "GROUP_AUTHORIZATION_FAILED" in str(refused.value)
        await producer.abort_transaction()

        broker.acls.allow("alice", "READ", topic="open", group="g")
        async with producer.transaction():
            await producer.send("open", b"2")
            await producer.send_offsets_to_transaction({("open", 0): 1}, "g")

    broker.assert_committed("open", ["2"])
    assert broker.committed("g") == {("open", 0): 1}


async def test_a_forbidden_transactional_id_is_fatal(broker: Broker) -> None:
    async with producer_of(broker, "y") as producer:
        with pytest.raises(FatalError) as refused:
            await producer.init_transactions()
        assert "TRANSACTIONAL_ID_AUTHORIZATION_FAILED" in str(refused.value)
        assert producer.state is State.FATAL_ERROR


async def test_two_phase_commit_needs_a_permission_of_its_own(broker: Broker) -> None:
    producer = TransactionalProducer(bootstrap_servers=broker.bootstrap, transactional_id="x", enable_2pc=True)
    async with producer:
        with pytest.raises(FatalError):
            await producer.init_transactions()
    broker.acls.allow("alice", "TWO_PHASE_COMMIT", transactional_id="x")
    async with TransactionalProducer(
        bootstrap_servers=broker.bootstrap, transactional_id="x", enable_2pc=True
    ) as permitted:
        await permitted.init_transactions()
        await permitted.begin_transaction()
        await permitted.send("open", b"1")
        state = await permitted.prepare_transaction()
        assert await permitted.complete_transaction(state)
    broker.assert_committed("open", ["1"])
