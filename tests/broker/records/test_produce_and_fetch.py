"""Acknowledgements of Produce, waiting Fetch requests, and the errors for corrupt batches."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from struct import pack
from typing import Any

import pytest

from stuntbroker.coordinator.records import phase_of
from stuntbroker.protocol.batches.records import TRANSACTIONAL, BatchHeader, build_batch, only_record, read_header, seal
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.hashing import partition_for
from stuntbroker.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from stuntbroker.protocol.messages.api_versions_request import ApiVersionsRequest
from stuntbroker.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.fetch_request import FetchPartition, FetchTopic, ForgottenTopic
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from stuntbroker.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from stuntbroker.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from stuntbroker.protocol.topic_names import TXN_STATE
from tests.kit.bystander import Bystander
from tests.kit.groups.group_requests import init, pair, write
from tests.kit.produce_and_fetch import GOOD, changed, fetch, produce
from tests.kit.rig import KEYS, START_MS, Client, Rig, decode, frame, running_rig, turn
from tests.kit.valid_requests import TOPIC, batch

Code = ErrorCode


def error_of(client: Client, data: bytes | None, version: int = 9) -> ErrorCode:
    return ErrorCode(client.ask(produce(data), version).responses[0].partition_responses[0].error_code)


def first(answers: list[bytes]) -> Any:
    """Return the first partition of the only response."""
    (answer,) = answers
    return decode(answer, 1, 12).responses[0].partitions[0]


# --- corrupt batches

CORRUPT = {
    "null": (None, Code.INVALID_RECORD),
    "empty": (b"", Code.INVALID_RECORD),
    "cut in its header": (GOOD[:40], Code.INVALID_RECORD),
    "cut at its end": (GOOD[:-1], Code.INVALID_RECORD),
    "another byte in it": (changed(GOOD, 70, b"\x55", sealed=False), Code.CORRUPT_MESSAGE),
    "wrong CRC": (changed(GOOD, 17, b"\0\0\0\0", sealed=False), Code.CORRUPT_MESSAGE),
    "length 0": (changed(GOOD, 8, pack(">i", 0), sealed=False), Code.CORRUPT_MESSAGE),
    "length -1": (changed(GOOD, 8, pack(">i", -1), sealed=False), Code.CORRUPT_MESSAGE),
    "length 2^31-1": (changed(GOOD, 8, pack(">i", 2**31 - 1), sealed=False), Code.UNKNOWN_SERVER_ERROR),
    "magic 1": (changed(GOOD, 16, b"\x01", sealed=False), Code.INVALID_RECORD),
    "codec 7": (changed(GOOD, 21, b"\0\x07"), Code.UNKNOWN_SERVER_ERROR),
    "a control batch": (changed(GOOD, 21, b"\0\x20"), Code.INVALID_RECORD),
    "count 0": (changed(GOOD, 57, pack(">i", 0)), Code.INVALID_RECORD),
    "count -1": (changed(GOOD, 57, pack(">i", -1)), Code.INVALID_RECORD),
    "count 2^31-1": (changed(GOOD, 57, pack(">i", 2**31 - 1)), Code.INVALID_RECORD),
    "count and delta 2^31-1": (
        changed(changed(GOOD, 57, pack(">i", 2**31 - 1)), 23, pack(">i", 2**31 - 2)),
        Code.INVALID_RECORD,
    ),
    "base offset 1": (changed(GOOD, 0, pack(">q", 1)), Code.INVALID_RECORD),
    "a record that runs over": (changed(GOOD, 61, b"\x7e"), Code.INVALID_RECORD),
    "far in the future": (batch(timestamp=2**62), Code.INVALID_TIMESTAMP),
    "two batches": (GOOD + GOOD, Code.INVALID_RECORD),
    "17 zeroes behind it": (GOOD + bytes(17), Code.CORRUPT_MESSAGE),
}


@pytest.mark.parametrize("what", CORRUPT)
async def test_a_corrupt_batch_gets_the_error_of_kafka_and_the_next_batch_is_accepted(
    what: str, data_dir: Path
) -> None:
    data, expected = CORRUPT[what]
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        assert error_of(client, data) == expected
        assert error_of(client, GOOD) == Code.NONE


@pytest.mark.parametrize("stamps", ["CreateTime", "LogAppendTime"])
async def test_a_batch_marked_log_append_time_is_refused_if_the_topic_sets_it_or_it_has_no_timestamp(
    stamps: str, data_dir: Path
) -> None:
    """A topic with LogAppendTime reports every record of such a batch; other topics do so only if it has no timestamp."""
    said, none = changed(GOOD, 21, b"\0\x08"), changed(changed(GOOD, 21, b"\0\x08"), 27, b"\xff" * 16)
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC, message_timestamp_type=stamps)
        client = rig.client()
        for data, refused in ((GOOD, False), (said, stamps != "CreateTime"), (none, True)):
            part = client.ask(produce(data), 9).responses[0].partition_responses[0]
            assert part.error_code == (Code.INVALID_TIMESTAMP if refused else Code.NONE)
            assert [item.batch_index for item in part.record_errors] == ([0, 1, 2] if refused else [])


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
async def test_a_batch_that_is_not_compressed_with_its_declared_codec_is_refused(codec: int, data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        assert error_of(client, changed(GOOD, 21, bytes((0, codec)))) == Code.UNKNOWN_SERVER_ERROR
        assert error_of(client, GOOD) == Code.NONE


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
@pytest.mark.parametrize("policy", ["delete", "compact"])
async def test_a_compression_bomb_costs_bounded_memory(codec: int, policy: str, data_dir: Path) -> None:
    """A batch of a few kilobytes (snappy: ten megabytes) has one record with 200 MB of zeros."""
    from stuntbroker.protocol.batches.compression import compress

    payload = bytes(200_000_000)
    small = compress(codec, payload)
    del payload
    data = bytearray(GOOD[:61] + small)
    data[8:12] = pack(">i", len(data) - 12)
    data[21:23] = bytes((0, codec))
    seal(data)
    async with running_rig(data_dir, {"message.max.bytes": "20000000"}) as rig:
        rig.topic(TOPIC, cleanup_policy=policy)
        bystander = Bystander(rig)
        client = rig.client()
        tracemalloc.start()
        try:
            client.feed(frame(produce(bytes(data)), 9))
            while client.connection.is_busy:
                await turn(1)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        (answer,) = client.answers()
        error = decode(answer, KEYS["Produce"], 9).responses[0].partition_responses[0].error_code
        assert error == (Code.MESSAGE_TOO_LARGE if policy == "compact" else Code.NONE)
        assert peak < (48 << 20 if policy == "compact" else 4 << 20) + 4 * len(data)
        bystander.work()


# --- acks


async def test_acks_0_gets_no_response_and_the_next_request_is_answered(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        client.feed(frame(produce(GOOD, acks=0), 9, correlation=1) + frame(ApiVersionsRequest(), 0, correlation=2))
        assert [answer[:4] for answer in client.answers()] == [pack(">i", 2)]
        assert rig.log(TOPIC, 0).next_offset == 3


@pytest.mark.parametrize("data", [GOOD[:-1], CORRUPT["wrong CRC"][0]])
async def test_acks_0_with_an_error_closes_the_connection(data: bytes, data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        client.feed(frame(produce(data, acks=0), 9))
        assert client.transport.closed
        assert rig.events.names() == ["unacknowledged_produce_failed"]


@pytest.mark.parametrize("acks", [2, -2, 32_767])
async def test_invalid_acks_are_refused(acks: int, data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        answer = rig.client().ask(produce(GOOD, acks=acks), 9)
        assert answer.responses[0].partition_responses[0].error_code == Code.INVALID_REQUIRED_ACKS
        assert rig.log(TOPIC, 0).next_offset == 0


# --- waiting fetches


def waiters(rig: Rig) -> int:
    return sum(len(log.waiters) for topic in rig.broker.topics for log in topic.partitions)


async def test_a_fetch_is_answered_when_a_record_comes(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        reader = rig.client()
        reader.feed(frame(fetch(), 12))
        await turn()
        assert not reader.answers()
        assert error_of(rig.client(), GOOD) == Code.NONE
        await turn()
        assert len(first(reader.answers()).records) == len(GOOD)
        assert waiters(rig) == 0


def phases_in(data: bytes) -> list[str]:
    """Return the phase in each of these records of the transaction log."""
    phases, at = [], 0
    while at < len(data):
        size = read_header(data, at).size
        key, value = only_record(data[at : at + size]) or (b"", None)
        assert value is not None
        phases.append(phase_of(value, key.decode()).name)
        at += size
    return phases


@pytest.mark.parametrize("in_slices", [False, True])
async def test_a_waiting_fetch_of_the_transaction_log_returns_each_state_change(
    in_slices: bool, data_dir: Path
) -> None:
    async with running_rig(data_dir) as rig:
        if in_slices:
            rig.broker.transactions.markers_at_once_max = 0
        rig.topic(TOPIC)
        writer, reader = rig.client(), rig.client()
        owner = pair(init(writer, "id"))
        log = rig.broker.topics.internal_topic(TXN_STATE).partitions[partition_for("id", 50)]

        def wait_for(size_min: int) -> None:
            wanted = FetchPartition(log.index, -1, log.next_offset, -1, -1, 1_000_000)
            reader.feed(frame(fetch(min_bytes=size_min, topics=[FetchTopic(TXN_STATE, partitions=[wanted])]), 12))
            assert not reader.answers()

        async def more() -> list[str]:
            await turn()
            return phases_in(first(reader.answers()).records)

        await turn()
        wait_for(1)
        assert not write(writer, "id", owner, "value")
        assert await more() == ["ONGOING"]
        wait_for(200)  # Larger than one record.
        writer.feed(frame(EndTxnRequest("id", *owner, True), 5))
        for _ in range(4):  # Later turns write the markers.
            await turn()
        assert await more() == ["PREPARE_COMMIT", "COMPLETE_COMMIT"]


async def test_a_fetch_waits_for_its_min_bytes(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        reader, writer = rig.client(), rig.client()
        reader.feed(frame(fetch(min_bytes=2 * len(GOOD)), 12))
        assert error_of(writer, GOOD) == Code.NONE
        await turn()
        assert not reader.answers()
        assert error_of(writer, GOOD) == Code.NONE
        await turn()
        assert len(first(reader.answers()).records) == 2 * len(GOOD)


async def test_a_fetch_that_reaches_the_end_of_a_closed_segment_does_not_wait_for_min_bytes(data_dir: Path) -> None:
    """As in Kafka, the next fetch can read the following segment, so this fetch need not wait for more bytes."""
    large = build_batch([(b"k", bytes(700_000))], START_MS)
    limit = {"min_bytes": 4 << 20, "max_bytes": 8 << 20}
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC, segment_bytes="1048576")
        reader, writer = rig.client(), rig.client()
        for _ in range(3):
            assert error_of(writer, bytes(large)) == Code.NONE
        assert len(rig.log(TOPIC, 0).segments) == 3
        for offset in (0, 1):
            wanted = FetchPartition(0, -1, offset, -1, -1, 8 << 20)
            answer = reader.ask(fetch(topics=[FetchTopic(TOPIC, partitions=[wanted])], **limit), 12)
            part = answer.responses[0].partitions[0]
            assert read_header(part.records).base_offset == offset
            assert len(part.records) == len(large)
        wanted = FetchPartition(0, -1, 2, -1, -1, 8 << 20)
        reader.feed(frame(fetch(topics=[FetchTopic(TOPIC, partitions=[wanted])], **limit), 12))
        await turn()
        assert not reader.answers()  # The last segment may grow.


async def test_a_fetch_returns_the_available_records_after_max_wait_ms(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        error_of(rig.client(), GOOD)
        reader = rig.client()
        reader.feed(frame(fetch(min_bytes=100_000, max_wait_ms=500), 12))
        rig.pass_time(499)
        assert not reader.answers()
        rig.pass_time(1)
        assert len(first(reader.answers()).records) == len(GOOD)
        assert waiters(rig) == 0


async def test_a_read_committed_fetch_is_woken_by_the_commit_and_not_by_the_records(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        writer, reader = rig.client(), rig.client()
        owner = writer.ask(InitProducerIdRequest("txn", 60_000), 4)
        records = batch(2, owner.producer_id, owner.producer_epoch, 0)
        reader.feed(frame(fetch(isolation_level=1), 12))
        writer.ask(produce(records, transactional_id="txn"), 12)
        await turn()
        assert not reader.answers()
        writer.ask(EndTxnRequest("txn", owner.producer_id, owner.producer_epoch, True), 5)
        await turn()
        assert len(first(reader.answers()).records) > len(records)


async def test_a_fetch_is_answered_when_its_topic_is_deleted(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        reader = rig.client()
        reader.feed(frame(fetch(), 12))
        rig.client().ask(DeleteTopicsRequest([DeleteTopicState(TOPIC)], timeout_ms=1), 6)
        await turn()
        assert first(reader.answers()).error_code == Code.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_topic_that_was_fetched_by_its_id_before_it_was_deleted_is_an_unknown_topic_and_not_an_unknown_id(
    data_dir: Path,
) -> None:
    async with running_rig(data_dir) as rig:
        topic_id = rig.topic(TOPIC).id
        waiting, in_session, newcomer = (rig.client() for _ in range(3))
        wanted = FetchTopic(topic_id=topic_id, partitions=[FetchPartition(0, -1, 0, -1, -1, 1_000_000)])
        waiting.feed(frame(fetch(topics=[wanted]), 13))
        first_fetch = fetch(topics=[wanted], max_wait_ms=0, session_epoch=0)
        session_id = in_session.ask(first_fetch, 13).session_id
        rig.client().ask(DeleteTopicsRequest([DeleteTopicState(TOPIC)], timeout_ms=1), 6)
        await turn()
        (answer,) = waiting.answers()
        answers = [decode(answer, 1, 13)]
        for epoch in (1, 2):
            request = fetch(topics=[], max_wait_ms=0, session_id=session_id, session_epoch=epoch)
            answers.append(in_session.ask(request, 13))
        codes = [each.responses[0].partitions[0].error_code for each in answers]
        assert codes == [Code.UNKNOWN_TOPIC_OR_PARTITION] * 3
        never_found = newcomer.ask(fetch(topics=[wanted], max_wait_ms=0), 13).responses[0].partitions[0]
        assert never_found.error_code == Code.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("wanted", [("nosuch", 0), (TOPIC, 7)])
async def test_an_unknown_partition_does_not_end_the_wait_for_others_and_is_answered_at_once_alone(
    wanted: tuple[str, int], data_dir: Path
) -> None:
    """As in Kafka. Otherwise a consumer of a deleted topic and others would fetch in a busy loop."""
    name, index = wanted
    known = FetchTopic(TOPIC, partitions=[FetchPartition(0, -1, 0, -1, -1, 1_000_000)])
    unknown = FetchTopic(name, partitions=[FetchPartition(index, -1, 0, -1, -1, 1_000_000)])
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        reader = rig.client()
        alone = reader.ask(fetch(topics=[unknown], max_wait_ms=500), 12).responses[0].partitions[0]
        assert alone.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION

        reader.feed(frame(fetch(topics=[unknown, known], max_wait_ms=500), 12))
        await turn()
        assert not reader.answers()
        rig.pass_time(500)
        (answer,) = reader.answers()
        codes = [part.error_code for topic in decode(answer, 1, 12).responses for part in topic.partitions]
        assert codes == [Code.NONE, Code.UNKNOWN_TOPIC_OR_PARTITION]


async def test_a_fetch_waits_for_no_more_than_its_max_bytes(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        assert error_of(client, GOOD) == Code.NONE
        answer = client.ask(fetch(min_bytes=3 * len(GOOD), max_bytes=len(GOOD), max_wait_ms=500), 12)
        assert len(answer.responses[0].partitions[0].records) == len(GOOD)


async def test_a_waiting_fetch_returns_the_records_of_a_recreated_topic(data_dir: Path) -> None:
    """The topic is deleted and recreated within one turn, so the waiting request does not notice."""
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        reader, other = rig.client(), rig.client()
        reader.feed(frame(fetch(), 12))
        other.ask(DeleteTopicsRequest([DeleteTopicState(TOPIC)], timeout_ms=1), 6)
        rig.topic(TOPIC)
        await turn()
        assert not reader.answers()
        error_of(other, GOOD)
        await turn()
        assert len(first(reader.answers()).records) == len(GOOD)


async def test_a_client_that_disconnects_while_its_fetch_waits_leaves_no_waiter(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        readers = [rig.client() for _ in range(10)]
        for reader in readers:
            reader.feed(frame(fetch(), 12))
        assert waiters(rig) == 10
        for reader in readers:
            reader.disconnect()
        assert waiters(rig) == 0
        assert not rig.broker.connections
        error_of(rig.client(), GOOD)
        await turn()
        rig.pass_time(60_000)


async def test_a_fetch_session_returns_only_changed_partitions(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        rig.topic("other")
        client = rig.client()
        topics = [
            FetchTopic(name, partitions=[FetchPartition(0, -1, 0, -1, -1, 1_000_000)]) for name in (TOPIC, "other")
        ]
        opened = client.ask(fetch(max_wait_ms=0, session_epoch=0, topics=topics), 12)
        assert opened.session_id
        assert len(opened.responses) == 2
        at = {"session_id": opened.session_id, "max_wait_ms": 0, "topics": []}
        assert client.ask(fetch(**at, session_epoch=1), 12).responses == []
        error_of(client, GOOD)
        changes = client.ask(fetch(**at, session_epoch=2), 12)
        assert [topic.topic for topic in changes.responses] == [TOPIC]
        assert client.ask(fetch(**at, session_epoch=2), 12).error_code == Code.INVALID_FETCH_SESSION_EPOCH
        gone = ForgottenTopic(TOPIC, partitions=[0])
        assert client.ask(fetch(**at, session_epoch=3, forgotten_topics_data=[gone]), 12).responses == []
        client.ask(fetch(**at, session_epoch=-1), 12)
        assert client.ask(fetch(**at, session_epoch=4), 12).error_code == Code.FETCH_SESSION_ID_NOT_FOUND


async def test_the_oldest_fetch_session_is_evicted_at_the_limit(data_dir: Path) -> None:
    async with running_rig(data_dir, {"max.incremental.fetch.session.cache.slots": "2"}) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        ids = [client.ask(fetch(max_wait_ms=0, session_epoch=0), 12).session_id for _ in range(3)]
        codes = [client.ask(fetch(max_wait_ms=0, session_id=each, session_epoch=1), 12).error_code for each in ids]
        assert codes == [Code.FETCH_SESSION_ID_NOT_FOUND, 0, 0]


# --- the transaction log as a topic


def read_of_log(client: Client, way: str) -> int:
    """Return the number of records in partition 0 of the transaction log, read with the request given by `way`."""
    if way == "fetch":
        wanted = FetchTopic(TXN_STATE, partitions=[FetchPartition(0, -1, 0, -1, -1, 1_000_000)])
        records = client.ask(fetch(max_wait_ms=0, topics=[wanted]), 12).responses[0].partitions[0].records
        return sum(1 for _ in batches_in(records))
    if way == "latest":
        at = ListOffsetsTopic(TXN_STATE, [ListOffsetsPartition(0, -1, -1)])
        return int(client.ask(ListOffsetsRequest(-1, 0, [at]), 6).topics[0].partitions[0].offset)
    end = OffsetForLeaderTopic(TXN_STATE, [OffsetForLeaderPartition(0, -1, 0)])
    return int(client.ask(OffsetForLeaderEpochRequest(-1, [end]), 4).topics[0].partitions[0].end_offset)


def batches_in(records: bytes) -> Iterator[BatchHeader]:
    at = 0
    while at < len(records):
        yield (header := read_header(records[at:]))
        at += header.size


@pytest.mark.parametrize("way", ["fetch", "latest", "epoch"])
async def test_a_read_of_the_transaction_log_returns_the_complete_record_once_the_commit_is_answered(
    data_dir: Path, way: str
) -> None:
    """This holds although the Complete record is written to the file only with the next record."""
    async with running_rig(data_dir, {"transaction.state.log.num.partitions": "1"}) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        owner = client.ask(InitProducerIdRequest("txn", 60_000), 4)
        pair = owner.producer_id, owner.producer_epoch
        data = build_batch(
            [(b"k", b"v")],
            START_MS,
            producer_id=pair[0],
            producer_epoch=pair[1],
            base_sequence=0,
            attributes=TRANSACTIONAL,
        )
        client.ask(produce(bytes(data), transactional_id="txn"), 12)
        client.ask(EndTxnRequest("txn", *pair, True), 5)

        assert read_of_log(client, way) == len(["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"])


# --- markers in internal logs


async def test_a_marker_in_the_transaction_log_does_not_keep_the_broker_from_starting(data_dir: Path) -> None:
    """Clients can cause such a marker with WriteTxnMarkers, or by adding the log's partitions to a transaction."""
    log = TXN_STATE
    async with running_rig(data_dir) as rig:
        client = rig.client()
        owner = client.ask(InitProducerIdRequest("txn", 60_000), 4)
        count = len(rig.logs(log))
        topics = [WritableTxnMarkerTopic(log, list(range(count)))]
        client.ask(WriteTxnMarkersRequest([WritableTxnMarker(77, 0, True, topics, 0, 0)]), 2)
        added = AddPartitionsToTxnTransaction(
            "txn", owner.producer_id, owner.producer_epoch, False, [AddPartitionsToTxnTopic(log, [0, 1])]
        )
        client.ask(AddPartitionsToTxnRequest([added]), 4)
        client.ask(EndTxnRequest("txn", owner.producer_id, owner.producer_epoch, False), 5)
    async with running_rig(data_dir) as rig:
        restarted = rig.client().ask(InitProducerIdRequest("txn", 60_000), 4)
        assert restarted.producer_id == owner.producer_id
        Bystander(rig).work()


async def test_extreme_timestamps_are_stored_and_survive_a_restart(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC, message_timestamp_after_max_ms=str(2**63 - 1))
        client = rig.client()
        for timestamp in (0, START_MS, 2**62):
            made_batch = bytes(build_batch([(b"k", b"v")], timestamp))
            assert error_of(client, made_batch) == Code.NONE
        rig.log(TOPIC, 0).roll()
        assert error_of(client, GOOD) == Code.NONE
    async with running_rig(data_dir) as rig:
        assert rig.log(TOPIC, 0).next_offset == 6
