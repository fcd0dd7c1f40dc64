"""CreateTopics, DeleteTopics, CreatePartitions, Metadata, DescribeTopicPartitions, DescribeCluster, DescribeLogDirs."""

from __future__ import annotations

from typing import Any, Final

from stuntbroker.protocol.primitives import ZERO_UUID
from tests.conformance.side import Side, errors_of

UNKNOWN_ID: Final = bytes.fromhex("00112233445546778899aabbccddeeff")
BAD_NAMES: Final = ("", ".", "..", "a b", "a/b", "ä", "x" * 250, "a:b")


def _new(name: str, partitions: int = 1, factor: int = 1, **more: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": partitions, "replication_factor": factor, **more}


def create_topics_at_every_version(side: Side) -> None:
    for version in range(2, 8):
        name = side.name(f"v{version}")
        side.ask("CreateTopics", version, "validate only", topics=[_new(name, 3)], validate_only=True, timeout_ms=9_000)
        config = {"name": "retention.ms", "value": "1000"}
        side.ask("CreateTopics", version, "create", topics=[_new(name, 3, configs=[config])], timeout_ms=9_000)
        side.ask("CreateTopics", version, "again", topics=[_new(name, 3)], timeout_ms=9_000)
        side.ask(
            "CreateTopics",
            version,
            "again, validate only",
            topics=[_new(name, 3)],
            validate_only=True,
            timeout_ms=9_000,
        )
        side.ask("CreateTopics", version, "defaults", topics=[_new(name + "-d", -1, -1)], timeout_ms=9_000)


def create_topics_wrongly(side: Side) -> None:
    for version in (2, 4, 7):

        def ask(note: str, *topics: dict[str, Any], version: int = version) -> None:
            side.ask("CreateTopics", version, note, topics=list(topics), timeout_ms=9_000)

        own = side.name(f"v{version}")
        for bad in BAD_NAMES:
            ask(f"name {bad[:9]!r}", _new(bad))
        for count in (0, -1, -2, 20_000):
            ask(f"{count} partitions", _new(own, count))
        for factor in (0, -1, -2, 2, 32_767):
            ask(f"factor {factor}", _new(own, 1, factor))
            side.quiet("DeleteTopics", 1, topic_names=[own], timeout_ms=9_000)
        ask("no topics")
        ask("the same twice", _new(own + "-2"), _new(own + "-2"))
        ask("one good, one bad", _new(own + "-3"), _new("a b"))
        for key, value in (
            ("no.such.config", "1"), ("retention.ms", "x"), ("retention.ms", "-2"), ("retention.ms", None),
            ("cleanup.policy", "burn"), ("cleanup.policy", "compact,delete"), ("compression.type", "rar"),
            ("min.insync.replicas", "0"), ("segment.bytes", "1"), ("retention.ms", ""), ("cleanup.policy", ""),
            ("segment.bytes", "1e6"), ("unclean.leader.election.enable", "maybe"), ("retention.ms", " 5 "),
            ("min.cleanable.dirty.ratio", "2"), ("message.timestamp.type", "NoTime"), ("flush.messages", "0"),
            ("compression.zstd.level", "23"), ("compression.gzip.level", "0"), ("max.message.bytes", "-1"),
            ("leader.replication.throttled.replicas", "*"), ("message.format.version", "2.8"), ("remote.storage.enable", "true"),
        ):  # fmt: skip
            ask(
                f"{key}={value}",
                _new(
                    f"{own}-{key}-{value}".replace(" ", "_")[:100].replace(",", "."),
                    configs=[{"name": key, "value": value}],
                ),
            )
        unknown, wrong = {"name": "no.such.config", "value": "1"}, {"name": "retention.ms", "value": "x"}
        taken = side.topic(f"v{version}_taken")
        for note, topic in (
            ("no partitions and a config", _new(own, 0, 1, configs=[unknown])),
            ("factor 3 and a config", _new(own, 1, 3, configs=[wrong])),
            ("factor 0 and a config", _new(own, 1, 0, configs=[wrong])),
            ("bad name and a config", _new("a b", 1, 1, configs=[unknown])),
            ("there already and a config", _new(taken, 1, 1, configs=[unknown])),
            ("collides and a config", _new(taken.replace("_", "."), 1, 1, configs=[unknown])),
            ("no partitions and factor 0", _new(own, 0, 0)), ("no partitions and factor 3", _new(own, 0, 3)),
            ("assigned, counted and a config", _new(
                own, 2, 1, configs=[unknown], assignments=[{"partition_index": 0, "broker_ids": [1]}],
            )),
        ):  # fmt: skip
            ask(note, topic)
        twice = [{"name": "retention.ms", "value": "1"}, {"name": "retention.ms", "value": "2"}]
        ask("a config twice", _new(own + "-4", configs=twice))


def without_any_time(side: Side) -> None:
    """A time-out that expires immediately: the broker neither validates nor executes the request."""
    topic = side.topic("t")
    known = {"name": None, "topic_id": side.topic_id(topic)}
    for time_ms in (0, -1):
        for version in (2, 4, 5, 7):
            new = [_new(side.name(f"v{version}{time_ms}")), _new("a b"), _new(topic)]
            side.ask("CreateTopics", version, f"{time_ms} ms", topics=new, timeout_ms=time_ms)
            side.ask("CreateTopics", version, f"{time_ms} ms, twice", topics=[new[0], new[0]], timeout_ms=time_ms)
            more = {"validate_only": True}
            side.ask("CreateTopics", version, f"{time_ms} ms, validate only", topics=new, timeout_ms=time_ms, **more)
        for version in (0, 2, 3):
            new = [{"name": name, "count": 5, "assignments": None} for name in (topic, side.name("none"))]
            side.ask("CreatePartitions", version, f"{time_ms} ms", topics=new, timeout_ms=time_ms)
        for version in (1, 4, 5):
            names = [topic, side.name("none")]
            side.ask("DeleteTopics", version, f"{time_ms} ms", topic_names=names, timeout_ms=time_ms)
        side.ask("DeleteTopics", 6, f"{time_ms} ms", topics=[known, {"name": topic}], timeout_ms=time_ms)
    side.ask("Metadata", 4, "then", topics=[{"name": topic}], allow_auto_topic_creation=False)


def create_topics_by_assignment(side: Side) -> None:
    for version in (2, 7):

        def ask(
            note: str,
            assignments: list[tuple[int, list[int]]],
            count: int = -1,
            factor: int = -1,
            version: int = version,
        ) -> None:
            given = [{"partition_index": at, "broker_ids": ids} for at, ids in assignments]
            topic = _new(side.name(f"v{version}-{note}").replace(" ", "-"), count, factor, assignments=given)
            side.ask("CreateTopics", version, note, topics=[topic], timeout_ms=9_000)

        ask("right", [(0, [1]), (1, [1])])
        ask("with a count", [(0, [1])], count=1)
        ask("with a factor", [(0, [1])], factor=1)
        ask("unknown broker", [(0, [77])])
        ask("a broker twice", [(0, [1, 1])])
        ask("no brokers", [(0, [])])
        ask("from one", [(1, [1])])
        ask("with a hole", [(0, [1]), (2, [1])])
        ask("a partition twice", [(0, [1]), (0, [1])])
        ask("negative broker", [(0, [-1])])


def names_that_collide(side: Side) -> None:
    side.ask("CreateTopics", 7, "with a dot", topics=[_new(side.name("a.b"))], timeout_ms=9_000)
    side.ask("CreateTopics", 7, "with an underscore", topics=[_new(side.name("a_b"))], timeout_ms=9_000)
    side.ask("CreateTopics", 7, "both", topics=[_new(side.name("c.d")), _new(side.name("c_d"))], timeout_ms=9_000)
    side.quiet("FindCoordinator", 2, key="g", key_type=0)
    side.ask("CreateTopics", 7, "internal", topics=[_new("__consumer_offsets")], timeout_ms=9_000)


def delete_topics(side: Side) -> None:
    for version in range(1, 6):
        name = side.topic(f"v{version}")
        side.ask("DeleteTopics", version, "delete", topic_names=[name], timeout_ms=9_000)
        side.ask("DeleteTopics", version, "again", topic_names=[name], timeout_ms=9_000)
        side.ask("DeleteTopics", version, "nothing", topic_names=[], timeout_ms=9_000)
        other = side.topic(f"v{version}-b")
        side.ask("DeleteTopics", version, "twice", topic_names=[other, other], timeout_ms=9_000)
        side.ask("DeleteTopics", version, "bad name", topic_names=["a b", ""], timeout_ms=9_000)


def delete_topics_by_id(side: Side) -> None:
    each, two, three = side.topic("a"), side.topic("b"), side.topic("c")
    by_id = {"topic_id": side.topic_id(each)}

    def ask(note: str, *topics: dict[str, Any]) -> None:
        side.ask("DeleteTopics", 6, note, topics=list(topics), timeout_ms=9_000)

    ask("unknown id", {"topic_id": UNKNOWN_ID})
    ask("neither", {"name": None, "topic_id": ZERO_UUID})
    ask("both", {"name": each, **by_id})
    ask("name and id", {"name": two}, {"topic_id": side.topic_id(two)})
    ask("an id twice", by_id, by_id)
    ask("unknown name", {"name": side.name("none")})
    ask("id", by_id)
    ask("id again", by_id)
    ask("name", {"name": three})
    ask("empty name", {"name": ""})


def create_partitions(side: Side) -> None:
    for version in range(4):
        topic = side.topic(f"v{version}")

        def ask(note: str, *topics: dict[str, Any], validate: bool = False, version: int = version) -> None:
            side.ask("CreatePartitions", version, note, topics=list(topics), timeout_ms=9_000, validate_only=validate)

        def grow(count: int, assignments: Any = None, name: str = topic) -> dict[str, Any]:
            given = None if assignments is None else [{"broker_ids": ids} for ids in assignments]
            return {"name": name, "count": count, "assignments": given}

        ask("validate only", grow(3), validate=True)
        ask("to 3", grow(3))
        side.wait_for_topic(topic, 3)
        ask("to 3 again", grow(3))
        for count in (2, 0, -1):  # Adding 10,000 or more breaks Kafka's controller.
            ask(f"to {count}", grow(count))
        ask("unknown", grow(3, name=side.name("none")))
        ask("bad name", grow(3, name="a b"), grow(3, name=""))
        ask("twice", grow(4), grow(5))
        ask("nothing")
        ask("assigned", grow(5, [[1], [1]]))
        side.wait_for_topic(topic, 5)
        ask("assigned too few", grow(8, [[1]]))
        ask("assigned too many", grow(6, [[1], [1]]))
        ask("assigned nowhere", grow(6, [[9]]))
        ask("assigned empty", grow(6, [[]]))
        ask("no assignments", grow(6, []))
        ask("assigned twice", grow(6, [[1, 1]]))


def metadata(side: Side) -> None:
    topic = side.topic("t", 2)
    for version in range(14):

        def ask(note: str, topics: Any, version: int = version, **more: Any) -> None:
            side.ask("Metadata", version, note, topics=topics, allow_auto_topic_creation=False, **more)

        ask("one", [{"name": topic}])
        ask(
            "operations",
            [{"name": topic}],
            include_cluster_authorized_operations=True,
            include_topic_authorized_operations=True,
        )
        if version >= 4:
            ask("unknown", [{"name": side.name("none")}])
        ask("bad names", [{"name": bad} for bad in BAD_NAMES])
        ask("twice", [{"name": topic}, {"name": topic}])
        if version:
            ask("none", [])
        if version >= 12:
            known = side.topic_id(topic)
            ask("by id", [{"topic_id": known, "name": None}])
            ask("unknown id", [{"topic_id": UNKNOWN_ID, "name": None}])
            ask("id and name", [{"topic_id": known, "name": topic}])
            ask("no id and no name", [{"topic_id": ZERO_UUID, "name": None}])
            ask("id and id", [{"topic_id": known, "name": None}, {"topic_id": UNKNOWN_ID, "name": None}])
            ask("id and another name", [{"topic_id": known, "name": None}, {"name": topic}])
        elif version >= 10:
            ask("id of 12", [{"topic_id": UNKNOWN_ID, "name": topic}])
            ask("null name", [{"topic_id": ZERO_UUID, "name": None}])
    every = side.quiet("Metadata", 12, topics=None)
    side.note("all", [t for t in every.topics if t.name == topic])
    every = side.quiet("Metadata", 0, topics=[])
    side.note("all v0", [t for t in every.topics if t.name == topic])


def metadata_makes_topics(side: Side) -> None:
    for version in (0, 3, 4, 9, 12, 13):
        name = side.name(f"v{version}")
        side.ask("Metadata", version, "first", topics=[{"name": name}], allow_auto_topic_creation=True)
        side.until(
            lambda r: errors_of(r) == {0}, "Metadata", version, topics=[{"name": name}], allow_auto_topic_creation=True
        )
        side.ask("Metadata", version, "then", topics=[{"name": name}], allow_auto_topic_creation=True)
    side.ask(
        "Metadata",
        9,
        "collides",
        topics=[{"name": side.name("v.0")}, {"name": side.name("v_0")}],
        allow_auto_topic_creation=True,
    )


def internal_topics(side: Side) -> None:
    side.quiet("FindCoordinator", 2, key="g", key_type=0)
    side.quiet("FindCoordinator", 2, key="t", key_type=1)
    for name in ("__consumer_offsets", "__transaction_state"):
        for version in (1, 12):
            side.ask("Metadata", version, name, topics=[{"name": name}], allow_auto_topic_creation=True)
        side.ask(
            "DescribeConfigs",
            1,
            name,
            resources=[
                {
                    "resource_type": 2,
                    "resource_name": name,
                    "configuration_keys": [
                        "cleanup.policy",
                        "compression.type",
                        "segment.bytes",
                        "min.insync.replicas",
                        "unclean.leader.election.enable",
                    ],
                }
            ],
        )


def describe_topic_partitions(side: Side) -> None:
    each, two, three = side.topic("a", 3), side.topic("b", 1), side.topic("c", 4)

    def ask(note: str, *names: str, limit: int = 2_000, cursor: dict[str, Any] | None = None) -> Any:
        return side.ask(
            "DescribeTopicPartitions",
            0,
            note,
            topics=[{"name": n} for n in names],
            response_partition_limit=limit,
            cursor=cursor,
        )

    ask("three", three, each, two)
    ask("twice", each, each)
    ask("unknown", side.name("none"), each)
    ask("bad names", *BAD_NAMES)
    for bad in BAD_NAMES:
        ask(f"bad name {bad[:9]!r}", bad)
        ask(f"bad name {bad[:9]!r} and an unknown one", side.name("none"), bad)
    for limit in (1, 2, 3, 4, 7, 8, 0, -1, 2_001):
        ask(f"at most {limit}", each, two, three, limit=limit)
    for name in (each, two, three, side.name("none"), "zzz", "aaa"):
        for index in (0, 2, 5, -1):
            ask(
                f"from {name[-5:]} {index}",
                each,
                two,
                three,
                cursor={"topic_name": name, "partition_index": index},
                limit=4,
            )
    ask("unknown and a limit", each, side.name("aa"), two, limit=2)


def describe_cluster(side: Side) -> None:
    for version in range(3):
        for operations in (False, True):
            side.ask(
                "DescribeCluster", version, f"operations {operations}", include_cluster_authorized_operations=operations
            )
        if version:
            for endpoint in (1, 2, 0, 3, -1):
                side.ask("DescribeCluster", version, f"endpoint {endpoint}", endpoint_type=endpoint)
    side.ask("DescribeCluster", 2, "fenced too", include_fenced_brokers=True)


def describe_log_dirs(side: Side) -> None:
    topic = side.topic("t", 2)
    for version in range(1, 6):
        side.ask("DescribeLogDirs", version, "one", topics=[{"topic": topic, "partitions": [0, 1]}])
        side.ask(
            "DescribeLogDirs",
            version,
            "unknown",
            topics=[{"topic": topic, "partitions": [7]}, {"topic": side.name("no"), "partitions": [0]}],
        )
        side.ask("DescribeLogDirs", version, "twice", topics=[{"topic": topic, "partitions": [1, 1]}] * 2)
        side.ask("DescribeLogDirs", version, "none", topics=[])
        side.ask("DescribeLogDirs", version, "no partitions", topics=[{"topic": topic, "partitions": []}])
