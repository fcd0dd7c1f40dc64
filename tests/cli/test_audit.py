"""`stuntbroker audit` for the folder of a correct broker, folders with altered files, and paths that are no data folder."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from producers import Hand

from stuntbroker.cli.data_folder import audit as audit_command
from stuntbroker.cli.data_folder.audit import parse
from stuntbroker.cli.data_folder.audit_report import lines_of_findings, text_of
from stuntbroker.pipeline.audit.findings import FINDINGS
from tests.kit.brokers.our_broker import our_broker

TOPIC = "audited"
ONE_FINDING = (
    "1 partition, 1 batch, 1 byte, 1 transactional id; 1 end of a transaction in a partition, 1 abort among them "
    "with 50.0 % of the bytes"
)
TWO_FINDINGS = (
    "2 partitions, 2 batches, 2 bytes, 2 transactional ids; 2 ends of transactions in partitions, 2 aborts among them "
    "with 50.0 % of the bytes"
)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stuntbroker.cli", "audit", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the data folder of a stopped broker, with a committed and an open transaction."""
    place = tmp_path_factory.mktemp("audit")
    with our_broker(place / "data", place / "stderr.log", "num.partitions=1") as address:
        hand = Hand(address)
        hand.make_topic(TOPIC)
        for name in ("committed", "open"):
            producer = hand.init(name)
            hand.add(producer, TOPIC, 0)
            hand.produce(producer, TOPIC, 0)
            if name == "committed":
                hand.end(producer, commit=True)
        hand.close()
    return place / "data"


def test_a_folder_whose_transactions_are_in_order_has_no_findings(folder: Path) -> None:
    done = run(str(folder))

    assert (done.returncode, done.stderr) == (0, "")
    assert "Nothing found." in done.stdout
    assert f"{TOPIC}-0" in done.stdout  # Listed as open, not as a finding.


def test_identical_findings_are_one_line_unless_they_are_warnings() -> None:
    blank = dict.fromkeys(FINDINGS.names)
    note = blank | {"kind": "marker_without_data", "severity": "information", "topic": "t", "evidence": "the same"}
    rows = [note | {"partition": number} for number in range(12)]
    findings = lines_of_findings(
        [*rows, note | {"evidence": "another"}, *(row | {"severity": "warning"} for row in rows[:2])]
    )

    assert [" ".join(line.split()[2:6]) for line in findings.splitlines()[2:]] == [
        "t-0 and 11 more", "t - - another", "t-0 - - the", "t-1 - - the",
    ]  # fmt: skip


def test_the_json_report_has_the_same_content(folder: Path) -> None:
    done = run(str(folder), "--json")
    report = json.loads(done.stdout)

    assert done.returncode == 0
    assert report["findings"] == []
    assert (report["transactions"], report["aborted_transactions"]) == (1, 0)
    assert [each["topic"] for each in report["last_stable_offsets_held"]] == [TOPIC]


def test_damage_is_reported_and_exits_1(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(folder), str(copy)], check=True)
    segment = next((copy / f"{TOPIC}-0").glob("*.log"))
    data = bytearray(segment.read_bytes())
    data[70] ^= 0xFF
    segment.write_bytes(data)
    done = run(str(copy))

    assert done.returncode == 1
    assert "corrupt" in done.stdout and f"{TOPIC}-0" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        ((), 2, "give one data folder"),
        (("one", "two"), 2, "give one data folder"),
        (("one", "--jsn"), 2, "--jsn"),
        (("/nowhere/at/all",), 1, "/nowhere/at/all"),
        (("one", "--records"), 2, "--records needs --tables"),
        (("one", "--html"), 2, "--html needs a value"),
        (("one", "--html", ""), 2, "--html is empty"),
        (("one", "--tables", ""), 2, "--tables is empty"),
        (
            ("one", "--html", "/no/such/x.html"),
            1,
            "cannot write /no/such/x.html: there is no folder /no/such; give another",
        ),
        (("one", "--html", "/"), 1, "cannot write /: it is a folder; give another --html"),
        (("one", "--html", "/dev/null/x.html"), 1, "there is no folder /dev/null"),
        (("one", "--eos-group", "g", "--eos-input", "in"), 2, "--eos-group, --eos-input and --eos-output go together"),
        (("one", "--eos-group=g", "--eos-input=a", "--eos-output=b", "--eos-compare=c"), 2, "both, key, value"),
    ],
)
def test_a_wrong_call_is_reported_in_one_line(arguments: tuple[str, ...], status: int, words: str) -> None:
    done = run(*arguments)

    assert done.returncode == status
    assert words in done.stderr and done.stderr.count("\n") == 1


def test_the_spark_master_is_optional() -> None:
    masters = {
        ("f", "--spark"): "local[*]", ("--spark", "f"): "local[*]", ("--spark", "--json", "f"): "local[*]",
        ("f", "--spark", "local[2]"): "local[2]", ("--spark", "spark://h:1", "f"): "spark://h:1",
        ("--spark=yarn", "f"): "yarn", ("f",): None,
    }  # fmt: skip

    assert {words: parse(list(words)).master for words in masters} == masters
    assert {parse(list(words)).folder for words in masters} == {"f"}


@pytest.mark.parametrize("has_home", [False, True])
def test_without_a_jdk_one_line_says_what_is_needed(
    has_home: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    if has_home:
        monkeypatch.setenv("JAVA_HOME", "/no/jdk")
    done = run(str(folder), "--spark")

    assert (done.returncode, done.stdout) == (1, "")
    where = "in JAVA_HOME, which is /no/jdk" if has_home else "on the PATH, and JAVA_HOME is not set"
    assert done.stderr == f"stuntbroker: a JDK 17 or newer is needed: there is no java {where}\n"


def test_a_jdk_that_is_too_old_is_named(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_392\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    done = run(str(folder), "--spark")

    assert done.stderr == f"stuntbroker: a JDK 17 or newer is needed: {java} is of version 8\n"


def test_audit_writes_tables_and_a_page_and_prints_histories(folder: Path, tmp_path: Path) -> None:
    options = ("--tables", str(tmp_path / "tables"), "--records", "--timeline", "committed", "--timeline", "who")
    done = run(str(folder), *options, "--html", str(tmp_path / "page.html"))

    assert (done.returncode, done.stderr) == (0, "")
    assert "who: no transactional id of that name" in done.stdout
    _, _, history = done.stdout.partition("\ncommitted\n")
    assert history.splitlines()[1].split()[1] == "first"
    assert {each.name for each in (tmp_path / "tables").iterdir()} >= {
        "batches",
        "records",
        "transactions",
        "txn_state",
    }
    assert "<html" in (tmp_path / "page.html").read_text()
    restarted = run(str(folder), "--tables", str(tmp_path / "tables"))
    assert (restarted.returncode, restarted.stdout) == (1, "")
    assert "is not empty" in restarted.stderr and restarted.stderr.count("\n") == 1


def test_options_that_must_fail_are_reported_before_anything_is_written(folder: Path, tmp_path: Path) -> None:
    eos = ("--eos-group", "g", "--eos-input", "none", "--eos-output", TOPIC)
    for wrong in (("--html", str(tmp_path)), eos):
        done = run(str(folder), "--tables", str(tmp_path / "tables"), *wrong)

        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
        assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_page_that_may_not_be_written_is_reported(folder: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    done = run(str(folder), "--html", str(tmp_path / "x.html"))
    tmp_path.chmod(0o700)

    assert done.stderr == f"stuntbroker: cannot write {tmp_path / 'x.html'}: this user may not; give another --html\n"


def test_a_page_without_plotly_is_refused_before_the_audit_starts(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "plotly", None)
    said = io.StringIO()
    monkeypatch.setattr(sys, "stderr", said)

    assert audit_command.audit([str(folder / "not there"), "--html", "x.html"]) == 1
    assert said.getvalue() == f"stuntbroker: {audit_command.NEEDS} (plotly is not there)\n"


@pytest.mark.parametrize(("number", "words"), [(1, ONE_FINDING), (2, TWO_FINDINGS)])
def test_counts_of_one_are_reported_in_the_singular(number: int, words: str, folder: Path) -> None:
    report = json.loads(run(str(folder), "--json").stdout)
    names = ("partitions", "batches", "bytes", "transactional_ids", "transactions", "aborted_transactions")
    text = text_of(report | dict.fromkeys(names, number) | {"aborted_bytes_ratio": 0.5})

    assert text.splitlines()[0] == words


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("none", "has no topic 'none', which --eos-input or --eos-output names"),
        (TOPIC, f"'g' has committed no offset of '{TOPIC}'"),
    ],
)
def test_a_comparison_without_topic_or_offsets_is_an_error(folder: Path, source: str, what: str) -> None:
    done = run(str(folder), "--eos-group", "g", "--eos-input", source, "--eos-output", TOPIC)

    assert (done.returncode, done.stdout) == (1, "")
    assert what in done.stderr and done.stderr.count("\n") == 1


def test_a_terminal_shows_the_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal shows one line that changes. Elsewhere a line is printed now and then, or none if the output is JSON."""
    now_s = [0.0]
    monkeypatch.setattr(audit_command.time, "monotonic", lambda: now_s[0])
    said = {}
    for is_terminal in (True, False):
        for is_json in (True, False):
            stderr = io.StringIO()
            monkeypatch.setattr(stderr, "isatty", lambda is_terminal=is_terminal: is_terminal)
            monkeypatch.setattr(sys, "stderr", stderr)
            progress = audit_command.Progress(is_json)
            for step in range(40):
                now_s[0] += 0.5
                progress("reading", step / 100)
            progress.clear()
            said[is_terminal, is_json] = stderr.getvalue()

    lines = [f"\r\x1b[Kreading {n} %" for n in range(40)]
    assert said[True, True] == said[True, False] == "".join(lines) + "\r\x1b[K"
    assert (said[False, True], said[False, False].count("\n")) == ("", 2)
