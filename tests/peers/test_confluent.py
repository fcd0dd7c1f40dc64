"""confluent-kafka (librdkafka) produces, consumes and runs transactions on our broker as on Apache Kafka."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.kit.brokers.clusters import Clusters
from tests.kit.brokers.judge import check_identities, check_nothing_is_open, identity_of
from tests.peers.watching import Watch

DEADLINE_S = 30
TXN_TIMEOUT_MS = 2_000
PARTITIONS = 3


def create_topic(bootstrap: str, topic: str, partitions: int = 1) -> str:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(DEADLINE_S)
    return topic


def send(producer: Producer, topic: str, values: Iterable[str], partition: int = 0) -> None:
    """Produce, and wait until everything is acknowledged."""
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    for value in values:
        producer.produce(topic, value.encode(), partition=partition, on_delivery=delivered)
    try:
        assert producer.flush(DEADLINE_S) == 0
    except SystemError as fault:
        # confluent-kafka 2.16 calls `delivered` when it has already set the exception of a fatal error; Python 3.13 refuses that.
        assert isinstance(fault.__cause__, KafkaException)
        raise fault.__cause__ from None
    if failures:
        raise KafkaException(failures[0])


def write(bootstrap: str, topic: str, values: Iterable[str], partition: int = 0) -> None:
    send(Producer({"bootstrap.servers": bootstrap}), topic, values, partition)


def transactional_producer(bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
            # Without a callback, flush() raises a fatal error before the record's delivery report.
            "error_cb": lambda _: None,
        }
    )
    producer.init_transactions(DEADLINE_S)
    return producer


def poll_until(consumer: Consumer, last: str) -> list[str]:
    """Return all values up to and including `last`."""
    values: list[str] = []
    deadline = time.monotonic() + DEADLINE_S
    while last not in values:
        assert time.monotonic() < deadline, f"no {last!r} after {values}"
        message = consumer.poll(0.2)
        if message is None:
            continue
        if message.error():
            raise KafkaException(message.error())
        values.append((message.value() or b"").decode())
    return values


def read(bootstrap: str, topic: str, isolation: str, until: str) -> list[str]:
    """Return the values of partition 0 from its beginning up to `until`."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"{topic}-reader", "isolation.level": isolation})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return poll_until(consumer, until)
    finally:
        consumer.close()


def group_consumer(bootstrap: str, group: str, topic: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            # A member learns of a rebalance at its next heartbeat; the default is 3 s.
            "heartbeat.interval.ms": 200,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    return consumer


def consume(consumer: Consumer, count: int) -> list[Message]:
    messages: list[Message] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(messages) < count:
        assert time.monotonic() < deadline, f"{len(messages)} of {count} records"
        messages += consumer.consume(count - len(messages), 0.2)
    return messages


def transform(bootstrap: str, own: str, source: str, target: str, count: int, *, commit: bool) -> None:
    """Upper-case `count` records from one topic to the other, offsets and all, and commit or abort."""
    producer = transactional_producer(bootstrap, f"{own}-transform")
    consumer = group_consumer(bootstrap, f"{own}-group", source)
    try:
        done = 0
        deadline = time.monotonic() + DEADLINE_S
        while done < count:
            assert time.monotonic() < deadline, f"{done} of {count} records"
            messages = consumer.consume(5, 0.2)
            if not messages:
                continue
            producer.begin_transaction()
            for message in messages:
                producer.produce(target, (message.value() or b"").upper(), partition=0)
            offsets = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
            if commit:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
            done += len(messages)
    finally:
        consumer.close()


def test_confluent_consumes_in_a_group_what_it_produced(bootstrap: str, own: str) -> None:
    topic = create_topic(bootstrap, f"{own}-topic", partitions=2)
    write(bootstrap, topic, [f"a{n}" for n in range(50)], partition=0)
    write(bootstrap, topic, [f"b{n}" for n in range(50)], partition=1)

    consumer = group_consumer(bootstrap, f"{own}-group", topic)
    try:
        values = [(message.value() or b"").decode() for message in consume(consumer, 100)]
    finally:
        consumer.close()

    assert [v for v in values if v[0] == "a"] == [f"a{n}" for n in range(50)]
    assert [v for v in values if v[0] == "b"] == [f"b{n}" for n in range(50)]


def test_confluent_reads_a_committed_transaction(bootstrap: str, own: str) -> None:
    topic = create_topic(bootstrap, f"{own}-topic")
    producer = transactional_producer(bootstrap, f"{own}-id")
    producer.begin_transaction()
    send(producer, topic, ["one", "two"])
    producer.commit_transaction()

    assert read(bootstrap, topic, "read_committed", until="two") == ["one", "two"]


def test_confluent_reads_an_aborted_transaction_only_uncommitted(bootstrap: str, own: str) -> None:
    topic = create_topic(bootstrap, f"{own}-topic")
    producer = transactional_producer(bootstrap, f"{own}-id")
    producer.begin_transaction()
    send(producer, topic, ["lost"])
    producer.abort_transaction()
    producer.begin_transaction()
    send(producer, topic, ["kept"])
    producer.commit_transaction()

    assert read(bootstrap, topic, "read_committed", until="kept") == ["kept"]
    assert read(bootstrap, topic, "read_uncommitted", until="kept") == ["lost", "kept"]


def test_confluent_transforms_exactly_once_with_the_offsets_in_the_transaction(bootstrap: str, own: str) -> None:
    """KIP-98 and KIP-447: an aborted round leaves neither records nor offsets; the next one starts again."""
    source = create_topic(bootstrap, f"{own}-source", partitions=2)
    target = create_topic(bootstrap, f"{own}-target")
    write(bootstrap, source, [f"a{n}" for n in range(12)], partition=0)
    write(bootstrap, source, [f"b{n}" for n in range(8)], partition=1)

    transform(bootstrap, own, source, target, 20, commit=False)
    transform(bootstrap, own, source, target, 20, commit=True)

    write(bootstrap, target, ["end"])
    *values, _ = read(bootstrap, target, "read_committed", until="end")
    assert sorted(values) == sorted([f"A{n}" for n in range(12)] + [f"B{n}" for n in range(8)])
    consumer = group_consumer(bootstrap, f"{own}-group", source)
    try:
        committed = consumer.committed([TopicPartition(source, 0), TopicPartition(source, 1)], DEADLINE_S)
    finally:
        consumer.close()
    assert [each.offset for each in committed] == [12, 8]


def refused(step: Callable[[], object]) -> KafkaError:
    """Run a step that must fail; return librdkafka's error."""
    with pytest.raises(KafkaException) as caught:
        step()
    error: KafkaError = caught.value.args[0]
    return error


def is_fenced(error: KafkaError) -> bool:
    return error.code() == KafkaError._FENCED and error.fatal()


def commit(producer: Producer, topic: str, value: str, partitions: int = 1) -> None:
    """One transaction with the same value in every partition."""
    producer.begin_transaction()
    for partition in range(partitions):
        send(producer, topic, [value], partition)
    producer.commit_transaction(DEADLINE_S)


@contextlib.contextmanager
def watch(bootstrap: str, topic: str) -> Iterator[Watch]:
    """Run a read_committed consumer from the beginning of the topic, for the duration of the block."""
    seen = Watch()

    def run() -> None:
        consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": f"{topic}-watch", "isolation.level": "read_committed"}
        )
        try:
            consumer.assign([TopicPartition(topic, n, 0) for n in range(PARTITIONS)])
            while not seen.ended.is_set():
                message = consumer.poll(0.05)
                if message is not None and not message.error():
                    seen.take(message.partition() or 0, message.value() or b"")
        finally:
            consumer.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield seen
    finally:
        seen.ended.set()
        thread.join()


@pytest.mark.parametrize("partition", [0, 1], ids=["where-it-wrote", "elsewhere"])
def test_confluent_zombie_is_fenced_at_its_next_record_and_for_good(
    each_bootstrap: str, own: str, partition: int
) -> None:
    topic = create_topic(each_bootstrap, f"{own}-topic", partitions=2)
    zombie = transactional_producer(each_bootstrap, f"{own}-id")
    zombie.begin_transaction()
    send(zombie, topic, ["zombie"])

    heir = transactional_producer(each_bootstrap, f"{own}-id")
    assert is_fenced(refused(lambda: send(zombie, topic, ["zombie"], partition)))
    assert is_fenced(refused(lambda: zombie.abort_transaction(DEADLINE_S)))
    assert is_fenced(refused(lambda: zombie.begin_transaction()))
    commit(heir, topic, "heir", partitions=2)

    assert read(each_bootstrap, topic, "read_committed", until="heir") == ["heir"]
    check_nothing_is_open(each_bootstrap, topic, 2)


def test_confluent_takeover_of_an_open_transaction_shows_none_of_its_records(each_bootstrap: str, own: str) -> None:
    topic = create_topic(each_bootstrap, f"{own}-topic", PARTITIONS)
    with watch(each_bootstrap, topic) as seen:
        commit(transactional_producer(each_bootstrap, f"{own}-before"), topic, "before", PARTITIONS)
        seen.wait_for("before", PARTITIONS)
        zombie = transactional_producer(each_bootstrap, f"{own}-id")
        zombie.begin_transaction()
        for partition in range(PARTITIONS):
            send(zombie, topic, ["zombie 1", "zombie 2"], partition)

        heir = transactional_producer(each_bootstrap, f"{own}-id")
        commit(heir, topic, "heir", PARTITIONS)
        assert is_fenced(refused(lambda: zombie.commit_transaction(DEADLINE_S)))
        commit(heir, topic, "after", PARTITIONS)
        seen.wait_for("after", PARTITIONS)

    assert seen.values == {n: ["before", "heir", "after"] for n in range(PARTITIONS)}
    check_nothing_is_open(each_bootstrap, topic, PARTITIONS)


def test_confluent_producer_is_fenced_in_every_call_after_a_time_out_and_a_new_producer_continues(
    each_bootstrap: str, own: str
) -> None:
    """The protocol has no error for a time-out: the coordinator raises the epoch, which librdkafka takes for fencing."""
    topic = create_topic(each_bootstrap, f"{own}-topic", partitions=2)
    steps: dict[str, Callable[[Producer], object]] = {
        "record": lambda slow: send(slow, topic, ["too late"]),
        "record-elsewhere": lambda slow: send(slow, topic, ["too late"], partition=1),
        "commit": lambda slow: slow.commit_transaction(DEADLINE_S),
        "abort": lambda slow: slow.abort_transaction(DEADLINE_S),
    }
    slow = {step: transactional_producer(each_bootstrap, f"{own}-{step}", TXN_TIMEOUT_MS) for step in steps}
    for producer in slow.values():
        producer.begin_transaction()
        send(producer, topic, ["late"])
    write(each_bootstrap, topic, ["after"])
    # A reader can only get past the transactions after their abort.
    assert read(each_bootstrap, topic, "read_committed", until="after") == ["after"]

    errors = {step: refused(partial(run, slow[step])) for step, run in steps.items()}
    for step in steps:
        commit(transactional_producer(each_bootstrap, f"{own}-{step}"), topic, step)

    assert {step: is_fenced(error) for step, error in errors.items()} == dict.fromkeys(steps, True)
    assert read(each_bootstrap, topic, "read_committed", until="abort") == ["after", *steps]
    check_nothing_is_open(each_bootstrap, topic, 2)


def test_confluent_instances_go_past_the_last_epoch_without_a_gap(each_late_bootstrap: str, own: str) -> None:
    """Under the old transaction protocol only InitProducerId moves the epoch: one step for each instance."""
    topic = create_topic(each_late_bootstrap, f"{own}-topic")
    identities = []
    for n in range(6):
        producer = transactional_producer(each_late_bootstrap, "late-confluent")
        identities.append(identity_of(each_late_bootstrap, "late-confluent"))
        producer.begin_transaction()
        send(producer, topic, [f"lost {n}"])
        producer.abort_transaction(DEADLINE_S)
        commit(producer, topic, f"kept {n}")

    check_identities(identities, [32_764, 32_765, 32_766], [0, 1, 2])
    assert read(each_late_bootstrap, topic, "read_committed", until="kept 5") == [f"kept {n}" for n in range(6)]
    check_nothing_is_open(each_late_bootstrap, topic, 1)


@pytest.mark.parametrize(
    ("cluster", "epochs"), [("late-tv2", [1, 3, 5, 7]), ("late-tv1", [0, 2, 4, 6])], ids=["tv2", "tv1"]
)
def test_confluent_takeovers_past_the_last_epoch_show_no_record_of_a_zombie(
    clusters: Clusters, own: str, cluster: str, epochs: list[int]
) -> None:
    """A takeover of an open transaction costs two epochs: one to fence, one to begin.

    Fencing at 32766 already hands out the new producer id under transaction.version 2, with epoch 0. Zombies of the
    old producer id get INVALID_PRODUCER_ID_MAPPING, which librdkafka does not take for fencing.
    """
    bootstrap = clusters.bootstrap(cluster)
    topic = create_topic(bootstrap, f"{own}-topic")
    producers = []
    identities = []
    for n in range(6):
        producers.append(transactional_producer(bootstrap, "late-confluent-takeover"))
        identities.append(identity_of(bootstrap, "late-confluent-takeover"))
        commit(producers[n], topic, f"kept {n}")
        producers[n].begin_transaction()
        send(producers[n], topic, [f"lost {n}"])
    *zombies, last = producers
    errors = [refused(partial(zombie.commit_transaction, DEADLINE_S)) for zombie in zombies]
    last.abort_transaction(DEADLINE_S)

    check_identities(identities, [32_764, 32_766], epochs)
    shifted, fenced = KafkaError.INVALID_PRODUCER_ID_MAPPING, KafkaError._FENCED
    assert [error.code() for error in errors] == [shifted, shifted, fenced, fenced, fenced]
    assert read(bootstrap, topic, "read_committed", until="kept 5") == [f"kept {n}" for n in range(6)]
    check_nothing_is_open(bootstrap, topic, 1)


def test_confluent_offsets_of_a_member_that_was_rebalanced_out_are_refused(each_bootstrap: str, own: str) -> None:
    """KIP-447: the group's generation fences, whatever the transactional id."""
    source = create_topic(each_bootstrap, f"{own}-source", partitions=2)
    target = create_topic(each_bootstrap, f"{own}-target")
    for partition in range(2):
        write(each_bootstrap, source, [f"{'ab'[partition]}{n}" for n in range(4)], partition)
    zombie = group_consumer(each_bootstrap, f"{own}-group", source)
    producer = transactional_producer(each_bootstrap, f"{own}-zombie")

    def round_of_the_zombie(metadata: object) -> KafkaError:
        producer.begin_transaction()
        send(producer, target, ["zombie"])
        error = refused(lambda: producer.send_offsets_to_transaction(offsets, metadata, DEADLINE_S))
        producer.abort_transaction(DEADLINE_S)
        return error

    consume(zombie, 8)
    offsets = zombie.position(zombie.assignment())
    assert [each.offset for each in offsets] == [4, 4]
    first_generation = zombie.consumer_group_metadata()
    heir = group_consumer(each_bootstrap, f"{own}-group", source)
    try:
        while len(heir.assignment()) != 1:
            heir.poll(0.1)
            zombie.poll(0.1)
        older = round_of_the_zombie(first_generation)
        second_generation = zombie.consumer_group_metadata()
        zombie.close()
        gone = round_of_the_zombie(second_generation)
        committed = heir.committed([TopicPartition(source, 0), TopicPartition(source, 1)], DEADLINE_S)
    finally:
        heir.close()
    transform(each_bootstrap, own, source, target, 8, commit=True)

    assert (older.code(), older.txn_requires_abort()) == (KafkaError.ILLEGAL_GENERATION, True)
    assert (gone.code(), gone.txn_requires_abort()) == (KafkaError.UNKNOWN_MEMBER_ID, True)
    assert [each.offset for each in committed] == [OFFSET_INVALID, OFFSET_INVALID]
    write(each_bootstrap, target, ["end"])
    *values, _ = read(each_bootstrap, target, "read_committed", until="end")
    assert sorted(values) == [f"{letter}{n}" for letter in "AB" for n in range(4)]
