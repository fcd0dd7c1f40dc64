"""Names of the files in a data folder: those of Apache Kafka where it has the file too, as tools look for them."""

from __future__ import annotations

from typing import Final

PROPERTIES: Final = "meta.properties"
LOCK: Final = ".lock"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
"""There while nobody works on the folder, and the last broker closed its logs in order."""
START_OFFSETS: Final = "log-start-offset-checkpoint"
JOURNAL: Final = "metadata.journal"
"""Changes of topics and the like. Kafka has a log of its cluster's metadata instead."""
PARTITION_METADATA: Final = "partition.metadata"
"""The first file in a partition's folder, and the last to go."""
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
LARGE_BATCH_SUFFIX: Final = ".large"
"""Suffix of a file with a large batch that is written ahead of its place in the log."""
UNFINISHED_SUFFIXES: Final = (".cleaned", ".swap", ".deleted", ".new", LARGE_BATCH_SUFFIX)
"""Suffixes of what a compaction, deletion or write leaves behind when the process ends in the middle."""
