"""Read evidence again for a folder so large that the audit kept no batches: only the segments that findings name.

The amount of data read is bounded. Beyond the bound, findings have less evidence, and the page says where to find more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stuntbroker.pipeline.arrays import Array
from stuntbroker.pipeline.audit.findings import Finding
from stuntbroker.pipeline.audit.folder import Folder, Segment
from stuntbroker.pipeline.audit.grouping import values
from stuntbroker.pipeline.audit.result import Audit
from stuntbroker.pipeline.audit.scan import BATCHES, scan
from stuntbroker.pipeline.audit.shares import read_segment
from stuntbroker.pipeline.audit.txn_log import TXN_STATE
from stuntbroker.pipeline.report.evidence import Neighbours, Sources
from stuntbroker.protocol.topic_names import TXN_STATE as TXN_TOPIC

BATCHES_MAX: Final = 1 << 30
"""Maximum bytes of segments to read again for their batches."""
RECORDS_MAX: Final = 1 << 28
"""Maximum bytes of the transaction log to read again."""
MARGIN_ROWS: Final = 8
NUMBERED: Final = BATCHES.append(pa.field("number", pa.int64()))


def read_sources(folder: Folder, audit: Audit, findings: list[Finding]) -> Sources:
    """Return the tables with evidence for these findings. Raises OSError."""
    if audit.is_whole:
        return Sources(audit.batches, audit.txn_state, audit.transactions, True)
    segments = {(item.topic, item.partition): item.segments for item in folder.partitions}
    records, has_all = _records(audit, segments, findings)
    without = Sources(BATCHES.empty_table(), records, audit.transactions, has_all)
    neighbours = Neighbours.of(without, ())
    wanted: dict[Segment, list[tuple[Finding, int | None]]] = {}
    for item in findings:
        _, time_ms = neighbours.records_of(item)
        for segment in _segments_of(
            item, segments.get((item["topic"], item["partition"]), ()), audit.segments, time_ms
        ):
            wanted.setdefault(segment, []).append((item, time_ms))
    return Sources(_batches(wanted), records, audit.transactions, has_all)


def _within(segments: Iterable[Segment], most: int) -> Iterator[Segment]:
    """Yield segments, in order, as long as their total size is at most `most` bytes."""
    for segment in segments:
        most -= segment.size
        if most >= 0:
            yield segment


def _records(audit: Audit, segments: dict[Any, tuple[Segment, ...]], findings: list[Finding]) -> tuple[pa.Table, bool]:
    """Return (transaction log records of the findings' ids, whether these are all their records)."""
    ids = pa.array([finding["transactional_id"] for finding in findings], pa.string())
    nameless = pa.array(
        [finding["producer_id"] for finding in findings if finding["transactional_id"] is None], pa.int64()
    )
    owners = audit.fencing.filter(pc.is_in(audit.fencing["producer_id"], nameless.drop_null()))
    names = sorted({*ids.drop_null().to_pylist(), *owners["transactional_id"].to_pylist()})
    lasts = audit.lasts.filter(pc.is_in(audit.lasts["transactional_id"], pa.array(names, pa.string())))
    partitions = sorted(set(lasts["log_partition"].to_pylist()))
    wanted = [segment for number in partitions for segment in segments.get((TXN_TOPIC, number), ())]
    chosen = list(_within(wanted, RECORDS_MAX))
    if len(chosen) < len(wanted):  # A partial history could be mistaken for the whole.
        return audit.lasts, False
    tables = [TXN_STATE.empty_table()]
    for segment in chosen:
        for name, rows in read_segment(segment):
            if name == "txn_state":
                mine = pc.is_in(rows["transactional_id"], pa.array(names, pa.string()))
                tables.append(pa.Table.from_batches([rows]).filter(mine))
    return pa.concat_tables(tables).sort_by([("log_partition", "ascending"), ("log_offset", "ascending")]), True


def _segments_of(
    finding: Finding, segments: tuple[Segment, ...], known: pa.Table, time_ms: int | None
) -> list[Segment]:
    """Return the segments of the finding's partition in which it begins and ends."""
    if finding["file"]:
        base = int(finding["file"].rpartition("/")[2].partition(".")[0])
        return [segment for segment in segments if segment.base_offset == base]
    offsets = [offset for offset in (finding["first_offset"], finding["last_offset"]) if offset is not None]
    if finding["first_offset"] is None and finding["last_offset"] is not None:
        offsets = [finding["last_offset"] + 1]
    if offsets:
        ends = {max((s.base_offset for s in segments if s.base_offset <= offset), default=-1) for offset in offsets}
        return [segment for segment in segments if segment.base_offset in ends]
    if finding["file_position"] is not None:
        return [segment for segment in segments if segment.size > finding["file_position"]][:2]
    if time_ms is None:
        return []
    mine = pc.and_(pc.equal(known["topic"], finding["topic"]), pc.equal(known["partition"], finding["partition"]))
    until = known.filter(pc.and_(mine, pc.less_equal(known["first_timestamp"], time_ms)))
    newest = pc.max(until["segment_base_offset"]).as_py()
    return [segment for segment in segments if segment.base_offset == newest]


def _batches(wanted: dict[Segment, list[tuple[Finding, int | None]]]) -> pa.Table:
    """Return the batches near the findings, numbered by segment (upper bits) and row (lower 40 bits)."""
    tables = [NUMBERED.empty_table()]
    for at, segment in enumerate(_within(wanted, BATCHES_MAX)):
        rows = pa.Table.from_batches(list(scan(segment)), BATCHES)
        kept = np.zeros(len(rows), bool)
        for finding, time_ms in wanted[segment]:
            for row in _ends(rows, finding, time_ms):
                kept[max(row - MARGIN_ROWS, 0) : row + MARGIN_ROWS + 1] = True
        numbers = np.flatnonzero(kept)
        near = rows.take(pa.array(numbers))
        tables.append(near.append_column("number", pa.array((at << 40) + numbers)).cast(NUMBERED))
    return pa.concat_tables(tables)


def _ends(rows: pa.Table, finding: Finding, time_ms: int | None) -> list[int]:
    """Return the first and the last row that the finding may be about."""
    base, last = (pc.fill_null(rows[name], -1).to_numpy() for name in ("base_offset", "last_offset"))
    if finding["file_position"] is not None:
        about = values(rows, "position") == finding["file_position"]
    elif finding["first_offset"] is not None:
        about = (last >= finding["first_offset"]) & (base <= (finding["last_offset"] or finding["first_offset"]))
    elif finding["last_offset"] is not None:
        return [int(at) for at in np.flatnonzero(base > finding["last_offset"])[:1]]
    else:
        return _nearest(rows, finding, time_ms)
    picked = np.flatnonzero(about)
    return [int(picked[0]), int(picked[-1])] if len(picked) else []


def _nearest(rows: pa.Table, finding: Finding, time_ms: int | None) -> list[int]:
    mine: Array = np.flatnonzero(pc.fill_null(pc.equal(rows["producer_id"], finding["producer_id"]), False).to_numpy())
    if time_ms is None or not len(mine):
        return []
    away = np.abs(pc.fill_null(rows["max_timestamp"], 0).to_numpy()[mine] - time_ms)
    return [int(mine[int(away.argmin())])]
