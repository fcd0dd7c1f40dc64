"""Environment variables of `serve`: Kafka's own mapping, that of other Kafka images, and our options.

`KAFKA_NUM_PARTITIONS=3` sets `num.partitions`, as in the images apache/kafka and confluentinc/cp-kafka; bitnami's
`KAFKA_CFG_NUM_PARTITIONS` does the same. `STUNTBROKER_DATA_DIR` stands for `--data-dir`, and `STUNTBROKER_PROFILE` for the
property `stuntbroker.profile`. A warning names variables that have no effect here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from stuntbroker.broker.configuration.properties import BROKER
from stuntbroker.cli.arguments import SERVE_FLAGS, SERVE_OPTIONS
from stuntbroker.protocol.addresses import PORT_DEFAULT

KAFKA: Final = "KAFKA_"
BITNAMI: Final = "KAFKA_CFG_"
OURS: Final = "STUNTBROKER_"
WITHOUT_EFFECT: Final = (
    r"KAFKA_(OPTS|HEAP_OPTS|JVM_PERFORMANCE_OPTS|GC_LOG_OPTS|LOG4J_\w+|JMX_\w+|TOOLS_LOG4J_\w+|DEBUG\w*|HOME|VERSION|USER"
    r"|CONFLUENT_\w+|KRAFT_MODE|ENABLE_KRAFT|ZOOKEEPER_\w+|REST_\w+|METRIC_REPORTERS"
    r"|PORT|PORT_\w+|SERVICE_\w+|DATE|KRAFT_BOOTSTRAP_SCRAM_USERS)"
)
"""Variables of the Java virtual machine, of other images, and of Kubernetes for a service named kafka."""
OF_OTHER_IMAGES: Final = "|".join(
    (
        r"CONFLUENT_\w+",
        r"BITNAMI_\w+",
        r"(HOSTNAME|PORT|BROKER_ID|RACK)_COMMAND|LOG4J_LOGGER_\w+|EXTRA_ARGS",  # wurstmeister/kafka
        "ADVERTISED_HOST_NAME|CREATE_TOPICS",  # debezium/kafka
        "ADVERTISED_(HOST|PORT)",  # spotify/kafka
        "ADV_HOST",  # landoop/fast-data-dev
        r"REDPANDA_\w+",
    )
)
"""Variables without the prefix KAFKA_ that have an effect in these images, but not here.

Not among them: bitnami's ALLOW_PLAINTEXT_LISTENER=yes, because this broker always allows it.
"""
SECRETS: Final = "/etc/kafka/secrets"
"""Folder of keystores and of the files with their passwords, in apache/kafka and cp-kafka."""
JAAS_FILE: Final = re.compile(r"-Djava\.security\.auth\.login\.config=(\S+)")
"""The option of the Java virtual machine that names a JAAS file, in KAFKA_OPTS."""
BITNAMI_USERS: Final = (
    ("KAFKA_CLIENT_USERS", "KAFKA_CLIENT_PASSWORDS"),
    ("KAFKA_INTER_BROKER_USER", "KAFKA_INTER_BROKER_PASSWORD"),
)
"""Variables with lists of names, and with their passwords."""
HOME: Final = "/opt/kafka"
"""Value of KAFKA_HOME in the image."""
CLUSTER_IDS: Final = ("CLUSTER_ID", "KAFKA_CLUSTER_ID", "KAFKA_KRAFT_CLUSTER_ID")
ONLY_ADVERTISED: Final = frozenset({"KAFKA_ADVERTISED_HOST_NAME", "KAFKA_CFG_ADVERTISED_LISTENERS"})
"""Variables of wurstmeister's image and of bitnami's, which do not change the port on which the broker listens."""
LOG_LEVELS: Final = {
    "TRACE": "debug",
    "DEBUG": "debug",
    "INFO": "info",
    "WARN": "warning",
    "ERROR": "error",
    "FATAL": "error",
    "OFF": "error",
}
"""log4j level -> level of this broker's log."""


def variable_of(option: str) -> str:
    """Return the name of the variable for an option."""
    return OURS + option.removeprefix("--").replace("-", "_").upper()


OPTIONS: Final = {variable_of(name): name for name in SERVE_OPTIONS if name not in ("--set", "--topic")}
"""Variable -> option of `serve`."""
FLAGS: Final = {variable_of(name): name for name in SERVE_FLAGS}
"""Variable -> option of `serve` without a value: true or false."""
TOPICS: Final = OURS + "TOPICS"
OUTSIDE_LISTS: Final = r",(?![^\[\]]*\])"
"""Commas between the topics of TOPICS, but not those in a list in brackets, the syntax of kafka-configs."""
OF_KUBERNETES: Final = OURS + r"(SERVICE_(HOST|PORT)(_\w+)?|PORT(_\d+_(TCP|UDP)(_\w+)?)?)"
"""Variables that Kubernetes sets for a service named stuntbroker."""
ELSEWHERE: Final = frozenset(
    OURS + name for name in ("BOOTSTRAP", "CACHE", "COMPILE", "CONTROL_URL", "IMAGE", "STRICT")
)
"""Variables of the pytest plug-in and of this project's own tests."""


class Environment(NamedTuple):
    """Settings from environment variables, and the variables that were not understood."""

    properties: dict[str, str]
    """Kafka property -> value; STUNTBROKER_ overrides KAFKA_."""
    options: dict[str, list[str]]
    """Options as on the command line, which overrides them."""
    log_dirs: str
    """The first folder of `log.dirs` or `log.dir`, or an empty string."""
    without_effect: list[str]
    """Variables that have an effect in other Kafka images, but not here."""
    unknown: list[str]
    """Variables with our prefix or Kafka's that are unknown to both."""

    def naming_variable(self, fault: str, given: Collection[str]) -> str:
        """Add the variable's name to the error of an option, unless the option was `given` on the command line."""
        option = re.split(r"[ :]", fault, maxsplit=1)[0]
        if option in given or option not in self.options:
            return fault
        return f"{TOPICS if option == '--topic' else variable_of(option)}, which stands for {fault}"


def read_environment(environ: Mapping[str, str]) -> Environment:
    """Convert the environment variables of a process to properties and options."""
    properties: dict[str, str] = {}
    ours: dict[str, str] = {}
    options: dict[str, list[str]] = {}
    without_effect, unknown = [], []
    for name, value in sorted(environ.items()):
        if re.fullmatch(OF_KUBERNETES, name) and (value.startswith("tcp://") or name not in OPTIONS):
            continue
        if name in OPTIONS:
            if value:
                options[OPTIONS[name]] = [value]
        elif name in FLAGS:
            if value.lower() in ("1", "true", "yes", "on"):
                options[FLAGS[name]] = []
            elif value.lower() not in ("", "0", "false", "no", "off"):
                unknown.append(f"{name}={value}")
        elif name == TOPICS:
            listed = [text.strip() for text in re.split(OUTSIDE_LISTS, value) if text.strip()]
            options["--topic"] = listed + options.get("--topic", [])
        elif name in ELSEWHERE:
            continue
        elif name.startswith(OURS):
            property_name = property_of(name, "")
            if property_name in BROKER:
                ours[property_name] = value
            else:
                unknown.append(name)
        elif name == "KAFKA_LOG4J_ROOT_LOGLEVEL":
            if value.upper() in LOG_LEVELS:
                options.setdefault("--log-level", [LOG_LEVELS[value.upper()]])
            else:
                unknown.append(f"{name}={value}")
        elif name == "KAFKA_OPTS" and (jaas_file := JAAS_FILE.search(value)):
            properties["stuntbroker.jaas.file"] = jaas_file[1]
            if JAAS_FILE.sub("", value).strip():
                without_effect.append(name)
        elif any(name in pair for pair in BITNAMI_USERS):
            continue
        elif name == "KAFKA_CREATE_TOPICS":
            options.setdefault("--topic", []).extend(_created_topics(value))
        elif name == "KAFKA_HOME" and value == HOME:
            continue
        elif re.fullmatch(OF_OTHER_IMAGES, name):
            without_effect.append(name)
        elif name in CLUSTER_IDS:
            properties.setdefault("stuntbroker.cluster.id", value)
        elif name == "KAFKA_ADVERTISED_HOST_NAME":
            host = f"[{value}]" if ":" in value else value
            port = environ.get("KAFKA_ADVERTISED_PORT", str(PORT_DEFAULT))
            properties.setdefault("advertised.listeners", f"PLAINTEXT://{host}:{port}")
        elif name == "KAFKA_ADVERTISED_PORT":
            if "KAFKA_ADVERTISED_HOST_NAME" not in environ:
                without_effect.append(name)
        elif name == "KAFKA_PORT":
            if not _own_port(environ) or "KAFKA_ADVERTISED_LISTENERS" in environ:
                without_effect.append(name)
        elif name.startswith(KAFKA):
            property_name = property_of(name, BITNAMI if name.startswith(BITNAMI) else KAFKA)
            if _is_property(property_name):
                properties[property_name] = value
            elif re.fullmatch(WITHOUT_EFFECT, name):
                without_effect.append(name)
            else:
                unknown.append(name)
    unknown += _take_users(environ, properties) + _take_secrets(properties)
    properties |= ours
    for name in ("broker.id", "node.id"):  # -1: the older images generate an id.
        if properties.get(name, "").strip() == "-1":
            del properties[name]
    if "advertised.listeners" in properties:  # Some scripts leave a trailing comma.
        properties["advertised.listeners"] = properties["advertised.listeners"].strip().rstrip(",")
    _add_listeners(properties, environ)
    log_dirs = properties.pop("log.dirs", "") or properties.pop("log.dir", "")
    first, *other_dirs = (path.strip() for path in log_dirs.split(","))
    # Unlike Kafka: all data are in one folder.
    unknown += [f"{path} in log.dirs" for path in other_dirs if path]
    return Environment(properties, options, first, without_effect, unknown)


def property_of(variable: str, prefix: str) -> str:
    """Return the property that a variable sets: `_` becomes a dot, `__` an underscore, `___` a hyphen."""
    name = variable.removeprefix(prefix).lower()
    return re.sub("_{1,3}", lambda match: {1: ".", 2: "_", 3: "-"}[len(match[0])], name)


def _take_secrets(properties: dict[str, str]) -> list[str]:
    """Convert cp-kafka's variables for keystores to properties of Kafka; return the files that cannot be read.

    `KAFKA_SSL_KEYSTORE_FILENAME` is the name of a file in SECRETS, and `KAFKA_SSL_KEYSTORE_CREDENTIALS` that of a file with
    its password.
    """
    unreadable = []
    for store in ("keystore", "truststore"):
        if name := properties.pop(f"ssl.{store}.filename", ""):
            properties.setdefault(f"ssl.{store}.location", f"{SECRETS}/{name}")
    for credentials, prop in (
        ("ssl.keystore.credentials", "ssl.keystore.password"),
        ("ssl.key.credentials", "ssl.key.password"),
        ("ssl.truststore.credentials", "ssl.truststore.password"),
    ):
        if name := properties.pop(credentials, ""):
            try:
                with open(f"{SECRETS}/{name}", encoding="utf-8") as file:
                    properties.setdefault(prop, file.read().strip())
            except (OSError, UnicodeDecodeError):
                unreadable.append(f"{SECRETS}/{name} in {credentials}")
    return unreadable


def _take_users(environ: Mapping[str, str], properties: dict[str, str]) -> list[str]:
    """Set `stuntbroker.users` from bitnami's users and passwords; return the variables with more users or more passwords."""
    users, unmatched = [], []
    for names, passwords in BITNAMI_USERS:
        listed = [
            [each.strip() for each in environ.get(name, "").split(",") if each.strip()] for name in (names, passwords)
        ]
        if len(listed[0]) != len(listed[1]):
            unmatched.append(f"{names} without as many passwords in {passwords}")
        else:
            users += [f"{name}:{password}" for name, password in zip(*listed, strict=True)]
    if users:
        properties.setdefault("stuntbroker.users", ",".join(users))
    return unmatched


def _is_property(name: str) -> bool:
    from stuntbroker.broker.configuration.kafka_properties import is_kafka_property

    return name in BROKER or is_kafka_property(name)


def _add_listeners(properties: dict[str, str], environ: Mapping[str, str]) -> None:
    """Add missing `listeners`: each advertised listener listens on its port at every address, as in other images.

    With the variables of wurstmeister's image and with a single one of bitnami's, the advertised port is only advertised. A
    listener named CONTROLLER is taken for the controller's, whose name some start scripts do not set.
    """
    if "CONTROLLER://" in properties.get("listeners", "").upper():
        properties.setdefault("controller.listener.names", "CONTROLLER")
    if properties.get("listeners"):
        return
    advertised = properties.get("advertised.listeners", "")
    is_own_port = "KAFKA_ADVERTISED_LISTENERS" not in environ and (
        bool(_own_port(environ)) or bool(environ.keys() & ONLY_ADVERTISED)
    )
    if is_own_port and "," not in advertised:
        name = advertised.partition("://")[0] or "PLAINTEXT"
        properties["listeners"] = f"{name}://0.0.0.0:{_own_port(environ) or PORT_DEFAULT}"
    elif advertised:
        entries = []
        for entry in filter(None, map(str.strip, advertised.split(","))):
            name, separator, address = entry.partition("://")
            entries.append(f"{name}{separator}0.0.0.0:{address.rpartition(':')[2]}" if separator else entry)
        properties["listeners"] = ",".join(entries)


def _own_port(environ: Mapping[str, str]) -> str:
    """Return KAFKA_PORT of wurstmeister's image; an empty string if it is the URL of a service, as in Kubernetes."""
    port = environ.get("KAFKA_PORT", "")
    return port if port.isascii() and port.isdigit() else ""


def _created_topics(text: str) -> list[str]:
    """Convert KAFKA_CREATE_TOPICS (`NAME:PARTITIONS:REPLICAS[:POLICY]`, wurstmeister's image) to values of `--topic`.

    Options of kafka-topics may follow the policy: ` --config=retention.ms=1000`.
    """
    topics = []
    for entry in filter(None, map(str.strip, re.split("[,\n]", text))):
        place, *options = re.split(r"\s+--config[=\s]", entry)
        name, partitions, _, policy = [*place.split(":"), "", "", ""][:4]
        values = [f"cleanup.policy={policy.strip()}"] if policy.strip() else []
        topics.append(":".join([name, partitions or "1", *values, *map(str.strip, options)]))
    return topics
