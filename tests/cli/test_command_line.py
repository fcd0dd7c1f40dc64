"""The command line: exit statuses, one line on standard output, and errors as one helpful line on standard error."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from stuntbroker.cli.arguments import COMMANDS, SERVE_FLAGS, SERVE_OPTIONS, WAIT_FLAGS, WAIT_OPTIONS
from stuntbroker.cli.main import is_compiled
from stuntbroker.cli.serving.listening_advice import listening_advice
from stuntbroker.protocol.messages.api_versions_request import ApiVersionsRequest
from stuntbroker.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from stuntbroker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.kit.processes.process import COMMAND, DEADLINE_S, Peer, run, serving
from tests.kit.valid_requests import TOPIC, batch

SCREEN_LINES, SCREEN_COLUMNS = 30, 120
"""A common size of a terminal window."""
WRONG = {
    "no command": ([], "a command is missing"),
    "unknown command": (["fly"], "'fly'"),
    "help on an unknown command": (["help", "fly"], "'fly'"),
    "a word behind version": (["version", "fly"], "version takes no 'fly'"),
    "a misspelt command": (["topics"], "no command 'topics'; do you mean topic? There are serve,"),
    "a misspelt option": (["serve", "--prot", "1"], "unknown option '--prot'; do you mean --port? There are --host"),
    "the option of Kafka's commands": (["topic", "list", "--bootstrap-server", "b:1"], "do you mean --bootstrap?"),
    "an option like no other": (["serve", "--xyz"], "unknown option '--xyz'; there are --host"),
    "an option without its value": (["serve", "--port"], "--port needs a value"),
    "an option given twice": (["serve", "--port", "1", "--port=2"], "--port was given 2 times"),
    "a port that is no number": (["serve", "--port", "http"], "0 to 65535"),
    "a port that is too large": (["serve", "--port", "65536"], "0 to 65535"),
    "a negative port": (["serve", "--port=-1"], "0 to 65535"),
    "a durability that there is not": (["serve", "--durability", "none"], "process, power"),
    "a log format that there is not": (["serve", "--log-format", "xml"], "text, json"),
    "a log level that there is not": (["serve", "--log-level", "all"], "info, debug, warning, error"),
    "a setting without a value": (["serve", "--set", "num.partitions"], "KEY=VALUE"),
    "a setting without a name": (["serve", "--set", "=1"], "KEY=VALUE"),
    "two numbers of nodes": (
        ["serve", "--nodes", "3", "--set", "stuntbroker.nodes=2"],
        "--nodes 3 and stuntbroker.nodes=2 differ: give one of them",
    ),
    "a property that is no number": (["serve", "--set", "num.partitions=many"], "num.partitions: 'many'"),
    "a property out of its range": (["serve", "--set", "num.partitions=0"], "num.partitions: 0 is not in"),
    "a property of ours that there is not": (["serve", "--set", "stuntbroker.x=1"], "stuntbroker.x"),
    "a misspelt property": (
        ["serve", "--set", "num.partition=3"],
        "num.partition is not a property of Apache Kafka 4.3.1",
    ),
    "a listener with TLS and without a certificate": (
        ["serve", "--set", "listeners=PLAINTEXT://:0,SSL://:1"],
        "listener SSL: ssl.keystore.location: not set",
    ),
    "more listeners than one": (
        ["serve", "--port", "0", "--set", "listeners=HOST://:0,DOCKER://:1"],
        "--host and --port are for one listener, and listeners has 2: leave them out",
    ),
    "a listener that is no address": (
        ["serve", "--port", "0", "--set", "advertised.listeners=garbage"],
        "advertised.listeners: 'garbage' is not HOST:PORT",
    ),
    "a listener with SASL and without a mechanism": (
        ["serve", "--port", "0", "--set", "advertised.listeners=SASL_SSL://a:1"],
        "GSSAPI is not served: set some of PLAIN",
    ),
    "a pattern with a * in its middle": (
        ["serve", "--set", "stuntbroker.deny.two.phase.commit=a, b*c"],
        "stuntbroker.deny.two.phase.commit: 'b*c' has a * before its end: an entry is a name, or PREFIX*",
    ),
    "a configuration file that is not there": (["serve", "--config", "/nowhere/x.toml"], "/nowhere/x.toml"),
    "an address that is none": (["wait", "--bootstrap", "localhost"], "HOST:PORT"),
    "a time-out that is no number": (["wait", "--timeout", "soon"], "--timeout"),
    "a time-out that never ends": (["wait", "--timeout", "nan"], "--timeout"),
    "nothing to dump": (["dump"], "FILE"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_command_line_exits_2_with_one_line_that_names_the_mistake(what: str) -> None:
    arguments, said = WRONG[what]
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("stuntbroker: ")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("text", ["not = = toml", "x = [", "\xff"], ids=["syntax", "unclosed", "no UTF-8"])
def test_a_configuration_file_that_is_no_toml_is_a_usage_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text(text, encoding="latin-1")
    done = run("serve", "--config", str(tmp_path / "x.toml"))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_a_port_in_use_exits_1_and_leaves_no_temporary_folder(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run("serve", "--port", str(taken.getsockname()[1]), TMPDIR=str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert "Address already in use" in done.stderr
    assert "--port" in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


ADVICE = {
    "taken": (OSError(errno.EADDRINUSE, ""), "stop the process that uses the port, or give another --port"),
    "forbidden": (
        PermissionError(errno.EACCES, ""),
        "this user may not use the port: give another --port, 1024 or higher",
    ),
    "not here": (
        OSError(errno.EADDRNOTAVAIL, ""),
        "no interface of this machine has the address: give another --host",
    ),
    "unknown": (socket.gaierror(socket.EAI_NONAME, ""), "give a --host that can be resolved"),
    "else": (OSError(errno.ENOBUFS, ""), "give another --host or --port"),
}


@pytest.mark.parametrize("what", ADVICE)
def test_the_advice_depends_on_why_listening_failed(what: str) -> None:
    fault, advice = ADVICE[what]
    assert listening_advice(fault, "--port").startswith(advice)


@pytest.mark.parametrize("host", ["no-such-host.invalid", "198.51.100.77"])
def test_a_host_that_cannot_be_listened_on_exits_1_with_advice_to_change_the_host(host: str) -> None:
    """198.51.100.77 is reserved for documentation (RFC 5737)."""
    done = run("serve", "--port", "0", "--host", host)
    assert done.returncode == 1
    assert f"cannot listen on {host}:0" in done.stderr
    assert "--host" in done.stderr and "--port" not in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_data_folder_in_use_exits_1_and_the_first_process_continues(tmp_path: Path) -> None:
    with serving("--data-dir", str(tmp_path / "data")) as first:
        done = run("serve", "--port", "0", "--data-dir", str(tmp_path / "data"))
        assert done.returncode == 1
        assert "in use by another process" in done.stderr
        assert "--data-dir" in done.stderr
        assert done.stderr.count("\n") == 1
        with Peer(first.address) as peer:
            assert peer.ask(ApiVersionsRequest(), 0).error_code == 0


@pytest.mark.parametrize(
    ("folder", "said"),
    [("file", "it is a file"), ("file/data", "a part of its path is a file")],
    ids=["itself", "above"],
)
def test_a_file_instead_of_the_data_folder_exits_1_with_advice_to_change_the_folder(
    folder: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    done = run("serve", "--port", "0", "--data-dir", str(tmp_path / folder))
    assert done.returncode == 1
    assert f"cannot use the data folder {tmp_path / folder}: {said}" in done.stderr
    assert "give another --data-dir" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_data_folder_that_is_read_only_exits_1(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        done = run("serve", "--port", "0", "--data-dir", str(tmp_path))
    finally:
        tmp_path.chmod(0o700)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["meta.properties", "metadata.journal"])
def test_a_data_folder_with_something_else_in_the_place_of_a_file_exits_1(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    done = run("serve", "--port", "0", "--data-dir", str(tmp_path))
    assert done.returncode == 1
    assert "cannot start" in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_unclean_stop_is_reported_and_exits_1(tmp_path: Path) -> None:
    with serving("--data-dir", str(tmp_path)) as broker:
        (tmp_path / ".kafka_cleanshutdown").mkdir()
        status, out, err = broker.end()
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("stuntbroker: stopped, but not cleanly: ")
    assert f"{tmp_path}/.kafka_cleanshutdown" in err


@pytest.mark.parametrize("ready_file", ["/nowhere/ready", "."])
def test_a_ready_file_that_cannot_be_written_exits_1_and_is_not_ready(ready_file: str, tmp_path: Path) -> None:
    done = run("serve", "--port", "0", "--ready-file", ready_file, TMPDIR=str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert "--ready-file" in done.stderr
    assert not Path("..new").exists()
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_ready_line_that_cannot_be_written_exits_1(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, "serve", "--port", "0", "--ready-file", str(tmp_path / "ready")],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=DEADLINE_S,
        )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "cannot write the ready line to standard output: No space left on device" in done.stderr
    assert not (tmp_path / "ready").exists()


def test_a_temporary_folder_that_cannot_be_made_exits_1_with_what_to_do() -> None:
    done = run("serve", "--port", "0", TMPDIR="/nowhere")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "cannot make a temporary folder in /nowhere" in done.stderr and "--data-dir" in done.stderr


def test_the_ready_file_is_there_only_while_the_broker_is_ready(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    ready.write_text("stale")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        run("serve", "--port", str(taken.getsockname()[1]), "--ready-file", str(ready))
    assert not ready.exists()

    with serving("--ready-file", str(ready)) as broker:
        assert ready.exists()
        assert broker.end()[0] == 0
    assert not ready.exists()


def test_a_broker_that_listens_on_every_address_prints_a_loopback_address() -> None:
    with serving("--host", "0.0.0.0", "--metrics-port", "0") as broker, Peer(broker.address) as peer:
        assert broker.line.replace(":", " ").split()[1::2] == ["kafka=127.0.0.1", "metrics=127.0.0.1"]
        assert peer.ask(ApiVersionsRequest(), 0).error_code == 0


STOPPING = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]


@pytest.fixture
def terminal() -> Iterator[None]:
    """Restore the default action of SIGHUP, which the tests inherit as ignored if they run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("number", STOPPING, ids=["SIGTERM", "SIGINT", "SIGHUP"])
def test_a_signal_ends_the_broker_with_status_0_and_a_clean_folder(number: int, tmp_path: Path) -> None:
    with serving("--data-dir", str(tmp_path), "--ready-file", str(tmp_path / "ready")) as broker:
        ready = json.loads((tmp_path / "ready").read_text())
        assert ready == {"kafka": broker.line.split("=")[1].strip(), "pid": broker.process.pid}
        with Peer(broker.address) as peer:
            data = [TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, batch(timestamp=1))])]
            assert peer.ask(MetadataRequest([MetadataRequestTopic(name=TOPIC)]), 9).topics[0].error_code == 0
            peer.send(ProduceRequest(None, -1, 1_000, data), 9)
            peer.receive()
            assert broker.end(number)[:2] == (0, "")
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    with serving("--data-dir", str(tmp_path)):
        assert not (tmp_path / ".kafka_cleanshutdown").exists()


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("number", STOPPING, ids=["SIGTERM", "SIGINT", "SIGHUP"])
def test_without_a_data_folder_nothing_is_left_behind(number: int, tmp_path: Path) -> None:
    with serving(TMPDIR=str(tmp_path)) as broker:
        assert len(list(tmp_path.iterdir())) == 1
        assert broker.end(number)[0] == 0
    assert list(tmp_path.iterdir()) == []


def test_a_broker_under_nohup_outlives_its_terminal(tmp_path: Path) -> None:
    """If SIGHUP is ignored when the broker starts, it stays ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with serving(TMPDIR=str(tmp_path)) as broker:
            broker.process.send_signal(signal.SIGHUP)
            with Peer(broker.address) as peer:
                assert peer.ask(ApiVersionsRequest(), 0).error_code == 0
            broker.process.send_signal(signal.SIGHUP)
            assert broker.end()[:2] == (0, "")
    finally:
        signal.signal(signal.SIGHUP, before)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("terminal")
def test_a_terminal_that_is_closed_ends_the_broker_and_nothing_is_left_behind(tmp_path: Path) -> None:
    controller, terminal = os.openpty()
    command = [*COMMAND, "serve", "--port", "0"]
    broker = subprocess.Popen(
        command,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    os.close(terminal)
    try:
        assert os.read(controller, 6) == b"ready "
        assert len(list(tmp_path.iterdir())) == 1
        os.close(controller)
        assert broker.wait(DEADLINE_S) == 0
    finally:
        broker.kill()
        broker.wait(DEADLINE_S)
    assert list(tmp_path.iterdir()) == []


def test_a_setting_wins_over_the_file_and_every_way_to_write_a_property_counts(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text(
        '"num.partitions" = 3\nlog.retention.ms = 5000\n[transaction]\nmax.timeout.ms = 7000\nversion = 1\n'
        "[delete]\ntopic.enable = false\n"
    )
    with (
        serving("--config", str(tmp_path / "x.toml"), "--set", "num.partitions=5") as broker,
        Peer(broker.address) as peer,
    ):
        (actual,) = peer.ask(DescribeConfigsRequest([DescribeConfigsResource(4, "1", None)]), 4).results
    values = {each.name: each.value for each in actual.configs}
    names = ("num.partitions", "log.retention.ms", "transaction.max.timeout.ms", "delete.topic.enable")
    assert [values[name] for name in names] == ["5", "5000", "7000", "false"]


def test_log_format_json_logs_json_lines_and_standard_output_has_one_line() -> None:
    with serving("--log-format", "json", "--set", "log.cleaner.threads=2", "--set", "log.dirs=/mine") as broker:
        with Peer(broker.address) as peer:
            peer.ask(MetadataRequest([MetadataRequestTopic(name=TOPIC)]), 9)
            peer.socket.sendall(b"GET / HTTP/1.1\r\n")
            assert peer.socket.recv(1) == b""
        status, out, err = broker.end()
    assert (status, out) == (0, "")
    events = [json.loads(line) for line in err.splitlines()]
    assert [each["event"] for each in events] == ["properties_ignored", "topic_created", "frame_refused"]
    assert events[0]["properties"] == ["log.cleaner.threads", "log.dirs"]
    assert events[0]["hint"] == "use --data-dir for the data folder"
    assert {"level", "timestamp"} <= events[2].keys()


def test_log_level_warning_logs_nothing_when_nothing_is_wrong() -> None:
    with serving("--log-level", "warning") as broker:
        with Peer(broker.address) as peer:
            peer.ask(MetadataRequest([MetadataRequestTopic(name=TOPIC)]), 9)
        assert broker.end() == (0, "", "")


def test_listeners_sets_the_address_unless_the_option_host_does() -> None:
    listeners = ("--set", "listeners=CONTROLLER://:1,INSIDE://127.0.0.2:0", "--set", "controller.listener.names=CONTROLLER",
                 "--set", "listener.security.protocol.map=CONTROLLER:SSL,INSIDE:PLAINTEXT")  # fmt: skip
    with serving(*listeners) as broker, Peer(broker.address) as peer:
        assert broker.address[0] == "127.0.0.2"
        assert peer.ask(ApiVersionsRequest(), 0).error_code == 0
        assert broker.end() == (0, "", "")
    with serving(*listeners, "--host", "127.0.0.3") as broker:
        assert broker.address[0] == "127.0.0.3"


def test_each_listener_is_in_the_ready_file_and_accepts_requests(tmp_path: Path) -> None:
    ready = tmp_path / "ready.json"
    listeners = ("--set", "listeners=HOST://127.0.0.1:0,DOCKER://127.0.0.2:0", "--ready-file", str(ready))
    with serving(*listeners) as broker:
        facts = json.loads(ready.read_text())
        assert facts["kafka"] == facts["listener.HOST"] != facts["listener.DOCKER"]
        for name, host in (("listener.HOST", "127.0.0.1"), ("listener.DOCKER", "127.0.0.2")):
            at = facts[name].rpartition(":")
            assert at[0] == host
            with Peer((host, int(at[2]))) as peer:
                assert peer.ask(ApiVersionsRequest(), 0).error_code == 0
        assert broker.end() == (0, "", "")


def test_a_listener_that_cannot_be_opened_is_reported_with_its_property() -> None:
    done = run("serve", "--set", "listeners=HOST://127.0.0.1:0,DOCKER://198.51.100.77:0")
    assert done.returncode == 1
    assert "cannot listen on 198.51.100.77:0" in done.stderr and "another host in listeners" in done.stderr


def test_wait_exits_0_when_a_broker_answers_and_1_when_none_does() -> None:
    with serving() as broker:
        host, port = broker.address
        done = run("wait", "--bootstrap", f"{host}:{port}", "--timeout", "5", "--json")
        assert (done.returncode, json.loads(done.stdout)) == (0, {"is_ready": True, "reason": ""})
        broker.end()
        done = run("wait", "--bootstrap", f"{host}:{port}", "--timeout", "0.1", "--json")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr == f"stuntbroker: {json.loads(done.stdout)['reason']}\n"


def test_wait_needs_a_response_not_only_an_open_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        done = run("wait", "--bootstrap", f"127.0.0.1:{silent.getsockname()[1]}", "--timeout", "0.2")
    assert done.returncode == 1


def test_a_closed_pipe_ends_a_command_without_a_message() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run([*COMMAND, "--help"], stdout=writer, stderr=subprocess.PIPE, timeout=DEADLINE_S)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


def test_ctrl_c_ends_a_command_without_a_trace() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        # Background jobs of a shell, such as these tests, may ignore SIGINT, and child processes inherit that.
        waiting = subprocess.Popen(
            [*COMMAND, "wait", "--bootstrap", address],
            stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        silent.settimeout(DEADLINE_S)
        with waiting, silent.accept()[0]:  # The command has connected.
            waiting.send_signal(signal.SIGINT)
            said = waiting.communicate(timeout=DEADLINE_S)[1]
    assert (waiting.returncode, said) == (130, b"")


INTERRUPT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
class Interrupt:
    def find_spec(self, name, path, target=None):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)
module = sys.argv[1]
sys.argv[1:] = ["serve", "--port", "0"]
sys.meta_path.insert(0, Interrupt())
from stuntbroker.cli.__main__ import main
sys.exit(main())
"""


@pytest.mark.parametrize(
    "module",
    ["stuntbroker.cli.main", "stuntbroker.cli.serving.serve", "asyncio", "stuntbroker.broker.server", "uvloop"],
)
def test_ctrl_c_while_a_module_is_loaded_ends_it_without_a_trace(module: str) -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPT, module], capture_output=True, timeout=DEADLINE_S)

    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_the_package_can_be_run_as_a_module() -> None:
    command = [sys.executable, "-m", "stuntbroker", "--version"]

    assert subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S).stdout == run("--version").stdout


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["help"]])
def test_help_names_every_command(words: list[str]) -> None:
    done = run(*words)

    assert (done.returncode, done.stderr) == (0, "")
    assert re.findall(r"^  (\w+) ", done.stdout, re.MULTILINE)[: len(COMMANDS)] == list(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_has_two_examples_with_existing_options(command: str) -> None:
    done = run("help", command)

    assert (done.returncode, done.stderr) == (0, "")
    options, _, examples = done.stdout.partition("\nExamples:\n")
    lines = examples.splitlines()
    assert len(lines) == 2
    for line in lines:
        assert line.startswith("  stuntbroker ")
        assert [word for word in re.findall(r" (--?\w[\w-]*)", line) if word not in options] == []
    for words in ([command, "--help"], [command, "-h"], [command, "--port", "1", "--help"]):
        assert run(*words).stdout == done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_fits_on_one_screen(command: str) -> None:
    lines = run("help", command).stdout.splitlines()

    assert len(lines) <= SCREEN_LINES
    assert [line for line in lines if len(line) > SCREEN_COLUMNS] == []


def test_the_help_of_serve_and_wait_has_every_option() -> None:
    for command, names in (("serve", (*SERVE_OPTIONS, *SERVE_FLAGS)), ("wait", (*WAIT_OPTIONS, *WAIT_FLAGS))):
        assert sorted(re.findall(r"^  (--[\w-]+) ", run("help", command).stdout, re.MULTILINE)) == sorted(names)


def test_version_prints_the_package_version() -> None:
    from importlib.metadata import version

    document = json.loads(run("version", "--json").stdout)
    assert f"stuntbroker {document['version']} (" in run("version").stdout
    said = {run(word).stdout for word in ("version", "--version", "-V")}

    assert said == {f"stuntbroker {version('stuntbroker')} ({'compiled' if is_compiled() else 'not compiled'})\n"}
