"""Fetch, key 1, versions 4-18: returns whole batches of partitions, immediately or when enough bytes are available.

v7 sessions. v9 leader epochs. v12 flexible. v13 topic ids. v15-18 add fields that only followers use.
"""

from __future__ import annotations

from collections.abc import Collection, Set
from typing import TYPE_CHECKING, Any, Final, Protocol

from stuntbroker.broker.cluster.epochs import epoch_error
from stuntbroker.broker.metadata.unknown_topics import unknown_topic
from stuntbroker.broker.requests.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    FetchedPartition,
    FetchSession,
    Key,
)
from stuntbroker.broker.requests.slices import Steps, run_in_slices
from stuntbroker.protocol.acls import CLUSTER_NAME, Operation, Resource
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.fetch_request import FetchPartition, FetchRequest
from stuntbroker.protocol.messages.fetch_response import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from stuntbroker.protocol.request_values import READ_COMMITTED, READ_UNCOMMITTED
from stuntbroker.protocol.versions import TOPIC_IDS_FROM
from stuntbroker.storage.errors import StorageError
from stuntbroker.storage.leader_epochs import end_of_epoch
from stuntbroker.storage.partition import PartitionLog

if TYPE_CHECKING:
    from stuntbroker.broker.cluster.fetches import NodeFetches
    from stuntbroker.broker.metadata.topics import Topic
    from stuntbroker.broker.services import (
        Asking,
        HasAuthorizer,
        HasConfig,
        HasEvents,
        HasFetchSessions,
        HasLongRequests,
        HasNodes,
        HasTimers,
        HasTopics,
    )
    from stuntbroker.broker.timers import TimerHandle

    class Uses(
        HasAuthorizer, HasConfig, HasEvents, HasFetchSessions, HasLongRequests, HasNodes, HasTimers, HasTopics, Protocol
    ):
        """Parts of the broker that this module uses."""


KEY: Final = 1
VERSIONS = range(4, 19)
SESSIONS_FROM: Final = 7
ZSTD_FROM: Final = 10
IDS_FROM: Final = TOPIC_IDS_FROM[KEY]
OK = ErrorCode.NONE
Read = tuple["FetchResponse | None", list[PartitionLog]]
"""The response, or None if there are too few bytes and time is left to wait for more; and the logs that were read."""
NO_PARTITIONS: Final[Set[Any]] = frozenset()
PARTITIONS_AT_ONCE: Final = 500
"""A request for more partitions is read in slices."""
PARTITIONS_PER_STEP: Final = 50
STEP_COST: Final = 60
"""Cost of a step in slice units (10 us each, about one partition)."""
WITHOUT_ABORTED: Final = frozenset(
    {
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    }
)
"""Errors with which the list of aborted transactions is null, not empty."""


def handle(request: Asking[Uses], body: FetchRequest, version: int) -> FetchResponse | None:
    """Return the response, or None while fewer than `min_bytes` are available."""
    session, error = _session(request.broker, body, version)
    if error:
        return FetchResponse(error_code=error)
    fetch = _Fetch(request, body, version, session)
    if body.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED) and fetch.reads_any():
        if session is not None and body.session_epoch == INITIAL_EPOCH:
            request.broker.fetch_sessions.close(session.id)
        return _unknown_isolation_level_response(body, version)
    return fetch.answer()


def _unknown_isolation_level_response(body: FetchRequest, version: int) -> FetchResponse:
    """Return the response for an unknown isolation level, which is refused only if some requested partition exists."""
    error = ErrorCode.UNKNOWN_SERVER_ERROR
    listed = body.topics if version < IDS_FROM else ()
    topics = [
        FetchableTopicResponse(
            topic.topic, bytes(16), [PartitionData(part.partition, error, -1) for part in topic.partitions]
        )
        for topic in listed
    ]
    return FetchResponse(error_code=error, responses=topics)


def _session(broker: Uses, body: FetchRequest, version: int) -> tuple[FetchSession | None, ErrorCode]:
    """Return the fetch session of the request, None for a full fetch without a session; and the error."""
    if version < SESSIONS_FROM or body.session_epoch == FINAL_EPOCH:
        if body.session_id:
            broker.fetch_sessions.close(body.session_id)
        return None, OK
    uses_ids = version >= IDS_FROM
    if body.session_epoch == INITIAL_EPOCH:
        if body.session_id:
            broker.fetch_sessions.close(body.session_id)
        session = broker.fetch_sessions.new(uses_ids)
        if session is not None:
            _update_session(session, body, version)
        return session, OK
    session, error = broker.fetch_sessions.use(body.session_id, body.session_epoch, uses_ids)
    if session is not None:
        _update_session(session, body, version)
        for topic in body.forgotten_topics_data:  # A partition in both lists is forgotten.
            name = topic.topic_id if uses_ids else topic.topic
            for index in topic.partitions:
                session.partitions.pop((name, index), None)
    return session, error


def _update_session(session: FetchSession, body: FetchRequest, version: int) -> None:
    for topic in body.topics:
        name: Any = topic.topic_id if version >= IDS_FROM else topic.topic
        for part in topic.partitions:
            known = session.partitions.get((name, part.partition))
            if known is None:
                session.partitions[name, part.partition] = FetchedPartition(part)
            else:
                known.fetch_partition = part


class _Fetch:
    """A Fetch request: reads its logs again whenever one of them grows, until `min_bytes` or `max_wait_ms` is reached."""

    __slots__ = (
        "_has_grown",
        "_is_long",
        "_is_over",
        "_is_reading",
        "_logs",
        "_timer",
        "_unknown_at_first",
        "body",
        "partial",
        "request",
        "session",
        "version",
    )

    def __init__(self, request: Asking[Uses], body: FetchRequest, version: int, session: FetchSession | None) -> None:
        self.request = request
        self.body = body
        self.version = version
        self.session = session
        self.partial = session is not None and body.session_epoch != INITIAL_EPOCH
        """Whether the fetch is incremental: the response has only the partitions that changed."""
        self._logs: set[PartitionLog] = set()
        """Logs that call `on_append`."""
        self._timer: TimerHandle | None = None
        """The end of `max_wait_ms`; None while the request does not wait."""
        self._has_grown = False
        """Whether one of the logs has grown since the last read began."""
        self._is_reading = False
        """Whether the request is being read in slices."""
        self._is_over = False
        """Whether `max_wait_ms` has passed: the next read is the response, however small."""
        self._unknown_at_first: Set[Key] | None = None
        """The partitions that the first read found unknown, or not permitted; None before it."""
        self._is_long = len(self._wanted()) > PARTITIONS_AT_ONCE
        """Whether the request is read in slices, so that other requests are served meanwhile."""

    def _wanted(self) -> Collection[tuple[Key, FetchPartition]]:
        if self.session is not None:
            return [(key, known.fetch_partition) for key, known in self.session.partitions.items()]
        ids = self.version >= IDS_FROM
        return {  # The last entry of a repeated partition counts.
            (topic.topic_id if ids else topic.topic, part.partition): part
            for topic in self.body.topics
            for part in topic.partitions
        }.items()

    def _find(self, name: Any) -> Topic | None:
        """Return a topic by name or id, depending on the version."""
        topics = self.request.broker.topics
        return topics.by_id(name) if self.version >= IDS_FROM else topics.get(name)

    def _may_read(self, name: Any, topic: Topic | None) -> bool:
        """Return whether the client may read a topic; True for an unknown id, as there is no name to decide by."""
        from stuntbroker.broker.permissions.permitted import may

        if _is_follower(self.body):
            return may(self.request, Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME)
        if topic is None and self.version >= IDS_FROM:
            return True
        return may(self.request, Operation.READ, Resource.TOPIC, topic.name if topic is not None else name)

    def reads_any(self) -> bool:
        """Return whether any requested partition exists, as far as the client may know."""
        checks_permissions = self.request.broker.authorizer.checks_every_request
        return any(
            (topic := self._find(name)) is not None
            and topic.has_partition(index)
            and (not checks_permissions or self._may_read(name, topic))
            for (name, index), _ in self._wanted()
        )

    def _read(self) -> Read:
        """Run all of `_read_in_steps` at once."""
        steps = self._read_in_steps()
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: Read = end.value
                return result

    def _read_in_steps(self) -> Steps[Read]:
        """Read the partitions, and return the response unless it has to wait."""
        body, broker = self.body, self.request.broker
        committed = body.isolation_level == READ_COMMITTED
        left = bytes_max = min(body.max_bytes, broker.config["fetch.max.bytes"])
        answered: list[tuple[Key, PartitionData]] = []
        unknown: list[tuple[Key, PartitionData]] = []
        logs: list[PartitionLog] = []
        size = 0
        is_due = False  # Whether the response is sent however small it is.
        refusal = _refusal(body)
        at_node = _at_node(self.request, body, self.version)
        checks_permissions = broker.authorizer.checks_every_request
        for number, (key, fetch_partition) in enumerate(self._wanted(), 1):
            if not number % PARTITIONS_PER_STEP:
                yield STEP_COST
            name, index = key
            topic = self._find(name)
            # Unlike Kafka: permissions are asked for again whenever a waiting request is read again, not only when it arrives.
            if checks_permissions and not self._may_read(name, topic):
                unknown.append((key, PartitionData(index, ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1)))
                continue
            if topic is None or not topic.has_partition(index):
                by_id = topic is None and self.version >= IDS_FROM and not self._was_found(key)
                error = unknown_topic(by_id)
                unknown.append((key, PartitionData(index, error, -1)))
                continue
            error = refusal or (OK if at_node is None else at_node.error(topic, index))
            if error or fetch_partition.partition_max_bytes < 0:
                data = PartitionData(index, error or ErrorCode.UNKNOWN_SERVER_ERROR, -1, aborted_transactions=None)
            else:
                log = topic.partitions[index]
                logs.append(log)
                if self._is_long:  # It may grow while the others are read.
                    self._listen_to(log)
                try:
                    data, taken, continues = _read_partition(
                        log, fetch_partition, committed, left, not size, self.version
                    )
                except StorageError as fault:
                    # Unlike Kafka: the next fetch reads again; Kafka takes the whole folder offline.
                    broker.events.error("records_not_read", topic=log.topic, partition=index, fault=str(fault))
                    data = PartitionData(index, ErrorCode.KAFKA_STORAGE_ERROR, -1, aborted_transactions=None)
                    taken, continues = 0, False
                is_due |= continues
                if at_node is not None and at_node.redirects(topic, data):
                    taken, is_due = 0, True
                size += taken
                left -= taken
            if at_node is not None:
                at_node.show_leader(topic, data)
            is_due |= bool(data.error_code) or data.diverging_epoch is not None
            answered.append((key, data))
        is_due |= not answered or self._has_newly_unknown(unknown)
        # Unknown topics and partitions come last: first unknown topic ids, then the others.
        answered += sorted(unknown, key=lambda item: item[1].error_code != ErrorCode.UNKNOWN_TOPIC_ID)
        if not (self._is_over or is_due or size >= min(body.min_bytes, bytes_max) or body.max_wait_ms <= 0):
            return None, logs
        session = self.session
        topics: list[FetchableTopicResponse] = []
        last: Any = None
        ids = self.version >= IDS_FROM
        for number, (key, data) in enumerate(answered, 1):
            if not number % PARTITIONS_PER_STEP:
                yield STEP_COST // 2
            if session is not None and not self._has_changes(session, key, data):
                continue
            if key[0] != last:  # A topic is repeated if another comes between, as in Kafka.
                last = key[0]
                name, topic_id = ("", last) if ids else (last, bytes(16))
                topics.append(FetchableTopicResponse(name, topic_id, []))
            topics[-1].partitions.append(data)  # type: ignore[attr-defined]
        response = FetchResponse(session_id=session.id if session else 0, responses=topics)
        if at_node is not None:
            at_node.show_endpoints(response)
        return response, logs

    def _has_newly_unknown(self, unknown: list[tuple[Key, PartitionData]]) -> bool:
        """Return whether a partition is unknown that the first read has found: then the others are not waited for any longer."""
        if self._unknown_at_first is None:
            self._unknown_at_first = {key for key, _ in unknown} if unknown else NO_PARTITIONS
            return False
        return bool(unknown) and any(key not in self._unknown_at_first for key, _ in unknown)

    def _was_found(self, key: Key) -> bool:
        """Return whether a partition that is unknown now was known before, to this request or in its session."""
        if self._unknown_at_first is not None and key not in self._unknown_at_first:
            return True
        return self.session is not None and key in self.session.partitions and self.session.partitions[key].was_found

    def _has_changes(self, session: FetchSession, key: Key, data: PartitionData) -> bool:
        """Return whether the response must include the partition; record in the session what the response reports."""
        known = session.partitions.get(key)
        if known is None:
            return False
        reported = (known.high_watermark, known.last_stable_offset, known.log_start_offset)
        now = (data.high_watermark, data.last_stable_offset, data.log_start_offset)
        if (
            self.partial
            and not data.records
            and not data.error_code
            and data.diverging_epoch is None
            and data.preferred_read_replica < 0
            and reported == now
        ):
            return False
        known.high_watermark, known.last_stable_offset, known.log_start_offset = now
        if data.error_code:
            known.high_watermark = -2  # Repeat the error in every response until it is gone.
        else:
            known.was_found = True
        return True

    # --- waiting

    def answer(self) -> FetchResponse | None:
        """Read, and return the response; None if it comes later."""
        if self._is_long:
            return run_in_slices(self.request, self._answer_in_steps())
        response, logs = self._read()
        return self._response_or_wait(response, logs)

    def _answer_in_steps(self) -> Steps[FetchResponse | None]:
        """Read a long request, repeatedly if its partitions grow meanwhile."""
        self._is_reading = True
        self._wait()
        response, logs = yield from self._read_in_steps()
        while response is None and self.request.is_open and (self._has_grown or self._is_over):
            self._has_grown = False
            response, logs = yield from self._read_in_steps()
        self._is_reading = False
        return self._response_or_wait(response, logs)

    def _response_or_wait(self, response: FetchResponse | None, logs: list[PartitionLog]) -> FetchResponse | None:
        if response is not None or not self.request.is_open:
            self.forget()
            return response
        self._wait()
        for log in logs:
            self._listen_to(log)
        return None

    def _wait(self) -> None:
        """Begin to wait for `max_wait_ms`, unless the request is waiting."""
        if self._timer is None:
            self._timer = self.request.broker.timers.call_later(self.body.max_wait_ms, self.time_over)
            self.request.on_close = self.forget

    def _listen_to(self, log: PartitionLog) -> None:
        if log not in self._logs:
            self._logs.add(log)
            log.waiters.add(self.on_append)

    def on_append(self) -> None:
        """Schedule one `read_more` for the next turn of the event loop, however many of its partitions grow before that."""
        if not self._has_grown:
            self._has_grown = True
            if not self._is_reading:
                self.request.broker.timers.loop.call_soon(self.read_more)

    def time_over(self) -> None:
        self._is_over = True
        self.read_more()

    def read_more(self) -> None:
        """Read again, and send the response if there is enough."""
        if self._timer is None or self._is_reading:
            return  # It was answered, or its client has disconnected; or `_answer_in_steps` reads again.
        self._has_grown = False
        try:
            response = self.answer()
        except Exception as fault:  # Nothing else would end the request.
            self.request.handle_fault(fault)
            return
        if response is not None:
            self.request.reply(response)

    def forget(self) -> None:
        """Wait no longer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for log in self._logs:
            log.waiters.discard(self.on_append)
        self._logs.clear()


def _read_partition(
    log: PartitionLog, fetch_partition: FetchPartition, committed: bool, left: int, first: bool, version: int
) -> tuple[PartitionData, int, bool]:
    """Return the response of one partition, its size in bytes, and whether later segments of the log have more records.

    `first`: no records yet, so at least one batch is returned. Raises StorageError if the file cannot be read.
    """
    index = fetch_partition.partition
    log.assign_offsets()
    error = _check(log, fetch_partition, version)
    if error:
        without_aborted = None if error in WITHOUT_ABORTED else ()
        return PartitionData(index, error, -1, aborted_transactions=without_aborted), 0, False
    high_watermark = log.next_offset
    stable = log.last_stable_offset
    offset = fetch_partition.fetch_offset
    end = stable if committed else high_watermark
    data = PartitionData(index, OK, high_watermark, stable, log.log_start_offset)
    diverging = _diverging_epoch(log, fetch_partition)
    if diverging is not None:
        data.aborted_transactions = () if committed else None
        data.diverging_epoch = diverging
        data.records = b""
        return data, 0, False
    taken, continues = 0, False
    data.records = b""
    limit = min(fetch_partition.partition_max_bytes, left)
    if offset < end and (limit > 0 or first):
        data.records, continues = log.read(offset, max(limit, 0), end, at_least_one=first)
        taken = len(data.records)
    if not committed or (offset < end and limit > 0 and not taken):
        data.aborted_transactions = None  # Also null when the first batch does not fit.
    else:
        data.aborted_transactions = [
            AbortedTransaction(entry.producer_id, entry.first_offset)
            for entry in log.aborted_in_fetch(offset, max(limit, taken), end)
        ]
    return data, taken, continues


def _diverging_epoch(log: PartitionLog, fetch_partition: FetchPartition) -> EpochEndOffset | None:
    """Return where the log diverges from the last epoch that the reader has fetched; None if it does not (KIP-595)."""
    last, offset = fetch_partition.last_fetched_epoch, fetch_partition.fetch_offset
    if last < 0 or (last == log.leader_epoch and offset <= log.next_offset):
        return None
    epoch, end = end_of_epoch(log.leader_epochs, last, log.log_start_offset, log.next_offset)
    return EpochEndOffset(epoch, end) if epoch < last or end < offset else None


def _at_node(request: Asking[Uses], body: FetchRequest, version: int) -> NodeFetches | None:
    """Return the checks for fetches at one of several nodes; None if there is only one node."""
    if not request.broker.nodes.are_many:
        return None
    from stuntbroker.broker.cluster.fetches import NodeFetches

    return NodeFetches(request, body, version)


def _refusal(body: FetchRequest) -> ErrorCode:
    """Return the error for each partition: NOT_LEADER_OR_FOLLOWER to a follower, as replicas here do not fetch."""
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if _is_follower(body) else OK


def _is_follower(body: FetchRequest) -> bool:
    return body.replica_id >= 0 or (body.replica_state is not None and body.replica_state.replica_id >= 0)


def _check(log: PartitionLog, fetch_partition: FetchPartition, version: int) -> ErrorCode:
    known, last = fetch_partition.current_leader_epoch, fetch_partition.last_fetched_epoch
    if known != log.leader_epoch and known >= 0:
        return epoch_error(known, log.leader_epoch)
    offset = fetch_partition.fetch_offset
    if offset < log.log_start_offset or last > log.leader_epoch or (offset > log.next_offset and last < 0):
        return ErrorCode.OFFSET_OUT_OF_RANGE
    if version < ZSTD_FROM and log.config.zstd:
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    return OK
