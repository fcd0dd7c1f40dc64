"""Findings that a partition's batches show by themselves: broken bytes and sequence numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stuntbroker.pipeline.arrays import Array
from stuntbroker.pipeline.audit.findings import ERROR, INFORMATION, Finding, finding, rows_at
from stuntbroker.pipeline.audit.grouping import codes, codes_of_both, find, follows, running_max, values
from stuntbroker.pipeline.audit.scan import END_FAULTS
from stuntbroker.protocol.records import SEQUENCE_MAX

OF_FILES: Final = ("corrupt", "format", "torn_tail")
"""Kinds of what is no valid batch."""


def file_findings(batches: pa.Table) -> list[Finding]:
    found = []
    for row in batches.filter(pc.is_valid(batches["fault"])).to_pylist():
        where = f"{row['size']} bytes from position {row['position']} on"
        if row["fault"] in END_FAULTS:
            what = "are zeros" if row["fault"] == "zeros" else "are no whole batch"
            severity = INFORMATION
            kind = "torn_tail"
        else:
            what = "have a wrong CRC" if row["crc_ok"] is False else "are no record batch"
            kind, severity = row["fault"], ERROR
            if kind == "format":
                what = "are of a format before version 2"
        found.append(finding(kind, severity, row, f"{where} {what}", first_offset=row["base_offset"]))
    return found


def offset_findings(batches: pa.Table) -> list[Finding]:
    """Batches whose offsets are not above those before them; their CRC does not cover the base offset."""
    rows = batches.filter(pc.is_null(batches["fault"])).combine_chunks()
    place = codes(rows["topic"], rows["partition"])
    order = np.lexsort((values(rows, "position"), values(rows, "segment_base_offset"), place))
    place, base = place[order], values(rows, "base_offset")[order]
    reached = running_max(values(rows, "last_offset")[order], place)
    wrong = np.flatnonzero(follows(place) & (base <= np.roll(reached, 1)))
    return [
        finding(
            "offset_order", ERROR, row, f"base offset {row['base_offset']} at position {row['position']} follows {before}",
            first_offset=row["base_offset"],
        )
        for row, before in zip(rows_at(rows, order[wrong]), reached[wrong - 1].tolist(), strict=True)
    ]  # fmt: skip


def undecodable(topic: str, partition: int, faults: Iterable[tuple[int, str]], unit: str = "position") -> list[Finding]:
    """Batches, or by their offset records of a log, that have a right CRC and cannot be read all the same."""
    row = {"topic": topic, "partition": partition}
    return [finding("undecodable", ERROR, row, f"at {unit} {at}: {message}") for at, message in faults]


def sequence_findings(batches: pa.Table, bounds: pa.Table) -> list[Finding]:
    """Duplicates and gaps by (producer id, epoch) in each partition.

    A gap counts only when nothing is missing from the log between its sides, or before it for an epoch's first batch.
    """
    good = pc.and_(pc.is_null(batches["fault"]), pc.greater_equal(batches["producer_id"], 0))
    rows = batches.filter(good).combine_chunks()
    rows = rows.filter(pc.greater_equal(rows["base_sequence"], 0))
    if not rows.num_rows:
        return []
    place, here = codes_of_both(
        (rows["topic"], rows["partition"]), (bounds["topic"], bounds["partition"])
    )
    owner = codes(place, rows["producer_id"], rows["producer_epoch"])
    base = values(rows, "base_offset")
    order = np.lexsort((base, owner))
    owner, base = owner[order], base[order]
    first = values(rows, "base_sequence")[order].astype(np.int64)
    span = (values(rows, "last_offset") - values(rows, "base_offset"))[order]
    begins = ~follows(owner)
    # Sequence numbers go from 2^31-1 to 0: each is brought near the one before it.
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
    found = []
    late, early = np.flatnonzero(run < expected), np.flatnonzero((run > expected) & sure)
    for kind, at in (("duplicate", late), ("gap", early)):
        for row, sequence in zip(rows_at(rows, order[at]), expected[at].tolist(), strict=True):
            text = f"base sequence {row['base_sequence']} where {sequence % (SEQUENCE_MAX + 1)} should follow"
            found.append(finding(kind, ERROR, row, text, first_offset=row["base_offset"]))
    return found


def _holes(batches: pa.Table, rows: pa.Table, order: Array) -> Array:
    """For each of `rows` in that order, how many holes its partition's log has before it."""
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
    found: Array = count[len(place) :][order]
    return found
