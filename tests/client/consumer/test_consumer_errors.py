"""Errors of a consumer: their class says what the application does (KIP-1050), and they name the broker's error."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import (
    CommitFailedError,
    GroupAuthorizationFailedError,
    KafkaError,
    KafkaTimeoutError,
    NodeNotReadyError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
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


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (KafkaTimeoutError("no metadata"), OperationTimedOutError),
        (NodeNotReadyError("node 1"), RetriableError),
        (GroupAuthorizationFailedError("group"), AuthorizationError),
        (UnknownError(), UnexpectedError),
        (KafkaError("a mistake of aiokafka"), UnexpectedError),
        (ConnectionRefusedError(30, "not an error code of Kafka"), UnexpectedError),
    ],
    ids=lambda each: each.__name__ if isinstance(each, type) else type(each).__name__,
)
def test_the_innermost_error_decides_and_becomes_the_cause(fault: KafkaError, expected: type[ProducerError]) -> None:
    outer = KafkaError("Unexpected error during coordination")
    outer.__cause__ = fault

    error = ConsumerErrors("group").translated(outer)

    assert type(error) is expected
    assert error.__cause__ is fault


def test_a_code_that_aiokafka_does_not_know_is_taken_from_the_response() -> None:
    errors = ConsumerErrors("group")
    errors.note(HeartbeatRequest("group", 1, "member"), ErrorCode.FENCED_INSTANCE_ID)

    for code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NOT_COORDINATOR, ErrorCode.NONE):
        errors.note(HeartbeatRequest("group", 1, "member"), code)  # aiokafka goes on after these.
    error = errors.translated(KafkaError("Unexpected exception in heartbeat task: UnknownError()"))

    assert isinstance(error, ApplicationRecoverableError)
    assert error.code == ErrorCode.FENCED_INSTANCE_ID
    assert "Heartbeat: FENCED_INSTANCE_ID (82)" in str(error)
