"""Every code block of README.md runs as printed, except that the broker's address is replaced by that of the test."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jars
import pytest
from confluent_kafka import Consumer

from stuntbroker.cli.data_folder.audit_spark import SparkError, need_java
from tests.kit.brokers.kafka_broker import class_path, java_tool
from tests.kit.processes.process import serving
from tests.kit.programs.go_tool import go_tool
from tests.kit.programs.programs import go_program
from tests.spark.spark_cluster import java_options

ROOT = Path(__file__).parents[2]
PRINTED = "localhost:9092"
BLOCKS = re.findall(
    r"^```(\w*)\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
)
STEP_S_MAX = 300

# The first run fetches modules and jars, and compiles.
pytestmark = pytest.mark.timeout(600)


def block(language: str, *, first_line: str) -> str:
    """Return the only block of a language that starts with this line."""
    (actual,) = [text for each, text in BLOCKS if each == language and text.startswith(first_line)]
    return str(actual)


@pytest.fixture
def address() -> Iterator[str]:
    with serving() as broker:
        yield "{}:{}".format(*broker.address)


def run(command: list[str], folder: Path, **variables: str) -> str:
    """Run a command, which must succeed; return its standard output."""
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"} | variables
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=STEP_S_MAX)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def save(text: str, path: Path, address: str) -> None:
    assert PRINTED in text
    path.write_text(text.replace(PRINTED, address), encoding="utf-8")


def committed_payment(address: str) -> bytes | None:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "test", "auto.offset.reset": "earliest"})
    consumer.subscribe(["payments"])
    message = consumer.poll(60)
    consumer.close()
    assert message is not None
    return message.value()


def test_every_block_is_run_here() -> None:
    first_lines = [(language, text.splitlines()[0]) for language, text in BLOCKS]

    assert sorted(first_lines) == sorted([
        ("", "make run"), ("", first_line_of_make_with_options()), ("python", "import asyncio"), ("xml", "<dependency>"),
        ("java", "import java.util.Properties;"), ("go", "package main"), ("", "go mod init payments"),
        ("python", "import stuntbroker"), ("python", "import os, sys"),
        ("", "python3 -m venv .venv"),
        ("", "stuntbroker txn list --running-longer-than-ms 60000"), ("", "make test"),
    ])  # fmt: skip


def first_line_of_make_with_options() -> str:
    return block("", first_line="make run ARGS=").splitlines()[0]


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_the_make_targets_exist_and_the_options_are_accepted(tmp_path: Path) -> None:
    options, help_line = block("", first_line="make run ARGS=").splitlines()
    for line in ("make run", "make test", options):
        run([*shlex.split(line), "--dry-run"], ROOT)
    program, *arguments = shlex.split(help_line)
    assert program == ".venv/bin/stuntbroker"
    assert "--data-dir" in run([sys.executable, "-m", "stuntbroker", *arguments], tmp_path)
    (given,) = re.findall('ARGS="(.*)"', options)
    with serving(*shlex.split(given.replace("--port 19092", "").replace("./data", str(tmp_path / "data")))):
        assert (tmp_path / "data").is_dir()


def test_aiokafka(address: str, tmp_path: Path) -> None:
    save(block("python", first_line="import asyncio"), tmp_path / "payments.py", address)

    assert run([sys.executable, "payments.py"], tmp_path) == "b'42 EUR'\n"


def test_java(address: str, tmp_path: Path) -> None:
    save(block("java", first_line="import java.util.Properties;"), tmp_path / "Payments.java", address)

    run([java_tool("java"), "-cp", class_path(), "Payments.java"], tmp_path)

    assert committed_payment(address) == b"42 EUR"


def test_the_dependency_of_java_is_the_client_that_is_tried() -> None:
    words = re.findall(r"<(\w+)>([\w.-]+)<", block("xml", first_line="<dependency>"))

    assert words == [("groupId", "org.apache.kafka"), ("artifactId", "kafka-clients"), ("version", jars.KAFKA_VERSION)]


def test_go(address: str, tmp_path: Path) -> None:
    go = go_tool()
    go_program()  # Compile the same packages first, or wait for a process that is compiling them.
    save(block("go", first_line="package main"), tmp_path / "main.go", address)

    for line in block("", first_line="go mod init").splitlines():
        program, *arguments = shlex.split(line)
        assert program == "go"
        run([go, *arguments], tmp_path)

    assert committed_payment(address) == b"42 EUR"


def test_the_first_test(tmp_path: Path) -> None:
    (tmp_path / "test_payments.py").write_text(block("python", first_line="import stuntbroker"), encoding="utf-8")
    _, install, test = block("", first_line="python3 -m venv .venv").splitlines()
    assert install.split()[-3:] == ["path/to/stuntbroker", "pytest", "confluent-kafka"]
    assert test.startswith(".venv/bin/python ")

    assert "3 passed" in run([sys.executable, *shlex.split(test)[1:]], tmp_path)


@pytest.mark.timeout(600)
def test_the_first_test_in_a_new_environment(tmp_path: Path) -> None:
    """Follows the README like a user: pip builds the wheel and downloads the dependencies from the package index."""
    (tmp_path / "test_payments.py").write_text(block("python", first_line="import stuntbroker"), encoding="utf-8")
    commands = block("", first_line="python3 -m venv .venv").replace("python3 ", f"{shlex.quote(sys.executable)} ")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "PYTHONPATH"))}

    for command in commands.replace("path/to/stuntbroker", shlex.quote(str(ROOT))).splitlines():
        done = subprocess.run(shlex.split(command), cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    assert "3 passed" in done.stdout


def test_spark(address: str, tmp_path: Path) -> None:
    try:
        need_java()
    except SparkError as fault:
        pytest.skip(str(fault))
    save(block("python", first_line="import os, sys"), tmp_path / "shouting.py", address)

    shown = run([sys.executable, "shouting.py"], tmp_path, JDK_JAVA_OPTIONS=java_options())

    assert sorted(re.findall(r"^\| *(\w+)\|$", shown, re.MULTILINE)) == ["ONE", "TWO", "value"]


def test_transactions_from_the_command_line(address: str, tmp_path: Path) -> None:
    save(block("python", first_line="import asyncio"), tmp_path / "payments.py", address)
    run([sys.executable, "payments.py"], tmp_path)

    for line in block("", first_line="stuntbroker txn").splitlines():
        program, *arguments = shlex.split(line)
        assert program == "stuntbroker"
        run([sys.executable, "-m", "stuntbroker", *arguments, "--bootstrap", address], tmp_path)
