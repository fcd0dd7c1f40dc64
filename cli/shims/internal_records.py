"""Records of Kafka's internal topics as JSON: committed offsets, groups and transactions."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from typing import Any, Final, NamedTuple

from stuntbroker.cli.shims.arguments import CommandError
from stuntbroker.protocol.messages.group_metadata_key import GroupMetadataKey
from stuntbroker.protocol.messages.group_metadata_value import GroupMetadataValue
from stuntbroker.protocol.messages.offset_commit_key import OffsetCommitKey
from stuntbroker.protocol.messages.offset_commit_value import OffsetCommitValue
from stuntbroker.protocol.messages.transaction_log_key import TransactionLogKey
from stuntbroker.protocol.messages.transaction_log_value import TransactionLogValue
from stuntbroker.protocol.primitives import DecodeError, Message


class Kind(NamedTuple):
    """A kind of record: the types of its key, which are versions of one message, and the classes of key and value."""

    key_types: tuple[int, ...]
    key: type[Message]
    value: type[Message]
    value_version_max: int


KINDS: Final = {
    "OffsetsMessageFormatter": Kind((0, 1), OffsetCommitKey, OffsetCommitValue, 4),
    "GroupMetadataMessageFormatter": Kind((2,), GroupMetadataKey, GroupMetadataValue, 4),
    "TransactionLogMessageFormatter": Kind((0,), TransactionLogKey, TransactionLogValue, 1),
}
"""Formatter -> kind of record that it shows."""
VERSIONS: Final = {
    "leader_epoch": range(3, 5),
    "expire_timestamp": range(1, 2),
    "topic_id": range(4, 5),
    "current_state_timestamp": range(2, 5),
    "rebalance_timeout": range(1, 5),
    "group_instance_id": range(3, 5),
}
"""Field -> versions of the value that have it; the others are in every version."""
OPTIONAL: Final = ("previous_producer_id", "next_producer_id", "client_transaction_version")
"""Tagged fields of a transaction: shown only with a value of their own."""
LATER: Final = ("next_producer_epoch", "last_producer_epoch", "timed_out_epoch", "init_version")
"""Tagged fields that Kafka 4.3.1 does not know, and does not show; `stuntbroker dump` does."""


def shown_as_json(formatter: str, key: bytes, value: bytes | None) -> str:
    """Return a record as Kafka's formatter of this name prints it; empty for another kind. Raises CommandError if damaged."""
    kind = KINDS[formatter]
    key_type = _version_of(key)
    if key_type not in kind.key_types:
        return ""
    try:
        document: dict[str, Any] = {
            "key": {"type": key_type, "data": _fields(kind.key.decode(key, 0, 2), 0)},
            "value": None,
        }
        if value is not None:
            version = _version_of(value)
            known = min(version, kind.value_version_max)
            data = _fields(kind.value.decode(value, known, 2), known)
            document["value"] = {"version": version, "data": data}
    except DecodeError as fault:
        raise CommandError(f"the record is not one of {formatter}: {fault}") from None
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _version_of(data: bytes) -> int:
    return int.from_bytes(data[:2], "big", signed=True) if len(data) >= 2 else -1


def _fields(message: Message, version: int) -> dict[str, Any]:
    """Return the fields that a message of this version has, by the names in Kafka's schema."""
    default = type(message)()
    fields = {}
    for name in message.FIELDS:
        value = getattr(message, name)
        is_absent = name in LATER or (name in OPTIONAL and value == getattr(default, name))
        if version in VERSIONS.get(name, (version,)) and not is_absent:
            first, *others = name.split("_")
            fields[first + "".join(map(str.title, others))] = _value(name, value, version)
    return fields


def _value(name: str, value: Any, version: int) -> Any:
    if name == "topic_id":
        return urlsafe_b64encode(value).decode().rstrip("=")
    if isinstance(value, bytes | bytearray | memoryview):
        return b64encode(value).decode()
    if isinstance(value, list | tuple):
        return [_fields(each, version) if isinstance(each, Message) else each for each in value]
    return value
