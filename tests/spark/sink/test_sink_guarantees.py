"""Orders of events that tests with Spark cannot produce: concurrent drivers, other sinks, and lost responses."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from first_attempts import ROWS, FirstAttempt, another_process, run
from live_broker import committed, held_back, make_topic

from stuntbroker.client.commands.admin import Admin
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.producing import now_ms
from stuntbroker.client.commands.topics import create_topic
from stuntbroker.client.commands.transactions import End, end_all
from stuntbroker.client.errors import ClientError, ProducerFenced, TimedOut
from stuntbroker.pipeline.decisions import BatchWentBack, Decision, DecisionError
from stuntbroker.pipeline.spark import connections, single_sink, two_phase_sink
from stuntbroker.pipeline.spark.rows import BadRows
from stuntbroker.pipeline.spark.single_sink import DuplicateWriter, SingleSink
from stuntbroker.pipeline.spark.sink import sink_of
from stuntbroker.pipeline.spark.sink_options import SinkOptions, sink_options
from stuntbroker.pipeline.spark.two_phase_sink import AttemptTooLate, TwoPhaseSink
from stuntbroker.pipeline.spark.writing import Sink, write_once
from stuntbroker.pipeline.writer import TransactionalWriter
from stuntbroker.protocol.batches.records import build_batch

if TYPE_CHECKING:
    from live_broker import LiveBroker

DECISIONS = "stuntbroker-decisions"
Open = Callable[..., SinkOptions]


@pytest.fixture(autouse=True)
def in_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (single_sink, two_phase_sink):
        monkeypatch.setattr(module, "TaskContext", FirstAttempt)


@pytest.fixture
def name(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    """Create a topic for this test; return its name, which is also the sink id."""
    created = re.sub("[^A-Za-z0-9]", "-", request.node.name)
    make_topic(cluster, created)
    return created


@pytest.fixture
def options(broker: LiveBroker, name: str) -> Open:
    def log_with(**more: str) -> SinkOptions:
        given = {"kafka.bootstrap.servers": str(broker.address), "topic": name, "sinkId": name}
        return sink_options(given | {each.replace("_", "."): value for each, value in more.items()}, stream=True)

    return log_with


def check(cluster: Cluster, name: str, rows: int) -> None:
    actual = {each.transactional_id for each in Admin(cluster).list_transactions(states=("Ongoing",)).listings}
    assert [each for each in actual if each.startswith(name)] == []
    assert (committed(cluster, name), held_back(cluster, name)) == (["row"] * rows, [])


@pytest.mark.parametrize("mode", ["2pc", "single"])
def test_an_open_transaction_of_another_sink_does_not_hide_a_decision(
    mode: str, broker: LiveBroker, cluster: Cluster, options: Open, name: str
) -> None:
    """All sinks share the decision topic; a driver that died in a transaction holds back its readers until the time-out."""
    chosen = options(mode=mode)
    sink: Sink = TwoPhaseSink(chosen) if mode == "2pc" else SingleSink(chosen)
    run(sink, 0)
    with broker.cluster() as own:
        dead = TransactionalWriter(own, f"{name}.other-decisions", 1_000)
        dead.init()
        dead.produce(DECISIONS, 0, build_batch([(b"other", b'{"owner": 1}')], now_ms()))
        dead.flush()
        run(sink, 1)
        run(sink, 1)
    check(cluster, name, 2)


def test_a_decision_hidden_by_an_open_transaction_beyond_the_time_out_is_an_error(
    broker: LiveBroker, options: Open, name: str
) -> None:
    run(TwoPhaseSink(options()), 0)
    with broker.cluster() as own:
        other = TransactionalWriter(own, f"{name}.other")
        other.init()
        other.produce(DECISIONS, 0, build_batch([(b"other", b"{}")], now_ms()))
        other.flush()
        another_process()
        with pytest.raises(TimedOut, match="a transaction is open"):
            TwoPhaseSink(options(kafka_delivery_timeout_ms="300")).take()
        other.abort()


@pytest.mark.parametrize(("old", "new"), [(SingleSink, TwoPhaseSink), (TwoPhaseSink, SingleSink)])
def test_a_driver_with_another_mode_cannot_commit_what_its_successor_has_written(
    old: type[Sink], new: type[Sink], cluster: Cluster, options: Open, name: str
) -> None:
    modes = {SingleSink: options(mode="single"), TwoPhaseSink: options()}
    zombie, successor = old(modes[old]), new(modes[new])  # type: ignore[call-arg, index]
    taken = zombie.take()
    delayed = zombie.write(taken, "query", 0, ROWS)
    after = successor.take()
    message = successor.write(after, "query", 0, ROWS)
    another_process()
    with pytest.raises((DecisionError, ProducerFenced)):
        zombie.commit([delayed], 0)
    another_process()
    successor.commit([message], 0)
    check(cluster, name, 1)


def test_the_error_for_two_tasks_on_one_partition_names_the_remedy(options: Open) -> None:
    sink = SingleSink(options(mode="single"))
    taken = sink.take()
    sink.write(taken, "query", 0, ROWS)
    with pytest.raises(DuplicateWriter, match=r"another task writes to this partition too: .*partitioning.partitioned"):
        sink.write(taken, "query", 0, ROWS * 2)


def test_mode_single_ends_open_transactions_of_mode_2pc(cluster: Cluster, options: Open, name: str) -> None:
    dead = TwoPhaseSink(options())
    dead.write(dead.take(), "query", 0, ROWS)
    run(SingleSink(options(mode="single")), 0)
    check(cluster, name, 1)


def test_mode_single_commits_transactions_decided_in_mode_2pc(cluster: Cluster, options: Open, name: str) -> None:
    dead = TwoPhaseSink(options())
    taken = dead.take()
    message = dead.write(taken, "query", 0, ROWS)
    assert message.transaction is not None
    store = connections.store_of(cluster, options())
    store.resume(taken.claim)
    store.decide(Decision(name, "query", 0, (message.transaction,)))
    run(SingleSink(options(mode="single")), 0)
    check(cluster, name, 1)


def test_a_checkpoint_that_is_older_than_the_sink_is_refused(options: Open) -> None:
    """Batch 1 of a restored checkpoint may have other rows than the batch 1 that was written."""
    sink = TwoPhaseSink(options())
    for batch_id in range(3):
        run(sink, batch_id)
    taken = sink.take()
    assert write_once(sink, taken, "query", 2, iter(ROWS)).decided
    with pytest.raises(BatchWentBack, match="start with a new checkpoint and a new sinkId"):
        write_once(sink, taken, "query", 1, iter(ROWS))


def test_a_late_attempt_does_not_hide_that_a_decided_transaction_was_committed(
    cluster: Cluster, options: Open, name: str
) -> None:
    """The driver dies after the commit, before it marks the batch as done; then an attempt with the same number begins."""
    sink = TwoPhaseSink(options())
    taken = sink.take()
    message = sink.write(taken, "query", 0, ROWS)
    assert message.transaction is not None
    store = connections.store_of(cluster, options())
    store.resume(taken.claim)
    store.decide(Decision(name, "query", 0, (message.transaction,)))
    two_phase_sink._close_gate(cluster, name, taken.pair)
    end_all(cluster, [End(*message.transaction, True)])
    with pytest.raises(AttemptTooLate):
        sink.write(taken, "query", 0, ROWS)
    run(sink, 0)
    check(cluster, name, 1)


@pytest.mark.parametrize("is_stored", [True, False])
def test_the_stored_decision_counts_when_the_response_to_its_commit_is_lost(
    is_stored: bool, cluster: Cluster, options: Open, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = TwoPhaseSink(options())
    message = sink.write(sink.take(), "query", 0, ROWS)
    another_process()
    commit = TransactionalWriter.commit

    def lost(writer: TransactionalWriter) -> None:
        monkeypatch.setattr(TransactionalWriter, "commit", commit)
        (commit if is_stored else TransactionalWriter.abort)(writer)
        raise TimedOut("no answer")

    monkeypatch.setattr(TransactionalWriter, "commit", lost)
    if is_stored:
        sink.commit([message], 0)
    else:
        with pytest.raises(ClientError, match="no answer"):
            sink.commit([message], 0)
        sink.abort([message])
    check(cluster, name, is_stored)


def test_batches_obey_max_message_bytes_of_the_topic(broker: LiveBroker, cluster: Cluster, name: str) -> None:
    topic = f"{name}-small"
    create_topic(cluster, topic, 1, {"max.message.bytes": "20000"})
    given = {"kafka.bootstrap.servers": str(broker.address), "topic": topic, "sinkId": topic}
    sink = TwoPhaseSink(sink_options(given, stream=True))
    message = sink.write(sink.take(), "query", 0, [pa.record_batch({"value": pa.array(["x" * 100] * 2_000)})])
    sink.commit([message], 0)
    assert len(committed(cluster, topic)) == 2_000


@pytest.mark.parametrize("mode", ["2pc", "single"])
def test_a_row_that_is_too_large_is_refused_with_every_way_out(
    mode: str, broker: LiveBroker, cluster: Cluster, name: str
) -> None:
    topic = f"{name}-small"
    create_topic(cluster, topic, 1, {"max.message.bytes": "2000"})
    given = {"kafka.bootstrap.servers": str(broker.address), "topic": topic, "sinkId": topic, "mode": mode}
    large = [pa.record_batch({"value": pa.array(["x" * 5_000])})]
    refusing = sink_of(sink_options(given, stream=True))
    packing = sink_of(sink_options(given | {"kafka.compression.type": "gzip"}, stream=True))
    with pytest.raises(BadRows, match=r"MESSAGE_TOO_LARGE.*max\.message\.bytes.*kafka\.compression\.type"):
        refusing.write(refusing.take(), "query", 0, large)

    packing.commit([packing.write(packing.take(), "query", 0, large)], 0)
    assert committed(cluster, topic) == ["x" * 5_000]


def test_two_drivers_that_start_concurrently_leave_no_transaction_open(
    cluster: Cluster, options: Open, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second driver takes the sink after the first one has its claim, and before it has bumped the gate's epoch."""
    first, second = TwoPhaseSink(options()), TwoPhaseSink(options())
    init = two_phase_sink.init_producer
    taken = []

    def interrupted(created: Cluster, transactional_id: str, *more: object, **named: object) -> object:
        # Skip the permission check, which initialises the gate's id with `two_phase`.
        if transactional_id.endswith("-gate") and "two_phase" not in named and not taken:
            taken.append(None)
            another_process()
            taken[0] = second.take()
        return init(created, transactional_id, *more, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(two_phase_sink, "init_producer", interrupted)
    with pytest.raises(DecisionError):
        first.take()
    with pytest.raises(AttemptTooLate):
        second.write(taken[0], "query", 0, ROWS)  # type: ignore[arg-type]
    run(second, 0)
    check(cluster, name, 1)
