"""Whether one invalid part of a request fails its other parts too. The expectations come from a running Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages import alter_configs_request as whole
from stuntbroker.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from stuntbroker.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from stuntbroker.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from stuntbroker.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from stuntbroker.protocol.messages.describe_topic_partitions_request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from stuntbroker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
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
from tests.kit.rig import Client, running_rig
from tests.kit.valid_requests import TOPIC

Code = ErrorCode
NOT_REQUESTED = -(2**31)
UNKNOWN, INVALID = Code.UNKNOWN_TOPIC_OR_PARTITION, Code.INVALID_TOPIC_EXCEPTION
CONFIG, FACTOR, COUNT = Code.INVALID_CONFIG, Code.INVALID_REPLICATION_FACTOR, Code.INVALID_PARTITIONS


@pytest.mark.parametrize("bad", ["b b", "é", ".", "n" * 250])
async def test_a_topic_with_an_invalid_name_is_reported_beside_the_others(bad: str, data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        request = DescribeTopicPartitionsRequest([TopicRequest("nosuch"), TopicRequest(bad), TopicRequest(TOPIC)], 100)
        topics = rig.client().ask(request, 0).topics
        expected = {"nosuch": UNKNOWN, bad: INVALID, TOPIC: 0}
        assert [(each.name, each.error_code) for each in topics] == sorted(expected.items())
        assert NOT_REQUESTED not in {each.topic_authorized_operations for each in topics}


async def test_a_topic_behind_one_that_was_deleted_since_the_cursor_is_described_from_its_first_partition() -> None:
    async with running_rig() as rig:
        rig.topic("t", 3)
        request = DescribeTopicPartitionsRequest([TopicRequest("a"), TopicRequest("t")], 100, Cursor("a", 1))
        deleted, described = rig.client().ask(request, 0).topics
        assert (deleted.name, deleted.error_code) == ("a", Code.UNKNOWN_TOPIC_OR_PARTITION)
        assert [part.partition_index for part in described.partitions] == [0, 1, 2]


@pytest.mark.parametrize(
    ("names", "cursor", "error"),
    [(["zz", "", "b b"], None, Code.UNKNOWN_SERVER_ERROR), (["zz", "b b"], Cursor("a", 0), Code.INVALID_REQUEST)],
    ids=["a topic without a name", "a cursor at a topic that is not asked for"],
)
async def test_an_invalid_describe_topic_partitions_request_fails_every_topic(
    names: list[str], cursor: Cursor | None, error: Code, data_dir: Path
) -> None:
    async with running_rig(data_dir) as rig:
        request = DescribeTopicPartitionsRequest([TopicRequest(name) for name in names], 100, cursor)
        topics = rig.client().ask(request, 0).topics
        assert [(each.name, each.error_code, each.topic_authorized_operations) for each in topics] == [
            (name, error, NOT_REQUESTED) for name in names
        ]


@pytest.mark.parametrize("isolation", [2, -1])
async def test_an_invalid_isolation_level_fails_a_fetch_with_a_readable_partition(
    isolation: int, data_dir: Path
) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        client = rig.client()

        def fetch(*wanted: tuple[str, int], session_epoch: int = -1) -> Any:
            topics = [
                FetchTopic(name, partitions=[FetchPartition(index, -1, 0, -1, -1, 1_000)]) for name, index in wanted
            ]
            request = FetchRequest(
                max_wait_ms=10,
                min_bytes=1,
                max_bytes=1_000,
                isolation_level=isolation,
                session_epoch=session_epoch,
                topics=topics,
            )
            return client.ask(request, 12)

        def codes(answer: Any) -> tuple[int, list[int]]:
            return answer.error_code, [part.error_code for topic in answer.responses for part in topic.partitions]

        spoiled = Code.UNKNOWN_SERVER_ERROR
        assert codes(fetch()) == (0, [])
        assert codes(fetch(("none", 0))) == (0, [UNKNOWN])
        assert codes(fetch((TOPIC, 7))) == (0, [UNKNOWN])
        assert codes(fetch((TOPIC, 0))) == (spoiled, [spoiled])
        assert codes(fetch((TOPIC, 0), ("none", 0))) == (spoiled, [spoiled, spoiled])
        assert fetch(("none", 0), session_epoch=0).session_id != 0
        assert fetch((TOPIC, 0), session_epoch=0).session_id == 0
        assert len(rig.broker.fetch_sessions.sessions) == 1


@pytest.mark.parametrize("isolation", [2, -1])
async def test_an_invalid_isolation_level_fails_every_partition_of_list_offsets(isolation: int, data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        part = ListOffsetsPartition(0, -1, -1)
        request = [
            ListOffsetsTopic(TOPIC, [part, part]),
            ListOffsetsTopic("none", [part]),
            ListOffsetsTopic("empty", []),
        ]
        topics = rig.client().ask(ListOffsetsRequest(-1, isolation, request), 7).topics
        spoiled = Code.UNKNOWN_SERVER_ERROR
        assert [(topic.name, [each.error_code for each in topic.partitions]) for topic in topics] == [
            (TOPIC, [spoiled, spoiled]), ("none", [spoiled]), ("empty", []),
        ]  # fmt: skip


UNKNOWN_CONFIG = [CreatableTopicConfig("no.such.config", "1")]
WRONG_CONFIG = [CreatableTopicConfig("retention.ms", "x")]
FIRST_NAMED = {
    "no partitions and a config": (CreatableTopic("new", 0, 1, [], UNKNOWN_CONFIG), CONFIG),
    "too many replicas and a config": (CreatableTopic("new", 1, 3, [], WRONG_CONFIG), CONFIG),
    "no replicas and a config": (CreatableTopic("new", 1, 0, [], WRONG_CONFIG), CONFIG),
    "assigned, counted and a config": (
        CreatableTopic("new", 2, 1, [CreatableReplicaAssignment(0, [1])], UNKNOWN_CONFIG), CONFIG,
    ),
    "a bad name and a config": (CreatableTopic("a b", 1, 1, [], UNKNOWN_CONFIG), INVALID),
    "there already and a config": (CreatableTopic("is_there", 1, 1, [], UNKNOWN_CONFIG), Code.TOPIC_ALREADY_EXISTS),
    "a name like another and a config": (CreatableTopic("is.there", 1, 1, [], UNKNOWN_CONFIG), INVALID),
    "no partitions and no replicas": (CreatableTopic("new", 0, 0), FACTOR),
    "no partitions and too many replicas": (CreatableTopic("new", 0, 3), COUNT),
}  # fmt: skip


@pytest.mark.parametrize("what", FIRST_NAMED)
async def test_a_new_topic_with_several_errors_gets_the_one_that_kafka_reports(what: str, data_dir: Path) -> None:
    wanted, error = FIRST_NAMED[what]
    async with running_rig(data_dir) as rig:
        rig.topic("is_there")
        (topic,) = rig.client().ask(CreateTopicsRequest([wanted], 1_000), 7).topics
        assert topic.error_code == error


async def test_delete_records_reports_unknown_partitions_of_internal_topics_as_unknown(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.broker.topics.internal_topic("__consumer_offsets")
        wanted = [
            DeleteRecordsTopic(name, [DeleteRecordsPartition(index, 0) for index in (-1, 0, 50)])
            for name in ("__consumer_offsets", "__transaction_state")
        ]
        topics = rig.client().ask(DeleteRecordsRequest(wanted, 1_000), 2).topics
        assert [[part.error_code for part in topic.partitions] for topic in topics] == [
            [UNKNOWN, INVALID, UNKNOWN],
            [UNKNOWN, UNKNOWN, UNKNOWN],
        ]


async def test_a_topic_named_several_times_has_one_entry_in_list_offsets_and_delete_records(data_dir: Path) -> None:
    """A partition named twice is refused by ListOffsets; in DeleteRecords, its last entry counts."""
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC, 2)
        rig.topic("other")
        client = rig.client()
        listed = ListOffsetsRequest(-1, 0, [
            ListOffsetsTopic(TOPIC, [ListOffsetsPartition(0, -1, -1)]),
            ListOffsetsTopic("other", [ListOffsetsPartition(0, -1, -1)]),
            ListOffsetsTopic(TOPIC, [ListOffsetsPartition(0, -1, -2), ListOffsetsPartition(1, -1, -1)]),
        ])  # fmt: skip
        topics = client.ask(listed, 7).topics
        assert [
            (topic.name, [(part.partition_index, part.error_code) for part in topic.partitions]) for topic in topics
        ] == [
            (TOPIC, [(0, Code.INVALID_REQUEST), (1, 0)]),
            ("other", [(0, 0)]),
        ]
        deleted = DeleteRecordsRequest([
            DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, 0)]),
            DeleteRecordsTopic("other", [DeleteRecordsPartition(0, 0)]),
            DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, 5), DeleteRecordsPartition(1, 0)]),
        ], 1_000)  # fmt: skip
        topics = client.ask(deleted, 2).topics
        assert [
            (topic.name, [(part.partition_index, part.error_code) for part in topic.partitions]) for topic in topics
        ] == [
            (TOPIC, [(0, Code.OFFSET_OUT_OF_RANGE), (1, 0)]),
            ("other", [(0, 0)]),
        ]


@pytest.mark.parametrize(
    ("indexes", "verify_only", "messages"),
    [
        ([0, 0, 1], False, [(0, 0), (0, 0), (1, 0), (0, 0)]),
        ([0, 0, 1], True, [(0, Code.TRANSACTION_ABORTABLE), (1, Code.TRANSACTION_ABORTABLE)]),
        ([0, 0, 9, 9], False, [(0, Code.OPERATION_NOT_ATTEMPTED), (9, UNKNOWN)]),
        ([0, 0, 9, 9], True, [(0, Code.OPERATION_NOT_ATTEMPTED), (9, UNKNOWN)]),
    ],
)
async def test_a_duplicate_partition_is_answered_twice_when_it_is_added_and_once_otherwise(
    indexes: list[int], verify_only: bool, messages: list[tuple[int, int]], data_dir: Path
) -> None:
    """Adding partitions yields one result for all of them, which is repeated for every requested entry."""
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC, 2)
        client = rig.client()
        owner = client.ask(InitProducerIdRequest("txn", 60_000), 4)
        topics = [AddPartitionsToTxnTopic(TOPIC, indexes), AddPartitionsToTxnTopic(TOPIC, [0])]
        each = AddPartitionsToTxnTransaction("txn", owner.producer_id, owner.producer_epoch, verify_only, topics)
        (result,) = client.ask(AddPartitionsToTxnRequest([each]), 5).results_by_transaction
        assert [
            (part.partition_index, part.partition_error_code)
            for topic in result.topic_results
            for part in topic.results_by_partition
        ] == messages


BROKER_LOGGER, CLIENT_METRICS, GROUP, NOTHING = 8, 16, 32, 64
SET, DELETE = 0, 1


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (BROKER_LOGGER, "1", 0), (BROKER_LOGGER, "", Code.INVALID_REQUEST), (BROKER_LOGGER, "7", Code.INVALID_REQUEST),
        (CLIENT_METRICS, "any", 0), (CLIENT_METRICS, "", Code.INVALID_REQUEST),
        (GROUP, "any", 0), (GROUP, "", Code.INVALID_REQUEST), (NOTHING, "any", Code.INVALID_REQUEST),
    ],
)  # fmt: skip
async def test_groups_client_metrics_and_loggers_have_no_configuration(
    kind: int, name: str, error: int, data_dir: Path
) -> None:
    async with running_rig(data_dir) as rig:
        request = DescribeConfigsRequest([DescribeConfigsResource(kind, name, None)])
        (messages,) = rig.client().ask(request, 4).results
        assert (messages.error_code, messages.resource_type, messages.resource_name, list(messages.configs)) == (
            error,
            kind,
            name,
            [],
        )


NONE_TO_SET = {
    "a group": (GROUP, "any", CONFIG, CONFIG),
    "a group without a name": (GROUP, "", Code.INVALID_REQUEST, Code.INVALID_REQUEST),
    "client metrics": (CLIENT_METRICS, "any", Code.INVALID_REQUEST, Code.INVALID_REQUEST),
    "a logger": (BROKER_LOGGER, "1", CONFIG, Code.INVALID_REQUEST),
    "another broker's logger": (BROKER_LOGGER, "7", Code.INVALID_REQUEST, Code.INVALID_REQUEST),
}


@pytest.mark.parametrize("what", NONE_TO_SET)
async def test_configs_of_groups_client_metrics_and_loggers_cannot_be_set(what: str, data_dir: Path) -> None:
    kind, name, incremental, all_at_once = NONE_TO_SET[what]
    key = "consumer.session.timeout.ms"
    async with running_rig(data_dir) as rig:
        client: Client = rig.client()
        change = [AlterConfigsResource(kind, name, [AlterableConfig(key, SET, "50000")])]
        (messages,) = client.ask(IncrementalAlterConfigsRequest(change), 1).responses
        assert messages.error_code == incremental
        (messages,) = client.ask(
            whole.AlterConfigsRequest([whole.AlterConfigsResource(kind, name, [whole.AlterableConfig(key, "50000")])]),
            2,
        ).responses
        assert messages.error_code == all_at_once


async def test_deleting_a_config_that_is_not_set_succeeds(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        change = [AlterConfigsResource(GROUP, "any", [AlterableConfig("consumer.session.timeout.ms", DELETE, None)])]
        (messages,) = rig.client().ask(IncrementalAlterConfigsRequest(change), 1).responses
        assert messages.error_code == 0
