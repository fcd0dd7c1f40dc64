"""State shared by the processes of one driver and, in a local session, its tasks.

Spark commits and aborts a stream in another process than the one that took the sink, and passes only the messages of the
tasks, which are missing if all tasks failed. Both processes share the folder for the application's files on the driver,
which is deleted when the application ends. In a local session the tasks share it too.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from pathlib import Path

from stuntbroker.client.prepared_state import PreparedTxnState
from stuntbroker.pipeline.spark.sink_options import SinkOptions


def remember(options: SinkOptions, claim: str) -> None:
    """Store the claim for `abort`, which may run in another process of this driver."""
    path = _path(options, "claim")
    if path is not None:
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_text(claim)
        partial.replace(path)


def remembered(options: SinkOptions) -> str | None:
    """Return the application's last claim to this sink, if any; another driver may have taken the sink since."""
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
