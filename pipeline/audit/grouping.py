"""Rows that belong together, by numpy and Arrow: what the tables of the audit are made with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stuntbroker.pipeline.arrays import Array


def values(table: pa.Table, name: str) -> Array:
    """A column without nulls, for numpy."""
    array: Array = table[name].to_numpy()
    return array


def codes(*columns: Any) -> Array:
    """A number for every row, the same for equal rows: 0 for the first, and so on as new ones come."""
    combined: Any = None
    for column in columns:
        plain = pa.array(column) if isinstance(column, np.ndarray) else column
        if isinstance(plain, pa.ChunkedArray):
            plain = plain.combine_chunks()
        part = pc.fill_null(pc.dictionary_encode(plain).indices, -1).to_numpy().astype(np.int64) + 1
        if combined is None:
            combined = part
        else:
            both = combined * (int(part.max(initial=0)) + 1) + part
            combined = pa.array(both).dictionary_encode().indices.to_numpy().astype(np.int64)
    assert combined is not None
    return pa.array(combined).dictionary_encode().indices.to_numpy().astype(np.int64)  # type: ignore[no-any-return]


def codes_of_both(left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Array, Array]:
    """Codes that are the same for equal rows of two tables."""
    joined = [pa.concat_arrays([_plain(a), _plain(b)]) for a, b in zip(left, right, strict=True)]
    both = codes(*joined)
    return both[: len(left[0])], both[len(left[0]) :]


def _plain(column: Any) -> pa.Array:
    plain = pa.array(column) if isinstance(column, np.ndarray) else column
    return plain.combine_chunks() if isinstance(plain, pa.ChunkedArray) else plain


def follows(*group: Array) -> Array:
    """Which rows are of the same group as the row before them."""
    same = np.zeros(len(group[0]), bool)
    if len(same):
        same[1:] = np.logical_and.reduce([each[1:] == each[:-1] for each in group])
    return same


def rank_in_group(group: Array) -> Array:
    """How many rows of the same group are before each."""
    order = np.argsort(group, kind="stable")
    first = np.flatnonzero(~follows(group[order]))
    rank = np.empty(len(group), np.int64)
    rank[order] = np.arange(len(group)) - np.repeat(first, np.diff(np.append(first, len(group))))
    return rank


def by_transactional_id(txn_state: pa.Table) -> tuple[pa.Table, Array]:
    """Records of the transaction log, those of an id together and in their order; and which have the id of the row before."""
    group = codes(txn_state["transactional_id"])
    order = np.argsort(group, kind="stable")
    return txn_state.take(pa.array(order)).combine_chunks(), follows(group[order])


def running_max(numbers: Array, group: Array) -> Array:
    """The largest number so far in the same group; rows of a group stand together."""
    if not len(group):
        return numbers
    step = np.cumsum(follows(group) == 0)
    low, high = int(numbers.min()), int(numbers.max())
    height = high - low + 1  # Each group on a floor of its own.
    if height * (int(step[-1]) + 1) > np.iinfo(np.int64).max:  # By rank then: there may be any number in a header.
        unique, rank = np.unique(numbers, return_inverse=True)
        ranked: Array = unique[running_max(rank, group)]
        return ranked
    maxima: Array = np.maximum.accumulate(numbers - low + step * height) - step * height + low
    return maxima


def last_rows(group: Array) -> Array:
    """The last row of every group, in the order of the rows."""
    _, from_end = np.unique(group[::-1], return_index=True)
    rows: Array = np.sort(len(group) - 1 - from_end)
    return rows


def find(keys: Array, wanted: Array) -> Array:
    """For every wanted key the row of an equal one, -1 where there is none. The last one counts."""
    order = np.argsort(keys, kind="stable")
    at = np.searchsorted(keys[order], wanted, side="right") - 1
    row = np.where(at >= 0, order[at] if len(order) else -1, -1)
    rows: Array = np.where((row >= 0) & (keys[row] == wanted), row, -1) if len(keys) else np.full(len(wanted), -1)
    return rows
