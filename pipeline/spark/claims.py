"""The claim of a sink, for the processes of one driver.

Spark commits and aborts a stream in another process than the one that took the sink, and tells it nothing but the
messages of tasks, which are missing when all have failed. What both have is the driver's folder for files of its
application, which goes when the application does.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from stuntbroker.pipeline.spark.sink_options import SinkOptions


def remember(options: SinkOptions, claim: str) -> None:
    path = _path(options)
    if path is not None:
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_text(claim)
        partial.replace(path)


def remembered(options: SinkOptions) -> str | None:
    """The last claim of this application to this sink; it may have been taken by another one since."""
    path = _path(options)
    try:
        return path.read_text() if path is not None else None
    except FileNotFoundError:
        return None


def _path(options: SinkOptions) -> Path | None:
    from pyspark import SparkFiles

    folder = getattr(SparkFiles, "_root_directory", None)
    name = hashlib.sha256(repr(options).encode()).hexdigest()[:16]
    return Path(folder, f".stuntbroker-{name}.claim") if folder else None
