"""Run Apache Kafka as a process, for tests that compare our broker with it.

One KRaft node from the jars that `tools/jars.py` brings. Needs a JDK, 17 or later.
"""

import contextlib
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.kit.processes.class_archive import archived
from tests.kit.processes.free_ports import free_ports
from tests.kit.processes.process import serving

REPOSITORY = Path(__file__).parents[3]
JAVA_VERSION_MIN = 17
READY_S_MAX = 90
STOP_S_MAX = 20
POLL_S = 0.05
CLUSTER_ID = "Stuntbroker-peer-kafkaA"

LOG4J = """\
appender.stdout.type=Console
appender.stdout.name=STDOUT
appender.stdout.layout.type=PatternLayout
appender.stdout.layout.pattern=[%d] %p %m (%c)%n
rootLogger.level=WARN
rootLogger.appenderRef.stdout.ref=STDOUT
"""


@cache
def java_tool(name: str) -> str:
    """The path of `java` or `javac`, from JAVA_HOME or PATH. Skips the test where it is missing or old."""
    home = os.environ.get("JAVA_HOME")
    path = shutil.which(name, path=str(Path(home, "bin")) if home else None)
    if path is None:
        pytest.skip(f"needs a JDK {JAVA_VERSION_MIN} or later: there is no {name}")
    answer = subprocess.run([path, "-version"], capture_output=True, text=True, check=True)
    version = re.search(r'(?:version "|javac )(\d+)', answer.stdout + answer.stderr)
    if version is None or int(version[1]) < JAVA_VERSION_MIN:
        pytest.skip(f"needs a JDK {JAVA_VERSION_MIN} or later: {path} is {version and version[1]}")
    return path


@cache
def class_path() -> str:
    """Apache Kafka's jars, broker, tools and clients, as an argument for `java -cp`."""
    command = [sys.executable, str(REPOSITORY / "tools" / "jars.py")]
    answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return str(Path(answer.stdout.strip(), "*"))


QUICK_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""JVM options for processes that run for seconds."""


def kafka_java(*more: str) -> list[str]:
    """`java` for one of Apache Kafka's commands, up to the name of its class; `more` are other options of the JVM."""
    start = [java_tool("java"), *QUICK_START, "-Xmx256m"]
    archive = archived("kafka-tools", _jars(), lambda options: _train_tools([*start, *options, "-cp", class_path()]))
    return [*start, *archive, *more, "-cp", class_path()]


def _jars() -> str:
    return f"{java_tool('java')} {class_path()} {' '.join(sorted(os.listdir(Path(class_path()).parent)))}"


def _train_tools(java: list[str]) -> None:
    command = [*java, "org.apache.kafka.tools.TopicCommand", "--list", "--bootstrap-server"]
    with serving() as broker:
        subprocess.run([*command, "{}:{}".format(*broker.address)], capture_output=True, timeout=READY_S_MAX)


def _train_broker(java: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder, _kafka(Path(folder), java, None, {}, {}):
        pass


@contextlib.contextmanager
def apache_kafka(
    data_dir: Path,
    *,
    transaction_version: int | None = None,
    listeners: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
    **properties: str | int,
) -> Iterator[str]:
    """Run Apache Kafka on free ports and give its "host:port". Its output goes to `data_dir`/kafka.log.

    A property is written with its dots as underscores: `group_initial_rebalance_delay_ms=0`. Started again with the
    same `data_dir`, it continues with the existing data. `settings` are properties by their own names; `listeners` are further
    ones: `{"SASL://127.0.0.1:9093": "SASL_PLAINTEXT"}`. `transaction_version` is the cluster's feature level, Kafka's own
    default when None; it counts only when `data_dir` is new.
    """
    java = [java_tool("java"), *QUICK_START, "-Xmx512m"]
    java += archived("kafka-broker", _jars(), lambda options: _train_broker([*java, *options]))
    given = {name.replace("_", "."): str(value) for name, value in properties.items()} | dict(settings or {})
    with _kafka(data_dir, java, transaction_version, given, listeners or {}) as bootstrap:
        yield bootstrap


@contextlib.contextmanager
def _kafka(
    data_dir: Path,
    java: list[str],
    transaction_version: int | None,
    given: Mapping[str, str],
    listeners: Mapping[str, str],
) -> Iterator[str]:
    port, controller_port = free_ports(2)
    data_dir.mkdir(parents=True, exist_ok=True)
    config = data_dir / "server.properties"
    settings = _settings(port, controller_port, data_dir / "logs")
    for listener, protocol in listeners.items():
        for name in ("listeners", "advertised.listeners"):
            settings[name] += f",{listener}"
        settings["listener.security.protocol.map"] += f",{listener.partition('://')[0]}:{protocol}"
    settings |= given
    config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    log4j = data_dir / "log4j2.properties"
    log4j.write_text(LOG4J)
    run = [*java, f"-Dlog4j2.configurationFile={log4j}", "-cp", class_path()]
    with (data_dir / "kafka.log").open("ab") as log:
        if not (data_dir / "logs" / "meta.properties").exists():
            storage_tool = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(config)]
            if transaction_version is not None:
                storage_tool += ["--feature", f"transaction.version={transaction_version}"]
            format_run = [word for word in run if not word.startswith("-XX:ArchiveClassesAtExit")]
            subprocess.run([*format_run, *storage_tool], stdout=log, stderr=log, check=True)
        process = subprocess.Popen([*run, "kafka.Kafka", str(config)], stdout=log, stderr=log)
    try:
        _wait_until_ready(process, port)
        yield f"127.0.0.1:{port}"
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> int:
    """Terminate a process, or kill it after STOP_S_MAX; return its exit status."""
    process.terminate()
    try:
        return process.wait(STOP_S_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _settings(port: int, controller_port: int, log_dir: Path) -> dict[str, str]:
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(log_dir),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        # The default of 50 partitions each would only be slower.
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        "group.initial.rebalance.delay.ms": "0",
    }


def _wait_until_ready(process: subprocess.Popen[bytes], port: int) -> None:
    """Wait until Kafka answers ApiVersions, as it listens long before it is ready."""
    deadline = time.monotonic() + READY_S_MAX
    while not _answers(port):
        if process.poll() is not None:
            raise RuntimeError(f"Apache Kafka ended with status {process.returncode} instead of starting")
        if time.monotonic() > deadline:
            raise TimeoutError(f"Apache Kafka was not ready within {READY_S_MAX} s")
        time.sleep(POLL_S)


def _answers(port: int) -> bool:
    api_versions = struct.pack(">hhih", 18, 0, 1, -1)  # Key, version, correlation id, no client id.
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(struct.pack(">i", len(api_versions)) + api_versions)
            return bool(connection.recv(1))
    except OSError:
        return False
