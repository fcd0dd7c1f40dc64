"""Parse the options of the sink.

Options that Spark's own Kafka sink also has use its names. Case is ignored, as Spark lower-cases option names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final

from stuntbroker.client.security_properties import SecurityError
from stuntbroker.pipeline.decision_stores import DecisionsPlace, decisions_place
from stuntbroker.pipeline.decisions import SINK_ID, BatchWrite, check_sink_id
from stuntbroker.pipeline.spark.security import SecurityProperties, is_security_option, security_properties
from stuntbroker.protocol.addresses import parse_bootstrap
from stuntbroker.protocol.batches.records import CODEC_NAMES
from stuntbroker.protocol.primitives import INT32_MAX, INT64_MAX

TWO_PHASE: Final = "2pc"
SINGLE: Final = "single"
JOBS: Final = "-jobs"
"""Suffix that separates the decisions and transactional ids of batch writes from those of a stream."""
DECISIONS: Final = "kafka:stuntbroker-decisions"
TRANSACTION_TIMEOUT_MS: Final = 60_000
DELIVERY_TIMEOUT_MS: Final = 120_000
KNOWN: Final = (
    "kafka.bootstrap.servers",
    "topic",
    "sinkId",
    "mode",
    "decisions",
    "kafka.compression.type",
    "kafka.transaction.timeout.ms",
    "kafka.delivery.timeout.ms",
    "writeId",
    "writeVersion",
)
VERSION_MAX: Final = INT64_MAX
ACKS: Final = "kafka.acks"
ACKS_OF_ALL: Final = ("all", "-1")
WITHOUT_EFFECT: Final = {ACKS, "kafka.linger.ms"}
"""Options of Kafka's producer that are accepted but do not change the sink's behaviour."""
OF_SPARK: Final = {"checkpointlocation", "queryname"}
"""Spark's own options, which it also passes to the sink."""


class BadOption(ValueError):
    """An option is invalid. The message is one line: the option, the problem, and what to do."""


@dataclass(frozen=True)
class SinkOptions:
    """The validated options of the sink."""

    bootstrap: str
    topic: str | None
    """Topic of all rows; None if the column `topic` gives the topic of each row."""
    sink_id: str
    two_phase: bool
    decisions: DecisionsPlace
    compression: str
    transaction_timeout_ms: int
    """Transaction time-out of mode=single. Two-phase transactions have none."""
    delivery_timeout_ms: int
    """How long an operation is retried across failures and leader elections."""
    security: SecurityProperties = field(default=(), repr=False)
    """Not shown, because it may contain passwords."""
    write: BatchWrite | None = field(default=None, compare=False, repr=False)
    """The batch write, if it is repeatable. Not compared, as connections and claims belong to the sink."""


def sink_options(given: Mapping[str, str], stream: bool) -> SinkOptions:
    """Parse and validate the options of a stream or a batch write. Raises BadOption."""
    options = {name.lower(): str(value) for name, value in given.items()}
    _check_names(options)
    mode = options.get("mode", TWO_PHASE).lower()
    if mode not in (TWO_PHASE, SINGLE):
        raise BadOption(f"option mode={mode!r}: it must be {TWO_PHASE} or {SINGLE}")
    try:
        decisions = decisions_place(options.get("decisions", DECISIONS))
    except ValueError as fault:
        raise BadOption(f"option {fault}") from fault
    if mode == SINGLE and not decisions.is_topic:
        raise BadOption(f"option decisions={options['decisions']!r}: with mode=single it must be kafka:TOPIC")
    bootstrap = _needed(options, "kafka.bootstrap.servers", "HOST:PORT[,HOST:PORT...]")
    try:
        parse_bootstrap(bootstrap)
    except ValueError as fault:
        raise BadOption(f"option kafka.bootstrap.servers: {fault}") from fault
    try:
        security = security_properties(options)
    except SecurityError as fault:
        raise BadOption(str(fault)) from fault
    codec = options.get("kafka.compression.type", "none").lower()
    if codec not in CODEC_NAMES:
        raise BadOption(f"option kafka.compression.type={codec!r}: it must be one of {', '.join(CODEC_NAMES)}")
    return SinkOptions(
        bootstrap,
        options.get("topic") or None,
        _sink_id(_needed(options, "sinkId", "give a name that no other query has")) + ("" if stream else JOBS),
        mode == TWO_PHASE,
        decisions,
        codec,
        _milliseconds(options, "kafka.transaction.timeout.ms", TRANSACTION_TIMEOUT_MS),
        _milliseconds(options, "kafka.delivery.timeout.ms", DELIVERY_TIMEOUT_MS),
        security,
        _write(options, stream),
    )


def _check_names(options: Mapping[str, str]) -> None:
    if (acks := options.get(ACKS, "all")) not in ACKS_OF_ALL:
        raise BadOption(
            f"option {ACKS}={acks!r}: a transaction can only be committed when all in-sync replicas have its records, "
            "so it must be all or -1"
        )
    known = {name.lower(): name for name in KNOWN}
    for name in sorted(options.keys() - known.keys() - OF_SPARK - WITHOUT_EFFECT):
        if is_security_option(name):
            continue
        near = [match for match in get_close_matches(name, known, 1, 0.7) if ("." in match) == ("." in name)]
        hint = f"did you mean {known[near[0]]}?" if near else f"there are {', '.join(KNOWN)}"
        if name.startswith("kafka.") and not near:
            hint = f"the sink always writes idempotently with acks=all, remove the option; {hint}"
        raise BadOption(f"the stuntbroker sink has no option {name!r}: {hint}")


def _needed(options: Mapping[str, str], name: str, what: str) -> str:
    value = options.get(name.lower(), "")
    if not value:
        raise BadOption(f"option {name} is missing: {what}")
    return value


def _sink_id(value: str) -> str:
    try:
        check_sink_id(value)
        check_sink_id(value + JOBS)
    except ValueError as fault:
        raise BadOption(f"option sinkId: {fault}") from fault
    if value.endswith(JOBS):
        raise BadOption(f"option sinkId={value!r}: names that end in {JOBS!r} are those of batch writes")
    return value


def _write(options: Mapping[str, str], stream: bool) -> BatchWrite | None:
    write_id, version = options.get("writeid", ""), options.get("writeversion", "")
    if not write_id and not version:
        return None
    if stream:
        raise BadOption(
            "options writeId and writeVersion are for df.write: a stream numbers its batches itself, take them out"
        )
    if not write_id or not version:
        raise BadOption("options writeId and writeVersion belong together: set both, or none of them")
    if not SINK_ID.fullmatch(write_id):
        raise BadOption(f"option writeId={write_id!r}: it must be 1 to 180 of letters, digits, '.', '_' and '-'")
    if not (version.isascii() and version.isdigit() and int(version[:20]) <= VERSION_MAX):
        raise BadOption(f"option writeVersion={version!r}: it must be a whole number, 0 to {VERSION_MAX}")
    return BatchWrite(write_id, int(version))


def _milliseconds(options: Mapping[str, str], name: str, default: int) -> int:
    value = options.get(name.lower(), str(default))
    if not (value.isascii() and value.isdigit() and 0 < int(value[:12]) <= INT32_MAX):
        raise BadOption(f"option {name}={value!r}: it must be a number of milliseconds, 1 to {INT32_MAX}")
    return int(value)
