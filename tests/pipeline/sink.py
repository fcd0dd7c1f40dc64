"""A two-phase sink without Spark. It performs the steps of drivers and tasks one by one, so a test can stop after any."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from live_broker import batch

from stuntbroker.client.commands.admin import Admin
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.pipeline.decisions import Decision, Decisions, Stored, Transaction, is_decided
from stuntbroker.pipeline.recovery import Settled, settle, transactional_id
from stuntbroker.pipeline.writer import TransactionalWriter

SINK = "orders"
QUERY = "query-1"
TOPIC = "out"
PARTITIONS = 2

OpenStore = Callable[[Cluster], Decisions]
"""Opens the sink's decision store, as each process of a driver does."""


class Driver:
    """One run of the query. Spark plans, commits and aborts in different processes, so each step opens the store again."""

    def __init__(self, cluster: Cluster, open_store: OpenStore, query_id: str = QUERY, two_phase: bool = True) -> None:
        self.cluster = cluster
        self.query_id = query_id
        self.claim = 0
        self.two_phase = two_phase
        self._open_store = open_store

    def begin(self) -> Settled:
        store = self._open_store(self.cluster)
        self.claim = store.take()
        settled = settle(self.cluster, store, SINK)
        self._last = settled.last
        return settled

    def last(self) -> Stored | None:
        return self._last

    def store(self) -> Decisions:
        store = self._open_store(self.cluster)
        store.resume(self.claim)
        return store

    def task(self, partition: int, batch_id: int, values: Sequence[str], slot: int = 0) -> Transaction | None:
        """Run one attempt of a task; return its transaction, or None without writing if the batch is already decided."""
        if is_decided(self._last, self.query_id, batch_id):
            return None
        writer = TransactionalWriter(self.cluster, transactional_id(SINK, partition, slot))
        writer.init(self.two_phase)
        half = len(values) // 2
        for index, some in enumerate((values[:half], values[half:])):
            if some:
                writer.produce(TOPIC, index, batch(*some))
        writer.flush()
        return Transaction(writer.transactional_id, *writer.pair)

    def decision(self, batch_id: int, prepared: Sequence[Transaction | None]) -> Decision:
        return Decision(SINK, self.query_id, batch_id, tuple(each for each in prepared if each is not None))

    def commit(self, batch_id: int, prepared: Sequence[Transaction | None]) -> None:
        if not is_decided(self._last, self.query_id, batch_id):
            store = self.store()
            store.decide(self.decision(batch_id, prepared))
            settle(self.cluster, store, SINK)

    def abort(self) -> Settled:
        return settle(self.cluster, self.store(), SINK)

    def run(self, batch_id: int, rows: Sequence[str], tasks: int = 2) -> None:
        """Run a batch without faults."""
        self.begin()
        self.commit(batch_id, [self.task(index, batch_id, rows[index::tasks]) for index in range(tasks)])


def running(cluster: Cluster) -> list[str]:
    """Return the transactional ids that have an unfinished transaction."""
    actual = Admin(cluster).list_transactions(states=("Ongoing", "PrepareCommit", "PrepareAbort")).listings
    return [each.transactional_id for each in actual]
