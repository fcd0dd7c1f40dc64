"""`stuntbroker audit`: the folder of a broker that worked, one whose files were tampered with, and none at all."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from producers import Hand

from tests.peers.our_broker import our_broker

TOPIC = "audited"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stuntbroker.cli", "audit", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a broker that has stopped: one transaction is committed, one was left open."""
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
    assert f"{TOPIC}-0" in done.stdout  # What readers wait for is told, and is no finding.


def test_the_json_document_says_the_same(folder: Path) -> None:
    done = run(str(folder), "--json")
    report = json.loads(done.stdout)

    assert done.returncode == 0
    assert report["findings"] == []
    assert (report["transactions"], report["aborted_transactions"]) == (1, 0)
    assert [one["topic"] for one in report["last_stable_offsets_held"]] == [TOPIC]


def test_damage_is_found_and_is_the_exit_status(folder: Path, tmp_path: Path) -> None:
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
    ],
)
def test_a_wrong_call_is_told_in_one_line(arguments: tuple[str, ...], status: int, words: str) -> None:
    done = run(*arguments)

    assert done.returncode == status
    assert words in done.stderr and done.stderr.count("\n") == 1
