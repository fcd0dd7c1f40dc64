"""Apache Kafka's own Java client: tests/peers/java/Scenarios.java, in one run for all tests here."""

from pathlib import Path

import pytest

from tests.peers.kafka_broker import class_path, java_tool
from tests.peers.scenarios import Outcomes, build, build_folder, run_scenarios

SOURCES = sorted(Path(__file__).with_name("java").glob("*.java"))

# The first run fetches the jars and compiles.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def java(bootstrap: str) -> Outcomes:
    compiler = [java_tool("javac"), "-cp", class_path(), "-d", "{out}", "-proc:none", "-Xlint:all", "-Werror"]
    classes = build(build_folder("java", SOURCES), [*compiler, *map(str, SOURCES)], cwd=SOURCES[0].parent)
    # The simple compiler and collector: the program lives for seconds.
    run = [java_tool("java"), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m"]
    return run_scenarios([*run, "-cp", f"{classes}:{class_path()}", "Scenarios", bootstrap])


def test_java_consumes_in_a_group_what_it_produced(java: Outcomes) -> None:
    java.check("group_consumer")


def test_java_reads_a_committed_transaction(java: Outcomes) -> None:
    java.check("committed")


def test_java_reads_an_aborted_transaction_only_uncommitted(java: Outcomes) -> None:
    java.check("aborted")


def test_java_transforms_exactly_once_with_the_offsets_in_the_transaction(java: Outcomes) -> None:
    java.check("exactly_once")


def test_java_zombie_is_fenced_and_its_records_stay_invisible(java: Outcomes) -> None:
    java.check("zombie")


def test_java_send_is_refused_when_the_transaction_has_timed_out_and_abort_recovers(java: Outcomes) -> None:
    """KIP-890: the abort of a transaction that timed out hands out the epoch to go on with."""
    java.check("timed_out_send")


def test_java_commit_is_fatal_when_the_transaction_has_timed_out(java: Outcomes) -> None:
    java.check("timed_out_commit")
