"""Errors as Kafka's commands print those of a broker: the name of a Java exception, and its text."""

from __future__ import annotations

from typing import Final

from stuntbroker.client.errors import BrokerError, ClientError
from stuntbroker.protocol.errors import ErrorCode

PACKAGE: Final = "org.apache.kafka.common.errors"
IRREGULAR: Final = {
    ErrorCode.NON_EMPTY_GROUP: "GroupNotEmptyException",
    ErrorCode.TOPIC_ALREADY_EXISTS: "TopicExistsException",
    ErrorCode.INVALID_CONFIG: "InvalidConfigurationException",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "InvalidTopicException",
    ErrorCode.REQUEST_TIMED_OUT: "TimeoutException",
}
"""Names that cannot be derived from that of the error code."""
TEXTS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.GROUP_ID_NOT_FOUND: "The group id does not exist.",
    ErrorCode.NON_EMPTY_GROUP: "The group is not empty.",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: (
        "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to it."
    ),
}
"""What Kafka's commands print for a code that comes without a text."""


def exception_text(code: int, text: str | None = None) -> str:
    """Return the exception for an error code as Java prints it: name with package, and text."""
    known = ErrorCode(code) if code in ErrorCode._value2member_map_ else ErrorCode.UNKNOWN_SERVER_ERROR
    name = IRREGULAR.get(known) or known.name.removesuffix("_FAILED").title().replace("_", "") + "Exception"
    return f"{PACKAGE}.{name}: {text or TEXTS.get(known) or known.name}"


def shown_in_java(fault: ClientError) -> str:
    """Return the line for a failure: with the name of an exception if it is an error of a broker."""
    return exception_text(fault.code, fault.message) if isinstance(fault, BrokerError) else str(fault)
