"""Generate a Python module from a message of the schema: a class per structure, straight-line decode and encode.

There are two functions each for decoding and encoding: for the classic and for the flexible versions. Within them, one
`struct.Struct` reads or writes neighbouring fields of fixed size, and the version is tested only where it changes the layout.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from keyword import iskeyword
from struct import calcsize

from schema import FIXED, Field, Message, Range, Struct

INDENT = "    "
PYTHON = {
    "bool": "bool",
    "int8": "int",
    "int16": "int",
    "uint16": "int",
    "int32": "int",
    "uint32": "int",
    "int64": "int",
    "float64": "float",
    "uuid": "bytes",
    "string": "str",
    "bytes": "bytes",
    "records": "Buffer",
}

LOCALS = {
    "after",
    "buf",
    "bytes",
    "elements",
    "end",
    "left",
    "len",
    "list",
    "message",
    "pos",
    "range",
    "stop",
    "tags",
    "version",
}
"""Names of variables in the generated functions, which no field of a message may have."""


def annotation(field: Field, within: Range) -> str:
    inner = field.struct.name if field.struct else PYTHON[field.type]
    text = f"Sequence[{inner}]" if field.array else inner
    nullable = not field.nullable.meet(within).empty or field.type == "records"
    unsent = field.tag is not None and field.struct and not field.array
    return f"{text} | None" if nullable or unsent else text


def default_of(field: Field) -> str:
    if field.default == "null":
        return "None"
    if field.array:
        return "()"
    if field.struct:  # A tagged structure that was not sent is None: all of its fields have their defaults.
        return "None" if not field.nullable.empty or field.tag is not None else f"{field.struct.name}()"
    if field.type in ("string", "bytes", "records", "uuid"):
        return {"string": repr(field.default or "").replace("'", '"'), "uuid": "ZERO_UUID"}.get(field.type, 'b""')
    if field.type == "bool":
        return "True" if field.default == "true" else "False"
    if field.type == "float64":
        return repr(float(field.default or 0))
    return str(int(field.default or "0", 0))


@dataclasses.dataclass(slots=True)
class Writer:
    """Lines of Python with their indentation."""

    lines: list[str] = dataclasses.field(default_factory=list)
    depth: int = 0
    unpacked: set[str] = dataclasses.field(default_factory=set)
    packed: set[str] = dataclasses.field(default_factory=set)
    helpers: set[str] = dataclasses.field(default_factory=set)

    def __call__(self, text: str) -> None:
        self.lines.append(INDENT * self.depth + text if text else "")

    def helper(self, name: str) -> str:
        self.helpers.add(name)
        return name

    def unpack(self, fmt: str) -> str:
        self.unpacked.add(fmt)
        return f"_unpack_{label(fmt)}"

    def pack(self, fmt: str) -> str:
        self.packed.add(fmt)
        return f"_pack_{label(fmt)}"


def label(fmt: str) -> str:
    """A Python name for a `struct` format."""
    return fmt.replace("16s", "u").replace("?", "o")


def size_of(fmt: str) -> int:
    return calcsize(">" + fmt)


def minimum(field: Field, versions: Range, flexible: bool) -> int:
    """Return the minimum number of bytes of the field in these versions."""
    if field.tag is not None or not field.versions.covers(versions):
        return 0
    if field.array or field.type in ("bytes", "records"):
        return 1 if flexible else 4
    if field.type == "string":
        return 1 if flexible else 2
    if field.struct:
        return 1 if not field.nullable.empty else struct_minimum(field.struct, versions, flexible)
    return FIXED[field.type][1]


def struct_minimum(struct: Struct, versions: Range, flexible: bool) -> int:
    return max(1, sum(minimum(field, versions, flexible) for field in struct.fields) + flexible)


def condition(field: Field, versions: Range) -> str | None:
    """Return the test whether a version has the field; None if all of these versions have it."""
    tests = []
    if field.versions.low > versions.low:
        tests.append(f"version >= {field.versions.low}")
    if field.versions.high < versions.high:
        tests.append(f"version <= {field.versions.high}")
    return " and ".join(tests) or None


def null_refused(field: Field, versions: Range) -> str | None:
    """Return the test whether null is not allowed in a version; None if all or none of these versions allow null."""
    meet = field.nullable.meet(versions)
    if meet.empty or meet.covers(versions) or field.type == "records":
        return None
    tests = []
    if field.nullable.low > versions.low:
        tests.append(f"version < {field.nullable.low}")
    if field.nullable.high < versions.high:
        tests.append(f"version > {field.nullable.high}")
    return f"({tests[0]} or {tests[1]})" if len(tests) == 2 else tests[0]


def short_names(struct: Struct) -> dict[str, str]:
    """Return unique variable names for the elements of fields that are arrays or structures, by field name."""
    names: dict[str, str] = {}
    for field in struct.fields:
        if field.array or field.struct:
            initials = "".join(word[0] for word in field.name.split("_"))
            choices = [field.name[0], initials, f"{field.name}_element"]
            names[field.name] = next(c for c in choices if c not in names.values() and not iskeyword(c))
    return names


def runs(struct: Struct, versions: Range) -> Iterator[list[Field]]:
    """Yield the untagged fields of these versions; neighbours of fixed size with the same condition form one run."""
    run: list[Field] = []
    for field in struct.fields:
        if field.tag is not None or field.versions.meet(versions).empty:
            continue
        if run and field.fixed and run[-1].fixed and condition(field, versions) == condition(run[-1], versions):
            run.append(field)
            continue
        if run:
            yield run
        run = [field]
    if run:
        yield run


@dataclasses.dataclass(slots=True)
class Decoder:
    w: Writer
    flexible: bool
    counted: bool  # Requests limit the total number of elements and of tagged fields in elements.

    def struct(self, struct: Struct, versions: Range, prefix: str, target: str) -> None:
        """Write code that reads `struct` at `pos` and assigns it to `target`."""
        w = self.w
        short = short_names(struct)
        for run in runs(struct, versions):
            test = condition(run[0], versions)
            if test is None:
                self.run(run, versions, prefix, short)
                continue
            w(f"if {test}:")
            w.depth += 1
            self.run(run, versions.meet(run[0].versions), prefix, short)
            w.depth -= 1
            w("else:")
            w.depth += 1
            for field in run:
                w(f"{prefix}{field.name} = {default_of(field)}")
            w.depth -= 1
        if self.flexible:
            self.tags([f for f in struct.fields if f.tag is not None], versions, prefix, short)
        arguments = ", ".join(
            default_of(field)
            if field.versions.meet(versions).empty or (field.tag is not None and not self.flexible)
            else f"{prefix}{field.name}"
            for field in struct.fields
        )
        w(f"{target} = {struct.name}({arguments})")

    def tags(self, fields: list[Field], versions: Range, prefix: str, short: dict[str, str]) -> None:
        w = self.w
        fields = [field for field in fields if not field.versions.meet(versions).empty]
        for field in fields:
            w(f"{prefix}{field.name}: {annotation(field, versions)} = {default_of(field)}")
        if not fields:
            w("if buf[pos]:")
            if self.counted and prefix:
                w(f"    pos, left = {w.helper('skip_counted_tags')}(buf, pos, left)")
            else:
                w(f"    pos = {w.helper('skip_tags')}(buf, pos)")
            w("else:")
            w("    pos += 1")
            return
        w("if buf[pos]:")
        w.depth += 1
        w(f"{prefix}tags, {prefix}after = {w.helper('read_tags')}(buf, pos)")
        if self.counted and prefix:
            self.count(f"len({prefix}tags)")
        for field in fields:
            test = condition(field, versions)
            w(f"if {field.tag} in {prefix}tags" + (f" and {test}:" if test else ":"))
            w.depth += 1
            w(f"pos, {prefix}stop = {prefix}tags[{field.tag}]")
            self.run([field], versions.meet(field.versions), prefix, short)
            w(f"if pos != {prefix}stop:")
            w(f'    raise {w.helper("DecodeError")}("tagged field {field.kafka_name} is not of the size given", pos)')
            w.depth -= 1
        w(f"pos = {prefix}after")
        w.depth -= 1
        w("else:")
        w("    pos += 1")

    def hint(self, field: Field, versions: Range) -> str:
        """Return the type annotation for a field's first assignment; `tags` has already declared tagged fields."""
        return f": {annotation(field, versions)}" if field.tag is None else ""

    def run(self, run: list[Field], versions: Range, prefix: str, short: dict[str, str]) -> None:
        first = run[0]
        if first.array:
            self.array(first, versions, prefix, short[first.name])
        elif first.struct:
            self.nested(first, versions, prefix, short[first.name])
        elif first.type in FIXED:
            self.fixed(run, prefix)
        else:
            self.bytes_like(first, versions, prefix)

    def fixed(self, run: list[Field], prefix: str) -> None:
        w = self.w
        fmt = "".join(FIXED[field.type][0] for field in run)
        names = ", ".join(prefix + field.name for field in run)
        if len(run) == 1:
            w(f"{names} = {w.unpack(fmt)}(buf, pos)[0]")
        else:
            w(f"{names} = {w.unpack(fmt)}(buf, pos)")
        w(f"pos += {size_of(fmt)}")

    def reader(self, field: Field, nullable: bool) -> str:
        compact = "compact_" if self.flexible and field.flexible else ""
        return self.w.helper(f"read_{compact}{'nullable_' if nullable else ''}{field.type}")

    def bytes_like(self, field: Field, versions: Range, prefix: str) -> None:
        nullable = not field.nullable.meet(versions).empty or field.type == "records"
        self.w(f"{prefix}{field.name}, pos = {self.reader(field, nullable)}(buf, pos)")
        self.null_check(field, versions, f"{prefix}{field.name}")

    def null_check(self, field: Field, versions: Range, value: str) -> None:
        """Write the null check of a field that may be null only in some of these versions."""
        test = null_refused(field, versions)
        if test is not None:
            self.w(f"if {value} is None and {test}:")
            self.w(f'    raise {self.w.helper("DecodeError")}("{field.kafka_name} is null", pos)')

    def nested(self, field: Field, versions: Range, prefix: str, short: str) -> None:
        w = self.w
        assert field.struct is not None
        inner = f"{prefix}{short}_"
        assert null_refused(field, versions) is None, f"{field.kafka_name}: a structure is nullable always or never"
        if field.nullable.meet(versions).empty:
            self.struct(field.struct, versions, inner, f"{prefix}{field.name}")
            return
        w("pos += 1")
        w("if buf[pos - 1] < 128:")
        w.depth += 1
        self.struct(field.struct, versions, inner, f"{prefix}{field.name}{self.hint(field, versions)}")
        w.depth -= 1
        w("else:")
        w(f"    {prefix}{field.name} = None")

    def array(self, field: Field, versions: Range, prefix: str, short: str) -> None:
        w = self.w
        name = f"{prefix}{field.name}"
        if field.struct:
            least = struct_minimum(field.struct, versions, self.flexible)
        else:
            least = FIXED[field.type][1] if field.type in FIXED else (1 if self.flexible else 2)
        # A nested loop has a count of its own: compiled by mypyc, a loop compares with the variable each time.
        count = f"{prefix}elements"
        nullable = not field.nullable.meet(versions).empty
        if self.flexible:
            w(f"{count} = buf[pos]")
            w(f"if {count} > 127:")
            w(f"    {count}, pos = {w.helper('read_uvarint')}(buf, pos)")
            w("else:")
            w("    pos += 1")
            w(f"{count} -= 1")
        else:
            w(f"{count} = {w.unpack('i')}(buf, pos)[0]")
            w("pos += 4")
        w(f"if {count} > (end - pos) // {least}:" if least > 1 else f"if {count} > end - pos:")
        w(f'    raise {w.helper("DecodeError")}("{field.kafka_name} counts more elements than there are bytes", pos)')
        w(f"if {count} < 0:")
        w.depth += 1
        if nullable:
            w(f"{name}{self.hint(field, versions)} = None")
        else:
            w(f'raise {w.helper("DecodeError")}("{field.kafka_name} is null", pos)')
        w.depth -= 1
        if nullable:
            w("else:")
            w.depth += 1
        hint = "" if nullable else self.hint(field, versions)
        self.elements(field, versions, f"{prefix}{short}", name, hint, count)
        if nullable:
            w.depth -= 1
        self.null_check(field, versions, name)

    def count(self, number: str) -> None:
        w = self.w
        w(f"left -= {number}")
        w("if left < 0:")
        w(f'    raise {w.helper("DecodeError")}(f"more than {{{w.helper("ELEMENTS_MAX")}}} elements", pos)')

    def elements(self, field: Field, versions: Range, element: str, name: str, hint: str, count: str) -> None:
        w = self.w
        if self.counted:
            self.count(count)
        if field.type in FIXED:
            fmt, size = FIXED[field.type]
            if field.type == "uuid":
                w(f"{name}{hint} = [bytes(buf[at : at + 16]) for at in range(pos, pos + 16 * {count}, 16)]")
            else:
                w(f'{name}{hint} = list({w.helper("unpack_from")}(f">{{{count}}}{fmt}", buf, pos))')
            w(f"pos += {size} * {count}")
            return
        item = f"{name}_list"
        kind = field.struct.name if field.struct else PYTHON[field.type]
        w(f"{item}: list[{kind}] = []")
        w(f"for _ in range({count}):")
        w.depth += 1
        if field.struct:
            self.struct(field.struct, versions, f"{element}_", element)
        else:
            w(f"{element}, pos = {self.reader(field, False)}(buf, pos)")
        w(f"{item}.append({element})")
        w.depth -= 1
        w(f"{name}{hint} = {item}")


@dataclasses.dataclass(slots=True)
class Encoder:
    w: Writer
    flexible: bool
    parts: bool
    """Whether records become separate parts of the output, so that they are not copied."""

    def struct(self, struct: Struct, versions: Range, prefix: str, source: str) -> None:
        w = self.w
        short = short_names(struct)
        pending: list[tuple[str, str]] = []  # (format, expression) not yet written

        def flush() -> None:
            if pending:
                fmt = "".join(f for f, _ in pending)
                values = ", ".join(v for _, v in pending if v)
                w(f"out += {w.pack(fmt)}({values})" if values else f'out += b"{chr(92)}x00"')
                pending.clear()

        for run in runs(struct, versions):
            test = condition(run[0], versions)
            if test is None and run[0].fixed:
                pending.extend((FIXED[field.type][0], f"{source}.{field.name}") for field in run)
                continue
            flush()
            if test is not None:
                w(f"if {test}:")
                w.depth += 1
            if run[0].fixed:
                fmt = "".join(FIXED[field.type][0] for field in run)
                w(f"out += {w.pack(fmt)}({', '.join(f'{source}.{field.name}' for field in run)})")
            else:
                self.field(run[0], versions.meet(run[0].versions), prefix, f"{source}.{run[0].name}", short)
            if test is not None:
                w.depth -= 1
        if self.flexible:
            tagged = [f for f in struct.fields if f.tag is not None and not f.versions.meet(versions).empty]
            if tagged:
                flush()
                self.tags(sorted(tagged, key=lambda f: f.tag or 0), versions, prefix, source, short)
            else:
                pending.append(("x", ""))
        flush()

    def tags(self, fields: list[Field], versions: Range, prefix: str, source: str, short: dict[str, str]) -> None:
        w = self.w
        tests = [self.differs(field, versions, f"{source}.{field.name}") for field in fields]
        w(f"if {' or '.join(tests)}:")
        w.depth += 1
        w(f"{prefix}tags: list[tuple[int, bytearray]] = []")
        w(f"{prefix}outer = out")
        for field, test in zip(fields, tests, strict=True):
            value = f"{source}.{field.name}"
            w(f"if {test}:")
            w.depth += 1
            w("out = bytearray()")
            if field.fixed or (not field.array and field.type in FIXED):
                w(f"out += {w.pack(FIXED[field.type][0])}({value})")
            else:
                self.field(field, versions.meet(field.versions), prefix, value, short)
            w(f"{prefix}tags.append(({field.tag}, out))")
            w.depth -= 1
        w(f"out = {prefix}outer")
        w(f"{w.helper('write_tags')}(out, {prefix}tags)")
        w.depth -= 1
        w("else:")
        w("    out.append(0)")

    @staticmethod
    def differs(field: Field, versions: Range, value: str) -> str:
        """Return the test whether a tagged field differs from its default and must be written."""
        default = default_of(field)
        if field.array:
            text = f"{value} is not None" if default == "None" else value
            if default != "None" and not field.nullable.meet(versions).empty:
                text = f"({value} is None or {value})"
        elif default in ("None", "True", "False"):
            text = f"{value} is not {default}"
        else:
            text = f"{value} != {default}"
        test = condition(field, versions)
        return f"({text} and {test})" if test else text

    def field(self, field: Field, versions: Range, prefix: str, value: str, short: dict[str, str]) -> None:
        w = self.w
        nullable = not field.nullable.meet(versions).empty
        compact = "compact_" if self.flexible and field.flexible else ""
        test = null_refused(field, versions)
        if test is not None or (not nullable and not field.nullable.empty):
            w(f"if {value} is None and {test}:" if test else f"if {value} is None:")
            w(f'    raise ValueError(f"{field.kafka_name} cannot be null in version {{version}}")')
        if field.array:
            self.array(field, versions, f"{prefix}{short[field.name]}", value, nullable)
        elif field.struct:
            if nullable:
                w(f"if {value} is None:")
                w('    out += b"\\xff"')
                w("else:")
                w.depth += 1
                w('out += b"\\x01"')
            self.struct(field.struct, versions, f"{prefix}{short[field.name]}_", value)
            if nullable:
                w.depth -= 1
        elif field.type == "records" and self.parts:
            w(f"{w.helper('write_records_length' if not compact else 'write_compact_records_length')}(out, {value})")
            w(f"if {value}:")
            w("    parts.append(out)")
            w(f"    parts.append({value})")
            w("    out = bytearray()")
        else:
            kind = "bytes" if field.type == "records" else field.type
            if compact and (nullable or field.type == "records"):
                w(f"if {value} is None:")
                w("    out.append(0)")
                w("else:")
                w(f"    {w.helper(f'write_compact_{kind}')}(out, {value})")
            else:
                null = "nullable_" if nullable or field.type == "records" else ""
                w(f"{w.helper(f'write_{compact}{null}{kind}')}(out, {value})")

    def array(self, field: Field, versions: Range, item: str, value: str, nullable: bool) -> None:
        w = self.w
        if nullable:
            w(f"if {value} is None:")
            w('    out += b"\\x00"' if self.flexible else '    out += b"\\xff\\xff\\xff\\xff"')
            w("else:")
            w.depth += 1
        if self.flexible:
            w(f"count = len({value}) + 1")
            w("if count > 127:")
            w(f"    {w.helper('write_uvarint')}(out, count)")
            w("else:")
            w("    out.append(count)")
        else:
            w(f"out += {w.pack('i')}(len({value}))")
        if field.type in FIXED and field.type != "uuid":
            w(f'out += {w.helper("struct_pack")}(f">{{len({value})}}{FIXED[field.type][0]}", *{value})')
        else:
            w(f"for {item} in {value}:")
            w.depth += 1
            if field.struct:
                self.struct(field.struct, versions, f"{item}_", item)
            elif field.type == "uuid":
                w(f"out += {item}")
            else:
                compact = "compact_" if self.flexible else ""
                w(f"{w.helper(f'write_{compact}{field.type}')}(out, {item})")
            w.depth -= 1
        if nullable:
            w.depth -= 1


def explanation(struct: Struct, message: Message) -> str:
    """Return the docstring of the class of a structure."""
    if struct is message.root:
        return f"The message {message.name}, versions {message.versions.low}-{message.versions.high}."
    uses = [(field, other.name) for other in message.structs for field in other.fields if field.struct is struct]
    start = "An element of " if any(field.array for field, _ in uses) else ""
    return f"{start}{', '.join(f'`{field.name}` of {owner}' for field, owner in uses)}."


def class_of(w: Writer, struct: Struct, message: Message) -> None:
    w(f"class {struct.name}(Message):")
    w.depth += 1
    w(f'"""{explanation(struct, message)}"""')
    w("")
    slots = ", ".join(f'"{field.name}"' for field in struct.fields)
    w(f"FIELDS: ClassVar[tuple[str, ...]] = ({slots}{',' if len(struct.fields) == 1 else ''})")
    w("__slots__ = FIELDS")
    w("")
    w("def __init__(")
    w("    self,")
    for field in struct.fields:
        default = default_of(field)
        hint = annotation(field, message.versions)
        if default.endswith("()") and default != "()":
            w(f"    {field.name}: {hint} | None = None,")
        else:
            w(f"    {field.name}: {hint} = {default},")
    w(") -> None:")
    w.depth += 1
    for field in struct.fields:
        default = default_of(field)
        if default.endswith("()") and default != "()":
            w(f"self.{field.name} = {default} if {field.name} is None else {field.name}")
        else:
            w(f"self.{field.name} = {field.name}")
    if not struct.fields:
        w("pass")
    w.depth -= 2


def halves(message: Message) -> list[tuple[str, Range, bool]]:
    """Return (suffix, versions, flexible) of the encodings that the message has."""
    if message.flexible.empty:
        return [("classic", message.versions, False)]
    flexible = message.versions.meet(message.flexible)
    classic = Range(message.versions.low, min(message.versions.high, message.flexible.low - 1))
    encodings = [("classic", classic, False), ("flexible", flexible, True)]
    return [(name, versions, flag) for name, versions, flag in encodings if not versions.empty]


def methods(w: Writer, message: Message, parts: bool) -> None:
    """Write the methods decode and encode of the message class."""
    name = message.name
    both = len(halves(message)) == 2
    only = halves(message)[0][0]
    w.depth = 1
    w("")
    w("@classmethod")
    w(f"def decode(cls, buf: Buffer, version: int, pos: int = 0) -> {name}:")
    w.depth += 1
    w("try:")
    if both:
        w(f"    if version >= {message.flexible.low}:")
        w("        return _decode_flexible(buf, pos, version)")
        w("    return _decode_classic(buf, pos, version)")
    else:
        w(f"    return _decode_{only}(buf, pos, version)")
    w("except (IndexError, StructError) as fault:")
    w(f'    raise DecodeError("{name} ends too early", len(buf)) from fault')
    w.depth -= 1
    w.helpers |= {"DecodeError"}
    w("")
    result = "list[Buffer]" if parts else "None"
    w(f"def {'encode_parts' if parts else 'encode'}(self, out: bytearray, version: int) -> {result}:")
    w.depth += 1
    call = "return " if parts else ""
    if both:
        w(f"if version >= {message.flexible.low}:")
        w(f"    {call}_encode_flexible(out, self, version)")
        w("else:")
        w(f"    {call}_encode_classic(out, self, version)")
    else:
        w(f"{call}_encode_{only}(out, self, version)")
    w.depth -= 1
    if parts:
        w("")
        w("def encode(self, out: bytearray, version: int) -> None:")
        w("    for part in self.encode_parts(bytearray(), version):")
        w("        out += part")
    w.depth = 0


def functions(w: Writer, message: Message, parts: bool) -> None:
    for suffix, versions, flexible in halves(message):
        w("")
        w("")
        w(f"def _decode_{suffix}(buf: Buffer, pos: int, version: int) -> {message.name}:")
        w.depth = 1
        start = len(w.lines)
        Decoder(w, flexible, message.kind == "request").struct(message.root, versions, "", "message")
        if any(line.lstrip().startswith(("left -= ", "pos, left = ")) for line in w.lines[start:]):
            w.lines.insert(start, INDENT + f"left = {w.helper('ELEMENTS_MAX')}")
        if any("(end - pos)" in line or "> end - pos" in line for line in w.lines[start:]):
            w.lines.insert(start, INDENT + "end = len(buf)")
        w("return message")
        w.depth = 0
        w("")
        w("")
        result = "list[Buffer]" if parts else "None"
        w(f"def _encode_{suffix}(out: bytearray, message: {message.name}, version: int) -> {result}:")
        w.depth = 1
        start = len(w.lines)
        if parts:
            w("parts: list[Buffer] = []")
        Encoder(w, flexible, parts).struct(message.root, versions, "", "message")
        if parts:
            w("parts.append(out)")
            w("return parts")
        if len(w.lines) == start:
            w("pass")
        w.depth = 0


def module_of(message: Message) -> str:
    """Return the source code of a message's module."""
    for field in message.root.fields:
        assert field.name not in LOCALS, f"{field.where}: the generated code uses the name {field.name} itself"
    parts = message.kind == "response" and any(f.type == "records" for s in message.structs for f in s.fields)
    body = Writer()
    for struct in message.structs:
        body("")
        body("")
        class_of(body, struct, message)
        if struct is message.root:
            methods(body, message, parts)
    functions(body, message, parts)
    text = "\n".join(body.lines)
    high = message.versions.high
    what = f", key {message.key}" if message.key is not None else ""
    head = [
        f'"""GENERATED from tools/schemas by tools/generate.py (`make generate`): {message.name}{what}, '
        f'versions {message.versions.low}-{high}."""',
        "",
        "from __future__ import annotations",
        "",
    ]
    if "Sequence[" in text:
        head.append("from collections.abc import Sequence")
    names = [n for n in ("Struct", "unpack_from") if n == "Struct" or n in body.helpers]
    if not body.packed and not body.unpacked:
        names.remove("Struct")
    if "struct_pack" in body.helpers:
        names.append("pack as struct_pack")
    names.append("error as StructError")
    head += [f"from struct import {', '.join(sorted(names, key=str.lower))}", "from typing import ClassVar", ""]
    helpers = sorted(body.helpers - {"unpack_from", "struct_pack"})
    if "ZERO_UUID" in text:
        helpers.append("ZERO_UUID")
    head.append("from stuntbroker.protocol.primitives import (")
    head += [f"    {name}," for name in sorted({*helpers, "Buffer", "Message"})]
    head += [")", ""]
    for fmt in sorted(body.unpacked):
        head.append(f'_unpack_{label(fmt)} = Struct(">{fmt}").unpack_from')
    for fmt in sorted(body.packed):
        head.append(f'_pack_{label(fmt)} = Struct(">{fmt}").pack')
    return "\n".join(head).rstrip("\n") + "\n" + text + "\n"
