"""Send the same requests to Apache Kafka and Stuntbroker, and compare their replies field by field.

Kafka's replies are the reference. allowances.py lists the allowed differences; texts for people are not compared.
`python -m tests.conformance KAFKA OURS [CASE...]` shows every difference between two running brokers.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from stuntbroker.broker.configuration.kafka_properties import KAFKA_4_3_1
from stuntbroker.broker.configuration.properties import BROKER
from tests.conformance.cases import GROUPS
from tests.conformance.compare import Case, run_case
from tests.conformance.conftest import Pair
from tests.conformance.side import Side
from tools.properties_page import KAFKA_DEFAULTS, default_of

SHOWN_MAX = 20
DEFAULT_CONFIG = 5
CASES = [pytest.param(case, id=f"{group}-{case.__name__}") for group, cases in GROUPS.items() for case in cases]


@pytest.mark.parametrize("case", CASES)
def test_replies_are_those_of_kafka(pair: Pair, case: Case) -> None:
    actual = run_case(case, pair.kafka, pair.ours, f"{case.__name__}-{uuid4().hex[:6]}")
    wrong = [str(each) for each in actual if not (each.is_text or each.is_order or each.allowance)]

    assert wrong[:SHOWN_MAX] == [], f"{len(wrong)} differences"


def test_every_property_that_kafka_shows_is_shown_with_its_type(pair: Pair) -> None:
    kafka, ours = (
        {
            name: (item.config_type, item.read_only, item.is_sensitive)
            for name, item in broker_configs(address).items()
            if not name.startswith("listener.name.")
        }
        for address in (pair.kafka, pair.ours)
    )

    assert {name: (shown, ours.get(name)) for name, shown in kafka.items() if ours.get(name) != shown} == {}
    assert kafka.keys() - KAFKA_4_3_1 == set()


def test_the_page_of_properties_lists_every_default_that_differs_from_kafka(pair: Pair) -> None:
    """The test covers only properties that Kafka shows, as it hides a few."""
    kafka, ours = broker_configs(pair.kafka), broker_configs(pair.ours)
    defaults = {
        name: (default_in(kafka[name]), default_of(name) if name in BROKER else default_in(ours[name]))
        for name in kafka.keys() & ours.keys()
    }

    assert {name: default for name, (default, our_default) in defaults.items() if default != our_default} == {
        name: default for name, default in KAFKA_DEFAULTS.items() if name in kafka
    }


def broker_configs(address: str) -> dict[str, Any]:
    """Return the DescribeConfigs results of a broker by property name."""
    side = Side(address, "configs")
    try:
        resource = {"resource_type": 4, "resource_name": "1", "configuration_keys": None}
        (shown,) = side.ask("DescribeConfigs", 4, "all", resources=[resource], include_synonyms=True).results
    finally:
        side.close()
    return {item.name: item for item in shown.configs}


def default_in(each: Any) -> str:
    """Return the default of a described property; "null" without one."""
    actual = [
        synonym.value for synonym in each.synonyms if (synonym.name, synonym.source) == (each.name, DEFAULT_CONFIG)
    ]
    return str(actual[0]) if actual else "null"
