"""Refusal of requests for partitions, groups and transactional ids that another node leads or coordinates.

The gate is a check between the interceptors and the handlers, installed when there are several nodes. It passes the part of a
request that belongs to this node to the handler, and adds the errors of the other parts to the response. The Fetch handler
checks its partitions itself.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any, Final, Protocol

from stuntbroker.broker.cluster.nodes import Placement
from stuntbroker.broker.metadata.topics import Topic, coordinator_of
from stuntbroker.broker.requests.partial_requests import handle_own_part, handle_own_produce, name_of, refusal_of
from stuntbroker.broker.requests.plain_messages import error_answer
from stuntbroker.protocol import api_keys
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.heartbeat_response import HeartbeatResponse
from stuntbroker.protocol.messages.produce_response import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    TopicProduceResponse,
)
from stuntbroker.protocol.produce_codec import ProduceFields
from stuntbroker.protocol.request_values import ACKS_ALL
from stuntbroker.protocol.topic_names import OFFSETS, TXN_STATE
from stuntbroker.protocol.versions import PRODUCE_IDS_FROM, SEVERAL_FROM

if TYPE_CHECKING:
    from stuntbroker.broker.connections.client_connection import ClientRequest
    from stuntbroker.broker.requests.routes import Handler
    from stuntbroker.broker.services import HasNodes, HasTopics

    class Uses(HasNodes, HasTopics, Protocol):
        """Parts of the broker that this module uses."""


ENDPOINTS_FROM: Final = 10
"""First version of Produce whose response names the current leader."""
OK: Final = ErrorCode.NONE

Keys = Callable[[Any, int], list[str]]
"""Returns the groups or transactional ids in a request of a version."""
GROUP_OF: Final[dict[int, Keys]] = {
    api_keys.OFFSET_COMMIT: lambda body, version: [body.group_id],
    api_keys.OFFSET_FETCH: lambda body, version: (
        [each.group_id for each in body.groups] if version >= SEVERAL_FROM[api_keys.OFFSET_FETCH] else [body.group_id]
    ),
    api_keys.JOIN_GROUP: lambda body, version: [body.group_id],
    api_keys.HEARTBEAT: lambda body, version: [body.group_id],
    api_keys.LEAVE_GROUP: lambda body, version: [body.group_id],
    api_keys.SYNC_GROUP: lambda body, version: [body.group_id],
    api_keys.DESCRIBE_GROUPS: lambda body, version: list(body.groups),
    api_keys.TXN_OFFSET_COMMIT: lambda body, version: [body.group_id],
    api_keys.DELETE_GROUPS: lambda body, version: list(body.groups_names),
    api_keys.OFFSET_DELETE: lambda body, version: [body.group_id],
}
TRANSACTIONAL_ID_OF: Final[dict[int, Keys]] = {
    api_keys.INIT_PRODUCER_ID: lambda body, version: [] if body.transactional_id is None else [body.transactional_id],
    api_keys.ADD_PARTITIONS_TO_TXN: lambda body, version: (
        [each.transactional_id for each in body.transactions]
        if version >= SEVERAL_FROM[api_keys.ADD_PARTITIONS_TO_TXN]
        else [body.v3_and_below_transactional_id]
    ),
    api_keys.ADD_OFFSETS_TO_TXN: lambda body, version: [body.transactional_id],
    api_keys.END_TXN: lambda body, version: [body.transactional_id],
    api_keys.DESCRIBE_TRANSACTIONS: lambda body, version: list(body.transactional_ids),
}
SPLITTABLE_LISTS: Final = {
    api_keys.OFFSET_FETCH: ("groups", "groups"),
    api_keys.DESCRIBE_GROUPS: ("groups", "groups"),
    api_keys.ADD_PARTITIONS_TO_TXN: ("transactions", "results_by_transaction"),
    api_keys.DELETE_GROUPS: ("groups_names", "results"),
    api_keys.DESCRIBE_TRANSACTIONS: ("transactional_ids", "transaction_states"),
}
"""API -> names of the list of groups or ids in a request with several, and of the list in its response."""
LEADER_APIS: Final = {
    api_keys.LIST_OFFSETS: "partition_index",
    api_keys.DELETE_RECORDS: "partition_index",
    api_keys.OFFSET_FOR_LEADER_EPOCH: "partition",
}
"""APIs that need the partition leader -> name of the partition index in the request."""
COORDINATOR_LIST_APIS: Final = {api_keys.LIST_GROUPS: OFFSETS, api_keys.LIST_TRANSACTIONS: TXN_STATE}
"""APIs that list the groups or ids of a coordinator -> the internal topic that holds them."""
GATED: Final = frozenset({api_keys.PRODUCE, *GROUP_OF, *TRANSACTIONAL_ID_OF, *LEADER_APIS, *COORDINATOR_LIST_APIS})
OF_EVERY_NODE: Final = frozenset(
    {
        api_keys.FETCH,
        api_keys.METADATA,
        api_keys.FIND_COORDINATOR,
        api_keys.SASL_HANDSHAKE,
        api_keys.API_VERSIONS,
        api_keys.CREATE_TOPICS,
        api_keys.DELETE_TOPICS,
        api_keys.WRITE_TXN_MARKERS,
        api_keys.DESCRIBE_ACLS,
        api_keys.CREATE_ACLS,
        api_keys.DELETE_ACLS,
        api_keys.DESCRIBE_CONFIGS,
        api_keys.ALTER_CONFIGS,
        api_keys.ALTER_REPLICA_LOG_DIRS,
        api_keys.DESCRIBE_LOG_DIRS,
        api_keys.SASL_AUTHENTICATE,
        api_keys.CREATE_PARTITIONS,
        api_keys.ELECT_LEADERS,
        api_keys.INCREMENTAL_ALTER_CONFIGS,
        api_keys.ALTER_PARTITION_REASSIGNMENTS,
        api_keys.LIST_PARTITION_REASSIGNMENTS,
        api_keys.DESCRIBE_CLIENT_QUOTAS,
        api_keys.ALTER_CLIENT_QUOTAS,
        api_keys.DESCRIBE_USER_SCRAM_CREDENTIALS,
        api_keys.ALTER_USER_SCRAM_CREDENTIALS,
        api_keys.DESCRIBE_QUORUM,
        api_keys.UPDATE_FEATURES,
        api_keys.DESCRIBE_CLUSTER,
        api_keys.DESCRIBE_PRODUCERS,
        api_keys.LIST_CONFIG_RESOURCES,
        api_keys.DESCRIBE_TOPIC_PARTITIONS,
    }
)
"""APIs that are not gated: every node answers, or the handler itself checks the node."""


class NodeGate:
    """Refuses the parts of a request that belong to other nodes."""

    def __init__(self, broker: Uses) -> None:
        self._broker = broker
        self._nodes = broker.nodes

    def check(self, handle: Handler, request: ClientRequest, body: Any, version: int) -> Any:
        """Intercept a request: handle the part that belongs to this node, and refuse the rest."""
        key = request.route.key
        if key == api_keys.PRODUCE:
            return self._produce(handle, request, body, version)
        if key in LEADER_APIS:
            return self._refuse_partitions_of_others(handle, request, body, version)
        if key in COORDINATOR_LIST_APIS:
            topic = self._broker.topics.get(COORDINATOR_LIST_APIS[key])
            own = [] if topic is None else [p for p in topic.placements if p.leader == request.listener.node_id]
            if any(placement.is_loading for placement in own):
                return error_answer(key, {}, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return handle(request, body, version)
        return self._coordinated(handle, request, body, version)

    # --- coordinators

    def _coordinated(self, handle: Handler, request: ClientRequest, body: Any, version: int) -> Any:
        key, node_id = request.route.key, request.listener.node_id
        names = (GROUP_OF.get(key) or TRANSACTIONAL_ID_OF[key])(body, version)
        topic = self._broker.topics.internal_topic(OFFSETS if key in GROUP_OF else TXN_STATE)
        errors = [_coordinator_error(coordinator_of(topic, name), node_id) for name in names]
        if not any(errors):
            return handle(request, body, version)
        if key == api_keys.HEARTBEAT and errors == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]:
            return HeartbeatResponse()  # As in Kafka: the member is in the group again as soon as it is loaded.
        listed, answered = SPLITTABLE_LISTS.get(key, ("", ""))
        if not listed or len(names) == 1:
            return refusal_of(key, version, body, next(filter(None, errors)))
        both = list(zip(getattr(body, listed), errors, strict=True))

        def part(error: ErrorCode) -> Any:
            """Return a body with those groups or ids only that have this error."""
            part = copy(body)
            setattr(part, listed, [each for each, its_error in both if its_error == error])
            return part

        refusals = [refusal_of(key, version, part(error), error) for error in dict.fromkeys(errors) if error]
        refusal = refusals[0]
        setattr(refusal, answered, [each for some in refusals for each in getattr(some, answered)])
        if all(errors):
            return refusal
        return handle_own_part(handle, request, part(OK), version, refusal, answered)

    # --- leaders

    def _refuse_partitions_of_others(self, handle: Handler, request: ClientRequest, body: Any, version: int) -> Any:
        key, node_id = request.route.key, request.listener.node_id
        number = LEADER_APIS[key]
        own_topics, foreign_topics = [], []
        for wanted in body.topics:
            topic = self._broker.topics.get(name_of(wanted))
            own, foreign = copy(wanted), copy(wanted)
            led = [is_led(topic, getattr(part, number), node_id) for part in wanted.partitions]
            own.partitions = [part for part, here in zip(wanted.partitions, led, strict=True) if here]
            foreign.partitions = [part for part, here in zip(wanted.partitions, led, strict=True) if not here]
            own_topics += [own] if own.partitions or not foreign.partitions else []
            foreign_topics += [foreign] if foreign.partitions else []
        if not foreign_topics:
            return handle(request, body, version)
        own_body, foreign_body = copy(body), copy(body)
        own_body.topics, foreign_body.topics = own_topics, foreign_topics
        refusal = refusal_of(key, version, foreign_body, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if not own_topics:
            return refusal
        return handle_own_part(handle, request, own_body, version, refusal, "topics")

    def _produce(self, handle: Handler, request: ClientRequest, fields: ProduceFields, version: int) -> Any:
        transactional_id, acks, topic_batches = fields
        node_id, topics = request.listener.node_id, self._broker.topics
        own, refused = [], []
        for name, topic_id, parts in topic_batches:
            topic = topics.find(name, topic_id, version >= PRODUCE_IDS_FROM)
            errors = {index: self._produce_error(topic, index, node_id, acks) for index in parts}
            accepted = {index: records for index, records in parts.items() if not errors[index]}
            if accepted or not parts:
                own.append((name, topic_id, accepted))
            if topic is not None and any(errors.values()):
                answers = [self._refused(topic, index, error, version) for index, error in errors.items() if error]
                refused.append(TopicProduceResponse(name, topic_id, answers))
        if not refused:
            return handle(request, fields, version)
        named = [part for topic in refused for part in topic.partition_responses]
        endpoints = [NodeEndpoint(*each) for each in self._nodes.endpoints_of_leaders(named, request.connection)]
        return handle_own_produce(handle, request, (transactional_id, acks, own), version, refused, endpoints)

    def _produce_error(self, topic: Topic | None, index: int, node_id: int, acks: int) -> ErrorCode:
        if not is_led(topic, index, node_id):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if acks == ACKS_ALL and topic is not None and topic.has_partition(index):
            needed: int = self._broker.topics.config_of(topic, "min.insync.replicas")
            if len(topic.placements[index].in_sync) < min(needed, len(topic.placements[index].replicas)):
                return ErrorCode.NOT_ENOUGH_REPLICAS
        return OK

    def _refused(self, topic: Topic, index: int, error: ErrorCode, version: int) -> PartitionProduceResponse:
        answer = PartitionProduceResponse(index, error, -1)
        if error == ErrorCode.NOT_ENOUGH_REPLICAS:
            answer.log_start_offset = topic.partitions[index].log_start_offset
        if version >= ENDPOINTS_FROM and error == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            leader, epoch = topic.placements[index].leader, topic.partitions[index].leader_epoch
            answer.current_leader = LeaderIdAndEpoch(leader, epoch)
        return answer


def is_led(topic: Topic | None, index: int, node_id: int) -> bool:
    """Return whether a node leads a partition; True for an unknown partition, whose error the handler returns."""
    if topic is None or not topic.has_partition(index):
        return True
    return topic.placements[index].leader == node_id


def _coordinator_error(placement: Placement, node_id: int) -> ErrorCode:
    if placement.leader != node_id:
        return ErrorCode.NOT_COORDINATOR
    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if placement.is_loading else OK
