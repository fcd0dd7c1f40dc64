"""The blocks about Spark of README.md and docs/how-to/jvm.md run, in the session of these tests with its connector."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kit.processes.process import serving

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]


def python_blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_sparks_own_source_and_sink_work_as_the_page_shows(spark: SparkSession) -> None:
    (block,) = python_blocks("docs/how-to/jvm.md")
    rows: dict[str, object] = {}

    exec(compile(block, "jvm.md", "exec"), rows)

    assert rows["rows"]


def test_our_source_and_sink_work_as_the_readme_shows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (block,) = (text for text in python_blocks("README.md") if "StuntbrokerDataSource" in text)
    monkeypatch.setitem(os.environ, "PYSPARK_PYTHON", os.environ["PYSPARK_PYTHON"])  # The block sets this variable.
    with serving() as broker:
        block = block.replace("localhost:9092", "{}:{}".format(*broker.address))
        block = block.replace("./checkpoint", str(tmp_path / "checkpoint"))
        exec(compile(block, "README.md", "exec"), {})

    assert sorted(re.findall(r"^\| *(\w+)\|$", capsys.readouterr().out, re.MULTILINE)) == ["ONE", "TWO", "value"]
