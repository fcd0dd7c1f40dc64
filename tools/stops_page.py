"""Writes docs/stops.md from the points in control/stops.py. `--check` only says whether it is up to date."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from stuntbroker.control.stops import FILES, POINTS, REQUEST_POINTS

PAGE: Final = Path(__file__).parent.parent / "docs" / "stops.md"
INTRODUCTION: Final = """\
<!-- Written by `make properties`: change tools/stops_page.py or control/stops.py instead. -->
# Points at which the broker can stop

A stop is a point with an action. [Fail on purpose](how-to/fail-on-purpose.md#a-moment-that-lasts) has examples,
[control.md](control.md#stops) the requests.

| action | what becomes of what comes there |
|---|---|
| `park` | it waits until it is released; other transactional ids and connections go on |
| `fail` | it fails, as when a disk refuses; what was done until then stays |
| `kill` | the process ends, as by `kill -9`: what comes before this point is in the files, what comes behind it is not |

What fails on the way of a request or of a transaction is answered as when the disk refuses (COORDINATOR_NOT_AVAILABLE,
KAFKA_STORAGE_ERROR), or its connection is closed. What fails on the way to the disk has the broker do what it does then: for a
write to its logs, it ends. At points on the way to the disk `kill` writes nothing more: what was appended in the same turn of the
event loop is only there if it was written before the point.

A stop fires once, or as often as `times` says (0: always), from the `nth` that matches on.
"""


def page() -> str:
    """The whole page."""
    of_requests = [name for name in POINTS if name in REQUEST_POINTS]
    of_files = [name for name in POINTS if name in FILES]
    of_transactions = [name for name in POINTS if name not in REQUEST_POINTS and name not in FILES]
    parts = [
        INTRODUCTION,
        "## On the way of a transaction\n\n`match` may have `transactional_id` (a pattern), and `request`: InitProducerId,\n"
        "AddPartitions, EndTxn, Verify, or what the broker does by itself: TimeOut, and MarkersWritten for a transaction that\n"
        "it finishes after a fault. Points of markers and offsets have `topic` and\n"
        "`partition` instead of `request`; the markers of a transaction are written by topic and partition.\n",
        _table(of_transactions),
        "## On the way of a request\n\n`match` may have what a [fault](control.md#faults) can match; `api` only where the\n"
        "point is for any.\n",
        _table(of_requests),
        "## On the way to the disk\n\nNothing can be parked there, as the whole broker would wait. `match` may have `topic` and\n"
        "`partition` for points of segments, snapshots and compaction.\n",
        _table(of_files),
    ]
    return "\n".join(parts)


def _table(names: Iterable[str]) -> str:
    rows = [f"| `{name}` | {POINTS[name].text} | {', '.join(POINTS[name].actions)} |\n" for name in names]
    return "| point | what is true there | actions |\n|---|---|---|\n" + "".join(rows)


def main() -> int:
    """Write or check; return the exit status."""
    if "--check" not in sys.argv:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == page():
        return 0
    sys.stderr.write(f"{PAGE} is not up to date: make properties\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
