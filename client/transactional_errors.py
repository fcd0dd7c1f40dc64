"""Errors of the transactional producer and consumer. The class says what the application does next (KIP-691, KIP-1050).

| class | what the application does |
|---|---|
| RetriableError | repeats the same call |
| TransactionAbortableError, CommitFailedError | calls abort_transaction and continues with the same producer |
| ApplicationRecoverableError | closes producer and consumer, creates new ones and continues from the last committed transaction |
| InvalidConfigurationError | stops: configuration or permissions have to be corrected first |
| UnexpectedError | stops |
| IllegalStateError | has a bug to fix: it calls methods in an invalid order |

An abortable error wraps its root cause (`__cause__`). A fatal error is raised as it is. Where aiokafka's producer
raises ProducerFenced, KafkaTimeoutError or IllegalOperation, the error here derives from it: a program's handlers still match.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

from aiokafka.errors import IllegalOperation, KafkaError, KafkaTimeoutError, ProducerFenced

from stuntbroker.client.errors import NAMES
from stuntbroker.protocol.errors import ErrorCode


class IllegalStateError(RuntimeError, IllegalOperation):  # type: ignore[misc]
    """The method may not be called now. Not a KafkaError: handlers of those must not hide a bug in the program."""


class ProducerError(KafkaError):  # type: ignore[misc]  # aiokafka has no types.
    """Base class of the errors of producers and consumers, except for IllegalStateError.

    `code` is the error code for which this is raised, None if the reason is none that a broker sent, such as a time-out; the code
    of the last response is then in `__cause__`, if there was one. `reason` is the broker's explanation: for a fenced producer,
    Stuntbroker with `--control` says who fenced it, when, and what to do.
    """

    reason: str | None = None

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        """Support pickling across processes: by default, pickle would call the class with the message alone."""
        return _error_like, (type(self), self.args, vars(self))


def _error_like(kind: type[ProducerError], arguments: tuple[Any, ...], values: dict[str, Any]) -> ProducerError:
    error = kind.__new__(kind, *arguments)
    error.__dict__.update(values)
    return error


def root_of(error: BaseException) -> BaseException:
    """Return what an error wraps, or the error itself if it wraps nothing: no error wraps one that wraps another (KIP-691)."""
    return error.__cause__ or error


LIMITS: Final[dict[int, str]] = {
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "transaction_timeout_ms is more than the broker's transaction.max.timeout.ms "
    "(900,000 by default)",
    ErrorCode.INVALID_SESSION_TIMEOUT: "session_timeout_ms is less than the broker's group.min.session.timeout.ms "
    "(6,000 by default), or more than its group.max.session.timeout.ms (1,800,000 by default)",
}
"""Error code -> the option with which it can be avoided, and the broker's limit for it."""


class ResponseError(ProducerError):
    """A broker returned an error code. Only the `__cause__` of other errors, and not raised itself."""

    def __init__(self, request: str, code: int, message: str | None = None, name: str | None = None) -> None:
        self.request = request
        """The request, and its target."""
        self.reason = message
        name = name or NAMES.get(code, "an error code that this client does not know")
        details = message or LIMITS.get(code)
        super().__init__(f"{request}: {name} ({code})" + (f": {details}" if details else ""), code)


class DisconnectedError(ProducerError):
    """There was no connection to a broker, or it broke before the response. The request may or may not have been applied."""

    retriable = True


class RetriableError(ProducerError):
    """The same call may be repeated: nothing is lost."""

    retriable = True


class OperationTimedOutError(RetriableError, KafkaTimeoutError):  # type: ignore[misc]
    """The call took longer than its time-out, which is `max_block_ms` for a producer.

    `commit_transaction`, `abort_transaction`, `init_transactions`, `join_transaction` and `complete_transaction` continue in
    the background: repeat the same call, and no other. Any other call was cancelled, and may be repeated. A time-out of `send`,
    `send_offsets_to_transaction` or `prepare_transaction` fails the transaction instead (TransactionAbortableError).
    """


class TransactionAbortableError(ProducerError):
    """The transaction cannot be committed. Call abort_transaction, then continue with the same producer."""


class CommitFailedError(TransactionAbortableError):
    """The commit failed, and no part of the transaction is committed. Call abort_transaction, then continue."""


class FatalError(ProducerError):
    """This producer or consumer is unusable, and has to be stopped."""


class ApplicationRecoverableError(FatalError):
    """This producer or consumer is unusable. A new one can continue from the last committed transaction."""


class ProducerFencedError(ApplicationRecoverableError, ProducerFenced):  # type: ignore[misc]
    """Another producer uses the transactional id now, or the transaction timed out and brokers report that in the same way."""


class InvalidProducerIdMappingError(ApplicationRecoverableError):
    """The coordinator no longer knows this producer id for the transactional id, which was unused for too long."""


class InvalidConfigurationError(FatalError):
    """Configuration or permissions are wrong. A retry does not help."""


class AuthenticationError(InvalidConfigurationError):
    """A broker rejected the credentials, the mechanism or the client's certificate, or its own certificate is not trusted.

    A broker that rejects a client certificate without a TLS alert looks like one that is down: aiokafka's KafkaConnectionError.
    """


class AuthorizationError(InvalidConfigurationError):
    """The client may not use the transactional id or the cluster; from a consumer, also: the topic or the group.

    A producer that may not write to a topic, or commit offsets of a group, raises TransactionAbortableError, as Java's does.
    """


class UnsupportedVersionError(InvalidConfigurationError):
    """A broker does not have the request, or not at a version that this client can use."""


class UnexpectedError(FatalError):
    """A broker returned an error that it should never return here, or this client has a bug."""


class FailureType(Enum):
    """Why a record was not written (KIP-691)."""

    MESSAGE_REJECTED = "message rejected"
    """This record, or its batch, was rejected: too large, invalid, or not permitted in this topic."""
    DELIVERY_FAILED = "delivery failed"
    """The record could not be delivered in time."""
    TRANSACTION_FAILED = "transaction failed"
    """The transaction failed or was aborted. Other calls of the producer report that, so it can be ignored here."""


class ProduceFailedError(ProducerError):
    """A record was not written; `__cause__` says why. Raised by the future that `send` returns, and by `send_and_wait`."""

    def __init__(self, message: str, failure_type: FailureType, code: int | None = None) -> None:
        super().__init__(message, code)
        self.failure_type = failure_type


def produce_failed(cause: ProducerError, kind: FailureType) -> ProduceFailedError:
    """Return the error of a record whose delivery failed for this cause."""
    error = ProduceFailedError(str(cause.args[0]), kind, cause.code)
    error.reason = cause.reason
    error.__cause__ = root_of(cause)
    return error
