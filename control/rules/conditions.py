"""Conditions on the state of a broker, for waiting until one is true."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stuntbroker.control.observation import state
from stuntbroker.control.rules.faults import FaultError, check_number, part_of
from stuntbroker.coordinator.state import Phase
from stuntbroker.groups.classic.state import GroupState
from stuntbroker.protocol.primitives import INT32_MAX, INT64_MAX

if TYPE_CHECKING:
    from stuntbroker.control.observation.state import StatePorts


POLL_S: Final = 0.005
OF_TRANSACTION: Final = {"phase": str, "is_open": bool, "producer_epoch": int}
OF_PARTITION: Final = {"last_stable_offset": int, "end_offset": int, "log_start_offset": int}
OF_GROUP: Final = {"state": str, "members": int, "generation": int}
NAMES: Final = {"phase": [phase.kafka_name for phase in Phase], "state": [each.value for each in GroupState]}
COMMITTED_OFFSET: Final = "committed_offset"
AT_LEAST: Final = frozenset({*OF_PARTITION, COMMITTED_OFFSET})
"""Fields that only grow: a condition on them is true for the given value or a higher one."""
SUBJECTS: Final = {"transactional_id", "topic", "partition", "group"}
FIELDS: Final = {
    *SUBJECTS,
    COMMITTED_OFFSET,
    *OF_TRANSACTION,
    *OF_PARTITION,
    *OF_GROUP,
}


class Term(NamedTuple):
    """One term of a condition: a field of a subject, and its value."""

    what: str
    """Description, such as "last_stable_offset of orders-0"."""
    subject: tuple[str, Any]
    """(kind, name); for a topic (kind, (name, partition)), for a committed offset (kind, (group, (name, partition)))."""
    name: str
    wanted: Any

    def is_met_by(self, value: Any) -> bool:
        """Return whether a value fulfils the term."""
        if value is None:
            return False
        return bool(value >= self.wanted if self.name in AT_LEAST else value == self.wanted)


def read_condition(condition: Any) -> list[Term]:
    """Parse a condition into terms, all of which must be true. Raises FaultError.

    `{"transactional_id": "pay", "phase": "CompleteCommit"}`, `{"topic": "orders", "last_stable_offset": 5}`,
    `{"group": "readers", "members": 2}`, `{"group": "readers", "topic": "orders", "committed_offset": 5}`
    """
    given = part_of({"until": condition}, "until", FIELDS)
    for name in ("transactional_id", "topic", "group"):
        if not isinstance(given.get(name, ""), str):
            raise FaultError(f"until.{name} must be a text", f"it is {given[name]!r:.50}")
    check_number(given, "until", "partition", 0, INT32_MAX)
    place = given.get("topic"), given.get("partition", 0)
    terms: list[Term] = []
    for subject, value, known in (
        ("transactional_id", given.get("transactional_id"), OF_TRANSACTION),
        ("topic", None if place[0] is None else place, OF_PARTITION),
        ("group", given.get("group"), OF_GROUP),
    ):
        for name in known.keys() & given.keys():
            if value is None:
                raise FaultError(f"until.{name} needs a {subject}", f"add {subject} to until")
            _check(given, name, known[name])
            of = f"{value[0]}-{value[1]}" if subject == "topic" else value
            terms.append(Term(f"{name} of {of}", (subject, value), name, given[name]))
    if COMMITTED_OFFSET in given:
        if given.get("group") is None or place[0] is None:
            raise FaultError(f"until.{COMMITTED_OFFSET} needs a group and a topic", "add both to until")
        _check(given, COMMITTED_OFFSET, int)
        what = f"{COMMITTED_OFFSET} of {given['group']} in {place[0]}-{place[1]}"
        terms.append(Term(what, ("offset", (given["group"], place)), COMMITTED_OFFSET, given[COMMITTED_OFFSET]))
    used = {term.subject[0] for term in terms} | ({"topic", "group"} if COMMITTED_OFFSET in given else set())
    for subject, known in (("transactional_id", OF_TRANSACTION), ("topic", OF_PARTITION), ("group", OF_GROUP)):
        if subject in given and terms and subject not in used:
            raise FaultError(f"until has no condition for the {subject}", f"give one of {', '.join(sorted(known))}")
    if not terms:
        raise FaultError("until has no condition", f"give one of {', '.join(sorted(FIELDS - SUBJECTS))}")
    return sorted(terms)


def _check(given: dict[str, Any], name: str, kind: type) -> None:
    if kind is int:
        check_number(given, "until", name, 0, INT64_MAX)
    elif name in NAMES:
        if given[name] not in NAMES[name]:
            raise FaultError(f"until.{name} must be one of {', '.join(NAMES[name])}", f"it is {given[name]!r:.50}")
    elif not isinstance(given[name], kind):
        raise FaultError(
            f"until.{name} must be {'true or false' if kind is bool else 'a text'}", f"it is {given[name]!r:.50}"
        )


def value_of(broker: StatePorts, term: Term) -> Any:
    """Return the current value of a term; None if there is no such id, topic or group."""
    subject, value = term.subject
    shown: dict[str, Any] | None
    if subject == "transactional_id":
        shown = state.transaction(broker, value)
    elif subject == "topic":
        shown = state.partition(broker, *value)
    elif subject == "group":
        shown = state.group(broker, value)
        if shown is not None and term.name == "members":
            return len(shown["members"])
    else:
        return state.committed_offset(broker, *value)
    return None if shown is None else shown[term.name]


async def wait_until(current: Callable[[], StatePorts], terms: list[Term], timeout_s: float) -> list[str]:
    """Wait until all terms are true; after the time-out (system clock) return those that are not, as texts.

    `current` returns the present broker, which may be replaced while waiting.
    """
    deadline_ms = current().clock.client_ms() + round(timeout_s * 1_000)
    while True:
        broker = current()
        values = [(term, value_of(broker, term)) for term in terms]
        open_terms = [(term, value) for term, value in values if not term.is_met_by(value)]
        if not open_terms or broker.clock.client_ms() >= deadline_ms:
            return [
                f"{term.what} is {'nothing' if value is None else value}, not {term.wanted}"
                for term, value in open_terms
            ]
        await asyncio.sleep(POLL_S)
