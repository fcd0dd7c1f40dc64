"""The block of docs/how-to/jvm.md about Spark runs: Spark's own Kafka source and sink against our broker."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "jvm.md"


def test_spark_s_own_source_and_sink_work_as_the_page_shows(spark: SparkSession) -> None:
    """In the session of these tests, which has the connector already."""
    (block,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    rows: dict[str, object] = {}

    exec(compile(block, PAGE.name, "exec"), rows)

    assert rows["rows"]
