"""A few of the random runs; `make spark-faults SEEDS=200` does more of them, and also kills drivers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from seeded_faults import DRIVER_EVERY, run_seed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEEDS = (3, 6, 102, 111)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_row_is_written_exactly_once(seed: int, session: SparkSession, tmp_path: Path) -> None:
    assert seed % DRIVER_EVERY != DRIVER_EVERY - 1

    result = run_seed(seed, tmp_path, session)

    assert result.right, result
    assert result.happened
