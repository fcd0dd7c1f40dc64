"""What Kafka says, we say: the same requests to both, their replies field by field.

Kafka is the judge. What may differ stands in allowances.py, and words that are for people are not compared.
`python -m tests.conformance KAFKA OURS [CASE...]` shows every difference between two running brokers.
"""

from __future__ import annotations

from uuid import uuid4

import pytest

from tests.conformance.cases import GROUPS
from tests.conformance.compare import Case, run_case
from tests.conformance.conftest import Pair

SHOWN_MAX = 20
CASES = [pytest.param(case, id=f"{group}-{case.__name__}") for group, cases in GROUPS.items() for case in cases]


@pytest.mark.parametrize("case", CASES)
def test_replies_are_those_of_kafka(pair: Pair, case: Case) -> None:
    found = run_case(case, pair.kafka, pair.ours, f"{case.__name__}-{uuid4().hex[:6]}")
    wrong = [str(each) for each in found if not (each.is_text or each.is_order or each.allowance)]

    assert wrong[:SHOWN_MAX] == [], f"{len(wrong)} differences"
