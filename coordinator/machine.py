"""The rules of the transaction coordinator, as Apache Kafka 4.3.1 has them: pure functions, no I/O, no clock.

    decide(txn, request, context) -> Decision(txn', effects)

Error codes are those of the newest request version; handlers translate for older ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from stuntbroker.coordinator.requests import (
    OK,
    AddPartitions,
    Again,
    Append,
    Context,
    Decision,
    EndTxn,
    InitProducerId,
    MarkersWritten,
    Reply,
    Request,
    TimeOut,
    Verify,
    WriteMarkers,
)
from stuntbroker.coordinator.state import (
    COMPLETED,
    EPOCH_LAST,
    PREPARED,
    TIMEOUT_NONE,
    Phase,
    Txn,
    check_step,
)
from stuntbroker.protocol.errors import ErrorCode

EPOCH_FENCE: Final = 32_767
NOBODY: Final[frozenset[tuple[str, int]]] = frozenset()

_new = tuple.__new__
"""Makes a named tuple at a third of the price, where every transaction pays it."""

_FENCED = Reply(ErrorCode.PRODUCER_FENCED)
_CONCURRENT = Reply(ErrorCode.CONCURRENT_TRANSACTIONS)
_INVALID_STATE = Reply(ErrorCode.INVALID_TXN_STATE)
_NOT_THIS_PRODUCER = Reply(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
_ABORTABLE = Reply(ErrorCode.TRANSACTION_ABORTABLE)
_OK = Reply(OK)


def decide(txn: Txn, request: Request, context: Context) -> Decision:
    """The only door into the core. Same arguments, same Decision."""
    return RULES[request.__class__](txn, request, context)


def _stay(txn: Txn, reply: Reply) -> Decision:
    return Decision(txn, (reply,))


# --- InitProducerId (KIP-98, KIP-360)


def _init_producer_id(txn: Txn, request: InitProducerId, context: Context) -> Decision:
    if not _may_init(txn, request):
        return _stay(txn, _FENCED)
    if txn.phase in PREPARED:
        return _stay(txn, _CONCURRENT)
    if txn.phase is Phase.ONGOING:
        # Unlike Kafka: it answers CONCURRENT_TRANSACTIONS here and lets the client ask again until the markers are out.
        # The markers are written at once, so the same request is asked again by itself; the epochs come out the same.
        decision = _fence_and_abort(txn, context)
        return decision._replace(effects=(*decision.effects, Again()))
    return _new_identity(txn, request, context)


def _may_init(txn: Txn, request: InitProducerId) -> bool:
    """A producer that names its id and epoch must be, or have just been, the owner."""
    return (
        (request.producer_id == -1 and request.producer_epoch == -1)
        or txn.producer_epoch == -1
        or request.producer_id == txn.producer_id
        or (request.producer_id == txn.previous_producer_id and request.producer_epoch >= EPOCH_LAST)
    )


def _new_identity(txn: Txn, request: InitProducerId, context: Context) -> Decision:
    stored, epoch = txn.producer_epoch, request.producer_epoch
    producer_id, took_spare = txn.producer_id, False
    if stored >= EPOCH_LAST:
        if epoch not in (-1, stored):
            return _stay(txn, Reply(ErrorCode.UNKNOWN_SERVER_ERROR))
        producer_id, new_epoch, last, took_spare = context.spare_producer_id, 0, epoch, True
    elif stored == -1:
        new_epoch, last = context.first_epoch, -1
    elif epoch == -1:
        new_epoch, last = stored + 1, -1  # The instance before this one is fenced for good.
    elif epoch == stored:
        new_epoch, last = stored + 1, stored
    elif epoch == txn.last_producer_epoch:
        new_epoch, last = stored, txn.last_producer_epoch  # A retry of a bump that was done.
    else:
        return _stay(txn, _FENCED)
    after = Txn(
        txn.transactional_id, producer_id, txn.producer_id, -1, new_epoch, -1, last, request.timeout_ms,
        Phase.EMPTY, NOBODY, -1, context.now_ms, txn.client_version,
    )  # fmt: skip
    check_step(txn.phase, after.phase)
    return Decision(after, (Append(after), Reply(OK, producer_id, new_epoch)), took_spare)


# --- adding partitions (KIP-98; KIP-890 adds them with the first records)


def _owner_error(txn: Txn, producer_id: int, producer_epoch: int) -> Reply | None:
    if producer_id != txn.producer_id:
        return _NOT_THIS_PRODUCER
    if producer_epoch != txn.producer_epoch:
        return _FENCED
    return None


def _add_partitions(txn: Txn, request: AddPartitions, context: Context) -> Decision:
    phase = txn.phase
    if error := _owner_error(txn, request.producer_id, request.producer_epoch):
        return _stay(txn, error)
    if phase in PREPARED:
        return _stay(txn, _CONCURRENT)
    if phase is Phase.ONGOING:
        if request.partitions <= txn.partitions:
            return _stay(txn, _OK)
        started_at_ms, partitions = txn.started_at_ms, txn.partitions | request.partitions
    else:
        started_at_ms, partitions = context.now_ms, request.partitions
    after = _new(Txn, (
        txn.transactional_id, txn.producer_id, txn.producer_id, -1, txn.producer_epoch, -1, txn.last_producer_epoch,
        txn.timeout_ms, Phase.ONGOING, partitions, started_at_ms, context.now_ms, request.client_version,
    ))  # fmt: skip
    check_step(phase, after.phase)
    return Decision(after, (Append(after), _OK))


def _verify(txn: Txn, request: Verify, context: Context) -> Decision:
    if error := _owner_error(txn, request.producer_id, request.producer_epoch):
        return _stay(txn, error)
    if txn.phase in PREPARED:
        return _stay(txn, _CONCURRENT)
    return _stay(txn, _OK if request.partition in txn.partitions else _ABORTABLE)


# --- EndTxn


def _end_txn(txn: Txn, request: EndTxn, context: Context) -> Decision:
    if request.client_version >= 2:
        return _end_txn_v2(txn, request, context)
    if error := _owner_error(txn, request.producer_id, request.producer_epoch):
        return _stay(txn, error)
    prepare, complete = OUTCOME[request.commit]
    if txn.phase is Phase.ONGOING:
        return _prepare(txn, prepare, txn.producer_epoch, txn.last_producer_epoch, -1, 0, context.now_ms, _OK)
    if txn.phase is complete:
        return _stay(txn, _OK)  # A retry of an EndTxn that is already finished.
    return _stay(txn, _CONCURRENT if txn.phase is prepare else _INVALID_STATE)


def _end_txn_v2(txn: Txn, request: EndTxn, context: Context) -> Decision:
    """KIP-890: every end bumps the epoch, a retry is told from the epoch that it carries, an empty abort is legal."""
    phase, epoch, stored = txn.phase, request.producer_epoch, txn.producer_epoch
    overflow_retry = request.producer_id == txn.previous_producer_id and epoch == EPOCH_LAST and stored == 0
    if request.producer_id != txn.producer_id and not overflow_retry:
        return _stay(txn, _NOT_THIS_PRODUCER)
    retry = stored == epoch + 1 or overflow_retry
    current = stored == epoch and request.producer_id == txn.producer_id
    prepare, complete = OUTCOME[request.commit]
    if phase is Phase.ONGOING:
        return _prepare_bumped(txn, prepare, context) if current else _stay(txn, _FENCED)
    if phase in PREPARED:
        if stored != epoch + 1:
            return _stay(txn, _FENCED)
        return _stay(txn, _CONCURRENT if phase is prepare else _INVALID_STATE)
    if phase is Phase.EMPTY:
        if not current:
            return _stay(txn, _FENCED)
        return _stay(txn, _INVALID_STATE) if request.commit else _prepare_bumped(txn, prepare, context)
    assert phase in COMPLETED
    if retry:
        if phase is complete:
            return _stay(txn, Reply(OK, txn.producer_id, stored))
        return _stay(txn, _INVALID_STATE)
    if not current:
        return _stay(txn, _FENCED)
    return _stay(txn, _INVALID_STATE) if request.commit else _prepare_bumped(txn, prepare, context)


def _prepare_bumped(txn: Txn, prepare: Phase, context: Context) -> Decision:
    """Prepare under transaction version 2: markers carry the next epoch, and the client goes on with it."""
    epoch = txn.producer_epoch
    if epoch < EPOCH_LAST:
        reply = Reply(OK, txn.producer_id, epoch + 1)
        return _prepare(txn, prepare, epoch + 1, epoch, -1, 2, context.now_ms, reply)
    # An epoch that is broken by an earlier overflow is let through without a bump.
    bumped, last = (EPOCH_FENCE, epoch) if epoch == EPOCH_LAST else (epoch, txn.last_producer_epoch)
    spare = context.spare_producer_id
    decision = _prepare(txn, prepare, bumped, last, spare, 2, context.now_ms, Reply(OK, spare, 0))
    return decision._replace(took_spare=True)


def _prepare(
    txn: Txn, phase: Phase, epoch: int, last: int, next_producer_id: int, client_version: int, now_ms: int, reply: Reply
) -> Decision:
    started_at_ms = txn.started_at_ms if txn.phase is Phase.ONGOING else now_ms
    partitions = txn.partitions if txn.phase is Phase.ONGOING else NOBODY
    after = _new(Txn, (
        txn.transactional_id, txn.producer_id, txn.producer_id, next_producer_id, epoch, -1, last,
        txn.timeout_ms, phase, partitions, started_at_ms, now_ms, client_version,
    ))  # fmt: skip
    check_step(txn.phase, phase)
    return Decision(after, (Append(after), WriteMarkers(after), reply))


def _fence_and_abort(txn: Txn, context: Context) -> Decision:
    """Aborts for someone else than the owner, whose epoch is bumped away: a take-over, or the time-out."""
    epoch = txn.producer_epoch
    fenced = epoch if epoch == EPOCH_FENCE else epoch + 1
    if context.transaction_version < 2:
        decision = _prepare(txn, Phase.PREPARE_ABORT, fenced, -1, -1, 0, context.now_ms, _OK)
        return decision._replace(effects=decision.effects[:2])
    spare = context.spare_producer_id if epoch >= EPOCH_LAST else -1
    decision = _prepare(txn, Phase.PREPARE_ABORT, fenced, epoch, spare, 2, context.now_ms, _OK)
    return decision._replace(effects=decision.effects[:2], took_spare=spare >= 0)


def _time_out(txn: Txn, request: TimeOut, context: Context) -> Decision:
    if not timed_out(txn, context.now_ms):
        return Decision(txn, ())
    return _fence_and_abort(txn, context)


def timed_out(txn: Txn, now_ms: int) -> bool:
    return (
        txn.phase is Phase.ONGOING
        and txn.timeout_ms != TIMEOUT_NONE
        and txn.started_at_ms + txn.timeout_ms < now_ms
    )


# --- completion


def _markers_written(txn: Txn, request: MarkersWritten, context: Context) -> Decision:
    phase = COMPLETION[txn.phase]
    rotated = txn.next_producer_id >= 0
    after = _new(Txn, (
        txn.transactional_id, txn.next_producer_id if rotated else txn.producer_id, txn.producer_id, -1,
        0 if rotated else txn.producer_epoch, -1, txn.last_producer_epoch, txn.timeout_ms, phase, NOBODY,
        txn.started_at_ms, context.now_ms, txn.client_version,
    ))  # fmt: skip
    return Decision(after, (Append(after),))


OUTCOME: Final = {
    True: (Phase.PREPARE_COMMIT, Phase.COMPLETE_COMMIT),
    False: (Phase.PREPARE_ABORT, Phase.COMPLETE_ABORT),
}
COMPLETION: Final = {
    Phase.PREPARE_COMMIT: Phase.COMPLETE_COMMIT,
    Phase.PREPARE_ABORT: Phase.COMPLETE_ABORT,
}

RULES: Final[dict[type, Callable[[Txn, Any, Context], Decision]]] = {
    InitProducerId: _init_producer_id,
    AddPartitions: _add_partitions,
    Verify: _verify,
    EndTxn: _end_txn,
    TimeOut: _time_out,
    MarkersWritten: _markers_written,
}
