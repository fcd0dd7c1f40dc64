"""Errors of aiokafka's consumer as errors of this package, whose class says what the application does (KIP-1050).

| aiokafka raises | raised instead |
|---|---|
| CommitFailedError, NoOffsetForPartitionError, OffsetOutOfRangeError, CorruptRecordException, ConsumerStoppedError and \
RecordTooLargeError | the same: an application handles them by name |
| KafkaTimeoutError | OperationTimedOutError |
| another error after which the call may be repeated | RetriableError |
| any other KafkaError | the class that KIP-1050 gives the error code, else UnexpectedError |
"""

from __future__ import annotations

from typing import Any, Final

from aiokafka.errors import (
    CommitFailedError,
    ConsumerStoppedError,
    CorruptRecordException,
    KafkaError,
    KafkaTimeoutError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    RecordTooLargeError,
)

from stuntbroker.client.errors import NAMES
from stuntbroker.client.producer.error_table import Kind, fatal_class
from stuntbroker.client.producer.errors import (
    FatalError,
    InvalidConfigurationError,
    OperationTimedOutError,
    ProducerError,
    ResponseError,
    RetriableError,
    UnexpectedError,
)
from stuntbroker.protocol.api_keys import APIS
from stuntbroker.protocol.errors import RETRIABLE, ErrorCode

_UNCHANGED: Final = (
    ProducerError,
    CommitFailedError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    CorruptRecordException,
    ConsumerStoppedError,
    RecordTooLargeError,
)
_REJOINED: Final = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.MEMBER_ID_REQUIRED,
    }
)
"""Errors of group requests after which aiokafka joins the group again."""
_CLASSES: Final[dict[int, type[FatalError]]] = dict.fromkeys(
    (
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
    ),
    InvalidConfigurationError,
)
"""Classes of errors that no producer gets."""


class ConsumerErrors:
    """Translates the errors of one consumer.

    aiokafka loses the code of a response that it did not expect, and that ends its membership: it is noted here before.
    """

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._refusal: ResponseError | None = None
        """The latest response that aiokafka did not expect."""

    def note(self, request: Any, code: int) -> None:
        """Remember the error code in the response to a group request of aiokafka."""
        if code and code not in RETRIABLE and code not in _REJOINED:
            self._refusal = ResponseError(APIS[request.API_KEY].name, code)

    def translated(self, fault: KafkaError) -> KafkaError:
        """Return the error to raise for an error of aiokafka. Its cause is the innermost error."""
        cause: BaseException = fault
        while not isinstance(cause, _UNCHANGED) and cause.__cause__ is not None:
            cause = cause.__cause__
        if isinstance(cause, _UNCHANGED):
            return cause
        code = _code_of(cause)
        if self._refusal is not None and code in (None, ErrorCode.UNKNOWN_SERVER_ERROR):
            cause, code = self._refusal, self._refusal.code
        error = _class_of(cause, code)(f"consumer of group {self._group_id!r}: {self._text_of(cause)}", code)
        error.__cause__ = cause
        return error

    def _text_of(self, cause: BaseException) -> str:
        """Return what an error says, with Kafka's name for its code instead of aiokafka's."""
        code = _code_of(cause)
        if code is None:
            return str(cause.args[0]) if isinstance(cause, KafkaError) and cause.args else repr(cause)
        details = "".join(f": {each}" for each in cause.args if each != self._group_id)
        return f"{NAMES.get(code, type(cause).__name__)} ({code}){details}"


def _code_of(error: BaseException) -> int | None:
    """Return Kafka's error code of an error of aiokafka; None if it has none."""
    code: int | None = getattr(error, "errno", None)
    return code if isinstance(error, KafkaError) else None


def _class_of(cause: BaseException, code: int | None) -> type[ProducerError]:
    if isinstance(cause, KafkaTimeoutError):
        return OperationTimedOutError
    if getattr(cause, "retriable", False):
        return RetriableError
    return UnexpectedError if code is None else _CLASSES.get(code) or fatal_class(Kind.FATAL, code)
