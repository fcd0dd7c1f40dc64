"""Build plotly figures as plain values for plotly.js. report.js sets the colours of text and lines.

Every text from outside must go through `label`, as plotly interprets texts as HTML.
"""

from __future__ import annotations

from typing import Any, Final

from stuntbroker.pipeline.counting import count
from stuntbroker.pipeline.report.measures import LOWEST_MS, SHARES, Aborts, Latencies, Traffic
from stuntbroker.pipeline.report.text import duration, instant, label
from stuntbroker.pipeline.report.timeline import Bar, Mark, Timeline
from stuntbroker.pipeline.report.words import REASONS, Reason

Figure = dict[str, Any]

# Distinguishable with any kind of colour vision, on white and on black; bars also differ in height or pattern.
COLOURS: Final = {
    "commit": "#3b82c4",
    "abort": "#d9601a",
    "timeout": "#b0468f",
    "open": "#d6a100",
    "decided": "#7a68c9",
}
TITLES: Final = {
    "commit": "committed",
    "abort": "aborted",
    "timeout": "aborted by the time-out",
    "open": "open",
    "decided": "decided, not complete",
}
HEIGHT: Final = 0.62
"""Height of a bar as a fraction of its lane."""
HEIGHTS: Final = {"commit": HEIGHT, "abort": 0.42, "timeout": 0.42, "open": HEIGHT, "decided": HEIGHT}
PATTERNS: Final = {"open": "/", "decided": "x", "timeout": "."}
GREY: Final = "#8a8f98"
MARKS: Final = "#6e7781"
TOPIC_COLOURS: Final = (
    "#3b82c4",
    "#d9601a",
    "#2a9d78",
    "#b0468f",
    "#d6a100",
    "#56b4e9",
    "#7a68c9",
    "#8a8f98",
    "#8a8f98",
)
RATIO_SCALE: Final = ((0.0, "#3b82c4"), (0.001, "#7fa8cf"), (0.25, "#e3c08a"), (1.0, "#c8420a"))
TICKS_MS: Final = (
    (LOWEST_MS, "< 1 ms"),
    (1, "1 ms"),
    (10, "10 ms"),
    (100, "100 ms"),
    (1_000, "1 s"),
    (10_000, "10 s"),
    (60_000, "1 min"),
    (600_000, "10 min"),
    (3_600_000, "1 h"),
    (36_000_000, "10 h"),
    (86_400_000 * 3, "3 d"),
    (86_400_000 * 30, "30 d"),
)
FINER: Final = (1, 1.5, 2, 3, 5, 7)
"""Ticks per decade; any range of a factor of two contains a tick."""
LANE_PX: Final = 30
NAMED: Final = "<b>%{y}</b><br>%{hovertext}<extra></extra>"
"""Template of hover texts: the axis label, then the text."""
LEGEND: Final = {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0, "traceorder": "normal"}
MARGIN: Final = {"t": 8, "r": 40, "b": 48, "l": 16}
"""Margins in pixels; the right margin holds the button bar."""
MOMENT: Final = "%Y-%m-%d %H:%M:%S"
TIME_AXIS: Final = {"type": "date", "hoverformat": "%Y-%m-%d %H:%M:%S.%L", "title": {"text": "time (UTC)"}}


def timeline_figure(timeline: Timeline) -> Figure:
    """Return the figure of transactions by id and time."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for outcome, title in TITLES.items():
        bars = [bar for bar in timeline.bars if bar.outcome == outcome]
        if bars:
            figure.add_trace(_bars(go, bars, outcome, title))
    ending = [bar for bar in timeline.bars if bar.decided_ms >= 0 and bar.end_ms > bar.decided_ms]
    if ending:
        figure.add_trace(_ends(go, ending))
    for name, reason in REASONS.items():
        marks = [mark for mark in timeline.marks if mark.reason == name]
        if marks:
            figure.add_trace(_signs(go, marks, timeline, name, reason))
    lanes = len(timeline.lanes)
    figure.update_layout(
        barmode="overlay",
        height=150 + LANE_PX * lanes,
        hovermode="closest",
        margin=MARGIN,
        xaxis=TIME_AXIS,
        legend=LEGEND,
        yaxis={
            "tickvals": list(range(lanes)),
            "ticktext": [label(name) for name in timeline.lanes],
            "range": [lanes - 0.4, -0.6],
            "automargin": True,
            "zeroline": False,
            "fixedrange": True,
        },
    )
    return _as_plain(figure)


def _bars(go: Any, bars: list[Bar], outcome: str, title: str) -> Any:
    colour = COLOURS[outcome]
    return go.Bar(
        orientation="h",
        name=title,
        legendgroup=outcome,
        base=[bar.start_ms for bar in bars],
        x=[bar.end_ms - bar.start_ms for bar in bars],
        y=[bar.lane for bar in bars],
        width=[HEIGHT * max(bar.share, 0.12) if bar.is_merged else HEIGHTS[outcome] for bar in bars],
        hovertext=[_hover_text(bar) for bar in bars],
        hovertemplate=NAMED,
        marker={
            "color": colour,
            "line": {"width": 1, "color": colour},
            "pattern": {"shape": PATTERNS.get(outcome, ""), "fillmode": "replace", "solidity": 0.55},
        },
    )


def _hover_text(bar: Bar) -> str:
    what = TITLES[bar.outcome]
    if bar.is_merged:
        longest = f"the longest took {duration(bar.longest_ms)}"
        return f"{count(bar.count, 'transaction')}, {what}<br>{longest}<br>from {instant(bar.start_ms)}"
    took = duration(bar.end_ms - bar.start_ms)
    parts = ""
    if bar.decided_ms >= bar.start_ms and bar.end_ms > bar.decided_ms:
        parts = (
            f"<br>open {duration(bar.decided_ms - bar.start_ms)}, then markers {duration(bar.end_ms - bar.decided_ms)}"
        )
    open_since = "for" if bar.outcome in ("open", "decided") else "in"
    return (
        f"{what} {open_since} {took}{parts}<br>began {instant(bar.start_ms)}<br>"
        f"producer {bar.producer_id}, epoch {bar.producer_epoch}; {count(bar.partitions, 'partition')}"
    )


def _ends(go: Any, bars: list[Bar]) -> Any:
    """Return thin bars for the time from the decision to the last marker."""
    return go.Bar(
        orientation="h",
        name="prepared: markers not written yet",
        base=[bar.decided_ms for bar in bars],
        x=[bar.end_ms - bar.decided_ms for bar in bars],
        y=[bar.lane for bar in bars],
        width=0.16,
        hoverinfo="skip",
        marker={"color": "#12202e", "line": {"width": 1, "color": "#9fb3c8"}},
    )


def _signs(go: Any, marks: list[Mark], timeline: Timeline, name: str, reason: Reason) -> Any:
    texts = []
    for mark in marks:
        source = f" ({reason.source})" if reason.source else ""
        many = f"{count(mark.count)} times: " if mark.count > 1 else ""
        change = f"{mark.before[0]}:{mark.before[1]} → " if mark.before[0] >= 0 else ""
        held = f"{mark.after[0]}:{mark.after[1]}" if mark.after[0] >= 0 else "nothing"
        texts.append(
            f"<b>{label(timeline.lanes[mark.lane])}</b><br>{many}{reason.title}{source}<br>{instant(mark.time_ms)}<br>{change}{held}"
        )
    usual = name in ("end", "recovered_end")
    return go.Scatter(
        mode="markers",
        name=reason.title + (f" · {reason.source}" if reason.source else ""),
        x=[mark.time_ms for mark in marks],
        y=[mark.lane + (0.42 if usual else -0.4) for mark in marks],
        hovertext=texts,
        hoverinfo="text",
        visible="legendonly" if name == "end" else True,
        marker={
            "symbol": reason.symbol,
            "size": 6 if usual else 9,
            "color": MARKS,
            "line": {"width": 1.5, "color": MARKS},
        },
    )


def latency_figure(measures: Latencies) -> Figure:
    """Return the latency histogram and, on the right axis, the cumulative share of transactions."""
    import plotly.graph_objects as go

    widths = [b - a for a, b in zip(measures.edges_ms, measures.edges_ms[1:], strict=False)]
    figure = go.Figure()
    ranges = list(zip(measures.edges_ms, measures.edges_ms[1:], strict=False))
    for numbers, key in ((measures.committed, "commit"), (measures.aborted, "abort")):
        if any(numbers):
            figure.add_trace(
                go.Bar(
                    x=list(measures.edges_ms[:-1]),
                    width=widths,
                    offset=0,
                    y=list(numbers),
                    name=TITLES[key],
                    hoverinfo="text",
                    hovertext=[
                        f"{count(number)} {TITLES[key]}<br>in {_span(low, high)}"
                        for number, (low, high) in zip(numbers, ranges, strict=True)
                    ],
                    marker={
                        "color": COLOURS[key],
                        "line": {"width": 0},
                        "pattern": {"shape": "/" if key == "abort" else ""},
                    },
                )
            )
    figure.add_trace(
        go.Scatter(
            x=list(measures.quantiles_ms),
            y=list(SHARES),
            yaxis="y2",
            mode="lines",
            name="share that took no longer",
            hoverinfo="text",
            line={"shape": "hv", "color": "#2a9d78", "width": 2},
            hovertext=[
                f"{100 * share:g} % took {_took(ms)} or less"
                for share, ms in zip(SHARES, measures.quantiles_ms, strict=True)
            ],
        )
    )
    low = LOWEST_MS * 0.6 if measures.committed[0] + measures.aborted[0] else 0.9
    figure.update_layout(
        barmode="stack",
        bargap=0,
        height=330,
        margin=MARGIN | {"r": 88},
        xaxis=_duration_axis(low, measures.edges_ms[-1]),
        yaxis={"title": {"text": "transactions"}, "automargin": True, "rangemode": "tozero"}
        | _whole(max(map(sum, zip(measures.committed, measures.aborted, strict=True)))),
        yaxis2={
            "overlaying": "y",
            "side": "right",
            "range": [0, 1.02],
            "tickformat": ".0%",
            "showgrid": False,
            "automargin": True,
        },
        legend=LEGEND,
        hovermode="closest",
    )
    return _as_plain(figure)


def _whole(most: int) -> dict[str, Any]:
    """Return axis settings for counts, with ticks at whole numbers only."""
    return {"tickformat": ",d"} | ({"dtick": 1} if most <= 6 else {})


def _took(ms: float) -> str:
    return duration(0 if ms < 1 else round(ms))


def _span(low: float, high: float) -> str:
    """Format a range of latencies in whole milliseconds, both ends included."""
    first, last = int(-(-low // 1)), int(high // 1)
    return _took(low) if last < 1 or first == last else f"{_took(first)} to {_took(last)}"


def _duration_axis(low: float, high: float) -> dict[str, Any]:
    from math import log10

    ticks = [(ms, name) for ms, name in TICKS_MS if low <= ms <= high]
    if ticks[:1] == [TICKS_MS[0]]:
        ticks = [tick for tick in ticks if tick[0] != 1]  # There is no room for both.
    if len(ticks) < 2:  # The range is too narrow for the usual ticks.
        finer = sorted({int(step * 10**power) for step in FINER for power in range(11)})
        ticks = [(ms, duration(ms)) for ms in finer if low <= ms <= high] or ticks
    return {
        "type": "log",
        "range": [log10(low), log10(high)],
        "tickangle": 0,
        "title": {"text": "from the first partition to the last marker"},
        "tickvals": [ms for ms, _ in ticks],
        "ticktext": [name for _, name in ticks],
    }


def _at_least(row: dict[str, Any], name: str) -> float:
    """Return a latency, raised to LOWEST_MS as a logarithmic axis has no 0."""
    return max(float(row[name]), LOWEST_MS)


def ids_figure(measures: Latencies) -> Figure:
    """Return a figure with a line from the median to the slowest for each id, and symbols at the 90th and 99th percentile."""
    import plotly.graph_objects as go

    rows = measures.ids
    names = [label(str(row["transactional_id"])) for row in rows]
    texts = [
        f"<b>{name}</b><br>{count(int(row['transactions']), 'transaction')}<br>half in {_took(float(row['p50_ms']))}, "
        f"90 % in {_took(float(row['p90_ms']))},<br>99 % in {_took(float(row['p99_ms']))}, all in {_took(float(row['p100_ms']))}"
        for name, row in zip(names, rows, strict=True)
    ]
    figure = go.Figure()
    x: list[float | None] = []
    y: list[int | None] = []
    for at, row in enumerate(rows):
        x += [_at_least(row, "p50_ms"), _at_least(row, "p100_ms"), None]
        y += [at, at, None]
    line = {"color": GREY, "width": 2}
    figure.add_trace(go.Scatter(x=x, y=y, mode="lines", line=line, hoverinfo="skip", showlegend=False))
    signs = (
        ("p50_ms", "median", "circle", "#3b82c4"),
        ("p90_ms", "90 %", "diamond", "#2a9d78"),
        ("p99_ms", "99 %", "triangle-up", "#d9601a"),
        ("p100_ms", "slowest", "line-ns-open", GREY),
    )
    for name, title, symbol, colour in signs:
        figure.add_trace(
            go.Scatter(
                x=[_at_least(row, name) for row in rows],
                y=list(range(len(rows))),
                mode="markers",
                name=title,
                hovertext=texts,
                hoverinfo="text",
                marker={"symbol": symbol, "size": 10, "color": colour, "line": {"width": 2 * (colour == GREY)}},
            )
        )
    every = [_at_least(row, name) for row in rows for name, *_ in signs]
    figure.update_layout(
        height=120 + 24 * len(rows),
        margin=MARGIN,
        hovermode="closest",
        xaxis=_duration_axis(min(every) * 0.7, max(every) * 1.4),
        yaxis={
            "tickvals": list(range(len(rows))),
            "ticktext": names,
            "range": [len(rows) - 0.4, -0.6],
            "automargin": True,
            "zeroline": False,
            "fixedrange": True,
        },
        legend=LEGEND,
    )
    return _as_plain(figure)


def _abort_shares(measures: Aborts) -> Any:
    """Return a heat map of the share of ended transactions that were aborted, by id and slice of time."""
    import plotly.graph_objects as go

    shares = [
        [None if not n else bad / n for n, bad in zip(ended, lost, strict=True)]
        for ended, lost in zip(measures.ended, measures.lost, strict=True)
    ]
    cells = [
        [[bad, n] for n, bad in zip(ended, lost, strict=True)]
        for ended, lost in zip(measures.ended, measures.lost, strict=True)
    ]
    half = measures.width_ms / 2
    return go.Heatmap(
        x=[ms + half for ms in measures.slices_ms],
        y=list(range(len(measures.ids))),
        z=shares,
        yaxis="y2",
        zmin=0,
        zmax=1,
        colorscale=RATIO_SCALE,
        customdata=cells,
        xgap=1,
        ygap=3,
        hoverongaps=False,
        hovertemplate="<b>%{y}</b><br>%{customdata[0]:,d} of %{customdata[1]:,d} aborted: %{z:.1~%}<br>"
        "about %{x|" + MOMENT + "}<extra></extra>",
        colorbar={
            "title": {"text": "share aborted", "side": "right"},
            "tickformat": ".0%",
            "thickness": 12,
            "len": 0.5,
            "y": 0,
            "yanchor": "bottom",
        },
    )


def aborts_figure(measures: Aborts) -> Figure:
    """Return the figure of ended transactions (above) and the share of aborted ones by id (below)."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for numbers, key in ((measures.committed, "commit"), (measures.aborted, "abort")):
        figure.add_trace(
            go.Bar(
                x=list(measures.slices_ms),
                offset=0,
                width=measures.width_ms,
                y=list(numbers),
                name=TITLES[key],
                hovertemplate=f"%{{y:,d}} {TITLES[key]}<br>from %{{x|{MOMENT}}}<extra></extra>",
                marker={
                    "color": COLOURS[key],
                    "line": {"width": 0},
                    "pattern": {"shape": "/" if key == "abort" else ""},
                },
            )
        )
    figure.add_trace(_abort_shares(measures))
    names = [label(name) for name in measures.ids]
    below = 24 * len(names) + 20
    total = below + 260
    split = below / (total - 60)
    figure.update_layout(
        barmode="stack",
        bargap=0,
        height=total,
        margin=MARGIN,
        xaxis=TIME_AXIS | {"anchor": "y2"},
        yaxis={"domain": [min(split + 0.05, 0.9), 1], "title": {"text": "ends"}, "automargin": True}
        | _whole(max(map(sum, zip(measures.committed, measures.aborted, strict=True)))),
        yaxis2={
            "domain": [0, split],
            "tickvals": list(range(len(names))),
            "ticktext": names,
            "automargin": True,
            "range": [len(names) - 0.5, -0.5],
            "showgrid": False,
            "zeroline": False,
            "fixedrange": True,
        },
        legend=LEGEND,
        hovermode="closest",
    )
    return _as_plain(figure)


def traffic_figure(measures: Traffic) -> Figure:
    """Return the figure of bytes, batches and records per second by topic; buttons on the page select the unit."""
    import plotly.graph_objects as go

    figure = go.Figure()
    seconds = measures.width_ms / 1_000
    units = (("bytes", measures.bytes), ("batches", measures.batches), ("records", measures.records))
    for unit, table in units:
        for at, (topic, numbers) in enumerate(zip(measures.topics, table, strict=True)):
            name = f"{measures.topics_joined} other topics" if topic is None else label(topic)
            rates = [round(number / seconds, 3) for number in numbers]
            colour = TOPIC_COLOURS[at]
            figure.add_trace(
                go.Scatter(
                    x=list(measures.slices_ms),
                    y=rates,
                    name=name,
                    mode="lines",
                    stackgroup=unit,
                    visible=unit == "bytes",
                    line={"width": 0, "shape": "hv", "color": colour},
                    fillcolor=colour,
                    legendgroup=unit,
                    meta=unit,
                    hovertemplate="%{fullData.name}: %{y:.3~s} " + unit + " a second<extra></extra>",
                )
            )
    figure.update_layout(
        height=340,
        margin=MARGIN,
        xaxis=TIME_AXIS,
        hovermode="x unified",
        yaxis={"automargin": True, "tickformat": "~s", "title": {"text": "bytes a second"}, "rangemode": "tozero"},
        legend=LEGEND,
    )
    return _as_plain(figure)


def _as_plain(figure: Any) -> Figure:
    """Return the figure as JSON values, without plotly's default template, as the page has its own style."""
    figure.update_layout(template={}, dragmode="zoom", font={"size": 12}, modebar={"orientation": "v"})
    plain: Figure = figure.to_plotly_json()
    return plain
