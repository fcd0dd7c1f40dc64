"""Was every input processed exactly once? Input and output of a group that consumes, transforms and produces.

A group's committed offsets say which input it took for done. What that input should have become is compared with what
committed readers find in the output topic, as multisets of (key, value): order does not matter, number does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stuntbroker.pipeline.audit import offsets_log
from stuntbroker.pipeline.audit.findings import ERROR, Finding, finding
from stuntbroker.pipeline.audit.grouping import codes_of_both, find, values
from stuntbroker.pipeline.audit.transactions import outcomes_of

Transform = Callable[[pa.Table], pa.Table]
"""From input records to a table with the `key` and `value` of what they become."""
SHOWN_BYTES: Final = 60


def committed_offsets(offsets: pa.Table, transactions: pa.Table, group_id: str) -> pa.Table:
    """`topic`, `partition`, `committed_offset` of a group: the last ones in the log that count (KIP-447)."""
    mine = offsets.filter(pc.equal(offsets["group_id"], group_id))
    place = pa.table({
        "topic": pa.repeat(offsets_log.TOPIC, len(mine)), "partition": mine["log_partition"],
        "offset": mine["log_offset"], "producer_id": mine["producer_id"],
        "is_transactional": pc.greater_equal(mine["producer_id"], 0),
    })  # fmt: skip
    outcome = outcomes_of(place, transactions)
    counts = mine.filter(pc.is_in(outcome, pa.array(["plain", "commit"]))).sort_by("log_offset")
    last = counts.group_by(["topic", "partition"], use_threads=False).aggregate([("committed_offset", "last")])
    named = pa.table({
        "topic": last["topic"], "partition": last["partition"], "committed_offset": last["committed_offset_last"],
    })  # fmt: skip
    return named.filter(pc.is_valid(named["committed_offset"]))


def visible_records(records: pa.Table, transactions: pa.Table) -> pa.Table:
    """Rows of RECORDS that a consumer with read_committed gets."""
    data = records.filter(pc.invert(records["is_control"]))
    return data.filter(pc.is_in(outcomes_of(data, transactions), pa.array(["plain", "commit"])))


def eos_findings(
    records: pa.Table, transactions: pa.Table, committed: pa.Table, output_topic: str, transform: Transform = lambda t: t
) -> list[Finding]:
    """What is missing from the output, there too often, or there without an input.

    `records` are those of all input topics and of the output topic, from where the group began.
    """
    seen = visible_records(records, transactions)
    mine, known = codes_of_both(
        (seen["topic"], seen["partition"]), (committed["topic"], committed["partition"])
    )
    row = find(known, mine)
    until = np.where(row >= 0, values(committed, "committed_offset")[row], -1) if len(known) else np.full(len(mine), -1)
    expected = transform(seen.filter(pa.array(values(seen, "offset") < until)))
    output = seen.filter(pc.equal(seen["topic"], output_topic))
    both = pa.concat_tables([_tally(expected, 1, 0), _tally(output, 0, 1)])
    sums = both.group_by(["key", "value"]).aggregate([("wanted", "sum"), ("found", "sum")])
    wrong = sums.filter(pc.not_equal(sums["wanted_sum"], sums["found_sum"]))
    return [_finding(row, output_topic) for row in wrong.to_pylist()]


def _tally(records: pa.Table, wanted: int, found: int) -> pa.Table:
    count = {"wanted": pa.repeat(wanted, len(records)), "found": pa.repeat(found, len(records))}
    return pa.table({"key": records["key"], "value": records["value"], **count})


def _finding(row: Finding, topic: str) -> Finding:
    wanted, found = row["wanted_sum"], row["found_sum"]
    kind = "output_missing" if found < wanted else "output_duplicate" if wanted else "output_unexpected"
    what = f"key {_shown(row['key'])}, value {_shown(row['value'])}"
    return finding(kind, ERROR, {"topic": topic}, f"{what}: {found} in the output where {wanted} should be")


def _shown(field: bytes | None) -> str:
    if field is None or len(field) <= SHOWN_BYTES:
        return repr(field)
    return f"{field[:SHOWN_BYTES]!r}... of {len(field)} bytes"
