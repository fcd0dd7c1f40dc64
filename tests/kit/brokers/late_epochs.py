"""Transactional ids near their last epoch, which a real cluster reaches only after half a minute of transactions for each.

Our broker has a property for this. Apache Kafka has none, but accepts records for its transaction log from a client with
the client id of its admin client, and loads them at its next start.
"""

import struct
import time
from typing import Any

from stuntbroker.protocol.hashing import partition_for
from stuntbroker.protocol.messages.transaction_log_key import TransactionLogKey
from stuntbroker.protocol.messages.transaction_log_value import TransactionLogValue

FIRST_EPOCH = 32_764
"""Epoch of the first InitProducerId response of such an id. 32766 is the last epoch that a producer can have."""

IDS = (
    "late-aiokafka",
    "late-aiokafka-takeover",
    "late-confluent",
    "late-confluent-takeover",
    "late-kafka-python",
    "late-java",
    "late-java-instances",
    "late-franz-go",
    "late-franz-go-instances",
    "late-franz-go-last-epoch",
    "late-franz-go-timed-out",
    "late-own",
    "late-own-timed-out",
)
"""Transactional ids that are seeded into Kafka. With our broker, every id starts at FIRST_EPOCH."""

# From the first block of a thousand ids, which Kafka does not use any more after a restart.
FIRST_PRODUCER_ID = 900
TXN_STATE = "__transaction_state"
DEADLINE_S = 30


def seed_kafka(bootstrap: str) -> None:
    """Write the ids into the transaction log of a running Kafka, in state Empty; Kafka loads them at its next start."""
    from confluent_kafka import Producer

    # The first transactional producer creates the log.
    Producer({"bootstrap.servers": bootstrap, "transactional.id": "first"}).init_transactions(DEADLINE_S)
    admin_client: dict[str, Any] = {"bootstrap.servers": bootstrap, "client.id": "__admin_client", "acks": "all"}
    writer = Producer(admin_client)
    partitions = len(writer.list_topics(TXN_STATE, DEADLINE_S).topics[TXN_STATE].partitions)
    refused: list[object] = []
    for n, transactional_id in enumerate(IDS):
        writer.produce(
            TXN_STATE,
            key=_key(transactional_id),
            value=_empty(FIRST_PRODUCER_ID + n, FIRST_EPOCH - 1),
            partition=partition_for(transactional_id, partitions),
            on_delivery=lambda error, _: refused.append(error) if error else None,
        )
    if writer.flush(DEADLINE_S) or refused:
        raise RuntimeError(f"Apache Kafka did not take the epochs: {refused}")


def _key(transactional_id: str) -> bytes:
    key = bytearray(struct.pack(">h", 0))
    TransactionLogKey(transactional_id).encode(key, 0)
    return bytes(key)


def _empty(producer_id: int, producer_epoch: int) -> bytes:
    value = bytearray(struct.pack(">h", 1))
    TransactionLogValue(
        producer_id=producer_id,
        previous_producer_id=producer_id,
        producer_epoch=producer_epoch,
        transaction_timeout_ms=60_000,
        transaction_status=0,
        transaction_partitions=None,
        transaction_last_update_timestamp_ms=int(time.time() * 1_000),
        transaction_start_timestamp_ms=-1,
    ).encode(value, 1)
    return bytes(value)
