"""kafka-python produces, consumes and runs transactions on our broker as on Apache Kafka."""

import contextlib
import time
import warnings
from collections.abc import Iterable

import pytest

with warnings.catch_warnings():
    # kafka-python reads its schemas with functions that Python 3.11 and 3.12, and only they, call deprecated.
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
    from kafka.errors import ProducerFencedError

DEADLINE_S = 30
TXN_TIMEOUT_MS = 2_000


def create_topic(bootstrap: str, topic: str, partitions: int = 1) -> str:
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        admin.create_topics({topic: {"num_partitions": partitions}})
    return topic


def send(producer: KafkaProducer, topic: str, values: Iterable[str], partition: int = 0) -> None:
    """Produce, and wait until everything is acknowledged."""
    for each in [producer.send(topic, value.encode(), partition=partition) for value in values]:
        each.get(DEADLINE_S)


def write(bootstrap: str, topic: str, values: Iterable[str], partition: int = 0) -> None:
    with contextlib.closing(KafkaProducer(bootstrap_servers=bootstrap)) as producer:
        send(producer, topic, values, partition)


def transactional_producer(
    bootstrap: str, transactional_id: str, timeout_ms: int = 60_000
) -> contextlib.closing[KafkaProducer]:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
    )
    producer.init_transactions()
    return contextlib.closing(producer)


def read(bootstrap: str, topic: str, isolation: str, until: str) -> list[str]:
    """Return the values of partition 0 from its beginning up to `until`."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        isolation_level=isolation,
        consumer_timeout_ms=DEADLINE_S * 1_000,
    )
    values: list[str] = []
    with contextlib.closing(consumer):
        consumer.assign([TopicPartition(topic, 0)])
        for message in consumer:
            values.append(message.value.decode())
            if values[-1] == until:
                return values
    raise TimeoutError(f"no {until!r} after {values}")


def group_consumer(bootstrap: str, group: str, topic: str) -> contextlib.closing[KafkaConsumer]:
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
    )
    # On a busy machine it may join before it has the topic's metadata, and then it gets no partition for five minutes.
    deadline = time.monotonic() + DEADLINE_S
    while not consumer.partitions_for_topic(topic):
        assert time.monotonic() < deadline, f"no metadata of {topic}"
    consumer.subscribe([topic])
    return contextlib.closing(consumer)


def transform(bootstrap: str, own: str, source: str, target: str, count: int, *, commit: bool) -> None:
    """Upper-case `count` records from one topic to the other, offsets and all, and commit or abort."""
    done = 0
    deadline = time.monotonic() + DEADLINE_S
    with (
        transactional_producer(bootstrap, f"{own}-transform") as producer,
        group_consumer(bootstrap, f"{own}-group", source) as consumer,
    ):
        while done < count:
            assert time.monotonic() < deadline, f"{done} of {count} records"
            fetched = consumer.poll(timeout_ms=200, max_records=5)
            if not fetched:
                continue
            producer.begin_transaction()
            for messages in fetched.values():
                for message in messages:
                    producer.send(target, message.value.upper(), partition=0)
                done += len(messages)
            offsets = {
                partition: OffsetAndMetadata(messages[-1].offset + 1, "", -1) for partition, messages in fetched.items()
            }
            producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
            if commit:
                producer.commit_transaction()
            else:
                producer.abort_transaction()


def test_kafka_python_consumes_in_a_group_what_it_produced(bootstrap: str, own: str) -> None:
    topic = create_topic(bootstrap, f"{own}-topic", partitions=2)
    write(bootstrap, topic, [f"a{n}" for n in range(50)], partition=0)
    write(bootstrap, topic, [f"b{n}" for n in range(50)], partition=1)

    values: list[str] = []
    deadline = time.monotonic() + DEADLINE_S
    with group_consumer(bootstrap, f"{own}-group", topic) as consumer:
        while len(values) < 100 and time.monotonic() < deadline:
            fetched = consumer.poll(timeout_ms=200)
            values += [message.value.decode() for messages in fetched.values() for message in messages]

    assert [v for v in values if v[0] == "a"] == [f"a{n}" for n in range(50)]
    assert [v for v in values if v[0] == "b"] == [f"b{n}" for n in range(50)]


def test_kafka_python_reads_a_committed_transaction(bootstrap: str, own: str) -> None:
    topic = create_topic(bootstrap, f"{own}-topic")
    with transactional_producer(bootstrap, f"{own}-id") as producer:
        producer.begin_transaction()
        send(producer, topic, ["one", "two"])
        producer.commit_transaction()

    assert read(bootstrap, topic, "read_committed", until="two") == ["one", "two"]


def test_kafka_python_reads_an_aborted_transaction_only_uncommitted(bootstrap: str, own: str) -> None:
    topic = create_topic(bootstrap, f"{own}-topic")
    with transactional_producer(bootstrap, f"{own}-id") as producer:
        producer.begin_transaction()
        send(producer, topic, ["lost"])
        producer.abort_transaction()
        producer.begin_transaction()
        send(producer, topic, ["kept"])
        producer.commit_transaction()

    assert read(bootstrap, topic, "read_committed", until="kept") == ["kept"]
    assert read(bootstrap, topic, "read_uncommitted", until="kept") == ["lost", "kept"]


def test_kafka_python_transforms_exactly_once_with_the_offsets_in_the_transaction(bootstrap: str, own: str) -> None:
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
    with group_consumer(bootstrap, f"{own}-group", source) as consumer:
        committed = [consumer.committed(TopicPartition(source, partition)) for partition in (0, 1)]
    assert committed == [12, 8]


def test_kafka_python_zombie_is_fenced_and_its_records_stay_invisible(each_bootstrap: str, own: str) -> None:
    topic = create_topic(each_bootstrap, f"{own}-topic")
    with transactional_producer(each_bootstrap, f"{own}-id") as zombie:
        zombie.begin_transaction()
        send(zombie, topic, ["zombie"])
        with transactional_producer(each_bootstrap, f"{own}-id") as heir:
            with pytest.raises(ProducerFencedError):
                zombie.commit_transaction()
            heir.begin_transaction()
            send(heir, topic, ["heir"])
            heir.commit_transaction()

    assert read(each_bootstrap, topic, "read_committed", until="heir") == ["heir"]


def test_kafka_python_producer_is_fenced_when_its_transaction_has_timed_out(each_bootstrap: str, own: str) -> None:
    """The protocol has no error for a time-out: the coordinator raises the epoch, which the client takes for fencing."""
    topic = create_topic(each_bootstrap, f"{own}-topic")
    with transactional_producer(each_bootstrap, f"{own}-id", TXN_TIMEOUT_MS) as slow:
        slow.begin_transaction()
        send(slow, topic, ["late"])
        write(each_bootstrap, topic, ["after"])

        assert read(each_bootstrap, topic, "read_committed", until="after") == ["after"]
        with pytest.raises(ProducerFencedError):
            slow.commit_transaction()
    with transactional_producer(each_bootstrap, f"{own}-id") as heir:
        heir.begin_transaction()
        send(heir, topic, ["next"])
        heir.commit_transaction()
    assert read(each_bootstrap, topic, "read_committed", until="next") == ["after", "next"]
