"""Send every request as users with different ACLs to Apache Kafka and Stuntbroker, and compare the replies.

Each user has a topic, a group and a transactional id of their own, which the user's ACLs are about, and a topic that no ACL is
about. The administrator, who connects without authentication, is a super user.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple
from uuid import uuid4

import pytest

from tests.conformance.acl_requests import requests
from tests.conformance.compare import compared, run_case, transcript
from tests.conformance.conftest import SETTINGS, SWEEP, SWEEP_MS, USERS, Pair, both
from tests.conformance.side import Side, Step, errors_of
from tests.kit.processes.free_ports import free_ports

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 2, 3, 4, 5
USER, CREATE_TOKENS = 7, 13
ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = (
    range(2, 13)
)
LITERAL, PREFIXED = 3, 4
DENY, ALLOW = 2, 3
AUTHORIZER: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:admin",
}


ANYTHING: Final = {
    "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1, "principal_filter": None,
    "host_filter": None, "operation": 1, "permission_type": 1,
}  # fmt: skip
"""A filter that every ACL matches."""
PROPAGATED_S: Final = 0.1
"""Time after which Kafka's broker has the ACLs of its controller."""


class Given(NamedTuple):
    """An ACL of a user. A name is one of the user's own, unless it is `*` or `kafka-cluster`."""

    resource: int
    name: str
    operation: int
    permission: int = ALLOW
    pattern: int = LITERAL
    host: str = "*"


def on_own(*operations: int) -> list[Given]:
    return [
        Given(resource, name, operation)
        for operation in operations
        for resource, name in ((TOPIC, "t"), (GROUP, "g"), (TRANSACTIONAL_ID, "x"))
        if resource == TOPIC or operation not in (CREATE, ALTER)
        if resource != TRANSACTIONAL_ID or operation in (ALL, READ, WRITE, DESCRIBE)
    ]


def on_cluster(*operations: int) -> list[Given]:
    return [Given(CLUSTER, "kafka-cluster", operation) for operation in operations]


EVERYTHING: Final = [Given(kind, "*", ALL) for kind in (TOPIC, GROUP, TRANSACTIONAL_ID)] + on_cluster(ALL)
ACLS: Final[dict[str, list[Given]]] = {
    "nobody": [],
    "describes": on_own(DESCRIBE),
    "reads": on_own(READ),
    "writes": on_own(WRITE),
    "reads-and-writes": on_own(READ, WRITE),
    "creates": on_own(CREATE, DESCRIBE),
    "deletes": on_own(DELETE),
    "alters": on_own(ALTER),
    "describes-configs": on_own(DESCRIBE_CONFIGS),
    "alters-configs": on_own(ALTER_CONFIGS),
    "owns": on_own(ALL),
    "owns-prefix": [Given(kind, "", ALL, pattern=PREFIXED) for kind in (TOPIC, GROUP, TRANSACTIONAL_ID)],
    "writes-transactions": [Given(TOPIC, "t", WRITE)],
    "reads-topics": [Given(TOPIC, "t", READ)],
    "reads-groups": [Given(GROUP, "g", READ), Given(TRANSACTIONAL_ID, "x", WRITE)],
    "denied-reads": [*EVERYTHING, Given(TOPIC, "t", READ, DENY), Given(GROUP, "g", READ, DENY)],
    "denied-writes": [*EVERYTHING, Given(TOPIC, "t", WRITE, DENY), Given(TRANSACTIONAL_ID, "x", WRITE, DENY)],
    "denied-describes": [*EVERYTHING, Given(TOPIC, "t", DESCRIBE, DENY), Given(GROUP, "g", DESCRIBE, DENY)],
    "denied-all": [*EVERYTHING, Given(TOPIC, "", ALL, DENY, PREFIXED)],
    "owns-undescribed": [*on_own(ALL), Given(TOPIC, "t", DESCRIBE, DENY)],
    "describes-all": [*on_own(DESCRIBE), Given(TOPIC, "*", DESCRIBE)],
    "cluster-describes": on_cluster(DESCRIBE),
    "cluster-alters": on_cluster(ALTER),
    "cluster-creates": [*on_cluster(CREATE), *on_own(DESCRIBE)],
    "cluster-deletes": on_cluster(DELETE),
    "cluster-acts": on_cluster(CLUSTER_ACTION),
    "cluster-describes-configs": on_cluster(DESCRIBE_CONFIGS),
    "cluster-alters-configs": on_cluster(ALTER_CONFIGS),
    "idempotent": on_cluster(IDEMPOTENT_WRITE),
    "everything": EVERYTHING,
    "elsewhere": [each._replace(host="192.0.2.1") for each in EVERYTHING],
    "here": [each._replace(host="127.0.0.1") for each in EVERYTHING],
}  # fmt: skip
"""User -> ACLs."""
ALL_USERS: Final = {**USERS, **{name: f"{name}-secret" for name in ACLS}}


def acl(user: str, own: str, given: Given) -> dict[str, Any]:
    """Return an ACL as CreateAcls takes it."""
    name = (
        given.name
        if given.name in ("*", "kafka-cluster")
        else f"{own}-{given.name}".rstrip("-") + "-" * (not given.name)
    )
    return {
        "resource_type": given.resource, "resource_name": name, "resource_pattern_type": given.pattern,
        "principal": f"User:{user}", "host": given.host, "operation": given.operation, "permission_type": given.permission,
    }  # fmt: skip


@pytest.fixture(scope="module")
def acl_pairs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Pair, Pair]]:
    """The listeners for the administrator, and those for users."""
    sasl = Pair(*(f"127.0.0.1:{port}" for port in free_ports(2)))
    times = {SWEEP: SWEEP_MS}
    with both(
        tmp_path_factory.mktemp("acls"),
        {**SETTINGS, **AUTHORIZER},
        times,
        kafka_settings=AUTHORIZER,
        sasl=sasl,
        users=ALL_USERS,
    ) as created:
        yield created, sasl


def prepare_user(admin: Side, user: str) -> None:
    """Create what belongs to a user, and the user's ACLs; wait until they are in force."""
    topic = admin.topic("t")
    admin.topic("other")
    for name in ("gone-t", "gone-2"):
        admin.topic(name)
    part = {"partition_index": 0, "committed_offset": 1}
    topics = [{"name": name, "partitions": [part]} for name in (topic, admin.name("other"))]
    for group in ("g", "h"):
        admin.quiet("OffsetCommit", 8, group_id=admin.name(group), generation_id_or_member_epoch=-1, topics=topics)
    created = [acl(user, admin.own, each) for each in ACLS[user]]
    assert errors_of(admin.quiet("CreateAcls", 3, creations=created)) <= {0}
    mine = {**ANYTHING, "principal_filter": f"User:{user}"}
    admin.until(
        lambda reply: (
            sum(len(each.acls) for each in reply.resources) == len({tuple(each.values()) for each in created})
        ),
        "DescribeAcls",
        3,
        **mine,
    )


def authenticate(side: Side, user: str) -> None:
    side.quiet("SaslHandshake", 1, mechanism="PLAIN")
    reply = side.quiet("SaslAuthenticate", 2, auth_bytes=f"\0{user}\0{user}-secret".encode())
    assert reply.error_code == 0, reply.error_message


@pytest.mark.parametrize("user", ACLS)
def test_a_client_is_permitted_and_refused_what_kafka_permits_and_refuses(
    acl_pairs: tuple[Pair, Pair], user: str
) -> None:
    own = f"{user}-{uuid4().hex[:6]}"

    def run(addresses: tuple[str, str]) -> list[Step]:
        admin, side = Side(addresses[0], own), Side(addresses[1], own)
        try:
            prepare_user(admin, user)
            ids = {name: admin.topic_id(admin.name(name)) for name in ("t", "other")}
        finally:
            admin.close()
        authenticate(side, user)
        return transcript(lambda each: requests(each, ids), side)

    with ThreadPoolExecutor(2) as two:
        theirs, mine = two.map(run, zip(*acl_pairs, strict=True))
    actual = list(compared(f"requests of {user}", theirs, mine))

    assert [str(each) for each in actual if not (each.is_text or each.is_order or each.allowance)] == []


CODES: Final = range(7)
"""Codes of resource types, pattern types, operations and permission types, unknown ones among them."""
KINDS: Final = ("resource_type", "resource_pattern_type", "operation", "permission_type")


def acls_are_administered(side: Side) -> None:
    """Create, describe and delete ACLs, right and wrong."""
    right = {
        "resource_type": TOPIC, "resource_name": side.name("a"), "resource_pattern_type": LITERAL, "principal": "User:x",
        "host": "*", "operation": READ, "permission_type": ALLOW,
    }  # fmt: skip
    changes: list[dict[str, Any]] = [{kind: code} for kind in KINDS for code in (*CODES, 99)]
    changes += [
        {"principal": each} for each in ("x", "", ":", "User:", "Group:g", "User:*", "User:a:b", "User:CN=x,O=y")
    ]
    changes += [{"resource_name": each} for each in ("", "*", "a name")] + [
        {"host": each} for each in ("", "192.0.2.1")
    ]
    changes += [{"resource_type": CLUSTER, "resource_name": name} for name in ("kafka-cluster", "*", "other")]
    changes += [{"resource_type": USER, "resource_name": "User:y", "operation": CREATE_TOKENS}, {"operation": 15}]
    for version in (1, 3):
        for number, change in enumerate(changes):
            side.ask(
                "CreateAcls", version, f"{change}", on=f"create {version} {number}", creations=[{**right, **change}]
            )
    side.ask("CreateAcls", 3, "several", creations=[right, {**right, "principal": "x"}, right, {**right, "host": "h"}])
    side.ask("CreateAcls", 3, "one for ANY", creations=[{**right, "host": "h2"}, {**right, "operation": 1}])
    describe(side, "all", resource_name_filter=side.name("a"))
    for name in ("a", "ab", "b"):
        for pattern in range(1, 6):
            describe(side, f"{name} {pattern}", resource_name_filter=side.name(name), pattern_type_filter=pattern)
    prefixed = {**right, "resource_name": side.name("p"), "resource_pattern_type": PREFIXED}
    side.ask(
        "CreateAcls", 3, "prefixed", creations=[prefixed, {**prefixed, "operation": WRITE, "permission_type": DENY}]
    )
    for name in ("p", "pq", "o"):
        for pattern in (1, 2, LITERAL, PREFIXED):
            describe(side, f"{name} {pattern}", resource_name_filter=side.name(name), pattern_type_filter=pattern)
    for change in (
        {"operation": READ},
        {"permission_type": DENY},
        {"principal_filter": "User:x"},
        {"host_filter": "h"},
    ):
        describe(side, f"{change}", resource_name_filter=side.name("p"), **change)
        describe(side, f"{change} a", resource_name_filter=side.name("a"), **change)
    for change in ({"operation": READ}, {"host_filter": "h"}, {"host_filter": "none"}, {}, {}):
        wanted = {**ANYTHING, "resource_name_filter": side.name("a"), **change}
        several = [wanted, {**wanted, "pattern_type_filter": 2, "resource_name_filter": side.name("pp")}]
        reply = side.quiet("DeleteAcls", 3, filters=several)
        side.table(f"DeleteAcls {change}", {"deleted": [deleted_by(result) for result in reply.filter_results]})
    for kind in ("resource_type_filter", "pattern_type_filter", "operation", "permission_type"):
        for code in (*CODES, 99):
            wanted = {**ANYTHING, "resource_name_filter": side.name("none"), kind: code}
            side.ask("DeleteAcls", 3, f"{kind} {code}", on=f"delete {kind} {code}", filters=[wanted])
            side.ask("DescribeAcls", 3, f"{kind} {code}", on=f"describe {kind} {code}", **wanted)


def describe(side: Side, note: str, **wanted: Any) -> None:
    """Describe ACLs, once the controller's are those of the broker."""
    time.sleep(PROPAGATED_S)
    reply = side.quiet("DescribeAcls", 3, **{**ANYTHING, **wanted})
    resources = {
        f"{each.resource_type} {each.resource_name} {each.pattern_type}": sorted(
            (acl.principal, acl.host, acl.operation, acl.permission_type) for acl in each.acls
        )
        for each in reply.resources
        if each.resource_name != "*"
    }
    side.table(f"DescribeAcls {note}", {"error": reply.error_code, **resources})


def deleted_by(result: Any) -> list[tuple[Any, ...]]:
    """Return the error of a filter, and the ACLs that it deleted."""
    fields = (
        "error_code",
        "resource_type",
        "resource_name",
        "pattern_type",
        "principal",
        "host",
        "operation",
        "permission_type",
    )
    return [
        (result.error_code,),
        *sorted(tuple(getattr(each, name) for name in fields) for each in result.matching_acls),
    ]


def test_acls_are_created_described_and_deleted_as_by_kafka(acl_pairs: tuple[Pair, Pair]) -> None:
    actual = run_case(acls_are_administered, *acl_pairs[0], f"acls-{uuid4().hex[:6]}")

    assert [str(each) for each in actual if not (each.is_text or each.is_order or each.allowance)] == []
