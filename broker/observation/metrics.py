"""Prometheus metrics, read from the broker's state during a scrape. Only requests are counted as they are handled.

A metric of Kafka has the name that the JMX exporter gives to its MBean, in lower snake case. The names of other metrics begin
with `stuntbroker_`. docs/metrics.md lists all metrics.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol

from prometheus_client import Metric, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from stuntbroker.coordinator.state import Phase
from stuntbroker.groups.classic.state import GroupState
from stuntbroker.protocol.api_keys import APIS
from stuntbroker.protocol.transaction_states import TIMEOUT_NONE

if TYPE_CHECKING:
    from stuntbroker.broker.connections.client_connection import ClientRequest
    from stuntbroker.broker.requests.routes import Handler
    from stuntbroker.broker.services import (
        HasClock,
        HasConnections,
        HasFeatures,
        HasFetchSessions,
        HasRouter,
        HasTopics,
        HasTransactions,
        KnowsGroups,
    )

    class Measured(
        HasClock,
        HasConnections,
        HasFeatures,
        HasFetchSessions,
        HasRouter,
        HasTopics,
        HasTransactions,
        KnowsGroups,
        Protocol,
    ):
        """Parts of the broker that metrics are read from."""


SLICE: Final = 2_000
"""Ids or partitions that are read before other tasks of the event loop run."""
PARTITION: Final = ("topic", "partition")


class _Families(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


class Metrics:
    """Metrics of one broker. Requests are counted from construction on."""

    def __init__(self, broker: Measured) -> None:
        self._broker = broker
        self._process = ProcessCollector(registry=None)
        self._started_ms = broker.clock.now_ms()
        self._began_ms = broker.clock.monotonic_ms()
        self._requests: Counter[tuple[int, int]] = Counter()
        """By API key and version."""
        broker.router.add_interceptor(self._count)

    def _count(self, handle: Handler, request: ClientRequest, body: Any, version: int) -> Any:
        self._requests[request.route.key, version] += 1
        return handle(request, body, version)

    async def text(self) -> bytes:
        """Return all metrics in the text format. Long tables are read in slices; a worker thread renders the text."""
        families = [
            *self._of_broker(),
            *await self._of_transactions(),
            *await self._of_partitions(),
            *self._of_groups(),
        ]
        families += self._process.collect()
        return await asyncio.get_running_loop().run_in_executor(None, generate_latest, _Families(families))

    def _of_broker(self) -> list[Metric]:
        broker = self._broker
        requests = CounterMetricFamily(
            "kafka_network_requestmetrics_requests",
            "Requests passed to a handler",
            labels=("request", "version"),
        )
        for (key, version), count in self._requests.items():
            requests.add_metric((APIS[key].name, str(version)), count)
        sessions = broker.fetch_sessions.sessions.values()
        return [
            requests,
            GaugeMetricFamily(
                "kafka_server_app_info_start_time_ms",
                "Start time of the broker, in milliseconds since 1970",
                self._started_ms,
            ),
            GaugeMetricFamily(
                "stuntbroker_uptime_seconds",
                "Time since the start",
                (broker.clock.monotonic_ms() - self._began_ms) / 1_000,
            ),
            GaugeMetricFamily(
                "kafka_server_socket_server_metrics_connection_count",
                "Open connections of Kafka clients",
                len(broker.connections),
            ),
            GaugeMetricFamily(
                "kafka_server_fetchsessioncache_num_incremental_fetch_sessions",
                "Incremental fetch sessions",
                len(sessions),
            ),
            GaugeMetricFamily(
                "kafka_server_fetchsessioncache_num_incremental_fetch_partitions_cached",
                "Partitions in all incremental fetch sessions",
                sum(len(session.partitions) for session in sessions),
            ),
            GaugeMetricFamily(
                "stuntbroker_transaction_version",
                "Finalized level of transaction.version",
                broker.features.transaction_version,
            ),
        ]

    async def _of_transactions(self) -> list[Metric]:
        transactions = self._broker.transactions
        now_ms = self._broker.clock.now_ms()
        open_ms = two_phase = 0
        for actor in transactions.open:
            txn = actor.txn
            if txn.started_at_ms >= 0:
                open_ms = max(open_ms, now_ms - txn.started_at_ms)
            two_phase += txn.phase is Phase.ONGOING and txn.timeout_ms == TIMEOUT_NONE
        phases: Counter[Phase] = Counter()
        all_ids = transactions.ids()
        for at in range(0, len(all_ids), SLICE):
            shown = map(transactions.summary, all_ids[at : at + SLICE])
            phases.update(each.phase for each in shown if each is not None)
            await asyncio.sleep(0)
        ids = GaugeMetricFamily("stuntbroker_transactional_ids", "Transactional ids by state", labels=("state",))
        for phase in Phase:
            ids.add_metric((phase.kafka_name,), phases[phase])
        coordinator = "kafka_server_transaction_coordinator_metrics"
        loads = transactions.load_times_ms
        return [
            GaugeMetricFamily(
                f"{coordinator}_active_transaction_open_time_max",
                "Age of the oldest open transaction, in milliseconds; 0 if none is open",
                open_ms,
            ),
            GaugeMetricFamily(
                f"{coordinator}_partition_load_time_max",
                "Longest time to load one partition of the transaction log at the last start, in milliseconds",
                max(loads, default=0),
            ),
            GaugeMetricFamily(
                f"{coordinator}_partition_load_time_avg",
                "Mean time to load one partition of the transaction log at the last start, in milliseconds",
                sum(loads) / len(loads) if loads else 0,
            ),
            ids,
            GaugeMetricFamily("stuntbroker_transactional_id_count", "All transactional ids", len(all_ids)),
            GaugeMetricFamily(
                "stuntbroker_open_transactions",
                "Ongoing transactions, and prepared ones that are not complete",
                len(transactions.open),
            ),
            GaugeMetricFamily(
                "stuntbroker_two_phase_transactions",
                "Ongoing two-phase transactions, which have no time-out",
                two_phase,
            ),
            CounterMetricFamily(
                "stuntbroker_transactions_timed_out",
                "Transactions aborted after their time-out",
                transactions.timed_out_count,
            ),
            CounterMetricFamily(
                "stuntbroker_transactional_ids_expired",
                "Transactional ids expired after transactional.id.expiration.ms",
                transactions.expired_count,
            ),
        ]

    async def _of_partitions(self) -> list[Metric]:
        lag = GaugeMetricFamily(
            "kafka_cluster_partition_last_stable_offset_lag",
            "Log end offset minus last stable offset",
            labels=PARTITION,
        )
        end = GaugeMetricFamily("kafka_log_log_log_end_offset", "Offset that the next record gets", labels=PARTITION)
        start = GaugeMetricFamily("kafka_log_log_log_start_offset", "Log start offset", labels=PARTITION)
        size = GaugeMetricFamily("kafka_log_log_size", "Bytes in all segments", labels=PARTITION)
        segments = GaugeMetricFamily("kafka_log_log_num_log_segments", "Segments", labels=PARTITION)
        producers = GaugeMetricFamily(
            "stuntbroker_partition_producer_id_count", "Producer ids that the partition remembers", labels=PARTITION
        )
        logs = [log for topic in self._broker.topics for log in topic.partitions]
        lag_max = ids = 0
        for number, log in enumerate(logs, 1):
            labels = (log.topic, str(log.index))
            behind, known = log.next_offset - log.last_stable_offset, len(log.producers.producers)
            lag_max, ids = max(lag_max, behind), ids + known
            lag.add_metric(labels, behind)
            end.add_metric(labels, log.next_offset)
            start.add_metric(labels, log.log_start_offset)
            size.add_metric(labels, log.size)
            segments.add_metric(labels, len(log.segments))
            producers.add_metric(labels, known)
            if not number % SLICE:
                await asyncio.sleep(0)
        return [
            GaugeMetricFamily("kafka_server_replicamanager_partition_count", "Partitions", len(logs)),
            GaugeMetricFamily(
                "kafka_controller_kafkacontroller_global_topic_count", "Topics", len(self._broker.topics.by_name)
            ),
            GaugeMetricFamily(
                "kafka_server_replicamanager_producer_id_count",
                "Producer ids that all partitions together remember",
                ids,
            ),
            GaugeMetricFamily("stuntbroker_last_stable_offset_lag_max", "Largest last stable offset lag", lag_max),
            lag,
            end,
            start,
            size,
            segments,
            producers,
        ]

    def _of_groups(self) -> list[Metric]:
        states = Counter(group.state for group in self._broker.known_groups())
        manager = "kafka_coordinator_group_groupmetadatamanager_num_groups"
        families: list[Metric] = [GaugeMetricFamily(manager, "Consumer groups", states.total())]
        for state in GroupState:
            name = f"{manager}_{state.name.lower()}"
            families.append(GaugeMetricFamily(name, f"Groups in state {state.value}", states[state]))
        return families
