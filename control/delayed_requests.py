"""Delayed requests: a producer's request arrives again, unchanged or with other fields.

With transaction version 1 the producer epoch stays the same across transactions, so that a delayed EndTxn ends the wrong
transaction (KIP-890). With version 2 a delayed request is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from stuntbroker.broker.cluster.nodes import NO_LEADER
from stuntbroker.broker.metadata.topics import coordinator_of
from stuntbroker.broker.requests.plain_messages import error_codes, error_name, plain_message
from stuntbroker.control.observation.request_log import ELEMENTS_KEPT
from stuntbroker.control.own_requests import ANSWER_S_MAX, ask, version_range
from stuntbroker.control.rules.faults import API_NAMES, FaultError, check_number, check_text, part_of, texts_in
from stuntbroker.protocol.api_keys import ADD_PARTITIONS_TO_TXN, APIS, END_TXN, PRODUCE, WRITE_TXN_MARKERS
from stuntbroker.protocol.batches.records import TRANSACTIONAL, build_batch
from stuntbroker.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from stuntbroker.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from stuntbroker.protocol.primitives import INT32_MAX, INT64_MAX, Message
from stuntbroker.protocol.topic_names import TXN_STATE
from stuntbroker.protocol.versions import PRODUCE_IDS_FROM, SEVERAL_FROM

if TYPE_CHECKING:
    from stuntbroker.broker.services import (
        HasAuthorizer,
        HasClock,
        HasConfig,
        HasListeners,
        HasNodes,
        HasTopics,
        HasTransactions,
    )
    from stuntbroker.control.observation.request_log import LoggedRequest, RequestLog

    class Uses(HasAuthorizer, HasClock, HasConfig, HasListeners, HasNodes, HasTopics, HasTransactions, Protocol):
        """Parts of the broker that this module uses."""


CLIENT_ID: Final = "stuntbroker-late"
KEYS: Final = (END_TXN, PRODUCE, ADD_PARTITIONS_TO_TXN, WRITE_TXN_MARKERS)
"""APIs whose requests can be delivered late."""
SINGLE_ADD_MAX: Final = SEVERAL_FROM[ADD_PARTITIONS_TO_TXN] - 1
"""Last version of AddPartitionsToTxn that clients send: for one transaction."""
FIELDS: Final = {
    "api", "transactional_id", "version", "producer_id", "producer_epoch",
    "coordinator_epoch", "committed", "topic", "partition", "values", "sequence",
}  # fmt: skip


@dataclass
class DelayedRequest:
    """A delayed request."""

    key: int
    version: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    """Coordinator epoch of a marker."""
    committed: bool
    places: list[tuple[str, int]]
    values: list[str]
    sequence: int


def read_delayed_request(broker: Uses, log: RequestLog, rule: Any) -> DelayedRequest:
    """Return the request that a rule describes; defaults are from the last such request of the id. Raises FaultError."""
    given = part_of({"late": rule}, "late", FIELDS)
    name, id_ = given.get("api"), given.get("transactional_id")
    key = API_NAMES.get(name.lower()) if isinstance(name, str) else None
    if key not in KEYS:
        raise FaultError(
            f"{name!r} cannot be delivered late", f"api is one of {', '.join(APIS[each].name for each in KEYS)}"
        )
    if not isinstance(id_, str) or not id_:
        raise FaultError("transactional_id must be the id of the producer", "GET /v1/transactions lists them")
    txn = broker.transactions.state_of(id_)
    if txn is None:
        raise FaultError(f"there is no transactional id {id_!r}", "GET /v1/transactions lists them")
    _check(given)
    last = _last(log, key, id_)
    low, high = version_range(broker, key)
    version = given.get(
        "version",
        last.version
        if last and last.api == APIS[key].name
        else min(high, SINGLE_ADD_MAX)
        if key == ADD_PARTITIONS_TO_TXN
        else high,
    )
    if high < low:
        hint = "set a later release in stuntbroker.personality"
        raise FaultError(f"no listener of this broker serves {APIS[key].name}", hint)
    if not low <= version <= high:
        raise FaultError(f"{APIS[key].name} has no version {version} here", f"from {low} to {high}")
    sent = SentFields(txn.producer_id, txn.producer_epoch, True, sorted(txn.partitions))
    if last is not None:
        sent = _sent_fields(broker, last, id_, sent)
    places = sent.places
    if "topic" in given:
        places = [(given["topic"], given.get("partition", 0))]
    elif "partition" in given:
        raise FaultError("late.partition needs a topic", "give both, or none")
    elif key == ADD_PARTITIONS_TO_TXN and last is not None and _may_be_truncated(last):
        hint = "give topic and partition"
        raise FaultError(
            f"the last request has {ELEMENTS_KEPT} or more topics or partitions, of which not all are logged", hint
        )
    if key != END_TXN and not places:
        raise FaultError(
            "the request names no partition, and the id has sent no such request before", "give topic and partition"
        )
    producer_id = given.get("producer_id", sent.producer_id)
    producer_epoch = given.get("producer_epoch", sent.producer_epoch)
    return DelayedRequest(
        key,
        version,
        id_,
        producer_id,
        producer_epoch,
        given.get("coordinator_epoch", 0),
        given.get("committed", sent.committed),
        places,
        given.get("values", ["late"]),
        given["sequence"] if "sequence" in given else _next_sequence(broker, places, producer_id, producer_epoch),
    )


def _next_sequence(broker: Uses, places: list[tuple[str, int]], producer_id: int, producer_epoch: int) -> int:
    """Return the producer's next sequence in the first partition; 0 if the producer is unknown with this epoch."""
    log = broker.topics.log(*places[0]) if places else None
    producer = None if log is None else log.producers.producers.get(producer_id)
    return producer.next_sequence if producer is not None and producer.epoch == producer_epoch else 0


def _check(given: dict[str, Any]) -> None:
    check_number(given, "late", "version", 0, 1_000)
    check_number(given, "late", "producer_id", 0, INT64_MAX)
    check_number(given, "late", "producer_epoch", 0, (1 << 15) - 1)
    check_number(given, "late", "coordinator_epoch", 0, INT32_MAX)
    check_number(given, "late", "partition", 0, INT32_MAX)
    check_number(given, "late", "sequence", 0, INT32_MAX)
    if not isinstance(given.get("committed", True), bool):
        raise FaultError("late.committed must be true or false", "true, or leave it out, for a commit")
    check_text(given, "late", "topic")
    values = given.get("values", [])
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise FaultError("late.values must be a list of texts", 'as ["one", "two"]')


def _last(log: RequestLog, key: int, id_: str) -> LoggedRequest | None:
    """Return the last logged request of an API for a transactional id; for a marker, the last EndTxn."""
    wanted = APIS[END_TXN if key == WRITE_TXN_MARKERS else key].name
    for logged in reversed(log.requests):
        if (
            logged.api == wanted
            and logged.client_id != CLIENT_ID
            and id_ in texts_in("transactional_id", logged.fields)
        ):
            return logged
    return None


def _may_be_truncated(last: LoggedRequest) -> bool:
    lists = [last.fields["transactions"], last.fields["v3_and_below_topics"]]
    lists += [transaction["topics"] for transaction in lists[0]]
    lists += [topic["partitions"] for topics in lists[1:] for topic in topics]
    return any(len(each) >= ELEMENTS_KEPT for each in lists)


class SentFields(NamedTuple):
    """Fields of a logged request."""

    producer_id: int
    producer_epoch: int
    committed: bool
    places: list[tuple[str, int]]


def _sent_fields(broker: Uses, last: LoggedRequest, id_: str, otherwise: SentFields) -> SentFields:
    """Return the fields of a logged request, with defaults from `otherwise`."""
    fields = last.fields
    if "topic_data" in fields:
        named = [(topic, data) for topic in fields["topic_data"] for data in topic["partition_data"]]
        if not named or "producer_id" not in named[-1][1]:
            return otherwise
        topic, data = named[-1]
        known = None if topic["name"] else broker.topics.by_id(bytes.fromhex(topic["topic_id"]))
        name = topic["name"] if known is None else known.name
        return SentFields(data["producer_id"], data["producer_epoch"], True, [(name, data["index"])])
    if "committed" in fields:
        return SentFields(fields["producer_id"], fields["producer_epoch"], fields["committed"], otherwise.places)
    source, prefix = fields, "v3_and_below_"
    for transaction in fields["transactions"]:
        if transaction["transactional_id"] == id_:
            source, prefix = transaction, ""
    places = [(topic["name"], index) for topic in source[f"{prefix}topics"] for index in topic["partitions"]]
    return SentFields(source[f"{prefix}producer_id"], source[f"{prefix}producer_epoch"], True, places)


def request_of(broker: Uses, described: DelayedRequest) -> Message:
    """Return the message of a delayed request."""
    ids = described.producer_id, described.producer_epoch
    if described.key == END_TXN:
        return EndTxnRequest(described.transactional_id, *ids, described.committed)
    by_topic: dict[str, list[int]] = {}
    for topic, partition in described.places:
        by_topic.setdefault(topic, []).append(partition)
    if described.key == WRITE_TXN_MARKERS:
        topics = [WritableTxnMarkerTopic(topic, indexes) for topic, indexes in by_topic.items()]
        return WriteTxnMarkersRequest(
            [WritableTxnMarker(*ids, described.committed, topics, described.coordinator_epoch)]
        )
    if described.key == ADD_PARTITIONS_TO_TXN:
        added = [AddPartitionsToTxnTopic(topic, indexes) for topic, indexes in by_topic.items()]
        if described.version < SEVERAL_FROM[ADD_PARTITIONS_TO_TXN]:
            return AddPartitionsToTxnRequest((), described.transactional_id, *ids, added)
        return AddPartitionsToTxnRequest(
            [AddPartitionsToTxnTransaction(described.transactional_id, *ids, False, added)]
        )
    topic, partition = described.places[0]
    batch = build_batch(
        [(None, value.encode()) for value in described.values],
        broker.clock.now_ms(),
        producer_id=described.producer_id,
        producer_epoch=described.producer_epoch,
        base_sequence=described.sequence,
        attributes=TRANSACTIONAL,
    )
    known = broker.topics.get(topic)
    data = TopicProduceData(topic, partition_data=[PartitionProduceData(partition, batch)])
    if described.version >= PRODUCE_IDS_FROM and known is not None:
        data = TopicProduceData("", known.id, data.partition_data)
    return ProduceRequest(described.transactional_id, -1, round(ANSWER_S_MAX * 1_000), [data])


async def deliver(broker: Uses, described: DelayedRequest) -> dict[str, Any]:
    """Send a delayed request over a new connection; return the response and its errors. Raises NoResponseError."""
    answers = [
        await ask(broker, node_id, part.key, part.version, request_of(broker, part), CLIENT_ID)
        for node_id, part in _by_node(broker, described).items()
    ]
    errors = [error_name(code) for code in dict.fromkeys(code for answer in answers for code in error_codes(answer))]
    name = APIS[described.key].name
    return {"api": name, "version": described.version, "errors": errors, "answer": plain_message(answers[0])}


def _by_node(broker: Uses, described: DelayedRequest) -> dict[int, DelayedRequest]:
    """Split a request by node: by the leaders of its partitions, or all of it for the coordinator."""
    if described.key in (END_TXN, ADD_PARTITIONS_TO_TXN):
        return {coordinator_of(broker.topics.internal_topic(TXN_STATE), described.transactional_id).leader: described}
    parts: dict[int, DelayedRequest] = {}
    for name, index in described.places:
        topic = broker.topics.get(name)
        is_there = topic is not None and topic.has_partition(index)
        leader = topic.placements[index].leader if topic is not None and is_there else NO_LEADER
        parts.setdefault(leader, replace(described, places=[])).places.append((name, index))
    return parts
