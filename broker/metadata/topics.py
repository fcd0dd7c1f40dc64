"""The topics of the broker: names, ids, configuration, partitions. A change is in the journal before its response is sent."""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from stuntbroker.broker.cluster.nodes import Nodes, Placement
from stuntbroker.broker.configuration.config import BrokerConfig
from stuntbroker.broker.configuration.properties import INTERNAL_SEGMENT_BYTES, TOPIC, ConfigError, check_topic_config
from stuntbroker.broker.random_source import RandomSource
from stuntbroker.protocol.hashing import partition_for
from stuntbroker.protocol.topic_names import INTERNAL, OFFSETS, TXN_STATE
from stuntbroker.storage.data_dir import DataDir
from stuntbroker.storage.errors import StorageError
from stuntbroker.storage.log_config import LogConfig
from stuntbroker.storage.partition import PartitionLog
from stuntbroker.storage.syncer import Syncer
from stuntbroker.storage.turn import Turn

if TYPE_CHECKING:
    from stuntbroker.broker.metadata.image import Image, TopicImage
    from stuntbroker.broker.metadata.metadata_journal import MetadataJournal
    from stuntbroker.broker.observation.events import Events

GC_FREEZE_PARTITIONS_MIN: Final = 2_000
INTERNAL_COMPACTION_LAG_MS: Final = 60_000
"""`min.compaction.lag.ms` of the internal topics: compaction never removes younger records."""


class Topic:
    """A topic: its name, its 16-byte id, its properties, and the logs and placements of its partitions."""

    __slots__ = ("configs", "id", "is_internal", "name", "partitions", "placements")

    def __init__(self, name: str, topic_id: bytes, configs: dict[str, str]) -> None:
        self.name = name
        self.id = topic_id
        self.configs = configs
        """Properties set for this topic; all others have their defaults."""
        self.partitions: list[PartitionLog] = []
        self.placements: list[Placement] = []
        """Placement of each partition, by index."""
        self.is_internal = name in INTERNAL

    @property
    def replication_factor(self) -> int:
        """Number of replicas of each partition."""
        return len(self.placements[0].replicas)

    def has_partition(self, index: int) -> bool:
        """Return whether a partition with this index exists: clients may name any int32."""
        return 0 <= index < len(self.partitions)

    def partition_of(self, key: str) -> int:
        """Return the partition of this internal topic for a group or a transactional id."""
        return partition_for(key, len(self.partitions))


class Topics:
    """Every topic by name and by id."""

    def __init__(
        self,
        data_dir: DataDir,
        journal: MetadataJournal,
        config: BrokerConfig,
        syncer: Syncer | None,
        turn: Turn,
        random_source: RandomSource,
        nodes: Nodes,
    ) -> None:
        self.data_dir = data_dir
        self._journal = journal
        self.config = config
        self.syncer = syncer
        self.turn = turn
        self._random_source = random_source
        self.nodes = nodes
        self.by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self.logs: dict[tuple[str, int], PartitionLog] = {}
        """Every partition of every topic, by topic and index."""
        self._not_frozen = 0
        """Number of partitions created since the last `gc.freeze`."""
        self._being_removed: set[str] = set()
        """Names of deleted topics whose folders are still being removed."""
        self._alike: dict[str, list[str]] = {}
        """Topic name with '_' for '.' -> all topic names that equal it except for '.' and '_'."""
        self.get = self.by_name.get
        self.by_id = self._by_id.get

    def __iter__(self) -> Iterator[Topic]:
        return iter(self.by_name.values())

    def name_of(self, topic_id: bytes) -> str | None:
        """Return the name of the topic with this id; None if there is none."""
        topic = self._by_id.get(topic_id)
        return None if topic is None else topic.name

    def find(self, name: str, topic_id: bytes, by_id: bool) -> Topic | None:
        """Return the topic with this name, or this id if `by_id` (newer request versions); None if there is none."""
        return self.by_id(topic_id) if by_id else self.get(name)

    def log(self, name: str, index: int) -> PartitionLog | None:
        """Return the log of a partition, None if there is no such partition."""
        return self.logs.get((name, index))

    def config_of(self, topic: Topic, name: str) -> Any:
        """Return the effective value of a topic's property."""
        if name in topic.configs:
            return TOPIC[name][0].read(topic.configs[name].strip())
        return self.config.topic_default(name)

    def log_config(self, topic: Topic) -> LogConfig:
        """Return the configuration of the topic's logs."""
        policies = {part.strip() for part in self.config_of(topic, "cleanup.policy").split(",")}
        return LogConfig(
            segment_bytes=self.config_of(topic, INTERNAL_SEGMENT_BYTES) or self.config_of(topic, "segment.bytes"),
            segment_ms=self.config_of(topic, "segment.ms"),
            retention_ms=self.config_of(topic, "retention.ms"),
            retention_bytes=self.config_of(topic, "retention.bytes"),
            compact="compact" in policies,
            delete="delete" in policies,
            min_compaction_lag_ms=INTERNAL_COMPACTION_LAG_MS
            if topic.is_internal
            else self.config_of(topic, "min.compaction.lag.ms"),
            min_cleanable_dirty_ratio=self.config_of(topic, "min.cleanable.dirty.ratio"),
            is_internal_log=topic.is_internal,
            delete_retention_ms=0 if topic.is_internal else self.config_of(topic, "delete.retention.ms"),
            log_append_time=self.config_of(topic, "message.timestamp.type") == "LogAppendTime",
            max_message_bytes=self.config_of(topic, "max.message.bytes"),
            timestamp_after_ms_max=self.config_of(topic, "message.timestamp.after.max.ms"),
            timestamp_before_ms_max=self.config_of(topic, "message.timestamp.before.max.ms"),
            # Unlike Kafka: other values of `compression.type`, and compression levels, have no effect; neither have the
            # properties for flushing, indexing and preallocation of a log, and for max.compaction.lag.ms.
            zstd=self.config_of(topic, "compression.type") == "zstd",
        )

    # --- changes

    def colliding(self, name: str, besides: Collection[str] = ()) -> str | None:
        """Return another topic whose name differs only in '.' and '_' (its metric names would collide); None without one.

        `besides`: topics that do not count.
        """
        if "." not in name and "_" not in name:
            return None
        alike = self._alike.get(name.replace(".", "_"), ())
        return next((other for other in alike if other != name and other not in besides), None)

    def create(
        self,
        name: str,
        count: int,
        configs: Mapping[str, str],
        topic_id: bytes | None = None,
        replicas: Sequence[Sequence[int]] = (),
        replication_factor: int = -1,
    ) -> Topic:
        """Create a topic whose name and configuration were validated. Raises StorageError.

        `replicas`: nodes of each partition; if empty, assigned by `replication_factor` (-1: `default.replication.factor`).
        """
        if name in self._being_removed:
            raise StorageError(f"the data of the deleted topic {name} are still being removed: try again")
        self.data_dir.check_free(name, range(count))
        topic = Topic(name, topic_id or self.new_id(), dict(configs))
        topic.placements = self.new_placements(range(count), replicas, replication_factor)
        change = {"create": name, "id": topic.id.hex(), "partitions": count, "configs": topic.configs}
        self._journal.write(change | self._placed(topic.placements))
        self._add(topic, count)
        return topic

    def new_placements(
        self, indexes: range, replicas: Sequence[Sequence[int]], replication_factor: int
    ) -> list[Placement]:
        """Return placements of new partitions, on `replicas` or by replication factor (-1: `default.replication.factor`)."""
        if not replicas:
            factor = self.config["default.replication.factor"] if replication_factor < 0 else replication_factor
            return [self.nodes.new_placement(index, factor) for index in indexes]
        placements = [Placement(each, each[0]) for each in replicas]
        for placement in placements:
            self.nodes.update_in_sync(placement)
            placement.leader = self.nodes.next_leader(placement)
        return placements

    def journal_placements(self, topic: Topic, indexes: Iterable[int]) -> None:
        """Write the current placements of partitions to the journal. Raises StorageError."""
        if self.nodes.are_many or any(log.leader_epoch for log in topic.partitions):
            placements = {index: topic.placements[index] for index in indexes}
            self._journal.write({"placed": topic.name, "partitions": _nodes_of(placements)})

    def _placed(self, placements: list[Placement], first: int = 0) -> dict[str, Any]:
        """Return the placement field of a journal change that creates partitions; empty if there is one node."""
        return {"placed": _nodes_of(dict(enumerate(placements, first)))} if self.nodes.are_many else {}

    def internal_topic(self, name: str) -> Topic:
        """Return an internal topic; create it on first use."""
        topic = self.by_name.get(name)
        if topic is not None:
            return topic
        count, factor = (self.config.values[_prefix(name) + what] for what in ("num.partitions", "replication.factor"))
        return self.create(name, count, self._internal_configs(name), replication_factor=factor)

    def _internal_configs(self, name: str) -> dict[str, str]:
        configs = {
            "cleanup.policy": "compact",
            "segment.bytes": str(self.config.values[_prefix(name) + "segment.bytes"]),
            "compression.type": "producer" if name == OFFSETS else "uncompressed",
        }
        if name == TXN_STATE:
            configs |= {"min.insync.replicas": "1", "unclean.leader.election.enable": "false"}
        return configs

    def add_partitions(self, topic: Topic, count: int, replicas: Sequence[Sequence[int]] = ()) -> None:
        """Add partitions, on `replicas` or with the replication factor of partition 0. Raises StorageError."""
        more = range(len(topic.partitions), count)
        self.data_dir.check_free(topic.name, more)
        placements = self.new_placements(more, replicas, topic.replication_factor)
        self._journal.write({"partitions": topic.name, "count": count} | self._placed(placements, more.start))
        topic.placements += placements
        self._grow(topic, count)

    def set_configs(self, topic: Topic, configs: dict[str, str]) -> None:
        """Replace the properties that are set for a topic. Raises StorageError."""
        self._journal.write({"configs": topic.name, "set": configs})
        self._apply_configs(topic, configs)

    def delete(self, topic: Topic) -> None:
        """Delete a topic in one step, as `delete_steps`. Raises StorageError."""
        for _ in self.delete_steps(topic):
            pass

    def delete_steps(self, topic: Topic) -> Iterator[None]:
        """Delete a topic in steps: the first one removes the topic, and each one removes the data of a partition.

        Raises StorageError: either the topic still exists, or it is deleted and some of its data is left on the disk.
        """
        self._journal.write({"delete": topic.name})
        yield from self._remove(topic)

    # --- loading

    def restore(self, image: Image, events: Events) -> None:
        """Reconcile the data folder with the journal, then open the partitions of every topic. Raises StorageError."""
        known = {name: (topic.id, topic.partitions) for name, topic in image.topics.items()}
        for folder, name in self.data_dir.reconcile(known, image.deleted, self.new_id):
            events.warning("stray_partition_renamed", folder=folder, to=name)
        for name, topic in image.topics.items():
            configs = self._internal_configs(name) if name in INTERNAL else {}
            for key, text in topic.configs.items():
                try:
                    configs |= check_topic_config({key: text})
                except ConfigError as fault:  # An older version allowed the value: ignore it, but keep the topic.
                    events.warning("topic_config_ignored", topic=name, config=key, value=text, reason=str(fault))
            restored = Topic(name, topic.id, configs)
            led_before = self._restore_placements(restored, topic)
            self._add(restored, topic.partitions, events, has_moved=topic.placements.keys())
            self._begin_leadership(restored, led_before)

    def _restore_placements(self, topic: Topic, image: TopicImage) -> list[int]:
        """Restore the placements of the partitions if their nodes still exist; return the leader of each before the restart."""
        led_before = []
        for index in range(image.partitions):
            leader, replicas = image.placements.get(index, (self.nodes.first, (self.nodes.first,)))
            placement = self.nodes.restored(replicas, leader) or self.nodes.new_placement(index, len(replicas))
            topic.placements.append(placement)
            led_before.append(leader)
        return led_before

    def _begin_leadership(self, topic: Topic, led_before: list[int]) -> None:
        """Begin a new leader epoch in each partition whose leader has changed since the last run. Raises StorageError."""
        changed = [index for index, leader in enumerate(led_before) if topic.placements[index].leader != leader]
        for index in changed:
            log = topic.partitions[index]
            self.data_dir.begin_leader_epoch(log, log.leader_epoch + 1)
        if changed:
            self.journal_placements(topic, changed)

    def as_changes(self) -> list[dict[str, Any]]:
        """Return the changes to keep when the journal is rewritten."""
        changes: list[dict[str, Any]] = []
        for topic in self.by_name.values():
            count = len(topic.partitions)
            change = {"create": topic.name, "id": topic.id.hex(), "partitions": count, "configs": topic.configs}
            if self.nodes.are_many or any(log.leader_epoch for log in topic.partitions):
                change["placed"] = _nodes_of(dict(enumerate(topic.placements)))
            changes.append(change)
        return changes

    # --- internals

    def new_id(self) -> bytes:
        """Return a random id for a topic: 16 bytes."""
        # A random UUID (version 4) whose text does not begin with a dash.
        random_bytes = bytearray(self._random_source.random_bytes(16))
        random_bytes[0] &= 0x7F
        random_bytes[6] = random_bytes[6] & 0x0F | 0x40
        random_bytes[8] = random_bytes[8] & 0x3F | 0x80
        return bytes(random_bytes)

    def _add(self, topic: Topic, count: int, events: Events | None = None, has_moved: Collection[int] = ()) -> None:
        self._grow(topic, count, events, has_moved)
        self.by_name[topic.name] = topic
        self._by_id[topic.id] = topic
        self._alike.setdefault(topic.name.replace(".", "_"), []).append(topic.name)

    def _grow(self, topic: Topic, count: int, events: Events | None = None, has_moved: Collection[int] = ()) -> None:
        """Open or create the logs of the partitions up to `count`. Raises StorageError.

        `events`: given when existing partitions are opened. `has_moved`: partitions that may have had several leaders.
        """
        config = self.log_config(topic)
        for index in range(len(topic.partitions), count):
            log, cut = self.data_dir.partition(
                topic.name, index, topic.id, config, is_new=events is None, has_moved=index in has_moved
            )
            if cut and events is not None:
                events.warning(
                    "log_truncated", topic=topic.name, partition=index, bytes=cut, next_offset=log.next_offset
                )
            log.flush_first = topic.name == TXN_STATE
            log.attach_to(self.turn, buffers=self.syncer is None)
            if self.syncer is not None:
                log.register_unsynced = self.syncer.register
                if not self.data_dir.was_clean:
                    log.active.sync()  # Recovered batches must be durable before new ones follow them.
            topic.partitions.append(log)
            self.logs[log.name] = log
            self._not_frozen += 1
        # Partitions are long-lived: freezing them saves the garbage collector a scan of 100 ms.
        if self._not_frozen >= GC_FREEZE_PARTITIONS_MIN:
            self._not_frozen = 0
            gc.freeze()

    def _apply_configs(self, topic: Topic, configs: dict[str, str]) -> None:
        topic.configs = configs
        config = self.log_config(topic)
        for log in topic.partitions:
            log.configure(config)

    def reconfigure(self) -> None:
        """Apply changed broker properties to all logs whose topics do not override them."""
        alike: dict[tuple[bool, tuple[tuple[str, str], ...]], LogConfig] = {}
        for topic in self.by_name.values():
            key = topic.is_internal, tuple(topic.configs.items())
            config = alike.get(key)
            if config is None:
                config = alike[key] = self.log_config(topic)
            for log in topic.partitions:
                log.configure(config)

    def _remove(self, topic: Topic) -> Iterator[None]:
        del self.by_name[topic.name]
        del self._by_id[topic.id]
        alike = self._alike[topic.name.replace(".", "_")]
        alike.remove(topic.name)
        if not alike:
            del self._alike[topic.name.replace(".", "_")]
        left: StorageError | None = None
        for log in topic.partitions:
            del self.logs[log.name]
            log.is_deleted = True
            log.forget_limits()  # So that no append misses that.
        self._being_removed.add(topic.name)
        try:
            for log in topic.partitions:
                try:
                    self.data_dir.delete_partition(log)
                except StorageError as fault:
                    left = fault
                log.wake_waiters()
                yield
        finally:
            self._being_removed.discard(topic.name)
        if left is not None:
            raise StorageError(f"{topic.name} is deleted, but {left}; the next start tries again") from left


def coordinator_of(topic: Topic, key: str) -> Placement:
    """Return the placement of the partition that stores a group or transactional id; its leader is the coordinator."""
    return topic.placements[topic.partition_of(key)]


def _nodes_of(placements: Mapping[int, Placement]) -> dict[str, list[int]]:
    """Return the placements in the journal's form: leader and all replicas of each partition."""
    return {str(index): [each.leader, *each.replicas] for index, each in placements.items()}


def _prefix(name: str) -> str:
    """Return the prefix of the properties of an internal topic."""
    return "offsets.topic." if name == OFFSETS else "transaction.state.log."
