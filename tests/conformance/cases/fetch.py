"""Fetch: offsets, limits, epochs, sessions."""

from __future__ import annotations

from typing import Any, Final

from tests.conformance.batches import GZIP, ZSTD, batch, record, some
from tests.conformance.side import Side

UNKNOWN_ID: Final = bytes.fromhex("00112233445546778899aabbccddeeff")
WHOLE: Final = 1 << 20


def _fill(side: Side, topic: str, *batches: bytes, partition: int = 0) -> None:
    for records in batches:
        data = [{"name": topic, "partition_data": [{"index": partition, "records": records}]}]
        side.quiet("Produce", 9, acks=-1, timeout_ms=5_000, topic_data=data)


def _part(partition: int = 0, offset: int = 0, limit: int = WHOLE, **more: Any) -> dict[str, Any]:
    return {"partition": partition, "fetch_offset": offset, "partition_max_bytes": limit, **more}


def fetch_at_many_versions(side: Side) -> None:
    topic = side.topic("t", 2)
    known = side.topic_id(topic)
    _fill(side, topic, some(3), some(2, attributes=GZIP), some(1))
    for version in (4, 6, 7, 9, 11, 12, 13, 14, 15, 16, 18):

        def ask(note: str, *parts: dict[str, Any], topics: Any = None, version: int = version, **more: Any) -> None:
            request = [{"topic": topic, "topic_id": known, "partitions": list(parts)}] if topics is None else topics
            side.ask("Fetch", version, note, topics=request, **more)

        ask("both", _part(0), _part(1))
        for offset in (1, 3, 5, 6, 7, -1, -2, 2**62):
            ask(f"from {offset}", _part(0, offset))
        ask("committed", _part(0), isolation_level=1)
        for isolation in (2, -1):
            there = {"topic": topic, "topic_id": known, "partitions": [_part(0)]}
            absent = {"topic": side.name("none"), "topic_id": UNKNOWN_ID, "partitions": [_part(0), _part(1)]}
            for what, topics in (
                ("", [there]), (" and an unknown topic", [absent]), (" and one of two topics", [there, absent]),
                (" and an unknown partition", [{**there, "partitions": [_part(7)]}]), (" and nothing", []),
            ):  # fmt: skip
                ask(f"isolation {isolation}{what}", topics=topics, isolation_level=isolation)
        ask("unknown partition", _part(2), _part(-1), _part(0))
        ask("unknown topic", topics=[{"topic": side.name("none"), "topic_id": UNKNOWN_ID, "partitions": [_part()]}])
        ask("no id", topics=[{"topic": "", "topic_id": bytes(16), "partitions": [_part()]}])
        ask("nothing", topics=[])
        ask("no partitions", topics=[{"topic": topic, "topic_id": known, "partitions": []}])
        ask("twice", _part(0), _part(0, 3))
        ask("bad name", topics=[{"topic": "a b", "topic_id": UNKNOWN_ID, "partitions": [_part()]}])
        ask("waits", _part(1), max_wait_ms=30, min_bytes=1)
        ask("no time", _part(1), max_wait_ms=0, min_bytes=1)
        ask("negative time", _part(1), max_wait_ms=-1, min_bytes=1)
        if version <= 14:
            for replica in (1, 2, -2, -3):
                ask(f"replica {replica}", _part(0), replica_id=replica)


def fetch_limits(side: Side) -> None:
    topic = side.topic("t", 3)
    for partition in range(3):
        _fill(side, topic, some(3), some(3), some(3), partition=partition)
    size = len(some(3))
    for version in (4, 12):
        for limit in (0, 1, size - 1, size, size + 1, 2 * size, 2 * size + 70, -1):
            side.ask(
                "Fetch", version, f"partition {limit}", topics=[{"topic": topic, "partitions": [_part(0, 0, limit)]}]
            )
            side.ask(
                "Fetch",
                version,
                f"partition {limit} from 4",
                topics=[{"topic": topic, "partitions": [_part(0, 4, limit)]}],
            )
            three = [_part(at) for at in range(3)]
            if limit >= 0:
                side.ask(
                    "Fetch", version, f"all {limit}", topics=[{"topic": topic, "partitions": three}], max_bytes=limit
                )
            side.ask(
                "Fetch",
                version,
                f"each {limit}",
                topics=[{"topic": topic, "partitions": [_part(at, 0, limit) for at in range(3)]}],
            )
        side.ask(
            "Fetch",
            version,
            "one byte in all, first empty",
            topics=[{"topic": topic, "partitions": [_part(0, 9), _part(1), _part(2)]}],
            max_bytes=1,
        )
        side.ask(
            "Fetch",
            version,
            "min bytes there",
            topics=[{"topic": topic, "partitions": [_part(0)]}],
            min_bytes=size,
            max_wait_ms=5_000,
        )
        side.ask(
            "Fetch",
            version,
            "min bytes not there",
            topics=[{"topic": topic, "partitions": [_part(0)]}],
            min_bytes=1 << 20,
            max_wait_ms=50,
        )


def fetch_epochs(side: Side) -> None:
    topic = side.topic("t")
    known = side.topic_id(topic)
    _fill(side, topic, some(3), some(2))
    for version in (9, 11, 12, 16, 18):
        for current in (-1, 0, 1, 5, -2):
            part = _part(0, 0, current_leader_epoch=current)
            side.ask(
                "Fetch",
                version,
                f"leader epoch {current}",
                topics=[{"topic": topic, "topic_id": known, "partitions": [part]}],
            )
        if version >= 12:
            for last in (-1, 0, 1, -2):
                for offset in (0, 5, 6, 100):
                    part = _part(0, offset, last_fetched_epoch=last)
                    side.ask(
                        "Fetch",
                        version,
                        f"last epoch {last} at {offset}",
                        topics=[{"topic": topic, "topic_id": known, "partitions": [part]}],
                    )


def fetch_old_codecs(side: Side) -> None:
    topic = side.topic("t", 2)
    _fill(side, topic, some(3), some(2, attributes=ZSTD), some(1))
    _fill(side, topic, some(2, attributes=ZSTD), partition=1)
    for version in (4, 9, 10, 12):
        side.ask("Fetch", version, "behind plain", topics=[{"topic": topic, "partitions": [_part(0), _part(1)]}])
        side.ask("Fetch", version, "from 3", topics=[{"topic": topic, "partitions": [_part(0, 3)]}])
        side.ask("Fetch", version, "behind zstd", topics=[{"topic": topic, "partitions": [_part(0, 5)]}])


def fetch_from_the_middle(side: Side) -> None:
    topic = side.topic("t", 1, segment_bytes="1048576")
    _fill(side, topic, *[some(10) for _ in range(5)])
    for offset in (0, 5, 9, 10, 25, 49, 50):
        side.ask("Fetch", 12, f"from {offset}", topics=[{"topic": topic, "partitions": [_part(0, offset, 500)]}])
    side.ask(
        "DeleteRecords",
        2,
        "to 15",
        topics=[{"name": topic, "partitions": [{"partition_index": 0, "offset": 15}]}],
        timeout_ms=5_000,
    )
    for offset in (0, 14, 15, 16, 50):
        side.ask("Fetch", 12, f"then from {offset}", topics=[{"topic": topic, "partitions": [_part(0, offset, 500)]}])


def fetch_over_segments(side: Side) -> None:
    """A partition's part of a response ends with its segment, and no fetch from an old segment waits for more bytes."""
    topic = side.topic("t", 2, segment_bytes="1048576")
    large = [record(0, b"k", bytes(700_000))]
    _fill(side, topic, *[batch(large) for _ in range(3)], some(2))
    _fill(side, topic, some(1), partition=1)
    for offset in range(5):
        for limit in (1, 1 << 20, 8 << 20):
            parts = [_part(0, offset, limit), _part(1)]
            side.ask("Fetch", 12, f"{limit} from {offset}", topics=[{"topic": topic, "partitions": parts}])
    for offset in (0, 2):
        wanted = [{"topic": topic, "partitions": [_part(0, offset, 8 << 20)]}]
        side.ask("Fetch", 12, f"many bytes from {offset}", topics=wanted, min_bytes=4 << 20, max_wait_ms=300)


def _session(
    side: Side, version: int, topic: str, known: bytes, note: str, session: int, epoch: int, parts: Any, **more: Any
) -> Any:
    request = [{"topic": topic, "topic_id": known, "partitions": parts}] if parts else []
    return side.ask("Fetch", version, note, session_id=session, session_epoch=epoch, topics=request, **more)


def fetch_sessions(side: Side) -> None:
    for version in (7, 12, 13, 18):
        topic = side.topic(f"v{version}", 3)
        known = side.topic_id(topic)
        for partition in range(3):
            _fill(side, topic, some(3), partition=partition)

        def ask(
            note: str,
            session: int,
            epoch: int,
            parts: Any = (),
            version: int = version,
            topic: str = topic,
            known: bytes = known,
            **more: Any,
        ) -> Any:
            return _session(side, version, topic, known, note, session, epoch, parts, **more)

        forget = {"topic": topic, "topic_id": known, "partitions": [1]}
        ask("no session", 0, -1, [_part(0)])
        each = ask("new", 0, 0, [_part(0), _part(1), _part(2)])
        number = each.session_id
        side.note("there is a session", number != 0)
        ask("nothing moved", number, 1)
        ask("one moved", number, 2, [_part(0, 3)])
        ask("unread ones again", number, 3)
        ask("all read", number, 4, [_part(1, 3), _part(2, 3)], max_wait_ms=10)
        _fill(side, topic, some(1), partition=1)
        ask("news of one", number, 5)
        ask("still unread", number, 6)
        ask("read", number, 7, [_part(1, 4)])
        ask("epoch too low", number, 7)
        ask("epoch too high", number, 12)
        ask("epoch goes on", number, 8)
        ask("forget", number, 9, forgotten_topics_data=[forget])
        _fill(side, topic, some(1), partition=1)
        ask("forgotten", number, 10)
        ask("back", number, 11, [_part(1, 4)])
        ask("unknown partition in it", number, 12, [_part(7)])
        ask("unknown partition stays", number, 13)
        ask("forget what is not there", number, 14, forgotten_topics_data=[{**forget, "partitions": [7, 9]}])
        ask("out of range", number, 15, [_part(0, 99)])
        ask("out of range stays", number, 16)
        ask("right again", number, 17, [_part(0, 3)])
        ask("unknown session", 123_456, 1)
        ask("unknown session, epoch -1", 123_456, -1, [_part(0)])
        ask("unknown session, epoch 0", 123_456, 0, [_part(0)])
        ask("negative session", -5, 1)
        ask("close and read", number, -1, [_part(0)])
        ask("closed", number, 18)
        two = ask("new again", 0, 0, [_part(0)])
        side.note("another", two.session_id not in (0, number))
        ask("replace", two.session_id, 0, [_part(1)])
        ask("replaced", two.session_id, 1)
        ask("epoch -2", two.session_id, -2)
        empty = side.quiet("Fetch", version, session_id=0, session_epoch=0, topics=[])
        side.note("new and empty", empty.session_id != 0)


def fetch_sessions_and_other_topics(side: Side) -> None:
    each, two = side.topic("a"), side.topic("b")
    ids = {name: side.topic_id(name) for name in (each, two)}
    _fill(side, each, some(1))
    _fill(side, two, some(2))
    for version in (7, 12, 13, 16):

        def ask(
            note: str, session: int, epoch: int, *names: str, gone: tuple[str, ...] = (), version: int = version
        ) -> Any:
            return side.ask(
                "Fetch",
                version,
                note,
                session_id=session,
                session_epoch=epoch,
                topics=[{"topic": n, "topic_id": ids.get(n, UNKNOWN_ID), "partitions": [_part(0)]} for n in names],
                forgotten_topics_data=[{"topic": n, "topic_id": ids[n], "partitions": [0]} for n in gone],
            )

        number = ask("one", 0, 0, each).session_id
        ask("two more", number, 1, two)
        ask("without the first", number, 2, gone=(each,))
        ask("an unknown one", number, 3, side.name("none"))
        ask("still", number, 4)
        ask("forget and add the same", number, 5, each, gone=(each,))
        ask("all gone", number, 6, gone=(each, two))
    gone = side.topic("c")
    ids[gone] = side.topic_id(gone)
    for version in (12, 13):
        topics = [{"topic": gone, "topic_id": ids[gone], "partitions": [_part(0)]}]
        if version == 12:
            number = side.ask(
                "Fetch", version, "before it is deleted", session_id=0, session_epoch=0, topics=topics
            ).session_id
            side.quiet("DeleteTopics", 1, topic_names=[gone], timeout_ms=9_000)
            side.until(
                lambda r: r.topics[0].error_code == 3,
                "Metadata",
                4,
                topics=[{"name": gone}],
                allow_auto_topic_creation=False,
            )
            side.ask("Fetch", version, "after", session_id=number, session_epoch=1)
        side.ask("Fetch", version, "deleted", topics=topics)
    ids[gone] = UNKNOWN_ID
    mixed = side.ask(
        "Fetch", 13, "by id", session_id=0, session_epoch=0, topics=[{"topic_id": ids[each], "partitions": [_part(0)]}]
    )
    side.ask(
        "Fetch",
        12,
        "then by name",
        session_id=mixed.session_id,
        session_epoch=1,
        topics=[{"topic": each, "partitions": [_part(0)]}],
    )
