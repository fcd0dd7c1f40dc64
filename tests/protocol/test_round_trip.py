"""Every field of a message survives encoding and decoding, in every version that has the field."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from schema import Field, Message, Range, Struct

from stuntbroker.protocol.api_keys import APIS
from stuntbroker.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from tests.kit.message_samples import (
    CASES,
    MESSAGES,
    class_of,
    encoded,
    in_every_version,
    module_of,
    random_message,
    random_struct,
)

SAMPLES = 5


@in_every_version
def test_a_message_decodes_to_what_was_encoded(message: Message, version: int) -> None:
    random = Random(f"{message.name} {version}")
    for _ in range(SAMPLES):
        sent = random_message(message, version, random)
        wire = encoded(sent, version)

        assert class_of(message).decode(wire, version) == sent
        assert class_of(message).decode(memoryview(b"before" + wire), version, 6) == sent


def fill_what_is_absent(value: Any, struct: Struct, message: Message, version: int, random: Random) -> None:
    """Set every field that the version does not have."""
    for each in struct.fields:
        if not each.versions.covers(Range(version, version)):
            at = max(each.versions.low, message.versions.low)
            other = random_struct(Struct(struct.name, [each]), at, random, module_of(message))
            setattr(value, each.name, getattr(other, each.name))
        elif each.struct is not None:
            inner = getattr(value, each.name)
            for element in inner if each.array and inner is not None else [inner]:
                if element is not None:
                    fill_what_is_absent(element, each.struct, message, version, random)


@in_every_version
def test_a_field_that_the_version_does_not_have_changes_no_byte(message: Message, version: int) -> None:
    random = Random(f"{message.name} {version}")
    for _ in range(SAMPLES):
        sent = random_message(message, version, random)
        wire = encoded(sent, version)
        fill_what_is_absent(sent, message.root, message, version, random)

        assert encoded(sent, version) == wire


def refusals() -> list[tuple[Message, Struct, Field, int]]:
    """Every field that is nullable in some versions of its message, with each version in which it is not."""
    return [
        (message, struct, each, version)
        for message, version in CASES
        for struct in message.structs
        for each in struct.fields
        if each.versions.covers(Range(version, version))
        and not each.nullable.meet(message.versions).empty
        and not each.nullable.covers(Range(version, version))
    ]


@pytest.mark.parametrize(
    ("message", "struct", "each", "version"),
    refusals(),
    ids=[f"{message.name}-v{version}-{each.kafka_name}" for message, _, each, version in refusals()],
)
def test_null_is_not_sent_in_a_version_that_does_not_allow_it(
    message: Message, struct: Struct, each: Field, version: int
) -> None:
    value = getattr(module_of(message), struct.name)(**{each.name: None})
    if struct is not message.root:
        (parent,) = (f for f in message.root.fields if f.struct is struct)
        value = class_of(message)(**{parent.name: [value]})

    with pytest.raises((ValueError, TypeError, AttributeError)):
        encoded(value, version)


def test_messages_are_equal_only_with_the_same_class_and_equal_fields() -> None:
    each, other = PartitionData(partition_index=1), PartitionData(partition_index=2)

    assert each == PartitionData(partition_index=1)
    assert each != other
    assert FetchResponse(responses=()) == FetchResponse(responses=[])
    assert each != FetchableTopicResponse()
    assert repr(FetchableTopicResponse(topic="t")).startswith("FetchableTopicResponse(topic='t', ")


@pytest.mark.parametrize("version", [4, 11, 12, 18])
def test_the_parts_of_a_fetch_response_join_to_its_bytes_without_copying_records(version: int) -> None:
    records = [memoryview(b"first batch"), None, b"", memoryview(b"second batch")]
    answer = FetchResponse(
        responses=[FetchableTopicResponse(partitions=[PartitionData(i, records=r) for i, r in enumerate(records)])]
    )
    out = bytearray(b"header")
    parts = answer.encode_parts(out, version)

    assert b"".join(parts) == b"header" + encoded(answer, version)
    assert [part for part in parts if part is records[0] or part is records[3]] == [records[0], records[3]]


def test_the_table_of_apis_matches_the_schemas() -> None:
    requests = {each.key: each for each in MESSAGES if each.kind == "request"}
    answers = {each.key: each for each in MESSAGES if each.kind == "response"}

    assert APIS.keys() == requests.keys() == answers.keys()
    for key, api in APIS.items():
        for each in (requests[key], answers[key]):
            assert Range(api.version_min, api.version_max) == each.versions
            assert api.flexible_from == (32_767 if each.flexible.empty else each.flexible.low)
        assert class_of(requests[key]).__name__ == f"{api.name}Request"
        assert class_of(requests[key]).__module__ == f"stuntbroker.protocol.messages.{api.module}_request"
