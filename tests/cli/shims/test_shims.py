"""The Kafka commands of the image print the same as Apache Kafka's own commands against the same broker."""

from __future__ import annotations

import argparse
import contextlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stuntbroker.cli.main import run
from stuntbroker.cli.shims import console_consumer
from stuntbroker.cli.shims.rpk.main import COMMANDS as RPK_COMMANDS
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.fetching import list_offset
from stuntbroker.protocol.addresses import parse_bootstrap
from stuntbroker.protocol.hashing import partition_for
from stuntbroker.protocol.request_values import LATEST, READ_UNCOMMITTED
from tests.cli.shims.kafka_commands import CLASSES, settled, with_bootstrap
from tests.kit.processes.process import DEADLINE_S
from tests.kit.programs.kafka_tools import KafkaTools

TOPIC, GROUP = "shims-orders", "shims-group"
READ = [
    f"kafka-topics --describe --topic {TOPIC}",
    f"kafka-topics --list --topic {TOPIC}",
    f"kafka-topics --list --topic {TOPIC} another word",
    f"kafka-topics --describe --topic {TOPIC} --topic {TOPIC}",
    "kafka-topics --describe --topic __consumer_offsets --exclude-internal",
    f"kafka-console-consumer --topic {TOPIC} --partition 0 --offset 999 --timeout-ms 1500 --enable-systest-events",
    "kafka-console-consumer --include nosuch.* --from-beginning --timeout-ms 1500",
    f"kafka-topics --describe --topic {TOPIC} --under-min-isr-partitions",
    f"kafka-topics --describe --topic {TOPIC} --at-min-isr-partitions",
    f"kafka-topics --describe --topic {TOPIC} --topics-with-overrides",
    f"kafka-console-consumer --topic {TOPIC} --from-beginning --max-messages 3 --formatter-property print.key=true "
    "--formatter-property print.partition=true --formatter-property print.offset=true --formatter-property print.headers=true "
    "--formatter-property key.separator=|",
    f"kafka-console-consumer --topic {TOPIC} --partition 0 --offset 1 --max-messages 1 --formatter-property print.epoch=true "
    "--formatter-property print.delivery=true",
    "kafka-consumer-groups --list",
    "kafka-consumer-groups --list --state",
    "kafka-consumer-groups --list --state empty",
    "kafka-consumer-groups --list --type",
    "kafka-consumer-groups --list --type classic --state",
    f"kafka-consumer-groups --reset-offsets --group {GROUP} --topic {TOPIC} --by-duration PT1H30M --dry-run",
    f"kafka-consumer-groups --reset-offsets --group {GROUP} --topic {TOPIC} --to-latest --export --dry-run",
    f"kafka-consumer-groups --describe --group {GROUP}",
    f"kafka-consumer-groups --describe --group {GROUP} --verbose",
    f"kafka-consumer-groups --describe --group {GROUP} --members --verbose",
    f"kafka-consumer-groups --describe --group {GROUP} --state --verbose",
    f"kafka-consumer-groups --describe --group {GROUP} --state",
    "kafka-consumer-groups --validate-regex orders-.*",
    f"kafka-consumer-groups --describe --group {GROUP} --members",
    f"kafka-consumer-groups --reset-offsets --group {GROUP} --topic {TOPIC} --to-latest --dry-run",
    f"kafka-consumer-groups --reset-offsets --group {GROUP} --all-topics --shift-by -1 --dry-run",
    f"kafka-configs --describe --entity-type topics --entity-name {TOPIC}",
    f"kafka-configs --describe --all --topic {TOPIC}",
    "kafka-consumer-groups --describe --group nowhere",
    f"kafka-consumer-groups --describe --group {GROUP} --group nowhere --members",
    f"kafka-consumer-groups --delete-offsets --group nowhere --topic {TOPIC}",
    f"kafka-consumer-groups --delete-offsets --group {GROUP} --topic {TOPIC}:7 --topic nowhere",
    f"kafka-consumer-groups --reset-offsets --group {GROUP} --group other --topic {TOPIC} --to-latest --dry-run --export",
    "kafka-configs --describe --entity-type brokers --entity-name 9",
    "kafka-cluster unregister --id 9",
    "kafka-configs --describe --topic nowhere",
    "kafka-configs --describe --topic nowhere --all",
    "kafka-configs --describe --entity-type brokers --entity-default",
    "kafka-configs --describe --entity-type groups",
    f"kafka-configs --describe --group {GROUP} --all",
    "kafka-configs --describe --entity-type client-metrics",
    "kafka-configs --describe --entity-type client-metrics --entity-name nowhere",
    "kafka-cluster cluster-id",
    "kafka-cluster list-endpoints",
    f"kafka-get-offsets --topic {TOPIC}",
    f"kafka-get-offsets --topic {TOPIC} --partitions 0,1",
    *(
        f"kafka-get-offsets --topic {TOPIC} --time {time}"
        for time in (
            "earliest",
            "-3",
            "earliest-local",
            "-4",
            "latest-tiered",
            "-5",
            "-6",
            "earliest-pending-upload",
            "never",
            "9999999999999",
        )
    ),
    f"kafka-get-offsets --topic {TOPIC} --exclude-internal-topics",
    "kafka-get-offsets --topic nowhere",
    f"kafka-get-offsets --topic-partitions {TOPIC}:1,",
    f"kafka-get-offsets --topic {TOPIC},nowhere",
    f"kafka-get-offsets --topic-partitions {TOPIC}:0-1,shims-.*:1-",
    "kafka-get-offsets --topic-partitions a:b",
    "kafka-features describe",
    "kafka-features upgrade --feature transaction.version=2",
    "kafka-features upgrade --feature transaction.version=7",
    "kafka-features upgrade --feature nosuch=1 --dry-run",
    "kafka-features downgrade --feature transaction.version=1 --feature nosuch=1",
    "kafka-features downgrade --feature transaction.version=0 --dry-run",
    "kafka-features disable --feature transaction.version --unsafe --dry-run",
    "kafka-features upgrade",
    "kafka-transactions list",
    f"kafka-transactions describe-producers --topic {TOPIC} --partition 0",
]
"""Commands that change nothing; Kafka's and ours run one after the other."""
WRITTEN = [
    "kafka-topics --create --topic NAME --partitions 2 --config retention.ms=5",
    "kafka-topics --create --topic NAME --if-not-exists",
    "kafka-topics --create --topic NAME",
    "kafka-topics --create --topic NAME.assigned --replica-assignment 1,1,1",
    "kafka-topics --create --topic NAME-refused --config nosuch=1",
    "kafka-topics --create --topic NAME-refused --replica-assignment 7",
    "kafka-topics --delete --topic NAME.assigned",
    "kafka-topics --alter --topic NAME --partitions 4",
    "kafka-topics --alter --topic NAME --partitions 3",
    "kafka-configs --alter --topic NAME --add-config cleanup.policy=[compact,delete],max.message.bytes=2000",
    "kafka-configs --alter --topic NAME --delete-config max.message.bytes",
    "kafka-configs --describe --topic NAME",
    "kafka-configs --alter --entity-type users --entity-name NAME --add-config producer_byte_rate=1024,request_percentage=50",
    "kafka-configs --alter --entity-type users --entity-name NAME --entity-type clients --entity-default "
    "--add-config consumer_byte_rate=2",
    "kafka-configs --alter --user NAME.s --add-config SCRAM-SHA-256=[iterations=8192,password=s,e=c]",
    "kafka-configs --alter --user NAME.s --add-config SCRAM-SHA-512=[password=secret]",
    "kafka-configs --describe --user NAME.s",
    "kafka-configs --describe --user NAME.nobody",
    "kafka-configs --describe --user NAME.s --all",
    "kafka-configs --alter --user NAME.s --delete-config SCRAM-SHA-512",
    "kafka-configs --alter --user NAME.s --delete-config SCRAM-SHA-512",
    "kafka-configs --describe --user NAME.s",
    "kafka-configs --alter --user NAME.s --add-config SCRAM-SHA-256=[iterations=1,password=secret]",
    "kafka-configs --alter --user NAME.s --add-config SCRAM-SHA-256=[iterations=99999,password=secret]",
    "kafka-configs --alter --user NAME.s --add-config SCRAM-SHA-256=[secret]",
    "kafka-configs --alter --user NAME.s --add-config SCRAM-SHA-256=[password=secret],producer_byte_rate=1",
    "kafka-configs --alter --user NAME.s --add-config SCRAM-SHA-256=[password=secret],other=1",
    "kafka-configs --alter --user NAME.s --delete-config other",
    "kafka-configs --alter --entity-type users --entity-default --add-config SCRAM-SHA-256=[password=secret]",
    "kafka-configs --alter --client NAME --add-config SCRAM-SHA-256=[password=secret]",
    "kafka-configs --alter --client NAME --add-config producer_byte_rate=7",
    "kafka-configs --alter --client NAME --delete-config producer_byte_rate",
    "kafka-configs --alter --client NAME --delete-config producer_byte_rate",
    "kafka-configs --alter --client NAME --add-config producer_byte_rate=fast",
    "kafka-configs --alter --client NAME --add-config connection_creation_rate=1",
    "kafka-configs --alter --ip 10.0.0.9 --add-config connection_creation_rate=5",
    "kafka-configs --describe --ip 10.0.0.9",
    "kafka-configs --describe --entity-type users --entity-name NAME --entity-type clients",
    "kafka-configs --describe --client NAME",
    "kafka-configs --alter --client-defaults --add-config producer_byte_rate=9",
    "kafka-configs --describe --entity-type clients --entity-default",
    "kafka-topics --describe --topic nowhere",
    "kafka-topics --delete --topic NAME",
    "kafka-topics --delete --topic NAME --if-exists",
    f"kafka-consumer-groups --reset-offsets --group NAME --topic {TOPIC}:0 --to-offset 1 --execute",
    f"kafka-consumer-groups --delete-offsets --group NAME --topic {TOPIC}:0",
    "kafka-consumer-groups --delete --group NAME",
    "kafka-consumer-groups --delete --group NAME",
]
"""Commands that change something; Kafka's and ours run in this order, each with its own names."""
WITH_OPTIONS = (
    *sorted(CLASSES.keys() - {"kafka-cluster"}),
    "kafka-cluster cluster-id",
    "kafka-cluster list-endpoints",
    "kafka-cluster unregister",
)
"""Kafka's commands that have options."""
CONSUMER = "kafka-console-consumer --from-beginning --max-messages 3 --formatter-property print.key=true"
Result = tuple[int, str]


@pytest.fixture(scope="module")
def prepared(ours: str) -> Iterator[str]:
    """Yield our broker with a topic, a group that has read some of its records, and a transactional id."""
    broker = ("--bootstrap", ours)
    assert run(["topic", "create", TOPIC, "--partitions", "2", "--config", "retention.bytes=1000000", *broker]) == 0
    assert run(["produce", TOPIC, "a", "b", "c", "--partition", "0", "--key", "k", "--header", "h=1", *broker]) == 0
    assert run(["produce", TOPIC, "d", "--transactional-id", "shims-id", "--partition", "0", *broker]) == 0
    assert run(["consume", f"{TOPIC}:0", "--max", "2", "--group", GROUP, *broker]) == 0
    yield ours


def theirs(tools: KafkaTools, words: list[str], bootstrap: str) -> Result:
    """Return exit status and standard output of Apache Kafka's own command."""
    done = tools.run(CLASSES[words[0]], *with_bootstrap(words, bootstrap))
    return done.status, done.out


def our_own(words: list[str], bootstrap: str) -> Result:
    """Return exit status and standard output of our command, which runs as a process."""
    done = subprocess.run(
        [sys.executable, "-m", "stuntbroker", f"{words[0]}.sh", *with_bootstrap(words, bootstrap)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize("line", READ)
def test_a_command_that_reads_prints_what_kafka_s_does(line: str, prepared: str, kafka_tools: KafkaTools) -> None:
    expected = theirs(kafka_tools, line.split(), prepared)

    status, text = our_own(line.split(), prepared)

    assert status == expected[0]
    assert settled(text) == settled(expected[1])


def test_commands_that_change_something_do_and_print_what_kafka_s_do(prepared: str, kafka_tools: KafkaTools) -> None:
    for line in WRITTEN:
        kafka = theirs(kafka_tools, line.replace("NAME", "shims-theirs").split(), prepared)
        ours = our_own(line.replace("NAME", "shims-ours").split(), prepared)

        assert ours[0] == kafka[0], (line, ours, kafka)
        if not kafka[1]:  # Kafka's command printed nothing, or an error on stderr.
            assert kafka[0] == 1 or not ours[1], line
        elif "Error while" not in kafka[1]:
            assert settled(ours[1], "shims-ours") == settled(kafka[1], "shims-theirs"), line
        else:
            assert settled(ours[1], "shims-ours")[0] == settled(kafka[1], "shims-theirs")[0], line


@pytest.mark.parametrize(
    ("formatter", "topic", "name", "is_shown"),
    [
        ("OffsetsMessageFormatter", "__consumer_offsets", GROUP, True),
        ("GroupMetadataMessageFormatter", "__consumer_offsets", "shims-member", True),
        ("TransactionLogMessageFormatter", "__transaction_state", "shims-id", True),
        ("TransactionLogMessageFormatter", "__consumer_offsets", GROUP, False),
    ],
)
def test_a_formatter_of_an_internal_topic_prints_what_kafka_s_does(
    formatter: str, topic: str, name: str, is_shown: bool, prepared: str, kafka_tools: KafkaTools
) -> None:
    if name == "shims-member":
        line = f"kafka-console-consumer --topic {TOPIC} --group {name} --from-beginning --max-messages 1"
        assert theirs(kafka_tools, line.split(), prepared)[0] == 0
    with Cluster(parse_bootstrap(prepared)) as cluster:
        partition = partition_for(name, len(cluster.partitions([topic])))
        last = list_offset(cluster, topic, partition, LATEST, READ_UNCOMMITTED)
    line = f"kafka-console-consumer --topic {topic} --partition {partition} --offset earliest --max-messages {last} "
    words = [*line.split(), "--formatter", f"org.apache.kafka.tools.consumer.{formatter}"]
    expected = theirs(kafka_tools, words, prepared)

    status, text = our_own(words, prepared)

    assert last > 0 and status == expected[0] == 0
    assert (text if is_shown else "") == expected[1]
    assert bool(expected[1]) == is_shown


def test_kafka_s_consumer_reads_what_our_producer_command_wrote(prepared: str, kafka_tools: KafkaTools) -> None:
    lines = "k1:one\nk2:two\nwithout\n"
    words = ["kafka-console-producer.sh", "--bootstrap-server", prepared, "--topic", "shims-console"]
    words += ["--reader-property", "parse.key=true", "--reader-property", "key.separator=:"]
    command = [sys.executable, "-m", "stuntbroker", *words]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 1
    assert "No key separator found on line number 3: 'without'" in done.stderr
    done = subprocess.run(
        [*command, "--reader-property", "ignore.error=true"], input=lines, capture_output=True, text=True, check=True
    )

    shown = theirs(kafka_tools, [*CONSUMER.split(), "--topic", "shims-console"], prepared)

    assert sorted(shown[1].splitlines()) == ["k1\tone", "k2\ttwo", "null\twithout"]


def test_lines_of_the_console_producer_end_as_in_java(prepared: str, kafka_tools: KafkaTools) -> None:
    words = ["kafka-console-producer.sh", "--bootstrap-server", prepared, "--topic", "shims-lines"]
    subprocess.run(
        [sys.executable, "-m", "stuntbroker", *words], input=b"a\rb\r\nc\n\nd\r", check=True, timeout=DEADLINE_S
    )

    consumer = "kafka-console-consumer --topic shims-lines --from-beginning --max-messages 5"
    assert theirs(kafka_tools, consumer.split(), prepared)[1].split("\n")[:5] == ["a", "b", "c", "", "d"]


def test_topics_that_match_later_are_read_too(
    prepared: str, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(console_consumer, "LOOK_S", 0.0)
    words = ["--bootstrap-server", prepared, "--include", "shims-later.*", "--from-beginning", "--max-messages", "1"]
    with ThreadPoolExecutor() as pool:
        reading = pool.submit(console_consumer.run, "kafka-console-consumer", words)
        assert run(["produce", "shims-later-1", "x", "--bootstrap", prepared]) == 0
        assert reading.result(DEADLINE_S) == 0
    assert b"x\n" in capfdbinary.readouterr().out


def test_versions_of_apis_are_listed_for_each_broker(prepared: str, kafka_tools: KafkaTools) -> None:
    expected = theirs(kafka_tools, ["kafka-broker-api-versions"], prepared)[1]
    status, out = our_own(["kafka-broker-api-versions"], prepared)

    assert status == 0
    assert out.splitlines()[0] == expected.splitlines()[0]
    keys = {
        line.strip().rstrip(",") for line in expected.splitlines() if "[usable" in line and "Produce(0)" not in line
    }
    assert keys <= {line.strip().rstrip(",") for line in out.splitlines()}


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ("kafka-topics", 1, "exactly one action"),
        ("kafka-topics --create", 1, 'Missing required argument "[topic]"'),
        ("kafka-topics --foo --list", 1, "unrecognized arguments: --foo"),
        ("kafka-topics.sh --bootstrap-server nowhere:1 --version", 0, "4.3.1 (stuntbroker "),
        ("connect-standalone.sh a b", 1, "connect-standalone.sh: this command of Apache Kafka is not available here"),
        (
            "kafka-consumer-groups --reset-offsets --group g --topic t --to-latest --to-earliest --execute",
            1,
            'Option "[to-earliest]" can\'t be used with option "[to-latest]"',
        ),
        (
            "kafka-consumer-groups --describe --group g --members --state",
            1,
            "Option [describe] takes at most one of these options: [members], [offsets], [state]",
        ),
        (
            "kafka-console-consumer --topic t --group g --partition 0",
            1,
            "Options group and partition cannot be specified together.",
        ),
        (
            "kafka-console-consumer --topic t --consumer-property group.id=g --partition 0",
            1,
            "Options group and partition cannot be specified together.",
        ),
        (
            "kafka-consumer-groups --reset-offsets --group g --topic t --to-earliest --dry-run --execute",
            1,
            "Option [reset-offsets] only accepts one of [execute] and [dry-run]",
        ),
        (
            "kafka-consumer-groups --delete --group g --all-groups",
            1,
            'Option "[group]" can\'t be used with option "[all-groups]"',
        ),
        (
            "kafka-consumer-groups --delete --group g --topic t",
            1,
            "The consumer does not support topic-specific offset deletion from a consumer group.",
        ),
        (
            "kafka-consumer-groups --delete-offsets --group g",
            1,
            "Option [delete-offsets] takes the following options: [topic], [group]",
        ),
        (
            "kafka-consumer-groups --list --group g",
            1,
            'Option "[group]" can\'t be used with option "[list]"',
        ),
        (
            "kafka-consumer-groups --describe --group g --topic t",
            1,
            'Option "[topic]" can\'t be used with option "[describe]"',
        ),
        (
            "kafka-topics --alter --topic t --partitions 3 --replication-factor 3",
            1,
            'Option "[replication-factor]" can\'t be used with option "[alter]"',
        ),
        (
            "kafka-topics --create --topic t --if-exists",
            1,
            'Option "[if-exists]" can\'t be used with option "[create]"',
        ),
        (
            "kafka-topics --delete --topic t --if-not-exists",
            1,
            'Option "[if-not-exists]" can\'t be used with option "[delete]"',
        ),
        (
            "kafka-topics --list --under-replicated-partitions",
            1,
            'Option "[under-replicated-partitions]" can\'t be used with option "[list]"',
        ),
        (
            "kafka-topics --describe --partitions 5",
            1,
            'Option "[partitions]" can\'t be used with option "[describe]"',
        ),
        (
            "kafka-topics --describe --topics-with-overrides --under-replicated-partitions",
            1,
            'Option "[under-replicated-partitions]" can\'t be used with option "[topics-with-overrides]"',
        ),
        (
            "kafka-topics --create --topic t --partitions 2 --replica-assignment 1",
            1,
            'Option "[replica-assignment]" can\'t be used with option "[partitions]"',
        ),
        (
            "kafka-console-consumer --topic t --group g8 --consumer-property group.id=g9",
            1,
            "do not match. Detected group ids: 'g8', 'g9'",
        ),
        (
            "kafka-console-consumer --topic t --from-beginning --command-property auto.offset.reset=latest",
            1,
            "Can't simultaneously specify --from-beginning and 'auto.offset.reset=latest', please remove one option",
        ),
        (
            "kafka-console-consumer --topic t --partition 0 --offset 1 --from-beginning",
            1,
            "Options from-beginning and offset cannot be specified together.",
        ),
        (
            "kafka-console-producer --topic t --line-reader com.acme.AvroReader",
            1,
            "the line reader com.acme.AvroReader is not supported",
        ),
        (
            "kafka-console-producer --topic t --request-required-acks banana",
            1,
            "Invalid value banana for configuration acks: String must be one of: all, -1, 0, 1",
        ),
        ("kafka-features", 1, "give an operation: describe, upgrade, downgrade, disable"),
        ("kafka-features upgrade --feature x", 1, "Can't parse feature=level string x: equals sign not found."),
        ("kafka-features upgrade --feature x=32768", 1, "string x=32768: unable to parse 32768 as a short."),
        ("kafka-features upgrade --feature x=1 --feature x=2", 1, "Feature x was specified more than once."),
        ("kafka-run-class --version", 1, "kafka-run-class: this command of Apache Kafka is not available here"),
        ("rpk --version", 0, "Version:     stuntbroker "),
        ("kafka-features upgrade --metadata 4.0", 1, "there is no metadata.version here"),
        (
            "kafka-metadata-quorum.sh describe",
            1,
            "kafka-metadata-quorum.sh: this command of Apache Kafka is not available here",
        ),
        ("kafka-configs --topic t", 1, "exactly one action"),
        ("kafka-storage random-uuid", 0, ""),
        ("kafka-storage format --ignore-formatted -t x -c y", 0, "needs no formatting"),
        ("zookeeper-server-start x.properties", 0, "there is no ZooKeeper here"),
        (
            "kafka-storage format -t x --add-scram SCRAM-SHA-256=[name=a,password=b]",
            0,
            "--add-scram has no effect: set",
        ),
        ("kafka-storage --help", 0, "random-uuid"),
        ("kafka-cluster.sh --help", 0, "cluster-id"),
        ("kafka-server-start --help", 0, "--override NAME=VALUE"),
        ("kafka-server-start a.properties b.properties", 1, "the only arguments are -daemon, a properties file and"),
        ("kafka-server-stop --process-role=broker", 1, "no option selects another"),
        ("kafka-cluster fly", 1, "there is no command fly; here there are cluster-id, unregister, list-endpoints"),
        ("kafka-configs --describe", 1, "At least one entity type must be specified"),
        ("zookeeper-server-start --help", 0, "there is no ZooKeeper here"),
        ("rpk fly", 1, "here there are redpanda start"),
        ("rpk --help", 0, "rpk redpanda start\n  rpk cluster health\n"),
        ("rpk group", 0, "commands; `rpk COMMAND --help` has the options of one:\n  rpk group list\n"),
        ("redpanda start --help", 0, "usage: rpk redpanda start [options]"),
        ("rpk topic --help", 0, "topic create"),
        ("rpk version", 0, "stuntbroker"),
        ("rpk topic create", 1, "topics"),
        ("kafka-topics --create --topic t --partitions 99999999999", 1, "must be a whole number"),
        ("kafka-topics --create --topic t --replication-factor 99999", 1, "must be a whole number"),
        ("kafka-console-consumer --topic t --partition 0 --offset foo", 1, "'foo' is incorrect"),
        ("kafka-console-consumer --topic t --offset 1", 1, "The partition is required when offset is specified."),
        ("kafka-console-consumer --topic t --offset 99999999999999999999", 1, "is incorrect"),
        ("kafka-configs --alter --topic t --add-config-file /nonexistent", 1, "--add-config-file /nonexistent"),
    ],
)
def test_help_and_wrong_arguments_need_no_broker(
    words: str, status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words.split()) == status
    out, err = capsys.readouterr()
    assert said in out + err


def subcommands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.values()


@pytest.mark.parametrize("command", [*WITH_OPTIONS, *(f"rpk {words}" for words in RPK_COMMANDS)])
def test_help_explains_every_option(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[argparse.ArgumentParser] = []
    monkeypatch.setattr(argparse.ArgumentParser, "print_help", lambda parser: shown.append(parser))

    with pytest.raises(SystemExit):
        run([*command.split(), "--help"])

    (parser,) = shown
    unexplained = [
        f"{each.prog}: {action.option_strings or action.dest}"
        for each in (parser, *subcommands(parser))
        for action in each._actions
        if not action.help and not isinstance(action, argparse._SubParsersAction)
    ]
    assert not unexplained


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("kafka-topics --list --topic *", "is no regular expression"),
        (
            f"kafka-topics --alter --topic {TOPIC} --partitions 9 --replica-assignment {','.join('9' * 9)}",
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        ("kafka-get-offsets --topic [", "is no regular expression"),
        ("kafka-get-offsets --partitions 0-1", "numbers of partitions with commas"),
        ("kafka-get-offsets --time 99999999999999999999999", "it must be latest, earliest"),
        ("kafka-console-consumer --include *", "is no regular expression"),
        (
            f"kafka-transactions abort --topic {TOPIC} --partition 0 --producer-id 1 --producer-epoch 99999",
            "'99999' must be a whole number from -1 to 32767",
        ),
        (f"kafka-transactions abort --topic {TOPIC} --partition 3000000000 --start-offset 0", "must be a whole number"),
        (
            f"kafka-consumer-groups --delete-offsets --all-groups --topic {TOPIC}",
            "takes the following options: [topic], [group]",
        ),
        (f"kafka-consumer-groups --delete-offsets --group a --group b --topic {TOPIC}", "needs one group"),
        (f"kafka-consumer-groups --reset-offsets --group g --topic {TOPIC}:x --to-earliest", "expected format"),
    ],
)
def test_an_invalid_argument_is_reported_in_one_line(
    line: str, said: str, prepared: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command, *others = line.split()
    assert run([command, "--bootstrap-server", prepared, *others]) == 1
    out, err = capsys.readouterr()
    assert said in (out if command == "kafka-topics" else err)


def test_the_console_consumer_may_wait_for_ever(prepared: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    words = [
        "--bootstrap-server",
        prepared,
        "--topic",
        TOPIC,
        "--from-beginning",
        "--max-messages",
        "1",
        "--timeout-ms",
        "-1",
    ]
    assert run(["kafka-console-consumer", *words]) == 0
    assert capfdbinary.readouterr().out.count(b"\n") == 1


def test_console_consumers_of_a_group_share_its_partitions_and_continue_at_its_offsets(
    prepared: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    topic, group = "shims-members", "shims-members-group"
    cluster_words = ["--bootstrap-server", prepared]
    assert run(["kafka-topics", *cluster_words, "--create", "--topic", topic, "--partitions", "2"]) == 0
    command = [sys.executable, "-m", "stuntbroker", "kafka-console-consumer", *cluster_words, "--topic", topic]
    command += ["--group", group, "--from-beginning", "--formatter-property", "print.partition=true"]
    command += ["--consumer-property", "heartbeat.interval.ms=100"]
    with contextlib.ExitStack() as stack:
        members = [stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE)) for _ in range(2)]
        stack.callback(lambda: [member.kill() for member in members])
        deadline_s = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline_s:
            capfdbinary.readouterr()
            run(["kafka-consumer-groups", *cluster_words, "--describe", "--group", group, "--members"])
            rows = [line.split() for line in capfdbinary.readouterr().out.decode().splitlines() if group in line]
            if len(rows) == 2 and all(row[-1] == "1" for row in rows):
                break
        else:
            raise AssertionError(rows)
        for partition in range(2):
            words = ["produce", topic, f"value {partition}", "--partition", str(partition), "--bootstrap", prepared]
            assert run(words) == 0
        lines = [member.stdout.readline().decode() for member in members if member.stdout is not None]
        assert sorted(lines) == ["Partition:0\tvalue 0\n", "Partition:1\tvalue 1\n"]
        for member in members:
            member.send_signal(signal.SIGINT)
        assert [member.wait(DEADLINE_S) for member in members] == [130, 130]

    assert run(["produce", topic, "later", "--partition", "1", "--bootstrap", prepared]) == 0
    words = ["--topic", topic, "--group", group, "--from-beginning", "--max-messages", "1"]
    capfdbinary.readouterr()
    assert run(["kafka-console-consumer", *cluster_words, *words]) == 0
    assert capfdbinary.readouterr().out == b"later\n"


def test_the_columns_of_a_list_of_groups_are_as_wide_as_kafka_s(
    prepared: str, capsys: pytest.CaptureFixture[str]
) -> None:
    groups = ["kafka-consumer-groups", "--bootstrap-server", prepared, "--list"]
    assert run([*groups, "--type", "consumer", "--state", "dead"]) == 0
    assert capsys.readouterr().out == f"{'GROUP':<25} {'TYPE':<20} {'STATE':<20}\n"
    for option, said in (("--type", "types list 'x'. Valid types"), ("--state", "state list 'x'. Valid states")):
        assert run([*groups, option, "x"]) == 1
        assert f"Invalid {said} are: " in capsys.readouterr().err


def test_offsets_that_were_exported_are_put_back_from_their_file(
    prepared: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reset = ["kafka-consumer-groups", "--bootstrap-server", prepared, "--reset-offsets", "--group", "shims-kept"]
    assert run([*reset, "--topic", TOPIC, "--to-latest", "--execute"]) == 0
    capsys.readouterr()
    assert run([*reset, "--all-topics", "--to-current", "--export", "--dry-run"]) == 0
    kept = capsys.readouterr().out
    (tmp_path / "kept.csv").write_text(kept)
    assert run([*reset, "--topic", TOPIC, "--to-earliest", "--execute"]) == 0
    # The file determines the partitions, whatever the other arguments are.
    assert run([*reset, "--topic", f"{TOPIC}:1", "--from-file", str(tmp_path / "kept.csv"), "--execute"]) == 0
    capsys.readouterr()
    assert run([*reset, "--all-topics", "--to-current", "--export", "--dry-run"]) == 0
    assert capsys.readouterr().out == kept and kept.startswith(f"{TOPIC},0,")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--by-duration 1h", "Cannot parse '1h' as an ISO 8601 duration"),
        (f"--by-duration PT{'9' * 400}S", "Cannot parse"),
        ("--by-duration PT", "Cannot parse 'PT' as an ISO 8601 duration"),
        ("--from-file /nonexistent", "--from-file /nonexistent: No such file"),
        ("--from-file BROKEN", "line 2 is not [group,]topic,partition,offset"),
    ],
)
def test_an_unreadable_file_or_duration_for_a_reset_is_reported(
    words: str, said: str, prepared: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.csv").write_text(f"{TOPIC},0,1\n{TOPIC},x,1\n")
    given = words.replace("BROKEN", str(tmp_path / "broken.csv")).split()
    command = ["kafka-consumer-groups", "--bootstrap-server", prepared, "--reset-offsets", "--group", GROUP]
    assert run([*command, "--topic", TOPIC, *given, "--dry-run"]) == 1
    assert said in capsys.readouterr().err


def test_a_topic_is_described_by_its_id(prepared: str, capsys: pytest.CaptureFixture[str]) -> None:
    describe = ["kafka-topics", "--bootstrap-server", prepared, "--describe"]
    assert run([*describe, "--topic", TOPIC]) == 0
    by_name = capsys.readouterr().out
    topic_id = re.findall(r"TopicId: (\S+)", by_name)[0]
    assert run([*describe, "--topic-id", topic_id]) == 0
    assert capsys.readouterr().out == by_name
    assert run([*describe, "--topic-id", "AAAAAAAAAAAAAAAAAAAAAA"]) == 1
    assert "TopicId 'AAAAAAAAAAAAAAAAAAAAAA' does not exist" in capsys.readouterr().out
