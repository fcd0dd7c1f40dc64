"""The transactional producer and consumer without asyncio, under the same names: for threads and for forked workers.

    from stuntbroker.client.blocking import TransactionalProducer

Each class runs its asyncio twin in a separate thread (`loop_thread`) and contains no Kafka logic: this package passes calls to
that thread. Only records are added to the twin's batches in the thread that sends them (`records`), under a lock.
"""

from __future__ import annotations

from stuntbroker.client.blocking.connections import Connections
from stuntbroker.client.blocking.consumer import TransactionalConsumer
from stuntbroker.client.blocking.producer import TransactionalProducer
from stuntbroker.client.blocking.records import SentRecord

__all__ = ["Connections", "SentRecord", "TransactionalConsumer", "TransactionalProducer"]
