"""Clients for any Kafka broker.

    from stuntbroker.client import TransactionalConsumer, TransactionalProducer

Applications use the transactional producer and consumer for asyncio (packages `producer`, `consumer`) or their twins for
threads (`blocking`); all of them use the package `connections`. The command line and the pipeline use `commands`, which has a
blocking call for each operation. Directly in this folder is what several of them share. The clients depend on the protocol,
not on our broker, so that they work against Apache Kafka too.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from stuntbroker.client.connections.connections import Connections
    from stuntbroker.client.consumer.consumer import TransactionalConsumer
    from stuntbroker.client.prepared_state import PreparedTxnState
    from stuntbroker.client.producer.batches import RecordFuture, RecordMetadata
    from stuntbroker.client.producer.coordination import GroupMetadata
    from stuntbroker.client.producer.producer import TransactionalProducer
    from stuntbroker.client.producer.states import State
    from stuntbroker.client.telemetry import Measurement
    from stuntbroker.client.transactional_errors import (
        ApplicationRecoverableError,
        AuthenticationError,
        AuthorizationError,
        CommitFailedError,
        DisconnectedError,
        FailureType,
        FatalError,
        IllegalStateError,
        InvalidConfigurationError,
        InvalidProducerIdMappingError,
        OperationTimedOutError,
        ProduceFailedError,
        ProducerError,
        ProducerFencedError,
        ResponseError,
        RetriableError,
        TransactionAbortableError,
        UnexpectedError,
        UnsupportedVersionError,
    )

_ERRORS: Final = (
    "ApplicationRecoverableError",
    "AuthenticationError",
    "AuthorizationError",
    "CommitFailedError",
    "DisconnectedError",
    "FailureType",
    "FatalError",
    "IllegalStateError",
    "InvalidConfigurationError",
    "InvalidProducerIdMappingError",
    "OperationTimedOutError",
    "ProduceFailedError",
    "ProducerError",
    "ProducerFencedError",
    "ResponseError",
    "RetriableError",
    "TransactionAbortableError",
    "UnexpectedError",
    "UnsupportedVersionError",
)
_PLACES: Final = {
    **dict.fromkeys(_ERRORS, "transactional_errors"),
    "Connections": "connections.connections",
    "GroupMetadata": "producer.coordination",
    "Measurement": "telemetry",
    "PreparedTxnState": "prepared_state",
    "RecordFuture": "producer.batches",
    "RecordMetadata": "producer.batches",
    "State": "producer.states",
    "TransactionalConsumer": "consumer.consumer",
    "TransactionalProducer": "producer.producer",
}
"""Public name -> module."""

__all__ = [
    "ApplicationRecoverableError",
    "AuthenticationError",
    "AuthorizationError",
    "CommitFailedError",
    "Connections",
    "DisconnectedError",
    "FailureType",
    "FatalError",
    "GroupMetadata",
    "IllegalStateError",
    "InvalidConfigurationError",
    "InvalidProducerIdMappingError",
    "Measurement",
    "OperationTimedOutError",
    "PreparedTxnState",
    "ProduceFailedError",
    "ProducerError",
    "ProducerFencedError",
    "RecordFuture",
    "RecordMetadata",
    "ResponseError",
    "RetriableError",
    "State",
    "TransactionAbortableError",
    "TransactionalConsumer",
    "TransactionalProducer",
    "UnexpectedError",
    "UnsupportedVersionError",
]


def __dir__() -> list[str]:
    """Return the public names, for completion: they are not loaded yet."""
    return __all__


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: importing aiokafka takes 60 ms, and the command line does not need it."""
    if name not in _PLACES:
        raise AttributeError(f"module 'stuntbroker.client' has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
