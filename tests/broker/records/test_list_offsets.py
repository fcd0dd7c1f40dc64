"""ListOffsets by time."""

from __future__ import annotations

from pathlib import Path

import pytest

from stuntbroker.broker.handlers.k02_list_offsets import BATCH_STEPS, first_at
from stuntbroker.broker.produce.produce_checks import with_latest_timestamp
from stuntbroker.protocol.batches.budget import OPENING_STEPS, RECORD_STEPS, STEPS_MAX, ReadBudget
from stuntbroker.protocol.batches.compression import compress
from stuntbroker.protocol.batches.records import HEADER, HEADER_SIZE, build_batch, read_header, seal, zigzag
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from stuntbroker.protocol.request_values import MAX_TIMESTAMP
from stuntbroker.storage.partition import PartitionLog
from tests.kit.logs import log_config
from tests.kit.produce_and_fetch import produce
from tests.kit.rig import START_MS, Client, running_rig
from tests.kit.valid_requests import TOPIC

HOUR_MS = 3_600_000


def batch_of_times(*times: int) -> bytearray:
    """Return a batch with one record for each timestamp; keys and values are null."""
    out = build_batch([(None, None)], times[0])[:HEADER_SIZE]
    for number, time in enumerate(times):
        body = bytearray(b"\x00")
        zigzag(body, time - times[0])
        zigzag(body, number)
        body += b"\x01\x01\x00"
        zigzag(out, len(body))
        out += body
    fields = read_header(out)._replace(
        length=len(out) - 12, last_offset_delta=len(times) - 1, max_timestamp=max(times), count=len(times)
    )
    HEADER.pack_into(out, 0, *fields)
    seal(out)
    return out


def test_a_batch_whose_matching_record_is_below_the_log_start_does_not_hide_later_batches(tmp_path: Path) -> None:
    """The first record of the batch has been deleted, so a timestamp that only this record matches is found in the next batch."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    log = PartitionLog("t", 0, str(folder), log_config(), lambda _: None)
    for batch in (batch_of_times(1_000, 400), batch_of_times(2_000)):
        log.append_client(batch, read_header(batch), 0)

    assert first_at(log, 900, log.log_start_offset, ReadBudget()) == (1_000, 0)
    log.delete_records(1)
    assert first_at(log, 300, log.log_start_offset, ReadBudget()) == (400, 1)
    assert first_at(log, 900, log.log_start_offset, ReadBudget()) == (2_000, 2)
    assert first_at(log, 2_001, log.log_start_offset, ReadBudget()) == (-1, -1)
    left = ReadBudget()
    assert first_at(log, 1_500, log.log_start_offset, left) == (2_000, 2)
    assert left.steps == STEPS_MAX - BATCH_STEPS - RECORD_STEPS
    log.delete()


# --- batches without a max timestamp, as IBM/sarama up to 1.45.0 writes them

TIMES = (START_MS, START_MS - 5, START_MS + 2_000, START_MS + 1_000)


def without_max_timestamp(codec: int, times: tuple[int, ...] = TIMES) -> bytes:
    """Return a batch with records of these times, and -1 as its max timestamp."""
    created = batch_of_times(*times)
    payload = compress(codec, bytes(created[HEADER_SIZE:])) if codec else bytes(created[HEADER_SIZE:])
    out = created[:HEADER_SIZE] + payload
    HEADER.pack_into(out, 0, *read_header(out)._replace(length=len(out) - 12, attributes=codec, max_timestamp=-1))
    seal(out)
    return bytes(out)


def offset_at(client: Client, timestamp: int) -> tuple[int, int]:
    """Return (timestamp, offset) that ListOffsets finds."""
    wanted = ListOffsetsPartition(0, -1, timestamp)
    response = client.ask(ListOffsetsRequest(-1, 0, [ListOffsetsTopic(TOPIC, [wanted])]), 7)
    partition = response.topics[0].partitions[0]
    return partition.timestamp, partition.offset


@pytest.mark.parametrize("codec", range(5))
async def test_a_batch_without_a_max_timestamp_gets_that_of_its_records(codec: int, data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        client = rig.client()
        for _ in range(2):
            response = client.ask(produce(without_max_timestamp(codec)), 9)
            assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        stored = [header for _, header in rig.log(TOPIC, 0).segments[0].headers()]

        assert [header.max_timestamp for header in stored] == [START_MS + 2_000] * 2
        assert [offset_at(client, at) for at in (0, START_MS + 1_500, START_MS + 2_001, MAX_TIMESTAMP)] == [
            (START_MS, 0),
            (START_MS + 2_000, 2),
            (-1, -1),
            (START_MS + 2_000, 2),
        ]


async def test_a_batch_without_a_max_timestamp_may_not_be_from_the_future(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        rig.topic(TOPIC)
        future = without_max_timestamp(0, (START_MS, START_MS, START_MS + 2 * HOUR_MS))
        response = rig.client().ask(produce(future), 9).responses[0].partition_responses[0]

    assert response.error_code == ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("codec", range(5))
def test_the_work_for_a_missing_max_timestamp_is_limited(codec: int) -> None:
    """Of a batch beyond the budget, the records that were read count, and the base timestamp."""
    data = without_max_timestamp(codec)
    budget = ReadBudget((OPENING_STEPS if codec else 0) + 2 * RECORD_STEPS + 2)
    _, header = with_latest_timestamp(data, read_header(data), budget)

    assert header.max_timestamp == START_MS
    assert budget.steps < RECORD_STEPS


def test_records_that_cannot_be_read_leave_a_batch_without_a_max_timestamp_as_it_is() -> None:
    data = without_max_timestamp(0)[:-1]
    assert with_latest_timestamp(data, read_header(data), ReadBudget()) == (data, read_header(data))
