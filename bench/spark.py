"""Compare the Spark sink and source with Spark's own, alternating between them; print medians and ratios.

    python bench/spark.py                              against our broker (about 10 minutes)
    python bench/spark.py --rows 200000 --rounds 1     a quick run
    python bench/spark.py --kafka                      also against Apache Kafka, without mode=2pc, which it does not support

Needs the extra `pipeline`, JDK 17 or later and, on first use, network access for the jars of Spark's own Kafka source and
sink. All measurements use one Spark session; a warm-up round, which includes JIT compilation, does not count.
docs/benchmarks.md describes the measurements. This is a benchmark, not a test: a slow machine does not fail it, but a wrong
number of rows does.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from systems import ROOT, System, Unavailable, prepare

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from stuntbroker.client.commands.cluster import Cluster

PARTITIONS = 4
VALUE_BYTES = 100
FILES = 4
TASKS = 32
UNDONE = 1_000
READY_S = 60.0
QUERY_S = 600.0
OURS, SPARK = "stuntbroker", "kafka"
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
Figures = dict[str, list[float]]
"""Measurement -> one value per round; `NAME cpu` is its CPU time in seconds, summed over all processes."""


class Bench:
    """The measurements on one broker, in one Spark session; every measurement uses new topics."""

    def __init__(self, spark: SparkSession, port: int, scratch: Path, rows: int, label: str) -> None:
        self.spark = spark
        self.bootstrap = f"127.0.0.1:{port}"
        self.scratch = scratch
        self.rows = rows
        self.label = label
        self.topics_named = 0
        self.written: list[str] = []
        """Topics whose rows `check` has to count."""

    def name(self, what: str) -> str:
        self.topics_named += 1
        return f"{what}.{self.label}.{self.topics_named}"

    def topic(self, what: str) -> str:
        from stuntbroker.client.commands.topics import create_topic

        name = self.name(what)
        with self.cluster() as cluster:
            create_topic(cluster, name, PARTITIONS, if_not_exists=True)
        return name

    def cluster(self) -> Cluster:
        from stuntbroker.client.commands.cluster import Cluster
        from stuntbroker.protocol.addresses import parse_bootstrap

        return Cluster(parse_bootstrap(self.bootstrap))

    def run(self, frame: DataFrame, sink: str, options: dict[str, str]) -> float:
        """Run a query to its end; return the total duration of its batches in seconds, from planning to commit."""
        checkpoint = str(self.scratch / self.name("checkpoint"))
        writer = frame.writeStream.format(sink).options(**options).option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        if not query.awaitTermination(QUERY_S):
            query.stop()
            raise TimeoutError(f"{sink} takes more than {QUERY_S} s")
        return sum(each["durationMs"]["triggerExecution"] for each in query.recentProgress) / 1000

    def check(self) -> None:
        """Count the committed rows of the written topics with Spark's own source. Raises AssertionError."""
        options = {"kafka.bootstrap.servers": self.bootstrap, "kafka.isolation.level": "read_committed"}
        while self.written:
            topic = self.written.pop()
            rows = self.spark.read.format(SPARK).options(**options, subscribe=topic).load().count()
            if rows != self.rows:
                raise AssertionError(f"{topic} has {rows} rows, not {self.rows}")

    # --- what is measured

    def write(self, kind: str) -> float:
        """Write all keyed rows in one micro-batch; return rows per second."""
        frame = self.spark.readStream.schema("key binary, value binary").parquet(str(self.scratch / "input"))
        topic = self.topic(f"write-{kind}")
        options = {"kafka.bootstrap.servers": self.bootstrap, "topic": topic}
        if kind == "own":
            seconds = self.run(frame, SPARK, options)
        elif kind == "2pc":
            seconds = self.run(frame, OURS, options | {"sinkId": topic})
        else:
            from stuntbroker.pipeline.spark.partitioning import partitioned

            options |= {"sinkId": topic, "mode": "single"}
            seconds = self.run(partitioned(frame, topic, self.bootstrap), OURS, options)
        self.written.append(topic)
        return self.rows / seconds

    def read(self, kind: str, topic: str) -> float:
        """Read all rows in one micro-batch with read_committed and discard them; return rows per second."""
        options = {
            "kafka.bootstrap.servers": self.bootstrap,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "kafka.isolation.level": "read_committed",
        }
        frame = self.spark.readStream.format(SPARK if kind == "own" else OURS).options(**options).load()
        return self.rows / self.run(frame.select("key", "value", "offset"), "noop", {})

    def commit(self) -> float:
        """Return the duration of commit() in ms, for a batch of TASKS tasks that each wrote to all partitions."""
        sink, messages, _ = self._prepared(TASKS)
        return _milliseconds(lambda: sink.commit(messages, 0))

    def recover(self, decided: bool) -> float:
        """Return the duration of recovery in ms, with UNDONE open transactions of a dead driver."""
        from stuntbroker.pipeline.decisions import Decision
        from stuntbroker.pipeline.spark.connections import connected, store_of

        sink, messages, options = self._prepared(UNDONE)
        if decided:
            transactions = tuple(each.transaction for each in messages)
            with connected(options) as cluster:
                store = store_of(cluster, options)
                store.resume(messages[0].claim)
                store.decide(Decision(options.sink_id, messages[0].query_id, 0, transactions))
        return _milliseconds(sink.take)

    def _prepared(self, count: int) -> tuple[Any, list[Any], Any]:
        """Return a sink with `count` successful tasks, their messages, and the options."""
        import pyarrow as pa

        from stuntbroker.pipeline.decisions import Transaction
        from stuntbroker.pipeline.encode import encode
        from stuntbroker.pipeline.recovery import transactional_id
        from stuntbroker.pipeline.spark.sink_options import sink_options
        from stuntbroker.pipeline.spark.two_phase_sink import TwoPhaseSink
        from stuntbroker.pipeline.spark.writing import TaskMessage
        from stuntbroker.pipeline.writer import TransactionalWriter

        topic = self.topic("tasks")
        options = sink_options(
            {"kafka.bootstrap.servers": self.bootstrap, "topic": topic, "sinkId": topic}, stream=True
        )
        sink = TwoPhaseSink(options)
        taken = sink.take()
        messages = []
        row = pa.array([b"x" * VALUE_BYTES])
        with self.cluster() as cluster:
            for number in range(count):
                writer = TransactionalWriter(cluster, transactional_id(topic, number, 0))
                writer.init(two_phase=True)
                for partition in range(PARTITIONS):
                    writer.produce(topic, partition, [each.data for each in encode(None, row, 0)])
                transaction = Transaction(writer.transactional_id, *writer.prepare())
                messages.append(
                    TaskMessage(taken.claim, taken.pair, "query", transaction, False, PARTITIONS, writer.written)
                )
        return sink, messages, options


def cpu_s() -> float:
    """Return the CPU time in seconds of this process and its descendants: Spark's JVM, its Python workers, the broker.

    Ended processes are included if their parent has waited for them.
    """
    ticks: dict[int, int] = {}
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # The process has ended.
            continue
        pid = int(stat.parent.name)
        parents[pid], ticks[pid] = int(fields[1]), sum(map(int, fields[11:15]))

    def is_ours(pid: int) -> bool:
        while pid not in (0, os.getpid()):
            pid = parents.get(pid, 0)
        return pid != 0

    return sum(count for pid, count in ticks.items() if is_ours(pid)) / TICKS_PER_S


def _milliseconds(act: Callable[[], Any]) -> float:
    began = time.perf_counter()
    act()
    return (time.perf_counter() - began) * 1000


def measure(bench: Bench, rounds: int, two_phase: bool) -> Figures:
    """Run every measurement once per round, each round starting with a different one; the first round does not count."""
    figures_by_name: Figures = {}
    sinks = ["own", "single", "2pc"] if two_phase else ["own", "single"]
    topic = bench.topic("read")
    bench.run(
        bench.spark.readStream.schema("key binary, value binary").parquet(str(bench.scratch / "input")),
        SPARK,
        {"kafka.bootstrap.servers": bench.bootstrap, "topic": topic},
    )
    acts: dict[str, Callable[[], float]] = {f"sink {kind}": lambda kind=kind: bench.write(kind) for kind in sinks}
    acts |= {f"source {kind}": lambda kind=kind: bench.read(kind, topic) for kind in ("own", "ours")}
    if two_phase:
        acts |= {
            "commit": bench.commit,
            "recover decided": lambda: bench.recover(True),
            "recover undecided": lambda: bench.recover(False),
        }
    names = list(acts)
    for nth in range(rounds + 1):
        first = nth % len(names)
        for name in names[first:] + names[:first]:
            before = cpu_s()
            figure = acts[name]()
            cpu = cpu_s() - before
            bench.check()
            _tell(f"{bench.label}  round {nth or 'warm-up'}  {name:18} {figure:,.0f}  cpu {cpu:.1f} s")
            if nth:
                figures_by_name.setdefault(name, []).append(figure)
                figures_by_name.setdefault(f"{name} cpu", []).append(cpu)
    return figures_by_name


ROWS = (
    ("sink own", "sink, Spark's own `kafka`, rows/s", "at least once", None),
    ("sink 2pc", "sink, mode=2pc, rows/s", "exactly once", "sink own"),
    ("sink single", "sink, mode=single, rows/s", "exactly once, a batch at once", "sink own"),
    ("source own", "source, Spark's own `kafka`, rows/s", "", None),
    ("source ours", "source, ours, rows/s", "", "source own"),
    ("commit", f"commit() of {TASKS} tasks, ms", "", None),
    ("recover decided", f"recovery of {UNDONE:,} decided transactions, ms", "", None),
    ("recover undecided", f"recovery of {UNDONE:,} undecided transactions, ms", "", None),
)


def table(figures: dict[str, Figures], rows: int) -> Iterator[str]:
    yield "| broker | figure | median | lowest | highest | to Spark's own | CPU, us a row | to Spark's own | |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |"
    for label, figures_by_name in figures.items():
        for name, title, note, base in ROWS:
            if name not in figures_by_name:
                continue
            some = figures_by_name[name]
            cells = [f"{each:,.0f}" for each in (statistics.median(some), min(some), max(some))]
            cells.append(f"{_ratio(some, figures_by_name[base]):.2f}" if base else "")
            cpu = figures_by_name[f"{name} cpu"]
            cells.append(f"{statistics.median(cpu) / rows * 1e6:.1f}" if title.endswith("rows/s") else "")
            cells.append(f"{_ratio(cpu, figures_by_name[f'{base} cpu']):.2f}" if base else "")
            yield f"| {label} | {title} | {' | '.join(cells)} | {note} |"


def _ratio(some: list[float], base: list[float]) -> float:
    """Return the median of the ratios of the rounds."""
    return statistics.median(figure / other for figure, other in zip(some, base, strict=True))


def make_input(folder: Path, rows: int) -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    each = rows // FILES
    value = np.random.default_rng(0).integers(32, 127, (each, VALUE_BYTES), np.uint8)
    values = pa.FixedSizeBinaryArray.from_buffers(pa.binary(VALUE_BYTES), each, [None, pa.py_buffer(value)])
    for number in range(FILES):
        keys = pa.array(np.arange(number * each, (number + 1) * each).astype(np.bytes_).tolist(), pa.binary())
        pq.write_table(pa.table({"key": keys, "value": values.cast(pa.binary())}), folder / f"{number}.parquet")


@contextmanager
def serving(system: System, data: Path) -> Iterator[int]:
    """Start a server with an empty data folder; yield its port as soon as it responds."""
    from stuntbroker.client.commands.cluster import Cluster
    from stuntbroker.client.errors import ClientError
    from stuntbroker.protocol.addresses import parse_bootstrap

    port, command = system.at(data)
    data.mkdir()
    with (data.parent / f"{data.name}.log").open("wb") as log:
        process = subprocess.Popen(f"exec {command}", shell=True, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + READY_S
        while True:
            try:
                with Cluster(parse_bootstrap(f"127.0.0.1:{port}"), 2.0) as cluster:
                    cluster.broker_ids()
                break
            except ClientError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        yield port
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(data, ignore_errors=True)


def session(scratch: Path) -> SparkSession:
    sys.path.append(str(ROOT / "tools"))
    import jars
    from pyspark.sql import SparkSession

    from stuntbroker.pipeline.spark import StuntbrokerDataSource

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.jars": ",".join(str(jar) for jar in sorted(jars.spark_jars().glob("*.jar"))),
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    spark = SparkSession.builder.master("local[2]").appName("bench").config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(StuntbrokerDataSource)
    return spark


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the Spark sink and source: docs/benchmarks.md")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of 100 bytes (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="that count (default: %(default)s)")
    parser.add_argument("--kafka", action="store_true", help="Apache Kafka as well")
    parser.add_argument("--scratch", type=Path, help="where data folders are made (default: the system's own)")
    parser.add_argument("--out", type=Path, help="file for all figures, as JSON")
    options = parser.parse_args()
    rows = options.rows // FILES * FILES
    scratch = Path(mkdtemp(prefix="bench-spark-", dir=options.scratch))
    figures: dict[str, Figures] = {}
    try:
        make_input(scratch / "input", rows)
        spark = session(scratch)
        for name in ("us", "kafka") if options.kafka else ("us",):
            try:
                system = prepare(name, {})
            except Unavailable as reason:
                _tell(f"{name} is left out: {reason}")
                continue
            with serving(system, scratch / f"data-{name}") as port:
                bench = Bench(spark, port, scratch, rows, name)
                figures[name] = measure(bench, options.rounds, two_phase=name == "us")
        spark.stop()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if options.out:
        options.out.write_text(json.dumps({"rows": rows, "python": platform.python_version(), "figures": figures}))
    print("\n".join(table(figures, rows)))
    load = os.getloadavg()
    print(f"\n{rows:,} rows, {options.rounds} rounds, load {load[0]:.1f} at the end, {load[2]:.1f} over 15 minutes.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
