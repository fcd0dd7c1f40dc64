"""Apache's own tool for transactions (`kafka-transactions.sh`) prints the same for our broker and for Apache Kafka."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from producers import Hand, Producer

from tests.kit.programs.kafka_tools import KafkaTools

# The first run downloads the jars.
pytestmark = pytest.mark.timeout(900)

OLD_MS = 16 * 60_000
TOPIC = "apache-tool"
TIME = re.compile(r"^1[0-9]{12}$")


def tool(tools: KafkaTools, bootstrap: str, *arguments: str) -> tuple[int, str]:
    """Run the tool; return its exit status and output."""
    done = tools.run("org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", bootstrap, *arguments)
    return done.status, done.out + done.err


def cells(printed: str, names: dict[str, str]) -> list[list[str]]:
    """Return a table without values that differ between runs: times are normalised, and producer ids become transactional ids."""
    header, *rows = (
        [cell.strip() for cell in line.split("\t")[:-1] or [line]] for line in printed.splitlines() or [""]
    )
    messages = []
    for row in rows:
        messages.append([])
        for title, cell in zip(header, row, strict=True):
            if TIME.match(cell) or title in ("TransactionDurationMs", "Duration(min)"):
                cell = "number" if cell.isdigit() else cell
            elif title == "ProducerId":
                cell = names.get(cell, cell)
            elif title == "TopicPartitions":
                cell = ",".join(sorted(cell.split(",")))
            messages[-1].append(cell)
    return [header, *sorted(messages)]


def story(tools: KafkaTools, bootstrap: str) -> dict[str, tuple[int, list[list[str]]]]:
    """Return the tool's output for each command, after the same transactions were prepared on the broker."""
    hand = Hand(bootstrap)
    hand.make_topic(TOPIC, partitions=3)
    producers: list[Producer] = []

    def log_with(name: str) -> Producer:
        producers.append(hand.init(f"{TOPIC}-{name}"))
        return producers[-1]

    opened = log_with("open")
    hand.add(opened, TOPIC, 0, 1)
    hand.produce(opened, TOPIC, 0)
    ended = log_with("ended")
    hand.add(ended, TOPIC, 1)
    hand.produce(ended, TOPIC, 1)
    hand.end(ended, commit=True)
    hand.settled(ended)
    log_with("empty")
    for partition in (1, 2):
        hand.produce(log_with(f"hanging-{partition}"), TOPIC, partition, age_ms=OLD_MS)
    names = {str(each.producer_id): each.transactional_id for each in producers}

    def say(*arguments: str) -> tuple[int, list[list[str]]]:
        status, printed = tool(tools, bootstrap, *arguments)
        return status, cells(printed, names)

    pattern = ("--transactional-id-pattern", f"{TOPIC}.*")
    at = ("--topic", TOPIC, "--partition")
    pid = str(producers[-1].producer_id)
    actual = {
        "list": say("list", *pattern),
        "list of those that run longer": say("list", *pattern, "--duration-filter", "1"),
        "describe open": say("describe", "--transactional-id", opened.transactional_id),
        "describe ended": say("describe", "--transactional-id", ended.transactional_id),
        "describe nobody": say("describe", "--transactional-id", f"{TOPIC}-nobody"),
        "describe-producers": say("describe-producers", *at, "1"),
        "find-hanging": say("find-hanging", "--topic", TOPIC),
        "abort of nothing": say("abort", *at, "1", "--start-offset", "99"),
        "abort by offset": say("abort", *at, "1", "--start-offset", "3"),
        "abort by producer": say(
            "abort", *at, "2", "--producer-id", pid, "--producer-epoch", "0", "--coordinator-epoch", "-1"
        ),
        "find-hanging afterwards": say("find-hanging", "--topic", TOPIC),
        "forceTerminateTransaction": say("forceTerminateTransaction", "--transactionalId", opened.transactional_id),
        "describe terminated": say("describe", "--transactional-id", opened.transactional_id),
        "describe-producers afterwards": say("describe-producers", *at, "0"),
    }
    hand.close()
    return actual


def test_kafka_transactions_prints_the_same_of_ours_as_of_kafka(ours: str, kafka: str, kafka_tools: KafkaTools) -> None:
    with ThreadPoolExecutor() as threads:
        of_ours, of_kafka = threads.map(story, (kafka_tools, kafka_tools), (ours, kafka))

    assert of_ours == of_kafka
    # Only the expected commands fail.
    assert {name: status for name, (status, _) in of_kafka.items() if status} == {
        "describe nobody": 1,
        "abort of nothing": 1,
    }
    rows = {name: table[1:] for name, (_, table) in of_kafka.items()}
    assert [row[3] for row in rows["list"]] == ["Empty", "CompleteCommit", "Empty", "Empty", "Ongoing"]
    assert [(row[1], row[5]) for row in rows["find-hanging"]] == [("1", "3"), ("2", "0")]
    assert rows["describe open"][0][8] == f"{TOPIC}-0,{TOPIC}-1"
    assert rows["find-hanging afterwards"] == []
    assert rows["describe terminated"][0][3:6] == ["2", "Empty", "30000"]
