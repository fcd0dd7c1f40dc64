"""Requests to the coordinators of a transactional id and of consumer groups, retried according to the error table."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from stuntbroker.client.backoff import next_backoff_s
from stuntbroker.client.connections.connections import Connections, Link
from stuntbroker.client.connections.options import BACKOFF_MS_MIN
from stuntbroker.client.logger import log
from stuntbroker.client.prepared_state import (
    NO_PRODUCER,
    PAIR_FROM,
    PreparedTxnState,
    transaction_version,
)
from stuntbroker.client.producer.error_table import NO_FACTS, Fact, Kind, Request, worst
from stuntbroker.client.producer.session import Session
from stuntbroker.client.producer.states import State
from stuntbroker.client.requests import Answer
from stuntbroker.client.transactional_errors import (
    DisconnectedError,
    FatalError,
    ProducerError,
    TransactionAbortableError,
    UnexpectedError,
)
from stuntbroker.protocol.api_keys import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    TXN_OFFSET_COMMIT,
)
from stuntbroker.protocol.errors import DraftCode, ErrorCode
from stuntbroker.protocol.features import KIP_588_FEATURE, TRANSACTION_VERSION
from stuntbroker.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from stuntbroker.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from stuntbroker.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from stuntbroker.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.end_txn_response import EndTxnResponse
from stuntbroker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from stuntbroker.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.init_producer_id_response import InitProducerIdResponse
from stuntbroker.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from stuntbroker.protocol.messages.txn_offset_commit_response import TxnOffsetCommitResponse
from stuntbroker.protocol.primitives import INT16_MAX, Message
from stuntbroker.protocol.request_values import OF_GROUP, OF_TRANSACTION
from stuntbroker.protocol.topic_names import TopicPartition
from stuntbroker.protocol.versions import END_TXN_V2_FROM, OFFSETS_V2_FROM, SEVERAL_FROM, TWO_PHASE_FROM

FIND_COORDINATOR_MAX: Final = SEVERAL_FROM[FIND_COORDINATOR] - 1
"""Later versions look up many keys."""
ADD_PARTITIONS_MAX: Final = SEVERAL_FROM[ADD_PARTITIONS_TO_TXN] - 1
"""Later versions are for brokers."""
OFFSETS_WITH_GROUP_FROM: Final = 3
"""First version of TxnOffsetCommit with generation, member and instance (KIP-447)."""
OFFSETS_NAMES_MAX: Final = 5
"""Later versions name topics by id."""
CONCURRENT_BACKOFF_S: Final = 0.02
"""Back-off while the coordinator completes the previous transaction, as in Apache Kafka's producer."""


GroupKey = str | None
"""A consumer group, or None for the transactional id."""


class GroupMetadata(NamedTuple):
    """Group membership under which records were read, by which the coordinator fences TxnOffsetCommit (KIP-447)."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


_BEGINNING: Final = frozenset({Request.ADD_PARTITIONS, Request.ADD_OFFSETS})
_ENDING: Final = frozenset({Request.END_TXN_COMMIT, Request.END_TXN_ABORT})
_RUNNING: Final = frozenset({State.IN_TRANSACTION, State.COMMITTING_TRANSACTION})
_OF_TRANSACTION: Final = frozenset({Request.ADD_PARTITIONS, Request.ADD_OFFSETS, Request.TXN_OFFSET_COMMIT})


class StoppedError(ProducerError):
    """The transaction has failed meanwhile, and the request is not retried."""


class Coordination:
    """Sends requests for the transactional id, one at a time, as Apache Kafka's producer does."""

    def __init__(self, session: Session, connections: Connections, retry_backoff_ms: int) -> None:
        self._session = session
        self._connections = connections
        self._backoff_s = max(retry_backoff_ms, BACKOFF_MS_MIN) / 1000
        self._nodes: dict[GroupKey, int] = {}
        self._link: Link | None = None
        """The coordinator's connection from which the transaction version was read."""
        self._request_lock = asyncio.Lock()

    # --- operations

    async def init(self, timeout_ms: int, two_phase: bool, keep: bool) -> None:
        """Send InitProducerId: fence every other producer with the transactional id, and abort its transaction.

        With `keep`, a prepared transaction stays open, and `session.prepared` identifies it (KIP-939).
        """
        request = InitProducerIdRequest(self._session.transactional_id, timeout_ms, *NO_PRODUCER, two_phase, keep)
        least, most = (TWO_PHASE_FROM, INT16_MAX) if two_phase or keep else (0, TWO_PHASE_FROM - 1)
        answer = await self._init(request, least, most, NO_FACTS)
        ongoing = PreparedTxnState(answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch)
        self._session.prepared = None if ongoing == NO_PRODUCER else ongoing
        self._session.has_started = self._session.prepared is not None

    async def bump(self, timeout_ms: int, two_phase: bool) -> None:
        """Send InitProducerId with the current producer id and epoch, to get the next epoch unless fenced (KIP-360)."""
        owner = self._session.identity
        request = InitProducerIdRequest(self._session.transactional_id, timeout_ms, *owner, two_phase, False)
        least, most = (TWO_PHASE_FROM, INT16_MAX) if two_phase else (PAIR_FROM, TWO_PHASE_FROM - 1)
        await self._init(request, least, most, Fact.ASKS_FOR_NEW_EPOCH)
        log.debug("%r: from %s to %s", self._session.transactional_id, owner, self._session.identity)

    async def _init(self, request: InitProducerIdRequest, least: int, most: int, facts: Fact) -> InitProducerIdResponse:
        async with self._request_lock:
            answer = await self._ask(
                Request.INIT_PRODUCER_ID,
                INIT_PRODUCER_ID,
                request,
                InitProducerIdResponse,
                lambda answer: answer.error_code,
                least=least,
                most=most,
                facts=facts,
            )
            self._session.identity = PreparedTxnState(answer.producer_id, answer.producer_epoch)
            self._session.needs_new_epoch = False
            await self._read_first_transaction_version()
        return answer

    async def join(self) -> None:
        """Read the transaction version of the cluster, for a producer that joins another producer's transaction."""
        async with self._request_lock:
            await self._read_first_transaction_version()

    async def add_partitions(self, missing: Callable[[], Sequence[TopicPartition]]) -> None:
        """Send AddPartitionsToTxn for the partitions that `missing` returns. Not needed under transaction version 2."""
        async with self._request_lock:
            session, partitions = self._session, missing()
            if not partitions or session.is_version_2 or session.state not in _RUNNING:
                return
            topics: dict[str, list[int]] = {}
            for topic, partition in partitions:
                topics.setdefault(topic, []).append(partition)
            added = [AddPartitionsToTxnTopic(topic, numbers) for topic, numbers in topics.items()]
            await self._ask(
                Request.ADD_PARTITIONS,
                ADD_PARTITIONS_TO_TXN,
                AddPartitionsToTxnRequest((), session.transactional_id, *session.identity, added),
                AddPartitionsToTxnResponse,
                self._worst_partition,
                most=ADD_PARTITIONS_MAX,
            )
            session.has_started = True
            session.added.update(partitions)

    async def commit_offsets(self, group: GroupMetadata, offsets: Mapping[TopicPartition, tuple[int, str]]) -> None:
        """Send TxnOffsetCommit; below transaction version 2, AddOffsetsToTxn first. `offsets`: (offset, metadata)."""
        is_version_2 = self._session.is_version_2
        transaction = self._session.transactions
        async with self._request_lock:
            self._check_running(Request.TXN_OFFSET_COMMIT, transaction)
            self._session.has_started |= is_version_2
            if not is_version_2 and group.group_id not in self._session.groups_added:
                await self._ask(
                    Request.ADD_OFFSETS,
                    ADD_OFFSETS_TO_TXN,
                    AddOffsetsToTxnRequest(self._session.transactional_id, *self._session.identity, group.group_id),
                    AddOffsetsToTxnResponse,
                    lambda answer: answer.error_code,
                )
                self._check_running(Request.TXN_OFFSET_COMMIT, transaction)
                self._session.has_started = True
                self._session.groups_added.add(group.group_id)
            topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
            for (topic, partition), (offset, metadata) in offsets.items():
                part = TxnOffsetCommitRequestPartition(partition, offset, -1, metadata)
                topics.setdefault(topic, []).append(part)
            request = TxnOffsetCommitRequest(
                self._session.transactional_id,
                group.group_id,
                *self._session.identity,
                group.generation_id,
                group.member_id,
                group.group_instance_id,
                [TxnOffsetCommitRequestTopic(topic, partitions=parts) for topic, parts in topics.items()],
            )
            await self._ask(
                Request.TXN_OFFSET_COMMIT,
                TXN_OFFSET_COMMIT,
                request,
                TxnOffsetCommitResponse,
                self._worst_offset,
                group=group.group_id,
                least=OFFSETS_V2_FROM if is_version_2 else OFFSETS_WITH_GROUP_FROM,
                most=OFFSETS_NAMES_MAX if is_version_2 else OFFSETS_V2_FROM - 1,
            )
            self._check_running(Request.TXN_OFFSET_COMMIT, transaction)

    async def wait_for_requests(self) -> None:
        """Wait for the responses to all requests that were made before."""
        async with self._request_lock:
            pass

    async def end(self, commit: bool) -> bool:
        """Send EndTxn. Return whether the transaction was committed: False also if the coordinator had already aborted it.

        Under transaction version 2, the response contains the producer's next epoch (KIP-890).
        """
        async with self._request_lock:
            if commit and self._session.state is not State.COMMITTING_TRANSACTION:
                raise StoppedError("EndTxn: the transaction has failed meanwhile")
            self._session.is_commit_under_way = commit
            answer = await self._commit() if commit else await self._abort()
            if isinstance(answer, ProducerError):
                answer, commit = await self._abort_after(answer), False
            if answer is not None and answer.producer_id >= 0:
                self._session.identity = PreparedTxnState(answer.producer_id, answer.producer_epoch)
                self._session.needs_new_epoch = False
            was_version_2 = self._session.is_version_2
            with suppress(FatalError):  # The transaction has ended: the error is for the next one.
                await self._read_transaction_version()
            # KIP-890: the first transaction of version 2 needs an epoch that no request of version 1 carries.
            self._session.needs_new_epoch |= self._session.is_version_2 and not was_version_2
        return commit

    async def _commit(self) -> EndTxnResponse | ProducerError:
        """Return the response, or why the transaction may not have been committed."""
        session = self._session
        try:
            answer = await self._end(commit=True)
        except TransactionAbortableError as error:
            if session.draft_codes and error.code == DraftCode.TRANSACTION_TIMED_OUT:
                raise  # The coordinator says that it has aborted the transaction.
            # An earlier request whose response was lost may have committed.
            return session.error or error
        if not answer.error_code:
            return answer
        refusal = session.response_error(Request.END_TXN_COMMIT, answer.error_code, answer.fence_reason)
        session.fail_abortable(refusal)
        return refusal

    async def _abort_after(self, refusal: ProducerError) -> EndTxnResponse:
        """Abort after a rejected commit: this succeeds only if nothing has been committed.

        A coordinator that had aborted the transaction itself returns the next epoch. If the producer was fenced, or the
        commit took place after all, the abort is rejected too, which is fatal.
        """
        answer = await self._abort()
        if answer is None:
            error = UnexpectedError(f"it is not known whether this committed: {refusal.args[0]}")
            self._session.fail_fatal(error)
            raise error
        return answer

    async def _abort(self) -> EndTxnResponse | None:
        """Return the response, or None if the coordinator no longer knows the producer: then there is nothing to abort."""
        try:
            return await self._end(commit=False)
        except TransactionAbortableError:
            self._session.needs_new_epoch = True
            return None

    async def _end(self, commit: bool) -> EndTxnResponse:
        session = self._session
        is_version_2 = session.is_version_2
        request = EndTxnRequest(session.transactional_id, *session.identity, commit)
        return await self._ask(
            Request.END_TXN_COMMIT if commit else Request.END_TXN_ABORT,
            END_TXN,
            request,
            EndTxnResponse,
            lambda answer: answer.error_code,
            least=END_TXN_V2_FROM if is_version_2 else 0,
            most=INT16_MAX if is_version_2 else END_TXN_V2_FROM - 1,
        )

    # --- requests and retries

    async def _read_first_transaction_version(self) -> None:
        """Read the transaction version; if none was read before, repeat this until there is a connection."""
        await self._read_transaction_version()
        while not self._has_read_version:
            await asyncio.sleep(self._backoff_s)
            await self._read_transaction_version()
            if self._has_read_version:
                self._session.last_fault = None

    @property
    def _has_read_version(self) -> bool:
        return self._link is not None

    async def _read_transaction_version(self) -> None:
        """Read the cluster's transaction version, and whether InitProducerId 3 exists, from the coordinator's connection."""
        try:
            link = await self._connections.link(await self._node(None))
        except DisconnectedError as fault:  # The previous values hold until there is a connection again.
            self._nodes.pop(None, None)
            self._session.last_fault = fault
            return
        except FatalError as fault:
            self._session.fail_fatal(fault)
            raise
        if link is self._link:
            return
        self._link = link
        self._session.can_get_new_epoch = link.versions.get(INIT_PRODUCER_ID, (0, 0))[1] >= PAIR_FROM
        self._session.draft_codes = KIP_588_FEATURE in link.features
        self._session.transaction_version = transaction_version(
            link.features.get(TRANSACTION_VERSION, 0), link.versions
        )

    async def _node(self, group: GroupKey, facts: Fact = NO_FACTS) -> int:
        """Return the node id of the coordinator of the transactional id or of a group; look it up if it is not known."""
        node_id = self._nodes.get(group)
        if node_id is None:
            key = self._session.transactional_id if group is None else group
            request = FindCoordinatorRequest(key, OF_TRANSACTION if group is None else OF_GROUP, [key])

            async def attempt() -> FindCoordinatorResponse:
                any_node = self._connections.any_node()
                if any_node is None:
                    await self._connections.refresh()
                    raise DisconnectedError("no broker is known")
                return await self._connections.ask(
                    any_node, FIND_COORDINATOR, request, FindCoordinatorResponse, most=FIND_COORDINATOR_MAX
                )

            kind = Request.FIND_COORDINATOR if group is None else Request.FIND_GROUP_COORDINATOR
            answer = await self._send_with_retries(kind, attempt, lambda answer: answer.error_code, facts=facts)
            node_id = self._nodes[group] = answer.node_id
        return node_id

    async def _ask(
        self,
        kind: Request,
        key: int,
        request: Message,
        answer: type[Answer],
        code_of: Callable[[Answer], int],
        *,
        group: GroupKey = None,
        least: int = 0,
        most: int = INT16_MAX,
        facts: Fact = NO_FACTS,
    ) -> Answer:
        """Send a request to its coordinator, with retries, and return the final response.

        `facts`: those that only the caller knows.
        """

        async def attempt() -> Answer:
            return await self._connections.ask(await self._node(group, facts), key, request, answer, least, most)

        return await self._send_with_retries(kind, attempt, code_of, group, facts)

    async def _send_with_retries(
        self,
        kind: Request,
        attempt: Callable[[], Coroutine[None, None, Answer]],
        code_of: Callable[[Answer], int],
        group: GroupKey = None,
        facts: Fact = NO_FACTS,
    ) -> Answer:
        """Retry a request until it succeeds, or returns an error whose meaning only an abort shows (ABORT_TO_DETERMINE_OUTCOME).

        Raises TransactionAbortableError, FatalError; StoppedError if the transaction has failed meanwhile.
        """
        backoff_s = self._backoff_s
        self._session.may_have_started |= kind in _BEGINNING  # Even if the wait for the response is cancelled.
        while True:
            try:
                answer = await attempt()
            except DisconnectedError as fault:
                log.debug("%r: %s: %s", self._session.transactional_id, kind, fault)
                self._session.last_fault = fault
                self._session.needs_new_epoch |= kind in _ENDING and self._late_end_is_dangerous
                self._nodes.pop(group, None)
            except FatalError as fault:
                self._session.fail_fatal(fault)
                raise
            else:
                code = code_of(answer)
                reason: str | None = getattr(answer, "fence_reason", None)
                outcome_kind = self._session.apply_error_code(kind, code, kind, reason, facts)
                if outcome_kind in (Kind.SUCCESS, Kind.ABORT_TO_DETERMINE_OUTCOME):
                    self._session.last_fault = None
                    return answer
                self._session.last_fault = self._session.response_error(kind, code, reason)
                if outcome_kind is Kind.REFRESH:
                    self._nodes.pop(group, None)
                elif outcome_kind is not Kind.RETRY:
                    raise self._final_error(kind, code, reason)
                if code == ErrorCode.CONCURRENT_TRANSACTIONS:
                    backoff_s = min(backoff_s, CONCURRENT_BACKOFF_S)
            self._check_still_needed(kind)
            await asyncio.sleep(backoff_s)
            self._check_still_needed(kind)
            backoff_s = next_backoff_s(backoff_s)

    @property
    def _late_end_is_dangerous(self) -> bool:
        """Whether an EndTxn without a response could end the next transaction, and a new epoch can prevent it.

        Under transaction version 2, every transaction has an epoch of its own (KIP-890).
        """
        # Unlike Kafka: Java's producer keeps the epoch, and the late request ends the next transaction.
        return not self._session.is_version_2 and self._session.can_get_new_epoch

    def _final_error(self, kind: Request, code: int, reason: str | None) -> ProducerError:
        """Return the error for a response that is not retried."""
        cause = self._session.response_error(kind, code, reason)
        if self._session.state is State.FATAL_ERROR:
            assert self._session.error is not None
            return self._session.error
        error = TransactionAbortableError(f"{self._session.transactional_id!r}: {cause.args[0]}", code)
        error.reason = reason
        error.__cause__ = cause
        return error

    def _worst_partition(self, answer: AddPartitionsToTxnResponse) -> int:
        parts = (part for topic in answer.results_by_topic_v3_and_below for part in topic.results_by_partition)
        return worst(Request.ADD_PARTITIONS, (part.partition_error_code for part in parts), self._session.facts)

    def _worst_offset(self, answer: TxnOffsetCommitResponse) -> int:
        codes = (part.error_code for topic in answer.topics for part in topic.partitions)
        return worst(Request.TXN_OFFSET_COMMIT, codes, self._session.facts)

    def _check_running(self, kind: Request, transaction: int) -> None:
        """Raise StoppedError when the transaction in which a request was made has failed or ended."""
        if self._session.transactions != transaction or self._session.state not in _RUNNING:
            raise StoppedError(f"{kind}: the transaction has failed or ended meanwhile")

    def _check_still_needed(self, kind: Request) -> None:
        """Raise the producer's fatal error, if any, or StoppedError if the response is no longer needed."""
        state = self._session.state
        if state is State.FATAL_ERROR and self._session.error is not None:
            raise self._session.error.with_traceback(None)
        if state is State.CLOSED or (kind in _OF_TRANSACTION and state not in _RUNNING):
            raise StoppedError(f"{kind}: the producer is {state}")
