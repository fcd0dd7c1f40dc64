"""Invariants of a group for random sequences of requests and time-outs."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from stuntbroker.groups.classic.requests import JoinReply, Leaver, SyncReply
from stuntbroker.groups.classic.state import SUCCESSORS, GroupState
from stuntbroker.protocol.errors import ErrorCode
from tests.kit.groups.group_world import World, join, protocols

S = GroupState
INSTANCES = st.sampled_from([None, None, "i", "j"])
OFFERS = st.sampled_from([("range",), ("sticky", "range"), ("range", "sticky")])


class GroupWalk(RuleBasedStateMachine):
    """Requests use any member id that was ever allocated, so most of them are outdated."""

    @initialize(delay_ms=st.sampled_from([0, 3_000]), size=st.sampled_from([2, 100]))
    def begin(self, delay_ms: int, size: int) -> None:
        self.world = World(initial_rebalance_delay_ms=delay_ms, group_size_max=size)
        self.member_ids = ["nobody"]
        self.replies: list[list[JoinReply] | list[SyncReply]] = []

    def _generation(self, off: int) -> int:
        group = self.world.groups.group("g")
        return (0 if group is None else group.generation) - off

    @rule(instance_id=INSTANCES, offer=OFFERS, version=st.sampled_from([3, 4, 9]))
    def join_new(self, instance_id: str | None, offer: tuple[str, ...], version: int) -> None:
        replies = self.world.join(
            instance_id=instance_id,
            protocols=protocols(*offer),
            requires_member_id=version >= 4,
            skips_assignment=version >= 9,
        )
        self.replies.append(replies)
        group = self.world.group()
        given = {*group.members, *group.pending_join}
        self.member_ids.extend(sorted(given.difference(self.member_ids)))

    def _draw(self, data: st.DataObject) -> tuple[str, str | None]:
        """A current member and its instance id, a pending member id, or any member id with any instance id."""
        group = self.world.groups.group("g")
        if group is not None and group.members and data.draw(st.integers(0, 3)):
            member = data.draw(st.sampled_from(list(group.members.values())))
            return member.member_id, member.instance_id
        if group is not None and group.pending_join and data.draw(st.booleans()):
            return data.draw(st.sampled_from(sorted(group.pending_join))), None
        return data.draw(st.sampled_from(self.member_ids)), data.draw(INSTANCES)

    @rule(data=st.data(), offer=OFFERS)
    def join_again(self, data: st.DataObject, offer: tuple[str, ...]) -> None:
        member_id, instance_id = self._draw(data)
        self.replies.append(self.world.join(member_id, instance_id=instance_id, protocols=protocols(*offer)))

    @rule(data=st.data(), off=st.sampled_from([0, 0, 0, 1]))
    def sync(self, data: st.DataObject, off: int) -> None:
        member_id, instance_id = self._draw(data)
        self._sync(member_id, instance_id, off)

    @rule()
    def sync_of_the_leader(self) -> None:
        group = self.world.groups.group("g")
        if group is not None and group.leader_id is not None:
            self._sync(group.leader_id, group.members[group.leader_id].instance_id, 0)

    def _sync(self, member_id: str, instance_id: str | None, off: int) -> None:
        given = tuple((each, each.encode()) for each in self.member_ids)
        generation = self._generation(off)
        self.replies.append(self.world.sync(member_id, generation, instance_id=instance_id, assignments=given))

    @rule(data=st.data(), by_name=st.booleans())
    def disconnect(self, data: st.DataObject, by_name: bool) -> None:
        member_id, instance_id = self._draw(data)
        if by_name and instance_id is not None:
            member_id = ""
        self.world.groups.leave_group("g", [Leaver(member_id, instance_id)])

    @rule(data=st.data(), off=st.sampled_from([0, 0, 1]))
    def heartbeat(self, data: st.DataObject, off: int) -> None:
        member_id, instance_id = self._draw(data)
        self.world.groups.heartbeat("g", member_id, instance_id, self._generation(off))

    @rule()
    def heartbeats_of_all(self) -> None:
        group = self.world.groups.group("g")
        for member_id in () if group is None else group.members:
            self.world.heartbeat(member_id, self._generation(0))

    @rule(ms=st.sampled_from([1_000, 5_000, 10_000, 60_000, 300_000]))
    def wait(self, ms: int) -> None:
        self.world.time.pass_ms(ms)

    @rule()
    def delete(self) -> None:
        self.world.groups.delete_group("g")

    @invariant()
    def the_group_is_whole(self) -> None:
        group = self.world.groups.group("g") if hasattr(self, "world") else None
        if group is None:
            return
        actor = self.world.groups.actors["g"]
        assert {each.member_id for each in group.members.values() if each.awaiting_join} == set(actor.waiting_joins)
        assert {each.member_id for each in group.members.values() if each.awaiting_sync} == set(actor.waiting_syncs)
        assert group.pending_sync <= set(group.members)
        assert not group.pending_join & set(group.members)
        assert (group.leader_id is None) == (not group.members)
        assert group.leader_id is None or group.leader_id in group.members
        match group.state:
            case S.EMPTY:
                assert not group.members
            case S.COMPLETING_REBALANCE | S.STABLE:
                assert group.members and group.protocol_name is not None
                assert all(each.metadata(group.protocol_name) for each in group.members.values())
                assert not actor.waiting_joins
        assert group.state is S.COMPLETING_REBALANCE or not actor.waiting_syncs
        assert group.state is not S.DEAD

    @invariant()
    def no_request_is_answered_twice(self) -> None:
        assert all(len(replies) <= 1 for replies in getattr(self, "replies", ()))

    @invariant()
    def a_stable_group_is_in_the_log_as_it_is(self) -> None:
        group = self.world.groups.group("g") if hasattr(self, "world") else None
        if group is None or group.state is not S.STABLE:
            return
        stored = self.world.replayed().group("g")
        assert stored is not None
        assert stored.generation == group.generation
        assert stored.leader_id == group.leader_id or group.leader_id is None
        assert {each.member_id: each.assignment for each in stored.members.values()} == {
            each.member_id: each.assignment for each in group.members.values()
        }

    @invariant()
    def states_follow_the_diagram(self) -> None:
        if not hasattr(self, "world"):
            return
        for _, facts in self.world.events:
            assert S(facts["to_state"]) in SUCCESSORS[S(facts["from_state"])] or _in_one_step(facts)

    def teardown(self) -> None:
        """After a long time without requests, the group is empty and the only timer is the sweep."""
        if not hasattr(self, "world"):
            return
        self.world.time.pass_ms(1_000_000)
        group = self.world.groups.group("g")
        assert group is None or group.state is S.EMPTY
        assert self.world.time.running == 1


def _in_one_step(facts: dict[str, object]) -> bool:
    """Whether PREPARING_REBALANCE began and ended in the same step, so that no event shows it."""
    return (facts["from_state"], facts["to_state"]) in {
        ("Empty", "CompletingRebalance"),
        ("Stable", "CompletingRebalance"),
        ("Stable", "Empty"),
        ("CompletingRebalance", "Empty"),
    }


TestGroupWalk = GroupWalk.TestCase
TestGroupWalk.settings = settings(max_examples=150, stateful_step_count=40, deadline=None, database=None)


@pytest.mark.parametrize("stays", [True, False])
def test_a_request_from_a_reply_callback_is_decided_on_the_completed_state(stays: bool) -> None:
    """A reply can make a connection handle its next request immediately, before `join` returns."""
    world = World()
    (first,) = world.stable()
    second, _ = world.enter()
    heard: list[object] = []

    def and_then(reply: JoinReply) -> None:
        heard.append(reply.error)
        heard.append(world.heartbeat(first, reply.generation))
        if not stays:
            heard.append(world.groups.leave_group("g", [Leaver(first, None)]).error)

    world.groups.join(join(first), and_then)

    assert heard == [ErrorCode.NONE] * (2 if stays else 3)
    assert second in world.group().members
    assert world.state is (S.COMPLETING_REBALANCE if stays else S.PREPARING_REBALANCE)
