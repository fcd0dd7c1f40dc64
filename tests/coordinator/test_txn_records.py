"""Records of `__transaction_state` have the same bytes as Kafka's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from txn_harness import with_fields

from stuntbroker.coordinator.records import (
    USUAL_RECORDS_MAX,
    batch_at_level_0,
    batch_of,
    encoded_partitions,
    key_of,
    last_values,
    open_ids,
    phase_of,
    producer_id_of,
    read_record,
    state_of,
    updated_at_ms_of,
    usual_records,
    value_of,
)
from stuntbroker.coordinator.state import Phase, Txn, txn_of
from stuntbroker.protocol.batches.records import BatchHeader, Record, build_batch, read_header
from stuntbroker.protocol.caches import CACHED_MAX
from stuntbroker.protocol.messages.transaction_log_value import PartitionsSchema, TransactionLogValue
from stuntbroker.protocol.primitives import DecodeError
from stuntbroker.protocol.topic_names import TopicPartition
from tests.kit.cases import check_each

NOW = 1_700_000_000_000
T0 = frozenset({("t", 0)})


def stored(phase: Phase, **changes: Any) -> Txn:
    """A state with the field values that all golden bytes share, except for `changes`."""
    txn = txn_of("txn-1", producer_id=1_000, producer_epoch=0, timeout_ms=60_000, phase=phase, updated_at_ms=NOW)
    return with_fields(txn, **changes)


def record(key: bytes | None, value: bytes | None) -> Record:
    return Record(0, NOW, key, value, ())


# --- bytes written by Apache Kafka

EMPTY_V0 = "000000000000000003e800000000ea6000ffffffff0000018bcfe56800ffffffffffffffff"
EMPTY = "000100000000000003e800000000ea6000000000018bcfe56800ffffffffffffffff00"
EMPTY_AGAIN = "000100000000000003e800000000ea6000000000018bcfe56800ffffffffffffffff01000800000000000003e8"
ONGOING = (
    "000100000000000003e800000000ea60010202740200000000000000018bcfe568010000018bcfe5680102000800000000000003e802020002"
)
OVERFLOW = (
    "000100000000000003e87fff0000ea60020202740200000000000000018bcfe568020000018bcfe56801"
    "03000800000000000003e8010800000000000007d002020002"
)
COMPLETE = "000100000000000003e800010000ea6004010000018bcfe568030000018bcfe5680102000800000000000003e802020002"
V2 = {"previous_producer_id": 1_000, "client_version": 2}
GOLDEN = [
    pytest.param(0, EMPTY_V0, stored(Phase.EMPTY), id="Empty v0"),
    pytest.param(1, EMPTY, stored(Phase.EMPTY), id="Empty v1"),
    pytest.param(1, EMPTY_AGAIN, stored(Phase.EMPTY, previous_producer_id=1_000), id="Empty v1 previous"),
    pytest.param(
        1, ONGOING, stored(Phase.ONGOING, partitions=T0, started_at_ms=NOW + 1, updated_at_ms=NOW + 1, **V2),
        id="Ongoing v1",
    ),
    pytest.param(
        1, OVERFLOW,
        stored(
            Phase.PREPARE_COMMIT, producer_epoch=32_767, next_producer_id=2_000, partitions=T0, started_at_ms=NOW + 1,
            updated_at_ms=NOW + 2, **V2,
        ),
        id="PrepareCommit v1 overflow",
    ),
    pytest.param(
        1, COMPLETE,
        stored(Phase.COMPLETE_COMMIT, producer_epoch=1, started_at_ms=NOW + 1, updated_at_ms=NOW + 3, **V2),
        id="CompleteCommit v1",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("version", "golden", "txn"), GOLDEN)
def test_value_is_written_and_read_as_kafka_does(version: int, golden: str, txn: Txn) -> None:
    assert value_of(txn, version).hex() == golden
    assert read_record(record(key_of("txn-1"), bytes.fromhex(golden))) == ("txn-1", txn)


def test_key_is_written_as_kafka_does() -> None:
    assert key_of("txn-1").hex() == "0000000574786e2d31"


def test_the_last_producer_epoch_is_in_a_tagged_field_that_kafka_skips() -> None:
    """Tag 9000, after Kafka's own tags. Kafka loses the field when it loads the log."""
    txn = stored(Phase.COMPLETE_COMMIT, last_producer_epoch=4)

    assert value_of(txn, 1).hex().endswith("01" + "a846" + "02" + "0004")
    assert read_record(record(key_of("txn-1"), value_of(txn, 1))) == ("txn-1", txn)


# --- any transaction

IDS = st.integers(-1, 2**63 - 1)
EPOCHS = st.integers(-1, 32_767)
TOPICS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20) | st.just("t" * 249)
PARTITIONS = st.frozensets(st.tuples(TOPICS, st.integers(0, 2**31 - 1)), max_size=6)
TXNS = st.builds(
    txn_of,
    st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
    producer_id=IDS,
    previous_producer_id=IDS,
    next_producer_id=IDS,
    producer_epoch=EPOCHS,
    next_producer_epoch=EPOCHS,
    last_producer_epoch=EPOCHS,
    timeout_ms=st.integers(-1, 2**31 - 1),
    phase=st.sampled_from(Phase),
    partitions=PARTITIONS,
    started_at_ms=IDS,
    updated_at_ms=IDS,
    client_version=st.sampled_from([0, 2]),
    timed_out_epoch=EPOCHS,
    init_version=st.integers(-1, 6),
).map(lambda txn: with_fields(txn, partitions=frozenset()) if txn.phase is Phase.EMPTY else txn)


def generated(txn: Txn, version: int) -> bytes:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(txn.partitions):
        topics.setdefault(topic, []).append(index)
    partitions = None if txn.phase is Phase.EMPTY else [PartitionsSchema(*each) for each in topics.items()]
    out = bytearray(version.to_bytes(2, "big"))
    TransactionLogValue(
        txn.producer_id,
        txn.previous_producer_id,
        txn.next_producer_id,
        txn.producer_epoch,
        txn.next_producer_epoch,
        txn.last_producer_epoch,
        txn.timeout_ms,
        txn.phase,
        partitions,
        txn.updated_at_ms,
        txn.started_at_ms,
        txn.client_version,
        txn.timed_out_epoch,
        txn.init_version,
    ).encode(out, version)
    return bytes(out)


def bare(txn: Txn) -> Txn:
    """The state with default values in all tagged fields."""
    return with_fields(
        txn,
        previous_producer_id=-1,
        next_producer_id=-1,
        next_producer_epoch=-1,
        last_producer_epoch=-1,
        client_version=0,
        timed_out_epoch=-1,
        init_version=-1,
    )


@given(TXNS, st.sampled_from([0, 1]))
def test_the_value_written_by_hand_is_that_of_the_generated_codec(txn: Txn, version: int) -> None:
    if version == 0:  # Version 0 has no tagged fields.
        txn = bare(txn)

    assert value_of(txn, version) == generated(txn, version)


TAGGED = {
    "previous_producer_id": 7, "next_producer_id": 8, "client_version": 2, "next_producer_epoch": 9,
    "last_producer_epoch": 10, "timed_out_epoch": 11, "init_version": 4,
}  # fmt: skip


@pytest.mark.parametrize("phase", Phase)
def test_every_combination_of_tagged_fields_is_that_of_the_generated_codec(phase: Phase) -> None:
    check_each([(f"{present:07b}", (phase, present)) for present in range(1 << len(TAGGED))], check_tagged_fields)


def check_tagged_fields(phase: Phase, present: int) -> None:
    changes = {name: value for at, (name, value) in enumerate(TAGGED.items()) if present >> at & 1}
    txn = stored(phase, partitions=frozenset() if phase is Phase.EMPTY else T0, **changes)

    assert value_of(txn, 1) == generated(txn, 1)
    assert read_record(record(key_of("txn-1"), value_of(txn, 1))) == ("txn-1", txn)
    assert batch_of(5, 0, txn.updated_at_ms, "txn-1", txn) == built(
        5, txn.updated_at_ms, key_of("txn-1"), generated(txn, 1)
    )


def built(base_offset: int, timestamp_ms: int, key: bytes, value: bytes | None) -> bytearray:
    return build_batch([(key, value)], timestamp_ms, base_offset=base_offset)


MOMENTS = st.integers(0, 2**50)
WIDE = st.integers(0, 14).map(lambda n: frozenset((f"topic-{at}", at) for at in range(n)))


def test_a_batch_is_encoded_for_transactional_ids_of_any_length() -> None:
    txn = txn_of(
        "",
        producer_id=1,
        previous_producer_id=1,
        producer_epoch=2,
        last_producer_epoch=1,
        timeout_ms=60_000,
        phase=Phase.ONGOING,
        partitions=T0,
        started_at_ms=NOW,
        updated_at_ms=NOW,
        client_version=2,
    )
    for length in range(300):
        name = "x" * length
        assert batch_of(5, 0, NOW, name, txn) == built(5, NOW, key_of(name), value_of(txn, 1))


@given(TXNS, WIDE, MOMENTS, st.integers(0, 2**40), st.text(max_size=150))
def test_a_batch_of_a_transaction_equals_one_built_from_its_key_and_value(
    txn: Txn, wide: frozenset[TopicPartition], now_ms: int, offset: int, name: str
) -> None:
    usual = with_fields(
        txn,
        previous_producer_id=5,
        last_producer_epoch=6,
        client_version=2,
        next_producer_id=-1,
        next_producer_epoch=-1,
        timed_out_epoch=-1,
        init_version=-1,
        partitions=frozenset() if txn.phase is Phase.EMPTY else wide,
    )
    for each in (with_fields(txn, updated_at_ms=now_ms), with_fields(usual, updated_at_ms=now_ms)):
        assert batch_of(offset, 0, now_ms, name, each) == built(offset, now_ms, key_of(name), value_of(each, 1))
        assert batch_at_level_0(offset, 0, now_ms, name, each) == built(offset, now_ms, key_of(name), value_of(each, 0))
    assert batch_of(offset, 0, now_ms, name, None) == built(offset, now_ms, key_of(name), None)


@given(TXNS)
def test_a_written_transaction_is_read_back_unchanged(txn: Txn) -> None:
    actual = read_record(record(key_of(txn.transactional_id), value_of(txn, 1)))

    assert actual == (txn.transactional_id, txn)


@given(TXNS)
def test_version_0_keeps_all_but_the_tagged_fields(txn: Txn) -> None:
    """`transaction.version` 0: a restart loses the fields that recognise retries, and EndTxn changes no producer id."""
    actual = read_record(record(key_of(txn.transactional_id), value_of(bare(txn), 0)))

    assert actual == (txn.transactional_id, bare(txn))


@given(TXNS.filter(lambda txn: txn.is_recovered or txn.init_version != -1))
def test_recovered_transactions_and_fields_of_profile_kip_588_are_never_written_as_version_0(txn: Txn) -> None:
    """A prepared transaction must survive a restart under every `transaction.version` (KIP-939)."""
    assert value_of(txn, 0) == value_of(txn, 1)
    assert read_record(record(key_of(txn.transactional_id), value_of(txn, 0))) == (txn.transactional_id, txn)


# --- other records of the log


def test_a_null_value_is_a_tombstone() -> None:
    assert read_record(record(key_of("txn-1"), None)) == ("txn-1", None)


@pytest.mark.parametrize("key", [None, b"", b"\x00", b"\x00\x01\x00\x05txn-1", b"\xff\xff\x00\x05txn-1"])
def test_a_key_of_another_kind_is_skipped(key: bytes | None) -> None:
    assert read_record(record(key, bytes.fromhex(EMPTY))) is None


@pytest.mark.parametrize("version", ["0002", "7fff", "ffff"])
def test_a_value_of_another_version_is_skipped(version: str) -> None:
    assert read_record(record(key_of("txn-1"), bytes.fromhex(version + EMPTY[4:]))) is None


VALUES = [
    None, bytes.fromhex("0002"), *(value_of(stored(Phase.EMPTY, producer_epoch=n), n % 2) for n in range(4)),
]  # fmt: skip
KEYS = [None, b"\x00\x01\x00\x05txn-1", *(key_of(f"txn-{n}") for n in range(3))]


def batches(log: Iterable[Record], size: int) -> Iterator[tuple[BatchHeader, bytes]]:
    """The records as batches of a log, with `size` records each."""
    records = list(log)
    for start in range(0, len(records), size):
        batch = build_batch([(each.key, each.value) for each in records[start : start + size]], 1, base_offset=start)
        yield read_header(batch), bytes(batch)


@given(st.lists(st.builds(record, st.sampled_from(KEYS), st.sampled_from(VALUES))), st.integers(1, 3))
def test_last_values_give_the_same_states_as_reading_every_record(log: list[Record], size: int) -> None:
    one_by_one: dict[str, Txn] = {}
    for each in log:
        actual = read_record(each)
        if actual is not None and actual[1] is None:
            one_by_one.pop(actual[0], None)
        elif actual is not None and actual[1] is not None:
            one_by_one[actual[0]] = actual[1]

    values = last_values(batches(log, size))

    assert {name: state_of(name, value) for name, value in values.items()} == one_by_one
    for name, value in values.items():
        shown = one_by_one[name]
        assert (phase_of(value, name), producer_id_of(value)) == (shown.phase, shown.producer_id)
        assert updated_at_ms_of(value) == shown.updated_at_ms


def test_values_are_not_decoded_until_their_state_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TransactionLogValue, "decode", lambda *_: pytest.fail("a value was decoded"))
    values = [value_of(stored(Phase.EMPTY, producer_epoch=n), 1) for n in range(5)]

    actual = last_values(batches([record(KEYS[3], value) for value in values], 1))

    assert actual == {"txn-1": values[4]}
    assert phase_of(actual["txn-1"], "txn-1") is Phase.EMPTY


@pytest.mark.parametrize("status", [6, 7, 127, -1])
def test_a_transaction_state_that_is_never_stored_raises_decode_error(status: int) -> None:
    value = bytearray.fromhex(EMPTY)
    value[16] = status & 0xFF

    with pytest.raises(DecodeError, match=f"txn-1: no transaction state {status}"):
        read_record(record(key_of("txn-1"), bytes(value)))


def test_a_value_that_ends_before_its_state_is_refused() -> None:
    with pytest.raises(DecodeError, match="txn-1: the value ends before the transaction state"):
        open_ids({"txn-1": b"\x00\x00\x00"})


@pytest.mark.parametrize("size", range(2, len(ONGOING) // 2))
def test_a_truncated_value_raises_decode_error(size: int) -> None:
    with pytest.raises(DecodeError):
        read_record(record(key_of("txn-1"), bytes.fromhex(ONGOING)[:size]))


# --- caches of encoded ids and partitions


def test_the_caches_of_encoded_ids_and_partitions_are_bounded() -> None:
    for _ in range(2):
        for index in range(USUAL_RECORDS_MAX + 5):
            txn = stored(Phase.ONGOING, partitions=frozenset({("t", index), ("u", index)}), last_producer_epoch=3, **V2)
            name = f"id-{index}"

            batch = batch_of(5, 0, NOW, name, txn)
            assert index % 100 or batch == built(5, NOW, key_of(name), generated(txn, 1))
            assert 0 < len(encoded_partitions) <= CACHED_MAX
            assert 0 < len(usual_records) <= USUAL_RECORDS_MAX


@pytest.mark.parametrize(("name", "partitions"), [("i" * 256, 1), ("id", 100)], ids=["long id", "many partitions"])
def test_records_that_are_long_are_not_kept(name: str, partitions: int) -> None:
    txn = stored(
        Phase.ONGOING, partitions=frozenset(("t", index) for index in range(partitions)), last_producer_epoch=3, **V2
    )

    assert batch_of(5, 0, NOW, name, txn) == built(5, NOW, key_of(name), generated(txn, 1))
    assert (name, txn.partitions) not in usual_records


def test_equal_sets_of_partitions_share_their_bytes() -> None:
    for phase in (Phase.ONGOING, Phase.PREPARE_COMMIT):
        value_of(stored(phase, partitions=frozenset({("t", 987_654)})), 1)

    assert [each for each in encoded_partitions if ("t", 987_654) in each] == [frozenset({("t", 987_654)})]


def test_the_order_in_which_partitions_were_added_does_not_matter() -> None:
    names = [(f"t{index % 2}", index) for index in range(300)]
    each, other = (stored(Phase.ONGOING, partitions=frozenset(order)) for order in (names, reversed(names)))

    assert value_of(each, 1) == value_of(other, 1) == generated(each, 1)
