"""With any damaged file, the broker starts with the right data, or refuses with one clear line and changes no file.

Files have flipped bits, are truncated, emptied, overwritten, replaced by a folder or, if nothing is lost, removed. A CRC protects
records, and readers check it. A truncated log may lose records, which the broker logs.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stuntbroker.protocol.data_folder import JOURNAL, PARTITION_METADATA, PROPERTIES, START_OFFSETS
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from stuntbroker.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from stuntbroker.storage.errors import StorageError
from tests.kit.logs import read_all
from tests.kit.processes.process import run
from tests.kit.rig import START_MS, Client, Rig, running_rig
from tests.kit.valid_requests import batch

TOPIC = "orders"
FEW = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
SEEDS = range(25)
TRIES = 8
CANNOT_TELL = {"log_truncated", "stray_partition_renamed"}
"""Events that report lost or unexpected data."""


def produce(client: Client, number: int, owner: Any = None, sequence: int = 0) -> None:
    """Produce a batch of about 5 KB, so that it has an index entry; its timestamp is ten minutes after the previous one."""
    producer = (-1, -1, -1) if owner is None else (owner.producer_id, owner.producer_epoch, sequence)
    data = batch(2, *producer, size=2_500, timestamp=START_MS + number * 600_000)
    wanted = [TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, data)])]
    answer = client.ask(ProduceRequest("txn" if owner else None, -1, 1_000, wanted), 12)
    assert answer.responses[0].partition_responses[0].error_code == 0


async def fill(folder: Path) -> None:
    """Create segments with indexes, commits and aborts, an open transaction, offsets of a group, and deleted first records.

    The folder is left as after kill -9.
    """
    async with running_rig(folder, FEW) as rig:
        client = rig.client()
        rig.topic(TOPIC, 2, segment_ms="1500000", message_timestamp_after_max_ms="9000000000")
        rig.topic("empty", 1)
        number = 0
        for n in range(6):
            produce(client, number)
            owner = client.ask(InitProducerIdRequest("txn", 60_000), 5)
            for sequence in (0, 2, 4):
                number += 1
                produce(client, number, owner, sequence)
            if n < 5:
                client.ask(EndTxnRequest("txn", owner.producer_id, owner.producer_epoch, n % 2 == 0), 4)
        offset = OffsetCommitRequestTopic(TOPIC, partitions=[OffsetCommitRequestPartition(0, 5, -1, "note")])
        assert client.ask(OffsetCommitRequest("group", topics=[offset]), 7).topics[0].partitions[0].error_code == 0
        rig.log(TOPIC, 0).delete_records(1)
        rig.broker.data_dir.write_start_offsets()
        client.disconnect()
        rig.broker.broken = True


def seen(rig: Rig) -> dict[str, Any]:
    """Return what clients can see: records, aborted and open transactions, and committed offsets."""
    actual: dict[str, Any] = {"topics": sorted((t.name, t.id, len(t.partitions), t.configs) for t in rig.broker.topics)}
    for topic in (TOPIC, "__transaction_state", "__consumer_offsets"):
        if rig.broker.topics.get(topic) is None:
            continue
        for log in rig.logs(topic):
            records = read_all(log, log.log_start_offset, end=log.last_stable_offset)
            actual[f"{topic}-{log.index}"] = (
                log.log_start_offset, log.next_offset, log.last_stable_offset, records,
                [log.aborted_in_fetch(each.base_offset, each.size, log.last_stable_offset) for each in log.segments],
                [sum(1 for _ in log.batches_since(START_MS + n * 600_000, 0)) for n in range(0, 25, 3)],
                [len(log.read(offset, 1, log.next_offset).records) for offset in range(1, min(log.next_offset, 99), 5)],
            )  # fmt: skip
    actor = rig.actor("txn")
    actual["txn"] = actor and actor.txn
    client = rig.client()
    request = OffsetFetchRequest("group", [OffsetFetchRequestTopic(TOPIC, [0])])
    actual["offset"] = client.ask(request, 7).topics[0].partitions[0].committed_offset
    client.disconnect()
    return actual


def flip(path: Path, rnd: random.Random) -> None:
    data = bytearray(path.read_bytes())
    if data:
        data[rnd.randrange(len(data))] ^= 1 << rnd.randrange(8)
    path.write_bytes(data)


def cut(path: Path, rnd: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: rnd.randrange(len(data) or 1)])


def empty(path: Path, rnd: random.Random) -> None:
    path.write_bytes(b"")


def overwrite(path: Path, rnd: random.Random) -> None:
    path.write_bytes(rnd.randbytes(rnd.choice([1, 8, 24, 34, 68, 120, 500])))


def into_folder(path: Path, rnd: random.Random) -> None:
    path.unlink()
    path.mkdir()


def remove(path: Path, rnd: random.Random) -> None:
    path.unlink()


DAMAGES: list[Callable[[Path, random.Random], None]] = [flip, flip, flip, cut, empty, overwrite, into_folder, remove]


def is_detected(path: Path, damage: Callable[..., None]) -> bool:
    """Return whether the broker can tell this damage from a valid change. With other damage, it need only start or refuse."""
    if path.suffix == ".log":
        return False
    if path.name == START_OFFSETS:
        return damage not in (flip, remove)
    if path.name == JOURNAL:
        return damage not in (cut, remove)
    return True


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    return {clean: tmp_path_factory.mktemp("damaged") / ("clean" if clean else "killed") for clean in (True, False)}


@pytest.fixture
async def whole(folders: dict[bool, Path], request: pytest.FixtureRequest) -> dict[bool, dict[str, Any]]:
    """Return what clients see of the undamaged folders."""
    actual = {}
    if not folders[False].exists():
        await fill(folders[False])
        shutil.copytree(folders[False], folders[True])
        async with running_rig(folders[True], FEW):
            pass
    for clean, folder in folders.items():
        assert (folder / ".kafka_cleanshutdown").exists() is clean
        copy = folder.with_suffix(".copy")
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy)
        async with running_rig(copy, FEW) as rig:
            actual[clean] = seen(rig)
            assert rig.events.kept == []
    assert actual[True]["orders-0"][1] == 53 and actual[True]["txn"].phase.kafka_name == "Ongoing"
    assert actual[True] == actual[False]
    return actual


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_damaged_folder_starts_with_the_right_data_or_is_refused(
    seed: int, folders: dict[bool, Path], whole: dict[bool, dict[str, Any]], tmp_path: Path
) -> None:
    rnd = random.Random(seed)
    for number in range(TRIES):
        clean = rnd.random() < 0.5
        folder = tmp_path / str(number)
        shutil.copytree(folders[clean], folder)
        files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
        path, damage = rnd.choice(files), rnd.choice(DAMAGES)
        damage(path, rnd)
        what = f"{path.relative_to(folder)}: {damage.__name__}, {clean=}"
        try:
            async with running_rig(folder, FEW) as rig:
                actual = seen(rig)
                events = set(rig.events.names())
        except StorageError as fault:
            assert str(folder) in str(fault) and "\n" not in str(fault), (what, str(fault))
            continue
        if is_detected(path, damage):
            assert actual == whole[clean], what
        elif damage in (cut, empty) and path.name == JOURNAL:
            assert actual["topics"] == whole[clean]["topics"] or events & CANNOT_TELL, what


@pytest.mark.parametrize(
    "name, content",
    [
        (PROPERTIES, b"\xff\xfe"), (JOURNAL, b'{"partitions":"nope","count":3}\n'), (START_OFFSETS, b"\xff\n"),
        (f"{TOPIC}-0/{PARTITION_METADATA}", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n"),
    ],
)  # fmt: skip
async def test_a_refused_start_prints_one_line_and_exits_with_status_1(
    name: str, content: bytes, folders: dict[bool, Path], whole: object, tmp_path: Path
) -> None:
    shutil.copytree(folders[True], tmp_path / "data")
    (tmp_path / "data" / name).write_bytes(content)
    done = run("serve", "--port", "0", "--data-dir", str(tmp_path / "data"))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith("stuntbroker: cannot start: ") and f"{tmp_path}/data/{name}" in done.stderr


async def test_foreign_files_in_a_partition_folder_are_not_removed(
    folders: dict[bool, Path], whole: dict[bool, dict[str, Any]], tmp_path: Path
) -> None:
    names = [
        "notes.log",
        "abc.swap",
        "abc.cleaned",
        "my.new",
        "1.index",
        "x.snapshot",
        f"{0:020d}.log.deleted",
        "folder.log/",
    ]
    folder = tmp_path / "data"
    shutil.copytree(folders[False], folder)
    for name in names:
        path = folder / f"{TOPIC}-0" / name
        (path.mkdir if name.endswith("/") else path.touch)()
    async with running_rig(folder, FEW) as rig:
        assert seen(rig) == whole[False]
    assert {name.rstrip("/") for name in names} <= {path.name for path in (folder / f"{TOPIC}-0").iterdir()}


@pytest.mark.parametrize("clean", [False, True], ids=["killed", "clean"])
async def test_bytes_lost_in_the_middle_of_a_log_refuse_the_start_and_truncate_cuts_there(
    clean: bool, folders: dict[bool, Path], whole: object, tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    shutil.copytree(folders[clean], folder)
    logs = sorted((folder / f"{TOPIC}-0").glob("*.log"))
    lost = sum(path.stat().st_size for path in logs[2:])
    size = logs[1].stat().st_size
    logs[1].write_bytes(logs[1].read_bytes()[:-1])
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    refused = f"^{logs[1]} is damaged at position [0-9]+, after offset [0-9]+: .*--recover truncate"
    with pytest.raises(StorageError, match=refused):
        async with running_rig(folder, FEW):
            pass
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    async with running_rig(folder, FEW, truncate_damaged=True) as rig:
        [(event, facts)] = rig.events.kept
        end = rig.log(TOPIC, 0).next_offset
    assert (event, facts["topic"], facts["partition"], facts["next_offset"]) == ("log_truncated", TOPIC, 0, end)
    assert lost < facts["bytes"] < lost + size


def last_log(folder: Path, partition: str) -> Path:
    return max((folder / partition).glob("*.log"))


def batch_starts(data: bytes) -> list[int]:
    starts, at = [], 0
    while at < len(data):
        starts.append(at)
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    return starts


@pytest.mark.parametrize("partition", [f"{TOPIC}-0", "__transaction_state-0"])
async def test_every_flipped_byte_with_valid_batches_behind_it_refuses_the_start_after_kill(
    partition: str, folders: dict[bool, Path], whole: object, tmp_path: Path
) -> None:
    """This includes the bytes before the CRC: base offset, length, leader epoch and magic number."""
    folder = tmp_path / "data"
    shutil.copytree(folders[False], folder)
    logs = sorted((folder / partition).glob("*.log"), reverse=True)
    path = next(path for path in logs if len(batch_starts(path.read_bytes())) > 1)
    for later in (folder / partition).glob("*.log"):
        if later > path:
            later.unlink()
    data = path.read_bytes()
    first, second = batch_starts(data)[-2:]
    for at in (*range(first, first + 61), second - 1):
        path.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        follows = f"^{path} is damaged at position {first}, .*valid records follow at position ({first}|{second}),"
        with pytest.raises(StorageError, match=follows):
            async with running_rig(folder, FEW):
                pass


@pytest.mark.parametrize("keep", range(1, 70, 4))
async def test_an_incomplete_last_batch_is_truncated_after_a_crash_and_earlier_batches_remain(
    keep: int, folders: dict[bool, Path], whole: object, tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    shutil.copytree(folders[False], folder)
    path = last_log(folder, f"{TOPIC}-0")
    data = path.read_bytes()
    last = batch_starts(data)[-1]
    path.write_bytes(data[: last + keep])
    async with running_rig(folder, FEW) as rig:
        assert rig.events.names() == ["log_truncated"]
    assert path.read_bytes() == data[:last]


async def test_an_incomplete_last_batch_refuses_the_start_after_a_clean_shutdown(
    folders: dict[bool, Path], whole: object, tmp_path: Path
) -> None:
    """No valid batch follows, but after a clean shutdown a crash cannot be the reason for the incomplete batch."""
    folder = tmp_path / "data"
    shutil.copytree(folders[True], folder)
    path = last_log(folder, f"{TOPIC}-0")
    path.write_bytes(path.read_bytes()[:-1])
    for _ in range(2):  # A refused start keeps the mark of the clean shutdown.
        with pytest.raises(StorageError, match=f"^{path} is damaged .*: the log was closed cleanly"):
            async with running_rig(folder, FEW):
                pass


@pytest.mark.parametrize("topic", ["__transaction_state", "__consumer_offsets"])
async def test_an_internal_log_with_a_wrong_crc_refuses_the_start_after_a_clean_shutdown(
    topic: str, folders: dict[bool, Path], whole: object, tmp_path: Path
) -> None:
    """After a clean shutdown, only internal logs are checked: the broker loads their records, including the last one."""
    for at in (100, -1):
        folder = tmp_path / str(at)
        shutil.copytree(folders[True], folder)
        path = folder / f"{topic}-0" / f"{0:020d}.log"
        data = bytearray(path.read_bytes())
        data[at] ^= 1
        path.write_bytes(data)
        with pytest.raises(StorageError, match=f"^{path} is damaged at position [0-9]+, after offset .*restore"):
            async with running_rig(folder, FEW):
                pass
        async with running_rig(folder, FEW, truncate_damaged=True) as rig:
            assert rig.events.names() == ["log_truncated"]
