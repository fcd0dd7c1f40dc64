"""kafka-configs: describe and alter the configurations of topics, brokers and groups, and quotas."""

from __future__ import annotations

import argparse
import sys

from stuntbroker.cli.commands.config import source_name
from stuntbroker.cli.shims import quota_configs, scram_configs
from stuntbroker.cli.shims.arguments import Parser, UsageFault, guarded, pairs, run_with_cluster
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.configs import ConfigEntry, alter_config, describe_config, list_configured
from stuntbroker.client.commands.groups import list_groups
from stuntbroker.client.commands.quotas import EVERY, Entity
from stuntbroker.client.commands.topics import describe_topics
from stuntbroker.client.errors import NotFound
from stuntbroker.protocol.config_resources import ConfigSource, ResourceType

KINDS = {
    "topics": ResourceType.TOPIC,
    "brokers": ResourceType.BROKER,
    "broker-loggers": ResourceType.BROKER_LOGGER,
    "groups": ResourceType.GROUP,
    "client-metrics": ResourceType.CLIENT_METRICS,
}
USERS = "users"
DYNAMIC = (
    ConfigSource.DYNAMIC_TOPIC_CONFIG,
    ConfigSource.DYNAMIC_BROKER_CONFIG,
    ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
    ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG,
    ConfigSource.DYNAMIC_GROUP_CONFIG,
)


def run(command: str, arguments: list[str]) -> int:
    """Run the command; return the exit status."""
    what = f"Error while executing config command with args '{' '.join(arguments)}'\n"
    return guarded(what, lambda: _run(command, arguments))


def _run(command: str, arguments: list[str]) -> int:
    parser = Parser(command, as_jopt=True)
    parser.add_cluster_options()
    parser.add_argument(
        "--entity-type",
        action="append",
        default=[],
        metavar="TYPE",
        help="what has the properties: topics, brokers, groups, users, clients, ips, broker-loggers or client-metrics",
    )
    parser.add_argument("--entity-name", action="append", default=[], metavar="NAME", help="name or id of the entity")
    parser.add_argument(
        "--entity-default",
        dest="entity_name",
        action="append_const",
        const=None,
        help="all entities of the type that have no value of their own",
    )
    for word in ("topic", "broker", "group", "client-metrics", "broker-logger"):
        parser.add_argument(
            f"--{word}",
            dest=f"{word}s" if word != "client-metrics" else word,
            metavar="NAME",
            help=f"short for --entity-type {word.removesuffix('s')}s --entity-name NAME"
            if word != "client-metrics"
            else f"short for --entity-type {word} --entity-name NAME",
        )
    quota_configs.add_options(parser)
    parser.add_argument(
        "--add-config", default="", metavar="KEY=VALUE,...", help="properties to set; a list in brackets: KEY=[A,B]"
    )
    parser.add_argument(
        "--add-config-file", metavar="FILE", help="file of the properties to set, KEY=VALUE in each line"
    )
    parser.add_argument(
        "--delete-config", default="", metavar="KEY,...", help="properties to set back to their defaults"
    )
    parser.add_argument(
        "--broker-defaults", dest="brokers_defaults", action="store_true", help="the properties of all brokers"
    )
    parser.add_flags(
        {
            "--describe": "show the properties",
            "--alter": "change them by --add-config and --delete-config",
            "--all": "with --describe: show those with default values, too",
            "--force": "no effect: nothing is asked",
        }
    )
    options = parser.parse_args(arguments)
    if options.describe == options.alter:
        raise UsageFault("Command must include exactly one action: --describe, --alter")
    kinds, names = _entities(options)
    if set(kinds) & quota_configs.KINDS.keys():
        return _run_for_clients(kinds, names, options)
    if len(kinds) != 1 or len(names) > 1:
        if not kinds:
            raise UsageFault("At least one entity type must be specified")
        raise UsageFault(
            "give exactly one entity type and at most one entity name, except for users together with clients"
        )
    kind = KINDS[kinds[0]]
    name = None if not names else names[0] or ""
    if options.describe:
        return run_with_cluster(options, lambda cluster: _describe(cluster, kind, name, options))
    values, deleted = _changes(name is not None, options)
    return run_with_cluster(options, lambda cluster: _alter(cluster, kind, name or "", values, deleted))


def _run_for_clients(kinds: list[str], names: list[str | None], options: argparse.Namespace) -> int:
    """Run the command for users, clients and addresses, which have quotas; users also have SCRAM credentials."""
    entity = quota_configs.entity_of(kinds, names)
    if options.describe:
        return run_with_cluster(options, lambda cluster: _describe_client(cluster, kinds, entity))
    given, deleted = _changes(EVERY not in entity.values(), options)
    user = entity["user"] if kinds == [USERS] else None
    if kinds == [USERS] and any(map(scram_configs.is_credential, (*given, *deleted))):
        if user is None:
            raise UsageFault(
                "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials using "
                "--bootstrap-server."
            )
        if not all(map(scram_configs.is_credential, (*given, *deleted))):
            quota_configs.check_names(kinds, given, deleted)
            raise UsageFault(
                f"Cannot alter both quota and SCRAM credential configs simultaneously for '{USERS}' using "
                "--bootstrap-server."
            )
        credentials = scram_configs.read_credentials(given)
        return run_with_cluster(options, lambda cluster: scram_configs.alter(cluster, user, credentials, deleted))
    values = quota_configs.read_values(kinds, given, deleted)
    return run_with_cluster(options, lambda cluster: quota_configs.alter(cluster, kinds, entity, values, deleted))


def _describe_client(cluster: Cluster, kinds: list[str], entity: Entity) -> int:
    quota_configs.describe(cluster, entity)
    name = entity.get("user")
    if kinds == [USERS] and name is not None:
        scram_configs.describe(cluster, None if name == EVERY else [name])
    return 0


def _entities(options: argparse.Namespace) -> tuple[list[str], list[str | None]]:
    """Return entity types and names in the order of the command line, None for a default. Raises UsageFault."""
    kinds: list[str] = list(options.entity_type)
    names: list[str | None] = list(options.entity_name)
    for kind in (*KINDS, *quota_configs.KINDS):
        if getattr(options, kind) is not None:
            kinds.append(kind)
            names.append(str(getattr(options, kind)))
        if getattr(options, f"{kind}_defaults", False):
            kinds.append(kind)
            names.append(None)
    for kind in kinds:
        if kind not in KINDS and kind not in quota_configs.KINDS:
            raise UsageFault(f"--entity-type {kind}: here there are {', '.join((*KINDS, *quota_configs.KINDS))}")
    return kinds, names


def _describe(cluster: Cluster, kind: ResourceType, name: str | None, options: argparse.Namespace) -> int:
    names: list[str]
    if kind == ResourceType.TOPIC:
        names = [each.name for each in describe_topics(cluster)]
        if name is not None and name not in names:
            if options.all:  # Kafka's command prints the heading before it fails.
                sys.stdout.write(f"All configs for topic {name} are:\n")
                raise NotFound(f"there is no topic {name!r}")
            sys.stdout.write(f"The topic '{name}' doesn't exist and doesn't have dynamic config.\n")
            return 0
        names = names if name is None else [name]
    elif kind == ResourceType.BROKER and name is None:
        names = [*map(str, cluster.broker_ids()), ""]
    elif kind == ResourceType.BROKER and name:
        if not (name.isascii() and name.isdigit()):
            raise UsageFault(f"The entity name for brokers must be a valid integer broker id, but it is: {name}")
        if int(name[:10]) not in cluster.broker_ids():
            sys.stdout.write(f"The broker '{name}' doesn't exist and doesn't have dynamic config.\n")
            return 0
        names = [name]
    elif kind in (ResourceType.GROUP, ResourceType.CLIENT_METRICS):
        names = _configured(cluster, kind)
        if name is not None and name not in names:
            what = {ResourceType.GROUP: "group", ResourceType.CLIENT_METRICS: "client-metric"}[kind]
            sys.stdout.write(f"The {what} '{name}' doesn't exist and doesn't have dynamic config.\n")
            return 0
        names = names if name is None else [name]
    else:
        names = [name or ""]
    for each in names:
        entries = describe_config(cluster, kind, each)
        what = kind.name.lower().replace("_", "-")
        if kind == ResourceType.BROKER and not each:
            sys.stdout.write("Default configs for brokers in the cluster are:\n")
            shown = [entry for entry in entries if entry.source == ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG]
        else:
            sys.stdout.write(f"{'All' if options.all else 'Dynamic'} configs for {what} {each} are:\n")
            shown = [entry for entry in entries if options.all or entry.source in DYNAMIC]
        sys.stdout.write("".join(_line(entry) for entry in shown))
    return 0


def _configured(cluster: Cluster, kind: ResourceType) -> list[str]:
    """Return the names of resources that have a configuration of this kind, and of all existing groups."""
    groups = (each.group_id for each in list_groups(cluster)) if kind == ResourceType.GROUP else ()
    return sorted({*list_configured(cluster, kind), *groups})


def _line(entry: ConfigEntry) -> str:
    synonyms = ", ".join(f"{source_name(source)}:{name}={_value(value)}" for name, value, source in entry.synonyms)
    sensitive = "true" if entry.is_sensitive else "false"
    return f"  {entry.name}={_value(entry.value)} sensitive={sensitive} synonyms={{{synonyms}}}\n"


def _value(value: str | None) -> str:
    return "null" if value is None else value


def _changes(is_named: bool, options: argparse.Namespace) -> tuple[dict[str, str], list[str]]:
    """Return the properties that `--alter` sets, and those that it deletes. Raises UsageFault."""
    if not is_named:
        raise UsageFault("--entity-name or --entity-default is needed with --alter")
    values = pairs(options.add_config)
    if options.add_config_file:
        from stuntbroker.cli.serving.properties import parse_java

        try:
            with open(options.add_config_file, "rb") as file:
                values |= parse_java(file.read())
        except (OSError, ValueError) as fault:
            raise UsageFault(f"--add-config-file {options.add_config_file}: {fault}") from None
    deleted = [each.strip() for each in options.delete_config.split(",") if each.strip()]
    if not values and not deleted:
        raise UsageFault(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
        )
    return values, deleted


def _alter(cluster: Cluster, kind: ResourceType, name: str, values: dict[str, str], deleted: list[str]) -> int:
    alter_config(cluster, kind, name, values, deleted)
    what = kind.name.lower().replace("_", "-")
    if kind == ResourceType.BROKER and not name:
        sys.stdout.write("Completed updating default config for brokers in the cluster.\n")
    else:
        sys.stdout.write(f"Completed updating config for {what} {name}.\n")
    return 0
