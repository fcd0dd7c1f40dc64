"""Compute source metrics from a query's progress, as Spark does not accept metrics from a Python data source."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from stuntbroker.pipeline.spark.offsets import from_json

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import SourceProgress


def offsets_behind_latest(source: SourceProgress) -> dict[str, str]:
    """Return how far a batch ended behind the latest offsets, under the metric names of Spark's own Kafka source.

    `source` is one of `StreamingQueryProgress.sources`. Empty before the first batch.
    """
    if not source.endOffset or not source.latestOffset:
        return {}
    end, latest = from_json(json.loads(source.endOffset)), from_json(json.loads(source.latestOffset))
    behind = [max(0, offset - end[partition]) for partition, offset in latest.items() if partition in end]
    if not behind:
        return {}
    return {
        "minOffsetsBehindLatest": str(min(behind)),
        "maxOffsetsBehindLatest": str(max(behind)),
        "avgOffsetsBehindLatest": str(sum(behind) / len(behind)),
    }
