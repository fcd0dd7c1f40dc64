"""Records that are produced without a transaction are written once, even if requests or responses are lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import stuntbroker
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.producing import BATCH_BYTES_MAX, UNKNOWN_OFFSET, Appended, NewRecord, produce
from stuntbroker.client.errors import BrokerError
from stuntbroker.fixture.broker import Broker
from stuntbroker.protocol.addresses import parse_bootstrap


@pytest.fixture
def broker() -> Iterator[Broker]:
    with stuntbroker.broker({"message.max.bytes": 600_000}, {"t": 2}) as created:
        yield created


@pytest.fixture
def cluster(broker: Broker) -> Iterator[Cluster]:
    """Yield a cluster of our own, as faults do not apply to the requests of the broker object."""
    with Cluster(parse_bootstrap(broker.bootstrap), 10) as created:
        yield created


def write(cluster: Cluster, *values: bytes, partition: int = 0) -> None:
    produce(cluster, "t", [NewRecord(None, value, (), partition) for value in values])


@pytest.mark.parametrize(
    "fault", [{"lose_response": True}, {"close": True}, {"error": "NOT_LEADER_OR_FOLLOWER"}], ids=str
)
def test_a_batch_is_written_once_when_its_request_or_response_is_lost(
    broker: Broker, cluster: Cluster, fault: dict[str, object]
) -> None:
    write(cluster, b"a")
    broker.faults.add("Produce", times=3, **fault)
    write(cluster, b"b", b"c")
    write(cluster, b"d", partition=1)
    write(cluster, b"e")

    values = [(record.partition, record.value) for record in broker.records("t")]
    assert values == [(0, b"a"), (0, b"b"), (0, b"c"), (0, b"e"), (1, b"d")]


def test_a_lost_init_producer_id_response_is_retried(broker: Broker, cluster: Cluster) -> None:
    broker.faults.add("InitProducerId", times=2, lose_response=True)
    write(cluster, b"a")

    assert broker.values("t") == [b"a"]


def test_all_batches_of_a_call_have_the_same_producer_id(broker: Broker, cluster: Cluster) -> None:
    broker.faults.add("Produce", times=2, lose_response=True)
    large = b"x" * (BATCH_BYTES_MAX // 2)
    produce(cluster, "t", [NewRecord(None, large, (), number % 2) for number in range(6)])

    records = broker.records("t")
    assert len({record.producer_id for record in records}) == 1
    assert [(record.partition, record.offset) for record in records] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]


@pytest.mark.parametrize("put_back", ["reset", "restore"])
def test_new_batches_are_not_duplicates_after_a_reset_or_restore_of_the_broker(
    broker: Broker, cluster: Cluster, put_back: str
) -> None:
    """The broker allocates the same producer ids again, possibly to other clients than before."""
    snapshot = broker.snapshot()
    write(cluster, b"a")
    write(cluster, b"b")
    if put_back == "reset":
        broker.reset()
    else:
        broker.restore(snapshot)
    broker.produce("t", "c", partition=0)
    broker.produce("t", "d", partition=0)
    write(cluster, b"e")
    broker.produce("t", "f", partition=0)

    assert broker.values("t") == [b"c", b"d", b"e", b"f"]


def test_writing_continues_after_a_batch_that_was_refused(broker: Broker, cluster: Cluster) -> None:
    write(cluster, b"a")
    with pytest.raises(BrokerError, match="MESSAGE_TOO_LARGE"):
        write(cluster, b"x" * 700_000)
    write(cluster, b"b")

    assert broker.values("t") == [b"a", b"b"]


def test_a_batch_rejected_as_duplicate_sequence_number_counts_as_written(broker: Broker, cluster: Cluster) -> None:
    broker.faults.add("Produce", times=1, error="DUPLICATE_SEQUENCE_NUMBER")

    assert produce(cluster, "t", [NewRecord(None, b"a", (), 1)]) == [Appended(1, UNKNOWN_OFFSET, 1)]
