"""The steps of a two-phase commit, request by request."""

from __future__ import annotations

from typing import Any

from stuntbroker.protocol.batches.records import (
    CONTROL,
    HEADER_SIZE,
    TRANSACTIONAL,
    build_batch,
    read_header,
    read_records,
)
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from stuntbroker.protocol.messages.fetch_response import PartitionData
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.kit.rig import START_MS, Client, Rig
from tests.kit.valid_requests import TOPIC

TXN = "payments"
OK = ErrorCode.NONE
Pair = tuple[int, int]
NO_PRODUCER: Pair = (-1, -1)


def init(
    client: Client, *, keep: bool = False, two_phase: bool = True, owner: Pair = NO_PRODUCER, version: int = 6
) -> Any:
    timeout_ms = 60_000  # Ignored with Enable2Pc.
    return client.ask(InitProducerIdRequest(TXN, timeout_ms, *owner, two_phase, keep), version)


def pair(answer: Any) -> Pair:
    assert answer.error_code == OK
    return answer.producer_id, answer.producer_epoch


def kept(answer: Any) -> Pair:
    return answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch


def write(client: Client, owner: Pair, value: str, sequence: int = 0, version: int = 12) -> int:
    """Send Produce of one transactional record; return the error code."""
    code: int = written(client, owner, value, sequence, version).error_code
    return code


def written(client: Client, owner: Pair, value: str, sequence: int = 0, version: int = 12) -> Any:
    """As `write`; return the response of the partition."""
    data = bytes(
        build_batch(
            [(b"k", value.encode())],
            START_MS,
            producer_id=owner[0],
            producer_epoch=owner[1],
            base_sequence=sequence,
            attributes=TRANSACTIONAL,
        )
    )
    request = ProduceRequest(TXN, -1, 1_000, [TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, data)])])
    return client.ask(request, version).responses[0].partition_responses[0]


def end(client: Client, owner: Pair, commit: bool = True, version: int = 5) -> Any:
    return client.ask(EndTxnRequest(TXN, *owner, commit), version)


def committed(client: Client) -> list[str]:
    """Return the values that a read_committed consumer gets, filtering aborted records as a client does."""
    values: list[str] = []
    gone: set[int] = set()
    offset = 0
    while True:  # A response ends with its segment.
        part = _fetch_committed(client, offset)
        aborted = {(each.producer_id, each.first_offset) for each in part.aborted_transactions or ()}
        at, data = 0, bytes(part.records or b"")
        if not data:
            return values
        while at < len(data):
            header = read_header(data[at:])
            offset = header.next_offset
            gone |= {who for who, first in aborted if who == header.producer_id and first == header.base_offset}
            if header.attributes & CONTROL:
                gone.discard(header.producer_id)
            elif header.producer_id not in gone:
                actual = read_records(header, data[at : at + header.size], HEADER_SIZE)
                values += [(record.value or b"").decode() for record in actual]
            at += header.size


def _fetch_committed(client: Client, offset: int) -> PartitionData:
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=10_000_000,
        isolation_level=1,
        topics=[FetchTopic(TOPIC, partitions=[FetchPartition(0, -1, offset, -1, -1, 10_000_000)])],
    )
    part: PartitionData = client.ask(request, 12).responses[0].partitions[0]
    return part


def described(client: Client) -> Any:
    (actual,) = client.ask(DescribeTransactionsRequest([TXN]), 0).transaction_states
    return actual


def prepared(rig_: Rig, *values: str) -> tuple[Client, Pair]:
    """Return a client with a prepared transaction (written and flushed), and its producer id and epoch."""
    rig_.topic(TOPIC)
    client = rig_.client()
    owner = pair(init(client))
    for sequence, value in enumerate(values):
        assert write(client, owner, value, sequence) == OK
    return client, owner


def produce(owner: Pair, version_value: bytes, *parts: tuple[int, int]) -> ProduceRequest:
    """Return a Produce request with one batch for each (partition, sequence)."""
    data = [
        PartitionProduceData(
            index,
            bytes(
                build_batch(
                    [(b"k", version_value)],
                    START_MS,
                    producer_id=owner[0],
                    producer_epoch=owner[1],
                    base_sequence=sequence,
                    attributes=TRANSACTIONAL,
                )
            ),
        )
        for index, sequence in parts
    ]
    return ProduceRequest(TXN, -1, 1_000, [TopicProduceData(TOPIC, partition_data=data)])
