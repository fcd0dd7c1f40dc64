"""Options and arguments that a consumer refuses, before AIOKafkaConsumer fails on them later or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import TopicPartition

from stuntbroker.client import IllegalStateError, TransactionalConsumer
from stuntbroker.client.transactional_errors import InvalidConfigurationError
from stuntbroker.fixture.broker import Broker

IN = TopicPartition("in", 0)


def consumer_of(broker: Broker, **options: Any) -> TransactionalConsumer:
    return TransactionalConsumer("in", bootstrap_servers=broker.bootstrap, group_id="group", **options)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"client_id": 5}, TypeError, "client_id is a text, not int"),
        ({"client_id": None}, TypeError, "client_id is a text, not NoneType"),
        ({"metadata_max_age_ms": "x"}, TypeError, "metadata_max_age_ms is 'x'"),
        ({"connections_max_idle_ms": "x"}, TypeError, "connections_max_idle_ms is 'x'"),
        ({"request_timeout_ms": None}, TypeError, "request_timeout_ms is None"),
        ({"fetch_max_bytes": -1}, ValueError, "fetch_max_bytes is -1"),
        ({"session_timeout_ms": 0}, ValueError, "session_timeout_ms is 0: it has to be at least 1"),
        ({"rebalance_timeout_ms": 0}, ValueError, "rebalance_timeout_ms is 0"),
        ({"heartbeat_interval_ms": 10_000}, ValueError, "has to be less than session_timeout_ms, which is 10000"),
        ({"session_timeout_ms": 3_000}, ValueError, "heartbeat_interval_ms is 3000: it has to be less"),
        ({"value_deserializer": "x"}, TypeError, "value_deserializer is 'x': it has to be a function"),
        ({"group_instance_id": 5}, TypeError, "group_instance_id is a text, not int"),
        ({"partition_assignment_strategy": ()}, ValueError, "partition_assignment_strategy is empty"),
        ({"partition_assignment_strategy": 5}, TypeError, "a list of assignor classes"),
        ({"tracer": object()}, TypeError, "has to be a tracer"),
    ],
)
async def test_an_option_of_the_wrong_type_is_refused_by_the_constructor(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        TransactionalConsumer("in", group_id="group", **options)


@pytest.mark.parametrize(
    "call",
    [
        lambda consumer: consumer.getmany([IN]),
        lambda consumer: consumer.getone("in"),
        lambda consumer: consumer.committed("in"),
        lambda consumer: consumer.seek(("in", "0"), 1),
        lambda consumer: consumer.pause(["in", 0]),
    ],
)
async def test_what_is_no_partition_is_refused(call: Callable[[Any], Any], stuntbroker: Broker) -> None:
    stuntbroker.create_topic("in")
    async with consumer_of(stuntbroker) as consumer:
        with pytest.raises(TypeError, match="a partition is a TopicPartition"):
            waiting = call(consumer)
            await waiting
        assert await consumer.committed(("in", 0)) is None
        with pytest.raises(TypeError, match="next_offsets takes what getmany returned"):
            consumer.next_offsets([])


async def test_a_consumer_without_a_subscription_reads_nothing(stuntbroker: Broker) -> None:
    async with TransactionalConsumer(bootstrap_servers=stuntbroker.bootstrap, group_id="group") as consumer:
        with pytest.raises(IllegalStateError, match="it has no subscription"):
            await consumer.getone()
        assert await consumer.getmany() == {}


async def test_a_session_timeout_that_the_broker_refuses_is_explained(stuntbroker: Broker) -> None:
    stuntbroker.create_topic("in")
    with pytest.raises(InvalidConfigurationError, match=r"less than the broker's group.min.session.timeout.ms"):
        async with consumer_of(stuntbroker, session_timeout_ms=100, heartbeat_interval_ms=10) as consumer:
            await consumer.getone()
