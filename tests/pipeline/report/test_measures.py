"""Transactions over time and the figures made of them; sampling loses no transaction."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from audit_cases import OTHER, PID, A, B, clean, rewritten
from audit_harness import World
from report_harness import page_of_world

from stuntbroker.pipeline.audit.findings import FINDINGS, as_findings
from stuntbroker.pipeline.audit.folder import read_folder
from stuntbroker.pipeline.audit.reports import LATENCIES, SEGMENTS
from stuntbroker.pipeline.audit.run import audit
from stuntbroker.pipeline.audit.scan import BATCHES
from stuntbroker.pipeline.report import text
from stuntbroker.pipeline.report.episodes import EPISODES, FENCE_MARKS, episodes_of, fence_marks_of
from stuntbroker.pipeline.report.figures import ids_figure
from stuntbroker.pipeline.report.measures import (
    BINS,
    IDS_MAX,
    TOPICS_MAX,
    Latencies,
    aborts_of,
    latencies_for,
    traffic_of,
)
from stuntbroker.pipeline.report.timeline import APART_MAX, LANES_MAX, MARKS_MAX, timeline_of
from stuntbroker.protocol.transaction_states import TIMEOUT_NONE

T0 = 1_700_000_000_000


def episodes(world: World, *, keep: bool = True) -> list[dict[str, Any]]:
    created = audit(read_folder(str(world.folder)), keep=keep)
    return episodes_of(created.transactions, created.txn_state if keep else created.lasts, created.fencing).to_pylist()


def described(world: World, *, keep: bool = True) -> list[tuple[Any, ...]]:
    return [
        (row["transactional_id"], row["outcome"], row["partitions"], row["source"])
        for row in episodes(world, keep=keep)
    ]


def test_coordinator_records_give_the_start_decision_and_end_times_of_a_transaction(tmp_path: Path) -> None:
    world = World(tmp_path)
    start_ms = world.begin("one", PID, 0, A, B)
    world.decide("one", PID, 1, True, A, B, start_ms=start_ms)
    decided_ms = world.now_ms
    world.mark(PID, 1, True, A, B)
    world.complete("one", PID, 1, True, start_ms)
    (each,) = episodes(world)

    assert each == {
        "transactional_id": "one", "producer_id": PID, "producer_epoch": 0, "marker_epoch": 1, "start_ms": start_ms,
        "decided_ms": decided_ms, "end_ms": world.now_ms, "outcome": "commit", "partitions": 2, "source": "coordinator",
    }  # fmt: skip


@pytest.mark.parametrize("bump", [0, 1])
def test_a_transaction_in_several_partitions_is_counted_once(bump: int, tmp_path: Path) -> None:
    world = World(tmp_path)
    for number in range(5):
        world.transact("one", PID, number * bump, number != 3, A, B, bump=bump)

    assert [row[1] for row in described(world)] == ["commit", "commit", "commit", "abort", "commit"]
    assert {row[2:] for row in described(world)} == {(2, "coordinator")}


@pytest.mark.parametrize("bump", [0, 1])
def test_transactions_missing_from_the_coordinator_log_are_reconstructed_from_the_partitions(
    bump: int, tmp_path: Path
) -> None:
    """A compacted log, or the audit of a large folder, has only the last record of each transactional id."""
    world = World(tmp_path)
    for number in range(5):
        world.transact("one", PID, number * bump, number != 3, A, B, bump=bump)

    assert [row[1:] for row in described(world, keep=False)] == [
        *[("commit", 2, "partitions")] * 3, ("abort", 2, "partitions"), ("commit", 0, "coordinator")
    ]  # fmt: skip


def test_transactions_of_one_epoch_in_the_same_millisecond_are_distinguished_by_their_partitions(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    for _ in range(3):
        for place in (A, B):
            world.log[place].produce(PID, 0, at=T0)
            world.log[place].mark(True, PID, 0, T0)

    assert described(world) == [(None, "commit", 2, "partitions")] * 3


def test_timed_out_decided_and_open_transactions_are_distinguished(tmp_path: Path) -> None:
    world = World(tmp_path)
    start_ms = world.begin("late", 1, 0, A, timeout_ms=1_000)
    world.tick(5_000)
    world.decide("late", 1, 1, False, A, start_ms=start_ms, timeout_ms=1_000, client_transaction_version=2)
    world.mark(1, 1, False, A)
    world.complete("late", 1, 1, False, start_ms)
    start_ms = world.begin("decided", 2, 0, B)
    world.decide("decided", 2, 1, True, B, start_ms=start_ms)
    world.begin("open", 3, 0, A)
    world.log[B].produce(99, 0, 0)

    for keep in (True, False):
        assert {row[0]: row[1] for row in described(world, keep=keep)} == {
            "late": "timeout", "decided": "decided", "open": "open", None: "open"
        }  # fmt: skip
    assert {row["transactional_id"]: row["end_ms"] is None for row in episodes(world)} == {
        "late": False, "decided": True, "open": True, None: True
    }  # fmt: skip


@pytest.mark.parametrize("keep", [True, False])
def test_later_transactions_with_the_epoch_of_a_time_out_are_no_time_outs(keep: bool, tmp_path: Path) -> None:
    """Under transaction version 2, the producer continues with the epoch that the time-out gave it (KIP-588)."""
    world = World(tmp_path)
    start_ms = world.begin("one", PID, 0, A, timeout_ms=1_000)
    world.tick(5_000)
    world.decide("one", PID, 1, False, A, start_ms=start_ms, timeout_ms=1_000, client_transaction_version=2)
    world.mark(PID, 1, False, A)
    world.complete("one", PID, 1, False, start_ms)
    world.transact("one", PID, 1, True, A)
    world.transact("one", PID, 2, False, A)
    world.begin("one", PID, 3, A)

    assert [row[1] for row in described(world, keep=keep)] == ["timeout", "commit", "abort", "open"]


def test_records_that_come_after_a_time_out_are_open_and_no_time_out(tmp_path: Path) -> None:
    world = World(tmp_path)
    start_ms = world.begin("one", PID, 0, A, timeout_ms=1_000)
    world.tick(5_000)
    world.decide("one", PID, 1, False, A, start_ms=start_ms, timeout_ms=1_000, client_transaction_version=2)
    world.mark(PID, 1, False, A)
    world.complete("one", PID, 1, False, start_ms)
    world.log[A].produce(PID, 1, at=world.tick())

    assert [row[1:] for row in described(world)] == [("timeout", 1, "coordinator"), ("open", 1, "partitions")]


def test_transactions_of_one_epoch_in_different_partitions_are_distinguished_by_their_times(tmp_path: Path) -> None:
    """Before KIP-890, consecutive transactions of a producer have the same epoch."""
    world = World(tmp_path)
    for place in (A, B):
        world.log[place].produce(PID, 0, at=world.tick())
        world.log[place].mark(True, PID, 0, world.tick())

    assert described(world) == [(None, "commit", 1, "partitions")] * 2


def test_two_ends_in_a_row_are_of_two_transactions(tmp_path: Path) -> None:
    """Compaction may have removed the records between the two ends."""
    world = World(tmp_path)
    for epoch in (1, 2):
        world.complete("one", PID, epoch, True, world.tick())

    assert [row[1] for row in described(world)] == ["commit", "commit"]


def test_when_epochs_are_used_up_the_markers_epoch_is_that_of_the_decision(tmp_path: Path) -> None:
    world = World(tmp_path)
    start_ms = world.begin("one", PID, 32_766, A)
    world.decide("one", PID, 32_767, True, A, start_ms=start_ms, next_producer_id=9)
    world.mark(PID, 32_767, True, A)
    world.complete("one", 9, 0, True, start_ms, previous_producer_id=PID)
    (each,) = episodes(world)

    assert (each["producer_id"], each["marker_epoch"], each["outcome"]) == (PID, 32_767, "commit")


def test_a_marker_without_records_is_no_transaction(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.mark(1_234, 0, False, A)

    assert described(world) == []


def test_a_compacted_partition_does_not_make_transactions_count_twice(tmp_path: Path) -> None:
    world = World(tmp_path)
    clean(world)
    before = described(world)
    rewritten(world, A, drop=lambda offset: offset < 6)

    assert described(world) == before


def test_a_removed_id_has_the_time_of_its_tombstone(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.transact("one", PID, 0, True, A)
    world.forget("one")
    created = audit(read_folder(str(tmp_path)))
    marks = fence_marks_of(created.fencing, created.txn_state).to_pylist()

    assert [(row["reason"], row["time_ms"]) for row in marks][-1] == ("removed", world.now_ms)


def rows_of(*rows: tuple[str, int, int, str]) -> pa.Table:
    """Return a table of episodes from (transactional id, start, end, outcome)."""
    created = [
        {
            "transactional_id": name, "producer_id": 1, "producer_epoch": 0, "marker_epoch": 1, "start_ms": start,
            "decided_ms": None, "end_ms": None if outcome in ("open", "decided") else end, "outcome": outcome,
            "partitions": 1, "source": "coordinator",
        }
        for name, start, end, outcome in rows
    ]  # fmt: skip
    return pa.Table.from_pylist(created, EPISODES)


def crowd(ids: int, each: int) -> pa.Table:
    rng = np.random.default_rng(3)
    ends = ["commit", "abort", "timeout"]
    return rows_of(
        *(
            (f"id-{name}", T0 + int(at), T0 + int(at) + int(rng.integers(1, 60_000)), str(rng.choice(ends)))
            for name in range(ids)
            for at in rng.integers(0, 10**8, each)
        )
    )


NO_MARKS = FENCE_MARKS.empty_table()
NO_FINDINGS = FINDINGS.empty_table()


@pytest.mark.parametrize(("ids", "each"), [(1, 1), (3, APART_MAX), (4, 900), (LANES_MAX, 50), (LANES_MAX + 9, 300)])
def test_sampling_loses_no_transaction_and_says_how_many_it_hides(ids: int, each: int) -> None:
    table = crowd(ids, each)
    actual = timeline_of(table, NO_MARKS, NO_FINDINGS, T0 + 2 * 10**8)
    shown = Counter[str]()
    for bar in actual.bars:
        shown[bar.outcome] += bar.count

    assert sum(shown.values()) + actual.transactions_hidden == ids * each
    assert (len(actual.lanes), actual.lanes_hidden) == (min(ids, LANES_MAX), max(ids - LANES_MAX, 0))
    assert actual.transactions_merged == sum(bar.count for bar in actual.bars if bar.is_merged)
    if ids <= LANES_MAX:
        assert shown == Counter(table["outcome"].to_pylist())
    assert len(actual.bars) < 8_000


def test_few_transactions_are_drawn_one_by_one_with_their_times() -> None:
    actual = timeline_of(rows_of(("a", T0, T0 + 5, "commit"), ("a", T0 + 9, 0, "open")), NO_MARKS, NO_FINDINGS, T0 + 50)

    bars = sorted((bar.start_ms, bar.end_ms, bar.outcome, bar.count, bar.is_merged) for bar in actual.bars)
    assert bars == [(T0, T0 + 5, "commit", 1, False), (T0 + 9, T0 + 50, "open", 1, False)]


def test_a_joint_bar_is_as_high_as_its_share() -> None:
    crowded = [("a", T0 + at, T0 + at + 1, "commit" if at % 4 else "abort") for at in range(800)]
    table = rows_of(*crowded, ("a", T0 + 10**7, T0 + 10**7, "commit"))
    actual = timeline_of(table, NO_MARKS, NO_FINDINGS, T0)
    shares = {bar.outcome: (bar.count, round(bar.share, 3)) for bar in actual.bars if bar.is_merged}

    assert shares == {"commit": (600, 0.75), "abort": (200, 0.25)}


def test_lanes_with_findings_come_first_then_what_is_open_then_aborts() -> None:
    table = rows_of(
        *[("busy", T0 + at, T0 + at, "commit") for at in range(9)],
        ("aborting", T0, T0, "abort"),
        ("open", T0, 0, "open"),
        ("warned", T0, T0, "commit"),
        ("wrong", T0, T0, "commit"),
    )
    blank = dict.fromkeys(FINDINGS.names) | {"kind": "gap", "evidence": ""}
    findings = as_findings(
        [
            blank | {"severity": "warning", "transactional_id": "warned"},
            blank | {"severity": "error", "transactional_id": "wrong"},
        ]
    )

    assert timeline_of(table, NO_MARKS, findings, T0).lanes == ("wrong", "warned", "open", "aborting", "busy")


def test_epoch_bumps_at_the_end_of_transactions_are_the_first_marks_to_be_omitted() -> None:
    names = [f"id-{number}" for number in range(20)]
    table = rows_of(*((name, T0, T0 + 10**7, "commit") for name in names))
    row = dict.fromkeys(FENCE_MARKS.names, 1)
    rows = [
        row | {"transactional_id": name, "reason": "end", "time_ms": T0 + at * 10_000}
        for name in names
        for at in range(1_000)
    ] + [
        row | {"transactional_id": name, "reason": "fence", "time_ms": T0 + at * 300_000}
        for name in names
        for at in range(9)
    ]
    actual = timeline_of(table, pa.Table.from_pylist(rows, FENCE_MARKS), NO_FINDINGS, T0)
    shown = Counter[str]()
    for mark in actual.marks:
        shown[mark.reason] += mark.count

    assert len(actual.marks) == MARKS_MAX
    assert shown["fence"] == 20 * 9
    assert shown["end"] + actual.marks_hidden == 20 * 1_000 and actual.marks_hidden > 0


def test_the_page_says_what_is_sampled(tmp_path: Path) -> None:
    world = World(tmp_path)
    for number in range(LANES_MAX + 2):
        for epoch in range(2):
            world.transact(f"id-{number}", number, epoch, True, A)
    for epoch in range(2, 80):
        world.transact("id-0", 0, epoch, True, A)
    said = page_of_world(world).section("timeline-of-ids")

    assert f"{LANES_MAX} of {LANES_MAX + 2} ids are shown" in said
    assert "4 transactions of the others are only counted" in said
    assert "transactions that began close together are drawn as joint bars" in said


def test_every_latency_is_in_one_bin_of_the_histogram() -> None:
    table = crowd(4, 500)
    actual = latencies_for(table, LATENCIES.empty_table(), True)
    took = np.array(table["end_ms"].to_pylist()) - np.array(table["start_ms"].to_pylist())

    assert sum(actual.committed) + sum(actual.aborted) == actual.count == 2_000
    assert sum(actual.committed) == table["outcome"].to_pylist().count("commit")
    assert (actual.quantiles_ms[50], actual.quantiles_ms[-1]) == (
        np.quantile(took, 0.5, method="inverted_cdf"),
        took.max(),
    )


def test_latencies_of_less_than_a_millisecond_are_in_a_bin_of_their_own() -> None:
    table = rows_of(*(("a", T0, T0 + took, "commit") for took in (0, 0, 1, 2, 9, 10)))
    actual = latencies_for(table, LATENCIES.empty_table(), True)

    assert actual.committed[:3] == (2, 1, 1)


def test_latencies_from_partition_timestamps_are_not_mixed_with_those_of_the_coordinator() -> None:
    """Latencies from partitions are omitted if the audit has all records of the transaction log, and included otherwise."""
    table = rows_of(("a", T0, T0 + 5, "commit"), ("a", T0, T0 + 90, "commit"))
    table = table.set_column(table.column_names.index("source"), "source", pa.array(["partitions", "coordinator"]))
    whole, large = (latencies_for(table, LATENCIES.empty_table(), is_whole) for is_whole in (True, False))

    assert (whole.count, whole.quantiles_ms[0], whole.is_coordinators) == (1, 90, True)
    assert (large.count, large.quantiles_ms[0], large.is_coordinators) == (2, 5, False)


def test_a_negative_latency_from_two_clocks_is_omitted_and_counted() -> None:
    table = rows_of(("a", T0, T0 - 7, "commit"), ("a", T0, T0 + 7, "commit"))
    actual = latencies_for(table, LATENCIES.empty_table(), False)

    assert (actual.count, actual.skewed) == (1, 1)


def test_aborts_are_counted_by_id_and_slice_the_worst_ids_first() -> None:
    table = rows_of(
        ("good", T0, T0, "commit"),
        ("good", T0, T0 + 900, "commit"),
        ("bad", T0, T0 + 900, "abort"),
        ("bad", T0, T0, "timeout"),
        ("half", T0, T0, "commit"),
        ("half", T0, T0, "abort"),
        ("open", T0, 0, "open"),
    )
    actual = aborts_of(table)

    assert actual.ids == ("bad", "half", "good")
    assert [(sum(ended), sum(lost)) for ended, lost in zip(actual.ended, actual.lost, strict=True)] == [
        (2, 2),
        (2, 1),
        (2, 0),
    ]
    assert (actual.ended[0][0], actual.ended[0][-1], actual.lost[1][0]) == (1, 1, 1)
    assert (sum(actual.committed), sum(actual.aborted)) == (3, 3)


def test_of_many_ids_those_with_most_aborts_are_shown() -> None:
    actual = aborts_of(crowd(IDS_MAX + 7, 3))

    assert (len(actual.ids), actual.ids_hidden) == (IDS_MAX, 7)
    assert sum(actual.committed) + sum(actual.aborted) == 3 * (IDS_MAX + 7)


def batches(*rows: tuple[str, int, int]) -> pa.Table:
    """Return a table of batches from (topic, time, bytes)."""
    blank = dict.fromkeys(BATCHES.names)
    created = [blank | {"topic": topic, "max_timestamp": at, "size": size, "count": 2} for topic, at, size in rows]
    return pa.Table.from_pylist(created, BATCHES)


def test_traffic_adds_up_and_the_largest_topics_have_a_row() -> None:
    table = batches(*((f"t{number % 12}", T0 + number * 1_000, 100 + number % 12) for number in range(600)))
    actual = traffic_of(table, SEGMENTS.empty_table(), True)

    assert sum(map(sum, actual.bytes)) == sum(table["size"].to_pylist())
    assert (sum(map(sum, actual.batches)), sum(map(sum, actual.records))) == (600, 1_200)
    assert actual.topics == (*(f"t{number}" for number in range(11, 11 - TOPICS_MAX, -1)), None)
    assert actual.topics_joined == 12 - TOPICS_MAX
    assert sum(actual.batches[-1]) == 50 * (12 - TOPICS_MAX)


def test_of_a_large_folder_a_segments_traffic_is_spread_over_its_time() -> None:
    blank = dict.fromkeys(SEGMENTS.names, 0)
    rows = [
        blank | {"topic": "t", "bytes": 900, "batches": 9, "first_timestamp": T0, "last_timestamp": T0 + 89_000},
        blank | {"topic": "u", "bytes": 50, "batches": 1, "first_timestamp": T0 + 500, "last_timestamp": T0 + 500},
        blank | {"topic": "v", "bytes": 7, "batches": 1, "first_timestamp": -1, "last_timestamp": -1},
    ]
    actual = traffic_of(BATCHES.empty_table(), pa.Table.from_pylist(rows, SEGMENTS), False)
    by_topic = dict(zip(actual.topics, actual.bytes, strict=True))

    assert actual.is_spread and actual.without_time == 1
    assert (len(by_topic["t"]), sum(by_topic["t"])) == (BINS, pytest.approx(900))
    assert max(by_topic["t"]) == pytest.approx(900 / 89)
    assert (by_topic["u"][0], sum(by_topic["u"])) == (50, 50)


def test_a_two_phase_transaction_is_open_up_to_the_newest_time(tmp_path: Path) -> None:
    world = World(tmp_path)
    start_ms = world.begin("two-phase", PID, 0, A, timeout_ms=TIMEOUT_NONE)
    world.tick(10**9)
    world.transact("other", OTHER, 0, True, B)
    figure = page_of_world(world).figures["timeline"]
    (bar,) = [trace for trace in figure["data"] if trace["name"] == "open"]

    assert bar["base"] == [start_ms]
    assert bar["x"][0] == pytest.approx(10**9, rel=0.001)
    assert "open for 11 d 13 h" in bar["hovertext"][0]


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (0, "< 1 ms"), (1, "1 ms"), (999, "999 ms"), (1_000, "1 s"), (1_234, "1.23 s"), (60_000, "1 min"), (61_500, "1 min 1 s"),
        (3_600_000, "1 h"), (90_061_000, "1 d 1 h"), (-5, "-5 ms"),
    ],
)  # fmt: skip
def test_durations_have_two_units_at_most(ms: int, shown: str) -> None:
    assert text.duration(ms) == shown


@pytest.mark.parametrize(
    ("number", "shown"),
    [(0, "0 B"), (999, "999 B"), (1_000, "1 kB"), (12_345, "12.3 kB"), (999_000, "999 kB"), (5 * 10**15, "5000 TB")],
)
def test_sizes_have_three_digits(number: int, shown: str) -> None:
    assert text.size(number).replace("\u00a0", " ") == shown


@pytest.mark.parametrize(
    ("part", "shown"),
    [
        (0, "0.0 %"),
        (1, "< 0.1 %"),
        (300, "3.0 %"),
        (5_000, "50 %"),
        (9_990, "99.9 %"),
        (9_999, "> 99.9 %"),
        (10_000, "100 %"),
    ],
)
def test_small_and_large_ratios_are_not_rounded_to_0_or_100_percent(part: int, shown: str) -> None:
    assert text.ratio(part, 10_000).replace("\u00a0", " ") == shown


def test_a_long_name_is_cut_in_the_middle() -> None:
    assert text.shown("a" * 500 + "end").endswith("end") and len(text.shown("a" * 500)) <= 200
    assert text.instant(T0 + 7) == "2023-11-14 22:13:20.007Z"
    assert (text.instant(-1), text.instant(2**62)) == ("\u2013", f"{2**62} ms")


@pytest.mark.parametrize("ms", [0, 1, 3, 48, 66, 999, 21_000, 4_100_000])
def test_an_axis_of_equal_durations_has_a_tick_label(ms: int) -> None:
    each = {"transactional_id": "id", "transactions": 1} | {f"p{share}_ms": ms for share in (50, 90, 99, 100)}
    axis = ids_figure(Latencies((), (), (), (), (each,), 0, 1, True, 0))["layout"]["xaxis"]

    low, high = axis["range"]
    assert axis["ticktext"] and all(low <= math.log10(tick) <= high for tick in axis["tickvals"])
