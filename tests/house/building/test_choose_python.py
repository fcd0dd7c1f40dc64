"""The virtual environment uses the requested Python, or a faster build of the same version."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from house_sources import ROOT

VERSION = f"{sys.version_info[0]} {sys.version_info[1]}"
OTHER = f"{sys.version_info[0]} {sys.version_info[1] + 1}"
OTHERS = {
    "an optimized one of the same version": (f"echo {VERSION} optimized", True),
    "one that is not optimized either": (f"echo {VERSION} plain", False),
    "another version": (f"echo {OTHER} optimized", False),
    "one that cannot make virtual environments": ("exit 1", False),
}
PLAIN = """
import sys
sys.path[:0] = [{tools!r}]
import choose_python
choose_python.PROBE = "print({said!r})"
print(choose_python.choose([{folder!r}]))
"""


def chosen(said: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run choose_python with an interpreter whose probe prints `said`."""
    code = PLAIN.format(tools=str(ROOT / "tools"), said=said, folder=str(folder))
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)


@pytest.mark.parametrize("case", OTHERS)
def test_a_plain_build_is_replaced_only_by_an_optimized_build_of_the_same_version(case: str, tmp_path: Path) -> None:
    does, wins = OTHERS[case]
    other = tmp_path / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    other.write_text(f"#!/bin/sh\n{does}\n")
    other.chmod(0o755)

    done = chosen(f"{VERSION} plain", tmp_path)

    assert done.stdout.strip() == (str(other) if wins else sys.executable)
    assert (str(other) in done.stderr) is wins


def test_an_optimized_build_is_used_without_a_search(tmp_path: Path) -> None:
    other = tmp_path / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    other.write_text(f"#!/bin/sh\necho {VERSION} optimized\n")
    other.chmod(0o755)

    assert chosen(f"{VERSION} optimized", tmp_path).stdout.strip() == sys.executable


def test_the_requested_python_is_used_when_no_optimized_build_exists(tmp_path: Path) -> None:
    done = chosen(f"{VERSION} plain", tmp_path)

    assert (done.stdout.strip(), done.stderr) == (sys.executable, "")


def test_make_uses_an_explicit_python_without_a_search() -> None:
    command = [
        "make",
        "--dry-run",
        "--directory",
        str(ROOT),
        "--what-if=pyproject.toml",
        ".venv/run",
        "PYTHON=/a/python",
    ]

    outside = {name: text for name, text in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(command, env=outside, capture_output=True, text=True, timeout=60)

    assert "/a/python -m venv" in done.stdout
    assert "choose_python" not in done.stdout
