"""Transaction markers. A transaction's markers are identical in all of its partitions except for the base offset."""

from __future__ import annotations

from typing import Final

from stuntbroker.protocol.batches.records import marker_body
from stuntbroker.storage.leader_epochs import FIRST_EPOCH

MARKER_SIZE: Final = 78
"""Bytes of a marker's batch."""


class Marker:
    """The end of a transaction, to be appended to each of its partitions."""

    __slots__ = (
        "body",
        "commit",
        "coordinator_epoch",
        "producer_epoch",
        "producer_id",
        "time_ms",
        "transaction_version",
    )

    def __init__(
        self,
        commit: bool,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        transaction_version: int,
        time_ms: int,
        body: bytes,
    ) -> None:
        self.commit = commit
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = coordinator_epoch
        self.transaction_version = transaction_version
        self.time_ms = time_ms
        self.body = body
        """The batch without its base offset (the first 8 bytes), with partition leader epoch FIRST_EPOCH."""


def new_marker(
    commit: bool,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    transaction_version: int,
    now_ms: int,
    time_type: int = 0,
) -> Marker:
    """Return a marker and its encoded batch. `time_type` is LOG_APPEND_TIME in a topic with log append timestamps, else 0."""
    body = marker_body(commit, producer_id, producer_epoch, coordinator_epoch, now_ms, FIRST_EPOCH, time_type)
    return Marker(commit, producer_id, producer_epoch, coordinator_epoch, transaction_version, now_ms, body)
