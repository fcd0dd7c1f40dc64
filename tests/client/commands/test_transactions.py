"""Ending many transactions at once, a topic's committed values, and the text form of a prepared state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fake_broker import FakeBroker, HandClock
from live_broker import LiveBroker, batch, committed, held_back, make_topic

from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.fetching import FetchSizes
from stuntbroker.client.commands.reader import LastValues, read_partition
from stuntbroker.client.commands.transactions import End, end_all, init_producer
from stuntbroker.client.errors import ClientError
from stuntbroker.client.prepared_state import PreparedTxnState, transaction_version
from stuntbroker.protocol.api_keys import END_TXN, INIT_PRODUCER_ID, PRODUCE, TXN_OFFSET_COMMIT
from stuntbroker.protocol.batches.records import build_batch
from stuntbroker.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse, FinalizedFeatureKey
from stuntbroker.protocol.messages.end_txn_response import EndTxnResponse
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.init_producer_id_response import InitProducerIdResponse


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveBroker]:
    with LiveBroker(tmp_path_factory.mktemp("broker") / "data") as broker:
        yield broker


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return "".join(letter if letter.isalnum() else "." for letter in request.node.name)


@pytest.fixture
def cluster(live: LiveBroker, topic: str) -> Iterator[Cluster]:
    with live.cluster() as cluster:
        make_topic(cluster, topic, 2)
        yield cluster


def test_ends_may_be_repeated_and_each_has_a_result(cluster: Cluster, topic: str) -> None:
    ends = []
    for number in range(40):
        producer = cluster.producer(f"{topic}-{number}", enable_2pc=True)
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"%02d" % number, partition=number % 2)
        ends.append(End(producer.transactional_id, *producer.prepare_transaction(), number % 4 != 0))
    unknown = [End(f"{topic}-none", 1, 1, True), End(f"{topic}-0", 10**9, 0, True)]

    for _ in range(2):
        ended = end_all(cluster, [*ends, *unknown])
        assert [each.end for each in ended] == [*ends, *unknown]
        assert [each.code for each in ended] == [0] * 40 + [49, 49]
    assert [each.code for each in end_all(cluster, [end._replace(commit=not end.commit) for end in ends])] == [48] * 40
    assert held_back(cluster, topic, 2) == []
    assert committed(cluster, topic, 2) == [f"{number:02d}" for number in range(40) if number % 4]


def coordinator(broker: FakeBroker, level: int, codes: list[int | None]) -> None:
    """Answer EndTxn with these error codes, one after the other; None breaks the connection."""

    def end(request: Any, version: int) -> EndTxnResponse | None:
        assert (version >= 5) is (level == 2)
        code = codes.pop(0)
        return None if code is None else EndTxnResponse(0, code, *((7, 1) if version >= 5 else ()))

    known = [ApiVersion(key, *versions) for key, versions in broker.versions.items()]
    features = [FinalizedFeatureKey("transaction.version", level, level)]
    broker.handlers[18] = lambda request, version: ApiVersionsResponse(0, known, finalized_features=features)
    broker.handlers[END_TXN] = end


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("codes", [[51, 14, 15, 16, 0], [None, 0], [51] * 10 + [0], [7, 48], [90]], ids=str)
def test_end_txn_is_retried_until_its_response_is_final(
    codes: list[int | None], level: int, broker: FakeBroker
) -> None:
    clock, left = HandClock(), list(codes)
    coordinator(broker, level, left)
    with Cluster([broker.address], 30.0, clock.now_s, clock.sleep) as cluster:
        (ended,) = end_all(cluster, [End("w", 7, 0, True)])
    assert (left, ended.code) == ([], codes[-1])
    assert ended.pair == ((7, 1) if level == 2 else (-1, -1))


def test_end_all_times_out_when_the_coordinator_never_finishes_loading(broker: FakeBroker) -> None:
    clock = HandClock()
    coordinator(broker, 2, [14] * 1_000)
    with (
        Cluster([broker.address], 5.0, clock.now_s, clock.sleep) as cluster,
        pytest.raises(ClientError, match="1 of 1 transactions are not known to have ended"),
    ):
        end_all(cluster, [End("w", 7, 0, True)])
    assert 4 < clock.s < 6


def test_last_values_has_the_last_committed_value_of_every_key(cluster: Cluster, topic: str) -> None:
    producer = cluster.producer(topic)
    producer.init_transactions()
    last = LastValues(cluster, topic, 0)
    steps: list[tuple[list[tuple[bytes | None, bytes | None]], bool, dict[bytes, bytes]]] = [
        ([(b"a", b"1"), (b"b", b"1")], True, {b"a": b"1", b"b": b"1"}),
        ([(b"a", b"2")], False, {b"a": b"1", b"b": b"1"}),
        ([(b"a", b"3"), (None, b"x")], True, {b"a": b"3", b"b": b"1"}),
        ([(b"b", None)], True, {b"a": b"3"}),
    ]
    for pairs, commit, expected in steps:
        producer.begin_transaction()
        producer.send_batch(build_batch(pairs, 0), topic, partition=0)
        producer.flush()
        (producer.commit_transaction if commit else producer.abort_transaction)()
        last.refresh()
        assert last.values == expected
    fresh = LastValues(cluster, topic, 0)
    fresh.refresh()
    assert fresh.values == last.values


def test_a_long_partition_is_read_to_its_end(cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stuntbroker.client.commands.reader.SIZES", FetchSizes(3_000, 3_000))
    producer = cluster.producer(topic)
    producer.init_transactions()
    for number in range(30):
        producer.begin_transaction()
        producer.send_batch(batch(*[f"{number}-{index}" * 10 for index in range(10)]), topic, partition=0)
        producer.flush()
        (producer.commit_transaction if number % 3 else producer.abort_transaction)()
    rows = read_partition(cluster, topic, 0)

    assert [row.value for row in rows] == [
        (f"{number}-{index}" * 10).encode() for number in range(30) if number % 3 for index in range(10)
    ]
    assert len(read_partition(cluster, topic, 0, isolation=0)) == 300


STATES = {"": (-1, -1), "1:0": (1, 0), "9223372036854775807:32767": (2**63 - 1, 32767)}


@pytest.mark.parametrize("text", STATES)
def test_a_prepared_state_is_parsed_from_and_formatted_as_the_same_text(text: str) -> None:
    state = PreparedTxnState.parse(text)

    assert state == STATES[text]
    assert str(state) == text


LAST_VERSIONS = {PRODUCE: (3, 13), END_TXN: (0, 5), TXN_OFFSET_COMMIT: (0, 5)}


@pytest.mark.parametrize(("level", "changed", "expected"), [
    (2, {}, 2), (3, {}, 2), (1, {}, 1), (0, {}, 1),
    (2, {PRODUCE: (3, 11)}, 1), (2, {END_TXN: (0, 4)}, 1), (2, {TXN_OFFSET_COMMIT: (0, 4)}, 1),
])  # fmt: skip
def test_transaction_version_2_needs_its_level_and_all_of_its_requests(
    level: int, changed: dict[int, tuple[int, int]], expected: int
) -> None:
    assert transaction_version(level, LAST_VERSIONS | changed) == expected


def test_the_prepared_state_without_a_producer_is_formatted_as_empty_text_as_in_java() -> None:
    assert str(PreparedTxnState.parse("-1:-1")) == ""


@pytest.mark.parametrize("text", ["1", ":", "1:", "-2:-1", "1:32768", "a:1", "1:2:3", "\u0661:1", f"{2**63}:1"])
def test_parsing_an_invalid_prepared_state_raises_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="is no prepared state"):
        PreparedTxnState.parse(text)


@pytest.mark.parametrize("value", [None, b"1:2", 7])
def test_parsing_a_prepared_state_that_is_no_text_raises_type_error(value: Any) -> None:
    """A database returns None for a column that was never set."""
    with pytest.raises(TypeError, match="is no prepared state"):
        PreparedTxnState.parse(value)


def test_concurrent_transactions_is_retried_without_another_coordinator_lookup(broker: FakeBroker) -> None:
    """CONCURRENT_TRANSACTIONS comes from the right coordinator, so the client need not look it up again."""
    clock, codes = HandClock(), [51, 51, 0]
    broker.handlers[INIT_PRODUCER_ID] = lambda request, version: InitProducerIdResponse(0, codes.pop(0), 4, 0)
    with Cluster([broker.address], 10.0, clock.now_s, clock.sleep) as cluster:
        assert init_producer(cluster, "t", 1_000).pair == (4, 0)
    assert broker.names().count("FindCoordinator") == 1
    assert len(clock.slept) == 2


def test_flags_of_two_phase_commit_are_sent_in_init_producer_id_version_6(broker: FakeBroker) -> None:
    """Version 6 has the flags Enable2Pc and KeepPreparedTxn (KIP-939)."""
    broker.handlers[INIT_PRODUCER_ID] = lambda request, version: InitProducerIdResponse(0, 0, 5, 6, 7, 8)
    wanted = InitProducerIdRequest("t", 60_000, -1, -1, True, True)
    with Cluster([broker.address]) as cluster:
        answer = cluster.retrying(lambda: cluster.ask(1, INIT_PRODUCER_ID, wanted, InitProducerIdResponse, least=6))

    assert [(version, request) for name, version, request in broker.seen if name == "InitProducerId"] == [(6, wanted)]
    assert answer == InitProducerIdResponse(0, 0, 5, 6, 7, 8)
