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


def test_readers_find_the_page_from_the_readme_and_from_the_differences() -> None:
    assert "](docs/properties.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "](properties.md)" in (ROOT / "docs" / "differences.md").read_text(encoding="utf-8")
