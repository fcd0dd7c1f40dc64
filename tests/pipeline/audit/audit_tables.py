"""Tables that an audit wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from stuntbroker.pipeline.audit.result import Audit


def written(folder: Path) -> dict[str, pa.Table]:
    return {one.name: parquet.read_table(one, partitioning=None) for one in sorted(folder.iterdir())}


FIELDS = (
    "batches", "txn_state", "offsets", "bounds", "transactions", "segments", "lasts", "fencing", "latencies", "committed",
    "waiting", "unreadable", "known", "is_whole", "is_partial", "in_use",
)  # fmt: skip


def everything(found: Audit) -> dict[str, Any]:
    return {name: getattr(found, name) for name in FIELDS} | {"findings": found.findings()}
