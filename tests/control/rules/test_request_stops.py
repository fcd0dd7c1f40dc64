"""A request fails, or its broker is killed, at the request's own points: before it nothing is changed, after it everything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from stuntbroker.broker.requests.apis import SERVED
from stuntbroker.broker.requests.plain_messages import error_codes
from stuntbroker.control.rules.points import REQUESTS
from stuntbroker.control.rules.stops import Stops
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from tests.kit.rig import KEYS, Client, Rig, decode, frame
from tests.kit.rig import running_rig as running_rig
from tests.kit.stopping import Images, phase_of, settled
from tests.kit.transactions.two_calls import add
from tests.kit.valid_requests import GROUP, TOPIC, TXN, batch, valid_request

SESSION_TIMEOUT_MS = 10_000
NEW_TOPIC = "made"
"""Topic that the requests of `valid_requests` create, delete and describe."""


def request_of(rig: Rig, name: str, producer_id: int = 1_000, epoch: int = 0) -> Any:
    """Return a valid request, in the newest version, of the API that has the points `name`."""
    key = KEYS[REQUESTS[name][0]]
    return valid_request(key, SERVED[key].newest, rig.topic(TOPIC).id, producer_id, epoch)


# --- requests and their preparation


def plain(name: str) -> Callable[[Rig, Client], Any]:
    return lambda rig, client: request_of(rig, name)


def with_producer(name: str, is_open: bool = False) -> Callable[[Rig, Client], Any]:
    """Return a function that prepares a producer, with `is_open` also a transaction, and returns the producer's request."""

    def prepared(rig: Rig, client: Client) -> Any:
        given = client.ask(InitProducerIdRequest(TXN, 60_000), 4)
        if is_open:
            add(client, given, TXN, topic=TOPIC)
        return request_of(rig, name, given.producer_id, given.producer_epoch)

    return prepared


def producing(rig: Rig, client: Client) -> Any:
    given = client.ask(InitProducerIdRequest(TXN, 60_000), 4)
    request = request_of(rig, "produce")
    request.transactional_id = TXN
    request.topic_data[0].partition_data[0].records = batch(2, given.producer_id, given.producer_epoch, 0)
    return request


def creating(name: str, is_there: bool) -> Callable[[Rig, Client], Any]:
    def prepared(rig: Rig, client: Client) -> Any:
        if is_there:
            rig.topic(NEW_TOPIC)
        request = request_of(rig, name)
        if name == "metadata":
            request.topics[0].name, request.topics[0].topic_id = NEW_TOPIC, bytes(16)
            request.allow_auto_topic_creation = True
        return request

    return prepared


def of_member(name: str) -> Callable[[Rig, Client], Any]:
    """Return a function that joins a group, also syncs it unless the request is a SyncGroup, and returns the member's request."""

    def prepared(rig: Rig, client: Client) -> Any:
        member = client.ask(request_of(rig, "group.join"), 3)
        sync = request_of(rig, "group.sync")
        sync.member_id, sync.generation_id = member.member_id, member.generation_id
        sync.assignments[0].member_id = member.member_id
        if name == "group.sync":
            return sync
        assert client.ask(sync, 5).error_code == ErrorCode.NONE
        request = request_of(rig, name)
        if name == "group.leave":
            request.members[0].member_id = member.member_id
        else:
            request.member_id, request.generation_id = member.member_id, member.generation_id
        return request

    return prepared


def with_committed_offset(rig: Rig, client: Client) -> Any:
    client.ask(request_of(rig, "offsets.commit"), 9)
    return request_of(rig, "offsets.fetch")


def fetching(rig: Rig, client: Client) -> Any:
    rig.log(TOPIC, 0).append_own(bytearray(batch(2)))
    rig.broker.turn.end()
    request = request_of(rig, "fetch")
    request.topics[0].partitions[0].fetch_offset = 0
    return request


# --- what a request changes


def records(rig: Rig) -> int:
    rig.broker.turn.flush()
    return int(rig.log(TOPIC, 0).next_offset)


def has_marker(rig: Rig) -> bool:
    rig.broker.turn.flush()
    return any(header.control for header, _ in rig.log(TOPIC, 0).batches())


def transaction(rig: Rig) -> tuple[str, list[str]]:
    """Return the phase and the topics of the transaction."""
    txn = rig.broker.transactions.state_of(TXN)
    return phase_of(rig, TXN), sorted({topic for topic, _ in txn.partitions}) if txn is not None else []


def pending_offsets(rig: Rig) -> list[int]:
    return [offset.offset for _, _, offset in rig.broker.groups.pending_of(GROUP)]


def committed_offsets(rig: Rig) -> list[int]:
    return [each.offset for topic in rig.broker.groups.fetch_all(GROUP, False) for each in topic.partitions]


def group(rig: Rig) -> tuple[str, int]:
    """Return the state of the group and its number of members."""
    group = rig.broker.groups.group(GROUP)
    return ("", 0) if group is None else (group.state.value, len(group.members))


def is_there(rig: Rig) -> bool:
    return rig.broker.topics.get(NEW_TOPIC) is not None


def nothing(rig: Rig) -> None:
    """State for requests that change nothing."""


class Row(NamedTuple):
    """One kind of request, and what it changes."""

    prepared: Callable[[Rig, Client], Any]
    state: Callable[[Rig], Any]
    before: Any = None
    after: Any = None
    second_error: ErrorCode = ErrorCode.NONE
    """Error of a retry after the request was carried out."""
    version: int | None = None
    """Version of the request; by default the newest."""
    unsynced: str = ""
    """`before` or `after`: where the group has no assignment yet, so that its members are lost in a restart."""


ROWS = {
    "produce": Row(producing, records, 0, 2),
    "producer.init": Row(plain("producer.init"), transaction, ("", []), ("Empty", [])),
    "txn.add_partitions": Row(with_producer("txn.add_partitions"), transaction, ("Empty", []), ("Ongoing", [TOPIC])),
    "txn.add_offsets": Row(
        with_producer("txn.add_offsets"), transaction, ("Empty", []), ("Ongoing", ["__consumer_offsets"])
    ),
    "txn.end": Row(
        with_producer("txn.end", is_open=True), transaction, ("Ongoing", [TOPIC]), ("CompleteAbort", []), version=4
    ),
    "offsets.stage": Row(with_producer("offsets.stage"), pending_offsets, [], [1]),
    "offsets.commit": Row(plain("offsets.commit"), committed_offsets, [], [1]),
    "offsets.fetch": Row(with_committed_offset, committed_offsets, [1], [1]),
    "fetch": Row(fetching, records, 2, 2),
    "group.join": Row(plain("group.join"), group, ("", 0), ("CompletingRebalance", 1), version=3, unsynced="after"),
    "group.sync": Row(of_member("group.sync"), group, ("CompletingRebalance", 1), ("Stable", 1), unsynced="before"),
    "group.heartbeat": Row(of_member("group.heartbeat"), group, ("Stable", 1), ("Stable", 1)),
    "group.leave": Row(
        of_member("group.leave"), group, ("Stable", 1), ("Empty", 0), second_error=ErrorCode.UNKNOWN_MEMBER_ID
    ),
    "coordinator.find": Row(plain("coordinator.find"), nothing),
    "metadata": Row(creating("metadata", is_there=False), is_there, False, True),
    "topic.create": Row(
        creating("topic.create", is_there=False), is_there, False, True, second_error=ErrorCode.TOPIC_ALREADY_EXISTS
    ),
    "topic.delete": Row(
        creating("topic.delete", is_there=True),
        is_there,
        True,
        False,
        second_error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ),
    "markers.write": Row(with_producer("markers.write", is_open=True), has_marker, False, True),
}
WITHOUT_MEMBERS = ("Empty", 0)
CASES = [(name, side) for name in ROWS for side in ("before", "after")]


@pytest.fixture
async def rig(tmp_path: Any) -> Any:
    """Run a broker in which the first JoinGroup of a group need not wait for other members."""
    async with running_rig(tmp_path, {"group.initial.rebalance.delay.ms": "0"}) as rig:
        rig.topic(TOPIC)
        yield rig


def answered(answers: list[bytes], key: int, version: int) -> list[int]:
    """Return the distinct errors in the only response."""
    (answer,) = answers
    return list(dict.fromkeys(error_codes(decode(answer, key, version))))


async def ask_again(rig: Rig, request: Any, key: int, version: int) -> list[int]:
    retry = rig.client()
    retry.feed(frame(request, version))
    answers = await settled(retry)
    if not answers:
        rig.pass_time(SESSION_TIMEOUT_MS)  # The join waits for the first member.
        answers = await settled(retry)
    return answered(answers, key, version)


@pytest.mark.parametrize(("name", "side"), CASES)
async def test_a_request_that_fails_at_its_point_has_changed_nothing_before_and_all_after(
    name: str, side: str, rig: Rig
) -> None:
    row, key = ROWS[name], KEYS[REQUESTS[name][0]]
    version = SERVED[key].newest if row.version is None else row.version
    client = rig.client()
    request = row.prepared(rig, client)
    assert row.state(rig) == row.before
    Stops(rig.broker).add(f"{name}.{side}", {"action": "fail"})
    client.feed(frame(request, version))

    assert (await settled(client), client.transport.closed) == ([], True)
    assert row.state(rig) == (row.before if side == "before" else row.after)
    errors = await ask_again(rig, request, key, version)
    assert errors == ([] if side == "before" or not row.second_error else [row.second_error])
    assert row.state(rig) == row.after


@pytest.mark.parametrize(("name", "side"), CASES)
async def test_a_broker_killed_at_a_point_has_nothing_of_the_request_before_and_all_after(
    name: str, side: str, rig: Rig, images: Images
) -> None:
    row, key = ROWS[name], KEYS[REQUESTS[name][0]]
    version = SERVED[key].newest if row.version is None else row.version
    client = rig.client()
    request = row.prepared(rig, client)
    Stops(rig.broker, kill=images).add(f"{name}.{side}", {"action": "kill"})
    client.feed(frame(request, version))
    await settled(client)

    (image,) = images.folders
    async with running_rig(image, {"group.initial.rebalance.delay.ms": "0"}) as restarted:
        is_forgotten = row.unsynced == side
        assert row.state(restarted) == (
            WITHOUT_MEMBERS if is_forgotten else row.before if side == "before" else row.after
        )
        errors = await ask_again(restarted, request, key, version)
        if is_forgotten and request.member_id:
            assert errors == [ErrorCode.UNKNOWN_MEMBER_ID]
        else:
            assert errors == ([] if side == "before" or not row.second_error else [row.second_error])
            assert row.state(restarted) == row.after


def test_every_request_with_points_of_its_own_is_tried_here() -> None:
    assert ROWS.keys() == REQUESTS.keys()
