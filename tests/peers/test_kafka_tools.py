"""Apache Kafka's own command-line tools, as a user types them."""

import subprocess

import pytest

from tests.peers.kafka_broker import class_path, java_tool

# The first run fetches the jars.
pytestmark = pytest.mark.timeout(600)

TOOL_S_MAX = 90


def tool(name: str, *arguments: str, text: str = "") -> str:
    """Run org.apache.kafka.tools.NAME and give what it prints."""
    run = [java_tool("java"), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-cp", class_path()]
    answer = subprocess.run(
        [*run, f"org.apache.kafka.tools.{name}", *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=TOOL_S_MAX,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


def test_kafka_tools_copy_every_line_once_though_transactions_are_aborted_at_random(bootstrap: str, own: str) -> None:
    """What Kafka's own system tests run: consume, copy and commit, with one copier for the whole topic."""
    lines = [f"line {n}" for n in range(200)]
    source, target, group = f"{own}-source", f"{own}-target", f"{own}-group"
    tool("ConsoleProducer", "--bootstrap-server", bootstrap, "--topic", source, text="\n".join(lines))

    copier = ["--broker-list", bootstrap, "--input-topic", source, "--input-partition", "0", "--output-topic", target]
    copier += ["--max-messages", str(len(lines)), "--transaction-size", "10", "--consumer-group", group]
    copier += ["--transactional-id", f"{own}-id", "--group-mode", "--use-group-metadata", "--enable-random-aborts"]
    tool("TransactionalMessageCopier", *copier)

    reader = ["--bootstrap-server", bootstrap, "--topic", target, "--from-beginning", "--timeout-ms", "2000"]
    copied = tool("consumer.ConsoleConsumer", *reader, "--isolation-level", "read_committed")
    # Between them the tool says that nothing more has come in time.
    assert [line for line in copied.splitlines() if line.startswith("line ")] == lines
    groups = ["--bootstrap-server", bootstrap, "--describe", "--group", group]
    described = tool("consumer.group.ConsumerGroupCommand", *groups).split()
    assert source in described
    # Behind the topic: partition, where the group stands, where the log ends, and how far that is.
    assert described[described.index(source) + 1 :][:4] == ["0", "200", "200", "0"]
