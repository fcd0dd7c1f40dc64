"""Apache Kafka's own command-line tools, as a user types them."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit.programs.kafka_tools import KafkaTools

# The first run fetches the jars.
pytestmark = pytest.mark.timeout(600)


Tool = Callable[..., str]


@pytest.fixture
def tool(kafka_tools: KafkaTools) -> Tool:
    """Runs PACKAGE.NAME and returns what it prints."""

    def run(name: str, *arguments: str, text: str = "", package: str = "org.apache.kafka.tools") -> str:
        done = kafka_tools.run(f"{package}.{name}", *arguments, text=text)
        assert done.status == 0, done.out + done.err
        return done.out

    return run


def test_kafka_tools_copy_every_line_once_though_transactions_are_aborted_at_random(
    tool: Tool, bootstrap: str, own: str
) -> None:
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


def test_kafka_configs_sets_and_shows_quotas(tool: Tool, bootstrap: str, own: str) -> None:
    def configs(*arguments: str) -> str:
        return tool("ConfigCommand", "--bootstrap-server", bootstrap, *arguments, package="kafka.admin")

    # The audit needs a partition.
    tool("ConsoleProducer", "--bootstrap-server", bootstrap, "--topic", own, text="line")
    entity = ["--entity-type", "users", "--entity-name", own, "--entity-type", "clients", "--entity-default"]
    configs("--alter", "--add-config", "producer_byte_rate=1024,request_percentage=50", *entity)
    described = configs("--describe", *entity)
    assert f"Quota configs for user-principal '{own}', the default client-id are " in described
    assert set(described.split(" are ")[1].strip().split(", ")) == {
        "producer_byte_rate=1024.0",
        "request_percentage=50.0",
    }
    configs("--alter", "--delete-config", "producer_byte_rate,request_percentage", *entity)
    assert "Quota configs" not in configs("--describe", *entity)


def test_kafka_tools_elect_reassign_and_describe_the_quorum(
    tool: Tool, bootstrap: str, own: str, tmp_path: Path
) -> None:
    tool("ConsoleProducer", "--bootstrap-server", bootstrap, "--topic", own, text="line")
    each = ["--topic", own, "--partition", "0"]
    elected = tool("LeaderElectionCommand", "--bootstrap-server", bootstrap, "--election-type", "unclean", *each)
    assert elected.strip() == f"Valid replica already elected for partitions {own}-0"

    plan = tmp_path / "plan.json"
    partition = {"topic": own, "partition": 0, "replicas": [1], "log_dirs": ["any"]}
    plan.write_text(json.dumps({"version": 1, "partitions": [partition]}))
    reassign = ["--bootstrap-server", bootstrap, "--reassignment-json-file", str(plan)]
    executed = tool("reassign.ReassignPartitionsCommand", *reassign, "--execute")
    assert f"Successfully started partition reassignment for {own}-0" in executed
    verified = tool("reassign.ReassignPartitionsCommand", *reassign, "--verify", "--preserve-throttles")
    assert f"Reassignment of partition {own}-0 is completed." in verified

    status = tool("MetadataQuorumCommand", "--bootstrap-server", bootstrap, "describe", "--status")
    lines = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    assert (lines["LeaderId"].strip(), lines["MaxFollowerLag"].strip()) == ("1", "0")
