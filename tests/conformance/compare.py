"""Compare the replies of two brokers to the same case."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from tests.conformance.allowances import ALLOWANCES
from tests.conformance.shape import Text
from tests.conformance.side import Side, Step

Case = Callable[[Side], None]
NOTHING: Final = "nothing"
ORDER: Final = "(order)"
KEYS: Final = (
    "name",
    "topic",
    "topic_name",
    "key",
    "group_id",
    "transactional_id",
    "partition_index",
    "index",
    "partition",
    "topic_id",
    "producer_id",
    "member_id",
)


@dataclass(frozen=True, slots=True)
class Difference:
    case: str
    step: str
    path: str
    kafka: Any
    ours: Any

    def __str__(self) -> str:
        return f"{self.case} | {self.step} | {self.path}: Kafka {self.kafka!r}, ours {self.ours!r}"

    @property
    def is_order(self) -> bool:
        return self.path.endswith(ORDER)

    @property
    def is_text(self) -> bool:
        return isinstance(self.kafka, Text) or isinstance(self.ours, Text)

    @property
    def allowance(self) -> str | None:
        """The name of the allowance that permits the difference, None if there is none."""
        where = f"{self.case} | {self.step} | {self.path}"
        for name, allowance in ALLOWANCES.items():
            if re.search(allowance.where, where) and allowance.holds(self.kafka, self.ours):
                return name
        return None


def run_case(case: Case, kafka: str, ours: str, own: str) -> list[Difference]:
    """Run a case on both brokers at the same time; return the differences between their replies."""
    with ThreadPoolExecutor(2) as both:
        theirs, mine = both.map(lambda address: _transcript(case, address, own), (kafka, ours))
    return list(compared(case.__name__, theirs, mine))


def _transcript(case: Case, address: str, own: str) -> list[Step]:
    return transcript(case, Side(address, own))


def transcript(case: Case, side: Side) -> list[Step]:
    """Run a case with the connections of one side; return its requests and replies."""
    try:
        case(side)
    except Exception as fault:
        # A case that cannot continue after a reply is a difference, unless it stops the same way on both sides.
        side.steps.append(Step(f"{len(side.steps)}: the case stopped", f"{type(fault).__name__}: {fault}"))
    finally:
        side.close()
    return side.steps


def compared(case: str, kafka: Sequence[Step], ours: Sequence[Step]) -> Iterator[Difference]:
    for step in (*kafka, *ours):
        if step.label.endswith("the case stopped"):
            side = "Kafka" if step in kafka else "ours"
            yield Difference(case, step.label, f"({side})", step.reply if side == "Kafka" else "", step.reply)
    for each, other in zip(kafka, ours, strict=False):
        if each.label != other.label:
            yield Difference(case, each.label, "(another step)", each.label, other.label)
            return
        for path, theirs, mine in differences(each.reply, other.reply):
            yield Difference(case, each.label, path, theirs, mine)
    if len(kafka) != len(ours):
        yield Difference(case, "the end", "steps", len(kafka), len(ours))


def differences(kafka: Any, ours: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield (path, Kafka's value, our value) for every leaf that differs."""
    if isinstance(kafka, dict) and isinstance(ours, dict):
        for name in {**kafka, **ours}:
            yield from differences(kafka.get(name, NOTHING), ours.get(name, NOTHING), f"{path}.{name}".lstrip("."))
    elif isinstance(kafka, list) and isinstance(ours, list):
        yield from _differences_in_lists(kafka, ours, path)
    elif kafka != ours:
        yield path, kafka, ours


def _differences_in_lists(kafka: list[Any], ours: list[Any], path: str) -> Iterator[tuple[str, Any, Any]]:
    """Compare lists; elements with a name are compared by name, as many replies are in the order of a hash table."""
    for key in KEYS:
        theirs, mine = _by_key(kafka, key), _by_key(ours, key)
        if theirs is not None and mine is not None:
            if list(theirs) != list(mine) and theirs.keys() == mine.keys():
                yield f"{path}{ORDER}", list(theirs), list(mine)
            for name in {**theirs, **mine}:
                yield from differences(theirs.get(name, NOTHING), mine.get(name, NOTHING), f"{path}[{name}]")
            return
    if all(isinstance(value, int) for value in (*kafka, *ours)) and sorted(kafka) == sorted(ours):
        if kafka != ours:
            yield f"{path}{ORDER}", kafka, ours
        return
    for at in range(max(len(kafka), len(ours))):
        theirs = kafka[at] if at < len(kafka) else NOTHING
        mine = ours[at] if at < len(ours) else NOTHING
        yield from differences(theirs, mine, f"{path}[{at}]")


def _by_key(values: list[Any], key: str) -> dict[Any, Any] | None:
    if not all(isinstance(value, dict) and isinstance(value.get(key), str | int) for value in values):
        return None
    actual = {value[key]: value for value in values}
    return actual if len(actual) == len(values) else None
