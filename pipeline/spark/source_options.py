"""Parse the options of the source, which have the same names and meaning as in Spark's own Kafka source."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final

from stuntbroker.client.commands.fetching import FetchSizes, TopicPartition
from stuntbroker.client.security_properties import SecurityError
from stuntbroker.pipeline.spark.offsets import Position, SourceError
from stuntbroker.pipeline.spark.security import SecurityProperties, is_security_option, security_properties
from stuntbroker.protocol.addresses import Address, parse_bootstrap
from stuntbroker.protocol.primitives import INT32_MAX, INT64_MAX
from stuntbroker.protocol.request_values import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED

COLUMNS: Final = (
    ("key", "binary"),
    ("value", "binary"),
    ("topic", "string"),
    ("partition", "int"),
    ("offset", "bigint"),
    ("timestamp", "timestamp"),
    ("timestampType", "int"),
)
"""Names and types of the columns, the same as in Spark's own Kafka source."""
INCLUDE_HEADERS: Final = "includeHeaders"
HEADERS: Final = ("headers", "array<struct<key:string,value:binary>>")
"""Additional column with `includeHeaders`."""
SUBSCRIPTIONS: Final = ("assign", "subscribe", "subscribePattern")
ENDINGS: Final = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
KNOWN: Final = (
    *SUBSCRIPTIONS,
    *ENDINGS,
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsets",
    "startingOffsetsByTimestampStrategy",
    "failOnDataLoss",
    INCLUDE_HEADERS,
    "minPartitions",
    "maxRecordsPerPartition",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "kafka.bootstrap.servers",
    "kafka.isolation.level",
    "kafka.max.partition.fetch.bytes",
    "kafka.fetch.max.bytes",
    "kafka.fetch.min.bytes",
    "kafka.fetch.max.wait.ms",
    "kafka.group.id",
    "kafka.check.crcs",
)
WITHOUT_EFFECT: Final = frozenset(
    {
        "client.dns.lookup",
        "client.id",
        "connections.max.idle.ms",
        "default.api.timeout.ms",
        "exclude.internal.topics",
        "heartbeat.interval.ms",
        "max.poll.interval.ms",
        "max.poll.records",
        "metadata.max.age.ms",
        "metrics.num.samples",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "request.timeout.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "send.buffer.bytes",
        "session.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
    }
)
"""Options of the Java consumer that do not affect the rows."""
TIMEOUT_MS: Final = 120_000
PARTITION_BYTES_MAX: Final = 4 << 20
FETCH_BYTES_MAX: Final = 50 << 20
MAX_TRIGGER_DELAY: Final = "15m"
_SECONDS: Final = {"us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


def columns(include_headers: bool) -> Sequence[tuple[str, str]]:
    """Return name and type of each column."""
    return (*COLUMNS, HEADERS) if include_headers else COLUMNS


@dataclass(frozen=True)
class Subscription:
    """Topics or partitions to read. Exactly one field is not None."""

    partitions: tuple[TopicPartition, ...] | None = None
    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    """Regular expression that must match a part of a topic name."""


@dataclass(frozen=True)
class SourceOptions:
    """The validated options of the source."""

    bootstrap: tuple[Address, ...]
    subscription: Subscription
    start: Position
    end: Position
    isolation: int
    sizes: FetchSizes
    timeout_s: float
    fail_on_data_loss: bool
    include_headers: bool
    min_partitions: int | None
    max_records_per_partition: int | None
    max_offsets: int | None
    min_offsets: int | None
    max_trigger_delay_s: float
    security: SecurityProperties = field(default=(), repr=False)
    """Not shown, because it may contain passwords."""


def check_names(source: str, given: Iterable[str], known: Sequence[str]) -> None:
    """Check the option names of a source, ignoring case. Raises SourceError for the first unknown one."""
    names = {name.lower(): name for name in known}
    for name in sorted({name.lower() for name in given} - names.keys()):
        near = get_close_matches(name, names, 1)
        hint = f"did you mean {names[near[0]]}?" if near else "take it out, or see the list in the documentation"
        raise SourceError(f"the {source} source has no option {name!r}: {hint}")


def parse_options(given: Mapping[str, str], streaming: bool) -> SourceOptions:
    """Parse and validate options, ignoring the case of their names. Raises SourceError."""
    options = _Options(given)
    options.check_names()
    max_offsets, min_offsets = options.count("maxOffsetsPerTrigger"), options.count("minOffsetsPerTrigger")
    if max_offsets is not None and min_offsets is not None and min_offsets > max_offsets:
        raise SourceError(f"minOffsetsPerTrigger ({min_offsets}) is more than maxOffsetsPerTrigger ({max_offsets})")
    if streaming and (wrong := next(filter(options.text, ENDINGS), None)):
        raise SourceError(f"{wrong} is for batch queries only: a stream has no end; take it out")
    return SourceOptions(
        bootstrap=options.bootstrap(),
        subscription=options.subscription(),
        start=options.start(streaming),
        end=options.end(),
        isolation=options.isolation(),
        sizes=FetchSizes(
            options.count("kafka.fetch.max.bytes") or FETCH_BYTES_MAX,
            options.count("kafka.max.partition.fetch.bytes") or PARTITION_BYTES_MAX,
            options.count("kafka.fetch.min.bytes") or 1,
            options.count("kafka.fetch.max.wait.ms") or 500,
        ),
        timeout_s=(options.count("kafkaConsumer.pollTimeoutMs") or TIMEOUT_MS) / 1_000,
        fail_on_data_loss=options.flag("failOnDataLoss", True),
        include_headers=options.flag(INCLUDE_HEADERS, False),
        min_partitions=options.count("minPartitions"),
        max_records_per_partition=options.count("maxRecordsPerPartition"),
        max_offsets=max_offsets,
        min_offsets=min_offsets,
        max_trigger_delay_s=options.seconds("maxTriggerDelay", MAX_TRIGGER_DELAY),
        security=options.security(),
    )


class _Options:
    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): str(value) for name, value in given.items()}

    def text(self, name: str) -> str:
        """Return the stripped value of an option, empty if the option is not set."""
        return self._given.get(name.lower(), "").strip()

    def check_names(self) -> None:
        without_effect = {f"kafka.{name}" for name in WITHOUT_EFFECT}
        names = {name for name in self._given if name not in without_effect and not is_security_option(name)}
        check_names("stuntbroker", names, KNOWN)

    def security(self) -> SecurityProperties:
        try:
            return security_properties(self._given)
        except SecurityError as fault:
            raise SourceError(str(fault)) from fault

    def bootstrap(self) -> tuple[Address, ...]:
        if not (text := self.text("kafka.bootstrap.servers")):
            raise SourceError("the option kafka.bootstrap.servers is missing: give HOST:PORT of one broker or more")
        try:
            return tuple(parse_bootstrap(text))
        except ValueError as fault:
            raise SourceError(f"kafka.bootstrap.servers: {fault}") from fault

    def subscription(self) -> Subscription:
        given = [name for name in SUBSCRIPTIONS if self.text(name)]
        if len(given) != 1:
            has = f"has {' and '.join(given)}" if given else "has none"
            raise SourceError(f"exactly one of {', '.join(SUBSCRIPTIONS)} is needed, the query {has}")
        text = self.text(given[0])
        match given[0]:
            case "assign":
                return Subscription(partitions=tuple(_assignment(text)))
            case "subscribe":
                if topics := tuple(dict.fromkeys(topic.strip() for topic in text.split(",") if topic.strip())):
                    return Subscription(topics=topics)
                raise SourceError(f"subscribe names no topic: {text!r}; give NAME[,NAME...]")
        try:
            with warnings.catch_warnings():
                # Python takes `[a[b]]` and `[a&&b]` for something else than Java, and warns of it.
                warnings.simplefilter("error", FutureWarning)
                re.compile(text)
        except re.error as fault:
            raise SourceError(f"subscribePattern is no regular expression: {fault}") from fault
        except FutureWarning as fault:
            raise SourceError(f"subscribePattern has another meaning in Java: {fault}; write it without") from fault
        return Subscription(pattern=text)

    def start(self, streaming: bool) -> Position:
        strategy = (self.text("startingOffsetsByTimestampStrategy") or "error").lower()
        if strategy not in ("error", "latest"):
            raise SourceError(f"startingOffsetsByTimestampStrategy is {strategy!r}, not error or latest")
        position = self._position("starting", LATEST if streaming else EARLIEST, strategy == "latest")
        if not streaming and not position.is_time:
            self._refuse(position, LATEST, "a batch query that begins at the latest offset reads nothing")
        return position

    def end(self) -> Position:
        position = self._position("ending", LATEST, True)
        if not position.is_time:
            self._refuse(position, EARLIEST, "a query that ends at the earliest offset reads nothing")
        return position

    def _refuse(self, position: Position, offset: int, why: str) -> None:
        if offset in (position.everywhere, *(position.each or {}).values()):
            word = "latest (-1)" if offset == LATEST else "earliest (-2)"
            raise SourceError(f"{position.option} cannot be {word}: {why}")

    def _position(self, side: str, default: int, latest_if_none: bool) -> Position:
        """Return a position, by precedence as in Spark's own source: one timestamp, timestamps per partition, offsets."""
        name = f"{side}Timestamp"
        if text := self.text(name):
            if not re.fullmatch(r"\d{1,18}", text):
                raise SourceError(f"{name} is {text!r}, not milliseconds since 1970")
            return Position(name, int(text), None, True, latest_if_none)
        name = f"{side}OffsetsByTimestamp"
        if text := self.text(name):
            return Position(name, None, _by_partition(name, text, 0), True, latest_if_none)
        name = f"{side}Offsets"
        text = self.text(name)
        if word := {"": default, "earliest": EARLIEST, "latest": LATEST}.get(text.lower()):
            return Position(name, word)
        return Position(name, None, _by_partition(name, text, EARLIEST))

    def isolation(self) -> int:
        """Return the isolation level; the default is read_committed (read_uncommitted in Spark's own source)."""
        levels = {"read_committed": READ_COMMITTED, "read_uncommitted": READ_UNCOMMITTED}
        text = self.text("kafka.isolation.level").lower() or "read_committed"
        if text not in levels:
            raise SourceError(f"kafka.isolation.level is {text!r}, not read_committed or read_uncommitted")
        return levels[text]

    def flag(self, name: str, default: bool) -> bool:
        text = self.text(name).lower()
        if text not in ("", "true", "false"):
            raise SourceError(f"{name} is {text!r}, not true or false")
        return text == "true" if text else default

    def count(self, name: str) -> int | None:
        """Return a positive integer, below 2^31 for options of Kafka's consumer; None if the option is not set."""
        text = self.text(name)
        if not text:
            return None
        most = INT32_MAX if name.startswith("kafka.") else INT64_MAX
        if not re.fullmatch(r"\d{1,19}", text) or not 0 < int(text) <= most:
            raise SourceError(f"{name} is {text!r}, not a whole number from 1 to {most}")
        return int(text)

    def seconds(self, name: str, default: str) -> float:
        """Return a duration such as `15m`, `90s` or `500ms` in seconds; without a unit, the value is in milliseconds."""
        text = self.text(name) or default
        match = re.fullmatch(r"(\d{1,15})\s*([a-z]*)", text.lower())
        if match is None or (match[2] or "ms") not in _SECONDS:
            raise SourceError(f"{name} is {text!r}, not a time such as 15m, 90s or 500ms")
        return int(match[1]) * _SECONDS[match[2] or "ms"]


def _json(name: str, text: str, example: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError as fault:
        raise SourceError(f"{name} is no JSON ({fault}); it looks like {example}") from fault
    if not isinstance(document, dict) or not document:
        raise SourceError(f"{name} is {text!r}; it looks like {example}")
    return document


def _assignment(text: str) -> list[TopicPartition]:
    example = '{"topic": [0, 1]}'
    assigned = set()
    for topic, partitions in _json("assign", text, example).items():
        if not isinstance(partitions, list) or not all(type(number) is int and number >= 0 for number in partitions):
            raise SourceError(f"assign gives {topic!r} the partitions {partitions!r}; it looks like {example}")
        assigned |= {TopicPartition(topic, number) for number in partitions}
    if not assigned:
        raise SourceError(f"assign names no partition: {text!r}; it looks like {example}")
    return sorted(assigned)


def _by_partition(name: str, text: str, least: int) -> dict[TopicPartition, int]:
    """Parse JSON with an integer of at least `least` for every partition."""
    example = '{"topic": {"0": 23, "1": 42}}'
    words = "earliest, latest or JSON such as " if name.endswith("Offsets") else ""
    numbers = {}
    for topic, partitions in _json(name, text, words + example).items():
        if not isinstance(partitions, dict):
            raise SourceError(f"{name} gives {topic!r} {partitions!r}; it looks like {example}")
        for partition, number in partitions.items():
            if not re.fullmatch(r"\d{1,9}", partition) or type(number) is not int or not least <= number <= INT64_MAX:
                raise SourceError(
                    f"{name} gives partition {partition!r} of {topic!r} {number!r}, "
                    f"not a whole number from {least}; it looks like {example}"
                )
            numbers[TopicPartition(topic, int(partition))] = number
    return numbers


def includes_headers(given: Mapping[str, str]) -> bool:
    """Return whether the rows have a column of headers. Raises SourceError, also for an unknown option.

    Spark asks for the columns first: what is refused later, in a stream, ends in an unrelated error of Spark's.
    """
    options = _Options(given)
    options.check_names()
    return options.flag(INCLUDE_HEADERS, False)
