"""Check that every input record was processed exactly once by a group that consumes, transforms and produces.

A group's committed offsets tell which input it has processed. The expected output of that input is compared with the records
that read_committed consumers get from the output topic, as multisets of (key, value): order does not matter, multiplicity
does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stuntbroker.pipeline.audit.findings import ERROR, INFORMATION, Finding, finding
from stuntbroker.pipeline.audit.folder import Folder, FolderError
from stuntbroker.pipeline.audit.grouping import codes, codes_of_both, find, last_rows, values
from stuntbroker.pipeline.audit.transactions import outcomes_of
from stuntbroker.protocol.topic_names import OFFSETS as OFFSETS_TOPIC

Transform = Callable[[pa.Table], pa.Table]
"""Maps input records to a table with the `key` and `value` of their expected output."""
SHOWN_BYTES: Final = 60

TALLY: Final = pa.schema({"key": pa.binary(), "value": pa.binary(), "wanted": pa.int64(), "found": pa.int64()})
"""Expected and actual number of occurrences of a key and value in the output."""
COMMITTED: Final = pa.schema(
    {
        "group_id": pa.string(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "committed_offset": pa.int64(),
        "commit_ms": pa.int64(),
    }
)


def committed_offsets(offsets: pa.Table, transactions: pa.Table) -> pa.Table:
    """Return rows of COMMITTED: the last effective offset commit of every group and partition (KIP-447)."""
    place = pa.table(
        {
            "topic": pa.repeat(OFFSETS_TOPIC, len(offsets)),
            "partition": offsets["log_partition"],
            "offset": offsets["log_offset"],
            "producer_id": offsets["producer_id"],
            "is_transactional": pc.greater_equal(offsets["producer_id"], 0),
        }
    )
    counts = offsets.filter(pc.is_in(outcomes_of(place, transactions), pa.array(["plain", "commit"])))
    owner = codes(counts["group_id"], counts["topic"], counts["partition"])
    order = np.lexsort((values(counts, "log_offset"), owner))
    last = counts.take(pa.array(order[last_rows(owner[order])])).select(COMMITTED.names)
    return last.filter(pc.is_valid(last["committed_offset"]))


def visible_records(records: pa.Table, transactions: pa.Table) -> pa.Table:
    """Return the rows of RECORDS that a read_committed consumer gets."""
    data = records.filter(pc.invert(records["is_control"]))
    return data.filter(pc.is_in(outcomes_of(data, transactions), pa.array(["plain", "commit"])))


@dataclass(frozen=True, slots=True)
class ExactlyOnceCheck:
    """Comparison of input topics, up to a group's committed offsets, with output topics."""

    group_id: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    compare: str = "both"
    """Fields to compare: "both", "key" or "value"."""

    def topics(self) -> tuple[str, ...]:
        """Return the input and output topics, each once."""
        return tuple(dict.fromkeys((*self.inputs, *self.outputs)))

    def check_topics(self, folder: Folder) -> None:
        """Check that all topics exist, before reading anything. Raises FolderError."""
        there = {topic.topic for topic in folder.partitions}
        if missing := [topic for topic in self.topics() if topic not in there]:
            raise FolderError(f"{folder.path} has no topic {missing[0]!r}, which --eos-input or --eos-output names")

    def check(self, folder: Folder, committed: pa.Table) -> None:
        """Check that the group has committed offsets of the input. Raises FolderError: otherwise nothing could be compared."""
        self.check_topics(folder)
        mine = committed.filter(pc.equal(committed["group_id"], self.group_id))
        if not pc.any(pc.is_in(mine["topic"], pa.array(self.inputs, pa.string()))).as_py():
            topics = ", ".join(map(repr, self.inputs))
            raise FolderError(f"group {self.group_id!r} has committed no offset of {topics}: nothing can be compared")

    def tally(
        self, records: pa.Table, transactions: pa.Table, committed: pa.Table, transform: Transform = lambda t: t
    ) -> pa.Table:
        """Return rows of TALLY for some of the records; combine the tallies of several pieces with `add`."""
        seen = visible_records(records, transactions)
        mine = committed.filter(pc.equal(committed["group_id"], self.group_id))
        here, known = codes_of_both((seen["topic"], seen["partition"]), (mine["topic"], mine["partition"]))
        row = find(known, here)
        until = np.where(row >= 0, values(mine, "committed_offset")[row], -1) if len(known) else np.full(len(here), -1)
        is_input = pc.is_in(seen["topic"], pa.array(self.inputs, pa.string())).to_numpy()
        expected = transform(seen.filter(pa.array(is_input & (values(seen, "offset") < until))))
        output = seen.filter(pc.is_in(seen["topic"], pa.array(self.outputs, pa.string())))
        return add([self._counted(expected, 1, 0), self._counted(output, 0, 1)])

    def _counted(self, records: pa.Table, wanted: int, seen: int) -> pa.Table:
        nothing = pa.nulls(len(records), pa.binary())
        columns = {name: records[name] if self.compare in ("both", name) else nothing for name in ("key", "value")}
        columns |= {"wanted": pa.repeat(wanted, len(records)), "found": pa.repeat(seen, len(records))}
        return pa.table(columns, schema=TALLY)

    def findings(self, tally: pa.Table, bounds: pa.Table) -> list[Finding]:
        """Return findings for output records that are missing, duplicated, or without an input record.

        Surplus output cannot be judged if part of the input was deleted or damaged, nor missing output if part of the output
        was; the finding is then `unknown_before`.
        """
        wrong = tally.filter(pc.not_equal(tally["wanted"], tally["found"]))
        wrong = wrong.sort_by([("key", "ascending"), ("value", "ascending")])
        starts = {(row["topic"], row["partition"]): row["known_from"] for row in bounds.to_pylist()}
        broken = {(row["topic"], row["partition"]) for row in bounds.to_pylist() if row["is_damaged"]}
        findings, unknown = [], set()
        for row in wrong.to_pylist():
            behind = self.outputs if row["found"] < row["wanted"] else self.inputs
            cut = [place for place, start in starts.items() if place[0] in behind and (start or place in broken)]
            unknown.update(cut)
            if not cut:
                findings.append(self._finding(row))
        for topic, number in sorted(unknown):
            start = starts[topic, number]
            place = {"topic": topic, "partition": number, "last_offset": start - 1 if start else None}
            where = f"before offset {start}" if start else "where the log is corrupt"
            text = f"input and output of {self.group_id} cannot be compared {where}"
            findings.append(finding("unknown_before", INFORMATION, place, text))
        return findings

    def _finding(self, row: Finding) -> Finding:
        wanted, seen = row["wanted"], row["found"]
        kind = "output_missing" if seen < wanted else "output_duplicate" if wanted else "output_unexpected"
        what = ", ".join(f"{name} {_shown(row[name])}" for name in ("key", "value") if self.compare in ("both", name))
        place = {"topic": self.outputs[0] if len(self.outputs) == 1 else None}
        return finding(kind, ERROR, place, f"{what}: {seen} in the output, expected {wanted}")


def add(tallies: Iterable[pa.Table]) -> pa.Table:
    """Add up several tallies."""
    both = pa.concat_tables([TALLY.empty_table(), *tallies])
    sums = both.group_by(["key", "value"]).aggregate([("wanted", "sum"), ("found", "sum")])
    return pa.table([sums[name] for name in ("key", "value", "wanted_sum", "found_sum")], schema=TALLY)


def _shown(field: bytes | None) -> str:
    if field is None or len(field) <= SHOWN_BYTES:
        return repr(field)
    return f"{field[:SHOWN_BYTES]!r}... of {len(field)} bytes"
