"""Golden bytes, written by Apache Kafka 4.4.0's own classes, and the messages that they encode."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from schema import python_name

from stuntbroker.protocol.api_keys import APIS
from stuntbroker.protocol.crc import crc32c
from stuntbroker.protocol.messages.request_header import RequestHeader
from stuntbroker.protocol.messages.response_header import ResponseHeader
from tests.kit.message_samples import encoded

NOW = 1_700_000_000_000
TOPIC_ID = bytes.fromhex("00000000000000010000000000000002")


def make(name: str, struct: str | None = None, /, **given: Any) -> Any:
    """`struct`, or the message itself, of the module of the message `name`."""
    return getattr(import_module(f"stuntbroker.protocol.messages.{python_name(name)}"), struct or name)(**given)


def log_value(
    status: int, partitions: Any, epoch: int = 0, updated: int = NOW, started: int = -1, **tagged: int
) -> Any:
    return make(
        "TransactionLogValue",
        producer_id=1000,
        producer_epoch=epoch,
        transaction_timeout_ms=60_000,
        transaction_status=status,
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=updated,
        transaction_start_timestamp_ms=started,
        **tagged,
    )


def committed(**given: Any) -> Any:
    return make("OffsetCommitValue", offset=10, commit_timestamp=NOW, **given)


EMPTY, ONGOING, PREPARE_COMMIT, COMPLETE_COMMIT = 0, 1, 2, 4
T_0 = [make("TransactionLogValue", "PartitionsSchema", topic="t", partition_ids=[0])]
TV2 = {"previous_producer_id": 1000, "client_transaction_version": 2}

# (description, version, record, prefix, bytes after the prefix). The prefix is 0 in a key of the transaction log, the type of
# the record in a key of the offsets topic, and the version of the schema in a value.
RECORDS = [
    ("key of the transaction log", 0, make("TransactionLogKey", transactional_id="txn-1"),
     "0000", "000574786e2d31"),
    ("Empty", 0, log_value(EMPTY, None),
     "0000", "00000000000003e800000000ea6000ffffffff0000018bcfe56800ffffffffffffffff"),
    ("Empty", 1, log_value(EMPTY, None),
     "0001", "00000000000003e800000000ea6000000000018bcfe56800ffffffffffffffff00"),
    ("Empty, with the previous producer id", 1, log_value(EMPTY, None, previous_producer_id=1000),
     "0001", "00000000000003e800000000ea6000000000018bcfe56800ffffffffffffffff01000800000000000003e8"),
    ("Ongoing", 1, log_value(ONGOING, T_0, updated=NOW + 1, started=NOW + 1, **TV2),
     "0001", "00000000000003e800000000ea60010202740200000000000000018bcfe568010000018bcfe5680102000800000000000003e8"
     "02020002"),
    ("PrepareCommit at the last epoch", 1,
     log_value(PREPARE_COMMIT, T_0, epoch=32_767, updated=NOW + 2, started=NOW + 1, next_producer_id=2000, **TV2),
     "0001", "00000000000003e87fff0000ea60020202740200000000000000018bcfe568020000018bcfe5680103000800000000000003e8"
     "010800000000000007d002020002"),
    ("CompleteCommit", 1, log_value(COMPLETE_COMMIT, [], epoch=1, updated=NOW + 3, started=NOW + 1, **TV2),
     "0001", "00000000000003e800010000ea6004010000018bcfe568030000018bcfe5680102000800000000000003e802020002"),
    ("key of a committed offset", 0, make("OffsetCommitKey", group="g", topic="t", partition=0),
     "0001", "00016700017400000000"),
    ("committed offset", 0, committed(), "0000", "000000000000000a00000000018bcfe56800"),
    ("committed offset", 1, committed(), "0001", "000000000000000a00000000018bcfe56800ffffffffffffffff"),
    ("committed offset", 2, committed(), "0002", "000000000000000a00000000018bcfe56800"),
    ("committed offset", 3, committed(), "0003", "000000000000000affffffff00000000018bcfe56800"),
    ("committed offset", 4, committed(), "0004", "000000000000000affffffff010000018bcfe5680000"),
    ("committed offset with a topic id", 4, committed(topic_id=TOPIC_ID),
     "0004", "000000000000000affffffff010000018bcfe5680001001000000000000000010000000000000002"),
    ("key of a group", 0, make("GroupMetadataKey", group="g"), "0002", "000167"),
    ("value of a marker", 0, make("EndTxnMarker", coordinator_epoch=7), "0000", "00000007"),
    ("entry of a .txnindex file", 0,
     make("AbortedTxn", producer_id=1000, first_offset=10, last_offset=12, last_stable_offset=13),
     "0000", "00000000000003e8000000000000000a000000000000000c000000000000000d"),
    ("producer snapshot", 1,
     make("ProducerSnapshot", crc=0x4D212A81, producer_entries=[
         make("ProducerSnapshot", "ProducerEntry", producer_id=1000, epoch=5, last_sequence=-1, last_offset=-1,
              offset_delta=0, timestamp=NOW, coordinator_epoch=7, current_txn_first_offset=10)]),
     "0001", "4d212a810000000100000000000003e80005ffffffffffffffffffffffff000000000000018bcfe56800000000070000000000"
     "00000a"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("version", "record", "prefix", "body"), [row[1:] for row in RECORDS], ids=[f"{r[0]} v{r[1]}" for r in RECORDS]
)
def test_a_record_of_an_internal_topic_has_kafkas_bytes(version: int, record: Any, prefix: str, body: str) -> None:
    whole = bytes.fromhex(prefix + body)

    assert encoded(record, version).hex() == body
    assert type(record).decode(whole, version, 2) == record


@pytest.mark.parametrize(
    ("field", "section"),
    [
        ("previous_producer_id", "01 00 08 0000000000000009"),
        ("next_producer_id", "01 01 08 0000000000000009"),
        ("client_transaction_version", "01 02 02 0009"),
        ("next_producer_epoch", "01 03 02 0009"),
    ],
)
def test_a_later_field_of_the_transaction_log_has_kafkas_tag(field: str, section: str) -> None:
    untagged = encoded(make("TransactionLogValue"), 1)[:-1]

    assert encoded(make("TransactionLogValue", **{field: 9}), 1) == untagged + bytes.fromhex(section)


def test_the_crc_of_a_producer_snapshot_covers_what_follows_it() -> None:
    snapshot = bytes.fromhex(RECORDS[-1][3] + RECORDS[-1][4])

    assert crc32c(snapshot[6:]) == 0x4D212A81


def offsets_to_commit(version: int) -> Any:
    name = "TxnOffsetCommitRequest"
    of_topic = {"topic_id": TOPIC_ID} if version >= 6 else {"name": "a"}
    partition = make(name, f"{name}Partition", partition_index=0, committed_offset=10, committed_metadata="")
    return make(
        name,
        transactional_id="t",
        group_id="g",
        producer_id=1000,
        producer_epoch=3,
        generation_id_or_member_epoch=1,
        member_id="m",
        topics=[make(name, f"{name}Topic", partitions=[partition], **of_topic)],
    )


def fetched(**since_v5: int) -> Any:
    name = "FetchResponse"
    aborted = make(name, "AbortedTransaction", producer_id=1000, first_offset=2)
    partition = make(
        name,
        "PartitionData",
        partition_index=0,
        high_watermark=5,
        last_stable_offset=5,
        records=b"",
        aborted_transactions=[aborted],
        **since_v5,
    )
    return make(name, responses=[make(name, "FetchableTopicResponse", topic="a", partitions=[partition])])


ONE_API = [make("ApiVersionsResponse", "ApiVersion", api_key=18, min_version=0, max_version=4)]
FEATURE = "transaction.version"
WITH_FEATURE = {
    "supported_features": [
        make("ApiVersionsResponse", "SupportedFeatureKey", name=FEATURE, min_version=0, max_version=2)
    ],
    "finalized_features_epoch": 1,
    "finalized_features": [
        make("ApiVersionsResponse", "FinalizedFeatureKey", name=FEATURE, max_version_level=2, min_version_level=2)
    ],
}
IDENTITY = {"transactional_id": "t", "producer_id": 1000, "producer_epoch": 3}
ADD_0 = make("AddPartitionsToTxnRequest", "AddPartitionsToTxnTopic", name="a", partitions=[0])
MARKED_0 = make("WriteTxnMarkersRequest", "WritableTxnMarkerTopic", name="a", partition_indexes=[0])
MARKER = make(
    "WriteTxnMarkersRequest",
    "WritableTxnMarker",
    producer_id=1000,
    producer_epoch=4,
    transaction_result=True,
    topics=[MARKED_0],
    coordinator_epoch=7,
    transaction_version=2,
)

# (version of the message, version of its header, message, frame without its length)
FRAMES = [
    (0, 1, make("ApiVersionsRequest"), "0012000000000007000163"),
    (3, 2, make("ApiVersionsRequest", client_software_name="x", client_software_version="1"),
     "0012000300000007000163000278023100"),
    (0, 0, make("ApiVersionsResponse", api_keys=ONE_API), "00000007000000000001001200000004"),
    (3, 0, make("ApiVersionsResponse", api_keys=ONE_API), "00000007000002001200000004000000000000"),
    (4, 0, make("ApiVersionsResponse", api_keys=ONE_API, **WITH_FEATURE),
     "00000007000002001200000004000000000003001a02147472616e73616374696f6e2e76657273696f6e00000002000108000000000000"
     "0001021a02147472616e73616374696f6e2e76657273696f6e0002000200"),
    (0, 1, make("InitProducerIdRequest", transactional_id="t", transaction_timeout_ms=60_000),
     "00160000000000070001630001740000ea60"),
    (5, 2, make("InitProducerIdRequest", transaction_timeout_ms=60_000, **IDENTITY),
     "00160005000000070001630002740000ea6000000000000003e8000300"),
    (6, 2, make("InitProducerIdRequest", transactional_id="t", transaction_timeout_ms=60_000, enable_2pc=True,
                keep_prepared_txn=True), "00160006000000070001630002740000ea60ffffffffffffffffffff010100"),
    (5, 1, make("InitProducerIdResponse", producer_id=1000, producer_epoch=4),
     "000000070000000000000000000000000003e8000400"),
    (6, 1, make("InitProducerIdResponse", producer_id=1000, producer_epoch=4, ongoing_txn_producer_id=1000,
                ongoing_txn_producer_epoch=3),
     "000000070000000000000000000000000003e8000400000000000003e8000300"),
    (3, 2, make("AddPartitionsToTxnRequest", v3_and_below_transactional_id="t", v3_and_below_producer_id=1000,
                v3_and_below_producer_epoch=3, v3_and_below_topics=[ADD_0]),
     "001800030000000700016300027400000000000003e8000302026102000000000000"),
    (5, 2, make("AddPartitionsToTxnRequest", transactions=[
        make("AddPartitionsToTxnRequest", "AddPartitionsToTxnTransaction", verify_only=True, topics=[ADD_0],
             **IDENTITY)]),
     "00180005000000070001630002027400000000000003e80003010202610200000000000000"),
    (3, 2, make("AddOffsetsToTxnRequest", group_id="g", **IDENTITY),
     "001900030000000700016300027400000000000003e80003026700"),
    (5, 2, make("EndTxnRequest", committed=True, **IDENTITY), "001a00050000000700016300027400000000000003e800030100"),
    (4, 1, make("EndTxnResponse"), "000000070000000000000000"),
    (5, 1, make("EndTxnResponse", producer_id=1000, producer_epoch=4), "000000070000000000000000000000000003e8000400"),
    (2, 2, make("WriteTxnMarkersRequest", markers=[MARKER]),
     "001b000200000007000163000200000000000003e800040102026102000000000000000007020000"),
    (3, 2, offsets_to_commit(3),
     "001c000300000007000163000274026700000000000003e8000300000001026d000202610200000000000000000000000affffffff01000000"),
    (5, 2, offsets_to_commit(5),
     "001c000500000007000163000274026700000000000003e8000300000001026d000202610200000000000000000000000affffffff01000000"),
    (6, 2, offsets_to_commit(6),
     "001c000600000007000163000274026700000000000003e8000300000001026d000200000000000000010000000000000002020000000000"
     "0000000000000affffffff01000000"),
    (4, 0, fetched(),
     "00000007000000000000000100016100000001000000000000000000000000000500000000000000050000000100000000000003e8000000"
     "000000000200000000"),
    (12, 1, fetched(log_start_offset=0),
     "000000070000000000000000000000020261020000000000000000000000000005000000000000000500000000000000000200000000"
     "000003e8000000000000000200ffffffff01000000"),
]  # fmt: skip
FRAME_IDS = [f"{type(message).__name__} v{version}" for version, _, message, _ in FRAMES]


def header_of(message: Any, version: int) -> Any:
    name = type(message).__name__
    if name.endswith("Response"):
        return ResponseHeader(correlation_id=7)
    (key,) = (api.key for api in APIS.values() if f"{api.name}Request" == name)
    return RequestHeader(request_api_key=key, request_api_version=version, correlation_id=7, client_id="c")


@pytest.mark.parametrize(("version", "header_version", "message", "frame"), FRAMES, ids=FRAME_IDS)
def test_a_frame_has_kafkas_bytes(version: int, header_version: int, message: Any, frame: str) -> None:
    header = header_of(message, version)
    out = bytearray()
    header.encode(out, header_version)
    body_at = len(out)
    message.encode(out, version)

    assert out.hex() == frame
    assert type(header).decode(out, header_version) == header
    assert type(message).decode(out, version, body_at) == message


@pytest.mark.parametrize(("version", "header_version", "message", "frame"), FRAMES, ids=FRAME_IDS)
def test_the_header_is_flexible_with_its_message_except_for_api_versions_responses(
    version: int, header_version: int, message: Any, frame: str
) -> None:
    name = type(message).__name__
    (api,) = (each for each in APIS.values() if name in (f"{each.name}Request", f"{each.name}Response"))
    flexible = version >= api.flexible_from and name != "ApiVersionsResponse"

    assert header_version == flexible + name.endswith("Request")


def test_a_tag_that_is_not_known_is_skipped() -> None:
    request = make("EndTxnRequest", committed=True, **IDENTITY)
    known = encoded(request, 5)
    tagged = known[:-1] + bytes([2, 7, 3]) + b"abc" + bytes([0x90, 0x4E, 0])  # Tags 7 and 10000.

    assert type(request).decode(tagged, 5) == request
