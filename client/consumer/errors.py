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

from collections.abc import Iterable
from typing import Any, Final

from aiokafka.errors import (
    CommitFailedError,
    ConsumerStoppedError,
    CorruptRecordException,
    GroupAuthorizationFailedError,
    KafkaError,
    KafkaTimeoutError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    RecordTooLargeError,
    UnknownError,
)

from stuntbroker.client.errors import NAMES
from stuntbroker.client.producer.error_table import Kind, fatal_class
from stuntbroker.client.transactional_errors import (
    LIMITS,
    FatalError,
    InvalidConfigurationError,
    OperationTimedOutError,
    ProducerError,
    ResponseError,
    RetriableError,
    UnexpectedError,
    root_of,
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
_NO_METADATA: Final = "Unable to get cluster metadata over all known brokers"
"""Text of an error of aiokafka after which the same call may succeed."""


class ConsumerErrors:
    """Translates the errors of one consumer.

    aiokafka loses codes that it does not know or expect, so they are noted from the responses.
    """

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._refusal: ResponseError | None = None
        """The latest response whose code aiokafka may lose; None after the API has succeeded, or the error was translated."""
        self._explained: tuple[BaseException, ResponseError] | None = None
        """The latest error without a code, and its response: aiokafka raises a failure of the membership in every call."""

    def note(self, request: Any, codes: Iterable[int]) -> None:
        """Remember the error code in the response to a request of aiokafka's consumer."""
        name = APIS[request.API_KEY].name
        refused = [code for code in codes if code]
        if refused:
            self._refusal = ResponseError(name, refused[0])
        elif self._refusal is not None and self._refusal.request == name:
            self._refusal = None

    def translated(self, fault: KafkaError) -> KafkaError:
        """Return the error to raise for an error of aiokafka. Its cause is the root: no error wraps one that wraps another.

        Raise it outside the handler of `fault`, which may have it as a cause.
        """
        cause: BaseException = fault
        while type(cause) is KafkaError and cause.__cause__ is not None:
            cause = cause.__cause__
        if isinstance(cause, _UNCHANGED):
            return cause
        if (refusal := self._response_of(cause)) is not None:
            cause = refusal
        code = cause.code if isinstance(cause, ResponseError) else _code_of(cause)
        error = _class_of(cause, code)(f"consumer of group {self._group_id!r}: {_text_of(cause)}", code)
        error.__cause__ = root_of(cause)
        return error

    def _response_of(self, cause: BaseException) -> ResponseError | None:
        """Return the response because of which aiokafka raised an error, if the error does not say its code."""
        if self._explained is not None and self._explained[0] is cause:
            return self._explained[1]
        has_lost_code = (type(cause) is KafkaError and cause.args != (_NO_METADATA,)) or isinstance(cause, UnknownError)
        refusal = self._refusal
        if not has_lost_code or refusal is None:
            return None
        self._explained, self._refusal = (cause, refusal), None
        return refusal


def _code_of(error: BaseException) -> int | None:
    """Return Kafka's error code of an error of aiokafka; None if it has none."""
    code: int | None = getattr(error, "errno", None)
    return code if isinstance(error, KafkaError) else None


def _text_of(cause: BaseException) -> str:
    """Return what an error says, with Kafka's name for its code instead of aiokafka's."""
    code = _code_of(cause)
    if code is None:
        return str(cause.args[0]) if isinstance(cause, KafkaError) and cause.args else repr(cause)
    details = "" if isinstance(cause, GroupAuthorizationFailedError) else "".join(f": {each}" for each in cause.args)
    if code in LIMITS and not details:
        details = f": {LIMITS[code]}"
    return f"{NAMES.get(code, type(cause).__name__)} ({code}){details}"


def _class_of(cause: BaseException, code: int | None) -> type[ProducerError]:
    if isinstance(cause, KafkaTimeoutError):
        return OperationTimedOutError
    if code in RETRIABLE or getattr(cause, "retriable", False) or cause.args == (_NO_METADATA,):
        return RetriableError
    return UnexpectedError if code is None else _CLASSES.get(code) or fatal_class(Kind.FATAL, code)
