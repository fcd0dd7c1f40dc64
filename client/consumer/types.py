"""Types of AIOKafkaConsumer, which has none: what type checkers know of `TransactionalConsumer`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from stuntbroker.client.security import Security

if TYPE_CHECKING:
    from dataclasses import dataclass

    class TopicPartition(NamedTuple):
        """A partition of a topic."""

        topic: str
        partition: int

    class OffsetAndTimestamp(NamedTuple):
        """The offset of a record, and its timestamp in ms."""

        offset: int
        timestamp: int | None

    @dataclass
    class ConsumerRecord:
        """A record as a consumer returns it. Key and value are what the deserializers return, bytes without one."""

        topic: str
        partition: int
        offset: int
        timestamp: int
        timestamp_type: int
        key: Any
        value: Any
        checksum: int | None
        serialized_key_size: int
        serialized_value_size: int
        headers: Sequence[tuple[str, bytes]]

    class ConsumerBase:
        """AIOKafkaConsumer with the types of its public methods. Of its private attributes nothing is known."""

        _client: Any
        _closed: bool
        _coordinator: Any
        _fetcher: Any
        _group_instance_id: str | None
        _subscription: Any

        def __init__(self, *topics: str, **options: Any) -> None: ...
        async def __aexit__(self, *exception: object) -> None: ...
        def __aiter__(self) -> AsyncIterator[ConsumerRecord]: ...
        async def __anext__(self) -> ConsumerRecord: ...
        async def start(self) -> None: ...
        async def stop(self) -> None: ...
        async def getone(self, *partitions: TopicPartition) -> ConsumerRecord: ...
        async def getmany(
            self, *partitions: TopicPartition, timeout_ms: int = 0, max_records: int | None = None
        ) -> dict[TopicPartition, list[ConsumerRecord]]: ...
        def assign(self, partitions: Collection[TopicPartition]) -> None: ...
        def assignment(self) -> set[TopicPartition]: ...
        def subscribe(self, topics: Collection[str] = (), pattern: str | None = None, listener: Any = None) -> None: ...
        def subscription(self) -> frozenset[str]: ...
        def unsubscribe(self) -> None: ...
        def pause(self, *partitions: TopicPartition) -> None: ...
        def resume(self, *partitions: TopicPartition) -> None: ...
        def paused(self) -> set[TopicPartition]: ...
        def partitions_for_topic(self, topic: str) -> set[int] | None: ...
        async def topics(self) -> set[str]: ...
        async def commit(self, offsets: Mapping[TopicPartition, int | tuple[int, str]] | None = None) -> None: ...
        async def committed(self, partition: TopicPartition) -> int | None: ...
        async def position(self, partition: TopicPartition) -> int: ...
        def seek(self, partition: TopicPartition, offset: int) -> None: ...
        async def seek_to_beginning(self, *partitions: TopicPartition) -> bool: ...
        async def seek_to_end(self, *partitions: TopicPartition) -> bool: ...
        async def seek_to_committed(self, *partitions: TopicPartition) -> dict[TopicPartition, int]: ...
        async def beginning_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]: ...
        async def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]: ...
        async def offsets_for_times(
            self, timestamps: Mapping[TopicPartition, int]
        ) -> dict[TopicPartition, OffsetAndTimestamp | None]: ...
        def highwater(self, partition: TopicPartition) -> int | None: ...
        def last_stable_offset(self, partition: TopicPartition) -> int | None: ...
        def last_poll_timestamp(self, partition: TopicPartition) -> int | None: ...

else:
    from aiokafka import AIOKafkaConsumer as ConsumerBase
    from aiokafka import ConsumerRecord
    from aiokafka.structs import OffsetAndTimestamp, TopicPartition

Deserializer = Callable[[bytes], Any]


class ConsumerOptions(Security, total=False):
    """Options of AIOKafkaConsumer that a TransactionalConsumer takes as well, with the same defaults."""

    bootstrap_servers: str | list[str]
    client_id: str
    group_instance_id: str | None
    key_deserializer: Deserializer | None
    value_deserializer: Deserializer | None
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    fetch_min_bytes: int
    max_partition_fetch_bytes: int
    request_timeout_ms: int
    retry_backoff_ms: int
    check_crcs: bool
    metadata_max_age_ms: int
    partition_assignment_strategy: Sequence[Any]
    max_poll_interval_ms: int
    rebalance_timeout_ms: int | None
    session_timeout_ms: int
    heartbeat_interval_ms: int
    consumer_timeout_ms: int
    max_poll_records: int | None
    exclude_internal_topics: bool
    connections_max_idle_ms: int
    client_rack: str | None
    isolation_level: str
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    loop: Any
    api_version: str | None


__all__ = ["ConsumerBase", "ConsumerOptions", "ConsumerRecord", "OffsetAndTimestamp", "TopicPartition"]
