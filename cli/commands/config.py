"""`stuntbroker config`: shows and changes the properties of topics, brokers and groups of any running Kafka."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final

from stuntbroker.cli.arguments import UsageError, single
from stuntbroker.cli.commands.verbs import COMMON_USAGE, Operation, Options, Shown, Verb, run_verb
from stuntbroker.cli.tables import shown, table
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.configs import ConfigEntry, alter_config, describe_config
from stuntbroker.client.commands.topics import describe_topics
from stuntbroker.client.errors import NotFound
from stuntbroker.protocol.config_resources import ConfigSource, ResourceType

USAGE: Final = (
    """\
usage: stuntbroker config COMMAND [options]

  describe           show properties that are not defaults, and where each is set
                     --all                         with the defaults

  set KEY=VALUE...   change properties

  unset KEY...       reset properties to their defaults

  Each command needs one of
                     --topic NAME                  a topic
                     --broker ID                   a broker; `default` for all brokers of the cluster
                     --group ID                    a consumer group

  The commands work with any Kafka from 2.3 on, and have these options:
"""
    + COMMON_USAGE
    + """\

Examples:
  stuntbroker config set --topic orders retention.ms=60000
  stuntbroker config describe --broker 1 --all
"""
)
RESOURCES: Final = {
    "--topic": ResourceType.TOPIC,
    "--broker": ResourceType.BROKER,
    "--group": ResourceType.GROUP,
}

SOURCES: Final = {source.value: source.name for source in ConfigSource}


def config(arguments: list[str]) -> int:
    """Run one of the commands for configurations; return the exit status."""
    return run_verb("config", VERBS, arguments)


def _resource(given: Options) -> tuple[ResourceType, str]:
    named = [name for name in RESOURCES if name in given]
    if len(named) != 1:
        raise UsageError("config needs one of --topic NAME, --broker ID and --group ID")
    name = single(given, named[0], "")
    kind = RESOURCES[named[0]]
    if kind == ResourceType.BROKER:
        if name == "default":
            return kind, ""
        if not (name.isascii() and name.isdigit()):
            raise UsageError(f"--broker {name!r}: it must be the id of a broker, or default")
    return kind, name


def _describe(given: Options) -> Operation:
    kind, name = _resource(given)

    def operation(cluster: Cluster) -> Shown:
        if kind == ResourceType.TOPIC:
            describe_topics(cluster, [name])  # Raises NotFound, where describe_config waits for the topic.
        entries = describe_config(cluster, kind, name)
        if "--all" not in given:
            entries = [entry for entry in entries if entry.source != ConfigSource.DEFAULT_CONFIG]
        rows = [(entry.name, _value(entry), source_name(entry.source)) for entry in entries]
        documents = [
            {
                "name": entry.name,
                "value": entry.value,
                "source": source_name(entry.source),
                "read_only": entry.is_read_only,
                "sensitive": entry.is_sensitive,
            }
            for entry in entries
        ]
        return Shown(table(("PROPERTY", "VALUE", "SOURCE"), rows), {"properties": documents})

    return operation


def _value(entry: ConfigEntry) -> str:
    return "(hidden)" if entry.is_sensitive else "" if entry.value is None else entry.value


def source_name(number: int) -> str:
    """Return Kafka's name of a configuration source, such as DEFAULT_CONFIG."""
    return SOURCES.get(number) or str(number)


def _set(given: Options) -> Operation:
    kind, name = _resource(given)
    values = {}
    for text in given[""]:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f"config set {text!r}: it must be KEY=VALUE")
        values[key] = value

    def operation(cluster: Cluster) -> Shown:
        alter_config(cluster, kind, name, values)
        text = "".join(f"set {shown(key)}={shown(value)}\n" for key, value in values.items())
        return Shown(text, {"set": values}, is_data=False)

    return operation


def _unset(given: Options) -> Operation:
    kind, name = _resource(given)

    def operation(cluster: Cluster) -> Shown:
        if kind == ResourceType.TOPIC:
            describe_topics(cluster, [name])
        if name:  # The brokers ignore an unknown name; what all brokers share is not listed completely.
            known = [entry.name for entry in describe_config(cluster, kind, name)]
            for key in given[""]:
                if key not in known:
                    meant = get_close_matches(key, known, n=1)
                    hint = f": do you mean {meant[0]}?" if meant else ""
                    raise NotFound(f"there is no property {key!r} of {kind.name.lower()} {name!r}{hint}")
        alter_config(cluster, kind, name, {}, given[""])
        text = "".join(f"unset {shown(key)}\n" for key in given[""])
        return Shown(text, {"unset": given[""]}, is_data=False)

    return operation


VERBS: Final = {
    "describe": Verb(_describe, tuple(RESOURCES), ("--all",)),
    "set": Verb(_set, tuple(RESOURCES), words="KEY=VALUE..."),
    "unset": Verb(_unset, tuple(RESOURCES), words="KEY..."),
}
