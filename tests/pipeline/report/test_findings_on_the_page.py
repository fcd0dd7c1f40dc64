"""Every finding is on the page, with what proves it, what it means and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from audit_cases import CASES, OTHER, PID, A, B, clean
from audit_harness import World
from report_harness import Page, page_of_world, read

from stuntbroker.pipeline.audit import findings
from stuntbroker.pipeline.audit.findings import FINDINGS, as_findings
from stuntbroker.pipeline.audit.folder import read_folder
from stuntbroker.pipeline.report.evidence import LISTED_MAX, SECTIONS_MAX, chosen
from stuntbroker.pipeline.report.page import described_findings, page_of
from stuntbroker.pipeline.report.reread import read_sources
from stuntbroker.pipeline.report.words import WORDS

PLANTS = {plant.__name__: plant for plant, expected in CASES if expected}


def planted(folder: Path, *plants: Callable[[World], None]) -> World:
    world = World(folder)
    clean(world)
    for plant in plants:
        plant(world)
    return world


def test_every_kind_of_finding_has_words_of_its_own() -> None:
    rows = re.findall(r"^\| ([a-z_, ]+) \| ", findings.__doc__ or "", re.MULTILINE)
    kinds = {kind for row in rows for kind in row.split(", ")} - {"kind"}

    assert kinds == WORDS.keys()
    assert len({words.meaning for words in WORDS.values()}) == len(WORDS)


@pytest.mark.parametrize("keep", [True, False], ids=["small", "large"])
@pytest.mark.parametrize("name", PLANTS)
def test_a_finding_has_a_row_and_a_section_with_the_batches_that_it_is_about(
    name: str, keep: bool, tmp_path: Path
) -> None:
    world = planted(tmp_path, PLANTS[name])
    messages = world.audit().findings().to_pylist()
    page = page_of_world(world, keep=keep)

    assert [row.all("td")[1].text for row in page.rows()] == [each["kind"] for each in messages]
    for each, section in zip(messages, page.findings(), strict=True):
        text = section.text
        words = WORDS[each["kind"]]
        assert words.title in text and words.meaning in text
        assert f"{each['topic']}-{each['partition']}" in section.single("summary").text
        assert (each["transactional_id"] or "none known") in text
        assert each["file"] is None or each["file"] in text
        assert each["first_offset"] is None or f"{each['first_offset']:,}" in section.single("dl").text
        batches = section.all("table")[0]
        assert "File and position" in batches.text
        assert batches.all("tr", class_="it"), each


def test_a_row_leads_to_its_section(tmp_path: Path) -> None:
    page = page_of_world(planted(tmp_path, PLANTS["no_marker"], PLANTS["data_of_an_unknown_id"]))
    anchors = [section.attributes["id"] for section in page.findings()]

    assert [row.attributes["data-target"] for row in page.rows()] == anchors
    assert [row.all("a")[0].attributes["href"] for row in page.rows()] == [f"#{anchor}" for anchor in anchors]


@pytest.mark.parametrize("keep", [True, False], ids=["small", "large"])
def test_a_lost_marker_is_reported_with_its_decision_and_with_the_partitions_that_have_theirs(
    keep: bool, tmp_path: Path
) -> None:
    (section,) = page_of_world(planted(tmp_path, PLANTS["no_marker"]), keep=keep).findings()
    batches, records, pieces = section.all("table")

    assert "21 \u2013 22 records of a transaction 7:4" in batches.single("tr", class_="it").text
    assert "PrepareCommit 7:5 2 with this one" in records.single("tr", class_="it").text
    assert records.all("tr")[-1].text.split()[3] == "CompleteCommit"
    assert [row.text.split()[0] for row in pieces.all("tr")[1:]] == ["t-0", "t-1"]
    assert ["commit" in row.text.split() for row in pieces.all("tr")[1:]] == [True, False]
    assert pieces.single("tr", class_="it").text.startswith("t-1")


@pytest.mark.parametrize("keep", [True, False], ids=["small", "large"])
def test_a_marker_that_contradicts_its_decision_is_shown_itself(keep: bool, tmp_path: Path) -> None:
    world = planted(tmp_path, PLANTS["aborted_where_commit_was_decided"])
    (section,) = page_of_world(world, keep=keep).findings()
    batches, records, pieces = section.all("table")

    assert batches.single("tr", class_="it").text.startswith("23 marker: abort coordinator epoch 0 7:5")
    assert "PrepareCommit" in records.single("tr", class_="it").text
    assert [row.all("td")[4].text for row in pieces.all("tr")[1:]] == ["commit", "abort"]


def test_the_advice_contains_the_command_for_the_transaction(tmp_path: Path) -> None:
    (section,) = page_of_world(planted(tmp_path, PLANTS["data_of_an_unknown_id"])).findings()
    commands = [code.text for code in section.single("div", class_="advice").all("code")]

    assert "stuntbroker txn abort --topic t --partition 1 --start-offset 21" in commands


def test_a_long_age_is_shown_in_units_that_people_use(tmp_path: Path) -> None:
    page = page_of_world(planted(tmp_path, PLANTS["prepared_for_a_long_time"]))

    assert re.search(r"open for 100\d{7} ms \(11 d 13 h\) without a time-out", page.section("findings"))


@pytest.mark.parametrize("keep", [True, False], ids=["small", "large"])
def test_batches_between_the_ends_of_a_long_transaction_are_counted_not_shown(keep: bool, tmp_path: Path) -> None:
    world = planted(tmp_path)
    world.log[A].produce(1_234, 0, 0)
    for sequence in range(9, 129, 3):
        world.log[A].produce(99, 0, sequence, 3, txn=False)
    world.log[A].produce(1_234, 0, 1)
    (section,) = [
        each for each in page_of_world(world, keep=keep).findings() if "hanging" in each.single("summary").text
    ]
    batches = section.all("table")[0]

    assert [row.text for row in batches.all("tr", class_="gap")] == ["… 34 batches"]
    assert len(batches.all("tr", class_="it")) == 2


def test_records_removed_by_retention_are_shown_as_unknown_before_an_offset(tmp_path: Path) -> None:
    world = planted(tmp_path)
    world.log[A].path.unlink()
    world.log[A].roll()
    world.transact("one", PID, 4, True, A)
    page = page_of_world(world)

    assert "unknown before offset 21" in page.section("readers")
    assert "the beginning of 1 partition cannot be seen any more" in page.section("about")
    assert "Retention, compaction or damage has removed it, so the audit cannot say" in page.section("summary")
    assert WORDS["unknown_before"].title in page.section("evidence")


def many(number: int) -> pa.Table:
    """Return `number` findings of one kind, followed by two of another kind."""
    blank = dict.fromkeys(FINDINGS.names)
    each = blank | {
        "kind": "gap",
        "severity": "error",
        "topic": "t",
        "partition": 0,
        "first_offset": 3,
        "evidence": "?",
    }
    tail = each | {"kind": "torn_tail", "severity": "information"}
    return as_findings([each] * number + [tail, tail | {"evidence": "!"}])


def with_findings(folder: Path, rows: pa.Table) -> Page:
    world = planted(folder)
    actual, created = read_folder(str(world.folder)), world.audit()
    return read(page_of(created, actual, rows, read_sources(actual, created, described_findings(rows))))


def test_the_page_lists_a_sample_of_every_kind_and_the_total_when_there_are_too_many_findings(tmp_path: Path) -> None:
    page = with_findings(tmp_path, many(LISTED_MAX + 500))
    kinds = [row.attributes["data-kind"] for row in page.rows()]

    assert (len(kinds), kinds.count("torn_tail")) == (LISTED_MAX, 2)
    assert "1,000 of 1,502 findings are listed" in page.section("findings")
    assert len(page.findings()) == SECTIONS_MAX
    assert "120 of 1,502 findings have a section here" in page.section("evidence")
    assert {row.attributes["data-target"] for row in page.rows()} - {
        each.attributes["id"] for each in page.findings()
    } == {""}
    assert len(page.html) < 6_500_000


def test_all_findings_are_listed_below_the_limit(tmp_path: Path) -> None:
    page = with_findings(tmp_path, many(30))

    assert (len(page.rows()), len(page.findings())) == (32, 32)
    assert "are listed" not in page.section("findings") and "have a section" not in page.section("evidence")


def test_identical_notes_share_a_row_with_their_number_but_errors_do_not(tmp_path: Path) -> None:
    rows = many(3).to_pylist()
    rows += [rows[-1] | {"partition": number} for number in range(1, 1_001)]
    page = with_findings(tmp_path, as_findings(rows))

    assert [row.all("td")[2].text for row in page.rows()] == ["t-0", "t-0", "t-0", "t-0", "t-0 and 1,000 more"]
    assert len(page.findings()) == 5
    assert "1,002 notes" in page.section("summary") and "are listed" not in page.section("findings")


def test_internal_partitions_come_last_and_are_folded_unless_they_hold_readers_back(tmp_path: Path) -> None:
    readers = page_of_world(planted(tmp_path)).root.single("section", id="readers")
    (folded,) = readers.all("details", class_="internal")
    names, inside = ([row.all("td")[0].text for row in each.all("tr") if row.all("td")] for each in (readers, folded))

    assert folded.single("summary").text == f"{len(inside)} internal partitions of the brokers"
    assert names[-len(inside) :] == inside
    assert [name.startswith("__") for name in names] == [False] * (len(names) - len(inside)) + [True] * len(inside)


def test_sampled_findings_keep_their_order() -> None:
    assert chosen(many(10), 100, 2) == list(range(12))
    assert chosen(many(10), 6, 2) == [0, 1, 2, 3, 10, 11]


def test_a_finding_about_a_topic_without_a_partition_has_no_batches(tmp_path: Path) -> None:
    blank = dict.fromkeys(FINDINGS.names)
    rows = as_findings(
        [blank | {"kind": "output_missing", "severity": "error", "topic": "out", "evidence": "once, not at all"}]
    )
    (section,) = with_findings(tmp_path, rows).findings()

    assert "once, not at all" in section.text and section.all("table") == []


def test_an_id_with_a_large_log_shows_its_last_record_and_names_the_timeline_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stuntbroker.pipeline.report.reread.RECORDS_MAX", 100)
    (section,) = page_of_world(planted(tmp_path, PLANTS["no_marker"]), keep=False).findings()

    assert "only the last record of an id is here. --timeline one tells the history" in section.text
    assert section.all("table")[1].all("tr")[1:][0].text.split()[3] == "CompleteCommit"


def test_batches_that_are_too_much_to_read_again_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stuntbroker.pipeline.report.reread.BATCHES_MAX", 100)
    (section,) = page_of_world(planted(tmp_path, PLANTS["no_marker"]), keep=False).findings()

    assert "No batch of the partition can be told to belong to it" in section.text


def test_the_page_names_the_transaction_that_holds_back_readers(tmp_path: Path) -> None:
    world = planted(tmp_path)
    world.begin("two", OTHER, 5, B)
    page = page_of_world(world)

    assert "held back in 1 of 4 partitions" in page.section("summary")
    assert "t-1 stops at 21: 2 offsets behind it wait for two" in page.section("summary")
    (held,) = page.root.single("section", id="readers").all("tr", class_="held")
    assert held.text.startswith("t-1 0 21 23 2 offsets wait for two producer 8:5, since ")
