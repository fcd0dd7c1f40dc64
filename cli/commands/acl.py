"""`stuntbroker acl`: ACLs of any Kafka with an authorizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from stuntbroker.cli.arguments import UsageError
from stuntbroker.cli.commands.verbs import COMMON_USAGE, Options, Shown, Verb, run_verb
from stuntbroker.cli.tables import table
from stuntbroker.client.commands.acls import (
    CONSUMER_OF,
    EVERYTHING,
    PRODUCER_OF,
    create_acls,
    delete_acls,
    list_acls,
)
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.protocol.acls import (
    ALLOW,
    ANY,
    CLUSTER_NAME,
    DENY,
    EVERY,
    LITERAL,
    MATCH,
    PATTERN_NAMES,
    PERMISSION_NAMES,
    PREFIXED,
    Acl,
    AclFilter,
    Operation,
    Resource,
    operation_name,
    resource_name,
)

USAGE: Final = (
    """\
usage: stuntbroker acl COMMAND [options]

  list     list the ACLs that match all given options; a resource also matches the ACLs of patterns that cover it
  create   let principals do something, or forbid it
           --producer              what a producer needs: on topics, and on transactional ids
           --consumer              what a consumer needs: on topics and groups
           --deny                  forbid it; a denial has precedence
           --prefixed              the names of resources are prefixes

  delete   delete the ACLs that match all given options, of which one must be given

  These describe ACLs, and may be repeated:
           --principal User:NAME   for whom; User:* is everybody
           --operation NAME        READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS,
                                   ALTER_CONFIGS, IDEMPOTENT_WRITE, TWO_PHASE_COMMIT or ALL
           --topic T  --group G  --transactional-id X
                                   on which resource; * is every one
           --cluster               on the cluster
           --host ADDRESS          only from this address

  The broker needs authorizer.class.name (docs/how-to/acls.md). The commands work with any Kafka:
"""
    + COMMON_USAGE
    + """\

Examples:
  stuntbroker acl create --principal User:alice --producer --topic orders --transactional-id payments-1
  stuntbroker acl list --topic orders
"""
)

RESOURCE_OPTIONS: Final = {
    "--topic": Resource.TOPIC,
    "--group": Resource.GROUP,
    "--transactional-id": Resource.TRANSACTIONAL_ID,
}
OPTIONS: Final = ("--principal", "--operation", *RESOURCE_OPTIONS, "--host")
COLUMNS: Final = ("PRINCIPAL", "HOST", "PERMISSION", "OPERATION", "RESOURCE", "NAME", "PATTERN")

OnCluster = Callable[[Cluster], Shown]


def acl(arguments: list[str]) -> int:
    """Run one of the commands for ACLs; return the exit status."""
    return run_verb("acl", VERBS, arguments)


def _list(given: Options) -> OnCluster:
    filters = _filters(given, MATCH)

    def operation(cluster: Cluster) -> Shown:
        acls = sorted({acl for each in filters for acl in list_acls(cluster, each)})
        return Shown(table(COLUMNS, [_row(acl) for acl in acls]), {"acls": [_document(acl) for acl in acls]})

    return operation


def _create(given: Options) -> OnCluster:
    acls = _new_acls(given)

    def operation(cluster: Cluster) -> Shown:
        create_acls(cluster, acls)
        text = "".join(f"{acl.describe()}\n" for acl in acls)
        return Shown(text, {"created": [_document(acl) for acl in acls]}, is_data=False)

    return operation


def _delete(given: Options) -> OnCluster:
    filters = _filters(given, ANY)
    if filters == [EVERYTHING]:
        raise UsageError("acl delete needs an option that says which ACLs")

    def operation(cluster: Cluster) -> Shown:
        acls = delete_acls(cluster, filters)
        text = "".join(f"deleted: {acl.describe()}\n" for acl in acls) or "no ACL matches\n"
        return Shown(text, {"deleted": [_document(acl) for acl in acls]}, is_data=False)

    return operation


def _resources(given: Options) -> list[tuple[Resource, str]]:
    named = [(resource, name) for option, resource in RESOURCE_OPTIONS.items() for name in given.get(option, ())]
    return [*named, *([(Resource.CLUSTER, CLUSTER_NAME)] if "--cluster" in given else ())]


def _operations(given: Options) -> list[Operation]:
    known = Operation.__members__
    names = [text.upper().replace("-", "_") for text in given.get("--operation", ())]
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"--operation {unknown[0]!r}: it must be one of {', '.join(known)}")
    return [known[name] for name in names]


def _principals(given: Options) -> list[str]:
    principals = given.get("--principal", [])
    if wrong := [each for each in principals if ":" not in each]:
        raise UsageError(f"--principal {wrong[0]!r}: it must be User:NAME")
    return principals


def _new_acls(given: Options) -> list[Acl]:
    """Return the ACLs to create. Raises UsageError."""
    principals, resources, operations = _principals(given), _resources(given), _operations(given)
    roles = [role for flag, role in (("--producer", PRODUCER_OF), ("--consumer", CONSUMER_OF)) if flag in given]
    if not principals:
        raise UsageError("acl create needs --principal User:NAME")
    if not resources:
        raise UsageError("acl create needs --topic, --group, --transactional-id or --cluster")
    if not operations and not roles:
        raise UsageError("acl create needs --operation, --producer or --consumer")
    permission = DENY if "--deny" in given else ALLOW
    acls = []
    for resource, name in resources:
        wanted = dict.fromkeys([*operations, *_of_roles(roles, resource)])
        pattern = PREFIXED if "--prefixed" in given and resource != Resource.CLUSTER else LITERAL
        acls += [
            Acl(resource, name, pattern, principal, host, operation, permission)
            for principal in principals
            for host in given.get("--host", [EVERY])
            for operation in wanted
        ]
    if not acls:
        raise UsageError("a producer needs --topic or --transactional-id, a consumer --topic or --group")
    return acls


def _of_roles(roles: Iterable[dict[Resource, tuple[Operation, ...]]], resource: Resource) -> list[Operation]:
    return [operation for role in roles for operation in role.get(resource, ())]


def _filters(given: Options, pattern: int) -> list[AclFilter]:
    """Return filters for the ACLs that the options describe; any of them matches. Raises UsageError."""
    hosts: list[str | None] = [*given.get("--host", ())] or [None]
    resources: list[tuple[int, str | None]] = [*_resources(given)] or [(ANY, None)]
    principals: list[str | None] = [*_principals(given)] or [None]
    operations: list[int] = [*_operations(given)] or [ANY]
    return [
        AclFilter(resource, name, ANY if name is None else pattern, principal, host, operation, ANY)
        for resource, name in resources
        for principal in principals
        for host in hosts
        for operation in operations
    ]


def _row(acl: Acl) -> tuple[str, ...]:
    return tuple(str(value) for value in _document(acl).values())


def _document(acl: Acl) -> dict[str, Any]:
    return {
        "principal": acl.principal,
        "host": acl.host,
        "permission": PERMISSION_NAMES.get(acl.permission_type, str(acl.permission_type)),
        "operation": operation_name(acl.operation),
        "resource": resource_name(acl.resource_type),
        "name": acl.resource_name,
        "pattern": PATTERN_NAMES.get(acl.pattern_type, str(acl.pattern_type)),
    }


VERBS: Final = {
    "list": Verb(_list, OPTIONS, ("--cluster",)),
    "create": Verb(_create, OPTIONS, ("--cluster", "--producer", "--consumer", "--deny", "--prefixed")),
    "delete": Verb(_delete, OPTIONS, ("--cluster",)),
}
"""Name -> command."""
