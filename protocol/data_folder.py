"""Names of the files in a data folder. Files that Apache Kafka has too have the same names, so that tools find them."""

from __future__ import annotations

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
