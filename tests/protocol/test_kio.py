"""Random messages have the same bytes as in kio, whose codecs are generated from Kafka's own message definitions."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from io import BytesIO
from random import Random
from types import NoneType, UnionType
from typing import Any, get_args, get_origin
from uuid import UUID

from kio.index import load_entity_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType
from schema import Message, Range, python_name

from stuntbroker.protocol.primitives import ZERO_UUID
from tests.kit.message_samples import CASES, class_of, encoded, in_versions, module_of, random_plain

SAMPLES = 8
UNKNOWN_TO_KIO = {
    "ApiVersionsRequest-v5", "ApiVersionsResponse-v5", "DeleteGroupsRequest-v3", "DeleteGroupsResponse-v3",
    "TxnOffsetCommitRequest-v6", "TxnOffsetCommitResponse-v6",
    "AbortedTxn-v0", "GroupMetadataKey-v0", "OffsetCommitKey-v0", "ProducerSnapshot-v1", "TransactionLogKey-v0",
    "TransactionLogValue-v0", "TransactionLogValue-v1",
    *(f"{name}-v{version}" for name in ("GroupMetadataValue", "OffsetCommitValue") for version in range(5)),
}  # fmt: skip
"""The newest versions, and records of internal topics and files. The golden bytes cover them."""

RENAMED = {"enable2_pc": "enable_2pc", "generation_id": "generation_id_or_member_epoch"}
"""kio's name -> our name, where our message has no field with kio's name. Kafka renamed the second one in 4.4."""

OUR_TAGS_FROM = 9_000
"""The first tag of fields that Kafka does not have. With its default value, a tagged field is not encoded."""


def kio_name(message: Message) -> tuple[str, EntityType]:
    name = python_name(message.name)
    if message.kind != "data":
        return name.removesuffix(f"_{message.kind}"), EntityType[message.kind]
    return name, EntityType.header if name.endswith("header") else EntityType.data


def knows(message: Message, version: int) -> bool:
    name, kind = kio_name(message)
    return kind in schema_name_map.get(name, {}).get(version, {})


in_every_known_version = in_versions([case for case in CASES if knows(*case)])


def test_kio_knows_every_message_that_is_not_listed_as_unknown_to_it() -> None:
    unknown = {f"{message.name}-v{version}" for message, version in CASES if not knows(message, version)}

    assert unknown == UNKNOWN_TO_KIO


def random_kio(hint: Any, kafka_type: str | None, random: Random) -> Any:
    """A value of one of kio's types."""
    if get_origin(hint) is UnionType:
        (inner,) = (each for each in get_args(hint) if each is not NoneType)
        return None if random.random() < 0.25 else random_kio(inner, kafka_type, random)
    if get_origin(hint) is tuple:
        return tuple(random_kio(get_args(hint)[0], kafka_type, random) for _ in range(random.randrange(4)))
    if is_dataclass(hint):
        return random_entity(hint, random)
    match kafka_type:
        case "error_code":
            return random.choice(list(ErrorCode))
        case "uuid":
            return UUID(bytes=random.randbytes(16))
        case "timedelta_i32":
            return timedelta(milliseconds=random_plain("int32", random))
        case "timedelta_i64":
            return timedelta(milliseconds=random.randint(-(2**45), 2**45))
        case "datetime_i64":
            return datetime.fromtimestamp(random.randint(0, 2**37), UTC)
    assert kafka_type is not None
    return random_plain(kafka_type, random)


def random_entity(kind: Any, random: Random) -> Any:
    return kind(
        **{
            each.name: random_kio(each.type, each.metadata.get("kafka_type"), random)
            for each in fields(kind)
            # Omitted fields get their default, which every tagged field has unless it is a structure.
            if "tag" not in each.metadata or each.default is MISSING or random.random() < 0.7
        }
    )


def ours(value: Any, kafka_type: str | None, message: Message, version: int) -> Any:
    """Convert a value of kio's types to our types."""
    match value:
        case None:
            return {"uuid": ZERO_UUID, "datetime_i64": -1}.get(kafka_type or "")
        case UUID():
            return value.bytes
        case timedelta():
            return value // timedelta(milliseconds=1)
        case datetime():
            return (value - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)
        case ErrorCode():
            return int(value)
        case tuple():
            return [ours(each, kafka_type, message, version) for each in value]
    return our_structure(value, message, version) if is_dataclass(value) else value


def our_name(theirs: str, known: Collection[str]) -> str:
    """Our name of a field. kio drops the unit (`_ms`) from the names of timestamps and durations."""
    return theirs if theirs in known else RENAMED.get(theirs, f"{theirs}_ms")


def our_structure(entity: Any, message: Message, version: int) -> Any:
    name = message.name if entity.__type__.name != "nested" else type(entity).__name__
    (struct,) = (each for each in message.structs if each.name == name)
    there = [f for f in struct.fields if f.versions.covers(Range(version, version))]
    present = {f.name: f for f in there if f.tag is None or f.tag < OUR_TAGS_FROM}
    given = {}
    for each in fields(entity):
        where = our_name(each.name, present)
        value = ours(getattr(entity, each.name), each.metadata.get("kafka_type"), message, version)
        field = present.pop(where)
        if field.tag is not None and field.struct and not field.array and value == type(value)():
            value = None  # The decoder gives None for an absent structure.
        given[where] = value
    assert not present, f"kio has no {present} in version {version} of {struct.name}"
    return getattr(module_of(message), struct.name)(**given)


def structures(kind: Any) -> list[Any]:
    """The class of a message and those of the structures in it."""
    actual = [kind]
    for each in fields(kind):
        for inner in (each.type, *get_args(each.type)):
            if is_dataclass(inner):
                actual += structures(inner)
    return actual


@in_every_known_version
def test_a_field_has_the_default_that_kio_gives_it(message: Message, version: int) -> None:
    kind = load_entity_schema(kio_name(message)[0], version, kio_name(message)[1])
    for theirs in structures(kind):
        name = message.name if theirs is kind else theirs.__name__
        fresh = getattr(module_of(message), name)()
        for each in fields(theirs):
            where = our_name(each.name, fresh.FIELDS)
            default = getattr(fresh, where)
            if each.default is MISSING:  # Zero, empty, or a structure of defaults.
                assert not default or default == ZERO_UUID or default == type(default)(), where
            else:
                expected = ours(each.default, each.metadata.get("kafka_type"), message, version)
                if default is None and "tag" in each.metadata and expected is not None:
                    default = type(expected)()  # A tagged structure that was not sent.
                assert (list(default) if isinstance(default, tuple) else default) == expected, where


@in_every_known_version
def test_random_messages_have_the_bytes_and_values_that_kio_gives_them(message: Message, version: int) -> None:
    kind = load_entity_schema(kio_name(message)[0], version, kio_name(message)[1])
    write, read = entity_writer(kind), entity_reader(kind)
    random = Random(f"{message.name} {version}")
    for _ in range(SAMPLES):
        theirs = random_entity(kind, random)
        mine = our_structure(theirs, message, version)
        buffer = BytesIO()
        write(buffer, theirs)

        assert encoded(mine, version) == buffer.getvalue()
        assert class_of(message).decode(buffer.getvalue(), version) == mine
        assert class_of(message).decode(memoryview(buffer.getvalue()), version) == mine
        assert read(encoded(mine, version), 0) == (theirs, len(buffer.getvalue()))
