"""A request for thousands of topics is handled in slices, so that other clients do not wait for all of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from stuntbroker.broker.configuration.properties import PARTITIONS_MAX
from stuntbroker.broker.requests.slices import ELEMENTS_AT_ONCE, PARTITION_CHANGE_COST, SLICE_COST
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from stuntbroker.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from stuntbroker.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from stuntbroker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from stuntbroker.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from stuntbroker.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from stuntbroker.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from stuntbroker.protocol.messages.describe_groups_request import DescribeGroupsRequest
from stuntbroker.protocol.messages.describe_producers_request import DescribeProducersRequest
from stuntbroker.protocol.messages.describe_producers_request import TopicRequest as ProducersTopic
from stuntbroker.protocol.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest, TopicRequest
from stuntbroker.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from stuntbroker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from stuntbroker.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from stuntbroker.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from stuntbroker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from stuntbroker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from stuntbroker.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from stuntbroker.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderTopic,
)
from stuntbroker.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from stuntbroker.protocol.primitives import Message
from stuntbroker.storage.errors import StorageError
from tests.kit.bystander import Bystander
from tests.kit.groups.group_requests import init, pair
from tests.kit.rig import KEYS, Client, Rig, decode, frame, running_rig, turn

COUNT = 400
PER_SLICE_MAX = SLICE_COST // PARTITION_CHANGE_COST + 1
NAMES = [f"topic-{number}" for number in range(COUNT)]
TOPIC = 2


class Long(NamedTuple):
    """A request that changes the topics NAMES, and a function that counts the topics changed so far."""

    version: int
    request: Message
    made_before: bool
    changed: Callable[[Rig], int]
    results: str
    """Name of the response's list of results."""


def there(rig: Rig) -> int:
    return sum(rig.broker.topics.get(name) is not None for name in NAMES)


def grown(rig: Rig) -> int:
    return sum(len(rig.logs(name)) == 2 for name in NAMES)


LONG = {
    "Metadata": Long(
        12, MetadataRequest([MetadataRequestTopic(name=name) for name in NAMES], allow_auto_topic_creation=True), False,
        there, "topics",
    ),
    "CreateTopics": Long(
        7, CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in NAMES], 60_000), False, there, "topics"
    ),
    "DeleteTopics": Long(
        6, DeleteTopicsRequest([DeleteTopicState(name) for name in NAMES], (), 60_000), True,
        lambda rig: COUNT - there(rig), "responses",
    ),
    "CreatePartitions": Long(
        3, CreatePartitionsRequest([CreatePartitionsTopic(name, 2, None) for name in NAMES], 60_000), True, grown, "results",
    ),
}  # fmt: skip
every = pytest.mark.parametrize("what", LONG)


def begin(rig: Rig, what: str, is_prepared: bool = False) -> Client:
    """Send the request, after creating the topics that it needs, unless `is_prepared`."""
    if LONG[what].made_before and not is_prepared:
        for name in NAMES:
            rig.topic(name)
    client = rig.client()
    client.feed(frame(LONG[what].request, LONG[what].version))
    return client


async def finish(client: Client, version: int, key: int) -> Any:
    """Return the response, after as many turns of the event loop as it needs."""
    for _ in range(COUNT):
        if answers := client.answers():
            assert len(answers) == 1
            return decode(answers[0], key, version)
        await turn(1)
    raise AssertionError("it is never answered")


@every
async def test_other_clients_are_served_between_slices_and_the_response_is_complete(what: str, data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        bystander = Bystander(rig)
        client = begin(rig, what)
        before, turns = 0, 0
        while client.connection.is_busy:
            done = LONG[what].changed(rig)
            assert done - before <= PER_SLICE_MAX
            assert not client.answers()
            bystander.work()
            await turn(1)
            before, turns = done, turns + 1
        assert turns >= COUNT // PER_SLICE_MAX

        response = await finish(client, LONG[what].version, KEYS[what])

        results = getattr(response, LONG[what].results)
        assert [(each.name, each.error_code) for each in results] == [(name, 0) for name in NAMES]
        assert LONG[what].changed(rig) == COUNT


async def test_requests_that_only_describe_are_worked_off_in_slices_too(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        for name in NAMES:
            rig.topic(name, 3)
        client = rig.client()
        wanted = [DescribeConfigsResource(TOPIC, name, None) for name in NAMES]
        for version, request, results in (
            (12, MetadataRequest(None), "topics"),
            (12, MetadataRequest([MetadataRequestTopic(name=name) for name in NAMES]), "topics"),
            (4, DescribeConfigsRequest(wanted), "results"),
        ):
            client.feed(frame(request, version))
            assert client.connection.is_busy and not client.answers()
            key = KEYS[type(request).__name__.removesuffix("Request")]
            response = await finish(client, version, key)
            assert [each.error_code for each in getattr(response, results)] == [0] * COUNT


MANY = 2 * SLICE_COST
ELEMENTS = {
    "FindCoordinator": (
        4, lambda: FindCoordinatorRequest(key_type=1, coordinator_keys=[f"id-{n}" for n in range(MANY)]), "coordinators",
    ),
    "LeaveGroup": (4, lambda: LeaveGroupRequest("g", "", [MemberIdentity(f"m-{n}", None) for n in range(MANY)]), "members"),
    "OffsetForLeaderEpoch": (
        4, lambda: OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic(f"t-{n}", []) for n in range(MANY)]), "topics",
    ),
    "OffsetDelete": (
        0,
        lambda: OffsetDeleteRequest(
            "g", [OffsetDeleteRequestTopic("t", [OffsetDeleteRequestPartition(n) for n in range(MANY)])]
        ),
        None,
    ),
    "CreateAcls": (2, lambda: CreateAclsRequest([AclCreation(2, "t", 3, "User:a", "*", 3, 3)] * MANY), "results"),
    "DeleteAcls": (2, lambda: DeleteAclsRequest([DeleteAclsFilter(2, "t", 3, "User:a", "*", 3, 3)] * MANY), "filter_results"),
    "UpdateFeatures": (1, lambda: UpdateFeaturesRequest(1_000, [FeatureUpdateKey("transaction.version", 2)] * MANY), "results"),
    "DescribeTopicPartitions": (
        0, lambda: DescribeTopicPartitionsRequest([TopicRequest(f"t-{n}") for n in range(MANY)], 2_000), "topics",
    ),
}  # fmt: skip
"""Version, request and name of the response's list for APIs whose requests may name thousands of things."""


@pytest.mark.parametrize("what", ELEMENTS)
async def test_a_request_with_thousands_of_elements_runs_in_slices(what: str) -> None:
    version, request, results = ELEMENTS[what]
    async with running_rig() as rig:
        client = rig.client()
        client.feed(frame(request(), version))
        assert client.connection.is_busy and not client.answers()
        response = await finish(client, version, KEYS[what])
        if results is not None and not (what == "LeaveGroup" and response.error_code):
            assert len(getattr(response, results)) == MANY


async def test_a_large_group_or_transaction_is_described_once_per_request(data_dir: Path) -> None:
    """If a repeated name were described in full each time, a request of 30 kB could cause a response of gigabytes."""
    async with running_rig(data_dir) as rig:
        client = rig.client()
        rig.topic("many", 101)
        protocols = [JoinGroupRequestProtocol("range", b"")]
        members = [rig.client() for _ in range(11)]
        for member in members:
            member.feed(frame(JoinGroupRequest("a", 30_000, 30_000, "", None, "consumer", protocols), 3))
        groups = client.ask(DescribeGroupsRequest(["a", "b", "a", "b"]), 5).groups
        assert [group.group_id for group in groups] == ["a", "b", "b"]
        for name, count in (("x", 101), ("y", 100)):
            owner = pair(init(client, name))
            topics = [AddPartitionsToTxnTopic("many", list(range(count)))]
            assert client.ask(AddPartitionsToTxnRequest((), name, *owner, topics), 3).results_by_topic_v3_and_below
        ids = client.ask(DescribeTransactionsRequest(["x", "y", "x", "y"]), 0).transaction_states
        assert [state.transactional_id for state in ids] == ["x", "y", "y"]


async def test_partitions_that_do_not_exist_take_their_part_of_a_slice_too(data_dir: Path) -> None:
    count = 2 * SLICE_COST
    async with running_rig(data_dir) as rig:
        client = rig.client()
        partitions = [ListOffsetsPartition(index, 0, -1) for index in range(count)]
        for version, request in (
            (6, ListOffsetsRequest(-1, 0, [ListOffsetsTopic("missing", partitions)])),
            (0, DescribeProducersRequest([ProducersTopic("missing", list(range(count)))])),
        ):
            client.feed(frame(request, version))
            assert client.connection.is_busy and not client.answers()
            response = await finish(client, version, KEYS[type(request).__name__.removesuffix("Request")])
            errors = [each.error_code for each in response.topics[0].partitions]
            assert errors == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * count


@every
async def test_a_request_pipelined_behind_a_long_request_is_answered_after_it(what: str, data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = begin(rig, what)
        client.feed(frame(MetadataRequest([MetadataRequestTopic(name=NAMES[-1])], False), 9, correlation=8))
        await turn(COUNT)
        answers = client.answers()
        assert [int.from_bytes(answer[:4], "big") for answer in answers] == [7, 8]
        (last,) = decode(answers[1], KEYS["Metadata"], 9).topics
        assert bool(last.error_code) == (what == "DeleteTopics")


@every
async def test_long_requests_of_many_clients_take_turns(what: str, data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client, other = begin(rig, what), begin(rig, what, is_prepared=True)
        before = LONG[what].changed(rig)
        assert before <= 2 * PER_SLICE_MAX  # One slice each.
        while client.connection.is_busy or other.connection.is_busy:
            await turn(1)
            done = LONG[what].changed(rig)
            assert done - before <= PER_SLICE_MAX
            before = done
        assert before == COUNT
        first = await finish(client, LONG[what].version, KEYS[what])
        second = await finish(other, LONG[what].version, KEYS[what])
        codes = {each.error_code for response in (first, second) for each in getattr(response, LONG[what].results)}
        refusal = {
            "Metadata": ErrorCode.NONE,
            "CreateTopics": ErrorCode.TOPIC_ALREADY_EXISTS,
            "DeleteTopics": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "CreatePartitions": ErrorCode.INVALID_PARTITIONS,
        }
        assert codes == {ErrorCode.NONE, refusal[what]}


@every
async def test_a_long_request_completes_after_its_client_disconnects(what: str, data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = begin(rig, what)
        client.disconnect()
        await turn(COUNT)
        assert LONG[what].changed(rig) == COUNT
        assert client.transport.sent == b""


@every
@pytest.mark.parametrize("crash", [False, True], ids=["SIGTERM", "kill -9"])
async def test_a_restart_keeps_the_completed_part_of_an_interrupted_long_request(
    what: str, crash: bool, data_dir: Path
) -> None:
    """Each topic is either unchanged or completely changed, and the changed topics are the first ones of the request."""
    async with running_rig(data_dir) as rig:
        client = begin(rig, what)
        await turn(2)
        done = LONG[what].changed(rig)
        assert 0 < done < COUNT
        if crash:
            shutil.copytree(data_dir, data_dir.with_name("crashed"))
        ids = {topic.name: topic.id for topic in rig.broker.topics}
    assert not client.transport.sent

    async with running_rig(data_dir.with_name("crashed") if crash else data_dir) as restarted:
        assert LONG[what].changed(restarted) == done
        assert {topic.name: topic.id for topic in restarted.broker.topics} == ids
        client = restarted.client()
        client.feed(frame(LONG[what].request, LONG[what].version))
        await turn(COUNT)
        assert LONG[what].changed(restarted) == COUNT


async def test_a_journal_failure_fails_the_remaining_elements_of_a_long_request(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_rig(data_dir) as rig:
        bystander = Bystander(rig)
        client = begin(rig, "DeleteTopics")
        deleted = COUNT - there(rig)

        def full(change: dict[str, Any]) -> None:
            raise StorageError("no space left")

        with monkeypatch.context() as patched:
            patched.setattr(rig.broker.data_dir, "journal", full)
            results = (await finish(client, 6, KEYS["DeleteTopics"])).responses
        codes = [result.error_code for result in results]
        assert codes == [0] * deleted + [ErrorCode.KAFKA_STORAGE_ERROR] * (COUNT - deleted)
        assert there(rig) == COUNT - deleted
        bystander.work()
        client.feed(frame(LONG["DeleteTopics"].request, 6))
        await turn(COUNT)
        assert there(rig) == 0


@pytest.mark.parametrize(("partitions", "count"), [(1, PARTITIONS_MAX + 1), (100, PARTITIONS_MAX // 100 + 1)])
async def test_auto_creation_of_more_topics_than_one_request_may_create_creates_none(
    partitions: int, count: int, data_dir: Path
) -> None:
    """As in Kafka: the first response reports every new topic as unknown, and the controller refuses the creation as a whole."""
    async with running_rig(data_dir, {"num.partitions": str(partitions)}) as rig:
        rig.topic("known")
        client = rig.client()
        names = ["a b", "known", *(f"new-{number}" for number in range(count))]
        request = MetadataRequest([MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=True)
        client.feed(frame(request, 12))
        topics = (await finish(client, 12, KEYS["Metadata"])).topics
        codes = [ErrorCode.INVALID_TOPIC_EXCEPTION, 0, *[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * count]
        assert [topic.error_code for topic in topics] == codes
        assert [topic.name for topic in rig.broker.topics] == ["known"]

        request = MetadataRequest(request.topics[:-1], allow_auto_topic_creation=True)
        client.feed(frame(request, 12))
        topics = (await finish(client, 12, KEYS["Metadata"])).topics
        assert [topic.error_code for topic in topics] == codes[:1] + [0] * count


async def test_default_partition_counts_count_towards_the_limit_of_create_topics(data_dir: Path) -> None:
    async with running_rig(data_dir, {"num.partitions": "100"}) as rig:
        count = PARTITIONS_MAX // 100 + 1
        request = CreateTopicsRequest([CreatableTopic(f"new-{number}", -1, -1) for number in range(count)], 60_000)
        topics = rig.client().ask(request, 7).topics
        assert {topic.error_code for topic in topics} == {ErrorCode.POLICY_VIOLATION}
        assert list(rig.broker.topics) == []


async def test_with_power_durability_each_slice_creates_one_topic(data_dir: Path) -> None:
    async with running_rig(data_dir, durability="power") as rig:
        client = begin(rig, "CreateTopics")
        for done in range(1, 6):
            assert there(rig) == done
            await turn(1)
        client.disconnect()


@pytest.mark.parametrize("version", range(2, 8))
async def test_a_long_response_is_encoded_in_slices_and_equals_the_unsliced_encoding(
    version: int, data_dir: Path
) -> None:
    """Versions differ in how they encode the length of an array; each must have every element."""
    async with running_rig(data_dir) as rig:
        client = rig.client()
        names = [f"t{number}" for number in range(3 * ELEMENTS_AT_ONCE + 7)]
        client.feed(frame(CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in names], 60_000, True), version))
        turns = 0
        while client.connection.is_busy:
            await turn(1)
            turns += 1
        [answer] = client.answers()
        response = decode(answer, KEYS["CreateTopics"], version)
        assert [topic.name for topic in response.topics] == names
        restarted = bytearray()
        response.encode(restarted, version)
        assert answer.endswith(bytes(restarted))
        assert turns > 3


@pytest.mark.parametrize("version", range(0, 14))
async def test_a_list_in_the_middle_of_a_response_is_encoded_in_slices_too(version: int, data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        names = [f"t{number}" for number in range(3 * ELEMENTS_AT_ONCE + 7)]
        for name in names:
            rig.topic(name)
        client = rig.client()
        client.feed(frame(MetadataRequest([MetadataRequestTopic(name=name) for name in names]), version))
        response = await finish(client, version, KEYS["Metadata"])
        assert [topic.name for topic in response.topics] == names
        assert [broker.node_id for broker in response.brokers] == [1]


async def test_a_topic_that_is_deleted_between_two_slices_is_described_as_when_the_request_came() -> None:
    async with running_rig() as rig:
        names = [f"t{number:04}" for number in range(SLICE_COST + 10)]
        for name in names:
            rig.topic(name)
        client, other = rig.client(), rig.client()
        client.feed(frame(DescribeTopicPartitionsRequest([], 2_000), 0))
        assert client.connection.is_busy
        other.feed(frame(DeleteTopicsRequest(topic_names=[names[-1]], timeout_ms=1_000), 1))
        while client.connection.is_busy or other.connection.is_busy:
            await turn(1)

        response = decode(client.answers()[0], KEYS["DescribeTopicPartitions"], 0)
        assert [(topic.name, topic.error_code) for topic in response.topics] == [(name, 0) for name in names]
        assert rig.broker.topics.get(names[-1]) is None
