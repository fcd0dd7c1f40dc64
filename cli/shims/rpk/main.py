"""rpk, Redpanda's command: `rpk redpanda start` runs the broker; `rpk cluster`, `rpk topic` and `rpk group` are clients."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Collection, Sequence
from typing import Any, Final, NoReturn

from stuntbroker.cli.shims.arguments import CommandError, Parser, guarded, run_with_cluster
from stuntbroker.cli.shims.rpk import clusters, consume, groups, produce, topics
from stuntbroker.cli.shims.rpk.commands import Command
from stuntbroker.cli.shims.rpk.security import FLAGS, OPTIONS, SETTINGS, client_properties_of
from stuntbroker.protocol.addresses import BOOTSTRAP_DEFAULT, PORT_DEFAULT

CONFIG_FILE: Final = "/etc/redpanda/redpanda.yaml"
CONFIG_WAIT_S: Final = 5.0
CONFIG_POLL_S: Final = 0.1
START_USAGE: Final = """\
usage: rpk redpanda start [options]

  --kafka-addr [NAME://]HOST:PORT,...            where the broker listens
  --advertise-kafka-addr [NAME://]HOST:PORT,...  the addresses that clients are told
  --node-id N                                    the broker's id
  --set redpanda.NAME=VALUE                      auto_create_topics_enabled or default_topic_partitions

Other options of Redpanda are named in a line, and have no effect. Without options for addresses, those of
/etc/redpanda/redpanda.yaml are used.
"""
GLOBAL_OPTIONS: Final = """\
Options of every command:
  -X brokers=HOST:PORT   the brokers to ask (variable RPK_BROKERS; default localhost:9092)
  -X user=NAME -X pass=PASSWORD -X sasl.mechanism=SCRAM-SHA-256, and -X tls.enabled=true, tls.ca, tls.cert, tls.key
"""
WITHOUT_KAFKA: Final = "8081,8082,9644"
"""Ports of Redpanda's schema registry, HTTP proxy and administration, which some modules wait for."""


def run(command: str, arguments: list[str]) -> int:
    """Run the command; return the exit status."""
    words = ["redpanda", *arguments] if command == "redpanda" else arguments
    return guarded("", lambda: _run(words))


def _run(arguments: list[str]) -> int:
    is_question = bool({"help", "--help", "-h"} & set(arguments)) or not arguments
    if arguments[:2] == ["redpanda", "start"] and not is_question:
        return _start(arguments[2:])
    arguments, settings = _without_global_options(arguments)
    if arguments[:1] in (["version"], ["--version"]):
        from stuntbroker.protocol.software import VERSION

        sys.stdout.write(f"Version:     stuntbroker {VERSION}\n")
        return 0
    command = _ALIASES.get(" ".join(arguments[:2]), " ".join(arguments[:2]))
    if command not in COMMANDS:
        known = ("redpanda start", *COMMANDS, "version")
        group = arguments[0] if arguments else ""
        of_group = [name for name in known if name.split()[0] == group]
        if is_question or (of_group and len(arguments) == 1):
            sys.stdout.write(_help(command, of_group or known))
            return 0
        raise CommandError(f"rpk {command}: here there are {', '.join(known)}")
    parser = Parser(f"rpk {command}", suffix="")
    add_options, operation = COMMANDS[command]
    add_options(parser)
    flags = parser.flags()
    options = parser.parse_args([word for given in arguments[2:] for word in _flag(given, flags)])
    bootstrap = os.environ.get("RPK_BROKERS", BOOTSTRAP_DEFAULT).removeprefix("brokers=")
    options.bootstrap = settings.get("brokers", bootstrap)
    options.command_config = client_properties_of(settings, os.environ)
    return run_with_cluster(options, lambda cluster: operation(cluster, options), wait_s=0)


def _help(command: str, names: Sequence[str]) -> str:
    """Return the help of `redpanda start`, or the list of commands, of which each has help of its own."""
    if command == "redpanda start":
        return START_USAGE
    lines = "".join(f"  rpk {name}\n" for name in names)
    return f"rpk of Stuntbroker has these commands; `rpk COMMAND --help` has the options of one:\n{lines}\n{GLOBAL_OPTIONS}"


def _without_global_options(arguments: list[str]) -> tuple[list[str], dict[str, str]]:
    """Return the command without rpk's global options, which may stand anywhere, and their settings, by the names of `-X`.

    `--brokers HOST:PORT` is `-X brokers=HOST:PORT`. Other settings, such as a configuration file, are named without their values,
    and have no effect.
    """
    words: list[str] = []
    settings: dict[str, str] = {}
    ignored: list[str] = []
    given = iter(arguments)
    for word in given:
        name, equals, value = word.partition("=")
        if word.startswith("-X"):
            setting = word[2:].removeprefix("=") or next(given, "")
            key, separator, value = setting.partition("=")
            if not separator:
                settings["brokers"] = setting
            elif key == "brokers" or key in SETTINGS:
                settings[key] = value
            else:
                ignored.append(f"-X {key}")
        elif name in FLAGS:
            settings[OPTIONS[name]] = value or "true"
        elif name == "--brokers" or name in OPTIONS:
            settings[OPTIONS.get(name, "brokers")] = value if equals else next(given, "")
        elif name in ("--config", "--profile"):
            if not equals:
                next(given, "")  # Its value.
            ignored.append(name)
        elif name in ("-v", "--verbose"):
            continue
        else:
            words.append(word)
    if not settings.get("brokers", BOOTSTRAP_DEFAULT):
        raise CommandError("--brokers needs HOST:PORT")
    if ignored:
        sys.stderr.write(f"rpk: ignored: {' '.join(ignored)}\n")
    return words, settings


def _flag(word: str, flags: Collection[str]) -> list[str]:
    """Convert Go's `--name=true` to argparse's `--name`, and `--name=false` to `--no-name` or to nothing."""
    name, _, value = word.partition("=")
    if name not in flags or value not in ("true", "false"):
        return [word]
    if value == "true":
        return [name]
    negated = "--no-" + name.removeprefix("--")
    return [negated] if negated in flags else []


# --- redpanda start


def _start(arguments: list[str]) -> NoReturn:
    """Become the broker. Unknown options are ignored: there are a hundred for Redpanda's own engine."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--kafka-addr")
    parser.add_argument("--advertise-kafka-addr")
    parser.add_argument("--node-id")
    parser.add_argument("--set", dest="cluster_properties", action="append", default=[])
    # In compose files, an option and its value are often one word, which Redpanda's entry point splits.
    options, others = parser.parse_known_args([part for word in arguments for part in word.split()])
    own, unknown = _cluster_properties(options.cluster_properties)
    if others := others + [f"--set {text}" for text in unknown]:
        sys.stderr.write(f"rpk: ignored: {' '.join(others)}\n")
    listeners, advertised = options.kafka_addr, options.advertise_kafka_addr
    if listeners is None and advertised is None:
        listeners, advertised = _from_yaml(_read_config())
    elif listeners is None:
        listeners = _listening_for(advertised)
    settings = {
        "listeners": _named(listeners or f"internal://0.0.0.0:{PORT_DEFAULT}"),
        "advertised.listeners": _named(advertised or ""),
    }
    names = {entry.partition("://")[0] for value in settings.values() for entry in value.split(",") if entry}
    settings["node.id"] = options.node_id or ""
    settings["listener.security.protocol.map"] = ",".join(f"{name}:PLAINTEXT" for name in sorted(names))
    words = ["stuntbroker", "serve", "--container", "--not-found-ports", WITHOUT_KAFKA]
    for name, value in (settings | own).items():
        if value:
            words += ["--set", f"{name}={value}"]
    sys.stderr.flush()
    os.execvp(sys.executable, [sys.executable, "-m", *words])


CLUSTER_PROPERTIES: Final = {
    "auto_create_topics_enabled": "auto.create.topics.enable",
    "default_topic_partitions": "num.partitions",
}
"""Property of Redpanda's cluster -> Kafka's property."""


def _cluster_properties(texts: list[str]) -> tuple[dict[str, str], list[str]]:
    """Return Kafka's properties for `redpanda.NAME=VALUE`, and those that have no effect here."""
    properties, unknown = {}, []
    for text in texts:
        name, _, value = text.partition("=")
        known = CLUSTER_PROPERTIES.get(name.removeprefix("redpanda."))
        if known is None:
            unknown.append(text)
        else:
            properties[known] = value
    return properties, unknown


def _listening_for(advertised: str) -> str:
    """Return listeners for the advertised names: at every address, on port 9092 and those after it."""
    names = [entry.split("://")[0] for entry in _named(advertised).split(",")]
    return ",".join(f"{name}://0.0.0.0:{PORT_DEFAULT + index}" for index, name in enumerate(names))


def _named(addresses: str) -> str:
    """Convert `host:port` and `name://host:port` to the form of Kafka's properties."""
    entries = (entry.strip() for entry in addresses.split(",") if entry.strip())
    return ",".join(_with_port(entry if "://" in entry else f"PLAINTEXT://{entry}") for entry in entries)


def _with_port(entry: str) -> str:
    """Return `name://host:port`; a missing port is Redpanda's default."""
    return entry if re.search(r":[0-9]+$", entry) else f"{entry}:{PORT_DEFAULT}"


def _read_config() -> dict[str, Any]:
    """Return the content of the configuration file; empty if there is no file."""
    deadline_s = time.monotonic() + (CONFIG_WAIT_S if os.path.isdir(os.path.dirname(CONFIG_FILE)) else 0)
    text, before = _read(CONFIG_FILE), None
    # A Testcontainers module copies the file into the container, possibly after this process has started.
    while (not text or text != before) and time.monotonic() < deadline_s:
        time.sleep(CONFIG_POLL_S)
        before, text = text, _read(CONFIG_FILE)
    if not text:
        return {}
    try:
        import yaml
    except ImportError:
        raise CommandError(f"{CONFIG_FILE} cannot be read without PyYAML: pip install 'stuntbroker[image]'") from None
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as fault:
        raise CommandError(f"{CONFIG_FILE}: {fault}") from None
    return document if isinstance(document, dict) else {}


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""
    except OSError as fault:
        raise CommandError(f"{path}: {fault.strerror}") from None


def _from_yaml(document: dict[str, Any]) -> tuple[str, str]:
    """Return (listeners, advertised listeners) of redpanda.yaml."""
    redpanda = document.get("redpanda") or {}
    listed = []
    for key in ("kafka_api", "advertised_kafka_api"):
        entries = redpanda.get(key) or []
        entries = entries if isinstance(entries, list) else [entries]
        listed.append(
            ",".join(f"{each.get('name', 'PLAINTEXT')}://{each['address']}:{each['port']}" for each in entries)
        )
    return listed[0], listed[1]


COMMANDS: Final = {
    **clusters.COMMANDS,
    **topics.COMMANDS,
    "topic consume": Command(consume.add_options, consume.consume),
    "topic produce": Command(produce.add_options, produce.write_records),
    **groups.COMMANDS,
}
_ALIASES: Final = {"topic trim": "topic trim-prefix", "topic ls": "topic list", "cluster status": "cluster info"}
