"""`stuntbroker dump` for the files beside a log: indexes, whose entries have a fixed size, and producer snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stuntbroker.pipeline.counting import count
from stuntbroker.protocol.primitives import DecodeError
from stuntbroker.storage.producers import ProducerStates
from stuntbroker.storage.segment import INDEX_ENTRY, TIME_ENTRY, TXN_ENTRY

_ENTRIES: Final = {".index": INDEX_ENTRY, ".timeindex": TIME_ENTRY, ".txnindex": TXN_ENTRY}
SUFFIXES: Final = (*_ENTRIES, ".snapshot")


def lines(suffix: str, data: bytes, base_offset: int) -> Iterator[str]:
    """Yield a line per entry; a line with `!` reports damage. `base_offset`: from the file's name."""
    if suffix == ".snapshot":
        yield from _producers(data)
        return
    entry = _ENTRIES[suffix]
    # Apache Kafka preallocates the indexes of the active segment, and truncates them when it closes the segment.
    used = -(-len(data.rstrip(b"\0")) // entry.size) * entry.size if len(data) % entry.size == 0 else len(data)
    for pos in range(0, used, entry.size):
        if pos + entry.size > len(data):
            yield f"! position {pos}: {count(len(data) - pos, 'byte is', 'bytes are')} left, too few for an entry"
            return
        yield _entry(suffix, entry.unpack_from(data, pos), base_offset)
    if used < len(data):
        yield f"{count(len(data) - used, 'byte')} of zeros: room for more"


def _entry(suffix: str, fields: tuple[int, ...], base_offset: int) -> str:
    if suffix == ".index":
        return f"entry offset={base_offset + fields[0]} position={fields[1]}"
    if suffix == ".timeindex":
        return f"entry timestamp={fields[0]} offset={base_offset + fields[1]}"
    version, producer_id, first, last, stable = fields
    if version:
        return f"! an aborted transaction of version {version}, which is not known"
    return f"aborted producer={producer_id} offset={first}..{last} last_stable_offset={stable}"


def _producers(data: bytes) -> Iterator[str]:
    try:
        states = ProducerStates.from_snapshot(data)
    except DecodeError as fault:
        yield f"! {fault}"
        return
    for producer_id, producer in states.producers.items():
        batch = ""
        if producer.batches:
            last = producer.batches[-1]
            batch = (
                f" sequence={last.first_sequence}..{last.last_sequence} offset={last.first_offset}..{last.last_offset}"
            )
        opened = f" open_since={producer.txn_first_offset}" if producer.txn_first_offset >= 0 else ""
        yield (
            f"producer={producer_id}:{producer.epoch}{batch}{opened} timestamp={producer.last_timestamp} "
            f"coordinator_epoch={producer.coordinator_epoch}"
        )
