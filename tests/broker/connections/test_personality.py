"""A listener with the personality of an older Kafka release: the versions it advertises and refuses, with real clients."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Producer

import stuntbroker
from stuntbroker.broker.configuration.config import BrokerConfig
from stuntbroker.broker.configuration.properties import ConfigError
from stuntbroker.broker.connections.listener import listeners_of
from stuntbroker.broker.requests.apis import SERVED
from stuntbroker.broker.requests.personality import PERSONALITIES, has_features, versions_of
from stuntbroker.client import TransactionalProducer
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.connection import Connection, Deadline
from stuntbroker.client.errors import ConnectionFailed
from stuntbroker.fixture.broker import Broker
from stuntbroker.protocol.addresses import parse_bootstrap
from stuntbroker.protocol.messages.api_versions_request import ApiVersionsRequest
from stuntbroker.protocol.messages.api_versions_response import ApiVersionsResponse
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.init_producer_id_response import InitProducerIdResponse
from stuntbroker.protocol.versions import OLDER_RELEASES, RELEASE

ALL = [*PERSONALITIES, RELEASE]
DEADLINE_S = 20.0
API_VERSIONS, PRODUCE, INIT_PRODUCER_ID = 18, 0, 22


def test_every_older_release_has_a_personality() -> None:
    assert tuple(PERSONALITIES) == OLDER_RELEASES


@contextmanager
def broker_of(personality: str) -> Iterator[Broker]:
    with stuntbroker.broker({"stuntbroker.personality": personality}, topics={"t": 1}) as broker:
        yield broker


def test_later_releases_serve_all_apis_and_versions_of_earlier_releases() -> None:
    tables = [versions_of(personality) for personality in ALL]
    for earlier, later in itertools.pairwise(tables):
        assert earlier.keys() <= later.keys()
        assert all(earlier[key][1] <= later[key][1] for key in earlier)
    assert tables[-1] == {key: (low, high) for key, (low, high, _) in SERVED.items()}
    assert [personality for personality in ALL if has_features(personality)] == ["4.0", "4.3"]


@pytest.mark.parametrize("personality", ALL)
def test_a_listener_advertises_and_serves_only_the_versions_of_its_release(personality: str) -> None:
    versions = versions_of(personality)
    with broker_of(personality) as broker, Cluster(parse_bootstrap(broker.bootstrap)) as cluster:
        version = min(3, versions[API_VERSIONS][1])
        request = ApiVersionsRequest("test", "1")
        answer: ApiVersionsResponse = cluster.ask(1, API_VERSIONS, request, ApiVersionsResponse, version, version)
        shown = {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys}
        assert shown == {**versions, PRODUCE: (0, versions[PRODUCE][1])}
        assert bool(answer.finalized_features) is (has_features(personality) and version >= 3)

        later = versions[INIT_PRODUCER_ID][1] + 1
        if personality != RELEASE:
            address = parse_bootstrap(broker.bootstrap)[0]
            deadline = Deadline(DEADLINE_S)
            connection = Connection(address, deadline)
            init = InitProducerIdRequest("id", 1000)
            with pytest.raises(ConnectionFailed):
                connection.ask(INIT_PRODUCER_ID, later, init, InitProducerIdResponse, deadline)


@pytest.mark.parametrize("personality", ALL)
def test_clients_of_today_commit_and_read_a_transaction_with_every_release(personality: str) -> None:
    async def with_aiokafka(bootstrap: str) -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="aiokafka")
        await producer.start()
        async with producer.transaction():
            await producer.send_and_wait("t", b"aiokafka", partition=0)
        await producer.stop()

    async def with_ours(bootstrap: str) -> None:
        async with TransactionalProducer(bootstrap_servers=bootstrap, transactional_id="ours") as producer:
            await producer.init_transactions()
            for value in (b"ours", b"ours too"):
                async with producer.transaction():
                    await producer.send("t", value, partition=0)

    async def read(bootstrap: str) -> list[bytes | None]:
        consumer = AIOKafkaConsumer(
            "t", bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
        )
        async with consumer:
            return [(await consumer.getone()).value for _ in range(4)]

    with broker_of(personality) as broker:
        asyncio.run(with_aiokafka(broker.bootstrap))
        producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "confluent"})
        producer.init_transactions(10)
        producer.begin_transaction()
        producer.produce("t", b"confluent", partition=0)
        producer.commit_transaction(10)
        asyncio.run(with_ours(broker.bootstrap))
        assert asyncio.run(read(broker.bootstrap)) == [b"aiokafka", b"confluent", b"ours", b"ours too"]
        sent = {request.version for request in broker.requests(1000) if request.api == "EndTxn"}
    assert max(sent) == (min(versions_of(personality)[26][1], 5))


def test_listeners_may_have_different_releases_and_faults_apply_to_older_releases() -> None:
    config = BrokerConfig(
        {
            "listeners": "OLD://127.0.0.1:0,NEW://127.0.0.1:0",
            "listener.security.protocol.map": "OLD:PLAINTEXT,NEW:PLAINTEXT",
            "stuntbroker.personality": "4.0, old:2.1",
        }
    )
    assert [(each.name, each.personality) for each in listeners_of(config)] == [("OLD", "2.1"), ("NEW", "4.0")]

    with broker_of("2.5") as broker:
        fault = broker.faults.add("EndTxn", error="NOT_COORDINATOR", times=1)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "id"})
        producer.init_transactions(10)
        producer.begin_transaction()
        producer.produce("t", b"value")
        producer.commit_transaction(10)
        assert fault.fired == 1
        broker.assert_committed("t", ["value"])


@pytest.mark.parametrize(
    ("value", "reason"),
    [("2.0", "'2.0' is none of 2.1, 2.5"), ("OLD:2.1", "listeners has no OLD"), ("", "is none of")],
)
def test_an_unknown_release_or_listener_in_the_personality_is_refused(value: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        listeners_of(BrokerConfig({"stuntbroker.personality": value}))
