"""The broker works, and starts again, with every property at its smallest and at its largest allowed value.

Values that can never work are refused before the start, not when the data folder is opened later.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from stuntbroker.broker.configuration.config import BrokerConfig
from stuntbroker.broker.configuration.dynamic_properties import DOUBLE
from stuntbroker.broker.configuration.kafka_properties import KAFKA_4_3_1, UNUSED
from stuntbroker.broker.configuration.properties import BROKER, OF_TOPICS, ConfigError, show
from stuntbroker.broker.configuration.value_types import problem_of_value
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from stuntbroker.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from stuntbroker.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from stuntbroker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from stuntbroker.protocol.primitives import Message
from tests.kit.rig import KEYS, START_MS, Client, Rig, decode, frame, running_rig, turn
from tests.kit.valid_requests import batch

CREATED, READ_FIRST = "made", "found"
FEW = {"offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "2"}
CANDIDATES = [
    -(2**63),
    -2,
    -1,
    0,
    1,
    2,
    9,
    1_024,
    6_000,
    10_000,
    65_536,
    1_048_576,
    1_800_000,
    2**31 - 1,
    2**62,
    2**63 - 1,
]
WORDS = ["", "delete", "compact", "delete,compact", "compact,delete", "true", "false", "CreateTime", "LogAppendTime",
         "producer", "uncompressed", "gzip", "snappy", "lz4", "zstd", "0", "1", "0.5", "*", "a,b*", "kip-588", "x"]  # fmt: skip
ONLY = {
    "advertised.listeners", "controller.listener.names", "listener.security.protocol.map", "listeners", "stuntbroker.cluster.id",
}  # fmt: skip
"""Properties with a format of their own, which these tests leave out."""

OTHERWISE = {
    ("auto.create.topics.enable", "false"): {"found"},
    ("max.connections", "0"): {"made", "found", "plain", "init", "commit", "configs"},
    ("message.max.bytes", "0"): {"plain", "txn"},
    ("offset.metadata.max.bytes", "0"): {"commit"},
    ("stuntbroker.nodes", "9"): {"commit"},  # Another node is the coordinator.
    ("socket.request.max.bytes", "1"): {"made", "found", "plain", "init", "commit", "configs"},
    ("transaction.max.timeout.ms", "1"): {"init", "txn", "end"},
}
"""(property, value) -> the requests of `work` that must be refused with this value."""


def extremes(name: str) -> list[str]:
    whole = BROKER[name].kind in (3, 5)
    taken = []
    for value in map(str, CANDIDATES) if whole else WORDS:
        try:
            BrokerConfig({name: value})
        except ConfigError:
            continue
        taken.append(value)
    return [taken[0], taken[-1]] if whole else taken


CASES = [(name, value) for name in BROKER if name not in ONLY for value in extremes(name)]


def attempt(rig: Rig, request: Message, version: int) -> Any:
    """Return the response, or None if the broker closed the connection."""
    client = Client(rig.broker)
    client.feed(frame(request, version))
    actual = client.answers()
    client.disconnect()
    return decode(actual[0], KEYS[type(request).__name__.removesuffix("Request")], version) if actual else None


def produce(rig: Rig, topic: str, data: bytes, transactional_id: str | None = None) -> Any:
    wanted = [TopicProduceData(topic, partition_data=[PartitionProduceData(0, data)])]
    answer = attempt(rig, ProduceRequest(transactional_id, -1, 1_000, wanted), 12)
    return answer and answer.responses[0].partition_responses[0]


def work(rig: Rig) -> dict[str, Any]:
    """Send one request of each kind that creates a topic, writes a file or writes to the journal."""
    answers: dict[str, Any] = {}
    create = CreateTopicsRequest([CreatableTopic(CREATED, -1, -1)], timeout_ms=1_000)
    created_topic = attempt(rig, create, 7)
    answers["made"] = created_topic and created_topic.topics[0]
    actual = attempt(rig, MetadataRequest([MetadataRequestTopic(name=READ_FIRST)], True), 9)
    answers["found"] = actual and actual.topics[0]
    answers["plain"] = produce(rig, CREATED, batch(timestamp=START_MS))
    owner = answers["init"] = attempt(rig, InitProducerIdRequest("txn", 1_000), 5)
    if owner is not None:
        data = batch(2, max(owner.producer_id, 0), max(owner.producer_epoch, 0), 0)
        answers["txn"] = produce(rig, CREATED, data, "txn")
        answers["end"] = attempt(rig, EndTxnRequest("txn", owner.producer_id, owner.producer_epoch, True), 5)
    offset = OffsetCommitRequestPartition(0, 5, -1, "note")
    topics = [OffsetCommitRequestTopic(CREATED, partitions=[offset])]
    committed = attempt(rig, OffsetCommitRequest("group", -1, "", topics=topics), 7)
    answers["commit"] = committed and committed.topics[0].partitions[0]
    request = [DescribeConfigsResource(2, CREATED), DescribeConfigsResource(4, str(rig.broker.node_id))]
    configs = attempt(rig, DescribeConfigsRequest(request, True), 4)
    answers["configs"] = configs and configs.results[0]
    return answers


def refused(answers: dict[str, Any]) -> set[str]:
    return {name for name, answer in answers.items() if answer is None or answer.error_code != ErrorCode.NONE}


@pytest.mark.parametrize("name, value", CASES, ids=[f"{name}={value}" for name, value in CASES])
async def test_a_property_that_is_allowed_works_now_and_after_a_restart(name: str, value: str, tmp_path: Path) -> None:
    properties = FEW | {name: value}
    async with running_rig(tmp_path / "data", properties) as rig:
        answers = work(rig)
        await turn()
        rig.pass_time(1)
        logs = {key: log.next_offset + len(log.own_records) for key, log in rig.broker.topics.logs.items()}
    assert refused(answers) == OTHERWISE.get((name, value), set())
    for restarted in (properties, {}):
        async with running_rig(tmp_path / "data", restarted) as rig:
            assert {key: log.next_offset for key, log in rig.broker.topics.logs.items()} == logs
            await asyncio.sleep(0)


REFUSED = {
    "num.io.threads": "abc",
    "background.threads": "0",
    "controlled.shutdown.enable": "1",
    "log.cleaner.io.buffer.load.factor": "0,9",
    "sasl.kerberos.min.time.before.relogin": str(2**63),
    "transaction.state.log.segment.bytes": "16384",
    "offsets.topic.segment.bytes": "16384",
    "log.segment.bytes": "1048575",
    "num.partitions": "10001",
    "group.max.session.timeout.ms": "5999",
    "group.min.session.timeout.ms": "1800001",
    "stuntbroker.initial.producer.id": str(2**62 + 1),
    "stuntbroker.cluster.id": "a\nnode.id=7",
    "log.retention.hours": "0",
    "log.retention.ms": "-2",
    "log.cleanup.policy": "compact,shred",
    "compression.type": "brotli",
    "default.replication.factor": "2",
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_property_value_that_cannot_work_is_refused_before_the_start(name: str) -> None:
    with pytest.raises(ConfigError, match=r"^(group\.max\.session|" + name.replace(".", r"\.") + ")[^\n]*$"):
        BrokerConfig({name: REFUSED[name]})


ANY = {"stuntbroker.replication.factor": "any"}
FACTORS = {"default.replication.factor": "3", "offsets.topic.replication.factor": "3",
           "transaction.state.log.replication.factor": "3"}  # fmt: skip
ASSIGNED = [CreatableReplicaAssignment(0, [1, 2, 3])]


@pytest.mark.parametrize(
    ("properties", "topic", "error"),
    [
        ({}, CreatableTopic("a", 1, 3), ErrorCode.INVALID_REPLICATION_FACTOR),
        (ANY, CreatableTopic("a", 1, 3), ErrorCode.NONE),
        (ANY | FACTORS, CreatableTopic("a", -1, -1), ErrorCode.NONE),
        (ANY, CreatableTopic("a", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (ANY, CreatableTopic("a", -1, -1, ASSIGNED), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
async def test_a_replication_factor_above_1_is_accepted_only_as_any_and_gives_one_replica(
    properties: dict[str, str], topic: CreatableTopic, error: ErrorCode, tmp_path: Path
) -> None:
    async with running_rig(tmp_path / "data", properties) as rig:
        (answer,) = attempt(rig, CreateTopicsRequest([topic], timeout_ms=1_000), 7).topics
        assert answer.error_code == error
        if error == ErrorCode.NONE:
            assert answer.replication_factor == 1
            (shown,) = attempt(rig, MetadataRequest([MetadataRequestTopic(name="a")]), 9).topics
            assert [each.replica_nodes for each in shown.partitions] == [[1]]
            more = CreatePartitionsRequest([CreatePartitionsTopic("a", 2, None)], timeout_ms=1_000)
            assert attempt(rig, more, 3).results[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize("name", ["offsets.topic.replication.factor", "transaction.state.log.replication.factor"])
async def test_replication_factors_of_internal_topics_are_listed_as_unused(name: str, tmp_path: Path) -> None:
    """Configurations that were written for a cluster contain these properties."""
    assert BrokerConfig({name: "3"}).unused == [name]
    assert BrokerConfig({name: "1"}).unused == []
    async with running_rig(tmp_path / "data", FEW | {name: "3"}) as rig:
        assert refused(work(rig)) == set()


async def test_all_requests_succeed_when_any_replication_factor_is_accepted(tmp_path: Path) -> None:
    async with running_rig(tmp_path / "data", FEW | ANY | FACTORS) as rig:
        assert refused(work(rig)) == set()


async def test_num_partitions_counts_towards_the_partition_limit_of_a_request(tmp_path: Path) -> None:
    async with running_rig(tmp_path / "data", {"num.partitions": "5001"}) as rig:
        topics = [CreatableTopic(name, -1, -1) for name in ("a", "b")]
        answer = attempt(rig, CreateTopicsRequest(topics, timeout_ms=1_000), 7)
        assert [each.error_code for each in answer.topics] == [ErrorCode.POLICY_VIOLATION] * 2
        answer = attempt(rig, CreateTopicsRequest(topics[:1], timeout_ms=1_000), 7)
        assert [each.error_code for each in answer.topics] == [ErrorCode.NONE]


NEAREST = {
    "num.partition": "num.partitions",
    "num_partitions": "num.partitions",
    "Log.Segment.Bytes": "log.segment.bytes",
    "controller.quorum.voter": "controller.quorum.voters",
    "stuntbroker.profil": "stuntbroker.profile",
    "retention.ms": "log.retention.ms",
    "segment.ms": "log.roll.ms",
}


@pytest.mark.parametrize("name", NEAREST)
def test_an_unknown_property_is_refused_with_the_nearest_known_name(name: str) -> None:
    with pytest.raises(ConfigError, match=f"^{name} is not a property of .*; did you mean {NEAREST[name]}\\?$"):
        BrokerConfig({name: "1"})


@pytest.mark.parametrize("name", ["qqq", "stuntbroker.qqq"])
def test_an_unknown_property_without_a_near_name_is_refused_without_a_suggestion(name: str) -> None:
    with pytest.raises(ConfigError, match=f"^{name} is not a property of .* of Stuntbroker; (no property|there are)"):
        BrokerConfig({name: "1"})


# Compared with the property parser of Apache Kafka 4.3.1, which runs when Kafka formats a data folder.
@pytest.mark.parametrize(
    ("text", "is_accepted"),
    [(text, True) for text in (".5", "1.", "1e-1", "1d", "0x1p-1", "NaN", "-Infinity")]
    + [(text, False) for text in ("", ".", "nan", "inf", "1_0", "0,9", "0x1")],
)
def test_a_double_is_what_java_reads_as_one(text: str, is_accepted: bool) -> None:
    refusal = problem_of_value("log.cleaner.io.buffer.load.factor", DOUBLE, text)

    assert refusal == ("" if is_accepted else "Not a number of type DOUBLE")


def test_kafka_properties_without_effect_are_accepted_with_their_defaults() -> None:
    defaults = {name: each.default for name, each in UNUSED.items() if each.default is not None}

    assert BrokerConfig(defaults).given == defaults


def test_a_rate_that_may_not_be_set_while_the_broker_runs_is_accepted_at_the_start() -> None:
    assert BrokerConfig({"max.connection.creation.rate": "0"}).unused == ["max.connection.creation.rate"]


def test_kafka_properties_without_effect_are_accepted_and_listed_as_unused() -> None:
    names = ["log.cleaner.threads", "zookeeper.connect", "listener.name.inside.ssl.provider", "principal.builder.class"]

    assert BrokerConfig(dict.fromkeys(names, "1") | {"num.partitions": "2"}).unused == names


@pytest.mark.parametrize(
    ("name", "of_topics", "value"),
    [
        ("log.message.timestamp.before.max.ms", "message.timestamp.before.max.ms", 70_000),
        ("log.message.timestamp.after.max.ms", "message.timestamp.after.max.ms", 70_000),
        ("log.cleaner.min.compaction.lag.ms", "min.compaction.lag.ms", 70_000),
        ("log.index.interval.bytes", "index.interval.bytes", 70_000),
        ("unclean.leader.election.enable", "unclean.leader.election.enable", True),
    ],
)
def test_a_default_of_topics_that_is_given_at_the_start_holds_for_topics(name: str, of_topics: str, value: Any) -> None:
    config = BrokerConfig({name: show(value)})

    assert config.topic_default(of_topics) == value
    assert config.unused == ([] if OF_TOPICS[name].has_effect else [name])


def test_every_property_is_kafka_s_or_has_the_stuntbroker_prefix() -> None:
    assert {name for name in BROKER if name not in KAFKA_4_3_1 and not name.startswith("stuntbroker.")} == {
        "transaction.version",
        "allow.everyone.if.no.acl.found",
        "super.users",
    }


UNITS: dict[str, tuple[dict[str, str], str, int]] = {
    "hours": ({"log.retention.hours": "2"}, "log.retention.ms", 7_200_000),
    "minutes before hours": ({"log.retention.hours": "2", "log.retention.minutes": "3"}, "log.retention.ms", 180_000),
    "ms before minutes": ({"log.retention.minutes": "3", "log.retention.ms": "4"}, "log.retention.ms", 4),
    "for ever": ({"log.retention.minutes": "-1"}, "log.retention.ms", -1),
    "a roll in hours": ({"log.roll.hours": "2"}, "log.roll.ms", 7_200_000),
    "a roll in ms before hours": ({"log.roll.ms": "5", "log.roll.hours": "2"}, "log.roll.ms", 5),
    "none": ({}, "log.retention.ms", 604_800_000),
}


@pytest.mark.parametrize("what", UNITS)
def test_a_time_may_be_given_in_each_unit_that_kafka_takes_it_in(what: str) -> None:
    given, name, value = UNITS[what]

    assert BrokerConfig(given)[name] == value


def test_no_connections_of_any_address_are_an_error_at_the_start() -> None:
    with pytest.raises(ConfigError, match=r"max\.connections\.per\.ip: 0 lets no client in"):
        BrokerConfig({"max.connections.per.ip": "0"})


@pytest.mark.parametrize("overrides", ["127.0.0.1", "here:1", "::1:x", "10.0.0.1:-1"])
def test_overrides_that_are_no_addresses_with_numbers_are_refused(overrides: str) -> None:
    with pytest.raises(ConfigError, match=r"^max\.connections\.per\.ip\.overrides: "):
        BrokerConfig({"max.connections.per.ip.overrides": overrides})
