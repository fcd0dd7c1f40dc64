"""Profile `kip-447-draft`: InitProducerId for a member of a consumer group fences producers that still hold its partitions.

This follows the first draft of KIP-447. InitProducerId (version 2 or later) carries a group, its generation and the partitions
assigned to the caller. Before the response, transactions with a pending offset of the group for one of these partitions are
aborted and their producers fenced. `groups/claims.py` rejects claims of older generations. An OffsetFetch version without
RequireStable gets a retriable error for a partition with a pending transactional offset.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from stuntbroker.coordinator.actor import Actor, OnReply
from stuntbroker.coordinator.requests import InitProducerId, Reply
from stuntbroker.coordinator.state import Txn
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.transaction_states import TIMEOUT_NONE

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasEvents, HasGroups, HasTransactions
    from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest

    class ClaimPorts(HasEvents, HasGroups, HasTransactions, Protocol):
        """The parts of the broker that this module uses."""


class Claim:
    """The claim in an InitProducerId request: a group, its generation and the assigned partitions."""

    __slots__ = ("broker", "generation", "group_id", "places", "request", "transactional_id")

    def __init__(self, request: Asking[ClaimPorts], body: InitProducerIdRequest) -> None:
        self.request = request
        self.broker = request.broker
        self.transactional_id = body.transactional_id
        self.group_id = body.consumer_group_id
        self.generation = body.generation_id
        self.places = [(topic.topic, index) for topic in body.assigned_partitions for index in topic.partitions]

    def refusal(self) -> int:
        """Record the claimed generation; return 0, or the error of an invalid claim.

        CONCURRENT_TRANSACTIONS if a two-phase commit transaction is open on the partitions: only its owner may end it (KIP-939).
        """
        if not self.group_id:
            return 0 if self.generation == -1 and not self.places else ErrorCode.INVALID_REQUEST
        error = self.broker.groups.claim(self.group_id, self.generation)
        if not error and any(actor.txn.timeout_ms == TIMEOUT_NONE for actor in self._holders()):
            return ErrorCode.CONCURRENT_TRANSACTIONS
        return error

    def _holders(self) -> list[Actor]:
        """Return the transactions with pending offsets on the partitions, except the caller's own (fenced by InitProducerId)."""
        if not self.group_id:
            return []
        producers = self.broker.groups.pending_producers(self.group_id, self.places)
        return [
            actor
            for actor in self.broker.transactions.open
            if actor.txn.producer_id in producers and actor.txn.transactional_id != self.transactional_id
        ]

    def fence(self, reply: Reply, done: OnReply) -> None:
        """Fence the other holders of the partitions, then call `done` with the caller's reply, or with an error of a fence."""
        holders = [] if reply.error else self._holders()
        if not holders:
            done(reply)
            return
        left, answer = len(holders), reply

        def fenced(txn: Txn, fence: Reply) -> None:
            nonlocal left, answer
            if fence.error:
                answer = Reply(fence.error)  # The caller retries.
            else:
                self.broker.transactions.fences.record_fence(txn, "group_generation", self.request)
                self.broker.events.info(
                    "producer_fenced_by_group",
                    group_id=self.group_id,
                    generation=self.generation,
                    transactional_id=txn.transactional_id,
                    producer_id=txn.producer_id,
                    producer_epoch=txn.producer_epoch,
                )
            left -= 1
            if not left:
                done(answer)

        for actor in holders:
            txn = actor.txn
            # As for a new instance: the abort bumps the epoch twice, so that the producer cannot recover its own epoch.
            init = InitProducerId(txn.timeout_ms)
            self.broker.transactions.ask(self.request, txn.transactional_id, init, partial(fenced, txn))
