"""Errors of a consumer: their class says what the application does (KIP-1050), and they name the broker's error."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import (
    CommitFailedError,
    GroupAuthorizationFailedError,
    KafkaError,
    NodeNotReadyError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    RequestTimedOutError,
    TopicAuthorizationFailedError,
    UnknownError,
)
from aiokafka.protocol.group import HeartbeatRequest

from stuntbroker.client import (
    ApplicationRecoverableError,
    AuthorizationError,
    FatalError,
    InvalidConfigurationError,
    OperationTimedOutError,
    ProducerError,
    RetriableError,
    TransactionalConsumer,
    UnexpectedError,
)
from stuntbroker.client.consumer.calls import _checked
from stuntbroker.client.consumer.errors import ConsumerErrors
from stuntbroker.fixture.broker import Broker
from stuntbroker.protocol.errors import ErrorCode

GIVEN_UP = [
    ("FindCoordinator", "GROUP_AUTHORIZATION_FAILED", AuthorizationError),
    ("FindCoordinator", "UNKNOWN_SERVER_ERROR", UnexpectedError),
    ("JoinGroup", "GROUP_AUTHORIZATION_FAILED", AuthorizationError),
    ("JoinGroup", "INCONSISTENT_GROUP_PROTOCOL", InvalidConfigurationError),
    ("JoinGroup", "INVALID_SESSION_TIMEOUT", InvalidConfigurationError),
    ("JoinGroup", "INVALID_GROUP_ID", InvalidConfigurationError),
    ("JoinGroup", "GROUP_MAX_SIZE_REACHED", InvalidConfigurationError),
    ("JoinGroup", "FENCED_INSTANCE_ID", ApplicationRecoverableError),
    ("SyncGroup", "FENCED_INSTANCE_ID", ApplicationRecoverableError),
    ("SyncGroup", "UNKNOWN_SERVER_ERROR", UnexpectedError),
    ("Heartbeat", "GROUP_AUTHORIZATION_FAILED", AuthorizationError),
    ("Heartbeat", "FENCED_INSTANCE_ID", ApplicationRecoverableError),
    ("OffsetFetch", "GROUP_AUTHORIZATION_FAILED", AuthorizationError),
    ("OffsetFetch", "TOPIC_AUTHORIZATION_FAILED", AuthorizationError),
    ("Fetch", "TOPIC_AUTHORIZATION_FAILED", AuthorizationError),
]


@pytest.mark.parametrize(("api", "code", "expected"), GIVEN_UP)
async def test_an_error_that_ends_the_membership_says_what_to_do_and_has_the_broker_s_code(
    api: str, code: str, expected: type[FatalError], stuntbroker: Broker
) -> None:
    await asyncio.to_thread(stuntbroker.create_topic, "in", 1)
    await asyncio.to_thread(stuntbroker.faults.add, api, error=code)
    consumer = TransactionalConsumer(
        "in", bootstrap_servers=stuntbroker.bootstrap, group_id="group", heartbeat_interval_ms=20
    )
    try:
        with pytest.raises(KafkaError) as raised:
            async with asyncio.timeout(20):
                await consumer.start()
                while True:
                    await consumer.getmany(timeout_ms=100)
    finally:
        await consumer.stop()

    error = raised.value
    assert type(error) is expected
    assert isinstance(error, FatalError) and error.code == ErrorCode[code]
    assert "consumer of group 'group'" in str(error) and code in str(error)
    assert error.__cause__ is not None and error.__cause__.__cause__ is None


@pytest.mark.parametrize(
    "fault",
    [
        CommitFailedError("the group was rebalanced"),
        NoOffsetForPartitionError(TopicPartition("in", 0)),
        OffsetOutOfRangeError({TopicPartition("in", 0): 7}),
        OperationTimedOutError("of this package"),
    ],
    ids=lambda fault: type(fault).__name__,
)
def test_errors_that_an_application_handles_by_name_stay_as_they_are(fault: KafkaError) -> None:
    fault.__cause__ = UnknownError()
    outer = KafkaError("Unexpected error during coordination")
    outer.__cause__ = fault

    assert ConsumerErrors("group").translated(fault) is fault
    assert ConsumerErrors("group").translated(outer) is fault


WRAPPED: list[tuple[Exception, type[ProducerError]]] = [
    (NodeNotReadyError("node 1"), RetriableError),
    (RequestTimedOutError(), RetriableError),
    (KafkaError("Unable to get cluster metadata over all known brokers"), RetriableError),
    (GroupAuthorizationFailedError("group"), AuthorizationError),
    (UnknownError(), UnexpectedError),
    (KafkaError("a mistake of aiokafka"), UnexpectedError),
    (ZeroDivisionError("a mistake of an assignor"), UnexpectedError),
    (ConnectionRefusedError(30, "not an error code of Kafka"), UnexpectedError),
]


@pytest.mark.parametrize(
    ("fault", "expected"), WRAPPED, ids=lambda each: getattr(each, "__name__", type(each).__name__)
)
def test_the_error_that_aiokafka_has_wrapped_decides_and_becomes_the_cause(
    fault: Exception, expected: type[ProducerError]
) -> None:
    outer = KafkaError("Unexpected error during coordination")
    outer.__cause__ = fault
    if isinstance(fault, RequestTimedOutError):
        fault.__cause__ = TimeoutError()

    error = ConsumerErrors("group").translated(outer)

    assert type(error) is expected
    assert error.__cause__ is (fault.__cause__ or fault)


def test_a_code_that_aiokafka_does_not_know_is_taken_from_the_response_once() -> None:
    errors = ConsumerErrors("group")
    heartbeat, lost = HeartbeatRequest("group", 1, "member"), KafkaError("Unexpected exception: UnknownError()")
    errors.note(heartbeat, [ErrorCode.FENCED_INSTANCE_ID])

    for _ in range(2):  # A failure of the membership is raised by every call.
        error = errors.translated(lost)
        assert isinstance(error, ApplicationRecoverableError)
        assert error.code == ErrorCode.FENCED_INSTANCE_ID
        assert "Heartbeat: FENCED_INSTANCE_ID (82)" in str(error)

    assert type(errors.translated(UnknownError())) is UnexpectedError
    errors.note(heartbeat, [ErrorCode.FENCED_INSTANCE_ID])
    errors.note(heartbeat, [ErrorCode.NONE])
    assert type(errors.translated(KafkaError("another one"))) is UnexpectedError


def test_the_topic_is_named_even_if_the_group_has_the_same_name() -> None:
    assert str(ConsumerErrors("orders").translated(TopicAuthorizationFailedError("orders"))).endswith("(29): orders")


@asynccontextmanager
async def reading(broker: Broker, **options: Any) -> AsyncIterator[TransactionalConsumer]:
    await asyncio.to_thread(broker.create_topic, "in", 1)
    async with TransactionalConsumer(
        "in", bootstrap_servers=broker.bootstrap, group_id="group", heartbeat_interval_ms=20, **options
    ) as consumer:
        yield consumer


async def test_a_call_that_has_no_response_in_time_may_be_repeated(stuntbroker: Broker) -> None:
    async with reading(stuntbroker, request_timeout_ms=500) as consumer:
        lost = await asyncio.to_thread(stuntbroker.faults.add, "ListOffsets", lose_response=True)
        with pytest.raises(OperationTimedOutError) as raised:
            await consumer.end_offsets([TopicPartition("in", 0)])
        assert type(raised.value.__cause__) is TimeoutError
        await asyncio.to_thread(lost.remove)
        assert await consumer.end_offsets([TopicPartition("in", 0)]) == {TopicPartition("in", 0): 0}


async def test_metadata_that_no_broker_gives_may_be_asked_for_again(stuntbroker: Broker) -> None:
    async with reading(stuntbroker, request_timeout_ms=500) as consumer:
        broken = await asyncio.to_thread(stuntbroker.faults.add, "Metadata", close=True)
        with pytest.raises(RetriableError):
            await consumer.topics()
        await asyncio.to_thread(broken.remove)
        async with asyncio.timeout(20):
            while True:
                try:
                    assert await consumer.topics() == {"in"}
                    break
                except RetriableError:
                    continue


async def test_codes_of_kafka_that_aiokafka_lacks_decide_in_calls_too(stuntbroker: Broker) -> None:
    async with reading(stuntbroker) as consumer:
        await asyncio.to_thread(stuntbroker.faults.add, "OffsetCommit", error="FENCED_INSTANCE_ID", times=1)
        with pytest.raises(ApplicationRecoverableError, match="OffsetCommit: FENCED_INSTANCE_ID"):
            await consumer.commit({TopicPartition("in", 0): 0})
        await asyncio.to_thread(stuntbroker.faults.add, "ListOffsets", error="OFFSET_NOT_AVAILABLE", times=1)
        with pytest.raises(RetriableError, match="ListOffsets: OFFSET_NOT_AVAILABLE"):
            await consumer.end_offsets([TopicPartition("in", 0)])
        await consumer.commit({TopicPartition("in", 0): 0})


async def test_an_error_is_not_explained_by_an_earlier_one(stuntbroker: Broker) -> None:
    async with reading(stuntbroker) as consumer:
        await consumer.position(
            TopicPartition("in", 0)
        )  # Otherwise, the fault may hit the OffsetFetch of the consumer itself.
        await asyncio.to_thread(stuntbroker.faults.add, "OffsetFetch", error="GROUP_AUTHORIZATION_FAILED", times=1)
        with pytest.raises(AuthorizationError):
            await consumer.committed(TopicPartition("in", 0))
        assert await consumer.committed(TopicPartition("in", 0)) is None
        await asyncio.to_thread(stuntbroker.faults.add, "ListOffsets", error="UNKNOWN_SERVER_ERROR", times=1)
        with pytest.raises(UnexpectedError, match="UNKNOWN_SERVER_ERROR"):
            await consumer.end_offsets([TopicPartition("in", 0)])


async def test_no_error_is_its_own_cause_or_context() -> None:
    inner = NoOffsetForPartitionError(TopicPartition("in", 0))
    outer = KafkaError("Unexpected error during coordination")
    outer.__cause__ = inner

    async def fails(consumer: object) -> None:
        raise outer

    class Consumer:
        _errors = ConsumerErrors("group")

        def _check_open(self, name: str, needs_start: bool) -> None:
            pass

        async def _unless_refused(self, waiting: Any) -> None:
            await waiting

    with pytest.raises(NoOffsetForPartitionError) as raised:
        await _checked("committed", fails, needs_start=True)(Consumer())
    assert raised.value is inner and inner.__context__ is None
