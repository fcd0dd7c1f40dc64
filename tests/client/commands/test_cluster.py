"""Finding brokers, leaders and coordinators, and retries."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from fake_broker import FIND_COORDINATOR, METADATA, FakeBroker, HandClock

from stuntbroker.client.commands.cluster import Cluster, Partition
from stuntbroker.client.commands.transactions import End, end_all
from stuntbroker.client.errors import (
    BrokerError,
    ClientError,
    ConnectionFailed,
    NotFound,
    TimedOut,
    Unreachable,
    UnsupportedVersion,
)
from stuntbroker.protocol.addresses import Address
from stuntbroker.protocol.api_keys import END_TXN
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.end_txn_response import EndTxnResponse
from stuntbroker.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from stuntbroker.protocol.messages.metadata_response import MetadataResponse, MetadataResponseBroker

UNUSED_ADDRESS = Address("127.0.0.1", 1)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def cluster(broker: FakeBroker, clock: HandClock) -> Iterator[Cluster]:
    with Cluster([broker.address], 10.0, clock.now_s, clock.sleep) as created:
        yield created


def test_partitions_returns_those_of_the_given_topics(broker: FakeBroker, cluster: Cluster) -> None:
    expected = [Partition("t", 0, 1, (1,)), Partition("t", 1, 1, (1,))]
    assert cluster.partitions(["t"]) == cluster.partitions(None) == expected
    assert [request.allow_auto_topic_creation for _, _, request in broker.seen] == [False, False]


def test_a_missing_topic_partition_or_broker_is_reported_without_retries(
    broker: FakeBroker, cluster: Cluster, clock: HandClock
) -> None:
    for attempt, said in [
        (lambda: cluster.leader("other", 0), "no topic 'other'"),
        (lambda: cluster.leader("t", 2), "topic 't' has no partition 2, it has 2"),
        (lambda: cluster.version(7, METADATA), "no broker 7; there are 1"),
    ]:
        with pytest.raises(NotFound, match=said):
            cluster.retrying(attempt)
    assert clock.slept == []


def test_metadata_is_requested_until_the_partition_has_a_leader(broker: FakeBroker, cluster: Cluster) -> None:
    answered: list[int] = []

    def metadata(request: Any, version: int) -> Any:
        answered.append(version)
        broker.leaders[0] = -1 if len(answered) < 3 else 1
        return broker.metadata(request, version)

    broker.handlers[METADATA] = metadata
    assert cluster.retrying(lambda: cluster.leader("t", 0)) == 1
    assert len(answered) == 3


def test_retriable_errors_are_retried_with_growing_back_off_until_the_time_out(
    cluster: Cluster, clock: HandClock
) -> None:
    def attempt() -> None:
        raise BrokerError("x", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    with pytest.raises(TimedOut, match="x: COORDINATOR_LOAD_IN_PROGRESS; given up after 10 s") as caught:
        cluster.retrying(attempt)
    assert isinstance(caught.value.__cause__, BrokerError)
    assert clock.slept[:7] == [0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0]
    assert sum(clock.slept) <= 10.0


@pytest.mark.parametrize(
    "fault",
    [BrokerError("x", 53), BrokerError("x", 999), NotFound("nothing"), UnsupportedVersion("old")],
    ids=str,
)
def test_permanent_errors_are_not_retried(cluster: Cluster, clock: HandClock, fault: ClientError) -> None:
    def attempt() -> None:
        raise fault

    with pytest.raises(type(fault)) as caught:
        cluster.retrying(attempt)
    assert caught.value is fault
    assert clock.slept == []


def test_retrying_replaces_a_broken_connection(broker: FakeBroker, cluster: Cluster) -> None:
    answered: list[int] = []

    def metadata(request: Any, version: int) -> Any:
        answered.append(version)
        return None if len(answered) == 2 else broker.metadata(request, version)

    broker.handlers[METADATA] = metadata
    assert [cluster.retrying(cluster.broker_ids) for _ in range(2)] == [[1], [1]]
    assert len(answered) == 3


def test_a_cluster_that_was_never_reached_is_not_waited_for(clock: HandClock) -> None:
    """A wrong address is reported immediately; `stuntbroker wait` is the command that waits."""
    with (
        Cluster([UNUSED_ADDRESS, Address("localhost", 1)], 10.0, clock.now_s, clock.sleep) as cluster,
        pytest.raises(Unreachable, match=r"127\.0\.0\.1:1: .*; cannot connect to localhost:1"),
    ):
        cluster.retrying(cluster.broker_ids)
    assert clock.slept == []


def test_a_total_time_out_covers_all_operations_together(broker: FakeBroker, clock: HandClock) -> None:
    """Otherwise, a broker that answers each step just in time could block a command forever."""
    with Cluster([broker.address], 10.0, clock.now_s, clock.sleep, is_total=True) as cluster:
        for left_s in (10.0, 6.0, 2.0, 0.0):
            assert cluster.start_operation().left_s() == left_s
            clock.sleep(4.0)
    with Cluster([broker.address], 10.0, clock.now_s, clock.sleep) as cluster:
        clock.sleep(4.0)
        assert cluster.start_operation().left_s() == 10.0


def test_retry_unreachable_waits_for_an_address_that_was_never_reached(broker: FakeBroker, clock: HandClock) -> None:
    with Cluster([UNUSED_ADDRESS], 10.0, clock.now_s, clock.sleep) as cluster:
        cluster.retry_unreachable = True

        with pytest.raises(TimedOut, match=r"127\.0\.0\.1:1: .*; given up after 10 s"):
            cluster.retrying(cluster.broker_ids)
    assert sum(clock.slept) > 8

    def comes_up(seconds: float) -> None:
        cluster.bootstrap = (broker.address,)

    with Cluster([UNUSED_ADDRESS], 10.0, clock.now_s, comes_up) as cluster:
        cluster.retry_unreachable = True
        assert cluster.retrying(cluster.broker_ids) == [1]


def test_any_address_of_several_will_do(broker: FakeBroker) -> None:
    with Cluster([UNUSED_ADDRESS, broker.address], 10.0) as cluster:
        assert cluster.retrying(cluster.broker_ids) == [1]


def test_an_unreachable_broker_is_reported_with_its_id_and_advertised_address(
    broker: FakeBroker, cluster: Cluster
) -> None:
    """The classic mistake with containers: the address that is advertised means nothing outside."""
    broker.handlers[METADATA] = lambda request, version: MetadataResponse(
        0, [MetadataResponseBroker(5, *UNUSED_ADDRESS)]
    )
    with pytest.raises(TimedOut, match=r"broker 5 is known to the cluster as 127\.0\.0\.1:1: cannot connect"):
        cluster.retrying(lambda: cluster.version(5, METADATA))


@pytest.mark.parametrize("newest, requests", [(2, 3), (4, 1)])
def test_coordinators_are_looked_up_in_one_request_where_the_version_allows_this(
    broker: FakeBroker, cluster: Cluster, newest: int, requests: int
) -> None:
    broker.versions[FIND_COORDINATOR] = (0, newest)
    for _ in range(2):
        assert cluster.coordinators(["a", "b", "c"]) == {"a": 1, "b": 1, "c": 1}
    actual = [(version, request.key_type) for name, version, request in broker.seen if name == "FindCoordinator"]
    assert actual == [(newest, 1)] * requests


def test_a_coordinator_is_looked_up_when_its_cached_broker_has_left_the_cluster(
    broker: FakeBroker, cluster: Cluster
) -> None:
    """A later Metadata response, requested for another reason, does not list the cached coordinator's broker."""
    answer = broker.handlers[FIND_COORDINATOR]
    broker.handlers[FIND_COORDINATOR] = lambda request, version: FindCoordinatorResponse(
        coordinators=[Coordinator("a", 7, *broker.address)]
    )
    assert cluster.coordinators(["a"]) == {"a": 7}
    broker.handlers[FIND_COORDINATOR] = answer
    assert cluster.coordinators(["a"]) == {"a": 7}
    cluster.partitions(["t"])
    assert cluster.coordinators(["a"]) == {"a": 1}


@pytest.mark.parametrize(
    "answer, fault",
    [
        (FindCoordinatorResponse(coordinators=[Coordinator("a", -1, "", -1, 53)]), BrokerError),
        (FindCoordinatorResponse(coordinators=[Coordinator("a", -1, "", -1, 15)]), BrokerError),
        (FindCoordinatorResponse(), ConnectionFailed),
    ],
    ids=["forbidden", "not available", "nothing said"],
)
def test_a_find_coordinator_response_without_a_coordinator_is_an_error(
    broker: FakeBroker, cluster: Cluster, answer: FindCoordinatorResponse, fault: type[ClientError]
) -> None:
    broker.handlers[FIND_COORDINATOR] = lambda request, version: answer
    with pytest.raises(fault):
        cluster.coordinators(["a"])


def test_a_connection_that_broke_is_replaced_for_the_next_request(broker: FakeBroker, cluster: Cluster) -> None:
    assert cluster.broker_ids() == [1]
    working = broker.handlers[METADATA]
    broker.handlers[METADATA] = lambda request, version: None
    with pytest.raises(ConnectionFailed):
        cluster.broker_ids()
    broker.handlers[METADATA] = working

    assert cluster.broker_ids() == [1]


def test_threads_that_share_a_cluster_take_turns_also_with_many_requests_in_flight(broker: FakeBroker) -> None:
    refused = ErrorCode.INVALID_TXN_STATE
    broker.handlers[END_TXN] = lambda request, version: EndTxnResponse(0, 0 if request.producer_id % 3 else refused)
    results: list[list[int]] = []
    with Cluster([broker.address], 60.0) as cluster:

        def end(first: int) -> None:
            ends = [End(f"id-{number}", number, 0, True) for number in range(first, first + 50)]
            for _ in range(5):
                results.append([number for number, ended in enumerate(end_all(cluster, ends), first) if ended.code])
                cluster.retrying(cluster.broker_ids)

        threads = [threading.Thread(target=end, args=(1_000 * number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    expected = [[n for n in range(first, first + 50) if n % 3 == 0] for first in range(0, 4_000, 1_000)]
    assert sorted(results) == sorted(5 * expected)
