"""Short helpers for the requests of members and producers of a consumer group."""

from __future__ import annotations

from typing import Any

from stuntbroker.protocol.batches.records import TRANSACTIONAL, build_batch
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.init_producer_id_request import AssignedTopic, InitProducerIdRequest
from stuntbroker.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from stuntbroker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from stuntbroker.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from stuntbroker.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from stuntbroker.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.kit.rig import START_MS, Client, Rig
from tests.kit.valid_requests import TOPIC

GROUP = "g"
TIMEOUT_MS = 60_000
Pair = tuple[int, int]
NO_PRODUCER: Pair = (-1, -1)


def init(
    client: Client,
    transactional_id: str | None,
    *,
    owner: Pair = NO_PRODUCER,
    version: int = 5,
    two_phase: bool = False,
    keep: bool = False,
    **claim: Any,
) -> Any:
    """Send InitProducerId. `claim`: the group, the generation, and the partitions as `assigned=[(topic, index), ...]`."""
    assigned: dict[str, list[int]] = {}
    for topic, index in claim.get("assigned", ()):
        assigned.setdefault(topic, []).append(index)
    topics = [AssignedTopic(*each) for each in assigned.items()]
    request = InitProducerIdRequest(
        transactional_id,
        TIMEOUT_MS,
        *owner,
        two_phase,
        keep,
        claim.get("group", ""),
        claim.get("generation", -1),
        topics,
    )
    return client.ask(request, version)


def pair(answer: Any) -> Pair:
    assert not answer.error_code, answer
    return answer.producer_id, answer.producer_epoch


def write(
    client: Client,
    transactional_id: str,
    owner: Pair,
    value: str,
    sequence: int = 0,
    topic: str = TOPIC,
    version: int = 12,
) -> int:
    """Write a record to partition 0 in the producer's transaction; return the error code of Produce."""
    data = bytes(
        build_batch(
            [(b"k", value.encode())],
            START_MS,
            producer_id=owner[0],
            producer_epoch=owner[1],
            base_sequence=sequence,
            attributes=TRANSACTIONAL,
        )
    )
    topics = [TopicProduceData(topic, partition_data=[PartitionProduceData(0, data)])]
    answer = client.ask(ProduceRequest(transactional_id, -1, 1_000, topics), version)
    code: int = answer.responses[0].partition_responses[0].error_code
    return code


def commit_in_txn(
    client: Client,
    transactional_id: str,
    owner: Pair,
    offset: int,
    *,
    topic: str = TOPIC,
    index: int = 0,
    group: str = GROUP,
    generation: int = -1,
    member_id: str = "",
    instance_id: str | None = None,
    version: int = 5,
) -> int:
    """Commit the offset of one partition in a transaction; return the error code of TxnOffsetCommit."""
    topics = [TxnOffsetCommitRequestTopic(topic, partitions=[TxnOffsetCommitRequestPartition(index, offset)])]
    request = TxnOffsetCommitRequest(transactional_id, group, *owner, generation, member_id, instance_id, topics)
    code: int = client.ask(request, version).topics[0].partitions[0].error_code
    return code


def add_offsets(client: Client, transactional_id: str, owner: Pair, version: int = 4, group: str = GROUP) -> int:
    code: int = client.ask(AddOffsetsToTxnRequest(transactional_id, *owner, group), version).error_code
    return code


def end(client: Client, transactional_id: str, owner: Pair, commit: bool = True, version: int = 5) -> Any:
    return client.ask(EndTxnRequest(transactional_id, *owner, commit), version)


def commit(client: Client, offset: int, *, topic: str = TOPIC, index: int = 0, group: str = GROUP) -> int:
    """Commit the offset of one partition without a member or transaction; return the error code of OffsetCommit."""
    topics = [OffsetCommitRequestTopic(topic, partitions=[OffsetCommitRequestPartition(index, offset)])]
    answer = client.ask(OffsetCommitRequest(group, topics=topics), 8)
    code: int = answer.topics[0].partitions[0].error_code
    return code


def fetch_offset(
    client: Client, version: int = 9, *, topic: str = TOPIC, index: int = 0, group: str = GROUP, stable: bool = False
) -> tuple[int, int]:
    """Fetch the committed offset of one partition; return (error code, offset)."""
    if version < 8:
        request = OffsetFetchRequest(group, [OffsetFetchRequestTopic(topic, [index])], require_stable=stable)
        (answer,) = client.ask(request, version).topics
    else:
        wanted = [OffsetFetchRequestTopics(topic, partition_indexes=[index])]
        groups = [OffsetFetchRequestGroup(group, topics=wanted)]
        (answer,) = client.ask(OffsetFetchRequest(groups=groups, require_stable=stable), version).groups[0].topics
    return answer.partitions[0].error_code, answer.partitions[0].committed_offset


def join(client: Client, member_id: str = "", instance_id: str | None = None) -> tuple[str, int]:
    """Join (or, with `member_id`, rejoin) as the only member, and sync; return (member id, generation)."""

    def ask(member_id: str) -> Any:
        protocols = [JoinGroupRequestProtocol("range", b"")]
        return client.ask(JoinGroupRequest(GROUP, 30_000, 30_000, member_id, instance_id, "consumer", protocols), 9)

    joined = ask(member_id)
    if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        joined = ask(joined.member_id)
    given = [SyncGroupRequestAssignment(joined.member_id, b"mine")]
    request = SyncGroupRequest(GROUP, joined.generation_id, joined.member_id, instance_id, "consumer", "range", given)
    assert not client.ask(request, 5).error_code
    return joined.member_id, joined.generation_id


def epoch_of(rig: Rig, transactional_id: str) -> int:
    epoch: int = rig.actor(transactional_id).txn.producer_epoch
    return epoch
