"""A standalone Spark cluster of two workers, which have different addresses, as speculation needs another host."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyspark

from tests.kit.processes.class_archive import archived
from tests.kit.processes.free_ports import free_ports
from tests.spark.dies_with_parent import dies_with_parent

HOSTS = ("127.0.0.1", "127.0.0.2")
START_S = 120.0
END_S = 10.0
POLL_S = 0.1
QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""JVM options for processes that run for a few minutes and execute most code only a few times."""
TRAINING_S_MAX = 300.0
TRAINING = Path(__file__).with_name("class_archive_training.py")


def java_options() -> str:
    """Return options for tests that start many JVMs: an archive halves the CPU time of a start, and costs what eight save."""
    return " ".join((*QUICK_START, *archived("spark", f"{pyspark.__version__} {_java_version()}", _train)))


def _java_version() -> str:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else "java"
    return subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr


def _train(options: list[str]) -> None:
    command = [sys.executable, str(TRAINING), " ".join((*QUICK_START, *options))]
    subprocess.run(command, capture_output=True, timeout=TRAINING_S_MAX)


EXECUTOR = "CoarseGrainedExecutorBackend"


class SparkCluster:
    def __init__(self, folder: Path, cores: int = 1) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._cores = cores
        self._web_port, master_port = free_ports(2)
        self._processes: list[subprocess.Popen[bytes]] = []
        self.master = f"spark://{HOSTS[0]}:{master_port}"

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _start(self) -> None:
        port = self.master.rpartition(":")[2]
        self._spawn("master.Master", HOSTS[0], "--host", HOSTS[0], "--port", port, "--webui-port", str(self._web_port))
        self._await(lambda state: True)
        for host in HOSTS:
            self._spawn(
                "worker.Worker",
                host,
                "--host",
                host,
                "-c",
                str(self._cores),
                "-m",
                "1g",
                "--webui-port",
                "0",
                "-d",
                str(self._folder / f"work-{host}"),
                self.master,
            )
        self._await(lambda state: state["aliveworkers"] == len(HOSTS))

    def _spawn(self, role: str, host: str, *arguments: str) -> None:
        home = Path(pyspark.__file__).parent
        environment = os.environ | {
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_DAEMON_JAVA_OPTS": java_options(),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": host,
            "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
            "SPARK_NO_DAEMONIZE": "1",
        }
        with (self._folder / f"{role}-{host}.log").open("wb") as log:
            command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}", *arguments]
            self._processes.append(
                subprocess.Popen(
                    command,
                    env=environment,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    preexec_fn=dies_with_parent,
                )
            )

    def _await(self, enough: Any) -> None:
        """Wait until the state on the master's web page satisfies `enough`."""
        deadline = time.monotonic() + START_S
        while True:
            try:
                with urllib.request.urlopen(f"http://{HOSTS[0]}:{self._web_port}/json/", timeout=5) as page:
                    if enough(json.load(page)):
                        return
            except (OSError, ValueError):  # The server returns no JSON before this page is ready.
                if any(each.poll() is not None for each in self._processes):
                    raise RuntimeError(f"the cluster does not start, see {self._folder}") from None
            if time.monotonic() > deadline:
                raise TimeoutError(f"the cluster is not ready, see {self._folder}")
            time.sleep(POLL_S)

    def _stop(self) -> None:
        """Stop the workers before the master, as a worker that ends in order also ends its executors."""
        for each in reversed(self._processes):
            each.terminate()
        for each in reversed(self._processes):
            try:
                each.wait(END_S)
            except subprocess.TimeoutExpired:
                each.kill()
                each.wait(END_S)
            try:
                os.killpg(each.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self._processes.clear()
        shutil.rmtree(self._folder, ignore_errors=True)


def executor_of(processes: list[int]) -> int:
    """Return the process id of the executor among a Python worker and its ancestors."""
    for pid in processes:
        if EXECUTOR in Path(f"/proc/{pid}/cmdline").read_text():
            return pid
    raise LookupError(f"none of {processes} is an executor")
