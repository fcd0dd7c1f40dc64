"""Which error Kafka reports for a request with two errors, and what it has done before it finds the error.

These cases come from random sequences of requests that Kafka and Stuntbroker both got (tests/conformance).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from stuntbroker.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from stuntbroker.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.fetch_request import FetchPartition, FetchTopic
from stuntbroker.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from stuntbroker.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.kit.produce_and_fetch import GOOD, changed, fetch, produce
from tests.kit.rig import START_MS, Client, running_rig
from tests.kit.valid_requests import TOPIC, batch

Code = ErrorCode
IMPLICIT_ADD, VERIFY = 12, 11
READ_COMMITTED = 1


def put(client: Client, data: bytes, version: int, txn: str | None = "txn", name: str = TOPIC, acks: int = -1) -> Any:
    """Send a batch to partition 0; return the partition's part of the response."""
    answer = client.ask(produce(data, name, acks, txn), version)
    return answer.responses[0].partition_responses[0]


def state(client: Client) -> tuple[str, list[tuple[str, list[int]]]]:
    (messages,) = client.ask(DescribeTransactionsRequest(["txn"]), 0).transaction_states
    return messages.transaction_state, [(topic.topic, list(topic.partitions)) for topic in messages.topics]


@pytest.mark.parametrize(
    ("at", "new", "error"),
    [
        (21, b"\0\x30", Code.INVALID_RECORD),
        (17, b"\0\0\0\0", Code.CORRUPT_MESSAGE),
        (57, b"\0\0\0\0", Code.INVALID_RECORD),
    ],
    ids=["control", "CRC", "count"],
)
async def test_a_batch_that_is_refused_for_its_content_has_begun_the_transaction(
    at: int, new: bytes, error: ErrorCode, data_dir: Path
) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        owner = client.ask(InitProducerIdRequest("txn", 60_000), 4)
        data = changed(batch(1, owner.producer_id, owner.producer_epoch, 0), at, new, sealed=at != 17)

        assert put(client, data, IMPLICIT_ADD).error_code == error
        assert state(client) == ("Ongoing", [(TOPIC, [0])])


async def test_coordinator_errors_take_precedence_over_an_invalid_batch_or_acks(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        owner = client.ask(InitProducerIdRequest("txn", 60_000), 4)
        good = batch(1, owner.producer_id, owner.producer_epoch, 0)
        control = changed(good, 21, b"\0\x30")

        assert put(client, control, VERIFY).error_code == Code.TRANSACTION_ABORTABLE
        assert put(client, good, VERIFY, acks=2).error_code == Code.TRANSACTION_ABORTABLE
        refused = put(client, control, IMPLICIT_ADD, txn="nobody")
        assert (refused.error_code, refused.error_message, refused.log_start_offset) == (
            Code.INVALID_PRODUCER_ID_MAPPING, None, -1,
        )  # fmt: skip
        assert put(client, good, VERIFY, name="none", acks=2).error_code == Code.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_missing_transactional_id_is_reported_before_any_other_error(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        control = changed(batch(1, 7, 0, 0), 21, b"\0\x30")
        for data, name in ((control, TOPIC), (batch(1, 7, 0, 0), "none"), (batch(1, 7, 0, 0), TOPIC)):
            answer = put(client, data, VERIFY, None, name)
            assert answer.error_code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


@pytest.mark.parametrize("version", [8, VERIFY, IMPLICIT_ADD])
async def test_an_empty_transactional_id_is_refused_by_the_coordinator_and_not_as_missing(
    version: int, data_dir: Path
) -> None:
    """Only a batch that the coordinator has to verify is refused: with INVALID_REQUEST, not with an authorization error."""
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        of_producer = batch(1, 7, 0, 0)
        cases = [
            (of_producer, TOPIC, Code.INVALID_REQUEST),
            (of_producer, "none", Code.UNKNOWN_TOPIC_OR_PARTITION),
            (changed(GOOD, 21, b"\0\x10"), TOPIC, Code.NONE),
            (GOOD, TOPIC, Code.NONE),
        ]
        for data, name, error in cases:
            assert put(client, data, version, "", name).error_code == error, (name, error)


async def test_a_transactional_batch_without_a_producer_id_is_appended_as_a_plain_batch(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        answer = put(client, changed(GOOD, 21, b"\0\x10"), IMPLICIT_ADD)

        assert (answer.error_code, answer.base_offset) == (Code.NONE, 0)
        log = rig.log(TOPIC, 0)
        assert log.last_stable_offset == log.next_offset == 3


async def test_a_refused_first_batch_blocks_later_sequences_of_the_old_epoch(data_dir: Path) -> None:
    """As in Kafka, the VerificationStateEntry keeps the refused sequence number; a later one of the old epoch is out of order."""
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        owner = client.ask(InitProducerIdRequest("txn", 60_000), 4)
        refused, delayed = Code.INVALID_PRODUCER_EPOCH, Code.OUT_OF_ORDER_SEQUENCE_NUMBER
        for sequence, ahead, error in ((0, 0, Code.NONE), (0, 1, refused), (1, 0, delayed)):
            data = batch(1, owner.producer_id, owner.producer_epoch + ahead, sequence)
            assert put(client, data, IMPLICIT_ADD).error_code == error


async def test_a_marker_needs_a_producer_and_an_epoch(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        errors = []
        for producer_id, epoch, index in ((7, -1, 0), (-1, 0, 0), (7, -1, 9), (7, 0, 0)):
            marker = WritableTxnMarker(producer_id, epoch, True, [WritableTxnMarkerTopic(TOPIC, [index])], 0, 0)
            answer = client.ask(WriteTxnMarkersRequest([marker]), 1)
            errors.append(answer.markers[0].topics[0].partitions[0].error_code)

        failed = Code.UNKNOWN_SERVER_ERROR
        assert errors == [failed, failed, Code.UNKNOWN_TOPIC_OR_PARTITION, Code.NONE]


async def test_nothing_is_verified_when_a_partition_does_not_exist(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        owner = client.ask(InitProducerIdRequest("txn", 60_000), 4)
        topics = [AddPartitionsToTxnTopic(TOPIC, [0]), AddPartitionsToTxnTopic("none", [0])]
        each = AddPartitionsToTxnTransaction("txn", owner.producer_id, owner.producer_epoch, True, topics)
        (result,) = client.ask(AddPartitionsToTxnRequest([each]), 4).results_by_transaction

        assert [topic.results_by_partition[0].partition_error_code for topic in result.topic_results] == [
            Code.OPERATION_NOT_ATTEMPTED,
            Code.UNKNOWN_TOPIC_OR_PARTITION,
        ]


def latest(
    client: Client, version: int = 9, name: str = TOPIC, isolation: int = READ_COMMITTED
) -> tuple[int, int, int]:
    """(error, timestamp, offset) of the record with the largest timestamp."""
    wanted = ListOffsetsTopic(name, [ListOffsetsPartition(0, -1, -3)])
    (part,) = client.ask(ListOffsetsRequest(-1, isolation, [wanted]), version).topics[0].partitions
    return part.error_code, part.timestamp, part.offset


async def test_the_largest_timestamp_of_committed_records_is_none_when_it_is_in_an_open_transaction(
    data_dir: Path,
) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        owner = client.ask(InitProducerIdRequest("txn", 60_000), 4)
        assert put(client, GOOD, IMPLICIT_ADD).error_code == Code.NONE
        delayed = batch(1, owner.producer_id, owner.producer_epoch, 0, timestamp=START_MS + 1_000)
        assert put(client, delayed, IMPLICIT_ADD).error_code == Code.NONE

        assert latest(client) == (0, -1, -1)
        assert latest(client, isolation=0) == (0, START_MS + 1_000, 3)
        client.ask(EndTxnRequest("txn", owner.producer_id, owner.producer_epoch, True), 5)
        assert latest(client) == (0, START_MS + 1_000, 3)


async def test_the_largest_timestamp_is_reported_from_below_the_log_start_too(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        assert put(client, GOOD, IMPLICIT_ADD).error_code == Code.NONE
        everything = DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, -1)])
        client.ask(DeleteRecordsRequest([everything], 1_000), 2)

        assert rig.log(TOPIC, 0).log_start_offset == 3
        assert latest(client) == (0, START_MS, 0)


async def test_an_unsupported_timestamp_is_reported_before_an_unknown_topic(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()

        assert latest(client, 2, "none")[0] == Code.UNSUPPORTED_VERSION
        assert latest(client, 9, "none")[0] == Code.UNKNOWN_TOPIC_OR_PARTITION


async def test_an_invalid_config_is_reported_before_an_unknown_topic(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        errors = []
        for key, value in (("retention.ms", "nonsense"), ("no.such.key", "1"), ("retention.ms", "1")):
            resource = AlterConfigsResource(2, "none", [AlterableConfig(key, 0, value)])
            (answer,) = client.ask(IncrementalAlterConfigsRequest([resource]), 1).responses
            errors.append(answer.error_code)

        assert errors == [Code.INVALID_CONFIG, Code.INVALID_CONFIG, Code.UNKNOWN_TOPIC_OR_PARTITION]


async def test_a_fetch_response_lists_unknown_topics_and_partitions_last(data_dir: Path) -> None:
    """Unknown topics come before unknown partitions. A topic has two entries if another topic is between its partitions."""
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        known = rig.broker.topics.get(TOPIC)
        assert known is not None

        def wanted(topic_id: bytes, *indexes: int) -> FetchTopic:
            return FetchTopic("", topic_id, [FetchPartition(index, -1, 0, -1, -1, 1_000) for index in indexes])

        request = [wanted(known.id, 9, 0), wanted(bytes(15) + b"\x07", 0)]
        answer = rig.client().ask(fetch(max_wait_ms=0, topics=request), 13)

        assert [(topic.topic_id == known.id, [p.partition_index for p in topic.partitions]) for topic in answer.responses] == [
            (True, [0]), (False, [0]), (True, [9]),
        ]  # fmt: skip


async def test_a_partition_that_does_not_fit_into_a_fetch_has_null_aborted_transactions(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC, partitions=2)
        client = rig.client()
        assert put(client, GOOD, IMPLICIT_ADD).error_code == Code.NONE
        second = produce(GOOD)
        second.topic_data[0].partition_data[0].index = 1
        client.ask(second, 9)
        messages = []
        for limit in (1, 1_000):
            wishes = [FetchPartition(index, -1, 0, -1, -1, limit) for index in (0, 1)]
            request = [FetchTopic(TOPIC, partitions=wishes)]
            answer = client.ask(fetch(max_wait_ms=0, isolation_level=READ_COMMITTED, topics=request), 12)
            messages.append([part.aborted_transactions for part in answer.responses[0].partitions])

        assert messages == [[[], None], [[], []]]
