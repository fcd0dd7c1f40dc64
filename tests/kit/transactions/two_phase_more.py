"""More steps of a two-phase commit: partitions, late records, offsets."""

from __future__ import annotations

from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages import add_partitions_to_txn_request as adding
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.kit.rig import Client, Rig
from tests.kit.transactions.two_phase import TXN, Pair, write
from tests.kit.valid_requests import TOPIC, batch

STALE = ErrorCode.INVALID_PRODUCER_EPOCH
OTHER = "other"


def add(client: Client, owner: Pair, topic: str = TOPIC) -> int:
    answer = client.ask(
        adding.AddPartitionsToTxnRequest([], TXN, *owner, [adding.AddPartitionsToTxnTopic(topic, [0])]), 3
    )
    code: int = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
    return code


def write_to(client: Client, owner: Pair, topic: str, version: int = 12) -> int:
    data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch(1, *owner, 0))])
    code: int = (
        client.ask(ProduceRequest(TXN, -1, 1_000, [data]), version).responses[0].partition_responses[0].error_code
    )
    return code


def stable(rig: Rig, topic: str = TOPIC) -> bool:
    log = rig.log(topic, 0)
    return bool(log.last_stable_offset == log.next_offset)


def refuses_late_records(client: Client, zombie: Pair) -> bool:
    return {write(client, zombie, "late", 1, version) for version in (11, 12)} == {STALE}
