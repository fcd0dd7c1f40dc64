"""The Go tool chain, of at least the version that go.mod asks for."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

MODULE = Path(__file__).parents[2] / "peers" / "go"


def go_tool() -> str:
    """The path of `go`. Skips the test where there is none, or one that is older than go.mod asks for."""
    path = shutil.which("go")
    if path is None:
        pytest.skip("needs a Go tool chain: there is no go")
    wanted = re.search(r"^go (\d+)\.(\d+)", (MODULE / "go.mod").read_text(), re.MULTILINE)
    answer = subprocess.run([path, "version"], cwd="/", capture_output=True, text=True, check=True)
    present = re.search(r"go(\d+)\.(\d+)", answer.stdout)
    assert wanted is not None and present is not None
    if tuple(map(int, present.groups())) < tuple(map(int, wanted.groups())):
        pytest.skip(f"needs Go {wanted[1]}.{wanted[2]} or later: {path} is {present[1]}.{present[2]}")
    return path
