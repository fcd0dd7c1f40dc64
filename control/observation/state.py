"""Current state of a broker as JSON values: transactions, topics, partitions and groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from stuntbroker.broker.metadata.topics import coordinator_of
from stuntbroker.coordinator.state import OPEN_PHASES, Txn
from stuntbroker.protocol.primitives import ZERO_UUID
from stuntbroker.protocol.topic_names import OFFSETS, TXN_STATE
from stuntbroker.protocol.transaction_states import TIMEOUT_NONE

if TYPE_CHECKING:
    from stuntbroker.broker.cluster.nodes import Placement
    from stuntbroker.broker.metadata.topics import Topic
    from stuntbroker.broker.services import (
        HasClock,
        HasGroups,
        HasTopics,
        HasTransactions,
        KnowsGroups,
    )
    from stuntbroker.groups.classic.state import Group
    from stuntbroker.storage.partition import PartitionLog

    class StatePorts(HasClock, HasGroups, HasTopics, HasTransactions, KnowsGroups, Protocol):
        """Parts of the broker that this module uses."""


def transactions(broker: StatePorts) -> list[dict[str, Any]]:
    """Return the state of every transactional id, sorted."""
    states = (broker.transactions.state_of(transactional_id) for transactional_id in sorted(broker.transactions.ids()))
    return [_transaction(broker, txn) for txn in states if txn is not None]


def transaction(broker: StatePorts, transactional_id: str) -> dict[str, Any] | None:
    """Return the state of a transactional id; None if it is unknown."""
    txn = broker.transactions.state_of(transactional_id)
    return None if txn is None else _transaction(broker, txn)


def _transaction(broker: StatePorts, txn: Txn) -> dict[str, Any]:
    is_open = txn.phase in OPEN_PHASES
    shown: dict[str, Any] = {
        "transactional_id": txn.transactional_id,
        "phase": txn.phase.kafka_name,
        "is_open": is_open,
        "producer_id": txn.producer_id,
        "producer_epoch": txn.producer_epoch,
        "timeout_ms": None if txn.timeout_ms == TIMEOUT_NONE else txn.timeout_ms,
        "partitions": [{"topic": topic, "partition": index} for topic, index in sorted(txn.partitions)],
        "coordinator": _coordinator(broker, TXN_STATE, txn.transactional_id),
    }
    if is_open:
        shown |= {"started_at_ms": txn.started_at_ms, "age_ms": broker.clock.now_ms() - txn.started_at_ms}
    return shown


def _coordinator(broker: StatePorts, topic: str, key: str) -> int:
    """Return the coordinator of a group or a transactional id; -1 for none."""
    return coordinator_of(broker.topics.internal_topic(topic), key).leader


def topics(broker: StatePorts) -> list[dict[str, Any]]:
    """Return every topic with its partitions, and their open transactions, which hold back the last stable offset."""
    owners = _owners(broker)
    return [_topic(topic, owners) for topic in sorted(broker.topics, key=lambda topic: topic.name)]


def _owners(broker: StatePorts) -> dict[int, str]:
    """Return producer id -> transactional id of the coordinators' open transactions."""
    return {actor.txn.producer_id: actor.txn.transactional_id for actor in broker.transactions.open}


def _topic(topic: Topic, owners: dict[int, str]) -> dict[str, Any]:
    return {
        "name": topic.name,
        "internal": topic.is_internal,
        "partitions": [
            {**_partition(log, owners), **_placement(place)}
            for log, place in zip(topic.partitions, topic.placements, strict=True)
        ],
    }


def _placement(placement: Placement) -> dict[str, Any]:
    return {"leader": placement.leader, "replicas": placement.replicas, "in_sync": placement.in_sync}


def _partition(log: PartitionLog, owners: dict[int, str]) -> dict[str, Any]:
    return {
        "partition": log.index,
        "leader_epoch": log.leader_epoch,
        "log_start_offset": log.log_start_offset,
        "last_stable_offset": log.last_stable_offset,
        "end_offset": log.next_offset,
        "open_transactions": [
            {"producer_id": producer_id, "first_offset": offset, "transactional_id": owners.get(producer_id)}
            for producer_id, offset in log.producers.open_txns.items()
        ],
    }


def partition(broker: StatePorts, topic: str, index: int) -> dict[str, Any] | None:
    """Return the state of a partition; None if it does not exist."""
    log = broker.topics.log(topic, index)
    return None if log is None else _partition(log, _owners(broker))


def group(broker: StatePorts, group_id: str) -> dict[str, Any] | None:
    """Return the state of a consumer group; None if it is unknown."""
    return next((_group(broker, each) for each in broker.known_groups() if each.group_id == group_id), None)


def committed_offset(broker: StatePorts, group_id: str, place: tuple[str, int]) -> int | None:
    """Return the committed offset of a group, None without one. Pending offsets of a transaction do not count."""
    if OFFSETS not in broker.topics.by_name:
        return None
    topic, index = place
    (fetched,) = broker.groups.fetch(group_id, [(topic, ZERO_UUID, [index])], require_stable=False)
    offset: int = fetched.partitions[0].offset
    return None if offset < 0 else offset


def groups(broker: StatePorts) -> list[dict[str, Any]]:
    """Return every consumer group with its members."""
    return [_group(broker, group) for group in sorted(broker.known_groups(), key=lambda group: group.group_id)]


def _group(broker: StatePorts, group: Group) -> dict[str, Any]:
    return {
        "group_id": group.group_id,
        "coordinator": _coordinator(broker, OFFSETS, group.group_id),
        "state": group.state.value,
        "generation": group.generation,
        "members": [
            {
                "member_id": member.member_id,
                "instance_id": member.instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
            }
            for member in group.members.values()
        ],
        "offsets": [
            {"topic": topic.name, "partition": part.partition, "offset": part.offset}
            for topic in broker.groups.fetch_all(group.group_id, require_stable=False)
            for part in topic.partitions
        ],
        "staged_offsets": [
            {"topic": topic, "partition": index, "offset": stored.offset, "producer_id": producer_id}
            for (topic, index), producer_id, stored in broker.groups.pending_of(group.group_id)
        ],
    }
