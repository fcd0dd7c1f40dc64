"""Batches and markers that a partition accepts, row by row as Kafka 4.3's ProducerAppendInfo and ProducerStateManager."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stuntbroker.protocol.batches.records import SEQUENCE_MAX, TRANSACTIONAL, read_header
from stuntbroker.protocol.crc import crc32c
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.producer_snapshot import ProducerEntry, ProducerSnapshot
from stuntbroker.protocol.primitives import DecodeError
from stuntbroker.storage.producers import AbortedTxn, ProducerStates, RememberedBatch
from tests.kit.logs import NOW_MS, OK, batch, remembered

PID = 7
OLD_EPOCH = ErrorCode.INVALID_PRODUCER_EPOCH
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
WRONG_STATE = ErrorCode.INVALID_TXN_STATE
FENCED = ErrorCode.TRANSACTION_COORDINATOR_FENCED
DUPLICATE = "duplicate"


def ask(
    states: ProducerStates, epoch: int, seq: int, count: int = 1, *, txn: bool = False, zero: bool = False
) -> ErrorCode | str:
    header = read_header(batch(count, pid=PID, epoch=epoch, seq=seq, txn=txn))._replace(producer_epoch=epoch)
    answer = states.admit(header, zero)
    return DUPLICATE if isinstance(answer, RememberedBatch) else answer


def note(states: ProducerStates, epoch: int, seq: int, count: int = 1, *, txn: bool = False, at: int = 0) -> None:
    header = read_header(batch(count, pid=PID, epoch=epoch, seq=seq, txn=txn))._replace(producer_epoch=epoch)
    states.appended(header, at)


def known(epoch: int, *ranges: tuple[int, int], txn: bool = False) -> ProducerStates:
    """A producer with these batches: (first sequence, count)."""
    states, offset = ProducerStates(), 0
    for first, count in ranges:
        note(states, epoch, first, count, txn=txn, at=offset)
        offset += count
    return states


def marked(epoch: int, before: ProducerStates | None = None) -> ProducerStates:
    states = before or ProducerStates()
    states.marker_appended(PID, epoch, 0, NOW_MS, 100, True)
    return states


NOTHING, MARKED, FOUR = ProducerStates(), marked(3), known(3, (0, 5), (5, 5))
OPEN, NO_EPOCH, WRAPPED = known(3, (0, 10), txn=True), known(-1, (0, 10)), known(3, (SEQUENCE_MAX - 9, 10))
BUMPED, SAME = marked(4, known(3, (0, 10), txn=True)), marked(3, known(3, (0, 10), txn=True))

ROWS = [
    # rule                                             state    epoch  seq  n   txn    zero   answer
    ("1 the last batch again",                          FOUR,    3,     5,   5,  False, False, DUPLICATE),
    ("1 an older batch again",                          FOUR,    3,     0,   5,  False, False, DUPLICATE),
    ("1 only whole batches are repeated: shorter",      FOUR,    3,     5,   4,  False, False, OUT_OF_ORDER),
    ("1 only whole batches are repeated: longer",       FOUR,    3,     0,   10, False, False, OUT_OF_ORDER),
    ("1 a newer epoch repeats nothing",                 FOUR,    4,     5,   5,  False, False, OUT_OF_ORDER),
    ("1 an older epoch repeats nothing",                FOUR,    2,     5,   5,  False, False, OLD_EPOCH),
    ("2 an older epoch, transactional",                 FOUR,    2,     10,  1,  True,  False, OLD_EPOCH),
    ("4 an older epoch",                                FOUR,    2,     10,  1,  False, False, OLD_EPOCH),
    ("4 an older epoch than a marker's",                MARKED,  2,     0,   1,  False, False, OLD_EPOCH),
    ("5 an unknown producer of TV2 begins at 0",        NOTHING, 3,     0,   1,  True,  True,  OK),
    ("5 an unknown producer of TV2, not at 0",          NOTHING, 3,     1,   1,  True,  True,  OUT_OF_ORDER),
    ("7 a new epoch begins at 0",                       FOUR,    4,     0,   1,  False, False, OK),
    ("7 a new epoch, not at 0",                         FOUR,    4,     10,  1,  False, False, OUT_OF_ORDER),
    ("7 a new epoch after a marker, not at 0",          MARKED,  4,     1,   1,  False, False, OUT_OF_ORDER),
    ("7 no epoch stored: any sequence",                 NO_EPOCH, 0,    77,  1,  False, False, OK),
    ("8 the next sequence",                             FOUR,    3,     10,  1,  False, False, OK),
    ("8 a gap",                                         FOUR,    3,     11,  1,  False, False, OUT_OF_ORDER),
    ("8 from the middle",                               FOUR,    3,     9,   2,  False, False, OUT_OF_ORDER),
    ("8 from 0 in the same epoch",                      FOUR,    3,     0,   1,  False, False, OUT_OF_ORDER),
    ("8 from 2^31-1 to 0",                              WRAPPED, 3,     0,   1,  False, False, OK),
    ("8 from 2^31-1 to 1",                              WRAPPED, 3,     1,   1,  False, False, OUT_OF_ORDER),
    ("8 the batch up to 2^31-1 again",                  WRAPPED, 3, SEQUENCE_MAX - 9, 10, False, False, DUPLICATE),
    ("8 only a marker is known: 0 follows",             MARKED,  3,     0,   1,  False, False, OK),
    ("8 only a marker is known: 1 does not",            MARKED,  3,     1,   1,  False, False, OUT_OF_ORDER),
    ("8 after a marker that bumped: 0 follows",         BUMPED,  4,     0,   1,  True,  True,  OK),
    ("8 after a marker that bumped: the next does not", BUMPED,  4,     10,  1,  True,  True,  OUT_OF_ORDER),
    ("8 after a marker that bumped: nothing is repeated", BUMPED, 4,    0,   10, True,  True,  OK),
    ("8 after a marker of the epoch: the next follows", SAME,    3,     10,  1,  True,  False, OK),
    ("8 after a marker of the epoch: 0 does not",       SAME,    3,     0,   1,  True,  False, OUT_OF_ORDER),
    ("8 after a marker of the epoch: batches repeat",   SAME,    3,     0,   10, True,  False, DUPLICATE),
    ("8 no epoch stored and none given: any sequence",  NO_EPOCH, -1,   77,  1,  False, False, OK),
    ("9 nothing known: any sequence",                   NOTHING, 3,     55,  1,  False, False, OK),
    ("9 nothing known: any sequence, transactional",    NOTHING, 0,     55,  1,  True,  False, OK),
    ("10 in a transaction, not transactional",          OPEN,    3,     10,  1,  False, False, WRONG_STATE),
    ("10 also with a new epoch",                        OPEN,    4,     0,   1,  False, False, WRONG_STATE),
    ("10 the sequence is looked at first",              OPEN,    3,     11,  1,  False, False, OUT_OF_ORDER),
    ("10 a repeated batch is repeated first",           OPEN,    3,     0,   10, False, False, DUPLICATE),
    ("11 in a transaction, transactional",              OPEN,    3,     10,  1,  True,  False, OK),
    ("11 a transaction begins",                         FOUR,    3,     10,  1,  True,  False, OK),
]  # fmt: skip


@pytest.mark.parametrize(
    ("states", "epoch", "seq", "count", "txn", "zero", "answer"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS]
)
def test_client_append(
    states: ProducerStates, epoch: int, seq: int, count: int, txn: bool, zero: bool, answer: ErrorCode | str
) -> None:
    before = states.snapshot()

    assert ask(states, epoch, seq, count, txn=txn, zero=zero) == answer
    assert states.snapshot() == before


MARKERS = [
    # rule                                     stored  open   marker  tv  coordinator  answer
    ("unknown producer",                        None,   False, 0,      1,  0,           OK),
    ("unknown producer, TV2",                   None,   False, 0,      2,  0,           OK),
    ("same epoch, TV0",                         3,      True,  3,      0,  5,           OK),
    ("same epoch, TV1",                         3,      True,  3,      1,  5,           OK),
    ("same epoch, nothing open, TV1",           3,      False, 3,      1,  5,           OK),
    ("newer epoch, TV1: the coordinator fenced", 3,     True,  4,      1,  5,           OK),
    ("older epoch, TV0",                        3,      True,  2,      0,  5,           OLD_EPOCH),
    ("older epoch, TV1",                        3,      False, 2,      1,  5,           OLD_EPOCH),
    ("newer epoch, TV2",                        3,      True,  4,      2,  5,           OK),
    ("same epoch, TV2, open: of an older txn",  3,      True,  3,      2,  5,           OLD_EPOCH),
    ("same epoch, TV2, nothing open: a repeat", 3,      False, 3,      2,  5,           OK),
    ("epoch 32767 again, TV2, open",            32_767, True,  32_767, 2,  5,           OK),
    ("older epoch, TV2",                        3,      False, 2,      2,  5,           OLD_EPOCH),
    ("older coordinator, TV1",                  3,      True,  3,      1,  4,           FENCED),
    ("older coordinator, TV2",                  3,      True,  4,      2,  4,           FENCED),
    ("older coordinator, nothing open",         3,      False, 3,      1,  4,           FENCED),
    ("newer coordinator",                       3,      True,  3,      1,  6,           OK),
    ("the epoch is looked at first",            3,      True,  2,      1,  4,           OLD_EPOCH),
]  # fmt: skip


@pytest.mark.parametrize(
    ("stored", "is_open", "epoch", "tv", "coordinator", "answer"), [r[1:] for r in MARKERS], ids=[r[0] for r in MARKERS]
)
def test_marker(stored: int | None, is_open: bool, epoch: int, tv: int, coordinator: int, answer: ErrorCode) -> None:
    states = ProducerStates()
    if stored is not None:
        states.marker_appended(PID, stored, 5, NOW_MS, 0, True)
        if is_open:
            note(states, stored, 0, txn=True, at=1)

    assert states.check_marker(PID, epoch, coordinator, tv) == answer


@pytest.mark.parametrize(("commit", "newer_epoch"), list(product((True, False), (True, False))))
def test_a_marker_ends_the_transaction_and_forgets_batches_only_of_an_older_epoch(
    commit: bool, newer_epoch: bool
) -> None:
    states = known(3, (0, 4), txn=True)

    entry = states.marker_appended(PID, 3 + newer_epoch, 9, NOW_MS + 5, 4, commit)

    producer = states.producers[PID]
    assert entry == (None if commit else AbortedTxn(PID, 0, 4, 5))
    assert (producer.epoch, producer.coordinator_epoch, producer.last_timestamp) == (3 + newer_epoch, 9, NOW_MS + 5)
    assert (producer.txn_first_offset, states.open_txns) == (-1, {})
    assert [batch.first_sequence for batch in producer.batches] == ([] if newer_epoch else [0])


def test_a_marker_without_a_transaction_adds_no_aborted_transaction_entry() -> None:
    assert ProducerStates().marker_appended(PID, 0, 0, NOW_MS, 0, False) is None


def test_an_entry_carries_the_first_offset_of_the_oldest_other_transaction() -> None:
    states = ProducerStates()
    for offset, pid in enumerate((30, 10, 20)):
        states.appended(read_header(batch(pid=pid, seq=0, txn=True)), offset)

    assert states.marker_appended(10, 0, 0, NOW_MS, 3, False) == AbortedTxn(10, 1, 3, 0)
    assert states.marker_appended(30, 0, 0, NOW_MS, 4, False) == AbortedTxn(30, 0, 4, 2)
    assert states.marker_appended(20, 0, 0, NOW_MS, 5, False) == AbortedTxn(20, 2, 5, 6)


def test_the_last_five_batches_are_remembered_and_the_first_offset_of_each() -> None:
    states = known(0, *((n * 3, 3) for n in range(7)))

    header = read_header(batch(3, pid=PID, epoch=0, seq=6))
    repeated = states.admit(header, False)
    assert isinstance(repeated, RememberedBatch)
    assert remembered([repeated]) == [(6, 8, 6, 8, NOW_MS)]
    assert [ask(states, 0, n * 3, 3) for n in range(7)] == [OUT_OF_ORDER] * 2 + [DUPLICATE] * 5


def test_a_batch_may_cross_the_highest_sequence() -> None:
    states = known(0, (SEQUENCE_MAX - 1, 5))

    assert remembered(states.producers[PID].batches)[0][:2] == (SEQUENCE_MAX - 1, 2)
    assert (ask(states, 0, SEQUENCE_MAX - 1, 5), ask(states, 0, 3), ask(states, 0, 0)) == (DUPLICATE, OK, OUT_OF_ORDER)


def test_batches_without_sequences_are_not_remembered() -> None:
    """The group coordinator writes such batches for the offset commits of a transaction."""
    states = ProducerStates()
    note(states, 0, -1, txn=True, at=12)

    assert (states.producers[PID].batches, states.open_txns) == ([], {PID: 12})
    assert (ask(states, 0, 0, txn=True), ask(states, 0, 1, txn=True)) == (OK, OUT_OF_ORDER)


@pytest.mark.parametrize(("silent_ms", "txn", "gone"), [(99, False, False), (100, False, True), (1_000, True, False)])
def test_a_silent_producer_is_forgotten_unless_it_has_a_transaction(silent_ms: int, txn: bool, gone: bool) -> None:
    states = known(0, (0, 1), txn=txn)

    states.expire(NOW_MS + silent_ms, 100)

    assert (PID not in states.producers) is gone


# --- snapshots

GOLDEN = bytes.fromhex(
    "00014d212a810000000100000000000003e80005ffffffffffffffffffffffff000000000000018bcfe5680000000007000000000000000a"
)


def test_a_snapshot_is_the_bytes_that_kafka_writes() -> None:
    states = ProducerStates()
    note_offset = read_header(batch(pid=1_000, epoch=5, txn=True, at=NOW_MS))
    states.appended(note_offset, 10)
    states.producers[1_000].coordinator_epoch = 7

    assert states.snapshot() == GOLDEN
    assert ProducerStates.from_snapshot(GOLDEN).snapshot() == GOLDEN
    assert ProducerStates.from_snapshot(GOLDEN).open_txns == {1_000: 10}


@pytest.mark.parametrize(
    ("last_sequence", "offset_delta", "next_sequence"), [(4, 4, 5), (1, 4, 2), (SEQUENCE_MAX, 2, 0), (-1, 3, 0)]
)
def test_a_snapshot_restores_the_last_batch_of_a_producer(
    last_sequence: int, offset_delta: int, next_sequence: int
) -> None:
    """Kafka's own batches of offset commits have no sequence: their last one is -1."""
    out = bytearray((0, 1))
    entry = ProducerEntry(PID, 3, last_sequence, 100, offset_delta, NOW_MS, 2, -1)
    ProducerSnapshot(0, [entry]).encode(out, 1)
    out[2:6] = crc32c(out[6:]).to_bytes(4, "big")

    states = ProducerStates.from_snapshot(bytes(out))

    producer = states.producers[PID]
    assert (producer.last_sequence, producer.next_sequence) == (last_sequence, next_sequence)
    assert producer.batches[0].first_offset == 100 - offset_delta
    assert states.snapshot() == out


@pytest.mark.parametrize("at", range(len(GOLDEN)))
def test_a_snapshot_with_a_flipped_byte_is_refused(at: int) -> None:
    with pytest.raises(DecodeError):
        ProducerStates.from_snapshot(GOLDEN[:at] + bytes([GOLDEN[at] ^ 1]) + GOLDEN[at + 1 :])


@pytest.mark.parametrize("size", range(len(GOLDEN)))
def test_a_torn_snapshot_is_refused(size: int) -> None:
    with pytest.raises(DecodeError):
        ProducerStates.from_snapshot(GOLDEN[:size])


# --- random walks against a simple model


@dataclass
class Model:
    """A simple model of the rules for one producer."""

    epoch: int | None = None
    cached: list[tuple[int, int, int]] = field(default_factory=list)
    coordinator: int = -1
    txn_at: int = -1

    def data(self, epoch: int, seq: int, count: int, txn: bool) -> ErrorCode | str:
        last = (seq + count - 1) % 2**31
        if epoch == self.epoch and any((seq, last) == c[:2] for c in self.cached):
            return DUPLICATE
        if self.epoch is not None:
            if epoch < self.epoch:
                return OLD_EPOCH
            expected = 0 if epoch > self.epoch or not self.cached else (self.cached[-1][1] + 1) % 2**31
            if seq != expected:
                return OUT_OF_ORDER
        if self.txn_at >= 0 and not txn:
            return WRONG_STATE
        return OK

    def take(self, epoch: int, seq: int, count: int, txn: bool, offset: int) -> None:
        cached = self.cached if epoch == self.epoch else []
        self.epoch = epoch
        self.cached = [*cached, (seq, (seq + count - 1) % 2**31, offset)][-5:]
        if txn and self.txn_at < 0:
            self.txn_at = offset

    def marker(self, epoch: int, coordinator: int, tv: int) -> ErrorCode:
        if self.epoch is not None:
            repeat = epoch == self.epoch and self.txn_at < 0
            if epoch < self.epoch or (tv == 2 and epoch == self.epoch and not repeat):
                return OLD_EPOCH
        return FENCED if coordinator < self.coordinator else OK

    def end(self, epoch: int, coordinator: int) -> None:
        self.cached = self.cached if epoch == self.epoch else []
        self.epoch, self.coordinator, self.txn_at = epoch, coordinator, -1


near_max = st.sampled_from([0, 1, 2, 3, 4, 5, 6, SEQUENCE_MAX - 1, SEQUENCE_MAX])
steps = st.one_of(
    st.tuples(st.just("data"), st.integers(0, 3), near_max | st.none(), st.integers(1, 3), st.booleans()),
    st.tuples(st.just("mark"), st.integers(0, 3), st.integers(0, 2), st.sampled_from([0, 1, 2]), st.booleans()),
    st.tuples(st.just("restart")),
)


@given(st.lists(steps, max_size=40))
def test_random_appends_and_markers_get_the_verdicts_of_the_model(walk: list[tuple[object, ...]]) -> None:
    states, model = ProducerStates(), Model()
    for offset, step in enumerate(walk):
        match step:
            case ("data", int(epoch), seq, int(count), bool(txn)):
                if not isinstance(seq, int):  # Continue the producer's sequence.
                    seq = (model.cached[-1][1] + 1) % 2**31 if model.cached else 0
                expected = model.data(epoch, seq, count, txn)
                assert ask(states, epoch, seq, count, txn=txn) == expected
                if expected == OK:
                    note(states, epoch, seq, count, txn=txn, at=offset * 10)
                    model.take(epoch, seq, count, txn, offset * 10)
            case ("mark", int(epoch), int(coordinator), int(tv), bool(commit)):
                error = model.marker(epoch, coordinator, tv)
                assert states.check_marker(PID, epoch, coordinator, tv) == error
                if error == OK:
                    entry = states.marker_appended(PID, epoch, coordinator, NOW_MS, offset * 10, commit)
                    assert (entry is not None) == (model.txn_at >= 0 and not commit)
                    model.end(epoch, coordinator)
            case _:
                states = ProducerStates.from_snapshot(states.snapshot())
                model.cached = model.cached[-1:]
        producer = states.producers.get(PID)
        cached = [batch[:3] for batch in remembered(producer.batches)] if producer else []
        assert cached == model.cached
        assert states.open_txns == ({PID: model.txn_at} if model.txn_at >= 0 else {})


def test_a_snapshot_restores_open_transactions_in_the_order_in_which_they_began() -> None:
    states = ProducerStates()
    for offset, pid in enumerate((30, 10, 20)):
        states.appended(read_header(batch(pid=pid, seq=0, txn=True))._replace(attributes=TRANSACTIONAL), offset)
    states.marker_appended(30, 0, 0, NOW_MS, 3, True)
    states.appended(read_header(batch(pid=30, seq=1, txn=True)), 4)

    assert list(ProducerStates.from_snapshot(states.snapshot()).open_txns.items()) == [(10, 1), (20, 2), (30, 4)]


# --- refused first batches of a transaction


DOUBTS = [
    # what was refused before: (epoch, sequence, TV2)    then: epoch seq  zero   answer
    ([(3, 0, True)],                                           3,   0,  True,  OK),
    ([(3, 0, True)],                                           3,   1,  True,  OUT_OF_ORDER),
    ([(3, 2, False)],                                          3,   2,  False, OK),
    ([(3, 2, False)],                                          3,   3,  False, OUT_OF_ORDER),
    ([(3, 2, False), (3, 1, False)],                           3,   2,  False, OUT_OF_ORDER),
    ([(3, 0, False)],                                          4,   2,  False, OK),  # A higher epoch replaces the refused batch.
    ([(4, 0, False)],                                          3,   1,  False, OUT_OF_ORDER),
    ([(4, 0, False)],                                          3,   0,  False, OK),
    ([(3, 5, False)],                                          3,   5,  True,  OK),  # The first refused batch decides.
    ([(3, 5, True)],                                           3,   5,  False, OUT_OF_ORDER),
]  # fmt: skip


@pytest.mark.parametrize(("refused", "epoch", "sequence", "zero", "answer"), DOUBTS)
def test_no_later_sequence_is_accepted_after_a_refused_first_batch(
    refused: list[tuple[int, int, bool]], epoch: int, sequence: int, zero: bool, answer: ErrorCode
) -> None:
    """As Kafka's VerificationStateEntry, which stores the lowest sequence of such batches (KIP-890)."""
    states = ProducerStates()
    for before, first, starts_at_zero in refused:
        header = read_header(batch(pid=PID, epoch=before, seq=first, txn=True))
        states.mark_unresolved(header, starts_at_zero, NOW_MS)
    states.renew_unresolved(read_header(batch(pid=PID, epoch=epoch, seq=sequence, txn=True)))

    assert ask(states, epoch, sequence, txn=True, zero=zero) == answer


@pytest.mark.parametrize("ending", ["batch", "marker", "time"])
def test_a_refused_first_batch_is_forgotten(ending: str) -> None:
    states = ProducerStates()
    states.mark_unresolved(read_header(batch(pid=PID, epoch=4, seq=0, txn=True)), False, NOW_MS)
    assert ask(states, 3, 1) == OUT_OF_ORDER
    match ending:
        case "batch":
            note(states, 3, 0, txn=True)
        case "marker":
            marked(3, states)
        case "time":
            states.expire(NOW_MS + 999, 1_000)
            assert states.unresolved_batches
            states.expire(NOW_MS + 1_000, 1_000)

    assert states.unresolved_batches == {}


@pytest.mark.parametrize(("starts_at_zero", "marker_epoch", "stays"), [
    (True,  4, True),
    (True,  3, False),
    (True,  5, False),
    (False, 4, False),
])  # fmt: skip
def test_a_marker_of_its_own_epoch_leaves_the_first_batch_of_an_implicit_add_unresolved(
    starts_at_zero: bool, marker_epoch: int, stays: bool
) -> None:
    """From Produce v12 on, the next transaction may begin before the marker of the previous one arrives (KIP-890)."""
    states = ProducerStates()
    states.mark_unresolved(read_header(batch(pid=PID, epoch=4, seq=0, txn=True)), starts_at_zero, NOW_MS)
    marked(marker_epoch, states)

    assert bool(states.unresolved_batches) == stays


def test_a_first_batch_that_was_appended_is_resolved() -> None:
    states = known(3, (0, 2), txn=True)
    states.mark_unresolved(read_header(batch(pid=PID, epoch=3, seq=0, txn=True)), True, NOW_MS)

    assert states.unresolved_batches == {}


def test_a_batch_that_is_not_verified_changes_no_unresolved_first_batch() -> None:
    states = known(4, (0, 1))
    states.mark_unresolved(read_header(batch(pid=PID, epoch=3, seq=0, txn=True)), True, NOW_MS)
    before = dict(states.unresolved_batches)

    assert ask(states, 4, 1, txn=True) == OUT_OF_ORDER
    assert states.unresolved_batches == before

    states.renew_unresolved(read_header(batch(pid=PID, epoch=4, seq=1, txn=True)))
    assert ask(states, 4, 1, txn=True) == OK


def test_a_refused_first_batch_of_a_newer_epoch_also_blocks_an_open_transaction() -> None:
    states = known(3, (0, 2), txn=True)
    states.mark_unresolved(read_header(batch(pid=PID, epoch=4, seq=0, txn=True)), False, NOW_MS)

    assert ask(states, 3, 2, txn=True) == OUT_OF_ORDER
    assert ask(states, 3, 0, 2, txn=True) == DUPLICATE
