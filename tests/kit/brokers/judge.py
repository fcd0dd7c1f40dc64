"""What admin clients say of a transaction, whoever made it."""

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
    """Producer id and epoch of a transactional id, once its last transaction has ended."""
    deadline = time.monotonic() + DEADLINE_S
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        while time.monotonic() < deadline:
            described = admin.describe_transactions([transactional_id])[transactional_id]
            # Kafka answers EndTxn before the markers are written.
            if not described.state.value.startswith("Prepare"):
                return described.producer_id, described.producer_epoch
    raise TimeoutError(f"{transactional_id} is still {described.state}")


def ends(bootstrap: str, topic: str, partitions: int, isolation: IsolationLevel) -> list[int]:
    """The offset behind the last record that a reader may see, by partition."""
    request = {TopicPartition(topic, n): OffsetSpec.latest() for n in range(partitions)}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    answers = admin.list_offsets(request, isolation_level=isolation)
    return [answers[partition].result(DEADLINE_S).offset for partition in request]


def check_nothing_is_open(bootstrap: str, topic: str, partitions: int) -> None:
    """The last stable offset of every partition is the end of its log: no transaction holds readers back."""
    stable = ends(bootstrap, topic, partitions, IsolationLevel.READ_COMMITTED)
    assert stable == ends(bootstrap, topic, partitions, IsolationLevel.READ_UNCOMMITTED)


def check_identities(seen: Sequence[tuple[int, int]], before: Sequence[int], after: Sequence[int]) -> None:
    """One producer id with the epochs `before`, and then a new one with the epochs `after`."""
    old, new = seen[0][0], seen[-1][0]
    assert old != new
    assert list(seen) == [*((old, epoch) for epoch in before), *((new, epoch) for epoch in after)]
