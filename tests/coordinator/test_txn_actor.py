"""The actor performs effects in order, one request at a time, with a bounded mailbox and no cost for idle ids."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable
from functools import partial
from types import CellType, FunctionType, GeneratorType, MethodType

import pytest
from txn_actors import ADD, ADD_AUDIT, COMMIT, COMMIT_STEPS, VERIFY, actor_in
from txn_harness import ID, ORDERS, PRODUCER, Refused, World, replaced, txn_in

from stuntbroker.coordinator.actor import MAILBOX_LENGTH_MAX, Actor
from stuntbroker.coordinator.requests import AddPartitions, InitProducerId, Reply, Request, TimeOut
from stuntbroker.coordinator.state import Phase, new_txn
from stuntbroker.protocol.errors import ErrorCode

COSTLY = (asyncio.Future, asyncio.Handle, FunctionType, MethodType, CellType, GeneratorType, partial)
IDLE_BYTES_MAX = 400
"""Size of an actor and its state, without the id, the numbers and the set of partitions, which are shared objects."""


def ask(actor: Actor, world: World, *requests: Request) -> list[str]:
    """The transcript of effects and replies of these requests."""
    world.transcript.clear()
    for request in requests:
        actor.ask(request, world.hear(), world)
    return list(world.transcript)


@pytest.fixture
def world() -> World:
    return World()


# --- replies before `ask` returns


def test_an_idle_actor_answers_a_request_immediately(world: World) -> None:
    actor = actor_in(Phase.EMPTY)

    assert ask(actor, world, ADD, COMMIT) == ["append ONGOING", "reply NONE", *COMMIT_STEPS]
    assert not actor.busy and actor.mailbox is None


def test_the_state_of_an_actor_is_its_last_appended_state(world: World) -> None:
    actor = actor_in(Phase.EMPTY)
    ask(actor, world, ADD, COMMIT, InitProducerId(60_000))

    assert actor.txn is world.appended[-1]


def test_a_take_over_aborts_and_is_answered_without_concurrent_transactions(world: World) -> None:
    """As in Kafka, but without CONCURRENT_TRANSACTIONS responses while the transaction is aborted."""
    assert ask(actor_in(Phase.ONGOING), world, InitProducerId(60_000)) == [
        "append PREPARE_ABORT", "markers abort", "append COMPLETE_ABORT", "append EMPTY", "reply NONE",
    ]  # fmt: skip


def test_a_take_over_allocates_one_next_producer_id(world: World) -> None:
    """The context of the second decision of a take-over already has the next unused producer id."""
    world.at = world.at._replace(transaction_version=2)
    actor = Actor(txn_in(Phase.ONGOING, 32_766), 0)
    first = world.at.next_producer_id
    replies: list[Reply] = []
    actor.ask(InitProducerId(60_000), replies.append, world)

    assert replies == [Reply(ErrorCode.NONE, first, 1)]
    assert world.at.next_producer_id == first + 1


def test_a_request_needs_no_reply_callback(world: World) -> None:
    actor = Actor(txn_in(Phase.ONGOING, timeout_ms=1), 0)
    actor.ask(TimeOut(), None, world)

    assert world.transcript == ["append PREPARE_ABORT", "markers abort", "append COMPLETE_ABORT"]
    assert actor.txn.phase is Phase.COMPLETE_ABORT


# --- a log that must be synced


def test_effects_after_an_append_wait_for_the_sync_of_the_log(world: World) -> None:
    """KIP-98: the Prepare record is durable before markers or a reply, and every marker before the Complete record."""
    world.must_sync = True
    actor = actor_in(Phase.ONGOING)

    assert ask(actor, world, COMMIT) == ["append PREPARE_COMMIT"]
    assert actor.busy

    world.sync()

    marked, completed, answered = COMMIT_STEPS[1:]
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


# --- a prepared transaction is recovered (KIP-939)

KEEP = InitProducerId(60_000, keep_prepared=True)
ADD_ORDERS = AddPartitions(PRODUCER, 5, frozenset({ORDERS}), 2)


def test_a_recovered_transaction_rejects_new_records_before_the_reply(world: World) -> None:
    """KIP-939: no record that arrives after the reply gets into the recovered transaction."""
    actor = actor_in(Phase.ONGOING)

    assert ask(actor, world, KEEP) == ["append ONGOING", "seal", "reply NONE"]
    assert actor.txn.is_recovered and world.sealed == [actor.txn] == world.appended
    assert not actor.busy and actor.mailbox is None


def test_a_recovered_transaction_rejects_new_records_only_after_the_log_is_synced(world: World) -> None:
    """If the broker rejected records before the recovery is durable, a crash would shut the owner out of its transaction."""
    world.must_sync = True
    actor = actor_in(Phase.ONGOING)

    assert ask(actor, world, KEEP) == ["append ONGOING"]
    assert actor.busy and world.sealed == []

    world.sync()

    assert world.transcript == ["append ONGOING", "synced", "seal", "reply NONE"]
    assert not actor.busy and actor.mailbox is None


def test_requests_waiting_behind_a_recovery_are_decided_on_the_recovered_transaction(world: World) -> None:
    """A request of the previous owner that arrives during the sync is decided on the state after the sync."""
    world.must_sync = True
    actor = actor_in(Phase.ONGOING)
    for name, request in (("keep", KEEP), ("late", ADD_ORDERS), ("commit", COMMIT), ("again", KEEP)):
        actor.ask(request, world.hear(name), world)
    world.sync()

    assert world.transcript == [
        "append ONGOING", "synced", "seal", "keep reply NONE", "late reply PRODUCER_FENCED",
        "commit reply PRODUCER_FENCED", "append ONGOING",
    ]  # fmt: skip

    world.sync()

    assert world.transcript[7:] == ["synced", "seal", "again reply NONE"]
    assert actor.txn.client_pair == (PRODUCER, 7)


def test_a_repeated_recovery_has_no_effect_but_its_reply(world: World) -> None:
    actor = actor_in(Phase.ONGOING)
    named = replaced(KEEP, producer_id=PRODUCER, producer_epoch=5)
    ask(actor, world, named)

    assert ask(actor, world, named) == ["reply NONE"]


def test_a_recovery_whose_append_fails_rejects_no_records(world: World) -> None:
    actor = actor_in(Phase.ONGOING)
    world.refuse_append = True
    with pytest.raises(Refused):
        actor.ask(KEEP, world.hear(), world)

    assert world.transcript == [] and not actor.txn.is_recovered

    world.refuse_append = False

    assert ask(actor, world, COMMIT) == COMMIT_STEPS


def test_a_recovery_that_cannot_reject_new_records_is_not_answered_and_may_be_repeated(world: World) -> None:
    world.refuse_seal = True
    actor = actor_in(Phase.ONGOING)
    with pytest.raises(Refused):
        actor.ask(KEEP, world.hear(), world)

    assert world.transcript == ["append ONGOING"] and not actor.busy

    world.refuse_seal = False

    assert ask(actor, world, KEEP) == ["append ONGOING", "seal", "reply NONE"]


def test_markers_of_a_recovered_transaction_have_the_producer_id_and_epoch_of_its_records(world: World) -> None:
    actor = actor_in(Phase.ONGOING)
    ask(actor, world, KEEP)

    assert ask(actor, world, replaced(COMMIT, producer_epoch=6)) == COMMIT_STEPS
    assert [(txn.producer_id, txn.producer_epoch) for txn in world.marked] == [(PRODUCER, 6)]
    assert actor.txn.client_pair == (PRODUCER, 7) and not actor.txn.is_recovered


# --- a mailbox with a limit


def test_a_full_mailbox_returns_concurrent_transactions(world: World) -> None:
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

    assert ask(actor, world, COMMIT) == COMMIT_STEPS


def test_failed_markers_leave_the_transaction_prepared_until_it_is_finished(world: World) -> None:
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


def test_finishing_a_prepared_transaction_can_be_repeated_after_a_failure(world: World) -> None:
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
    assert world.transcript == ["markers abort", "markers abort", "append COMPLETE_ABORT"]  # Repeats are harmless.


def test_a_failure_after_the_sync_answers_waiting_requests_and_leaves_the_actor_usable(world: World) -> None:
    """The failed request and the waiting one get retriable errors; the exception is raised to the caller of the sync."""
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


def test_a_failed_append_of_complete_answers_waiting_requests_and_leaves_the_actor_usable(world: World) -> None:
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


def test_the_failure_of_a_waiting_request_does_not_stop_the_others(world: World) -> None:
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


# --- requests from reply callbacks


def test_a_reply_callback_may_send_requests(world: World) -> None:
    """A request from a callback is handled after the current request and after all requests in the mailbox."""
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
        *COMMIT_STEPS[:-1], "then 1 reply NONE",
    ]  # fmt: skip
    assert not actor.busy and actor.mailbox is None


def test_reply_callbacks_that_always_send_another_request_do_not_recurse(world: World) -> None:
    actor = actor_in(Phase.ONGOING)
    left = 5_000

    def restarted(reply: Reply) -> None:
        nonlocal left
        left -= 1
        if left:
            actor.ask(VERIFY, restarted, world)

    actor.ask(VERIFY, restarted, world)

    assert left == 0


def test_a_failing_reply_callback_leaves_the_actor_usable(world: World) -> None:
    actor = actor_in(Phase.ONGOING)

    def fails(reply: Reply) -> None:
        raise Refused

    with pytest.raises(Refused):
        actor.ask(COMMIT, fails, world)

    assert actor.txn.phase is Phase.COMPLETE_COMMIT
    assert ask(actor, world, COMMIT) == ["reply NONE"]


# --- memory of an idle id


def test_an_idle_actor_needs_little_memory_beyond_its_state(world: World) -> None:
    """A million ids fit in one process."""
    actor = actor_in(Phase.EMPTY)
    ask(actor, world, ADD, COMMIT)

    assert not hasattr(actor, "__dict__")
    assert sys.getsizeof(actor) + sys.getsizeof(actor.txn) <= IDLE_BYTES_MAX
    assert actor.mailbox is None


def test_an_actor_holds_no_task_timer_or_future(world: World) -> None:
    """The actor holds no closure either, even after it has waited for a sync."""
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


def test_an_actor_needs_no_event_loop(world: World) -> None:
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()

    assert ask(actor_in(Phase.ONGOING), world, COMMIT) == COMMIT_STEPS
