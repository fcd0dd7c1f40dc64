"""The Makefile finds a JDK where the audit on Spark, and Spark itself, find it: in JAVA_HOME, else on the PATH."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from house_sources import ROOT

from stuntbroker.cli.data_folder.audit_spark import SparkError, need_java

SYSTEM = "/bin:/usr/bin"
CASES = {
    "only in JAVA_HOME": ("17.0.2", None, True),
    "too old in JAVA_HOME, new on the PATH": ("11.0.1", "21", False),
    "new in JAVA_HOME, too old on the PATH": ("25", "11.0.1", True),
    "only on the PATH": (None, "17-ea", True),
    "too old on the PATH": (None, "1.8.0_392", False),
}
"""Versions of (JAVA_HOME, PATH), and whether that will do."""


def java(folder: Path, version: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "java").write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-01' >&2\n")
    (folder / "java").chmod(0o755)
    return folder


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize("case", CASES)
def test_java_home_is_looked_at_first(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_home, on_path, does = CASES[case]
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{java(tmp_path / 'path', on_path)}:{SYSTEM}" if on_path else SYSTEM)
    if at_home:
        monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "a home" / "bin", at_home).parent))
    created = subprocess.run(
        ["make", "--silent", "--directory", str(ROOT), "need-java"],
        env={name: text for name, text in os.environ.items() if not name.startswith("MAKE")},
        capture_output=True,
        text=True,
    )

    assert (created.returncode == 0) is does, created.stderr
    if does:
        need_java()
    else:
        assert ("JAVA_HOME (" if at_home else "on the PATH") in created.stderr
        with pytest.raises(SparkError):
            need_java()
