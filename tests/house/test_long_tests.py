"""The table of tests that `make test` leaves out names existing tests only."""

from __future__ import annotations

import ast
import re

import pytest
from house_sources import ROOT

from tests.long_tests import LONG_TESTS, is_long


@pytest.mark.parametrize("key", LONG_TESTS)
def test_every_long_test_exists(key: str) -> None:
    path, _, function = key.partition("::")
    tree = ast.parse((ROOT / "tests" / path).read_text())
    functions = {each.name for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}

    assert not function or function in functions
    assert re.compile(LONG_TESTS[key] or "")


def test_a_long_test_is_selected_by_its_parameters() -> None:
    row = "pipeline/test_chaos.py::test_every_row_is_written_exactly_once"

    assert [number for number in range(12) if not is_long(f"{row}[{number}]")] == [1, 3]
    assert is_long("spark/killing/test_faults.py::test_planning_that_fails_is_repeated")
    assert not is_long("pipeline/test_chaos.py::test_something_else[5]")
