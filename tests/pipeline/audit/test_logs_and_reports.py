"""Tables of the coordinators' logs and the reports made of them: fencing, latencies, stable offsets, exactly-once checks."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from audit_harness import Log, World, every_record

from stuntbroker.coordinator.records import key_of, value_of
from stuntbroker.coordinator.state import Phase, new_txn, txn_of
from stuntbroker.pipeline.audit import run
from stuntbroker.pipeline.audit.eos import ExactlyOnceCheck
from stuntbroker.pipeline.audit.folder import read_folder
from stuntbroker.pipeline.audit.reports import aborted_of, fencing_of, last_stable_offsets, latencies_of
from stuntbroker.pipeline.audit.txn_log import DEAD
from stuntbroker.protocol.transaction_states import STATES, TIMEOUT_NONE

A, B = ("t", 0), ("t", 1)


def test_a_record_of_the_transaction_log_becomes_a_row_with_all_that_is_in_it(tmp_path: Path) -> None:
    """The row includes tagged fields, also those that only our broker writes."""
    world = World(tmp_path)
    full = txn_of(
        "id",
        producer_id=1,
        previous_producer_id=2,
        next_producer_id=3,
        producer_epoch=4,
        next_producer_epoch=5,
        last_producer_epoch=6,
        timeout_ms=7,
        phase=Phase.PREPARE_COMMIT,
        partitions=frozenset({A, B}),
        started_at_ms=8,
        updated_at_ms=9,
        client_version=2,
        timed_out_epoch=10,
        init_version=11,
    )
    for txn, version in ((full, 1), (new_txn("old", 5, 0), 0)):
        world.states.put([(key_of(txn.transactional_id), value_of(txn, version))], at=1_234)
    world.forget("id")
    first, old, tombstone = world.audit().txn_state.to_pylist()

    assert first == {
        "log_partition": 0, "log_offset": 0, "timestamp": 1_234, "transactional_id": "id", "state": "PrepareCommit",
        "producer_id": 1, "producer_epoch": 4, "previous_producer_id": 2, "next_producer_id": 3,
        "next_producer_epoch": 5, "last_producer_epoch": 6, "timed_out_epoch": 10, "timeout_ms": 7, "start_ms": 8,
        "update_ms": 9, "client_transaction_version": 2,
        "partitions": [{"topic": "t", "partition": 0}, {"topic": "t", "partition": 1}],
    }  # fmt: skip
    assert (old["transactional_id"], old["state"], old["producer_id"], old["partitions"]) == ("old", "Empty", 5, [])
    assert (tombstone["transactional_id"], tombstone["state"], tombstone["producer_id"]) == ("id", DEAD, -1)


def test_the_names_of_the_states_are_in_the_order_of_their_numbers() -> None:
    assert [name.lower() for name in STATES] == [
        phase.name.replace("_", "").lower() for phase in list(Phase)[: len(STATES)]
    ]


def test_a_committed_offset_becomes_a_row_with_its_producer(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.commit_offset("g", A, 5)
    world.commit_offset("g", B, 6, pid=7, epoch=2)
    world.offsets.put([(b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x00", None), (b"\x00\x02\x00\x01g", b"group")])
    names = ("group_id", "topic", "partition", "committed_offset", "producer_id", "producer_epoch", "log_offset")
    rows = [tuple(row[name] for name in names) for row in world.audit().offsets.to_pylist()]

    assert rows == [("g", "t", 0, 5, -1, -1, 0), ("g", "t", 1, 6, 7, 2, 1), ("g", "t", 0, None, -1, -1, 2)]


def history(world: World) -> list[tuple[Any, ...]]:
    actual = world.audit()
    rows = fencing_of(actual.txn_state, actual.bounds).to_pylist()
    return [(row["before_producer_epoch"], row["producer_id"], row["producer_epoch"], row["reason"]) for row in rows]


def test_every_change_of_an_epoch_has_a_reason(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.state("id", "Empty", 7, 0)
    world.state("id", "Empty", 7, 1)
    world.state("id", "Empty", 7, 2, last_producer_epoch=1)
    start_ms = world.begin("id", 7, 2, A)
    world.decide("id", 7, 3, True, A, start_ms=start_ms, client_transaction_version=2)
    world.complete("id", 7, 3, True, start_ms)
    for reason_ms, version in ((0, 2), (0, 0), (60_001, 2)):
        epoch = world_epoch(world)
        start_ms = world.begin("id", 7, epoch, A, client_transaction_version=version)
        world.tick(reason_ms)
        world.decide("id", 7, epoch + 1, False, A, start_ms=start_ms, client_transaction_version=version)
        world.complete("id", 7, epoch + 1, False, start_ms)
    start_ms = world.begin("id", 7, 6, A)
    world.decide("id", 7, 7, False, A, start_ms=start_ms, client_transaction_version=2)
    world.complete("id", 7, 7, False, start_ms)
    world.state("id", "Empty", 7, 8)
    world.forget("id")
    world.state("id", "Empty", 9, 0)

    assert history(world) == [
        (-1, 7, 0, "first"), (0, 7, 1, "init"), (1, 7, 2, "init_by_owner"), (2, 7, 3, "end"), (3, 7, 4, "end"),
        (4, 7, 5, "fence"), (5, 7, 6, "timeout"), (6, 7, 7, "end_or_fence"), (7, 7, 8, "init"), (8, -1, -1, "removed"),
        (-1, 9, 0, "first"),
    ]  # fmt: skip


def world_epoch(world: World) -> int:
    return int(world.audit().txn_state["producer_epoch"].to_pylist()[-1])


def test_exhausted_epochs_and_a_recovered_transaction_are_reported(tmp_path: Path) -> None:
    """KIP-939's example: KeepPreparedTxn near the last epoch gives the client another producer id."""
    world = World(tmp_path)
    world.state("id", "Empty", 42, 32_766)
    start_ms = world.begin("id", 42, 32_766, A, timeout_ms=TIMEOUT_NONE)
    facts = {"start_ms": start_ms, "timeout_ms": TIMEOUT_NONE}
    world.state("id", "Ongoing", 42, 32_766, A, next_producer_id=73, next_producer_epoch=0, **facts)
    world.state("id", "PrepareCommit", 42, 32_767, A, next_producer_id=73, next_producer_epoch=1, **facts)
    world.state("id", "CompleteCommit", 73, 1, **facts)
    world.state("id", "Empty", 80, 0)

    assert [row[1:] for row in history(world)] == [
        (42, 32_766, "first"), (42, 32_766, "recover"), (42, 32_767, "end"), (73, 1, "recovered_end"), (80, 0, "exhausted"),
    ]  # fmt: skip


def test_an_epoch_whose_history_was_compacted_is_reported_as_first_seen(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.states.next_offset = 1_000  # Compaction removed the records below this offset.
    world.state("id", "CompleteCommit", 7, 9)
    world.state("new", "Empty", 8, 0)

    assert [row[1:] for row in history(world)] == [(7, 9, "first_seen"), (8, 0, "first")]


def test_latency_quantiles_are_computed_for_each_transactional_id(tmp_path: Path) -> None:
    world = World(tmp_path)
    took = {"a": list(range(1, 101)), "b": [5]}
    for name, times in took.items():
        for ms in random.Random(1).sample(times, len(times)):
            world.complete(name, 1, 1, True, world.now_ms + 10 - ms)

    assert latencies_of(world.audit().txn_state).to_pylist() == [
        {"transactional_id": "a", "transactions": 100, "p50_ms": 50, "p90_ms": 90, "p99_ms": 99, "p100_ms": 100},
        {"transactional_id": "b", "transactions": 1, "p50_ms": 5, "p90_ms": 5, "p99_ms": 5, "p100_ms": 5},
    ]


def test_the_oldest_open_transaction_holds_back_a_partition(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.transact("done", 1, 0, False, A, B)
    world.begin("first", 2, 0, A)
    world.begin("second", 3, 0, A)
    actual = world.audit()
    held = {
        (row["topic"], row["partition"]): (row["last_stable_offset"], row["log_end_offset"], row["transactional_id"])
        for row in last_stable_offsets(actual.transactions, actual.bounds).to_pylist()
    }

    assert (held[A], held[B]) == ((3, 7, "first"), (3, 3, None))
    (a, b) = aborted_of(actual.transactions).to_pylist()
    assert (a["transactions"], a["aborted_transactions"], a["aborted_records"], a["aborted_bytes_ratio"]) == (
        1,
        1,
        2,
        1.0,
    )
    assert a["bytes"] == b["aborted_bytes"] > 0


def test_without_transactions_every_report_is_empty(tmp_path: Path) -> None:
    actual = World(tmp_path).audit()

    assert len(fencing_of(actual.txn_state, actual.bounds)) == len(latencies_of(actual.txn_state)) == 0
    assert len(aborted_of(actual.transactions)) == 0
    assert set(last_stable_offsets(actual.transactions, actual.bounds)["producer_id"].to_pylist()) == {None}


# --- exactly once


def copied(world: World, *outputs: tuple[bytes | None, bytes | None]) -> list[tuple[str, str]]:
    """Write five input records to t-0, of which the group has committed four, and the output to t-1."""
    pairs = [(b"k", b"1"), (None, b"2"), (b"k", b"1"), (b"k", None), (b"not", b"yet")]
    world.log[A].put([(b"aborted", b"x")], 9, 0, 0, txn=True)
    world.log[A].mark(False, 9, 1)
    world.log[A].put(pairs)
    world.log[B].put(outputs, 8, 0, 0, txn=True)
    world.commit_offset("g", A, 6, pid=8, epoch=0)
    world.commit_offset("other", A, 1)
    world.log[B].mark(True, 8, 1)
    world.offsets.mark(True, 8, 1)
    world.commit_offset("g", A, 7, pid=9, epoch=1)
    world.offsets.mark(False, 9, 2)
    folder = read_folder(str(world.folder))
    actual = world.audit()
    places = {
        row["group_id"]: (row["topic"], row["partition"], row["committed_offset"])
        for row in actual.committed.to_pylist()
    }
    assert places == {"g": (*A, 6), "other": (*A, 1)}
    records = every_record(folder, "t")
    # Input and output are partitions of one topic here; the check goes by topic.
    named = pc.if_else(pc.equal(records["partition"], 1), "out", records["topic"])
    records = records.set_column(0, "topic", named)
    theirs = pc.if_else(pc.equal(actual.transactions["partition"], 1), "out", actual.transactions["topic"])
    transactions = actual.transactions.set_column(0, "topic", theirs)
    chain = ExactlyOnceCheck("g", ("t",), ("out",))
    rows = chain.findings(chain.tally(records, transactions, actual.committed, upper), actual.bounds)
    return sorted((row["kind"], row["evidence"]) for row in rows)


def upper(records: pa.Table) -> pa.Table:
    """Apply the pipeline's transformation, which doubles each value."""
    twice = pc.binary_join_element_wise(records["value"], records["value"], b"")
    return pa.table({"key": records["key"], "value": twice})


RIGHT = ((b"k", b"11"), (None, b"22"), (b"k", None), (b"k", b"11"))


@pytest.mark.parametrize(
    ("outputs", "kinds"),
    [
        (RIGHT, []),
        (RIGHT[:3], ["key b'k', value b'11': 1 in the output, expected 2", "output_missing"]),
        ((*RIGHT, (b"k", None)), ["key b'k', value None: 2 in the output, expected 1", "output_duplicate"]),
        ((*RIGHT, (b"not", b"yetyet")), ["key b'not', value b'yetyet': 1 in the output, expected 0", "output_unexpected"]),
    ],
)  # fmt: skip
def test_output_that_differs_from_the_committed_input_is_reported(
    outputs: Any, kinds: list[str], tmp_path: Path
) -> None:
    actual = copied(World(tmp_path), *outputs)

    assert sorted(text for row in actual for text in row) == kinds


def chained(world: World, compare: str) -> list[tuple[str, Any]]:
    """Write two records to t-0 and copies with different values to u-0; return (kind, last offset) of the findings."""
    target = Log(world.folder, "u")
    world.log[A].put([(b"a", b"1"), (b"b", b"2")])
    target.put([(b"a", b"one"), (b"b", b"two")])
    world.commit_offset("g", A, world.log[A].next_offset)
    folder = read_folder(str(world.folder))
    actual = run.compare(folder, world.audit(), ExactlyOnceCheck("g", ("t",), ("u",), compare))
    return [(each["kind"], each["last_offset"]) for each in actual]


def test_input_and_output_are_compared_by_key_by_value_or_by_both(tmp_path: Path) -> None:
    kinds = [kind for kind, _ in chained(World(tmp_path / "both"), "both")]

    assert sorted(kinds) == ["output_missing"] * 2 + ["output_unexpected"] * 2
    assert chained(World(tmp_path / "key"), "key") == []
    assert len(chained(World(tmp_path / "value"), "value")) == 4


def test_output_whose_input_was_cut_off_is_unknown(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.log[A].next_offset = 50  # Records below this offset were deleted.

    assert chained(world, "both") == [("output_missing", None), ("output_missing", None), ("unknown_before", 49)]
