"""Which partition a record goes to, and what is in its batch."""

from __future__ import annotations

from aiokafka.partitioner import murmur2 as other_murmur2
from hypothesis import given
from hypothesis import strategies as some

from stuntbroker.client.commands.producing import BATCH_BYTES_MAX, NewRecord, any_partition, batches_by_partition
from stuntbroker.client.commands.reader import read_batches
from stuntbroker.protocol.hashing import murmur2, partition_of_key
from stuntbroker.protocol.messages.fetch_response import PartitionData
from stuntbroker.protocol.request_values import READ_UNCOMMITTED


@given(some.binary(max_size=40))
def test_the_hash_of_a_key_is_that_of_kafka_s_default_partitioner(key: bytes) -> None:
    assert murmur2(key) == other_murmur2(key) & 0xFFFF_FFFF


def test_records_without_a_key_begin_at_the_partition_that_is_chosen_and_stay_while_a_batch_has_room() -> None:
    records = [NewRecord(None, b"x" * (BATCH_BYTES_MAX // 2)) for _ in range(4)]

    assert [partition for partition, _, _ in batches_by_partition(records, 3, choose=lambda: 4)] == [1, 2, 0, 1]
    assert {any_partition() % 8 for _ in range(200)} == set(range(8))


def test_a_batch_has_its_records_whatever_its_compression() -> None:
    records = [NewRecord(b"k", b"v", (("h", b"1"), ("none", None))), NewRecord(b"k", None)]
    for compression in ("none", "gzip", "snappy", "lz4", "zstd"):
        ((_, batch, count),) = batches_by_partition(records, 1, compression, timestamp_ms=7)
        (read,) = read_batches(PartitionData(0, records=bytes(batch)), READ_UNCOMMITTED)
        assert count == 2
        assert [row[1:] for row in read.rows] == [(7, b"k", b"v", (("h", b"1"), ("none", None))), (7, b"k", None, ())]


def test_a_record_without_a_key_does_not_overfill_a_batch_of_records_with_keys() -> None:
    key = next(key for key in (b"%d" % number for number in range(100)) if partition_of_key(key, 2) == 1)
    records = [
        NewRecord(key, b"x" * (BATCH_BYTES_MAX // 2)),
        NewRecord(None, b"x" * (BATCH_BYTES_MAX // 2)),
        NewRecord(None, b"x" * (BATCH_BYTES_MAX * 3 // 4)),
    ]

    batches = list(batches_by_partition(records, 2))
    assert sum(count for _, _, count in batches) == 3
    assert all(len(batch) <= BATCH_BYTES_MAX for _, batch, count in batches if count > 1)
