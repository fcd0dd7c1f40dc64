"""After random failures in any order, the next run writes each input row once and leaves no transaction open."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
import sink
from live_broker import LiveBroker, committed, held_back, make_topic
from sink import Driver, running

from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.transactions import End, end_all, init_producer
from stuntbroker.client.errors import ClientError
from stuntbroker.pipeline.decision_topic import DecisionTopic
from stuntbroker.pipeline.decisions import DecisionError, DecisionFolder, Decisions, Transaction
from stuntbroker.pipeline.recovery import transactional_id
from tests.kit.brokers.books import wrong_in

SEEDS = range(12)
BATCHES = 8


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveBroker]:
    folder = tmp_path_factory.mktemp("broker") / "data"
    with LiveBroker(folder, "stuntbroker.initial.producer.epoch=32755") as created:
        yield created
    assert wrong_in(folder) == []


class Died(Exception):
    """The driver has died, alone or with everything that Spark runs for it."""


class Chaos:
    """A query that may die after each step, and is restarted until its batch is decided."""

    def __init__(self, random: Random, broker: LiveBroker, cluster: Cluster, folder: Path) -> None:
        self.random = random
        self.broker = broker
        self.cluster = cluster
        self.folder = folder
        self.by_topic = random.random() < 0.5
        self.zombies: list[tuple[Driver, int, list[Transaction | None]]] = []
        self.acts: list[str] = []

    def open_store(self, cluster: Cluster) -> Decisions:
        if self.by_topic:
            return DecisionTopic(cluster, "decisions", sink.SINK)
        return DecisionFolder(self.folder, sink.SINK)

    def happens(self, chance: float, what: str) -> bool:
        if self.random.random() >= chance:
            return False
        self.acts.append(what)
        return True

    def may_die(self, where: str) -> None:
        if self.happens(0.06, f"broker killed {where}"):
            self.broker.kill()
            self.broker.start()
        if self.happens(0.12, f"driver dies {where}"):
            raise Died

    def run(self, batch_id: int, rows: list[str]) -> None:
        for _ in range(50):
            try:
                return self.attempt(batch_id, rows)
            except Died:
                continue
        raise AssertionError("fifty drivers have died")

    def attempt(self, batch_id: int, rows: list[str]) -> None:
        driver = Driver(self.cluster, self.open_store)
        driver.begin()
        self.may_die("before the tasks")
        tasks = self.random.randint(1, 4)
        prepared = [self.task(driver, index, batch_id, rows[index::tasks]) for index in range(tasks)]
        self.zombies.append((driver, batch_id, prepared))
        self.may_die("before the decision")
        self.zombie_comes_back()
        last = driver.last()
        if last is None or batch_id > last.decision.batch_id:
            driver.store().decide(driver.decision(batch_id, prepared))
            self.may_die("after the decision")
            some = [each for each in prepared if each and self.random.random() < 0.4]
            end_all(self.cluster, [End(*each, True) for each in some])
            self.may_die(f"after {len(some)} of {tasks} ends")
        if self.happens(0.2, "abort() is called after all"):
            driver.abort()
        else:
            driver.commit(batch_id, prepared)
            driver.abort()
        self.may_die("when all is done")

    def task(self, driver: Driver, index: int, batch_id: int, rows: list[str]) -> Transaction | None:
        """Run attempts of a task until one succeeds; a failed attempt leaves a transaction open with some of the rows."""
        slot = 0
        while self.happens(0.25, "a task fails"):
            driver.task(index, batch_id, rows[: self.random.randint(0, len(rows))] or ["lost"], slot)
            slot += 1
        return driver.task(index, batch_id, rows, slot)

    def zombie_comes_back(self) -> None:
        """Let a driver that was replaced try to decide and abort, or let a late task recover a transaction (KeepPreparedTxn)."""
        if len(self.zombies) > 1 and self.happens(0.3, "an old driver comes back"):
            zombie, batch_id, prepared = self.random.choice(self.zombies[:-1])
            with pytest.raises((DecisionError, ClientError)):
                zombie.store().decide(zombie.decision(batch_id + 1, prepared))
            with pytest.raises((DecisionError, ClientError)):
                zombie.abort()
        if self.happens(0.2, "a late task keeps a transaction"):
            name = transactional_id(sink.SINK, self.random.randint(0, 3), 0)
            init_producer(self.cluster, name, 60_000, two_phase=True, keep=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_row_is_written_exactly_once(
    seed: int, broker: LiveBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink, "SINK", f"sink.{seed}")
    monkeypatch.setattr(sink, "TOPIC", f"topic.{seed}")
    with broker.cluster() as cluster:
        make_topic(cluster, sink.TOPIC, sink.PARTITIONS)
        chaos = Chaos(Random(seed), broker, cluster, tmp_path)
        expected: list[str] = []
        for batch_id in range(BATCHES):
            some = [f"{batch_id}-{number:03d}" for number in range(24)]
            chaos.run(batch_id, some)
            expected += some

            actual = committed(cluster, sink.TOPIC, sink.PARTITIONS)
            assert actual == sorted(expected), chaos.acts
            assert [each for each in running(cluster) if each.startswith(sink.SINK)] == [], chaos.acts
            assert held_back(cluster, sink.TOPIC, sink.PARTITIONS) == [], chaos.acts
    assert chaos.acts
