"""Reads the compact message schema of `tools/schemas/`.

One message is a header line and its fields, one a line, nested by two spaces:

    request EndTxnRequest key=26 versions=0-5 flexible=3+
      TransactionalId string
      Epochs [Epoch]? 2+ tag=0 =null
        Value int16

A field is `Name type[?[range]] [range] [tag=N] [inflexible] [=default]`. `[T]` is an array, `?` nullable (in the range
given, or always), a range is `4`, `4-9` or `4+` and is left out when the field is there in every version of its parent.
`struct Name` opens a structure that several fields share.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

LAST_VERSION = 32_767
FIXED = {
    "bool": ("?", 1), "int8": ("b", 1), "int16": ("h", 2), "uint16": ("H", 2), "int32": ("i", 4),
    "uint32": ("I", 4), "int64": ("q", 8), "float64": ("d", 8), "uuid": ("16s", 16),
}  # fmt: skip
NAMES = {"Enable2Pc": "enable_2pc"}
"""Python names that the rule of `python_name` would get wrong."""


@dataclass(frozen=True, slots=True)
class Range:
    low: int
    high: int

    def meet(self, other: Range) -> Range:
        return Range(max(self.low, other.low), min(self.high, other.high))

    def covers(self, other: Range) -> bool:
        return self.low <= other.low and other.high <= self.high

    @property
    def empty(self) -> bool:
        return self.low > self.high


NEVER = Range(1, 0)
ALWAYS = Range(0, LAST_VERSION)


def parse_range(text: str) -> Range:
    if text == "none":
        return NEVER
    if text.endswith("+"):
        return Range(int(text[:-1]), LAST_VERSION)
    low, _, high = text.partition("-")
    return Range(int(low), int(high or low))


@dataclass(slots=True)
class Field:
    kafka_name: str
    type: str
    """A key of FIXED, `string`, `bytes`, `records`, or the name of a structure."""
    array: bool
    versions: Range
    nullable: Range
    tag: int | None
    flexible: bool
    default: str | None
    struct: Struct | None = None

    @property
    def name(self) -> str:
        return python_name(self.kafka_name)

    @property
    def fixed(self) -> bool:
        return not self.array and self.type in FIXED and self.tag is None


@dataclass(slots=True)
class Struct:
    name: str
    fields: list[Field] = field(default_factory=list)


@dataclass(slots=True)
class Message:
    kind: str
    """`request`, `response` or `data`."""
    key: int | None
    versions: Range
    flexible: Range
    root: Struct
    unstable: bool = False

    @property
    def name(self) -> str:
        return self.root.name

    @property
    def structs(self) -> list[Struct]:
        """Every structure once, a structure before those that hold it."""
        found: dict[str, Struct] = {}

        def walk(struct: Struct) -> None:
            for one in struct.fields:
                if one.struct is not None:
                    walk(one.struct)
            found.setdefault(struct.name, struct)

        walk(self.root)
        return list(found.values())


def python_name(kafka_name: str) -> str:
    if kafka_name in NAMES:
        return NAMES[kafka_name]
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kafka_name).lower()


def parse_field(words: list[str], where: str) -> Field:
    name, kind, *rest = words
    kind, question, nullable = kind.partition("?")
    array = kind.startswith("[")
    one = Field(
        kafka_name=name,
        type=kind.strip("[]"),
        array=array,
        versions=ALWAYS,
        nullable=parse_range(nullable) if nullable else (ALWAYS if question else NEVER),
        tag=None,
        flexible=True,
        default=None,
    )
    for word in rest:
        if word.startswith("tag="):
            one.tag = int(word[4:])
        elif word.startswith("="):
            one.default = word[1:]
        elif word == "inflexible":
            one.flexible = False
        elif re.fullmatch(r"\d+(-\d+|\+)?", word):
            one.versions = parse_range(word)
        else:
            raise ValueError(f"{where}: cannot read {word!r}")
    return one


def parse(text: str, where: str) -> list[Message]:
    messages: list[Message] = []
    stack: list[Struct] = []
    shared: dict[str, Struct] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        depth = (len(line) - len(line.lstrip())) // 2
        if depth == 0:
            options = dict(word.partition("=")[::2] for word in words[2:])
            shared = {}
            stack = [Struct(words[1])]
            messages.append(
                Message(
                    kind=words[0],
                    key=int(options["key"]) if "key" in options else None,
                    versions=parse_range(options["versions"]),
                    flexible=parse_range(options["flexible"]),
                    root=stack[0],
                    unstable="unstable" in options,
                )
            )
            continue
        del stack[depth:]
        if words[0] == "struct":
            stack.append(shared.setdefault(words[1], Struct(words[1])))
            continue
        one = parse_field(words, f"{where}:{number}")
        if one.type not in FIXED and one.type not in ("string", "bytes", "records"):
            one.struct = shared.setdefault(one.type, Struct(one.type))
            stack[depth - 1].fields.append(one)
            stack.append(one.struct)
        else:
            stack[depth - 1].fields.append(one)
    return messages


def read_schemas(folder: Path) -> list[Message]:
    return [one for path in sorted(folder.glob("*.txt")) for one in parse(path.read_text(), path.name)]
