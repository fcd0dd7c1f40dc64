"""Our broker as a process that can be killed and started again with the same address and data."""

from __future__ import annotations

import select
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.fetching import end_offset
from stuntbroker.client.commands.reader import read_partition
from stuntbroker.client.commands.topics import create_topic
from stuntbroker.protocol.addresses import Address
from stuntbroker.protocol.batches.records import build_batch
from stuntbroker.protocol.request_values import READ_COMMITTED, READ_UNCOMMITTED
from tests.kit.processes.free_ports import free_port

DEADLINE_S = 30.0
START_MS = 1_700_000_000_000


class LiveBroker:
    def __init__(self, data_dir: Path, *settings: str) -> None:
        self.address = Address("127.0.0.1", free_port())
        self._command = [sys.executable, "-m", "stuntbroker.cli", "serve", "--port", str(self.address.port)]
        self._command += ["--data-dir", str(data_dir)]
        for each in settings:
            self._command += ["--set", each]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], DEADLINE_S)[0]:
            raise TimeoutError("the broker is not ready")
        line = self._process.stdout.readline()
        assert line.startswith(b"ready kafka="), line

    def kill(self) -> None:
        """As kill -9 does."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate(timeout=DEADLINE_S)
            self._process = None

    def cluster(self, timeout_s: float = DEADLINE_S) -> Cluster:
        return Cluster([self.address], timeout_s)


def make_topic(cluster: Cluster, topic: str, partitions: int = 1) -> None:
    create_topic(cluster, topic, partitions, if_not_exists=True)


def batch(*values: str, key: bytes | None = None) -> bytearray:
    return build_batch([(key, value.encode()) for value in values], START_MS)


def committed(cluster: Cluster, topic: str, partitions: int = 1) -> list[str]:
    """Return all values that a read_committed consumer gets, sorted."""
    rows = [row for index in range(partitions) for row in read_partition(cluster, topic, index)]
    return sorted((row.value or b"").decode() for row in rows)


def held_back(cluster: Cluster, topic: str, partitions: int = 1) -> list[int]:
    """Return the partitions whose last stable offset is below their end offset."""
    return [
        index
        for index in range(partitions)
        if end_offset(cluster, topic, index, READ_COMMITTED) != end_offset(cluster, topic, index, READ_UNCOMMITTED)
    ]


def rows(prefix: str, count: int) -> Sequence[str]:
    return [f"{prefix}-{number:04d}" for number in range(count)]
