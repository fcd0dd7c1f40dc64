"""`stuntbroker dump` for the text files and other small files that a broker keeps beside its logs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Final

from stuntbroker.protocol.crc import crc32c
from stuntbroker.protocol.data_folder import (
    CLEAN_SHUTDOWN,
    INDEX_SUFFIXES,
    JOURNAL,
    LOCK,
    PARTITION_METADATA,
    PROPERTIES,
)
from stuntbroker.storage.journal import change_of

PLAIN: Final = frozenset({CLEAN_SHUTDOWN, PARTITION_METADATA, PROPERTIES, "quorum-state"})
CHECKPOINT: Final = "-checkpoint"


def lines_of_text(name: str, data: bytes) -> Iterator[str] | None:
    """Return the lines of a file, with lines that begin with `!` about damage; None if no such file has this name."""
    show: Callable[[bytes], Iterator[str]]
    if name == JOURNAL:
        show = _journal
    elif name == LOCK:
        show = _lock
    elif name.endswith(CHECKPOINT):
        show = _checkpoint
    elif name in PLAIN:
        show = _plain
    else:
        return None
    return show(data)


def _plain(data: bytes) -> Iterator[str]:
    for line in data.decode("utf-8", "backslashreplace").splitlines():
        yield "".join(character if character.isprintable() else ascii(character)[1:-1] for character in line)


def _lock(data: bytes) -> Iterator[str]:
    yield "lock file: the broker that uses this folder holds the lock while it runs"
    if data:
        yield "! the lock file is not empty"


def _checkpoint(data: bytes) -> Iterator[str]:
    """Yield version, number of entries, and one entry a line. Kafka creates a checkpoint file empty, and writes it later."""
    yield from _plain(data)
    lines = data.split(b"\n") if data else [b"0", b"0", b""]
    if len(lines) < 3 or lines[0] != b"0" or lines[1] != b"%d" % (len(lines) - 3) or lines[-1]:
        yield "! the file must have version 0, the number of entries, and as many entries"


def _journal(data: bytes) -> Iterator[str]:
    *lines, torn = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        try:
            change_of(line)
        except ValueError as fault:
            yield f"! line {number}: {fault}"
        yield from _plain(line)
    if torn:
        yield f"! line {len(lines) + 1} is incomplete: the broker truncates it when it starts"


def lines_of_crc(path: str, data: bytes) -> Iterator[str]:
    """Compare a CRC file with the indexes beside it. `path` is the segment's path without a suffix."""
    if len(data) != 4:
        yield "! the CRC file does not have 4 bytes"
        return
    indexes = b""
    for suffix in INDEX_SUFFIXES:
        if os.path.isfile(path + suffix):
            with open(path + suffix, "rb") as file:
                indexes += file.read()
    if int.from_bytes(data, "big") == crc32c(indexes):
        yield f"crc={data.hex()} of the indexes of this segment"
    else:
        yield f"! crc={data.hex()}, but the indexes have {crc32c(indexes):08x}: the broker rebuilds them when it starts"
