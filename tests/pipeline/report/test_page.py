"""The whole page: its verdict, its text for an empty folder, and that no name in it can inject markup."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import plotly.graph_objects as go
import pytest
from audit_cases import OTHER, PID, A, B, clean
from audit_harness import NOW_MS, Log, World
from report_harness import Page, page_at, page_of_world, read

from stuntbroker.pipeline.audit.findings import FINDINGS, as_findings
from stuntbroker.pipeline.audit.folder import read_folder
from stuntbroker.pipeline.report import write_report
from stuntbroker.pipeline.report.evidence import Sources
from stuntbroker.pipeline.report.page import page_of

HOSTILE = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '" onmouseover="alert(1)',
    "' style='x:expression(alert(1))",
    "{{ 7 * 7 }}",
    "<!--<script>",
    "javascript:alert(1)",
    "\u202egnp.exe\x00\x1b[31m",
    "<b>bold</b><a href='http://example.org/'>here</a>",
    "&lt;i&gt;",
    "$(rm -rf ~) `reboot`",
)


def a_clean_world(folder: Path) -> World:
    world = World(folder)
    clean(world)
    return world


def hostile_page(folder: Path) -> Page:
    """Return a page with findings for transactional ids and topics whose names try to inject markup."""
    world = World(folder)
    for number, name in enumerate(HOSTILE):
        topic = name.replace("/", "_").replace("\x00", "")
        place = (topic, 0)
        world.log[place] = Log(folder, *place)
        world.state(name, "Empty", number, 0)
        world.transact(name, number, 0, True, A)
        world.begin(name, number, 1, place, timeout_ms=2**31 - 1)
        world.log[place].produce(900 + number, 0, 5, txn=False)
        world.log[place].produce(900 + number, 0, 5, txn=False)
    return page_of_world(world)


def findings_of(*severities: str) -> list[dict[str, object]]:
    return [dict.fromkeys(FINDINGS.names) | {"kind": "gap", "severity": each, "evidence": "?"} for each in severities]


@pytest.mark.parametrize(
    ("severities", "level", "title"),
    [
        ((), "good", "Yes: everything is in order"),
        (("information",), "good", "Yes: everything is in order"),
        (("warning", "information"), "warning", "With 1 warning, and no errors"),
        (("error",), "error", "No: 1 error"),
        (("error", "error", "warning"), "error", "No: 2 errors and 1 warning"),
    ],
)
def test_the_verdict_is_that_of_the_worst_finding(
    severities: tuple[str, ...], level: str, title: str, tmp_path: Path
) -> None:
    world = a_clean_world(tmp_path)
    actual, created = read_folder(str(tmp_path)), world.audit()
    sources = Sources(created.batches, created.txn_state, created.transactions, True)
    page = read(page_of(created, actual, as_findings(findings_of(*severities)), sources))
    verdict = page.root.single("section", id="verdict")

    assert (level in verdict.attributes["class"].split(), verdict.single("h2").text) == (True, title)
    numbers = [severities.count(each) for each in ("error", "warning", "information")]
    assert [int(each.text) for each in page.root.single("p", class_="numbers").all("b")] == numbers


def test_a_transaction_within_its_time_holds_readers_back_and_is_no_fault(tmp_path: Path) -> None:
    world = a_clean_world(tmp_path)
    world.begin("one", PID, 4, A)
    verdict = page_of_world(world).root.single("section", id="verdict")

    assert verdict.single("h2").text == "Yes: nothing is wrong"
    assert "held back in 1 partition. The open transactions are within their time-outs." in verdict.text


def test_the_summary_counts_transactions_partitions_batches_and_records(tmp_path: Path) -> None:
    """14 batches of records, 11 markers and 23 records of the coordinator, each in a batch of its own."""
    page = page_of_world(a_clean_world(tmp_path))
    summary = page.section("summary")

    assert "Transactions 7 5 committed, 2 aborted (29 %) of 2 transactional ids" in summary
    assert "4 partitions of 3 topics 48 batches, 54 records" in summary
    assert "2023-11-14 22:13:20.000Z" in summary
    assert "at the end" in summary


def test_the_page_of_a_folder_without_transactions_states_that_there_are_none(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.log[A].produce(9, 0, 0, 3, txn=False)
    page = page_of_world(world)

    assert "There are no transactions." in page.section("verdict")
    assert "No transactions: what is here was written without any." in page.section("summary")
    assert page.section("timeline-of-ids").endswith("No transactions.")
    assert page.section("latencies").endswith("No finished transaction is in the coordinator's log.")
    assert page.section("abort-ratio").endswith("No transaction has ended.")
    assert "Nothing found" in page.section("findings")
    assert page.figures.keys() == {"traffic"}
    assert page.root.all("section", id="evidence") == []


def test_a_folder_without_a_batch_has_a_page_too(tmp_path: Path) -> None:
    World(tmp_path)
    page = page_at(tmp_path)

    assert page.section("traffic-by-topic").endswith("No batch has a time.")
    assert "No batch has a time." in page.section("summary")
    assert page.figures == {}


@pytest.mark.parametrize("keep", [True, False], ids=["small", "large"])
def test_all_figures_are_there_and_plotly_takes_them(keep: bool, tmp_path: Path) -> None:
    page = page_of_world(a_clean_world(tmp_path), keep=keep)
    boxes = [box.attributes["id"] for box in page.root.all("div", class_="figure")]

    assert sorted(page.figures) == sorted(boxes) == ["aborts", "ids", "latency", "timeline", "traffic"]
    for figure in page.figures.values():
        assert go.Figure(figure).data
    assert "NaN" not in page.root.single("script", id="figures-data").source


def test_the_page_warns_when_a_broker_has_the_folder_open(tmp_path: Path) -> None:
    world = a_clean_world(tmp_path)
    assert "has this folder open" not in page_of_world(world).section("verdict")
    import fcntl

    with (tmp_path / ".lock").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)

        assert "A broker has this folder open" in page_of_world(world).section("verdict")


def test_the_page_names_skipped_folders(tmp_path: Path) -> None:
    world = a_clean_world(tmp_path)
    (tmp_path / "old-0.0123abc-delete").mkdir()

    assert "Not looked at: old-0.0123abc-delete , its topic was deleted." in page_of_world(world).section("about")


def test_nothing_in_a_name_becomes_markup(tmp_path: Path) -> None:
    page = hostile_page(tmp_path)
    tags = {each.tag for each in page.root.all()}

    assert len(page.findings()) >= 2 * len(HOSTILE)
    assert [each.attributes for each in page.root.all("script")] == [
        {"type": "application/json", "id": "figures-data"},
        {},
        {},
    ]
    assert tags & {"img", "iframe", "object", "embed", "base", "form", "svg", "b2"} == set()
    for each in page.root.all():
        assert not [name for name in each.attributes if name.startswith("on")], each.attributes
        href = each.attributes.get("href", "")
        assert each.tag == "link" or href == "" or re.fullmatch(r"#[\w-]+", href), href
        assert each.tag in ("div", "i") or "style" not in each.attributes, each.attributes
    for name in ("<img src=x onerror=alert(1)>", "{{ 7 * 7 }}", "&lt;i&gt;", '" onmouseover="alert(1)'):
        assert name in page.section("findings")


def test_unprintable_and_bidirectional_characters_are_shown_as_escapes(tmp_path: Path) -> None:
    page = hostile_page(tmp_path)

    assert "\\u202egnp.exe\\u0000\\u001b[31m" in page.section("findings")
    assert not {"\u202e", "\x00", "\x1b"} & set(page.html)


def test_no_text_of_a_figure_has_markup_but_ours(tmp_path: Path) -> None:
    """plotly interprets texts as a kind of HTML, with links and styles."""
    figures = hostile_page(tmp_path).figures

    def texts(value: object) -> list[str]:
        if isinstance(value, dict):
            return [text for each in value.values() for text in texts(each)]
        if isinstance(value, list):
            return [text for each in value for text in texts(each)]
        return [value] if isinstance(value, str) else []

    tags = {tag for text in texts(figures) for tag in re.findall(r"<[^>]*>?", text)}
    assert tags == {"<b>", "</b>", "<br>", "<extra>", "</extra>"} | ({"< 1 ms"} & tags)
    assert any("&lt;img src=x onerror=alert(1)&gt;" in text for text in texts(figures))


def test_a_command_takes_a_hostile_name_as_one_word(tmp_path: Path) -> None:
    page = hostile_page(tmp_path)
    commands = {code.text for each in page.findings() for code in each.all("code")}

    assert "stuntbroker txn force-terminate --transactional-id '$(rm -rf ~) `reboot`'" in commands


def test_the_page_loads_nothing_and_its_content_security_policy_forbids_loading(tmp_path: Path) -> None:
    page = page_of_world(a_clean_world(tmp_path))
    policy = page.root.single("meta", http_equiv="Content-Security-Policy").attributes["content"]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    scripts = [each.source for each in page.root.all("script") if not each.attributes]
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    styles = "".join(each.source for each in page.root.all("style"))

    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == " ".join(f"'sha256-{each}'" for each in hashes)
    assert len(scripts) == 2 and set(rules) & {"connect-src", "font-src", "frame-src", "media-src"} == set()
    assert not re.search(r"https?:", rules["img-src"] + rules["style-src"])
    assert not re.search(r"@import|url\(|https?:", styles)
    for each in page.root.all():
        for name in ("src", "srcset", "data", "action", "poster", "href"):
            assert re.fullmatch(r"(#[\w-]+|data:,)?", each.attributes.get(name, "")), (each.tag, each.attributes)


def test_the_same_folder_gives_the_same_page(tmp_path: Path) -> None:
    world = a_clean_world(tmp_path)

    assert page_of_world(world).html == page_of_world(world).html


def test_the_report_is_written_in_one_file_that_replaces_what_was_there(tmp_path: Path) -> None:
    world = a_clean_world(tmp_path / "data")
    target = tmp_path / "report.html"
    target.write_text("old")
    created = world.audit()
    write_report(str(target), created, read_folder(str(world.folder)), created.findings())

    assert target.read_bytes().startswith(b"<!doctype html>")
    assert 4_000_000 < target.stat().st_size < 6_000_000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "report.html"]


def test_a_report_that_cannot_be_written_is_an_oserror(tmp_path: Path) -> None:
    world = a_clean_world(tmp_path / "data")
    created = world.audit()

    with pytest.raises(OSError, match="nowhere"):
        write_report(str(tmp_path / "nowhere" / "r.html"), created, read_folder(str(world.folder)), created.findings())


def test_batches_with_unusable_timestamps_are_counted_and_not_drawn(tmp_path: Path) -> None:
    world = a_clean_world(tmp_path)
    world.log[B].produce(99, 0, 9, 1, at=2**62, txn=False)
    world.log[B].produce(99, 0, 10, 1, at=-5, txn=False)
    world.state("two", "Ongoing", OTHER, 5, A, start_ms=2**61)
    page = page_of_world(world)

    assert "2 batches have no usable time" in page.section("traffic-by-topic")
    assert max(page.figures["traffic"]["data"][0]["x"]) < NOW_MS + 10**6


def test_a_time_far_from_all_others_does_not_make_the_rest_one_bar(tmp_path: Path) -> None:
    world = a_clean_world(tmp_path)
    for sequence in range(9, 2_000):
        world.log[B].produce(99, 0, sequence, 1, at=NOW_MS + sequence, txn=False)
    world.log[B].produce(99, 0, 2_000, 1, at=1, txn=False)
    page = page_of_world(world)

    assert "1 batch has no usable time, or one far from all others, and is not drawn" in page.section(
        "traffic-by-topic"
    )
    assert min(page.figures["traffic"]["data"][0]["x"]) >= NOW_MS
