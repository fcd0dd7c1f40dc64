"""Reading partitions continuously: which records are returned or left out, and what happens after faults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from stuntbroker.client.commands.cluster import Cluster, Partition
from stuntbroker.client.commands.fetching import TopicPartition
from stuntbroker.client.commands.reader import Tail, read_batches
from stuntbroker.client.errors import BrokerError, ConnectionFailed
from stuntbroker.protocol.batches.records import TRANSACTIONAL, build_batch
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.fetch_response import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from stuntbroker.protocol.request_values import READ_COMMITTED, READ_UNCOMMITTED


def batch(value: bytes, offset: int, **more: Any) -> bytes:
    return bytes(build_batch([(None, value)], 1_000, base_offset=offset, **more))


class TwoBrokers:
    """Broker 1 leads partition 0. Broker 2 leads partition 1, and its first `faults` requests fail."""

    def __init__(self, faults: int) -> None:
        self.faults = faults

    def retrying(self, attempt: Callable[[], Any]) -> Any:
        while True:
            try:
                return attempt()
            except ConnectionFailed:
                continue

    def partitions(self, topics: Any) -> list[Partition]:
        return [Partition("t", 0, 1, (1,)), Partition("t", 1, 2, (2,))]

    def ask(self, node_id: int, key: int, request: Any, answer: Any, **more: Any) -> FetchResponse:
        if node_id == 2 and self.faults:
            self.faults -= 1
            raise ConnectionFailed("gone")
        (wanted,) = request.topics[0].partitions
        records = batch(b"%d" % node_id, 0) if wanted.fetch_offset == 0 else b""
        return FetchResponse(
            responses=[FetchableTopicResponse("t", partitions=[PartitionData(node_id - 1, records=records)])]
        )


@pytest.mark.parametrize("faults", [0, 1, 3])
def test_a_fault_of_one_broker_loses_nothing_of_another(faults: int) -> None:
    tail = Tail(cast(Cluster, TwoBrokers(faults)), {("t", 0): 0, ("t", 1): 0}, READ_UNCOMMITTED)

    polled = tail.poll(0)

    assert [(partition, each.rows[0].value) for _, partition, each in polled] == [(0, b"1"), (1, b"2")]
    assert tail.positions == {("t", 0): 1, ("t", 1): 1}
    assert tail.poll(0) == []


def test_a_batch_that_begins_below_the_position_gives_its_later_records_only() -> None:
    data = bytes(build_batch([(None, b"a"), (None, b"b"), (None, b"c")], 1_000))

    class OneBroker(TwoBrokers):
        def partitions(self, topics: Any) -> list[Partition]:
            return [Partition("t", 0, 1, (1,))]

        def ask(self, node_id: int, key: int, request: Any, answer: Any, **more: Any) -> FetchResponse:
            return FetchResponse(responses=[FetchableTopicResponse("t", partitions=[PartitionData(0, records=data)])])

    ((_, _, polled),) = Tail(cast(Cluster, OneBroker(0)), {("t", 0): 1}, READ_UNCOMMITTED).poll(0)

    assert [row.value for row in polled.rows] == [b"b", b"c"]


@pytest.mark.parametrize("resets", [True, False])
def test_a_partition_that_does_not_have_an_offset_is_read_from_where_the_caller_says(resets: bool) -> None:
    class Recreated(TwoBrokers):
        def ask(self, node_id: int, key: int, request: Any, answer: Any, **more: Any) -> FetchResponse:
            (wanted,) = request.topics[0].partitions
            if node_id == 2 and wanted.fetch_offset == 5:
                part = PartitionData(1, ErrorCode.OFFSET_OUT_OF_RANGE)
                return FetchResponse(responses=[FetchableTopicResponse("t", partitions=[part])])
            return super().ask(node_id, key, request, answer, **more)

    resets_asked_for = []

    def reset(place: TopicPartition, offset: int) -> int:
        resets_asked_for.append((place, offset))
        return 0

    positions = {("t", 0): 0, ("t", 1): 5}
    tail = Tail(cast(Cluster, Recreated(0)), positions, READ_UNCOMMITTED, reset if resets else None)
    if not resets:
        with pytest.raises(BrokerError, match="OFFSET_OUT_OF_RANGE"):
            tail.poll(0)
        return
    assert [partition for _, partition, _ in tail.poll(0)] == [0]
    assert (resets_asked_for, tail.positions) == ([(("t", 1), 5)], {("t", 0): 1, ("t", 1): 0})
    assert [partition for _, partition, _ in tail.poll(0)] == [1]


def test_a_reader_without_partitions_asks_nothing_and_waits() -> None:
    class Waiting(TwoBrokers):
        waited: list[float] = []

        def pause(self, seconds: float) -> None:
            self.waited.append(seconds)

        def partitions(self, topics: Any) -> list[Partition]:
            raise AssertionError("there is nothing to ask for")

    cluster = Waiting(0)
    assert Tail(cast(Cluster, cluster), {}, READ_UNCOMMITTED).poll(250) == []
    assert cluster.waited == [0.25]


def test_aborted_records_are_left_out_until_the_marker_of_their_producer() -> None:
    mine = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "attributes": TRANSACTIONAL}
    data = batch(b"aborted", 0, **mine) + batch(b"plain", 1) + batch(b"aborted too", 2, **mine)
    part = PartitionData(0, records=data, aborted_transactions=[AbortedTransaction(7, 0)])

    assert [row.value for each in read_batches(part, READ_COMMITTED) for row in each.rows] == [b"plain"]
    assert len([row for each in read_batches(part, READ_UNCOMMITTED) for row in each.rows]) == 3


def test_a_truncated_batch_is_not_returned() -> None:
    part = PartitionData(0, records=batch(b"whole", 0) + batch(b"cut", 1)[:-1])

    assert [row.value for each in read_batches(part, READ_UNCOMMITTED) for row in each.rows] == [b"whole"]


def test_an_unreadable_batch_raises_an_error_and_is_not_skipped() -> None:
    broken = bytearray(batch(b"value", 5))
    broken[61] = 0x7F  # The length of the batch's record.
    with pytest.raises(ConnectionFailed, match="the batch at offset 5 cannot be read"):
        list(read_batches(PartitionData(0, records=bytes(broken)), READ_UNCOMMITTED))
    old = bytearray(batch(b"value", 5))
    old[16] = 1
    with pytest.raises(BrokerError, match="a batch of format 1"):
        list(read_batches(PartitionData(0, records=bytes(old)), READ_UNCOMMITTED))
