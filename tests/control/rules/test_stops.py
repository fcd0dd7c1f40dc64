"""Stops at every point of a transaction: parked, failing, and killed there, and the state after a restart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from stuntbroker.broker.requests.apis import SERVED
from stuntbroker.broker.requests.plain_messages import error_codes
from stuntbroker.control.control import Control
from stuntbroker.control.rules.faults import API_NAMES, FaultError
from stuntbroker.control.rules.points import ACTIONS, FILES, POINTS, REQUESTS, START
from stuntbroker.control.rules.stops import Stops
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from stuntbroker.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.metadata_request import MetadataRequest
from stuntbroker.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from stuntbroker.protocol.topic_names import OFFSETS
from stuntbroker.storage.compaction import Cleaning
from stuntbroker.storage.errors import StorageError
from tests.kit.control_rules import rule
from tests.kit.rig import Client, Rig, SyncedAtOnce, decode, frame, turn
from tests.kit.rig import running_rig as running_rig
from tests.kit.stopping import Images, phase_of, settled
from tests.kit.transactions.two_calls import begin
from tests.kit.valid_requests import TOPIC, batch, valid_request

GROUP = "readers"


class Way(NamedTuple):
    """How a transaction reaches a point, and its state there."""

    commit: bool
    phase: str
    """Phase in the transaction log at the point; "" if the log does not have the id."""
    markers: int
    """Number of partitions that have their marker at the point."""
    after_restart: str
    """Phase after a restart from the files at the point."""


COMMIT, ABORT = True, False
WAYS = {
    "txn.PrepareCommit.before": Way(COMMIT, "Ongoing", 0, "Ongoing"),
    "txn.PrepareCommit.after": Way(COMMIT, "PrepareCommit", 0, "CompleteCommit"),
    "txn.PrepareAbort.before": Way(ABORT, "Ongoing", 0, "Ongoing"),
    "txn.PrepareAbort.after": Way(ABORT, "PrepareAbort", 0, "CompleteAbort"),
    "txn.marker.before": Way(COMMIT, "PrepareCommit", 0, "CompleteCommit"),
    "txn.marker.after": Way(COMMIT, "PrepareCommit", 1, "CompleteCommit"),
    "txn.offsets.before": Way(COMMIT, "PrepareCommit", 0, "CompleteCommit"),
    "txn.offsets.after": Way(COMMIT, "PrepareCommit", 1, "CompleteCommit"),
    "txn.CompleteCommit.before": Way(COMMIT, "PrepareCommit", 3, "CompleteCommit"),
    "txn.CompleteCommit.after": Way(COMMIT, "CompleteCommit", 3, "CompleteCommit"),
    "txn.CompleteAbort.before": Way(ABORT, "PrepareAbort", 3, "CompleteAbort"),
    "txn.CompleteAbort.after": Way(ABORT, "CompleteAbort", 3, "CompleteAbort"),
    "txn.end.before": Way(COMMIT, "Ongoing", 0, "Ongoing"),
    "txn.end.after": Way(COMMIT, "CompleteCommit", 3, "CompleteCommit"),
    "request.before": Way(COMMIT, "Ongoing", 0, "Ongoing"),
    "request.after": Way(COMMIT, "CompleteCommit", 3, "CompleteCommit"),
    "txn.reply": Way(COMMIT, "CompleteCommit", 3, "CompleteCommit"),
}
"""Points of EndTxn in a transaction with two partitions and the offsets of a group."""


def open_transaction(client: Client) -> Any:
    """Open a transaction of the id `pay` with two partitions of `t` and the offsets of a group."""
    given = begin(client, partitions=[0, 1])
    ids = {"transactional_id": "pay", "producer_id": given.producer_id, "producer_epoch": given.producer_epoch}
    assert client.ask(AddOffsetsToTxnRequest(group_id=GROUP, **ids), 3).error_code == ErrorCode.NONE
    topic = TxnOffsetCommitRequestTopic("t", partitions=[TxnOffsetCommitRequestPartition(0, 5)])
    client.ask(TxnOffsetCommitRequest(group_id=GROUP, topics=[topic], **ids), 3)
    return given


def end_request(given: Any, commit: bool = True, transactional_id: str = "pay") -> bytes:
    return frame(EndTxnRequest(transactional_id, given.producer_id, given.producer_epoch, commit), 4)


def markers_in(rig: Rig) -> int:
    """Return the number of markers in `t` and the offsets topic."""
    rig.broker.turn.flush()
    logs = [log for topic in rig.broker.topics for log in topic.partitions if topic.name in ("t", OFFSETS)]
    return sum(header.control for log in logs for header, _ in log.batches())


def add_partitions(given: Any) -> bytes:
    topics = [AddPartitionsToTxnTopic("t", [0])]
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="pay",
        v3_and_below_producer_id=given.producer_id,
        v3_and_below_producer_epoch=given.producer_epoch,
        v3_and_below_topics=topics,
    )
    return frame(request, 3)


@pytest.fixture
def client(rig: Rig) -> Client:
    rig.topic("t", 2)
    return rig.client()


@pytest.mark.parametrize("point", WAYS)
async def test_a_parked_transaction_waits_while_others_continue(
    point: str, rig: Rig, control: Control, client: Client
) -> None:
    way = WAYS[point]
    given = open_transaction(client)
    stop = control.stops.add(point, {"match": {"transactional_id": "p*y"}})
    client.feed(end_request(given, way.commit))

    assert await settled(client) == []
    assert (phase_of(rig), markers_in(rig)) == (way.phase, way.markers)
    assert (stop.fired, len(stop.parked)) == (1, 1)

    other = rig.client()
    other.feed(end_request(begin(other, "other"), transactional_id="other"))
    assert len(await settled(other)) == 1
    assert phase_of(rig, "other") == "CompleteCommit"

    assert control.stops.release(stop) == 1
    (answer,) = await settled(client)
    assert decode(answer, 26, 4).error_code == ErrorCode.NONE
    assert (phase_of(rig), stop.parked) == ("CompleteCommit" if way.commit else "CompleteAbort", [])


@pytest.mark.parametrize("point", WAYS)
async def test_a_request_that_fails_at_a_point_leaves_the_state_of_a_restart(
    point: str, rig: Rig, control: Control, client: Client
) -> None:
    way = WAYS[point]
    given = open_transaction(client)
    control.stops.add(point, {"action": "fail"})
    client.feed(end_request(given, way.commit))
    answers = await settled(client)

    assert [decode(answer, 26, 4).error_code for answer in answers] in ([], [ErrorCode.COORDINATOR_NOT_AVAILABLE])
    assert client.transport.closed is (not answers)
    await control.clock.advance(1_000)  # Completes a transaction that the fault left prepared.
    await turn(12)
    assert phase_of(rig) == way.after_restart
    retry = rig.client()
    retry.feed(end_request(given, way.commit))
    (answer,) = await settled(retry)
    assert decode(answer, 26, 4).error_code == ErrorCode.NONE


@pytest.mark.parametrize("point", WAYS)
async def test_a_broker_killed_at_a_point_recovers_by_kafka_s_rules(
    point: str, rig: Rig, client: Client, images: Images
) -> None:
    way = WAYS[point]
    given = open_transaction(client)
    stops = Stops(rig.broker, kill=images)
    stops.add(point, {"action": "kill"})
    client.feed(end_request(given, way.commit))
    assert await settled(client) == []

    (image,) = images.folders
    async with running_rig(image) as restarted:
        assert phase_of(restarted) == way.after_restart
        is_finished = way.phase.startswith("Prepare")
        assert ("txn_completed_after_restart" in restarted.events.names()) is is_finished
        assert markers_in(restarted) == (
            way.markers + 3 if is_finished else way.markers
        )  # Duplicate markers do no harm.
        retry = restarted.client()
        retry.feed(end_request(given, way.commit))
        (answer,) = await settled(retry)
        assert decode(answer, 26, 4).error_code == ErrorCode.NONE
        assert phase_of(restarted) == ("CompleteCommit" if way.commit else "CompleteAbort")


@pytest.mark.parametrize("number", [1, 2, 3])
async def test_a_stop_with_nth_parks_after_the_nth_marker(
    number: int, rig: Rig, control: Control, client: Client
) -> None:
    given = open_transaction(client)
    control.stops.add("txn.marker.after", {"nth": number})
    client.feed(end_request(given))
    assert await settled(client) == []
    assert markers_in(rig) == number


async def test_a_stop_can_match_a_marker_by_its_partition(rig: Rig, control: Control, client: Client) -> None:
    given = open_transaction(client)
    stop = control.stops.add("txn.marker.before", {"match": {"topic": "t", "partition": 1}})
    client.feed(end_request(given))
    assert await settled(client) == []
    assert (markers_in(rig), stop.matched) == (2, 1)


EARLIER = {
    "txn.Empty.before": (22, ""),
    "txn.Empty.after": (22, "Empty"),
    "producer.init.before": (22, ""),
    "producer.init.after": (22, "Empty"),
    "txn.Ongoing.before": (24, "Empty"),
    "txn.Ongoing.after": (24, "Ongoing"),
    "txn.add_partitions.before": (24, "Empty"),
    "txn.add_partitions.after": (24, "Ongoing"),
}
"""Points of requests before EndTxn -> API key, and phase in the transaction log at the point."""


@pytest.mark.parametrize("point", EARLIER)
async def test_init_and_add_partitions_stop_at_each_of_their_points(
    point: str, rig: Rig, client: Client, images: Images
) -> None:
    key, phase = EARLIER[point]
    stops = Stops(rig.broker, kill=images)
    if key == 22:
        request = frame(InitProducerIdRequest("pay", 60_000), 4)
    else:
        request = add_partitions(client.ask(InitProducerIdRequest("pay", 60_000), 4))
    stop = stops.add(point, {})
    ending = stops.add(point, {"action": "kill"})
    client.feed(request)
    assert await settled(client) == []
    assert (stop.fired, ending.fired) == (1, 1)
    async with running_rig(images.folders[0]) as restarted:
        assert phase_of(restarted) == phase

    for each in (stop, ending):
        stops.remove(each.id)
    assert len(await settled(client)) == 1
    assert phase_of(rig) == ("Empty" if key == 22 else "Ongoing")


@pytest.mark.parametrize("point", EARLIER)
async def test_a_failed_init_or_add_partitions_leaves_the_state_of_a_restart(
    point: str, rig: Rig, control: Control, client: Client
) -> None:
    key, phase = EARLIER[point]
    if key == 22:
        request = frame(InitProducerIdRequest("pay", 60_000), 4)
    else:
        request = add_partitions(client.ask(InitProducerIdRequest("pay", 60_000), 4))
    stop = control.stops.add(point, {"action": "fail"})
    client.feed(request)
    answers = await settled(client)

    errors = [code for answer in answers for code in error_codes(decode(answer, key, 4 if key == 22 else 3))]
    assert errors in ([], [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
    assert (stop.fired, client.transport.closed) == (1, not answers)
    assert (phase_of(rig) or "Empty") == (phase or "Empty")  # A new id may be in memory only.
    retry = rig.client()
    retry.feed(request)
    (answer,) = await settled(retry)
    assert list(error_codes(decode(answer, key, 4 if key == 22 else 3))) == []
    assert phase_of(rig) == ("Empty" if key == 22 else "Ongoing")


@pytest.mark.parametrize("name", REQUESTS)
async def test_every_request_with_points_of_its_own_stops_there(name: str, rig: Rig, control: Control) -> None:
    key = API_NAMES[REQUESTS[name][0].lower()]
    version = SERVED[key].newest
    topic = rig.topic(TOPIC)
    before, after = (
        control.stops.add(f"{name}.{side}", {"match": {"version": version}}) for side in ("before", "after")
    )
    client, other = rig.client(), rig.client()
    client.feed(frame(valid_request(key, version, topic.id), version))
    assert await settled(client) == []
    assert (before.fired, after.fired) == (1, 0)
    control.stops.release(before)
    await control.clock.advance(10_000)  # JoinGroup waits for members, Fetch for records.
    assert await settled(client) == []
    assert (before.fired, after.fired) == (1, 1)
    assert len(other.ask(MetadataRequest([]), 9).brokers) == 1 or name == "metadata"
    control.stops.release(after)
    assert len(await settled(client)) == 1


async def test_a_time_out_can_be_parked_and_the_transaction_is_open_until_then(
    rig: Rig, control: Control, client: Client
) -> None:
    begin(client, timeout_ms=60_000)
    stop = control.stops.add("txn.PrepareAbort.before", {"match": {"request": "TimeOut"}})
    await control.clock.advance(120_000)
    assert (phase_of(rig), stop.as_json()["parked"]) == ("Ongoing", ["pay"])
    assert rig.broker.transactions.timed_out_count == 0
    control.stops.remove(stop.id)
    await turn(12)
    assert (phase_of(rig), rig.broker.transactions.timed_out_count) == ("CompleteAbort", 1)


async def test_requests_for_an_id_that_is_parked_wait_behind_it_in_their_order(
    rig: Rig, control: Control, client: Client
) -> None:
    given = open_transaction(client)
    stop = control.stops.add("txn.PrepareCommit.after", {})
    client.feed(end_request(given))
    successor = rig.client()
    successor.feed(frame(InitProducerIdRequest("pay", 60_000), 4))
    assert (await settled(client), await settled(successor)) == ([], [])
    control.stops.release(stop)
    assert decode((await settled(client))[0], 26, 4).error_code == ErrorCode.NONE
    assert decode((await settled(successor))[0], 22, 4).producer_epoch == given.producer_epoch + 1


async def test_a_request_parks_at_two_consecutive_points_one_after_the_other(
    rig: Rig, control: Control, client: Client
) -> None:
    given = open_transaction(client)
    stops = [control.stops.add(point, {}) for point in ("txn.CompleteCommit.after", "txn.reply")]
    client.feed(end_request(given))
    assert await settled(client) == []
    assert [len(stop.parked) for stop in stops] == [1, 0]
    control.stops.release(stops[0])
    assert await settled(client) == []
    assert [len(stop.parked) for stop in stops] == [0, 1]
    control.stops.release(stops[1])
    assert len(await settled(client)) == 1


async def test_an_actor_whose_request_fails_starts_only_the_next_request(
    rig: Rig, control: Control, client: Client
) -> None:
    """If two requests of an id ran at the same time, two producers would get the same epoch."""
    given = open_transaction(client)
    control.stops.add("txn.CompleteCommit.after", {"action": "fail"})
    parked = control.stops.add("txn.Empty.before", {})
    client.feed(end_request(given))
    second, third = rig.client(), rig.client()
    for each in (second, third):
        each.feed(frame(InitProducerIdRequest("pay", 60_000), 4))
    assert (await settled(second), await settled(third), len(parked.parked)) == ([], [], 1)
    control.stops.release(parked)
    answers = [decode((await settled(each))[0], 22, 4) for each in (second, third)]
    assert [answer.producer_epoch for answer in answers] == [given.producer_epoch + 1, given.producer_epoch + 2]


async def test_a_failed_request_gets_its_response_when_the_next_request_fails_too(
    rig: Rig, control: Control, client: Client
) -> None:
    given = open_transaction(client)
    control.stops.add("txn.CompleteCommit.before", {"action": "fail", "match": {"request": "EndTxn"}})
    control.stops.add("txn.reply", {"action": "fail", "match": {"request": "InitProducerId"}})
    client.feed(end_request(given))
    second = rig.client()
    second.feed(frame(InitProducerIdRequest("pay", 60_000), 4))
    (refusal,) = await settled(client)
    assert decode(refusal, 26, 4).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert len(await settled(second)) == 1
    assert "txn_not_completed" in rig.events.names()


async def test_a_request_that_fails_before_its_response_closes_the_connection(
    rig: Rig, control: Control, client: Client
) -> None:
    control.injector.add(rule("Fetch", duplicate=True))
    control.stops.add("fetch.before", {"action": "fail", "nth": 2})
    fetch = FetchRequest(max_wait_ms=500, min_bytes=1, topics=[FetchTopic("t", partitions=[FetchPartition(0)])])
    client.feed(frame(fetch, 11))
    await control.clock.advance(500)
    assert (await settled(client), client.transport.closed) == ([], True)


async def test_a_stop_fires_once_or_so_many_times_or_always(rig: Rig, control: Control, client: Client) -> None:
    once, twice, always = (control.stops.add("metadata.before", {"times": times}) for times in (1, 2, 0))
    for number in range(3):
        rig.client().feed(frame(MetadataRequest([]), 9))
        for stop in (once, twice, always):
            control.stops.release(stop)
        assert (once.fired, twice.fired, always.fired) == (1, min(2, number + 1), number + 1)


# --- writes of files


def write_some(rig: Rig) -> None:
    log = rig.log("files", 0)
    log.append_own(bytearray(batch(1)))
    rig.broker.turn.end()


def roll(rig: Rig) -> None:
    write_some(rig)
    rig.log("files", 0).roll()


def delete_first(rig: Rig) -> None:
    rig.log("files", 0).delete_records(3)


def clean(rig: Rig) -> None:
    for _ in Cleaning(rig.log("files", 0), rig.broker.clock.now_ms()).slices():
        pass


def change(rig: Rig) -> None:
    rig.broker.topics.create("another", 1, {})


def write_much(rig: Rig) -> None:
    rig.log("files", 0).append_own(bytearray(batch(1, size=20_000)))


PROVOKED = {
    "log.write": write_some,
    "log.sync": write_some,
    "segment.roll": roll,
    "segment.delete": delete_first,
    "snapshot.write": roll,
    "journal.write": change,
    "compaction.swap": clean,
}
FILE_POINTS = [(point, action) for point in FILES for action in POINTS[point].actions]


@pytest.mark.parametrize(("point", "action"), FILE_POINTS)
async def test_a_stop_on_the_way_to_the_disk_loses_nothing_that_was_acknowledged(
    point: str, action: str, tmp_path: Path, images: Images
) -> None:
    durability, executor = ("power", SyncedAtOnce()) if point.startswith("log.sync") else ("process", None)
    async with running_rig(tmp_path, durability=durability, executor=executor) as rig:
        rig.topic("files", cleanup_policy="compact")
        for _ in range(3):
            write_some(rig)
        rig.log("files", 0).roll()
        acknowledged = rig.log("files", 0).next_offset
        stops = Stops(rig.broker, kill=images)
        stop = stops.add(point, {"action": action})
        try:
            PROVOKED[point.rpartition(".")[0]](rig)
            if rig.broker.syncer is not None:
                rig.broker.syncer.when_synced(lambda: None)
        except StorageError as fault:
            assert str(fault) == f"stop-1 makes the operation fail at {point}"
        assert stop.fired == 1
        if action == "fail":
            images()
    async with running_rig(images.folders[0]) as restarted:
        assert restarted.log("files", 0).next_offset >= acknowledged
        kept = [header.base_offset for header, _ in restarted.log("files", 0).batches()]
        assert kept or point.startswith("segment.delete")
        assert not kept or kept[-1] >= acknowledged - 1
        assert (restarted.broker.topics.get("another") is not None) is (point == "journal.write.after")


@pytest.mark.parametrize("write", [write_some, write_much])
async def test_every_write_to_a_log_passes_its_points(write: Callable[[Rig], None], rig: Rig, control: Control) -> None:
    rig.topic("files")
    stops = [control.stops.add(f"log.write.{side}", {"action": "kill", "nth": 100}) for side in ("before", "after")]
    write(rig)
    assert [stop.matched for stop in stops] == [1, 1]


async def test_a_log_is_cleaned_again_after_its_swap_has_failed(rig: Rig, control: Control) -> None:
    rig.topic("files", cleanup_policy="compact")
    for _ in range(3):
        write_some(rig)
        rig.log("files", 0).roll()
    control.stops.add("compaction.swap.before", {"action": "fail"})
    with pytest.raises(StorageError):
        clean(rig)
    for segment in rig.log("files", 0).segments[:-1]:
        segment.close()  # As if too many files were open.
    clean(rig)
    write_some(rig)
    assert [header.base_offset for header, _ in rig.log("files", 0).batches()] == [2, 3]


async def test_retention_continues_with_the_next_log_when_one_fails(rig: Rig, control: Control) -> None:
    rig.topic("files", retention_ms="1000")
    rig.topic("others", retention_ms="1000")
    for name in ("files", "others"):
        log = rig.log(name, 0)
        log.append_own(bytearray(batch(1)))
        rig.broker.turn.end()
        log.roll()
    control.stops.add("segment.delete.before", {"action": "fail", "match": {"topic": "files"}})
    await control.clock.advance(600_000)
    assert "retention_failed" in rig.events.names()
    assert [rig.log(name, 0).log_start_offset for name in ("files", "others")] == [1, 1]


async def test_hooks_of_stops_are_installed_only_while_stops_exist(rig: Rig, control: Control, client: Client) -> None:
    router, transactions, points = rig.broker.router, rig.broker.transactions, rig.broker.data_dir.points
    before = router.interceptors
    stops = [
        control.stops.add(point, {"action": "kill"}) for point in ("request.before", "txn.reply", "log.write.before")
    ]
    assert (len(router.interceptors), transactions.hold is None, points.on_pass is None) == (
        len(before) + 1,
        False,
        False,
    )
    for stop in stops:
        control.stops.remove(stop.id)
    assert (router.interceptors, transactions.hold, points.on_pass) == (before, None, None)


WRONG: dict[str, tuple[str, Any, str]] = {
    "another point": ("txn.Prepare", {}, "there is no point 'txn.Prepare'"),
    "another action": ("txn.reply", {"action": "explode"}, "there is no action 'explode'"),
    "another part": ("txn.reply", {"if": 1}, "a stop has action, match, nth and times"),
    "no object": ("txn.reply", [], "a stop has action, match, nth and times"),
    "a match of another kind of point": ("txn.reply", {"match": {"client_id": "x"}}, "match has no client_id"),
    "a request that is no text": ("txn.reply", {"match": {"request": 1}}, "match.request must be a text"),
    "a request that the coordinator has not": (
        "txn.reply",
        {"match": {"request": "Produce"}},
        "there is no request 'Produce'",
    ),
    "a version that its API has not": (
        "txn.end.before",
        {"match": {"version": 9}},
        "no request that matches has version 9",
    ),
    "a listener that is not there": (
        "request.before",
        {"match": {"listener": "SECURE*"}},
        "there is no listener 'SECURE*'",
    ),
    "a node that is not there": ("request.before", {"match": {"node": 7}}, "there is no node 7"),
    "the 0th": ("txn.reply", {"nth": 0}, "stop.nth must be a whole number from 1"),
    "a pattern without end": (
        "txn.reply",
        {"match": {"transactional_id": "*a" * 300}},
        "match.transactional_id must be",
    ),
    "parked on the way to the disk": ("log.write.before", {}, "park is not possible at log.write.before"),
    "failing when it is done": (
        "journal.write.after",
        {"action": "fail"},
        "fail is not possible at journal.write.after",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_invalid_stop_is_refused_with_the_reason(name: str, control: Control) -> None:
    point, rule, reason = WRONG[name]
    with pytest.raises(FaultError) as refused:
        control.stops.add(point, rule)
    assert str(refused.value).startswith(reason)


def test_every_point_has_a_description_and_a_test_of_each_of_its_actions() -> None:
    """test_request_stops.py tests the points of single requests, and test_start_stops.py those of a start."""
    of_requests = {f"{name}.{side}" for name in REQUESTS for side in ("before", "after")}
    tried = {(point, action) for point in {*WAYS, *EARLIER, *of_requests} for action in ACTIONS}
    tried.update(FILE_POINTS)
    tried.update((point, action) for point in START for action in POINTS[point].actions)
    assert {(name, action) for name, point in POINTS.items() for action in point.actions} == tried
    assert all(point.text and set(point.actions) <= set(ACTIONS) for point in POINTS.values())
