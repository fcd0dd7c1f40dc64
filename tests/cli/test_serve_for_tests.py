"""Options of `serve` for tests: topics that exist from the start, and an end together with the parent process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.topics import describe_topics
from stuntbroker.protocol.addresses import parse_bootstrap
from tests.kit.processes.process import COMMAND, DEADLINE_S, run, serving, until

PARENT = """
import os, subprocess, sys, time
broker = subprocess.Popen([*{command!r}, "serve", "--port", "0", "--exit-with-parent"], stdin={stdin}, stdout=subprocess.PIPE)
print(broker.stdout.readline().decode().split("kafka=")[1].strip(), broker.pid, flush=True)
time.sleep(60)
"""


def test_topics_of_the_command_line_exist_when_the_broker_is_ready(tmp_path: Path) -> None:
    words = [
        "--topic",
        "orders:3",
        "--topic",
        "plain",
        "--topic",
        "last:1:cleanup.policy=[compact,delete]:retention.ms=60000",
    ]
    for _ in range(2):  # At the second start, the topics exist.
        with serving("--data-dir", str(tmp_path / "data"), *words) as broker:
            with Cluster([*parse_bootstrap(f"127.0.0.1:{broker.address[1]}")], 5) as cluster:
                topics = {each.name: len(each.partitions) for each in describe_topics(cluster)}
            described = run("topic", "describe", "last", "--bootstrap", f"127.0.0.1:{broker.address[1]}").stdout
            assert broker.end()[0] == 0
        assert topics == {"orders": 3, "plain": 1, "last": 1}
        assert "cleanup.policy=compact,delete, retention.ms=60000" in described


@pytest.mark.parametrize(
    ("topic", "message"),
    [
        ("a:x", "--topic 'a:x': it must be NAME, NAME:PARTITIONS or NAME:PARTITIONS:KEY=VALUE"),
        ("a:1:b", "--topic 'a:1:b': 'b' must be KEY=VALUE"),
        (":1", "--topic ':1': it must be NAME"),
        ("a b", "topic 'a b': Topic name is invalid"),
        ("a:0", "topic 'a': Number of partitions was set to an invalid non-positive value."),
        ("a:1:cleanup=all", "topic 'a': Unknown topic config name: cleanup"),
    ],
)
def test_a_topic_that_cannot_be_created_refuses_the_start(topic: str, message: str) -> None:
    done = run("serve", "--port", "0", "--topic", topic)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].startswith(f"stuntbroker: {message}")


@pytest.mark.parametrize("stdin", ["subprocess.PIPE", "subprocess.DEVNULL"])
def test_a_broker_ends_with_its_parent_even_when_that_was_killed(stdin: str) -> None:
    """The broker notices the closed pipe or, without a pipe, gets a signal from the kernel."""
    code = PARENT.format(command=COMMAND, stdin=stdin)
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    bootstrap, pid = parent.stdout.readline().split()
    assert run("wait", "--bootstrap", bootstrap, "--timeout", "5").returncode == 0

    parent.kill()
    parent.communicate(timeout=DEADLINE_S)  # Wait until the broker, which shares its stderr, ends.

    until(lambda: not _is_running(int(pid)), "the broker to end")
    assert run("wait", "--bootstrap", bootstrap, "--timeout", "0").returncode == 1


def test_a_broker_ends_when_its_standard_input_is_closed() -> None:
    command = [*COMMAND, "serve", "--port", "0", "--exit-with-parent"]
    broker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert broker.stdin is not None and broker.stdout is not None
    assert broker.stdout.readline().startswith(b"ready ")
    broker.stdin.write(b"anything is ignored\n")
    broker.stdin.flush()
    assert broker.poll() is None

    broker.stdin.close()

    assert broker.wait(DEADLINE_S) == 0
    broker.stdout.close()


def test_a_broker_outlives_its_parent_without_exit_with_parent() -> None:
    code = PARENT.format(command=COMMAND, stdin="subprocess.PIPE").replace(', "--exit-with-parent"', "")
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert parent.stdout is not None
    bootstrap, pid = parent.stdout.readline().split()
    try:
        parent.kill()
        parent.wait(DEADLINE_S)
        assert run("wait", "--bootstrap", bootstrap, "--timeout", "5").returncode == 0
    finally:
        os.kill(int(pid), signal.SIGTERM)
        parent.stdout.close()


def _is_running(pid: int) -> bool:
    """Return whether the process runs. A zombie does not count, as a container may have no process that reaps it."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_broker_serves_requests_when_its_standard_error_has_no_reader() -> None:
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "stuntbroker", "serve", "--port", "0", "--topic", "first:1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=writing, text=True)
    try:
        os.close(reading)
        assert process.stdout is not None
        address = process.stdout.readline().split("kafka=")[1].split()[0]
        for words in ("topic create t", "config set --topic t retention.ms=1000", "topic delete t"):
            assert run(*words.split(), "--bootstrap", address).returncode == 0, words
    finally:
        process.terminate()
        process.communicate()
        os.close(writing)
    assert process.returncode == 0


FORKED = """
import asyncio, socket, sys
from stuntbroker.cli.serving.parent import set_fork_server, watch_parent

async def main():
    ended = asyncio.Event()
    set_fork_server(int(sys.argv[1]), socket.socket())
    watch_parent(asyncio.get_running_loop(), ended.set)
    await ended.wait()

asyncio.run(main())
"""


@pytest.mark.parametrize("is_reused", [False, True], ids=["its id is free", "another process has its id"])
def test_a_forked_broker_ends_if_its_fork_server_was_killed_before_it_was_watched(is_reused: bool) -> None:
    killed = subprocess.Popen([sys.executable, "-c", ""])
    killed.wait(DEADLINE_S)
    server_id = os.getppid() if is_reused else killed.pid
    command = [sys.executable, "-c", FORKED, str(server_id)]

    assert subprocess.run(command, stdin=subprocess.DEVNULL, timeout=DEADLINE_S).returncode == 0
