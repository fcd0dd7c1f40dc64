"""What a message carries survives the wire, in every version that has it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from schema import Field, Message, Range, Struct

from stuntbroker.protocol.api_keys import APIS
from stuntbroker.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from tests.kit.message_samples import CASES, IDS, MESSAGES, class_of, encoded, module_of, random_message, random_struct

SAMPLES = 5
cases = pytest.mark.parametrize(("message", "version"), CASES, ids=IDS)


@cases
def test_a_message_decodes_to_what_was_encoded(message: Message, version: int) -> None:
    random = Random(f"{message.name} {version}")
    for _ in range(SAMPLES):
        sent = random_message(message, version, random)
        wire = encoded(sent, version)

        assert class_of(message).decode(wire, version) == sent
        assert class_of(message).decode(memoryview(b"before" + wire), version, 6) == sent


def fill_what_is_absent(value: Any, struct: Struct, message: Message, version: int, random: Random) -> None:
    """Sets every field that the version does not carry."""
    for one in struct.fields:
        if not one.versions.covers(Range(version, version)):
            at = max(one.versions.low, message.versions.low)
            other = random_struct(Struct(struct.name, [one]), at, random, module_of(message))
            setattr(value, one.name, getattr(other, one.name))
        elif one.struct is not None:
            inner = getattr(value, one.name)
            for element in inner if one.array and inner is not None else [inner]:
                if element is not None:
                    fill_what_is_absent(element, one.struct, message, version, random)


@cases
def test_a_field_that_the_version_does_not_have_changes_no_byte(message: Message, version: int) -> None:
    random = Random(f"{message.name} {version}")
    for _ in range(SAMPLES):
        sent = random_message(message, version, random)
        wire = encoded(sent, version)
        fill_what_is_absent(sent, message.root, message, version, random)

        assert encoded(sent, version) == wire


def refusals() -> list[tuple[Message, Struct, Field, int]]:
    """Every field that may be null in some versions of its message, with a version in which it may not."""
    return [
        (message, struct, one, version)
        for message, version in CASES
        for struct in message.structs
        for one in struct.fields
        if one.versions.covers(Range(version, version))
        and not one.nullable.meet(message.versions).empty
        and not one.nullable.covers(Range(version, version))
    ]


@pytest.mark.parametrize(
    ("message", "struct", "one", "version"),
    refusals(),
    ids=[f"{message.name}-v{version}-{one.kafka_name}" for message, _, one, version in refusals()],
)
def test_null_is_not_sent_in_a_version_that_does_not_allow_it(
    message: Message, struct: Struct, one: Field, version: int
) -> None:
    value = getattr(module_of(message), struct.name)(**{one.name: None})
    if struct is not message.root:
        (parent,) = (f for f in message.root.fields if f.struct is struct)
        value = class_of(message)(**{parent.name: [value]})

    with pytest.raises((ValueError, TypeError, AttributeError)):
        encoded(value, version)


def test_a_message_equals_only_one_of_its_kind_with_equal_fields() -> None:
    one, other = PartitionData(partition_index=1), PartitionData(partition_index=2)

    assert one == PartitionData(partition_index=1)
    assert one != other
    assert FetchResponse(responses=()) == FetchResponse(responses=[])
    assert one != FetchableTopicResponse()
    assert repr(FetchableTopicResponse(topic="t")).startswith("FetchableTopicResponse(topic='t', ")


@pytest.mark.parametrize("version", [4, 11, 12, 18])
def test_the_parts_of_an_answer_join_to_its_bytes_and_hold_the_records_uncopied(version: int) -> None:
    records = [memoryview(b"first batch"), None, b"", memoryview(b"second batch")]
    answer = FetchResponse(
        responses=[FetchableTopicResponse(partitions=[PartitionData(i, records=r) for i, r in enumerate(records)])]
    )
    out = bytearray(b"header")
    parts = answer.encode_parts(out, version)

    assert b"".join(parts) == b"header" + encoded(answer, version)
    assert [part for part in parts if part is records[0] or part is records[3]] == [records[0], records[3]]


def test_the_table_of_apis_is_what_the_schemas_say() -> None:
    requests = {one.key: one for one in MESSAGES if one.kind == "request"}
    answers = {one.key: one for one in MESSAGES if one.kind == "response"}

    assert APIS.keys() == requests.keys() == answers.keys()
    for key, api in APIS.items():
        for one in (requests[key], answers[key]):
            assert Range(api.version_min, api.version_max) == one.versions
            assert api.flexible_from == (32_767 if one.flexible.empty else one.flexible.low)
        assert class_of(requests[key]).__name__ == f"{api.name}Request"
        assert class_of(requests[key]).__module__ == f"stuntbroker.protocol.messages.{api.module}_request"
