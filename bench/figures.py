"""The benchmark's report: the figures of each workload, their goals, and the table.

A goal is judged by the medians of all rounds. The count after the verdict, as in `met 2/3`, is the number of rounds in which
the goal also holds for the figures of that round alone; if it does not hold in all rounds, noise influences the verdict.
"""

import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

Line = dict[str, Any]
US = "us"


@dataclass(frozen=True, slots=True)
class Goal:
    """Goal that our figure is <= or >= (`sign`) `times` the figure of system `of`; without `of`, `times` is the bound."""

    sign: Literal["<=", ">="]
    times: float
    of: str = ""
    row: str = ""
    """Row to compare with, if different."""

    def holds(self, ours: float, base: float) -> bool:
        return ours <= self.times * base if self.sign == "<=" else ours >= self.times * base

    def __str__(self) -> str:
        if not self.of:
            return f"{self.sign} {self.times:g}"
        factor = f"{self.times:g}" if self.times >= 0.75 else f"1/{1 / self.times:g}"
        return f"{self.sign} {factor} x {self.row or self.of}"


@dataclass(frozen=True, slots=True)
class Figure:
    row: str
    field: str
    title: str
    goal: Goal | None = None


CPU = "server CPU per unit, us"
KNOWN = "txn-concurrent, ids known"
SMALL = "consume-small"

FIGURES = (
    Figure("ready", "ready_ms", "spawn to ready, ms", Goal("<=", 1 / 20, "kafka")),
    Figure("ready", "format_ms", "of which formatting, ms"),
    Figure("ready", "first_commit_ms", "spawn to first commit, ms"),
    Figure("ready", "rss_ready_mb", "resident, MB", Goal("<=", 1 / 8, "kafka")),
    Figure("txn-latency", "txn_p50_ms", "p50, ms", Goal("<=", 1.2, "kfake")),
    Figure("txn-latency", "txn_p99_ms", "p99, ms"),
    Figure("txn-latency", "cpu_us", CPU, Goal("<=", 120)),
    Figure("txn-concurrent", "txn_per_s", "transactions/s", Goal(">=", 0.9, "kfake")),
    Figure("txn-concurrent", "txn_p99_ms", "p99, ms"),
    Figure("txn-concurrent", "cpu_us", CPU, Goal("<=", 75)),
    Figure(KNOWN, "txn_per_s", "transactions/s", Goal(">=", 0.9, US, "txn-concurrent")),
    Figure(KNOWN, "cpu_us", CPU),
    Figure("inits", "inits_per_s", "ids/s", Goal(">=", 5, "kafka")),
    Figure("inits", "init_p99_ms", "p99, ms"),
    Figure("inits", "cpu_us", CPU),
    Figure("inits", "bytes_per_id", "resident per id, bytes", Goal("<=", 600)),
    Figure("eos", "records_per_s", "records/s", Goal(">=", 10, "kafka")),
    Figure("eos", "missing", "records missing", Goal("<=", 0)),
    Figure("eos", "duplicates", "duplicate records", Goal("<=", 0)),
    Figure("eos", "cpu_us", CPU),
    Figure("conns", "all_acked_ms", "all acknowledged, ms", Goal("<=", 1 / 2, "kafka")),
    Figure("conns", "rss_connected_mb", "resident, MB"),
    Figure("produce", "mb_per_s", "MB/s", Goal(">=", 1, "kafka")),
    Figure("produce", "cpu_us", CPU),
    Figure("consume", "mb_per_s", "MB/s", Goal(">=", 1, "kafka")),
    Figure("consume", "cpu_us", CPU),
    Figure("produce-small", "mb_per_s", "MB/s", Goal(">=", 1, "kafka")),
    Figure("produce-small", "records_per_s", "records/s"),
    Figure("produce-small", "cpu_us", CPU),
    Figure(SMALL, "mb_per_s", "MB/s", Goal(">=", 1, "kafka")),
    Figure(SMALL, "records_per_s", "records/s"),
    Figure(SMALL, "cpu_us", CPU),
)

UNITS = {
    "txn-latency": "txns",
    "txn-concurrent": "txns",
    "inits": "ids",
    "eos": "records",
    "produce": "records",
    "produce-small": "records",
    "consume": "records",
}


def row_of(line: Line) -> str:
    """Return the row of a line; a workload has another row for other data or a second pass."""
    match line["workload"]:
        case "txn-concurrent" if line["pass"] > 1:
            return KNOWN
        case "consume" if line.get("record_bytes") == 100:
            return SMALL
        case workload:
            return str(workload)


def derived(line: Line) -> Line:
    """Return the line with server CPU time and memory per unit added."""
    units = line.get(UNITS.get(line["workload"], ""))
    if not units or "error" in line:
        return line
    more: Line = {}
    if line.get("server_cpu_s"):
        more["cpu_us"] = line["server_cpu_s"] * 1e6 / units
    if line["workload"] == "inits" and "rss_before_mb" in line:
        more["bytes_per_id"] = (line["rss_after_mb"] - line["rss_before_mb"]) * 1e6 / units
    return line | more


class Report:
    """The medians of many lines."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self._lines = [derived(line) for line in lines if "workload" in line]
        self.systems = list(dict.fromkeys(line["system"] for line in self._lines))
        self.rounds = sorted({line["round"] for line in self._lines})

    def value(self, row: str, field: str, system: str, nth: int | None = None) -> float | None:
        """Return the median over all rounds, or over the values of round `nth`."""
        values = [
            line[field]
            for line in self._lines
            if line["system"] == system
            and nth in (None, line["round"])
            and field in line
            and "error" not in line
            and row_of(line) == row
        ]
        return statistics.median(values) if values else None

    def _holds(self, figure: Figure, goal: Goal, nth: int | None) -> bool | None:
        ours = self.value(figure.row, figure.field, US, nth)
        base = self.value(goal.row or figure.row, figure.field, goal.of, nth) if goal.of else 1.0
        return None if ours is None or base is None else goal.holds(ours, base)

    def verdict(self, figure: Figure) -> str:
        if figure.goal is None:
            return ""
        held = self._holds(figure, figure.goal, None)
        if held is None:
            return f"no {figure.goal.of}" if figure.goal.of != US and US in self.systems else ""
        rounds = [self._holds(figure, figure.goal, nth) for nth in self.rounds]
        return f"{'met' if held else 'NOT MET'} {rounds.count(True)}/{len(rounds) - rounds.count(None)}"

    def table(self) -> Iterator[list[str]]:
        """Yield the header, then one row of cells per measured figure."""
        others = [system for system in self.systems if system != US] if US in self.systems else []
        ratios = [f"{US}/{other}" for other in others]
        yield ["workload", "figure", *self.systems, *ratios, "goal", "verdict"]
        for figure in FIGURES:
            values = {system: self.value(figure.row, figure.field, system) for system in self.systems}
            if all(value is None for value in values.values()):
                continue
            ours = values.get(US)
            yield [
                figure.row,
                figure.title,
                *(_number(value) for value in values.values()),
                *(_ratio(ours, values[other]) for other in others),
                str(figure.goal or ""),
                self.verdict(figure),
            ]

    def noise(self) -> str:
        busy = [line["others_cores"] for line in self._lines if "others_cores" in line]
        if not busy:
            return ""
        return (
            f"Rounds: {len(self.rounds)}. Other processes kept {statistics.median(busy):.2f} cores"
            f" busy (median over the workloads; maximum {max(busy):.2f})."
        )


def markdown(rows: Iterable[list[str]]) -> str:
    head, *body = rows
    rule = ["---", "---", *("---:" for _ in head[2:-2]), "---", "---"]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, rule, *body))


def plain(rows: Iterable[list[str]]) -> str:
    """Return a table aligned with spaces; the name of a workload is shown only in its first row."""
    cells = list(rows)
    widths = [max(len(row[at]) for row in cells) for at in range(len(cells[0]))]
    printed, last = [], ""
    for row in cells:
        name, last = ("" if row[0] == last else row[0]), row[0]
        numbers = [cell.rjust(width) for cell, width in zip(row[2:-2], widths[2:-2], strict=True)]
        line = [name.ljust(widths[0]), row[1].ljust(widths[1]), *numbers, row[-2].ljust(widths[-2]), row[-1]]
        printed.append("  ".join(line).rstrip())
    return "\n".join(printed)


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def _ratio(ours: float | None, other: float | None) -> str:
    return f"{ours / other:.3g}" if ours is not None and other else ""
