"""What Kafka says, we say: the same requests to both, their replies field by field.

Kafka is the judge. What may differ stands in allowances.py, and words that are for people are not compared.
`python -m tests.conformance KAFKA OURS [CASE...]` shows every difference between two running brokers.
"""

from __future__ import annotations

from uuid import uuid4

import pytest

from stuntbroker.broker.kafka_properties import KAFKA_4_3_1
from tests.conformance.cases import GROUPS
from tests.conformance.compare import Case, run_case
from tests.conformance.conftest import Pair
from tests.conformance.side import Side

SHOWN_MAX = 20
CASES = [pytest.param(case, id=f"{group}-{case.__name__}") for group, cases in GROUPS.items() for case in cases]


@pytest.mark.parametrize("case", CASES)
def test_replies_are_those_of_kafka(pair: Pair, case: Case) -> None:
    found = run_case(case, pair.kafka, pair.ours, f"{case.__name__}-{uuid4().hex[:6]}")
    wrong = [str(each) for each in found if not (each.is_text or each.is_order or each.allowance)]

    assert wrong[:SHOWN_MAX] == [], f"{len(wrong)} differences"


def test_every_property_that_kafka_shows_is_known_by_its_name(pair: Pair) -> None:
    side = Side(pair.kafka, "names")
    try:
        resource = {"resource_type": 4, "resource_name": "1", "configuration_keys": None}
        (shown,) = side.ask("DescribeConfigs", 4, "all", resources=[resource]).results
    finally:
        side.close()
    assert {one.name for one in shown.configs} - KAFKA_4_3_1 == set()
