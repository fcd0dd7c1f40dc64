"""Planning a read: limits per batch, splits into tasks, lost data, and start positions from JSON and timestamps."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stuntbroker.client.commands.fetching import TopicPartition
from stuntbroker.pipeline.spark.offsets import (
    Offsets,
    Position,
    Range,
    SourceError,
    admit,
    from_json,
    lost_data,
    new_offsets,
    resolve,
    split,
    to_json,
)
from stuntbroker.protocol.request_values import EARLIEST, LATEST

A, B, C = (TopicPartition("t", number) for number in range(3))

ADMITTED = [
    # start           latest          most  end
    ((0, 0, 0),       (100, 50, 50),  20,   (10, 5, 5)),       # Partitions share the limit in proportion to their backlog.
    ((0, 0, 0),       (100, 1, 0),    10,   (9, 1, 0)),        # Each partition with a backlog gets at least one offset.
    ((5, 7, 9),       (5, 7, 9),      10,   (5, 7, 9)),        # There are no new records.
    ((0, 0, 0),       (3, 2, 1),      1000, (3, 2, 1)),        # A large limit does not exceed the end.
    ((10, 10, 10),    (4, 20, 10),    5,    (4, 15, 10)),      # The first partition's end is below its start.
    ((0, 0, 0),       (2**62, 1, 1),  4,    (4, 1, 1)),        # The computation does not overflow 64 bits.
]  # fmt: skip


def of(offsets: tuple[int, ...]) -> Offsets:
    return dict(zip((A, B, C), offsets, strict=False))


@pytest.mark.parametrize(("start", "latest", "most", "end"), ADMITTED)
def test_each_partition_is_admitted_in_proportion_to_what_it_has(
    start: tuple[int, ...], latest: tuple[int, ...], most: int, end: tuple[int, ...]
) -> None:
    assert admit(of(start), of(latest), most) == of(end)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=3, max_size=3), st.integers(1, 10**6))
def test_admitted_ranges_obey_the_limit_and_always_make_progress(sizes: list[tuple[int, int]], most: int) -> None:
    start, latest = of(tuple(each[0] for each in sizes)), of(tuple(sum(each) for each in sizes))
    end = admit(start, latest, most)

    assert new_offsets(start, end) <= most + len(sizes)
    assert all(start[each] <= end[each] <= latest[each] for each in latest)
    assert (end == start) == (latest == start)


def test_new_offsets_are_counted_over_all_partitions_and_from_0_in_new_ones() -> None:
    assert new_offsets(of((5, 10)), of((9, 8, 7))) == 4 + 0 + 7


CUT = [
    # ranges (start, end)            minimum  most   sizes
    ([(0, 10), (0, 0), (5, 8)],      None,    None,  [10, 3]),
    ([(0, 10), (0, 10)],             2,       None,  [10, 10]),
    ([(0, 10), (0, 10)],             4,       None,  [5, 5, 5, 5]),
    ([(0, 100), (0, 10)],            4,       None,  [33, 33, 34, 10]),
    ([(0, 2)],                       9,       None,  [1, 1]),
    ([(0, 10)],                      None,    4,     [3, 3, 4]),
    ([(0, 10), (0, 3)],              6,       5,     [2, 3, 2, 3, 3]),
    ([],                             3,       None,  []),
]  # fmt: skip


@pytest.mark.parametrize(("ranges", "least", "most", "sizes"), CUT)
def test_ranges_are_cut_until_there_are_enough(
    ranges: list[tuple[int, int]], least: int | None, most: int | None, sizes: list[int]
) -> None:
    named = [Range(where, *bounds) for where, bounds in zip((A, B, C), ranges, strict=False)]

    assert [each.size for each in split(named, least, most)] == sizes


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 300)), max_size=3), st.integers(1, 50), st.integers(1, 99))
def test_pieces_cover_every_offset_once(bounds: list[tuple[int, int]], least: int, most: int) -> None:
    ranges = [Range(where, start, start + size) for where, (start, size) in zip((A, B, C), bounds, strict=False)]

    def covered(some: list[Range]) -> list[tuple[TopicPartition, int]]:
        return [(each.where, offset) for each in some for offset in range(each.start, each.end)]

    pieces = split(ranges, least, most)
    assert sorted(covered(pieces)) == sorted(covered(ranges))
    assert all(0 < each.size <= most for each in pieces)


def test_lost_data_is_reported_for_each_partition() -> None:
    assert lost_data(of((5, 6, 7)), {B: 6, C: 3}) == [
        "partition t-0, read up to offset 5, does not exist any more",
        "partition t-2, read up to offset 7, ends at 3 now",
    ]
    assert lost_data(of((5,)), of((5, 9))) == []


def test_offsets_are_sorted_in_json_and_parsed_back() -> None:
    offsets = {TopicPartition("u", 10): 1, TopicPartition("u", 9): 2, TopicPartition("a-1", 0): 3}

    assert list(to_json(offsets).items()) == [("a-1", {"0": 3}), ("u", {"9": 2, "10": 1})]
    assert list(to_json(offsets)["u"]) == ["9", "10"]
    assert from_json(to_json(offsets)) == offsets


# --- positions

LOG: dict[int, Offsets] = {EARLIEST: of((3, 4)), LATEST: of((30, 40)), 1_000: of((5, 6)), 2_000: of((9, -1))}


def listing(wanted: Mapping[TopicPartition, int]) -> Offsets:
    return {each: LOG[which][each] for each, which in wanted.items()}


RESOLVED = [
    (Position("o", EARLIEST),                                      (3, 4),   ""),
    (Position("o", LATEST),                                        (30, 40), "AB"),
    (Position("o", each={A: 7, B: LATEST}),                        (7, 40),  "B"),
    (Position("o", each={A: EARLIEST, B: 0}),                      (3, 0),   ""),
    (Position("o", 1_000, is_time=True),                           (5, 6),   ""),
    (Position("o", 2_000, is_time=True, latest_if_none=True),      (9, 40),  "B"),
    (Position("o", each={A: 2_000, B: 1_000}, is_time=True),       (9, 6),   ""),
]  # fmt: skip


@pytest.mark.parametrize(("position", "offsets", "moving"), RESOLVED)
def test_a_position_is_an_offset_of_every_partition(position: Position, offsets: tuple[int, ...], moving: str) -> None:
    actual = resolve(position, [A, B], listing)

    assert actual.offsets == of(offsets)
    assert actual.moving == {{"A": A, "B": B}[each] for each in moving}


UNRESOLVED = [
    (Position("startingOffsets", each={A: 7}), "startingOffsets does not name t-1: "),
    (Position("startingOffsets", each={A: 7, C: 1}), "does not name t-1 and names t-2, which the query does not read"),
    (Position("startingTimestamp", 2_000, is_time=True), "startingTimestamp: t-1 has no record of that time or later"),
]


@pytest.mark.parametrize(("position", "text"), UNRESOLVED)
def test_a_position_that_some_partition_lacks_is_an_error(position: Position, text: str) -> None:
    with pytest.raises(SourceError, match=text):
        resolve(position, [A, B], listing)
