"""`stuntbroker audit`: checks the transactions in the data folder of a broker, ours or Apache Kafka's."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from stuntbroker.cli.arguments import UsageError, choice, non_empty_value, options, single
from stuntbroker.cli.tables import shown

if TYPE_CHECKING:
    from stuntbroker.pipeline.audit.eos import ExactlyOnceCheck
    from stuntbroker.pipeline.audit.findings import Finding
    from stuntbroker.pipeline.audit.folder import Folder
    from stuntbroker.pipeline.audit.result import Audit
    from stuntbroker.pipeline.audit.tables import TableWriter

USAGE: Final = """\
usage: stuntbroker audit FOLDER [options]

Checks the transactions in a data folder: log.dirs of Apache Kafka, --data-dir of Stuntbroker. No broker is needed.

  --json                    print one JSON document
  --html FILE               write a page for a browser, too
  --tables DIR              write Parquet tables, too: batches, txn_state, offsets, transactions, ...
  --records                 with --tables: write a table of all records, too
  --timeline ID             print the history of this transactional id, too; may be repeated
  --spark [MASTER]          read the folder with Spark (default local[*]); needs a JDK 17 or newer
  --eos-group G             check that the output of this group has each of its input records exactly once:
  --eos-input T               topic of the input, up to the committed offsets; may be repeated
  --eos-output T              topic of the output; may be repeated
  --eos-compare both|key|value   what of a record is the same in input and output (default both)

Exit status: 0 no warning or error, 1 a warning, an error or a failure, 2 invalid command line.

Examples:
  stuntbroker audit ./data --html audit.html
  stuntbroker audit /var/lib/kafka/data --json --timeline payments-1
"""
NEEDS: Final = "audit needs more packages: install stuntbroker[audit]"
HARMLESS: Final = "information"
FLAGS: Final = ("--json", "--records")
VALUES: Final = (
    "--html",
    "--tables",
    "--timeline",
    "--spark",
    "--eos-group",
    "--eos-input",
    "--eos-output",
    "--eos-compare",
)
MASTER_DEFAULT: Final = "local[*]"
_MASTER = re.compile(r"local(\[.*\])?|yarn|(spark|k8s)://.*")
UPDATE_S: Final = 0.2
SPARSE_S: Final = 10.0


class AuditOptions(NamedTuple):
    """Options of `stuntbroker audit`."""

    folder: str
    json: bool
    html: str | None
    tables: str | None
    records: bool
    timelines: list[str]
    master: str | None
    """Spark master; None to run without Spark."""
    chain: ExactlyOnceCheck | None


class Progress:
    """Progress on standard error: one line that changes on a terminal, else a new line every ten seconds."""

    def __init__(self, only_terminal: bool) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._is_silent = only_terminal and not self._is_terminal
        self._next_s = time.monotonic() + (UPDATE_S if self._is_terminal else SPARSE_S)
        self._is_shown = False

    def __call__(self, what: str, fraction: float) -> None:
        now_s = time.monotonic()
        if self._is_silent or now_s < self._next_s:
            return
        text = f"{what} {100 * fraction:.0f} %"
        if self._is_terminal:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
            self._is_shown, self._next_s = True, now_s + UPDATE_S
        else:
            sys.stderr.write(f"stuntbroker: {text}\n")
            self._next_s = now_s + SPARSE_S

    def clear(self) -> None:
        """Remove the progress line from the terminal."""
        if self._is_shown:
            sys.stderr.write("\r\x1b[K")
            self._is_shown = False


def audit(arguments: list[str]) -> int:
    """Audit a folder; return the exit status: 0 for no findings but information, 1 for findings or an unreadable folder."""
    options = parse(arguments)
    try:
        from stuntbroker.pipeline.audit.folder import FolderError, read_folder
    except ModuleNotFoundError as fault:
        return _failed(f"{NEEDS} ({fault.name} is not there)")
    progress = Progress(options.json)
    try:
        if options.html is not None:
            check_page(options.html)
        folder = read_folder(options.folder)
        if options.chain is not None:
            options.chain.check_topics(folder)
        tables = _tables(options)
        result, compared = _audit_folder(options, folder, tables, progress)
        findings = result.findings()
        if compared:
            from stuntbroker.pipeline.audit.findings import as_findings, concat_findings

            findings = concat_findings(findings, as_findings(compared))
        if tables is not None:
            tables.finish(result, findings)
        if options.html is not None:
            from stuntbroker.pipeline.report import write_report

            write_report(options.html, result, folder, findings)
    except FolderError as fault:
        progress.clear()
        return _failed(str(fault))
    except OSError as fault:
        progress.clear()
        return _failed(str(fault) if fault.filename is None else f"{fault.filename}: {fault.strerror}")
    except ModuleNotFoundError as fault:
        return _failed(f"{NEEDS} ({fault.name} is not there)")
    progress.clear()
    from stuntbroker.cli.data_folder.audit_report import report_of, text_of

    report = report_of(folder, result, findings, options.timelines)
    if options.chain is not None:
        chain = options.chain
        names = {"group": chain.group_id, "inputs": list(chain.inputs), "outputs": list(chain.outputs)}
        report["compared"] = names | {"findings": len(compared)}
    sys.stdout.write(json.dumps(report, indent=2) + "\n" if options.json else text_of(report))
    return 1 if report["severities"].keys() - {HARMLESS} else 0


def check_page(path: str) -> None:
    """Check before the audit that its page can be written. Raises OSError, ModuleNotFoundError."""
    from importlib.util import find_spec

    for name in ("jinja2", "plotly"):
        if find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    folder = os.path.dirname(path) or "."
    why = ""
    if os.path.isdir(path):
        why = "it is a folder"
    elif not os.path.isdir(folder):
        why = f"there is no folder {folder}"
    elif not os.access(path if os.path.exists(path) else folder, os.W_OK):
        why = "this user may not"
    if why:
        raise OSError(f"cannot write {path}: {why}; give another --html")


def _tables(options: AuditOptions) -> TableWriter | None:
    """Return the writer for --tables, if given. Raises FolderError if it cannot write to the folder."""
    if options.tables is None:
        return None
    from stuntbroker.pipeline.audit.tables import TableWriter

    tables = TableWriter(options.tables, options.records)
    tables.make_folders()
    return tables


def _audit_folder(
    options: AuditOptions, folder: Folder, tables: TableWriter | None, progress: Progress
) -> tuple[Audit, list[Finding]]:
    """Audit a folder and write its tables; return the audit, and the findings of the exactly-once comparison."""
    if options.master is None:
        from stuntbroker.pipeline.audit.run import audit as audit_of
        from stuntbroker.pipeline.audit.run import compare

        result = audit_of(folder, tables, progress)
        return result, compare(folder, result, options.chain, progress) if options.chain else []
    from stuntbroker.cli.data_folder.audit_spark import audit_with_spark

    return audit_with_spark(options.master, folder, tables, options.chain, progress)


def parse(arguments: list[str]) -> AuditOptions:
    """Parse the command line. Raises UsageError."""
    places, others = _split(arguments)
    given = options(others, VALUES, FLAGS)
    if len(places) != 1:
        raise UsageError("audit: give one data folder (log.dirs in Kafka, --data-dir here)")
    if "--records" in given and "--tables" not in given:
        raise UsageError("--records needs --tables")
    texts = {name: non_empty_value(given, name) or None for name in ("--html", "--tables", "--spark")}
    return AuditOptions(
        places[0],
        "--json" in given,
        texts["--html"],
        texts["--tables"],
        "--records" in given,
        given.get("--timeline", []),
        texts["--spark"],
        _chain(given),
    )


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Return (positional arguments, options with their values); the value of --spark may be left out."""
    places, others = [], []
    waiting = iter(range(len(arguments)))
    for at in waiting:
        argument = arguments[at]
        following = arguments[at + 1] if at + 1 < len(arguments) else None
        if not argument.startswith("-"):
            places.append(argument)
        elif argument == "--spark" and (following is None or not _MASTER.fullmatch(following)):
            others.append(f"--spark={MASTER_DEFAULT}")
        elif argument in VALUES and following is not None:
            others += [argument, following]
            next(waiting)
        else:
            others.append(argument)
    return places, others


def _chain(values: dict[str, list[str]]) -> ExactlyOnceCheck | None:
    given = [name for name in ("--eos-group", "--eos-input", "--eos-output") if name in values]
    if not given and "--eos-compare" not in values:
        return None
    if len(given) < 3:
        raise UsageError("--eos-group, --eos-input and --eos-output go together")
    compared = choice(values, "--eos-compare", "both", "key", "value")
    try:
        from stuntbroker.pipeline.audit.eos import ExactlyOnceCheck
    except ModuleNotFoundError:
        return None  # The missing module is reported when the folder is read.
    return ExactlyOnceCheck(
        single(values, "--eos-group", ""), tuple(values["--eos-input"]), tuple(values["--eos-output"]), compared
    )


def _failed(text: str) -> int:
    sys.stderr.write(f"stuntbroker: {shown(text)}\n")
    return 1
