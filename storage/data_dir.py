"""A data folder: its lock, its cluster and node id, the journal of its topics, and its partitions.

    meta.properties                  cluster id and node id, as Kafka writes them
    .lock                            locked by the broker that uses the folder
    .kafka_cleanshutdown             exists after a clean shutdown, until the next start
    log-start-offset-checkpoint      "0", number of lines, then one line `topic partition offset` for each partition
    metadata.journal                 one JSON line per change of the metadata, such as a new topic (journal.py)
    <topic>-<partition>/             one folder per partition: segments (segment.py), partition.metadata,
                                     leader-epoch-checkpoint
    <topic>-<partition>.<uuid>-stray/  a partition that is not in the journal: renamed and kept, as Kafka does

ownership.py decides which folder may become a data folder, and what else it may contain.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from stuntbroker.protocol.data_folder import (
    CLEAN_SHUTDOWN,
    JOURNAL,
    LEADER_EPOCHS,
    LOCK,
    PARTITION_METADATA,
    PROPERTIES,
    START_OFFSETS,
)
from stuntbroker.protocol.primitives import INT32_MAX
from stuntbroker.storage.disk import CREATE, LOCAL_DISK, WRITE, Disk, Kind
from stuntbroker.storage.errors import DataDirLocked, StorageError, storage_error
from stuntbroker.storage.journal import change_of, is_whole, line_of
from stuntbroker.storage.leader_epochs import (
    FIRST_LEADER,
    LeaderEpochs,
    as_checkpoint,
    begin_epoch,
    from_offset,
    read_checkpoint,
)
from stuntbroker.storage.log_config import LogConfig
from stuntbroker.storage.ownership import Deleted, FolderAction, check_ownership, metadata_of, plan_actions, stray_name
from stuntbroker.storage.partition import PartitionLog
from stuntbroker.storage.points import Points
from stuntbroker.storage.recovery import recover
from stuntbroker.storage.turn import allow_writing

LISTED_FROM: Final = 64
"""Number of partitions above which their names are looked up in one listing of the folder."""
JOURNAL_SLACK: Final = 1_000
"""The journal is compacted when it has more lines than twice the number of its live changes, plus this."""
_PROPERTIES_ADVICE: Final = "put back a copy of that file, or delete it for a new cluster id"
_NO_FOLDER: Final[dict[type[OSError], str]] = {
    FileExistsError: "it is a file, not a folder",
    NotADirectoryError: "a part of its path is a file, not a folder",
}


class DataDir:
    """An open data folder, locked so that only one process uses it."""

    def __init__(
        self,
        path: str,
        truncate_damaged: bool = False,
        disk: Disk = LOCAL_DISK,
        points: Points | None = None,
        path_created: Callable[[str], None] | None = None,
        check_writable: Callable[[], None] = allow_writing,
    ) -> None:
        """Lock the folder, and create it if it does not exist. Raises StorageError.

        `truncate_damaged`: truncate a damaged log where the damage begins, instead of refusing to start.
        """
        self.path = path
        self.disk = disk
        self.points = points or Points()
        self.truncate_damaged = truncate_damaged
        try:
            check_ownership(disk, path)
            disk.make_folder(path)
            self._lock = disk.open_file(f"{path}/{LOCK}", CREATE)
        except OSError as fault:
            why = _NO_FOLDER.get(type(fault), fault.strerror)
            raise StorageError(f"cannot use the data folder {path}: {why}; give another --data-dir") from fault
        if not disk.lock(self._lock):
            disk.close(self._lock)
            raise DataDirLocked(
                f"the data folder {path} is in use by another process: stop it, or give another --data-dir"
            )
        try:
            self.was_clean = disk.kind(f"{path}/{CLEAN_SHUTDOWN}") is not None
            self.start_offsets = self._read_start_offsets()
            self._start_offsets_changed = False
        except OSError as fault:
            disk.close(self._lock)
            raise StorageError(f"cannot use the data folder {path}: {fault}") from fault
        except StorageError:
            disk.close(self._lock)
            raise
        self.logs: dict[tuple[str, int], PartitionLog] = {}
        self.path_created = path_created
        """Called with each new or changed path that must be synced; None unless acknowledged writes survive a power cut."""
        self.check_writable = check_writable
        """Raises StorageError after a write has failed, so that nothing more is written."""
        self._journal = -1
        self._journal_lines = 0
        self._journal_ends_torn = False
        """The journal ends in an incomplete line that could not be removed."""

    @property
    def log_dir(self) -> str:
        """The folder as Kafka's protocol names a log directory: an absolute path."""
        return self.disk.absolute(self.path)

    @property
    def parent(self) -> str:
        """Absolute path of the folder that contains this one."""
        return self.log_dir.rpartition("/")[0] or "/"

    # --- cluster id and node id

    def properties(self) -> dict[str, str]:
        """Return the properties in meta.properties; empty if there is no such file. Raises StorageError."""
        try:
            text = self.disk.read_file(f"{self.path}/{PROPERTIES}").decode()
            lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
        except FileNotFoundError:
            return {}
        except (OSError, UnicodeDecodeError) as fault:
            raise StorageError(f"cannot read {self.path}/{PROPERTIES}: {fault}; {_PROPERTIES_ADVICE}") from fault
        properties = dict(line.partition("=")[::2] for line in lines)
        node = properties.get("node.id", "")
        if not properties.get("cluster.id") or not re.fullmatch("[0-9]{1,10}", node) or int(node) > INT32_MAX:
            raise StorageError(
                f"{self.path}/{PROPERTIES}: it must have a line cluster.id=... and a line node.id=N; {_PROPERTIES_ADVICE}"
            )
        return properties

    def write_properties(self, properties: dict[str, str]) -> None:
        """Replace `meta.properties`. Raises StorageError."""
        text = "".join(f"{name}={value}\n" for name, value in properties.items())
        try:
            self._replace(PROPERTIES, text.encode())
        except OSError as fault:
            raise StorageError(f"cannot write {self.path}/{PROPERTIES}: {fault.strerror}") from fault

    # --- topics

    def read_journal(self) -> Iterator[dict[str, Any]]:
        """Yield every change in the journal, oldest first. Raises StorageError at a damaged line.

        An incomplete last line was never acknowledged, and is removed.
        """
        path = f"{self.path}/{JOURNAL}"
        try:
            *lines, torn = self.disk.read_file(path).split(b"\n")
        except FileNotFoundError:
            return
        except OSError as fault:
            raise StorageError(f"cannot read {path}: {fault.strerror}") from fault
        for number, line in enumerate(lines, 1):
            try:
                yield change_of(line)
            except ValueError as fault:
                raise self.damaged(number, str(fault)) from fault
            self._journal_lines += 1
        if is_whole(torn[:-1]):  # An unfinished write ends within the line: here only the line end is damaged.
            raise self.damaged(len(lines) + 1, "its last byte is not a line end")
        if torn:
            try:
                fd = self.disk.open_file(path, WRITE)
                self.disk.truncate(fd, self.disk.size(fd) - len(torn))
                self.disk.close(fd)
            except OSError as fault:
                raise StorageError(f"cannot write {path}: {fault.strerror}") from fault

    @property
    def journal_lines(self) -> int:
        """Number of changes in the journal."""
        return self._journal_lines

    def damaged(self, number: int, why: str) -> StorageError:
        """Return the error for a damaged line of the journal; lines are counted from 1."""
        return StorageError(
            f"{self.path}/{JOURNAL}, line {number}: {why}; nothing was changed: "
            "put back a copy of that file, or give another --data-dir"
        )

    def open_journal(self) -> None:
        """Open the journal for writing and create it if it is missing; then the folder is a data folder. Raises StorageError."""
        if self._journal >= 0:
            return
        is_new = self.disk.kind(f"{self.path}/{JOURNAL}") is None
        try:
            self._journal = self.disk.open_file(f"{self.path}/{JOURNAL}", CREATE)
        except OSError as fault:
            raise StorageError(f"cannot write {self.path}/{JOURNAL}: {fault.strerror}") from fault
        if is_new and self.path_created is not None:
            self.path_created(self.path)

    def mark_in_use(self) -> None:
        """Remove the clean-shutdown file, because the logs change from now on. Raises StorageError.

        Called after everything was read: a start that is refused must leave the folder as it was.
        """
        try:
            if self.was_clean:
                self.disk.remove(f"{self.path}/{CLEAN_SHUTDOWN}")
        except OSError as fault:
            raise StorageError(f"cannot remove {self.path}/{CLEAN_SHUTDOWN}: {fault.strerror}") from fault

    def journal(self, change: dict[str, Any]) -> None:
        """Append a change to the journal. Raises StorageError if it could not be written; then it is not in the journal."""
        self.check_writable()
        if self._journal_ends_torn:
            raise StorageError(f"cannot write {self.path}/{JOURNAL}: it ends in the middle of a line; start again")
        self.open_journal()
        line = line_of(change)
        end = self.disk.size(self._journal)
        self.points.pass_point("journal.write.before")
        try:
            self.disk.write_all(self._journal, line, end)
        except OSError as fault:
            self._cut_journal(end)
            raise StorageError(f"cannot write {self.path}/{JOURNAL}: {fault.strerror}") from fault
        self._journal_lines += 1
        self.points.pass_point("journal.write.after")

    def _cut_journal(self, end: int) -> None:
        """Remove an incomplete line from the end of the journal, so that the next line does not follow half a line."""
        try:
            self.disk.truncate(self._journal, end)
        except OSError:
            self._journal_ends_torn = True

    def compact_journal(self, changes: list[dict[str, Any]]) -> None:
        """Replace the journal with these changes if it has many more lines. Raises StorageError."""
        if self._journal_lines <= 2 * len(changes) + JOURNAL_SLACK:
            return
        if self._journal >= 0:
            self.disk.close(self._journal)
            self._journal = -1
        try:
            self._replace(JOURNAL, b"".join(map(line_of, changes)), sync=True)
        except OSError as fault:
            raise StorageError(f"cannot write {self.path}/{JOURNAL}: {fault.strerror}") from fault
        self._journal_lines = len(changes)

    def sync_journal(self) -> None:
        """Sync the journal. Raises StorageError."""
        if self._journal >= 0:
            try:
                self.disk.sync(self._journal)
            except OSError as fault:
                raise StorageError(f"cannot sync {self.path}/{JOURNAL}: {fault.strerror}") from fault

    # --- partitions

    def partition(
        self, topic: str, index: int, topic_id: bytes, config: LogConfig, is_new: bool = False, has_moved: bool = False
    ) -> tuple[PartitionLog, int]:
        """Return the log of a partition, recovered from disk if it exists, and the number of bytes cut from its end.

        `is_new`: the folder does not exist (`check_free` was called). `has_moved`: the partition may have had several leader
        epochs. Raises StorageError.
        """
        folder = f"{self.path}/{topic}-{index}"

        def create(log: PartitionLog) -> None:
            try:
                self.disk.make_folder(folder)
                epochs = as_checkpoint(from_offset(log.leader_epochs, log.log_start_offset)).encode()
                self.disk.replace_file(f"{folder}/{LEADER_EPOCHS}", epochs, sync=self.path_created is not None)
                self._write(f"{folder}/{PARTITION_METADATA}", metadata_of(topic_id))
            except OSError as fault:
                raise storage_error(f"cannot create {folder}", fault) from fault
            if self.path_created is not None:
                for path in (f"{folder}/{PARTITION_METADATA}", f"{folder}/{LEADER_EPOCHS}", folder, self.path):
                    self.path_created(path)

        log = PartitionLog(topic, index, folder, config, create, self.disk)
        cut = 0
        if not is_new and self.disk.kind(folder) is Kind.FOLDER:
            if has_moved:
                log.use_leader_epochs(self._read_leader_epochs(folder))
            try:
                cut = recover(log, self.start_offsets.get((topic, index), 0), self.was_clean, self.truncate_damaged)
            except OSError as fault:
                raise StorageError(f"cannot read {folder}: {fault.strerror}") from fault
        self.logs[topic, index] = log
        return log, cut

    def _read_leader_epochs(self, folder: str) -> LeaderEpochs:
        """Read the checkpoint of leader epochs. Raises StorageError.

        It may be missing only in a folder without segments: the broker may have been killed while it created the partition.
        """
        path = f"{folder}/{LEADER_EPOCHS}"
        try:
            if self.disk.kind(path) is None and not any(name.endswith(".log") for name in self.disk.names_in(folder)):
                return FIRST_LEADER
            return read_checkpoint(self.disk.read_file(path).decode())
        except OSError as fault:
            raise StorageError(f"cannot read {path}: {fault.strerror}; put back a copy of that file") from fault
        except ValueError as fault:
            raise StorageError(f"{path} is damaged: {fault}; put back a copy of that file") from fault

    def begin_leader_epoch(self, log: PartitionLog, epoch: int) -> None:
        """Start a new leader epoch in a partition. Raises StorageError, in which case nothing has changed."""
        log.create_first_segment()
        log.flush_buffered()
        # Recovery needs the epochs of all batches on disk.
        kept = from_offset(log.leader_epochs, log.segments[0].base_offset)
        epochs = begin_epoch(kept, epoch, log.next_offset)
        try:
            self._replace(f"{log.topic}-{log.index}/{LEADER_EPOCHS}", as_checkpoint(epochs).encode())
        except OSError as fault:
            raise storage_error(f"cannot write {log.folder}/{LEADER_EPOCHS}", fault) from fault
        log.use_leader_epochs(epochs)

    def check_free(self, topic: str, indexes: range) -> None:
        """Raise StorageError if something exists at the path of a new partition: it would be taken for the partition's data.

        Also removes deleted partitions from the start offset checkpoint: after a crash, a new partition of the same name would
        begin at the old offset.
        """
        self.forget_deleted_start_offsets()
        try:
            there = set(self.disk.names_in(self.path)) if len(indexes) > LISTED_FROM else None
        except OSError as fault:
            raise storage_error(f"cannot read {self.path}", fault) from fault
        for index in indexes:
            name = f"{topic}-{index}"
            if name in there if there is not None else self.disk.kind(f"{self.path}/{name}") is not None:
                raise StorageError(f"there is already something at {self.path}/{topic}-{index}: move it away")

    def delete_partition(self, log: PartitionLog) -> None:
        """Delete a partition's folder. After a crash, the next start removes what is left. Raises StorageError.

        The caller must call `forget_deleted_start_offsets` after the last partition of a request.
        """
        self.logs.pop((log.topic, log.index), None)
        self._start_offsets_changed |= (log.topic, log.index) in self.start_offsets
        try:
            log.delete()
            if self.disk.kind(log.folder) is Kind.FOLDER:
                self._remove_partition(log.folder)
        except OSError as fault:
            raise StorageError(f"cannot remove {log.folder}: {fault.strerror}") from fault

    def reconcile(
        self, topics: Mapping[str, tuple[bytes, int]], deleted: Mapping[str, Deleted], new_uuid: Callable[[], bytes]
    ) -> list[tuple[str, str]]:
        """Reconcile the partition folders with the journal before any is opened; return (folder, new name) of each stray.

        `topics`: name -> (topic id, number of partitions). `new_uuid`: returns a UUID for a stray's name. Raises StorageError.
        """
        strays = []
        planned = plan_actions(self.disk, self.path, topics, deleted, not self._journal_lines)
        known = self.start_offsets
        # After a crash, the checkpoint may still have partitions of a deleted topic.
        self.start_offsets = {(t, i): offset for (t, i), offset in known.items() if t in topics and i < topics[t][1]}
        try:
            for action, folder, topic, index in planned:
                match action:
                    case FolderAction.METADATA_REWRITTEN:
                        self._write(f"{folder}/{PARTITION_METADATA}", metadata_of(topics[topic][0]))
                    case FolderAction.REMOVED:
                        self.start_offsets.pop((topic, index), None)
                        self._remove_partition(folder)
                    case FolderAction.RENAMED_AS_STRAY:
                        self.start_offsets.pop((topic, index), None)
                        name = stray_name(topic, index, new_uuid())
                        self.disk.rename(folder, f"{self.path}/{name}")
                        strays.append((folder, name))
        except OSError as fault:
            raise StorageError(f"cannot reconcile the data folder with the journal: {fault}") from fault
        if self.start_offsets != known:
            self._write_start_offsets(self.start_offsets)
        for action, folder, _, _ in planned:
            if self.path_created is not None and action is not FolderAction.UNCHANGED:
                for path in (
                    (f"{folder}/{PARTITION_METADATA}", folder)
                    if action is FolderAction.METADATA_REWRITTEN
                    else (self.path,)
                ):
                    self.path_created(path)
        return strays

    # --- log start offsets

    def forget_deleted_start_offsets(self) -> None:
        """Write the start offset checkpoint if partitions in it were deleted. Raises StorageError.

        Called once per request, because the whole checkpoint is written.
        """
        if self._start_offsets_changed:
            self.write_start_offsets()

    def write_start_offsets(self) -> None:
        """Write the start offsets of all logs, so that deleted records stay deleted after a crash. Raises StorageError."""
        self._start_offsets_changed = True
        # Unlike Kafka: Kafka writes the checkpoint once a minute; if it is killed before, deleted records reappear.
        starts = {key: log.log_start_offset for key, log in self.logs.items() if log.log_start_offset}
        self._write_start_offsets(starts)
        self.start_offsets = starts
        self._start_offsets_changed = False

    def _write_start_offsets(self, starts: dict[tuple[str, int], int]) -> None:
        lines = [f"{topic} {index} {offset}\n" for (topic, index), offset in starts.items()]
        try:
            self._replace(START_OFFSETS, f"0\n{len(lines)}\n{''.join(lines)}".encode())
        except OSError as fault:
            raise StorageError(f"cannot write {self.path}/{START_OFFSETS}: {fault.strerror}") from fault

    def _read_start_offsets(self) -> dict[tuple[str, int], int]:
        path = f"{self.path}/{START_OFFSETS}"
        try:
            data = self.disk.read_file(path)
        except FileNotFoundError:
            return {}
        try:
            version, count, *lines, end = data.decode("ascii").split("\n")
            offsets = {}
            for line in lines:
                topic, index, offset = line.split(" ")
                offsets[topic, int(index)] = int(offset)
            if version != "0" or int(count) != len(lines) or end or any(offset < 0 for offset in offsets.values()):
                raise ValueError
        except ValueError:
            raise StorageError(
                f"{path}: it must have version 0, the number of lines, and as many lines `topic partition offset`; "
                "restore a copy of that file, or delete it, after which records that were deleted from the beginning "
                "of a log may come back"
            ) from None
        return offsets

    # --- closing

    def close(self) -> None:
        """Close every log and write the clean-shutdown file. Raises StorageError, OSError."""
        for log in self.logs.values():
            log.close()
        self.write_start_offsets()
        if self._journal >= 0:
            self.disk.close(self._journal)
        self._write(f"{self.path}/{CLEAN_SHUTDOWN}", '{"version":0}')
        self.disk.close(self._lock)

    def abandon(self) -> None:
        """Close all files without writing anything, as a crash would. Further calls have no effect."""
        if self._lock < 0:
            return
        for log in self.logs.values():
            for segment in log.segments:
                segment.close()
        if self._journal >= 0:
            self.disk.close(self._journal)
        self.disk.close(self._lock)
        self._lock = -1

    def remove(self) -> None:
        """Remove the whole folder, which must be closed."""
        self.disk.remove_tree(self.path)

    def _replace(self, name: str, data: bytes, sync: bool = False) -> None:
        self.disk.replace_file(f"{self.path}/{name}", data, sync=sync or self.path_created is not None)
        if self.path_created is not None:
            self.path_created(f"{self.path}/{name}".rpartition("/")[0])

    def _remove_partition(self, folder: str) -> None:
        for name in sorted(self.disk.names_in(folder), key=PARTITION_METADATA.__eq__):
            self.disk.remove(f"{folder}/{name}")
        self.disk.remove_folder(folder)

    def _write(self, path: str, text: str) -> None:
        self.disk.write_file(path, text.encode())
