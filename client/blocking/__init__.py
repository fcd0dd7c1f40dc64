"""The transactional producer and consumer without asyncio, under the same names: for threads and for forked workers.

    from stuntbroker.client.blocking import TransactionalProducer

Each class runs its asyncio twin in a separate thread (`loop_thread`) and contains no Kafka logic: this package only passes
calls and records from one thread to the other.
"""

from __future__ import annotations

from stuntbroker.client.blocking.connections import Connections
from stuntbroker.client.blocking.consumer import TransactionalConsumer
from stuntbroker.client.blocking.handover import SentRecord
from stuntbroker.client.blocking.producer import TransactionalProducer

__all__ = ["Connections", "SentRecord", "TransactionalConsumer", "TransactionalProducer"]
