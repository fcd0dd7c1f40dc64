"""Dynamic broker configuration: what Kafka accepts and refuses, and where a change takes effect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stuntbroker.broker.configuration.dynamic_config import MIN_ISR, merged_list
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.alter_configs_request import AlterableConfig as ReplacedConfig
from stuntbroker.protocol.messages.alter_configs_request import AlterConfigsRequest
from stuntbroker.protocol.messages.alter_configs_request import AlterConfigsResource as ReplacedResource
from stuntbroker.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from stuntbroker.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from stuntbroker.protocol.request_values import APPEND, DELETE, SET, SUBTRACT
from tests.kit.rig import START_MS, Client, running_rig
from tests.kit.valid_requests import TOPIC, batch

BROKER, TOPIC_KIND = 4, 2
OK, INVALID_REQUEST, INVALID_CONFIG = ErrorCode.NONE, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG
Outcome = tuple[int, str | None]


def alter(client: Client, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False) -> Outcome:
    configs = [AlterableConfig(*change) for change in changes]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(BROKER, name, configs)], validate_only)
    (answer,) = client.ask(request, 1).responses
    return answer.error_code, answer.error_message


def replace(client: Client, name: str, **values: str) -> Outcome:
    configs = [ReplacedConfig(key.replace("_", "."), value) for key, value in values.items()]
    (answer,) = client.ask(AlterConfigsRequest([ReplacedResource(BROKER, name, configs)]), 2).responses
    return answer.error_code, answer.error_message


def described(client: Client, kind: int, name: str) -> dict[str, Any]:
    """Property -> (value, source, read-only, synonyms as (name, value, source))."""
    request = DescribeConfigsRequest([DescribeConfigsResource(kind, name, None)], include_synonyms=True)
    (answer,) = client.ask(request, 4).results
    assert not answer.error_code, answer.error_message
    return {
        each.name: (
            each.value,
            each.config_source,
            each.read_only,
            [(s.name, s.value, s.source) for s in each.synonyms],
        )
        for each in answer.configs
    }


def produce(client: Client, size: int) -> int:
    data = [PartitionProduceData(0, batch(1, size=size, timestamp=START_MS))]
    answer = client.ask(ProduceRequest(None, -1, 1_000, [TopicProduceData(TOPIC, partition_data=data)]), 9)
    code: int = answer.responses[0].partition_responses[0].error_code
    return code


async def test_a_broker_config_takes_effect_immediately_on_its_level_until_it_is_deleted(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        rig.topic(TOPIC)
        assert produce(client, 50_000) == OK
        assert alter(client, "", ("message.max.bytes", SET, " 20000 ")) == (OK, None)
        assert produce(client, 50_000) == ErrorCode.MESSAGE_TOO_LARGE
        assert alter(client, "1", ("message.max.bytes", SET, "90000")) == (OK, None)
        assert produce(client, 50_000) == OK
        levels = [
            ("message.max.bytes", "90000", 2),
            ("message.max.bytes", " 20000 ", 3),
            ("message.max.bytes", "1048588", 5),
        ]
        assert described(client, BROKER, "1")["message.max.bytes"] == ("90000", 2, False, levels)
        assert described(client, TOPIC_KIND, TOPIC)["max.message.bytes"] == ("90000", 2, False, levels)
        assert described(client, BROKER, "") == {
            MIN_ISR: ("1", 3, False, [(MIN_ISR, "1", 3)]),
            "message.max.bytes": (" 20000 ", 3, False, levels[1:2]),
        }
        assert alter(client, "1", ("message.max.bytes", DELETE, None)) == (OK, None)
        assert produce(client, 50_000) == ErrorCode.MESSAGE_TOO_LARGE
        assert alter(client, "", ("message.max.bytes", DELETE, None)) == (OK, None)
        assert produce(client, 50_000) == OK
        assert described(client, BROKER, "1")["message.max.bytes"] == ("1048588", 5, False, levels[2:])


async def test_a_topic_s_own_configuration_overrides_a_broker_config(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        rig.topic(TOPIC, retention_ms="5")
        rig.topic("other")
        assert alter(client, "", ("log.retention.ms", SET, "7000")) == (OK, None)
        assert [rig.log(name, 0).config.retention_ms for name in (TOPIC, "other")] == [5, 7_000]
        assert described(client, TOPIC_KIND, "other")["retention.ms"] == (
            "7000", 3, False, [("log.retention.ms", "7000", 3), ("log.retention.hours", "168", 5)],
        )  # fmt: skip


@pytest.mark.parametrize("crash", [False, True])
async def test_broker_configs_survive_a_restart(data_dir: Path, crash: bool) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        rig.topic(TOPIC)
        assert alter(client, "1", ("message.max.bytes", SET, "20000"), ("of.somebody", SET, "x")) == (OK, None)
        rig.broker.broken = crash
    async with running_rig(data_dir) as rig:
        client = rig.client()
        assert produce(client, 50_000) == ErrorCode.MESSAGE_TOO_LARGE
        actual = described(client, BROKER, "1")
        assert actual["message.max.bytes"][:2] == ("20000", 2)
        assert actual["of.somebody"] == (None, 2, True, [("of.somebody", None, 2)])


async def test_alter_configs_replaces_all_that_is_set_on_a_level(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        assert replace(client, "1", message_max_bytes="9", log_retention_ms="8") == (OK, None)
        assert replace(client, "1", log_retention_ms="7") == (OK, None)
        actual = described(client, BROKER, "1")
        assert (actual["message.max.bytes"][1], actual["log.retention.ms"][:2]) == (5, ("7", 2))
        assert replace(client, "1") == (OK, None)
        assert replace(client, "", log_retention_ms="7") == (
            INVALID_CONFIG,
            "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
        )
        assert replace(client, "", log_retention_ms="7", min_insync_replicas="1") == (OK, None)


async def test_lists_are_appended_to_and_subtracted_from(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        assert alter(client, "", ("log.cleanup.policy", APPEND, "compact")) == (OK, None)
        assert described(client, BROKER, "")["log.cleanup.policy"][0] == "delete,compact"
        assert alter(client, "", ("log.cleanup.policy", SUBTRACT, "delete")) == (OK, None)
        assert described(client, BROKER, "1")["log.cleanup.policy"][0] == "compact"
        assert alter(client, "1", ("log.cleanup.policy", SET, "compact, delete,compact")) == (OK, None)
        assert described(client, BROKER, "1")["log.cleanup.policy"][0] == "compact,delete"


@pytest.mark.parametrize(
    ("before", "operation", "value", "after"),
    [
        ("", APPEND, "a", "a"),
        ("", SUBTRACT, "a", ""),
        ("a", APPEND, "b,a", "a,b"),
        ("a", APPEND, " a", "a, a"),
        ("a, b", SUBTRACT, "b", "a, b"),
        ("a, b", SUBTRACT, " b", "a"),
        ("a,b,a", SUBTRACT, "a", "b,a"),
        ("a,b", SUBTRACT, "b,a", ""),
    ],
)
def test_append_and_subtract_compare_list_entries_without_trimming(
    before: str, operation: int, value: str, after: str
) -> None:
    assert merged_list(before, value, operation) == after


ANY = ("", "1")
REFUSED: list[tuple[tuple[str, ...], tuple[tuple[str, int, str | None], ...], Outcome]] = [
    (("9",), (), (INVALID_REQUEST, "Unexpected broker id, expected 1, but received 9")),
    (("abc", " 1"), (), (INVALID_REQUEST, "Node id must be an integer, but it is: ")),
    (ANY, (("node.id", SET, "2"),), (INVALID_REQUEST, "Cannot update these configs dynamically: [node.id]")),
    (ANY, (("num.partitions", SET, "2"),), (INVALID_REQUEST, "Cannot update these configs dynamically: [num.partitions]")),
    (ANY, (("broker.rack", SET, "a"),), (INVALID_REQUEST, "Cannot update these configs dynamically: [broker.rack]")),
    (ANY, (("log.retention.ms", SET, "abc"),), (INVALID_REQUEST, "Invalid value abc for configuration log.retention.ms: ")),
    (ANY, (("num.io.threads", SET, "x"),), (
        INVALID_REQUEST, "Invalid value x for configuration num.io.threads: Not a number of type INT")),
    *((ANY, ((name, SET, value),), (INVALID_REQUEST, f"Invalid value {value} for configuration {name}: "))
      for name, value in (
        ("num.io.threads", "0"), ("num.io.threads", "2147483648"), ("background.threads", "-1"), ("log.retention.ms", "0"),
        ("log.cleaner.dedupe.buffer.size", "1048575"), ("group.consumer.assignment.interval.ms", "15001"),
        ("leader.replication.throttled.rate", "-1"), ("log.cleaner.io.buffer.load.factor", "a"),
        ("max.connections.per.ip", "0"), ("max.connections.per.ip.overrides", "here:1"),
        ("max.connection.creation.rate", "0"), ("group.share.assignment.interval.ms", "15001"))),
    (ANY, (("max.connections.per.ip", SET, "+0"),), (INVALID_REQUEST, "Invalid value +0 for configuration max.connections.per")),
    (ANY, (("max.connections", SET, "00"),), (INVALID_REQUEST, "Invalid value 00 for configuration max.connections")),
    (("",), (("listener.name.plaintext.ssl.keystore.location", SET, "x"),), (
        INVALID_REQUEST, "Cannot update these configs at default cluster level, broker id must be specified: ")),
    (("1",), (("sasl.login.refresh.buffer.seconds", SET, "32768"),), (
        INVALID_REQUEST, "Invalid value 32768 for configuration sasl.login.refresh.buffer.seconds: Not a number of type SHORT")),
    (ANY, (("log.preallocate", SET, "yes"),), (INVALID_REQUEST, "Invalid value yes for configuration log.preallocate: ")),
    (ANY, (("log.retention.ms", APPEND, "1"),), (
        INVALID_CONFIG, "Config value append is not allowed for config key: log.retention.ms")),
    (ANY, (("log.retention.ms", SUBTRACT, "1"),), (
        INVALID_CONFIG, "Config value subtract is not allowed for config key: log.retention.ms")),
    (ANY, (("foo.bar", APPEND, "1"),), (INVALID_CONFIG, "Unknown config name: foo.bar")),
    (ANY, (("log.retention.ms", 4, "1"),), (INVALID_REQUEST, "Unknown operations type 4")),
    (ANY, (("log.retention.ms", SET, None),), (INVALID_REQUEST, "Null value not supported for : log.retention.ms")),
    (ANY, (("ssl.keystore.type", SET, "JKS"),), (
        INVALID_REQUEST, "These security configs can be dynamically updated only per-listener using the listener prefix: "
        "[ssl.keystore.type]")),
    (("",), (("listeners", SET, "PLAINTEXT://:1"),), (
        INVALID_REQUEST, "Cannot update these configs at default cluster level, broker id must be specified: [listeners]")),
    (("1",), (("listeners", SET, "SSL://:1"),), (INVALID_REQUEST, "Invalid value SSL://:1 for configuration listeners: ")),
    (ANY, (("max.connections", SET, "0"),), (INVALID_REQUEST, "Invalid value 0 for configuration max.connections: ")),
    (("1",), ((MIN_ISR, SET, "1"),), (
        INVALID_CONFIG, "Broker-level min.insync.replicas cannot be altered while ELR is enabled.")),
    (("",), ((MIN_ISR, DELETE, None),), (
        INVALID_CONFIG, "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.")),
]  # fmt: skip


@pytest.mark.parametrize(("names", "changes", "outcome"), REFUSED, ids=[str(row[1] or row[0]) for row in REFUSED])
async def test_a_config_change_that_kafka_refuses_fails_the_whole_request(
    names: tuple[str, ...], changes: tuple[tuple[str, int, str | None], ...], outcome: Outcome, data_dir: Path
) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        for name in names:
            error, message = alter(client, name, ("message.max.bytes", SET, "9"), *changes)
            assert error == outcome[0] and message is not None and message.startswith(str(outcome[1])), (error, message)
        assert described(client, BROKER, "1")["message.max.bytes"][1] == 5


@pytest.mark.parametrize("name", ANY)
async def test_configs_without_effect_are_accepted_stored_and_described(name: str, data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        changes = (("num.io.threads", SET, "9"), ("foo.bar", SET, "x"), ("node.id", DELETE, None))
        assert alter(client, name, *changes, validate_only=True) == (OK, None)
        default = ("num.io.threads", "8", 5)
        assert described(client, BROKER, "1")["num.io.threads"] == ("8", 5, False, [default])
        assert alter(client, name, *changes) == (OK, None)
        source = 2 if name else 3
        actual = described(client, BROKER, "1")
        assert actual["num.io.threads"] == ("9", source, False, [("num.io.threads", "9", source), default])
        assert actual["foo.bar"] == (None, source, True, [("foo.bar", None, source)])  # Unknown, so maybe secret.


async def test_max_connections_cannot_be_raised_above_the_limit_of_the_system(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        rig.broker.config.ceilings["max.connections"] = 1
        assert alter(client, "", ("max.connections", SET, "5")) == (OK, None)
        assert rig.client().transport.aborted


@pytest.mark.parametrize("restarts", [False, True])
async def test_min_insync_replicas_of_the_start_stays_in_force_when_the_configuration_is_described(
    restarts: bool, data_dir: Path
) -> None:
    properties = {"stuntbroker.nodes": "3", MIN_ISR: "2"}
    async with running_rig(data_dir, properties) as rig:
        values = described(rig.client(), BROKER, "1")
        assert (values[MIN_ISR][0], rig.broker.config[MIN_ISR]) == ("2", 2)
        if not restarts:
            assert alter(rig.client(), "", (MIN_ISR, SET, "3")) == (OK, None)
    async with running_rig(data_dir, properties) as rig:
        assert described(rig.client(), BROKER, "1")[MIN_ISR][0] == ("2" if restarts else "3")


async def test_overrides_cannot_be_removed_while_all_other_addresses_are_refused(data_dir: Path) -> None:
    given = {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:5"}
    async with running_rig(data_dir, given) as rig:
        error, message = alter(rig.client(), "1", ("max.connections.per.ip.overrides", SET, ""))
        assert (error, message is not None and "it would let no client in" in message) == (INVALID_REQUEST, True)
        assert alter(rig.client(), "1", ("max.connections.per.ip.overrides", SET, "127.0.0.1:6")) == (OK, None)


async def test_limits_of_a_listener_may_be_set_for_all_brokers_and_are_shown_with_those_of_the_broker(
    data_dir: Path,
) -> None:
    name = "listener.name.plaintext.num.network.threads"
    async with running_rig(data_dir, {"listener.name.plaintext.ssl.client.auth": "none"}) as rig:
        client = rig.client()
        assert alter(client, "", (name, SET, "5")) == (OK, None)
        shown = described(client, BROKER, "1")
        assert shown[name] == ("5", 3, True, [(name, "5", 3), ("num.network.threads", "3", 5)])
        given = "listener.name.plaintext.ssl.client.auth"
        assert shown[given] == ("none", 4, True, [(given, "none", 4), ("ssl.client.auth", "none", 5)])


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        ("listener.name.a.ssl.keystore.password", True), ("listener.name.a.plain.sasl.jaas.config", True),
        ("listener.name.a.foo.password", True), ("my.password", True), ("listener.name.a.max.connections", False),
    ],
)  # fmt: skip
async def test_what_may_be_secret_is_not_shown(name: str, is_secret: bool, data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        assert alter(client, "1", (name, SET, "5")) == (OK, None)
        assert described(client, BROKER, "1")[name][0] == (None if is_secret else "5")
