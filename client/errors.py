"""Errors of the clients of `client/commands/`. Every message is one line that can be shown to a user as it is."""

from __future__ import annotations

from typing import Final

from stuntbroker.protocol.errors import RETRIABLE, ErrorCode

NAMES: Final = {code.value: code.name for code in ErrorCode}


class ClientError(Exception):
    """Base class of the client's errors. `retriable`: a retry, after new look-ups of leaders and coordinators, may succeed."""

    retriable = False


class ConnectionFailed(ClientError):
    """The connection failed before the response arrived: a request that was sent may or may not have been applied."""

    retriable = True


class Refused(ConnectionFailed):
    """The broker has closed the connection at the first request after ApiVersions, as listeners with SASL do without a reason."""


class Unreachable(ClientError):
    """None of the bootstrap addresses has ever answered."""


class AuthenticationFailed(ClientError):
    """Broker and client do not trust each other: the certificate of one, or the client's user name and password, is refused."""


class UnsupportedVersion(ClientError):
    """The broker supports no version of an API that this client can use."""


class NotFound(ClientError):
    """The cluster has no such topic, partition, broker or transactional id."""


class TimedOut(ClientError):
    """A retriable operation did not succeed within its time-out. `__cause__` is the last failure."""


class BrokerError(ClientError):
    """A broker answered with an error code."""

    def __init__(self, what: str, code: int, message: str | None = None) -> None:
        name = NAMES.get(code) or f"error code {code}"
        super().__init__(f"{what}: {name}" + (f" ({message})" if message and message != name else ""))
        self.code = code
        self.message = message
        """The broker's own text, if it gave one."""
        self.retriable = code in RETRIABLE


class ProducerFenced(BrokerError):
    """Another producer holds the transactional id now. This producer cannot continue."""


class ProducerUnknown(BrokerError):
    """The brokers have forgotten the producer id, or never knew it. This producer cannot continue."""


class TransactionAbortable(BrokerError):
    """The transaction can no longer be committed. Abort it; after that, the producer can continue."""


LOST_PRODUCERS: Final[dict[int, type[BrokerError]]] = {
    ErrorCode.INVALID_PRODUCER_EPOCH: ProducerFenced,
    ErrorCode.PRODUCER_FENCED: ProducerFenced,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: ProducerUnknown,
    ErrorCode.UNKNOWN_PRODUCER_ID: ProducerUnknown,
}
"""Exceptions for the error codes after which a producer cannot continue, whether or not its transaction can still be aborted."""
_PRODUCER_ERRORS: Final = LOST_PRODUCERS | {ErrorCode.TRANSACTION_ABORTABLE: TransactionAbortable}


def producer_error(what: str, code: int, fence_reason: str | None = None) -> BrokerError:
    """Return the exception for an error code in a coordinator's response to a producer, with the reason of a fence."""
    return _PRODUCER_ERRORS.get(code, BrokerError)(what, code, fence_reason)


def check(what: str, code: int, message: str | None = None) -> None:
    """Raise BrokerError unless the code is 0."""
    if code:
        raise BrokerError(what, code, message)


def reason(fault: BaseException) -> str:
    """Return the reason for a connection failure, as text."""
    if isinstance(fault, TimeoutError):
        return "no response in time"
    return getattr(fault, "strerror", None) or str(fault) or type(fault).__name__
