"""Find the positions where the records of batches begin.

A record begins where the previous record ends, and its size is a varint, so a batch is a chain that can only be followed
from its start. numpy follows many chains at once: one record of every batch per step, and a batch with many records is
split into lanes. The start of a lane is guessed: the first position after a cut that looks like a record and is followed
by another record.

The result does not depend on the guesses. A lane counts only if it begins at the start of its batch, or exactly where a
lane that counts has ended. Where no lane begins, records are read one by one until a lane begins or the batch ends, so a
wrong guess only costs the time of reading a lane. All records of a large batch are read one by one only if the batch was
crafted for it: more than CANDIDATES_MAX chains that look like records run through it, or its records have attributes (Kafka
defines none yet). Such a batch takes up to two and a half times as long as without guesses; following every possible
record would take even longer.

Small numbers of records (some hundreds, or up to GUESS_RECORDS_MIN in few batches) are read one by one, which is faster
than numpy.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import Final, NamedTuple

import numpy as np

from stuntbroker.pipeline.arrays import FAR, Array, varints
from stuntbroker.protocol.batches.records import unzigzag
from stuntbroker.protocol.primitives import Buffer, DecodeError

RECORD_SIZE_MIN: Final = 7
_SIZE_MIN: Final = RECORD_SIZE_MIN - 1
"""Minimum value of the size field, which does not count its own byte."""
LANES_MIN: Final = 24
"""Number of lanes from which a step is no slower than reading as many records one by one."""
RECORDS_MIN: Final = 600
"""Minimum number of records for which the fixed cost of numpy pays off."""
GUESS_RECORDS_MIN: Final = 3_000
"""Minimum number of records for which guessing lane starts pays off."""
CANDIDATES_MAX: Final = 8
"""Maximum number of chains that may begin in one window."""
_LANE: Final = 0.6
"""Records between two cuts, divided by the square root of all records: more records make more lanes, which share a step."""
_SPARE: Final = 1.15
"""Steps to take before checking which lanes have ended, per record of an average lane."""
_WINDOW: Final = 1.5
"""Width of a window after a cut, in records of mean size."""


class _Payloads(NamedTuple):
    """One element for each batch that has records, by position."""

    starts: Array
    ends: Array
    counts: Array
    last_deltas: Array


class _Lanes(NamedTuple):
    """Chains that were followed, ordered by their start."""

    entries: Array
    exits: Array
    """Where a lane stopped: at or after its bound, or earlier when few lanes were left; -1 at an invalid record."""
    counts: Array
    pieces: list[tuple[Array, Array, Array]]
    """(lane numbers, positions of their records with one row per step, number of valid rows of each lane)."""


def find_starts(data: Buffer, starts: Array, ends: Array, counts: Array, last_deltas: Array) -> tuple[Array, Array]:
    """Return (positions of the records of all good batches, mask of the bad batches).

    The records of a batch are data[start:end]; the batches are in ascending order. A batch is bad if it does not have `count`
    records or its last record does not end at `end`. A batch with an impossible record size may still pass here; decoding
    its fields then fails. `last_deltas`, the offset deltas of the last records, are used for the guesses only.
    """
    if _few(counts.tolist()):
        return _one_by_one(data, starts, ends, counts)
    wide = counts.astype(np.int64)
    bad = (wide < 0) | (wide * RECORD_SIZE_MIN > ends - starts) | ((wide == 0) & (starts != ends))
    rows = np.flatnonzero(~bad & (wide > 0))
    if _few(counts[rows].tolist()):
        return _one_by_one(data, starts, ends, counts)
    view = np.frombuffer(data, np.uint8)
    payloads = _Payloads(*(part[rows].astype(np.int64) for part in (starts, ends, counts, last_deltas)))
    total, longest = int(payloads.counts.sum()), int(payloads.counts.max())
    begins, stops = payloads.starts, payloads.ends
    entries, batch, bounds = begins, np.arange(len(rows)), stops
    length = int(_LANE * total**0.5) + 1
    if total >= GUESS_RECORDS_MIN and longest > 2 * length:
        guessed, cuts = _guess(view, payloads, length)
        entries = np.unique(np.concatenate((begins, guessed)))
        batch = np.searchsorted(begins, entries, side="right") - 1
        bounds = np.minimum(stops[batch], np.append(cuts, FAR)[np.searchsorted(cuts, entries, side="right")])
    if len(entries) < LANES_MIN:
        return _one_by_one(data, starts, ends, counts)
    lanes = _follow(view, entries, bounds, int(_SPARE * total / len(entries)) + 2)
    true, good, extra = _link_lanes(data, lanes, batch, payloads)
    bad[rows[~good]] = True
    strays = np.frombuffer(extra, np.int64)
    strays = strays[good[np.searchsorted(begins, strays, side="right") - 1]]
    return _in_order(lanes, true, strays), bad


def _few(counts: list[int]) -> bool:
    """Whether reading one by one is faster than numpy steps; a batch costs about as much as three records."""
    total = sum(counts)
    return total < GUESS_RECORDS_MIN and total + 3 * len(counts) < RECORDS_MIN + LANES_MIN * max(counts, default=0)


def _one_by_one(data: Buffer, starts: Array, ends: Array, counts: Array) -> tuple[Array, Array]:
    positions, bad = array("q"), np.zeros(len(counts), bool)
    places = zip(starts.tolist(), ends.tolist(), counts.tolist(), strict=True)
    for row, (at, end, count) in enumerate(places):
        before = len(positions)
        if _walk(data, at, end, count, positions) != end or len(positions) - before != count:
            bad[row] = True
            del positions[before:]
    return np.frombuffer(positions, np.int64), bad


def _walk(data: Buffer, at: int, end: int, count_max: int, starts: array[int]) -> int:
    """Append the positions of records from `at` on; return the first position at or after `end`, -1 at an invalid record."""
    append = starts.append
    try:
        for _ in range(count_max):
            if at >= end:
                break
            append(at)
            size = data[at]
            if size < 0x80:
                at += 1 + (size >> 1)
                continue
            second = data[at + 1]
            if second < 0x80:
                at += 2 + (size >> 1 & 0x3F | second << 6)
                continue
            size, at = unzigzag(data, at)
            if size < 0:
                return -1
            at += size
    except (IndexError, DecodeError):
        return -1
    return at


def _guess(view: Array, payloads: _Payloads, length: int) -> tuple[Array, Array]:
    """Return (guessed starts of lanes within batches, the cuts that they follow).

    There is a cut every `length` records of mean size. Windows without a candidate grow while a quarter of them is left.
    """
    mean = int((payloads.ends - payloads.starts).sum() // payloads.counts.sum()) + 1
    span, width = length * mean, int(_WINDOW * mean) + 8
    grid = view[: len(view) // span * span].reshape(-1, span)
    state = np.zeros(len(grid), np.int64)
    guesses = [np.empty(0, np.int64)]
    left = np.arange(len(grid))
    while 4 * len(left) > len(grid):
        windows = grid[:, :width] if len(left) == len(grid) else grid[left, :width]
        begin, row = _candidate_starts(view, payloads, windows, left * span)
        heads = np.bincount(row, minlength=len(left))
        state[left] = heads
        guesses.append(begin[heads[row] <= CANDIDATES_MAX])
        if width >= span:
            break
        left, width = left[heads == 0], 4 * width
    return np.concatenate(guesses), np.flatnonzero((state > 0) & (state <= CANDIDATES_MAX)) * span


def _candidate_starts(view: Array, payloads: _Payloads, windows: Array, cuts: Array) -> tuple[Array, Array]:
    """Return (positions that look like a record followed by another record, the window of each).

    Positions that follow another such position are left out.
    """
    starts, ends, counts, last_deltas = payloads
    # The last byte of a size is not 0; the attributes after it are 0.
    candidates = np.flatnonzero((windows[:, 1:] == 0) & ((windows[:, :-1] - 1) < 0x7F))
    row, column = np.divmod(candidates, windows.shape[1] - 1)
    at = cuts[row] + column + 1
    batch = np.searchsorted(starts, cuts[row], side="right") - 1
    begin = at - 1 - (view[at - 2] >= 0x80)
    keep = np.flatnonzero((batch >= 0) & (begin >= cuts[row]))
    begin, row, batch = begin[keep], row[keep], batch[keep]

    fits, delta, stop = _as_record(view, begin, ends[batch], last_deltas[batch])
    begin, row, batch, delta, stop = begin[fits], row[fits], batch[fits], delta[fits], stop[fits]
    last = stop == ends[batch]
    fits, following, _ = _as_record(view, stop, ends[batch], last_deltas[batch])
    step = following - delta
    gapless = counts == last_deltas + 1
    keep = np.flatnonzero(last | (fits & np.where(gapless[batch], step == 1, step > 0)))
    begin, row, stop = begin[keep], row[keep], stop[keep]

    after = np.searchsorted(begin, stop)
    follows = np.zeros(len(begin) + 1, bool)
    follows[after[np.append(begin, -1)[after] == stop]] = True
    head = np.flatnonzero(~follows[:-1])
    return begin[head], row[head]


def _as_record(view: Array, begin: Array, end: Array, last_delta: Array) -> tuple[Array, Array, Array]:
    """Return (whether a record of less than 8 KiB may begin there, its offset delta, its end) for each position."""
    pair = _pairs(view)[np.minimum(begin, len(view) - 2)]
    stop = begin + _ADVANCES.take(pair)
    at = begin + 1 + ((pair & 0x80) != 0)
    _, delta_at = varints(view, at + 1)
    delta, behind = varints(view, delta_at)
    fits = (view.take(at, mode="clip") == 0) & (behind < stop) & (stop <= end) & (delta >= 0) & (delta <= last_delta)
    return fits, delta, stop


def _pairs(view: Array) -> Array:
    """View each byte and the next byte as a little-endian 16-bit number."""
    return np.ndarray((len(view) - 1,), "<u2", view.data, 0, (1,))


def _advances() -> Array:
    """Return the distance to the next record for each pair of leading bytes; 0 if two bytes do not determine it."""
    pair = np.arange(1 << 16)
    first, second = pair & 0xFF, pair >> 8
    zigzag = np.where(first < 0x80, first, first & 0x7F | second << 7)
    unknown = (first & second >= 0x80) | (zigzag & 1 == 1) | (zigzag >> 1 < _SIZE_MIN)
    return np.where(unknown, 0, np.where(first < 0x80, 1, 2) + (zigzag >> 1)).astype(np.int64)


_ADVANCES: Final = _advances()


def _follow(view: Array, entries: Array, bounds: Array, steps: int) -> _Lanes:
    """Follow each lane from its entry until it reaches its bound; most lanes should need no more than `steps` steps."""
    exits, counts = entries.copy(), np.zeros(len(entries), np.int64)
    pieces: list[tuple[Array, Array, Array]] = []
    lanes, long, more = np.arange(len(entries)), False, steps // 4 + 2
    while len(lanes) >= LANES_MIN:
        bound = bounds[lanes]
        rows = _stepped(view, exits[lanes], steps, long)
        count = (rows[:-1] < bound).sum(axis=0)
        at = rows[count, np.arange(len(lanes))]
        left = np.flatnonzero(at < bound)
        stuck = left[rows[-2, left] == at[left]]
        if len(stuck):
            count[stuck] = (rows[:-1, stuck] < at[stuck]).sum(axis=0) + 1
            size, behind = varints(view, at[stuck])
            at[stuck] = np.where(size < _SIZE_MIN, -1, np.minimum(behind + np.clip(size, 0, FAR), FAR))
            left = left[(at[left] >= 0) & (at[left] < bound[left])]
        long = 4 * len(stuck) > len(lanes)
        exits[lanes] = at
        counts[lanes] += count
        pieces.append((lanes, rows[:-1], count))
        lanes, steps, more = lanes[left], more, more + more // 2
    return _Lanes(entries, exits, counts, pieces)


def _stepped(view: Array, begins: Array, steps: int, long: bool) -> Array:
    """Return the starts of the following records, one row per step; a lane stops where the size cannot be read.

    With `long`, sizes may have more than two bytes.
    """
    rows = np.empty((steps + 1, len(begins)), np.int64)
    rows[0] = begins
    if long:
        for step in range(steps):
            size, at = varints(view, rows[step])
            rows[step + 1] = np.where(size < _SIZE_MIN, rows[step], np.minimum(at + np.clip(size, 0, FAR), FAR))
        return rows
    pairs = _pairs(view)
    last, at = len(pairs) - 1, np.empty(len(begins), np.int64)
    for step in range(steps):
        np.minimum(rows[step], last, out=at)
        np.add(rows[step], _ADVANCES.take(pairs[at], mode="clip"), out=rows[step + 1])
    return rows


def _link_lanes(data: Buffer, lanes: _Lanes, batch: Array, payloads: _Payloads) -> tuple[Array, Array, array[int]]:
    """Return (mask of the lanes that count, mask of the good batches, positions of records in no lane)."""
    starts, ends, counts, _ = payloads
    following = np.append(lanes.entries[1:], -1)
    linked = lanes.exits == np.where(np.append(batch[1:] != batch[:-1], True), ends[batch], following)
    true, good = np.ones(len(batch), bool), np.ones(len(starts), bool)
    extra = array("q")
    more = np.zeros(len(starts), np.int64)
    for row in np.unique(batch[~linked]).tolist():
        first, stop = np.searchsorted(batch, (row, row + 1)).tolist()
        true[first:stop] = False
        entries, exits = lanes.entries[first:stop].tolist(), lanes.exits[first:stop].tolist()
        at, end, before = int(starts[row]), int(ends[row]), len(extra)
        while 0 <= at < end and (left := int(counts[row]) - len(extra) + before) >= 0:
            lane = bisect_left(entries, at)
            if lane < len(entries) and entries[lane] == at:
                true[first + lane], at = True, exits[lane]
            else:
                until = entries[lane] if lane < len(entries) else end
                at = _walk(data, at, until, left + 1, extra)
        more[row] = len(extra) - before
        good[row] = at == end
    sizes = np.bincount(batch[true], weights=lanes.counts[true], minlength=len(starts)).astype(np.int64)
    good &= sizes + more == counts
    return true & good[batch], good, extra


def _in_order(lanes: _Lanes, true: Array, extra: Array) -> Array:
    parts = []
    for numbers, rows, count in lanes.pieces:
        kept = np.flatnonzero(true[numbers])
        columns, count = (rows.T, count) if len(kept) == len(numbers) else (rows.T[kept], count[kept])
        parts.append(columns[np.arange(rows.shape[0]) < count[:, None]])
    if len(parts) == 1 and not len(extra):
        return parts[0]
    return np.sort(np.concatenate((*parts, extra)), kind="stable")
