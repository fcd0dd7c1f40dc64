"""What is in a data folder: partitions and their segments, as Kafka and we lay them out.

    <topic>-<partition>/<20-digit base offset>.log     record batches, what the audit reads
    log-start-offset-checkpoint                        "0", number of lines, then `topic partition offset` a line

Folders that a broker has renamed, to delete, to move or because nobody claims them, are no partitions any more; they
are skipped with a reason, as is everything that an unfinished compaction left.
"""

from __future__ import annotations

import fcntl
import os
import re
from dataclasses import dataclass
from typing import Final

START_OFFSETS: Final = "log-start-offset-checkpoint"
CONTROLLER_TOPIC: Final = "__cluster_metadata"
_PARTITION = re.compile(r"(.+)-(\d+)")
_RENAMED = re.compile(r".+-\d+\.[\w-]+-(delete|future|stray)")
_SEGMENT = re.compile(r"(\d{20})\.log")
_UNFINISHED = (".cleaned", ".swap", ".deleted", ".new")
_REASONS: Final = {
    "delete": "its topic was deleted",
    "future": "a copy on its way from another folder",
    "stray": "no topic claimed it",
}


class FolderError(Exception):
    """The folder cannot be audited; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One file of batches. The last one of its partition is `active`: only there a broken end is no fault."""

    topic: str
    partition: int
    base_offset: int
    path: str
    size: int
    active: bool


@dataclass(frozen=True, slots=True)
class Partition:
    topic: str
    partition: int
    log_start_offset: int
    """Records below it were deleted, although a segment may still hold them."""
    segments: tuple[Segment, ...]
    """By base offset."""


@dataclass(frozen=True, slots=True)
class Skipped:
    name: str
    """As a path from the data folder."""
    reason: str


@dataclass(frozen=True, slots=True)
class Folder:
    path: str
    partitions: tuple[Partition, ...]
    """By topic and number."""
    skipped: tuple[Skipped, ...]
    in_use: bool
    """A process works in it: what that writes meanwhile may be seen half, and look like a fault."""

    def segments(self, *topics: str) -> list[Segment]:
        """Of these topics or of all, largest first: so that work that is handed out ends at about the same time."""
        found = [s for p in self.partitions for s in p.segments if not topics or p.topic in topics]
        return sorted(found, key=lambda segment: -segment.size)


def read_folder(path: str) -> Folder:
    """Looks at names and sizes only. Raises FolderError."""
    try:
        names = sorted(os.listdir(path))
    except OSError as fault:
        raise FolderError(f"cannot read the data folder {path}: {fault.strerror}") from fault
    if any(_SEGMENT.fullmatch(name) for name in names):
        raise FolderError(f"{path} is the folder of one partition: give the data folder that it is in")
    starts = _read_start_offsets(path)
    partitions, skipped = [], []
    for name in names:
        if not os.path.isdir(f"{path}/{name}"):
            continue
        if renamed := _RENAMED.fullmatch(name):
            skipped.append(Skipped(name, _REASONS[renamed[1]]))
        elif found := _PARTITION.fullmatch(name):
            if found[1] == CONTROLLER_TOPIC:
                skipped.append(Skipped(name, "the controllers' own log, which is no topic"))
                continue
            made = _read_partition(path, name, found[1], int(found[2]), starts, skipped)
            if made is not None:
                partitions.append(made)
    if not partitions:
        raise FolderError(f"no partition in {path}: give a broker's data folder (log.dirs in Kafka, --data-dir here)")
    partitions.sort(key=lambda one: (one.topic, one.partition))
    return Folder(path, tuple(partitions), tuple(skipped), _in_use(path))


def _read_partition(
    path: str, name: str, topic: str, number: int, starts: dict[tuple[str, int], int], skipped: list[Skipped]
) -> Partition | None:
    """None when it never had a record."""
    found = []
    try:
        for file in sorted(os.listdir(f"{path}/{name}")):
            if matched := _SEGMENT.fullmatch(file):
                full = f"{path}/{name}/{file}"
                found.append((int(matched[1]), full, os.stat(full).st_size))
            elif file.endswith(_UNFINISHED):
                skipped.append(Skipped(f"{name}/{file}", "left by a compaction or deletion that was not finished"))
            elif file.endswith(".log"):
                skipped.append(Skipped(f"{name}/{file}", "not the name of a segment"))
    except OSError as fault:
        raise FolderError(f"cannot read {fault.filename}: {fault.strerror}") from fault
    if not found:
        return None
    last = found[-1][0]
    segments = tuple(Segment(topic, number, base, full, size, base == last) for base, full, size in found)
    return Partition(topic, number, max(starts.get((topic, number), 0), segments[0].base_offset), segments)


def _read_start_offsets(path: str) -> dict[tuple[str, int], int]:
    try:
        with open(f"{path}/{START_OFFSETS}", encoding="utf-8") as file:
            lines = file.read().splitlines()[2:]
    except FileNotFoundError:
        return {}
    except OSError as fault:
        raise FolderError(f"cannot read {path}/{START_OFFSETS}: {fault.strerror}") from fault
    found = {}
    for line in lines:
        topic, _, rest = line.partition(" ")
        number, _, offset = rest.partition(" ")
        if not (number.isdigit() and offset.isdigit()):
            raise FolderError(f"{path}/{START_OFFSETS} has a line that is no `topic partition offset`: {line!r}")
        found[topic, int(number)] = int(offset)
    return found


def _in_use(path: str) -> bool:
    """Whether a broker holds the folder's lock: ours takes it with flock, the JVM with fcntl."""
    try:
        with open(f"{path}/.lock", "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # No such file, or not ours to open: nobody's lock can be asked for.
        return False
    return False
