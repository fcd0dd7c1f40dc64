"""Play acts (random_acts.py) on one side: topics and their configuration."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from stuntbroker.protocol.errors import ErrorCode
from tests.conformance.sequences.random_play_base import UNKNOWN_ID, BasePlayer
from tests.conformance.side import errors_of

TOPIC_RESOURCE: Final = 2
KEYS_SHOWN: Final = ("max.message.bytes", "message.timestamp.type", "retention.ms", "compression.type")
SPREAD_S: Final = 0.05
"""Seconds to wait for Kafka's broker, which applies a change a little after the controller has replied."""
ADMIN_TIMEOUT_MS: Final = 10_000
BEYOND: Final = 1 << 40


class TopicPlayer(BasePlayer):
    def set_up(self, *labels: str, partitions: int = 2) -> None:
        """Create the topics that exist from the start."""
        new = [{"name": self.side.name(each), "num_partitions": partitions, "replication_factor": 1} for each in labels]
        self.side.quiet("CreateTopics", 7, topics=new, timeout_ms=ADMIN_TIMEOUT_MS)
        self.side.names.of("topic", UNKNOWN_ID)
        for each in labels:
            self._look(self.side.name(each), partitions)

    def _look(self, name: str, partitions: int) -> None:
        self.side.wait_for_topic(name, partitions)
        self.topic_ids[name] = self.side.topic_id(name)
        self.side.names.of("topic", self.topic_ids[name])  # Assigns the common name in a fixed order.

    def create_topic(self, topic: str, version: int, partitions: int, configs: Mapping[str, str]) -> None:
        name = self.side.name(topic)
        given = [{"name": key, "value": value} for key, value in configs.items()]
        if partitions < 0 and version < 4:
            partitions = 1
        new = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": given}
        reply = self.ask("CreateTopics", version, topics=[new], timeout_ms=ADMIN_TIMEOUT_MS)
        if not reply.topics[0].error_code:
            self._look(name, max(partitions, 1))

    def delete_topic(self, topic: str, version: int) -> None:
        name = self.side.name(topic)
        if version >= 6:
            named: dict[str, Any] = {"topics": [{"name": None, "topic_id": self.topic_ids.get(name, UNKNOWN_ID)}]}
        else:
            named = {"topic_names": [name]}
        reply = self.ask("DeleteTopics", version, timeout_ms=ADMIN_TIMEOUT_MS, **named)
        if errors_of(reply) == {0}:
            where = [{"name": name, "partitions": [{"partition_index": 0, "timestamp": -2}]}]
            gone = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            self.side.until(lambda r: gone in errors_of(r), "ListOffsets", 7, replica_id=-1, topics=where)
            time.sleep(SPREAD_S)

    def create_partitions(self, topic: str, version: int, count: int) -> None:
        name = self.side.name(topic)
        new = {"name": name, "count": count, "assignments": None}
        reply = self.ask("CreatePartitions", version, topics=[new], timeout_ms=ADMIN_TIMEOUT_MS)
        if not reply.results[0].error_code:
            self.side.wait_for_topic(name, count)

    def metadata(self, topics: Sequence[str], version: int) -> None:
        names = [{"name": self.side.name(each)} for each in topics]
        if version >= 10:
            names.append({"name": None, "topic_id": self.topic_ids.get(self.side.name(topics[0]), UNKNOWN_ID)})
            names = names[-1:] if version >= 12 else names[:-1]
        self.ask("Metadata", version, topics=names, allow_auto_topic_creation=False)

    def describe_topic_partitions(self, topics: Sequence[str], limit: int) -> None:
        names = [{"name": self.side.name(each)} for each in topics]
        self.ask("DescribeTopicPartitions", 0, topics=names, response_partition_limit=limit)

    def configure(self, topic: str, op: int, config: tuple[str, str]) -> None:
        name = self.side.name(topic)
        key, value = config
        each = {"name": key, "config_operation": op, "value": value if op == 0 else None}
        resource = {"resource_type": TOPIC_RESOURCE, "resource_name": name, "configs": [each]}
        reply = self.ask("IncrementalAlterConfigs", 1, resources=[resource])
        if errors_of(reply) == {0}:
            time.sleep(SPREAD_S)

    def describe_configs(self, topic: str, version: int) -> None:
        resource = {
            "resource_type": TOPIC_RESOURCE,
            "resource_name": self.side.name(topic),
            "configuration_keys": list(KEYS_SHOWN),
        }
        self.ask("DescribeConfigs", version, resources=[resource])

    def leader_epoch(self, part: str, version: int, epoch: int) -> None:
        ((name, (index,)),) = self.by_topic([part])
        where = {"topic": name, "partitions": [{"partition": index, "leader_epoch": epoch}]}
        self.ask("OffsetForLeaderEpoch", version, replica_id=-1, topics=[where])

    def delete_records(self, part: str, version: int, to: int | str) -> None:
        ((name, (index,)),) = self.by_topic([part])
        offset = {"end": -1, "beyond": BEYOND}.get(to, to)  # type: ignore[arg-type]
        where = {"name": name, "partitions": [{"partition_index": index, "offset": offset}]}
        self.ask("DeleteRecords", version, topics=[where], timeout_ms=5_000)
