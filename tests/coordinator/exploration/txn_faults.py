"""Seeded faults: each breaks one rule of the coordinator or the log, and the exploration must find it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import txn_batches
import txn_explorer
import txn_power
import txn_producers
from txn_harness import replaced, with_fields
from txn_power import Synced
from txn_world import PARTITIONS, Rules, World

from stuntbroker.coordinator import machine, records
from stuntbroker.coordinator.requests import (
    OK,
    AddPartitions,
    Append,
    Context,
    Decision,
    Effect,
    EndTxn,
    InitProducerId,
    MarkersWritten,
    RejectNewRecords,
    Reply,
    TimeOut,
    WriteMarkers,
)
from stuntbroker.coordinator.state import COMPLETED, Phase, Txn
from stuntbroker.protocol.errors import ErrorCode

Seed = Callable[[pytest.MonkeyPatch], None]


def rewritten(
    monkeypatch: pytest.MonkeyPatch, kinds: tuple[type, ...], change: Callable[[Txn, Decision], tuple[Effect, ...]]
) -> None:
    """Replace the effects of decisions on these kinds of requests."""
    for kind in kinds:
        rule = machine.RULES[kind]

        def changed(txn: Txn, request: Any, at: Context, rule: Callable[..., Decision] = rule) -> Decision:
            decision = rule(txn, request, at)
            return replaced(decision, effects=change(txn, decision))

        monkeypatch.setitem(machine.RULES, kind, changed)


def a_take_over_that_does_not_abort(monkeypatch: pytest.MonkeyPatch) -> None:
    def rule(txn: Txn, request: InitProducerId, at: Context) -> Decision:
        return machine._new_identity(with_fields(txn, phase=Phase.EMPTY), request, at)

    monkeypatch.setitem(machine.RULES, InitProducerId, rule)


def a_fenced_producer_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    def rule(txn: Txn, producer_id: int, producer_epoch: int) -> Reply | None:
        return None if producer_id == txn.producer_id else Reply(ErrorCode.INVALID_PRODUCER_ID_MAPPING)

    monkeypatch.setattr(machine, "_producer_error", rule)


def a_reply_before_the_append(monkeypatch: pytest.MonkeyPatch) -> None:
    rewritten(monkeypatch, (EndTxn,), lambda _, decision: decision.effects[-1:] + decision.effects[:-1])


def markers_before_the_append(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(_: Txn, decision: Decision) -> tuple[Effect, ...]:
        effects = decision.effects
        return (effects[1], effects[0], *effects[2:]) if len(effects) == 3 else effects

    def complete_only_what_is_prepared(txn: Txn, request: Any, at: Context) -> Decision:
        return markers_written(txn, request, at) if txn.phase in machine.COMPLETION else Decision(txn, ())

    markers_written = machine.RULES[MarkersWritten]
    monkeypatch.setitem(machine.RULES, MarkersWritten, complete_only_what_is_prepared)
    rewritten(monkeypatch, (EndTxn,), change)


def markers_with_the_old_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(before: Txn, decision: Decision) -> tuple[Effect, ...]:
        old = before.producer_epoch
        return tuple(
            WriteMarkers(with_fields(each.txn, producer_epoch=old)) if isinstance(each, WriteMarkers) else each
            for each in decision.effects
        )

    rewritten(monkeypatch, (EndTxn, InitProducerId, TimeOut), change)


def an_end_that_is_not_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reply is correct, but the end of the transaction is lost in a crash."""

    def change(_: Txn, decision: Decision) -> tuple[Effect, ...]:
        return tuple(each for each in decision.effects if isinstance(each, Reply)) or decision.effects

    rewritten(monkeypatch, (EndTxn,), change)


def an_end_txn_of_any_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = machine.RULES[EndTxn]

    def changed(txn: Txn, request: EndTxn, at: Context) -> Decision:
        return rule(txn, replaced(request, producer_epoch=txn.producer_epoch), at)

    monkeypatch.setitem(machine.RULES, EndTxn, changed)


def a_new_instance_that_the_old_one_may_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fenced epoch can still be bumped, as if its own producer had made the last InitProducerId."""

    def change(before: Txn, decision: Decision) -> tuple[Effect, ...]:
        return tuple(
            Append(with_fields(each.txn, last_producer_epoch=before.producer_epoch - 1))
            if isinstance(each, Append) and each.txn.phase is Phase.EMPTY
            else each
            for each in decision.effects
        )

    rewritten(monkeypatch, (InitProducerId,), change)


def a_restart_that_finishes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(txn_explorer, "PREPARED", frozenset())


def partitions_that_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log record has only the partitions that were added last."""
    rule = machine.RULES[AddPartitions]

    def changed(txn: Txn, request: Any, at: Context) -> Decision:
        return rule(with_fields(txn, partitions=frozenset()), request, at)

    monkeypatch.setitem(machine.RULES, AddPartitions, changed)


# --- faults of two-phase commit (KIP-939)


def asked_instead(monkeypatch: pytest.MonkeyPatch, kind: type, change: Callable[[Txn, Any], tuple[Txn, Any]]) -> None:
    """Change the state and the request before requests of this kind are decided."""
    rule = machine.RULES[kind]

    def changed(txn: Txn, request: Any, at: Context) -> Decision:
        return rule(*change(txn, request), at)

    monkeypatch.setitem(machine.RULES, kind, changed)


def without_client_pair(txn: Txn) -> Txn:
    return with_fields(txn, next_producer_id=-1, next_producer_epoch=-1) if txn.is_recovered else txn


def a_keep_that_aborts(monkeypatch: pytest.MonkeyPatch) -> None:
    asked_instead(monkeypatch, InitProducerId, lambda txn, request: (txn, replaced(request, keep_prepared=False)))


def a_keep_that_does_not_bump_the_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = machine.RULES[InitProducerId]

    def changed(txn: Txn, request: InitProducerId, at: Context) -> Decision:
        if txn.phase is not Phase.ONGOING or not request.keep_prepared:
            return rule(txn, request, at)
        producer_id, epoch = txn.client_pair
        after = with_fields(txn, next_producer_id=producer_id, next_producer_epoch=epoch)
        reply = Reply(OK, producer_id, epoch, txn.producer_id, txn.producer_epoch)
        return Decision(after, (Append(after), RejectNewRecords(after), reply))

    monkeypatch.setitem(machine.RULES, InitProducerId, changed)


def a_keep_that_forgets_the_seal(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(_: Txn, decision: Decision) -> tuple[Effect, ...]:
        return tuple(each for each in decision.effects if not isinstance(each, RejectNewRecords))

    rewritten(monkeypatch, (InitProducerId,), change)


def a_keep_sealed_after_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(_: Txn, decision: Decision) -> tuple[Effect, ...]:
        return tuple(sorted(decision.effects, key=lambda each: isinstance(each, RejectNewRecords)))

    rewritten(monkeypatch, (InitProducerId,), change)


def a_restart_that_forgets_the_seal(monkeypatch: pytest.MonkeyPatch) -> None:
    crashed = txn_explorer.crashed

    def changed(rules: Rules, world: World, kept: Txn | None) -> World:
        after = crashed(rules, world, kept)
        each, other = after.logs
        return after._replace(logs=(each._replace(sealed=frozenset()), other._replace(sealed=frozenset())))

    monkeypatch.setattr(txn_explorer, "crashed", changed)


def a_kept_transaction_that_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(txn: Txn, request: AddPartitions) -> tuple[Txn, AddPartitions]:
        if (request.producer_id, request.producer_epoch) != txn.client_pair:
            return txn, request
        after = without_client_pair(txn)
        return after, replaced(request, producer_id=after.producer_id, producer_epoch=after.producer_epoch)

    asked_instead(monkeypatch, AddPartitions, change)


def markers_with_the_clients_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(before: Txn, decision: Decision) -> tuple[Effect, ...]:
        producer_id, epoch = before.client_pair
        return tuple(
            WriteMarkers(with_fields(each.txn, producer_id=producer_id, producer_epoch=epoch))
            if isinstance(each, WriteMarkers) and before.is_recovered
            else each
            for each in decision.effects
        )

    rewritten(monkeypatch, (EndTxn,), change)


def the_old_pair_accepted_after_a_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = machine._producer_error

    def changed(txn: Txn, producer_id: int, producer_epoch: int) -> Reply | None:
        if (producer_id, producer_epoch) == (txn.producer_id, txn.producer_epoch):
            return None
        return rule(txn, producer_id, producer_epoch)

    monkeypatch.setattr(machine, "_producer_error", changed)


def a_keep_by_whoever_names_an_old_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(txn: Txn, request: InitProducerId) -> tuple[Txn, InitProducerId]:
        return txn, replaced(request, producer_id=-1, producer_epoch=-1) if request.keep_prepared else request

    asked_instead(monkeypatch, InitProducerId, change)


def a_time_out_of_a_two_phase_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(txn: Txn, request: TimeOut) -> tuple[Txn, TimeOut]:
        return with_fields(txn, timeout_ms=min(txn.timeout_ms, 60_000)), request

    asked_instead(monkeypatch, TimeOut, change)


def a_restart_that_loses_the_clients_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log record of transaction version 0 loses the client's producer id and epoch."""
    value_of = records.value_of

    def changed(txn: Txn, version: int) -> bytes:
        return value_of(without_client_pair(txn) if version == 0 else txn, version)

    monkeypatch.setattr(txn_explorer, "value_of", changed)


def a_termination_that_forgets_the_clients_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(txn: Txn, request: InitProducerId) -> tuple[Txn, InitProducerId]:
        return txn if request.keep_prepared or request.producer_id != -1 else without_client_pair(txn), request

    asked_instead(monkeypatch, InitProducerId, change)


def a_complete_that_gives_the_client_the_pair_of_the_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    asked_instead(monkeypatch, MarkersWritten, lambda txn, request: (without_client_pair(txn), request))


def a_retry_of_end_txn_that_is_fenced(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = machine.RULES[EndTxn]

    def changed(txn: Txn, request: EndTxn, at: Context) -> Decision:
        if txn.phase in COMPLETED and request.client_version == 2 and request.producer_epoch != txn.producer_epoch:
            return Decision(txn, (Reply(ErrorCode.PRODUCER_FENCED),))
        return rule(txn, request, at)

    monkeypatch.setitem(machine.RULES, EndTxn, changed)


def a_time_out_that_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Profile kip-588: the log record loses the epoch that timed out."""
    value_of = records.value_of

    def changed(txn: Txn, version: int) -> bytes:
        return value_of(with_fields(txn, timed_out_epoch=-1), version)

    monkeypatch.setattr(txn_explorer, "value_of", changed)


# --- faults of requests with several batches


def a_batch_that_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the coordinator's reply, the broker does not check again whether the other transactions are still open."""
    monkeypatch.setattr(txn_batches, "has_lapsed", lambda world, at, others: False)


def a_request_of_which_one_partition_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(txn_batches, "announced", lambda to_add: frozenset({PARTITIONS[to_add[0]]}))


def a_batch_that_is_refused_and_written(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = txn_batches.heard

    def changed(rules: Rules, world: World, at: int, errors: dict[int, int]) -> World:
        return heard(rules, world, at, dict.fromkeys(errors, 0))

    monkeypatch.setattr(txn_producers, "heard", changed)


# --- faults of a disk with unsynced writes (`--durability power`)


def an_answer_before_the_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(txn_explorer, "behind_sync", lambda work: work)


def a_complete_before_the_sync_of_its_markers(monkeypatch: pytest.MonkeyPatch) -> None:
    finishing = txn_explorer.finishing

    def changed(rules: Rules, txn: Txn, behind: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(each for each in finishing(rules, txn, behind) if not isinstance(each, Synced))

    monkeypatch.setattr(txn_explorer, "finishing", changed)


def records_that_are_acknowledged_before_the_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    written = txn_producers.written

    def changed(rules: Rules, world: World, at: int) -> World:
        return written(replace(rules, power=False), world, at)

    monkeypatch.setattr(txn_producers, "written", changed)


def a_sync_that_counts_for_what_was_written_after_it_began(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a sync also acknowledges writes that were made after the sync began."""
    syncs = txn_power.syncs

    def changed(world: World) -> Iterator[tuple[str, World]]:
        if world.disk.sync is not None:
            clients = tuple(at for at, client in enumerate(world.clients) if client.acking)
            sync = world.disk.sync._replace(actor=txn_power.waits(world), clients=clients)
            world = world._replace(disk=world.disk._replace(sync=sync))
        yield from syncs(world)

    monkeypatch.setattr(txn_explorer, "syncs", changed)


FAULTS: list[tuple[Seed, str, str]] = [
    # fault                                     scene                       what it breaks
    (a_take_over_that_does_not_abort,           "TV1",                      "stays open for ever"),
    (a_take_over_that_does_not_abort,           "TV2",                      "stays open for ever"),
    (a_fenced_producer_accepted,                "TV1",                      "is fenced and succeeds with AddPartitions"),
    (a_reply_before_the_append,                 "TV1",                      "told to be committed, and open"),
    (a_reply_before_the_append,                 "TV2",                      "told to be committed, and open"),
    (markers_before_the_append,                 "TV2",                      "and open in the other"),
    (markers_with_the_old_epoch,                "TV2",                      "stays open for ever"),
    (an_end_that_is_not_logged,                 "TV2",                      "told to be committed, and open"),
    (an_end_txn_of_any_epoch,                   "TV2, a late copy",         "is fenced and succeeds with EndTxn"),
    (a_new_instance_that_the_old_one_may_follow, "TV1, two transactions",   "is fenced and succeeds with InitProducerId"),
    (a_restart_that_finishes_nothing,           "TV1",                      "does not get the id"),
    (partitions_that_are_forgotten,             "TV2",                      "stays open for ever"),
    (partitions_that_are_forgotten,             "2PC TV2",                  "was prepared, and is lost"),
    (an_end_that_is_not_logged,                 "2PC TV1",                  "cannot be committed"),
    (a_keep_that_aborts,                        "2PC TV2",                  "aborted against its database"),
    (a_keep_that_does_not_bump_the_pair,        "2PC TV2",                  "is fenced and succeeds"),
    (a_keep_that_forgets_the_seal,              "2PC TV2",                  "of a fenced producer is taken"),
    (a_keep_sealed_after_the_answer,            "2PC TV1",                  "of a fenced producer is taken"),
    (a_restart_that_forgets_the_seal,           "2PC TV2",                  "of a fenced producer is taken"),
    (a_kept_transaction_that_grows,             "2PC TV2",                  "was kept takes more records"),
    (markers_with_the_clients_pair,             "2PC TV2, last epoch",      "cannot be committed"),
    (the_old_pair_accepted_after_a_keep,        "2PC TV1",                  "is fenced and succeeds with EndTxn"),
    (a_keep_by_whoever_names_an_old_pair,       "2PC TV2",                  "is fenced and succeeds with InitProducerId"),
    (a_time_out_of_a_two_phase_transaction,     "2PC TV2",                  "is timed out"),
    (a_restart_that_loses_the_clients_pair,     "2PC TV0",                  "is fenced and succeeds"),
    (a_termination_that_forgets_the_clients_pair, "2PC TV2, terminated",    "is handed out after"),
    (a_complete_that_gives_the_client_the_pair_of_the_transaction, "2PC TV2", "is fenced and succeeds with"),
    (a_retry_of_end_txn_that_is_fenced,         "2PC TV2, three, a lost reply", "is fenced by nobody"),
    (a_time_out_that_is_not_remembered,         "KIP-588 TV0",              "is fenced by nobody"),
    (a_batch_that_is_not_looked_at_again,       "batches 2PC TV2, second",  "who is fenced, is written"),
    (a_batch_that_is_not_looked_at_again,       "batches 2PC TV1, second",  "who is fenced, is written"),
    (a_request_of_which_one_partition_is_announced, "batches TV2",          "stays open for ever"),
    (a_batch_that_is_refused_and_written,       "batches 2PC TV1, second",  "who is fenced, is written"),
    (an_answer_before_the_sync,                 "power TV1",                "is fenced and succeeds"),
    (a_complete_before_the_sync_of_its_markers, "power TV2",                "stays open for ever"),
    (records_that_are_acknowledged_before_the_sync, "power TV2",            "told to be committed"),
    (records_that_are_acknowledged_before_the_sync, "power 2PC TV2",        "was prepared, and is lost"),
    (a_sync_that_counts_for_what_was_written_after_it_began, "power 2PC TV2", "of a fenced producer is taken"),
]  # fmt: skip
