"""`stuntbroker audit`: what the data folder of a broker, ours or Apache Kafka's, says of its transactions."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from stuntbroker.cli.main import UsageError, options
from stuntbroker.cli.tables import instant, shown, table

if TYPE_CHECKING:
    from stuntbroker.pipeline.audit.folder import Folder
    from stuntbroker.pipeline.audit.run import Audit

MISSING = "audit needs numpy and pyarrow: install stuntbroker[pipeline]"
HARMLESS = "information"

Report = dict[str, Any]


def audit(arguments: list[str]) -> int:
    """Exit status: 0 nothing found but what is normal, 1 findings or a folder that cannot be read."""
    folders = [one for one in arguments if not one.startswith("-")]
    found = options([one for one in arguments if one.startswith("-")], (), flags=("--json",))
    if len(folders) != 1:
        raise UsageError("audit: give one data folder (log.dirs in Kafka, --data-dir here)")
    try:
        from stuntbroker.pipeline.audit.folder import FolderError, read_folder
        from stuntbroker.pipeline.audit.run import audit as audit_of
    except ModuleNotFoundError as fault:
        sys.stderr.write(f"stuntbroker: {MISSING} ({fault.name} is not there)\n")
        return 1
    try:
        folder = read_folder(folders[0])
        report = report_of(folder, audit_of(folder))
    except (FolderError, OSError) as fault:
        sys.stderr.write(f"stuntbroker: {shown(str(fault))}\n")
        return 1
    sys.stdout.write(json.dumps(report, indent=2) + "\n" if "--json" in found else text_of(report))
    return 1 if any(one["severity"] != HARMLESS for one in report["findings"]) else 0


def report_of(folder: Folder, made: Audit) -> Report:
    from stuntbroker.pipeline.audit.reports import aborted_of, last_stable_offsets, latencies_of

    aborted = aborted_of(made.transactions).to_pylist()
    held = [one for one in last_stable_offsets(made.transactions, made.bounds).to_pylist() if one["producer_id"] is not None]
    return {
        "folder": folder.path,
        "in_use": folder.in_use,
        "skipped": [{"name": one.name, "reason": one.reason} for one in folder.skipped],
        "partitions": len(made.bounds),
        "batches": len(made.batches),
        "transactional_ids": len(set(made.txn_state["transactional_id"].to_pylist())),
        "transactions": sum(one["transactions"] for one in aborted),
        "aborted_transactions": sum(one["aborted_transactions"] for one in aborted),
        "findings": made.findings().to_pylist(),
        "last_stable_offsets_held": held,
        "latencies": latencies_of(made.txn_state).to_pylist(),
    }


def text_of(report: Report) -> str:
    lines = [
        f"{report['partitions']} partitions, {report['batches']} batches, {report['transactional_ids']} transactional ids; "
        f"{report['transactions']} ends of transactions in partitions, {report['aborted_transactions']} of them aborts\n"
    ]
    if report["in_use"]:
        lines.append("A broker has this folder open: what it writes meanwhile may look unfinished.\n")
    lines += [f"skipped {shown(one['name'])}: {shown(one['reason'])}\n" for one in report["skipped"]]
    if report["findings"]:
        rows = [
            (one["severity"], one["kind"], _place(one), one["transactional_id"] or "-", _pair(one), one["evidence"])
            for one in report["findings"]
        ]
        lines.append("\n" + table(("SEVERITY", "KIND", "WHERE", "TRANSACTIONAL-ID", "PRODUCER", "EVIDENCE"), rows))
    else:
        lines.append("\nNothing found.\n")
    if report["last_stable_offsets_held"]:
        rows = [
            (
                f"{one['topic']}-{one['partition']}", one["last_stable_offset"], one["log_end_offset"],
                one["transactional_id"] or "-", _pair(one), instant(one["first_timestamp"]),
            )
            for one in report["last_stable_offsets_held"]
        ]  # fmt: skip
        headers = ("PARTITION", "LAST-STABLE-OFFSET", "LOG-END-OFFSET", "HELD-BY", "PRODUCER", "SINCE")
        lines.append("\n" + table(headers, rows))
    return "".join(lines)


def _place(one: Report) -> str:
    if one["topic"] is None:
        return "-"
    place = f"{one['topic']}-{one['partition']}"
    if one["first_offset"] is None:
        return place
    return f"{place}@{one['first_offset']}" + (f"..{one['last_offset']}" if one["last_offset"] is not None else "")


def _pair(one: Report) -> str:
    return "-" if one["producer_id"] is None else f"{one['producer_id']}:{one['producer_epoch']}"
