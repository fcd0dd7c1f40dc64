"""Replicas, leaders, reassignments, the quorum, configuration resources and client quotas.

Error messages are compared too: these APIs answer with Kafka's words.
"""

from __future__ import annotations

import math
from itertools import count
from typing import Any, Final

from tests.conformance.side import Side

METADATA: Final = "__cluster_metadata"
PRODUCE: Final = "producer_byte_rate"
CONSUME: Final = "consumer_byte_rate"
PERCENTAGE: Final = "request_percentage"
MUTATIONS: Final = "controller_mutation_rate"
CONNECTIONS: Final = "connection_creation_rate"
VALUES: Final = (
    1.0, 0.0, -0.0, -1.0, -0.5, 0.5, 1e-7, 0.9999999, 1.0000001, 1.0000009, 1.000002, 1.9999999, 2.0**53, 2.0**63, 9.3e18, 1e30,
    2.0**31 - 1, 2.0**31, 2.0**31 - 0.5, 1e-320, math.inf, -math.inf,
)  # fmt: skip
ADDRESSES: Final = (
    "10.0.0.1", "::1", "[::1]", "localhost", "LOCALHOST", "1", "127.1", "1.2.3", "01.02.03.04", "4294967295", "4294967296",
    "256.1.1.1", "999.0.0.1", "1.2.3.4.5", "1.2.3.", " 1.2.3.4", "1.2.3.4 ", "0x7f.1", "not an ip", "a_b", "a.invalid", ".", "",
)  # fmt: skip


# --- replicas and leaders


def alter_replica_log_dirs(side: Side) -> None:
    topic, other, none = side.topic("t", 3), side.topic("u"), side.name("none")
    here = side.quiet("DescribeLogDirs", 4, topics=[]).results[0].log_dir
    for version in (1, 2):
        for note, dirs in {
            "where it is": [(here, {topic: [0]})],
            "a slash too many": [(here + "/", {topic: [0]})],
            "an absent directory": [("/absent", {topic: [0], none: [0]})],
            "a relative path": [("logs", {topic: [0]})],
            "no path": [("", {topic: [0]})],
            "unknown ones": [(here, {topic: [9, -1], none: [0], "a/b": [0], "": [0]})],
            "several": [(here, {topic: [2, 0], other: [0], none: [0]}), ("/absent", {topic: [1], other: [5]})],
            "a partition under two paths": [(here, {topic: [0]}), ("/absent", {topic: [0]})],
            "a partition twice": [(here, {topic: [0, 0]})],
            "a path twice": [("/absent", {topic: [0]}), (here, {topic: [1]}), (here, {topic: [0]})],
            "nothing": [],
            "no topics": [(here, {})],
            "no partitions": [(here, {topic: []})],
        }.items():
            request = [
                {"path": path, "topics": [{"name": name, "partitions": indexes} for name, indexes in topics.items()]}
                for path, topics in dirs
            ]
            reply = side.quiet("AlterReplicaLogDirs", version, dirs=request)
            side.table(
                f"v{version} {note}",
                {
                    f"{each.topic_name} {partition.partition_index}": partition.error_code
                    for each in reply.results
                    for partition in each.partitions
                },
            )
            side.note(f"v{version} {note}, topics", sorted(each.topic_name for each in reply.results))


def elect_leaders(side: Side) -> None:
    topic, other, none = side.topic("t", 3), side.topic("u"), side.name("none")
    wanted: dict[str, list[tuple[str, list[int]]] | None] = {
        "one": [(topic, [0])], "several": [(topic, [2, 0, 9, -1]), (none, [0]), (other, [0])], "nothing": [],
        "a partition twice": [(topic, [0, 0])], "a topic twice": [(topic, [0]), (topic, [1])],
        "no partitions": [(topic, []), (none, [])], "names": [("", [0]), ("a/b", [0])], "all": None,
    }  # fmt: skip
    for version in range(3):
        for kind in (0, 1, 2, -1) if version else (0,):
            for timeout_ms in (5_000, 0, -1):
                for note, topics in wanted.items():
                    request = topics and [{"topic": name, "partitions": indexes} for name, indexes in topics]
                    reply = side.quiet(
                        "ElectLeaders", version, election_type=kind, topic_partitions=request, timeout_ms=timeout_ms
                    )
                    label = f"v{version} type {kind} in {timeout_ms} ms: {note}"
                    side.note(f"{label}, error", reply.error_code)
                    actual = [
                        [each.topic, *([p.partition_id, p.error_code, p.error_message] for p in each.partition_result)]
                        for each in reply.replica_election_results
                        if topics is not None or each.topic in (topic, other)
                    ]
                    side.note(label, actual if topics is not None else sorted(actual))


def alter_partition_reassignments(side: Side) -> None:
    topic, none = side.topic("t", 3), side.name("none")
    every = (None, [1], [1, 2], [2], [], [1, 1], [-1], [1, -1], [1, 3, 2], [1, 1, 2], [2, 2], [1, 1, -1])
    wanted: dict[str, list[tuple[str, list[tuple[int, list[int] | None]]]]] = {
        **{f"to {replicas}": [(topic, [(0, replicas)])] for replicas in every},
        **{
            f"{name}, to {replicas}": [(name, [(0, replicas)])]
            for name in ("", "a/b", none, METADATA)
            for replicas in every
        },
        "unknown partitions": [(topic, [(9, [1]), (-1, None), (9, [])])],
        "several": [(topic, [(2, [1]), (0, None), (2, [2])]), (none, []), (topic, [(1, [1])]), (topic, [])],
        "nothing": [],
    }
    for version in (0, 1):
        for allow in (True, False) if version else (True,):
            for timeout_ms in (5_000, 0):
                for note, topics in wanted.items():
                    request = [
                        {"name": name, "partitions": [{"partition_index": at, "replicas": to} for at, to in partitions]}
                        for name, partitions in topics
                    ]
                    reply = side.quiet(
                        "AlterPartitionReassignments",
                        version,
                        timeout_ms=timeout_ms,
                        allow_replication_factor_change=allow,
                        topics=request,
                    )
                    side.note(f"v{version} {allow} in {timeout_ms} ms: {note}", [
                        str(reply.allow_replication_factor_change), str(reply.error_code), str(reply.error_message),
                        *([each.name, *([p.partition_index, p.error_code, p.error_message] for p in each.partitions)]
                          for each in reply.responses),
                    ])  # fmt: skip


def list_partition_reassignments(side: Side) -> None:
    topic = side.topic("t")
    for timeout_ms in (5_000, 0):
        for names in (None, [], [topic], [side.name("none")], [topic, topic]):
            for indexes in ([0], [], [9]):
                request = None if names is None else [{"name": name, "partition_indexes": indexes} for name in names]
                reply = side.ask(
                    "ListPartitionReassignments", 0, f"{names} {indexes}", timeout_ms=timeout_ms, topics=request
                )
                side.note("message", str(reply.error_message))


# --- the quorum and configuration resources


def describe_quorum(side: Side) -> None:
    topic = side.topic("t")
    wanted: list[list[tuple[str, list[int]]]] = [
        [(METADATA, [0])], [(METADATA, [1])], [(METADATA, [-1])], [(topic, [0])], [(METADATA, [0]), (topic, [0])],
        [(topic, [0]), (METADATA, [0])], [(METADATA, [0, 1])], [(METADATA, [0, 0])], [(METADATA, [0])] * 2, [(METADATA, [])],
        [(METADATA, [0]), (topic, [])], [(METADATA, [0]), (METADATA, [])], [],
    ]  # fmt: skip
    for version in range(3):
        for number, topics in enumerate(wanted):
            sent = [
                {"topic_name": name, "partitions": [{"partition_index": at} for at in at_all]}
                for name, at_all in topics
            ]
            reply = side.ask("DescribeQuorum", version, f"request {number}", topics=sent)
            side.note(
                "messages", [str(reply.error_message), *(p.error_message for t in reply.topics for p in t.partitions)]
            )


def list_config_resources(side: Side) -> None:
    topics = {side.topic("t"), side.topic("u")}
    side.ask("ListConfigResources", 0)
    kinds = (
        [],
        [2],
        [4],
        [8],
        [16],
        [32],
        [2, 4],
        [4, 2, 2],
        [0],
        [3],
        [99],
        [-1],
        [2, 99],
        [16, 32, 8],
        [2, 4, 8, 16, 32],
    )
    for types in kinds:
        reply = side.quiet("ListConfigResources", 1, resource_types=types)
        side.note(f"{types} error", reply.error_code)
        actual = [(each.resource_type, each.resource_name) for each in reply.config_resources]
        side.note(f"{types} others", [f"{kind} {name}" for kind, name in actual if kind != 2])
        side.note(f"{types} topics", sorted(name for kind, name in actual if kind == 2 and name in topics))


# --- client quotas

Entity = list[tuple[str, str | None]]
Ops = list[tuple[str, float | None]]


class _Quotas:
    """Sends requests about quotas and records parts of the replies."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.numbers = count()

    def alter(self, note: str, *entries: tuple[Entity, Ops], version: int = 1, only: bool = False) -> None:
        reply = self.side.quiet("AlterClientQuotas", version, entries=_entries(entries), validate_only=only)
        messages = {_shown(each.entity): f"{each.error_code} {each.error_message}" for each in reply.entries}
        self.side.table(f"v{version} {note}{', only validated' if only else ''}", messages)
        self.side.note("answers", len(reply.entries))

    def describe(
        self, note: str, *components: tuple[str, int, str | None], strict: bool = False, version: int = 1
    ) -> None:
        """Record every entity whose names belong to this case, are defaults, or are addresses."""
        self._settle()
        reply = self._ask(version, components, strict)
        label = f"v{version} {note}{', strictly' if strict else ''}"
        self.side.note(f"{label}, error", f"{reply.error_code} {reply.error_message} {reply.entries is None}")
        actual = {
            _shown(entry.entity): {each.key: repr(each.value) for each in entry.values}
            for entry in reply.entries or ()
            if all(
                part.entity_name is None or part.entity_type == "ip" or part.entity_name.startswith(self.side.own)
                for part in entry.entity
            )
            and not any((part.entity_name or "").startswith(self.side.name("settled")) for part in entry.entity)
        }
        self.side.table(label, actual)

    def _settle(self) -> None:
        """Wait until Kafka's broker, which applies changes some time after the reply, shows a later change."""
        last = self.side.name(f"settled-{next(self.numbers)}")
        self.side.quiet(
            "AlterClientQuotas", 1, entries=_entries([([("user", last)], [(PRODUCE, 1.0)])]), validate_only=False
        )
        request = [{"entity_type": "user", "match_type": 0, "match": last}]
        self.side.until(lambda reply: bool(reply.entries), "DescribeClientQuotas", 1, components=request, strict=True)

    def _ask(self, version: int, components: tuple[tuple[str, int, str | None], ...], strict: bool) -> Any:
        request = [
            {"entity_type": kind, "match_type": match_type, "match": match} for kind, match_type, match in components
        ]
        return self.side.quiet("DescribeClientQuotas", version, components=request, strict=strict)


def _entries(entries: Any) -> list[dict[str, Any]]:
    return [
        {
            "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
            "ops": [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in ops],
        }
        for entity, ops in entries
    ]


def _shown(entity: Any) -> str:
    return ", ".join(f"{part.entity_type}={part.entity_name}" for part in entity) or "no entity"


def client_quotas_that_are_described(side: Side) -> None:
    quotas = _Quotas(side)
    alice, bob, client = ("user", side.name("alice")), ("user", side.name("bob")), ("client-id", side.name("c"))
    any_user, any_client, any_ip = ("user", None), ("client-id", None), ("ip", None)
    names = {"user": alice[1], "client-id": client[1], "ip": "10.0.0.1"}
    for version in (0, 1):
        quotas.alter(
            "set",
            ([any_user], [(PRODUCE, 1.0)]),
            ([client], [(PERCENTAGE, 50.5)]),
            ([any_client], [(PERCENTAGE, 60.0)]),
            ([alice, client], [(PRODUCE, 3.0), (CONSUME, 4.0)]),
            ([alice, any_client], [(PRODUCE, 4.0)]),
            ([any_client, any_user], [(PRODUCE, 5.0)]),
            ([any_user, client], [(MUTATIONS, 5.5)]),
            ([bob], [(MUTATIONS, 1.0)]),
            ([("ip", "10.0.0.1")], [(CONNECTIONS, 7.0)]),
            ([any_ip], [(CONNECTIONS, 8.0)]),
            version=version,
        )
        for strict in (False, True):
            quotas.describe("all", strict=strict, version=version)
            for kind, name in names.items():
                for note, match_type, match in (
                    ("exactly", 0, name),
                    ("default", 1, None),
                    ("any", 2, None),
                    ("none", 0, "x"),
                ):
                    quotas.describe(f"{kind} {note}", (kind, match_type, match), strict=strict, version=version)
            for user_type, client_type in ((0, 0), (0, 1), (1, 2), (2, 2)):
                components = (
                    ("user", user_type, None if user_type else alice[1]),
                    ("client-id", client_type, None if client_type else client[1]),
                )
                quotas.describe(f"both {user_type} {client_type}", *components, strict=strict, version=version)
        quotas.alter(
            "remove", ([alice, client], [(PRODUCE, None)]), ([bob], [(MUTATIONS, None), ("foo", None)]), version=version
        )
        quotas.describe("what is left", version=version)
        quotas.alter(
            "remove all", *(([each], [(CONNECTIONS, None)]) for each in (any_ip, ("ip", "10.0.0.1"))), version=version
        )
        every = [(key, None) for key in (PRODUCE, CONSUME, PERCENTAGE, MUTATIONS)]
        remaining: list[Entity] = [
            [any_user], [client], [any_client], [alice, client], [alice, any_client], [any_client, any_user], [any_user, client],
        ]  # fmt: skip
        quotas.alter("remove the rest", *((entity, every) for entity in remaining), version=version)
        quotas.describe("nothing is left", version=version)


def client_quotas_of_bad_filters(side: Side) -> None:
    quotas = _Quotas(side)
    for version in (0, 1):
        for note, components in {
            "an unknown type": [("foo", 0, "x")], "any of an unknown type": [("foo", 2, None)], "capitals": [("User", 2, None)],
            "no type": [("", 2, None)], "match 3": [("user", 3, None)], "match -1": [("user", -1, "x")],
            "exactly null": [("user", 0, None)], "default with a name": [("user", 1, "x")], "any with a name": [("user", 2, "x")],
            "a type twice": [("user", 0, "a"), ("user", 2, None)], "a type twice, bad": [("user", 0, "a"), ("user", 7, None)],
            "user and ip": [("user", 2, None), ("ip", 2, None)], "ip and client-id": [("ip", 0, "x"), ("client-id", 1, None)],
            "an unknown type last": [("ip", 2, None), ("user", 2, None), ("foo", 2, None)],
            "an unknown type twice": [("foo", 0, "x"), ("foo", 0, "x")], "both unknown": [("foo", 7, None)],
            "two problems": [("foo", 0, None), ("", 0, "x")], "a bad address": [("ip", 0, "not an ip")], "": [("user", 0, "")],
        }.items():  # fmt: skip
            quotas.describe(note, *components, version=version)


def client_quotas_of_bad_entities(side: Side) -> None:
    quotas = _Quotas(side)
    user, client, address = ("user", side.name("x")), ("client-id", side.name("x")), ("ip", "10.0.0.9")
    foo = ("foo", "x")
    entities: list[Entity] = [
        [], [foo], [("foo", "")], [("", "x")], [("User", "x")], [("user", "")], [("client-id", "")],
        [("user", ""), ("client-id", "")], [("user", ""), foo], [foo, user], [address, foo], [user, address], [client, address],
        [address, user, client], [("ip", "not an ip"), user], [("ip", ""), user], [user, ("user", side.name("y"))], [user, user],
        [client, user], [user, client], [("user", side.name("ü %/"))],
    ]  # fmt: skip
    for version in (0, 1):
        for only in (True, False):
            for number, entity in enumerate(entities):
                for ops in ([(PRODUCE, 1.0)], [], [("foo", 1.0)], [("foo", None)], [("foo", 1.0), ("foo", 1.0)]):
                    quotas.alter(f"entity {number} {ops}", (entity, ops), version=version, only=only)
    quotas.describe("at the end")


def client_quotas_of_bad_values(side: Side) -> None:
    quotas = _Quotas(side)
    for only in (True, False):
        for key in (PRODUCE, CONSUME, PERCENTAGE, MUTATIONS, CONNECTIONS, "foo", ""):
            for value in VALUES:
                for entity in (("user", side.name("x")), ("client-id", side.name("x")), ("ip", "10.0.0.8")):
                    quotas.alter(f"{entity[0]} {key} {value}", ([entity], [(key, value)]), only=only)
        for address in ADDRESSES:
            quotas.alter(f"address {address!r}", ([("ip", address)], [(CONNECTIONS, 1.0)]), only=only)
        quotas.alter("NaN", ([("user", side.name("nan"))], [(PRODUCE, math.nan), (PERCENTAGE, math.nan)]), only=only)
        quotas.alter("half good", ([("user", side.name("half"))], [(PRODUCE, 1.0), ("foo", 1.0)]), only=only)
        quotas.describe("in the end" if only else "at the end")
    quotas.alter("gone", *(([("ip", address)], [(CONNECTIONS, None)]) for address in ("10.0.0.8", *ADDRESSES)))


def client_quotas_twice_in_a_request(side: Side) -> None:
    """The first of two entries for an entity is executed, but both are answered as duplicates."""
    quotas = _Quotas(side)
    for number, (first, second) in enumerate((
        ([(PRODUCE, 1.0)], [(CONSUME, 2.0)]), ([(PRODUCE, 1.0)], [(PRODUCE, 2.0)]), ([(PRODUCE, 1.0)], [("foo", 1.0)]),
        ([("foo", 1.0)], [(PRODUCE, 1.0)]), ([(PRODUCE, 1.0)], [(PRODUCE, None)]), ([], [(PRODUCE, 1.0)]),
        ([(PRODUCE, 1.0), (PRODUCE, 2.0)], [(CONSUME, 1.0)]), ([(PRODUCE, 1.0), (PRODUCE, None)], []),
    )):  # fmt: skip
        entity: Entity = [("user", side.name(f"u{number}")), ("client-id", None)]
        other: Entity = [("user", side.name(f"v{number}"))]
        for only in (True, False):
            quotas.alter(f"{number}", (entity, first), (other, [(PRODUCE, 1.0)]), (entity[::-1], second), only=only)
        quotas.describe(f"{number}")
