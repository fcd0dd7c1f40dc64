"""ACLs decide as in Kafka's StandardAuthorizer. tests/conformance/test_acls.py compares the requests with a running Kafka."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stuntbroker.broker.configuration.config import BrokerConfig
from stuntbroker.broker.metadata.acls import Acls
from stuntbroker.broker.permissions.acl_authorizer import AclAuthorizer
from stuntbroker.broker.permissions.authorizer import ConfiguredAuthorizer, Principal
from stuntbroker.protocol.acls import ALLOW, DENY, LITERAL, PREFIXED, Acl, Operation, Resource

STANDARD = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
TOPIC, ALL, READ, WRITE, DESCRIBE = Resource.TOPIC, Operation.ALL, Operation.READ, Operation.WRITE, Operation.DESCRIBE


class Asking(NamedTuple):
    """A client, as an authorizer sees it."""

    principal: Principal = Principal("User", "alice")
    host: str = "192.0.2.1"


ALICE = Asking()


def acl(operation: Operation, permission: int = ALLOW, name: str = "t", **other: Any) -> Acl:
    return Acl(TOPIC, name, LITERAL, "User:alice", "*", operation, permission)._replace(**other)


def authorizer_with(acls: Iterable[Acl], **properties: str) -> AclAuthorizer:
    config = BrokerConfig(STANDARD | {name.replace("_", "."): value for name, value in properties.items()})
    return AclAuthorizer(config, Acls(lambda change: None, acls), ConfiguredAuthorizer(config))


@pytest.mark.parametrize(
    ("acls", "operation", "is_allowed"),
    {
        "nothing is allowed without an ACL": ([], READ, False),
        "what an ACL allows is allowed": ([acl(READ)], READ, True),
        "and nothing else": ([acl(READ)], WRITE, False),
        "ALL allows every operation": ([acl(ALL)], WRITE, True),
        "ALL denies every operation": ([acl(ALL), acl(ALL, DENY)], READ, False),
        "a denial has precedence": ([acl(READ, DENY), acl(READ)], READ, False),
        "whatever the order": ([acl(READ), acl(READ, DENY)], READ, False),
        "a denial of another operation does not count": ([acl(READ), acl(WRITE, DENY)], READ, True),
        "reading includes describing": ([acl(READ)], DESCRIBE, True),
        "deleting includes describing": ([acl(Operation.DELETE)], DESCRIBE, True),
        "creating does not include describing": ([acl(Operation.CREATE)], DESCRIBE, False),
        "a denial of reading denies no describing": ([acl(DESCRIBE), acl(READ, DENY)], DESCRIBE, True),
        "describing does not include reading": ([acl(DESCRIBE)], READ, False),
        "altering configurations includes describing them": (
            [acl(Operation.ALTER_CONFIGS)],
            Operation.DESCRIBE_CONFIGS,
            True,
        ),
        "an ACL of another topic does not count": ([acl(READ, name="u")], READ, False),
        "an ACL of another type of resource does not count": ([acl(READ, resource_type=Resource.GROUP)], READ, False),
        "* stands for all topics": ([acl(READ, name="*")], READ, True),
        "a prefix stands for all topics that begin with it": ([acl(READ, pattern_type=PREFIXED)], READ, True),
        "a longer prefix does not": ([acl(READ, name="tt", pattern_type=PREFIXED)], READ, False),
        "* as a prefix is a letter": ([acl(READ, name="*", pattern_type=PREFIXED)], READ, False),
        "User:* stands for everybody": ([acl(READ, principal="User:*")], READ, True),
        "an ACL of another user does not count": ([acl(READ, principal="User:bob")], READ, False),
        "an ACL of another type of principal does not count": ([acl(READ, principal="Group:alice")], READ, False),
        "the host counts": ([acl(READ, host="192.0.2.2")], READ, False),
        "the right host": ([acl(READ, host="192.0.2.1")], READ, True),
    }.values(),
)
def test_an_operation_is_allowed_by_the_acls(acls: list[Acl], operation: Operation, is_allowed: bool) -> None:
    assert authorizer_with(acls).allows(ALICE, operation, TOPIC, "t") == is_allowed


@pytest.mark.parametrize(
    ("host", "acl_host"),
    [
        ("::1", "0:0:0:0:0:0:0:1"),
        ("2001:db8::ff", "2001:db8:0:0:0:0:0:ff"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
    ],
)
def test_an_ipv6_host_is_matched_in_the_notation_of_java(host: str, acl_host: str) -> None:
    authorizer = authorizer_with([acl(READ, host=acl_host)])

    assert authorizer.allows(Asking(host=host), READ, TOPIC, "t")
    assert not authorizer.allows(Asking(host="::2"), READ, TOPIC, "t")


def test_super_users_may_do_everything() -> None:
    authorizer = authorizer_with([acl(ALL, DENY)], super_users="User:bob; User:alice")

    assert authorizer.allows(ALICE, READ, TOPIC, "t")


def test_everybody_may_use_a_resource_without_acls_if_the_configuration_says_so() -> None:
    authorizer = authorizer_with([acl(WRITE)], allow_everyone_if_no_acl_found="true")

    assert authorizer.allows(ALICE, READ, TOPIC, "without")
    assert not authorizer.allows(ALICE, READ, TOPIC, "t")


def test_an_acl_change_takes_effect_immediately() -> None:
    acls = Acls(lambda change: None, [])
    config = BrokerConfig(STANDARD)
    authorizer = AclAuthorizer(config, acls, ConfiguredAuthorizer(config))
    answers = [authorizer.allows(ALICE, READ, TOPIC, "t")]

    acls.add(acl(READ))
    answers.append(authorizer.allows(ALICE, READ, TOPIC, "t"))
    acls.remove(acl(READ))
    answers.append(authorizer.allows(ALICE, READ, TOPIC, "t"))

    assert answers == [False, True, False]


def test_the_property_that_denies_two_phase_commit_overrides_acls() -> None:
    authorizer = authorizer_with(
        [acl(ALL, resource_type=Resource.TRANSACTIONAL_ID, name="*")], stuntbroker_deny_two_phase_commit="t"
    )

    allowed = [
        name
        for name in ("t", "u")
        if authorizer.allows(ALICE, Operation.TWO_PHASE_COMMIT, Resource.TRANSACTIONAL_ID, name)
    ]

    assert allowed == ["u"]


NAMES = st.text("ab", min_size=1, max_size=3) | st.just("*")


@given(
    st.lists(
        st.builds(
            acl,
            st.sampled_from([ALL, WRITE, READ]),
            st.sampled_from([ALLOW, DENY]),
            name=NAMES,
            pattern_type=st.sampled_from([LITERAL, PREFIXED]),
            principal=st.sampled_from(["User:alice", "User:*", "User:bob"]),
        ),
        max_size=6,
        unique=True,
    )
)
def test_allows_some_is_true_if_any_topic_name_is_allowed(acls: list[Acl]) -> None:
    authorizer = authorizer_with(acls)
    # The name of each ACL, and a name with that prefix which no other ACL names.
    names = [name for each in acls for name in (each.resource_name, f"{each.resource_name}~")] + ["~"]

    expected = any(authorizer.allows(ALICE, WRITE, TOPIC, name) for name in names)

    assert authorizer.allows_some(ALICE, WRITE, TOPIC) == expected
