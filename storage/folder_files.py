"""The files of a data folder that is in use: which of them are the broker's own, for copies of a broker."""

from __future__ import annotations

from stuntbroker.protocol.data_folder import (
    CLEAN_SHUTDOWN,
    JOURNAL,
    LEADER_EPOCHS,
    PARTITION_METADATA,
    PROPERTIES,
    SEGMENT_FILE,
    START_OFFSETS,
)
from stuntbroker.storage.data_dir import DataDir
from stuntbroker.storage.disk import Kind


def own_files(data_dir: DataDir) -> list[str]:
    """Return the broker's own files except the lock, as paths relative to the data folder. Raises OSError."""
    disk, path = data_dir.disk, data_dir.path
    files = [
        name
        for name in (PROPERTIES, JOURNAL, START_OFFSETS, CLEAN_SHUTDOWN)
        if disk.kind(f"{path}/{name}") is Kind.FILE
    ]
    for topic, index in data_dir.logs:
        folder = f"{topic}-{index}"
        if disk.kind(f"{path}/{folder}") is Kind.FOLDER:
            names = sorted(name for name in disk.names_in(f"{path}/{folder}") if _is_own(name))
            files += [f"{folder}/{name}" for name in names if disk.kind(f"{path}/{folder}/{name}") is Kind.FILE]
    return files


def _is_own(name: str) -> bool:
    return name in (PARTITION_METADATA, LEADER_EPOCHS) or SEGMENT_FILE.fullmatch(name) is not None


def foreign_entries(data_dir: DataDir) -> list[str]:
    """Return foreign entries in partition folders, as paths relative to the data folder. Raises OSError."""
    disk, path = data_dir.disk, data_dir.path
    own, foreign = set(own_files(data_dir)), []
    for topic, index in data_dir.logs:
        folder = f"{topic}-{index}"
        if disk.kind(f"{path}/{folder}") is Kind.FOLDER:
            paths = (f"{folder}/{name}" for name in disk.names_in(f"{path}/{folder}"))
            foreign += [entry for entry in paths if entry not in own]
    return sorted(foreign)


def remove_empty_folder(data_dir: DataDir, topic: str, index: int) -> None:
    """Remove a partition's folder after its files were removed. Raises OSError if the folder is not empty."""
    folder = f"{data_dir.path}/{topic}-{index}"
    if data_dir.disk.kind(folder) is Kind.FOLDER:
        data_dir.disk.remove_folder(folder)
