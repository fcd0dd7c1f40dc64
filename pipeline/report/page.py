"""Render facts as HTML. jinja2 escapes every value; figures are embedded as JSON that cannot contain `</script>`."""

from __future__ import annotations

import base64
import hashlib
import shlex
from functools import cache
from typing import Any, Final

import pyarrow as pa

from stuntbroker.pipeline.audit.findings import Finding, as_findings, grouped
from stuntbroker.pipeline.audit.folder import Folder
from stuntbroker.pipeline.audit.result import Audit
from stuntbroker.pipeline.counting import count
from stuntbroker.pipeline.report import figures, text
from stuntbroker.pipeline.report.episodes import episodes_of, fence_marks_of
from stuntbroker.pipeline.report.evidence import LISTED_MAX, SECTIONS_MAX, Neighbours, Sources, chosen
from stuntbroker.pipeline.report.measures import aborts_of, latencies_for, traffic_of
from stuntbroker.pipeline.report.summary import READERS_MAX, summary_of
from stuntbroker.pipeline.report.timeline import timeline_of
from stuntbroker.pipeline.report.words import OTHER, WORDS
from stuntbroker.protocol.transaction_states import TIMEOUT_NONE

EACH_MAX: Final = 20
"""Findings of each kind to list before listing more of any kind."""
FEW: Final = 5
"""Findings of each kind to give a section with evidence before giving one to more of any kind."""
SKIPPED_MAX: Final = 50
OPEN_MAX: Final = 5
"""Number of sections that are expanded when the page opens."""


def page_of(audit: Audit, folder: Folder, findings: pa.Table, sources: Sources) -> str:
    """Return the HTML page, a pure function of its tables. `sources` are for the findings of `described_findings`."""
    records = audit.txn_state if audit.is_whole else audit.lasts
    episodes = episodes_of(audit.transactions, records, audit.fencing)
    marks = fence_marks_of(audit.fencing, records)
    summary = summary_of(audit, folder, findings, episodes)
    timeline = timeline_of(episodes, marks, findings, max(audit.newest_ms(), summary.last_ms or 0))
    latencies, aborts = latencies_for(episodes, audit.latencies, audit.is_whole), aborts_of(episodes)
    traffic = traffic_of(audit.batches, audit.segments, audit.is_whole)
    drawn: dict[str, figures.Figure] = {}
    if timeline.lanes:
        drawn["timeline"] = figures.timeline_figure(timeline)
    if latencies.count:
        drawn["latency"] = figures.latency_figure(latencies)
    if latencies.ids:
        drawn["ids"] = figures.ids_figure(latencies)
    if aborts.slices_ms:
        drawn["aborts"] = figures.aborts_figure(aborts)
    if traffic.slices_ms:
        drawn["traffic"] = figures.traffic_figure(traffic)
    sections, listed = _sections(findings, sources), len(_listable(findings)[0])
    readers = summary.readers[:READERS_MAX]
    folded = [reader for reader in readers if reader.is_internal and reader.producer_id is None]
    return _render(
        folder=folder,
        skipped=folder.skipped[:SKIPPED_MAX],
        summary=summary,
        timeline=timeline,
        latencies=latencies,
        aborts=aborts,
        traffic=traffic,
        figures=drawn,
        findings=sections,
        findings_total=listed,
        readers=[reader for reader in readers if reader not in folded],
        folded=folded,
        sections_max=SECTIONS_MAX,
        is_whole=audit.is_whole,
        has_all_records=sources.has_all_records,
    )


def described_findings(findings: pa.Table) -> list[Finding]:
    """Return the findings that get a section with their evidence."""
    rows = _listable(findings)[0]
    items: list[Finding] = rows.take(pa.array(chosen(rows, SECTIONS_MAX, FEW), pa.int64())).to_pylist()
    return items


def _listable(findings: pa.Table) -> tuple[pa.Table, list[int]]:
    """Return the findings with identical notes merged, and the number of findings that each row stands for."""
    groups = grouped(findings.to_pylist())
    return as_findings(row for row, _ in groups), [number for _, number in groups]


def _sections(findings: pa.Table, sources: Sources) -> list[dict[str, Any]]:
    """Return the listed findings as template values, with evidence for those that get a section."""
    findings, times = _listable(findings)
    listed = chosen(findings, LISTED_MAX, EACH_MAX)
    explained = set(chosen(findings, SECTIONS_MAX, FEW))
    rows: list[Finding] = findings.take(pa.array(listed, pa.int64())).to_pylist()
    neighbours = Neighbours.of(sources, [row for row, at in zip(rows, listed, strict=True) if at in explained])
    sections: list[dict[str, Any]] = []
    for row, at in zip(rows, listed, strict=True):
        words = WORDS.get(row["kind"], OTHER)
        evidence = neighbours.evidence_of(row) if at in explained else None
        sections.append(
            {
                "number": at + 1,
                "row": row,
                "words": words,
                "todo": _advice(words.todo, row),
                "evidence": evidence,
                "is_open": len(sections) < OPEN_MAX,
                "more": times[at] - 1,
            }
        )
    return sections


def _advice(todo: str, row: Finding) -> list[tuple[bool, str]]:
    """Split advice into (is a command, text) pieces."""
    values = {
        "topic": _quoted(row["topic"] or ""),
        "partition": row["partition"],
        "id": _quoted(row["transactional_id"] or "ID"),
        "first": "OFFSET" if row["first_offset"] is None else row["first_offset"],
        "file": text.shown(row["file"] or "the segment"),
    }
    pieces = todo.split("`")
    return [(number % 2 == 1, piece.format(**values)) for number, piece in enumerate(pieces)]


def _quoted(name: str) -> str:
    """Quote a name for a shell command."""
    return shlex.quote(text.shown(name))


@cache
def _environment() -> Any:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("stuntbroker.pipeline.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for tool in (
        text.shown,
        text.label,
        text.place,
        count,
        text.size,
        text.duration,
        text.instant,
        text.ratio,
        text.said,
    ):
        environment.filters[tool.__name__] = tool
    environment.filters["quoted"] = _quoted
    return environment


def _render(**facts: Any) -> str:
    environment = _environment()
    scripts = [_plotly(), _source(environment, "report.js")]
    hashes = " ".join(f"'sha256-{_hash(script)}'" for script in scripts)
    page: str = environment.get_template("report.html").render(
        facts,
        plotly=scripts[0],
        script=scripts[1],
        style=_source(environment, "report.css"),
        hashes=hashes,
        TIMEOUT_NONE=TIMEOUT_NONE,
    )
    return page


def _source(environment: Any, name: str) -> str:
    source: str = environment.loader.get_source(environment, name)[0]
    return source


@cache
def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    script: str = get_plotlyjs()
    assert "</script" not in script.lower()
    return script


@cache
def _hash(script: str) -> str:
    """Return the hash of a script for the content security policy; HTML parsers normalise line ends to \\n."""
    return base64.b64encode(hashlib.sha256(script.replace("\r\n", "\n").replace("\r", "\n").encode()).digest()).decode()
