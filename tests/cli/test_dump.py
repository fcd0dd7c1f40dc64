"""`stuntbroker dump` prints the files of a data folder as lines, whatever their contents."""

from __future__ import annotations

import json
import os
from pathlib import Path
from struct import pack

import pytest

from stuntbroker.protocol.batches.records import TRANSACTIONAL, build_batch, read_header
from stuntbroker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from stuntbroker.storage.producers import ProducerStates
from tests.kit.processes.process import Peer, run, serving
from tests.kit.valid_requests import TOPIC, batch


def test_dump_shows_batches_and_records_and_says_what_is_wrong(tmp_path: Path) -> None:
    with serving("--data-dir", str(tmp_path)) as broker, Peer(broker.address) as peer:
        peer.ask(MetadataRequest([MetadataRequestTopic(name=TOPIC)]), 9)
        data = [TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, batch(timestamp=1))])]
        peer.ask(ProduceRequest(None, -1, 1_000, data), 9)
        broker.end()
    log = tmp_path / f"{TOPIC}-0" / "00000000000000000000.log"
    shown = run("dump", str(log))
    assert shown.returncode == 0
    assert "batch offset=0..1" in shown.stdout
    assert "key=b'k1' value=b'vvv'" in shown.stdout
    broken = bytearray(log.read_bytes())
    broken[-1] ^= 1
    log.write_bytes(broken)
    shown = run("dump", str(log))
    assert (shown.returncode, "wrong CRC" in shown.stdout) == (1, True)
    assert run("dump", str(tmp_path / f"{0:020d}.log")).returncode == 1


SHOWN = {
    ".index": (
        pack(">ii", 7, 4_500) + pack(">ii", 9, 9_000),
        "entry offset=107 position=4500\n  entry offset=109 position=9000",
    ),
    ".timeindex": (
        pack(">qi", 1_234, 7) + bytes(24),
        "entry timestamp=1234 offset=107\n  24 bytes of zeros: room for more",
    ),
    ".txnindex": (pack(">hqqqq", 0, 5, 100, 104, 105), "aborted producer=5 offset=100..104 last_stable_offset=105"),
    ".snapshot": (None, "producer=5:1 sequence=3..4 offset=100..101 open_since=100 timestamp=9 coordinator_epoch=-1"),
}


@pytest.mark.parametrize("suffix", SHOWN)
def test_dump_shows_index_and_snapshot_files_in_their_format(suffix: str, tmp_path: Path) -> None:
    data, lines = SHOWN[suffix]
    if data is None:
        states = ProducerStates()
        states.appended(
            read_header(
                build_batch(
                    [(b"k", b"v")] * 2, 9, producer_id=5, producer_epoch=1, base_sequence=3, attributes=TRANSACTIONAL
                )
            ),
            100,
        )
        data = states.snapshot()
    path = tmp_path / f"{100:020d}{suffix}"
    path.write_bytes(data)
    shown = run("dump", str(path))
    assert (shown.returncode, shown.stdout, shown.stderr) == (0, f"{path}\n  {lines}\n", "")

    path.write_bytes(data[:-1] if suffix != ".timeindex" else data[:13])
    shown = run("dump", str(path))
    assert (shown.returncode, "\n  ! " in shown.stdout) == (1, True)


def test_dump_shows_every_file_of_a_folder(tmp_path: Path) -> None:
    with serving("--data-dir", str(tmp_path)) as broker, Peer(broker.address) as peer:
        peer.ask(MetadataRequest([MetadataRequestTopic(name=TOPIC)]), 9)
        data = [TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, batch(timestamp=1))])]
        peer.ask(ProduceRequest(None, -1, 1_000, data), 9)
        running = run("dump", str(tmp_path))
        broker.end()

    shown = run("dump", str(tmp_path))

    files = sorted(str(path) for path in tmp_path.rglob("*") if path.is_file())
    assert [line for line in shown.stdout.splitlines() if line.startswith("/")] == files
    assert (running.returncode, running.stderr, shown.returncode, shown.stderr) == (0, "", 0, "")
    for line in (f'{{"create":"{TOPIC}"', "node.id=1", "topic_id: ", "batch offset=0..1", "crc=", '{"version":0}'):
        assert f"\n  {line}" in shown.stdout
    assert "\n  !" not in shown.stdout
    rows = [json.loads(line) for line in run("dump", "--json", str(tmp_path)).stdout.splitlines()]
    assert [f"  {row['text']}" for row in rows] == [line for line in shown.stdout.splitlines() if line[0] != "/"]
    assert {row["file"] for row in rows} <= set(files) and not any(row["is_damage"] for row in rows)


def test_dump_continues_after_what_it_cannot_show(tmp_path: Path) -> None:
    names = ("a", f"{0:020d}.txt", "notes.index", "partition.metadata")
    for name in names:
        (tmp_path / name).write_text("version: 0\n")
    (tmp_path / "link").symlink_to("/")
    os.mkfifo(tmp_path / "quorum-state")

    shown = run("dump", str(tmp_path / "gone"), str(tmp_path))

    assert shown.returncode == 1
    assert shown.stdout.count("! no file of a broker has this name: it is not shown\n") == 3
    assert f"{tmp_path}/partition.metadata\n  version: 0\n" in shown.stdout
    assert [line.split(": ")[1] for line in shown.stderr.splitlines()] == [
        f"{tmp_path}/{name}" for name in ("gone", "link")
    ]


WRONG_FILES = {
    "metadata.journal": (b'{"delete":"a","crc":"00000000"}\n{"x', ["! line 1: wrong CRC", "! line 2 is incomplete"]),
    "log-start-offset-checkpoint": (b"0\n2\na 0 5\n", ["! the file must have version 0"]),
    f"{7:020d}.crc": (b"abcd", ["! crc=61626364, but the indexes have 00000000"]),
    f"{8:020d}.crc": (b"abc", ["! the CRC file does not have 4 bytes"]),
    ".lock": (b"x", ["! the lock file is not empty"]),
}


def test_dump_reports_a_folder_without_files(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    shown = run("dump", str(tmp_path / "empty"))

    assert (shown.returncode, shown.stdout) == (1, "")
    assert shown.stderr == f"stuntbroker: {tmp_path}/empty: there is no file in this folder\n"


def test_dump_reports_a_checkpoint_file_that_ends_in_its_first_line(tmp_path: Path) -> None:
    (tmp_path / "log-start-offset-checkpoint").write_bytes(b"0")

    shown = run("dump", str(tmp_path / "log-start-offset-checkpoint"))

    assert (shown.returncode, shown.stderr) == (1, "")
    assert "\n  ! the file must have version 0" in shown.stdout


@pytest.mark.parametrize("name", WRONG_FILES)
def test_dump_reports_damage_of_files_beside_the_logs(name: str, tmp_path: Path) -> None:
    data, said = WRONG_FILES[name]
    (tmp_path / name).write_bytes(data)

    shown = run("dump", str(tmp_path / name))

    assert (shown.returncode, shown.stderr) == (1, "")
    assert all(f"\n  {line}" in shown.stdout for line in said)
