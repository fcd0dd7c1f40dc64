"""confluent-kafka, which is librdkafka: produces, consumes and keeps its transactions as with Kafka."""

import time
from collections.abc import Iterable

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

DEADLINE_S = 30
TXN_TIMEOUT_MS = 1_500


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
    assert producer.flush(DEADLINE_S) == 0
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
        }
    )
    producer.init_transactions(DEADLINE_S)
    return producer


def poll_until(consumer: Consumer, last: str) -> list[str]:
    """Every value up to and with `last`."""
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
    """What a reader of partition 0 sees from its beginning up to `until`."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": f"{topic}-reader", "isolation.level": isolation}
    )
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
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    return consumer


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
        values: list[str] = []
        deadline = time.monotonic() + DEADLINE_S
        while len(values) < 100 and time.monotonic() < deadline:
            values += [(message.value() or b"").decode() for message in consumer.consume(100, 0.2)]
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


def test_confluent_transforms_exactly_once_with_the_offsets_in_the_transaction(
    bootstrap: str, own: str
) -> None:
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


def test_confluent_zombie_is_fenced_and_its_records_stay_invisible(bootstrap: str, own: str) -> None:
    topic = create_topic(bootstrap, f"{own}-topic")
    zombie = transactional_producer(bootstrap, f"{own}-id")
    zombie.begin_transaction()
    send(zombie, topic, ["zombie"])

    heir = transactional_producer(bootstrap, f"{own}-id")
    with pytest.raises(KafkaException) as fenced:
        zombie.commit_transaction(DEADLINE_S)
    heir.begin_transaction()
    send(heir, topic, ["heir"])
    heir.commit_transaction()

    error = fenced.value.args[0]
    assert (error.code(), error.fatal()) == (KafkaError._FENCED, True)
    assert read(bootstrap, topic, "read_committed", until="heir") == ["heir"]


def test_confluent_producer_is_fenced_when_its_transaction_has_timed_out(bootstrap: str, own: str) -> None:
    """No error tells of a time-out: the coordinator raises the epoch, librdkafka takes that as fencing."""
    topic = create_topic(bootstrap, f"{own}-topic")
    slow = transactional_producer(bootstrap, f"{own}-id", TXN_TIMEOUT_MS)
    slow.begin_transaction()
    send(slow, topic, ["late"])
    write(bootstrap, topic, ["after"])

    assert read(bootstrap, topic, "read_committed", until="after") == ["after"]
    with pytest.raises(KafkaException) as fenced:
        slow.commit_transaction(DEADLINE_S)
    error = fenced.value.args[0]
    assert (error.code(), error.fatal()) == (KafkaError._FENCED, True)
    heir = transactional_producer(bootstrap, f"{own}-id")
    heir.begin_transaction()
    send(heir, topic, ["next"])
    heir.commit_transaction()
    assert read(bootstrap, topic, "read_committed", until="next") == ["after", "next"]
