"""Data folders with every kind of finding in them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from audit_harness import Log, World

from stuntbroker.protocol.batches.records import SEQUENCE_MAX, read_header
from stuntbroker.protocol.transaction_states import TIMEOUT_NONE

A, B = ("t", 0), ("t", 1)


PID, OTHER = 7, 8


ExpectedFinding = tuple[str, str | None, int | None, str | None]


def flip(path: Path, at: int, bits: int = 1) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= bits
    path.write_bytes(data)


def clean(world: World) -> None:
    """Write transactions of two ids, one per transaction version, and batches of a producer without transactions."""
    world.state("one", "Empty", PID, 0)
    for epoch in range(4):
        world.transact("one", PID, epoch, epoch != 2, A, B)
    world.state("two", "Empty", OTHER, 0)
    for commit in (True, False, True):
        world.transact("two", OTHER, 5, commit, A, bump=0)
    for sequence in (0, 3, 6):
        world.log[B].produce(99, 0, sequence, 3, txn=False)


def transactions_with_offsets(world: World) -> None:
    """Write transactions that commit offsets with the same producer epoch."""
    place = ("__consumer_offsets", 0)
    world.state("two", "Empty", OTHER, 0)
    for number in range(3):
        start_ms = world.begin("two", OTHER, 5, place, data=False)
        world.commit_offset("group", A, number, OTHER, 5)
        world.commit_offset("group", B, number, OTHER, 5)
        world.decide("two", OTHER, 5, True, place, start_ms=start_ms)
        world.offsets.mark(True, OTHER, 5, world.tick())
        world.complete("two", OTHER, 5, True, start_ms)


def ongoing(world: World) -> None:
    world.begin("one", PID, 4, A)


def data_after_the_end(world: World) -> None:
    """Write a late batch after the end of its transaction, which KIP-890 prevents."""
    world.log[A].produce(PID, 4)


def data_of_an_unknown_id(world: World) -> None:
    world.log[B].produce(1_234, 0, 0)


def data_in_a_partition_that_was_not_added(world: World) -> None:
    world.begin("one", PID, 4, A)
    world.log[B].produce(PID, 4, 0)


def data_of_an_older_epoch(world: World) -> None:
    world.begin("one", PID, 5, B)
    world.log[A].produce(PID, 4)


def forgotten_id(world: World) -> None:
    world.begin("one", PID, 4, A)
    world.forget("one")


def prepared_for_a_long_time(world: World) -> None:
    world.begin("one", PID, 4, A, B, timeout_ms=TIMEOUT_NONE)
    world.state("two", "Empty", OTHER, 6)
    world.tick(10**9)
    world.transact("two", OTHER, 6, True, A)


def beyond_its_timeout(world: World) -> None:
    world.begin("one", PID, 4, A, timeout_ms=60_000)
    world.tick(60_000 + 10_100)
    world.transact("two", OTHER, 6, True, B)


def no_marker(world: World) -> None:
    start_ms = world.begin("one", PID, 4, A, B)
    world.decide("one", PID, 5, True, A, B, start_ms=start_ms)
    world.mark(PID, 5, True, A)
    world.complete("one", PID, 5, True, start_ms)


def no_marker_and_the_id_went_on(world: World) -> None:
    no_marker(world)
    world.transact("one", PID, 5, True, A)


def no_marker_for_one_of_several(world: World) -> None:
    """Omit a marker of one of several transactions with the same epoch, as before KIP-890."""
    start_ms = world.begin("two", OTHER, 6, A)
    world.decide("two", OTHER, 6, False, A, start_ms=start_ms)
    world.mark(OTHER, 6, False, A)
    world.complete("two", OTHER, 6, False, start_ms)
    start_ms = world.tick()
    world.state("two", "Ongoing", OTHER, 6, A, B, start_ms=start_ms)
    world.decide("two", OTHER, 6, False, A, B, start_ms=start_ms)
    world.mark(OTHER, 6, False, B)
    world.complete("two", OTHER, 6, False, start_ms)


def killed_between_prepare_and_markers(world: World) -> None:
    start_ms = world.begin("one", PID, 4, A, B)
    world.decide("one", PID, 5, True, A, B, start_ms=start_ms)
    world.mark(PID, 5, True, A)


def aborted_where_commit_was_decided(world: World) -> None:
    start_ms = world.begin("one", PID, 4, A, B)
    world.decide("one", PID, 5, True, A, B, start_ms=start_ms)
    world.mark(PID, 5, True, A)
    world.mark(PID, 5, False, B)
    world.complete("one", PID, 5, True, start_ms)


def nothing_was_written(world: World) -> None:
    start_ms = world.begin("one", PID, 4, A, data=False)
    world.decide("one", PID, 5, False, A, start_ms=start_ms)
    world.mark(PID, 5, False, A)
    world.complete("one", PID, 5, False, start_ms)


def marker_sent_again(world: World) -> None:
    world.mark(PID, 4, True, A)


def marker_of_a_zombie_coordinator(world: World) -> None:
    world.begin("one", PID, 4, A)
    world.decide("one", PID, 5, True, A, start_ms=world.now_ms)
    world.mark(PID, 5, True, A, coordinator_epoch=3)
    world.complete("one", PID, 5, True, world.now_ms)
    world.mark(PID, 5, True, A, coordinator_epoch=2)


def marker_of_an_old_epoch(world: World) -> None:
    world.mark(PID, 1, False, B)


def marker_of_an_unknown_id(world: World) -> None:
    world.mark(1_234, 0, False, B)


def epoch_goes_up_inside(world: World) -> None:
    start_ms = world.begin("one", PID, 4, A)
    world.log[A].produce(PID, 5, 0)
    world.state("one", "Ongoing", PID, 5, A, start_ms=start_ms)
    world.decide("one", PID, 6, True, A, start_ms=start_ms)
    world.mark(PID, 6, True, A)
    world.complete("one", PID, 6, True, start_ms)


def written_twice(world: World) -> None:
    world.log[B].produce(99, 0, 3, 3, txn=False)
    world.log[B].produce(99, 0, 9, 1, txn=False)


def overlap(world: World) -> None:
    world.log[B].produce(99, 0, 8, 3, txn=False)


def lost_batch(world: World) -> None:
    world.log[B].produce(99, 0, 12, 3, txn=False)


def epoch_that_does_not_start_at_zero(world: World) -> None:
    world.log[B].produce(99, 1, 1, 1, txn=False)


def sequences_around_the_end(world: World) -> None:
    world.log[B].produce(55, 0, 0, 1, txn=False)
    for sequence, count in ((SEQUENCE_MAX - 1, 2), (0, 5), (5, 1)):
        world.log[A].produce(55, 0, sequence, count, txn=False)


def sequences_that_a_known_producer_never_had(world: World) -> None:
    start_ms = world.begin("two", OTHER, 6, A, data=False)
    world.log[A].produce(OTHER, 6, 2, at=world.tick())
    world.decide("two", OTHER, 6, True, A, start_ms=start_ms)
    world.mark(OTHER, 6, True, A)
    world.complete("two", OTHER, 6, True, start_ms)


def a_flipped_bit(world: World) -> None:
    data = bytearray(world.log[A].path.read_bytes())
    data[70] ^= 1
    world.log[A].path.write_bytes(data)


def a_flipped_bit_in_a_marker(world: World) -> None:
    start_ms = world.begin("one", PID, 4, A)
    world.decide("one", PID, 5, True, A, start_ms=start_ms)
    at = world.log[A].path.stat().st_size
    world.mark(PID, 5, True, A)
    world.complete("one", PID, 5, True, start_ms)
    world.state("two", "Empty", OTHER, 6)
    world.transact("two", OTHER, 6, True, A)
    data = bytearray(world.log[A].path.read_bytes())
    data[at + 64] ^= 1
    world.log[A].path.write_bytes(data)


def a_length_that_leads_nowhere(world: World) -> None:
    data = bytearray(world.log[A].path.read_bytes())
    data[10] ^= 4
    world.log[A].path.write_bytes(data)


def a_torn_end(world: World) -> None:
    with world.log[A].path.open("ab") as file:
        file.write(world.log[A].path.read_bytes()[:70])


def zeros_at_the_end(world: World) -> None:
    with world.log[A].path.open("ab") as file:
        file.write(bytes(3_000))


def a_torn_end_in_the_middle(world: World) -> None:
    """Tear the end of a segment that is not the last one."""
    with world.log[A].path.open("ab") as file:
        file.write(world.log[A].path.read_bytes()[:70])
    world.log[A].roll()
    world.transact("one", PID, 4, True, A)


def an_offset_that_was_there_before(world: World) -> None:
    world.log[B].next_offset -= 3
    world.log[B].produce(99, 0, 6, 3, txn=False)


def a_value_of_another_kind(world: World) -> None:
    world.states.put([(b"\x00\x00\x00\x03one", b"\x00\x09what")], at=world.tick())


def a_last_batch_that_was_half_written(world: World) -> None:
    """Write a last batch whose length is complete, but whose records end in zero bytes."""
    size = world.log[A].path.stat().st_size
    world.log[A].produce(PID, 4, count=30)
    data = world.log[A].path.read_bytes()
    world.log[A].path.write_bytes(data[: size + 100] + bytes(len(data) - size - 100))


def contradicted_and_late(world: World) -> None:
    """Write a wrong marker and a late batch with the same epoch, as before KIP-890."""
    start_ms = world.begin("two", OTHER, 5, A)
    world.decide("two", OTHER, 5, True, A, start_ms=start_ms)
    world.mark(OTHER, 5, False, A)
    world.complete("two", OTHER, 5, True, start_ms)
    world.log[A].produce(OTHER, 5)


def no_marker_for_the_last_of_several(world: World) -> None:
    for is_marked in (True, True, False):
        start_ms = world.begin("two", OTHER, 6, A)
        world.decide("two", OTHER, 6, False, A, start_ms=start_ms)
        if is_marked:
            world.mark(OTHER, 6, False, A)
        world.complete("two", OTHER, 6, False, start_ms)


def no_marker_and_then_a_prepared_one(world: World) -> None:
    start_ms = world.begin("one", PID, 4, B, data=False)
    world.decide("one", PID, 5, True, B, start_ms=start_ms)
    world.complete("one", PID, 5, True, start_ms)
    world.begin("one", PID, 5, B, timeout_ms=TIMEOUT_NONE)


def no_marker_and_then_late_data(world: World) -> None:
    start_ms = world.begin("one", PID, 4, B, data=False)
    world.decide("one", PID, 5, True, B, start_ms=start_ms)
    world.complete("one", PID, 5, True, start_ms)
    world.log[B].produce(PID, 7)


def a_flipped_bit_in_the_marker_of_an_unknown_id(world: World) -> None:
    world.log[A].produce(1_234, 0)
    at = world.log[A].path.stat().st_size
    world.mark(1_234, 0, True, A)
    world.transact("two", OTHER, 6, True, A)
    data = bytearray(world.log[A].path.read_bytes())
    data[at + 64] ^= 1
    world.log[A].path.write_bytes(data)


def killed_after_markers_that_were_sent_again(world: World) -> None:
    """Write more markers of an epoch than there are decisions, which is possible before KIP-890."""
    world.mark(OTHER, 5, True, A)
    world.mark(OTHER, 5, False, A)
    start_ms = world.begin("two", OTHER, 5, A)
    world.decide("two", OTHER, 5, True, A, start_ms=start_ms)


def an_offset_with_a_flipped_bit(world: World) -> None:
    """Flip a bit in the offset of the first marker. No CRC covers offsets, so a broker cannot detect it either."""
    flip(world.log[A].path, read_header(world.log[A].path.read_bytes()).size)


def an_offset_below_zero(world: World) -> None:
    flip(world.log[A].path, read_header(world.log[A].path.read_bytes()).size, 0x80)


def an_offset_with_a_low_bit_flipped(world: World) -> None:
    flip(world.log[A].path, read_header(world.log[A].path.read_bytes()).size + 5)


def a_flipped_bit_in_what_the_coordinator_knows(world: World) -> None:
    at = world.states.path.stat().st_size
    world.begin("one", PID, 4, A)
    world.state("two", "Empty", OTHER, 6)
    flip(world.states.path, at + 65)


def a_flipped_bit_between_two_epochs(world: World) -> None:
    start_ms = world.begin("one", PID, 4, A)
    world.decide("one", PID, 5, True, A, start_ms=start_ms)
    at = world.log[A].path.stat().st_size
    world.mark(PID, 5, True, A)
    world.complete("one", PID, 5, True, start_ms)
    world.transact("one", PID, 5, True, A)
    flip(world.log[A].path, at + 64)


def records_of_a_fenced_producer(world: World) -> None:
    world.log[B].produce(99, 1, 0, 2, txn=False)
    world.log[B].produce(99, 0, 9, 1, txn=False)


def records_of_a_fenced_producer_within_a_transaction(world: World) -> None:
    start_ms = world.begin("one", PID, 4, A)
    world.log[A].produce(PID, 2, 2)
    world.log[A].produce(PID, 4, 2)
    world.decide("one", PID, 5, True, A, start_ms=start_ms)
    world.mark(PID, 5, True, A)
    world.complete("one", PID, 5, True, start_ms)


def a_commit_without_a_decision(world: World) -> None:
    world.begin("one", PID, 4, A)
    world.mark(PID, 5, True, A)


def a_marker_below_its_records(world: World) -> None:
    world.begin("one", PID, 4, A)
    world.mark(PID, 3, True, A)


def a_topic_that_was_made_anew(world: World) -> None:
    shutil.rmtree(world.log[A].folder)
    world.log[A] = Log(world.folder, *A)
    world.transact("one", PID, 4, True, A)


CASES: list[tuple[Callable[[World], None], list[ExpectedFinding]]] = [
    (ongoing, []),
    (data_after_the_end, [("hanging", *A, "one")]),
    (data_of_an_unknown_id, [("hanging", *B, None)]),
    (data_in_a_partition_that_was_not_added, [("hanging", *B, "one")]),
    (data_of_an_older_epoch, [("hanging", *A, "one")]),
    (forgotten_id, [("hanging", *A, "one")]),
    (prepared_for_a_long_time, [("open_two_phase", *A, "one"), ("open_two_phase", *B, "one")]),
    (beyond_its_timeout, [("overdue", *A, "one")]),
    (no_marker, [("marker_missing", *B, "one")]),
    (no_marker_and_the_id_went_on, [("marker_missing", *B, "one")]),
    (no_marker_for_one_of_several, [("marker_missing", *A, "two"), ("marker_without_data", *B, "two")]),
    (killed_between_prepare_and_markers, [("marker_pending", *B, "one")]),
    (aborted_where_commit_was_decided, [("marker_contradicts", *B, "one")]),
    (nothing_was_written, [("marker_without_data", *A, "one")]),
    (marker_sent_again, [("marker_without_data", *A, "one")]),
    (marker_of_a_zombie_coordinator, [("marker_suspicious", *A, "one")]),
    (marker_of_an_old_epoch, [("marker_suspicious", *B, "one")]),
    (marker_of_an_unknown_id, [("marker_suspicious", *B, None)]),
    (epoch_goes_up_inside, [("mixed_epochs", *A, "one")]),
    (written_twice, [("duplicate", *B, None)]),
    (overlap, [("duplicate", *B, None)]),
    (lost_batch, [("gap", *B, None)]),
    (epoch_that_does_not_start_at_zero, [("gap", *B, None)]),
    (sequences_around_the_end, [("unknown_before", *A, None)]),
    (sequences_that_a_known_producer_never_had, [("gap", *A, "two")]),
    (a_flipped_bit, [("corrupt", *A, None)]),
    (a_flipped_bit_in_a_marker, [("corrupt", *A, None)]),
    (a_length_that_leads_nowhere, [("corrupt", *A, None)]),
    (a_torn_end, [("torn_tail", *A, None)]),
    (zeros_at_the_end, [("torn_tail", *A, None)]),
    (a_torn_end_in_the_middle, [("corrupt", *A, None)]),
    (an_offset_that_was_there_before, [("duplicate", *B, None), ("offset_order", *B, None)]),
    (a_last_batch_that_was_half_written, [("torn_tail", *A, None)]),
    (contradicted_and_late, [("hanging", *A, "two"), ("marker_contradicts", *A, "two")]),
    (no_marker_for_the_last_of_several, [("marker_missing", *A, "two")]),
    (no_marker_and_then_a_prepared_one, [("marker_missing", *B, "one"), ("open_two_phase", *B, "one")]),
    (no_marker_and_then_late_data, [("hanging", *B, "one"), ("marker_missing", *B, "one")]),
    (a_flipped_bit_in_the_marker_of_an_unknown_id, [("corrupt", *A, None)]),
    (
        killed_after_markers_that_were_sent_again,
        [("marker_pending", *A, "two"), *[("marker_without_data", *A, "two")] * 2],
    ),
    (an_offset_with_a_flipped_bit, [("offset_order", *A, "one"), ("unknown_before", *A, None)]),
    (an_offset_below_zero, [("offset_order", *A, "one"), ("unknown_before", *A, None)]),
    (an_offset_with_a_low_bit_flipped, [("offset_order", *A, "one"), ("unknown_before", *A, None)]),
    (a_flipped_bit_in_what_the_coordinator_knows, [("corrupt", "__transaction_state", 0, None)]),
    (a_flipped_bit_between_two_epochs, [("corrupt", *A, None), ("unknown_before", *A, None)]),
    (records_of_a_fenced_producer, [("stale_epoch", *B, None)]),
    (records_of_a_fenced_producer_within_a_transaction, [("stale_epoch", *A, "one")]),
    (a_commit_without_a_decision, [("marker_undecided", *A, "one")]),
    (a_marker_below_its_records, [("marker_suspicious", *A, "one")]),
    (a_topic_that_was_made_anew, [("unknown_before", *A, None)]),
    (a_value_of_another_kind, [("undecodable", "__transaction_state", 0, None)]),
]


def rewritten(world: World, place: tuple[str, int], *, drop: Callable[[int], bool]) -> None:
    """Rewrite a log without the batches for which `drop` is true, as compaction does."""
    path = world.log[place].path
    data, kept, at = path.read_bytes(), bytearray(), 0
    while at < len(data):
        header = read_header(data, at)
        if not drop(header.base_offset):
            kept += data[at : at + header.size]
        at += header.size
    path.write_bytes(kept)
