"""One Spark session for all tests of this folder, and a broker of ours for those of a module."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from faults_query import World
    from live_broker import LiveBroker
    from pyspark.sql import SparkSession

    from stuntbroker.client.commands.cluster import Cluster

HERE = Path(__file__).parent
TESTS = HERE.parent
for _folder in (
    HERE, TESTS / "broker", TESTS / "client", TESTS / "pipeline" / "audit", TESTS / "protocol", TESTS.parent / "tools"
):  # fmt: skip
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))

ATTEMPTS_MAX = 4
"""Attempts of a task; by default a local session never retries a task."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ours = [item for item in items if str(item.path).startswith(f"{HERE}{os.sep}")]
    missing = _missing_java() if ours else ""
    for item in ours:
        item.add_marker(pytest.mark.timeout(600))
        if missing:
            item.add_marker(pytest.mark.skip(reason=missing))


def _missing_java() -> str:
    """Return why Spark cannot run here, or an empty string if it can."""
    from stuntbroker.cli.data_folder.audit_spark import SparkError, need_java

    try:
        need_java()
    except SparkError as fault:
        return str(fault)
    return ""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Yield a session with two cores, four attempts per task, our data source, and Spark's own Kafka source and sink."""
    import jars
    from pyspark import SparkContext
    from pyspark.sql import SparkSession
    from spark_cluster import QUICK_START

    from stuntbroker.pipeline.spark import StuntbrokerDataSource

    scratch = tmp_path_factory.mktemp("spark")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": " ".join(QUICK_START),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        # When a stage is run again, Spark forgets its executor's blocks. A local executor cannot register them again at its
        # next heartbeat, and would end the JVM at the sixtieth: ten minutes later, in the middle of another test.
        "spark.executor.heartbeat.maxFailures": "1000000",
        "spark.jars": ",".join(str(jar) for jar in sorted(jars.spark_jars().glob("*.jar"))),
        "spark.local.dir": str(scratch / "local"),
        "spark.python.daemon.module": "preloading_daemon",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.master(f"local[2,{ATTEMPTS_MAX}]").appName("stuntbroker tests")
    with pytest.MonkeyPatch.context() as environment:  # The JVM and its child processes must find `preloading_daemon`.
        environment.setenv("PYTHONPATH", str(HERE), prepend=os.pathsep)
        created = builder.config(map=settings).getOrCreate()
    created.sparkContext.setLogLevel("ERROR")
    created.dataSource.register(StuntbrokerDataSource)
    yield created
    jvm = SparkContext._gateway.proc  # type: ignore[union-attr]
    assert jvm.poll() is None, f"the JVM has ended before its tests did, with {jvm.poll()}"
    created.stop()


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """Yield the session with the faulty data source registered, and without logging, as its errors are intended."""
    from faults_query import prepare

    spark.sparkContext.setLogLevel("OFF")
    yield prepare(spark)
    spark.sparkContext.setLogLevel("ERROR")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Yield a broker that tests may kill, with its jobs; at the end, the audit of its folder must find no fault."""
    from faults_query import World, findings
    from live_broker import LiveBroker

    folder = tmp_path_factory.mktemp("faults")
    with LiveBroker(folder / "data") as created:
        yield World(folder, created, folder / "data")
        created.kill()
        assert findings(folder / "data") == []


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveBroker]:
    from live_broker import LiveBroker

    with LiveBroker(tmp_path_factory.mktemp("broker")) as created:
        yield created


@pytest.fixture(scope="module")
def cluster(broker: LiveBroker) -> Iterator[Cluster]:
    from stuntbroker.client.commands.cluster import Cluster

    with Cluster([broker.address]) as created:
        yield created
