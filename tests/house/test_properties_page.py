"""docs/properties.md is what its tool writes, and other pages link to it."""

from __future__ import annotations

import subprocess
import sys

from house_sources import ROOT


def test_the_page_of_properties_is_up_to_date() -> None:
    said = subprocess.run(
        [sys.executable, ROOT / "tools" / "properties_page.py", "--check"], check=False, capture_output=True, text=True
    )

    assert (said.returncode, said.stderr) == (0, ""), said.stdout


def test_readers_find_the_page_from_the_readme_and_from_the_differences() -> None:
    assert "](docs/properties.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "](properties.md)" in (ROOT / "docs" / "differences.md").read_text(encoding="utf-8")
