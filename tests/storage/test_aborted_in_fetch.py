"""A read_committed fetch lists every aborted transaction with records in the response, across any number of segments."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.logs import batch, mark, new_log, put

TRANSACTIONS = 12


@pytest.mark.parametrize("segment_bytes", [200, 400, 1 << 20])
@pytest.mark.parametrize("size", [1, 250, 450, 1 << 20])
@pytest.mark.parametrize("offset", [0, 1, 6, 15])
def test_a_fetch_lists_the_aborted_transaction_of_every_record_that_it_reads(
    segment_bytes: int, size: int, offset: int, tmp_path: Path
) -> None:
    log = new_log(tmp_path / "t-0", segment_bytes=segment_bytes)
    for producer_id in range(TRANSACTIONS):
        put(log, batch(1, pid=producer_id, epoch=0, seq=0, txn=True))
        mark(log, False, producer_id)
    end = log.next_offset
    taken = len(log.read(offset, size, end).records)

    messages = {entry.first_offset for entry in log.aborted_in_fetch(offset, max(size, taken), end)}

    read = [header for header, _ in log.batches() if header.last_offset >= offset]
    at, wanted = 0, set()
    for header in read:
        if at < taken and not header.control:
            wanted.add(header.base_offset)
        at += header.size
    assert wanted <= messages
