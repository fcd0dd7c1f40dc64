"""Rows of a DataFrame, brought together by the partition of the topic that they go to: what mode=single needs.

partitioned(df, "orders", "localhost:9092").writeStream.format("stuntbroker").option("mode", "single")...
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from stuntbroker.client.channel import ChannelCluster
from stuntbroker.pipeline.spark.connections import partition_counts
from stuntbroker.pipeline.spark.rows import BadRows
from stuntbroker.protocol.addresses import parse_bootstrap

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

COLUMN: Final = "partition"


def partitioned(frame: DataFrame, topic: str, bootstrap: str, tasks: int | None = None) -> DataFrame:
    """The same rows with a column `partition`, those of a partition in one task; there are `tasks`, or one for each.

    A column `partition` that is there is kept where it is not null. Else the partition is that of the key, as Kafka's own
    clients choose it; rows without a key are spread by their value. `key` and `value` are strings or binary.
    """
    with ChannelCluster(parse_bootstrap(bootstrap)) as cluster:
        count = partition_counts(cluster)(topic)
    return by_partition(frame, count).repartitionById(tasks or count, COLUMN)


def by_partition(frame: DataFrame, count: int) -> DataFrame:
    """With a column `partition`, for a topic of so many partitions. Raises BadRows."""
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

    partition.__annotations__ = {"key": pa.Array, "return": pa.Array}  # As types: that is how Spark tells its kind.
    arrow_udf: Any = functions.arrow_udf  # Its stub lists everything but this.
    return arrow_udf(partition, "int")
