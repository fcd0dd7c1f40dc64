"""kafka-acls: add, remove and list ACLs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from itertools import groupby
from typing import Final

from stuntbroker.cli.shims.arguments import Parser, UsageFault, guarded, run_with_cluster
from stuntbroker.client.commands.acls import (
    CONSUMER_OF,
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
    OPERATIONS_ON,
    PATTERN_NAMES,
    PERMISSION_NAMES,
    Acl,
    AclFilter,
    Operation,
    Resource,
    operation_name,
    resource_name,
)

PATTERNS: Final = {name: code for code, name in PATTERN_NAMES.items()}
RESOURCE_OPTIONS: Final = {
    "topic": Resource.TOPIC,
    "group": Resource.GROUP,
    "transactional_id": Resource.TRANSACTIONAL_ID,
    "delegation_token": Resource.DELEGATION_TOKEN,
    "user_principal": Resource.USER,
}
REPEATED_OPTIONS: Final = {
    "--principal": ("TYPE:NAME", "with --list: only ACLs of this principal"),
    "--operation": ("NAME", "operation, such as Read or Write (default: All)"),
    "--allow-principal": ("TYPE:NAME", "principal that may do it, such as User:alice"),
    "--allow-host": ("HOST", "address from which it may (default: every one)"),
    "--deny-principal": ("TYPE:NAME", "principal that may not do it"),
    "--deny-host": ("HOST", "address from which it may not (default: every one)"),
}
"""Option -> name of its value, and what it means."""
NO_RESOURCE: Final = (
    "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or --delegation-token "
    "<Delegation Token ID>"
)

Pattern = tuple[int, str, int]
"""Type, name and pattern type of resources."""


def run(command: str, arguments: list[str]) -> int:
    """Run the command; return the exit status."""
    what = "Error while executing ACL command: "
    return guarded(what, lambda: _run(command, arguments), failures_on_stdout=True, names_exceptions=True)


def _run(command: str, arguments: list[str]) -> int:
    options = _parsed(command, arguments)
    if options.add + options.remove + options.list != 1:
        raise UsageFault("Command must include exactly one action: --list, --add, --remove. ")
    patterns = _patterns(options)
    if options.list:
        return run_with_cluster(options, lambda cluster: _list(cluster, options, patterns))
    if not patterns:
        raise UsageFault(NO_RESOURCE)
    acls = _acls(options, patterns)
    if options.remove:
        return run_with_cluster(options, lambda cluster: _remove(cluster, options, patterns, acls))
    if not acls:
        raise UsageFault("You must specify one of: --allow-principal, --deny-principal when trying to add ACLs.")
    if options.resource_pattern_type in ("ANY", "MATCH"):
        raise UsageFault(
            f"A '--resource-pattern-type' value of '{options.resource_pattern_type}' is not valid when adding acls."
        )
    return run_with_cluster(options, lambda cluster: _add(cluster, acls))


def _parsed(command: str, arguments: list[str]) -> argparse.Namespace:
    parser = Parser(command, as_jopt=True)
    parser.add_cluster_options("--bootstrap-controller")
    parser.add_flags(
        {
            "--add": "add ACLs",
            "--remove": "remove ACLs, after a confirmation",
            "--list": "list ACLs",
            "--cluster": "ACLs of the cluster",
            "--producer": "all ACLs that a producer needs; with --topic",
            "--consumer": "all ACLs that a consumer needs; with --topic and --group",
            "--idempotent": "with --producer: also those of an idempotent producer",
            "--force": "remove without a confirmation",
        }
    )
    for name in RESOURCE_OPTIONS:
        noun = name.replace("_", "-")
        parser.add_argument(
            f"--{noun}",
            action="append",
            default=[],
            metavar="NAME",
            help=f"ACLs of this {noun}, *: of all; may be repeated",
        )
    for name, (metavar, explanation) in REPEATED_OPTIONS.items():
        parser.add_argument(name, action="append", default=[], metavar=metavar, help=f"{explanation}; may be repeated")
    parser.add_argument(
        "--resource-pattern-type",
        type=str.upper,
        choices=list(PATTERNS),
        default="LITERAL",
        help="how names of resources are meant: literal, or as a prefix; to list and remove, also ANY and MATCH",
    )
    options = parser.parse_args(arguments)
    is_producer_wrong = options.producer and not options.topic
    if is_producer_wrong:
        raise UsageFault("With --producer you must specify a --topic")
    if options.idempotent and not options.producer:
        raise UsageFault("The --idempotent option is only available if --producer is set")
    is_consumer_wrong = not options.topic or not options.group or options.cluster or options.transactional_id
    if options.consumer and is_consumer_wrong and not (options.producer and options.topic and options.group):
        raise UsageFault(
            "With --consumer you must specify a --topic and a --group and no --cluster or --transactional-id option "
            "should be specified."
        )
    for principal in (*options.allow_principal, *options.deny_principal, *options.principal):
        if ":" not in principal:
            raise UsageFault(f"expected a string in format principalType:principalName but got {principal}")
    return options


def _patterns(options: argparse.Namespace) -> list[Pattern]:
    """Return the resources that the options name."""
    kind = PATTERNS[options.resource_pattern_type]
    patterns: list[Pattern] = [
        (resource, name, kind) for option, resource in RESOURCE_OPTIONS.items() for name in getattr(options, option)
    ]
    if options.cluster or options.idempotent:
        patterns.append((Resource.CLUSTER, CLUSTER_NAME, LITERAL))
    return patterns


def _acls(options: argparse.Namespace, patterns: Iterable[Pattern]) -> list[Acl]:
    """Return the ACLs that the options describe, for all principals, hosts and operations. Raises CommandError."""
    who = [
        (principal, host, permission)
        for principals, hosts, permission in (
            (options.allow_principal, options.allow_host, ALLOW),
            (options.deny_principal, options.deny_host, DENY),
        )
        for principal in principals
        for host in hosts or [EVERY]
    ]
    acls = []
    for pattern in patterns:
        for operation in _operations(options, Resource(pattern[0])):
            acls += [Acl(*pattern, principal, host, operation, permission) for principal, host, permission in who]
    return acls


def _operations(options: argparse.Namespace, resource: Resource) -> list[Operation]:
    if options.producer or options.consumer:
        operations = [*(PRODUCER_OF.get(resource, ()) if options.producer else ())]
        operations += CONSUMER_OF.get(resource, ()) if options.consumer else ()
        if resource == Resource.CLUSTER and options.idempotent:
            operations.append(Operation.IDEMPOTENT_WRITE)
        return list(dict.fromkeys(operations))
    known = {each.name.replace("_", ""): each for each in (*OPERATIONS_ON[resource], Operation.ALL)}
    wanted = [known.get(name.upper().replace("_", "")) for name in options.operation or ["ALL"]]
    if None in wanted:
        names = ", ".join(each.name for each in known.values())
        raise UsageFault(f"ResourceType {resource.name} only supports operations [{names}]")
    return [each for each in wanted if each is not None]


def _add(cluster: Cluster, acls: list[Acl]) -> int:
    existing = set(list_acls(cluster))
    for acl in acls:
        if acl in existing:
            sys.stdout.write(f"Acl (pattern={_resource(acl)}, entry={_entry(acl)}) already exists.\n")
    new = [acl for acl in dict.fromkeys(acls) if acl not in existing]
    for resource, of_resource in groupby(new, _resource):
        entries = "\n".join(f"\t{_entry(acl)}" for acl in of_resource)
        sys.stdout.write(f"Adding ACLs for resource `{resource}`: \n {entries}\n\n")
    if new:
        create_acls(cluster, new)
    return 0


def _remove(cluster: Cluster, options: argparse.Namespace, patterns: Iterable[Pattern], acls: list[Acl]) -> int:
    questions: list[tuple[str, list[AclFilter]]] = []
    if not acls:
        for each in (AclFilter(*pattern, None, None, ANY, ANY) for pattern in patterns):
            questions.append((f"delete all ACLs for resource filter `{_resource(each)}`", [each]))
    for resource, of_resource in groupby(acls, _resource):
        removed = list(of_resource)
        entries = "\n".join(f"\t{_entry(acl)}" for acl in removed)
        question = f"remove ACLs: \n {entries} \n from resource filter `{resource}`"
        questions.append((question, [AclFilter(*acl) for acl in removed]))
    for question, wanted in questions:
        if options.force or _is_confirmed(question):
            delete_acls(cluster, wanted)
    return 0


def _is_confirmed(question: str) -> bool:
    sys.stdout.write(f"Are you sure you want to {question}? (y/n)\n")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() == "y"


def _list(cluster: Cluster, options: argparse.Namespace, patterns: list[Pattern]) -> int:
    filters = [AclFilter(*pattern, None, None, ANY, ANY) for pattern in patterns]
    acls = sorted({acl for each in filters for acl in list_acls(cluster, each)} if filters else list_acls(cluster))
    if not options.principal:
        _print_current(acls)
    for principal in options.principal:
        sys.stdout.write(f"ACLs for principal `{principal}`\n")
        _print_current([acl for acl in acls if acl.principal == principal])
    return 0


def _print_current(acls: list[Acl]) -> None:
    for resource, of_resource in groupby(acls, _resource):
        entries = "".join(f"\t{_entry(acl)}\n" for acl in of_resource)
        sys.stdout.write(f"Current ACLs for resource `{resource}`:\n{entries}\n")


def _resource(acl: Acl | AclFilter) -> str:
    pattern = PATTERN_NAMES.get(acl.pattern_type, acl.pattern_type)
    kind = resource_name(acl.resource_type)
    return f"ResourcePattern(resourceType={kind}, name={acl.resource_name}, patternType={pattern})"


def _entry(acl: Acl) -> str:
    permission = PERMISSION_NAMES.get(acl.permission_type, acl.permission_type)
    operation = operation_name(acl.operation)
    return f"(principal={acl.principal}, host={acl.host}, operation={operation}, permissionType={permission})"
