"""ListOffsets by time."""

from __future__ import annotations

from pathlib import Path

from stuntbroker.broker.handlers.k02_list_offsets import BATCH_STEPS, RECORD_STEPS, first_at
from stuntbroker.protocol.batches.budget import STEPS_MAX, ReadBudget
from stuntbroker.protocol.batches.records import HEADER, HEADER_SIZE, build_batch, read_header, seal, zigzag
from stuntbroker.storage.partition import PartitionLog
from tests.kit.logs import log_config


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
