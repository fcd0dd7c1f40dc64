"""Task attempts that Spark has abandoned, or does not wait for, leave no transaction open."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from live_broker import batch, committed, held_back, make_topic

from stuntbroker.client.commands.admin import Admin
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.errors import ClientError
from stuntbroker.client.prepared_state import NO_PRODUCER
from stuntbroker.pipeline.decisions import Superseded, Transaction
from stuntbroker.pipeline.recovery import transactional_id
from stuntbroker.pipeline.spark.sink_options import SinkOptions, sink_options
from stuntbroker.pipeline.spark.two_phase_sink import Attempt, AttemptTooLate, TwoPhaseSink
from stuntbroker.pipeline.spark.writing import Taken, TaskMessage

if TYPE_CHECKING:
    from live_broker import LiveBroker


@pytest.fixture
def options(broker: LiveBroker, cluster: Cluster, request: pytest.FixtureRequest) -> SinkOptions:
    name = re.sub("[^A-Za-z0-9]", "-", request.node.name)
    make_topic(cluster, name)
    return sink_options({"kafka.bootstrap.servers": str(broker.address), "topic": name, "sinkId": name}, stream=True)


def attempt(cluster: Cluster, options: SinkOptions, taken: Taken, task: int = 0, number: int = 0) -> Attempt:
    return Attempt(cluster, options.sink_id, taken.pair, task, number)


def written(each: Attempt, options: SinkOptions, value: str) -> Attempt:
    each.produce(options.topic or "", 0, batch(value))
    each.finish()
    return each


def message(taken: Taken, transaction: Transaction | None) -> TaskMessage:
    return TaskMessage(taken.claim, taken.pair, "query", transaction, False, 1, {})


def check(cluster: Cluster, options: SinkOptions, *values: str) -> None:
    topic = options.topic or ""
    ids = {each.transactional_id for each in Admin(cluster).list_transactions(states=("Ongoing",)).listings}
    assert [each for each in ids if each.startswith(options.sink_id)] == []
    assert (committed(cluster, topic), held_back(cluster, topic)) == (sorted(values), [])


@pytest.mark.parametrize("messages", [True, False])
def test_an_attempt_does_not_begin_when_its_batch_was_aborted(
    cluster: Cluster, options: SinkOptions, messages: bool
) -> None:
    sink = TwoPhaseSink(options)
    taken = sink.take()
    won = written(attempt(cluster, options, taken), options, "lost")
    delayed = attempt(cluster, options, taken, task=1)
    sink.abort([message(taken, won.transaction)] if messages else [])

    with pytest.raises(AttemptTooLate, match="its batch has ended"):
        written(delayed, options, "late")
    check(cluster, options)


def test_an_attempt_does_not_begin_when_its_batch_was_committed(cluster: Cluster, options: SinkOptions) -> None:
    """Speculation runs an attempt of a task whose other attempt was committed."""
    sink = TwoPhaseSink(options)
    taken = sink.take()
    won = written(attempt(cluster, options, taken), options, "won")
    sink.commit([message(taken, won.transaction)], 0)

    with pytest.raises(AttemptTooLate):
        written(attempt(cluster, options, taken, number=1), options, "late")
    check(cluster, options, "won")


@pytest.mark.parametrize("end", ["abort", "commit"])
def test_an_attempt_that_has_begun_is_ended_with_its_batch(cluster: Cluster, options: SinkOptions, end: str) -> None:
    sink = TwoPhaseSink(options)
    taken = sink.take()
    won = written(attempt(cluster, options, taken), options, "won")
    delayed = attempt(cluster, options, taken, number=1)
    delayed.produce(options.topic or "", 0, batch("late"))
    if end == "commit":
        sink.commit([message(taken, won.transaction)], 0)
    else:
        sink.abort([message(taken, won.transaction)])

    with pytest.raises(ClientError):
        written(delayed, options, "late")
    check(cluster, options, *(["won"] if end == "commit" else []))


def test_attempts_with_the_same_number_use_different_transactional_ids(cluster: Cluster, options: SinkOptions) -> None:
    """A stage that is run again counts attempts from 0 again, while earlier attempts may still be running."""
    sink = TwoPhaseSink(options)
    taken = sink.take()
    both = [written(attempt(cluster, options, taken), options, value) for value in ("won", "again")]
    names = [each.transaction.transactional_id for each in both if each.transaction]
    assert names == [transactional_id(options.sink_id, 0, slot) for slot in (0, 1)]

    sink.commit([message(taken, both[0].transaction)], 0)
    check(cluster, options, "won")


def test_tasks_of_a_driver_that_was_replaced_do_not_begin(cluster: Cluster, options: SinkOptions) -> None:
    old, new = TwoPhaseSink(options), TwoPhaseSink(options)
    before = old.take()
    lost = written(attempt(cluster, options, before), options, "lost")
    taken = new.take()
    with pytest.raises(AttemptTooLate):
        written(attempt(cluster, options, before, task=1), options, "late")
    won = written(attempt(cluster, options, taken), options, "won")
    for end in (lambda: old.commit([message(before, lost.transaction)], 0), lambda: old.abort([message(before, None)])):
        with pytest.raises(Superseded):
            end()
    new.commit([message(taken, won.transaction)], 0)
    check(cluster, options, "won")


def test_an_attempt_that_fails_aborts_what_it_began(cluster: Cluster, options: SinkOptions) -> None:
    taken = TwoPhaseSink(options).take()
    with pytest.raises(ZeroDivisionError), attempt(cluster, options, taken) as each:
        each.produce(options.topic or "", 0, batch("lost"))
        raise ZeroDivisionError
    check(cluster, options)


def test_an_attempt_without_rows_begins_nothing(cluster: Cluster, options: SinkOptions) -> None:
    assert attempt(cluster, options, Taken(1, None, NO_PRODUCER)).finish() == {}
    check(cluster, options)
