"""Compute the numbers for the figures: latencies, aborts over time and traffic over time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stuntbroker.pipeline.arrays import Array
from stuntbroker.pipeline.audit.grouping import values
from stuntbroker.pipeline.report.episodes import finished
from stuntbroker.pipeline.report.text import USABLE_MS
from stuntbroker.pipeline.report.timeline import lane_names

IDS_MAX: Final = 24
TOPICS_MAX: Final = 7
BINS: Final = 90
LOWEST_MS: Final = 0.5
"""Position on the axis (ms) of latencies below a millisecond."""
OUTLIER_RANGE_FACTOR: Final = 20
"""Maximum time range of a chart, in multiples of the range of the inner 99.8 %; times outside are counted, not drawn."""


@dataclass(frozen=True, slots=True)
class Latencies:
    """Latencies of finished transactions. Those of `ids` are from the coordinator: first partition to last marker."""

    edges_ms: tuple[float, ...]
    committed: tuple[int, ...]
    """Number of transactions in each bin (one bin fewer than edges)."""
    aborted: tuple[int, ...]
    quantiles_ms: tuple[float, ...]
    """Latency at each of SHARES, over all transactions."""
    ids: tuple[dict[str, int | str], ...]
    """`transactional_id`, `transactions`, `p50_ms`, `p90_ms`, `p99_ms`, `p100_ms`: slowest first."""
    ids_hidden: int
    count: int
    is_coordinators: bool
    """If false, latencies are from the first record (by its producer's clock) to the last marker."""
    skewed: int
    """Transactions that are left out, as by their two clocks they ended before they began."""


SHARES: Final = tuple(np.round(np.concatenate((np.linspace(0, 0.99, 100), [0.995, 0.999, 0.9999, 1.0])), 4).tolist())


def latencies_for(episodes: pa.Table, per_id: pa.Table, is_whole: bool) -> Latencies:
    """Return the latencies of finished transactions.

    `per_id` are rows of LATENCIES; `is_whole`: the episodes come from all records of the transaction log.
    """
    done = finished(episodes)
    if is_whole:
        done = done.filter(pc.equal(done["source"], "coordinator"))
    took = values(done, "end_ms") - values(done, "start_ms")
    usable = (took >= 0) & (took < USABLE_MS)
    skewed = len(took) - int(usable.sum())
    took = np.maximum(took[usable], LOWEST_MS)
    if not len(took):
        return Latencies((), (), (), (), (), 0, 0, is_whole, skewed)
    committed = pc.equal(done["outcome"], "commit").to_numpy()[usable]
    high = max(10 ** np.ceil(np.log10(took.max() * 1.001)), 10.0)
    # Times are whole milliseconds: below 10 ms, logarithmic bins would be narrower than a millisecond.
    wide = np.geomspace(9.5, high, int(12 * np.log10(high / 9.5)) + 2)
    edges = np.unique(np.concatenate(([LOWEST_MS - 0.2, 0.9], np.arange(1.5, 9), wide)))
    order = [("p99_ms", "descending"), ("transactions", "descending"), ("transactional_id", "ascending")]
    slowest = per_id.sort_by(order).slice(0, IDS_MAX)
    done_well, lost = (tuple(np.histogram(took[which], edges)[0].tolist()) for which in (committed, ~committed))
    quantiles = tuple(np.quantile(took, SHARES, method="inverted_cdf").tolist())
    return Latencies(
        tuple(edges.tolist()),
        done_well,
        lost,
        quantiles,
        tuple(slowest.to_pylist()),
        len(per_id) - len(slowest),
        len(took),
        is_whole,
        skewed,
    )


@dataclass(frozen=True, slots=True)
class Aborts:
    """Numbers of ended transactions per slice of time, in total and by id."""

    slices_ms: tuple[int, ...]
    """Start of each slice."""
    width_ms: float
    committed: tuple[int, ...]
    aborted: tuple[int, ...]
    ids: tuple[str, ...]
    ended: tuple[tuple[int, ...], ...]
    """Committed and aborted transactions: one row per id, one column per slice."""
    lost: tuple[tuple[int, ...], ...]
    """Aborted transactions, likewise."""
    ids_hidden: int


def aborts_of(episodes: pa.Table) -> Aborts:
    """Return how many transactions were committed and aborted in each slice of time."""
    done = finished(episodes)
    end = values(done, "end_ms")
    done = done.filter(pa.array((end >= 0) & (end < USABLE_MS)))
    if not len(done):
        return Aborts((), 0, (), (), (), (), (), 0)
    end = values(done, "end_ms")
    low, width, at = _slices(end)
    inside = (at >= 0) & (at < BINS)
    lost = pc.is_in(done["outcome"], pa.array(["abort", "timeout"])).to_numpy()
    owners = lane_names(done).dictionary_encode()
    owner = owners.indices.to_numpy().astype(np.int64)
    total, bad = (np.bincount(owner, which, len(owners.dictionary)) for which in (np.ones(len(end)), lost))
    order = np.lexsort((-total, -bad))[:IDS_MAX]
    row_of = np.full(len(owners.dictionary), -1, np.int64)
    row_of[order] = np.arange(len(order))
    row = row_of[owner]
    every, wrong = (np.bincount(at[inside & which], minlength=BINS) for which in (inside, lost))
    ended, bad_ones = (
        np.bincount((row * BINS + at)[inside & which & (row >= 0)], minlength=len(order) * BINS).reshape(-1, BINS)
        for which in (inside, lost)
    )
    return Aborts(
        tuple((low + np.arange(BINS) * width).astype(np.int64).tolist()),
        width,
        tuple((every - wrong).tolist()),
        tuple(wrong.tolist()),
        tuple(owners.dictionary[int(code)].as_py() for code in order),
        tuple(map(tuple, ended.tolist())),
        tuple(map(tuple, bad_ones.tolist())),
        len(owners.dictionary) - len(order),
    )


@dataclass(frozen=True, slots=True)
class Traffic:
    """Written bytes, batches and records per slice of time; one row for each of `topics`."""

    slices_ms: tuple[int, ...]
    width_ms: float
    topics: tuple[str | None, ...]
    """The largest topics; None stands for all others."""
    topics_joined: int
    bytes: tuple[tuple[float, ...], ...]
    batches: tuple[tuple[float, ...], ...]
    records: tuple[tuple[float, ...], ...]
    without_time: int
    """Batches that are left out, as their timestamp is invalid or too far from all others."""
    is_spread: bool
    """Only segments are known: the contents of a segment are spread evenly from its first timestamp to its last."""


def traffic_of(batches: pa.Table, segments: pa.Table, is_whole: bool) -> Traffic:
    """Return the traffic by topic, from `batches` if the audit kept them (`is_whole`), else from rows of SEGMENTS."""
    if is_whole:
        good = batches.filter(pc.is_null(batches["fault"]))
        start = end = values(good, "max_timestamp")
        sums = {"bytes": values(good, "size"), "batches": np.ones(len(good)), "records": values(good, "count")}
    else:
        good = segments.filter(pc.greater(segments["batches"], 0))
        start, end = values(good, "first_timestamp"), values(good, "last_timestamp")
        start, end = np.minimum(start, end), np.maximum(start, end)
        sums = {name: values(good, name) for name in ("bytes", "batches", "records")}
    usable = (start >= 0) & (end < USABLE_MS)
    if not usable.any():
        return Traffic((), 0, (), 0, (), (), (), int(sums["batches"].sum()), not is_whole)
    low, width, _ = _slices(np.concatenate((start[usable], end[usable])))
    usable &= (end >= low) & (start < low + BINS * width)
    row, titles, joined = _topic_rows(good["topic"], sums["bytes"])
    row = row[usable]
    spread = _spread(start[usable], end[usable], low, width)
    tables: dict[str, tuple[tuple[float, ...], ...]] = {}
    for name, amounts in sums.items():
        numbers = np.zeros((len(titles), BINS))
        for slot, share in spread:
            np.add.at(numbers, (row, slot), amounts[usable] * share)
        tables[name] = tuple(tuple(line) for line in numbers.tolist())
    lost = int(sums["batches"].sum() - sums["batches"][usable].sum())
    slices = tuple((low + np.arange(BINS) * width).astype(np.int64).tolist())
    return Traffic(
        slices, width, titles, joined, tables["bytes"], tables["batches"], tables["records"], lost, not is_whole
    )


def _topic_rows(topics: pa.ChunkedArray, sizes: Array) -> tuple[Array, tuple[str | None, ...], int]:
    """Return (row of each input topic, topic names by row, number of topics that share the last row), largest first."""
    encoded = topics.combine_chunks().dictionary_encode()
    topic, names = encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()
    order = np.argsort(-np.bincount(topic, sizes, len(names)), kind="stable")
    joined = len(names) - TOPICS_MAX if len(names) > TOPICS_MAX + 1 else 0
    row_of = np.empty(len(names), np.int64)
    row_of[order] = np.minimum(np.arange(len(names)), TOPICS_MAX if joined else len(names))
    titles: list[str | None] = [names[int(code)] for code in order[: TOPICS_MAX if joined else len(names)]]
    return row_of[topic], tuple(titles + [None] * bool(joined)), joined


def _spread(start: Array, end: Array, low: float, width: float) -> list[tuple[Array, Array]]:
    """Return pairs of (slice of each row, share of the row in that slice); the shares of a row add up to 1."""
    first = np.clip(np.floor((start - low) / width), 0, BINS - 1).astype(np.int64)
    last = np.clip(np.floor((end - low) / width), 0, BINS - 1).astype(np.int64)
    if (first == last).all():
        return [(first, np.ones(len(first)))]
    length = np.maximum(end - start, 1.0)
    pieces = []
    for slot in range(BINS):
        begins = low + slot * width
        inside = np.minimum(end, begins + width) - np.maximum(start, begins)
        share = np.where(first == last, first == slot, np.clip(inside, 0, None) / length)
        pieces.append((np.full(len(start), slot), share))
    return pieces


def _slices(time: Array) -> tuple[float, float, Array]:
    """Return (start of the first slice, width of a slice, slice number of each time) for BINS slices of at least 1 ms.

    Slice numbers outside 0..BINS-1 are outliers: a few times so far out that all others would fall into one bar.
    """
    low, high = float(time.min()), float(time.max())
    inner_low, inner_high = np.quantile(time, (0.001, 0.999), method="nearest").tolist()
    if high - low > OUTLIER_RANGE_FACTOR * max(inner_high - inner_low, 60_000.0):
        low, high = float(inner_low), float(inner_high)
    width = max((high - low) / (BINS - 1), 1.0)  # The last one begins at the newest time.
    return low, width, np.floor((time - low) / width).astype(np.int64)
