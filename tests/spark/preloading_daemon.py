"""A pyspark.daemon that imports what every worker needs before it forks the workers, so that each need not import it.

Spark starts it as `python -m preloading_daemon WORKER_MODULE`. The imports take almost a second of
CPU time, as much as the work of most workers in these tests.
"""

from __future__ import annotations

import importlib
import sys

NEEDED = ("numpy", "pandas", "pyarrow", "stuntbroker.pipeline.spark.sink", "stuntbroker.pipeline.spark.source")

if __name__ == "__main__":
    for name in (*NEEDED, *sys.argv[1:2]):
        importlib.import_module(name)
    importlib.import_module("pyspark.daemon").manager()
