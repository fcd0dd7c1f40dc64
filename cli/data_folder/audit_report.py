"""Report of `stuntbroker audit`: the JSON document, and the text that is made from it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from stuntbroker.cli.tables import instant, shown, table
from stuntbroker.pipeline.counting import count

if TYPE_CHECKING:
    import pyarrow as pa

    from stuntbroker.pipeline.audit.folder import Folder
    from stuntbroker.pipeline.audit.result import Audit

Report = dict[str, Any]
ROWS_MAX: Final = 1_000
"""Maximum rows of any list in the text, and of lists by transactional id in the JSON document."""
SLOWEST_MAX: Final = 10
SKIPPED_MAX: Final = 20
REASONS_WITHOUT_FENCE: Final = ("first", "first_seen", "end", "init", "init_by_owner")
"""Reasons for an epoch bump that do not fence another producer."""


def report_of(folder: Folder, audit: Audit, findings: pa.Table, timelines: list[str]) -> Report:
    """Return an audit as one JSON object: counts, findings, latencies, fences and timelines."""
    from stuntbroker.pipeline.audit.reports import aborted_of, is_internal, last_stable_offsets

    aborted = aborted_of(audit.transactions).to_pylist()
    held = [
        row
        for row in last_stable_offsets(audit.transactions, audit.bounds).to_pylist()
        if row["producer_id"] is not None
    ]
    held.sort(key=lambda row: is_internal(row["topic"]))
    rows = findings.to_pylist()
    names = ("transactions", "aborted_transactions", "bytes", "aborted_bytes")
    total = {name: sum(row[name] for row in aborted) for name in names}
    return {
        "folder": folder.path,
        "in_use": folder.in_use,
        "skipped": [{"name": row.name, "reason": row.reason} for row in folder.skipped],
        "partitions": len(audit.bounds),
        "batches": sum(audit.segments["batches"].to_pylist()),
        "bytes": sum(audit.segments["bytes"].to_pylist()),
        "transactional_ids": len(audit.lasts),
        "transactions": total["transactions"],
        "aborted_transactions": total["aborted_transactions"],
        "aborted_bytes_ratio": total["aborted_bytes"] / total["bytes"] if total["bytes"] else None,
        "severities": dict(Counter(row["severity"] for row in rows)),
        "findings": rows,
        "last_stable_offsets_held": held,
        "aborted": aborted,
        "fencing": _fencing(audit.fencing),
        "timelines": {name: _timeline(audit.fencing, name) for name in timelines},
        "latencies": _slowest(audit.latencies, ROWS_MAX),
    }


def _fencing(fencing: pa.Table) -> Report:
    """Return how often each reason occurs, and the newest rows whose reason is not in REASONS_WITHOUT_FENCE."""
    import pyarrow as pa
    import pyarrow.compute as pc

    counts = {row["values"]: row["counts"] for row in pc.value_counts(fencing["reason"]).to_pylist()}
    others = fencing.filter(pc.invert(pc.is_in(fencing["reason"], pa.array(REASONS_WITHOUT_FENCE))))
    newest = others.sort_by([("update_ms", "descending"), ("log_offset", "descending")]).slice(0, ROWS_MAX)
    return {
        "reasons": dict(sorted(counts.items())),
        "rows": newest.to_pylist(),
        "rows_left_out": len(others) - len(newest),
    }


def _timeline(fencing: pa.Table, name: str) -> list[Report]:
    import pyarrow.compute as pc

    rows: list[Report] = fencing.filter(pc.equal(fencing["transactional_id"], name)).to_pylist()
    return rows


def _slowest(latencies: pa.Table, most: int) -> list[Report]:
    order = [("p99_ms", "descending"), ("p100_ms", "descending"), ("transactional_id", "ascending")]
    rows: list[Report] = latencies.sort_by(order).slice(0, most).to_pylist()
    return rows


def text_of(report: Report) -> str:
    """Return a report as readable text."""
    ratio = report["aborted_bytes_ratio"]
    lines = [
        f"{count(report['partitions'], 'partition')}, {count(report['batches'], 'batch', 'batches')}, "
        f"{count(report['bytes'], 'byte')}, {count(report['transactional_ids'], 'transactional id')}; "
        f"{count(report['transactions'], 'end of a transaction in a partition', 'ends of transactions in partitions')}, "
        f"{count(report['aborted_transactions'], 'abort')} among them"
        + (f" with {100 * ratio:.1f} % of the bytes\n" if ratio else "\n")
    ]
    if report["in_use"]:
        lines.append("A broker is using this folder: data that it writes during the audit may look incomplete.\n")
    lines += [
        f"skipped {shown(entry['name'])}: {shown(entry['reason'])}\n" for entry in report["skipped"][:SKIPPED_MAX]
    ]
    if (left := len(report["skipped"]) - SKIPPED_MAX) > 0:
        lines.append(f"and {left} more are skipped: --json has them all\n")
    lines.append(lines_of_findings(report["findings"]))
    if "compared" in report and not report["compared"]["findings"]:
        entry = report["compared"]
        inputs, outputs = ", ".join(entry["inputs"]), ", ".join(entry["outputs"])
        said = f"Exactly once: {outputs} has exactly the output of the records of {inputs} that {entry['group']} has committed."
        lines.append(f"\n{shown(said)}\n")
    lines += [_timeline_text(name, rows) for name, rows in report["timelines"].items()]
    if report["last_stable_offsets_held"]:
        lines.append(_held(report["last_stable_offsets_held"]))
    if report["fencing"]["rows"]:
        lines.append(_fenced(report["fencing"]["rows"]))
    if report["latencies"]:
        lines.append(_latencies(report["latencies"]))
    return "".join(lines)


def lines_of_findings(findings: list[Report]) -> str:
    """Return the part of the text that lists the findings."""
    if not findings:
        return "\nNothing found.\n"
    from stuntbroker.pipeline.audit.findings import grouped

    rows = [
        (
            finding["severity"],
            finding["kind"],
            _place(finding) + (f" and {number - 1} more" if number > 1 else ""),
            finding["transactional_id"] or "-",
            _pair(finding),
            finding["evidence"],
        )
        for finding, number in grouped(findings)
    ]
    return _section(("SEVERITY", "KIND", "WHERE", "TRANSACTIONAL-ID", "PRODUCER", "EVIDENCE"), rows)


def _held(held: list[Report]) -> str:
    rows = [
        (
            f"{row['topic']}-{row['partition']}",
            row["last_stable_offset"],
            row["log_end_offset"],
            row["transactional_id"] or "-",
            _pair(row),
            instant(row["first_timestamp"]),
        )
        for row in held
    ]
    return _section(("PARTITION", "LAST-STABLE-OFFSET", "LOG-END-OFFSET", "HELD-BY", "PRODUCER", "SINCE"), rows)


def _fenced(fenced: list[Report]) -> str:
    """Format how often, and why, each transactional id was fenced; the newest first."""
    counts = Counter((row["transactional_id"], row["reason"]) for row in fenced)
    newest: dict[tuple[str, str], Report] = {}
    for row in fenced:
        newest.setdefault((row["transactional_id"], row["reason"]), row)
    rows = [
        (name, reason, counts[name, reason], _before(row), _pair(row), instant(row["update_ms"]))
        for (name, reason), row in newest.items()
    ]
    return _section(("TRANSACTIONAL-ID", "BUMPED-BY", "TIMES", "LAST-FROM", "TO", "AT"), rows)


def _latencies(latencies: list[Report]) -> str:
    names = ("p50_ms", "p90_ms", "p99_ms", "p100_ms")
    rows = [
        (row["transactional_id"], row["transactions"], *(row[name] for name in names))
        for row in latencies[:SLOWEST_MAX]
    ]
    return _section(("SLOWEST-TRANSACTIONAL-IDS", "TRANSACTIONS", "P50-MS", "P90-MS", "P99-MS", "MAX-MS"), rows)


def _timeline_text(name: str, timeline: list[Report]) -> str:
    if not timeline:
        return f"\n{shown(name)}: no transactional id of that name is in the transaction log.\n"
    rows = [
        (instant(row["update_ms"]), row["reason"], _before(row), _pair(row), row["state"], row["log_offset"])
        for row in timeline
    ]
    return f"\n{shown(name)}\n" + table(("AT", "BUMPED-BY", "FROM", "TO", "STATE", "LOG-OFFSET"), rows)


def _section(headers: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    left = len(rows) - ROWS_MAX
    more = f"and {left} more: --json and --tables have them all\n" if left > 0 else ""
    return "\n" + table(headers, rows[:ROWS_MAX]) + more


def _place(finding: Report) -> str:
    if finding["topic"] is None:
        return "-"
    place = finding["topic"] if finding["partition"] is None else f"{finding['topic']}-{finding['partition']}"
    if finding["first_offset"] is None:
        return place
    return f"{place}@{finding['first_offset']}" + (
        f"..{finding['last_offset']}" if finding["last_offset"] is not None else ""
    )


def _pair(row: Report) -> str:
    return "-" if row["producer_id"] is None else f"{row['producer_id']}:{row['producer_epoch']}"


def _before(row: Report) -> str:
    return "-" if row["before_producer_id"] < 0 else f"{row['before_producer_id']}:{row['before_producer_epoch']}"
