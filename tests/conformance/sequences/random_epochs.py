"""Transactional ids whose epochs are nearly exhausted, so that a new producer id is two transactions away.

Stuntbroker has a setting for the first epoch (`stuntbroker.initial.producer.epoch`). For Kafka, records of such ids are
written to its transaction log with the client id of its admin client; Kafka reads them at the next start.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from stuntbroker.coordinator.records import key_of, value_of
from stuntbroker.coordinator.state import Phase, Txn
from stuntbroker.protocol.batches.records import build_batch
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.hashing import partition_for
from tests.conformance.sequences.random_acts import TRANSACTIONAL
from tests.conformance.wire import APIS_BY_NAME, Link, header, read_reply, request_body

FIRST_EPOCH: Final = 32_764
"""Epoch that the first InitProducerId of an id returns; 32766 is the last epoch that a client can get."""
PREFIXES: Final = 3_000
"""Maximum number of sequences, including those run to shorten another."""
FIRST_PRODUCER_ID: Final = 7_000_000
PARTITIONS: Final = 4
PRODUCE_VERSION: Final = 9
ADMIN_CLIENT_ID: Final = "__admin_client"
"""The only client that may write to internal topics."""


def prefixes() -> Iterator[str]:
    """Return prefixes of names, one per sequence."""
    return (f"random-{number:08d}" for number in range(PREFIXES))


def transactional_ids() -> list[str]:
    return sorted({who.split(".")[0] for who in TRANSACTIONAL})


def plant(kafka: str, transaction_version: int) -> None:
    now_ms = int(time.time() * 1_000)
    actual: dict[int, list[tuple[bytes, bytes]]] = {}
    names = transactional_ids()
    producer_id = FIRST_PRODUCER_ID
    for prefix in prefixes():
        for name in names:
            own = f"{prefix}-{name}"
            txn = Txn(
                own,
                producer_id,
                producer_id,
                -1,
                FIRST_EPOCH - 1,
                -1,
                -1,
                60_000,
                Phase.EMPTY,
                frozenset(),
                -1,
                now_ms,
                0,
            )
            actual.setdefault(partition_for(own, PARTITIONS), []).append(
                (key_of(own), value_of(txn, transaction_version))
            )
            producer_id += 1
    for partition, records in actual.items():
        for at in range(0, len(records), 1_000):
            _write(kafka, partition, bytes(build_batch(records[at : at + 1_000], now_ms)))


def _write(kafka: str, partition: int, batch: bytes) -> None:
    api = APIS_BY_NAME["Produce"]
    data = [{"name": "__transaction_state", "partition_data": [{"index": partition, "records": batch}]}]
    body = request_body(api, PRODUCE_VERSION, {"acks": -1, "timeout_ms": 5_000, "topic_data": data})
    link = Link(kafka)
    try:
        link.send_frame(header(api.key, PRODUCE_VERSION, 1, client_id=ADMIN_CLIENT_ID, flexible=True) + body)
        answer = link.receive()
    finally:
        link.close()
    assert isinstance(answer, bytes), f"Kafka did not answer: {answer}"
    error = read_reply(api, PRODUCE_VERSION, answer).responses[0].partition_responses[0].error_code
    assert error == ErrorCode.NONE, f"Kafka did not take the records: {error}"
