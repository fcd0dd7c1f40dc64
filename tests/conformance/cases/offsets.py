"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords."""

from __future__ import annotations

from typing import Any

from tests.conformance.batches import GZIP, T0, batch, record, some
from tests.conformance.side import Side


def _fill(side: Side, topic: str, *batches: bytes) -> None:
    for records in batches:
        data = [{"name": topic, "partition_data": [{"index": 0, "records": records}]}]
        side.quiet("Produce", 9, acks=-1, timeout_ms=5_000, topic_data=data)


def list_offsets(side: Side) -> None:
    topic, empty = side.topic("t"), side.topic("e")
    deltas = [record(at, time_delta=delta) for at, delta in enumerate((0, 50, 20, 60, 10))]
    _fill(
        side,
        topic,
        some(2, base_timestamp=T0 + 100),
        batch(deltas, base_timestamp=T0 + 200, max_timestamp=T0 + 260),
        batch(deltas, base_timestamp=T0 + 150, max_timestamp=T0 + 210, attributes=GZIP),
        some(1, base_timestamp=-1),
        some(1, base_timestamp=T0 + 260),
        batch(deltas, base_timestamp=T0 + 300, max_timestamp=-1),
        batch(deltas, base_timestamp=T0 + 330, max_timestamp=-1, attributes=GZIP),
    )
    for version in range(1, 12):
        for name in (topic, empty):
            for stamp in (
                -1, -2, -3, -4, -5, -6, -7, -100, 0, T0, T0 + 100, T0 + 101, T0 + 150, T0 + 200, T0 + 210, T0 + 230,
                T0 + 251, T0 + 260, T0 + 261, T0 + 310, T0 + 355, T0 + 370, T0 + 391, 2**62,
            ):  # fmt: skip
                for isolation in (0, 1) if stamp in (-1, -3, T0) and version > 1 else (0,):
                    part = {"partition_index": 0, "timestamp": stamp}
                    side.ask(
                        "ListOffsets",
                        version,
                        f"{name[-1]} at {stamp}, isolation {isolation}",
                        replica_id=-1,
                        isolation_level=isolation,
                        topics=[{"name": name, "partitions": [part]}],
                    )


def list_offsets_wrongly(side: Side) -> None:
    topic = side.topic("t")
    for version in (1, 4, 6, 11):

        def ask(note: str, name: str, *parts: dict[str, Any], version: int = version, **more: Any) -> None:
            side.ask(
                "ListOffsets",
                version,
                note,
                topics=[{"name": name, "partitions": list(parts)}],
                **({"replica_id": -1} | more),
            )

        each = {"partition_index": 0, "timestamp": -1}
        ask("unknown topic", side.name("none"), each)
        ask("bad topic", "a b", each)
        ask(
            "unknown partition",
            topic,
            {"partition_index": 1, "timestamp": -1},
            {"partition_index": -1, "timestamp": -1},
        )
        ask("twice", topic, each, each)
        ask("no partitions", topic)
        side.ask("ListOffsets", version, "nothing", topics=[], replica_id=-1)
        for epoch in (0, 1, 5, -2):
            ask(f"leader epoch {epoch}", topic, {**each, "current_leader_epoch": epoch})
        for replica in (-2, 1, 2, -3):
            ask(f"replica {replica}", topic, each, replica_id=replica)
        for isolation in (2, -1):
            ask(f"isolation {isolation}", topic, each, isolation_level=isolation)
            ask(f"isolation {isolation} and an unknown topic", side.name("none"), each, isolation_level=isolation)
            ask(f"isolation {isolation} twice", topic, each, each, isolation_level=isolation)
            ask(f"isolation {isolation} at -77", topic, {**each, "timestamp": -77}, isolation_level=isolation)
            ask(f"isolation {isolation} and no partitions", topic, isolation_level=isolation)


def offset_for_leader_epoch(side: Side) -> None:
    topic, empty = side.topic("t"), side.topic("e")
    _fill(side, topic, some(3))
    for version in (2, 3, 4):
        for name in (topic, empty, side.name("none"), "a b"):
            for current in (-1, 0, 1):
                for epoch in (-1, 0, 1, 5, -2):
                    part = {"partition": 0, "current_leader_epoch": current, "leader_epoch": epoch}
                    side.ask(
                        "OffsetForLeaderEpoch",
                        version,
                        f"{name[-4:]} {current} {epoch}",
                        replica_id=-1,
                        topics=[{"topic": name, "partitions": [part]}],
                    )
        part = {"partition": 7, "leader_epoch": 0}
        side.ask(
            "OffsetForLeaderEpoch",
            version,
            "unknown partition",
            replica_id=-1,
            topics=[{"topic": topic, "partitions": [part]}],
        )
        side.ask("OffsetForLeaderEpoch", version, "nothing", replica_id=-1, topics=[])


def delete_records(side: Side) -> None:
    for version in range(3):
        topic, compact = side.topic(f"v{version}"), side.topic(f"c{version}", cleanup_policy="compact")
        both = side.topic(f"b{version}", cleanup_policy="compact,delete")
        for name in (topic, compact, both):
            _fill(side, name, some(5), some(5))

        def ask(note: str, name: str, *wanted: tuple[int, int], version: int = version) -> None:
            parts = [{"partition_index": index, "offset": offset} for index, offset in wanted]
            side.ask("DeleteRecords", version, note, topics=[{"name": name, "partitions": parts}], timeout_ms=5_000)

        for offset in (0, 3, 2, 11, -2, 2**62, 7, 10, 10, -1):
            ask(f"to {offset}", topic, (0, offset))
        _fill(side, topic, some(2))
        ask("to the end", topic, (0, -1))
        ask("unknown partition", topic, (1, 0), (-1, 0))
        ask("unknown topic", side.name("none"), (0, 0))
        ask("bad topic", "a b", (0, 0))
        ask("compacted", compact, (0, 3))
        ask("both policies", both, (0, 3))
        ask("twice", topic, (0, 11), (0, 12))
        ask("no partitions", topic)
        side.ask("DeleteRecords", version, "nothing", topics=[], timeout_ms=5_000)
        side.ask(
            "ListOffsets",
            7,
            "start",
            replica_id=-1,
            topics=[{"name": topic, "partitions": [{"partition_index": 0, "timestamp": -2}]}],
        )
        side.ask(
            "Fetch",
            12,
            "start",
            topics=[
                {"topic": topic, "partitions": [{"partition": 0, "fetch_offset": 12, "partition_max_bytes": 9_999}]}
            ],
        )
    side.quiet("FindCoordinator", 2, key="g", key_type=0)
    side.ask(
        "DeleteRecords",
        2,
        "internal",
        topics=[
            {
                "name": "__consumer_offsets",
                "partitions": [{"partition_index": index, "offset": 0} for index in (-1, 0, 5_000)],
            }
        ],
        timeout_ms=5_000,
    )
