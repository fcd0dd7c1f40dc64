"""Fetch responses for partitions that the node does not lead (KIP-392, KIP-951)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.messages.fetch_response import FetchResponse, LeaderIdAndEpoch, NodeEndpoint, PartitionData

if TYPE_CHECKING:
    from stuntbroker.broker.metadata.topics import Topic
    from stuntbroker.broker.services import Asking, HasConfig, HasNodes
    from stuntbroker.protocol.messages.fetch_request import FetchRequest

    class Uses(HasConfig, HasNodes, Protocol):
        """Parts of the broker that this module uses."""


FROM_FOLLOWERS_FROM: Final = 11
"""First Fetch version with a rack id, from which followers serve consumers too."""
ENDPOINTS_FROM: Final = 16
RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
ASK_THE_LEADER: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


class NodeFetches:
    """The fetches of one request at one of several nodes."""

    def __init__(self, request: Asking[Uses], body: FetchRequest, version: int) -> None:
        self._request = request
        self._version = version
        broker = request.broker
        self._nodes = broker.nodes
        self._node_id = request.listener.node_id
        is_rack_aware = broker.config["replica.selector.class"] == RACK_AWARE
        self._rack = body.rack_id if is_rack_aware and version >= FROM_FOLLOWERS_FROM else ""

    def error(self, topic: Topic, index: int) -> ErrorCode:
        """Return NONE if this node may serve the partition, else NOT_LEADER_OR_FOLLOWER."""
        placement = topic.placements[index]
        may_follow = self._version >= FROM_FOLLOWERS_FROM and self._node_id in placement.replicas
        if placement.leader == self._node_id or may_follow:
            return ErrorCode.NONE
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def redirects(self, topic: Topic, data: PartitionData) -> bool:
        """Replace the leader's records by a preferred read replica in the client's rack; return whether there is one."""
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
        """Set the current leader in a partition response whose error sends the client to the leader."""
        if self._version >= ENDPOINTS_FROM and data.error_code in ASK_THE_LEADER:
            index = data.partition_index
            leader, epoch = topic.placements[index].leader, topic.partitions[index].leader_epoch
            data.current_leader = LeaderIdAndEpoch(leader, epoch)

    def show_endpoints(self, response: FetchResponse) -> None:
        """Set the endpoints of the leaders that the response names."""
        parts = [part for topic in response.responses for part in topic.partitions]
        endpoints = self._nodes.endpoints_of_leaders(parts, self._request.connection)
        response.node_endpoints = [NodeEndpoint(*each) for each in endpoints]
