"""What a node answers to fetches of partitions that it does not lead (KIP-392, KIP-951)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.fetch_response import FetchResponse, LeaderIdAndEpoch, NodeEndpoint, PartitionData

if TYPE_CHECKING:
    from stuntbroker.broker.connections.connection import Connection
    from stuntbroker.broker.metadata.topics import Topic
    from stuntbroker.protocol.messages.fetch_request import FetchRequest

FROM_FOLLOWERS_FROM: Final = 11
"""Version from which every replica serves consumers, and a rack is told."""
ENDPOINTS_FROM: Final = 16
RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
ASK_THE_LEADER: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


class NodeFetches:
    """The fetches of one request at one of several nodes."""

    def __init__(self, connection: Connection, request: FetchRequest, version: int) -> None:
        self._connection = connection
        self._version = version
        broker = connection.broker
        self._nodes = broker.nodes
        self._node_id = connection.listener.node_id
        is_rack_aware = broker.config["replica.selector.class"] == RACK_AWARE
        self._rack = request.rack_id if is_rack_aware and version >= FROM_FOLLOWERS_FROM else ""

    def error(self, topic: Topic, index: int) -> ErrorCode:
        """Whether this node may answer for a partition."""
        placement = topic.placements[index]
        may_follow = self._version >= FROM_FOLLOWERS_FROM and self._node_id in placement.replicas
        if placement.leader == self._node_id or may_follow:
            return ErrorCode.NONE
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def sends_away(self, topic: Topic, data: PartitionData) -> bool:
        """Have an answer of the leader name the replica in the client's rack instead of records; whether there is one."""
        placement = topic.placements[data.partition_index]
        if data.error_code or not self._rack or placement.leader != self._node_id:
            return False
        racks = {node_id: self._nodes.by_id[node_id].rack for node_id in placement.in_sync}
        nearer = [node_id for node_id, rack in racks.items() if rack == self._rack]
        if not nearer or self._node_id in nearer:
            return False
        data.preferred_read_replica, data.records, data.aborted_transactions = nearer[0], b"", None
        return True

    def show_leader(self, topic: Topic, data: PartitionData) -> None:
        """Say in an answer of which the client should ask the leader who that is."""
        if self._version >= ENDPOINTS_FROM and data.error_code in ASK_THE_LEADER:
            index = data.partition_index
            leader, epoch = topic.placements[index].leader, topic.partitions[index].leader_epoch
            data.current_leader = LeaderIdAndEpoch(leader, epoch)

    def show_endpoints(self, response: FetchResponse) -> None:
        """Say where the leaders are that the answer names."""
        parts = [part for topic in response.responses for part in topic.partitions]
        endpoints = self._nodes.endpoints_of_leaders(parts, self._connection)
        response.node_endpoints = [NodeEndpoint(*each) for each in endpoints]
