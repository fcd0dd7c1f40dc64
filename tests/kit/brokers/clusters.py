"""The brokers under test, each started when a test first asks for it.

A cluster is named by its `transaction.version`, which decides how clients do their transactions (KIP-890): "tv2" and
"tv1". On "late-tv2" and "late-tv1" the ids of `late_epochs` are nearly out of epochs.
"""

import contextlib
from pathlib import Path

import pytest

from tests.kit.brokers import late_epochs
from tests.kit.brokers.kafka_broker import apache_kafka
from tests.kit.brokers.our_broker import our_broker

OURS = "stuntbroker"
KAFKA = "kafka"
NAMES = ("tv2", "tv1", "late-tv2", "late-tv1")

# Interval at which the broker aborts timed-out transactions. Kafka's default is ten seconds.
CLEANUP_INTERVAL_MS = 100


class Clusters:
    """Clusters by name. `kind` is OURS, KAFKA, or the address of a broker that already runs."""

    def __init__(self, kind: str, folder: Path, running: contextlib.ExitStack) -> None:
        self._kind = kind
        self._folder = folder
        self._running = running
        self._addresses: dict[str, str] = {}

    def bootstrap(self, name: str) -> str:
        """The "host:port" of a cluster. Skips the test where there is none."""
        if name not in self._addresses:
            self._addresses[name] = self._start(name)
        return self._addresses[name]

    def all(self) -> dict[str, str]:
        """Return the addresses of all clusters that this kind can have."""
        names = NAMES if self._kind in (OURS, KAFKA) else NAMES[:1]
        return {name: self.bootstrap(name) for name in names}

    def folders(self) -> list[Path]:
        """Return the data folders, if the brokers are ours."""
        return sorted(self._folder.glob("*/data")) if self._kind == OURS else []

    def logs(self) -> list[Path]:
        return sorted(self._folder.glob("*/*.log"))

    def _start(self, name: str) -> str:
        transaction_version = int(name[-1])
        match self._kind:
            case "stuntbroker":
                return self._start_ours(name, transaction_version)
            case "kafka" if name.startswith("late-"):
                # This is the ordinary cluster, in which only seeded ids are near their last epoch.
                return self.bootstrap(name.removeprefix("late-"))
            case "kafka":
                return self._start_kafka(name, transaction_version)
            case address:
                if name != "tv2":
                    pytest.skip(f"needs the cluster {name}, not the one that is already there")
                return address

    def _start_ours(self, name: str, transaction_version: int) -> str:
        settings = [
            f"transaction.version={transaction_version}",
            f"transaction.abort.timed.out.transaction.cleanup.interval.ms={CLEANUP_INTERVAL_MS}",
        ]
        if name.startswith("late-"):
            settings.append(f"stuntbroker.initial.producer.epoch={late_epochs.FIRST_EPOCH}")
        folder = self._folder / name
        folder.mkdir()
        return self._running.enter_context(our_broker(folder / "data", folder / "stderr.log", *settings))

    def _start_kafka(self, name: str, transaction_version: int) -> str:
        folder = self._folder / name
        with apache_kafka(folder, transaction_version=transaction_version) as address:
            late_epochs.seed_kafka(address)
        return self._running.enter_context(
            apache_kafka(folder, transaction_abort_timed_out_transaction_cleanup_interval_ms=CLEANUP_INTERVAL_MS)
        )
