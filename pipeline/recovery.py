"""End the transactions of a sink: one procedure for commit, abort and recovery.

    settle:  commit decided transactions that are not done; mark the decision done; abort all other open transactions of the sink

It runs before every batch, after the decision of a batch, and when a batch is aborted. Aborting a batch that was already
decided therefore commits it, and transactions of retried or speculative tasks, which no message names, are found by their
transactional ids.

Transactional ids of a sink are `SINK-PARTITION-SLOT`. They are found by listing, not by counting, so that a sink that once
had more partitions leaves none behind. Two-phase transactions have no time-out: a forgotten transaction would hold back the
last stable offset for ever.

Why no abort can hit a transaction that is or will be decided, even if a driver that seemed dead comes back: a transaction is
aborted by the exact producer id and epoch that were listed, and the owner of the sink is checked *after* the listing. If a
listed transaction belongs to another driver, that driver owns the sink by then, the check fails, and nothing is aborted.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from stuntbroker.client.commands.admin import Admin, Description
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.transactions import End, Ended, end_all, init_producer
from stuntbroker.client.errors import NAMES, UnsupportedVersion
from stuntbroker.client.prepared_state import PreparedTxnState
from stuntbroker.pipeline.decisions import Decisions, Stored, Transaction, check_sink_id
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.transaction_states import EMPTY, ONGOING

OUTDATED_PRODUCER_ERRORS: Final = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
)
"""Errors for an outdated producer id and epoch: the transaction has ended, or another client kept it (KIP-939)."""
TIMEOUT_MS: Final = 60_000
PARTITION_AND_SLOT: Final = re.compile("[0-9]+-[0-9]+")


class DecisionLost(Exception):
    """The coordinator refuses to end a transaction as decided."""


class Plan(NamedTuple):
    """The transactions to commit (of the decided batch `batch_id`) and to abort."""

    commits: tuple[End, ...]
    batch_id: int | None
    """The batch to mark as done after the commits."""
    aborts: tuple[End, ...]


class Settled(NamedTuple):
    """Result of `settle`: the last decision, and the numbers of committed and aborted transactions."""

    last: Stored | None
    committed: int
    aborted: int


def single_id(sink_id: str) -> str:
    """Return the transactional id of a sink with mode=single; a sink with mode=2pc fences its producer."""
    return f"{sink_id}-single"


def transactional_id(sink_id: str, partition: int, slot: int) -> str:
    """Return the transactional id of a sink's slot; two sinks never share an id, as the last two parts are numbers."""
    check_sink_id(sink_id)
    return f"{sink_id}-{partition}-{slot}"


def pattern(sink_id: str) -> str:
    """Return a pattern that matches all ids of a sink and few others, without needing RE2 in Stuntbroker."""
    check_sink_id(sink_id)
    return re.escape(sink_id) + "-.*-.*"


def is_of_sink(transactional_id: str, sink_id: str) -> bool:
    """Whether this is an id that `transactional_id()` makes for this sink."""
    prefix = f"{sink_id}-"
    return transactional_id.startswith(prefix) and bool(PARTITION_AND_SLOT.fullmatch(transactional_id, len(prefix)))


def plan(last: Stored | None, descriptions: Iterable[Description] = ()) -> Plan:
    """Return the commits and aborts required by the last decision and the coordinators' descriptions of the sink's ids.

    An id without a transaction (Empty) may belong to a slow task that has not begun its transaction yet. Aborting the id,
    which transaction version 2 allows, invalidates the task's producer id and epoch.
    """
    decided: Collection[Transaction] = last.decision.transactions if last else ()
    named = set(decided)
    commits = [End(*item, True) for item in decided] if last and not last.done else []
    aborts = [
        End(item.transactional_id, item.producer_id, item.producer_epoch, False)
        for item in descriptions
        if item.state in (ONGOING, EMPTY)
        and Transaction(item.transactional_id, item.producer_id, item.producer_epoch) not in named
    ]
    return Plan(tuple(commits), last.decision.batch_id if last and not last.done else None, tuple(aborts))


def settle(cluster: Cluster, store: Decisions, sink_id: str) -> Settled:
    """Commit the decided transactions of the sink and abort all others. The caller must have taken or resumed the sink.

    May be repeated after any interruption. Raises Superseded, DecisionLost, ClientError.
    """
    admin = Admin(cluster)
    last = store.last()
    first = plan(last)
    if last is not None and first.batch_id is not None:
        _end(cluster, admin, first.commits, set())
        store.done(first.batch_id)
        last = last._replace(done=True)
    descriptions = running(admin, sink_id)
    aborts = plan(last, descriptions).aborts
    if aborts:
        store.check()
        _end(
            cluster,
            admin,
            aborts,
            {description.transactional_id for description in descriptions if description.state == EMPTY},
        )
    return Settled(last, len(first.commits), len(aborts))


def running(admin: Admin, sink_id: str) -> list[Description]:
    """Return descriptions of the sink's ids that have a transaction (Ongoing) or could begin one (Empty)."""
    listed = admin.list_transactions(states=(ONGOING, EMPTY), pattern=pattern(sink_id)).listings
    described = admin.describe_transactions(
        item.transactional_id for item in listed if is_of_sink(item.transactional_id, sink_id)
    )
    return [item for item in described.values() if item is not None]


def _end(cluster: Cluster, admin: Admin, ends: Sequence[End], empty: Collection[str]) -> None:
    """End transactions; `empty` are ids that had no transaction when they were listed."""
    faults = [ended for ended in end_all(cluster, ends) if ended.code]
    gone = [ended for ended in faults if ended.code in OUTDATED_PRODUCER_ERRORS]
    described = admin.describe_transactions(ended.end.transactional_id for ended in gone) if gone else {}
    for ended in faults:
        end = ended.end
        if ended in gone:
            now = described[end.transactional_id]
            pair = (now.producer_id, now.producer_epoch) if now is not None and now.state == ONGOING else None
            if pair == (end.producer_id, end.producer_epoch) and _end_kept(cluster, end):
                continue
            if not end.commit:
                continue
            raise DecisionLost(
                f"{end} was decided, but is not open any more: it was committed before, or another client "
                f"of the transactional id aborted it ({_name(ended)})"
            )
        if ended.code == ErrorCode.INVALID_TXN_STATE and end.transactional_id in empty:
            continue  # Transaction version 1 has nothing to abort there.
        if end.commit:
            raise DecisionLost(f"{end} was decided, but the coordinator refuses it: {_name(ended)}")
        raise DecisionLost(f"{end}: no decision names the transaction, but the coordinator refuses: {_name(ended)}")


def _end_kept(cluster: Cluster, end: End) -> bool:
    """Keep a transaction that another client has kept (KIP-939), then end it; return False if it had already ended."""
    try:
        initialised = init_producer(cluster, end.transactional_id, TIMEOUT_MS, two_phase=True, keep=True)
    except UnsupportedVersion:
        return False
    if initialised.ongoing != PreparedTxnState(end.producer_id, end.producer_epoch):
        return False
    (ended,) = end_all(cluster, [End(end.transactional_id, *initialised.pair, end.commit)])
    return not ended.code


def _name(ended: Ended) -> str:
    name = NAMES.get(ended.code) or f"error code {ended.code}"
    return name if ended.fence_reason is None else f"{name}: {ended.fence_reason}"
