"""Measure the throughput of the audit's reading steps on Spark, after a warm-up: GB per second of wall time and CPU time.

    python bench/audit_spark.py FOLDER [--topic orders] [--cores 2] [--runs 3]

`scan` checks headers and CRCs. `decode` decodes every record as Arrow, which stays in the worker. `rows` passes all records
to Spark, which adds up the sizes of their values.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from audit_run import cpu_of, family

from stuntbroker.cli.data_folder.audit_spark import session
from stuntbroker.pipeline.audit.folder import read_folder
from stuntbroker.pipeline.audit.shares import read_segment
from stuntbroker.pipeline.spark.segments import NAME, SegmentSource, bunches_of, pieces_of


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--topic", default="orders")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    folder = read_folder(options.folder)
    bunches = bunches_of(folder, (options.topic,))
    size = sum(segment.size for segment in folder.segments(options.topic))
    with session(f"local[{options.cores}]") as spark:
        spark.dataSource.register(SegmentSource)
        pieces = partial(pieces_of, spark, bunches)
        records = (
            spark.read.format(NAME).option("table", "records").option("topics", options.topic).load(options.folder)
        )
        work: dict[str, Callable[[], object]] = {
            "scan": lambda: pieces(read_segment).selectExpr("sum(length(rows))").first(),
            "decode": lambda: pieces(decoded).selectExpr("sum(length(rows))").first(),
            "rows": lambda: records.selectExpr("sum(length(value))").first(),
        }
        for name, run in work.items():
            run()  # Warms up.
            for _ in range(options.runs):
                print(json.dumps({"what": name, "gb": round(size / 1e9, 2), **measured(run, size)}), flush=True)


def decoded(segment):  # type: ignore[no-untyped-def]
    """Decode the records of a segment, and yield only their number."""
    import pyarrow as pa

    for name, rows in read_segment(segment, True):
        if name == "records":
            yield name, pa.record_batch([pa.array([len(rows)])], ["records"])


def measured(run: Callable[[], object], size: int) -> dict[str, float]:
    before, start_s = by_kind(), time.monotonic()
    run()
    took_s, after = time.monotonic() - start_s, by_kind()
    used = {kind: after[kind] - before[kind] for kind in before}
    return {
        "gb_a_second": round(size / 1e9 / took_s, 2),
        "gb_a_worker_second": round(size / 1e9 / max(used["python"], 0.01), 2),
        **{f"{kind}_cpu_s": round(seconds, 2) for kind, seconds in used.items()},
        "load": os.getloadavg()[0],
    }


def by_kind() -> dict[str, float]:
    """Return the CPU seconds of the Python workers and of the JVM."""
    used = {"python": 0.0, "java": 0.0}
    for pid in family(os.getpid()):
        try:
            kind = "java" if b"java" in Path(f"/proc/{pid}/exe").readlink().name.encode() else "python"
        except OSError:
            continue
        used[kind] += cpu_of(pid) or 0.0
    return used


if __name__ == "__main__":
    main()
