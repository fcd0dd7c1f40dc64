"""Rules for choosing offsets, the same as in Spark's own Kafka source; pure functions.

Spark stores the offsets of a stream as JSON, the next offset of every partition: `{"topic": {"0": 5, "1": 7}}`. Spark's own
Kafka source uses the same format, so a query can continue from one of its checkpoints, and the offsets in a query's progress
can be used as `startingOffsets`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor
from typing import NamedTuple

from stuntbroker.client.commands.fetching import TopicPartition
from stuntbroker.protocol.request_values import EARLIEST, LATEST

Offsets = dict[TopicPartition, int]
OffsetsJson = dict[str, dict[str, int]]


class SourceError(ValueError):
    """The query cannot be run. The message is one line: the problem and what to do."""


class DataLoss(SourceError):
    """Records that the query had to read were deleted, and `failOnDataLoss` is true."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}: the records or the topic were deleted. To skip the lost records, set failOnDataLoss=false"
        )


class Range(NamedTuple):
    """Offsets of a partition from `start` (inclusive) to `end` (exclusive)."""

    where: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        """Number of offsets in the range."""
        return self.end - self.start


@dataclass(frozen=True)
class Position:
    """A position in partitions: the same for all (`everywhere`), or one for each (`each`).

    A position is an offset, EARLIEST or LATEST; with `is_time`, a timestamp in ms: the first record at or after that time.
    """

    option: str
    """Name of the option, for error messages."""
    everywhere: int | None = None
    each: Mapping[TopicPartition, int] | None = None
    is_time: bool = False
    latest_if_none: bool = False
    """If no record has that time or a later one: True uses the end offset, False raises SourceError."""

    def of(self, partitions: Collection[TopicPartition]) -> Offsets:
        """Return the position of each partition. Raises SourceError unless `each` names exactly these partitions."""
        if self.each is None:
            assert self.everywhere is not None
            return dict.fromkeys(partitions, self.everywhere)
        wanted, named = set(partitions), set(self.each)
        if wanted != named:
            missing, unknown = _named(wanted - named), _named(named - wanted)
            said = [f"does not name {missing}"] if missing else []
            said += [f"names {unknown}, which the query does not read"] if unknown else []
            raise SourceError(
                f"{self.option} {' and '.join(said)}: it has to name exactly the partitions that are read"
            )
        return dict(self.each)


def _named(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(map(str, sorted(partitions)))


class Resolved(NamedTuple):
    """The result of resolving a position: one offset per partition."""

    offsets: Offsets
    moving: frozenset[TopicPartition]
    """Partitions resolved to their end offset, which grows."""


def resolve(
    position: Position,
    partitions: Collection[TopicPartition],
    list_offsets: Callable[[Mapping[TopicPartition, int]], Offsets],
) -> Resolved:
    """Resolve a position to offsets. `list_offsets` looks up timestamps, EARLIEST and LATEST; it returns -1 for none."""
    wanted = position.of(partitions)
    if not position.is_time:
        named = {partition: offset for partition, offset in wanted.items() if offset in (EARLIEST, LATEST)}
        moving = {partition for partition, offset in named.items() if offset == LATEST}
        return Resolved(wanted | list_offsets(named), frozenset(moving))
    offsets = list_offsets(wanted)
    none = [partition for partition, offset in offsets.items() if offset < 0]
    if none and not position.latest_if_none:
        raise SourceError(
            f"{position.option}: {_named(none)} has no record of that time or later: "
            "give an earlier one, or set startingOffsetsByTimestampStrategy=latest"
        )
    return Resolved(offsets | list_offsets(dict.fromkeys(none, LATEST)), frozenset(none))


# --- JSON


def to_json(offsets: Mapping[TopicPartition, int]) -> OffsetsJson:
    """Return offsets as a JSON object, always sorted, as Spark compares the texts."""
    document: OffsetsJson = {}
    for partition in sorted(offsets):
        document.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    return document


def from_json(offsets: OffsetsJson) -> Offsets:
    """Return the offsets that a JSON object of `to_json` holds."""
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in offsets.items()
        for partition, offset in partitions.items()
    }


# --- what a micro-batch is to read


def admit(start: Offsets, latest: Offsets, offsets_max: int) -> Offsets:
    """Return end offsets that admit about `offsets_max` new offsets, distributed in proportion to each partition's backlog.

    Every partition with new offsets gets at least one, so the total may be slightly higher. `start` must contain all
    partitions of `latest`.
    """
    sizes = {
        partition: latest[partition] - start[partition] for partition in latest if latest[partition] > start[partition]
    }
    total = sum(sizes.values())
    end = dict(latest)
    for partition, size in sizes.items():
        part = offsets_max * (size / total)
        end[partition] = min(latest[partition], start[partition] + (ceil(part) if part < 1 else floor(part)))
    return end


def new_offsets(start: Offsets, latest: Offsets) -> int:
    """Return the number of offsets between `start` and `latest`; partitions missing from `start` count from offset 0."""
    return sum(max(0, end - start.get(partition, 0)) for partition, end in latest.items())


def lost_data(start: Offsets, latest: Offsets) -> list[str]:
    """Describe lost data: deleted partitions, and partitions that end before the offset already read."""
    lost = [
        f"partition {partition}, read up to offset {start[partition]}, does not exist any more"
        for partition in sorted(start.keys() - latest.keys())
    ]
    for partition in sorted(start.keys() & latest.keys()):
        if latest[partition] < start[partition]:
            lost.append(f"partition {partition}, read up to offset {start[partition]}, ends at {latest[partition]} now")
    return lost


# --- what a task is to read


def split(ranges: Iterable[Range], partitions_min: int | None, records_max: int | None) -> list[Range]:
    """Split ranges evenly into about `partitions_min` pieces of at most `records_max` offsets; drop empty ranges.

    A range that is smaller than the average piece is not split; the other ranges share the remaining pieces.
    """
    parts = sorted(each for each in ranges if each.size > 0)
    if records_max is not None:
        parts = [piece for each in parts for piece in _cut(each, ceil(each.size / records_max))]
    if partitions_min is None or partitions_min <= len(parts):
        return parts
    ideal = sum(each.size for each in parts) / partitions_min
    small = {each for each in parts if each.size < ideal}
    large_total = sum(each.size for each in parts if each not in small)
    left = partitions_min - len(small)
    pieces = {each: 1 if each in small else max(1, round(left * each.size / large_total)) for each in parts}
    return [piece for each in parts for piece in _cut(each, pieces[each])]


def _cut(each: Range, pieces: int) -> list[Range]:
    pieces = min(pieces, each.size)
    bounds = [each.start + each.size * number // pieces for number in range(pieces + 1)]
    return [Range(each.where, start, end) for start, end in pairwise(bounds)]
