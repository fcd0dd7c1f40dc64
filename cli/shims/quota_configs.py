"""kafka-configs for users, clients and addresses, whose configurations are quotas."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Collection, Mapping
from typing import Final

from stuntbroker.cli.shims.arguments import UsageFault
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.quotas import EVERY, Entity, Quota, alter_quotas, describe_quotas
from stuntbroker.protocol.scram import SCRAM_MECHANISMS

KINDS: Final = {"users": "user", "clients": "client-id", "ips": "ip"}
"""--entity-type -> entity type in the protocol."""
SHOWN: Final = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}
OF_CLIENTS: Final = {"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"}
OF_ADDRESSES: Final = {"connection_creation_rate"}


def entity_of(kinds: list[str], names: list[str | None]) -> Entity:
    """Return entity type -> name from the command line, EVERY for a missing name. Raises UsageFault."""
    if not set(kinds) <= KINDS.keys() or (len(kinds) > 1 and "ips" in kinds):
        raise UsageFault("only users and clients may be given together")
    if len(names) > len(kinds):
        raise UsageFault("there are more entity names than entity types")
    padded = [*names, *[EVERY] * (len(kinds) - len(names))]
    return {KINDS[kind]: name for kind, name in zip(kinds, padded, strict=True)}


def describe(cluster: Cluster, entity: Entity) -> None:
    """Print the quotas of an entity."""
    for quota in describe_quotas(cluster, entity):
        sys.stdout.write(_line(quota))


def _line(quota: Quota) -> str:
    whose = ", ".join(
        f"the default {SHOWN[kind]}" if quota.entity[kind] is None else f"{SHOWN[kind]} '{quota.entity[kind]}'"
        for kind in SHOWN
        if kind in quota.entity
    )
    values = ", ".join(f"{name}={value}" for name, value in sorted(quota.values.items()))
    return f"Quota configs for {whose} are {values}\n"


def read_values(kinds: list[str], given: Mapping[str, str], deleted: list[str]) -> dict[str, float]:
    """Return the quotas that `--add-config` sets. Raises UsageFault for names unknown for these kinds, and invalid numbers."""
    check_names(kinds, given, deleted)
    values = {}
    for name, text in given.items():
        try:
            values[name] = float(text)
        except ValueError:
            values[name] = math.nan
        if math.isnan(values[name]):
            raise UsageFault(f"Cannot parse quota configuration value for {name}: {text}")
    return values


def check_names(kinds: list[str], given: Collection[str], deleted: Collection[str]) -> None:
    """Raise UsageFault for configurations that are unknown for these kinds."""
    known, what = (OF_ADDRESSES, "connection quota") if kinds[0] == "ips" else (OF_CLIENTS, "quota")
    if kinds == ["users"]:
        known, what = OF_CLIENTS | SCRAM_MECHANISMS.keys(), "quota and SCRAM credential"
    for names, done in ((given, "added"), (deleted, "deleted")):
        if unknown := sorted(set(names) - known):
            raise UsageFault(
                f"Only {what} configs can be {done} for '{kinds[0]}' using --bootstrap-server. "
                f"Unexpected config names: {', '.join(unknown)}"
            )


def alter(cluster: Cluster, kinds: list[str], entity: Entity, values: dict[str, float], deleted: list[str]) -> int:
    """Change the quotas of an entity, and report that; return the exit status. Raises UsageFault."""
    if deleted:
        there = {name for quota in describe_quotas(cluster, entity) for name in quota.values}
        if missing := [name for name in deleted if name not in there]:
            raise UsageFault(f"Invalid config(s): {','.join(missing)}")
    alter_quotas(cluster, entity, values, deleted)
    name = entity[KINDS[kinds[0]]]
    if name is None:
        sys.stdout.write(f"Completed updating default config for {kinds[0]} in the cluster.\n")
    else:
        sys.stdout.write(f"Completed updating config for {kinds[0].removesuffix('s')} {name}.\n")
    return 0


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the short options for entities, such as --user and --user-defaults."""
    for kind in KINDS:
        name = f"--{kind.removesuffix('s')}"
        parser.add_argument(name, dest=kind, metavar="NAME", help=f"short for --entity-type {kind} --entity-name NAME")
        parser.add_argument(
            f"{name}-defaults",
            dest=f"{kind}_defaults",
            action="store_true",
            help=f"short for --entity-type {kind} --entity-default",
        )
