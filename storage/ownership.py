"""Ownership checks: whether a broker may use a folder as its data folder, and which partitions the folders in it belong to.

This module only decides and changes nothing. Damage and the data of another program are refused with a StorageError.

A folder with a journal is a data folder. A folder without one is new: it must be empty, except for hidden files, lost+found and
the files of a broker that never had a topic. If its meta.properties is Apache Kafka's, the folder is Kafka's and is refused.

| folder in the data folder | action |
|---|---|
| of a topic that was deleted, by the journal | removed: a crash interrupted its deletion |
| of an existing partition | used; PARTITION_METADATA is written again if it cannot be read |
| of an existing partition, but PARTITION_METADATA has an unknown topic id | refused |
| with the files of a partition that is not in the journal | renamed and kept, as Kafka does: a stray |
| anything else | left alone |
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from stuntbroker.protocol.data_folder import JOURNAL, PARTITION_METADATA, PROPERTIES, START_OFFSETS, log_base_offset
from stuntbroker.storage.disk import Disk, Kind
from stuntbroker.storage.errors import StorageError

KRAFT: Final = "__cluster_metadata-0"
"""Folder of Apache Kafka's cluster metadata; this broker uses the journal instead."""
NEW_MAY_HOLD: Final = frozenset(
    {"lost+found", *(name + new for name in (PROPERTIES, START_OFFSETS, JOURNAL) for new in ("", ".new"))}
)
FILE_NAME_MAX: Final = 255
_INDEX: Final = re.compile("0|[1-9][0-9]{0,9}")
_KAFKA_PROPERTIES_PATTERN: Final = re.compile(rb"^(#|directory\.id=|broker\.id=)", re.MULTILINE)
"""Lines of PROPERTIES that Kafka writes and this broker does not: a comment with the time, and two properties."""
_TOPIC_ID: Final = re.compile(rb"version: 0\ntopic_id: ([A-Za-z0-9_-]{22})\n?")


class Deleted(NamedTuple):
    """The deleted topics of one name."""

    ids: set[bytes]
    partitions: int
    """Largest number of partitions that one of them had."""


class FolderAction(Enum):
    """Action on a partition folder before any partition is opened."""

    UNCHANGED = 0
    METADATA_REWRITTEN = 1
    """PARTITION_METADATA must be written again."""
    REMOVED = 2
    RENAMED_AS_STRAY = 3


class PlannedAction(NamedTuple):
    """A folder named like a partition, and the action on it."""

    action: FolderAction
    folder: str
    topic: str
    partition: int


def uuid_text(uuid: bytes) -> str:
    """Return a UUID as Kafka prints it: base64url without padding."""
    return base64.urlsafe_b64encode(uuid).decode().rstrip("=")


def check_ownership(disk: Disk, path: str) -> None:
    """Raise StorageError for a folder that is neither a data folder nor new; OSError if it cannot be read."""
    try:
        names = set(disk.names_in(path))
    except (FileNotFoundError, NotADirectoryError):  # It does not exist yet, or creating it will fail.
        return
    if JOURNAL in names:
        return
    if KRAFT in names:
        raise _kafka_folder_error(path, f"there is {KRAFT}")
    if PROPERTIES in names and _was_written_by_kafka(disk, f"{path}/{PROPERTIES}"):
        raise _kafka_folder_error(path, f"as its {PROPERTIES} says")
    others = sorted(name for name in names - NEW_MAY_HOLD if not name.startswith("."))
    for name in others:
        if disk.kind(f"{path}/{name}/{PARTITION_METADATA}") is not None:
            raise _without_journal(path, name)
    if others:
        raise StorageError(
            f"the data folder {path} has no {JOURNAL}, so it is not a broker's, and it is not empty: there is {others[0]!r}; "
            "give a --data-dir that is empty or new"
        )


def plan_actions(
    disk: Disk,
    path: str,
    topics: Mapping[str, tuple[bytes, int]],
    deleted: Mapping[str, Deleted],
    journal_is_empty: bool,
) -> list[PlannedAction]:
    """Return the action for each partition folder. `topics`: id and number of partitions, by name."""
    planned = []
    for name in sorted(disk.names_in(path)):
        topic, _, text = name.rpartition("-")
        if not topic or not _INDEX.fullmatch(text):
            continue
        index, folder = int(text), f"{path}/{name}"
        topic_id, count = topics.get(topic, (b"", 0))
        if name == KRAFT and not count:
            raise _kafka_folder_error(path, f"there is {KRAFT}")
        try:
            if index < count:
                action = _action_for_known_partition(disk, folder, topic, topic_id, deleted)
            else:
                action = _action_for_unknown_partition(disk, folder, index, deleted.get(topic))
        except OSError as fault:
            if index < count:
                raise StorageError(f"cannot read {folder}: {fault}") from fault
            continue  # Not a known partition: left alone.
        if action is FolderAction.RENAMED_AS_STRAY and journal_is_empty:
            raise _without_journal(path, name)
        planned.append(PlannedAction(action, folder, topic, index))
    return planned


def stray_name(topic: str, index: int, uuid: bytes) -> str:
    """Return Kafka's name for a stray partition's folder; a long topic name is cut to keep within FILE_NAME_MAX."""
    suffix = f"-{index}.{uuid.hex()}-stray"
    return topic[: FILE_NAME_MAX - len(suffix)] + suffix


def metadata_of(topic_id: bytes) -> str:
    """Return the text of a partition's `partition.metadata`."""
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}\n"


def _action_for_known_partition(
    disk: Disk, folder: str, topic: str, topic_id: bytes, deleted: Mapping[str, Deleted]
) -> FolderAction:
    if disk.kind(folder) is not Kind.FOLDER:
        raise StorageError(f"{folder} is not a folder, and that partition's data belong there: move it away")
    own_id = _topic_id(disk, folder)
    if own_id is None:
        return FolderAction.METADATA_REWRITTEN
    if own_id == topic_id:
        return FolderAction.UNCHANGED
    if topic in deleted and own_id in deleted[topic].ids:
        return FolderAction.REMOVED
    raise StorageError(
        f"{folder}/{PARTITION_METADATA} has topic id {uuid_text(own_id)}, but {topic} has {uuid_text(topic_id)}; "
        f"nothing was changed: delete that file if the data are this topic's, or else move the folder away"
    )


def _action_for_unknown_partition(disk: Disk, folder: str, index: int, deleted: Deleted | None) -> FolderAction:
    if disk.kind(folder) is not Kind.FOLDER:
        return FolderAction.UNCHANGED
    files, own_id = disk.names_in(folder), _topic_id(disk, folder)
    if deleted is not None and (own_id in deleted.ids or (not files and index < deleted.partitions)):
        return FolderAction.REMOVED
    return (
        FolderAction.RENAMED_AS_STRAY
        if any(file == PARTITION_METADATA or log_base_offset(file) is not None for file in files)
        else FolderAction.UNCHANGED
    )


def _topic_id(disk: Disk, folder: str) -> bytes | None:
    """Return the topic id in a partition's PARTITION_METADATA; None if the file is missing or malformed."""
    try:
        match = _TOPIC_ID.fullmatch(disk.read_file(f"{folder}/{PARTITION_METADATA}"))
    except FileNotFoundError:
        return None
    return base64.urlsafe_b64decode(match[1] + b"==") if match else None


def _was_written_by_kafka(disk: Disk, properties: str) -> bool:
    if disk.kind(properties) is not Kind.FILE:
        return False  # The code that reads the file reports the error.
    return _KAFKA_PROPERTIES_PATTERN.search(disk.read_file(properties)) is not None


def _kafka_folder_error(path: str, evidence: str) -> StorageError:
    return StorageError(
        f"the data folder {path} is Apache Kafka's: {evidence}; nothing was changed: give another --data-dir"
    )


def _without_journal(path: str, name: str) -> StorageError:
    return StorageError(
        f"the data folder {path} has partitions, as {name}, but its {JOURNAL} is missing or empty; nothing was changed: "
        "restore a copy of that file, or give another --data-dir"
    )
