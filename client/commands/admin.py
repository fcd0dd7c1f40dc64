"""Administration of transactions (KIP-664): list and describe them, find hanging ones, and abort them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.errors import ClientError, ConnectionFailed, NotFound, check
from stuntbroker.protocol.api_keys import (
    DESCRIBE_PRODUCERS,
    DESCRIBE_TRANSACTIONS,
    INIT_PRODUCER_ID,
    LIST_TRANSACTIONS,
    WRITE_TXN_MARKERS,
)
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from stuntbroker.protocol.messages.describe_producers_response import DescribeProducersResponse, ProducerState
from stuntbroker.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from stuntbroker.protocol.messages.describe_transactions_response import DescribeTransactionsResponse, TransactionState
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.init_producer_id_response import InitProducerIdResponse
from stuntbroker.protocol.messages.list_transactions_request import ListTransactionsRequest
from stuntbroker.protocol.messages.list_transactions_response import ListTransactionsResponse
from stuntbroker.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from stuntbroker.protocol.messages.write_txn_markers_response import WriteTxnMarkersResponse
from stuntbroker.protocol.topic_names import TopicPartition
from stuntbroker.protocol.transaction_states import RUNNING, TIMEOUT_NONE

DURATION_FROM: Final = 1
PATTERN_FROM: Final = 2
DEFAULT_TIMEOUT_MS: Final = 60_000
MAX_TRANSACTION_TIMEOUT_MS: Final = 900_000
"""Kafka's default of `transaction.max.timeout.ms`: coordinators abort older transactions."""
PATTERN_HINT: Final = (
    "the pattern is no RE2 expression, or a Stuntbroker needs its extra re2 for it; the broker's log says what is wrong"
)
BATCH_MAX: Final = 500
"""Maximum number of partitions, producer ids or transactional ids in one request."""

Item = TypeVar("Item")


class Listing(NamedTuple):
    """A transactional id as a coordinator lists it."""

    transactional_id: str
    coordinator_id: int
    producer_id: int
    state: str


class Description(NamedTuple):
    """Description of a transactional id by its coordinator."""

    transactional_id: str
    coordinator_id: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_at_ms: int | None
    partitions: tuple[TopicPartition, ...]
    """Partitions that belong to the transaction and have no marker yet."""

    @property
    def two_phase(self) -> bool:
        """Whether the producer has no transaction time-out (KIP-939)."""
        return self.timeout_ms == TIMEOUT_NONE

    @property
    def running(self) -> bool:
        """Whether the transaction is open or being ended."""
        return self.state in RUNNING


class TransactionListings(NamedTuple):
    """Result of `list_transactions`. `notes`: features that a broker is too old for, and the workaround."""

    listings: tuple[Listing, ...]
    notes: tuple[str, ...]


class OpenTransaction(NamedTuple):
    """An open transaction in one partition, as DescribeProducers reports it."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    """Coordinator epoch of the producer's last marker; -1 if there was none."""
    start_offset: int
    last_timestamp_ms: int
    """Timestamp of the producer's last batch, in ms."""


class Marker(NamedTuple):
    """Producer id, producer epoch and coordinator epoch of an abort marker."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


class HangingReport(NamedTuple):
    """Hanging transactions, and partitions that could not be checked."""

    transactions: tuple[OpenTransaction, ...]
    leaderless: tuple[TopicPartition, ...]
    """Partitions without a leader, which could not be checked."""


class Admin:
    """Administration of a cluster's transactions. Each method is one operation with its own time-out, and raises ClientError."""

    def __init__(self, cluster: Cluster, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._cluster = cluster
        self._now_ms = now_ms

    def list_transactions(
        self,
        states: Collection[str] = (),
        producer_ids: Collection[int] = (),
        running_longer_than_ms: int | None = None,
        pattern: str | None = None,
    ) -> TransactionListings:
        """Return the transactional ids of the cluster that match all of these filters.

        `running_longer_than_ms` (KIP-939): the transaction is open or being ended, and began longer ago than that. Kafka's
        own filter (KIP-994) also passes ids without a transaction, and counts a finished one from its start; therefore the
        states are restricted as well. `pattern` (KIP-1152) is an RE2 expression that has to match the whole id.
        """
        if running_longer_than_ms is not None:
            states = [state for state in RUNNING if not states or state in states]
            if not states:
                return TransactionListings((), ())
        duration_ms = -1 if running_longer_than_ms is None else running_longer_than_ms
        request = ListTransactionsRequest(list(states), list(producer_ids), duration_ms, pattern)
        return self._cluster.retrying(lambda: self._list(request))

    def _list(self, request: ListTransactionsRequest) -> TransactionListings:
        listings: list[Listing] = []
        notes: list[str] = []
        for node_id in self._cluster.broker_ids():
            version = self._cluster.version(node_id, LIST_TRANSACTIONS)
            answer = self._cluster.ask(node_id, LIST_TRANSACTIONS, request, ListTransactionsResponse)
            hint = PATTERN_HINT if answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION else None
            check(f"ListTransactions to broker {node_id}", answer.error_code, hint)
            notes += [f"broker {node_id} knows no state {name!r}" for name in answer.unknown_state_filters]
            listed = [
                Listing(listing.transactional_id, node_id, listing.producer_id, listing.transaction_state)
                for listing in answer.transaction_states
            ]
            if request.transactional_id_pattern is not None and version < PATTERN_FROM:
                wanted = _compiled(request.transactional_id_pattern)
                listed = [listing for listing in listed if wanted.fullmatch(listing.transactional_id)]
                notes.append(f"broker {node_id} is too old for patterns: matched here, by Python's rules")
            if request.duration_filter >= 0 and version < DURATION_FROM:
                listed = list(self._running_longer(listed, request.duration_filter))
                notes.append(
                    f"broker {node_id} is too old to filter by duration: filtered here, by this machine's clock"
                )
            listings += listed
        return TransactionListings(tuple(sorted(listings)), tuple(notes))

    def _running_longer(self, listings: Sequence[Listing], duration_ms: int) -> Iterator[Listing]:
        described = self._describe([listing.transactional_id for listing in listings])
        now_ms = self._now_ms()
        for listing in listings:
            description = described.get(listing.transactional_id)
            if (
                description is not None
                and description.started_at_ms is not None
                and now_ms - description.started_at_ms > duration_ms
            ):
                yield listing

    def describe_transactions(self, transactional_ids: Iterable[str]) -> dict[str, Description | None]:
        """Return transactional id -> description, or None if there is no such id."""
        wanted = list(dict.fromkeys(transactional_ids))
        described = self._cluster.retrying(lambda: self._describe(wanted))
        return {transactional_id: described.get(transactional_id) for transactional_id in wanted}

    def _describe(self, transactional_ids: Sequence[str]) -> dict[str, Description]:
        described = {}
        by_coordinator: dict[int, list[str]] = {}
        for some in _batches(transactional_ids):
            for transactional_id, node_id in self._cluster.coordinators(some).items():
                by_coordinator.setdefault(node_id, []).append(transactional_id)
        for node_id, ids in by_coordinator.items():
            for some in _batches(ids):
                request = DescribeTransactionsRequest(some)
                answer = self._cluster.ask(node_id, DESCRIBE_TRANSACTIONS, request, DescribeTransactionsResponse)
                for state in answer.transaction_states:
                    if state.error_code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                        check(f"transactional id {state.transactional_id!r}", state.error_code)
                        described[state.transactional_id] = _description(state, node_id)
        return described

    def describe_producers(self, topic: str, index: int, broker_id: int | None = None) -> list[ProducerState]:
        """Return the active producers of a partition, as known to its leader or to `broker_id`, which has a replica."""

        def attempt() -> list[ProducerState]:
            node_id = self._cluster.leader(topic, index) if broker_id is None else broker_id
            return [state for _, _, state in self._producers([(topic, index)], node_id)]

        return self._cluster.retrying(attempt)

    def _producers(
        self, partitions: Sequence[TopicPartition], node_id: int
    ) -> Iterator[tuple[str, int, ProducerState]]:
        """Yield (topic, partition, state) of the producers of these partitions, as known to one broker that has all of them."""
        for some in _batches(partitions):
            topics: dict[str, list[int]] = {}
            for name, index in some:
                topics.setdefault(name, []).append(index)
            request = DescribeProducersRequest([TopicRequest(name, indexes) for name, indexes in topics.items()])
            answer = self._cluster.ask(node_id, DESCRIBE_PRODUCERS, request, DescribeProducersResponse)
            for topic in answer.topics:
                for partition in topic.partitions:
                    what = f"the producers of {topic.name}-{partition.partition_index}"
                    check(what, partition.error_code, partition.error_message)
                    for producer in partition.active_producers:
                        yield topic.name, partition.partition_index, producer

    def _open(self, partitions: Sequence[TopicPartition], node_id: int) -> list[OpenTransaction]:
        """Return the open transactions in these partitions, as reported by one broker that has all of them."""
        return [
            _open_transaction(topic, index, producer)
            for topic, index, producer in self._producers(partitions, node_id)
            if producer.current_txn_start_offset >= 0
        ]

    def find_hanging(
        self, topic: str | None, index: int | None, broker_id: int | None, max_transaction_timeout_ms: int
    ) -> HangingReport:
        """Return hanging transactions (KIP-664) of all partitions, or of those of a topic or on a broker.

        A transaction hangs if and only if its producer's last batch is older than the limit, and either no transactional id
        has its producer id, or that id does not list the partition among those that still need a marker.
        """
        return self._cluster.retrying(lambda: self._find_hanging(topic, index, broker_id, max_transaction_timeout_ms))

    def _find_hanging(
        self, topic: str | None, index: int | None, broker_id: int | None, limit_ms: int
    ) -> HangingReport:
        if topic is not None and index is not None:
            partitions = [self._cluster.partition(topic, index)]
        else:
            partitions = self._cluster.partitions(None if topic is None else [topic])
        if broker_id is not None:
            partitions = [item for item in partitions if broker_id in item.replica_ids]
            if not partitions:
                self._cluster.version(broker_id, DESCRIBE_PRODUCERS)  # Raises NotFound for an unknown broker.
        by_node: dict[int, list[TopicPartition]] = {}
        for item in partitions:
            node_id = item.leader_id if broker_id is None else broker_id
            by_node.setdefault(node_id, []).append((item.topic, item.partition))
        leaderless = by_node.pop(-1, [])
        opened = [item for node_id, some in by_node.items() for item in self._open(some, node_id)]
        now_ms = self._now_ms()
        old = [item for item in opened if now_ms - item.last_timestamp_ms > limit_ms]
        looked_after = self._tracked_by_coordinators({item.producer_id for item in old})
        hanging = [item for item in old if (item.producer_id, item.topic, item.partition) not in looked_after]
        return HangingReport(tuple(sorted(hanging)), tuple(leaderless))

    def _tracked_by_coordinators(self, producer_ids: Collection[int]) -> set[tuple[int, str, int]]:
        """Return (producer id, topic, partition) of the transactions that a coordinator will end."""
        ids = {
            item.transactional_id: item.producer_id
            for some in _batches(sorted(producer_ids))
            for item in self._list(ListTransactionsRequest((), some)).listings
        }
        return {
            (ids[item.transactional_id], topic, index)
            for item in self._describe(list(ids)).values()
            for topic, index in item.partitions
        }

    def abort_at(self, topic: str, index: int, start_offset: int) -> Marker:
        """Abort the open transaction that begins at this offset, in this partition only, without its coordinator."""
        sent: list[Marker] = []

        def attempt() -> Marker:
            node_id = self._cluster.leader(topic, index)
            opened = self._open([(topic, index)], node_id)
            for transaction in opened:
                if transaction.start_offset == start_offset:
                    # A producer without markers has no coordinator epoch; 0 is not above the epoch of any coordinator.
                    marker = Marker(
                        transaction.producer_id, transaction.producer_epoch, max(0, transaction.coordinator_epoch)
                    )
                    sent.append(marker)
                    self._abort(topic, index, node_id, marker)
                    return marker
            if sent:  # The response to WriteTxnMarkers was lost, but the marker was written.
                return sent[-1]
            others = ", ".join(str(transaction.start_offset) for transaction in opened)
            there_are = f"open transactions start at {others}" if opened else "the partition has no open transaction"
            raise NotFound(f"no open transaction of {topic}-{index} starts at offset {start_offset}; {there_are}")

        return self._cluster.retrying(attempt)

    def abort(self, topic: str, index: int, marker: Marker) -> Marker:
        """Write an abort marker for a producer into a partition; for brokers without DescribeProducers."""
        marker = marker._replace(coordinator_epoch=max(0, marker.coordinator_epoch))
        self._cluster.retrying(lambda: self._abort(topic, index, self._cluster.leader(topic, index), marker))
        return marker

    def _abort(self, topic: str, index: int, node_id: int, marker: Marker) -> None:
        topics = [WritableTxnMarkerTopic(topic, [index])]
        # Transaction version 0: the marker may have the same producer epoch as the records.
        writable = WritableTxnMarker(marker.producer_id, marker.producer_epoch, False, topics, marker.coordinator_epoch)
        answer = self._cluster.ask(
            node_id, WRITE_TXN_MARKERS, WriteTxnMarkersRequest([writable]), WriteTxnMarkersResponse
        )
        results = [
            partition.error_code
            for producer in answer.markers
            for written in producer.topics
            for partition in written.partitions
            if (written.name, partition.partition_index) == (topic, index)
        ]
        if not results:
            raise ConnectionFailed(f"the response of broker {node_id} to WriteTxnMarkers lacks {topic}-{index}")
        check(f"the abort marker for {topic}-{index}", results[0])

    def force_terminate(self, transactional_id: str) -> Description:
        """Abort the transaction of an id, two-phase or not, and fence its producer (KIP-939).

        Returns the description from just before. Raises NotFound for an unknown id, which InitProducerId would create.
        """
        before = self._cluster.retrying(lambda: self._describe([transactional_id])).get(transactional_id)
        if before is None:
            raise NotFound(f"there is no transactional id {transactional_id!r}; nothing was done")
        # The time-out is never used, but the coordinator validates it: a value that it accepted before is valid, except that
        # of a two-phase transaction, which it accepts only from a two-phase producer.
        timeout_ms = 1 if before.two_phase else min(max(1, before.timeout_ms), DEFAULT_TIMEOUT_MS)
        request = InitProducerIdRequest(transactional_id, timeout_ms)

        def attempt() -> None:
            node_id = self._cluster.coordinators([transactional_id])[transactional_id]
            answer = self._cluster.ask(node_id, INIT_PRODUCER_ID, request, InitProducerIdResponse)
            # The response is CONCURRENT_TRANSACTIONS, which is retried, until the abort markers are written.
            check(f"transactional id {transactional_id!r}", answer.error_code)

        self._cluster.retrying(attempt)
        return before


def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern with Python's `re`, whose syntax is close to the RE2 of brokers. Raises ClientError."""
    try:
        return re.compile(pattern)
    except re.error as fault:
        raise ClientError(f"the pattern {pattern!r} is no regular expression: {fault}") from None


def _description(state: TransactionState, node_id: int) -> Description:
    started_at_ms = state.transaction_start_time_ms if state.transaction_start_time_ms >= 0 else None
    partitions = sorted((topic.topic, index) for topic in state.topics for index in topic.partitions)
    return Description(
        state.transactional_id,
        node_id,
        state.transaction_state,
        state.producer_id,
        state.producer_epoch,
        state.transaction_timeout_ms,
        started_at_ms,
        tuple(partitions),
    )


def _open_transaction(topic: str, index: int, state: ProducerState) -> OpenTransaction:
    return OpenTransaction(
        topic,
        index,
        state.producer_id,
        state.producer_epoch,
        state.coordinator_epoch,
        state.current_txn_start_offset,
        state.last_timestamp,
    )


def _batches(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for at in range(0, len(items), BATCH_MAX):
        yield items[at : at + BATCH_MAX]
