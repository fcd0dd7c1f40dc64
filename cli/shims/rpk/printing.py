"""Formatting of records as text: `--format` of `rpk topic consume`, and `--output-format` of `rpk topic produce`."""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final, NamedTuple

from stuntbroker.cli.shims.arguments import CommandError
from stuntbroker.cli.shims.rpk.layouts import Layout, Verb, enclosed, parse_layout
from stuntbroker.client.commands.reader import Row
from stuntbroker.protocol.batches.records import CODEC_MASK, CODEC_NAMES, CONTROL, LOG_APPEND_TIME, TRANSACTIONAL


class Printed(NamedTuple):
    """A record with everything that a layout can show. Unknown numbers are -1."""

    topic: str
    partition: int
    row: Row
    number: int
    """Number of the record in the output, from 1."""
    leader_epoch: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    attributes: int = 0


Write = Callable[[Printed], bytes]
WriteNumber = Callable[[int], bytes]


def _hexadecimal(digits: int) -> WriteNumber:
    return lambda number: format(number & (1 << 4 * digits) - 1, f"0{digits}x").encode()


def _packed(form: str, bits: int) -> WriteNumber:
    return lambda number: struct.pack(form, number & (1 << bits) - 1)


NUMBERS: Final[dict[str, WriteNumber]] = {
    "ascii": lambda number: b"%d" % number,
    "number": lambda number: b"%d" % number,
    "hex64": _hexadecimal(16),
    "hex32": _hexadecimal(8),
    "hex16": _hexadecimal(4),
    "hex8": _hexadecimal(2),
    "hex4": _hexadecimal(1),
    "hex": lambda number: b"%x" % (number & (1 << 64) - 1),
    "big64": _packed(">Q", 64),
    "big32": _packed(">I", 32),
    "big16": _packed(">H", 16),
    "big8": _packed("B", 8),
    "little64": _packed("<Q", 64),
    "little32": _packed("<I", 32),
    "little16": _packed("<H", 16),
    "little8": _packed("B", 8),
    "byte": _packed("B", 8),
    "bool": lambda number: b"true" if number else b"false",
}
TEXTS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "": bytes,
    "hex": lambda content: content.hex().encode(),
    "base64": base64.b64encode,
    "base64raw": lambda content: base64.b64encode(content).rstrip(b"="),
}
TEXT_VERBS: Final[dict[str, Callable[[Printed], bytes]]] = {
    "t": lambda printed: printed.topic.encode(),
    "k": lambda printed: printed.row.key or b"",
    "v": lambda printed: printed.row.value or b"",
}
NUMBER_VERBS: Final[dict[str, Callable[[Printed], int]]] = {
    "T": lambda printed: len(printed.topic.encode()),
    "K": lambda printed: len(printed.row.key or b""),
    "V": lambda printed: len(printed.row.value or b""),
    "H": lambda printed: len(printed.row.headers),
    "p": lambda printed: printed.partition,
    "o": lambda printed: printed.row.offset,
    "e": lambda printed: printed.leader_epoch,
    "d": lambda printed: printed.row.timestamp_ms,
    "x": lambda printed: printed.producer_id,
    "y": lambda printed: printed.producer_epoch,
    "i": lambda printed: printed.number,
}
ATTRIBUTES: Final[dict[str, Callable[[int], int]]] = {
    "compression": lambda attributes: attributes & CODEC_MASK,
    "timestamp-type": lambda attributes: int(bool(attributes & LOG_APPEND_TIME)),
    "transactional-bit": lambda attributes: int(bool(attributes & TRANSACTIONAL)),
    "control-bit": lambda attributes: int(bool(attributes & CONTROL)),
}
GO_DATES: Final[dict[str, Callable[[datetime], str]]] = {
    "January": lambda date: f"{date:%B}",
    "Jan": lambda date: f"{date:%b}",
    "Monday": lambda date: f"{date:%A}",
    "Mon": lambda date: f"{date:%a}",
    "MST": lambda date: "UTC",
    "2006": lambda date: f"{date:%Y}",
    "002": lambda date: f"{date:%j}",
    "__2": lambda date: f"{int(f'{date:%j}'):3}",
    "_2": lambda date: f"{date.day:2}",
    "01": lambda date: f"{date:%m}",
    "02": lambda date: f"{date:%d}",
    "03": lambda date: f"{date:%I}",
    "04": lambda date: f"{date:%M}",
    "05": lambda date: f"{date:%S}",
    "06": lambda date: f"{date:%y}",
    "15": lambda date: f"{date:%H}",
    "PM": lambda date: "AM" if date.hour < 12 else "PM",
    "pm": lambda date: "am" if date.hour < 12 else "pm",
    "Z070000": lambda date: "Z",
    "Z07:00:00": lambda date: "Z",
    "Z0700": lambda date: "Z",
    "Z07:00": lambda date: "Z",
    "Z07": lambda date: "Z",
    "-070000": lambda date: "+000000",
    "-07:00:00": lambda date: "+00:00:00",
    "-0700": lambda date: "+0000",
    "-07:00": lambda date: "+00:00",
    "-07": lambda date: "+00",
    "1": lambda date: str(date.month),
    "2": lambda date: str(date.day),
    "3": lambda date: str((date.hour - 1) % 12 + 1),
    "4": lambda date: str(date.minute),
    "5": lambda date: str(date.second),
}
"""Part of a layout of Go's `time` -> function that formats it for a date in UTC."""
GO_PART: Final = re.compile(r"[.,](?:0+|9+)(?!\d)|" + "|".join(map(re.escape, sorted(GO_DATES, key=len, reverse=True))))


def printer(text: str) -> Write:
    """Return a function that formats a record with this layout. Raises CommandError for an invalid layout."""
    return _joined([_writer(part) for part in parse_layout(text)])


def _joined(writers: Sequence[Write]) -> Write:
    return lambda printed: b"".join([write(printed) for write in writers])


def _writer(part: bytes | Verb) -> Write:
    if isinstance(part, bytes):
        return lambda _: part
    letter, modifier = part
    if letter in TEXT_VERBS:
        return _text_writer(part)
    if letter in NUMBER_VERBS:
        value = NUMBER_VERBS[letter]
        if letter == "d" and modifier and (date := _date_writer(modifier)):
            return lambda printed: date(value(printed))
        write = _number_writer(part, modifier)
        return lambda printed: write(value(printed))
    if letter == "a":
        return _attribute_writer(part)
    if letter == "h":
        if modifier is None:
            raise CommandError("--format: %h needs braces with the layout of a header, as in %h{%k=%v }")
        return _header_writer(parse_layout(modifier))
    raise CommandError(
        f"--format: %{letter} is not here; there are json, %{' %'.join([*TEXT_VERBS, *NUMBER_VERBS, 'a', 'h'])} and %%"
    )


def _text_writer(verb: Verb) -> Write:
    value = TEXT_VERBS[verb.letter]
    encode = TEXTS.get(verb.modifier or "")
    if encode is None:
        raise _not_here(verb, [form for form in TEXTS if form])
    return lambda printed: encode(value(printed))


def _number_writer(verb: Verb, form: str | None) -> WriteNumber:
    if form is None:
        return NUMBERS["ascii"]
    if form not in NUMBERS:
        raise _not_here(verb, [*NUMBERS, *(["strftime[...]", "go[...]"] if verb.letter == "d" else [])])
    return NUMBERS[form]


def _date_writer(modifier: str) -> WriteNumber | None:
    """Return a function that formats milliseconds since 1970 as a date in UTC; None if the modifier is not for dates."""
    layout = enclosed(modifier, "strftime")
    if layout is not None:
        return _dated(lambda date: date.strftime(layout))
    go_layout = enclosed(modifier, "go")
    if go_layout is None:
        return None
    return _dated(lambda date: GO_PART.sub(partial(_go_part, date), go_layout))


def _dated(write: Callable[[datetime], str]) -> WriteNumber:
    """Return a function that formats a time as a date, or as a number if Python has no such date (outside years 1 to 9999)."""

    def write_time(timestamp_ms: int) -> bytes:
        try:
            date = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=timestamp_ms)
        except OverflowError:
            return NUMBERS["ascii"](timestamp_ms)
        return write(date).encode()

    return write_time


def _go_part(date: datetime, match: re.Match[str]) -> str:
    """Format a part of a Go layout. Nines are a fraction of a second without trailing zeros."""
    part = match[0]
    if part in GO_DATES:
        return GO_DATES[part](date)
    fraction = f"{date.microsecond:06d}000"[: len(part) - 1].ljust(len(part) - 1, "0")
    if part[1] == "9":
        fraction = fraction.rstrip("0")
    return part[0] + fraction if fraction else ""


def _attribute_writer(verb: Verb) -> Write:
    name, separator, form = (verb.modifier or "").partition(";")
    if name not in ATTRIBUTES:
        raise _not_here(verb, list(ATTRIBUTES))
    value = ATTRIBUTES[name]
    if name == "compression" and not separator:
        return lambda printed: CODEC_NAMES[value(printed.attributes)].encode()
    write = _number_writer(verb, form if separator else None)
    return lambda printed: write(value(printed.attributes))


def _header_writer(layout: Layout) -> Write:
    write = _joined([_writer(part) for part in layout])

    def write_headers(printed: Printed) -> bytes:
        rows = [Row(0, 0, key.encode(), value) for key, value in printed.row.headers]
        return b"".join(write(printed._replace(row=row)) for row in rows)

    return write_headers


def _not_here(verb: Verb, forms: list[str]) -> CommandError:
    given = "" if verb.modifier is None else "{" + verb.modifier + "}"
    return CommandError(f"--format: %{verb.letter}{given} is not here; %{verb.letter} takes {{{'}, {'.join(forms)}}}")
