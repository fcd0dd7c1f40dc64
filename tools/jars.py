"""Download the jars of Apache Kafka, and of Spark's own Kafka source and sink, from Maven Central to a cache folder.

`python tools/jars.py` downloads the jars that `tools/*.lock` list (lines of `group:artifact:version sha256`) unless they are
cached, and prints the folder of Kafka's jars. `python tools/jars.py --lock` resolves Kafka's ROOTS again and rewrites its
lock; read the diff before you commit it. The lock of Spark's connector is written by hand, as its parent POM cannot be
resolved with Maven Central alone.

A folder is complete if and only if its file `.complete` holds the digest of the lock. It is filled under another name and
then renamed, so any number of callers may run at once.
"""

import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jgo.maven import Artifact, MavenContext

KAFKA_VERSION = "4.3.1"
ROOTS = (
    f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}",
    f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}",
    # Without an SLF4J binding, the log of the broker is discarded.
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
)
LOCK = Path(__file__).with_name("jars.lock")
SPARK_LOCK = Path(__file__).with_name("spark_jars.lock")
DOWNLOADS_MAX = 4
ATTEMPTS_MAX = 4
TIMEOUT_S = 60


def cache_root() -> Path:
    """Return the folder for everything that is downloaded or compiled for the tests."""
    return Path(os.environ.get("STUNTBROKER_CACHE") or Path.home() / ".cache" / "stuntbroker")


def kafka_jars() -> Path:
    """Return the folder with Apache Kafka's jars, filled on first use."""
    return _folder(f"kafka-{KAFKA_VERSION}", LOCK)


def spark_jars() -> Path:
    """Return the folder with the jars of Spark's own Kafka source and sink, for comparison with ours."""
    return _folder("spark-sql-kafka", SPARK_LOCK)


def _folder(name: str, lock: Path) -> Path:
    folder = cache_root() / "jars" / name
    if _is_complete(folder, lock):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=folder.parent) as scratch:
        filled = Path(scratch) / "jars"
        _fill(filled, Path(scratch) / "repository", lock)
        _move_into_place(filled, folder, lock, aside=Path(scratch) / "stale")
    return folder


def _is_complete(folder: Path, lock: Path) -> bool:
    try:
        return (folder / ".complete").read_text() == _sha256(lock)
    except FileNotFoundError:
        return False


def _fill(folder: Path, repository: Path, lock: Path) -> None:
    folder.mkdir()
    context = _maven(repository)
    wanted = [line.split() for line in lock.read_text().splitlines()]

    def fetch(coordinate: str, sha256: str) -> None:
        group, name, version = coordinate.split(":")
        jar = _download(context.project(group, name).at_version(version).artifact())
        if _sha256(jar) != sha256:
            raise SystemExit(f"tools/jars.py: {jar.name} is not the file that {lock.name} pins")
        shutil.move(jar, folder)

    with ThreadPoolExecutor(DOWNLOADS_MAX) as pool:
        list(pool.map(lambda pinned: fetch(*pinned), wanted))
    (folder / ".complete").write_text(_sha256(lock))


def _download(artifact: "Artifact") -> Path:
    """Download with retries, as most failures come from an overloaded name server."""
    for pause_s in range(1, ATTEMPTS_MAX):
        with contextlib.suppress(OSError, RuntimeError):
            return artifact.resolve()
        if artifact.cached_path is not None:
            artifact.cached_path.unlink(missing_ok=True)  # jgo treats a partial file as complete.
        time.sleep(pause_s)
    try:
        return artifact.resolve()
    except (OSError, RuntimeError) as error:
        raise SystemExit(f"tools/jars.py: {artifact} cannot be downloaded: {error}") from None


def _move_into_place(filled: Path, folder: Path, lock: Path, aside: Path) -> None:
    """Rename the filled folder unless another caller was first; move an incomplete or outdated folder to `aside`."""
    if not _is_complete(folder, lock):
        with contextlib.suppress(FileNotFoundError):
            folder.rename(aside)
    try:
        filled.rename(folder)
    except OSError:
        if not _is_complete(folder, lock):
            raise


def _maven(repository: Path) -> "MavenContext":
    try:
        from jgo.maven import MavenContext
    except ImportError:
        raise SystemExit("tools/jars.py: the package jgo is needed to fetch jars") from None
    return MavenContext(repo_cache=repository, timeout=TIMEOUT_S)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_lock() -> None:
    """Resolve ROOTS and their runtime dependencies, and write their digests to the lock."""
    with tempfile.TemporaryDirectory() as scratch:
        context = _maven(Path(scratch))
        # Raw (`!`), as in Maven: otherwise the dependency management of one root would override the others.
        resolved = context.resolver.resolve([context.create_dependency(f"{root}!") for root in ROOTS])
        artifacts: list[Artifact] = [each.artifact for group in resolved for each in group]
        with ThreadPoolExecutor(DOWNLOADS_MAX) as pool:
            digests = list(pool.map(lambda artifact: _sha256(_download(artifact)), artifacts))
    pins = (f"{a.groupId}:{a.artifactId}:{a.version} {d}" for a, d in zip(artifacts, digests, strict=True))
    LOCK.write_text("".join(f"{pin}\n" for pin in sorted(pins)))


if __name__ == "__main__":
    if sys.argv[1:] == ["--lock"]:
        write_lock()
    elif sys.argv[1:]:
        raise SystemExit("usage: python tools/jars.py [--lock]")
    spark_jars()
    print(kafka_jars())
