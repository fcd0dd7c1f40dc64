"""Generate a broker's data folder of any size, at the speed of the disk, for benchmarks of the audit.

    python bench/audit_folder.py FOLDER --gigabytes 10 --transactions 1000000 [--faults]

The folder has two topics with ten partitions each, and a thousand transactional ids; every transaction has one batch in a
partition of each topic. Transactions follow transaction version 2 (KIP-890): every end bumps the epoch, and the markers have
the new epoch. The transaction log has fifty partitions, and three records per transaction, each in a batch of its own as
brokers write them. With --faults, the folder has exactly four faults, which are printed.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from stuntbroker.protocol.batches.records import TRANSACTIONAL, build_batch, marker_body, read_header, seal
from stuntbroker.protocol.crc import crc32c
from stuntbroker.protocol.messages.transaction_log_key import TransactionLogKey
from stuntbroker.protocol.messages.transaction_log_value import PartitionsSchema, TransactionLogValue

Array = npt.NDArray[Any]
TOPICS = ("orders", "payments")
PARTITIONS = 10
"""Partitions of each topic; transaction k writes to partition k % PARTITIONS of both topics."""
IDS, FIRST_PID = 1_000, 5_000
STATE_PARTITIONS = 50
GROUP = 10
"""Number of concurrently open transactions in a partition."""
RECORDS = 10
MARKER_SIZE = 78
OVERHEAD = 61 + 12 * RECORDS
T0_MS = 1_700_000_000_000
SEGMENT_BYTES = 1 << 30
CHUNK_BYTES = 1 << 25
STRANGER = 999_999


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--transactions", type=int, default=100_000)
    parser.add_argument("--faults", action="store_true")
    options = parser.parse_args()
    print(json.dumps(make(options.folder, int(options.gigabytes * 1e9), options.transactions, options.faults)))


def make(folder: Path, size: int, transactions: int, faults: bool = False) -> dict[str, Any]:
    """Generate the folder. `transactions` is rounded down to whole groups; `size` is in bytes, without the transaction log."""
    groups = max(transactions // (GROUP * PARTITIONS), 1)
    batch = build_batch(values_of(size // (groups * GROUP * PARTITIONS * len(TOPICS))), 0, attributes=TRANSACTIONAL)
    for topic in TOPICS:
        for partition in range(PARTITIONS):
            write_data(folder / f"{topic}-{partition}", partition, groups, bytes(batch))
    total = groups * GROUP * PARTITIONS
    for partition in range(STATE_PARTITIONS):
        write_states(folder / f"__transaction_state-{partition}", partition, total)
    return {"transactions": total, "batch_bytes": len(batch), "faults": plant(folder) if faults else []}


def values_of(batch_bytes: int) -> list[tuple[bytes, bytes]]:
    body = max((batch_bytes - OVERHEAD) // RECORDS, 16)
    return [(b"%08d" % n, (b"value-%d " % n * body)[: max(body - 8, 8)]) for n in range(RECORDS)]


def put(rows: Array, at: int, kind: str, numbers: Any) -> None:
    """Write big-endian integers at the same position of every row."""
    wide = np.broadcast_to(np.asarray(numbers), len(rows)).astype(kind)
    rows[:, at : at + wide.itemsize] = wide.view(np.uint8).reshape(len(rows), -1)


def seal_all(rows: Array) -> None:
    """Write the CRC of every row; a row is one batch."""
    flat = np.ascontiguousarray(rows)
    view, size = flat.reshape(-1).data, flat.shape[1]
    put(rows, 17, ">u4", np.array([crc32c(view[at + 21 : at + size]) for at in range(0, flat.size, size)], np.uint32))


def write_data(folder: Path, partition: int, groups: int, batch: bytes) -> None:
    """Write groups of concurrent transactions: first all their batches, then all their markers."""
    folder.mkdir(parents=True)
    data, markers = GROUP * len(batch), GROUP * MARKER_SIZE
    template = np.concatenate([np.frombuffer(batch * GROUP, np.uint8), np.zeros(markers, np.uint8)])
    marker = np.frombuffer(bytes(8) + marker_body(True, 0, 0, 0, 0, 0), np.uint8)
    template[data:] = np.tile(marker, GROUP)
    step = max(CHUNK_BYTES // len(template), 1)
    stride = GROUP * (RECORDS + 1)
    file: IO[bytes] | None = None
    for start in range(0, groups, step):
        number = np.arange(start, min(start + step, groups))
        rows = np.tile(template, (len(number), 1))
        for lane in range(GROUP):
            k = (number * GROUP + lane) * PARTITIONS + partition
            owner, epoch, now = FIRST_PID + k % IDS, k // IDS, T0_MS + k
            mine = rows[:, lane * len(batch) : (lane + 1) * len(batch)]
            fill(mine, number * stride + lane * RECORDS, owner, epoch, now, 0)
            ending = rows[:, data + lane * MARKER_SIZE : data + (lane + 1) * MARKER_SIZE]
            fill(ending, number * stride + GROUP * RECORDS + lane, owner, epoch + 1, now + 20, -1)
        if file is None or file.tell() + rows.size > SEGMENT_BYTES:
            if file is not None:
                file.close()
            file = (folder / f"{start * stride:020d}.log").open("wb")
        file.write(rows.data)
    assert file is not None
    file.close()


def fill(rows: Array, offset: Array, pid: Array, epoch: Array, now_ms: Any, sequence: int) -> None:
    put(rows, 0, ">i8", offset)
    put(rows, 27, ">i8", now_ms)
    put(rows, 35, ">i8", now_ms)
    put(rows, 43, ">i8", pid)
    put(rows, 51, ">i2", epoch)
    put(rows, 53, ">i4", sequence)
    seal_all(rows)


def write_states(folder: Path, partition: int, total: int) -> None:
    """Write Empty for every id, then Ongoing, PrepareCommit and CompleteCommit for each of its transactions."""
    folder.mkdir(parents=True)
    shapes = [state_batch(status) for status in ("Ongoing", "PrepareCommit", "CompleteCommit")]
    width = sum(len(shape) for shape, _ in shapes)
    ids = np.arange(partition, IDS, STATE_PARTITIONS)
    with (folder / f"{0:020d}.log").open("wb") as file:
        batch, places = state_batch("Empty")
        rows = np.tile(np.frombuffer(batch, np.uint8), (len(ids), 1))
        fill_state(rows, places, np.arange(len(ids)), ids, 0, 0)
        file.write(rows.data)
        step = max(CHUNK_BYTES // width, 1)
        count = len(range(partition, total, STATE_PARTITIONS))
        for start in range(0, count, step):
            number = np.arange(start, min(start + step, count))
            k = partition + number * STATE_PARTITIONS
            rows, at = np.empty((len(number), width), np.uint8), 0
            for turn, (batch, places) in enumerate(shapes):
                rows[:, at : at + len(batch)] = np.frombuffer(batch, np.uint8)
                mine = rows[:, at : at + len(batch)]
                fill_state(mine, places, len(ids) + 3 * number + turn, k, k // IDS + (turn > 0), turn * 10)
                at += len(batch)
            file.write(rows.data)


def state_batch(status: str) -> tuple[bytes, dict[str, int]]:
    """Return (a batch with one record of the transaction log, positions of the fields that vary)."""
    from stuntbroker.protocol.transaction_states import STATES

    # Unique values, by which the fields are found in the encoded bytes.
    pid, epoch, update, start, ids = 0x1122334455667788, 0x2B2C, 0x3132333435363738, 0x4142434445464748, 0x51525354
    is_listed = status in ("Ongoing", "PrepareCommit")
    key, value = bytearray(2), bytearray(b"\x00\x01")
    TransactionLogKey("bench-########").encode(key, 0)
    TransactionLogValue(
        producer_id=pid,
        producer_epoch=epoch,
        previous_producer_id=pid if status != "Empty" else -1,
        transaction_timeout_ms=60_000,
        transaction_status=STATES.index(status),
        transaction_start_timestamp_ms=start,
        transaction_last_update_timestamp_ms=update,
        client_transaction_version=0 if status == "Empty" else 2,
        transaction_partitions=[PartitionsSchema(topic, [ids]) for topic in TOPICS] if is_listed else None,
    ).encode(value, 1)
    batch = bytes(build_batch([(key, value)], 0))
    places = {"id": batch.index(b"########"), "epoch": batch.index(epoch.to_bytes(2, "big"))}
    for name, mark in (("pid", pid), ("update", update), ("start", start)):
        places[name] = batch.index(mark.to_bytes(8, "big"))
    places["previous"] = batch.rindex(pid.to_bytes(8, "big"))
    if is_listed:
        mark = ids.to_bytes(4, "big")
        places |= {"first": batch.index(mark), "second": batch.rindex(mark)}
    return batch, places


def fill_state(rows: Array, places: dict[str, int], offset: Array, k: Array, epoch: Any, later_ms: int) -> None:
    digits = np.char.zfill((k % IDS).astype(str), 8).astype("S8")
    at = places["id"]
    rows[:, at : at + 8] = digits.view(np.uint8).reshape(len(k), 8)
    is_empty = later_ms == 0 and "first" not in places
    put(rows, places["pid"], ">i8", FIRST_PID + k % IDS)
    put(rows, places["previous"], ">i8", FIRST_PID + k % IDS)
    put(rows, places["epoch"], ">i2", epoch)
    put(rows, places["start"], ">i8", -1 if is_empty else T0_MS + k)
    put(rows, places["update"], ">i8", T0_MS + k + later_ms)
    for name in ("first", "second"):
        if name in places:
            put(rows, places[name], ">i4", k % PARTITIONS)
    put(rows, 0, ">i8", offset)
    put(rows, 27, ">i8", T0_MS + k + later_ms)
    put(rows, 35, ">i8", T0_MS + k + later_ms)
    seal_all(rows)


def plant(folder: Path) -> list[dict[str, Any]]:
    """Introduce four faults, each in a partition of its own; return them."""
    last = {n: sorted((folder / f"orders-{n}").glob("*.log"))[-1] for n in range(4)}
    last[0].write_bytes(last[0].read_bytes()[:-MARKER_SIZE])
    stranger = {"producer_id": STRANGER, "producer_epoch": 0, "base_sequence": 0}
    append(last[1], build_batch([(b"late", b"data")], T0_MS, attributes=TRANSACTIONAL, **stranger))
    data = bytearray(last[2].read_bytes())
    data[read_header(data).size - 1] ^= 1  # Corrupt the first batch, so that its transaction has no data.
    last[2].write_bytes(data)
    for _ in range(2):
        append(last[3], build_batch([(b"twice", b"")], T0_MS, **stranger | {"producer_id": STRANGER + 1}))
    return [
        {"kind": kind, "topic": "orders", "partition": number}
        for number, kind in enumerate(("marker_missing", "hanging", "corrupt", "duplicate"))
    ]


def append(path: Path, batch: bytearray) -> None:
    data = path.read_bytes()
    at = offset = 0
    while at < len(data):
        header = read_header(data, at)
        at, offset = at + header.size, header.next_offset
    batch[:8] = offset.to_bytes(8, "big")
    seal(batch)
    with path.open("ab") as file:
        file.write(batch)


if __name__ == "__main__":
    main()
