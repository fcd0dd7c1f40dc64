"""The first batch of a transaction in a partition, if it is a duplicate or is rejected (Kafka: VerificationStateEntry).

Until a batch of the transaction is appended to the partition, a later sequence number is out of order (KIP-890).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from stuntbroker.protocol.batches.records import TRANSACTIONAL, build_batch
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.kit.groups.group_requests import init
from tests.kit.rig import START_MS, Client, running_rig
from tests.kit.transactions.two_phase import TXN, Pair, end, pair
from tests.kit.transactions.two_phase_more import add
from tests.kit.valid_requests import TOPIC

OK = ErrorCode.NONE
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
VERIFICATION = "transaction.partition.verification.enable"


def produce(
    client: Client, owner: Pair, sequence: int, version: int, acks: int = -1, attributes: int = TRANSACTIONAL
) -> int:
    """Send one record; return the error code."""
    data = bytes(
        build_batch(
            [(b"k", b"v")],
            START_MS,
            producer_id=owner[0],
            producer_epoch=owner[1],
            base_sequence=sequence,
            attributes=attributes,
        )
    )
    request = ProduceRequest(
        TXN, acks, 1_000, [TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, data)])]
    )
    code: int = client.ask(request, version).responses[0].partition_responses[0].error_code
    return code


@pytest.mark.parametrize(
    ("version", "acks"), [(12, -1), (12, 1), (11, -1)], ids=["plain produce", "general handler", "verified"]
)
async def test_a_duplicate_as_first_batch_holds_back_later_sequence_numbers(
    version: int, acks: int, data_dir: Path
) -> None:
    """The duplicate gets a successful response, but the log has no record of the transaction yet."""
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        owner = pair(init(client, TXN))
        assert produce(client, owner, 0, version, acks, attributes=0) == OK
        assert add(client, owner) == OK

        assert [produce(client, owner, sequence, version, acks) for sequence in (0, 1)] == [OK, OUT_OF_ORDER]
        assert rig.log(TOPIC, 0).next_offset == 1


@pytest.mark.parametrize(("version", "code"), [(12, OUT_OF_ORDER), (11, OK)])
async def test_an_end_txn_without_epoch_bump_resolves_first_batches_of_old_produce_versions_only(
    version: int, code: ErrorCode, data_dir: Path
) -> None:
    """EndTxn before v5 does not bump the epoch, so the marker might belong to the previous transaction."""
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        owner = pair(init(client, TXN))
        assert produce(client, owner, 0, version, attributes=0) == OK
        assert [add(client, owner), produce(client, owner, 0, version)] == [OK, OK]
        assert end(client, owner, version=4).error_code == OK

        assert [add(client, owner), produce(client, owner, 1, version)] == [OK, code]


@pytest.mark.parametrize(("verified", "code"), [("true", OUT_OF_ORDER), ("false", OK)])
async def test_a_produce_that_is_not_verified_leaves_the_lowest_sequence_number_as_it_is(
    verified: str, code: ErrorCode, data_dir: Path
) -> None:
    async with running_rig(data_dir, {VERIFICATION: verified}) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        owner = pair(init(client, TXN))
        assert produce(client, owner, 2, version=12) == OUT_OF_ORDER
        assert produce(client, owner, 0, version=11, attributes=0) == OK
        assert produce(client, owner, 0, version=11) == OK  # A duplicate, not appended.

        assert produce(client, owner, 1, version=12) == code


@pytest.mark.parametrize(
    ("verified", "code"),
    [("true", ErrorCode.INVALID_PRODUCER_EPOCH), ("false", ErrorCode.INVALID_REQUIRED_ACKS)],
)
async def test_an_old_epoch_is_refused_before_all_else_where_partitions_are_verified(
    verified: str, code: ErrorCode, data_dir: Path
) -> None:
    async with running_rig(data_dir, {VERIFICATION: verified}) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        old, owner = (pair(init(client, TXN)) for _ in range(2))
        assert produce(client, owner, 0, version=12) == OK

        assert produce(client, old, 0, version=11, acks=2) == code
        assert produce(client, old, 0, version=11) == ErrorCode.INVALID_PRODUCER_EPOCH
