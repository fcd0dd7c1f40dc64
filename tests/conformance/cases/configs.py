"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs."""

from __future__ import annotations

from typing import Any, Final

from tests.conformance.side import Side, errors_of

TOPIC: Final = 2
BROKER: Final = 4
SET, DELETE, APPEND, SUBTRACT = range(4)


def a_resource_of_an_unknown_type_fails_the_whole_request(side: Side) -> None:
    named = ((2, side.topic()), (7, "?"))
    wanted = [
        {"resource_type": kind, "resource_name": name, "configuration_keys": ["retention.ms"]} for kind, name in named
    ]
    for version in (1, 4):
        side.ask("DescribeConfigs", version, resources=wanted)


def describe_configs_of_a_topic(side: Side) -> None:
    topic = side.topic("t", 1, retention_ms="60000", cleanup_policy="compact")
    for version in range(1, 5):
        side.ask(
            "DescribeConfigs",
            version,
            "everything",
            resources=[{"resource_type": TOPIC, "resource_name": topic, "configuration_keys": None}],
        )
        side.ask(
            "DescribeConfigs",
            version,
            "synonyms",
            resources=[{"resource_type": TOPIC, "resource_name": topic, "configuration_keys": None}],
            include_synonyms=True,
        )
        side.ask(
            "DescribeConfigs",
            version,
            "documentation",
            resources=[{"resource_type": TOPIC, "resource_name": topic, "configuration_keys": ["retention.ms"]}],
            include_documentation=True,
        )


def describe_configs_by_key(side: Side) -> None:
    topic = side.topic("t", 1, retention_ms="60000")
    for version in range(1, 5):
        for note, keys in (
            ("two", ["retention.ms", "cleanup.policy"]), ("none", []), ("unknown", ["no.such.config"]),
            ("a key twice", ["retention.ms", "retention.ms"]), ("broker's", ["log.retention.ms"]),
        ):  # fmt: skip
            side.ask(
                "DescribeConfigs",
                version,
                note,
                resources=[{"resource_type": TOPIC, "resource_name": topic, "configuration_keys": keys}],
            )
        each = {"resource_type": TOPIC, "resource_name": topic, "configuration_keys": ["retention.ms"]}
        side.ask("DescribeConfigs", version, "a resource twice", resources=[each, each])
        side.ask("DescribeConfigs", version, "nothing", resources=[])
        for name in (side.name("none"), "a b", "", "x" * 250):
            side.ask("DescribeConfigs", version, f"topic {name[:9]!r}", resources=[{**each, "resource_name": name}])
        for kind in (0, 1, 3, 8, 9, 16, 32, -1, 99):
            side.ask(
                "DescribeConfigs",
                version,
                f"type {kind}",
                resources=[{**each, "resource_type": kind, "resource_name": "x"}],
            )
        for kind in (8, 16, 32):
            ask_of = {"resource_type": kind, "configuration_keys": ["no.such.config"]}
            for name in ("1", ""):
                side.ask(
                    "DescribeConfigs", version, f"type {kind} {name!r}", resources=[{**ask_of, "resource_name": name}]
                )
        for broker in ("1", "2", "x", "", "-1"):
            keys = ["message.max.bytes", "num.partitions"]
            side.ask(
                "DescribeConfigs",
                version,
                f"broker {broker!r}",
                resources=[{"resource_type": BROKER, "resource_name": broker, "configuration_keys": keys}],
            )


def describe_configs_of_the_broker(side: Side) -> None:
    keys = [
        "auto.create.topics.enable", "num.partitions", "message.max.bytes", "log.retention.ms", "log.segment.bytes", "node.id",
        "transaction.max.timeout.ms", "transactional.id.expiration.ms", "default.replication.factor", "compression.type",
        "group.min.session.timeout.ms", "log.cleanup.policy", "offsets.retention.minutes", "delete.topic.enable",
        "log.retention.minutes", "log.retention.hours", "log.roll.hours", "listener.security.protocol.map",
    ]  # fmt: skip
    for key in keys:
        side.ask(
            "DescribeConfigs",
            4,
            key,
            include_synonyms=True,
            resources=[{"resource_type": BROKER, "resource_name": "1", "configuration_keys": [key]}],
        )


def alter_configs(side: Side) -> None:
    for version in range(3):
        topic = side.topic(f"v{version}")

        def ask(
            note: str,
            *configs: tuple[str, str | None],
            kind: int = TOPIC,
            name: str = topic,
            version: int = version,
            shown: str = topic,
            **more: Any,
        ) -> None:
            given = [{"name": key, "value": value} for key, value in configs]
            reply = side.ask(
                "AlterConfigs",
                version,
                note,
                resources=[{"resource_type": kind, "resource_name": name, "configs": given}],
                **more,
            )
            _show(side, shown, reply)

        ask("validate only", ("retention.ms", "5000"), validate_only=True)
        ask("set", ("retention.ms", "5000"), ("cleanup.policy", "compact"))
        ask("replace", ("retention.ms", "6000"))
        ask("clear")
        ask("unknown key", ("no.such.config", "1"))
        ask("bad value", ("retention.ms", "x"))
        ask("null value", ("retention.ms", None))
        ask("a key twice", ("retention.ms", "1"), ("retention.ms", "2"))
        ask("unknown topic", ("retention.ms", "1"), name=side.name("none"))
        ask("bad topic", ("retention.ms", "1"), name="a b")
        ask("type 0", ("retention.ms", "1"), kind=0)
        ask("type 99", ("retention.ms", "1"), kind=99)
        for kind in (16, 32):
            ask(f"type {kind}", ("retention.ms", "1"), kind=kind, name="x")
            ask(f"type {kind} of no name", ("retention.ms", "1"), kind=kind, name="")
        ask("type 8", ("root", "INFO"), kind=8, name="1")
        ask("broker 2", ("message.max.bytes", "1000000"), kind=BROKER, name="2")
        ask("broker x", ("message.max.bytes", "1000000"), kind=BROKER, name="x")
        side.ask("AlterConfigs", version, "nothing", resources=[])
        # A topic twice is left out, as Kafka never replies to that.


def incremental_alter_configs(side: Side) -> None:
    for version in range(2):
        topic = side.topic(f"v{version}")

        def ask(
            note: str,
            *configs: tuple[int, str, str | None],
            kind: int = TOPIC,
            name: str = topic,
            version: int = version,
            shown: str = topic,
            **more: Any,
        ) -> None:
            given = [{"config_operation": operation, "name": key, "value": value} for operation, key, value in configs]
            reply = side.ask(
                "IncrementalAlterConfigs",
                version,
                note,
                resources=[{"resource_type": kind, "resource_name": name, "configs": given}],
                **more,
            )
            _show(side, shown, reply)

        ask("validate only", (SET, "retention.ms", "5000"), validate_only=True)
        ask("set", (SET, "retention.ms", "5000"))
        ask("set another", (SET, "max.message.bytes", "5000"))
        ask("set and delete", (SET, "segment.ms", "5000"), (DELETE, "retention.ms", None))
        ask("delete what is not set", (DELETE, "retention.ms", None))
        ask("delete with a value", (DELETE, "segment.ms", "x"))
        ask("append", (APPEND, "cleanup.policy", "compact"))
        ask("append again", (APPEND, "cleanup.policy", "compact"))
        ask("subtract", (SUBTRACT, "cleanup.policy", "delete"))
        ask("subtract what is not there", (SUBTRACT, "cleanup.policy", "delete"))
        ask("subtract the last", (SUBTRACT, "cleanup.policy", "compact"))
        ask("append two", (APPEND, "cleanup.policy", "delete,compact"))
        ask("set a blank", (SET, "cleanup.policy", "compact, delete"))
        ask("subtract without the blank", (SUBTRACT, "cleanup.policy", "delete"))
        ask("append with the blank", (APPEND, "cleanup.policy", " delete"))
        ask("subtract with the blank", (SUBTRACT, "cleanup.policy", " delete"))
        ask("set one twice", (SET, "cleanup.policy", "compact,delete,compact"))
        ask("subtract one of two", (SUBTRACT, "cleanup.policy", "compact"))
        ask("append to a number", (APPEND, "retention.ms", "5"))
        ask("subtract from a number", (SUBTRACT, "retention.ms", "5"))
        ask("append bad value", (APPEND, "cleanup.policy", "burn"))
        ask("append null", (APPEND, "cleanup.policy", None))
        ask("set null", (SET, "retention.ms", None))
        ask("set bad value", (SET, "retention.ms", "x"))
        ask("set empty", (SET, "cleanup.policy", ""))
        ask("unknown key", (SET, "no.such.config", "1"))
        ask("delete unknown key", (DELETE, "no.such.config", None))
        ask("a key twice", (SET, "retention.ms", "1"), (DELETE, "retention.ms", None))
        ask("operation 4", (4, "retention.ms", "1"))
        ask("operation -1", (-1, "retention.ms", "1"))
        ask("nothing to do")
        ask("unknown topic", (SET, "retention.ms", "1"), name=side.name("none"))
        ask("bad topic", (SET, "retention.ms", "1"), name="a b")
        ask("empty topic", (SET, "retention.ms", "1"), name="")
        ask("type 0", (SET, "retention.ms", "1"), kind=0)
        ask("type 99", (SET, "retention.ms", "1"), kind=99)
        for kind, named in ((8, "1"), (16, "x"), (32, "x")):
            for name in (named, ""):
                for operation in (SET, DELETE):
                    given = (operation, "retention.ms", "1" if operation == SET else None)
                    ask(f"type {kind} {name!r} {operation}", given, kind=kind, name=name, validate_only=True)
        ask("broker 2", (SET, "message.max.bytes", "1000000"), kind=BROKER, name="2")
        ask("broker x", (SET, "message.max.bytes", "1000000"), kind=BROKER, name="x")
        ask("broker read-only", (SET, "node.id", "7"), kind=BROKER, name="1")
        side.ask("IncrementalAlterConfigs", version, "nothing", resources=[])
        each = {
            "resource_type": TOPIC,
            "resource_name": topic,
            "configs": [{"config_operation": 0, "name": "retention.ms", "value": "1"}],
        }
        side.ask("IncrementalAlterConfigs", version, "a topic twice", resources=[each, each])
        bad = {"resource_type": TOPIC, "resource_name": side.name("none"), "configs": each["configs"]}
        side.ask("IncrementalAlterConfigs", version, "one good, one bad", resources=[each, bad])


def configs_in_force(side: Side) -> None:
    """CreateTopics returns the same configuration as DescribeConfigs."""
    given = [{"name": "retention.ms", "value": "77"}, {"name": "cleanup.policy", "value": " compact , delete "}]
    reply = side.quiet(
        "CreateTopics",
        7,
        topics=[{"name": side.name("t"), "num_partitions": 1, "replication_factor": 1, "configs": given}],
        timeout_ms=9_000,
    )
    side.note("configs of CreateTopics", reply.topics[0].configs)


def _show(side: Side, topic: str, reply: Any) -> None:
    """Record the topic's configuration after the alteration has taken effect."""
    if errors_of(reply) != {0}:
        return
    _apply(side)
    messages = side.quiet(
        "DescribeConfigs", 1, resources=[{"resource_type": TOPIC, "resource_name": topic, "configuration_keys": None}]
    )
    side.table("set now", {c.name: c.value for c in messages.results[0].configs if c.config_source == 1})


def _apply(side: Side) -> None:
    """Wait for all alterations so far: brokers apply them in order, so a later visible alteration implies the earlier ones."""
    topic, value = side.name("later"), str(len(side.steps))
    change = {"name": "retention.ms", "config_operation": 0, "value": value}
    later = [{"resource_type": TOPIC, "resource_name": topic, "configs": [change]}]
    if errors_of(side.quiet("IncrementalAlterConfigs", 1, resources=later)) != {0}:
        side.topic("later")
        side.quiet("IncrementalAlterConfigs", 1, resources=later)
    request = [{"resource_type": TOPIC, "resource_name": topic, "configuration_keys": ["retention.ms"]}]
    side.until(lambda reply: reply.results[0].configs[0].value == value, "DescribeConfigs", 1, resources=request)
