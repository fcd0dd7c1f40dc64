"""A blocking producer that may begin its first transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from model_broker import ModelBroker

from stuntbroker.client.blocking import TransactionalProducer
from tests.kit.transactions.repeated import repeated_blocking


@contextmanager
def ready(broker: ModelBroker, **options: Any) -> Iterator[TransactionalProducer]:
    """Yield a producer that is initialised, and stop it."""
    options = {"retry_backoff_ms": 1, **options}
    with TransactionalProducer(bootstrap_servers=str(broker.address), transactional_id="id", **options) as producer:
        repeated_blocking(producer.init_transactions)
        yield producer
