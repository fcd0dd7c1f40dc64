"""AddOffsetsToTxn, key 25, versions 0-4: adds a group's offsets partition to a transaction.

v2 may return PRODUCER_FENCED. v3 flexible. v4 may also return TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.broker.transactions.coordinator_errors import coordinator_code
from stuntbroker.broker.transactions.fences import Identity
from stuntbroker.coordinator.requests import AddPartitions, Reply
from stuntbroker.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from stuntbroker.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from stuntbroker.protocol.topic_names import OFFSETS
from stuntbroker.protocol.transaction_states import TRANSACTION_V0

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasTopics, HasTransactions

    class Uses(HasTopics, HasTransactions, Protocol):
        """Parts of the broker that this module uses."""


KEY: Final = 25
VERSIONS = range(0, 5)


def handle(request: Asking[Uses], body: AddOffsetsToTxnRequest, version: int) -> AddOffsetsToTxnResponse | None:
    """Add the group's partition of `__consumer_offsets` to a transaction; None when the response comes later."""
    broker = request.broker
    transactional_id = body.transactional_id

    def done(reply: Reply) -> None:
        error = reply.error
        if error:
            identity = Identity(body.producer_id, body.producer_epoch)
            error = coordinator_code(request, transactional_id, identity, error, KEY, version)
        request.reply(AddOffsetsToTxnResponse(0, error))

    index = broker.topics.internal_topic(OFFSETS).partition_of(body.group_id)
    add = AddPartitions(body.producer_id, body.producer_epoch, frozenset({(OFFSETS, index)}), TRANSACTION_V0)
    broker.transactions.ask(request, transactional_id, add, done)
    return None
