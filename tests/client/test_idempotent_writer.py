"""Records that are written without a transaction are there once, whatever becomes of the answers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import stuntbroker
from stuntbroker.client.cluster import Cluster
from stuntbroker.client.errors import BrokerError
from stuntbroker.client.producing import IdempotentWriter, NewRecord
from stuntbroker.fixture.broker import Broker
from stuntbroker.protocol.addresses import parse_bootstrap


@pytest.fixture
def broker() -> Iterator[Broker]:
    with stuntbroker.run_broker({"message.max.bytes": 2_000}, {"t": 2}) as created:
        yield created


@pytest.fixture
def writer(broker: Broker) -> Iterator[IdempotentWriter]:
    """Not the broker object's own: faults pass over that."""
    with Cluster(parse_bootstrap(broker.bootstrap), 10) as cluster:
        yield IdempotentWriter(cluster)


def write(writer: IdempotentWriter, *values: bytes, partition: int = 0) -> None:
    writer.produce("t", [NewRecord(None, value, (), partition) for value in values])


@pytest.mark.parametrize(
    "fault", [{"lose_answer": True}, {"close": True}, {"error": "NOT_LEADER_OR_FOLLOWER"}], ids=str
)
def test_a_batch_is_there_once_when_its_request_or_answer_is_lost(
    broker: Broker, writer: IdempotentWriter, fault: dict[str, object]
) -> None:
    write(writer, b"a")
    broker.faults.add("Produce", times=3, **fault)
    write(writer, b"b", b"c")
    write(writer, b"d", partition=1)
    write(writer, b"e")

    values = [(record.partition, record.value) for record in broker.records("t")]
    assert values == [(0, b"a"), (0, b"b"), (0, b"c"), (0, b"e"), (1, b"d")]
    assert len({record.producer_id for record in broker.records("t")}) == 1


def test_a_lost_answer_about_the_producer_id_costs_nothing(broker: Broker, writer: IdempotentWriter) -> None:
    broker.faults.add("InitProducerId", times=2, lose_answer=True)
    write(writer, b"a")

    assert broker.values("t") == [b"a"]


def test_writing_goes_on_with_a_broker_that_was_put_back(broker: Broker, writer: IdempotentWriter) -> None:
    write(writer, b"a")
    snapshot = broker.snapshot()
    write(writer, b"b")
    write(writer, b"c")
    broker.restore(snapshot)
    write(writer, b"d")
    write(writer, b"e")

    assert broker.values("t") == [b"a", b"d", b"e"]


def test_writing_goes_on_after_a_batch_that_was_refused(broker: Broker, writer: IdempotentWriter) -> None:
    write(writer, b"a")
    with pytest.raises(BrokerError, match="MESSAGE_TOO_LARGE"):
        write(writer, b"x" * 3_000)
    write(writer, b"b")

    assert broker.values("t") == [b"a", b"b"]
