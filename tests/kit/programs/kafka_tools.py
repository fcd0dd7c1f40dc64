"""Apache Kafka's command-line tools, all in one virtual machine: to start one costs as much as twenty tools."""

from __future__ import annotations

import base64
import contextlib
import subprocess
import threading
from collections.abc import Iterator
from typing import NamedTuple

from tests.kit.brokers.kafka_broker import stop
from tests.kit.programs.programs import java_command


class ToolResult(NamedTuple):
    """Exit status, standard output and standard error."""

    status: int
    out: str
    err: str


class KafkaTools:
    """The process that runs the tools. Callers take turns."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._turn = threading.Lock()

    def run(self, tool: str, *arguments: str, text: str = "") -> ToolResult:
        """Run the class `tool` as its script does, with `text` as its standard input."""
        line = "\t".join((base64.b64encode(text.encode()).decode(), tool, *arguments)) + "\n"
        assert self._process.stdin is not None and self._process.stdout is not None
        with self._turn:
            try:
                self._process.stdin.write(line.encode())
                self._process.stdin.flush()
                head = self._process.stdout.readline().split()
                assert head, f"the virtual machine has ended during {tool} {arguments}, or before"
                status, *sizes = map(int, head)
                out, err = (self._process.stdout.read(size).decode() for size in sizes)
            except BaseException:
                self._process.kill()  # An answer that nobody has read would be taken for the next tool's.
                raise
        return ToolResult(status, out, err)


@contextlib.contextmanager
def running_kafka_tools() -> Iterator[KafkaTools]:
    """The tools, until the end of the block. Skips the test where there is no JDK."""
    command = java_command("ToolServer", "-Dlog4j2.level=OFF")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield KafkaTools(process)
        finally:
            stop(process)
