"""Fetch a range of a partition's offsets as Arrow columns; the next Fetch is in flight while a response is decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.connection import Deadline
from stuntbroker.client.commands.fetching import (
    MISSING_S,
    POLL_INTERVAL_S,
    FetchSizes,
    PartitionFetch,
    TopicPartition,
    list_offsets,
)
from stuntbroker.client.errors import BrokerError, NotFound, TimedOut
from stuntbroker.pipeline.decode import BadBatch, Batches, Columns, aborted_rows, decode, find_batches
from stuntbroker.protocol.batches.records import CONTROL
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.fetch_response import PartitionData
from stuntbroker.protocol.primitives import INT32_MAX
from stuntbroker.protocol.request_values import EARLIEST, READ_COMMITTED

RECORD_BYTES_GUESS: Final = 1_024
"""Assumed bytes per record until the partition's first records are read."""
SPARE_BYTES: Final = 1 << 16
"""Bytes requested beyond the estimate, as a batch that is cut off has to be fetched again."""


class Wanted(NamedTuple):
    """Offsets to fetch, from `start` (inclusive) to `end` (exclusive); `end` existed when it was looked up."""

    where: TopicPartition
    start: int
    end: int
    isolation: int
    sizes: FetchSizes
    with_headers: bool
    timeout_s: float
    """Maximum time without any batch from the broker."""


def fetch_range(cluster: Cluster, wanted: Wanted, lost: Callable[[str], None]) -> Iterator[Columns]:
    """Yield the records in these offsets, in order, without control batches and, with READ_COMMITTED, aborted records.

    `lost` is called for deleted offsets and may raise; otherwise the remaining records follow. Offsets removed by
    compaction are not lost. Raises BadBatch, TimedOut, ClientError.
    """
    fetch = PartitionFetch(cluster, wanted.where, wanted.isolation, wanted.sizes)
    at, end = wanted.start, wanted.end
    record_bytes, deadline = float(RECORD_BYTES_GUESS), Deadline(wanted.timeout_s)
    missing: Deadline | None = None
    while at < end:
        try:
            part = fetch.take(at, _bytes_for(record_bytes, end - at))
        except (NotFound, BrokerError) as fault:
            if isinstance(fault, NotFound):
                missing = missing or Deadline(MISSING_S)
                if missing.left_s():
                    cluster.pause(POLL_INTERVAL_S)
                    continue
            at = _after_loss(cluster, wanted, at, fault, lost)
            continue
        batches = find_batches(part.records or b"")
        if not len(batches.positions):
            if not deadline.left_s():
                raise TimedOut(
                    f"{wanted.where}: no records from offset {at} within {wanted.timeout_s:g} s, although the end offset is {end}"
                ) from None
            continue
        following, missing = batches.next_offset, None
        if following <= at:
            raise BadBatch(f"{wanted.where}: the response to a Fetch of offset {at} ends before offset {following}")
        record_bytes = len(batches.data) / max(1, following - at)
        if following < end:
            fetch.prefetch(following, _bytes_for(record_bytes, end - following))
        for columns in decode(_counting(batches, part, wanted, at), wanted.with_headers):
            yield _cut(columns, at, end)
        at, deadline = following, Deadline(wanted.timeout_s)


def _bytes_for(record_bytes: float, count: int) -> int:
    """Return the number of bytes to request for `count` records; Fetch has a 32-bit field for it."""
    return int(min(record_bytes * count * 1.1 + SPARE_BYTES, INT32_MAX))


def _after_loss(
    cluster: Cluster, wanted: Wanted, at: int, fault: NotFound | BrokerError, lost: Callable[[str], None]
) -> int:
    """Report the loss and return the next offset to read if `at` no longer exists; raise any other fault again."""
    where, end = wanted.where, wanted.end
    if isinstance(fault, NotFound):
        lost(f"partition {where} does not exist any more, offsets {at} to {end - 1} are lost")
        return end
    if fault.code != ErrorCode.OFFSET_OUT_OF_RANGE:
        raise fault
    first = list_offsets(cluster, {where: EARLIEST}, wanted.isolation)[where]
    if at < first:
        lost(f"partition {where} begins at offset {first}, offsets {at} to {min(first, end) - 1} are lost")
        return first
    lost(f"partition {where} ends before offset {at}, offsets {at} to {end - 1} are lost")
    return end


def _counting(batches: Batches, part: PartitionData, wanted: Wanted, at: int) -> Batches:
    """Return the batches in the wanted range without control batches and, with READ_COMMITTED, aborted batches."""
    headers = batches.headers
    last_offsets = headers["base_offset"] + headers["last_offset_delta"]
    keep: Any = (headers["attributes"] & CONTROL) == 0
    keep &= (last_offsets >= at) & (headers["base_offset"] < wanted.end) & (headers["count"] > 0)
    if wanted.isolation == READ_COMMITTED and part.aborted_transactions:
        producer_ids = [transaction.producer_id for transaction in part.aborted_transactions]
        first_offsets = [transaction.first_offset for transaction in part.aborted_transactions]
        keep &= ~aborted_rows(headers, producer_ids, first_offsets)
    return batches if keep.all() else batches.some(np.flatnonzero(keep))


def _cut(columns: Columns, start: int, end: int) -> Columns:
    """Return the rows from offset `start` (inclusive) to `end` (exclusive); offsets are ascending."""
    first, stop = np.searchsorted(columns.offset, (start, end)).tolist()
    if first == 0 and stop == len(columns.offset):
        return columns
    cut: Any = [None if column is None else column[first:stop] for column in columns]
    return Columns(*cut)
