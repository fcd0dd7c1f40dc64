"""Which requests a rule matches, and which rules are invalid."""

from __future__ import annotations

from typing import Any

import pytest

from stuntbroker.broker.requests import plain_messages
from stuntbroker.broker.requests.plain_messages import plain_request, sample_request
from stuntbroker.control.rules.faults import FaultError, Subject, can_carry, read_fault, texts_in
from stuntbroker.protocol.api_keys import PRODUCE as PRODUCE_KEY
from stuntbroker.protocol.messages import produce_request
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from stuntbroker.protocol.software import FIXTURE_CLIENT_ID
from tests.kit.control_rules import rule
from tests.kit.valid_requests import CASES, IDS, valid_request

PRODUCE = {
    "transactional_id": "pay-1",
    "acks": -1,
    "topic_data": [{"name": "orders", "partition_data": [{"index": 2, "size": 70}]}],
}
ADD_PARTITIONS = {
    "v3_and_below_transactional_id": "",
    "transactions": [{"transactional_id": "pay-7", "topics": [{"name": "orders", "partitions": [0, 4]}]}],
}
FIND_GROUP = {"key": "readers", "key_type": 0, "coordinator_keys": []}
FIND_TXN = {"key": "", "key_type": 1, "coordinator_keys": ["pay-1", "pay-2"]}
JOIN = {"group_id": "readers", "member_id": "m-1"}
ADD_ONE = {
    "v3_and_below_transactional_id": "pay-3",
    "v3_and_below_topics": [{"name": "orders", "partitions": [0]}],
    "transactions": [],
}
JOIN_AS = {"group_id": "readers", "group_instance_id": "static", "protocols": [{"name": "range"}]}
CREATE = {"topics": [{"name": "orders", "configs": [{"name": "cleanup.policy", "value": "compact"}]}]}
BY_ID = {"topics": [{"topic_id": "00" * 16, "topic": "orders", "partitions": [{"partition": 3}]}]}


def subject(key: int, fields: dict[str, Any], version: int = 3) -> Subject:
    return Subject(key, version, "worker-1", "PLAINTEXT", fields)


MATCHING = {
    "any": (rule(), subject(0, PRODUCE)),
    "api": (rule("Produce"), subject(0, PRODUCE)),
    "api in any case": (rule("endtxn"), subject(26, {})),
    "api by pattern": (rule("*Offset*"), subject(28, {})),
    "one of several apis": (rule(["Fetch", "Produce"]), subject(0, PRODUCE)),
    "version": (rule(version=3), subject(0, PRODUCE)),
    "client": (rule(client_id="worker-*"), subject(0, PRODUCE)),
    "listener": (rule(listener="PLAIN*"), subject(0, PRODUCE)),
    "transactional id": (rule(transactional_id="pay-?"), subject(0, PRODUCE)),
    "transactional id within": (rule(transactional_id="pay-7"), subject(24, ADD_PARTITIONS)),
    "transactional id before version 4": (rule(transactional_id="pay-3"), subject(24, ADD_ONE)),
    "topic before version 4": (rule(topic="orders"), subject(24, ADD_ONE)),
    "transactional ids in a list": (rule(transactional_id="a"), subject(65, {"transactional_ids": ["b", "a"]})),
    "groups in a list": (rule(group="readers"), subject(15, {"groups": ["writers", "readers"]})),
    "groups with their topics": (
        rule(group="readers"),
        subject(9, {"groups": [{"group_id": "readers", "topics": []}]}),
    ),
    "topic that is created": (rule(topic="orders"), subject(19, CREATE)),
    "transactional id looked for": (rule(transactional_id="pay-2"), subject(10, FIND_TXN)),
    "group": (rule(group="read*"), subject(11, JOIN)),
    "group looked for": (rule(group="readers"), subject(10, FIND_GROUP)),
    "topic": (rule(topic="ord*"), subject(0, PRODUCE)),
    "topic by id": (rule(topic="orders"), subject(1, BY_ID)),
    "topic by name in a list": (rule(topic="b"), subject(20, {"topic_names": ["a", "b"]})),
    "partition": (rule(partition=2), subject(0, PRODUCE)),
    "partition in a list": (rule(partition=4), subject(24, ADD_PARTITIONS)),
    "partition of a fetch": (rule(partition=3), subject(1, BY_ID)),
}
OTHERS = {
    "api": (rule("EndTxn"), subject(0, PRODUCE)),
    "version": (rule(version=4), subject(0, PRODUCE)),
    "client": (rule(client_id="worker"), subject(0, PRODUCE)),
    "listener": (rule(listener="HOST"), subject(0, PRODUCE)),
    "transactional id": (rule(transactional_id="pay"), subject(0, PRODUCE)),
    "a group of that name": (rule(transactional_id="readers"), subject(10, FIND_GROUP)),
    "a transactional id of that name": (rule(group="pay-2"), subject(10, FIND_TXN)),
    "group": (rule(group="orders"), subject(0, PRODUCE)),
    "an instance id of that name": (rule(group="static"), subject(11, JOIN_AS)),
    "an assignor of that name": (rule(topic="range"), subject(11, JOIN_AS)),
    "a property of that name": (rule(topic="cleanup.policy"), subject(19, CREATE)),
    "topic": (rule(topic="payments"), subject(0, PRODUCE)),
    "partition": (rule(partition=0), subject(0, PRODUCE)),
    "one of two": (rule("Produce", topic="payments"), subject(0, PRODUCE)),
}


@pytest.mark.parametrize("name", MATCHING)
def test_a_fault_fires_for_requests_that_match_all_of_its_fields(name: str) -> None:
    given, request = MATCHING[name]
    fault = read_fault("fault-1", {**given, "do": {"close": True}}, 0)
    assert fault.fires(request, 0)
    assert (fault.matched, fault.fired) == (1, 1)


@pytest.mark.parametrize("name", OTHERS)
def test_a_fault_does_not_fire_for_other_requests(name: str) -> None:
    given, request = OTHERS[name]
    fault = read_fault("fault-1", {**given, "do": {"close": True}}, 0)
    assert not fault.fires(request, 0)
    assert (fault.matched, fault.fired) == (0, 0)


def test_a_fault_matches_requests_of_the_fixture_only_by_their_client_id() -> None:
    request = Subject(0, 3, FIXTURE_CLIENT_ID, "PLAINTEXT", PRODUCE)
    assert not read_fault("fault-1", rule("Produce", close=True), 0).fires(request, 0)
    assert read_fault("fault-1", rule("Produce", client_id="stunt*", close=True), 0).fires(request, 0)


def fired(count: int, now_ms: int = 0, **when: Any) -> list[int]:
    """Return which of `count` requests the rule fires for, counted from 1."""
    fault = read_fault("fault-1", rule("Produce", close=True, **when), 0)
    return [number for number in range(1, count + 1) if fault.fires(subject(0, PRODUCE), now_ms)]


def test_a_rule_fires_from_the_nth_request_on_and_so_many_times() -> None:
    assert fired(5) == [1, 2, 3, 4, 5]
    assert fired(5, nth=3) == [3, 4, 5]
    assert fired(5, times=2) == [1, 2]
    assert fired(5, nth=2, times=1) == [2]


def test_a_rule_with_a_probability_fires_by_its_seed() -> None:
    assert fired(5, probability=0) == []
    assert fired(5, probability=1.0) == [1, 2, 3, 4, 5]
    some = fired(1_000, probability=0.3, seed=7)
    assert 200 < len(some) < 400
    assert some == fired(1_000, probability=0.3, seed=7)
    assert some != fired(1_000, probability=0.3, seed=8)
    assert len(fired(1_000, probability=0.3, times=4)) == 4


def test_a_fault_fires_from_its_after_ms_on() -> None:
    assert fired(2, now_ms=999, after_ms=1_000) == []
    assert fired(2, now_ms=1_000, after_ms=1_000) == [1, 2]


IMPOSSIBLE: dict[str, tuple[Any, str]] = {
    "no object": ([], "a fault is an object"),
    "another part": ({"do": {"close": True}, "if": {}}, "a fault has no if"),
    "no verb": ({}, "do must have one verb"),
    "no API at all": ({"match": {"api": []}, "do": {"close": True}}, "match.api names no API"),
    "an error that is true": ({"do": {"error": True}}, "there is no error True"),
    "an error that is a fraction": ({"do": {"error": 2.0}}, "there is no error 2.0"),
    "two verbs": (rule(close=True, hold=True), "do must have one verb"),
    "another verb": (rule(explode=True), "do has no explode"),
    "no value": (rule(close=False), "do.close must be true"),
    "a part that is none": ({"match": [], "do": {"close": True}}, "match must be an object"),
    "another match": ({"match": {"colour": "red"}, "do": {"close": True}}, "match has no colour"),
    "another api": (rule("Explode", close=True), "there is no API 'Explode'"),
    "an api that is no name": (rule(7, close=True), "there is no API 7"),
    "another error": (rule(error="EXPLODED"), "there is no error 'EXPLODED'"),
    "an error that is no code": (rule(error=12_345), "there is no error 12345"),
    "an error that is a list": (rule(error=[]), "there is no error []"),
    "a topic that is no text": (rule(topic=1, close=True), "match.topic must be a text"),
    "a partition below 0": (rule(partition=-1, close=True), "match.partition must be a whole number from 0"),
    "a version that is a truth": (rule(version=True, close=True), "match.version must be a whole number from 0"),
    "the 0th": (rule(nth=0, close=True), "when.nth must be a whole number from 1"),
    "times below 0": (rule(times=-1, close=True), "when.times must be a whole number from 0"),
    "no error": (rule(error="NONE"), "NONE is not an error"),
    "no error by its number": (rule(error=0), "NONE is not an error"),
    "an epoch of another request": (
        rule("EndTxn", producer_epoch=5),
        "do.producer_epoch applies to InitProducerId only",
    ),
    "a topic of a request without one": (
        rule("EndTxn", topic="orders", close=True),
        "no request that matches has a topic",
    ),
    "a group of a request without one": (rule("Produce", group="g", close=True), "no request that matches has a group"),
    "no error in another spelling": (rule(error="NoNe"), "NONE is not an error"),
    "a probability above 1": (rule(probability=2, close=True), "when.probability must be a number from 0 to 1"),
    "a probability that is a truth": (rule(probability=True, close=True), "when.probability must be a number"),
    "a delay that never ends": (rule(delay_ms=10**12), "do.delay_ms must be a whole number from 0 to 86400000"),
    "a delay in words": (rule(delay_ms="1s"), "do.delay_ms must be a whole number"),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_an_invalid_fault_is_refused_with_the_reason(name: str) -> None:
    given, reason = IMPOSSIBLE[name]
    with pytest.raises(FaultError) as refused:
        read_fault("fault-1", given, 0)
    assert str(refused.value).startswith(reason)


@pytest.mark.parametrize(("key", "version"), CASES, ids=IDS)
def test_what_a_request_names_is_known_before_it_comes(key: int, version: int) -> None:
    fields = plain_request(key, valid_request(key, version, b"i" * 16))
    for name in ("transactional_id", "group", "topic"):
        assert can_carry(key, name) or not texts_in(name, fields), name


def test_a_rule_is_shown_as_it_was_given() -> None:
    given = rule("EndTxn", transactional_id="pay-*", nth=2, error="NOT_COORDINATOR")
    given["match"]["api"] = ["EndTxn"]
    shown = read_fault("fault-9", given, 0).as_json()
    assert {name: shown[name] for name in ("match", "when", "do")} == given
    assert (shown["id"], shown["matched"], shown["fired"]) == ("fault-9", 0, 0)


def test_the_fields_of_a_compiled_request_are_those_of_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiled class has no annotations. The image is compiled."""
    expected = sample_request(PRODUCE_KEY)
    for structure in (ProduceRequest, TopicProduceData, PartitionProduceData):
        monkeypatch.setattr(structure.__init__, "__annotations__", {})
    source = produce_request.__file__
    monkeypatch.setattr(produce_request, "__file__", source.removesuffix(".py") + ".cpython-311-x86_64-linux-gnu.so")
    plain_messages._source_of.cache_clear()

    assert sample_request(PRODUCE_KEY) == expected
    assert [can_carry(PRODUCE_KEY, name) for name in ("transactional_id", "topic", "partition", "group")] == [
        True,
        True,
        True,
        False,
    ]
    plain_messages._source_of.cache_clear()
