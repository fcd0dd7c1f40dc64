"""Repartition a DataFrame by the topic partition of each row, as mode=single requires.

partitioned(df, "orders", "localhost:9092").writeStream.format("stuntbroker").option("mode", "single")...
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.security_properties import security_of
from stuntbroker.pipeline.spark.connections import partition_counts
from stuntbroker.pipeline.spark.rows import BadRows
from stuntbroker.pipeline.spark.security import security_properties
from stuntbroker.protocol.addresses import parse_bootstrap

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

COLUMN: Final = "partition"


def partitioned(
    frame: DataFrame,
    topic: str,
    bootstrap: str,
    tasks: int | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Add a column `partition`, and bring all rows of a partition into one task (`tasks` in total; default: one per partition).

    Existing values of `partition` that are not null stay unchanged. Otherwise the key determines the partition, as in Kafka's
    clients; rows without a key are spread by their value. `key` and `value` are strings or binary. `options`: those of the sink,
    of which the ones for TLS and SASL are used. Raises SecurityError.
    """
    given = {name.lower(): value for name, value in (options or {}).items()}
    security = security_of(dict(security_properties(given)))
    with Cluster(parse_bootstrap(bootstrap), security=security) as cluster:
        count = partition_counts(cluster)(topic)
    return by_partition(frame, count).repartitionById(tasks or count, COLUMN)


def by_partition(frame: DataFrame, count: int) -> DataFrame:
    """Add a column `partition` for a topic with `count` partitions. Raises BadRows."""
    from pyspark.sql.functions import coalesce, col, lit

    if "value" not in frame.columns:
        raise BadRows(f"column 'value' is missing: the DataFrame has {', '.join(frame.columns) or 'no column'}")
    wanted = [col(name).cast("binary") for name in ("key", "value") if name in frame.columns]
    hashed: Column = _hashed(count)(coalesce(*wanted, lit(b"")))
    return frame.withColumn(COLUMN, coalesce(col(COLUMN), hashed) if COLUMN in frame.columns else hashed)


def _hashed(count: int) -> Any:
    import pyarrow as pa
    from pyspark.sql.pandas import functions

    def partition(key: pa.Array) -> pa.Array:
        from stuntbroker.pipeline.encode import partitions_of

        return pa.array(partitions_of(key, len(key), count), pa.int32())

    # Spark needs the types, not strings.
    partition.__annotations__ = {"key": pa.Array, "return": pa.Array}
    arrow_udf: Any = functions.arrow_udf  # Missing from the stub of the module.
    return arrow_udf(partition, "int")
