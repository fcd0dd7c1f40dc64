"""Kafka commands in scripts, compose files and health checks: properties other than the output that these rely on."""

from __future__ import annotations

import builtins
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stuntbroker.cli.main import run
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.groups import committed_offsets
from stuntbroker.client.commands.producing import NewRecord, produce
from stuntbroker.protocol.addresses import parse_bootstrap
from tests.kit.processes.process import DEADLINE_S, serving, until

IMAGE = Path(__file__).parents[3] / "docker" / "image"
needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with serving("--topic", "t:1") as broker:
        yield f"127.0.0.1:{broker.address[1]}"


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "stuntbroker", *words]


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


def test_a_command_waits_for_a_broker_that_starts_after_it() -> None:
    port = free_port()
    address = f"PLAINTEXT://127.0.0.1:{port}"
    create = command("kafka-topics", "--bootstrap-server", address, "--create", "--topic", "late")
    with subprocess.Popen(create, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as creating:
        assert creating.stderr is not None and creating.stdout is not None
        assert "Connection refused; trying again for 60 s" in creating.stderr.readline()
        serve = command("serve", "--port", str(port))
        with subprocess.Popen(serve, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as broker:
            assert creating.stdout.read() == "Created topic late.\n"
            assert creating.wait(DEADLINE_S) == 0
            broker.terminate()


def test_the_console_consumer_follows_its_client_properties_file(
    bootstrap: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    for value, end in (("aborted", "--abort"), ("committed", "--json")):
        assert run(["produce", "tx", value, "--transactional-id", "id", end, "--bootstrap", bootstrap]) == 0
    (tmp_path / "client.properties").write_text("isolation.level=read_committed\ngroup.id=from-file\n")
    words = ["--bootstrap-server", bootstrap, "--topic", "tx", "--from-beginning", "--max-messages", "1"]
    capfdbinary.readouterr()

    assert run(["kafka-console-consumer", *words, "--consumer.config", str(tmp_path / "client.properties")]) == 0
    assert capfdbinary.readouterr().out == b"committed\n"
    with Cluster(parse_bootstrap(bootstrap)) as cluster:
        assert [each.offset for each in committed_offsets(cluster, "from-file").values()] != []


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("kafka-console-consumer --topic t --consumer.config /nowhere", "/nowhere: No such file or directory"),
        ("kafka-topics --list --command-config /nowhere", "/nowhere: No such file or directory"),
        ("kafka-console-consumer --topic t --consumer-property isolation.level=none", "Invalid value none"),
        ("kafka-console-producer --topic t --producer-property acks=banana", "Invalid value banana"),
        ("kafka-console-consumer --topic t --formatter my.Formatter", "the formatter my.Formatter is not supported"),
        ("kafka-console-consumer --topic t --value-deserializer my.Avro", "the deserializer my.Avro is not supported"),
        ("kafka-topics --create --topic t --partitions 0", "must be a whole number from 1"),
        ("kafka-topics --create --topic t --replication-factor 0", "must be a whole number from 1"),
        ("kafka-topics --alter --topic t --partitions 3 --config a=b", "can't be used with option"),
    ],
)
def test_invalid_and_unsupported_arguments_are_not_ignored(
    words: str, text: str, bootstrap: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name, *others = words.split()
    assert run([name, *others, "--bootstrap-server", bootstrap]) == 1
    assert text in capsys.readouterr().err


def test_numbers_are_shown_by_their_deserializer(bootstrap: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    with Cluster(parse_bootstrap(bootstrap)) as cluster:
        produce(cluster, "numbers", [NewRecord(struct.pack(">i", -7), struct.pack(">q", 42), (), None)])
    words = ["--bootstrap-server", bootstrap, "--topic", "numbers", "--from-beginning", "--max-messages", "1"]
    serialization = "org.apache.kafka.common.serialization"
    shown = ["--property", "print.key=true", "--key-deserializer", f"{serialization}.IntegerDeserializer"]
    shown += ["--property", f"value.deserializer={serialization}.LongDeserializer"]

    assert run(["kafka-console-consumer", *words, *shown]) == 0
    assert capfdbinary.readouterr().out == b"-7\t42\n"
    assert run(["kafka-console-consumer", *words, "--formatter", "org.x.NoOpMessageFormatter"]) == 0
    assert capfdbinary.readouterr().out == b""


def test_sigterm_ends_a_consumer_even_when_the_broker_does_not_respond() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with subprocess.Popen(command("consume", "t", "--bootstrap", address)) as consumer:
            accepted, _ = silent.accept()
            with accepted:
                consumer.send_signal(signal.SIGTERM)
                assert consumer.wait(DEADLINE_S) == 128 + signal.SIGTERM


@pytest.mark.parametrize("name", ["kafka-console-consumer", "consume"])
def test_a_consumer_that_is_ended_by_sigterm_has_committed_what_it_printed(name: str, bootstrap: str) -> None:
    topic, group = f"ended-{name}", f"group-of-{name}"
    with Cluster(parse_bootstrap(bootstrap)) as cluster:
        produce(cluster, topic, [NewRecord(None, value, (), None) for value in (b"a", b"b", b"c")])
        if name == "consume":
            words = command("consume", topic, "--group", group, "--follow", "--bootstrap", bootstrap)
        else:
            words = command(name, "--topic", topic, "--group", group, "--from-beginning")
            words += ["--bootstrap-server", bootstrap]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as consumer:
            assert consumer.stdout is not None
            assert [consumer.stdout.readline() for _ in range(3)] == [b"a\n", b"b\n", b"c\n"]
            consumer.send_signal(signal.SIGTERM)
            assert consumer.wait(DEADLINE_S) == 128 + signal.SIGTERM
        assert [each.offset for each in committed_offsets(cluster, group).values()] == [3]


def test_kafka_server_start_runs_the_broker_with_its_properties(tmp_path: Path) -> None:
    (tmp_path / "server.properties").write_text("num.partitions=3\nlisteners=PLAINTEXT://127.0.0.1:0\n")
    environment = os.environ | {"KAFKA_LOG_DIRS": str(tmp_path / "data")}
    start = command("kafka-server-start", str(tmp_path / "server.properties"), "--override", "num.partitions=5")
    with subprocess.Popen(start, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as broker:
        assert broker.stdout is not None
        address = broker.stdout.readline().split("kafka=")[1].split()[0]
        described = command("config", "describe", "--broker", "1", "--bootstrap", address, "--json")
        done = subprocess.run(described, capture_output=True, text=True, check=True)
        broker.terminate()
        broker.communicate(timeout=DEADLINE_S)
    assert '"num.partitions"' in done.stdout and '"value": "5"' in done.stdout


def test_the_start_script_of_kafka_may_leave_the_broker_in_the_background(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    class Noted(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *given: Any, **options: Any) -> None:
            super().__init__(*given, **options)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Noted)
    monkeypatch.setenv("LOG_DIR", str(tmp_path / "logs"))
    monkeypatch.setenv("KAFKA_LOG_DIRS", str(tmp_path / "data"))
    (tmp_path / "server.properties").write_text("listeners=PLAINTEXT://127.0.0.1:0\n")

    assert run(["kafka-server-start.sh", "-daemon", str(tmp_path / "server.properties")]) == 0

    (broker,) = started
    log = tmp_path / "logs" / "kafkaServer.out"
    until(lambda: "Kafka Server started" in log.read_text(), "the broker in the background is not ready")
    assert os.getsid(broker.pid) == broker.pid  # Its session survives the terminal.
    broker.terminate()
    assert broker.wait(DEADLINE_S) == 0
    monkeypatch.setenv("LOG_DIR", str(log))
    assert run(["kafka-server-start.sh", "-daemon"]) == 1


@pytest.mark.parametrize("has_proc", [True, False], ids=["proc", "ps"])
def test_the_stop_script_of_kafka_ends_the_broker_of_the_container_and_no_other_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], has_proc: bool
) -> None:
    def without_proc(path: Any, *args: Any, **options: Any) -> Any:
        if str(path).startswith("/proc/"):
            raise FileNotFoundError(path)
        return opened(path, *args, **options)

    opened = builtins.open
    if not has_proc:  # As on macOS.
        monkeypatch.setattr(builtins, "open", without_proc)
    ready = tmp_path / "ready"
    monkeypatch.setattr("stuntbroker.cli.serving.container.READY_FILES", (str(ready),))
    with serving("--ready-file", str(ready)) as broker:
        text = ready.read_text()
        assert run(["kafka-server-stop.sh"]) == 0
        assert broker.wait()[0] == 0

    for pid in (broker.process.pid, os.getpid()):  # An ended process, and one that is no broker.
        ready.write_text(json.dumps(json.loads(text) | {"pid": pid}))
        assert run(["kafka-server-stop"]) == 1
        assert capsys.readouterr().out == "No kafka server to stop\n"


@needs_bash
def test_nc_says_whether_a_port_is_open(bootstrap: str) -> None:
    def status(*words: str) -> int:
        return subprocess.run(["bash", IMAGE / "nc", *words], capture_output=True, check=False).returncode

    host, port = bootstrap.split(":")
    assert status("-z", host, port) == status("-vz", "-w", "2", host, port) == status("-zw", "2", host, port) == 0
    assert status("-z", host, str(free_port())) != 0
    assert status("-l", "9000") == status(host, port) == 2


@needs_bash
def test_cub_waits_for_a_broker(bootstrap: str, tmp_path: Path) -> None:
    ours = tmp_path / "stuntbroker"
    ours.write_text(f'#!/bin/sh\nexec {sys.executable} -m stuntbroker "$@"\n')
    ours.chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}

    def status(*words: str) -> int:
        return subprocess.run(["bash", IMAGE / "cub", *words], env=environment, capture_output=True).returncode

    assert status("kafka-ready", "-b", f"PLAINTEXT://{bootstrap}", "1", "20") == 0
    assert status("kafka-ready", "-b", f"127.0.0.1:{free_port()}", "1", "1") == 1
    assert status("zk-ready", "localhost:2181", "1") == 1


@needs_bash
def test_cub_gives_up_on_an_address_that_drops_packets() -> None:
    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for queued in (first, second):  # The kernel drops further connections, as this queue is never accepted.
            queued.setblocking(False)
            queued.connect_ex(full.getsockname())
        command = ["bash", IMAGE / "cub", "zk-ready", f"127.0.0.1:{full.getsockname()[1]}", "1"]
        # The deadline is far below the kernel's time-out of two minutes.
        assert subprocess.run(command, capture_output=True, timeout=DEADLINE_S).returncode == 1
