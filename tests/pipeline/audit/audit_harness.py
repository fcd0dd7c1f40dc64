"""Data folders made by hand, batch by batch, as no broker would write them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from stuntbroker.pipeline.audit.findings import INFORMATION
from stuntbroker.pipeline.audit.folder import Folder, Segment, read_folder
from stuntbroker.pipeline.audit.records import RECORDS, decode_records
from stuntbroker.pipeline.audit.result import Audit
from stuntbroker.pipeline.audit.run import audit
from stuntbroker.pipeline.audit.scan import scan
from stuntbroker.pipeline.audit.shares import read_segment
from stuntbroker.protocol.batches.compression import compress
from stuntbroker.protocol.batches.records import (
    HEADER,
    HEADER_SIZE,
    LENGTH_AT,
    LOG_OVERHEAD,
    TRANSACTIONAL,
    build_batch,
    marker_body,
    read_header,
    seal,
    zigzag,
)
from stuntbroker.protocol.messages.offset_commit_key import OffsetCommitKey
from stuntbroker.protocol.messages.offset_commit_value import OffsetCommitValue
from stuntbroker.protocol.messages.transaction_log_key import TransactionLogKey
from stuntbroker.protocol.messages.transaction_log_value import PartitionsSchema, TransactionLogValue
from stuntbroker.protocol.transaction_states import STATES

NOW_MS = 1_700_000_000_000
Field = bytes | None
Headers = Sequence[tuple[bytes, Field]]


def field(out: bytearray, value: Field) -> None:
    zigzag(out, -1 if value is None else len(value))
    out += value or b""


def batch_with_headers(
    records: Iterable[tuple[Field, Field, Headers]],
    *,
    offset: int = 0,
    attributes: int = 0,
    deltas: Iterable[int] = (),
    pid: int = -1,
    epoch: int = -1,
    seq: int = -1,
    at: int = NOW_MS,
) -> bytearray:
    """Return an uncompressed batch of records with headers and rising times. `deltas`: offset deltas, for batches with gaps."""
    out, count, places = bytearray(HEADER_SIZE), 0, list(deltas)
    for key, value, headers in records:
        body = bytearray(b"\x00")
        zigzag(body, count * 300 - 5)
        zigzag(body, places[count] if places else count)
        field(body, key)
        field(body, value)
        zigzag(body, len(headers))
        for name, content in headers:
            field(body, name)
            field(body, content)
        zigzag(out, len(body))
        out += body
        count += 1
    last = places[-1] if places else count - 1
    HEADER.pack_into(
        out, 0, offset, len(out) - LOG_OVERHEAD, 0, 2, 0, attributes, last, at, at + 300 * count, pid, epoch, seq, count
    )
    seal(out)
    return out


def compressed(batch: bytearray, codec: int) -> bytes:
    if codec:
        batch[HEADER_SIZE:] = compress(codec, bytes(batch[HEADER_SIZE:]))
        batch[LENGTH_AT : LENGTH_AT + 4] = (len(batch) - LOG_OVERHEAD).to_bytes(4, "big")
        batch[22] |= codec
        seal(batch)
    return bytes(batch)


class Log:
    """The log of one partition, in one segment unless `roll` is called."""

    def __init__(self, folder: Path, topic: str, partition: int = 0, start: int = 0) -> None:
        self.folder = folder / f"{topic}-{partition}"
        self.folder.mkdir(parents=True)
        self.next_offset = start
        self.next_sequence: dict[tuple[int, int], int] = {}
        self.roll()

    def roll(self) -> None:
        self.path = self.folder / f"{self.next_offset:020d}.log"
        self.path.touch()

    def append(self, batch: bytes | bytearray) -> int:
        """Append a batch at the next offset; return its position in the segment."""
        position = self.path.stat().st_size
        with self.path.open("ab") as file:
            file.write(self.next_offset.to_bytes(8, "big") + bytes(batch[8:]))
        self.next_offset += read_header(batch).last_offset_delta + 1
        return position

    def produce(
        self, pid: int, epoch: int, seq: int | None = None, count: int = 1, at: int = NOW_MS, txn: bool = True
    ) -> int:
        """Append a batch of `count` records, by default with the producer's next sequence number."""
        seq = self.next_sequence.get((pid, epoch), 0) if seq is None else seq
        self.next_sequence[pid, epoch] = seq + count
        pairs = [(b"k%d" % n, b"v%d" % n) for n in range(count)]
        return self.put(pairs, pid, epoch, seq, at, txn)

    def put(
        self,
        pairs: Iterable[tuple[Any, Any]],
        pid: int = -1,
        epoch: int = -1,
        seq: int = -1,
        at: int = NOW_MS,
        txn: bool = False,
    ) -> int:
        created = build_batch(
            pairs, at, producer_id=pid, producer_epoch=epoch, base_sequence=seq, attributes=TRANSACTIONAL if txn else 0
        )
        return self.append(created)

    def mark(self, commit: bool, pid: int, epoch: int, at: int = NOW_MS, coordinator_epoch: int = 0) -> int:
        return self.append(bytes(8) + marker_body(commit, pid, epoch, coordinator_epoch, at, 0))


def segment_at(path: Path, base_offset: int = 0, active: bool = True) -> Segment:
    return Segment("t", 0, base_offset, str(path), path.stat().st_size, active)


def batches_of(folder: Folder | Path) -> pa.Table:
    folder = folder if isinstance(folder, Folder) else read_folder(str(folder))
    return pa.Table.from_batches([actual for segment in folder.segments() for actual in scan(segment)])


def records_of(segment: Segment, rows_max: int = 65_536) -> tuple[list[dict[str, Any]], list[Any]]:
    """Return (rows of RECORDS, faults)."""
    rows, faults = [], []
    for batches in scan(segment, rows_max):
        for decoded in decode_records(segment, batches):
            rows += decoded.records.to_pylist()
            faults += decoded.faults
    return rows, faults


def every_record(folder: Folder, *topics: str) -> pa.Table:
    """Return the rows of RECORDS of these topics, by default of all."""
    pieces = [piece for segment in folder.segments(*topics) for piece in read_segment(segment, with_records=True)]
    return pa.Table.from_batches([rows for name, rows in pieces if name == "records"], RECORDS)


Place = tuple[str, int]


class World:
    """A cluster's data folder: partitions t-0 and t-1, one partition of each coordinator's log, and a clock."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now_ms = NOW_MS
        self.log = {("t", index): Log(folder, "t", index) for index in range(2)}
        self.states = Log(folder, "__transaction_state")
        self.offsets = Log(folder, "__consumer_offsets")

    def tick(self, ms: int = 10) -> int:
        self.now_ms += ms
        return self.now_ms

    def state(
        self,
        name: str,
        status: str,
        pid: int,
        epoch: int,
        *places: Place,
        start_ms: int = -1,
        timeout_ms: int = 60_000,
        version: int = 1,
        **more: Any,
    ) -> None:
        """Write a record to the transaction log; `more` are optional fields by their names in the schema."""
        topics: dict[str, list[int]] = {}
        for topic, index in places:
            topics.setdefault(topic, []).append(index)
        key, value = bytearray(2), bytearray(version.to_bytes(2, "big"))
        TransactionLogKey(name).encode(key, 0)
        TransactionLogValue(
            producer_id=pid,
            producer_epoch=epoch,
            transaction_timeout_ms=timeout_ms,
            transaction_status=STATES.index(status),
            transaction_start_timestamp_ms=start_ms,
            transaction_last_update_timestamp_ms=self.tick(),
            transaction_partitions=[PartitionsSchema(*each) for each in topics.items()] if status != "Empty" else None,
            **({"previous_producer_id": pid} | more if version else more),
        ).encode(value, version)
        self.states.put([(key, value)], at=self.now_ms)

    def forget(self, name: str) -> None:
        key = bytearray(2)
        TransactionLogKey(name).encode(key, 0)
        self.states.put([(key, None)], at=self.tick())

    def begin(self, name: str, pid: int, epoch: int, *places: Place, data: bool = True, **more: Any) -> int:
        """Begin a transaction in these partitions, with two records in each; return its start time."""
        start_ms = self.tick()
        self.state(name, "Ongoing", pid, epoch, *places, start_ms=start_ms, **more)
        for place in places if data else ():
            self.log[place].produce(pid, epoch, None, 2, self.tick())
        return start_ms

    def decide(self, name: str, pid: int, epoch: int, commit: bool, *places: Place, start_ms: int, **more: Any) -> None:
        self.state(name, "PrepareCommit" if commit else "PrepareAbort", pid, epoch, *places, start_ms=start_ms, **more)

    def mark(self, pid: int, epoch: int, commit: bool, *places: Place, coordinator_epoch: int = 0) -> None:
        for place in places:
            self.log[place].mark(commit, pid, epoch, self.tick(), coordinator_epoch)

    def complete(self, name: str, pid: int, epoch: int, commit: bool, start_ms: int, **more: Any) -> None:
        self.state(name, "CompleteCommit" if commit else "CompleteAbort", pid, epoch, start_ms=start_ms, **more)

    def transact(self, name: str, pid: int, epoch: int, commit: bool, *places: Place, bump: int = 1) -> None:
        """Write a whole transaction. `bump` is the epoch's step: 1 from transaction version 2 on, 0 before."""
        start_ms = self.begin(name, pid, epoch, *places)
        self.decide(name, pid, epoch + bump, commit, *places, start_ms=start_ms)
        self.mark(pid, epoch + bump, commit, *places)
        self.complete(name, pid, epoch + bump, commit, start_ms)

    def commit_offset(self, group: str, place: Place, offset: int, pid: int = -1, epoch: int = -1) -> None:
        key, value = bytearray(b"\x00\x01"), bytearray(b"\x00\x03")
        OffsetCommitKey(group, *place).encode(key, 1)
        OffsetCommitValue(offset, -1, "", self.tick()).encode(value, 3)
        # The coordinators of Apache Kafka give every transactional commit the sequence number 0.
        self.offsets.put([(key, value)], pid, epoch, 0 if pid >= 0 else -1, at=self.now_ms, txn=pid >= 0)

    def audit(self) -> Audit:
        return audit(read_folder(str(self.folder)))

    def findings(self, *, information: bool = True) -> list[tuple[Any, ...]]:
        """Return (kind, topic, partition, transactional id) of every finding."""
        rows = self.audit().findings().to_pylist()
        return sorted(
            (row["kind"], row["topic"], row["partition"], row["transactional_id"])
            for row in rows
            if information or row["severity"] != INFORMATION
        )
