"""Records of `__consumer_offsets` have the same bytes as Kafka's."""

from __future__ import annotations

from struct import pack

import pytest

from stuntbroker.groups.classic.records import group_key, group_value
from stuntbroker.groups.classic.state import Group, GroupState, Member, Protocol
from stuntbroker.groups.offset_records import OffsetRecord, offset_key, offset_value
from stuntbroker.groups.offsets import StoredOffset
from stuntbroker.groups.records import GroupRecord, read_record
from stuntbroker.protocol.caches import CACHED_MAX
from stuntbroker.protocol.hashing import hashes, java_hash, partition_for
from stuntbroker.protocol.primitives import ZERO_UUID, DecodeError

NOW = 1_700_000_000_000
TOPIC_ID = bytes.fromhex("00000000000000010000000000000002")


def offset(**changes: object) -> StoredOffset:
    return StoredOffset(3, 10, -1, "", NOW, -1, ZERO_UUID)._replace(**changes)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (offset(), "0004000000000000000affffffff010000018bcfe5680000"),
        (
            offset(topic_id=TOPIC_ID),
            "0004000000000000000affffffff010000018bcfe5680001001000000000000000010000000000000002",
        ),
        (offset(expires_at_ms=NOW), "0001000000000000000a00000000018bcfe568000000018bcfe56800"),
    ],
)  # fmt: skip
def test_offset_value(value: StoredOffset, expected: str) -> None:
    assert offset_value(value).hex() == expected
    assert read_record(3, offset_key("g", ("t", 0)), bytes.fromhex(expected)) == OffsetRecord("g", ("t", 0), value)


OLD_OFFSETS = [
    "0000000000000000000a00000000018bcfe56800",
    "0001000000000000000a00000000018bcfe56800ffffffffffffffff",
    "0002000000000000000a00000000018bcfe56800",
    "0003000000000000000affffffff00000000018bcfe56800",
]


@pytest.mark.parametrize("data", OLD_OFFSETS)
@pytest.mark.parametrize("kind", [0, 1])
def test_offsets_of_all_versions_are_read(data: str, kind: int) -> None:
    key = pack(">h", kind) + bytes.fromhex("00016700017400000000")

    assert read_record(3, key, bytes.fromhex(data)) == OffsetRecord("g", ("t", 0), offset())


def test_keys() -> None:
    assert offset_key("g", ("t", 0)).hex() == "000100016700017400000000"
    assert group_key("g").hex() == "0002000167"


def test_tombstones() -> None:
    assert read_record(3, offset_key("g", ("t", 0)), None) == OffsetRecord("g", ("t", 0), None)
    assert read_record(3, group_key("g"), None) == GroupRecord("g", None)


def text(value: str) -> bytes:
    return pack(">h", len(value)) + value.encode()


def test_group_value_of_a_new_group() -> None:
    group = Group("g", entered_at_ms=NOW)
    expected = pack(">h", 3) + text("") + pack(">i", 0) + b"\xff\xff" + b"\xff\xff" + pack(">qi", NOW, 0)

    assert group_value(group) == expected
    assert read_record(0, group_key("g"), expected) == GroupRecord("g", group)


def test_group_value_with_members() -> None:
    metadata = bytes.fromhex("0000 00000001 000174 ffffffff")
    members = [
        Member("m", None, "c", "/h", 6_000, 7_000, (Protocol("range", metadata),), b"A"),
        Member("i-1", "i", "d", "/h", 8_000, 9_000, (Protocol("range", metadata),), b""),
    ]
    group = Group(
        "g",
        state=GroupState.STABLE,
        entered_at_ms=NOW,
        protocol_type="consumer",
        protocol_name="range",
        generation=4,
        leader_id="m",
        members={member.member_id: member for member in members},
        subscribed_topics=frozenset({"t"}),
    )
    expected = pack(">h", 3) + text("consumer") + pack(">i", 4) + text("range") + text("m") + pack(">qi", NOW, 2)
    for member, instance in zip(members, (b"\xff\xff", text("i")), strict=True):
        expected += text(member.member_id) + instance + text(member.client_id) + text("/h")
        expected += pack(">ii", member.rebalance_timeout_ms, member.session_timeout_ms)
        expected += pack(">i", len(metadata)) + metadata + pack(">i", len(member.assignment)) + member.assignment

    assert group_value(group) == expected
    assert read_record(0, group_key("g"), expected) == GroupRecord("g", group)


def test_a_group_of_version_0_has_the_session_time_as_its_rebalance_time() -> None:
    data = pack(">h", 0) + text("consumer") + pack(">i", 4) + text("range") + text("m") + pack(">i", 1)
    data += text("m") + text("c") + text("/h") + pack(">i", 7_000) + pack(">i", 0) + pack(">i", 0)
    read = read_record(0, group_key("g"), data)

    assert isinstance(read, GroupRecord) and read.group is not None
    assert read.group.members["m"].rebalance_timeout_ms == 7_000
    assert read.group.entered_at_ms is None
    assert read.group.subscribed_topics is None


@pytest.mark.parametrize("kind", [3, 8, 16, 99])
def test_records_of_other_group_types_are_skipped(kind: int) -> None:
    assert read_record(0, pack(">h", kind) + b"whatever", b"whatever") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"\0", b""),
        (bytes(offset_key("g", ("t", 0))), b""),
        (bytes(offset_key("g", ("t", 0))), b"\0\5"),
        (bytes(offset_key("g", ("t", 0))), b"\0\4\0"),
        (bytes(offset_key("g", ("t", 0)))[:-1], None),
        (bytes(group_key("g")), b"\xff\xff"),
    ],
)
def test_malformed_group_records_raise_decode_error(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(DecodeError):
        read_record(0, key, value)


@pytest.mark.parametrize(
    ("key", "hashed", "partition"),
    [
        ("", 0, 0),
        ("g", 103, 3),
        ("txn-1", None, 10),
        ("polygenelubricants", -(2**31), 0),
        ("é", 233, 33),
        ("\U0001f600", 1_772_899, 49),
    ],
)
def test_a_key_is_hashed_to_its_partition_as_in_java(key: str, hashed: int | None, partition: int) -> None:
    assert hashed is None or java_hash(key) == hashed
    assert partition_for(key, 50) == partition


def test_the_cache_of_hashes_is_bounded_in_entries_and_in_the_length_of_keys() -> None:
    for index in range(CACHED_MAX + 5):
        partition_for(f"group-{index}", 50)
    long_key = "g" * 100_000

    assert partition_for(long_key, 50) == abs(java_hash(long_key)) % 50
    assert 0 < len(hashes) <= CACHED_MAX
    assert long_key not in hashes
