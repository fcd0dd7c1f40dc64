"""Fault rules: which requests match, when a rule fires, and its effect. Pure functions, without I/O or connections.

    {"match": {"api": "EndTxn", "transactional_id": "pay-*"}, "when": {"nth": 1, "times": 1}, "do": {"lose_response": true}}

A rule counts the requests that match, and how often it has fired.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from stuntbroker.broker.random_source import SeededRandomSource
from stuntbroker.broker.requests.plain_messages import Plain, sample_request
from stuntbroker.control.rules.wildcards import matches_pattern
from stuntbroker.protocol.api_keys import APIS, INIT_PRODUCER_ID
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.request_values import OF_GROUP, OF_TRANSACTION
from stuntbroker.protocol.software import FIXTURE_CLIENT_ID
from stuntbroker.protocol.transaction_states import EPOCH_LAST

MATCH: Final = {
    "api": "Kafka's name of the request, or a list of names; `*` and `?` are wildcards",
    "version": "version of the request",
    "client_id": "client id; a pattern, as are all strings here",
    "transactional_id": "transactional id in the request, also in FindCoordinator",
    "group": "consumer group in the request, also in FindCoordinator",
    "topic": "topic in the request; requests with topic ids match by the topic's name, and a Fetch by the topics of its session",
    "partition": "number of a partition in the request",
    "listener": "name of the listener that the client connected to",
    "node": "id of the node that the client connected to",
}
"""Fields of `match`, which selects the requests of a rule."""
NUMBERS: Final = ("version", "partition", "node")
CARRIED: Final = ("transactional_id", "group", "topic", "partition")
"""Fields of `match` that only some APIs have."""
TEXTS: Final = tuple(name for name in MATCH if name not in {"api", *NUMBERS})
WHEN: Final = {
    "nth": "the fault fires from the n-th matching request on, counted from 1",
    "times": "the fault fires at most this many times; 0 or no value: every time",
    "probability": "probability of firing, from 0 to 1",
    "seed": "random seed for the probability: the same seed selects the same requests",
    "after_ms": "the fault fires only after this time of the broker's clock",
}
"""Fields of `when`, which selects the matching requests for which the rule fires."""
DELAY: Final = "delay_ms"
VERBS: Final = {
    "error": "the request is not handled; all of it is refused with this error code (a name or a number)",
    DELAY: "the request is handled after this time of the broker's clock",
    "no_response": "the request is not handled, and there is no response; the connection stays open",
    "close": "the request is not handled, and the connection is closed",
    "throttle_ms": "the request is handled; the response has this throttle time",
    "lose_response": "the request is handled; the connection is closed without a response",
    "respond_only": "the request is not handled; the response reports success",
    "duplicate": "the request is handled twice; the response is the first one",
    "hold": "the request waits until it is released, and is handled then, even if its client has disconnected; "
    '`{"hold": {"until": {"topic": "orders", "end_offset": 5}}}` releases it when this condition is true, '
    "as for `POST /v1/wait`",
    "reorder": "the request waits until the next matching request, of another connection, is answered, "
    "which counts neither for `nth` nor for `times`",
    "advance_ms": "the broker's clock is advanced by this time, and the request is handled",
    "producer_epoch": "the transactional id gets this producer epoch, as by `POST /v1/seed`, if possible; "
    "then the request is handled; for InitProducerId",
    "newer_instance": "a new instance of the producer calls InitProducerId, which aborts an open transaction; "
    "then the request is handled: the client is a zombie",
    "corrupt": "the request is handled; every byte of the response after its correlation id is corrupt",
}
"""Fields of `do`, which has exactly one: the effect. The tables in docs/control.md are generated from these texts."""
TIMES_MS_MAX: Final = 24 * 3_600_000
ADVANCE_MS_MAX: Final = 366 * TIMES_MS_MAX
HIGHEST: Final = {
    DELAY: TIMES_MS_MAX,
    "throttle_ms": TIMES_MS_MAX,
    "advance_ms": ADVANCE_MS_MAX,
    "producer_epoch": EPOCH_LAST,
}
"""Verb with a number -> its maximum."""
TEXT_MAX: Final = 500
"""Maximum length of a pattern, as patterns are matched against every request."""
Versions = Mapping[int, tuple[int, int]]
"""API key -> lowest and highest version."""
VERSIONS_SHOWN: Final = 3
"""Maximum number of APIs listed in the error for a version that none of them has."""
API_NAMES: Final = {api.name.lower(): key for key, api in APIS.items()}
FIELDS: Final = {
    "transactional_id": {"transactional_id", "transactional_ids", "v3_and_below_transactional_id"},
    "group": {"group_id", "groups", "groups_names", "consumer_group_id"},
    "topic": {"topic_names", "topics"},
}
"""Kind -> request fields that have such names, as a text or a list of texts."""
NAMES_OF_A_TOPIC: Final = {"name", "topic"}
"""Fields with the topic's name, in elements of a list of topics."""


NEWER_INSTANCE: Final = "stuntbroker-newer-instance"
"""Client id of the instances that `newer_instance` starts; only rules that name it match their requests."""


class FaultError(ValueError):
    """An invalid rule. `hint`: how to correct it."""

    def __init__(self, text: str, hint: str) -> None:
        super().__init__(text)
        self.hint = hint


@dataclass(frozen=True)
class Subject:
    """Properties of a request that rules match."""

    key: int
    version: int
    client_id: str
    listener: str
    fields: Plain
    node: int = -1
    """Id of the node that received the request."""

    def texts(self, name: str) -> set[str]:
        """Return the texts of a kind in the request: transactional ids, groups, topics, client id or listener."""
        if name == "client_id":
            return {self.client_id}
        if name == "listener":
            return {self.listener}
        return texts_in(name, self.fields)

    def partitions(self) -> set[int]:
        """Return the partition indexes in the request."""
        return set(_partitions(self.fields))


def texts_in(kind: str, fields: Plain) -> set[str]:
    """Return the transactional ids, groups or topics (`kind`) in the fields of a request."""
    return set(_texts(kind, fields))


def _texts(kind: str, fields: Mapping[str, Any], of_a_topic: bool = False) -> Iterator[str]:
    known = FIELDS[kind] | NAMES_OF_A_TOPIC if of_a_topic and kind == "topic" else FIELDS[kind]
    if "key_type" in fields and kind == ("transactional_id" if fields["key_type"] == OF_TRANSACTION else "group"):
        known = known | {"key", "coordinator_keys"}
    for name, value in fields.items():
        if isinstance(value, str):
            if name in known:
                yield value
        elif isinstance(value, list):
            for each in value:
                if isinstance(each, dict):
                    yield from _texts(kind, each, "topic" in name)
                elif isinstance(each, str) and name in known:
                    yield each


def _partitions(fields: Mapping[str, Any]) -> Iterator[int]:
    for name, value in fields.items():
        if name in ("index", "partition", "partition_index") and isinstance(value, int):
            yield value
        elif isinstance(value, list):
            if name in ("partitions", "partition_indexes"):
                yield from (each for each in value if isinstance(each, int))
            for each in value:
                if isinstance(each, dict):
                    yield from _partitions(each)


@cache
def can_carry(key: int, name: str) -> bool:
    """Return whether requests of an API can have a transactional id, group, topic or partition (`name`)."""
    sample = sample_request(key)
    if name == "partition":
        return any(True for _ in _partitions(sample))
    # The key of FindCoordinator is a group or a transactional id.
    key_types = (OF_GROUP, OF_TRANSACTION) if "key_type" in sample else (None,)
    return any(texts_in(name, sample if each is None else {**sample, "key_type": each}) for each in key_types)


def match_as_json(match: Mapping[str, Any]) -> dict[str, Any]:
    """Return a match in JSON form, with API names instead of keys."""
    return {name: [APIS[key].name for key in value] if name == "api" else value for name, value in match.items()}


def matches(match: Mapping[str, Any], subject: Subject) -> bool:
    """Return whether a request fits a match that `read_match` returned."""
    if subject.client_id in (FIXTURE_CLIENT_ID, NEWER_INSTANCE) and "client_id" not in match:
        return False
    for name, wanted in match.items():
        if name == "api":
            if subject.key not in wanted:
                return False
        elif name in ("version", "node"):
            if getattr(subject, name) != wanted:
                return False
        elif name == "partition":
            if wanted not in subject.partitions():
                return False
        elif not any(matches_pattern(text, wanted) for text in subject.texts(name)):
            return False
    return True


@dataclass
class Fault:
    """A fault rule, with the number of requests that matched it, and for which it fired."""

    id: str
    match: dict[str, Any]
    when: dict[str, Any]
    verb: str
    value: Any
    created_at_ms: int
    """Time of creation, in ms of the broker's monotonic clock."""
    matched: int = 0
    fired: int = 0

    def __post_init__(self) -> None:
        self._random_source = SeededRandomSource(self.when.get("seed", 0))

    @property
    def is_slow_node(self) -> bool:
        """Whether the fault delays all requests of a node (`slow_ms`)."""
        return self.verb == DELAY and self.match.keys() == {"node"} and not self.when

    def fires(self, subject: Subject, now_ms: int) -> bool:
        """Count a request if it matches; return whether the fault fires for it."""
        if not matches(self.match, subject) or now_ms < self.created_at_ms + self.when.get("after_ms", 0):
            return False
        self.matched += 1
        times = self.when.get("times", 0)
        if self.matched < self.when.get("nth", 1) or (times and self.fired >= times):
            return False
        if int.from_bytes(self._random_source.random_bytes(8)) >= self.when.get("probability", 1.0) * (1 << 64):
            return False
        self.fired += 1
        return True

    def as_json(self) -> dict[str, Any]:
        """Return the rule as it was given, with its id and counts."""
        value = self.value.name if isinstance(self.value, ErrorCode) else self.value
        return {
            "id": self.id,
            "match": match_as_json(self.match),
            "when": self.when,
            "do": {self.verb: value},
            "matched": self.matched,
            "fired": self.fired,
        }


def read_fault(id_: str, rule: Any, now_ms: int) -> Fault:
    """Parse a fault rule. Raises FaultError."""
    if not isinstance(rule, dict):
        raise FaultError("a fault is an object", 'as {"match": {"api": "EndTxn"}, "do": {"lose_response": true}}')
    unknown = rule.keys() - {"match", "when", "do"}
    if unknown:
        raise FaultError(f"a fault has no {', '.join(sorted(unknown))}", "give match, when and do")
    match = part_of(rule, "match", MATCH.keys())
    when = part_of(rule, "when", WHEN.keys())
    action = part_of(rule, "do", VERBS.keys())
    if len(action) != 1:
        raise FaultError("do must have one verb", f"one of {', '.join(VERBS)}")
    ((verb, value),) = action.items()
    match = read_match(match)
    if verb == "producer_epoch":
        if INIT_PRODUCER_ID not in match.get("api", (INIT_PRODUCER_ID,)):
            raise FaultError(
                "do.producer_epoch applies to InitProducerId only", 'as {"match": {"api": "InitProducerId"}}'
            )
        match["api"] = frozenset((INIT_PRODUCER_ID,))
    return Fault(id_, match, _read_when(when), verb, _read_value(verb, value), now_ms)


def part_of(rule: dict[str, Any], name: str, known: Set[str]) -> dict[str, Any]:
    """Return a copy of one part of a rule, which must be an object with known fields only. Raises FaultError."""
    part = rule.get(name, {})
    if not isinstance(part, dict):
        raise FaultError(f"{name} must be an object", f"with {', '.join(sorted(known))}")
    if unknown := part.keys() - known:
        raise FaultError(f"{name} has no {', '.join(sorted(unknown))}", f"it may have {', '.join(sorted(known))}")
    return dict(part)


def read_match(match: dict[str, Any]) -> dict[str, Any]:
    """Validate a rule's match, and replace API names by keys. Raises FaultError."""
    if "api" in match:
        names = match["api"] if isinstance(match["api"], list) else [match["api"]]
        if not names:
            raise FaultError("match.api names no API", "leave it out for all of them")
        keys = set()
        for name in names:
            named = {
                key for api, key in API_NAMES.items() if isinstance(name, str) and matches_pattern(api, name.lower())
            }
            if not named:
                raise FaultError(
                    f"there is no API {name!r}", "use Kafka's names: EndTxn, Produce, AddPartitionsToTxn ..."
                )
            keys |= named
        match["api"] = frozenset(keys)
        for name in CARRIED:
            if name in match and not any(can_carry(key, name) for key in keys):
                known = (
                    ", ".join(each for each in CARRIED if any(can_carry(key, each) for key in keys)) or "none of these"
                )
                raise FaultError(
                    f"no request that matches has a {name}: {', '.join(APIS[key].name for key in sorted(keys))}",
                    f"there is {known}",
                )
    for name in TEXTS:
        check_text(match, "match", name)
    for name in NUMBERS:
        check_number(match, "match", name, 0, 1 << 31)
    return match


def check_place(match: Mapping[str, Any], listeners: Mapping[str, Versions], nodes: Collection[int]) -> None:
    """Raise FaultError for a listener, node or version that the broker does not have, so that no request can match.

    `listeners`: name -> the versions that it serves.
    """
    pattern = match.get("listener", "*")
    reached = [versions for name, versions in listeners.items() if matches_pattern(name, pattern)]
    if not reached:
        raise FaultError(f"there is no listener {pattern!r}", f"there is {', '.join(sorted(listeners))}")
    if match.get("node") not in (None, *nodes):
        raise FaultError(f"there is no node {match['node']}", f"there is {', '.join(map(str, sorted(nodes)))}")
    if "version" not in match:
        return
    keys = sorted(match.get("api", APIS))
    served = [(key, versions[key]) for versions in reached for key in keys if key in versions]
    if not any(low <= match["version"] <= high for _, (low, high) in served):
        known = [f"{APIS[key].name} {low} to {high}" for key, (low, high) in served[:VERSIONS_SHOWN]]
        more = " ..." if len(served) > VERSIONS_SHOWN else ""
        raise FaultError(
            f"no request that matches has version {match['version']}", f"there is {', '.join(known)}{more}"
        )


def _read_when(when: dict[str, Any]) -> dict[str, Any]:
    check_number(when, "when", "nth", 1, 1 << 31)
    check_number(when, "when", "times", 0, 1 << 31)
    check_number(when, "when", "after_ms", 0, TIMES_MS_MAX)
    check_number(when, "when", "seed", 0, 1 << 63)
    probability = when.get("probability", 1.0)
    if isinstance(probability, bool) or not isinstance(probability, int | float) or not 0 <= probability <= 1:
        raise FaultError("when.probability must be a number from 0 to 1", "0.1: one request in ten")
    return when


def check_text(part: dict[str, Any], where: str, name: str) -> None:
    """Raise FaultError unless the field `name` is missing, or a text of at most TEXT_MAX characters."""
    value = part.get(name, "")
    if not isinstance(value, str) or len(value) > TEXT_MAX:
        hint = "* and ? are wildcards" if where == "match" else ""
        raise FaultError(f"{where}.{name} must be a text of at most {TEXT_MAX} characters", hint)


def check_number(part: dict[str, Any], where: str, name: str, lowest: int, highest: int) -> None:
    """Raise FaultError unless the field `name` is missing, or a whole number in the range."""
    value = part.get(name, lowest)
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
        hint = f"it is {value!r:.50}" if name in part else f"{where} has no {name}"
        raise FaultError(f"{where}.{name} must be a whole number from {lowest} to {highest}", hint)


def _read_value(verb: str, value: Any) -> Any:
    if verb == "error":
        try:
            if isinstance(value, str):
                error = ErrorCode[value.upper()]
            elif type(value) is int:  # True and 2.0 equal error codes.
                error = ErrorCode(value)
            else:
                raise ValueError(value)
        except (KeyError, ValueError):
            raise FaultError(f"there is no error {value!r}", "use Kafka's names: NOT_COORDINATOR ...") from None
        if error == ErrorCode.NONE:
            raise FaultError("NONE is not an error", "use respond_only to report success without handling the request")
        return error
    if verb in HIGHEST:
        check_number({verb: value}, "do", verb, 0, HIGHEST[verb])
    elif value is not True and not (verb == "hold" and isinstance(value, dict)):
        raise FaultError(f"do.{verb} must be true", f'as {{"{verb}": true}}')
    return value
