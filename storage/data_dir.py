"""A data folder: who may work on it, which partitions are in it, and what was noted when it was closed.

    meta.properties                  cluster id and node id, as Kafka writes them
    .lock                            held by the process that works here
    .kafka_cleanshutdown             there only while nobody does, and the last one left in order
    log-start-offset-checkpoint      "0", number of lines, then `topic partition offset` a line
    metadata.journal                 one JSON line a change: topics, their configuration, producer id blocks
    <topic>-<partition>/             one folder a partition: segments (segment.py), partition.metadata,
                                     leader-epoch-checkpoint
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
from collections.abc import Callable, Iterator
from typing import Any, Final

from stuntbroker.storage.errors import DataDirLocked, StorageError
from stuntbroker.storage.log_config import LogConfig
from stuntbroker.storage.partition import PartitionLog
from stuntbroker.storage.recovery import recover

CLEAN: Final = ".kafka_cleanshutdown"
START_OFFSETS: Final = "log-start-offset-checkpoint"
JOURNAL: Final = "metadata.journal"
METADATA: Final = "partition.metadata"
"""The first file in a partition's folder, and the last to go."""
JOURNAL_SLACK: Final = 1_000
"""Lines above twice the number of topics at which the journal is written anew."""


_NO_FOLDER: Final[dict[type[OSError], str]] = {
    FileExistsError: "it is a file, not a folder",
    NotADirectoryError: "on the way to it there is a file, not a folder",
}


def uuid_text(uuid: bytes) -> str:
    """A UUID as Kafka prints it: base64url without padding."""
    return base64.urlsafe_b64encode(uuid).decode().rstrip("=")


class DataDir:
    """An open data folder. One process at a time."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            os.makedirs(path, exist_ok=True)
            self._lock = os.open(f"{path}/.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as fault:
            why = _NO_FOLDER.get(type(fault), fault.strerror)
            raise StorageError(f"cannot use the data folder {path}: {why}; give another --data-dir") from fault
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as fault:
            os.close(self._lock)
            raise DataDirLocked(
                f"the data folder {path} is in use by another process: stop it, or give another --data-dir"
            ) from fault
        try:
            self.was_clean = os.path.exists(f"{path}/{CLEAN}")
            if self.was_clean:
                os.unlink(f"{path}/{CLEAN}")
            self.start_offsets = self._read_start_offsets()
        except (OSError, StorageError) as fault:
            os.close(self._lock)
            raise StorageError(str(fault)) from fault
        self.logs: dict[tuple[str, int], PartitionLog] = {}
        self.made: Callable[[str], None] | None = None
        """Told of new files and of folders with changed entries, where what is acknowledged survives a power cut."""
        self._journal = -1
        self._journal_lines = 0

    # --- who we are

    def properties(self) -> dict[str, str]:
        """meta.properties; empty when the folder is new."""
        try:
            with open(f"{self.path}/meta.properties", encoding="utf-8") as file:
                lines = [line.strip() for line in file if line.strip() and not line.startswith("#")]
        except FileNotFoundError:
            return {}
        return dict(line.partition("=")[::2] for line in lines)

    def write_properties(self, properties: dict[str, str]) -> None:
        text = "".join(f"{name}={value}\n" for name, value in properties.items())
        self._replace("meta.properties", text.encode())

    # --- topics

    def read_journal(self) -> Iterator[dict[str, Any]]:
        """Every change to topics, oldest first. A last line that is not whole was never acknowledged."""
        try:
            with open(f"{self.path}/{JOURNAL}", "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            os.truncate(f"{self.path}/{JOURNAL}", whole)
        for number, line in enumerate(data[:whole].split(b"\n")[:-1], 1):
            try:
                yield json.loads(line)
            except ValueError as fault:
                raise StorageError(f"{self.path}/{JOURNAL}, line {number}: not JSON ({fault})") from fault
            self._journal_lines += 1

    def journal(self, change: dict[str, Any]) -> None:
        if self._journal < 0:
            self._journal = os.open(
                f"{self.path}/{JOURNAL}", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644
            )
            if self.made is not None:
                self.made(self.path)
        line = json.dumps(change, separators=(",", ":")).encode() + b"\n"
        end = os.fstat(self._journal).st_size
        try:
            written = 0
            while written < len(line):
                written += os.write(self._journal, line[written:])
        except OSError as fault:
            os.ftruncate(self._journal, end)  # Else the next line would follow half a line.
            raise StorageError(f"cannot write {self.path}/{JOURNAL}: {fault.strerror}") from fault
        self._journal_lines += 1

    def compact_journal(self, changes: list[dict[str, Any]]) -> None:
        """Replaces the journal by these changes when it has grown far beyond them."""
        if self._journal_lines <= 2 * len(changes) + JOURNAL_SLACK:
            return
        if self._journal >= 0:
            os.close(self._journal)
            self._journal = -1
        lines = (json.dumps(change, separators=(",", ":")).encode() + b"\n" for change in changes)
        self._replace(JOURNAL, b"".join(lines), sync=True)
        self._journal_lines = len(changes)

    def sync_journal(self) -> None:
        if self._journal >= 0:
            try:
                os.fdatasync(self._journal)
            except OSError as fault:
                raise StorageError(f"cannot sync {self.path}/{JOURNAL}: {fault.strerror}") from fault

    # --- partitions

    def partition(self, topic: str, index: int, topic_id: bytes, config: LogConfig) -> tuple[PartitionLog, int]:
        """The log of a partition, read from disk if it is there, and the bytes that were cut from its end."""
        folder = f"{self.path}/{topic}-{index}"

        def create(log: PartitionLog) -> None:
            try:
                os.makedirs(folder, exist_ok=True)
                _write(f"{folder}/{METADATA}", f"version: 0\ntopic_id: {uuid_text(topic_id)}\n")
                _write(f"{folder}/leader-epoch-checkpoint", f"0\n1\n0 {log.log_start_offset}\n")
            except OSError as fault:
                raise StorageError(f"cannot create {folder}: {fault.strerror}") from fault
            if self.made is not None:
                for path in (f"{folder}/{METADATA}", f"{folder}/leader-epoch-checkpoint", folder, self.path):
                    self.made(path)

        log = PartitionLog(topic, index, folder, config, create)
        cut = 0
        if os.path.isdir(folder):
            try:
                cut = recover(log, self.start_offsets.get((topic, index), 0), self.was_clean)
            except OSError as fault:
                raise StorageError(f"cannot read {folder}: {fault.strerror}") from fault
        self.logs[topic, index] = log
        return log, cut

    def delete_partition(self, log: PartitionLog) -> None:
        """Removes a partition's folder. A crash on the way leaves a stray one."""
        self.logs.pop((log.topic, log.index), None)
        self._forget_start(log.topic, log.index)
        log.delete()
        if os.path.isdir(log.folder):
            _remove_partition(log.folder)

    def strays(self, known: set[tuple[str, int]]) -> list[str]:
        """Partition folders that no topic claims: what is left of a deletion that a crash cut short.

        A folder is a partition's if and only if it holds METADATA, or nothing: somebody else's is left alone.
        """
        found = []
        for name in os.listdir(self.path):
            topic, dash, index = name.rpartition("-")
            if dash and index.isdigit() and (topic, int(index)) not in known and os.path.isdir(f"{self.path}/{name}"):
                files = os.listdir(f"{self.path}/{name}")
                if not files or METADATA in files:
                    found.append(name)
        return found

    def remove_stray(self, name: str) -> None:
        topic, _, index = name.rpartition("-")
        self._forget_start(topic, int(index))
        _remove_partition(f"{self.path}/{name}")

    # --- log start offsets

    def write_start_offsets(self) -> None:
        """Notes where logs begin after records were deleted; survives a crash, as the answer to the deletion says."""
        # Unlike Kafka: it does so once a minute, and deleted records are back when it is killed before.
        starts = {key: log.log_start_offset for key, log in self.logs.items() if log.log_start_offset}
        self._write_start_offsets(starts)
        self.start_offsets = starts

    def _forget_start(self, topic: str, index: int) -> None:
        """Else the next topic of that name would begin there after a crash."""
        if self.start_offsets.pop((topic, index), None) is not None:
            self._write_start_offsets(self.start_offsets)

    def _write_start_offsets(self, starts: dict[tuple[str, int], int]) -> None:
        lines = [f"{topic} {index} {offset}\n" for (topic, index), offset in starts.items()]
        self._replace(START_OFFSETS, f"0\n{len(lines)}\n{''.join(lines)}".encode())

    def _read_start_offsets(self) -> dict[tuple[str, int], int]:
        try:
            with open(f"{self.path}/{START_OFFSETS}", encoding="utf-8") as file:
                lines = file.read().split("\n")[2:]
        except FileNotFoundError:
            return {}
        found = {}
        for line in lines:
            if line:
                try:
                    topic, index, offset = line.split(" ")
                    found[topic, int(index)] = int(offset)
                except ValueError:
                    raise StorageError(f"{self.path}/{START_OFFSETS}: no `topic partition offset`: {line!r}") from None
        return found

    # --- the end

    def close(self) -> None:
        """Closes every log in order, and says so."""
        for log in self.logs.values():
            log.close()
        self.write_start_offsets()
        if self._journal >= 0:
            os.close(self._journal)
        _write(f"{self.path}/{CLEAN}", '{"version":0}')
        os.close(self._lock)

    def abandon(self) -> None:
        """Lets go of everything as it is, as a crash would."""
        for log in self.logs.values():
            for segment in log.segments:
                segment.close()
        if self._journal >= 0:
            os.close(self._journal)
        os.close(self._lock)

    def _replace(self, name: str, data: bytes, sync: bool = False) -> None:
        with open(f"{self.path}/{name}.new", "wb") as file:
            file.write(data)
            if sync or self.made is not None:  # Before it takes the place of what was there.
                file.flush()
                os.fdatasync(file.fileno())
        os.replace(f"{self.path}/{name}.new", f"{self.path}/{name}")
        if self.made is not None:
            self.made(self.path)


def _remove_partition(folder: str) -> None:
    for name in sorted(os.listdir(folder), key=METADATA.__eq__):
        os.unlink(f"{folder}/{name}")
    os.rmdir(folder)


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
