"""List a data folder: partitions and their segments, in the layout of Kafka and Stuntbroker.

    <topic>-<partition>/<20-digit base offset>.log     record batches, which the audit reads
    log-start-offset-checkpoint                        "0", number of lines, then lines of `topic partition offset`
    .kafka_cleanshutdown                               exists after a clean shutdown

Folders that a broker has renamed (to delete them, to move them, or as stray) are no longer partitions; they are skipped with
a reason, like all leftovers of an unfinished compaction. There is one exception: once the segments that a compaction
replaces begin to be deleted, its `.swap` file is part of the log, and a starting broker uses it.

    <20-digit base offset>.log.swap                    Kafka
    <base offset>-<end>.swap                           Stuntbroker, for segments with base offsets from <base offset> to <end>
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
from dataclasses import dataclass
from typing import Final

from stuntbroker.protocol.batches.records import HEADER_SIZE, read_header
from stuntbroker.protocol.data_folder import (
    CLEAN_SHUTDOWN,
    JOURNAL,
    PARTITION_METADATA,
    START_OFFSETS,
    SWAP_FILE,
    UNFINISHED_SUFFIXES,
    log_base_offset,
)
from stuntbroker.protocol.primitives import INT32_MAX, INT64_MAX
from stuntbroker.protocol.topic_names import TXN_STATE as TXN_TOPIC

CONTROLLER_TOPIC: Final = "__cluster_metadata"
_PARTITION = re.compile(r"(.+)-(0|[1-9][0-9]*)", re.DOTALL)
_RENAMED = re.compile(r".+-\d+\.[\w-]+-(delete|future|stray)", re.DOTALL)
_KAFKA_SWAP = re.compile(r"([0-9]{20})\.log\.swap")
_START_OFFSET = re.compile(r"(\S+) ([0-9]{1,10}) ([0-9]{1,19})")
_NO_RECORDS = re.compile(r".*\.(index|timeindex|txnindex|snapshot)\.\w+", re.DOTALL)
UNFINISHED: Final = "left by an unfinished write, compaction or deletion"
_REASONS: Final = {
    "delete": "its topic was deleted",
    "future": "an unfinished copy from another log directory",
    "stray": "a stray partition, which belongs to no topic",
}


class FolderError(Exception):
    """The folder cannot be audited; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment file.

    The last segment of a partition is `active` unless the broker shut down cleanly; only an active segment may have a torn end.
    """

    topic: str
    partition: int
    base_offset: int
    path: str
    size: int
    active: bool


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition's folder."""

    topic: str
    partition: int
    log_start_offset: int
    """Records below this offset were deleted, although a segment may still hold them."""
    segments: tuple[Segment, ...]
    """Ordered by base offset."""
    created_ms: int = -1
    """Creation time of the partition in ms (of the copy, if copied without file times); -1 if unknown."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A folder or file that is not audited, and why."""

    name: str
    """Path relative to the data folder."""
    reason: str


@dataclass(frozen=True, slots=True)
class Folder:
    """A data folder as the audit reads it."""

    path: str
    partitions: tuple[Partition, ...]
    """Ordered by topic and partition."""
    skipped: tuple[Skipped, ...]
    in_use: bool
    """A broker holds the folder's lock; half-written data may then look like a fault."""
    is_partial: bool = False
    """Partitions of the transaction log are elsewhere: in another folder of `log.dirs`, or on another broker."""

    def segments(self, *topics: str) -> list[Segment]:
        """Return the segments of these topics, or of all, largest first, so that parallel tasks end at about the same time."""
        segments = [s for p in self.partitions for s in p.segments if not topics or p.topic in topics]
        return sorted(segments, key=lambda segment: -segment.size)


def read_folder(path: str) -> Folder:
    """List a data folder by file names and sizes, without reading records. Raises FolderError."""
    try:
        names = sorted(os.listdir(path))
    except OSError as fault:
        raise FolderError(f"cannot read the data folder {path}: {fault.strerror}") from fault
    if any(log_base_offset(name) is not None for name in names):
        raise FolderError(f"{path} is the folder of a partition: give the data folder that contains it")
    starts = _read_start_offsets(path)
    is_clean = CLEAN_SHUTDOWN in names
    partitions: list[Partition] = []
    skipped: list[Skipped] = []
    for name in names:
        match = _PARTITION.fullmatch(name)
        renamed = _RENAMED.fullmatch(name)
        if not (match or renamed) or not os.path.isdir(f"{path}/{name}"):
            continue
        if renamed:
            skipped.append(_skip(name, _REASONS[renamed[1]]))
        elif match and match[1] == CONTROLLER_TOPIC:
            skipped.append(_skip(name, "the metadata log of KRaft controllers, which has no transactions"))
        elif match and _is_text(name) and int(match[2]) <= INT32_MAX:
            partitions += _read_partition(path, match[1], int(match[2]), starts, is_clean, skipped)
        else:
            skipped.append(_skip(name, "not the name of a partition"))
    if not partitions:
        raise FolderError(f"no partition in {path}: give a broker's data folder (log.dirs in Kafka, --data-dir here)")
    partitions.sort(key=lambda entry: (entry.topic, entry.partition))
    return Folder(
        path, tuple(partitions), tuple(skipped), _in_use(path), JOURNAL not in names and _is_partial(partitions)
    )


def _read_partition(
    path: str, topic: str, number: int, starts: dict[tuple[str, int], int], is_clean: bool, skipped: list[Skipped]
) -> list[Partition]:
    """Read one partition folder; return an empty list if it never had a record or was deleted."""
    name = f"{topic}-{number}"
    files: dict[int, tuple[str, int]] = {}
    swaps: list[tuple[int, int | None, str]] = []
    try:
        for file in sorted(os.listdir(f"{path}/{name}")):
            if (base_offset := log_base_offset(file)) is not None and base_offset <= INT64_MAX:
                if (size := _size_of(f"{path}/{name}/{file}")) is not None:
                    files[base_offset] = file, size
            elif matched := _KAFKA_SWAP.fullmatch(file):
                swaps.append((int(matched[1]), None, file))
            elif matched := SWAP_FILE.fullmatch(file):
                swaps.append((int(matched[1]), int(matched[2]), file))
            elif _NO_RECORDS.fullmatch(file):
                continue
            elif file.endswith(UNFINISHED_SUFFIXES):
                skipped.append(_skip(f"{name}/{file}", UNFINISHED))
            elif file.endswith(".log"):
                skipped.append(_skip(f"{name}/{file}", "not the name of a segment"))
        for base, end, file in swaps:
            if not _take(files, f"{path}/{name}", base, end, file):
                skipped.append(_skip(f"{name}/{file}", UNFINISHED))
    except FileNotFoundError:  # A running broker has just deleted the topic.
        return []
    except OSError as fault:
        raise FolderError(f"cannot read {fault.filename}: {fault.strerror}") from fault
    if not files:
        return []
    last = max(files)
    segments = tuple(
        Segment(topic, number, base, f"{path}/{name}/{file}", size, base == last and not is_clean)
        for base, (file, size) in sorted(files.items())
    )
    start = max(starts.get((topic, number), 0), segments[0].base_offset)
    return [Partition(topic, number, start, segments, _created_ms(f"{path}/{name}/{PARTITION_METADATA}"))]


def _is_partial(partitions: list[Partition]) -> bool:
    """Whether partitions of the transaction log are elsewhere: Kafka creates all partitions of a topic at once."""
    numbers = [partition.partition for partition in partitions if partition.topic == TXN_TOPIC]
    return numbers != list(range(len(numbers)))


def _created_ms(path: str) -> int:
    """Return the modification time in ms of a file that is written once, with the partition; -1 if there is none."""
    try:
        return os.stat(path).st_mtime_ns // 1_000_000
    except OSError:
        return -1


def _size_of(path: str) -> int | None:
    """Return the size in bytes; None if the path is not a regular file or was deleted."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _take(files: dict[int, tuple[str, int]], folder: str, base: int, end: int | None, file: str) -> bool:
    """Replace segments by a compaction's `.swap` file if their deletion has begun; return whether it has.

    The segment at `base` is deleted first. If the file name has no end offset, all segments that begin before the end of the
    swap file are replaced.
    """
    if base in files or (size := _size_of(f"{folder}/{file}")) is None:
        return False
    end = _end_of(f"{folder}/{file}", base) if end is None else end
    for other in [other for other in files if base <= other < end]:
        del files[other]
    files[base] = file, size
    return True


def _end_of(path: str, base: int) -> int:
    """Return the offset after the last batch of a file, following batch lengths without checking CRCs."""
    end, at = base, 0
    with open(path, "rb") as file:
        while len(head := file.read(HEADER_SIZE)) == HEADER_SIZE:
            header = read_header(head)
            if header.size < HEADER_SIZE:
                break
            end, at = max(end, header.next_offset), at + header.size
            file.seek(at)
    return end


def _read_start_offsets(path: str) -> dict[tuple[str, int], int]:
    try:
        with open(f"{path}/{START_OFFSETS}", encoding="utf-8", errors="replace", opener=_without_waiting) as file:
            lines = file.read().splitlines()[2:]
    except FileNotFoundError:
        return {}
    except OSError as fault:
        raise FolderError(f"cannot read {path}/{START_OFFSETS}: {fault.strerror}") from fault
    offsets = {}
    for line in lines:
        matched = _START_OFFSET.fullmatch(line)
        if matched is None or int(matched[3]) > INT64_MAX:
            raise FolderError(f"{path}/{START_OFFSETS} has a line that is no `topic partition offset`: {line!r}")
        offsets[matched[1], int(matched[2])] = int(matched[3])
    return offsets


def _is_text(name: str) -> bool:
    """Whether a folder name, which may have any bytes, is valid text of a single line."""
    return "\n" not in name and not any(0xD800 <= ord(letter) < 0xE000 for letter in name)


def _skip(name: str, reason: str) -> Skipped:
    """Return a skipped entry; bytes of the name that are not UTF-8 are escaped."""
    return Skipped(os.fsencode(name).decode("utf-8", "backslashreplace"), reason)


def _without_waiting(path: str, flags: int) -> int:
    """Open a file without blocking, as a pipe in its place would wait for a writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def _in_use(path: str) -> bool:
    """Whether a broker holds the folder's lock: Stuntbroker locks with flock, the JVM with fcntl."""
    try:
        with open(f"{path}/.lock", "rb", opener=_without_waiting) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # The file does not exist or cannot be opened, so the lock cannot be checked.
        return False
    return False
