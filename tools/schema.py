"""Parse the compact message schema of `tools/schemas/`.

A message is a header line followed by its fields, one per line, nested by two spaces:

    request EndTxnRequest key=26 versions=0-5 flexible=3+
      TransactionalId string
      Epochs [Epoch]? 2+ tag=0 =null
        Value int16

A field is `Name type[?[range]] [range] [tag=N] [inflexible] [=default]`. `[T]` is an array; `?` means nullable, in the given
versions or always. A range is `4`, `4-9` or `4+`; without one, the field exists in every version of its parent. `struct Name`
defines a structure that several fields share.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

LAST_VERSION = 32_767
FIXED = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "uint32": ("I", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
    "uuid": ("16s", 16),
}
PLAIN = {*FIXED, "string", "bytes", "records"}
"""Types other than structures. The name of a structure starts with a capital letter."""
NAMES = {"Enable2Pc": "enable_2pc"}
"""Python names that differ from the rule of `python_name`."""


@dataclasses.dataclass(frozen=True, slots=True)
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


class SchemaError(ValueError):
    """A schema is invalid. The message starts with the file and line."""


def parse_range(text: str, where: str = "") -> Range:
    if text == "none":
        return NEVER
    match = re.fullmatch(r"(\d+)(?:-(\d+)|(\+))?", text)
    if match is None:
        raise SchemaError(f"{where}: {text!r} is no range of versions; write 4, 4-9, 4+ or none")
    low, high, up = match.groups()
    if high is not None and int(high) < int(low):
        raise SchemaError(f"{where}: the range {text} is empty")
    return Range(int(low), LAST_VERSION if up else int(high or low))


@dataclasses.dataclass(slots=True)
class Field:
    kafka_name: str
    type: str
    """One of PLAIN, or the name of a structure."""
    array: bool
    versions: Range
    nullable: Range
    tag: int | None
    flexible: bool
    default: str | None
    where: str = ""
    """File and line."""
    struct: Struct | None = None

    @property
    def name(self) -> str:
        return python_name(self.kafka_name)

    @property
    def fixed(self) -> bool:
        return not self.array and self.type in FIXED and self.tag is None


@dataclasses.dataclass(slots=True)
class Struct:
    name: str
    fields: list[Field] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(slots=True)
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
        """All structures, each once and before the structures that contain it."""
        structs: dict[str, Struct] = {}

        def walk(struct: Struct) -> None:
            for field in struct.fields:
                if field.struct is not None:
                    walk(field.struct)
            structs.setdefault(struct.name, struct)

        walk(self.root)
        return list(structs.values())


def python_name(kafka_name: str) -> str:
    if kafka_name in NAMES:
        return NAMES[kafka_name]
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kafka_name).lower()


def parse_field(words: list[str], where: str) -> Field:
    if len(words) < 2:
        raise SchemaError(f"{where}: the field {words[0]!r} has no type")
    name, kind, *options = words
    parts = re.fullmatch(r"(\[)?(\w+)(?(1)\])(\?)?(?(3)(.*)|)", kind)
    if parts is None:
        raise SchemaError(f"{where}: cannot read the type {kind!r}")
    bracket, type_name, question, nullable = parts.groups()
    if type_name not in PLAIN and not type_name[0].isupper():
        raise SchemaError(f"{where}: there is no type {type_name!r}; a structure's name starts with a capital letter")
    field = Field(
        kafka_name=name,
        type=type_name,
        array=bracket is not None,
        versions=ALWAYS,
        nullable=parse_range(nullable, where) if nullable else (ALWAYS if question else NEVER),
        tag=None,
        flexible=True,
        default=None,
        where=where,
    )
    for word in options:
        if re.fullmatch(r"tag=\d+", word):
            field.tag = int(word[4:])
        elif word.startswith("="):
            field.default = word[1:]
        elif word == "inflexible":
            field.flexible = False
        elif word[0].isdigit():
            field.versions = parse_range(word, where)
        else:
            raise SchemaError(f"{where}: cannot read {word!r}")
    return field


def parse_header(words: list[str], where: str) -> Message:
    if words[0] not in ("request", "response", "data") or len(words) < 2:
        raise SchemaError(f"{where}: a message starts with `request`, `response` or `data` and its name")
    options = dict(word.partition("=")[::2] for word in words[2:])
    for needed in ("versions", "flexible") + (() if words[0] == "data" else ("key",)):
        if needed not in options:
            raise SchemaError(f"{where}: {words[1]} does not tell its {needed}")
    for given in options:
        if given not in ("key", "versions", "flexible", "unstable"):
            raise SchemaError(f"{where}: cannot read {given!r}")
    return Message(
        kind=words[0],
        key=int(options["key"]) if "key" in options else None,
        versions=parse_range(options["versions"], where),
        flexible=parse_range(options["flexible"], where),
        root=Struct(words[1]),
        unstable="unstable" in options,
    )


def check(message: Message, where: str) -> None:
    """Reject schemas that parse but are inconsistent. Raises SchemaError."""
    for struct in message.structs:
        if not struct.fields and struct is not message.root:
            raise SchemaError(f"{where}: {message.name} uses {struct.name} and gives it no fields")
        for number, field in enumerate(struct.fields):
            before = struct.fields[:number]
            if field.name in [other.name for other in before]:
                raise SchemaError(f"{field.where}: {struct.name} has two fields {field.kafka_name}")
            if field.tag is None:
                continue
            if field.tag in [other.tag for other in before]:
                raise SchemaError(f"{field.where}: {struct.name} has two fields of the tag {field.tag}")
            if not message.flexible.covers(field.versions.meet(message.versions)):
                raise SchemaError(f"{field.where}: {field.kafka_name} has a tag before it is flexible")


def parse(text: str, where: str) -> list[Message]:
    messages: list[Message] = []
    starts: list[str] = []
    stack: list[Struct] = []
    shared: dict[str, Struct] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        here = f"{where}:{number}"
        depth, odd = divmod(len(line) - len(line.lstrip(" ")), 2)
        if odd or depth > len(stack):
            raise SchemaError(f"{here}: a field is two spaces deeper than the structure that holds it")
        if depth == 0:
            messages.append(parse_header(words, here))
            starts.append(here)
            shared = {}
            stack = [messages[-1].root]
            continue
        del stack[depth:]
        if words[0] == "struct" and len(words) == 2 and words[1] not in PLAIN:
            stack.append(shared.setdefault(words[1], Struct(words[1])))
            continue
        field = parse_field(words, here)
        if field.type not in PLAIN:
            field.struct = shared.setdefault(field.type, Struct(field.type))
            stack[depth - 1].fields.append(field)
            stack.append(field.struct)
        else:
            stack[depth - 1].fields.append(field)
    for message, start in zip(messages, starts, strict=True):
        check(message, start)
    return messages


def read_schemas(folder: Path) -> list[Message]:
    return [field for path in sorted(folder.glob("*.txt")) for field in parse(path.read_text(), path.name)]
