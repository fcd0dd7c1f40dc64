"""A query from files that can be read repeatedly to our sink, and a check that its output is exactly right."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from faults import FORMAT, POLL_S, Fault, FaultyDataSource, Plan
from live_broker import LiveBroker, batch, held_back, make_topic
from spark_cluster import java_options

from stuntbroker.client.commands.admin import Admin
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.fetching import end_offset
from stuntbroker.client.commands.reader import read_partition
from stuntbroker.pipeline.recovery import is_of_sink, pattern
from stuntbroker.pipeline.spark import StuntbrokerDataSource
from stuntbroker.pipeline.writer import TransactionalWriter
from stuntbroker.protocol.request_values import READ_UNCOMMITTED
from stuntbroker.protocol.transaction_states import RUNNING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

HERE: Final = Path(__file__).parent
SCHEMA: Final = "key binary, value binary"
PARTITIONS: Final = 3
QUERY_S: Final = 150.0
MADE_AT_S: Final = 1_700_000_000
"""Modification time of the first input file; Spark reads files in order of their age."""


@dataclass(frozen=True)
class Job:
    """All settings that a driver needs to run the query, or to run it again."""

    bootstrap: str
    topic: str
    sink: str
    decisions: str
    folder: str
    """Folder with the input, the checkpoint and the plan of faults."""
    tasks: int = 2
    mode: str = "2pc"
    checkpoint: str = "checkpoint"
    faults: str = "faults"
    is_batch: bool = False
    """Write all input as a batch job (df.write) instead of a stream."""
    rows_per_batch: int = 0
    """If above 0, the input is a topic, and a batch takes this many rows of it; else each input file is a batch."""
    options: dict[str, str] = field(default_factory=dict)

    @property
    def plan(self) -> Plan:
        return Plan(Path(self.folder) / self.faults)


def make_session(master: str, scratch: Path, settings: dict[str, str] | None = None) -> SparkSession:
    """Create a session in a process that has none; workers can import the modules of this folder."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    given = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": java_options(),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.executor.extraJavaOptions": java_options(),
        "spark.python.daemon.module": "preloading_daemon",
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        **(settings or {}),
    }
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH"))))
    created = SparkSession.builder.master(master).appName("stuntbroker faults").config(map=given).getOrCreate()
    created.sparkContext.setLogLevel("OFF")
    return prepare(created)


def prepare(spark: SparkSession) -> SparkSession:
    """Register the source and the faulty sink with a session."""
    paths = [str(HERE), str(HERE.parent / "client"), *filter(None, [os.environ.get("PYTHONPATH")])]
    spark.sparkContext.environment["PYTHONPATH"] = os.pathsep.join(paths)
    spark.dataSource.register(FaultyDataSource)
    spark.dataSource.register(StuntbrokerDataSource)
    return spark


def rows_of(batch: int, count: int) -> list[str]:
    return [f"batch-{batch}-row-{number:05d}" for number in range(count)]


def write_input(folder: Path, batches: Sequence[Sequence[str]]) -> None:
    """Write the input, one file for each batch."""
    folder.mkdir(parents=True)
    for number, rows in enumerate(batches):
        add_input(folder, number, rows)


def add_input(folder: Path, number: int, rows: Sequence[str]) -> None:
    values = pa.array([row.encode() for row in rows], pa.binary())
    path = folder / f"{number:03d}.parquet"
    pq.write_table(pa.table({"key": values, "value": values}), path)
    os.utime(path, (MADE_AT_S + number, MADE_AT_S + number))


def source(spark: SparkSession, job: Job) -> DataFrame:
    """Return the input as a stream: of the input topic with `rows_per_batch` rows a batch, else of files, one a batch."""
    if job.rows_per_batch:
        options = {"kafka.bootstrap.servers": job.bootstrap, "subscribe": input_of(job), "startingOffsets": "earliest"}
        options["maxOffsetsPerTrigger"] = str(job.rows_per_batch)
        rows = spark.readStream.format("stuntbroker").options(**options).load().select("key", "value")
    else:
        folder = str(Path(job.folder) / "input")
        rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(folder)
    return spread(rows, job)


def spread(rows: DataFrame, job: Job) -> DataFrame:
    """Distribute the rows over the sink's tasks by a shuffle."""
    if job.mode == "single":
        from stuntbroker.pipeline.spark.partitioning import partitioned

        return partitioned(rows, job.topic, job.bootstrap, job.tasks)
    return rows.repartition(job.tasks)


def input_of(job: Job) -> str:
    return f"{job.topic}.input"


def start(
    spark: SparkSession, job: Job, rows: DataFrame | None = None, sink: str = FORMAT, more: dict[str, str] | None = None
) -> StreamingQuery:
    """Start a query that writes all available batches, one after the other."""
    options = {"kafka.bootstrap.servers": job.bootstrap, "topic": job.topic}
    if sink == FORMAT:
        options = options_of(job) | (more or {})
    writer = (source(spark, job) if rows is None else rows).writeStream.format(sink).options(**options)
    folder = str(Path(job.folder) / job.checkpoint)
    return writer.option("checkpointLocation", folder).trigger(availableNow=True).start()


def options_of(job: Job) -> dict[str, str]:
    """Return the options of our sink."""
    options = {"kafka.bootstrap.servers": job.bootstrap, "topic": job.topic, "sinkId": job.sink, "mode": job.mode}
    if job.mode == "single":
        options["kafka.transaction.timeout.ms"] = (
            "600000"  # On a busy machine, a driver waits at its fault for minutes.
        )
    return options | {"decisions": job.decisions, "faults": str(job.plan.folder), **job.options}


def save(spark: SparkSession, job: Job) -> str | None:
    """Write the input once as a batch job; return its error, if any."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    rows = spread(spark.read.schema(SCHEMA).parquet(str(Path(job.folder) / "input")), job)
    try:
        rows.write.format(FORMAT).options(**options_of(job)).mode("append").save()
    except (PySparkException, Py4JJavaError) as fault:  # Py4JJavaError if a Python process of the driver has ended.
        return str(fault)
    return None


def run(spark: SparkSession, job: Job, timeout_s: float = QUERY_S) -> str | None:
    """Run the query to its end; return its error, if any."""
    return outcome(start(spark, job), timeout_s)


def outcome(query: StreamingQuery, timeout_s: float = QUERY_S) -> str | None:
    from pyspark.errors import StreamingQueryException

    try:
        if not query.awaitTermination(timeout_s):
            query.stop()
            raise TimeoutError(f"the query still runs after {timeout_s} s")
    except StreamingQueryException as fault:
        return str(fault)
    return None


def reached(query: StreamingQuery, job: Job, name: str, timeout_s: float = QUERY_S) -> None:
    """Wait until the query reaches the waiting fault `name`."""
    deadline = time.monotonic() + timeout_s
    while not job.plan.stands(name):
        if not query.isActive:
            raise AssertionError(f"the query ended before {name}: {query.exception()}")
        if time.monotonic() > deadline:
            raise TimeoutError(f"the query does not come to {name}")
        time.sleep(POLL_S)


class World:
    """A broker, the jobs on it, and the rows that they must write."""

    def __init__(self, folder: Path, broker: LiveBroker, data_dir: Path) -> None:
        self.folder = folder
        self.broker = broker
        self.data_dir = data_dir
        self.expected: dict[str, list[str]] = {}
        """Topic -> rows that it must have at the end."""

    def job(self, name: str, store: str, batches: Sequence[Sequence[str]], *faults: Fault, **more: Any) -> Job:
        """Create a topic, a sink and an input of this name; return their job."""
        folder = self.folder / name
        write_input(folder / "input", batches)
        decisions = f"dir:{self.folder / 'decisions'}" if store == "dir" else "kafka:decisions"
        created = Job(
            f"127.0.0.1:{self.broker.address.port}", f"topic.{name}", f"sink.{name}", decisions, str(folder), **more
        )
        created.plan.write(*faults)
        with self.broker.cluster() as cluster:
            make_topic(cluster, created.topic, PARTITIONS)
            if created.rows_per_batch:
                fill(cluster, input_of(created), batches)
        self.expected[created.topic] = [row for some in batches for row in some]
        return created

    def check(self, job: Job) -> None:
        """Check that the topic has exactly the input's rows, no transaction is open, and the audit of the folder is clean."""
        with self.broker.cluster() as cluster:
            assert difference(self.expected[job.topic], committed(cluster, job.topic)) == {}
            assert open_transactions(cluster, job.sink) == []
            assert held_back(cluster, job.topic, PARTITIONS) == []
        self.broker.kill()
        try:
            assert findings(self.data_dir, job) == []
        finally:
            self.broker.start()


def fill(cluster: Cluster, topic: str, batches: Sequence[Sequence[str]]) -> None:
    """Write the input to a topic by a transactional producer that also aborts transactions."""
    make_topic(cluster, topic, 2)
    writer = TransactionalWriter(cluster, f"{topic}.producer")
    writer.init()
    for number, rows in enumerate(batches):
        writer.produce(topic, number % 2, batch("never"))
        writer.flush()
        writer.abort()
        if rows:
            writer.produce(topic, number % 2, batch(*rows))
            writer.commit()


def committed(cluster: Cluster, topic: str) -> list[str]:
    """Return the values that a read_committed consumer gets."""
    rows = [row for index in range(PARTITIONS) for row in read_partition(cluster, topic, index)]
    return [(row.value or b"").decode() for row in rows]


def written(cluster: Cluster, topic: str) -> list[int]:
    """Return the end offset of every partition, including uncommitted records."""
    return [end_offset(cluster, topic, index, READ_UNCOMMITTED) for index in range(PARTITIONS)]


def difference(expected: Sequence[str], actual: Sequence[str]) -> dict[str, int]:
    """Return the surplus of each row, which is negative if the row is missing."""
    counted = Counter(actual)
    counted.subtract(Counter(expected))
    return {row: count for row, count in counted.items() if count}


def open_transactions(cluster: Cluster, sink: str) -> list[str]:
    """Return the sink's transactional ids that have an open transaction, including those of its internal records."""
    admin = Admin(cluster)
    actual = []
    for name in (sink, f"{sink}-jobs"):
        listed = admin.list_transactions(states=RUNNING, pattern=pattern(name)).listings
        actual += [each for each in listed if is_of_sink(each.transactional_id, name)]
        actual += admin.list_transactions(states=RUNNING, pattern=f"{name}-(decisions|gate|single)").listings
    return sorted(each.transactional_id for each in actual)


def findings(data_dir: Path, job: Job | None = None) -> list[dict[str, Any]]:
    """Return the audit's errors and warnings about the folder, or only about a job's sink and topic."""
    from stuntbroker.pipeline.audit.folder import read_folder
    from stuntbroker.pipeline.audit.run import audit

    rows = audit(read_folder(str(data_dir))).findings().to_pylist()
    bad = [each for each in rows if each["severity"] in ("error", "warning")]
    if job is None:
        return bad
    mine = (f"{job.sink}-",)
    return [each for each in bad if each["topic"] == job.topic or (each["transactional_id"] or "").startswith(mine)]


def rerun(job: Job, **changes: Any) -> Job:
    return replace(job, **changes)
