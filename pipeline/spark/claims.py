"""State shared by the processes of one driver and, in a local session, its tasks.

Spark commits and aborts a stream in another process than the one that took the sink, and tells it nothing but the
messages of tasks, which are missing when all have failed. What both have is the driver's folder for files of its
application, which goes when the application does. In a local session the tasks have it too.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from pathlib import Path

from stuntbroker.client.prepared_state import PreparedTxnState
from stuntbroker.pipeline.spark.sink_options import SinkOptions


def remember(options: SinkOptions, claim: str) -> None:
    """Write down a claim, so that an error of the next driver can name it."""
    path = _path(options, "claim")
    if path is not None:
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_text(claim)
        partial.replace(path)


def remembered(options: SinkOptions) -> str | None:
    """The last claim of this application to this sink; it may have been taken by another one since."""
    path = _path(options, "claim")
    try:
        return path.read_text() if path is not None else None
    except FileNotFoundError:
        return None


def is_first(options: SinkOptions, task: int, pair: PreparedTxnState) -> bool:
    """Return whether this is the task's first attempt in the transaction of this producer id and epoch (local session only)."""
    path = _path(options, f"task-{task}")
    if path is None:
        return True
    with path.open("a+") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        file.seek(0)
        if file.read() == str(pair):
            return False
        file.truncate(0)
        file.write(str(pair))
    return True


def _path(options: SinkOptions, kind: str) -> Path | None:
    from pyspark import SparkFiles

    folder = getattr(SparkFiles, "_root_directory", None)
    name = hashlib.sha256(repr(options).encode()).hexdigest()[:16]
    return Path(folder, f".stuntbroker-{name}.{kind}") if folder else None
