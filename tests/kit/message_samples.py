"""All messages with a codec, in all versions, and random values for them generated from the schemas."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest
from schema import ALWAYS, Field, Message, Struct, python_name, read_schemas

from stuntbroker.protocol.primitives import ZERO_UUID
from tests.kit.cases import check_each

ROOT = Path(__file__).parent.parent.parent
MESSAGES = read_schemas(ROOT / "tools" / "schemas")
CASES = [
    (message, version) for message in MESSAGES for version in range(message.versions.low, message.versions.high + 1)
]
Test = Callable[[Message, int], None]
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
TEXTS = ["", "a", "txn-1", "Zürich", "東京", "😀", "x" * 126, "x" * 127, "é" * 100]


def in_versions(cases: list[tuple[Message, int]]) -> Callable[[Test], Callable[[str], None]]:
    """Return a decorator that parametrises a test by message and runs it for each version of the message in `cases`."""
    by_name: dict[str, list[tuple[str, tuple[Message, int]]]] = {}
    for message, version in cases:
        by_name.setdefault(message.name, []).append((f"version {version}", (message, version)))

    def parametrized(test: Test) -> Callable[[str], None]:
        @pytest.mark.parametrize("name", by_name)
        def of_message(name: str) -> None:
            check_each(by_name[name], test)

        return of_message

    return parametrized


in_every_version = in_versions(CASES)


def module_of(message: Message) -> ModuleType:
    return import_module(f"stuntbroker.protocol.messages.{python_name(message.name)}")


def class_of(message: Message) -> Any:
    return getattr(module_of(message), message.name)


def encoded(value: Any, version: int) -> bytes:
    out = bytearray()
    value.encode(out, version)
    return bytes(out)


def random_int(random: Random, low: int, high: int) -> int:
    if random.random() < 0.3:
        return random.choice([n for n in (low, -1, 0, 1, high) if low <= n <= high])
    return random.randint(low, high)


def random_plain(kind: str, random: Random) -> Any:
    """Return a random value of a type that is neither an array nor a structure."""
    if kind in BITS:
        return random_int(random, -(2 ** (BITS[kind] - 1)), 2 ** (BITS[kind] - 1) - 1)
    if kind in ("uint16", "uint32"):
        return random_int(random, 0, 2 ** int(kind[4:]) - 1)
    if kind == "bool":
        return random.random() < 0.5
    if kind == "float64":
        return random.choice([0.0, -1.5, 1e300, random.random()])
    if kind == "uuid":
        return random.choice([ZERO_UUID, random.randbytes(16)])
    if kind == "string":
        return random.choice(TEXTS)
    return random.randbytes(random.choice([0, 1, 5, 130]))  # bytes, records


def random_field(each: Field, version: int, random: Random, module: Any) -> Any:
    at = ALWAYS.__class__(version, version)
    nullable = each.nullable.covers(at) or each.type == "records"
    unsent = each.tag is not None and each.struct is not None and not each.array
    if (nullable or unsent) and random.random() < 0.25:
        return None

    def element() -> Any:
        return random_struct(each.struct, version, random, module) if each.struct else random_plain(each.type, random)

    return [element() for _ in range(random.randrange(4))] if each.array else element()


def random_struct(struct: Struct, version: int, random: Random, module: Any) -> Any:
    """Return a structure with random fields; fields that do not exist in the version have their defaults."""
    at = ALWAYS.__class__(version, version)
    given = {
        each.name: random_field(each, version, random, module)
        for each in struct.fields
        if each.versions.covers(at) and not (each.tag is not None and random.random() < 0.3)
    }
    return getattr(module, struct.name)(**given)


def random_message(message: Message, version: int, random: Random) -> Any:
    return random_struct(message.root, version, random, module_of(message))
