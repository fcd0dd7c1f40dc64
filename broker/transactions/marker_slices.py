"""Writes markers in later turns than their decision: for very many partitions, or while a partition has no leader."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from stuntbroker.broker.cluster.nodes import NO_LEADER
from stuntbroker.coordinator.actor import MARKERS_IN_A_SLICE_MAX, AfterMarkers
from stuntbroker.coordinator.state import Txn
from stuntbroker.protocol.topic_names import TopicPartition
from stuntbroker.storage.errors import StorageError
from stuntbroker.storage.partition import PartitionLog

if TYPE_CHECKING:
    from stuntbroker.broker.transactions.transaction_ports import TransactionServices

COST_OF_FILES: Final = 10
"""Cost of a marker in a partition that has no files yet. A marker in any other partition costs 1."""


def next_slice(
    logs: Mapping[TopicPartition, PartitionLog], partitions: Iterator[TopicPartition]
) -> list[TopicPartition]:
    """Return the partitions whose markers are written in one turn of the event loop."""
    chosen: list[TopicPartition] = []
    left = MARKERS_IN_A_SLICE_MAX
    for partition in partitions:
        chosen.append(partition)
        log = logs.get(partition)
        left -= 1 if log is None or log.segments else COST_OF_FILES
        if left <= 0:
            break
    return chosen


class MarkerSlices:
    """Writes the markers of a transaction in several turns of the event loop."""

    def __init__(self, broker: TransactionServices, write: Callable[[Txn, Iterable[TopicPartition]], None]) -> None:
        self._broker = broker
        self._write = write
        self.unwritten: dict[str, frozenset[TopicPartition]] = {}
        """Transactional id -> partitions without a leader, which have no marker yet."""

    def write(self, txn: Txn, following: AfterMarkers) -> None:
        """Write the missing markers to all partitions that have a leader, then call one of `following`."""
        # Unlike Kafka: this broker waits for a leader. Kafka 4.3.1 treats the partition as deleted and completes the transaction
        # without its marker, so that the transaction hangs in that partition when it has a leader again.
        missing = self.unwritten.pop(txn.transactional_id, txn.partitions)
        without_leader = frozenset(filter(self.has_no_leader, missing))
        partitions = iter(missing - without_leader)

        def resume() -> None:
            nonlocal without_leader, partitions
            chosen = next_slice(self._broker.topics.logs, partitions)
            if not chosen and without_leader:  # Leaders may have been elected meanwhile.
                still_without = frozenset(filter(self.has_no_leader, without_leader))
                without_leader, partitions = still_without, iter(without_leader - still_without)
                chosen = next_slice(self._broker.topics.logs, partitions)
            try:
                self._write(txn, chosen)
            except StorageError as fault:
                self._broker.events.error("txn_not_completed", transactional_id=txn.transactional_id, fault=str(fault))
                following.failed()
                return
            if chosen:
                self._broker.timers.soon(resume)
            elif without_leader:
                self.unwritten[txn.transactional_id] = without_leader
                following.waiting()
            else:
                following.written()

        self._broker.timers.soon(resume)

    def wait(self, txn: Txn, on_waiting: Callable[[], None], on_led: Callable[[], None]) -> None:
        """Write no marker before every partition has a leader; in a later turn, call `on_led` if all have one by then."""
        self.unwritten.setdefault(txn.transactional_id, txn.partitions)

        def look_for_leaders() -> None:
            if any(map(self.has_no_leader, txn.partitions)):
                on_waiting()
            else:
                on_led()

        self._broker.timers.soon(look_for_leaders)

    def has_no_leader(self, partition: TopicPartition) -> bool:
        """Return whether a partition exists and has no leader."""
        name, index = partition
        topic = self._broker.topics.get(name)
        return topic is not None and topic.has_partition(index) and topic.placements[index].leader == NO_LEADER

    def waiting_for(self, partition: TopicPartition) -> list[str]:
        """Return the transactional ids with an unwritten marker for a partition that has no leader."""
        return [id_ for id_, partitions in self.unwritten.items() if partition in partitions]
