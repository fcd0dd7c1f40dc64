"""`stuntbroker ctl` runs in this process, against a broker in another process."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException, Producer

import stuntbroker
from stuntbroker.cli.commands.ctl import COMMANDS
from stuntbroker.cli.completion import candidates
from stuntbroker.cli.main import run
from tests.kit.processes.process import serving

RULE = '{"match": {"api": "EndTxn"}, "do": {"close": true}}'


@pytest.fixture(scope="module")
def control() -> Iterator[str]:
    with serving("--control") as broker:
        yield broker.line.split("control=")[1].strip()


def said(capsys: pytest.CaptureFixture[str], status: int = 0) -> str:
    out, err = capsys.readouterr()
    assert not (err if status == 0 else out)
    return out + err


def test_ctl_advances_the_clock_by_times_with_units(control: str, capsys: pytest.CaptureFixture[str]) -> None:
    for text, ms in (("500ms", 500), ("90s", 90_000), ("15m", 900_000), ("1.5h", 5_400_000), ("7d", 604_800_000)):
        assert run(["ctl", "clock", "--json", "--control", control]) == 0
        before = json.loads(said(capsys))["ahead_ms"]
        assert run(["ctl", "advance", text, "--json", "--control", control]) == 0
        assert abs(json.loads(said(capsys))["ahead_ms"] - before - ms) <= 5
    assert run(["ctl", "pause", "--control", control]) == 0
    assert said(capsys).endswith("clock, paused\n")
    assert run(["ctl", "resume", "--control", control]) == 0
    assert said(capsys).endswith("clock, running\n")


def test_ctl_adds_shows_releases_and_removes_a_fault(control: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ctl", "fault", RULE, "--control", control]) == 0
    header, row = said(capsys).splitlines()
    id_ = row.split()[0]
    assert header.split() == ["ID", "FIRED", "MATCHED", "HELD", "RULE"]
    assert row.endswith('{"match": {"api": ["EndTxn"]}, "do": {"close": true}}')
    for words in (["release", id_], ["faults"], ["remove", id_], ["fault", RULE], ["remove", "--all"]):
        assert run(["ctl", *words, "--control", control]) == 0
    said(capsys)
    assert run(["ctl", "faults", "--json", "--control", control]) == 0
    assert json.loads(said(capsys)) == {"faults": []}


def test_ctl_adds_shows_releases_and_removes_a_stop(control: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ctl", "stop", "txn.reply", "--control", control]) == 0
    header, row = said(capsys).splitlines()
    assert header.split() == ["ID", "POINT", "ACTION", "FIRED", "MATCHED", "PARKED", "MATCH"]
    id_, point, action, *_ = row.split()
    assert (point, action) == ("txn.reply", "park")
    assert run(["ctl", "release", id_, "--control", control]) == 0
    assert said(capsys) == "released 0\n"
    for words in (["remove", "txn.reply"], ["stop", "txn.reply", '{"action": "fail"}'], ["remove", "--all"]):
        assert run(["ctl", *words, "--control", control]) == 0
    said(capsys)
    assert run(["ctl", "stops", "--json", "--control", control]) == 0
    assert json.loads(said(capsys))["stops"] == []


@pytest.mark.parametrize(
    "command",
    [
        "clock",
        "faults",
        "stops",
        "plans",
        "plan",
        "requests",
        "transactions",
        "fences",
        "topics",
        "groups",
        "clients",
        "left-open",
        "oracle",
    ],
)
def test_ctl_shows_state_as_a_table_and_as_json(command: str, control: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ctl", command, "--control", control]) == 0
    assert said(capsys)
    assert run(["ctl", command, "--json", "--control", control]) == 0
    assert json.loads(said(capsys))


def test_ctl_takes_forks_restores_and_deletes_snapshots(control: str, capsys: pytest.CaptureFixture[str]) -> None:
    def shown_by(*words: str) -> list[list[str]]:
        assert run(["ctl", *words, "--control", control]) == 0
        return [line.split() for line in said(capsys).splitlines()]

    assert shown_by("snapshot", "first")[1][:2] == ["snapshot-1", "first"]
    assert [row[0] for row in shown_by("snapshots")] == ["ID", "snapshot-1"]
    assert len(shown_by("fork", "first", "--count", "3")) == 4
    assert shown_by("remove-fork", "fork-2")[1][0] == "fork-2"
    assert [row[0] for row in shown_by("forks")] == ["ID", "fork-1", "fork-3"]
    assert len(shown_by("remove-fork")) == 3
    assert shown_by("restore", "first")[1][0] == "snapshot-1"
    assert shown_by("delete-snapshot", "first")[1][0] == "snapshot-1"
    assert shown_by("snapshots") == [["ID", "NAME", "BYTES", "PARKED"]]
    assert shown_by("reset") == [["the", "broker", "is", "in", "its", "initial", "state"]]


@pytest.mark.parametrize(
    ("words", "status", "reason"),
    [
        ([], 2, "ctl: a command is missing"),
        (["explode"], 2, "ctl: there is no command 'explode'"),
        (["clock"], 2, "ctl needs --control URL"),
        (["advance", "--control", "x"], 2, "ctl advance needs one TIME"),
        (["advance", "soon", "--control", "x"], 2, "ctl advance 'soon': it must be a time"),
        (["fault", "{", "--control", "x"], 2, "ctl fault: the rule is not JSON"),
        (["clock", "--control", "127.0.0.1:1"], 1, "the broker at http://127.0.0.1:1 does not answer"),
        (
            ["release", "fault-99", "--control", "CONTROL"],
            1,
            "there is no fault 'fault-99'; 'stuntbroker ctl faults' lists them",
        ),
        (["fault", "{}", "--control", "CONTROL"], 1, "do must have one verb"),
        (["stop", "x", "{", "--control", "x"], 2, "ctl stop: the rule is not JSON"),
        (["node", "2", "stop", "--control", "x"], 2, "ctl node 'stop': it must be running, stopped, or a rule"),
        (["clock", "--control", "https://x"], 1, "'https://x' is no control address of a broker: it has to be http://"),
        (["clock", "--control", "localhost:80a"], 1, "'localhost:80a' is no control address of a broker"),
        (["clock", "--control", "http://[::1"], 1, "'http://[::1' is no control address of a broker"),
        (["clock", "--control", "http://"], 1, "'http://' is no control address of a broker"),
        (["stop", "x", "{}", "{}", "--control", "x"], 2, "ctl stop takes at most 2 POINT, not 3"),
        (
            ["late", '{"api": "EndTxn", "transactional_id": "x"}', "--control", "CONTROL"],
            1,
            "there is no transactional id 'x'",
        ),
        (["wait", "{}", "--timeout", "soon", "--control", "x"], 2, "ctl wait --timeout 'soon': it must be a time"),
        (
            ["wait", '{"topic": "t", "end_offset": 1}', "--timeout", "1ms", "--control", "CONTROL"],
            1,
            "not within 1 ms: ",
        ),
        (
            ["restore", "nope", "--control", "CONTROL"],
            1,
            "there is no snapshot 'nope'; 'stuntbroker ctl snapshots' lists them",
        ),
        (
            ["remove", "nope", "--control", "x"],
            2,
            "ctl: 'nope' is neither the id of a fault or a stop, such as fault-1, nor a point",
        ),
        (["remove", "fault-1", "--all", "--control", "x"], 2, "ctl remove: --all and 'fault-1' exclude each other"),
        (["advance", "400d", "--control", "x"], 2, "ctl advance '400d': it can be at most 366d"),
        (["advance", "1m", "2m", "--control", "x"], 2, "ctl advance takes at most 1 TIME, not 2"),
        (["fork", "--count", "101", "--control", "x"], 2, "--count"),
        (
            ["remove-fork", "fork-9", "--control", "CONTROL"],
            1,
            "there is no fork 'fork-9'; 'stuntbroker ctl forks' lists them",
        ),
        (["plan", "nowhere", "--control", "CONTROL"], 1, "there is no plan 'nowhere', nor such a JSON or YAML file"),
        (
            ["stop", "nowhere", "--control", "CONTROL"],
            1,
            "there is no point 'nowhere'; 'stuntbroker ctl stops' lists them",
        ),
    ],
)
def test_ctl_reports_an_error_in_one_line(
    words: list[str], status: int, reason: str, control: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["ctl", *(control if word == "CONTROL" else word for word in words)]) == status
    text = said(capsys, status)
    assert text.startswith("stuntbroker: ")
    assert reason in text
    assert text.count("\n") == 1


def test_ctl_reports_an_address_that_is_no_control_api(capsys: pytest.CaptureFixture[str]) -> None:
    with serving("--metrics-port", "0") as broker:
        metrics = broker.line.split("metrics=")[1].strip()
        assert run(["ctl", "clock", "--control", metrics]) == 1
    assert "is no control address of a broker" in said(capsys, 1)


def test_commands_of_ctl_are_completed() -> None:
    assert candidates(["ctl"]) == list(COMMANDS)
    assert candidates(["ctl", "requests"]) == ["--limit", "--control", "--control-token", "--json"]
    assert candidates(["ctl", "explode"]) == []


def test_ctl_shows_the_timeline_of_a_transaction_and_the_details_of_a_fence(capsys: pytest.CaptureFixture[str]) -> None:
    with stuntbroker.broker(topics={"orders": 1, "payments": 1}) as broker:
        options = {"bootstrap.servers": broker.bootstrap, "transactional.id": "pay/1", "log_level": 0}
        first = Producer(options | {"client.id": "first"})
        first.init_transactions(10)
        first.begin_transaction()
        first.produce("payments", "42 EUR", partition=0)
        first.flush(10)

        def shown_by(*words: str) -> str:
            assert run(["ctl", *words, "--control", broker.control_url]) == 0
            return said(capsys)

        assert "payments-0  0      0            1    pay/1, producer 0 from 0" in shown_by("topics")
        assert "first" in shown_by("clients")
        Producer(options | {"client.id": "second"}).init_transactions(10)
        with pytest.raises(KafkaException):
            first.commit_transaction(10)
        timeline = shown_by("transactions", "pay/1")
        assert all(text in timeline for text in ("Empty", "EndTxn v", "newer_instance"))
        fence = shown_by("fences", "pay/1")
        assert "Stop this one, or give each instance an id of its own." in fence
        assert re.search(
            r"fence-1  20\S+Z  pay/1  +first at 127\.0\.0\.1:\d+  +\w+ +newer_instance  second at 127", fence
        )
        broker.produce("orders", "lost")
        assert "1 finding\n" in shown_by("exactly-once", '{"input": "orders", "output": "payments"}')


def test_ctl_wait_stop_reports_a_stop_that_was_not_reached(control: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ctl", "stop", "metadata.before", '{"action": "fail"}', "--control", control]) == 0
    id_ = said(capsys).splitlines()[1].split()[0]
    assert run(["ctl", "wait-stop", id_, "--timeout", "1ms", "--control", control]) == 1
    assert f"not within 1 ms: {id_} at metadata.before: nothing has matched" in said(capsys, 1)
    assert run(["ctl", "remove", id_, "--control", control]) == 0
    said(capsys)
