"""The same writer and the same recovery on Apache Kafka, which has no two-phase commit, or the first half of it.

Without it transactions have a time-out; all else has to hold. With `unstable.api.versions.enable` Kafka takes Enable2Pc,
and answers UNSUPPORTED_VERSION to KeepPreparedTxn.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyarrow as pa
import pytest
import sink
from live_broker import START_MS, batch, committed, held_back, make_topic, rows
from sink import Driver, running

from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.reader import read_partition
from stuntbroker.client.commands.transactions import End, end_all, init_producer
from stuntbroker.client.errors import BrokerError, ProducerFenced, UnsupportedVersion
from stuntbroker.pipeline.decision_topic import DecisionTopic
from stuntbroker.pipeline.decisions import Superseded
from stuntbroker.pipeline.encode import encode
from stuntbroker.pipeline.writer import TransactionalWriter
from stuntbroker.protocol.addresses import parse_bootstrap
from tests.kit.brokers.kafka_broker import apache_kafka

pytestmark = pytest.mark.timeout(300)
TWO_PHASE = {"unstable_api_versions_enable": "true", "transaction_two_phase_commit_enable": "true"}
KINDS: dict[str, tuple[int, dict[str, str]]] = {"tv1": (1, {}), "tv2": (2, {}), "enable2pc": (2, TWO_PHASE)}
MARKERS_S_MAX = 30.0
FIRST, SECOND = rows("first", 10), rows("second", 10)


@pytest.fixture(scope="module", params=KINDS)
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Yield (key of KINDS, bootstrap address)."""
    level, properties = KINDS[request.param]
    folder = tmp_path_factory.mktemp(f"kafka-{request.param}")
    with apache_kafka(folder, transaction_version=level, **properties) as bootstrap:
        yield request.param, bootstrap


@pytest.fixture
def cluster(
    kafka: tuple[str, str], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Cluster]:
    """Yield a cluster with a sink id and a topic for this test only."""
    own = request.node.name.partition("[")[0] + "".join(each for each in request.node.name if each.isdigit())
    monkeypatch.setattr("sink.SINK", own)
    monkeypatch.setattr("sink.TOPIC", own)
    with Cluster(parse_bootstrap(kafka[1])) as created:
        make_topic(created, own, 2)
        yield created


@pytest.fixture
def topic(cluster: Cluster) -> str:
    return sink.TOPIC


@pytest.fixture
def two_phase(kafka: tuple[str, str]) -> bool:
    return kafka[0] == "enable2pc"


def driver_of(cluster: Cluster, topic: str, two_phase: bool) -> Driver:
    return Driver(cluster, lambda cluster: DecisionTopic(cluster, "decisions", topic), two_phase=two_phase)


def check_exactly(cluster: Cluster, topic: str, *expected: list[str]) -> None:
    """Wait until the markers are written, as Kafka answers EndTxn before that; then check the committed rows."""
    deadline = time.monotonic() + MARKERS_S_MAX
    while any(name.startswith(f"{topic}-") for name in running(cluster)) or held_back(cluster, topic, 2):
        assert time.monotonic() < deadline, running(cluster)
        time.sleep(0.01)
    assert committed(cluster, topic, 2) == sorted(row for some in expected for row in some)


def test_transactions_one_after_the_other(cluster: Cluster, topic: str, two_phase: bool) -> None:
    writer = TransactionalWriter(cluster, f"{topic}-0-0")
    writer.init(two_phase)
    expected = []
    for number in range(6):
        some = list(rows(f"{number}", 30))
        for at in range(0, 30, 3):
            writer.produce(topic, at % 2, batch(*some[at : at + 3]))
        if number % 2:
            writer.commit()
            expected += some
        else:
            writer.abort()
    check_exactly(cluster, topic, expected)


def test_columns_that_were_encoded_are_the_rows_that_are_read(cluster: Cluster, topic: str, two_phase: bool) -> None:
    """Kafka validates each record of a batch before it appends the batch."""
    count = 20_000
    keys = [None if number % 5 == 0 else b"key-%d" % number for number in range(count)]
    values = [None if number % 7 == 0 else b"x" * (number % 300) for number in range(count)]
    times = [START_MS + number % 1_000 for number in range(count)]
    writer = TransactionalWriter(cluster, f"{topic}-0-0")
    writer.init(two_phase)
    encoded = encode(pa.array(keys), pa.array(values), pa.array(times), batch_bytes_max=200_000)
    writer.produce(topic, 0, (each.data for each in encoded))
    writer.commit()

    check_exactly(cluster, topic, [(value or b"").decode() for value in values])
    actual = read_partition(cluster, topic, 0)
    assert [(row.timestamp_ms, row.key, row.value) for row in actual] == list(zip(times, keys, values, strict=True))


def test_a_later_writer_fences_an_earlier_writer_of_the_same_id(cluster: Cluster, topic: str, two_phase: bool) -> None:
    old = TransactionalWriter(cluster, f"{topic}-0-0")
    old.init(two_phase)
    old.produce(topic, 0, batch("old"))
    old.flush()
    new = TransactionalWriter(cluster, f"{topic}-0-0")
    new.init(two_phase)
    old.produce(topic, 0, batch("late"))
    for step in (old.flush, old.commit):
        with pytest.raises(ProducerFenced):
            step()
    new.produce(topic, 0, batch("new"))
    new.commit()
    check_exactly(cluster, topic, ["new"])


def test_ends_of_many_transactions_may_be_repeated(cluster: Cluster, topic: str, two_phase: bool) -> None:
    ends = []
    for number in range(32):
        writer = TransactionalWriter(cluster, f"{topic}-{number}-0")
        writer.init(two_phase)
        writer.produce(topic, number % 2, batch(f"{number:02d}"))
        writer.flush()
        ends.append(End(writer.transactional_id, *writer.pair, True))
    for _ in range(2):
        assert {each.code for each in end_all(cluster, ends)} == {0}
    check_exactly(cluster, topic, [f"{number:02d}" for number in range(32)])


def test_a_commit_aborts_the_transactions_of_losing_attempts(cluster: Cluster, topic: str, two_phase: bool) -> None:
    driver = driver_of(cluster, topic, two_phase)
    for batch_id, some in enumerate((FIRST, SECOND)):
        driver.begin()
        driver.task(0, batch_id, some[:4])
        driver.commit(batch_id, [driver.task(0, batch_id, some[:5], slot=1), driver.task(1, batch_id, some[5:])])
    check_exactly(cluster, topic, list(FIRST), list(SECOND))


@pytest.mark.parametrize("ended", [0, 1, 2])
def test_the_decision_of_a_dead_driver_is_committed_by_the_next_driver(
    ended: int, cluster: Cluster, topic: str, two_phase: bool
) -> None:
    dead = driver_of(cluster, topic, two_phase)
    dead.begin()
    prepared = [dead.task(index, 0, FIRST[index::2]) for index in range(2)]
    dead.store().decide(dead.decision(0, prepared))
    end_all(cluster, [End(*each, True) for each in prepared[:ended] if each])
    driver = driver_of(cluster, topic, two_phase)
    assert driver.begin().committed == 2
    assert driver.task(0, 0, FIRST) is None
    check_exactly(cluster, topic, list(FIRST))


def test_a_driver_replaced_before_its_decision_is_superseded_and_its_transactions_are_aborted(
    cluster: Cluster, topic: str, two_phase: bool
) -> None:
    zombie = driver_of(cluster, topic, two_phase)
    zombie.begin()
    lost = [zombie.task(index, 0, FIRST) for index in range(3)]
    driver = driver_of(cluster, topic, two_phase)
    assert driver.begin().aborted == 3
    prepared = [driver.task(0, 0, FIRST)]
    for step in (lambda: zombie.commit(0, lost), zombie.abort):
        with pytest.raises(Superseded):
            step()
    driver.commit(0, prepared)
    driver.abort()  # Case J: abort() after the batch was decided.
    check_exactly(cluster, topic, list(FIRST))


def test_keep_prepared_txn_is_refused_with_a_clear_error(cluster: Cluster, topic: str, two_phase: bool) -> None:
    kind: type[Exception] = BrokerError if two_phase else UnsupportedVersion
    with pytest.raises(kind, match="UNSUPPORTED_VERSION" if two_phase else "needed is version 6"):
        init_producer(cluster, f"{topic}-0-0", 60_000, two_phase=True, keep=True)
