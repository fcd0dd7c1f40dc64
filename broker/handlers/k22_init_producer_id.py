"""InitProducerId, key 22, versions 0-6: a producer id and epoch; fences the previous producer of a transactional id.

v2 flexible. v3 the producer may send its current id and epoch (KIP-360). v4 may return PRODUCER_FENCED, v5 also
TRANSACTION_ABORTABLE. v6 two-phase commit (KIP-939): Enable2Pc, KeepPreparedTxn, and the producer id and epoch of the
recovered transaction; served while `transaction.two.phase.commit.enable` is on, and refused to the transactional ids of
`stuntbroker.deny.two.phase.commit`.

Tagged fields 9000 to 9002, the claim of a consumer group's member, are used in profile `kip-447-draft` only.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.broker.configuration.properties import KIP_447_DRAFT, KIP_588
from stuntbroker.broker.permissions.permitted import may
from stuntbroker.broker.transactions.coordinator_errors import coordinator_code
from stuntbroker.broker.transactions.fences import Identity, cause_of
from stuntbroker.broker.transactions.group_fencing import Claim
from stuntbroker.coordinator.requests import InitProducerId, Reply
from stuntbroker.protocol.acls import Operation, Resource
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.init_producer_id_response import InitProducerIdResponse
from stuntbroker.protocol.transaction_states import TIMEOUT_NONE
from stuntbroker.protocol.versions import TWO_PHASE_FROM
from stuntbroker.storage.errors import StorageError

if TYPE_CHECKING:
    from stuntbroker.broker.services import Asking, HasConfig
    from stuntbroker.broker.transactions.group_fencing import ClaimPorts

    class Uses(ClaimPorts, HasConfig, Protocol):
        """Parts of the broker that this module uses."""


KEY: Final = 22
VERSIONS = range(0, 7)


def handle(request: Asking[Uses], body: InitProducerIdRequest, version: int) -> InitProducerIdResponse | None:
    """Give a producer its id and epoch; None when the response comes later, or the connection had to be closed."""
    broker = request.broker
    if version >= TWO_PHASE_FROM and not broker.config["transaction.two.phase.commit.enable"]:
        request.fail("request_not_served", api_key=KEY, api_version=version)
        return None
    # Kafka checks this first.
    if body.enable_2pc and body.transactional_id is not None:
        if not may(request, Operation.TWO_PHASE_COMMIT, Resource.TRANSACTIONAL_ID, body.transactional_id):
            return _error(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if (body.producer_id == -1) != (body.producer_epoch == -1):
        return _error(ErrorCode.INVALID_REQUEST)
    claim = Claim(request, body) if request.listener.profile == KIP_447_DRAFT else None
    if body.transactional_id is None:
        return _without_id(request, claim)
    if not body.transactional_id:
        return _error(ErrorCode.INVALID_REQUEST)
    timeout_ms = TIMEOUT_NONE if body.enable_2pc else body.transaction_timeout_ms
    if not body.enable_2pc and not 0 < timeout_ms <= broker.config["transaction.max.timeout.ms"]:
        return _error(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    if claim is not None and (error := claim.refusal()):
        return _error(error)
    transactions, transactional_id = broker.transactions, body.transactional_id

    identity = Identity(body.producer_id, body.producer_epoch)
    previous_owner = None if body.producer_id >= 0 else transactions.state_of(transactional_id)

    def done(reply: Reply) -> None:
        if previous_owner is not None and not reply.error:
            cause = cause_of(request, previous_owner.producer_id == reply.producer_id)
            transactions.fences.record_fence(previous_owner, cause, request)
        if reply.error:
            code = coordinator_code(request, transactional_id, identity, reply.error, KEY, version)
            request.reply(_error(code))
        else:
            new_identity = Identity(reply.producer_id, reply.producer_epoch)
            transactions.fences.record_holder(transactional_id, request.peer, new_identity, body.producer_id >= 0)
            request.reply(_response(reply))

    init = InitProducerId(
        timeout_ms,
        body.producer_id,
        body.producer_epoch,
        body.keep_prepared_txn,
        version if request.listener.profile == KIP_588 else -1,
    )
    try:
        transactions.ask(request, transactional_id, init, done if claim is None else partial(claim.fence, done=done))
    except StorageError as fault:
        return _not_stored(request, fault)
    return None


def _response(reply: Reply) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        0,
        reply.error,
        reply.producer_id,
        reply.producer_epoch,
        reply.ongoing_producer_id,
        reply.ongoing_producer_epoch,
    )


def _without_id(request: Asking[Uses], claim: Claim | None) -> InitProducerIdResponse | None:
    """Return a new producer id for an idempotent producer, for which no state is kept."""
    if claim is not None and (error := claim.refusal()):
        return _error(error)
    try:
        fresh = Reply(ErrorCode.NONE, request.broker.transactions.producer_ids.take(), 0)
    except StorageError as fault:
        return _not_stored(request, fault)
    if claim is None:
        return _response(fresh)
    claim.fence(fresh, lambda reply: request.reply(_error(reply.error) if reply.error else _response(reply)))
    return None


def _not_stored(request: Asking[Uses], fault: StorageError) -> InitProducerIdResponse | None:
    """Return the response when a block of producer ids, the transaction log, or the state of a new id cannot be stored.

    The error is the one of a Kafka broker without a block of producer ids: clients retry, where another error is fatal.
    """
    request.broker.events.error("request_failed", api_key=KEY, reason=str(fault))
    return _error(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) if request.is_open else None


def _error(error: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(0, error, -1, -1)
