"""Generated pages and tables are up to date, and other pages link to them."""

from __future__ import annotations

import subprocess
import sys

import pytest
from house_sources import ROOT


@pytest.mark.parametrize("tool", ["properties_page.py", "stops_page.py", "faults_tables.py", "client_page.py"])
def test_a_page_that_a_tool_writes_is_up_to_date(tool: str) -> None:
    said = subprocess.run(
        [sys.executable, ROOT / "tools" / tool, "--check"], check=False, capture_output=True, text=True
    )

    assert (said.returncode, said.stderr) == (0, ""), said.stdout


def test_readme_and_differences_link_to_the_page_of_properties() -> None:
    assert "](docs/properties.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "](properties.md)" in (ROOT / "docs" / "differences.md").read_text(encoding="utf-8")


def test_signatures_on_the_page_of_the_client_are_those_that_python_accepts() -> None:
    from client_page import parameters_of

    def by_name(self: object, *, first: int, second: int = 2) -> None: ...
    def mixed(self: object, first: int, *, second: int = 2) -> None: ...
    def many(self: object, *values: int, second: int = 2, **options: int) -> None: ...
    def plain(self: object, first: int, second: int = 2) -> None: ...

    assert [parameters_of(function) for function in (by_name, mixed, many, plain)] == [
        "*, first, second=2",
        "first, *, second=2",
        "*values, second=2, **options",
        "first, second=2",
    ]
