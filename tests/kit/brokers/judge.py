"""What admin clients show of a transaction, whichever client wrote it."""

import contextlib
import time
import warnings
from collections.abc import Sequence

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

with warnings.catch_warnings():
    # kafka-python reads its schemas with functions that Python 3.11 and 3.12, and only they, call deprecated.
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    from kafka import KafkaAdminClient

DEADLINE_S = 30


def identity_of(bootstrap: str, transactional_id: str) -> tuple[int, int]:
    """Return the producer id and epoch of a transactional id, after its last transaction has ended."""
    deadline = time.monotonic() + DEADLINE_S
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        while time.monotonic() < deadline:
            described = admin.describe_transactions([transactional_id])[transactional_id]
            # Kafka answers EndTxn before the markers are written.
            if not described.state.value.startswith("Prepare"):
                return described.producer_id, described.producer_epoch
    raise TimeoutError(f"{transactional_id} is still {described.state}")


def ends(bootstrap: str, topic: str, partitions: int, isolation: IsolationLevel) -> list[int]:
    """Return the end offset of each partition for this isolation level."""
    request = {TopicPartition(topic, n): OffsetSpec.latest() for n in range(partitions)}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    answers = admin.list_offsets(request, isolation_level=isolation)
    return [answers[partition].result(DEADLINE_S).offset for partition in request]


def check_nothing_is_open(bootstrap: str, topic: str, partitions: int) -> None:
    """Check that the last stable offset of each partition is its end offset, so that no open transaction holds back readers."""
    stable = ends(bootstrap, topic, partitions, IsolationLevel.READ_COMMITTED)
    assert stable == ends(bootstrap, topic, partitions, IsolationLevel.READ_UNCOMMITTED)


def check_identities(seen: Sequence[tuple[int, int]], before: Sequence[int], after: Sequence[int]) -> None:
    """Check for one producer id with the epochs `before`, followed by a new one with the epochs `after`."""
    old, new = seen[0][0], seen[-1][0]
    assert old != new
    assert list(seen) == [*((old, epoch) for epoch in before), *((new, epoch) for epoch in after)]
