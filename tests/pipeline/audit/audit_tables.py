"""Tables that an audit wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from stuntbroker.pipeline.audit.result import Audit


def written(folder: Path) -> dict[str, pa.Table]:
    return {each.name: parquet.read_table(each, partitioning=None) for each in sorted(folder.iterdir())}


FIELDS = (
    "batches", "txn_state", "offsets", "bounds", "transactions", "segments", "lasts", "fencing", "latencies", "committed",
    "waiting", "unreadable", "known", "is_whole", "is_partial", "in_use",
)  # fmt: skip


def everything(actual: Audit) -> dict[str, Any]:
    return {name: getattr(actual, name) for name in FIELDS} | {"findings": actual.findings()}
