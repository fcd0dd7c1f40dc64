"""Transaction markers. A transaction's markers are identical in all of its partitions except for the base offset."""

from __future__ import annotations

from typing import Final, NamedTuple

from stuntbroker.protocol.batches.records import marker_body
from stuntbroker.storage.leader_epochs import FIRST_EPOCH

MARKER_SIZE: Final = 78
"""Bytes of the batch that holds it."""


class Marker(NamedTuple):
    """The end of a transaction, to be appended to each of its partitions."""

    commit: bool
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    transaction_version: int
    time_ms: int
    body: bytes
    """The batch from its ninth byte on, as one of a partition's first leader."""


def new_marker(
    commit: bool,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    transaction_version: int,
    now_ms: int,
    time_type: int = 0,
) -> Marker:
    """`time_type` is LOG_APPEND_TIME in a topic whose timestamps are the broker's."""
    body = marker_body(commit, producer_id, producer_epoch, coordinator_epoch, now_ms, FIRST_EPOCH, time_type)
    return Marker(commit, producer_id, producer_epoch, coordinator_epoch, transaction_version, now_ms, body)
