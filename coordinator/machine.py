"""The rules of the transaction coordinator: pure functions, no I/O, no clock.

They implement Apache Kafka 4.3.1, two-phase commit (KIP-939) and, in its profile, KIP-588 as drafted.

    decide(txn, request, context) -> Decision(txn', effects)

The error codes are for the newest request version. Handlers translate them for older versions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from stuntbroker.coordinator.requests import (
    OK,
    TRANSACTION_TIMED_OUT,
    AddPartitions,
    Append,
    Context,
    Decision,
    EndTxn,
    InitProducerId,
    MarkersWritten,
    Redecide,
    RejectNewRecords,
    Reply,
    Request,
    TimeOut,
    Verify,
    WriteMarkers,
)
from stuntbroker.coordinator.state import (
    COMPLETED,
    COMPLETION,
    EMPTY,
    NO_PARTITIONS,
    ONGOING,
    PREPARE,
    PREPARE_ABORT,
    PREPARED,
    NextPair,
    Phase,
    Txn,
    advance,
    bumped_epoch,
    has_expired,
    has_timed_out,
)
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.transaction_states import EPOCH_LAST, TIMEOUT_NONE, TRANSACTION_V0, TRANSACTION_V2

_FENCED: Final = Reply(ErrorCode.PRODUCER_FENCED)
_CONCURRENT: Final = Reply(ErrorCode.CONCURRENT_TRANSACTIONS)
_INVALID_STATE: Final = Reply(ErrorCode.INVALID_TXN_STATE)
_WRONG_PRODUCER_ID: Final = Reply(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
_ABORTABLE: Final = Reply(ErrorCode.TRANSACTION_ABORTABLE)
_TIMED_OUT: Final = Reply(TRANSACTION_TIMED_OUT)
_OK: Final = Reply(OK)


def decide(txn: Txn, request: Request, context: Context) -> Decision:
    """Return the decision on a request; deterministic. The only way to a new state, except `with_identity` for tests."""
    return RULES[request.__class__](txn, request, context)


def _unchanged(txn: Txn, reply: Reply) -> Decision:
    return Decision(txn, (reply,))


# --- InitProducerId (KIP-98, KIP-360)


def _init_producer_id(txn: Txn, request: InitProducerId, context: Context) -> Decision:
    if not _is_current_producer(txn, request):
        return _unchanged(txn, _FENCED)
    if txn.phase in PREPARED:
        return _unchanged(txn, _CONCURRENT)
    if txn.phase is ONGOING:
        if request.keep_prepared:
            return _recover(txn, request, context)
        # Unlike Kafka: Kafka replies CONCURRENT_TRANSACTIONS here, and the client retries until the markers are written.
        # This broker writes the markers and decides the request again; the resulting epochs are the same.
        after, allocated = _fence_and_abort(txn, context, remembers_time_out=False)
        return Decision(after, (Append(after), WriteMarkers(after), Redecide()), allocated)
    return _new_identity(txn, request, context)


def _is_current_producer(txn: Txn, request: InitProducerId) -> bool:
    """Whether the request names no producer, or the current or previous owner of the transactional id."""
    if (request.producer_id == -1 and request.producer_epoch == -1) or txn.producer_epoch == -1:
        return True
    requested = request.producer_id, request.producer_epoch
    if txn.is_recovered:
        # Producers from before the recovery are fenced: they must not end the transaction.
        if txn.phase in PREPARED:
            return requested in (txn.client_pair, (txn.previous_producer_id, txn.last_producer_epoch))
        return requested == txn.client_pair or _is_retry_of_recovery(txn, request)
    if txn.phase is ONGOING and txn.timeout_ms == TIMEOUT_NONE:
        # Unlike Kafka: in Kafka, any epoch of the producer id aborts the open transaction, even if a successor prepared it.
        return requested == txn.client_pair
    return request.producer_id == txn.producer_id or (
        request.producer_id == txn.previous_producer_id and request.producer_epoch >= EPOCH_LAST
    )


def _new_identity(txn: Txn, request: InitProducerId, context: Context) -> Decision:
    """Give the transactional id a new epoch, or a new producer id when its epochs are used up."""
    stored, requested = txn.producer_epoch, request.producer_epoch
    producer_id, previous_id, allocated = txn.producer_id, txn.producer_id, False
    if stored >= EPOCH_LAST:
        # After a time-out at the last epoch, the producer names the epoch before the stored one (KIP-588, as drafted).
        if requested not in (-1, stored, txn.timed_out_epoch):
            return _unchanged(txn, Reply(ErrorCode.UNKNOWN_SERVER_ERROR))
        producer_id, epoch, last_epoch, allocated = context.next_producer_id, 0, requested, True
    elif stored == -1:
        epoch, last_epoch = context.initial_epoch, -1
    elif requested == -1:
        epoch, last_epoch = stored + 1, -1  # The previous instance is fenced and cannot retry.
    elif requested == stored:
        epoch, last_epoch = stored + 1, stored
    elif requested == txn.last_producer_epoch:
        epoch, last_epoch = stored, txn.last_producer_epoch  # A retry: the epoch was already bumped.
        if request.version != -1:
            previous_id = txn.previous_producer_id  # A further retry is possible (KIP-588); Kafka accepts only one.
    else:
        return _unchanged(txn, _FENCED)
    after = advance(
        txn,
        EMPTY,
        context.now_ms,
        producer_id=producer_id,
        previous_producer_id=previous_id,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        timeout_ms=request.timeout_ms,
        partitions=NO_PARTITIONS,
        started_at_ms=-1,
        init_version=request.version,
    )
    return Decision(after, (Append(after), Reply(OK, producer_id, epoch)), allocated)


# --- recovery of a prepared transaction (KIP-939)


def _recover(txn: Txn, request: InitProducerId, context: Context) -> Decision:
    """Let a new instance take over an open transaction to end it, with a producer id and epoch newer than all others."""
    if txn.is_recovered and _is_retry_of_recovery(txn, request):
        return _unchanged(txn, _recovery_reply(txn))
    client_id, client_epoch = txn.client_pair
    if request.producer_epoch not in (-1, client_epoch):
        return _unchanged(txn, _FENCED)
    following = _pair_after(txn, context)
    after = advance(
        txn,
        ONGOING,
        context.now_ms,
        previous_producer_id=client_id if following.is_allocated else txn.producer_id,
        next_producer_id=following.producer_id,
        next_producer_epoch=following.producer_epoch,
        last_producer_epoch=request.producer_epoch,
        # A transaction that was opened without a time-out keeps none under its next owner.
        timeout_ms=txn.timeout_ms if txn.timeout_ms == TIMEOUT_NONE else request.timeout_ms,
        timed_out_epoch=txn.timed_out_epoch,
        init_version=request.version,
    )
    return Decision(after, (Append(after), RejectNewRecords(after), _recovery_reply(after)), following.is_allocated)


def _is_retry_of_recovery(txn: Txn, request: InitProducerId) -> bool:
    """Whether the request names the pair before the last recovery: the sender may not have received the response (KIP-360)."""
    # Epoch 0 is the first of a producer id that the recovery has allocated: the pair before it had another id.
    has_same_id = txn.next_producer_epoch != 0
    id_before = txn.next_producer_id if has_same_id else txn.previous_producer_id
    return (
        request.keep_prepared
        and request.producer_epoch != -1
        and request.producer_epoch == txn.last_producer_epoch
        and request.producer_id == id_before
    )


def _recovery_reply(txn: Txn) -> Reply:
    return Reply(OK, *txn.client_pair, txn.producer_id, txn.producer_epoch)


def _pair_after(txn: Txn, context: Context) -> NextPair:
    """Return the producer id and epoch that follow those of the client."""
    producer_id, epoch = txn.client_pair
    if epoch >= EPOCH_LAST:
        return NextPair(context.next_producer_id, 0, is_allocated=True)
    return NextPair(producer_id, epoch + 1)


# --- adding partitions (KIP-98; with KIP-890 the first records add them)


def _producer_error(txn: Txn, producer_id: int, producer_epoch: int) -> Reply | None:
    """Return the error of a producer that may not use the transaction; None if it may."""
    if producer_id == txn.producer_id and producer_epoch == txn.producer_epoch and not txn.is_recovered:
        return None
    if has_timed_out(txn, producer_id, producer_epoch):
        return _TIMED_OUT
    if txn.is_recovered:
        if (producer_id, producer_epoch) == txn.client_pair:
            return None
        known = (txn.producer_id, txn.previous_producer_id, txn.next_producer_id)
        return _FENCED if producer_id in known else _WRONG_PRODUCER_ID
    return _FENCED if producer_id == txn.producer_id else _WRONG_PRODUCER_ID


def _add_partitions(txn: Txn, request: AddPartitions, context: Context) -> Decision:
    if error := _producer_error(txn, request.producer_id, request.producer_epoch):
        return _unchanged(txn, error)
    phase = txn.phase
    if phase in PREPARED:
        return _unchanged(txn, _CONCURRENT)
    partitions = request.partitions
    if phase is not ONGOING:
        started_at_ms = context.now_ms
    elif txn.is_recovered:
        return _unchanged(txn, _INVALID_STATE)  # A recovered transaction can only be ended (KIP-939).
    elif partitions <= txn.partitions:
        return _unchanged(txn, _OK)
    else:
        partitions |= txn.partitions
        started_at_ms = txn.started_at_ms
    after = advance(
        txn,
        ONGOING,
        context.now_ms,
        partitions=partitions,
        started_at_ms=started_at_ms,
        client_version=request.client_version,
    )
    return Decision(after, (Append(after), _OK))


def _verify(txn: Txn, request: Verify, context: Context) -> Decision:
    if error := _producer_error(txn, request.producer_id, request.producer_epoch):
        return _unchanged(txn, error)
    if txn.phase in PREPARED:
        return _unchanged(txn, _CONCURRENT)
    if txn.is_recovered:
        return _unchanged(txn, _INVALID_STATE)
    return _unchanged(txn, _OK if request.partition in txn.partitions else _ABORTABLE)


# --- EndTxn


def _end_txn(txn: Txn, request: EndTxn, context: Context) -> Decision:
    if request.client_version == TRANSACTION_V2:
        return _end_txn_v2(txn, request, context)
    if error := _producer_error(txn, request.producer_id, request.producer_epoch):
        return _unchanged(txn, error)
    prepare = PREPARE[request.commit]
    if txn.phase is ONGOING:
        if txn.is_recovered:
            # The client keeps its producer id and epoch: the epoch is newer than that of the markers.
            following = NextPair(*txn.client_pair)
            after = _prepare_recovered(
                txn,
                prepare,
                context.now_ms,
                txn.producer_epoch,
                following,
                client_version=TRANSACTION_V0,
                last_epoch=txn.last_producer_epoch,
                timed_out_epoch=txn.timed_out_epoch,
            )
        else:
            after = _prepare(
                txn, prepare, context.now_ms, txn.producer_epoch, txn.last_producer_epoch, client_version=TRANSACTION_V0
            )
        return _prepared(after, _OK)
    complete = COMPLETION[prepare]
    if txn.phase is complete:
        return _unchanged(txn, _OK)  # A retry after the transaction was completed.
    return _unchanged(txn, _CONCURRENT if txn.phase is prepare else _INVALID_STATE)


def _end_txn_v2(txn: Txn, request: EndTxn, context: Context) -> Decision:
    """KIP-890: every end bumps the epoch, a retry is recognised by its epoch, and an abort without partitions is legal."""
    prepare = PREPARE[request.commit]
    requested_id, requested, stored, phase = request.producer_id, request.producer_epoch, txn.producer_epoch, txn.phase
    is_current = stored == requested and requested_id == txn.producer_id
    if has_timed_out(txn, requested_id, requested):
        return _unchanged(txn, _TIMED_OUT)
    if txn.is_recovered:
        return _end_recovered_v2(txn, request, context)
    is_retry_of_last_epoch = requested_id == txn.previous_producer_id and requested == EPOCH_LAST and stored == 0
    if requested_id != txn.producer_id and not is_retry_of_last_epoch:
        return _unchanged(txn, _WRONG_PRODUCER_ID)
    if phase is ONGOING:
        return _prepare_with_bump(txn, prepare, context) if is_current else _unchanged(txn, _FENCED)
    if phase in PREPARED:
        if stored != requested + 1:
            return _unchanged(txn, _FENCED)
        return _unchanged(txn, _CONCURRENT if phase is prepare else _INVALID_STATE)
    if phase in COMPLETED:
        is_retry = stored == requested + 1 or is_retry_of_last_epoch
        if txn.timeout_ms == TIMEOUT_NONE and requested != txn.last_producer_epoch:
            # Unlike Kafka: in Kafka, the previous epoch means a retry. After a recovered transaction that was ended without
            # a bump (EndTxn v4), that epoch belongs to another producer.
            is_retry = False
        if is_retry:
            complete = COMPLETION[prepare]
            return _unchanged(txn, Reply(OK, txn.producer_id, stored) if phase is complete else _INVALID_STATE)
    if not is_current:
        return _unchanged(txn, _FENCED)
    return _unchanged(txn, _INVALID_STATE) if request.commit else _prepare_with_bump(txn, prepare, context)


def _end_recovered_v2(txn: Txn, request: EndTxn, context: Context) -> Decision:
    """Decide EndTxn v5 for a recovered transaction (KIP-939).

    The request carries the client's producer id and epoch, the markers those of the transaction; the client gets the next pair.
    """
    prepare = PREPARE[request.commit]
    requested = request.producer_id, request.producer_epoch
    if txn.phase is ONGOING:
        if error := _producer_error(txn, *requested):
            return _unchanged(txn, error)
        following = _pair_after(txn, context)
        after = _prepare_recovered(
            txn,
            prepare,
            context.now_ms,
            bumped_epoch(txn),
            following,
            client_version=TRANSACTION_V2,
            last_epoch=request.producer_epoch,
            timed_out_epoch=txn.timed_out_epoch,
        )
        return _prepared(after, Reply(OK, following.producer_id, following.producer_epoch), following.is_allocated)
    if requested == (txn.previous_producer_id, txn.last_producer_epoch):
        return _unchanged(txn, _CONCURRENT if txn.phase is prepare else _INVALID_STATE)
    return _unchanged(txn, _producer_error(txn, *requested) or _FENCED)


def _prepare_with_bump(txn: Txn, prepare: Phase, context: Context) -> Decision:
    """Prepare under transaction version 2: the markers carry the next epoch, and the client uses it from then on."""
    epoch = txn.producer_epoch
    if epoch < EPOCH_LAST:
        after = _prepare(txn, prepare, context.now_ms, epoch + 1, epoch, client_version=TRANSACTION_V2)
        return _prepared(after, Reply(OK, txn.producer_id, epoch + 1))
    # An epoch beyond the last one, left by an earlier overflow, is accepted without a bump.
    last_epoch = epoch if epoch == EPOCH_LAST else txn.last_producer_epoch
    allocated_id = context.next_producer_id
    after = _prepare(
        txn,
        prepare,
        context.now_ms,
        bumped_epoch(txn),
        last_epoch,
        client_version=TRANSACTION_V2,
        next_id=allocated_id,
    )
    return _prepared(after, Reply(OK, allocated_id, 0), allocated=True)


def _prepare(
    txn: Txn,
    prepare: Phase,
    now_ms: int,
    epoch: int,
    last_epoch: int,
    *,
    client_version: int,
    next_id: int = -1,
    timed_out_epoch: int = -1,
) -> Txn:
    """Return the prepared state of a transaction that was not recovered. `epoch`: epoch of the markers."""
    is_open = txn.phase is ONGOING
    return advance(
        txn,
        prepare,
        now_ms,
        next_producer_id=next_id,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        partitions=txn.partitions if is_open else NO_PARTITIONS,
        started_at_ms=txn.started_at_ms if is_open else now_ms,
        client_version=client_version,
        timed_out_epoch=timed_out_epoch,
    )


def _prepare_recovered(
    txn: Txn,
    prepare: Phase,
    now_ms: int,
    epoch: int,
    following: NextPair,
    *,
    client_version: int,
    last_epoch: int,
    timed_out_epoch: int,
) -> Txn:
    """Return the prepared state of a recovered transaction. `epoch`: of the markers; `following`: the client's next pair."""
    client_id, _ = txn.client_pair
    return advance(
        txn,
        prepare,
        now_ms,
        previous_producer_id=client_id,
        next_producer_id=following.producer_id,
        producer_epoch=epoch,
        next_producer_epoch=following.producer_epoch,
        last_producer_epoch=last_epoch,
        client_version=client_version,
        timed_out_epoch=timed_out_epoch,
    )


def _prepared(after: Txn, reply: Reply, allocated: bool = False) -> Decision:
    return Decision(after, (Append(after), WriteMarkers(after), reply), allocated)


def _fence_and_abort(txn: Txn, context: Context, *, remembers_time_out: bool) -> tuple[Txn, bool]:
    """Return the prepared state of an abort that fences the producer, after a take-over or a time-out.

    Also return whether the next producer id was allocated. `remembers_time_out`: whether the producer may claim its epoch
    afterwards (profile kip-588).
    """
    version = TRANSACTION_V2 if context.transaction_version == TRANSACTION_V2 else TRANSACTION_V0
    _, client_epoch = txn.client_pair
    last_epoch = client_epoch if version == TRANSACTION_V2 or remembers_time_out else -1
    if txn.is_recovered:
        following = _pair_after(txn, context)
        after = _prepare_recovered(
            txn,
            PREPARE_ABORT,
            context.now_ms,
            bumped_epoch(txn),
            following,
            client_version=version,
            last_epoch=last_epoch,
            timed_out_epoch=client_epoch if remembers_time_out else txn.timed_out_epoch,
        )
        return after, following.is_allocated
    allocated = version == TRANSACTION_V2 and client_epoch >= EPOCH_LAST
    after = _prepare(
        txn,
        PREPARE_ABORT,
        context.now_ms,
        bumped_epoch(txn),
        last_epoch,
        client_version=version,
        next_id=context.next_producer_id if allocated else -1,
        timed_out_epoch=client_epoch if remembers_time_out else -1,
    )
    return after, allocated


def _time_out(txn: Txn, request: TimeOut, context: Context) -> Decision:
    if not has_expired(txn, context.now_ms):
        return Decision(txn, ())
    after, allocated = _fence_and_abort(txn, context, remembers_time_out=txn.init_version != -1)
    return Decision(after, (Append(after), WriteMarkers(after)), allocated)


# --- completion


def _markers_written(txn: Txn, request: MarkersWritten, context: Context) -> Decision:
    producer_id, epoch, previous_id = txn.producer_id, txn.producer_epoch, txn.producer_id
    if txn.is_recovered:
        producer_id, epoch = txn.client_pair
        previous_id = txn.previous_producer_id
    elif txn.next_producer_id >= 0:
        producer_id, epoch = txn.next_producer_id, 0
    after = advance(
        txn,
        COMPLETION[txn.phase],
        context.now_ms,
        producer_id=producer_id,
        previous_producer_id=previous_id,
        producer_epoch=epoch,
        partitions=NO_PARTITIONS,
        timed_out_epoch=txn.timed_out_epoch,
    )
    return Decision(after, (Append(after),))


RULES: Final[dict[type, Callable[[Txn, Any, Context], Decision]]] = {
    InitProducerId: _init_producer_id,
    AddPartitions: _add_partitions,
    Verify: _verify,
    EndTxn: _end_txn,
    TimeOut: _time_out,
    MarkersWritten: _markers_written,
}
