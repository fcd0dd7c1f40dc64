"""A Spark driver as a process that tests can kill: it reads jobs from standard input, and runs each as a query.

python faults_driver.py MASTER SCRATCH SETTINGS     SETTINGS as JSON
> {"job": {...}}                                    one job per line
< {"ready": PID OF THE JVM}                         once
< {"sink": ..., "error": null or text}              when the query of a job has ended
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from dies_with_parent import dies_with_parent

HERE = Path(__file__).parent
START_S = 120.0
END_S = 20.0
POLL_S = 0.01


class Driver:
    """The test's handle of a driver process."""

    def __init__(self, master: str, scratch: Path, settings: dict[str, str] | None = None) -> None:
        scratch.mkdir(parents=True, exist_ok=True)
        self._log = (scratch / "driver.log").open("wb")
        command = [sys.executable, str(HERE / "faults_driver.py"), master, str(scratch), json.dumps(settings or {})]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
            preexec_fn=dies_with_parent,
        )
        self._jvm: int | None = None
        self._ended: dict[str, str | None] = {}
        self._text = b""

    def ready(self) -> Self:
        """Wait until the driver takes jobs; `submit` does not need this."""
        self._read_until(lambda: self._jvm is not None, START_S)
        return self

    def submit(self, job: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"job": asdict(job)}).encode() + b"\n")
        self._process.stdin.flush()

    def outcome(self, job: Any, timeout_s: float) -> str | None:
        """Wait for the end of the job's query; return its error, if any."""
        self._read_until(lambda: job.sink in self._ended, timeout_s)
        return self._ended.pop(job.sink)

    def has_ended(self, job: Any) -> bool:
        """Whether the job's query has ended."""
        self._read()
        return job.sink in self._ended

    def reached(self, job: Any, name: str, timeout_s: float) -> list[int]:
        """Wait until the job's query reaches the waiting fault `name`; return the ids of that process and its ancestors."""
        plan = job.plan
        self._read_until(lambda: plan.stands(name) or job.sink in self._ended, timeout_s)
        if not plan.stands(name):
            raise AssertionError(f"the query ended before {name}: {self._ended[job.sink]}")
        actual: list[int] = plan.standing(name)
        return actual

    def kill(self) -> None:
        """Kill the JVM and Python as kill -9 does; both are stopped first, so that neither notices the other's end."""
        if self._jvm is not None:
            for pid in (self._jvm, self._process.pid):
                os.kill(pid, signal.SIGSTOP)
            os.kill(self._jvm, signal.SIGKILL)
        self._process.kill()
        self._close()

    def stop(self) -> None:
        """Stop the driver in order, or kill it if that takes too long."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            self._process.wait(END_S)
        except (subprocess.TimeoutExpired, OSError):
            self.kill()
        else:
            self._close()

    def _close(self) -> None:
        self._process.wait(END_S)
        for file in (self._process.stdin, self._process.stdout, self._log):
            if file is not None:
                try:
                    file.close()
                except BrokenPipeError:
                    continue
        self._jvm = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.returncode is None:
            self.stop()

    def _read_until(self, enough: Any, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not enough():
            if time.monotonic() > deadline:
                raise TimeoutError(f"the driver does not answer, see {self._log.name}")
            self._read()

    def _read(self) -> None:
        """Read the driver's output, waiting at most POLL_S."""
        output: IO[bytes] | None = self._process.stdout
        assert output is not None
        if not select.select([output], [], [], POLL_S)[0]:
            return
        some = os.read(output.fileno(), 65536)
        if not some:
            raise EOFError(f"the driver is gone, see {self._log.name}")
        *lines, self._text = (self._text + some).split(b"\n")
        for line in lines:
            said = json.loads(line)
            if "ready" in said:
                self._jvm = said["ready"]
            else:
                self._ended[said["sink"]] = said["error"]


def main() -> None:
    for folder in (HERE, HERE.parent / "client"):
        sys.path.insert(0, str(folder))
    sys.path.append(str(HERE.parent.parent))
    from faults_query import Job, make_session, outcome, save, start

    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # What Spark prints goes to the log.
    lock = threading.Lock()

    def say(**what: Any) -> None:
        with lock:
            answers.write(json.dumps(what) + "\n")
            answers.flush()

    def follow(job: Job, query: Any) -> None:
        # A batch job looks up data sources in the active session of its thread.
        type(spark)._get_j_spark_session_class(jvm).setActiveSession(spark._jsparkSession)
        try:
            error = save(spark, job) if query is None else outcome(query)
        except Exception as fault:  # Report any error to the test.
            error = f"{type(fault).__name__}: {fault}"
        say(sink=job.sink, error=error)

    spark = make_session(sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3]))
    jvm: Any = spark.sparkContext._jvm
    say(ready=jvm.java.lang.ProcessHandle.current().pid())
    for line in sys.stdin:
        job = Job(**json.loads(line)["job"])
        query = None if job.is_batch else start(spark, job)
        threading.Thread(target=follow, args=[job, query], daemon=True).start()
    spark.stop()


if __name__ == "__main__":
    main()
