"""Names of the files in a data folder. Files that Apache Kafka has too have the same names, so that tools find them."""

from __future__ import annotations

import re
from typing import Final

PROPERTIES: Final = "meta.properties"
LOCK: Final = ".lock"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
"""Exists after a clean shutdown, until the next broker starts."""
START_OFFSETS: Final = "log-start-offset-checkpoint"
JOURNAL: Final = "metadata.journal"
"""Changes of topics and other metadata. Kafka has the `__cluster_metadata` log instead."""
PARTITION_METADATA: Final = "partition.metadata"
"""Metadata of a partition, with its topic id: the first file that is created in its folder, and the last that is removed."""
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
LARGE_BATCH_SUFFIX: Final = ".large"
"""Suffix of a file with a large batch that is written before it is appended to the log."""
UNFINISHED_SUFFIXES: Final = (".cleaned", ".swap", ".deleted", ".new", LARGE_BATCH_SUFFIX)
"""Suffixes of the files that an interrupted compaction, deletion or write leaves behind."""
INDEX_SUFFIXES: Final = (".index", ".timeindex", ".txnindex")
SEGMENT_SUFFIXES: Final = (".log", *INDEX_SUFFIXES, ".crc", ".snapshot")
SEGMENT_FILE: Final = re.compile(rf"([0-9]{{20}})({'|'.join(map(re.escape, SEGMENT_SUFFIXES))})")
"""A file of a segment. Groups: base offset, suffix."""
SWAP_FILE: Final = re.compile(r"([0-9]{1,19})-([0-9]{1,19})\.swap")
"""A finished compaction that has not yet replaced its segments. Groups: first offset, end offset."""


def segment_name(base_offset: int) -> str:
    """Return the name of a segment's files, without a suffix."""
    return f"{base_offset:020d}"


def log_base_offset(name: str) -> int | None:
    """Return the base offset of a segment's log, given the name of its file; None for any other file."""
    matched = SEGMENT_FILE.fullmatch(name)
    return int(matched[1]) if matched and matched[2] == ".log" else None
