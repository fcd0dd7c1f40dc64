"""Apache Kafka's DumpLogSegments reads every file that our broker writes, and reports no errors."""

from __future__ import annotations

import re
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from stuntbroker.protocol.batches.records import CODECS, read_header
from stuntbroker.storage.compaction import Cleaning
from tests.kit.logs import NOW_MS, batch, killed, mark, new_log, put, reopened
from tests.kit.programs.kafka_tools import KafkaTools

SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
COMPLAINTS = re.compile(
    r"mismatch|exception|isvalid: false|non-consecutive|out of order|could not|cannot|not found|corrupt|indexed offset",
    re.IGNORECASE,
)
SETTINGS = (
    "transaction.state.log.num.partitions=2", "offsets.topic.num.partitions=2", "log.cleaner.backoff.ms=100",
)  # fmt: skip
READY_S_MAX = 30
STOP_S_MAX = 20


# --- folders to read


class Running:
    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "stuntbroker.cli", "serve", "--port", "0", "--data-dir", str(folder)]
        command += [word for setting in SETTINGS for word in ("--set", setting)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], READY_S_MAX)[0], "the broker was not ready in time"
        line = self.process.stdout.readline().decode()
        self.address = line.removeprefix("ready kafka=").split()[0]

    def end(self, *, kill: bool = False) -> int:
        (self.process.kill if kill else self.process.terminate)()
        try:
            status = self.process.wait(STOP_S_MAX)
        finally:
            self.process.kill()
            assert self.process.stdout is not None
            self.process.stdout.close()
        return status

    def producer(self, **config: Any) -> Any:
        settings = {name.replace("_", "."): value for name, value in config.items()}
        return ck.Producer({"bootstrap.servers": self.address, "linger.ms": 20, "log_level": 0} | settings)


def produce_everything(broker: Running) -> None:
    """Produce with every codec, commit and abort transactions, and commit group offsets with and without a transaction."""
    client = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    topics = [
        NewTopic("plain", 2, config={"segment.bytes": "1048576"}),
        NewTopic("states", 1, config={"cleanup.policy": "compact"}),
    ]
    for created in client.create_topics(topics).values():
        created.result(10)
    for codec in CODECS.values():
        producer = broker.producer(compression_type=codec, enable_idempotence=True)
        for n in range(600):
            headers = {"h": b"1", "none": None}
            producer.produce("plain", b"%04d" % n * 1_000, b"k%d" % n, headers=headers, partition=n % 2)
            producer.produce("states", b"%d" % n, b"k%d" % (n % 20))
        assert producer.flush(20) == 0
    producer = broker.producer(transactional_id="tx-1")
    producer.init_transactions(10)
    for n in range(6):
        producer.begin_transaction()
        for i in range(20):
            producer.produce("plain", b"w%d" % i, b"k%d" % i)
        assert producer.flush(10) == 0
        (producer.abort_transaction if n % 2 else producer.commit_transaction)(10)
    consumer = ck.Consumer({
        "bootstrap.servers": broker.address, "group.id": "readers", "auto.offset.reset": "earliest",
        "enable.auto.commit": False, "log_level": 0,
    })  # fmt: skip
    consumer.subscribe(["plain"])
    assert consumer.consume(500, 20)
    consumer.commit(asynchronous=False)
    for commit in (True, False):
        producer.begin_transaction()
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), 10
        )
        (producer.commit_transaction if commit else producer.abort_transaction)(10)
    consumer.close()


def stopped(folder: Path) -> None:
    broker = Running(folder)
    try:
        produce_everything(broker)
    finally:
        status = broker.end()
    assert status == 0


def killed_and_stopped(folder: Path) -> None:
    """The broker is killed during a transaction. After the restart, a new producer with the same id aborts it."""
    broker = Running(folder)
    try:
        produce_everything(broker)
        left = broker.producer(transactional_id="tx-2")
        left.init_transactions(10)
        left.begin_transaction()
        left.produce("plain", b"never", b"committed")
        assert left.flush(10) == 0
    finally:
        broker.end(kill=True)
    broker = Running(folder)
    try:
        producer = broker.producer(transactional_id="tx-2")
        producer.init_transactions(10)
        producer.begin_transaction()
        producer.produce("plain", b"value", b"key")
        producer.commit_transaction(10)
    finally:
        status = broker.end()
    assert status == 0


def cleaned(folder: Path) -> None:
    """A compacted log with rebuilt batches in every codec, with transactions, and with segments written after a crash."""
    log = new_log(folder / "states-0", compact=True, segment_bytes=12_000)
    for n in range(100):
        put(log, batch([(b"k%d" % (i * n % 70), b"some text " * 9) for i in range(9)], codec=n % 5, at=NOW_MS + n))
        put(log, batch([(b"t%d" % (n % 7), b"%d" % n)] * 2, pid=n % 3, seq=n // 3 * 2, txn=True, at=NOW_MS + n))
        mark(log, n % 4 > 0, n % 3, at=NOW_MS + n)
        if n == 50:
            list(Cleaning(log, NOW_MS).slices())
            killed(log)
            log = reopened(folder / "states-0", compact=True, segment_bytes=12_000)
    log.close()


FOLDERS = {"stopped": stopped, "killed": killed_and_stopped, "cleaned": cleaned}


# --- output of the tool


class Said(NamedTuple):
    status: int
    by_file: dict[str, str]
    """File -> output of the tool for it."""
    errors: str


def dump(tools: KafkaTools, files: list[Path], *options: str) -> Said:
    done = tools.run("org.apache.kafka.tools.DumpLogSegments", "--files", ",".join(map(str, files)), *options)
    parts = re.split(r"^Dumping (.*)$", done.out, flags=re.MULTILINE)
    by_file = dict(zip(parts[1::2], parts[2::2], strict=True))
    return Said(done.status, by_file, parts[0] + "".join(done.err.splitlines(keepends=True)))


def files_in(root: Path, *suffixes: str, topics: str = "*") -> list[Path]:
    return sorted(path for path in root.glob(f"*/{topics}-*/*") if path.suffix in suffixes)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("dumped")
    for name, fill in FOLDERS.items():
        fill(root / name)
    return root


@pytest.fixture(scope="module")
def said(kafka_tools: KafkaTools, root: Path) -> Said:
    """Output of the tool for all records of all topics except internal ones."""
    plain = [path for path in files_in(root, *SUFFIXES) if not path.parent.name.startswith("__")]
    return dump(kafka_tools, plain, "--print-data-log")


def complaints(said: Said, *, gaps_allowed: bool = False) -> list[str]:
    """Lines of the output that report an error. `gaps_allowed`: for compacted logs, which have gaps."""
    lines = [f"status {said.status}"] if said.status else []
    lines += said.errors.splitlines()
    lines += [f"{file}: {line}" for file, text in said.by_file.items() for line in text.splitlines()]
    against = [line for line in lines if COMPLAINTS.search(re.sub(r"key: .*", "", line)) or line.startswith("status")]
    # Every line on standard error counts as an error.
    against += [line for line in said.errors.splitlines() if line not in against]
    if gaps_allowed:
        against = [line for line in against if not re.search("non-consecutive|is followed by", line, re.IGNORECASE)]
    return against


def batches_of(path: Path) -> Iterator[tuple[int, int, int, int]]:
    """(first offset, last offset, records, position)."""
    data, at = path.read_bytes(), 0
    while at < len(data):
        header = read_header(data, at)
        yield header.base_offset, header.last_offset, header.count, at
        at += header.size


def test_the_folders_hold_every_kind_of_file(root: Path) -> None:
    """Otherwise the tool would have nothing to check."""
    for name in ("stopped", "killed"):
        for topic in ("plain", "__transaction_state", "__consumer_offsets", "states"):
            kinds = {p.suffix for p in (root / name).glob(f"{topic}-*/*") if p.suffix in SUFFIXES}
            assert kinds == set(SUFFIXES), (name, topic)
        assert len(list((root / name).glob("plain-*/*.log"))) >= 4
    for suffix in SUFFIXES:
        assert sum(path.stat().st_size for path in files_in(root, suffix)) > 0


def test_the_tool_reports_no_error_in_any_file(root: Path, said: Said) -> None:
    files = [path for path in files_in(root, *SUFFIXES) if not path.parent.name.startswith("__")]
    assert sorted(said.by_file) == [str(path) for path in files]

    assert complaints(said, gaps_allowed=True) == []


def test_the_tool_reads_the_same_batches(root: Path, said: Said) -> None:
    pattern = r"^baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .* position: (\d+) .* isvalid: true"
    seen = 0
    for path in files_in(root, ".log"):
        if path.parent.name.startswith("__"):
            continue
        actual = [tuple(map(int, hit)) for hit in re.findall(pattern, said.by_file[str(path)], re.MULTILINE)]
        assert actual == list(batches_of(path))
        seen += sum(each[2] for each in actual)
        assert len(re.findall(r"^\| offset: ", said.by_file[str(path)], re.MULTILINE)) == sum(
            each[2] for each in actual
        )
    assert seen > 5_000


def test_the_tool_reads_every_codec_the_markers_and_the_aborted_transactions(said: Said) -> None:
    everything = "\n".join(said.by_file.values())
    for codec in CODECS.values():
        assert f"compresscodec: {codec}" in everything
    for outcome in ("COMMIT", "ABORT"):
        assert f"endTxnMarker: {outcome} coordinatorEpoch: 0" in everything
    assert re.search(r"version: 0 producerId: \d+ firstOffset: \d+ lastOffset: \d+ lastStableOffset: \d+", everything)
    assert re.search(r"producerId: \d+ producerEpoch: \d+ coordinatorEpoch: 0 currentTxnFirstOffset: ", everything)


def test_the_tool_reads_batches_that_compaction_rebuilt(root: Path, said: Said) -> None:
    for path in (root / "cleaned" / "states-0").glob("*.log"):
        assert str(path) in said.by_file
    first = min((root / "cleaned" / "states-0").glob("*.log"))
    assert any(last - base + 1 > count for base, last, count, _ in batches_of(first))


@pytest.mark.parametrize(
    ("topic", "decoder", "wanted"),
    [
        ("__transaction_state", "--transaction-log-decoder",
         [r'"transactionalId":"tx-1"', r'"transactionStatus":(4|"CompleteCommit")', r'"topic":"plain"']),
        ("__consumer_offsets", "--offsets-decoder",
         [r'"group":"readers","topic":"plain","partition":\d', r'"protocolType":"consumer"', "endTxnMarker: COMMIT"]),
    ],
)  # fmt: skip
def test_the_tool_decodes_the_internal_topics(
    kafka_tools: KafkaTools, root: Path, topic: str, decoder: str, wanted: list[str]
) -> None:
    files = files_in(root, *SUFFIXES, topics=topic)

    said = dump(kafka_tools, files, decoder)

    assert complaints(said, gaps_allowed=True) == []
    assert sorted(said.by_file) == [str(path) for path in files]
    everything = "\n".join(said.by_file.values())
    assert [pattern for pattern in wanted if not re.search(pattern, everything)] == []
    assert "could not" not in everything.lower()


@pytest.mark.parametrize("option", ["--verify-index-only", "--index-sanity-check"])
def test_the_tool_verifies_the_indexes(kafka_tools: KafkaTools, root: Path, option: str) -> None:
    files = files_in(root, ".index", ".timeindex")

    said = dump(kafka_tools, files, option)

    assert complaints(said) == []
    assert len(said.by_file) == len(files)


def test_the_tool_reports_errors_in_damaged_files(kafka_tools: KafkaTools, root: Path, tmp_path: Path) -> None:
    """The pattern of error messages that these tests search for matches the tool's output for damaged files."""
    source = max((root / "cleaned").glob("states-0/*.index"), key=lambda path: path.stat().st_size)
    folder = tmp_path / "cleaned" / "states-0"
    folder.mkdir(parents=True)
    harmed = {".log": 70, ".index": 7, ".timeindex": 7, ".snapshot": 20}
    snapshots = sorted((root / "cleaned").glob("states-0/*.snapshot"))
    for suffix, at in harmed.items():
        path = snapshots[-1] if suffix == ".snapshot" else source.with_suffix(suffix)
        data = bytearray(path.read_bytes())
        data[at] ^= 1
        (folder / path.name).write_bytes(data)

    for suffix in harmed:
        assert complaints(dump(kafka_tools, files_in(tmp_path, suffix), "--print-data-log")), suffix
