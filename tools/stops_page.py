"""Write docs/stops.md from control/rules/points.py; `--check` only checks that it is up to date."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from generated import write_or_check

from stuntbroker.control.rules.points import FILES, POINTS, REQUEST_POINTS

PAGE: Final = Path(__file__).parent.parent / "docs" / "stops.md"
INTRODUCTION: Final = """\
<!-- Written by `make properties`: change tools/stops_page.py or control/rules/points.py instead. -->
# Points at which the broker can stop

A stop is a point with an action. [Fail on purpose](how-to/fail-on-purpose.md#stop-a-transaction-at-a-point) has examples,
[control.md](control.md#stops) the requests.

| action | effect |
|---|---|
| `park` | the request or transaction waits at the point until it is released; other transactional ids and connections proceed |
| `fail` | the request, transaction or write fails there, as when the disk refuses a write; its earlier effects stay |
| `kill` | the process ends, as by `kill -9`: everything before the point is in the files, nothing after it |

A client whose request or transaction fails gets the same error as when the disk refuses a write (COORDINATOR_NOT_AVAILABLE,
KAFKA_STORAGE_ERROR), or the broker closes its connection. A write to a log that fails ends the broker, as a full disk does. At
the points of disk writes, `kill` writes nothing more: appends that are not written yet are lost. None was acknowledged.

A stop fires once by default: `times` says how often (0: every time), `nth` from which matching request or transaction on.
"""


def page() -> str:
    """Return the whole page."""
    of_requests = [name for name in POINTS if name in REQUEST_POINTS]
    of_files = [name for name in POINTS if name in FILES]
    of_transactions = [name for name in POINTS if name not in REQUEST_POINTS and name not in FILES]
    parts = [
        INTRODUCTION,
        "## Points of transactions\n\n`match` may have `transactional_id` (a pattern) and `request`: InitProducerId,\n"
        "AddPartitions, EndTxn, Verify, TimeOut (the broker aborts the transaction), or MarkersWritten (the broker completes\n"
        "it after a fault). Points of markers and offsets have `topic` and `partition` instead of `request`. While there are\n"
        "stops, the broker writes the markers of a transaction in the order of topic and partition.\n",
        _table(of_transactions),
        "## Points of requests\n\n`match` may have the same fields as that of a [fault](control.md#faults); `api` only at\n"
        "`request.before` and `request.after`.\n",
        _table(of_requests),
        "## Points of disk writes\n\nA disk write cannot be parked: the whole broker would wait for it. `match` may have\n"
        "`topic` and `partition` for points of segments, snapshots and compaction.\n",
        _table(of_files),
    ]
    return "\n".join(parts)


def _table(names: Iterable[str]) -> str:
    rows = [f"| `{name}` | {POINTS[name].text} | {', '.join(POINTS[name].actions)} |\n" for name in names]
    return "| point | state at this point | actions |\n|---|---|---|\n" + "".join(rows)


def main() -> int:
    """Write or check; return the exit status."""
    return write_or_check(PAGE, page(), "make properties")


if __name__ == "__main__":
    sys.exit(main())
