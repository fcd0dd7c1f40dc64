"""A data folder: its lock, its meta.properties, its journal and its partitions, also after a crash at any byte."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stuntbroker.protocol.data_folder import CLEAN_SHUTDOWN, JOURNAL, PARTITION_METADATA, START_OFFSETS
from stuntbroker.storage.data_dir import JOURNAL_SLACK, DataDir
from stuntbroker.storage.errors import DataDirLocked, StorageError
from stuntbroker.storage.memory_disk import MemoryDisk
from stuntbroker.storage.ownership import Deleted, metadata_of, uuid_text
from stuntbroker.storage.partition import PartitionLog
from tests.kit.logs import batch, files_of, log_config, put, view

TOPIC_ID = bytes(range(16))
OTHER_ID = bytes(range(1, 17))


def partition(folder: DataDir, name: str = "orders", index: int = 0, **config: Any) -> PartitionLog:
    folder.open_journal()
    return folder.partition(name, index, TOPIC_ID, log_config(**config))[0]


# --- the lock

OPEN_IT = """
import sys
from stuntbroker.storage.data_dir import DataDir
from stuntbroker.storage.errors import DataDirLocked
try:
    DataDir(sys.argv[1])
except DataDirLocked as fault:
    print(fault)
    sys.exit(3)
"""


def open_elsewhere(path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", OPEN_IT, str(path)], capture_output=True, text=True, timeout=30)


def test_a_second_process_is_refused_with_advice(tmp_path: Path) -> None:
    folder = DataDir(str(tmp_path))

    refused = open_elsewhere(tmp_path)
    assert (refused.returncode, refused.stdout) == (
        3,
        f"the data folder {tmp_path} is in use by another process: stop it, or give another --data-dir\n",
    )
    with pytest.raises(DataDirLocked):
        DataDir(str(tmp_path))

    folder.close()
    assert open_elsewhere(tmp_path).returncode == 0


def test_the_lock_is_released_when_its_process_ends(tmp_path: Path) -> None:
    hold = OPEN_IT.replace("DataDir(sys.argv[1])", "kept = DataDir(sys.argv[1]); print(flush=True); sys.stdin.read()")
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(DataDirLocked):
            DataDir(str(tmp_path))
        process.kill()
        process.wait()

    DataDir(str(tmp_path)).close()


def test_a_refused_process_leaves_the_folder_as_it_is(tmp_path: Path) -> None:
    first = DataDir(str(tmp_path))
    (tmp_path / CLEAN_SHUTDOWN).write_text("somebody's")

    with pytest.raises(DataDirLocked):
        DataDir(str(tmp_path))

    assert (tmp_path / CLEAN_SHUTDOWN).exists()
    first.abandon()


def test_a_data_folder_that_cannot_be_used_is_refused_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=f"cannot use the data folder {tmp_path}/file"):
        DataDir(str(tmp_path / "file"))


def test_a_damaged_start_offset_checkpoint_is_refused_and_the_lock_is_released(tmp_path: Path) -> None:
    for damaged in (
        b"0\n1\norders zero 5\n", b"0\n1\norders 0 -5\n", b"0\n2\norders 0 5\n", b"0\n1\norders 0 5", b"1\n0\n", b"0\n", b"",
        b"\xff\xfe", b"0\n1\norders 0 5\n\xc3\x28\n",
    ):  # fmt: skip
        (tmp_path / START_OFFSETS).write_bytes(damaged)
        for _ in range(2):
            with pytest.raises(StorageError, match=f"^{tmp_path}/{START_OFFSETS}: it must have version 0"):
                DataDir(str(tmp_path))


# --- meta.properties


def test_meta_properties_has_the_format_of_kafka(tmp_path: Path) -> None:
    folder = DataDir(str(tmp_path / "new"))
    assert folder.properties() == {}
    folder.write_properties({"version": "1", "cluster.id": "abc=", "node.id": "7"})

    assert (tmp_path / "new" / "meta.properties").read_text() == "version=1\ncluster.id=abc=\nnode.id=7\n"
    (tmp_path / "new" / "meta.properties").write_text("#\n# a comment\n\nversion=1\ncluster.id=abc=\nnode.id=7\n")
    assert folder.properties() == {"version": "1", "cluster.id": "abc=", "node.id": "7"}
    folder.close()


def test_a_uuid_reads_as_kafka_prints_it() -> None:
    assert uuid_text(bytes.fromhex("00112233445566778899aabbccddeeff")) == "ABEiM0RVZneImaq7zN3u_w"


# --- the journal

changes = st.lists(
    st.dictionaries(st.text(max_size=5), st.text(max_size=5) | st.integers() | st.none(), max_size=3), max_size=8
)


@given(changes, changes, st.booleans())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_journalled_changes_are_read_back_in_order(
    tmp_path_factory: pytest.TempPathFactory, first: list[Any], second: list[Any], clean: bool
) -> None:
    path = str(tmp_path_factory.mktemp("journal"))
    written: list[Any] = []
    for part in (first, second):
        folder = DataDir(path)
        assert list(folder.read_journal()) == written
        for change in part:
            folder.journal(change)
        written += part
        (folder.close if clean else folder.abandon)()
    last = DataDir(path)
    assert list(last.read_journal()) == written
    last.abandon()


def test_a_torn_journal_line_is_discarded_and_the_next_line_is_complete(tmp_path: Path) -> None:
    lines = [{"create": "ä\n\r\x85\u2028", "n": n} for n in range(3)]
    folder = DataDir(str(tmp_path))
    for line in lines:
        folder.journal(line)
    folder.abandon()
    content = (tmp_path / JOURNAL).read_bytes()
    ends = [at + 1 for at, byte in enumerate(content) if byte == 10]
    for size in range(len(content) + 1):
        (tmp_path / JOURNAL).write_bytes(content[:size])
        folder = DataDir(str(tmp_path))
        whole = lines[: sum(end <= size for end in ends)]
        assert list(folder.read_journal()) == whole
        folder.journal({"next": 1})
        folder.abandon()
        folder = DataDir(str(tmp_path))
        assert list(folder.read_journal()) == [*whole, {"next": 1}]
        folder.abandon()


def test_a_flipped_bit_in_the_journal_is_detected_and_nothing_is_truncated(tmp_path: Path) -> None:
    """A flipped bit in any byte, including line ends. Exception: a line that then looks like an old line without CRC."""
    folder = DataDir(str(tmp_path))
    for n in range(3):
        folder.journal({"create": f"topic-{n}", "n": n} if n else {})
    folder.abandon()
    content = (tmp_path / JOURNAL).read_bytes()
    for at in range(len(content)):
        for bit in range(8):
            damaged = bytearray(content)
            damaged[at] ^= 1 << bit
            (tmp_path / JOURNAL).write_bytes(damaged)
            folder = DataDir(str(tmp_path))
            line = content[:at].count(b"\n") + 1
            try:
                actual = list(folder.read_journal())
            except StorageError as fault:
                assert f"{JOURNAL}, line {line}: " in str(fault)
            else:  # The damaged line looks like one without CRC, and has a member that no change has.
                assert actual[line - 1].keys() - {"create", "n"}, damaged
            assert (tmp_path / JOURNAL).read_bytes() == damaged
            folder.abandon()


def test_lines_of_older_versions_are_read_beside_newer_ones(tmp_path: Path) -> None:
    (tmp_path / JOURNAL).write_bytes(b'{"create":"old"}\n{}\n')
    folder = DataDir(str(tmp_path))
    assert list(folder.read_journal()) == [{"create": "old"}, {}]
    folder.journal({"create": "new"})
    folder.close()
    assert (tmp_path / JOURNAL).read_bytes().split(b"\n")[2] == b'{"create":"new","crc":"49aa2005"}'
    folder = DataDir(str(tmp_path))
    assert list(folder.read_journal()) == [{"create": "old"}, {}, {"create": "new"}]
    folder.close()


@pytest.mark.parametrize("line", [b"[1]", b"1", b'"x"', b"\xff\xfe", b"[" * 9_000, b"", b'{"crc":"00000000"}'])
def test_an_invalid_journal_line_is_refused_by_number(line: bytes, tmp_path: Path) -> None:
    (tmp_path / JOURNAL).write_bytes(b'{"a":1}\n' + line + b"\n")
    folder = DataDir(str(tmp_path))
    with pytest.raises(
        StorageError, match=f"^{tmp_path}/{JOURNAL}, line 2: (not JSON|no JSON object|wrong CRC)"
    ) as refused:
        list(folder.read_journal())
    assert "\n" not in str(refused.value)
    folder.close()


@pytest.mark.parametrize("do", ["open_journal", "read_journal"])
def test_a_journal_that_is_a_folder_is_refused_with_its_path(do: str, tmp_path: Path) -> None:
    (tmp_path / JOURNAL).mkdir()
    folder = DataDir(str(tmp_path))
    with pytest.raises(StorageError, match=f"{tmp_path}/{JOURNAL} is a folder, and the broker keeps a file there"):
        list(getattr(folder, do)() or ())
    folder.close()


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff", b"version=1\n", b"cluster.id=x\n", b"cluster.id=\nnode.id=1\n", b"cluster.id=x\nnode.id=one\n",
     b"cluster.id=x\nnode.id=2147483648\n", b"cluster.id=x\nnode.id=-1\n", b"cluster.id=x\nnode.id=\xd9\xa1\n", None],
)  # fmt: skip
def test_meta_properties_without_an_identity_is_refused_with_advice(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "meta.properties"
    path.mkdir() if content is None else path.write_bytes(content)
    folder = DataDir(str(tmp_path))
    advice = (
        " is a folder" if content is None else ": .*; put back a copy of that file, or delete it for a new cluster id"
    )
    with pytest.raises(StorageError, match=path.as_posix() + advice):
        folder.properties()
    folder.close()


def test_a_middle_journal_line_that_is_not_json_is_refused_by_number(tmp_path: Path) -> None:
    (tmp_path / JOURNAL).write_bytes(b'{"a":1}\nrubbish\n{"b":1}\n')
    folder = DataDir(str(tmp_path))
    with pytest.raises(StorageError, match="line 2: not JSON"):
        list(folder.read_journal())
    folder.close()


@pytest.mark.parametrize("short", [0, 1, 9])
def test_a_change_that_the_disk_refuses_leaves_no_half_line(short: int) -> None:
    disk = MemoryDisk()
    folder = DataDir("/data", disk=disk)
    folder.journal({"a": 1})
    disk.capacity = disk.used + short
    with pytest.raises(StorageError, match="No space left"):
        folder.journal({"lost": "x" * 99})
    disk.capacity, disk.write_size_max = None, 3
    folder.journal({"b": 2})
    folder.abandon()

    folder = DataDir("/data", disk=disk)
    assert list(folder.read_journal()) == [{"a": 1}, {"b": 2}]
    folder.close()


def test_a_journal_much_longer_than_its_content_is_rewritten(tmp_path: Path) -> None:
    folder = DataDir(str(tmp_path))
    short = [{"create": "a"}, {"create": "b"}]
    for n in range(2 * len(short) + JOURNAL_SLACK):
        folder.journal({"n": n})
    folder.compact_journal(short)
    assert (tmp_path / JOURNAL).read_bytes().count(b"\n") == 2 * len(short) + JOURNAL_SLACK

    folder.journal({"one": "more"})
    folder.compact_journal(short)
    folder.journal({"after": 1})
    folder.abandon()

    folder = DataDir(str(tmp_path))
    assert list(folder.read_journal()) == [*short, {"after": 1}]
    folder.close()


# --- partitions


@pytest.mark.parametrize("clean", [False, True])
def test_partitions_survive_in_kafka_s_layout(tmp_path: Path, clean: bool) -> None:
    folder = DataDir(str(tmp_path))
    log = partition(folder, "my-topic", 3)
    put(log, batch(2, pid=1, seq=0, txn=True))
    before = view(log)
    (folder.close if clean else folder.abandon)()

    files = files_of(tmp_path / "my-topic-3")
    assert files[PARTITION_METADATA] == f"version: 0\ntopic_id: {uuid_text(TOPIC_ID)}\n".encode()
    assert files["leader-epoch-checkpoint"] == b"0\n1\n0 0\n"
    folder = DataDir(str(tmp_path))
    assert folder.was_clean is clean is (tmp_path / CLEAN_SHUTDOWN).exists()
    folder.mark_in_use()
    assert not (tmp_path / CLEAN_SHUTDOWN).exists()
    log, cut = folder.partition("my-topic", 3, TOPIC_ID, log_config())
    assert (view(log), cut) == (before, 0)
    folder.abandon()


def test_the_number_of_truncated_bytes_of_a_partition_is_reported(tmp_path: Path) -> None:
    folder = DataDir(str(tmp_path))
    put(partition(folder), batch(2))
    folder.abandon()
    with (tmp_path / "orders-0" / f"{0:020d}.log").open("ab") as file:
        file.write(b"torn")

    folder = DataDir(str(tmp_path))
    assert folder.partition("orders", 0, TOPIC_ID, log_config())[1] == 4
    folder.abandon()


def test_log_start_offsets_survive_kill_9_once_they_are_checkpointed(tmp_path: Path) -> None:
    folder = DataDir(str(tmp_path))
    logs = [partition(folder, "my-topic", index) for index in range(3)]
    for log in logs:
        put(log, batch(9))
    logs[0].delete_records(4)
    logs[2].delete_records(9)
    folder.write_start_offsets()
    folder.abandon()

    assert (tmp_path / START_OFFSETS).read_text() == "0\n2\nmy-topic 0 4\nmy-topic 2 9\n"
    folder = DataDir(str(tmp_path))
    logs = [partition(folder, "my-topic", index) for index in range(3)]
    assert [(log.log_start_offset, log.next_offset) for log in logs] == [(4, 9), (0, 9), (9, 9)]
    folder.abandon()


def test_a_deleted_partition_can_be_recreated_and_is_empty(tmp_path: Path) -> None:
    folder = DataDir(str(tmp_path))
    log = partition(folder)
    put(log, batch(9))
    log.delete_records(5)
    folder.write_start_offsets()

    folder.delete_partition(log)

    assert not (tmp_path / "orders-0").exists()
    restarted = partition(folder)
    assert (restarted.log_start_offset, restarted.next_offset) == (0, 0)
    assert put(restarted, batch(1)) == 0
    folder.delete_partition(partition(folder, "never-written"))
    folder.close()


@pytest.mark.parametrize("stray", [False, True])
def test_a_recreated_topic_does_not_inherit_the_log_start_offset_of_the_deleted_topic(
    tmp_path: Path, stray: bool
) -> None:
    """Also when the process is killed before log start offsets are checkpointed again."""
    folder = DataDir(str(tmp_path))
    log = partition(folder)
    put(log, batch(9))
    log.delete_records(5)
    folder.write_start_offsets()
    if stray:
        folder.abandon()
        folder = DataDir(str(tmp_path))
        folder.reconcile({}, {"orders": Deleted({TOPIC_ID}, 1)}, lambda: OTHER_ID)
    else:
        folder.delete_partition(log)
        folder.check_free("orders", range(1))
    put(partition(folder), batch(2))
    folder.abandon()

    folder = DataDir(str(tmp_path))
    restarted = partition(folder)
    assert (restarted.log_start_offset, restarted.next_offset) == (0, 2)
    folder.abandon()


@pytest.mark.parametrize("restarted", [{}, {"orders": (OTHER_ID, 1)}], ids=["gone", "made_anew"])
@pytest.mark.parametrize("step", range(18))
def test_a_deletion_that_was_cut_short_is_finished_at_the_next_start(
    step: int, restarted: dict[str, tuple[bytes, int]]
) -> None:
    """The metadata file is deleted last, so that the remaining folder is still recognised as a partition."""
    disk = MemoryDisk()
    folder = DataDir("/data", disk=disk)
    log = partition(folder, segment_bytes=100)
    for _ in range(3):
        put(log, batch(1))
    calls = 0

    def crash(call: str, path: str) -> None:
        nonlocal calls
        calls += call in ("remove", "remove_folder")
        if calls > step:
            raise KeyboardInterrupt

    disk.on_call = crash
    with pytest.raises(KeyboardInterrupt):
        folder.delete_partition(log)
    disk.on_call = None
    folder.abandon()

    folder = DataDir("/data", disk=disk)
    assert folder.reconcile(restarted, {"orders": Deleted({TOPIC_ID}, 1)}, lambda: OTHER_ID) == []
    left = {path: data for path, data in disk.files().items() if path.startswith("/data/orders-0/")}
    exists = disk.kind("/data/orders-0") is not None
    folder.close()

    # An empty folder counts as no folder. If the topic exists again, the folder gets the metadata of the new topic.
    assert not exists or (
        restarted and left == {f"/data/orders-0/{PARTITION_METADATA}": metadata_of(OTHER_ID).encode()}
    )


def test_an_append_fails_when_the_partition_folder_cannot_be_created(tmp_path: Path) -> None:
    folder = DataDir(str(tmp_path))
    log = partition(folder)
    (tmp_path / "orders-0").write_text("in the way")

    with pytest.raises(StorageError, match="cannot create"):
        put(log, batch(1))
    (tmp_path / "orders-0").unlink()
    assert put(log, batch(1)) == 0
    folder.close()


def test_no_journal_line_follows_a_partial_line_that_cannot_be_removed() -> None:
    disk = MemoryDisk()
    folder = DataDir("/data", disk=disk)
    folder.journal({"kind": "first"})
    disk.write_size_max = 5
    refused = {"write": 0, "truncate": 0}

    def refuse(call: str, path: str) -> int | None:
        if call not in refused or not path.endswith(JOURNAL):
            return None
        refused[call] += 1
        return errno.EIO if call == "truncate" or refused["write"] > 1 else None

    disk.on_call = refuse
    for said in ("Input/output error", "it ends in the middle of a line"):
        with pytest.raises(StorageError, match=said):
            folder.journal({"kind": "second"})
        disk.on_call = disk.write_size_max = None
    disk.release()

    assert list(DataDir("/data", disk=disk).read_journal()) == [{"kind": "first"}]
