"""DescribeConfigs: which properties have a value, and which responses have documentation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stuntbroker.broker.configuration.config_docs import BROKER_DOCS, TOPIC_DOCS
from stuntbroker.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from tests.kit.rig import Client, decode, frame, running_rig
from tests.kit.valid_requests import TOPIC as NAME

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
    for address, value, source, synonyms in (
        ({}, None, DEFAULT, []),
        ({name: "PLAINTEXT://localhost:9092"}, "PLAINTEXT://localhost:9092", STATIC, [(name, STATIC)]),
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
            (DescribeConfigsResource(TOPIC, NAME, None), TOPIC_DOCS), (DescribeConfigsResource(BROKER, "1", None), BROKER_DOCS),
        ):  # fmt: skip
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
    }  # As decoded without the field.
