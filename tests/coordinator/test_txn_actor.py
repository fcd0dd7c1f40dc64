"""The actor: effects in order, one request at a time, a mailbox with a limit, and nothing that an idle id pays for."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable
from functools import partial
from types import CellType, FunctionType, GeneratorType, MethodType

import pytest
from txn_actors import ADD, ADD_AUDIT, COMMIT, COMMIT_TOLD, VERIFY, actor_in
from txn_harness import ID, ORDERS, PRODUCER, Refused, World, replaced, txn_in

from stuntbroker.coordinator.actor import MAILBOX_LENGTH_MAX, Actor
from stuntbroker.coordinator.requests import AddPartitions, InitProducerId, Reply, Request, TimeOut
from stuntbroker.coordinator.state import Phase, new_txn
from stuntbroker.protocol.errors import ErrorCode

COSTLY = (asyncio.Future, asyncio.Handle, FunctionType, MethodType, CellType, GeneratorType, partial)
IDLE_BYTES_MAX = 400
"""Of an actor and its state, without the id, the numbers and the set of partitions, which others share."""


def ask(actor: Actor, world: World, *requests: Request) -> list[str]:
    """Everything that came of these requests."""
    world.transcript.clear()
    for request in requests:
        actor.ask(request, world.hear(), world)
    return list(world.transcript)


@pytest.fixture
def world() -> World:
    return World()


# --- answered before `ask` returns


def test_a_request_is_answered_at_once_when_nothing_is_in_the_way(world: World) -> None:
    actor = actor_in(Phase.EMPTY)

    assert ask(actor, world, ADD, COMMIT) == ["append ONGOING", "reply NONE", *COMMIT_TOLD]
    assert not actor.busy and actor.mailbox is None


def test_the_state_is_what_the_log_holds(world: World) -> None:
    actor = actor_in(Phase.EMPTY)
    ask(actor, world, ADD, COMMIT, InitProducerId(60_000))

    assert actor.txn is world.appended[-1]


def test_a_take_over_aborts_and_is_answered_in_one_go(world: World) -> None:
    """As in Kafka, but nobody is told CONCURRENT_TRANSACTIONS meanwhile."""
    assert ask(actor_in(Phase.ONGOING), world, InitProducerId(60_000)) == [
        "append PREPARE_ABORT", "markers abort", "append COMPLETE_ABORT", "append EMPTY", "reply NONE",
    ]  # fmt: skip


def test_a_spare_producer_id_is_taken_once(world: World) -> None:
    """The second decision of a take-over sees the next one."""
    world.at = world.at._replace(transaction_version=2)
    actor = Actor(txn_in(Phase.ONGOING, 32_766), 0)
    first = world.at.next_producer_id
    replies: list[Reply] = []
    actor.ask(InitProducerId(60_000), replies.append, world)

    assert replies == [Reply(ErrorCode.NONE, first, 1)]
    assert world.at.next_producer_id == first + 1


def test_nobody_has_to_listen(world: World) -> None:
    actor = Actor(txn_in(Phase.ONGOING, timeout_ms=1), 0)
    actor.ask(TimeOut(), None, world)

    assert world.transcript == ["append PREPARE_ABORT", "markers abort", "append COMPLETE_ABORT"]
    assert actor.txn.phase is Phase.COMPLETE_ABORT


# --- a log that must sync


def test_nothing_after_the_append_is_done_before_the_log_is_synced(world: World) -> None:
    """KIP-98: a commit is durable before a marker or an answer tells of it, and every marker before Complete."""
    world.must_sync = True
    actor = actor_in(Phase.ONGOING)

    assert ask(actor, world, COMMIT) == ["append PREPARE_COMMIT"]
    assert actor.busy

    world.sync()

    marked, completed, answered = COMMIT_TOLD[1:]
    assert world.transcript == ["append PREPARE_COMMIT", "synced", marked, answered]
    assert actor.busy

    world.sync()

    assert world.transcript[4:] == ["synced", completed]
    assert not actor.busy and actor.mailbox is None


def test_requests_wait_in_order_while_the_log_syncs(world: World) -> None:
    world.must_sync = True
    actor = actor_in(Phase.EMPTY)
    stale = replaced(ADD, producer_epoch=4)
    for name, request in (("add", ADD), ("verify", VERIFY), ("more", ADD_AUDIT), ("stale", stale)):
        actor.ask(request, world.hear(name), world)
    messages = [
        "append ONGOING",
        "synced", "add reply NONE", "verify reply NONE", "append ONGOING",
        "synced", "more reply NONE", "stale reply PRODUCER_FENCED",
    ]  # fmt: skip

    world.sync()
    world.sync()

    assert world.transcript == messages
    assert not actor.busy and actor.mailbox is None


def test_a_take_over_syncs_three_times(world: World) -> None:
    world.must_sync = True
    actor = actor_in(Phase.ONGOING)
    ask(actor, world, InitProducerId(60_000))
    world.sync()
    world.sync()

    assert world.transcript == [
        "append PREPARE_ABORT", "synced", "markers abort", "synced", "append COMPLETE_ABORT", "append EMPTY",
    ]  # fmt: skip
    assert actor.busy

    world.sync()

    assert world.transcript[-2:] == ["synced", "reply NONE"]
    assert not actor.busy


# --- what was prepared is kept (KIP-939)

KEEP = InitProducerId(60_000, keep_prepared=True)
LATE = AddPartitions(PRODUCER, 5, frozenset({ORDERS}), 2)


def test_what_is_kept_is_sealed_before_its_new_owner_hears_of_it(world: World) -> None:
    """KIP-939: nothing that comes after the answer is in the transaction that the answer tells of."""
    actor = actor_in(Phase.ONGOING)

    assert ask(actor, world, KEEP) == ["append ONGOING", "seal", "reply NONE"]
    assert actor.txn.is_recovered and world.sealed == [actor.txn] == world.appended
    assert not actor.busy and actor.mailbox is None


def test_what_is_kept_is_sealed_when_the_log_has_it_and_not_before(world: World) -> None:
    """Were it sealed without having been kept, its owner would be shut out of a transaction that is still its own."""
    world.must_sync = True
    actor = actor_in(Phase.ONGOING)

    assert ask(actor, world, KEEP) == ["append ONGOING"]
    assert actor.busy and world.sealed == []

    world.sync()

    assert world.transcript == ["append ONGOING", "synced", "seal", "reply NONE"]
    assert not actor.busy and actor.mailbox is None


def test_who_waits_behind_a_keep_is_answered_by_what_was_kept(world: World) -> None:
    """What the owner before asks while the log syncs is not decided upon by what was true when it came."""
    world.must_sync = True
    actor = actor_in(Phase.ONGOING)
    for name, request in (("keep", KEEP), ("late", LATE), ("commit", COMMIT), ("again", KEEP)):
        actor.ask(request, world.hear(name), world)
    world.sync()

    assert world.transcript == [
        "append ONGOING", "synced", "seal", "keep reply NONE", "late reply PRODUCER_FENCED",
        "commit reply PRODUCER_FENCED", "append ONGOING",
    ]  # fmt: skip

    world.sync()

    assert world.transcript[7:] == ["synced", "seal", "again reply NONE"]
    assert actor.txn.client_pair == (PRODUCER, 7)


def test_the_repetition_of_a_keep_appends_and_seals_nothing(world: World) -> None:
    actor = actor_in(Phase.ONGOING)
    named = replaced(KEEP, producer_id=PRODUCER, producer_epoch=5)
    ask(actor, world, named)

    assert ask(actor, world, named) == ["reply NONE"]


def test_a_keep_that_the_log_refuses_seals_nothing(world: World) -> None:
    actor = actor_in(Phase.ONGOING)
    world.refuse_append = True
    with pytest.raises(Refused):
        actor.ask(KEEP, world.hear(), world)

    assert world.transcript == [] and not actor.txn.is_recovered

    world.refuse_append = False

    assert ask(actor, world, COMMIT) == COMMIT_TOLD


def test_a_keep_that_cannot_be_sealed_is_not_answered_and_may_be_repeated(world: World) -> None:
    world.refuse_seal = True
    actor = actor_in(Phase.ONGOING)
    with pytest.raises(Refused):
        actor.ask(KEEP, world.hear(), world)

    assert world.transcript == ["append ONGOING"] and not actor.busy

    world.refuse_seal = False

    assert ask(actor, world, KEEP) == ["append ONGOING", "seal", "reply NONE"]


def test_the_end_of_a_kept_transaction_has_the_pair_of_its_records_in_the_markers(world: World) -> None:
    actor = actor_in(Phase.ONGOING)
    ask(actor, world, KEEP)

    assert ask(actor, world, replaced(COMMIT, producer_epoch=6)) == COMMIT_TOLD
    assert [(txn.producer_id, txn.producer_epoch) for txn in world.marked] == [(PRODUCER, 6)]
    assert actor.txn.client_pair == (PRODUCER, 7) and not actor.txn.is_recovered


# --- a mailbox with a limit


def test_a_full_mailbox_is_an_error_that_the_client_tries_again_after(world: World) -> None:
    world.must_sync = True
    actor = actor_in(Phase.EMPTY)
    ask(actor, world, ADD)
    ask(actor, world, *[VERIFY] * MAILBOX_LENGTH_MAX)

    assert world.transcript == []
    assert ask(actor, world, VERIFY) == ["reply CONCURRENT_TRANSACTIONS"]
    actor.ask(TimeOut(), None, world)

    world.transcript.clear()
    world.sync()

    assert world.transcript == ["synced", *["reply NONE"] * (MAILBOX_LENGTH_MAX + 1)]
    assert ask(actor, world, VERIFY) == ["reply NONE"]


def test_a_full_mailbox_is_served_without_recursion(world: World) -> None:
    world.must_sync = True
    actor = actor_in(Phase.EMPTY)
    depths: list[int] = []

    def depth(reply: Reply) -> None:
        frame, count = sys._getframe(), 0
        while frame.f_back is not None:
            frame, count = frame.f_back, count + 1
        depths.append(count)

    actor.ask(ADD, depth, world)
    for _ in range(100):
        actor.ask(VERIFY, depth, world)
    world.sync()

    assert len(depths) == 101
    assert max(depths) - min(depths) < 5


# --- faults


def test_a_failing_append_changes_nothing_and_the_actor_continues(world: World) -> None:
    actor = actor_in(Phase.ONGOING)
    before = actor.txn
    world.refuse_append = True
    with pytest.raises(Refused):
        actor.ask(COMMIT, world.hear(), world)

    assert world.transcript == []
    assert actor.txn is before and not actor.busy

    world.refuse_append = False

    assert ask(actor, world, COMMIT) == COMMIT_TOLD


def test_failing_markers_leave_it_prepared_until_it_is_finished(world: World) -> None:
    actor = actor_in(Phase.ONGOING)
    world.refuse_markers = True
    with pytest.raises(Refused):
        actor.ask(COMMIT, world.hear(), world)

    assert world.transcript == ["append PREPARE_COMMIT"]
    assert actor.txn.phase is Phase.PREPARE_COMMIT and not actor.busy
    assert ask(actor, world, COMMIT, InitProducerId(60_000)) == ["reply CONCURRENT_TRANSACTIONS"] * 2

    world.refuse_markers = False
    world.transcript.clear()
    actor.finish(world)

    assert world.transcript == ["markers commit", "append COMPLETE_COMMIT"]
    assert ask(actor, world, COMMIT) == ["reply NONE"]


def test_what_cannot_be_finished_can_be_finished_later(world: World) -> None:
    actor = actor_in(Phase.PREPARE_ABORT)
    world.refuse_markers = True
    with pytest.raises(Refused):
        actor.finish(world)
    world.refuse_markers, world.refuse_append = False, True
    with pytest.raises(Refused):
        actor.finish(world)

    assert world.transcript == ["markers abort"]

    world.refuse_append = False
    actor.finish(world)

    assert actor.txn.phase is Phase.COMPLETE_ABORT
    assert world.transcript == ["markers abort", "markers abort", "append COMPLETE_ABORT"]  # Twice: that does no harm.


def test_a_fault_after_the_sync_leaves_the_actor_usable_and_serves_who_waits(world: World) -> None:
    """Who was told to wait hears that it may try again; the fault itself goes to the edge of the shell."""
    world.must_sync = world.refuse_markers = True
    actor = actor_in(Phase.ONGOING)
    ask(actor, world, COMMIT)
    actor.ask(replaced(VERIFY, producer_epoch=6), world.hear("waiting"), world)
    with pytest.raises(Refused):
        world.sync()

    assert world.transcript == [
        "append PREPARE_COMMIT", "synced", "reply COORDINATOR_NOT_AVAILABLE", "waiting reply CONCURRENT_TRANSACTIONS",
    ]  # fmt: skip
    assert not actor.busy and actor.mailbox is None

    world.refuse_markers = False
    actor.finish(world)
    assert actor.busy
    world.sync()

    assert actor.txn.phase is Phase.COMPLETE_COMMIT
    assert not actor.busy


def test_a_complete_record_that_the_log_refuses_leaves_the_actor_usable_and_serves_who_waits(world: World) -> None:
    world.must_sync = True
    actor = actor_in(Phase.ONGOING)
    ask(actor, world, COMMIT)
    actor.ask(replaced(VERIFY, producer_epoch=6), world.hear("waiting"), world)
    world.sync()
    world.refuse_append = True
    with pytest.raises(Refused):
        world.sync()

    assert world.transcript == [
        "append PREPARE_COMMIT", "synced", "markers commit", "reply NONE", "synced", "waiting reply CONCURRENT_TRANSACTIONS",
    ]  # fmt: skip
    assert actor.txn.phase is Phase.PREPARE_COMMIT
    assert not actor.busy and actor.mailbox is None


def test_a_fault_of_one_that_waited_does_not_stop_the_others(world: World) -> None:
    world.must_sync = True
    actor = actor_in(Phase.EMPTY)
    ask(actor, world, ADD)
    for name, request in (("one", ADD_AUDIT), ("two", VERIFY), ("three", ADD_AUDIT), ("four", VERIFY)):
        actor.ask(request, world.hear(name), world)
    world.refuse_append = True
    with pytest.raises(Refused):
        world.sync()

    assert world.transcript[1:] == [
        "synced", "reply NONE", "one reply COORDINATOR_NOT_AVAILABLE", "two reply NONE",
        "three reply COORDINATOR_NOT_AVAILABLE", "four reply NONE",
    ]  # fmt: skip
    assert not actor.busy and actor.mailbox is None
    assert actor.txn.partitions == {ORDERS}


# --- who asks again from within an answer


def test_an_answer_may_ask_again(world: World) -> None:
    """What it asks is done when the first request is over, and after what waited before it."""
    actor = actor_in(Phase.EMPTY)

    def then(*requests: Request) -> Callable[[Reply], None]:
        def done(reply: Reply) -> None:
            world.hear("first")(reply)
            for number, request in enumerate(requests):
                actor.ask(request, world.hear(f"then {number}"), world)
            world.transcript.append("first is over")

        return done

    actor.ask(ADD, then(VERIFY, COMMIT), world)

    assert world.transcript == [
        "append ONGOING", "first reply NONE", "first is over", "then 0 reply NONE",
        *COMMIT_TOLD[:-1], "then 1 reply NONE",
    ]  # fmt: skip
    assert not actor.busy and actor.mailbox is None


def test_answers_that_ask_again_for_ever_cost_no_depth(world: World) -> None:
    actor = actor_in(Phase.ONGOING)
    left = 5_000

    def restarted(reply: Reply) -> None:
        nonlocal left
        left -= 1
        if left:
            actor.ask(VERIFY, restarted, world)

    actor.ask(VERIFY, restarted, world)

    assert left == 0


def test_a_listener_that_fails_does_not_harm_the_actor(world: World) -> None:
    actor = actor_in(Phase.ONGOING)

    def fails(reply: Reply) -> None:
        raise Refused

    with pytest.raises(Refused):
        actor.ask(COMMIT, fails, world)

    assert actor.txn.phase is Phase.COMPLETE_COMMIT
    assert ask(actor, world, COMMIT) == ["reply NONE"]


# --- what an id costs


def test_an_idle_actor_is_its_state_and_little_else(world: World) -> None:
    """A million ids fit in one process."""
    actor = actor_in(Phase.EMPTY)
    ask(actor, world, ADD, COMMIT)

    assert not hasattr(actor, "__dict__")
    assert sys.getsizeof(actor) + sys.getsizeof(actor.txn) <= IDLE_BYTES_MAX
    assert actor.mailbox is None


def test_an_actor_holds_no_task_timer_or_future(world: World) -> None:
    """Nor a closure: after a sync that was waited for it is as small as before."""
    world.must_sync = True
    actor = Actor(new_txn(ID, PRODUCER), 0)
    for request in (InitProducerId(60_000), replaced(ADD, producer_epoch=0), replaced(COMMIT, producer_epoch=0)):
        ask(actor, world, request)
        world.sync()
    world.sync()
    reached, todo = {id(actor)}, [actor]
    kinds: set[type] = set()
    while todo:
        each = todo.pop()
        kinds.add(type(each))
        if not isinstance(each, type):
            for held in gc.get_referents(each):
                if id(held) not in reached and not isinstance(held, type):
                    reached.add(id(held))
                    todo.append(held)

    assert actor.txn.phase is Phase.COMPLETE_COMMIT
    assert [kind for kind in kinds if issubclass(kind, COSTLY)] == []


def test_asking_needs_no_event_loop(world: World) -> None:
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()

    assert ask(actor_in(Phase.ONGOING), world, COMMIT) == COMMIT_TOLD
