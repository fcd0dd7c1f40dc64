"""Spark session of `stuntbroker audit --spark`, without the warnings that Spark prints at its start."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stuntbroker.pipeline.audit.eos import ExactlyOnceCheck
    from stuntbroker.pipeline.audit.findings import Finding
    from stuntbroker.pipeline.audit.folder import Folder
    from stuntbroker.pipeline.audit.result import Audit
    from stuntbroker.pipeline.audit.run import Progress
    from stuntbroker.pipeline.audit.tables import TableWriter

JAVA_MIN: Final = 17
SAID_MAX: Final = 2_000
"""Maximum characters of Spark's error output that are shown."""


class SparkError(OSError):
    """Spark cannot be started. The message is one line that says why and what to do."""


def audit_with_spark(
    master: str, folder: Folder, tables: TableWriter | None, chain: ExactlyOnceCheck | None, progress: Progress
) -> tuple[Audit, list[Finding]]:
    """Audit a folder with Spark; return the audit, and the findings of the comparison. Raises SparkError."""
    need_java()
    progress("starting Spark", 0.0)
    with session(master) as spark:
        from stuntbroker.pipeline.spark import audit as on_spark

        result = on_spark.audit(spark, folder, tables, progress)
        return result, on_spark.compare(spark, folder, result, chain, progress) if chain else []


def need_java() -> None:
    """Raise SparkError unless there is a JDK for Spark, in JAVA_HOME or else on the PATH, where Spark itself looks."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    where = f"in JAVA_HOME, which is {home}" if home else "on the PATH, and JAVA_HOME is not set"
    if java is None:
        raise SparkError(f"a JDK {JAVA_MIN} or newer is needed: there is no java {where}")
    version_text = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    match = re.search(r'version "(\d+)(?:\.(\d+))?', version_text)
    version = int(match[2] if match[1] == "1" and match[2] else match[1]) if match else None
    if version is None or version < JAVA_MIN:
        what = "not one that can be asked for its version" if version is None else f"of version {version}"
        raise SparkError(f"a JDK {JAVA_MIN} or newer is needed: {java} is {what}")


@contextmanager
def session(master: str) -> Iterator[SparkSession]:
    """Yield a quiet Spark session: standard error of the JVM and its workers is shown only if they fail."""
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as fault:
        raise SparkError(
            f"audit --spark needs pyspark: install stuntbroker[pipeline] ({fault.name} is not there)"
        ) from fault
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory(prefix="stuntbroker-audit-") as scratch:
        settings: dict[str, bool | float | int | str | None] = {
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.driver.memory": "1g",
            "spark.local.dir": scratch,
            "spark.sql.warehouse.dir": f"{scratch}/warehouse",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
        if master.startswith("local"):
            settings |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
        error_file = Path(scratch) / "stderr"
        try:
            with _standard_error_to(error_file):
                builder = SparkSession.builder.master(master).appName("stuntbroker audit").config(map=settings)
                spark = builder.getOrCreate()
            spark.sparkContext.setLogLevel("ERROR")
            try:
                yield spark
            finally:
                spark.stop()
        except SparkError:
            raise
        except Exception as fault:
            raise SparkError(f"Spark failed: {_reason(fault, error_file)}") from fault


@contextmanager
def _standard_error_to(path: Path) -> Iterator[None]:
    """Redirect standard error of processes started within the block; a JVM keeps it afterwards."""
    sys.stderr.flush()
    kept = os.dup(2)
    with path.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _reason(fault: Exception, error_file: Path) -> str:
    """Return the last error line of output and exception, which is the root cause."""
    lines = error_file.read_text(errors="replace").splitlines() if error_file.exists() else []
    lines += str(fault).splitlines()
    errors = [line.strip(" :") for line in lines if re.search(r"Error: |Exception: |\bERROR\b", line)]
    return (errors or lines or [repr(fault)])[-1][:SAID_MAX]
