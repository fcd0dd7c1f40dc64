"""Transactional admin operations against a fake broker of any version, with errors; tests/cli runs them on real brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fake_broker import FakeBroker, HandClock

from stuntbroker.client.commands.admin import BATCH_MAX, Admin, Listing, Marker, OpenTransaction
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.errors import BrokerError, ClientError, NotFound, TimedOut, UnsupportedVersion
from stuntbroker.protocol.api_keys import (
    DESCRIBE_PRODUCERS,
    DESCRIBE_TRANSACTIONS,
    INIT_PRODUCER_ID,
    LIST_TRANSACTIONS,
    WRITE_TXN_MARKERS,
)
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.describe_producers_response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from stuntbroker.protocol.messages.describe_transactions_response import DescribeTransactionsResponse, TopicData
from stuntbroker.protocol.messages.describe_transactions_response import TransactionState as Described
from stuntbroker.protocol.messages.init_producer_id_response import InitProducerIdResponse
from stuntbroker.protocol.messages.list_transactions_response import ListTransactionsResponse, TransactionState
from stuntbroker.protocol.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from stuntbroker.protocol.transaction_states import RUNNING, TIMEOUT_NONE

NOW_MS = 1_700_000_000_000
MINUTE_MS = 60_000

IDS = {
    # Transactional id: state, producer id, start, partitions.
    "open": ("Ongoing", 1, NOW_MS - 10_000, [0]),
    "young": ("Ongoing", 2, NOW_MS - 10, [1]),
    "ending": ("PrepareCommit", 3, NOW_MS - 20_000, [1]),
    "ended": ("CompleteCommit", 4, NOW_MS - 90_000, []),
    "empty": ("Empty", 5, -1, []),
}


class World:
    """A fake broker with the transactional ids of IDS, and with the producers of partition 0 that a test sets."""

    def __init__(self, broker: FakeBroker, admin: Admin, clock: HandClock) -> None:
        self.broker, self.admin, self.clock = broker, admin, clock
        self.producers: list[ProducerState] = []
        self.marker_codes: list[int | None] = []
        """Error codes of the next WriteTxnMarkers responses; None writes the markers and closes the connection."""
        self.init_codes: list[int] = []
        self.timeout_ms = MINUTE_MS
        broker.handlers |= {
            LIST_TRANSACTIONS: self.list, DESCRIBE_TRANSACTIONS: self.describe, DESCRIBE_PRODUCERS: self.describe_producers,
            WRITE_TXN_MARKERS: self.write_markers, INIT_PRODUCER_ID: self.init,
        }  # fmt: skip

    def list(self, request: Any, version: int) -> ListTransactionsResponse:
        actual = []
        for name, (state, producer_id, start_ms, _) in IDS.items():
            if request.state_filters and state not in request.state_filters:
                continue
            if request.producer_id_filters and producer_id not in request.producer_id_filters:
                continue
            if version >= 1 and request.duration_filter >= 0 and NOW_MS - start_ms <= request.duration_filter:
                continue
            if version >= 2 and request.transactional_id_pattern and not name.startswith("e"):
                continue  # The pattern that these tests use is `e.*`.
            actual.append(TransactionState(name, producer_id, state))
        return ListTransactionsResponse(transaction_states=actual)

    def describe(self, request: Any, version: int) -> DescribeTransactionsResponse:
        actual = []
        for name in request.transactional_ids:
            if name not in IDS:
                actual.append(Described(105, name))
                continue
            state, producer_id, start_ms, partitions = IDS[name]
            topics = [TopicData("t", partitions)] if partitions else []
            actual.append(Described(0, name, state, self.timeout_ms, start_ms, producer_id, 7, topics))
        return DescribeTransactionsResponse(transaction_states=actual)

    def describe_producers(self, request: Any, version: int) -> DescribeProducersResponse:
        partitions = [
            PartitionResponse(index, 0, None, self.producers if index == 0 else [])
            for index in request.topics[0].partition_indexes
        ]
        return DescribeProducersResponse(topics=[TopicResponse("t", partitions)])

    def write_markers(self, request: Any, version: int) -> WriteTxnMarkersResponse | None:
        code = self.marker_codes.pop(0) if self.marker_codes else 0
        (marker,) = request.markers
        if not code:
            self.producers = [each for each in self.producers if each.producer_id != marker.producer_id]
        if code is None:
            return None
        topics = [WritableTxnMarkerTopicResult("t", [WritableTxnMarkerPartitionResult(0, code)])]
        return WriteTxnMarkersResponse([WritableTxnMarkerResult(marker.producer_id, topics)])

    def init(self, request: Any, version: int) -> InitProducerIdResponse:
        return InitProducerIdResponse(0, self.init_codes.pop(0) if self.init_codes else 0, 1, 8)

    def sent(self, name: str) -> list[Any]:
        return [request for api, _, request in self.broker.seen if api == name]


@pytest.fixture
def world(broker: FakeBroker) -> Iterator[World]:
    clock = HandClock()
    with Cluster([broker.address], 10.0, clock.now_s, clock.sleep) as cluster:
        yield World(broker, Admin(cluster, lambda: NOW_MS), clock)


def names(actual: tuple[Listing, ...]) -> list[str]:
    return [each.transactional_id for each in actual]


# --- list

FILTERS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "none": ({}, sorted(IDS)),
    "a state": ({"states": ["Empty"]}, ["empty"]),
    "states": ({"states": ["Empty", "PrepareCommit"]}, ["empty", "ending"]),
    "a producer id": ({"producer_ids": [4]}, ["ended"]),
    "a duration": ({"running_longer_than_ms": 9_999}, ["ending", "open"]),
    "a duration that is exactly reached": ({"running_longer_than_ms": 10_000}, ["ending"]),
    "no duration at all": ({"running_longer_than_ms": 0}, ["ending", "open", "young"]),
    "a duration and a state that runs": (
        {"running_longer_than_ms": 0, "states": ["Ongoing", "Empty"]},
        ["open", "young"],
    ),
    "a duration and a state that does not run": ({"running_longer_than_ms": 0, "states": ["Empty"]}, []),
    "a pattern": ({"pattern": "e.*"}, ["empty", "ended", "ending"]),
    "a pattern and a duration": ({"pattern": "e.*", "running_longer_than_ms": 5}, ["ending"]),
}


@pytest.mark.parametrize("newest", [0, 1, 2], ids=lambda each: f"v{each}")
@pytest.mark.parametrize("what", FILTERS)
def test_filters_give_the_same_result_at_every_version_of_list_transactions(
    world: World, what: str, newest: int
) -> None:
    """A running transaction is open or being ended (KIP-939); Kafka's own duration filter (KIP-994) also returns others."""
    world.broker.versions[LIST_TRANSACTIONS] = (0, newest)
    filters, expected = FILTERS[what]

    actual = world.admin.list_transactions(**filters)

    assert names(actual.listings) == expected
    too_old = ("pattern" in filters and newest < 2) + (
        "running_longer_than_ms" in filters and newest < 1 and expected != []
    )
    assert len(actual.notes) == too_old
    assert all("too old" in note for note in actual.notes)


def test_the_duration_filter_is_sent_together_with_the_states_that_run(world: World) -> None:
    world.admin.list_transactions(running_longer_than_ms=5)
    (request,) = world.sent("ListTransactions")
    assert (tuple(request.state_filters), request.duration_filter) == (RUNNING, 5)


def test_a_state_that_a_broker_does_not_know_is_reported(world: World) -> None:
    world.broker.handlers[LIST_TRANSACTIONS] = lambda request, version: ListTransactionsResponse(0, 0, ["Odd"], [])
    assert world.admin.list_transactions(["Odd"]).notes == ("broker 1 knows no state 'Odd'",)


def test_a_coordinator_that_still_loads_is_waited_for(world: World) -> None:
    codes = [14, 14, 0]
    world.broker.handlers[LIST_TRANSACTIONS] = lambda request, version: ListTransactionsResponse(0, codes.pop(0))
    assert world.admin.list_transactions().listings == ()
    assert codes == []


@pytest.mark.parametrize("newest, fault", [(2, BrokerError), (1, ClientError)])
def test_an_invalid_pattern_is_an_error_whether_broker_or_client_matches_it(
    world: World, newest: int, fault: type[ClientError]
) -> None:
    world.broker.versions[LIST_TRANSACTIONS] = (0, newest)
    if newest == 2:
        code = ErrorCode.INVALID_REGULAR_EXPRESSION
        world.broker.handlers[LIST_TRANSACTIONS] = lambda request, version: ListTransactionsResponse(0, code)
    with pytest.raises(fault, match=r"(?i)regular.expression"):
        world.admin.list_transactions(pattern="(")


@pytest.mark.parametrize("pattern, expected", [("e", []), ("empt.", ["empty"]), ("e.*d|open", ["ended", "open"])])
def test_a_pattern_that_the_client_matches_has_to_match_the_whole_transactional_id(
    world: World, pattern: str, expected: list[str]
) -> None:
    world.broker.versions[LIST_TRANSACTIONS] = (0, 1)
    assert names(world.admin.list_transactions(pattern=pattern).listings) == expected


def test_list_transactions_of_a_broker_before_kip_664_raises_unsupported_version(world: World) -> None:
    del world.broker.versions[LIST_TRANSACTIONS]
    with pytest.raises(UnsupportedVersion, match="has no ListTransactions"):
        world.admin.list_transactions()


# --- describe


def test_describe_transactions_returns_all_fields_and_none_for_an_unknown_id(world: World) -> None:
    actual = world.admin.describe_transactions(["open", "nobody", "empty", "open"])
    assert list(actual) == ["open", "nobody", "empty"]
    assert actual["nobody"] is None
    assert actual["open"] is not None and actual["empty"] is not None
    assert actual["open"][2:] == ("Ongoing", 1, 7, MINUTE_MS, NOW_MS - 10_000, (("t", 0),))
    assert actual["empty"].started_at_ms is None
    assert [actual["open"].running, actual["empty"].running] == [True, False]


@pytest.mark.parametrize("timeout_ms, two_phase", [(MINUTE_MS, False), (TIMEOUT_NONE, True)])
def test_a_two_phase_transaction_is_recognised_by_its_time_out(world: World, timeout_ms: int, two_phase: bool) -> None:
    world.timeout_ms = timeout_ms
    described = world.admin.describe_transactions(["open"])["open"]
    assert described is not None and described.two_phase is two_phase


def test_many_transactional_ids_are_described_in_batches(world: World) -> None:
    wanted = [f"id-{number}" for number in range(2 * BATCH_MAX + 1)]
    assert set(world.admin.describe_transactions(wanted).values()) == {None}
    sizes = [len(request.transactional_ids) for request in world.sent("DescribeTransactions")]
    assert sizes == [BATCH_MAX, BATCH_MAX, 1]


# --- find-hanging


def producer(
    producer_id: int, start_offset: int = 50, age_ms: int = 16 * MINUTE_MS, coordinator_epoch: int = 3
) -> ProducerState:
    return ProducerState(producer_id, 7, 0, NOW_MS - age_ms, coordinator_epoch, start_offset)


PRODUCERS: dict[str, tuple[ProducerState, bool]] = {
    "nobody has its id": (producer(99), True),
    "its id is Ongoing with this partition": (producer(1), False),
    "its id is Ongoing without this partition": (producer(2), True),
    "its id is being ended, and this partition is through": (producer(3), True),
    "its id has ended": (producer(4), True),
    "its id is empty": (producer(5), True),
    "nobody has its id, and it is young": (producer(99, age_ms=15 * MINUTE_MS), False),
    "nobody has its id, and it is just old enough": (producer(99, age_ms=15 * MINUTE_MS + 1), True),
    "nothing is open": (producer(99, start_offset=-1), False),
}


@pytest.mark.parametrize("what", PRODUCERS)
def test_an_old_transaction_hangs_when_no_coordinator_will_end_it_in_the_partition(world: World, what: str) -> None:
    each, hangs = PRODUCERS[what]
    world.producers = [each]

    actual = world.admin.find_hanging("t", None, None, 15 * MINUTE_MS)

    expected = OpenTransaction("t", 0, each.producer_id, 7, 3, 50, each.last_timestamp)
    assert actual.transactions == ((expected,) if hangs else ())
    assert actual.leaderless == ()


def test_find_hanging_can_be_limited_to_a_broker_and_rejects_an_unknown_broker(world: World) -> None:
    world.producers = [producer(99)]
    assert len(world.admin.find_hanging(None, None, 1, MINUTE_MS).transactions) == 1
    with pytest.raises(NotFound, match="no broker 2"):
        world.admin.find_hanging(None, None, 2, MINUTE_MS)


def test_find_hanging_reports_partitions_without_a_leader_and_checks_the_others(world: World) -> None:
    world.broker.leaders[1] = -1
    world.producers = [producer(99)]
    actual = world.admin.find_hanging(None, None, None, MINUTE_MS)
    assert (len(actual.transactions), actual.leaderless) == (1, (("t", 1),))


# --- abort


@pytest.mark.parametrize("known, sent", [(3, 3), (-1, 0)])
def test_an_abort_takes_the_producer_from_the_start_offset(world: World, known: int, sent: int) -> None:
    """A producer without markers has no coordinator epoch, and the request uses 0 (KIP-664)."""
    world.producers = [producer(1, start_offset=10), producer(99, coordinator_epoch=known)]

    assert world.admin.abort_at("t", 0, 50) == Marker(99, 7, sent)

    (request,) = world.sent("WriteTxnMarkers")
    (marker,) = request.markers
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (99, 7, sent)
    assert (marker.transaction_result, marker.transaction_version) == (False, 0)
    assert [(each.name, list(each.partition_indexes)) for each in marker.topics] == [("t", [0])]


@pytest.mark.parametrize(
    "producers, said",
    [
        ([], "the partition has no open transaction"),
        ([producer(1, 10), producer(2, 11)], "open transactions start at 10, 11"),
    ],
)
def test_abort_at_an_offset_without_a_transaction_lists_the_open_transactions(
    world: World, producers: list[ProducerState], said: str
) -> None:
    world.producers = producers
    with pytest.raises(NotFound, match=f"no open transaction of t-0 starts at offset 50; {said}"):
        world.admin.abort_at("t", 0, 50)
    assert world.sent("WriteTxnMarkers") == []


@pytest.mark.parametrize(
    "codes, markers",
    [([None], 1), ([6, 0], 2), ([6, 6, None], 3)],
    ids=["the answer is lost", "the leader has moved", "first the one, then the other"],
)
def test_abort_at_is_retried_until_the_marker_is_written_or_the_transaction_is_gone(
    world: World, codes: list[int | None], markers: int
) -> None:
    world.producers = [producer(99)]
    world.marker_codes = codes
    assert world.admin.abort_at("t", 0, 50).producer_id == 99
    assert len(world.sent("WriteTxnMarkers")) == markers


@pytest.mark.parametrize(
    "code", ["INVALID_PRODUCER_EPOCH", "TRANSACTION_COORDINATOR_FENCED", "CLUSTER_AUTHORIZATION_FAILED"]
)
def test_a_refused_marker_is_an_error(world: World, code: str) -> None:
    world.marker_codes = [ErrorCode[code]]
    with pytest.raises(BrokerError, match=f"the abort marker for t-0: {code}"):
        world.admin.abort("t", 0, Marker(99, 7, 3))


def test_abort_of_a_known_producer_skips_describe_producers_and_sends_an_unknown_coordinator_epoch_as_0(
    world: World,
) -> None:
    assert world.admin.abort("t", 0, Marker(99, 7, -1)) == Marker(99, 7, 0)
    assert world.sent("DescribeProducers") == []


# --- force-terminate


@pytest.mark.parametrize(
    "timeout_ms, sent",
    [(5_000, 5_000), (MINUTE_MS, MINUTE_MS), (900_000, MINUTE_MS), (TIMEOUT_NONE, 1)],
)
def test_an_id_is_terminated_by_a_plain_init_producer_id_with_a_time_out_that_is_allowed(
    world: World, timeout_ms: int, sent: int
) -> None:
    world.timeout_ms = timeout_ms
    before = world.admin.force_terminate("open")
    assert (before.state, before.partitions) == ("Ongoing", (("t", 0),))
    (request,) = world.sent("InitProducerId")
    assert (request.transactional_id, request.transaction_timeout_ms) == ("open", sent)
    assert (request.producer_id, request.producer_epoch) == (-1, -1)
    assert (request.enable_2pc, request.keep_prepared_txn) == (False, False)


def test_force_terminate_retries_until_the_markers_are_written(world: World) -> None:
    world.init_codes = [ErrorCode.CONCURRENT_TRANSACTIONS] * 3
    world.admin.force_terminate("open")
    assert len(world.sent("InitProducerId")) == 4
    assert world.clock.slept == [0.02, 0.04, 0.08]


def test_force_terminate_times_out_when_the_markers_are_never_written(world: World) -> None:
    world.init_codes = [ErrorCode.CONCURRENT_TRANSACTIONS] * 99
    with pytest.raises(TimedOut, match="'open': CONCURRENT_TRANSACTIONS; given up after 10 s"):
        world.admin.force_terminate("open")


def test_force_terminate_does_not_create_an_unknown_transactional_id(world: World) -> None:
    with pytest.raises(NotFound, match="no transactional id 'opne'; nothing was done"):
        world.admin.force_terminate("opne")
    assert world.sent("InitProducerId") == []


OPERATIONS: dict[str, Callable[[Admin], object]] = {
    "describe": lambda admin: admin.describe_transactions(["open"]),
    "find-hanging": lambda admin: admin.find_hanging("t", 0, None, 0),
}


@pytest.mark.parametrize("what", OPERATIONS)
def test_an_authorization_error_names_the_transactional_id_or_partition(world: World, what: str) -> None:
    world.broker.handlers[DESCRIBE_TRANSACTIONS] = lambda request, version: DescribeTransactionsResponse(
        transaction_states=[Described(53, "open")]
    )
    world.broker.handlers[DESCRIBE_PRODUCERS] = lambda request, version: DescribeProducersResponse(
        topics=[TopicResponse("t", [PartitionResponse(0, 29, "not you")])]
    )
    with pytest.raises(BrokerError, match=r"'open': TRANSACTIONAL_ID_AUTH|t-0: TOPIC_AUTHORIZATION_FAILED \(not you\)"):
        OPERATIONS[what](world.admin)
