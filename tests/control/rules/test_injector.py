"""Faults on live connections of a broker in this process."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stuntbroker.broker.requests.apis import SERVED
from stuntbroker.broker.requests.plain_messages import error_codes
from stuntbroker.control.clock import TestClock
from stuntbroker.control.control import Control
from stuntbroker.control.rules.faults import VERBS, FaultError
from stuntbroker.control.rules.injector import ACTIONS
from stuntbroker.protocol.api_keys import APIS, PRODUCE
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from stuntbroker.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.kit.control_rules import rule
from tests.kit.rig import Client, Rig, decode, frame, running_rig, turn
from tests.kit.transactions.two_calls import begin, end
from tests.kit.valid_requests import CASES, IDS, TOPIC, valid_request

CODE = ErrorCode.COORDINATOR_NOT_AVAILABLE


def phase_of(rig: Rig, transactional_id: str = "pay") -> str:
    name: str = rig.broker.transactions.state_of(transactional_id).phase.kafka_name
    return name


def end_request(given: Any) -> EndTxnRequest:
    return EndTxnRequest("pay", given.producer_id, given.producer_epoch, True)


@pytest.fixture
def client(rig: Rig) -> Client:
    rig.topic("t")
    return rig.client()


@pytest.mark.parametrize("version", [8, 10])
async def test_a_topic_matches_by_its_name_in_the_groups_of_offset_fetch_too(
    version: int, rig: Rig, control: Control
) -> None:
    topic, other = rig.topic(TOPIC), rig.topic("other")
    client = rig.client()
    fault = control.injector.add(rule("OffsetFetch", topic=TOPIC, error="NOT_COORDINATOR"))
    for each, matched in ((other, 0), (topic, 1)):
        topics = [OffsetFetchRequestTopics(each.name, each.id, [0])]
        client.feed(frame(OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=topics)]), version))
        assert (len(client.answers()), fault.matched) == (1, matched)


# --- responses with a chosen error


@pytest.mark.parametrize(("key", "version"), CASES, ids=IDS)
async def test_an_error_is_answered_in_the_form_of_every_api_and_version(
    key: int, version: int, rig: Rig, control: Control
) -> None:
    topic = rig.topic(TOPIC)
    client = rig.client()
    control.injector.add(rule(APIS[key].name, error="COORDINATOR_NOT_AVAILABLE"))
    client.feed(frame(valid_request(key, version, topic.id), version))
    (answer,) = client.answers()

    assert set(error_codes(decode(answer, key, version))) == {int(CODE)}
    assert control.requests.requests[-1].errors == ("COORDINATOR_NOT_AVAILABLE",)


async def test_an_error_response_has_no_producer_id_and_epoch(rig: Rig, control: Control) -> None:
    """As Kafka's: a client that used them would go on with a wrong epoch."""
    client = rig.client()
    for request, version in (
        (InitProducerIdRequest("pay", 60_000, 4_711, 3), 4),
        (EndTxnRequest("pay", 4_711, 3, True), 5),
    ):
        name = type(request).__name__.removesuffix("Request")
        control.injector.add(rule(name, error="COORDINATOR_NOT_AVAILABLE"))
        answer = client.ask(request, version)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (CODE, -1, -1), name


def test_a_fault_may_name_every_served_api(control: Control) -> None:
    for key in SERVED:
        assert control.injector.add(rule(APIS[key].name, close=True)).match["api"] == {key}


def test_a_fault_matches_one_of_thousands_of_topics_and_all_get_its_error(rig: Rig, control: Control) -> None:
    control.injector.add(rule("Metadata", topic="t-2999", error="LEADER_NOT_AVAILABLE"))
    topics = [MetadataRequestTopic(name=f"t-{number}") for number in range(3_000)]
    answer = rig.client().ask(MetadataRequest(topics), 9)
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.LEADER_NOT_AVAILABLE] * 3_000
    assert len(control.requests.requests[-1].fields["topics"]) == 20


@pytest.mark.parametrize("version", [7, 13])
def test_a_fetch_is_matched_by_the_partitions_of_its_session(
    version: int, rig: Rig, control: Control, client: Client
) -> None:
    topic = rig.topic("two", 2)
    id_ = topic.id if version >= 13 else bytes(16)
    partitions = [FetchPartition(index, -1, 0, partition_max_bytes=1 << 20) for index in range(2)]
    opened = client.ask(
        FetchRequest(max_wait_ms=0, session_epoch=0, topics=[FetchTopic("two", id_, partitions)]), version
    )
    fault = control.injector.add(rule("Fetch", topic="two", partition=1, error="NOT_LEADER_OR_FOLLOWER"))

    request = FetchRequest(max_wait_ms=0, session_id=opened.session_id, session_epoch=1)
    answer = client.ask(request, version)
    (shown,) = answer.responses
    assert {(part.partition_index, part.error_code) for part in shown.partitions} == {(0, 6), (1, 6)}
    request = FetchRequest(
        max_wait_ms=0,
        session_id=opened.session_id,
        session_epoch=1,
        forgotten_topics_data=[ForgottenTopic("two", id_, [1])],
    )
    client.ask(request, version)
    assert fault.fired == 1


# --- lost, delayed, held and changed requests and responses


async def test_a_request_with_an_error_fault_is_not_handled(rig: Rig, control: Control, client: Client) -> None:
    given = begin(client)
    fault = control.injector.add(rule("EndTxn", error="NOT_COORDINATOR", times=1))
    assert end(client, given) == ErrorCode.NOT_COORDINATOR
    assert phase_of(rig) == "Ongoing"
    assert end(client, given) == ErrorCode.NONE
    assert (fault.matched, fault.fired) == (2, 1)


async def test_respond_only_reports_success_of_a_request_that_is_not_handled(
    rig: Rig, control: Control, client: Client
) -> None:
    given = begin(client)
    control.injector.add(rule("EndTxn", respond_only=True))
    assert end(client, given) == ErrorCode.NONE
    assert phase_of(rig) == "Ongoing"


async def test_a_request_whose_response_is_lost_is_handled_and_closes_the_connection(
    rig: Rig, control: Control, client: Client
) -> None:
    given = begin(client)
    control.injector.add(rule("EndTxn", lose_response=True))
    client.feed(frame(end_request(given), 4))
    assert client.answers() == []
    assert client.transport.closed
    assert phase_of(rig) == "CompleteCommit"


async def test_a_request_with_a_close_fault_is_not_handled(rig: Rig, control: Control, client: Client) -> None:
    given = begin(client)
    control.injector.add(rule("EndTxn", close=True))
    client.feed(frame(end_request(given), 4))
    assert client.answers() == []
    assert client.transport.closed
    assert phase_of(rig) == "Ongoing"


async def test_a_request_without_a_response_blocks_only_its_connection(
    rig: Rig, control: Control, client: Client
) -> None:
    given = begin(client)
    control.injector.add(rule("EndTxn", no_response=True, times=1))
    client.feed(frame(end_request(given), 4) + frame(end_request(given), 4, correlation=8))
    assert client.answers() == []
    assert phase_of(rig) == "Ongoing"
    assert end(rig.client(), given) == ErrorCode.NONE


async def test_a_delayed_request_is_carried_out_at_its_time(rig: Rig, control: Control, client: Client) -> None:
    given = begin(client)
    control.injector.add(rule("EndTxn", delay_ms=5_000))
    client.feed(frame(end_request(given), 4))
    await control.clock.advance(4_999)
    assert (client.answers(), phase_of(rig)) == ([], "Ongoing")
    await control.clock.advance(1)
    (answer,) = client.answers()
    assert decode(answer, 26, 4).error_code == ErrorCode.NONE
    assert phase_of(rig) == "CompleteCommit"


async def test_a_delayed_request_arrives_even_when_its_client_has_gone(
    rig: Rig, control: Control, client: Client
) -> None:
    given = begin(client)
    control.injector.add(rule("EndTxn", delay_ms=5_000))
    client.feed(frame(end_request(given), 4))
    client.disconnect()
    await control.clock.advance(5_000)
    assert phase_of(rig) == "CompleteCommit"


async def test_requests_on_hold_are_carried_out_in_order_when_they_are_released(
    rig: Rig, control: Control, client: Client
) -> None:
    given = begin(client)
    other = rig.client()
    fault = control.injector.add(rule(["EndTxn", "CreateTopics"], hold=True))
    client.feed(frame(end_request(given), 4))
    other.feed(frame(CreateTopicsRequest([CreatableTopic("new", 1, 1)], 1_000), 5))
    assert (client.answers(), phase_of(rig), control.injector.held(fault.id)) == ([], "Ongoing", 2)

    assert control.injector.release(fault.id) == 2
    assert decode(client.answers()[0], 26, 4).error_code == ErrorCode.NONE
    assert rig.broker.topics.get("new") is not None
    assert control.injector.held(fault.id) == 0


async def test_a_held_request_is_handled_when_its_condition_is_true(rig: Rig, control: Control, client: Client) -> None:
    until = {"transactional_id": "other", "phase": "CompleteCommit"}
    fault = control.injector.add(rule("CreateTopics", hold={"until": until}))
    client.feed(frame(CreateTopicsRequest([CreatableTopic("new", 1, 1)], 1_000), 5))
    await turn()
    assert client.answers() == [] and control.injector.held(fault.id) == 1

    other = rig.client()
    end(other, begin(other, "other"), "other")
    while control.injector.held(fault.id):
        await asyncio.sleep(0)
    assert len(client.answers()) == 1


async def test_forgetting_a_broker_cancels_the_waits_of_its_held_requests(
    rig: Rig, control: Control, client: Client
) -> None:
    control.injector.add(rule("CreateTopics", hold={"until": {"topic": "t", "end_offset": 1}}))
    client.feed(frame(CreateTopicsRequest([CreatableTopic("new", 1, 1)], 1_000), 5))
    await turn()
    before = len(asyncio.all_tasks())
    control.injector.forget()
    while len(asyncio.all_tasks()) == before:
        await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) == before - 1


UNHELD = ({}, {"until": {}}, {"until": {"topic": "t"}}, {"until": {"topic": "t", "end_offset": 1}, "x": 1}, False, 1)


@pytest.mark.parametrize("value", UNHELD, ids=str)
async def test_a_hold_with_an_invalid_condition_is_refused(value: object, control: Control) -> None:
    with pytest.raises(FaultError):
        control.injector.add(rule("EndTxn", hold=value))
    assert control.injector.faults == {}


async def test_removing_a_fault_releases_its_held_requests(rig: Rig, control: Control, client: Client) -> None:
    given = begin(client)
    fault = control.injector.add(rule("EndTxn", hold=True))
    client.feed(frame(end_request(given), 4))
    assert control.injector.remove(fault.id) is fault
    assert phase_of(rig) == "CompleteCommit"
    assert control.injector.remove(fault.id) is None


@pytest.mark.parametrize("when", [{}, {"times": 1}, {"times": 2}, {"nth": 1, "times": 1}])
async def test_a_reorder_fault_swaps_two_requests(
    when: dict[str, int], rig: Rig, control: Control, client: Client
) -> None:
    fault = control.injector.add(rule("InitProducerId", reorder=True, **when))
    later = rig.client()
    client.feed(frame(InitProducerIdRequest("pay", 60_000), 4, correlation=1))
    assert control.injector.held(fault.id) == 1
    later.feed(frame(InitProducerIdRequest("pay", 60_000), 4, correlation=2))
    await turn()
    first, second = decode(later.answers()[0], 22, 4), decode(client.answers()[0], 22, 4)
    assert (first.producer_epoch, second.producer_epoch) == (0, 1)
    assert (control.injector.held(fault.id), fault.fired) == (0, 1)


async def test_a_reordered_request_follows_the_response_to_the_other_request(
    rig: Rig, control: Control, client: Client
) -> None:
    """The other request is a Fetch, whose response waits for `max_wait_ms`."""
    fault = control.injector.add(rule(["InitProducerId", "Fetch"], reorder=True, times=1))
    reader = rig.client()
    client.feed(frame(InitProducerIdRequest("pay", 60_000), 4))
    fetch = FetchRequest(max_wait_ms=500, min_bytes=1, topics=[FetchTopic("t", partitions=[FetchPartition(0)])])
    reader.feed(frame(fetch, 11))
    await turn()
    assert (client.answers(), reader.answers(), control.injector.held(fault.id)) == ([], [], 1)
    await control.clock.advance(500)
    await turn()
    assert (len(reader.answers()), len(client.answers()), control.injector.held(fault.id)) == (1, 1, 0)


async def test_a_request_that_fails_when_it_is_released_holds_up_no_other(
    rig: Rig, control: Control, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = begin(client)
    fault = control.injector.add(rule(["CreateTopics", "EndTxn"], hold=True))
    broken = rig.client()
    broken.feed(frame(CreateTopicsRequest([CreatableTopic("new", 1, 1)], 1_000), 5))
    client.feed(frame(end_request(given), 4))
    monkeypatch.setattr(rig.broker.topics, "create", None)
    assert control.injector.release(fault.id) == 2
    assert broken.transport.closed
    assert [facts["api_key"] for name, facts in rig.events.kept if name == "request_crashed"] == [19]
    rig.events.kept.clear()  # The test caused the crash.
    assert decode(client.answers()[0], 26, 4).error_code == ErrorCode.NONE


async def test_a_duplicated_request_gets_the_response_of_its_first_handling(
    rig: Rig, control: Control, client: Client
) -> None:
    control.injector.add(rule("InitProducerId", duplicate=True, times=1))
    assert client.ask(InitProducerIdRequest("pay", 60_000), 4).producer_epoch == 0
    assert client.ask(InitProducerIdRequest("pay", 60_000), 4).producer_epoch == 2


async def test_a_throttle_fault_sets_the_throttle_time(rig: Rig, control: Control, client: Client) -> None:
    given = begin(client)
    control.injector.add(rule("EndTxn", throttle_ms=1_234))
    answer = client.ask(end_request(given), 5)
    assert (answer.throttle_time_ms, answer.error_code) == (1_234, ErrorCode.NONE)
    assert phase_of(rig) == "CompleteCommit"


@pytest.mark.parametrize("version", [version for key, version in CASES if key == PRODUCE and version >= 1])
@pytest.mark.parametrize("is_there", [True, False])
async def test_a_producer_is_throttled_and_its_errors_are_in_the_log_of_requests(
    version: int, is_there: bool, rig: Rig, control: Control
) -> None:
    """Unlike others, Produce responses have a hand-written encoder."""
    topic_id = rig.topic(TOPIC).id if is_there else bytes(15) + b"x"
    client = rig.client()
    control.injector.add(rule("Produce", throttle_ms=1_234))
    client.feed(frame(valid_request(PRODUCE, version, topic_id), version))
    (answer,) = client.answers()

    response = decode(answer, PRODUCE, version)
    assert response.throttle_time_ms == 1_234
    errors = tuple(ErrorCode(code).name for code in error_codes(response))
    assert errors == control.requests.requests[-1].errors
    assert (errors == ()) is is_there


@pytest.mark.parametrize(("key", "version"), [(26, 5), (26, 4), (1, 12), (3, 9)])
async def test_a_corrupt_response_keeps_only_its_length_and_correlation_id(
    key: int, version: int, rig: Rig, control: Control
) -> None:
    topic = rig.topic(TOPIC)
    request = frame(valid_request(key, version, topic.id), version, correlation=99)
    client = rig.client()
    client.feed(request)
    await control.clock.advance(1)
    (sound,) = client.answers()
    control.injector.add(rule(APIS[key].name, corrupt=True))
    client.feed(request)
    (spoilt,) = client.answers()
    assert spoilt[:4] == sound[:4] == (99).to_bytes(4, "big")
    assert bytes(byte ^ 0x40 for byte in spoilt[4:])[:6] == sound[4:10]
    assert control.requests.requests[-1].state == "corrupt"


@pytest.mark.parametrize("version", [4, 5])
async def test_the_response_to_a_fenced_producer_can_be_corrupt_too(
    version: int, rig: Rig, control: Control, client: Client
) -> None:
    """The cause of the fence cannot be added to a corrupt response, which cannot be decoded."""
    fenced = client.ask(InitProducerIdRequest("pay", 60_000), 4)
    client.ask(InitProducerIdRequest("pay", 60_000), 4)
    control.injector.add(rule("EndTxn", corrupt=True))
    client.feed(frame(EndTxnRequest("pay", fenced.producer_id, fenced.producer_epoch, True), version))
    (corrupt,) = client.answers()

    sound = corrupt[:4] + bytes(byte ^ 0x40 for byte in corrupt[4:])
    assert decode(sound, 26, version).error_code == ErrorCode.PRODUCER_FENCED
    assert control.requests.requests[-1].state == "corrupt"


async def test_a_response_that_comes_later_can_be_lost_too(rig: Rig, control: Control, client: Client) -> None:
    """The coordinator sends the response to EndTxn later, as encoded bytes."""
    given = begin(client)
    control.injector.add(rule("EndTxn", lose_response=True))
    client.feed(frame(end_request(given), 5))
    assert (client.answers(), client.transport.closed, phase_of(rig)) == ([], True, "CompleteCommit")


# --- active rules


async def test_the_injector_is_an_interceptor_only_while_faults_exist(rig: Rig, control: Control) -> None:
    before = rig.broker.router.interceptors
    fault = control.injector.add(rule("EndTxn", close=True))
    assert len(rig.broker.router.interceptors) == len(before) + 1
    control.injector.remove(fault.id)
    assert rig.broker.router.interceptors == before


async def test_the_request_log_names_the_fault_of_a_request(rig: Rig, control: Control, client: Client) -> None:
    given = begin(client)
    fault = control.injector.add(rule("EndTxn", error=15))
    end(client, given)
    logged = control.requests.requests[-1]
    assert (logged.api, logged.fault, logged.state, logged.errors) == (
        "EndTxn",
        fault.id,
        "error",
        ("COORDINATOR_NOT_AVAILABLE",),
    )


async def test_an_advance_fault_moves_the_clock_before_the_request(rig: Rig, control: Control, client: Client) -> None:
    given = begin(client)
    began_ms = rig.broker.clock.now_ms()
    control.injector.add(rule("EndTxn", advance_ms=80_000, times=1))
    client.feed(frame(end_request(given), 4))
    while not (answers := client.answers()):
        await turn()

    assert decode(answers[0], 26, 4).error_code == ErrorCode.PRODUCER_FENCED
    assert phase_of(rig) == "CompleteAbort"
    assert rig.broker.clock.now_ms() == began_ms + 80_000


async def test_a_request_whose_fault_crashes_is_closed_and_logged(
    rig: Rig, control: Control, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_ms: int) -> None:
        raise ValueError("a mistake of ours")

    given = begin(client)
    monkeypatch.setattr(control.clock, "advance", fail)
    control.injector.add(rule("EndTxn", advance_ms=80_000, times=1))
    client.feed(frame(end_request(given), 4))
    await turn()
    assert client.transport.is_closing()
    assert rig.events.names().count("request_crashed") == 1
    rig.events.kept.clear()


async def test_a_fault_sets_the_producer_epoch_unless_higher_or_in_a_transaction(
    rig: Rig, control: Control, client: Client
) -> None:
    fault = control.injector.add(rule("InitProducerId", producer_epoch=32_700))
    given = begin(client)
    assert given.producer_epoch == 32_701
    assert client.ask(InitProducerIdRequest("pay", 60_000), 4).producer_epoch == 32_703  # The abort bumps it, too.
    assert client.ask(InitProducerIdRequest("pay", 60_000), 4).producer_epoch == 32_704
    assert client.ask(InitProducerIdRequest(None, 60_000), 4).producer_epoch == 0
    assert fault.fired == 4


def test_every_verb_of_a_fault_has_an_action() -> None:
    assert ACTIONS.keys() == VERBS.keys()


async def test_a_version_that_no_listener_of_an_older_kafka_serves_is_refused() -> None:
    async with running_rig(properties={"stuntbroker.personality": "2.1"}, clock=TestClock()) as rig:
        injector = Control(rig.broker).injector
        injector.add(rule("EndTxn", version=1, close=True))
        with pytest.raises(FaultError, match="no request that matches has version 5") as refused:
            injector.add(rule("EndTxn", version=5, close=True))
        assert refused.value.hint == "there is EndTxn 0 to 1"
