"""Archives of loaded classes for JVMs (CDS): with one a JVM needs half of the processor time to start.

The tests start about a hundred of them. An archive is made on first use, by a JVM that does what the others will do. One that
does not fit (another JDK, other jars) is passed over by the JVM itself.
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
    """Options with which a JVM takes its classes from the archive `name`, for the jars that `contents` tells apart.

    `train(options)` runs a JVM with such options to its end, from which the archive is made. No options when that failed.
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
            fcntl.flock(lock, fcntl.LOCK_EX)  # Others wait for it: that is quicker than to do without.
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
