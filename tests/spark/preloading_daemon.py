"""pyspark.daemon, which loads what every worker needs before it forks them: each of them would load it anew.

Spark starts it as `python -m preloading_daemon WORKER_MODULE`. Loading takes the processor for almost a second, as long as
what most workers of these tests do.
"""

from __future__ import annotations

import importlib
import sys

NEEDED = ("numpy", "pandas", "pyarrow", "stuntbroker.pipeline.spark.sink", "stuntbroker.pipeline.spark.source")

if __name__ == "__main__":
    for name in (*NEEDED, *sys.argv[1:2]):
        importlib.import_module(name)
    importlib.import_module("pyspark.daemon").manager()
