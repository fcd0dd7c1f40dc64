"""What a transactional producer raises. The class says what the application does next (KIP-691, KIP-1050).

| class | what the application does |
|---|---|
| RetriableError | repeats the same call |
| TransactionAbortableError, CommitFailedError | calls abort_transaction and goes on with the same producer |
| ApplicationRecoverableError | closes the producer, makes a new one and goes on from the last commit |
| InvalidConfigurationError | stops: configuration or permissions have to be corrected first |
| UnexpectedError | stops |
| IllegalStateError | is corrected: the program calls methods in an order that makes no sense |

An abortable error wraps what happened once: it is the `__cause__`. A fatal error is raised as it is. Where aiokafka's producer
raises ProducerFenced, KafkaTimeoutError or IllegalOperation, the error here derives from it: a program's handlers still match.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from aiokafka.errors import IllegalOperation, KafkaError, KafkaTimeoutError, ProducerFenced

from stuntbroker.client.errors import NAMES


class IllegalStateError(RuntimeError, IllegalOperation):  # type: ignore[misc]
    """The method may not be called now. It is no KafkaError: what handles those must not hide a mistake in the program."""


class ProducerError(KafkaError):  # type: ignore[misc]  # aiokafka has no types.
    """Whatever a producer raises that is not a mistake in the program.

    `code` is Kafka's error code, None when no broker sent one. `reason` is what the broker said of it: of a fence, Stuntbroker
    says with `--control` who fenced the producer, when, and what to do.
    """

    reason: str | None = None

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        """Let it come back from another process: pickle would call the class with the message alone."""
        return _error_like, (type(self), self.args, vars(self))


def _error_like(kind: type[ProducerError], arguments: tuple[Any, ...], values: dict[str, Any]) -> ProducerError:
    error = kind.__new__(kind, *arguments)
    error.__dict__.update(values)
    return error


def root_of(error: BaseException) -> BaseException:
    """Return what an error wraps, or the error itself if it wraps nothing. No error wraps a wrapped one (KIP-691)."""
    return error.__cause__ or error


class ResponseError(ProducerError):
    """A broker answered with an error code. The cause of other errors, and not raised itself."""

    def __init__(self, request: str, code: int, message: str | None = None, name: str | None = None) -> None:
        self.request = request
        """The request, and what it was about."""
        self.reason = message
        name = name or NAMES.get(code, "an error code that this client does not know")
        super().__init__(f"{request}: {name} ({code})" + (f": {message}" if message else ""), code)


class DisconnectedError(ProducerError):
    """There was no connection to a broker, or it broke before the response. The request may or may not have been applied."""

    retriable = True


class RetriableError(ProducerError):
    """Nothing is lost: the same call may be repeated."""

    retriable = True


class OperationTimedOutError(RetriableError, KafkaTimeoutError):  # type: ignore[misc]
    """The call took longer than `max_block_ms`.

    A commit, an abort, `init_transactions`, `join_transaction` and `complete_transaction` go on in the background: repeat the
    same call, and no other. Any other call has been given up.
    """


class TransactionAbortableError(ProducerError):
    """The transaction cannot be committed. Call abort_transaction, then go on with the same producer."""


class CommitFailedError(TransactionAbortableError):
    """The commit failed, and nothing of the transaction is committed. Call abort_transaction, then go on."""


class FatalError(ProducerError):
    """This producer can do nothing more but stop."""


class ApplicationRecoverableError(FatalError):
    """A new producer can go on from the last committed transaction."""


class ProducerFencedError(ApplicationRecoverableError, ProducerFenced):  # type: ignore[misc]
    """Another producer has the transactional id now, or the transaction timed out where that cannot be told apart."""


class InvalidProducerIdMappingError(ApplicationRecoverableError):
    """The coordinator no longer knows the transactional id by this producer id: it was unused for too long."""


class InvalidConfigurationError(FatalError):
    """Configuration or permissions are wrong. Trying again does not help."""


class AuthenticationError(InvalidConfigurationError):
    """A broker refused the credentials or the mechanism, or its certificate is not trusted.

    That it refuses a client's certificate cannot be told from a broker that is away: aiokafka's KafkaConnectionError.
    """


class AuthorizationError(InvalidConfigurationError):
    """The producer may not use the transactional id, the group, the topic or the cluster."""


class UnsupportedVersionError(InvalidConfigurationError):
    """A broker does not have the request, or not at a version that this client can use."""


class UnexpectedError(FatalError):
    """A broker answered what it should never answer here, or this client has a defect."""


class FailureType(Enum):
    """Why a record was not written (KIP-691)."""

    MESSAGE_REJECTED = "message rejected"
    """Because of this record, or its batch: too large, invalid, or not permitted in this topic."""
    DELIVERY_FAILED = "delivery failed"
    """It could not be delivered in time."""
    TRANSACTION_FAILED = "transaction failed"
    """Its transaction failed or was aborted. Other calls of the producer report that: it may be ignored here."""


class ProduceFailedError(ProducerError):
    """A record was not written; the cause is the `__cause__`. Raised only by what `send` returns."""

    def __init__(self, message: str, failure_type: FailureType, code: int | None = None) -> None:
        super().__init__(message, code)
        self.failure_type = failure_type
