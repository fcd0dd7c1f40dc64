"""The code blocks of docs/how-to run, or equal the programs that the container tests run."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import random
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

import stuntbroker
from stuntbroker.cli.serving.environment import read_environment
from stuntbroker.control.http.api import OPERATIONS
from stuntbroker.control.observation.fence_log import ADVICE
from stuntbroker.control.plan import PLANS
from stuntbroker.fixture.control import ControlClient
from tests.kit.keystore_files import write_keystores
from tests.kit.processes.postgres import postgres_server
from tests.kit.processes.process import DEADLINE_S, PYTEST, serving

ROOT = Path(__file__).parents[2]
HOW_TO = ROOT / "docs" / "how-to"
MATRIX = ROOT / "tests" / "docker" / "testcontainers"


def blocks(page: str, language: str) -> list[str]:
    text = (HOW_TO / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def run(command: list[str], folder: Path, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command. If it does not end, the test fails with the stacks of its threads (Python programs only)."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command,
        cwd=folder,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        text=True,
        env=os.environ | {"PYTHONFAULTHANDLER": "1"},
    )
    try:
        out, err = process.communicate(text, 3 * DEADLINE_S)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)
        out, err = process.communicate(timeout=DEADLINE_S)
        raise AssertionError(f"{command} did not end:\n{out}\n{err}") from None
    return subprocess.CompletedProcess(command, process.returncode, out, err)


BLOCKS = {
    "acls.md": {"python": 1, "sh": 1},
    "client.md": {"python": 8},
    "commands.md": {"": 1},
    # These tests check the variables; tests/docker runs the blocks.
    "containers.md": {"yaml": 3},
    "fail-on-purpose.md": {"python": 13, "sh": 2},
    # These tests compare the blocks with the programs of tests/frameworks; tests/spark runs the block about Spark.
    "jvm.md": {"sh": 1, "java": 3, "properties": 2, "python": 1},
    "outbox.md": {"sql": 1, "python": 1},
    "pytest.md": {"python": 4},
    "security.md": {"python": 2, "yaml": 1, "properties": 1, "sh": 1},
    "why-was-i-fenced.md": {"python": 1},
}
"""Page -> language -> number of blocks. A test of this file runs each block, except where a comment gives the reason."""


def test_every_block_of_every_page_is_tried() -> None:
    shown = {
        path.name: dict(Counter(re.findall(r"^```(\w*)\n(?:.*?)^```$", path.read_text(encoding="utf-8"), re.M | re.S)))
        for path in HOW_TO.iterdir()
    }

    assert shown == BLOCKS


def test_the_spring_variable_is_that_of_the_tested_program() -> None:
    (line,) = blocks("jvm.md", "sh")
    name, _, command = line.partition("=")

    assert f'"{name}": bootstrap' in (ROOT / "tests" / "frameworks" / "test_frameworks.py").read_text(encoding="utf-8")
    assert command == "localhost:9092 mvn test\n"


def test_the_tests_of_the_pytest_page_pass(tmp_path: Path) -> None:
    first, second, of_a_module, script = blocks("pytest.md", "python")
    (tmp_path / "test_page.py").write_text(first + second, encoding="utf-8")
    (tmp_path / "test_module.py").write_text(of_a_module, encoding="utf-8")
    (tmp_path / "script.py").write_text(script, encoding="utf-8")

    done = run([sys.executable, "-m", *PYTEST, "-q"], tmp_path)
    assert "5 passed" in done.stdout, done.stdout + done.stderr

    done = run([sys.executable, "script.py"], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("127.0.0.1:")
    assert "Ran 1 test" in done.stderr


def test_the_relay_of_the_outbox_page_sends_every_row_once_however_often_it_is_killed(tmp_path: Path) -> None:
    (page,), (tables,) = blocks("outbox.md", "python"), blocks("outbox.md", "sql")
    code = page.partition("\n\nif __name__ ==")[0]  # Replace the main program of the page.
    main = (
        "import sys\nwith psycopg.connect(sys.argv[2]) as database:\n    relay(sys.argv[1], database, lambda: True)\n"
    )
    chance, rows = random.Random(939), 3000
    with (
        stuntbroker.broker({"transaction.two.phase.commit.enable": True}, topics={"events": 1}) as broker,
        postgres_server(tmp_path) as address,
        psycopg.connect(address, autocommit=True) as database,
    ):
        database.execute(tables)
        database.execute(
            "INSERT INTO outbox (topic, value)"
            f" SELECT 'events', convert_to(number::text, 'UTF8') FROM generate_series(1, {rows}) AS number"
        )
        left = rows
        while left:
            goal = max(0, left - chance.randrange(1, 750))
            relay = subprocess.Popen([sys.executable, "-c", code + main, broker.bootstrap, address])
            try:
                while left > goal and relay.poll() is None:
                    (left,) = database.execute("SELECT count(*) FROM outbox").fetchone() or (0,)
            finally:
                relay.kill()
                relay.wait()
            assert relay.returncode == -signal.SIGKILL
        functions: dict[str, Any] = {}
        exec(compile(code, "outbox.md", "exec"), functions)
        with psycopg.connect(address) as connection:
            functions["relay"](broker.bootstrap, connection, lambda: False)

        broker.assert_committed("events", [b"%d" % number for number in range(1, rows + 1)])


async def test_the_functions_and_the_test_of_the_page_about_the_client_work(tmp_path: Path) -> None:
    *functions, test = blocks("client.md", "python")
    (tmp_path / "test_page.py").write_text(test, encoding="utf-8")
    options = ["-q", "-o", "asyncio_mode=auto"]
    done = run([sys.executable, "-m", *PYTEST, *options], tmp_path)
    assert "1 passed" in done.stdout, done.stdout + done.stderr

    page: dict[str, Any] = {}
    for block in functions:
        own: dict[str, Any] = {}  # Two blocks import different classes under one name.
        exec(compile(block, "client.md", "exec"), own)
        page |= own
    rounds = itertools.count()
    with stuntbroker.broker(topics={"orders": 2, "bills": 1, "payments": 1, "report": 2}) as broker:
        await page["write"](broker.bootstrap)
        assert sorted(broker.values("orders")) == [b"order 0", b"order 1", b"order 2"]
        await page["process"](broker.bootstrap, lambda: next(rounds) < 30 and len(broker.values("bills")) < 3)
        broker.assert_committed("bills", [b"ORDER 0", b"ORDER 1", b"ORDER 2"])

        await asyncio.to_thread(page["write_blocking"], broker.bootstrap)
        assert b"order 5" in broker.values("orders")

        await page["write_many"](broker.bootstrap, ["a", "b", "c"])
        assert {b"a", b"b", b"c"} <= set(broker.values("orders"))
        await page["write_together"](broker.bootstrap)
        assert sorted(broker.values("report")) == [b"part 0", b"part 1"]

        with contextlib.closing(sqlite3.connect(tmp_path / "payments.db")) as database:
            await page["pay"](broker.bootstrap, database, [1, 2])
            await page["pay"](broker.bootstrap, database, [3])
            assert database.execute("SELECT amount FROM payments").fetchall() == [(1,), (2,), (3,)]
        broker.assert_committed("payments", [b"1", b"2", b"3"])


def test_the_tests_of_the_page_about_failures_pass(tmp_path: Path) -> None:
    (tmp_path / "test_page.py").write_text("".join(blocks("fail-on-purpose.md", "python")), encoding="utf-8")

    done = run([sys.executable, "-m", *PYTEST, "-q", "--stuntbroker-strict"], tmp_path)
    assert "15 passed" in done.stdout, done.stdout + done.stderr


def test_the_tests_of_the_page_about_fences_pass_and_its_table_has_every_cause(tmp_path: Path) -> None:
    (tmp_path / "test_page.py").write_text("".join(blocks("why-was-i-fenced.md", "python")), encoding="utf-8")
    text = (HOW_TO / "why-was-i-fenced.md").read_text(encoding="utf-8")
    rows = text.partition("| `cause` |")[2].partition("\n\n")[0]

    done = run([sys.executable, "-m", *PYTEST, "-q", "--stuntbroker-strict"], tmp_path)
    assert "4 passed" in done.stdout, done.stdout + done.stderr
    assert set(re.findall(r"^\| `(\w+)` \|", rows, re.MULTILINE)) == ADVICE.keys()


def test_the_test_of_the_page_about_nodes_passes(tmp_path: Path) -> None:
    (tmp_path / "test_page.py").write_text("".join(blocks("../nodes.md", "python")), encoding="utf-8")

    done = run([sys.executable, "-m", *PYTEST, "-q", "--stuntbroker-strict"], tmp_path)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_the_lines_of_the_page_about_failures_work_one_after_the_other(tmp_path: Path) -> None:
    curls, commands = blocks("fail-on-purpose.md", "sh")
    with serving("--control", "--topic", "payments") as broker:
        control = broker.line.split("control=")[1].strip()
        for line in curls.splitlines():
            words = shlex.split(line.replace("$CONTROL", control))
            path = next(word for word in words if word.startswith(control)).removeprefix(control)
            method = words[words.index("-X") + 1] if "-X" in words else "GET"
            client = ControlClient(control)
            if method == "POST":
                client.post(path, json.loads(words[words.index("-d") + 1]))
            else:
                client.get(path)
            client.close()
        for line in commands.splitlines():
            program, *words = shlex.split(line)
            assert program == "stuntbroker"
            done = run([sys.executable, "-m", "stuntbroker", *words, "--control", control], tmp_path)
            assert done.returncode == 0, (line, done.stderr)


def test_the_page_about_control_has_every_request_and_every_plan() -> None:
    text = (HOW_TO.parent / "control.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `((?:GET|POST|PUT|DELETE) /v1[^`]*)` \|", text, re.MULTILINE) == [
        f"{each.method} {each.path}" for each in OPERATIONS
    ]
    rows = text.partition("| plan |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `([\w-]+)` \| (.*) \|$", rows, re.MULTILINE) == [
        (name, plan["about"]) for name, plan in PLANS.items()
    ]


def test_the_options_of_the_pytest_page_are_those_of_the_plug_in() -> None:
    from stuntbroker.fixture.plugin import OPTIONS

    text = (HOW_TO / "pytest.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(--stuntbroker-[\w-]+)[^`]*` \| `(\w+)` \| `(\w+)` \|", text, re.MULTILINE)

    assert sorted(rows) == sorted((option.name, option.ini, option.variable) for option in OPTIONS)


def test_the_pytest_page_lists_the_members_of_the_broker_object() -> None:
    from stuntbroker.fixture.broker import Broker

    text = (HOW_TO / "pytest.md").read_text(encoding="utf-8")
    table = text.partition("| member of a broker object | meaning |")[2].partition("\n\n")[0]
    named = set(re.findall(r"`(\w+)(?:\(|`)", table))
    public = {name for name in dir(Broker) if not name.startswith("_")}

    assert {name for name in named if name not in ("bootstrap", "kill", "listeners")} <= public
    assert public - named <= {"cluster", "close", "forget_connections"}


def test_the_commands_of_the_page_about_commands_work_in_order(tmp_path: Path) -> None:
    (lines,) = blocks("commands.md", "")
    with serving() as broker:
        bootstrap = "{}:{}".format(*broker.address)
        said = {}
        for line in lines.splitlines():
            program, *words = shlex.split(line)
            assert program == "stuntbroker"
            done = run([sys.executable, "-m", "stuntbroker", *words, "--bootstrap", bootstrap], tmp_path)
            assert done.returncode == 0, (line, done.stderr)
            said[line] = done.stdout
    assert said["stuntbroker consume orders"].splitlines() == ["one", "two", "three"]


def test_the_tests_of_the_page_about_security_pass(tmp_path: Path) -> None:
    tests, fixture = blocks("security.md", "python")
    (tmp_path / "test_page.py").write_text(tests, encoding="utf-8")

    done = run([sys.executable, "-m", *PYTEST, "-q"], tmp_path)
    assert "2 passed" in done.stdout, done.stdout + done.stderr

    (tmp_path / "conftest.py").write_text(fixture, encoding="utf-8")
    (tmp_path / "test_page.py").write_text(
        "def test_it(stuntbroker): stuntbroker.create_topic('t')\n", encoding="utf-8"
    )
    write_keystores(tmp_path)
    (tmp_path / "trust.pem").rename(tmp_path / "authority.pem")
    settings = (
        "listeners=SASL_SSL://localhost:0",
        "sasl.enabled.mechanisms=SCRAM-SHA-256",
        "stuntbroker.users=alice:secret",
        f"ssl.keystore.location={tmp_path / 'server.pem'}",
    )
    with serving(*(word for each in settings for word in ("--set", each))) as broker:
        where = f"--stuntbroker-bootstrap=localhost:{broker.address[1]}"
        done = run([sys.executable, "-m", *PYTEST, "-q", where], tmp_path)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_the_test_of_the_page_about_acls_passes_whenever_the_client_learns_of_the_refusal(tmp_path: Path) -> None:
    (page,) = blocks("acls.md", "python")
    asking = f'producer.list_topics("audit", {DEADLINE_S})'  # After it, `produce` raises.
    knowing = re.sub(r'^( *)(producer\.produce\("audit")', rf"\1{asking}\n\1\2", page, flags=re.MULTILINE)
    (tmp_path / "test_page.py").write_text(page, encoding="utf-8")
    (tmp_path / "test_knowing.py").write_text(knowing, encoding="utf-8")

    done = run([sys.executable, "-m", *PYTEST, "-q"], tmp_path)
    assert "2 passed" in done.stdout, done.stdout + done.stderr


def test_the_commands_of_the_page_about_acls_work(tmp_path: Path) -> None:
    (commands,) = blocks("acls.md", "sh")
    authorizer = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    with serving("--set", authorizer, "--set", "super.users=User:ANONYMOUS") as broker:
        for line in commands.splitlines():
            words = [*shlex.split(line), "--bootstrap", "{}:{}".format(*broker.address)]
            done = run([sys.executable, "-m", *words], tmp_path)
            assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[0] == "deleted: User:bob may READ the TOPIC payments"


def test_the_commands_of_the_page_about_security_reach_the_broker_of_its_compose_file(tmp_path: Path) -> None:
    (properties,), (commands,), (compose,) = (blocks("security.md", each) for each in ("properties", "sh", "yaml"))
    (tmp_path / "client.properties").write_text(properties, encoding="utf-8")
    read = read_environment(yaml.safe_load(compose)["services"]["kafka"]["environment"])
    assert read.unknown == read.without_effect == []
    read.properties["listeners"] = "SASL_PLAINTEXT://127.0.0.1:0"
    del read.properties["advertised.listeners"]
    settings = [word for name, value in read.properties.items() for word in ("--set", f"{name}={value}")]
    with serving(*settings) as broker:
        address = "{}:{}".format(*broker.address)
        for line in commands.splitlines():
            program, *words = shlex.split(line.replace("localhost:9092", address))
            words = [program, *words] if program != "stuntbroker" else [*words, "--bootstrap", address]
            done = run([sys.executable, "-m", "stuntbroker", *words], tmp_path)
            assert done.returncode == 0, done.stderr
        assert done.stdout == "42 EUR\n"


def test_the_broker_accepts_every_variable_of_the_compose_and_ci_files() -> None:
    compose, actions, gitlab = (yaml.safe_load(text) for text in blocks("containers.md", "yaml"))
    environments = [
        compose["services"]["kafka"]["environment"],
        actions["jobs"]["test"]["services"]["kafka"]["env"],
        gitlab["test"]["variables"],
    ]
    for environment in environments:
        read = read_environment(environment)
        assert read.unknown == read.without_effect == []
        assert read.options["--topic"][0] == "orders:3"
    commands = [actions["jobs"]["test"]["steps"][-1]["run"], gitlab["test"]["script"][-1]]
    assert all(command.startswith("pytest --stuntbroker-bootstrap ") for command in commands)


@pytest.mark.parametrize(
    ("line", "program"),
    [
        ("new KafkaContainer(like(apache/kafka))", "java/Matrix.java"),
        ("new ConfluentKafkaContainer(like(confluentinc/cp-kafka))", "java/Matrix.java"),
        ("new RedpandaContainer(like(redpandadata/redpanda))", "java/Matrix.java"),
        ("KafkaContainer(IMAGE)", "python/matrix.py"),
        ("KafkaContainer(KRAFT_IMAGE).with_kraft()", "python/matrix.py"),
        ("RedpandaContainer(IMAGE)", "python/matrix.py"),
        ("kafka.Run(ctx, image", "go/main.go"),
        ("redpanda.Run(ctx, image", "go/main.go"),
        ("new KafkaContainer(kraft8Image)", "node/matrix.js"),
        ("new RedpandaContainer(IMAGE)", "node/matrix.js"),
        ("c.PortEndpoint(ctx, 9092/tcp, )", "go/main.go"),
        ("c.Exec(ctx, []string{stuntbroker, advertise, address})", "go/main.go"),
        ("`${c.getHost()}:${c.getMappedPort(9092)}`", "node/matrix.js"),
        ("c.exec([stuntbroker, advertise, address])", "node/matrix.js"),
    ],
)
def test_the_lines_for_testcontainers_are_those_of_the_programs_that_are_run(line: str, program: str) -> None:
    """They need an engine: `make containers` runs the programs."""
    line = line.replace("c.", "container.") if line.startswith(("c.", "`")) else line
    name, _, argument = line.partition("(")
    page = (HOW_TO / "containers.md").read_text(encoding="utf-8")

    assert line in re.sub(r"\bc\.", "container.", (MATRIX / program).read_text(encoding="utf-8")).replace('"', "")
    assert f"{name}(" in page
    if argument.startswith("like("):
        assert f'asCompatibleSubstituteFor("{argument[5:-2]}")' in page


@pytest.mark.parametrize(("kind", "count"), [("java", 3), ("properties", 2)])
def test_the_lines_for_the_jvm_are_those_of_the_programs_that_are_run(kind: str, count: int) -> None:
    """`make frameworks` runs the programs, with Maven."""
    suffixes = {"java": "*.java", "properties": "*.properties"}
    frameworks = HOW_TO.parent.parent / "tests" / "frameworks"
    programs = [path.read_text(encoding="utf-8") for path in sorted(frameworks.rglob(suffixes[kind]))]
    shown = blocks("jvm.md", kind)
    assert len(shown) == count
    for block in shown:
        lines = [line.strip() for line in block.splitlines()]
        assert any(all(line in program for line in lines) for program in programs), block
