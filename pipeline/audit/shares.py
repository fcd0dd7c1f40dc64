"""Divide a folder's partitions into shares, and audit one share: the same functions run in one process and on Spark.

A share consists of whole partitions. `read_segment` reads each segment, in any order and process. `tables_of` builds the
share's tables, which are much smaller, from all its segments. `decide` compares the partitions of a share with the
transaction log of the whole folder. `run` concatenates the results of all shares.

| table | built from | a row |
|---|---|---|
| batches, txn_state, offsets | segments | see `scan`, `txn_log` and `offsets_log`; kept when the folder is small |
| bounds, segments, transactions | partitions | a partition; a segment; a transaction |
| listed, fencing, latencies | transaction log | see `coordination` and `reports` |
| lasts, owners | transaction log | the last record of an id; the transactional id of a producer id |
| committed | offsets log | the last effective offset of a group and partition |
| findings, waiting | partitions and transaction log | see `findings` and `coordination` |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from stuntbroker.pipeline.audit import offsets_log, txn_log
from stuntbroker.pipeline.audit.coordination import OPEN_TRANSACTIONS, TXN_LOG_PARTITIONS, Coordination, listed_in
from stuntbroker.pipeline.audit.eos import COMMITTED, committed_offsets
from stuntbroker.pipeline.audit.findings import FINDINGS, as_findings
from stuntbroker.pipeline.audit.folder import Folder, Partition, Segment
from stuntbroker.pipeline.audit.grouping import codes, last_rows
from stuntbroker.pipeline.audit.log_checks import (
    epoch_findings,
    file_findings,
    offset_findings,
    sequence_findings,
    undecodable_batches,
    undecodable_records,
)
from stuntbroker.pipeline.audit.marker_checks import marker_findings
from stuntbroker.pipeline.audit.records import RECORDS, decode_records
from stuntbroker.pipeline.audit.reports import FENCING, LATENCIES, SEGMENTS, fencing_of, latencies_of, segments_of
from stuntbroker.pipeline.audit.scan import BATCHES, deleted_segment, scan
from stuntbroker.pipeline.audit.transactions import BOUNDS, TRANSACTIONS, bounds_of, owners_of, transactions_of
from stuntbroker.protocol.topic_names import OFFSETS as OFFSETS_TOPIC
from stuntbroker.protocol.topic_names import TXN_STATE as TXN_TOPIC

SHARE_BYTES: Final = 1 << 26
"""Maximum bytes of a share with several partitions."""
KEPT_BYTES: Final = 1 << 26
"""Maximum folder size up to which all batches and coordinator records are kept in memory."""

Tables = dict[str, pa.Table]
OWNERS: Final = pa.schema({"producer_id": pa.int64(), "transactional_id": pa.string()})
PIECES: Final = {
    "batches": BATCHES,
    "txn_state": txn_log.TXN_STATE,
    "offsets": offsets_log.OFFSETS,
    "findings": FINDINGS,
    "records": RECORDS,
}
"""Schemas of the tables of `read_segment`."""
SHARED: Final = {
    "batches": BATCHES,
    "txn_state": txn_log.TXN_STATE,
    "offsets": offsets_log.OFFSETS,
    "bounds": BOUNDS,
    "segments": SEGMENTS,
    "transactions": TRANSACTIONS,
    "listed": TXN_LOG_PARTITIONS,
    "lasts": txn_log.TXN_STATE,
    "owners": OWNERS,
    "fencing": FENCING,
    "latencies": LATENCIES,
    "committed": COMMITTED,
    "findings": FINDINGS,
    "waiting": OPEN_TRANSACTIONS,
}
"""Schemas of the tables of `tables_of` and `decide`."""
_IN_ORDER: Final = [("log_partition", "ascending"), ("log_offset", "ascending")]


class Share(NamedTuple):
    """Partitions that one task audits together."""

    number: int
    partitions: tuple[Partition, ...]

    def segments(self) -> list[Segment]:
        """Return all segments of the share."""
        return [segment for partition in self.partitions for segment in partition.segments]


def shares_of(folder: Folder, share_bytes: int = SHARE_BYTES) -> list[Share]:
    """Return the shares in folder order. The coordinators' logs never share with other topics."""
    shares: list[Share] = []
    taken: list[Partition] = []
    size = 0
    for partition in folder.partitions:
        own = sum(segment.size for segment in partition.segments)
        is_other = bool(taken) and partition.topic != taken[0].topic and bool({partition.topic, taken[0].topic} & LOGS)
        if taken and (size + own > share_bytes or is_other):
            shares.append(Share(len(shares), tuple(taken)))
            taken, size = [], 0
        taken.append(partition)
        size += own
    return [*shares, Share(len(shares), tuple(taken))] if taken else shares


LOGS: Final = {TXN_TOPIC, OFFSETS_TOPIC}


def read_segment(segment: Segment, with_records: bool = False) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield (name in PIECES, rows): batches, records of a coordinator's log, and findings about undecodable data."""
    try:
        yield from _read(segment, with_records)
    except FileNotFoundError:  # Its headers were read, and then a broker deleted it.
        yield "batches", deleted_segment(segment)


def _read(segment: Segment, with_records: bool) -> Iterator[tuple[str, pa.RecordBatch]]:
    read: Any = {TXN_TOPIC: txn_log.read_txn_state, OFFSETS_TOPIC: offsets_log.read_offsets}.get(segment.topic)
    name = "txn_state" if segment.topic == TXN_TOPIC else "offsets"
    for batches in scan(segment):
        yield "batches", batches
        if read is None and not with_records:
            continue
        for decoded in decode_records(segment, batches):
            if with_records:
                yield "records", decoded.records
            unreadable = undecodable_batches(segment.topic, segment.partition, decoded.faults)
            if read is not None:
                rows, faults = read(decoded.records)
                yield name, rows
                unreadable += undecodable_records(segment.topic, segment.partition, faults)
            if unreadable:
                yield from (("findings", items) for items in as_findings(unreadable).to_batches())


def as_tables(pieces: Iterable[tuple[str, pa.RecordBatch]], schemas: Mapping[str, pa.Schema]) -> Tables:
    """Collect the rows of each name into a table, keeping their order."""
    batches: dict[str, list[pa.RecordBatch]] = {name: [] for name in schemas}
    for name, rows in pieces:
        batches[name].append(rows)
    return {name: pa.Table.from_batches(rows, schemas[name]) for name, rows in batches.items()}


def tables_of(partitions: Sequence[Partition], pieces: Tables, keep: bool) -> Tables:
    """Return the tables that depend on these partitions only. `pieces`: tables of their segments, in order."""
    batches = pieces["batches"]
    wrong, out_of_order = offset_findings(batches)
    sound, bad = (batches.filter(pa.array(~wrong)), batches.filter(pa.array(wrong))) if wrong.any() else (batches, None)
    bounds, transactions = bounds_of(sound, partitions, bad), transactions_of(sound)
    tables = {"bounds": bounds, "transactions": transactions, "segments": segments_of(batches, partitions)}
    findings = [
        *file_findings(batches),
        *out_of_order,
        *sequence_findings(batches, bounds),
        *epoch_findings(sound),
        *marker_findings(transactions, bounds),
    ]
    tables["findings"] = pa.concat_tables([pieces["findings"], as_findings(findings)])
    if keep:
        tables["batches"] = batches
    topics = {partition.topic for partition in partitions}
    if TXN_TOPIC in topics:
        tables |= _of_the_transaction_log(pieces["txn_state"].sort_by(_IN_ORDER), bounds, keep)
    if OFFSETS_TOPIC in topics:
        offsets = pieces["offsets"].sort_by(_IN_ORDER)
        tables["committed"] = committed_offsets(offsets, transactions)
        if keep:
            tables["offsets"] = offsets
    return tables


def _of_the_transaction_log(txn_state: pa.Table, bounds: pa.Table, keep: bool) -> Tables:
    pids, ids = owners_of(txn_state)
    tables = {
        "listed": listed_in(txn_state),
        "lasts": txn_state.take(pa.array(last_rows(codes(txn_state["transactional_id"])))),
        "owners": pa.table([pids, ids], schema=OWNERS),
        "fencing": fencing_of(txn_state, bounds),
        "latencies": latencies_of(txn_state),
    }
    return tables | {"txn_state": txn_state} if keep else tables


def decide(bounds: pa.Table, transactions: pa.Table, listed: pa.Table) -> Tables:
    """Compare these partitions with the transaction log of the whole folder."""
    findings, waiting = Coordination(transactions, listed, bounds).findings()
    return {"findings": as_findings(findings), "waiting": waiting}


def listed_by_share(listed: pa.Table, shares: Sequence[Share]) -> Iterator[tuple[int, pa.Table]]:
    """Yield (share number, rows of TXN_LOG_PARTITIONS for its partitions), in order, without partitions that have no folder."""
    if not len(listed):
        return
    numbers = {
        (partition.topic, partition.partition): share.number for share in shares for partition in share.partitions
    }
    place = codes(listed["topic"], listed["partition"])
    first = last_rows(place[::-1])
    rows = listed.select(["topic", "partition"]).take(pa.array(len(place) - 1 - first)).to_pylist()
    share_of = [numbers.get((row["topic"], row["partition"]), -1) for row in rows]
    by_code = pa.array(share_of, pa.int32()).take(pa.array(place[len(place) - 1 - first].argsort()))
    mine = by_code.take(pa.array(place))
    for number in sorted(set(share_of) - {-1}):
        yield number, listed.filter(pc.equal(mine, number))
