"""mode=single on our broker and on Apache Kafka: a batch is one transaction, written once after any fault."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sink_runs import Sink, lines

from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.protocol.addresses import parse_bootstrap

if TYPE_CHECKING:
    from live_broker import LiveBroker
    from pyspark.sql import SparkSession

KINDS = ("ours", "kafka")
only_ours = pytest.mark.parametrize("bootstrap", ["ours"], indirect=True)


@pytest.fixture(scope="module", params=KINDS)
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "ours":
        broker: LiveBroker = request.getfixturevalue("broker")
        yield str(broker.address)
        return
    from tests.kit.brokers.kafka_broker import apache_kafka

    with apache_kafka(tmp_path_factory.mktemp("kafka")) as created:
        yield created


@pytest.fixture
def sink(spark: SparkSession, bootstrap: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Sink]:
    with Cluster(parse_bootstrap(bootstrap)) as cluster:
        created = Sink(spark, bootstrap, cluster, tmp_path, request.node.name)
        created.options["mode"] = "single"
        created.together = True
        yield created
        created.settled()
        created.check()


def test_every_batch_of_mode_single_is_committed_once(sink: Sink) -> None:
    for number in range(3):
        sink.add_input(lines(number, 300))
    sink.run()


def test_a_task_that_fails_ends_the_query_and_its_batch_is_written_again(sink: Sink) -> None:
    for number in range(2):
        sink.add_input(lines(number, 300))
    sink.faults.set("1-raise-0-0")
    assert "the query must be restarted" in sink.fails()
    sink.settled()
    sink.check(rows=sink.expected[:300])
    sink.faults.clear()
    sink.run()


@pytest.mark.parametrize("fault", ["commit-before", "commit-after"])
def test_the_outcome_of_a_failed_commit_is_looked_up_at_the_restart_of_the_query(sink: Sink, fault: str) -> None:
    sink.add_input(lines(0, 300))
    sink.faults.set(fault)
    sink.fails()
    sink.settled()
    sink.check(rows=[] if fault == "commit-before" else sink.expected)
    sink.add_input(lines(1, 300))
    sink.run()


def test_the_next_driver_ends_the_transaction_of_a_dead_driver(sink: Sink) -> None:
    sink.add_input(lines(0, 300))
    sink.faults.set("commit-before")
    sink.faults.set("abort")
    sink.fails()
    assert sink.open_transactions() == [f"{sink.name}-single Ongoing"]
    sink.faults.clear()
    sink.run()


@only_ours
def test_two_tasks_must_not_write_to_one_partition(sink: Sink) -> None:
    sink.together = False
    sink.add_input(lines(0, 300))
    sink.fails()
    sink.settled()
    sink.check(rows=[])
    sink.together = True
    sink.run()


@only_ours
@pytest.mark.parametrize("faults", [["raise-0-0", "exit-1-0"], ["commit-before"]], ids=["tasks", "commit"])
def test_jobs_are_written_once(sink: Sink, faults: list[str]) -> None:
    """After a failed task and a killed worker, or a failed commit, no row is committed, and the job can be run again."""
    for fault in faults:
        sink.faults.set(fault)
    sink.write_fails(lines(0, 300))
    sink.settled()
    sink.check(rows=[])
    sink.faults.clear()
    for number in range(2):
        sink.write(lines(number, 300))


def test_a_query_may_continue_in_the_other_mode(sink: Sink, bootstrap: str, request: pytest.FixtureRequest) -> None:
    sink.add_input(lines(0, 50))
    sink.run()
    sink.options["mode"] = "2pc"
    sink.add_input(lines(1, 50))
    if "kafka" in request.node.name:
        assert "these brokers have no two-phase commit (KIP-939), use option mode=single" in sink.fails()
    else:
        sink.run()
        sink.add_input(lines(2, 50))
    sink.options["mode"] = "single"
    sink.run()
