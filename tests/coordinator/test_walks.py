"""Invariants of the state machine for random sequences of requests."""

from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from txn_harness import AUDIT, ID, ORDERS, STRANGER, pair_of, play, replies

from stuntbroker.coordinator import state
from stuntbroker.coordinator.machine import decide
from stuntbroker.coordinator.records import key_of, read_record, value_of
from stuntbroker.coordinator.requests import (
    TRANSACTION_TIMED_OUT,
    AddPartitions,
    Append,
    Context,
    Effect,
    EndTxn,
    InitProducerId,
    Redecide,
    RejectNewRecords,
    Reply,
    Request,
    TimeOut,
    Verify,
    WriteMarkers,
)
from stuntbroker.coordinator.state import COMPLETED, PREPARED, SUCCESSORS, Phase, Txn, new_txn
from stuntbroker.protocol.batches.records import Record
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.transaction_states import TIMEOUT_NONE

OK = ErrorCode.NONE
FIRST_PRODUCER = 10
SPARES = 100
PARTITIONS = st.sampled_from([frozenset({ORDERS}), frozenset({AUDIT}), frozenset({ORDERS, AUDIT})])
FIRST_EPOCHS = st.sampled_from([-1, 0, 7, 32_764, 32_765, 32_766])
KINDS = st.sampled_from(
    [
        "init",
        "init",
        "keep",
        "keep",
        "add",
        "add",
        "add",
        "add",
        "verify",
        "end",
        "end",
        "end",
        "time out",
        "wait",
        "restart",
    ]
)
TIMEOUTS_MS = st.sampled_from([60_000, 60_000, TIMEOUT_NONE])


def read_again(txn: Txn, transaction_version: int) -> Txn:
    """The state as it is read back from its log record."""
    actual = read_record(Record(0, 0, key_of(txn.transactional_id), value_of(txn, min(1, transaction_version))))
    assert actual is not None and actual[1] is not None
    return actual[1]


class Walk:
    """A random sequence of requests for one transactional id."""

    def __init__(self, data: st.DataObject, versions: st.SearchStrategy[int]) -> None:
        self.data = data
        self.is_drafted = data.draw(st.booleans(), "kip-588")
        self.at = Context(1_000, data.draw(versions, "transaction.version"), SPARES, 0)
        self.txn = new_txn(ID, FIRST_PRODUCER, data.draw(FIRST_EPOCHS, "first epoch"))
        self.logged = False
        self.owners = [self.txn.client_pair]
        """Every producer id and epoch that was ever current for clients of the id, in order."""

    def who(self) -> tuple[int, int]:
        """Producer id and epoch of the current owner, of an earlier one, or of an unrelated producer."""
        draw = self.data.draw
        producer_id, epoch = draw(st.sampled_from(self.owners[-4:]), "who")
        epoch = draw(st.sampled_from([epoch, epoch, epoch, epoch - 1, epoch + 1]), "epoch")
        return draw(st.sampled_from([producer_id] * 9 + [STRANGER]), "id"), max(0, min(epoch, 32_767))

    def request(self) -> Request | None:
        draw = self.data.draw
        client = draw(st.sampled_from([0, 2]), "client")
        match draw(KINDS, "kind"):
            case "init" | "keep" as kind:
                named = self.who() if draw(st.booleans(), "named") else (-1, -1)
                version = draw(st.sampled_from([2, 3, 4]), "version") if self.is_drafted else -1
                return InitProducerId(draw(TIMEOUTS_MS, "time-out"), *named, kind == "keep", version)
            case "add":
                return AddPartitions(*self.who(), draw(PARTITIONS), client)
            case "verify":
                return Verify(*self.who(), ORDERS)
            case "end":
                return EndTxn(*self.who(), draw(st.booleans(), "commit"), client)
            case "time out":
                return TimeOut()
            case "restart":
                if self.logged:
                    self.txn = read_again(self.txn, self.at.transaction_version)
                return None
        self.at = self.at._replace(now_ms=self.at.now_ms + 70_000)
        return None

    def step(self) -> tuple[Txn, Request, list[Effect]] | None:
        """(state before, request, effects); None if the step is no request."""
        request = self.request()
        return None if request is None else self.take(request)

    def take(self, request: Request) -> tuple[Txn, Request, list[Effect]]:
        before = self.txn
        self.txn, done = play(before, request, self.at)
        for effect in done:
            if isinstance(effect, Append):
                self.logged = True
                pair = effect.txn.client_pair
                self.at = self.at._replace(next_producer_id=max(self.at.next_producer_id, pair[0] + 1))
                if effect.txn.phase not in PREPARED and self.owners[-1] != pair:
                    self.owners.append(pair)
        return before, request, done

    def prepare(self) -> None:
        """Open a two-phase transaction, and perhaps recover it (KIP-939)."""
        self.take(InitProducerId(TIMEOUT_NONE))
        client = self.data.draw(st.sampled_from([0, 2]), "client")
        self.take(AddPartitions(*self.txn.client_pair, frozenset({ORDERS}), client))
        for _ in range(self.data.draw(st.integers(0, 2), "kept times")):
            named = self.txn.client_pair if self.data.draw(st.booleans(), "named") else (-1, -1)
            self.take(InitProducerId(TIMEOUT_NONE, *named, keep_prepared=True))
        assert self.txn.phase is Phase.ONGOING

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
    """Exception: a take-over first aborts the open transaction, and may be refused only after that."""
    for before, request, done in Walk(data, VERSIONS).steps():
        if any(reply.error for reply in replies(done)):
            aborted = isinstance(request, InitProducerId) and before.phase is Phase.ONGOING and len(done) > 1
            kinds = ["Append", "WriteMarkers", "Append", "Redecide", "Reply"] if aborted else ["Reply"]

            assert [type(effect).__name__ for effect in done] == kinds


@given(st.data())
@settings(max_examples=60)
def test_an_error_carries_no_producer_id(data: st.DataObject) -> None:
    for _, _, done in Walk(data, VERSIONS).steps():
        assert [reply for reply in replies(done) if reply.error and reply != Reply(reply.error)] == []


@given(st.data())
@settings(max_examples=60)
def test_the_log_is_written_before_the_markers_and_both_before_the_reply(data: st.DataObject) -> None:
    for _, _, done in Walk(data, VERSIONS).steps():
        letters = {Append: "a", WriteMarkers: "m", RejectNewRecords: "s", Reply: "r", Redecide: "g"}
        kinds = "".join(letters[type(effect)] for effect in done)

        assert re.fullmatch(r"(amag?)?(a?r)?|asr", kinds), kinds


@given(st.data())
@settings(max_examples=60)
def test_producer_ids_and_epochs_of_a_transactional_id_never_decrease(data: st.DataObject) -> None:
    walk = Walk(data, VERSIONS)
    if data.draw(st.booleans(), "prepared"):
        walk.prepare()
    walk.steps()
    ids = list(dict.fromkeys(producer_id for producer_id, _ in walk.owners))

    assert ids == sorted(ids)
    assert walk.owners == sorted(walk.owners)
    assert all(epoch <= 32_767 for _, epoch in walk.owners)


@given(st.data())
@settings(max_examples=60)
def test_markers_never_carry_an_epoch_below_that_of_the_records(data: st.DataObject) -> None:
    """Under TV2 markers carry a bumped epoch, unless the epoch is already the one reserved for fencing (KIP-890, KIP-1228)."""
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
def test_a_fenced_producer_never_succeeds_afterwards(data: st.DataObject) -> None:
    """Exception: the retry of a TV2 EndTxn gets the same response as the first request (KIP-890)."""
    walk = Walk(data, VERSIONS)
    for before, request, done in walk.steps():
        owner = before.client_pair
        if isinstance(request, AddPartitions | Verify | EndTxn) and pair_of(request) != owner:
            (reply,) = replies(done)
            if reply.error == OK:
                assert isinstance(request, EndTxn) and request.client_version == 2
                assert (reply.producer_id, reply.producer_epoch) == owner
                assert before.phase in COMPLETED and done == [reply]
                assert pair_of(request) in [(owner[0], owner[1] - 1), (before.previous_producer_id, 32_766)]


@given(st.data())
@settings(max_examples=100)
def test_an_earlier_producer_can_neither_end_nor_take_over_a_recovered_transaction(data: st.DataObject) -> None:
    """KIP-939: only a retry of the InitProducerId with KeepPreparedTxn succeeds for an earlier producer."""
    walk = Walk(data, VERSIONS)
    walk.prepare()
    for before, request, done in walk.steps():
        if before.is_recovered and not isinstance(request, TimeOut):
            (reply,) = replies(done)
            if isinstance(request, InitProducerId):
                named = request.producer_id, request.producer_epoch
                mine = named in ((-1, -1), before.client_pair)
                repeats = request.keep_prepared and -1 != named[1] == before.last_producer_epoch
                if repeats and not mine and not reply.error:
                    assert done == [Reply(OK, *before.client_pair, before.producer_id, before.producer_epoch)]
            else:
                mine = pair_of(request) == before.client_pair and isinstance(request, EndTxn)
                repeats = False
            if not mine and not repeats:
                assert reply.error and done == [reply]


@given(st.data())
@settings(max_examples=100)
def test_a_transaction_without_time_out_is_ended_only_by_its_producer_or_a_new_instance(
    data: st.DataObject,
) -> None:
    """KIP-939: a transaction without time-out waits for its decision without limit, across restarts. Only EndTxn of its
    producer or an InitProducerId without KeepPreparedTxn, as an admin sends it, ends the transaction."""
    walk = Walk(data, VERSIONS)
    walk.prepare()
    for before, request, done in walk.steps():
        ended = any(isinstance(effect, WriteMarkers) for effect in done)
        if ended and before.phase is Phase.ONGOING and before.timeout_ms == TIMEOUT_NONE:
            if isinstance(request, EndTxn):
                assert pair_of(request) == before.client_pair
            else:
                assert isinstance(request, InitProducerId) and not request.keep_prepared
                assert pair_of(request) in ((-1, -1), before.client_pair) or before.is_recovered


@given(st.data())
@settings(max_examples=100)
def test_a_recovery_leaves_the_open_transaction_unchanged(data: st.DataObject) -> None:
    walk = Walk(data, VERSIONS)
    walk.prepare()
    for before, request, done in walk.steps():
        if isinstance(request, InitProducerId) and request.keep_prepared and before.phase is Phase.ONGOING:
            assert [effect for effect in done if isinstance(effect, WriteMarkers | Redecide)] == []
            for effect in done:
                if isinstance(effect, Append):
                    after = effect.txn
                    assert after.is_recovered and after.client_pair > before.client_pair
                    assert (after.producer_id, after.producer_epoch, after.partitions, after.started_at_ms) == (
                        before.producer_id, before.producer_epoch, before.partitions, before.started_at_ms
                    )  # fmt: skip


@given(st.data())
@settings(max_examples=60)
def test_a_new_instance_fences_all_that_came_before_it(data: st.DataObject) -> None:
    """With and without KeepPreparedTxn."""
    walk = Walk(data, VERSIONS)
    if data.draw(st.booleans(), "prepared"):
        walk.prepare()
    walk.steps()
    older = list(walk.owners)
    walk.txn, _ = play(walk.txn, InitProducerId(60_000, keep_prepared=data.draw(st.booleans(), "keeps")), walk.at)
    for pair in older:
        if pair[1] >= 0:
            sent: list[Request] = [InitProducerId(60_000, *pair, keep_prepared=True)]
            if walk.txn.is_recovered:
                sent.append(InitProducerId(60_000, *pair))
            for client in (0, 2):
                sent += [AddPartitions(*pair, frozenset({ORDERS}), client), EndTxn(*pair, True, client)]
            for request in sent:
                after, done = play(walk.txn, request, walk.at)

                assert [bool(reply.error) for reply in replies(done)] == [True]
                assert after == walk.txn


@given(st.data())
@settings(max_examples=60)
def test_a_new_instance_can_recover_and_commit_the_open_transaction(data: st.DataObject) -> None:
    """KIP-939: the response has the producer id and epoch of the open transaction, and new ones to commit it with.

    If no transaction is open, the new instance starts with an empty state.
    """
    walk = Walk(data, VERSIONS)
    if data.draw(st.booleans(), "prepared"):
        walk.prepare()
    walk.steps()
    before = walk.txn
    open_pair = (before.producer_id, before.producer_epoch) if before.phase is Phase.ONGOING else (-1, -1)
    kept, done = play(before, InitProducerId(TIMEOUT_NONE, keep_prepared=True), walk.at)
    (reply,) = replies(done)
    if reply == Reply(OK, *kept.client_pair, *open_pair) and open_pair != (-1, -1):
        client = data.draw(st.sampled_from([0, 2]), "client")
        after, done = play(kept, EndTxn(*kept.client_pair, True, client), walk.at)
        marked = [effect.txn for effect in done if isinstance(effect, WriteMarkers)]

        assert [each.partitions for each in marked] == [before.partitions]
        assert after.phase is Phase.COMPLETE_COMMIT and not after.is_recovered
    else:
        assert reply == Reply(OK, *kept.client_pair) and kept.phase is Phase.EMPTY


@given(st.data())
@settings(max_examples=100)
def test_every_appended_state_is_restored_from_the_log(data: st.DataObject) -> None:
    """Transaction version 0 too restores recovered and timed-out transactions, although Kafka's record lacks these fields."""
    walk = Walk(data, VERSIONS)
    for _, _, done in walk.steps():
        for effect in done:
            if isinstance(effect, Append):
                restarted = read_again(effect.txn, walk.at.transaction_version)
                if walk.at.transaction_version or effect.txn.is_recovered or effect.txn.init_version != -1:
                    assert restarted == effect.txn
                assert restarted.client_pair == effect.txn.client_pair


@given(st.data())
@settings(max_examples=100)
def test_a_time_out_is_remembered_until_the_next_transition_and_in_its_profile_only(data: st.DataObject) -> None:
    """KIP-588: until then the producer gets TRANSACTION_TIMED_OUT, and may claim the next epoch."""
    walk = Walk(data, VERSIONS)
    for before, request, done in walk.steps():
        if before.timed_out_epoch != -1:
            assert walk.is_drafted and before.phase is Phase.COMPLETE_ABORT
            slow = before.timed_out_epoch
            if isinstance(request, AddPartitions | Verify | EndTxn) and pair_of(request) == (before.producer_id, slow):
                assert done == [Reply(TRANSACTION_TIMED_OUT)]
        elif not isinstance(request, TimeOut):
            assert [reply for reply in replies(done) if reply.error == TRANSACTION_TIMED_OUT] == []


@given(st.data())
@settings(max_examples=60)
def test_a_new_instance_can_initialize_the_id_after_any_walk(data: st.DataObject) -> None:
    walk = Walk(data, VERSIONS)
    walk.steps()
    after, done = play(walk.txn, InitProducerId(60_000), walk.at)
    (reply,) = replies(done)

    assert reply == Reply(OK, after.producer_id, after.producer_epoch)
    assert after.phase is Phase.EMPTY


@given(st.data())
@settings(max_examples=60)
def test_decisions_are_deterministic(data: st.DataObject) -> None:
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
"""Edge -> its label in the diagram."""


def test_the_diagram_has_the_edges_of_the_table() -> None:
    diagram = state.__doc__ or ""
    arrows = {f"{before.name} -> {after.name}" for before, all_after in SUCCESSORS.items() for after in all_after}

    assert arrows == set(EDGES)
    assert [edge for edge, words in EDGES.items() if words not in diagram] == []
    assert [phase.name for phase in Phase if not re.search(rf"\b{phase.name.split('_')[0]}_?", diagram)] == []
    assert diagram.count("InitProducerId") == 3  # From EMPTY, COMPLETE_COMMIT and COMPLETE_ABORT to EMPTY.
    assert diagram.count("first partition") == 3


def test_every_edge_of_the_table_is_walked() -> None:
    """Requests can reach every edge, so the table allows no impossible transition."""
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
        sent: list[Request] = [InitProducerId(60_000), TimeOut()]
        for version in (0, 2):
            sent += [AddPartitions(*owner, frozenset({AUDIT if txn.partitions else ORDERS}), version)]
            sent += [EndTxn(*owner, commit, version) for commit in (True, False)]
        for request in sent:
            _, done = play(txn, request, at)
            logged = [txn, *(effect.txn for effect in done if isinstance(effect, Append))]
            walked |= {(a.phase, b.phase) for a, b in pairwise(logged)}
            todo += [each for each in logged if each.phase not in PREPARED]

    assert walked == {(before, after) for before, all_after in SUCCESSORS.items() for after in all_after}
