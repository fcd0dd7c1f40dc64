"""A transactional producer that blocks, against our broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from live_broker import LiveBroker, batch, committed, held_back, make_topic, rows

from stuntbroker.client.admin import Admin
from stuntbroker.client.channel import ChannelCluster
from stuntbroker.client.errors import (
    ClientError,
    ProducerFenced,
    TransactionAbortable,
)
from stuntbroker.client.reader import READ_UNCOMMITTED, LastValues, end_offset, read_partition
from stuntbroker.client.transactions import NOBODY, End, PreparedState, end_all
from stuntbroker.client.writer import TransactionalWriter
from stuntbroker.protocol.batches.records import build_batch

TOPIC = "t"


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveBroker]:
    with LiveBroker(tmp_path_factory.mktemp("broker") / "data") as made:
        yield made


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return "".join(one if one.isalnum() else "." for one in request.node.name)


@pytest.fixture
def cluster(live: LiveBroker, topic: str) -> Iterator[ChannelCluster]:
    with live.cluster() as made:
        make_topic(made, topic, 2)
        yield made


def check_exactly(cluster: ChannelCluster, topic: str, expected: list[str]) -> None:
    assert held_back(cluster, topic, 2) == []
    assert committed(cluster, topic, 2) == sorted(expected)


def test_a_batch_is_on_its_way_when_produce_returns(live: LiveBroker, cluster: ChannelCluster, topic: str) -> None:
    """The producer does nothing more than that."""
    writer = TransactionalWriter(cluster, topic)
    writer.init()
    writer.produce(topic, 0, batch("early"))
    with live.cluster() as another:
        while not end_offset(another, topic, 0, READ_UNCOMMITTED):
            pass
    writer.commit()
    check_exactly(cluster, topic, ["early"])


def test_two_producers_of_one_transaction(live: LiveBroker, cluster: ChannelCluster, topic: str) -> None:
    """With one pair, over two connections, each for its own partition; the end is one for both."""
    owner = TransactionalWriter(cluster, topic)
    pair = owner.init().pair
    with live.cluster() as another:
        for index, (one, some) in enumerate([(cluster, "a"), (another, "b")]):
            guest = TransactionalWriter(one, topic)
            guest.join(pair)
            for number in range(3):
                guest.produce(topic, index, batch(f"{some}{number}"))
            guest.flush()
    assert committed(cluster, topic, 2) == []
    assert [one.code for one in end_all(cluster, [End(topic, *pair, True)])] == [0]
    check_exactly(cluster, topic, ["a0", "a1", "a2", "b0", "b1", "b2"])


def test_a_second_producer_for_the_same_partition_is_refused(cluster: ChannelCluster, topic: str) -> None:
    owner = TransactionalWriter(cluster, topic)
    pair = owner.init().pair
    owner.produce(topic, 0, batch("a", "b"))
    owner.flush()
    guest = TransactionalWriter(cluster, topic)
    guest.join(pair)
    guest.produce(topic, 0, batch("c"))
    with pytest.raises(TransactionAbortable, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
        guest.flush()
    owner.abort()
    check_exactly(cluster, topic, [])


@pytest.mark.parametrize("two_phase", [False, True])
def test_transactions_one_after_the_other(two_phase: bool, cluster: ChannelCluster, topic: str) -> None:
    writer = TransactionalWriter(cluster, topic)
    writer.init(two_phase)
    expected = []
    for number in range(4):
        some = rows(f"{number}", 12)
        for at in range(0, 12, 3):
            writer.produce(topic, at % 2, batch(*some[at : at + 3]))
        if number % 2:
            writer.commit()
            expected += some
        else:
            writer.abort()

    check_exactly(cluster, topic, expected)


def test_what_was_written_is_told_with_its_offsets(cluster: ChannelCluster, topic: str) -> None:
    writer = TransactionalWriter(cluster, topic)
    writer.init()
    writer.produce(topic, 0, [batch("a", "b"), batch("c")])
    writer.flush()

    assert writer.written == {(topic, 0): (0, 2, 3)}
    writer.commit()
    assert writer.written == {}


def test_an_empty_transaction_is_no_request(cluster: ChannelCluster, topic: str) -> None:
    writer = TransactionalWriter(cluster, topic)
    pair = writer.init(two_phase=True).pair
    assert writer.complete(writer.prepare()) is None
    writer.commit()
    writer.abort()
    assert writer.pair == pair


def test_a_prepared_transaction_is_completed_as_it_was_decided(cluster: ChannelCluster, topic: str) -> None:
    writer = TransactionalWriter(cluster, topic)
    writer.init(two_phase=True)
    for value, decided, expected in (("yes", "own", True), ("no", "-", False)):
        writer.produce(topic, 0, batch(value))
        state = writer.prepare()
        with pytest.raises(ClientError, match="takes no more records"):
            writer.produce(topic, 0, batch("more"))
        assert writer.complete(state if decided == "own" else NOBODY) is expected
    check_exactly(cluster, topic, ["yes"])


@pytest.mark.parametrize("stored", [True, False])
def test_a_new_instance_completes_what_the_one_before_it_prepared(
    stored: bool, cluster: ChannelCluster, topic: str
) -> None:
    """KIP-939: its state went into a database as text, or did not."""
    writer = TransactionalWriter(cluster, topic)
    writer.init(two_phase=True)
    writer.produce(topic, 1, batch("a"))
    text = str(writer.prepare())

    after = TransactionalWriter(cluster, topic)
    kept = after.init(two_phase=True, keep=True)
    assert str(kept.ongoing) == text
    assert kept.pair != kept.ongoing
    with pytest.raises(ClientError, match="takes no more records"):
        after.produce(topic, 1, batch("more"))
    assert after.complete(PreparedState.parse(text) if stored else NOBODY) is stored
    after.produce(topic, 0, batch("next"))
    assert after.complete(after.prepare())

    check_exactly(cluster, topic, ["a", "next"] if stored else ["next"])
    with pytest.raises(ProducerFenced):
        writer.commit()


def test_a_transaction_that_was_not_prepared_cannot_be_completed(cluster: ChannelCluster, topic: str) -> None:
    writer = TransactionalWriter(cluster, topic)
    writer.init(two_phase=True)
    writer.produce(topic, 0, batch("a"))
    with pytest.raises(ClientError, match="is not prepared: call prepare"):
        writer.complete(writer.pair)
    assert writer.complete(writer.prepare())
    check_exactly(cluster, topic, ["a"])


def test_keeping_where_there_is_nothing_to_keep(cluster: ChannelCluster, topic: str) -> None:
    writer = TransactionalWriter(cluster, topic)
    assert writer.init(two_phase=True, keep=True).ongoing is None
    assert writer.complete(PreparedState(1, 1)) is None


def test_an_instance_that_was_replaced_is_fenced_in_all_it_does(cluster: ChannelCluster, topic: str) -> None:
    old = TransactionalWriter(cluster, topic)
    old.init()
    old.produce(topic, 0, batch("old"))
    old.flush()
    pair = old.pair
    new = TransactionalWriter(cluster, topic)
    new.init()

    old.produce(topic, 0, batch("late"))
    for step in (old.flush, old.commit, old.abort, lambda: old.produce(topic, 0, batch("later"))):
        with pytest.raises(ProducerFenced):
            step()
    with pytest.raises(ProducerFenced):
        old.init(owner=pair)
    new.produce(topic, 0, batch("new"))
    new.commit()
    check_exactly(cluster, topic, ["new"])


def test_an_owner_that_names_its_pair_goes_on_with_a_new_epoch(cluster: ChannelCluster, topic: str) -> None:
    """KIP-360: as another process of the same application."""
    first = TransactionalWriter(cluster, topic)
    pair = first.init().pair
    second = TransactionalWriter(cluster, topic)

    assert second.init(owner=pair).pair == (pair.producer_id, pair.producer_epoch + 1)


def test_a_batch_that_is_too_large_leaves_a_transaction_to_abort(cluster: ChannelCluster, topic: str) -> None:
    writer = TransactionalWriter(cluster, topic)
    writer.init()
    writer.produce(topic, 0, batch("a"))
    writer.produce(topic, 0, batch("x" * 1_100_000))
    for step in (writer.flush, writer.commit):
        with pytest.raises(TransactionAbortable, match=r"writing to .*-0: (MESSAGE_TOO_LARGE|RECORD_LIST_TOO_LARGE)"):
            step()
    writer.abort()
    writer.produce(topic, 0, batch("b"))
    writer.commit()
    check_exactly(cluster, topic, ["b"])


def test_a_transaction_that_an_admin_aborted_cannot_be_committed(cluster: ChannelCluster, topic: str) -> None:
    writer = TransactionalWriter(cluster, topic)
    writer.init(two_phase=True)
    writer.produce(topic, 0, batch("a"))
    writer.prepare()
    Admin(cluster).force_terminate(topic)
    with pytest.raises(ProducerFenced):
        writer.commit()
    check_exactly(cluster, topic, [])


@pytest.mark.parametrize("level", [1, 2])
def test_both_transaction_versions(level: int, tmp_path: Path) -> None:
    """Under version 1 partitions are added by a request, and the pair stays; under 2 it is new after every end."""
    with LiveBroker(tmp_path, f"transaction.version={level}") as one, one.cluster() as cluster:
        make_topic(cluster, TOPIC, 2)
        writer = TransactionalWriter(cluster, "w")
        pairs = {writer.init(two_phase=True).pair}
        for number in range(3):
            writer.produce(TOPIC, 0, batch(f"{number}"))
            writer.produce(TOPIC, 1, batch(f"{number}"))
            prepared = writer.prepare()
            assert writer.complete(prepared if number != 1 else NOBODY) is not None
            pairs.add(writer.pair)
        check_exactly(cluster, TOPIC, ["0", "0", "2", "2"])
    assert len(pairs) == (1 if level == 1 else 4)


def test_ends_may_be_repeated_and_each_is_told_by_itself(cluster: ChannelCluster, topic: str) -> None:
    ends = []
    for number in range(40):
        writer = TransactionalWriter(cluster, f"{topic}-{number}")
        writer.init(two_phase=True)
        writer.produce(topic, number % 2, batch(f"{number:02d}"))
        ends.append(End(writer.transactional_id, *writer.prepare(), number % 4 != 0))
    strangers = [End(f"{topic}-none", 1, 1, True), End(f"{topic}-0", 10**9, 0, True)]

    for _ in range(2):
        found = end_all(cluster, [*ends, *strangers])
        assert [one.end for one in found] == [*ends, *strangers]
        assert [one.code for one in found] == [0] * 40 + [49, 49]
    assert [one.code for one in end_all(cluster, [end._replace(commit=not end.commit) for end in ends])] == [48] * 40
    check_exactly(cluster, topic, [f"{number:02d}" for number in range(40) if number % 4])


def test_the_last_committed_value_of_every_key(cluster: ChannelCluster, topic: str) -> None:
    writer = TransactionalWriter(cluster, topic)
    writer.init()
    last = LastValues(cluster, topic, 0)
    steps: list[tuple[list[tuple[bytes | None, bytes | None]], bool, dict[bytes, bytes]]] = [
        ([(b"a", b"1"), (b"b", b"1")], True, {b"a": b"1", b"b": b"1"}),
        ([(b"a", b"2")], False, {b"a": b"1", b"b": b"1"}),
        ([(b"a", b"3"), (None, b"x")], True, {b"a": b"3", b"b": b"1"}),
        ([(b"b", None)], True, {b"a": b"3"}),
    ]
    for pairs, commit, expected in steps:
        writer.produce(topic, 0, build_batch(pairs, 0))
        (writer.commit if commit else writer.abort)()
        last.refresh()
        assert last.values == expected
    fresh = LastValues(cluster, topic, 0)
    fresh.refresh()
    assert fresh.values == last.values


def test_a_long_partition_is_read_to_its_end(cluster: ChannelCluster, topic: str, monkeypatch: Any) -> None:
    monkeypatch.setattr("stuntbroker.client.reader.FETCH_BYTES_MAX", 3_000)
    writer = TransactionalWriter(cluster, topic)
    writer.init()
    for number in range(30):
        writer.produce(topic, 0, batch(*[f"{number}-{index}" * 10 for index in range(10)]))
        (writer.commit if number % 3 else writer.abort)()
    found = read_partition(cluster, topic, 0)

    assert [row.value for row in found] == [
        (f"{number}-{index}" * 10).encode() for number in range(30) if number % 3 for index in range(10)
    ]
    assert len(read_partition(cluster, topic, 0, isolation=0)) == 300


STATES = {"": (-1, -1), "1:0": (1, 0), "9223372036854775:32767": (9223372036854775, 32767)}


@pytest.mark.parametrize("text", STATES)
def test_a_prepared_state_is_text_and_back(text: str) -> None:
    state = PreparedState.parse(text)

    assert state == STATES[text]
    assert str(state) == text


@pytest.mark.parametrize("text", ["1", ":", "1:", "-1:-1", "1:32768", "a:1", "1:2:3", "\u0661:1", "9" * 19 + ":1"])
def test_what_is_no_prepared_state_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no prepared state"):
        PreparedState.parse(text)
