"""`Actor.try_immediately` has the same effects as `ask` without syncs, and returns the reply."""

from __future__ import annotations

import pytest
from txn_actors import ADD, ADD_AUDIT, COMMIT, COMMIT_STEPS, VERIFY, actor_in
from txn_harness import Refused, World, replaced, txn_in

from stuntbroker.coordinator.actor import Actor
from stuntbroker.coordinator.requests import AddPartitions, EndTxn, Reply
from stuntbroker.coordinator.state import Phase, Txn
from stuntbroker.protocol.errors import ErrorCode

ADDS_AND_ENDS = (ADD, ADD_AUDIT, COMMIT, replaced(COMMIT, commit=False), replaced(COMMIT, client_version=0))


@pytest.mark.parametrize("epoch", [4, 5, 6])
@pytest.mark.parametrize("request_", ADDS_AND_ENDS, ids=str)
@pytest.mark.parametrize("phase", Phase, ids=lambda phase: phase.name)
def test_try_immediately_has_the_effects_of_ask_and_returns_the_reply(
    phase: Phase, request_: AddPartitions | EndTxn, epoch: int
) -> None:
    request_ = replaced(request_, producer_epoch=epoch)
    each, other = World(), World()
    request, actor = actor_in(phase), actor_in(phase)

    request.ask(request_, each.hear(), each)
    reply = actor.try_immediately(request_, other)

    assert reply is not None
    other.hear()(reply)
    assert (other.transcript, actor.txn, actor.busy, other.at) == (each.transcript, request.txn, False, each.at)


def test_try_immediately_allocates_a_new_producer_id_as_ask_does() -> None:
    """KIP-360: the epochs of the old producer id are used up."""
    world = World()
    actor = Actor(txn_in(Phase.ONGOING, 32_766), 0)

    assert actor.try_immediately(replaced(COMMIT, producer_epoch=32_766), world) == Reply(
        ErrorCode.NONE, World().at.next_producer_id, 0
    )
    assert world.at.next_producer_id == World().at.next_producer_id + 1


def test_try_immediately_returns_none_when_busy_and_drains_the_mailbox_when_done() -> None:
    actor = actor_in(Phase.ONGOING)
    met: list[Reply | None] = []

    class Meddling(World):
        """While it writes markers, further requests arrive."""

        def write_markers(self, txn: Txn) -> bool:
            met.append(actor.try_immediately(ADD, self))
            actor.ask(VERIFY, self.hear("behind"), self)
            return super().write_markers(txn)

    meddling = Meddling()
    reply = actor.try_immediately(COMMIT, meddling)

    assert (met, reply and reply.error) == ([None], ErrorCode.NONE)
    assert meddling.transcript == [*COMMIT_STEPS[:-1], "behind reply PRODUCER_FENCED"]
    assert not actor.busy and actor.mailbox is None


def test_a_request_in_the_mailbox_is_decided_before_one_that_its_reply_causes() -> None:
    actor = actor_in(Phase.ONGOING)

    class Meddling(World):
        """While it writes markers, two requests arrive; the reply callback of the first sends another request."""

        def write_markers(self, txn: Txn) -> bool:
            def heard(reply: Reply) -> None:
                self.hear("first")(reply)
                actor.ask(VERIFY, self.hear("again"), self)

            actor.ask(VERIFY, heard, self)
            actor.ask(VERIFY, self.hear("second"), self)
            return super().write_markers(txn)

    meddling = Meddling()
    assert actor.try_immediately(COMMIT, meddling) is not None

    assert [messages.split()[0] for messages in meddling.transcript[-3:]] == ["first", "second", "again"]
    assert not actor.busy and actor.mailbox is None


def test_try_immediately_raises_a_failure_and_leaves_the_actor_idle() -> None:
    world = World()
    actor = actor_in(Phase.EMPTY)
    world.refuse_append = True

    with pytest.raises(Refused):
        actor.try_immediately(ADD, world)

    assert (actor.busy, actor.txn.phase) == (False, Phase.EMPTY)
