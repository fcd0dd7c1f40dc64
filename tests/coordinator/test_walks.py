"""Promises that hold over any walk of requests."""

from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from txn_harness import AUDIT, ID, ORDERS, STRANGER, play, replies

from stuntbroker.coordinator import state
from stuntbroker.coordinator.machine import decide
from stuntbroker.coordinator.requests import (
    AddPartitions,
    Again,
    Append,
    Context,
    Effect,
    EndTxn,
    InitProducerId,
    Reply,
    Request,
    TimeOut,
    Verify,
    WriteMarkers,
)
from stuntbroker.coordinator.state import COMPLETED, PREPARED, SUCCESSORS, Phase, Txn, new_txn
from stuntbroker.protocol.errors import ErrorCode

OK = ErrorCode.NONE
FIRST_PRODUCER = 10
SPARES = 100
PARTITIONS = st.sampled_from([frozenset({ORDERS}), frozenset({AUDIT}), frozenset({ORDERS, AUDIT})])
FIRST_EPOCHS = st.sampled_from([-1, 0, 7, 32_764, 32_765, 32_766])
KINDS = st.sampled_from(["init", "init", "add", "add", "add", "verify", "end", "end", "end", "time out", "wait"])


class Walk:
    """One id, and everything that was ever decided about it."""

    def __init__(self, data: st.DataObject, versions: st.SearchStrategy[int]) -> None:
        self.data = data
        self.at = Context(1_000, data.draw(versions, "transaction.version"), SPARES)
        self.txn = new_txn(ID, FIRST_PRODUCER, data.draw(FIRST_EPOCHS, "first epoch"))
        self.owners = [self.identity()]
        """Every (producer id, epoch) that the id ever had, in order."""

    def identity(self) -> tuple[int, int]:
        return self.txn.producer_id, self.txn.producer_epoch

    def who(self) -> tuple[int, int]:
        """An owner of now or of before, or somebody who never was one."""
        draw = self.data.draw
        producer_id, epoch = draw(st.sampled_from(self.owners[-4:]), "who")
        epoch = draw(st.sampled_from([epoch, epoch, epoch, epoch - 1, epoch + 1]), "epoch")
        return draw(st.sampled_from([producer_id] * 9 + [STRANGER]), "id"), max(0, min(epoch, 32_767))

    def request(self) -> Request | None:
        draw = self.data.draw
        client = draw(st.sampled_from([0, 2]), "client")
        match draw(KINDS, "kind"):
            case "init":
                return InitProducerId(60_000, *(self.who() if draw(st.booleans(), "named") else (-1, -1)))
            case "add":
                return AddPartitions(*self.who(), draw(PARTITIONS), client)
            case "verify":
                return Verify(*self.who(), ORDERS)
            case "end":
                return EndTxn(*self.who(), draw(st.booleans(), "commit"), client)
            case "time out":
                return TimeOut()
        self.at = self.at._replace(now_ms=self.at.now_ms + 70_000)
        return None

    def step(self) -> tuple[Txn, Request, list[Effect]] | None:
        """(state before, request, everything that was done)."""
        request = self.request()
        if request is None:
            return None
        before = self.txn
        self.txn, done = play(before, request, self.at)
        for effect in done:
            if isinstance(effect, Append) and effect.txn.phase not in PREPARED:
                self.at = self.at._replace(spare_producer_id=max(self.at.spare_producer_id, effect.txn.producer_id + 1))
                if self.owners[-1] != (effect.txn.producer_id, effect.txn.producer_epoch):
                    self.owners.append((effect.txn.producer_id, effect.txn.producer_epoch))
        return before, request, done

    def steps(self) -> list[tuple[Txn, Request, list[Effect]]]:
        count = self.data.draw(st.integers(1, 25), "steps")
        return [taken for taken in (self.step() for _ in range(count)) if taken is not None]


VERSIONS = st.sampled_from([0, 1, 2])


@given(st.data())
@settings(max_examples=60)
def test_a_walk_stays_on_the_diagram_and_the_log_has_every_step_of_it(data: st.DataObject) -> None:
    walk = Walk(data, VERSIONS)
    for before, _, done in walk.steps():
        logged = [before, *(effect.txn for effect in done if isinstance(effect, Append))]

        assert [(a.phase, b.phase) for a, b in pairwise(logged) if b.phase not in SUCCESSORS[a.phase]] == []
    assert walk.txn.phase not in PREPARED


@given(st.data())
@settings(max_examples=60)
def test_a_request_of_a_client_has_one_reply_and_a_time_out_none(data: st.DataObject) -> None:
    for _, request, done in Walk(data, VERSIONS).steps():
        assert len(replies(done)) == (0 if isinstance(request, TimeOut) else 1)


@given(st.data())
@settings(max_examples=60)
def test_an_error_changes_nothing(data: st.DataObject) -> None:
    """But for a take-over, which aborts first and may learn only then that it was refused."""
    for before, request, done in Walk(data, VERSIONS).steps():
        if any(reply.error for reply in replies(done)):
            aborted = isinstance(request, InitProducerId) and before.phase is Phase.ONGOING and len(done) > 1
            kinds = ["Append", "WriteMarkers", "Append", "Again", "Reply"] if aborted else ["Reply"]

            assert [type(effect).__name__ for effect in done] == kinds


@given(st.data())
@settings(max_examples=60)
def test_an_error_carries_no_producer_id(data: st.DataObject) -> None:
    for _, _, done in Walk(data, VERSIONS).steps():
        assert [reply for reply in replies(done) if reply.error and set(reply[1:]) != {-1}] == []


@given(st.data())
@settings(max_examples=60)
def test_the_log_is_written_before_the_markers_and_both_before_the_answer(data: st.DataObject) -> None:
    for _, _, done in Walk(data, VERSIONS).steps():
        kinds = "".join({Append: "a", WriteMarkers: "m", Reply: "r", Again: "g"}[type(effect)] for effect in done)

        assert re.fullmatch(r"(amag?)?(a?r)?", kinds), kinds


@given(st.data())
@settings(max_examples=60)
def test_epochs_of_a_producer_id_never_go_back_and_none_is_used_after_another(data: st.DataObject) -> None:
    walk = Walk(data, VERSIONS)
    walk.steps()
    ids = list(dict.fromkeys(producer_id for producer_id, _ in walk.owners))

    assert ids == sorted(ids)
    assert walk.owners == sorted(walk.owners)
    assert all(epoch <= 32_767 for _, epoch in walk.owners)


@given(st.data())
@settings(max_examples=60)
def test_markers_never_carry_an_epoch_below_that_of_the_records(data: st.DataObject) -> None:
    """Under TV2 they carry a new one, but for the epoch that is kept for fencing (KIP-890, KIP-1228)."""
    for before, request, done in Walk(data, VERSIONS).steps():
        for effect in done:
            if isinstance(effect, WriteMarkers):
                marker = effect.txn
                bumped = marker.producer_epoch - before.producer_epoch
                by_owner = isinstance(request, EndTxn) and request.client_version == 0

                assert marker.producer_id == before.producer_id
                assert bumped == (0 if by_owner or before.producer_epoch == 32_767 else 1)
                assert marker.client_version == 2 or bumped == 0 or not isinstance(request, EndTxn)


@given(st.data())
@settings(max_examples=60)
def test_who_was_fenced_never_succeeds_again(data: st.DataObject) -> None:
    """Not even by chance; only the retry of an EndTxn of TV2 hears what the first one would have heard (KIP-890)."""
    walk = Walk(data, VERSIONS)
    for before, request, done in walk.steps():
        owner = (before.producer_id, before.producer_epoch)
        if isinstance(request, AddPartitions | Verify | EndTxn) and request[:2] != owner:
            (reply,) = replies(done)
            if reply.error == OK:
                assert isinstance(request, EndTxn) and request.client_version == 2
                assert reply[1:3] == owner
                assert before.phase in COMPLETED and done == [reply]
                assert request[:2] in [(owner[0], owner[1] - 1), (before.previous_producer_id, 32_766)]


@given(st.data())
@settings(max_examples=60)
def test_a_new_instance_fences_all_that_came_before_it(data: st.DataObject) -> None:
    walk = Walk(data, VERSIONS)
    walk.steps()
    older = list(walk.owners)
    walk.txn, _ = play(walk.txn, InitProducerId(60_000), walk.at)
    for producer_id, epoch in older:
        if epoch >= 0:
            for client in (0, 2):
                _, added = play(walk.txn, AddPartitions(producer_id, epoch, frozenset({ORDERS}), client), walk.at)
                _, ended = play(walk.txn, EndTxn(producer_id, epoch, True, client), walk.at)

                assert [reply.error == OK for reply in replies(added) + replies(ended)] == [False, False]


@given(st.data())
@settings(max_examples=60)
def test_no_walk_leaves_an_id_that_a_new_instance_cannot_have(data: st.DataObject) -> None:
    walk = Walk(data, VERSIONS)
    walk.steps()
    after, done = play(walk.txn, InitProducerId(60_000), walk.at)
    (reply,) = replies(done)

    assert reply == Reply(OK, after.producer_id, after.producer_epoch)
    assert after.phase is Phase.EMPTY


@given(st.data())
@settings(max_examples=60)
def test_the_same_question_has_the_same_answer(data: st.DataObject) -> None:
    walk = Walk(data, VERSIONS)
    for before, request, _ in walk.steps():
        assert decide(before, request, walk.at) == decide(before, request, walk.at)


# --- the diagram

EDGES = {
    "EMPTY -> EMPTY": "InitProducerId",
    "EMPTY -> ONGOING": "first partition",
    "EMPTY -> PREPARE_ABORT": "an abort without partitions",
    "ONGOING -> ONGOING": "more partitions",
    "ONGOING -> PREPARE_COMMIT": "commit",
    "ONGOING -> PREPARE_ABORT": "abort, time-out, fence",
    "PREPARE_COMMIT -> COMPLETE_COMMIT": "COMPLETE_COMMIT",
    "PREPARE_ABORT -> COMPLETE_ABORT": "COMPLETE_ABORT",
    "COMPLETE_COMMIT -> EMPTY": "InitProducerId",
    "COMPLETE_COMMIT -> ONGOING": "first partition",
    "COMPLETE_COMMIT -> PREPARE_ABORT": "from EMPTY and COMPLETE_*",
    "COMPLETE_ABORT -> EMPTY": "InitProducerId",
    "COMPLETE_ABORT -> ONGOING": "first partition",
    "COMPLETE_ABORT -> PREPARE_ABORT": "from EMPTY and COMPLETE_*",
}
"""Edge -> how the diagram says it."""


def test_the_diagram_has_the_edges_of_the_table() -> None:
    diagram = state.__doc__ or ""
    arrows = {f"{before.name} -> {after.name}" for before, all_after in SUCCESSORS.items() for after in all_after}

    assert arrows == set(EDGES)
    assert [edge for edge, words in EDGES.items() if words not in diagram] == []
    assert [phase.name for phase in Phase if not re.search(rf"\b{phase.name.split('_')[0]}_?", diagram)] == []
    assert diagram.count("InitProducerId") == 3  # Of EMPTY itself and to it from both sides.
    assert diagram.count("first partition") == 3


def test_every_edge_of_the_table_is_walked() -> None:
    """By requests: the table allows nothing that cannot happen."""
    at = Context(200_000, 2, SPARES)
    walked: set[tuple[Phase, Phase]] = set()
    first = new_txn(ID, FIRST_PRODUCER)
    todo = [play(first, InitProducerId(60_000), at)[0]]
    seen: set[Phase] = set()
    while todo:
        txn = todo.pop()
        if txn.phase in seen:
            continue
        seen.add(txn.phase)
        owner = txn.producer_id, txn.producer_epoch
        asked: list[Request] = [InitProducerId(60_000), TimeOut()]
        for version in (0, 2):
            asked += [AddPartitions(*owner, frozenset({AUDIT if txn.partitions else ORDERS}), version)]
            asked += [EndTxn(*owner, commit, version) for commit in (True, False)]
        for request in asked:
            _, done = play(txn, request, at)
            logged = [txn, *(effect.txn for effect in done if isinstance(effect, Append))]
            walked |= {(a.phase, b.phase) for a, b in pairwise(logged)}
            todo += [one for one in logged if one.phase not in PREPARED]

    assert walked == {(before, after) for before, all_after in SUCCESSORS.items() for after in all_after}
