"""DescribeConfigs: which properties have a value, and which responses have documentation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from broker_harness import Client, decode, frame, rig

from stuntbroker.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource

KEY = 32
BROKER = 4
DEFAULT, STATIC = 5, 4
LIST = 7


def describe(client: Client, version: int, resource: DescribeConfigsResource, **options: bool) -> dict[str, Any]:
    """Configuration of one resource, by name."""
    client.feed(frame(DescribeConfigsRequest([resource], **options), version))
    (answer,) = client.answers()
    (result,) = decode(answer, KEY, version).results
    assert (result.error_code, result.error_message) == (0, "")
    return {one.name: one for one in result.configs}


@pytest.mark.parametrize("name", ["listeners", "advertised.listeners"])
async def test_an_address_that_is_not_set_is_null_and_one_that_is_set_is_shown(name: str, tmp_path: Path) -> None:
    resource = DescribeConfigsResource(BROKER, "1", [name])
    for address, value, source, synonyms in (
        ({}, None, DEFAULT, []),
        ({name: "PLAINTEXT://localhost:9092"}, "PLAINTEXT://localhost:9092", STATIC, [(name, STATIC)]),
    ):
        async with rig(tmp_path / "data", address) as made:
            shown = describe(Client(made.broker), 4, resource, include_synonyms=True)[name]
        assert (shown.config_type, shown.value, shown.config_source) == (LIST, value, source)
        assert [(one.name, one.source) for one in shown.synonyms] == synonyms
