"""The server conforms to /v1/openapi.json for requests that schemathesis generates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.schemas import BaseSchema
from schemathesis.specs.openapi.checks import positive_data_acceptance

from stuntbroker.control.http.api import OPERATIONS
from stuntbroker.control.http.operations import Operation
from tests.kit.processes.process import serving

HOUR_MS = 3_600_000
EXAMPLES = 25
"""Number of generated requests for each operation."""


@pytest.fixture(scope="module")
def described() -> Iterator[BaseSchema]:
    """Yield the OpenAPI document of a running broker."""
    with serving("--control", "--topic", "orders") as broker:
        control = broker.line.split("control=")[1].strip()
        yield schemathesis.openapi.from_url(f"{control}/v1/openapi.json")


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: f"{operation.method} {operation.path}")
def test_responses_to_any_request_match_the_openapi_document(operation: Operation, described: BaseSchema) -> None:
    @settings(max_examples=EXAMPLES, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=described[operation.path][operation.method].as_strategy())
    def ask(case: Any) -> None:
        if isinstance(case.body, dict) and isinstance(case.body.get("ms"), int):
            case.body["ms"] = min(case.body["ms"], HOUR_MS)  # A year would take a minute.
        # A valid body may still name unknown topics, ids and points, which the schema cannot exclude.
        case.call_and_validate(timeout=30, excluded_checks=[positive_data_acceptance])

    ask()
