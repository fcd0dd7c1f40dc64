"""Ownership of a data folder: the broker changes no foreign folder, and deletes only partitions of deleted topics."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stuntbroker.protocol.data_folder import JOURNAL, PARTITION_METADATA, PROPERTIES, START_OFFSETS
from stuntbroker.storage.data_dir import DataDir
from stuntbroker.storage.disk import LOCAL_DISK
from stuntbroker.storage.errors import StorageError
from stuntbroker.storage.ownership import FILE_NAME_MAX, Deleted, FolderAction, metadata_of, plan_actions, stray_name

ORDERS, BEFORE, UNKNOWN = bytes(range(16)), bytes(range(1, 17)), bytes(range(2, 18))
LOG = f"{0:020d}.log"
KAFKA = "__cluster_metadata-0"


def uuid() -> bytes:
    return UNKNOWN


def files_in(folder: Path) -> dict[str, bytes | None]:
    """Path -> content for all files below a folder; None for folders."""
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in sorted(folder.rglob("*"))}


def put(folder: Path, *names: str) -> None:
    """Create files, or a folder if the name ends with a slash."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            (folder / name).mkdir(exist_ok=True)
        else:
            (folder / name).write_bytes(b"precious")


NOT_OURS = {
    "kafka": (
        [f"{KAFKA}/{LOG}", "orders-0/" + PARTITION_METADATA, PROPERTIES, ".lock"],
        "Apache Kafka's: there is __cluster_metadata-0",
    ),
    "kafka, just formatted": (
        ["bootstrap.checkpoint", PROPERTIES],
        "not a broker's, and it is not empty: there is 'bootstrap",
    ),
    "kafka with ZooKeeper": (
        ["orders-0/" + PARTITION_METADATA, PROPERTIES, START_OFFSETS],
        "has partitions, as orders-0, but its",
    ),
    "ours without its journal": (
        ["orders-0/" + PARTITION_METADATA, PROPERTIES, START_OFFSETS, ".lock"],
        f"but its {JOURNAL} is missing",
    ),
    "a home": ([".bashrc", ".ssh/id", "Documents/x", "backup-2024/"], "it is not empty: there is 'Documents'"),
    "a file": (["holiday.jpg"], "it is not empty: there is 'holiday.jpg'"),
    "an empty folder": (["backup-2024/"], "it is not empty: there is 'backup-2024'"),
}


@pytest.mark.parametrize(
    "properties",
    [
        "#\n#Sun Nov 22 17:43:25 UTC 2026\nnode.id=1\ndirectory.id=NFvEL77wX5b1bx1phQzZ2A\nversion=1\ncluster.id=abc\n",
        "#\n#Sun Nov 22 17:43:25 UTC 2026\nbroker.id=1\nversion=0\ncluster.id=abc\n",
    ],
    ids=["KRaft", "ZooKeeper"],
)
def test_a_folder_with_nothing_but_kafka_s_properties_is_refused(properties: str, tmp_path: Path) -> None:
    (tmp_path / PROPERTIES).write_text(properties)

    with pytest.raises(StorageError, match=f"is Apache Kafka's: as its {PROPERTIES} says; nothing was changed"):
        DataDir(str(tmp_path))

    assert files_in(tmp_path) == {PROPERTIES: properties.encode()}


def test_a_folder_with_nothing_but_our_properties_is_taken(tmp_path: Path) -> None:
    folder = DataDir(str(tmp_path))
    folder.write_properties({"version": "1", "cluster.id": "abc", "node.id": "1"})
    folder.abandon()

    DataDir(str(tmp_path)).close()


@pytest.mark.parametrize("content", NOT_OURS)
def test_a_foreign_folder_is_refused_and_not_changed(content: str, tmp_path: Path) -> None:
    names, reason = NOT_OURS[content]
    put(tmp_path, *names)
    before = files_in(tmp_path)

    with pytest.raises(StorageError, match=reason) as refused:
        DataDir(str(tmp_path))

    assert files_in(tmp_path) == before
    assert "--data-dir" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_new_folder_may_hold_files_of_a_file_system_or_of_a_broker_without_topics(tmp_path: Path) -> None:
    put(tmp_path, "lost+found/", ".DS_Store", ".git/HEAD")
    DataDir(str(tmp_path)).close()
    (tmp_path / PROPERTIES).write_text("cluster.id=x\nnode.id=1\n")
    put(tmp_path, PROPERTIES + ".new")
    DataDir(str(tmp_path)).close()
    shutil.rmtree(tmp_path)
    DataDir(str(tmp_path)).close()


def test_a_folder_with_a_journal_is_accepted_with_any_other_content(tmp_path: Path) -> None:
    put(tmp_path, "notes.txt", "backup-2024/")
    (tmp_path / JOURNAL).touch()
    folder = DataDir(str(tmp_path))
    assert list(folder.read_journal()) == []
    assert folder.reconcile({}, {}, uuid) == []
    folder.close()
    assert {"notes.txt", "backup-2024"} <= files_in(tmp_path).keys()


def test_partitions_beside_an_empty_journal_refuse_the_start_and_are_kept(tmp_path: Path) -> None:
    put(tmp_path, f"orders-0/{LOG}")
    (tmp_path / JOURNAL).write_bytes(b'{"create":"ord')
    folder = DataDir(str(tmp_path))
    assert list(folder.read_journal()) == []
    with pytest.raises(StorageError, match=f"has partitions, as orders-0, but its {JOURNAL} is missing or empty"):
        folder.reconcile({}, {}, uuid)
    folder.close()
    assert f"orders-0/{LOG}" in files_in(tmp_path)


# --- actions for the folders in a data folder

TOPICS = {"orders": (ORDERS, 2)}
DELETED = {"orders": Deleted({BEFORE}, 5), "gone": Deleted({BEFORE, UNKNOWN}, 2)}


@pytest.mark.parametrize(
    "name, topic_id, others, outcome",
    [
        ("orders-0", ORDERS, [LOG], FolderAction.UNCHANGED),
        ("orders-1", None, [LOG], FolderAction.METADATA_REWRITTEN),
        ("orders-1", b"rubbish", [LOG], FolderAction.METADATA_REWRITTEN),
        ("orders-1", b"", [], FolderAction.METADATA_REWRITTEN),
        ("orders-1", None, [], FolderAction.METADATA_REWRITTEN),
        ("orders-1", BEFORE, [LOG], FolderAction.REMOVED),
        ("orders-2", BEFORE, [LOG], FolderAction.REMOVED),
        ("orders-2", None, [], FolderAction.REMOVED),
        ("orders-2", ORDERS, [LOG], FolderAction.RENAMED_AS_STRAY),
        ("orders-2", UNKNOWN, [LOG], FolderAction.RENAMED_AS_STRAY),
        ("orders-2", None, [LOG], FolderAction.RENAMED_AS_STRAY),
        ("orders-2", b"rubbish", [], FolderAction.RENAMED_AS_STRAY),
        ("orders-2024", None, [], FolderAction.UNCHANGED),
        ("gone-1", UNKNOWN, [LOG], FolderAction.REMOVED),
        ("gone-1", ORDERS, [LOG], FolderAction.RENAMED_AS_STRAY),
        ("gone-2", None, [], FolderAction.UNCHANGED),
        ("never-0", UNKNOWN, [], FolderAction.RENAMED_AS_STRAY),
        ("backup-2024", None, [], FolderAction.UNCHANGED),
        ("backup-2024", None, ["notes.log", "0.log"], FolderAction.UNCHANGED),
    ],
)
def test_the_action_for_a_folder_depends_on_its_name_topic_id_and_content(
    name: str, topic_id: bytes | None, others: list[str], outcome: FolderAction, tmp_path: Path
) -> None:
    put(tmp_path, name + "/", *(f"{name}/{other}" for other in others))
    if topic_id is not None:
        (tmp_path / name / PARTITION_METADATA).write_bytes(
            metadata_of(topic_id).encode() if len(topic_id) == 16 else topic_id
        )

    topic, _, index = name.rpartition("-")
    assert plan_actions(LOCAL_DISK, str(tmp_path), TOPICS, DELETED, False) == [
        (outcome, str(tmp_path / name), topic, int(index))
    ]


@pytest.mark.parametrize(
    "name", ["orders-", "-0", "orders-00", "orders-x", "orders-²", "orders-0.5e-stray", "orders", "orders-99999999999"]
)
def test_folders_without_the_name_of_a_partition_are_ignored(name: str, tmp_path: Path) -> None:
    put(tmp_path, f"{name}/{PARTITION_METADATA}")
    assert plan_actions(LOCAL_DISK, str(tmp_path), TOPICS, DELETED, False) == []


def test_a_partition_with_an_unknown_topic_id_or_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    put(tmp_path, "orders-0/")
    (tmp_path / "orders-0" / PARTITION_METADATA).write_text(metadata_of(UNKNOWN))
    with pytest.raises(
        StorageError, match=f"{tmp_path}/orders-0/{PARTITION_METADATA} has topic id AgME.*, but orders has AAEC"
    ):
        plan_actions(LOCAL_DISK, str(tmp_path), TOPICS, DELETED, False)
    shutil.rmtree(tmp_path / "orders-0")
    put(tmp_path, "orders-0")
    with pytest.raises(StorageError, match=f"{tmp_path}/orders-0 is not a folder"):
        plan_actions(LOCAL_DISK, str(tmp_path), TOPICS, DELETED, False)


def test_a_cluster_metadata_log_is_refused_unless_a_topic_has_its_name(tmp_path: Path) -> None:
    put(tmp_path, f"{KAFKA}/{LOG}", f"{KAFKA}/{PARTITION_METADATA}")
    with pytest.raises(StorageError, match="is Apache Kafka's"):
        plan_actions(LOCAL_DISK, str(tmp_path), {}, {}, False)
    assert (
        plan_actions(LOCAL_DISK, str(tmp_path), {"__cluster_metadata": (ORDERS, 1)}, {}, False)[0].action
        is FolderAction.METADATA_REWRITTEN
    )


def test_a_stray_partition_is_renamed_as_in_kafka_and_keeps_its_files(tmp_path: Path) -> None:
    folder = DataDir(str(tmp_path))
    folder.journal({"some": "change"})
    put(tmp_path, f"orders-7/{LOG}", f"orders-7/{PARTITION_METADATA}")
    folder.start_offsets = {("orders", 7): 5}

    [(was, name)] = folder.reconcile({}, {}, uuid)
    assert (was, folder.start_offsets) == (str(tmp_path / "orders-7"), {})
    assert name == stray_name("orders", 7, UNKNOWN)
    assert sorted(path.name for path in (tmp_path / name).iterdir()) == [LOG, PARTITION_METADATA]
    assert folder.reconcile({}, {}, uuid) == []
    folder.close()


def test_the_name_of_a_stray_partition_is_a_valid_file_name() -> None:
    assert len(stray_name("x" * 249, 2_147_483_647, uuid())) == FILE_NAME_MAX
    assert stray_name("orders", 0, UNKNOWN) == "orders-0.02030405060708090a0b0c0d0e0f1011-stray"


def test_nothing_is_done_when_one_folder_is_refused(tmp_path: Path) -> None:
    folder = DataDir(str(tmp_path))
    folder.journal({"some": "change"})
    put(tmp_path, f"aaa-0/{PARTITION_METADATA}", "gone-0/", "orders-1/")
    (tmp_path / "gone-0" / PARTITION_METADATA).write_text(metadata_of(BEFORE))
    (tmp_path / "orders-1" / PARTITION_METADATA).write_text(metadata_of(UNKNOWN))
    before = files_in(tmp_path)
    with pytest.raises(StorageError, match="orders-1"):
        folder.reconcile(TOPICS, DELETED, uuid)
    assert files_in(tmp_path) == before
    folder.close()


def test_a_new_partition_is_refused_when_its_path_already_exists(tmp_path: Path) -> None:
    folder = DataDir(str(tmp_path))
    put(tmp_path, "orders-2/notes")
    folder.check_free("orders", range(2))
    with pytest.raises(StorageError, match=f"there is already something at {tmp_path}/orders-2: move it away"):
        folder.check_free("orders", range(3))
    folder.close()
