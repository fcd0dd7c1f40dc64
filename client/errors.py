"""What can go wrong between us and a cluster. Every text is one line that may be shown to a person as it is."""

from __future__ import annotations

from typing import Final

from stuntbroker.protocol.errors import RETRIABLE, ErrorCode

NAMES: Final = {code.value: code.name for code in ErrorCode}


class ClientError(Exception):
    """Whatever went wrong. `retriable`: the same may well succeed later, with routes looked up anew."""

    retriable = False


class ConnectionFailed(ClientError):
    """No connection, or it broke before the answer came: a request that was sent may or may not have been applied."""

    retriable = True


class Unreachable(ClientError):
    """None of the bootstrap addresses has ever answered."""


class UnsupportedVersion(ClientError):
    """The broker has no version of an API that we have."""


class NotFound(ClientError):
    """The cluster has no such topic, partition, broker or transactional id."""


class TimedOut(ClientError):
    """It could have been tried again, but there was no time left. `__cause__` is the last failure."""


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
    """The brokers have forgotten the producer id, or never knew it. This producer can do nothing more."""


class TransactionAbortable(BrokerError):
    """The transaction cannot be committed any more. It has to be aborted; the producer can go on after that."""


class TransactionEnded(BrokerError):
    """The transaction has been ended the other way round, or there is none."""


PRODUCER_FAULTS: Final[dict[int, type[BrokerError]]] = {
    ErrorCode.INVALID_PRODUCER_EPOCH: ProducerFenced,
    ErrorCode.PRODUCER_FENCED: ProducerFenced,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: ProducerUnknown,
    ErrorCode.TRANSACTION_ABORTABLE: TransactionAbortable,
    ErrorCode.INVALID_TXN_STATE: TransactionEnded,
}
"""Exceptions for error codes in coordinator responses to transactional producers."""


def producer_fault(what: str, code: int, message: str | None = None) -> BrokerError:
    """Return the exception for an error code that a producer was answered."""
    return PRODUCER_FAULTS.get(code, BrokerError)(what, code, message)


def check(what: str, code: int, message: str | None = None) -> None:
    """Raises BrokerError unless the code is 0."""
    if code:
        raise BrokerError(what, code, message)
