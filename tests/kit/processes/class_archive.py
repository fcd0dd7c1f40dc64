"""Class data sharing (CDS) archives for JVMs, which halve the CPU time of a JVM's start.

The tests start many JVMs. An archive is created on first use by a training run of a JVM that does the same work as the later
ones. A JVM ignores an archive that does not match its JDK or jars.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path

QUIET = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
_created: dict[str, list[str]] = {}


def archived(name: str, contents: str, train: Callable[[list[str]], None]) -> list[str]:
    """Return JVM options that use the archive `name`; different `contents` (for example, lists of jars) get different archives.

    `train(options)` must run a JVM with these options until it ends, which creates the archive. Returns no options if that
    fails.
    """
    if name not in _created:
        _created[name] = _archived(name, contents, train)
    return _created[name]


def _archived(name: str, contents: str, train: Callable[[list[str]], None]) -> list[str]:
    folder = _folder()
    archive = folder / f"{name}-{sha256(contents.encode()).hexdigest()[:16]}.jsa"
    options = [f"-XX:SharedArchiveFile={archive}", *QUIET]
    if not archive.exists():
        with (folder / f"{archive.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # Other processes wait, which is faster than running without.
            if not archive.exists():
                partial = archive.with_suffix(f".{os.getpid()}")
                train([f"-XX:ArchiveClassesAtExit={partial}", *QUIET])
                if not partial.exists():
                    return []
                partial.rename(archive)
    return options


@cache
def _folder() -> Path:
    cache_root = Path(os.environ.get("STUNTBROKER_CACHE") or Path.home() / ".cache" / "stuntbroker")
    folder = cache_root / "class-archives"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
