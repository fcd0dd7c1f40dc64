"""Cache connections in Spark's Python workers between tasks and batches.

A worker is a single-threaded process that Spark forks from a daemon and reuses. A connection belongs to the process that
opened it, so connections inherited through a fork are not used.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.configs import topic_config
from stuntbroker.client.commands.producing import partition_count
from stuntbroker.client.commands.reader import LastValues
from stuntbroker.client.errors import BrokerError, ConnectionFailed, NotFound, TimedOut
from stuntbroker.client.security_properties import security_of
from stuntbroker.pipeline.decision_stores import open_decisions
from stuntbroker.pipeline.decisions import Decisions
from stuntbroker.pipeline.encode import BATCH_BYTES_MAX
from stuntbroker.pipeline.spark.security import SecurityProperties
from stuntbroker.pipeline.spark.sink_options import SinkOptions
from stuntbroker.protocol.addresses import parse_bootstrap

_clusters: dict[tuple[int, str, SecurityProperties, int], Cluster] = {}
"""Clusters by process id, bootstrap addresses, security properties and time-out (ms)."""
_stores: dict[tuple[int, SinkOptions], Decisions] = {}
_values: dict[tuple[int, SinkOptions], LastValues] = {}
"""Cached values of decision topics, so that only new records have to be read."""


@contextmanager
def explaining_timeouts(option: str) -> Iterator[None]:
    """Add advice to a time-out if no broker could be reached. `option` is the option that sets the time-out."""
    try:
        yield
    except TimedOut as fault:
        if not isinstance(fault.__cause__, ConnectionFailed):
            raise
        raise TimedOut(
            f"{fault}: check that a broker runs there, correct kafka.bootstrap.servers, or wait longer with {option}"
        ) from fault


@contextmanager
def connected(options: SinkOptions) -> Iterator[Cluster]:
    """Yield the cached cluster; after any exception, the next caller gets new connections."""
    key = os.getpid(), options.bootstrap, options.security, options.delivery_timeout_ms
    cluster = _clusters.get(key)
    if cluster is None:
        addresses, security = parse_bootstrap(options.bootstrap), security_of(dict(options.security))
        cluster = Cluster(addresses, options.delivery_timeout_ms / 1000, security=security)
        cluster.retry_unreachable = True  # Wait for unreachable brokers, already for the first batch.
        _clusters[key] = cluster
    try:
        yield cluster
    except BaseException:
        _forget_stores()
        _clusters.pop(key, cluster).close()
        raise


def _forget_stores() -> None:
    for key in [key for key in _stores if key[0] == os.getpid()]:
        _stores.pop(key).close()
    _values.clear()


def close_connections() -> None:
    """Close all connections of this process."""
    _forget_stores()
    for key in [key for key in _clusters if key[0] == os.getpid()]:
        _clusters.pop(key).close()


atexit.register(close_connections)


def store_of(cluster: Cluster, options: SinkOptions) -> Decisions:
    """Return the cached store of the sink's decisions."""
    key = os.getpid(), options
    if key not in _stores:
        _stores[key] = open_decisions(options.decisions, options.sink_id, cluster)
    return _stores[key]


def values_of(cluster: Cluster, options: SinkOptions) -> dict[bytes, bytes]:
    """Return the currently committed values of the decision topic."""
    key = os.getpid(), options
    if key not in _values:
        _values[key] = LastValues(cluster, options.decisions.name, 0)
    _values[key].refresh()
    return _values[key].values


def partition_counts(cluster: Cluster) -> Callable[[str], int]:
    """Return a cached look-up of partition counts, which creates topics if the brokers auto-create them."""
    known: dict[str, int] = {}

    def count(topic: str) -> int:
        if topic not in known:
            try:
                known[topic] = partition_count(cluster, topic)
            except NotFound as fault:
                advice = "and the brokers have not created it: auto.create.topics.enable is off"
                raise NotFound(f"there is no topic {topic!r}, {advice}") from fault
        return known[topic]

    return count


def batch_limits(cluster: Cluster) -> Callable[[str], int]:
    """Return a cached look-up of a topic's maximum batch size in bytes."""
    known: dict[str, int] = {}

    def limit(topic: str) -> int:
        if topic not in known:
            try:
                allowed = topic_config(cluster, topic, "max.message.bytes")
            except BrokerError:  # For example, a user with WRITE but without DESCRIBE_CONFIGS permission.
                allowed = None
            known[topic] = BATCH_BYTES_MAX if allowed is None else min(BATCH_BYTES_MAX, int(allowed))
        return known[topic]

    return limit
