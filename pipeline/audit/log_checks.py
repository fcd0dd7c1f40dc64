"""Findings from the batches of a partition alone: corrupt bytes, offsets, epochs and sequence numbers.

The batches of a partition must be in file order.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stuntbroker.pipeline.arrays import Array
from stuntbroker.pipeline.audit.findings import ERROR, INFORMATION, Finding, finding, rows_at
from stuntbroker.pipeline.audit.grouping import codes, codes_of_both, find, follows, running_max, values
from stuntbroker.pipeline.audit.scan import END_FAULTS
from stuntbroker.pipeline.counting import count
from stuntbroker.protocol.batches.records import SEQUENCE_MAX
from stuntbroker.protocol.primitives import INT32_MAX
from stuntbroker.protocol.topic_names import OFFSETS

OF_FILES: Final = ("corrupt", "format", "torn_tail", "segment_deleted")
"""Kinds of findings about bytes that are not a valid batch."""
OFFSET_SPAN_MAX: Final = INT32_MAX
"""Maximum offset relative to the segment's base offset, as the index holds it in 32 bits."""


def file_findings(batches: pa.Table) -> list[Finding]:
    """Return a finding for every fault in the bytes of a file."""
    findings = []
    for row in batches.filter(pc.is_valid(batches["fault"])).to_pylist():
        where = f"{count(row['size'], 'byte')} from position {row['position']} on"
        if row["fault"] in END_FAULTS:
            what = "are zeros" if row["fault"] == "zeros" else "are an incomplete batch"
            severity = INFORMATION
            kind = "torn_tail"
        elif row["fault"] == "segment_deleted":
            what, kind, severity = "were deleted while the folder was read", "segment_deleted", INFORMATION
        else:
            what = "have a wrong CRC" if row["crc_ok"] is False else "are not a record batch"
            kind, severity = row["fault"], ERROR
            if kind == "format":
                what = "are of a format before version 2"
        text, at = f"{where} {what}", row["position"]
        findings.append(finding(kind, severity, row, text, first_offset=row["base_offset"], file_position=at))
    return findings


def offset_findings(batches: pa.Table) -> tuple[Array, list[Finding]]:
    """Return (mask of the batches with a wrong base offset, findings about them); the CRC does not cover the base offset.

    The wrong batches are the fewest whose removal leaves ascending offsets. Offsets outside the segment's range, its base
    offset plus OFFSET_SPAN_MAX, are wrong too.
    """
    wrong = np.zeros(len(batches), bool)
    good = np.flatnonzero(batches["fault"].is_null().to_numpy())
    rows = batches.select(["topic", "partition", "segment_base_offset", "base_offset", "last_offset"])
    rows = rows.take(good) if len(good) < len(batches) else rows
    place = codes(rows["topic"], rows["partition"])
    order = np.argsort(place, kind="stable")
    place, segment = place[order], values(rows, "segment_base_offset")[order]
    base, last = values(rows, "base_offset")[order], values(rows, "last_offset")[order]
    far = (base < segment) | (base - segment > OFFSET_SPAN_MAX) | (last < base)
    breaks = follows(place) & (base <= np.roll(last, 1))
    if not far.any() and not breaks.any():
        return wrong, []
    out = far.copy()
    for number in np.unique(place[far | breaks]).tolist():
        mine = np.flatnonzero((place == number) & ~far)
        out[np.setdiff1d(mine, mine[_rising(base[mine].tolist(), last[mine].tolist())])] = True
    # The last correct batch before each wrong one, if in the same partition.
    before = np.maximum.accumulate(np.where(~out, np.arange(len(out)), -1))
    at = before[out]
    known = (at >= 0) & (place[at] == place[out])
    wrong[good[order[out]]] = True
    pairs = zip(rows_at(batches, good[order[out]]), np.where(known, last[at], -1).tolist(), strict=True)
    return wrong, [
        finding(
            "offset_order",
            ERROR,
            row,
            f"base offset {row['base_offset']} at position {row['position']} follows {before}",
            first_offset=row["base_offset"],
            file_position=row["position"],
        )
        for row, before in pairs
    ]


def _rising(base: list[int], last: list[int]) -> list[int]:
    """Return the longest subsequence in which each range begins after the previous one ends (patience sorting)."""
    ends: list[int] = []
    tails: list[int] = []
    before: list[int] = []
    for at, (first, end) in enumerate(zip(base, last, strict=True)):
        length = bisect_left(ends, first)
        before.append(tails[length - 1] if length else -1)
        if length == len(ends):
            ends.append(end)
            tails.append(at)
        elif end < ends[length]:
            ends[length], tails[length] = end, at
    kept = []
    at = tails[-1] if tails else -1
    while at >= 0:
        kept.append(at)
        at = before[at]
    return kept[::-1]


def undecodable_batches(topic: str, partition: int, faults: Iterable[tuple[int, str]]) -> list[Finding]:
    """Return findings for batches that have a correct CRC but cannot be decoded; `faults`: (position in the file, message)."""
    row = {"topic": topic, "partition": partition}
    return [
        finding("undecodable", ERROR, row, f"at position {at}: {message}", file_position=at) for at, message in faults
    ]


def undecodable_records(topic: str, partition: int, faults: Iterable[tuple[int, str]]) -> list[Finding]:
    """Return findings for records that have a correct CRC but cannot be decoded; `faults`: (offset, message)."""
    row = {"topic": topic, "partition": partition}
    return [
        finding("undecodable", ERROR, row, f"at offset {at}: {message}", first_offset=at, last_offset=at)
        for at, message in faults
    ]


def sequence_findings(batches: pa.Table, bounds: pa.Table) -> list[Finding]:
    """Return findings for duplicates and gaps in the sequence numbers of each producer id and epoch in a partition.

    A gap counts only if no offsets are missing between its sides or, for the first batch of an epoch, before it. A broker
    accepts any sequence number from an unknown producer, so a producer's first batch is never an error. Commits of offsets have
    no sequence: the group coordinators of Apache Kafka write each of a transaction with the number 0.
    """
    good = pc.and_(pc.is_null(batches["fault"]), pc.greater_equal(batches["producer_id"], 0))
    good = pc.and_(good, pc.not_equal(batches["topic"], OFFSETS))
    rows = batches.filter(good).combine_chunks()
    rows = rows.filter(pc.greater_equal(rows["base_sequence"], 0))
    if not rows.num_rows:
        return []
    place, here = codes_of_both((rows["topic"], rows["partition"]), (bounds["topic"], bounds["partition"]))
    owner = codes(place, rows["producer_id"], rows["producer_epoch"])
    order = np.argsort(owner, kind="stable")  # Keep file order, as offsets may be wrong.
    owner = owner[order]
    first = values(rows, "base_sequence")[order].astype(np.int64)
    span = (values(rows, "last_offset") - values(rows, "base_offset"))[order]
    begins = ~follows(owner)
    # Sequence numbers wrap from 2^31-1 to 0: unwrap each relative to the previous one.
    step = np.concatenate(([0], np.diff(first)))
    half = (SEQUENCE_MAX + 1) // 2
    step = np.where(begins, 0, (step + half) % (SEQUENCE_MAX + 1) - half)
    run = np.cumsum(step)
    starts = np.flatnonzero(begins)
    run -= np.repeat(run[starts] - first[starts], np.diff(np.append(starts, len(order))))
    reached = running_max(run + span, owner)
    expected = np.where(begins, 0, np.roll(reached, 1) + 1)
    holes = _holes(batches, rows, order)
    known = values(bounds, "known_from")[find(here, place[order])]
    sure = np.where(begins, known == 0, holes == np.roll(holes, 1))
    is_first = begins & _is_first(batches, rows, order)
    findings = []
    repeated, early = np.flatnonzero(run < expected), np.flatnonzero((run > expected) & sure & ~is_first)
    for kind, at in (("duplicate", repeated), ("gap", early)):
        for row, sequence in zip(rows_at(rows, order[at]), expected[at].tolist(), strict=True):
            text = f"base sequence {row['base_sequence']} where {sequence % (SEQUENCE_MAX + 1)} was expected"
            findings.append(finding(kind, ERROR, row, text, first_offset=row["base_offset"]))
    for row in rows_at(rows, order[np.flatnonzero((run > expected) & sure & is_first)]):
        text = f"its first base sequence here is {row['base_sequence']}: earlier ones may be in an earlier topic of the same name"
        findings.append(finding("unknown_before", INFORMATION, row, text, first_offset=row["base_offset"]))
    return findings


def _is_first(batches: pa.Table, rows: pa.Table, order: Array) -> Array:
    """Return a mask of `rows`, in `order`: whether each is its producer's first batch in the partition, markers included."""
    good = batches.filter(pc.and_(pc.is_null(batches["fault"]), pc.greater_equal(batches["producer_id"], 0)))
    names = ("topic", "partition", "producer_id")
    theirs, mine = codes_of_both(tuple(good[n] for n in names), tuple(rows[n] for n in names))
    size = int(theirs.max(initial=-1)) + 1
    oldest = np.full(size, np.iinfo(np.int64).max)
    np.minimum.at(oldest, theirs, values(good, "base_offset"))
    is_first: Array = (values(rows, "base_offset") <= oldest[mine])[order]
    return is_first


def epoch_findings(batches: pa.Table) -> list[Finding]:
    """Return findings for records with an epoch below their producer's current epoch, which a broker refuses (KIP-98).

    The epochs of markers count as seen; `marker_checks` checks the markers themselves.
    """
    rows = batches.filter(pc.and_(pc.is_null(batches["fault"]), pc.greater_equal(batches["producer_id"], 0)))
    rows = rows.combine_chunks()
    owner = codes(rows["topic"], rows["partition"], rows["producer_id"])
    order = np.argsort(owner, kind="stable")
    owner, epoch = owner[order], values(rows, "producer_epoch")[order].astype(np.int64)
    seen = np.where(follows(owner), np.roll(running_max(epoch, owner), 1), -1)
    stale = np.flatnonzero((epoch < seen) & ~values(rows, "is_control")[order])
    return [
        finding(
            "stale_epoch",
            ERROR,
            row,
            f"epoch {row['producer_epoch']} where the partition had seen {before}",
            first_offset=row["base_offset"],
        )
        for row, before in zip(rows_at(rows, order[stale]), seen[stale].tolist(), strict=True)
    ]


def _holes(batches: pa.Table, rows: pa.Table, order: Array) -> Array:
    """Return, for each of `rows` in `order`, the number of holes in the offsets of its partition before it."""
    good = batches.filter(pc.is_null(batches["fault"]))
    place, mine = codes_of_both((good["topic"], good["partition"]), (rows["topic"], rows["partition"]))
    base, last = values(good, "base_offset"), values(good, "last_offset")
    sort = np.lexsort((base, place))
    place, base, last = place[sort], base[sort], last[sort]
    hole = follows(place)
    hole[1:] &= base[1:] != last[:-1] + 1
    group = np.concatenate((place, mine))
    offset = np.concatenate((base, values(rows, "base_offset")))
    number = np.concatenate((hole.astype(np.int64), np.zeros(len(mine), np.int64)))
    both = np.lexsort((number == 0, offset, group))
    count = np.empty(len(both), np.int64)
    count[both] = np.cumsum(number[both])
    holes: Array = count[len(place) :][order]
    return holes
