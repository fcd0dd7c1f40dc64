"""The rules of the transaction coordinator: pure functions, no I/O, no clock.

Those of Apache Kafka 4.3.1; two-phase commit as KIP-939 has it; KIP-588 as drafted where its profile asks for it.

    decide(txn, request, context) -> Decision(txn', effects)

Error codes are those of the newest request version; handlers translate for older ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from stuntbroker.coordinator.requests import (
    OK,
    TRANSACTION_TIMED_OUT,
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
    Seal,
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
NOW_MS: Final = Context._fields.index("now_ms")

_new = tuple.__new__
"""Makes a named tuple at a third of the price, where every transaction pays it."""
EMPTY, ONGOING = Phase.EMPTY, Phase.ONGOING
"""As names of the module: an attribute of the class takes five times as long, several times a transaction."""

_FENCED = Reply(ErrorCode.PRODUCER_FENCED)
_CONCURRENT = Reply(ErrorCode.CONCURRENT_TRANSACTIONS)
_INVALID_STATE = Reply(ErrorCode.INVALID_TXN_STATE)
_NOT_THIS_PRODUCER = Reply(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
_ABORTABLE = Reply(ErrorCode.TRANSACTION_ABORTABLE)
_TIMED_OUT = Reply(TRANSACTION_TIMED_OUT)
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
    if txn.phase is ONGOING:
        if request.keep:
            return _keep(txn, request, context)
        # Unlike Kafka: it answers CONCURRENT_TRANSACTIONS here and lets the client ask again until the markers are out.
        # The markers are written at once, so the same request is asked again by itself; the epochs come out the same.
        decision = _fence_and_abort(txn, context)
        return decision._replace(effects=(*decision.effects, Again()))
    return _new_identity(txn, request, context)


def _may_init(txn: Txn, request: InitProducerId) -> bool:
    """A producer that names its id and epoch must be, or have just been, the owner."""
    if (request.producer_id == -1 and request.producer_epoch == -1) or txn.producer_epoch == -1:
        return True
    asker = request.producer_id, request.producer_epoch
    if txn.kept:
        # Whoever held it before the transaction was kept is gone for good, and must not end it by coming back.
        if txn.phase in PREPARED:
            return asker in (txn.client_pair, (txn.previous_producer_id, txn.last_producer_epoch))
        return asker == txn.client_pair or _is_retry_of_keep(txn, request)
    if txn.phase is ONGOING and txn.timeout_ms == TIMEOUT_NONE:
        # Unlike Kafka: there any epoch of the producer id aborts what is open, be it prepared by the one that fenced it.
        return asker == txn.client_pair
    return request.producer_id == txn.producer_id or (
        request.producer_id == txn.previous_producer_id and request.producer_epoch >= EPOCH_LAST
    )


def _new_identity(txn: Txn, request: InitProducerId, context: Context) -> Decision:
    stored, epoch = txn.producer_epoch, request.producer_epoch
    producer_id, previous_id, took_spare = txn.producer_id, txn.producer_id, False
    if stored >= EPOCH_LAST:
        # Behind a time-out at the last epoch the owner names the one before the stored one (KIP-588, as drafted).
        if epoch not in (-1, stored, txn.timed_out_epoch):
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
        if context.remembers_time_outs:
            previous_id = txn.previous_producer_id  # And may be one again (KIP-588); Kafka knows it once.
    else:
        return _stay(txn, _FENCED)
    after = Txn(
        txn.transactional_id, producer_id, previous_id, -1, new_epoch, -1, last, request.timeout_ms,
        EMPTY, NOBODY, -1, context.now_ms, txn.client_version, -1, request.version,
    )  # fmt: skip
    check_step(txn.phase, after.phase)
    return Decision(after, (Append(after), Reply(OK, producer_id, new_epoch)), took_spare)


# --- keeping a prepared transaction (KIP-939)


def _keep(txn: Txn, request: InitProducerId, context: Context) -> Decision:
    """A new instance takes over an open transaction to end it: it gets a pair of its own, newer than every other one."""
    if txn.kept and _is_retry_of_keep(txn, request):
        return _stay(txn, _kept_reply(txn))
    if request.producer_epoch not in (-1, txn.client_pair[1]):
        return _stay(txn, _FENCED)
    producer_id, epoch, took_spare = _pair_after(txn, context)
    before_id = txn.client_pair[0]
    after = txn._replace(
        previous_producer_id=before_id if took_spare else txn.producer_id,
        next_producer_id=producer_id,
        next_producer_epoch=epoch,
        last_producer_epoch=request.producer_epoch,
        # What was opened without a limit is not ended by one that its next owner brings along.
        timeout_ms=txn.timeout_ms if txn.timeout_ms == TIMEOUT_NONE else request.timeout_ms,
        updated_at_ms=context.now_ms,
        init_version=request.version,
    )
    check_step(txn.phase, after.phase)
    return Decision(after, (Append(after), Seal(after), _kept_reply(after)), took_spare)


def _is_retry_of_keep(txn: Txn, request: InitProducerId) -> bool:
    """The pair before the last one, whose owner may not have heard the answer (KIP-360)."""
    return (
        request.keep
        and request.producer_epoch != -1
        and request.producer_epoch == txn.last_producer_epoch
        and request.producer_id == (txn.next_producer_id if txn.next_producer_epoch else txn.previous_producer_id)
    )


def _kept_reply(txn: Txn) -> Reply:
    return Reply(OK, *txn.client_pair, txn.producer_id, txn.producer_epoch)


def _pair_after(txn: Txn, context: Context) -> tuple[int, int, bool]:
    """What follows the pair that the client holds, and whether the spare producer id was taken for it."""
    producer_id, epoch = txn.client_pair
    return (context.spare_producer_id, 0, True) if epoch >= EPOCH_LAST else (producer_id, epoch + 1, False)


# --- adding partitions (KIP-98; KIP-890 adds them with the first records)


def _owner_error(txn: Txn, producer_id: int, producer_epoch: int) -> Reply | None:
    if producer_id == txn.producer_id and producer_epoch == txn.producer_epoch and txn.next_producer_epoch == -1:
        return None
    if _was_timed_out(txn, producer_id, producer_epoch):
        return _TIMED_OUT
    if txn.kept:
        if (producer_id, producer_epoch) == txn.client_pair:
            return None
        known = (txn.producer_id, txn.previous_producer_id, txn.next_producer_id)
        return _FENCED if producer_id in known else _NOT_THIS_PRODUCER
    return _FENCED if producer_id == txn.producer_id else _NOT_THIS_PRODUCER


def _was_timed_out(txn: Txn, producer_id: int, producer_epoch: int) -> bool:
    """Profile kip-588: the producer is not fenced by anybody, it was only slow."""
    return producer_epoch == txn.timed_out_epoch != -1 and producer_id == txn.previous_producer_id


def _add_partitions(txn: Txn, request: AddPartitions, context: Context) -> Decision:
    asked_id, asked_epoch, partitions, client_version = request
    (
        transactional_id, producer_id, _, _, epoch, next_epoch, last_epoch, timeout_ms, phase, known, started_at_ms, _, _, _,
        init_version,
    ) = txn  # fmt: skip
    if (asked_id != producer_id or asked_epoch != epoch or next_epoch != -1) and (
        error := _owner_error(txn, asked_id, asked_epoch)
    ):
        return _stay(txn, error)
    if phase in PREPARED:
        return _stay(txn, _CONCURRENT)
    now_ms = context[NOW_MS]
    if phase is ONGOING:
        if txn.kept:
            return _stay(txn, _INVALID_STATE)  # It was prepared; all that is left is to end it (KIP-939).
        if partitions <= known:
            return _stay(txn, _OK)
        partitions |= known
    else:
        started_at_ms = now_ms
    after = _new(Txn, (
        transactional_id, producer_id, producer_id, -1, epoch, -1, last_epoch, timeout_ms, ONGOING, partitions,
        started_at_ms, now_ms, client_version, -1, init_version,
    ))  # fmt: skip
    return _new(Decision, (after, (_new(Append, (after,)), _OK), False))


def _verify(txn: Txn, request: Verify, context: Context) -> Decision:
    if error := _owner_error(txn, request.producer_id, request.producer_epoch):
        return _stay(txn, error)
    if txn.phase in PREPARED:
        return _stay(txn, _CONCURRENT)
    if txn.kept:
        return _stay(txn, _INVALID_STATE)
    return _stay(txn, _OK if request.partition in txn.partitions else _ABORTABLE)


# --- EndTxn


def _end_txn(txn: Txn, request: EndTxn, context: Context) -> Decision:
    if request.client_version >= 2:
        return _end_txn_v2(txn, request, context)
    if error := _owner_error(txn, request.producer_id, request.producer_epoch):
        return _stay(txn, error)
    prepare, complete = OUTCOME[request.commit]
    if txn.phase is ONGOING:
        if txn.kept:
            # The client keeps the pair that it has: its epoch is newer than the markers'.
            return _prepare_kept(txn, prepare, txn.producer_epoch, (*txn.client_pair, False), 0, context.now_ms)
        return _prepare(txn, prepare, txn.producer_epoch, txn.last_producer_epoch, -1, 0, context.now_ms, _OK)
    if txn.phase is complete:
        return _stay(txn, _OK)  # A retry of an EndTxn that is already finished.
    return _stay(txn, _CONCURRENT if txn.phase is prepare else _INVALID_STATE)


def _end_txn_v2(txn: Txn, request: EndTxn, context: Context) -> Decision:
    """KIP-890: every end bumps the epoch, a retry is told from the epoch that it carries, an empty abort is legal."""
    asked_id, epoch, commit, _ = request
    (
        transactional_id, producer_id, previous_id, _, stored, next_epoch, last_epoch, timeout_ms, phase, partitions,
        started_at_ms, _, _, timed_out_epoch, init_version,
    ) = txn  # fmt: skip
    prepare, complete = OUTCOME[commit]
    current = stored == epoch and asked_id == producer_id
    if current and phase is ONGOING and next_epoch == timed_out_epoch == -1:
        if epoch >= EPOCH_LAST:
            return _prepare_bumped(txn, prepare, context)
        after = _new(Txn, (  # As that and `_prepare` do it, for what nearly every EndTxn is.
            transactional_id, producer_id, producer_id, -1, epoch + 1, -1, epoch, timeout_ms, prepare, partitions,
            started_at_ms, context[NOW_MS], 2, -1, init_version,
        ))  # fmt: skip
        reply = _new(Reply, (OK, producer_id, epoch + 1, -1, -1))
        return _new(Decision, (after, (_new(Append, (after,)), _new(WriteMarkers, (after,)), reply), False))
    if _was_timed_out(txn, asked_id, epoch):
        return _stay(txn, _TIMED_OUT)
    if next_epoch != -1:
        return _end_kept_v2(txn, request, context)
    overflow_retry = asked_id == previous_id and epoch == EPOCH_LAST and stored == 0
    if asked_id != producer_id and not overflow_retry:
        return _stay(txn, _NOT_THIS_PRODUCER)
    retry = stored == epoch + 1 or overflow_retry
    if timeout_ms == TIMEOUT_NONE and epoch != last_epoch:
        # Unlike Kafka: there one epoch less is a retry. Behind a transaction that was kept and ended without a bump
        # (EndTxn v4) it is somebody else's.
        retry = False
    if phase is ONGOING:
        return _prepare_bumped(txn, prepare, context) if current else _stay(txn, _FENCED)
    if phase in PREPARED:
        if stored != epoch + 1:
            return _stay(txn, _FENCED)
        return _stay(txn, _CONCURRENT if phase is prepare else _INVALID_STATE)
    if phase is EMPTY:
        if not current:
            return _stay(txn, _FENCED)
        return _stay(txn, _INVALID_STATE) if commit else _prepare_bumped(txn, prepare, context)
    assert phase in COMPLETED
    if retry:
        if phase is complete:
            return _stay(txn, Reply(OK, producer_id, stored))
        return _stay(txn, _INVALID_STATE)
    if not current:
        return _stay(txn, _FENCED)
    return _stay(txn, _INVALID_STATE) if commit else _prepare_bumped(txn, prepare, context)


def _end_kept_v2(txn: Txn, request: EndTxn, context: Context) -> Decision:
    """Asked with the client's pair, ended with the transaction's; the client goes on behind its own (KIP-939)."""
    prepare, _ = OUTCOME[request.commit]
    asker = request.producer_id, request.producer_epoch
    if txn.phase is ONGOING:
        if error := _owner_error(txn, *asker):
            return _stay(txn, error)
        return _prepare_kept(txn, prepare, _marker_epoch(txn), _pair_after(txn, context), 2, context.now_ms)
    if asker == (txn.previous_producer_id, txn.last_producer_epoch):
        return _stay(txn, _CONCURRENT if txn.phase is prepare else _INVALID_STATE)
    return _stay(txn, _owner_error(txn, *asker) or _FENCED)


def _prepare_bumped(txn: Txn, prepare: Phase, context: Context) -> Decision:
    """Prepare under transaction version 2: markers carry the next epoch, and the client goes on with it."""
    epoch = txn.producer_epoch
    if epoch < EPOCH_LAST:
        return _prepare(txn, prepare, epoch + 1, epoch, -1, 2, context.now_ms, Reply(OK, txn.producer_id, epoch + 1))
    # An epoch that is broken by an earlier overflow is let through without a bump.
    last = epoch if epoch == EPOCH_LAST else txn.last_producer_epoch
    spare = context.spare_producer_id
    decision = _prepare(txn, prepare, _marker_epoch(txn), last, spare, 2, context.now_ms, Reply(OK, spare, 0))
    return decision._replace(took_spare=True)


def _marker_epoch(txn: Txn) -> int:
    """Under transaction version 2, and whenever somebody is fenced: above every record of the transaction."""
    return min(txn.producer_epoch + 1, EPOCH_FENCE)


def _prepare(
    txn: Txn, phase: Phase, epoch: int, last: int, next_producer_id: int, client_version: int, now_ms: int, reply: Reply
) -> Decision:
    transactional_id, producer_id, _, _, _, _, _, timeout_ms, before, partitions, started_at_ms, _, _, _, init_version = txn
    if before is not ONGOING:
        check_step(before, phase)
        partitions, started_at_ms = NOBODY, now_ms
    after = _new(Txn, (
        transactional_id, producer_id, producer_id, next_producer_id, epoch, -1, last, timeout_ms, phase, partitions,
        started_at_ms, now_ms, client_version, -1, init_version,
    ))  # fmt: skip
    return _new(Decision, (after, (_new(Append, (after,)), _new(WriteMarkers, (after,)), reply), False))


def _prepare_kept(
    txn: Txn, phase: Phase, epoch: int, following: tuple[int, int, bool], client_version: int, now_ms: int
) -> Decision:
    """Prepare of a kept transaction: three producer ids at most, of the markers, of the client, and of what follows."""
    asked_by, last = txn.client_pair
    next_id, next_epoch, took_spare = following
    after = txn._replace(
        previous_producer_id=asked_by,
        next_producer_id=next_id,
        producer_epoch=epoch,
        next_producer_epoch=next_epoch,
        last_producer_epoch=last if client_version == 2 else txn.last_producer_epoch,
        phase=phase,
        updated_at_ms=now_ms,
        client_version=client_version,
    )
    check_step(txn.phase, phase)
    reply = Reply(OK, next_id, next_epoch) if client_version == 2 else _OK
    return Decision(after, (Append(after), WriteMarkers(after), reply), took_spare)


def _fence_and_abort(txn: Txn, context: Context) -> Decision:
    """Aborts for someone else than the owner, whose epoch is bumped away: a take-over, or the time-out."""
    level = 2 if context.transaction_version == 2 else 0
    if txn.kept:
        following = _pair_after(txn, context)
        decision = _prepare_kept(txn, Phase.PREPARE_ABORT, _marker_epoch(txn), following, level, context.now_ms)
        if level == 0:
            after = decision.txn._replace(last_producer_epoch=-1)
            decision = Decision(after, (Append(after), WriteMarkers(after), _OK), decision.took_spare)
    elif level == 0:
        decision = _prepare(txn, Phase.PREPARE_ABORT, _marker_epoch(txn), -1, -1, 0, context.now_ms, _OK)
    else:
        epoch = txn.producer_epoch
        spare = context.spare_producer_id if epoch >= EPOCH_LAST else -1
        decision = _prepare(txn, Phase.PREPARE_ABORT, _marker_epoch(txn), epoch, spare, 2, context.now_ms, _OK)
        decision = decision._replace(took_spare=spare >= 0)
    return decision._replace(effects=decision.effects[:2])


def _time_out(txn: Txn, request: TimeOut, context: Context) -> Decision:
    if not timed_out(txn, context.now_ms):
        return Decision(txn, ())
    decision = _fence_and_abort(txn, context)
    if not context.remembers_time_outs:
        return decision
    epoch = txn.client_pair[1]
    after = decision.txn._replace(last_producer_epoch=epoch, timed_out_epoch=epoch)
    return decision._replace(txn=after, effects=(Append(after), WriteMarkers(after)))


def timed_out(txn: Txn, now_ms: int) -> bool:
    return (
        txn.phase is ONGOING
        and txn.timeout_ms != TIMEOUT_NONE
        and txn.started_at_ms + txn.timeout_ms < now_ms
    )


# --- completion


def _markers_written(txn: Txn, request: MarkersWritten, context: Context) -> Decision:
    (
        transactional_id, producer_id, previous_id, next_id, epoch, next_epoch, last_epoch, timeout_ms, phase, _,
        started_at_ms, _, client_version, timed_out_epoch, init_version,
    ) = txn  # fmt: skip
    if next_epoch != -1:  # The transaction was kept.
        producer_id, epoch = next_id, next_epoch
    else:
        previous_id = producer_id
        if next_id >= 0:
            producer_id, epoch = next_id, 0
    after = _new(Txn, (
        transactional_id, producer_id, previous_id, -1, epoch, -1, last_epoch, timeout_ms, COMPLETION[phase], NOBODY,
        started_at_ms, context[NOW_MS], client_version, timed_out_epoch, init_version,
    ))  # fmt: skip
    return _new(Decision, (after, (_new(Append, (after,)),), False))


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
