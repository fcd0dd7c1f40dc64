"""TxnOffsetCommit, key 28, versions 0-5: commits offsets of a group within a transaction.

v2 leader epochs. v3 flexible, the group's generation and member (KIP-447). v4 may return TRANSACTION_ABORTABLE. v5 adds
the offsets partition to the transaction (KIP-890).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from stuntbroker.broker.produce.coordinator_requests import CoordinatorRequest, required_request
from stuntbroker.broker.requests.request_part import RequestPart
from stuntbroker.broker.requests.slices import SLICE_COST, Steps, run_in_slices
from stuntbroker.broker.transactions.coordinator_errors import leader_code
from stuntbroker.broker.transactions.fences import NO_MEMBER, Identity
from stuntbroker.coordinator.requests import AddPartitions, Reply, Verify
from stuntbroker.groups.commits import COMMITTED_AT_ONCE
from stuntbroker.groups.offset_requests import OffsetCommit
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
)
from stuntbroker.protocol.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from stuntbroker.protocol.primitives import ZERO_UUID
from stuntbroker.protocol.topic_names import OFFSETS
from stuntbroker.protocol.transaction_states import TRANSACTION_V2
from stuntbroker.protocol.versions import OFFSETS_V2_FROM
from stuntbroker.storage.producers import TXN_OPEN, TXN_STALE_EPOCH

if TYPE_CHECKING:
    from stuntbroker.broker.produce.produce_ports import TxnOffsetCommitPorts
    from stuntbroker.broker.services import Asking, AskingPart


KEY: Final = 28
VERSIONS: Final = range(0, 6)


def handle(request: Asking[TxnOffsetCommitPorts], body: TxnOffsetCommitRequest, version: int) -> Any:
    """Store offsets that take effect when the transaction commits; None when the response comes later."""
    if sum(len(topic.partitions) for topic in body.topics) > COMMITTED_AT_ONCE:
        return run_in_slices(request, _in_parts(request, body, version))
    _Commit(request, body, version).start()
    return None


def _in_parts(
    request: Asking[TxnOffsetCommitPorts], body: TxnOffsetCommitRequest, version: int
) -> Steps[TxnOffsetCommitResponse | None]:
    """Write a part of the offsets at a time. The transaction is verified for each part: it may have ended in between."""
    # Unlike Kafka: many offsets are written in several batches; Kafka writes all offsets of a request in one batch.
    topics: list[TxnOffsetCommitResponseTopic] = []
    for some in _parts_of(body.topics):
        part_body = copy(body)  # A fault may deliver the request once more.
        part_body.topics = some
        part = RequestPart(request)
        _Commit(part, part_body, version).start()
        yield part.answer
        if part.answer.value is None:
            return None  # The connection was closed.
        for topic in part.answer.value.topics:
            if topics and topics[-1].name == topic.name:
                topics[-1].partitions = [*topics[-1].partitions, *topic.partitions]
            else:
                topics.append(topic)
        yield SLICE_COST
    return TxnOffsetCommitResponse(topics=topics)


def _parts_of(topics: Sequence[TxnOffsetCommitRequestTopic]) -> Iterator[list[TxnOffsetCommitRequestTopic]]:
    """Yield the topics in their order, in parts of up to COMMITTED_AT_ONCE partitions."""
    places = [(topic.name, partition) for topic in topics for partition in topic.partitions]
    for start in range(0, len(places), COMMITTED_AT_ONCE):
        some = groupby(places[start : start + COMMITTED_AT_ONCE], key=itemgetter(0))
        yield [
            TxnOffsetCommitRequestTopic(name, partitions=[partition for _, partition in group]) for name, group in some
        ]


class _Commit:
    """A commit of up to COMMITTED_AT_ONCE offsets: asks the transaction coordinator, then commits to the group."""

    __slots__ = ("answers", "commits", "body", "request", "response", "version")

    def __init__(self, request: AskingPart[TxnOffsetCommitPorts], body: TxnOffsetCommitRequest, version: int) -> None:
        self.request = request
        self.body = body
        self.version = version
        self.commits: list[OffsetCommit] = []
        self.answers: list[TxnOffsetCommitResponsePartition] = []
        topics = request.broker.topics
        responses = []
        for topic in body.topics:
            partitions = []
            for part in topic.partitions:
                answer = TxnOffsetCommitResponsePartition(part.partition_index, ErrorCode.NONE)
                partitions.append(answer)
                if topics.log(topic.name, part.partition_index) is None:
                    answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    continue
                self.answers.append(answer)
                self.commits.append(
                    OffsetCommit(
                        topic.name,
                        part.partition_index,
                        part.committed_offset,
                        part.committed_leader_epoch,
                        part.committed_metadata,
                        ZERO_UUID,
                    )
                )
            responses.append(TxnOffsetCommitResponseTopic(topic.name, partitions=partitions))
        self.response = TxnOffsetCommitResponse(topics=responses)

    def start(self) -> None:
        body, broker = self.body, self.request.broker
        if not self.commits:
            self.request.reply(self.response)
            return
        if not body.group_id:
            self._fail(ErrorCode.INVALID_GROUP_ID)
            return
        index = broker.groups.partition_of(body.group_id)
        log = broker.topics.internal_topic(OFFSETS).partitions[index]
        id_and_epoch = body.producer_id, body.producer_epoch
        txn_status = log.producers.txn_status(*id_and_epoch)
        if txn_status == TXN_STALE_EPOCH:
            self._fail(ErrorCode.INVALID_PRODUCER_EPOCH)
            return
        required = CoordinatorRequest.NONE
        if txn_status != TXN_OPEN:
            required = required_request(
                self.request,
                body.transactional_id,
                adds=self.version >= OFFSETS_V2_FROM,
                rejects_new_records=log.producers.rejects_new_records(body.producer_id),
                offsets=True,
            )
        if required is CoordinatorRequest.ADD:
            add = AddPartitions(*id_and_epoch, frozenset({(OFFSETS, index)}), TRANSACTION_V2)
            broker.transactions.ask(self.request, body.transactional_id, add, self._transaction_answered)
        elif required is CoordinatorRequest.VERIFY:
            verify = Verify(*id_and_epoch, (OFFSETS, index))
            broker.transactions.ask(self.request, body.transactional_id, verify, self._transaction_answered)
        else:
            self._transaction_answered(Reply(ErrorCode.NONE))

    def _transaction_answered(self, reply: Reply) -> None:
        if reply.error:
            self._fail(leader_code(reply.error, KEY, self.version))
            return
        body = self.body
        errors = self.request.broker.groups.commit_transactional(
            body.group_id,
            body.producer_id,
            body.producer_epoch,
            body.member_id,
            body.group_instance_id,
            body.generation_id_or_member_epoch,
            self.commits,
            self.version,
        )
        for answer, error in zip(self.answers, errors, strict=True):
            answer.error_code = error
        if member_errors := NO_MEMBER.intersection(errors):
            fences = self.request.broker.transactions.fences
            identity = Identity(body.producer_id, body.producer_epoch)
            fences.record_refusal(self.request, body.transactional_id, identity, min(member_errors))
        self.request.reply(self.response)

    def _fail(self, error: int) -> None:
        body = self.body
        identity = Identity(body.producer_id, body.producer_epoch)
        self.request.broker.transactions.fences.record_refusal(self.request, body.transactional_id, identity, error)
        for answer in self.answers:
            answer.error_code = error
        self.request.reply(self.response)
