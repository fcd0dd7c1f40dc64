"""Produce, key 0, versions 3-13: appends record batches to partitions.

v9 flexible. v11 may return TRANSACTION_ABORTABLE. v12 adds the partition to the transaction (KIP-890). v13 topic ids.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from stuntbroker.broker.metadata.unknown_topics import unknown_topic
from stuntbroker.broker.produce import plain_produce
from stuntbroker.broker.produce.client_append import append_first, append_or_error
from stuntbroker.broker.produce.coordinator_requests import CoordinatorRequest, is_verifying, required_request
from stuntbroker.broker.produce.long_produce import NEW_LOGS_AT_ONCE, PARTITIONS_AT_ONCE, long_steps
from stuntbroker.broker.produce.plain_produce import GENERAL
from stuntbroker.broker.produce.produce_checks import check_content, has_transactional, with_latest_timestamp
from stuntbroker.broker.produce.unacknowledged import fail_unacknowledged
from stuntbroker.broker.requests.apis import NO_RESPONSE
from stuntbroker.broker.requests.slices import run_in_slices
from stuntbroker.broker.transactions.coordinator_errors import leader_code
from stuntbroker.broker.transactions.fences import Identity
from stuntbroker.coordinator.requests import AddPartitions, Reply, Verify
from stuntbroker.protocol.batches.budget import ReadBudget
from stuntbroker.protocol.batches.check import check_batch, plain_header
from stuntbroker.protocol.batches.records import LOG_OVERHEAD, TRANSACTIONAL, BatchHeader
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.produce_response import PartitionProduceResponse, TopicProduceResponse
from stuntbroker.protocol.primitives import Buffer
from stuntbroker.protocol.produce_codec import ProduceFields, QuickProduceResponse, TopicBatches, read_request
from stuntbroker.protocol.request_values import ACKS_ALL, ACKS_LEADER, ACKS_NONE
from stuntbroker.protocol.transaction_states import TRANSACTION_V2
from stuntbroker.protocol.versions import PRODUCE_IDS_FROM, PRODUCE_V2_FROM
from stuntbroker.storage.large_batch import LARGE_BATCH_SIZE
from stuntbroker.storage.partition import PartitionLog
from stuntbroker.storage.producers import TXN_NOT_OPEN, TXN_OPEN, TXN_STALE_EPOCH

if TYPE_CHECKING:
    from stuntbroker.broker.metadata.topics import Topic
    from stuntbroker.broker.produce.produce_ports import ProducePorts
    from stuntbroker.broker.services import Asking, AskingPart


KEY: Final = 0
VERSIONS = range(3, 14)
decode = read_request
OK = ErrorCode.NONE
INVALID_PRODUCER_EPOCH: Final = ErrorCode.INVALID_PRODUCER_EPOCH


class AcceptedBatch:
    """A batch with a valid header. Even if its content is refused (error in `response`), it counts for its transaction."""

    __slots__ = ("header", "is_first", "log", "records", "response")

    def __init__(
        self, response: PartitionProduceResponse, log: PartitionLog, records: Buffer, header: BatchHeader
    ) -> None:
        self.response = response
        self.log = log
        self.records = records
        self.header = header
        self.is_first = False
        """Whether the coordinator has added or verified the partition for this batch, as in Kafka; see `append_first`."""


def handle(request: Asking[ProducePorts], fields: ProduceFields, version: int) -> Any:
    """Append the batches of one request; return the response, NO_RESPONSE with acks=0, or None when it comes later."""
    _, _, topic_batches = fields
    if len(topic_batches) == 1:
        ((_, _, parts),) = topic_batches
        if len(parts) <= NEW_LOGS_AT_ONCE:
            return _plain_or_not(request, fields, version)
    new = _new_logs(request.broker, topic_batches, version)
    if len(new) > NEW_LOGS_AT_ONCE or sum(len(parts) for _, _, parts in topic_batches) > PARTITIONS_AT_ONCE:
        return run_in_slices(request, long_steps(request, fields, version, new, _produce_part))
    return _plain_or_not(request, fields, version)


def _new_logs(broker: ProducePorts, topic_batches: TopicBatches, version: int) -> list[PartitionLog]:
    """Return the logs of the request that have no file yet."""
    new = []
    for name, topic_id, parts in topic_batches:
        topic = broker.topics.find(name, topic_id, version >= PRODUCE_IDS_FROM)
        if topic is not None and not topic.is_internal:
            logs = topic.partitions
            new += [logs[index] for index in parts if 0 <= index < len(logs) and not logs[index].segments]
    return new


def _plain_or_not(request: Asking[ProducePorts], fields: ProduceFields, version: int) -> Any:
    if version >= PRODUCE_V2_FROM:
        response = plain_produce.handle(request, fields, version)
        if response is not GENERAL:
            return response
    now_ms = request.broker.clock.now_ms()
    batches = _check(request.broker, fields, version, now_ms, is_part=False)
    if batches is None:
        return run_in_slices(request, long_steps(request, fields, version, [], _produce_part))
    return _produce(request, fields, version, batches, now_ms)


def _produce_part(part: AskingPart[ProducePorts], fields: ProduceFields, version: int) -> Any:
    """Handle a part of a long request: `long_steps` has written its large batches ahead."""
    now_ms = part.broker.clock.now_ms()
    batches = _check(part.broker, fields, version, now_ms, is_part=True)
    assert batches is not None
    return _produce(part, fields, version, batches, now_ms)


class _Batches:
    """The batches of a request that may be appended, and what their transaction needs before that."""

    __slots__ = ("accepted", "failed", "first", "is_mixed", "responses", "stale", "to_add")

    def __init__(self) -> None:
        self.responses: list[TopicProduceResponse] = []
        self.accepted: list[AcceptedBatch] = []
        self.failed = False
        """Whether a batch has been refused."""
        self.first: BatchHeader | None = None
        """Header of the first transactional batch."""
        self.is_mixed = False
        """Whether transactional batches differ in producer id or epoch."""
        self.to_add: list[AcceptedBatch] = []
        """Batches whose transaction is not open in their partition."""
        self.stale: list[AcceptedBatch] = []
        """Batches of an older producer epoch than their partition has seen."""

    def add(self, batch: AcceptedBatch) -> None:
        """Add a batch, and note whether its partition must be added to the transaction or its epoch is stale."""
        self.accepted.append(batch)
        header = batch.header
        if not header.attributes & TRANSACTIONAL:
            return
        producer_id, epoch = header.producer_id, header.producer_epoch
        if self.first is None:
            self.first = header
        elif producer_id != self.first.producer_id or epoch != self.first.producer_epoch:
            self.is_mixed = True
        txn_status = batch.log.producers.txn_status(producer_id, epoch)
        if txn_status == TXN_STALE_EPOCH:
            self.stale.append(batch)
        elif txn_status == TXN_NOT_OPEN and producer_id >= 0:  # A batch without a producer id is in no transaction.
            self.to_add.append(batch)

    def are_of_several_producers(self) -> bool:
        """Return whether transactional batches have more than one producer id and epoch, those without a producer id aside."""
        headers = [each.header for each in self.accepted if each.header.attributes & TRANSACTIONAL]
        return len({(each.producer_id, each.producer_epoch) for each in headers if each.producer_id >= 0}) > 1


def _produce(
    request: AskingPart[ProducePorts], fields: ProduceFields, version: int, batches: _Batches, now_ms: int
) -> Any:
    """Append the batches of a request, or of a part of it, after asking the coordinator where necessary."""
    transactional_id, acks, topic_batches = fields
    answer = QuickProduceResponse(batches.responses)
    if batches.first is not None:
        if transactional_id is None:
            return _refuse_all(request, acks, answer, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if batches.is_mixed and batches.are_of_several_producers():
            return _refuse_all(request, acks, answer, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if batches.to_add or batches.stale:
            _PendingProduce(request, acks, version, answer, batches).start(transactional_id, now_ms)
            return None
    elif batches.failed and transactional_id is None and has_transactional(topic_batches):
        return _refuse_all(request, acks, answer, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    failed = _append_all(request.broker, batches.accepted, now_ms, version >= PRODUCE_V2_FROM) or batches.failed
    if failed:
        _log_fencing(request, transactional_id, batches.accepted)
    if acks == ACKS_NONE:
        return _unacknowledged(request, failed)
    return answer


def _check(broker: ProducePorts, fields: ProduceFields, version: int, now_ms: int, *, is_part: bool) -> _Batches | None:
    """Validate each batch of a request, or of a part of it; return None if a large batch requires handling in slices."""
    _, acks, topic_batches = fields
    batches = _Batches()
    batches.failed = acks_wrong = acks not in (ACKS_ALL, ACKS_NONE, ACKS_LEADER)
    budget: ReadBudget | None = None  # For batches that are not plain.
    for name, topic_id, parts in topic_batches:
        topic = broker.topics.find(name, topic_id, version >= PRODUCE_IDS_FROM)
        logs = () if topic is None or topic.is_internal else topic.partitions
        partitions: list[PartitionProduceResponse] = []
        batches.responses.append(TopicProduceResponse(name, topic_id, partitions))
        for index, records in parts.items():
            response = PartitionProduceResponse(index, OK, -1)
            partitions.append(response)
            header: BatchHeader | None = None
            if records is not None and 0 <= index < len(logs):
                config = logs[index].config
                header = plain_header(records, config.plain_bytes_max, config.timestamp_max(now_ms))
            accepted: AcceptedBatch | None
            if records is not None and header is not None:
                accepted = AcceptedBatch(response, logs[index], records, header)
            else:
                budget = budget or ReadBudget()
                if not is_part and records is not None and len(records) > LARGE_BATCH_SIZE:
                    return None
                accepted = _accept(topic, index, records, version, now_ms, response, budget)
                if accepted is None:
                    batches.failed = True
                    continue
            if acks_wrong:
                _refuse(response, ErrorCode.INVALID_REQUIRED_ACKS)
            batches.add(accepted)
    return batches


def _accept(
    topic: Topic | None,
    index: int,
    records: Buffer | None,
    version: int,
    now_ms: int,
    response: PartitionProduceResponse,
    budget: ReadBudget,
) -> AcceptedBatch | None:
    """Check a batch that is not plain, before its transaction is checked; return None if it needs no further processing.

    A batch with a valid header and invalid content still counts for its transaction; its response has the error already.
    """
    if topic is None or not topic.has_partition(index):
        response.error_code = unknown_topic(by_id=topic is None and version >= PRODUCE_IDS_FROM)
        return None
    log = topic.partitions[index]
    if topic.is_internal:
        response.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION
        response.error_message = f"Cannot append to internal topic {topic.name}"
        return None
    config = log.config
    header, error, message = check_batch(records, version, config.max_message_bytes)
    if error == OK:
        assert header is not None and records is not None
        size = header.length + LOG_OVERHEAD
        large = log.find_large(records)
        if size != len(records):
            records = records[:size]
            if large is not None:
                large.batch = records
        is_first = budget.is_whole
        if large is None and header.max_timestamp < header.base_timestamp and not config.log_append_time:
            records, header = with_latest_timestamp(records, header, budget)
        filled = None if large is None else large.is_filled
        error, message, response.record_errors = check_content(
            records, header, config, now_ms, budget, filled, is_first
        )
        if error == OK:
            return AcceptedBatch(response, log, records, header)
        response.log_start_offset = log.log_start_offset
    response.error_code, response.error_message = error, message
    if header is None:
        return None
    assert records is not None
    return AcceptedBatch(response, log, records, header)


def _append_all(broker: ProducePorts, accepted_batches: list[AcceptedBatch], now_ms: int, implicit: bool) -> bool:
    """Write the batches that have no error yet and complete their responses; True when there was an error.

    `implicit`: the request may have opened the transaction (KIP-890).
    """
    failed = False
    for batch in accepted_batches:
        response, log, header = batch.response, batch.log, batch.header
        if response.error_code != OK:
            failed = True
            if batch.is_first:
                log.producers.mark_unresolved(header, implicit, now_ms)
            continue
        opens = implicit and header.attributes & TRANSACTIONAL != 0
        append = append_first if batch.is_first else append_or_error
        error, response.base_offset, response.log_append_time_ms, response.log_start_offset = append(
            broker.events, log, batch.records, header, now_ms, opens
        )
        if error != OK:
            response.error_code = error
            failed = True
    return failed


def _log_fencing(
    request: AskingPart[ProducePorts], transactional_id: str | None, accepted_batches: list[AcceptedBatch]
) -> None:
    """Log one line if the batches are those of a fenced producer."""
    if transactional_id is not None:
        batches = {each.response.error_code: each.header for each in accepted_batches}
        for error, header in batches.items():
            identity = Identity(header.producer_id, header.producer_epoch)
            request.broker.transactions.fences.record_refusal(request, transactional_id, identity, error)


def _unacknowledged(request: AskingPart[ProducePorts], failed: bool) -> Any:
    """Return NO_RESPONSE, as acks=0 wants; close the connection after a failure, as there is no other way to report it."""
    return fail_unacknowledged(request) if failed else NO_RESPONSE


def _refuse(response: PartitionProduceResponse, error: int) -> None:
    """Set the error of a response, and clear the details of an earlier error."""
    response.error_code, response.error_message, response.record_errors = error, None, ()
    response.log_start_offset = -1


def _refuse_all(request: AskingPart[ProducePorts], acks: int, answer: QuickProduceResponse, error: ErrorCode) -> Any:
    for topic in answer.responses:
        for part in topic.partition_responses:
            part.error_code = error
            part.base_offset = -1
    return _unacknowledged(request, True) if acks == ACKS_NONE else answer


_NOT_ADDED: Final = (ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE)
"""Errors of a verification for a partition that is not part of the transaction: which of them depends on the version."""


class _PendingProduce:
    """A request whose partitions must be verified by, or added to, the transaction before its batches are appended."""

    __slots__ = (
        "acks",
        "answer",
        "asking_since_ms",
        "request",
        "is_verified",
        "accepted_batches",
        "stale",
        "to_add",
        "transactional_id",
        "unanswered",
        "version",
    )

    def __init__(
        self,
        request: AskingPart[ProducePorts],
        acks: int,
        version: int,
        answer: QuickProduceResponse,
        batches: _Batches,
    ) -> None:
        self.request = request
        self.acks = acks
        self.version = version
        self.is_verified = version >= PRODUCE_V2_FROM or is_verifying(request)
        """Whether the coordinator adds or verifies all partitions, as in Kafka; if not, only those of `required_request`."""
        self.answer = answer
        self.accepted_batches = batches.accepted
        self.to_add = batches.to_add
        self.stale = batches.stale
        self.unanswered = 0
        """Pending Verify requests to the coordinator."""
        self.asking_since_ms = -1
        """Wall-clock ms during the call that adds partitions, else -1: a synchronous reply reuses it."""
        self.transactional_id = ""

    def start(self, transactional_id: str, now_ms: int) -> None:
        self.transactional_id = transactional_id
        if self.is_verified:  # Otherwise the log refuses these batches, unless their responses have an error already.
            for batch in self.stale:
                _refuse(batch.response, INVALID_PRODUCER_EPOCH)
        if self.to_add:
            self._ask(now_ms)
        else:
            self._write(now_ms)

    def _ask(self, now_ms: int) -> None:
        transactional_id, to_add = self.transactional_id, self.to_add
        broker = self.request.broker
        header = to_add[0].header
        producer_id, epoch = header.producer_id, header.producer_epoch
        required = required_request(
            self.request,
            transactional_id,
            adds=self.version >= PRODUCE_V2_FROM,
            rejects_new_records=any(each.log.producers.rejects_new_records(each.header.producer_id) for each in to_add),
        )
        if required is CoordinatorRequest.ADD:
            partitions = frozenset([batch.log.name for batch in to_add])
            self.asking_since_ms = now_ms
            add = AddPartitions(producer_id, epoch, partitions, TRANSACTION_V2)
            broker.transactions.ask(self.request, transactional_id, add, self._added)
            self.asking_since_ms = -1
        elif required is CoordinatorRequest.VERIFY:
            self.unanswered = len(to_add)
            for batch in to_add:
                verify = Verify(producer_id, epoch, batch.log.name)
                broker.transactions.ask(self.request, transactional_id, verify, partial(self._verified, batch))
        else:
            self._write(now_ms)

    def _added(self, reply: Reply) -> None:
        if reply.error:
            for batch in self.to_add:
                _refuse(batch.response, leader_code(reply.error, KEY, self.version))
        self._write(self.asking_since_ms if self.asking_since_ms >= 0 else self.request.broker.clock.now_ms())

    def _verified(self, batch: AcceptedBatch, reply: Reply) -> None:
        if reply.error:
            code = leader_code(reply.error, KEY, self.version)
            _refuse(batch.response, code)
            if code in _NOT_ADDED:
                batch.response.error_message = "the partition was not added to the transaction"
        self.unanswered -= 1
        if not self.unanswered:
            self._write(self.request.broker.clock.now_ms())

    def _choose_all_if_ended(self) -> bool:
        """Choose all batches without an error to be added or verified again, if the transaction has ended meanwhile.

        It may have ended in another partition of the request, while this one waited for the coordinator. Return whether it has.
        """
        added = {id(batch) for batch in self.to_add}
        others = [
            batch
            for batch in self.accepted_batches
            if id(batch) not in added
            and not batch.response.error_code
            and batch.header.attributes & TRANSACTIONAL
            and batch.header.producer_id >= 0
        ]
        if all(
            batch.log.producers.txn_status(batch.header.producer_id, batch.header.producer_epoch) == TXN_OPEN
            for batch in others
        ):
            return False
        self.to_add = [batch for batch in (*self.to_add, *others) if not batch.response.error_code]
        return True

    def _write(self, now_ms: int) -> None:
        if self.asking_since_ms < 0 and len(self.to_add) < len(self.accepted_batches) and self._choose_all_if_ended():
            self._ask(now_ms)
            return
        broker, implicit = self.request.broker, self.version >= PRODUCE_V2_FROM
        for batch in self.to_add:
            batch.is_first = self.is_verified
        failed = _append_all(broker, self.accepted_batches, now_ms, implicit)
        if failed:
            _log_fencing(self.request, self.transactional_id, self.accepted_batches)
        self.request.reply(_unacknowledged(self.request, failed) if self.acks == ACKS_NONE else self.answer)
