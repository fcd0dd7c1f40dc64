"""The Spark session that all tests of this folder share works."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_session_has_two_cores_and_our_data_source(spark: SparkSession) -> None:
    assert spark.range(10).selectExpr("sum(id)").first() == (45,)
    assert spark.sparkContext.defaultParallelism == 2
