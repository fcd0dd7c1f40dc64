"""Reads the batches and records of a partition's log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from stuntbroker.protocol.batches.compression import decompress
from stuntbroker.protocol.batches.records import HEADER_SIZE, BatchHeader, Record, read_header, read_records
from stuntbroker.protocol.primitives import Buffer

if TYPE_CHECKING:
    from stuntbroker.storage.partition import PartitionLog

READ_BYTES: Final = 1 << 20
RECORDS_BYTES_MAX: Final = 1 << 28
"""Maximum number of bytes of a batch's records after decompression."""


def batches_from(log: PartitionLog, offset: int) -> Iterator[tuple[BatchHeader, Buffer]]:
    """Yield the whole batches of a log, from the batch that contains an offset."""
    offset = max(offset, log.log_start_offset)
    while offset < log.next_offset:
        last, position = offset, 0
        records = log.read(offset, READ_BYTES, log.next_offset).records
        while position < len(records):
            header = read_header(records, position)
            if header.last_offset >= offset:
                yield header, records[position : position + header.size]
            position += header.size
            last = header.next_offset
        if last == offset:
            return  # Compaction has removed the records that follow.
        offset = last


def records_in(header: BatchHeader, batch: Buffer) -> Iterator[Record]:
    """Return the decompressed records of a batch. Raises DecodeError, CompressionError."""
    payload = batch[HEADER_SIZE:]
    if header.codec:
        payload = decompress(header.codec, payload, RECORDS_BYTES_MAX)
    return read_records(header, payload)
