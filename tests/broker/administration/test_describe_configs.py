"""DescribeConfigs: which properties have a value, and which responses have documentation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stuntbroker.broker.configuration.config import OF_AUTHORIZERS
from stuntbroker.broker.configuration.config_docs import BROKER_DOCS, TOPIC_DOCS, UNUSED_DOC, UNUSED_DOCS
from stuntbroker.broker.configuration.kafka_properties import UNUSED
from stuntbroker.broker.configuration.properties import BROKER as BROKER_PROPERTIES
from stuntbroker.broker.configuration.properties import INTERNAL_SEGMENT_BYTES
from stuntbroker.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from tests.kit.processes.free_ports import free_port
from tests.kit.produce_and_fetch import produce
from tests.kit.rig import Client, decode, frame, running_rig
from tests.kit.valid_requests import TOPIC as NAME
from tests.kit.valid_requests import batch

KEY = 32
TOPIC, BROKER = 2, 4
DEFAULT, STATIC = 5, 4
LIST = 7


def describe(client: Client, version: int, resource: DescribeConfigsResource, **options: bool) -> dict[str, Any]:
    """Configuration of one resource, by name."""
    client.feed(frame(DescribeConfigsRequest([resource], **options), version))
    (answer,) = client.answers()
    (result,) = decode(answer, KEY, version).results
    assert (result.error_code, result.error_message) == (0, "")
    return {each.name: each for each in result.configs}


@pytest.mark.parametrize("name", ["listeners", "advertised.listeners"])
async def test_listener_properties_are_described_as_null_unless_they_are_set(name: str, tmp_path: Path) -> None:
    resource = DescribeConfigsResource(BROKER, "1", [name])
    given = f"PLAINTEXT://localhost:{free_port()}"
    for address, value, source, synonyms in (
        ({}, None, DEFAULT, []),
        ({name: given}, given, STATIC, [(name, STATIC)]),
    ):
        async with running_rig(tmp_path / "data", address) as rig:
            shown = describe(Client(rig.broker), 4, resource, include_synonyms=True)[name]
        assert (shown.config_type, shown.value, shown.config_source) == (LIST, value, source)
        assert [(each.name, each.source) for each in shown.synonyms] == synonyms


@pytest.mark.parametrize("version", [3, 4])
async def test_documentation_is_given_when_it_is_asked_for_and_null_otherwise(version: int, data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(NAME)
        client = Client(rig.broker)
        for resource, docs in (
            (DescribeConfigsResource(TOPIC, NAME, None), {**TOPIC_DOCS}),
            (
                DescribeConfigsResource(BROKER, "1", None),
                {**dict.fromkeys(UNUSED, UNUSED_DOC), **UNUSED_DOCS, **BROKER_DOCS},
            ),
        ):
            for unset in (INTERNAL_SEGMENT_BYTES, *OF_AUTHORIZERS):
                docs.pop(unset, None)
            shown = describe(client, version, resource, include_documentation=True)
            assert {name: each.documentation for name, each in shown.items()} == docs
            shown = describe(client, version, resource)
            assert {each.documentation for each in shown.values()} == {None}


@pytest.mark.parametrize("version", [1, 2])
async def test_versions_without_a_field_for_documentation_are_answered_without_it(version: int, data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(NAME)
        resource = DescribeConfigsResource(TOPIC, NAME, ["retention.ms"])
        shown = describe(Client(rig.broker), version, resource, include_documentation=True)
    assert {name: each.documentation for name, each in shown.items()} == {
        "retention.ms": ""
    }  # Old versions have no such field.


def test_a_property_either_has_an_effect_or_is_listed_as_one_without() -> None:
    assert UNUSED.keys() & BROKER_PROPERTIES.keys() == set()


async def test_log_dirs_is_the_data_folder(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        shown = describe(Client(rig.broker), 4, DescribeConfigsResource(BROKER, "1", ["log.dirs"]))["log.dirs"]
    assert (shown.value, shown.config_source, shown.read_only) == (str(data_dir), STATIC, True)


async def test_a_property_without_effect_shows_what_was_given_at_the_start(data_dir: Path) -> None:
    async with running_rig(data_dir, {"num.io.threads": "3", "delegation.token.secret.key": "abc"}) as rig:
        resource = DescribeConfigsResource(
            BROKER, "1", ["num.io.threads", "delegation.token.secret.key", "background.threads"]
        )
        shown = describe(Client(rig.broker), 4, resource, include_synonyms=True)
    assert {
        name: (
            each.value,
            each.config_source,
            each.is_sensitive,
            [(level.value, level.source) for level in each.synonyms],
        )
        for name, each in shown.items()
    } == {
        "num.io.threads": ("3", STATIC, False, [("3", STATIC), ("8", DEFAULT)]),
        "delegation.token.secret.key": (None, STATIC, True, [(None, STATIC)]),
        "background.threads": ("10", DEFAULT, False, [("10", DEFAULT)]),
    }


async def test_a_topic_may_have_segments_smaller_than_the_minimum(data_dir: Path) -> None:
    """`internal.segment.bytes` is shown only while it is set, as in Kafka."""
    async with running_rig(data_dir) as rig:
        rig.topic("usual")
        rig.topic(NAME, internal_segment_bytes="1000")
        usual, small = (
            describe(Client(rig.broker), 4, DescribeConfigsResource(TOPIC, name, None)) for name in ("usual", NAME)
        )
        assert small.keys() - usual.keys() == {INTERNAL_SEGMENT_BYTES}
        assert (small[INTERNAL_SEGMENT_BYTES].value, small["segment.bytes"].value) == ("1000", "1073741824")
        log = rig.log(NAME, 0)
        for _ in range(30):
            rig.client().ask(produce(batch(size=100), NAME), 9)
        assert log.config.segment_bytes == 1000
        assert all(segment.size <= 1000 for segment in log.segments) and len(log.segments) > 3


async def test_super_users_are_shown_as_what_may_be_secret_and_only_if_they_are_set(data_dir: Path) -> None:
    async with running_rig(data_dir, {"super.users": "User:admin"}) as rig:
        shown = describe(Client(rig.broker), 4, DescribeConfigsResource(BROKER, "1", list(OF_AUTHORIZERS)))
        assert {name: (each.value, each.is_sensitive, each.config_type) for name, each in shown.items()} == {
            "super.users": (None, True, 0)
        }
        assert rig.broker.config.unused == ["super.users"]  # The broker has no authorizer.


async def test_each_node_shows_its_own_id(data_dir: Path) -> None:
    async with running_rig(data_dir, {"stuntbroker.nodes": "2"}) as rig:
        for node_id in (1, 2):
            resource = DescribeConfigsResource(BROKER, str(node_id), ["node.id", "broker.id"])
            shown = describe(rig.client(node_id - 1), 4, resource)
            assert {each.value for each in shown.values()} == {str(node_id)}
