"""`stuntbroker dump`: prints the files of a data folder as readable lines.

The name of a file gives its format; the name of its folder tells whether the records are internal.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator

from stuntbroker.cli.arguments import UsageError, options
from stuntbroker.cli.data_folder.dump_indexes import SUFFIXES
from stuntbroker.cli.data_folder.dump_indexes import lines as index_lines
from stuntbroker.cli.data_folder.dump_texts import lines_of_crc, lines_of_text
from stuntbroker.coordinator.records import read_record as read_txn
from stuntbroker.coordinator.state import Txn
from stuntbroker.pipeline.counting import count
from stuntbroker.protocol.batches.compression import FILE_SIZE_MAX, CompressionError, decompress
from stuntbroker.protocol.batches.records import (
    CODECS,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    Record,
    crc_of,
    marker_of,
    read_header,
    read_records,
)
from stuntbroker.protocol.data_folder import UNFINISHED_SUFFIXES
from stuntbroker.protocol.primitives import DecodeError
from stuntbroker.protocol.topic_names import OFFSETS, TXN_STATE

LOGS = (".log", ".checkpoint")
"""Suffixes of logs; `.checkpoint` is a snapshot of Apache Kafka's metadata."""
SHOWN_MAX = 200
HEADERS_SHOWN_MAX = 100


def dump(arguments: list[str]) -> int:
    """Print files as readable lines; return the exit status: 0, or 1 if a file could not be read completely."""
    given = options(arguments, (), ("--json",), has_positionals=True)
    paths = given.get("", [])
    if not paths:
        raise UsageError("dump needs FILEs or FOLDERs, as <data folder>/<topic>-<partition>/*.log")
    show = _show_json if "--json" in given else _show_text
    status = 0
    for path in paths:
        files = _files_in(path)
        if not files:
            sys.stderr.write(f"stuntbroker: {path}: there is no file in this folder\n")
            status = 1
        for file in files:
            status = max(status, _dump_file(file, show))
    return status


def _show_text(path: str, lines: Iterator[str]) -> Iterator[str]:
    yield f"{path}\n"
    for line in lines:
        yield f"  {line}\n"


def _show_json(path: str, lines: Iterator[str]) -> Iterator[str]:
    """One JSON object for each line of the text."""
    for line in lines:
        yield json.dumps({"file": path, "is_damage": line.startswith("!"), "text": line}) + "\n"


def _files_in(path: str) -> list[str]:
    """Return the files below a folder, without following links; for anything else, the path itself."""
    try:
        names = sorted(os.listdir(path))
    except OSError:  # Not a folder, or unreadable: opening it reports the error.
        return [path]
    files = []
    for inner in (os.path.join(path, name) for name in names):
        files += [inner] if os.path.islink(inner) else _files_in(inner)
    return files


def _dump_file(path: str, show: Callable[[str, Iterator[str]], Iterator[str]]) -> int:
    """Print a file; return the exit status: 1 if the file is damaged or cannot be shown, else 0."""
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            data = file.read()
    except OSError as fault:
        sys.stderr.write(f"stuntbroker: {path}: {fault.strerror}\n")
        return 1
    is_damaged = False

    def lines() -> Iterator[str]:
        nonlocal is_damaged
        for line in _lines_of(path, data):
            is_damaged |= line.startswith("!")
            yield line

    for text in show(path, lines()):
        sys.stdout.write(text)
    return int(is_damaged)


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # Opening a pipe would wait for its writer.


def _lines_of(path: str, data: bytes) -> Iterator[str]:
    """Yield the content of a file as lines, in the format given by its name."""
    folder, name = os.path.split(os.path.abspath(path))
    stem, suffix = os.path.splitext(name)
    if suffix in UNFINISHED_SUFFIXES:
        name = stem
        stem, inner = os.path.splitext(stem)
        suffix = inner or ".log"  # `<offset>-<offset>.swap` is a log, `<offset>.log.deleted` and such are Kafka's.
    if suffix in LOGS:
        return lines(data, os.path.basename(folder).rpartition("-")[0])
    if stem.isascii() and stem.isdigit():
        if suffix in SUFFIXES:
            return index_lines(suffix, data, int(stem))
        if suffix == ".crc":
            return lines_of_crc(os.path.join(folder, stem), data)
    return lines_of_text(name, data) or iter(["! no file of a broker has this name: it is not shown"])


def lines(data: bytes, topic: str) -> Iterator[str]:
    """Yield a line per batch and per record; a line that begins with `!` reports damage, and may be the last."""
    pos = 0
    while pos < len(data):
        if pos + HEADER_SIZE > len(data):
            yield f"! position {pos}: {count(len(data) - pos, 'byte is', 'bytes are')} left, which is no complete batch"
            return
        header = read_header(data, pos)
        batch = data[pos : pos + header.size]
        if header.magic != MAGIC or header.size < HEADER_SIZE or len(batch) < header.size:
            yield f"! position {pos}: not a complete batch of format v2"
            return
        right = crc_of(batch) == header.crc
        yield _batch_line(pos, header, right)
        if not right:
            yield f"! position {pos}: wrong CRC"
            return
        yield from _record_lines(header, batch, topic)
        pos += header.length + LOG_OVERHEAD


def _batch_line(pos: int, header: BatchHeader, right: bool) -> str:
    kind = "control" if header.control else "transactional" if header.transactional else "plain"
    producer = ""
    if header.producer_id >= 0:
        producer = f" producer={header.producer_id}:{header.producer_epoch} sequence={header.base_sequence}"
    return (
        f"batch offset={header.base_offset}..{header.last_offset} position={pos} size={header.size} count={header.count} "
        f"{kind} codec={CODECS.get(header.codec, header.codec)} timestamp={header.max_timestamp} "
        f"leader_epoch={header.leader_epoch}{producer} crc={'ok' if right else 'WRONG'}"
    )


def _record_lines(header: BatchHeader, batch: bytes, topic: str) -> Iterator[str]:
    try:
        payload = decompress(header.codec, batch[HEADER_SIZE:], FILE_SIZE_MAX) if header.codec else batch[HEADER_SIZE:]
        for record in read_records(header, payload, 0, HEADERS_SHOWN_MAX + 1):
            yield f"  record offset={record.offset} timestamp={record.timestamp} {_content(header, record, topic)}"
    except (CompressionError, DecodeError) as fault:
        yield f"! offset {header.base_offset}: {fault}"


def _content(header: BatchHeader, record: Record, topic: str) -> str:
    if header.control:
        marker = marker_of(record)
        if marker is None:
            return "control record that is not a transaction marker"
        return f"{'COMMIT' if marker.commit else 'ABORT'} coordinator_epoch={marker.coordinator_epoch}"
    if topic == TXN_STATE:
        entry = read_txn(record)
        if entry is not None:
            transactional_id, txn = entry
            return f"{transactional_id}: " + ("tombstone" if txn is None else _transaction(txn))
    if topic == OFFSETS:
        from stuntbroker.groups.records import read_record as read_group

        return repr(read_group(record.offset, record.key, record.value))
    shown = f"key={_short(record.key)} value={_short(record.value)}"
    if record.headers:
        shown += f" headers={dict(record.headers[:HEADERS_SHOWN_MAX])}"
    return shown + "..." * (len(record.headers) > HEADERS_SHOWN_MAX)


def _transaction(txn: Txn) -> str:
    partitions = ",".join(f"{topic}-{index}" for topic, index in sorted(txn.partitions))
    following = f" next={txn.next_producer_id}:{txn.next_producer_epoch}" if txn.next_producer_id >= 0 else ""
    return (
        f"{txn.phase.kafka_name} producer={txn.producer_id}:{txn.producer_epoch} previous={txn.previous_producer_id}"
        f"{following} last_epoch={txn.last_producer_epoch} partitions=[{partitions}] timeout_ms={txn.timeout_ms} "
        f"started_at_ms={txn.started_at_ms} updated_at_ms={txn.updated_at_ms} client_version={txn.client_version}"
    )


def _short(data: bytes | None) -> str:
    if data is None:
        return "null"
    return repr(data if len(data) <= SHOWN_MAX else data[:SHOWN_MAX]) + ("..." if len(data) > SHOWN_MAX else "")
