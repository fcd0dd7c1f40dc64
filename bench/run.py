"""Compare this broker with others, alternating between them; print medians, ratios and goals.

    python bench/run.py                                   everything, three rounds (about 10 minutes)
    python bench/run.py --quick                           one short round of us and kfake (about 20 seconds)
    python bench/run.py --systems us,kfake --workloads txn-latency,eos --rounds 5 --out figures.jsonl
    python bench/run.py --read figures.jsonl --markdown   the table of an earlier run

This is a benchmark, not a test: a missed goal does not change the exit status. The exit status is 1 if a workload failed
(`eos` fails if a record is missing or duplicated) or if nothing could be measured.
"""

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from figures import Line, Report, markdown, plain
from systems import CACHE, System, Unavailable, measuring_client, prepare

WORKLOADS = (
    "ready",
    "txn-latency",
    "txn-concurrent",
    "inits",
    "eos",
    "conns",
    "produce",
    "consume",
    "produce-small",
)

SESSIONS = {
    # Memory per id and the second pass need a server without earlier, larger workloads.
    "ids": ("ready", "txn-concurrent", "inits", "txn-concurrent"),
    "data": ("ready", "txn-latency", "eos", "conns", "produce", "consume", "produce-small", "consume"),
}
"""Session -> workloads of one server process, in order. Every session starts with an empty data folder."""

# Short enough for Kafka, long enough that start-up effects are small: see docs/benchmarks.md.
FULL = "-n 2000 -t 200 -cap 10s -k 100000 -m 500 -ids 20000 -secs 5"
QUICK = "-n 2000 -t 100 -cap 2s -k 50000 -m 100 -ids 5000 -secs 1"
SHOWN = (
    "ready_ms",
    "txn_per_s",
    "txn_p50_ms",
    "inits_per_s",
    "records_per_s",
    "mb_per_s",
    "all_acked_ms",
    "server_cpu_s",
    "stop_ms",
)
LOG_LINES_SHOWN = 15
COMMAND_HELP = "an additional system, or another command for a known one; {port} and {data} are replaced"


@dataclass(frozen=True, slots=True)
class Plan:
    systems: list[System]
    workloads: frozenset[str]
    rounds: int
    flags: list[str]
    scratch: Path

    def sessions(self) -> Iterator[tuple[int, str, list[str], System]]:
        """Yield (round, session, its workloads, system). Systems alternate; each round starts with a different system."""
        chosen = {name: _chosen(names, self.workloads) for name, names in SESSIONS.items()}
        if not any(len(names) > 1 for names in chosen.values()):
            chosen = {"data": ["ready"]}
        for nth in range(1, self.rounds + 1):
            first = (nth - 1) % len(self.systems)
            for session, names in chosen.items():
                for system in self.systems[first:] + self.systems[:first]:
                    if len(chosen) == 1 or len(names) > 1:
                        yield nth, session, names, system


def _chosen(names: tuple[str, ...], wanted: frozenset[str]) -> list[str]:
    """Return the requested workloads, without repetitions that directly follow the same workload."""
    chosen = ["ready"]
    for name in names[1:]:
        is_read = name == "consume" and chosen[-1] not in ("produce", "produce-small")
        if name in wanted and name != chosen[-1] and not is_read:
            chosen.append(name)
    return chosen


def measure(plan: Plan, client: Path, out: TextIO) -> list[Line]:
    lines = []
    for nth, session, names, system in plan.sessions():
        for line in _session(plan, client, system, names):
            line |= {"round": nth, "session": session}
            out.write(json.dumps(line) + "\n")
            out.flush()
            lines.append(line)
            _tell(f"round {nth}  {system.name:6}  {line['workload']:14}  {_summary(line)}")
    return lines


def _session(plan: Plan, client: Path, system: System, names: list[str]) -> Iterator[Line]:
    """Run one server from start to end; yield the lines of the measuring client."""
    data = plan.scratch / "data"
    log_path = plan.scratch / "log"
    port, command = system.at(data)
    arguments = ["-label", system.name, "-bootstrap", f"127.0.0.1:{port}", "-cmd", command, *plan.flags]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with log_path.open("w") as log:
        process = subprocess.Popen(
            [client, *arguments, ",".join(names)],
            cwd=plan.scratch,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert process.stdout is not None
    seen, failed = 0, False
    try:
        for text in process.stdout:
            line = json.loads(text)
            seen += line["workload"] != "stop"
            failed |= "error" in line
            if line["workload"] == "ready" and (data / "format_ms").exists():
                line["format_ms"] = int((data / "format_ms").read_text())
            yield line
        process.wait()
    finally:
        process.kill()  # A no-op unless this function is left early. The server ends with its client.
        process.wait()
        shutil.rmtree(data, ignore_errors=True)
    if seen < len(names) and not failed:
        error = f"the client ended with status {process.returncode} before it"
        yield {"workload": names[seen], "pass": 1, "system": system.name, "error": error}
        failed = True
    if failed:
        _tell("".join(log_path.read_text().splitlines(keepends=True)[-LOG_LINES_SHOWN:]).rstrip())


def _summary(line: Line) -> str:
    if "error" in line:
        return f"FAILED: {line['error']}"
    return "  ".join(f"{name}={line[name]:,g}" for name in SHOWN if name in line)


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _machine() -> Line:
    """Return the first line of a file of figures: the machine on which they were measured."""
    model = ""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
    return {
        "machine": platform.platform(),
        "cpu": model,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }


def _prepared(names: list[str], commands: dict[str, str]) -> list[System]:
    systems = []
    for name in names:
        try:
            systems.append(prepare(name, commands))
        except Unavailable as reason:
            _tell(f"{name} is left out: {reason}")
    return systems


def _show(lines: list[Line], as_markdown: bool) -> int:
    report = Report(lines)
    print((markdown if as_markdown else plain)(report.table()))
    print(f"\n{report.noise()}")
    failures = [line for line in lines if "error" in line]
    for line in failures:
        print(f"FAILED: round {line['round']}, {line['system']}, {line['workload']}: {line['error']}")
    return 1 if failures else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure this broker beside others: docs/benchmarks.md")
    add = parser.add_argument
    add("--systems", help="of us,compiled,kfake,kfake-disk,kafka (default: us,kfake,kafka; with --quick us,kfake)")
    add("--workloads", help=f"of {','.join(WORKLOADS)} (default: all)")
    add("--rounds", type=int, help="number of rounds (default: 3; with --quick 1)")
    add("--quick", action="store_true", help="short workloads: look at CPU per unit, not at rates")
    add("--command", action="append", default=[], metavar="NAME=COMMAND", help=COMMAND_HELP)
    add("--flags", default="", help="more flags for the measuring client, as in --flags='-k 500000'")
    add("--out", type=Path, default=CACHE / "last.jsonl", help="file for the figures, as JSON lines")
    add("--read", type=Path, help="measure nothing, show the figures of this file")
    add("--markdown", action="store_true", help="the table in Markdown")
    add("--scratch", type=Path, help="where data folders are made (default: the system's own)")
    options = parser.parse_args()
    options.systems = (options.systems or ("us,kfake" if options.quick else "us,kfake,kafka")).split(",")
    options.workloads = frozenset(options.workloads.split(",") if options.workloads else WORKLOADS)
    options.rounds = options.rounds or (1 if options.quick else 3)
    if unknown := options.workloads - set(WORKLOADS):
        parser.error(f"no such workload: {', '.join(sorted(unknown))}")
    if any("=" not in command for command in options.command):
        parser.error("--command is NAME=COMMAND")
    if "consume" in options.workloads and not options.workloads & {"produce", "produce-small"}:
        options.workloads |= {"produce"}  # consume reads what it wrote
    return options


def main() -> int:
    options = _options()
    if options.read:
        return _show([json.loads(text) for text in options.read.read_text().splitlines()], options.markdown)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the server is ended too
    try:
        client = measuring_client()
    except Unavailable as reason:
        _tell(f"nothing can be measured without the client: {reason}")
        return 1
    systems = _prepared(options.systems, dict(command.split("=", 1) for command in options.command))
    if not systems:
        return 1
    flags = (QUICK if options.quick else FULL).split() + options.flags.split()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.scratch) as scratch:
        plan = Plan(systems, options.workloads, options.rounds, flags, Path(scratch))
        with options.out.open("w") as out:
            out.write(json.dumps(_machine()) + "\n")
            lines = measure(plan, client, out)
    status = _show(lines, options.markdown)
    _tell(f"Figures: {options.out}")
    return status


if __name__ == "__main__":
    sys.exit(main())
