"""Group and join rows with numpy and Arrow, for the audit's tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stuntbroker.pipeline.arrays import Array


def values(table: pa.Table, name: str) -> Array:
    """Return a column without nulls as a numpy array."""
    array: Array = table[name].to_numpy()
    return array


def codes(*columns: Any) -> Array:
    """Return a number per row, equal for equal rows, counting from 0 in order of first appearance."""
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
    """Return codes of the rows of two tables; equal rows have equal codes."""
    joined = [pa.concat_arrays([_plain(a), _plain(b)]) for a, b in zip(left, right, strict=True)]
    both = codes(*joined)
    return both[: len(left[0])], both[len(left[0]) :]


def _plain(column: Any) -> pa.Array:
    plain = pa.array(column) if isinstance(column, np.ndarray) else column
    return plain.combine_chunks() if isinstance(plain, pa.ChunkedArray) else plain


def follows(*group: Array) -> Array:
    """Return a mask of the rows that are in the same group as the previous row."""
    same = np.zeros(len(group[0]), bool)
    if len(same):
        same[1:] = np.logical_and.reduce([each[1:] == each[:-1] for each in group])
    return same


def rank_in_group(group: Array) -> Array:
    """Return, for each row, the number of earlier rows in its group."""
    order = np.argsort(group, kind="stable")
    first = np.flatnonzero(~follows(group[order]))
    rank = np.empty(len(group), np.int64)
    rank[order] = np.arange(len(group)) - np.repeat(first, np.diff(np.append(first, len(group))))
    return rank


def by_transactional_id(txn_state: pa.Table) -> tuple[pa.Table, Array]:
    """Return (transaction log records grouped by id, each group in log order; mask of rows with the previous row's id)."""
    group = codes(txn_state["transactional_id"])
    order = np.argsort(group, kind="stable")
    return txn_state.take(pa.array(order)).combine_chunks(), follows(group[order])


def running_max(numbers: Array, group: Array) -> Array:
    """Return the running maximum within each group; the rows of a group must be adjacent."""
    if not len(group):
        return numbers
    step = np.cumsum(follows(group) == 0)
    low, high = int(numbers.min()), int(numbers.max())
    height = high - low + 1  # Shift each group into a range of its own.
    if height * (int(step[-1]) + 1) > np.iinfo(np.int64).max:  # Use ranks: headers may hold any number.
        unique, rank = np.unique(numbers, return_inverse=True)
        ranked: Array = unique[running_max(rank, group)]
        return ranked
    maxima: Array = np.maximum.accumulate(numbers - low + step * height) - step * height + low
    return maxima


def last_rows(group: Array) -> Array:
    """Return the row number of the last row of every group, ascending."""
    _, from_end = np.unique(group[::-1], return_index=True)
    rows: Array = np.sort(len(group) - 1 - from_end)
    return rows


def find(keys: Array, wanted: Array) -> Array:
    """Return, for each wanted key, the last row with that key; -1 if there is none."""
    order = np.argsort(keys, kind="stable")
    at = np.searchsorted(keys[order], wanted, side="right") - 1
    row = np.where(at >= 0, order[at] if len(order) else -1, -1)
    rows: Array = np.where((row >= 0) & (keys[row] == wanted), row, -1) if len(keys) else np.full(len(wanted), -1)
    return rows
