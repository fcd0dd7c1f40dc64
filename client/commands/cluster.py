"""Routing: from bootstrap addresses to brokers, partition leaders and coordinators.

Routes are looked up on demand and cached until an operation fails. An operation is a function that can be repeated:
after a retriable failure, `Cluster.retrying` clears all routes and repeats it until its time-out is over.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeVar

from stuntbroker.client.backoff import next_backoff_s
from stuntbroker.client.commands.connection import (
    CLIENT_ID,
    REQUEST_S_MAX,
    Answer,
    Connection,
    Deadline,
    check_process,
)
from stuntbroker.client.errors import (
    AuthenticationFailed,
    BrokerError,
    ClientError,
    ConnectionFailed,
    NotFound,
    Refused,
    TimedOut,
    Unreachable,
    check,
    reason,
)
from stuntbroker.client.monotonic import monotonic_s
from stuntbroker.protocol.addresses import Address
from stuntbroker.protocol.api_keys import FIND_COORDINATOR, METADATA
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from stuntbroker.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from stuntbroker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from stuntbroker.protocol.messages.metadata_response import MetadataResponse
from stuntbroker.protocol.primitives import INT16_MAX, Message
from stuntbroker.protocol.request_values import OF_GROUP, OF_TRANSACTION
from stuntbroker.protocol.versions import SEVERAL_FROM

if TYPE_CHECKING:
    from stuntbroker.client.blocking import Connections, TransactionalProducer
    from stuntbroker.client.security import Security

REFUSALS_MAX: Final = 3
"""Number of refusals in a row after which a retry would not help: a broker that was killed just then refuses once."""
BACKOFF_S_MIN: Final = 0.02
"""First back-off of retries; Kafka's clients use the same for the first request of a transaction."""
TIMEOUT_S: Final = 30.0
PRODUCER_CLIENT_ID: Final = f"{CLIENT_ID}-producer"
"""Differs from the client id of administration: by the client id, a broker recognises fences by an administrator."""

Result = TypeVar("Result")


class Partition(NamedTuple):
    """A partition, with the ids of its leader (-1: none) and of its replicas."""

    topic: str
    partition: int
    leader_id: int
    """-1 while the partition has no leader."""
    replica_ids: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Cluster:
    """A cluster, with one connection to each broker. Threads that share it take turns. Not usable after a fork."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        timeout_s: float = TIMEOUT_S,
        now_s: Callable[[], float] = monotonic_s,
        sleep: Callable[[float], None] = time.sleep,
        is_total: bool = False,
        client_id: str = CLIENT_ID,
        security: Security | None = None,
    ) -> None:
        """`is_total`: the time-out is for all operations together, not for each one. `security`: None means PLAINTEXT."""
        self.bootstrap = tuple(bootstrap)
        self._client_id = client_id
        self.security = security
        self._timeout_s = timeout_s
        self._is_total = is_total
        self._now_s = now_s
        self._sleep = sleep
        self._deadline = Deadline(timeout_s, now_s)
        self.retry_unreachable = False
        """Whether to retry even if no address has answered yet, because an address has answered another client before."""
        self._reached = False
        self._connections: dict[Address, Connection] = {}
        self._addresses: dict[int, Address] = {}
        self._coordinators: dict[tuple[int, str], int] = {}
        """(key type, key) -> node id."""
        self._lock = threading.RLock()
        """Held by the thread that uses the connections, for all attempts of an operation."""
        self._process_id = os.getpid()
        self._is_closed = False
        self._producers: list[TransactionalProducer] = []
        self._producer_connections: Connections | None = None
        """Connections of all producers; they are served by a thread."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections. Open transactions of producers are not aborted. Any later call raises ClientError.

        In a forked process this leaves the parent's connections open.
        """
        # A thread that the child lacks may have held the lock at the fork: the child would wait for ever.
        with self._lock if os.getpid() == self._process_id else nullcontext():
            self._is_closed = True
            self.forget()
            producers, self._producers = self._producers, []
            connections, self._producer_connections = self._producer_connections, None
        if connections is None:
            return
        try:
            for producer in producers:
                producer.stop(leave_open=True)
        finally:
            connections.stop()

    @contextmanager
    def exclusive_use(self) -> Iterator[None]:
        """Keep other threads from using the connections. Raises ClientError after a fork, and after `close`."""
        check_process("these connections belong", self._process_id)
        with self._lock:
            if self._is_closed:
                raise ClientError("the cluster's connections are closed")
            yield

    # --- producers

    def producer(self, transactional_id: str, **options: Any) -> TransactionalProducer:
        """Return a started producer, whose time-outs are that of the cluster.

        Raises AuthenticationFailed, ConnectionFailed, TimedOut.
        """
        from stuntbroker.client.blocking import TransactionalProducer
        from stuntbroker.client.producer.states import State

        with self.exclusive_use():
            if self._producer_connections is None:
                self._producer_connections = self.retrying(self._connect_producers)
            timeout_ms = max(1, int(self._timeout_s * 1000))
            producer = TransactionalProducer(
                connections=self._producer_connections,
                transactional_id=transactional_id,
                max_block_ms=timeout_ms,
                delivery_timeout_ms=timeout_ms,
                **options,
            )
            producer.start()
            self._producers = [each for each in self._producers if each.state is not State.CLOSED]
            self._producers.append(producer)
        return producer

    def _connect_producers(self) -> Connections:
        from aiokafka.errors import KafkaError

        from stuntbroker.client.blocking import Connections
        from stuntbroker.client.transactional_errors import AuthenticationError

        connections = Connections(
            bootstrap_servers=[str(address) for address in self.bootstrap],
            client_id=PRODUCER_CLIENT_ID,
            request_timeout_ms=max(1, int(min(REQUEST_S_MAX, self._timeout_s) * 1000)),
            **(self.security or {}),
        )
        try:
            connections.start()
        except AuthenticationError as fault:
            raise AuthenticationFailed(str(fault)) from fault
        except KafkaError as fault:
            raise ConnectionFailed(
                f"cannot connect to {self.bootstrap[0]}: {reason(fault.__cause__ or fault)}"
            ) from fault
        return connections

    # --- operations

    def start_operation(self) -> Deadline:
        """Restart the time-out, unless it is total, and return the deadline. `retrying` calls this itself."""
        if not self._is_total:
            self._deadline = Deadline(self._timeout_s, self._now_s)
        return self._deadline

    @property
    def deadline(self) -> Deadline:
        """Deadline of the operation that was started last."""
        return self._deadline

    def pause(self, seconds: float) -> None:
        """Wait before a request is repeated."""
        self._sleep(seconds)

    def retrying(self, attempt: Callable[[], Result]) -> Result:
        """Run `attempt` until it succeeds, fails with an error that is not retriable, or the time-out is over (TimedOut)."""
        with self.exclusive_use():
            self.start_operation()
            backoff_s, refusals = BACKOFF_S_MIN, 0
            while True:
                try:
                    return attempt()
                except ClientError as fault:
                    refusals = refusals + 1 if isinstance(fault, Refused) else 0
                    if not fault.retriable or refusals == REFUSALS_MAX:
                        raise
                    if not (isinstance(fault, BrokerError) and fault.code == ErrorCode.CONCURRENT_TRANSACTIONS):
                        self.forget()
                    if self._deadline.left_s() <= backoff_s:
                        raise TimedOut(f"{fault}; given up after {self._timeout_s:g} s") from fault
                self._sleep(backoff_s)
                backoff_s = next_backoff_s(backoff_s)

    def version(self, node_id: int, key: int, least: int = 0) -> int:
        """Return the highest version of an API, from `least` on, that broker and client have. Raises UnsupportedVersion."""
        with self.exclusive_use():
            return self.connection(node_id).version(key, least)

    def api_versions(self, node_id: int) -> dict[int, tuple[int, int]]:
        """Return API key -> (lowest, highest) version of a broker."""
        with self.exclusive_use():
            return dict(self.connection(node_id).versions)

    def ask(
        self, node_id: int, key: int, request: Message, answer: type[Answer], least: int = 0, most: int = INT16_MAX
    ) -> Answer:
        """Send a request to a broker, at the highest common version from `least` to `most`, and return the response."""
        with self.exclusive_use():
            connection = self.connection(node_id)
            return connection.ask(key, connection.version(key, least, most), request, answer, self._deadline)

    # --- routes

    def broker_ids(self) -> list[int]:
        """Return the ids of all live brokers."""
        self.metadata([])
        return sorted(self._addresses)

    def controller_id(self) -> int:
        """Return the id of the controller, which creates topics; any broker if the metadata does not name it."""
        answer = self.metadata([])
        return answer.controller_id if answer.controller_id >= 0 else min(self._addresses)

    def partitions(self, topics: Collection[str] | None, create: bool = False) -> list[Partition]:
        """Return the partitions of these topics, or of all. Raises NotFound.

        `create`: let brokers create missing topics (`auto.create.topics.enable`); raises a retriable BrokerError until a new
        topic has leaders.
        """
        partitions = []
        for topic in self.metadata(topics, create).topics:
            name = topic.name or ""
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise NotFound(f"there is no topic {name!r}")
            check(f"topic {name!r}", topic.error_code)
            for partition in topic.partitions:
                partitions.append(
                    Partition(name, partition.partition_index, partition.leader_id, tuple(partition.replica_nodes))
                )
        return sorted(partitions)

    def partition(self, topic: str, index: int) -> Partition:
        """Return a partition of a topic. Raises NotFound."""
        known = self.partitions([topic])
        for partition in known:
            if partition.partition == index:
                return partition
        raise NotFound(f"topic {topic!r} has no partition {index}, it has {len(known)}")

    def leader(self, topic: str, index: int) -> int:
        """Return the id of a partition's leader. Raises NotFound, or a retriable BrokerError while there is no leader."""
        partition = self.partition(topic, index)
        if partition.leader_id < 0:
            raise BrokerError(f"partition {partition}", ErrorCode.LEADER_NOT_AVAILABLE)
        return partition.leader_id

    def coordinators(self, keys: Collection[str], key_type: int = OF_TRANSACTION) -> dict[str, int]:
        """Return the ids of the coordinators of these transactional ids or, with OF_GROUP, of these consumer groups."""
        with self.exclusive_use():
            missing = [key for key in keys if (key_type, key) not in self._coordinators]
            if missing:
                connection = self._any()
                version = connection.version(FIND_COORDINATOR, least=1)
                is_batched = version >= SEVERAL_FROM[FIND_COORDINATOR]
                for some in [missing] if is_batched else [[key] for key in missing]:
                    request = FindCoordinatorRequest(some[0], key_type, some)
                    answer = connection.ask(FIND_COORDINATOR, version, request, FindCoordinatorResponse, self._deadline)
                    self._store_coordinators(key_type, some, answer, is_batched)
            return {key: self._coordinators[key_type, key] for key in keys}

    def group_coordinator(self, group_id: str) -> int:
        """Return the id of a consumer group's coordinator."""
        return self.coordinators([group_id], OF_GROUP)[group_id]

    def _store_coordinators(
        self, key_type: int, keys: list[str], answer: FindCoordinatorResponse, is_batched: bool
    ) -> None:
        for coordinator in answer.coordinators if is_batched else [answer]:
            key = getattr(coordinator, "key", keys[0])
            check(f"the coordinator of {key!r}", coordinator.error_code, coordinator.error_message)
            self._addresses[coordinator.node_id] = Address(coordinator.host, coordinator.port)
            self._coordinators[key_type, key] = coordinator.node_id
        if missing := [key for key in keys if (key_type, key) not in self._coordinators]:
            raise ConnectionFailed(f"the response to FindCoordinator lacks {missing[0]!r}")

    def metadata(self, topics: Collection[str] | None, create: bool = False) -> MetadataResponse:
        """Return the metadata of all brokers and of these topics (None: all topics), from any broker.

        `create`: let brokers create missing topics (`auto.create.topics.enable`).
        """
        wanted = None if topics is None else [MetadataRequestTopic(name=item) for item in topics]
        request = MetadataRequest(wanted, allow_auto_topic_creation=create)
        with self.exclusive_use():
            connection = self._any()
            version = connection.version(METADATA, least=1)
            answer = connection.ask(METADATA, version, request, MetadataResponse, self._deadline)
            if not answer.brokers:
                raise ConnectionFailed("the metadata names no broker")
            self._addresses = {item.node_id: Address(item.host, item.port) for item in answer.brokers}
            gone = [key for key, node_id in self._coordinators.items() if node_id not in self._addresses]
            for key in gone:
                del self._coordinators[key]
            return answer

    # --- connections

    def connection(self, node_id: int) -> Connection:
        """Return the connection to a broker, opened when it is first needed. Only for the thread with `exclusive_use`.

        Raises ConnectionFailed, NotFound.
        """
        if node_id not in self._addresses:
            self.metadata([])
        address = self._addresses.get(node_id)
        if address is None:
            raise NotFound(f"there is no broker {node_id}; there are {', '.join(map(str, sorted(self._addresses)))}")
        try:
            return self._connect(address)
        except ConnectionFailed as fault:
            raise ConnectionFailed(f"broker {node_id} is known to the cluster as {address}: {fault}") from fault

    def _any(self) -> Connection:
        """Return an open connection, or else a new one to the first address that answers."""
        for connection in self._connections.values():
            if not connection.is_closed:
                return connection
        faults = []
        for address in dict.fromkeys((*self.bootstrap, *self._addresses.values())):
            try:
                return self._connect(address)
            except ConnectionFailed as fault:
                faults.append(fault)
        if self._reached or self.retry_unreachable:
            raise faults[0]
        raise Unreachable("; ".join(map(str, faults)))

    def _connect(self, address: Address) -> Connection:
        connection = self._connections.get(address)
        if connection is None or connection.is_closed:
            connection = Connection(address, self._deadline, self._client_id, self.security)
            self._connections[address] = connection
            self._reached = True
        return connection

    def forget(self) -> None:
        """Close all connections and clear all routes; the known brokers stay as addresses to try.

        In a forked process this leaves the parent's connections open.
        """
        # A thread that the child lacks may have held the lock at the fork: the child would wait for ever.
        with self._lock if os.getpid() == self._process_id else nullcontext():
            for connection in self._connections.values():
                connection.close()
            self._connections.clear()
            self._coordinators.clear()
