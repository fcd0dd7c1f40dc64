"""Parsing of records from standard input, according to `--format` of `rpk topic produce`."""

from __future__ import annotations

import base64
import binascii
import string
import struct
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from stuntbroker.cli.shims.arguments import CommandError
from stuntbroker.cli.shims.rpk.layouts import Layout, Verb, parse_layout

READ_SIZE: Final = 1 << 16
SHOWN_MAX: Final = 80
"""Maximum bytes of the input that an error message shows."""
SIZES: Final = {"T": "t", "K": "k", "V": "v", "H": "h"}
"""Verb that reads a size -> verb of the part that has this size."""
TEXT_VERBS: Final = "tkv"
NUMBER_VERBS: Final = "pd"
FIXED_SIZES: Final = {
    "hex64": 16, "hex32": 8, "hex16": 4, "hex8": 2, "hex4": 1, "big64": 8, "big32": 4, "big16": 2, "big8": 1,
    "little64": 8, "little32": 4, "little16": 2, "little8": 1, "byte": 1,
}  # fmt: skip
"""Format of a number -> number of bytes."""
STRUCTS: Final = {1: "B", 2: "H", 4: "I", 8: "Q"}
DECODERS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "": bytes,
    "hex": binascii.unhexlify,
    "base64": lambda content: base64.b64decode(content, validate=True),
}


class Parsed(NamedTuple):
    """A record that was read; None for parts that are not in the layout."""

    topic: str | None = None
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


Read = Callable[[int], bytes]
"""Function like `os.read`: returns up to that many bytes as soon as some are available, and none at the end."""


class _Input:
    """Buffered input. Each method raises CommandError if the input ends too early."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._buffer = b""
        self.taken = 0
        """Number of bytes consumed so far."""

    def is_at_end(self) -> bool:
        return not self._buffer and not self._read_more()

    def exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            if not self._read_more():
                raise CommandError(f"the input ends within a record, {size - len(self._buffer)} bytes too early")
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        self.taken += size
        return taken

    def until(self, delimiter: bytes) -> bytes:
        """Return the bytes before the next delimiter, and consume the delimiter too."""
        start = 0
        while (at := self._buffer.find(delimiter, start)) < 0:
            start = max(0, len(self._buffer) - len(delimiter) + 1)
            if not self._read_more():
                raise CommandError(
                    f"the input ends within a record: no {delimiter!r} behind {self._buffer[-SHOWN_MAX:]!r}"
                )
        taken, self._buffer = self._buffer[:at], self._buffer[at + len(delimiter) :]
        self.taken += at + len(delimiter)
        return taken

    def all(self) -> bytes:
        while self._read_more():
            pass
        taken, self._buffer = self._buffer, b""
        self.taken += len(taken)
        return taken

    def digits(self) -> bytes:
        at = 0
        while at < len(self._buffer) or self._read_more():
            if chr(self._buffer[at]) not in string.digits and not (at == 0 and self._buffer[:1] == b"-"):
                break
            at += 1
        return self.exactly(at)

    def _read_more(self) -> bool:
        data = self._read(READ_SIZE)
        self._buffer += data
        return bool(data)


class _State:
    """A record that is being read: its parts by the letters of their verbs, and the sizes that precede them."""

    def __init__(self) -> None:
        self.texts: dict[str, bytes] = {}
        self.numbers: dict[str, int] = {}
        self.headers: list[tuple[str, bytes]] = []


Step = Callable[[_Input, _State], None]


def read_records(read: Read, text: str) -> Iterator[Parsed]:
    """Yield each record of the input as soon as it is complete. Raises CommandError for an invalid layout or input."""
    layout = parse_layout(text)
    steps = _steps(layout)
    if not any(isinstance(part, bytes) or not (part.modifier or "").isdecimal() for part in layout):
        raise CommandError("--format: the layout reads nothing")
    data = _Input(read)
    while not data.is_at_end():
        state, before = _State(), data.taken
        for step in steps:
            step(data, state)
        if data.taken == before:
            raise CommandError("--format: the layout reads nothing")
        topic = state.texts.get("t")
        yield Parsed(
            None if topic is None else _decoded(topic),
            state.texts.get("k") or None,
            state.texts.get("v"),
            tuple(state.headers),
            state.numbers.get("p"),
            state.numbers.get("d"),
        )


def _steps(layout: Layout) -> list[Step]:
    """Return the functions that read the parts of a record, in order."""
    steps: list[Step] = []
    sized: set[str] = set()
    index = 0
    while index < len(layout):
        part = layout[index]
        index += 1
        if isinstance(part, bytes):
            steps.append(_literal(part))
        elif part.letter in SIZES or part.letter in NUMBER_VERBS:
            sized.add(SIZES.get(part.letter, ""))
            steps.append(_number(part))
        elif part.letter == "h":
            if "h" not in sized or part.modifier is None:
                raise CommandError("--format: %h needs the number of headers before it, and braces: %H%h{%k=%v }")
            steps.append(_headers(part.modifier))
        elif part.letter in TEXT_VERBS:
            following = layout[index] if index < len(layout) else b""
            if part.letter in sized:
                steps.append(_text(part, None))
            else:
                if isinstance(following, Verb):
                    raise CommandError(f"--format: nothing says where %{part.letter} ends before %{following.letter}")
                steps.append(_text(part, following))
                index += 1  # The delimiter was read with the text.
        else:
            verbs = " %".join([*SIZES, *TEXT_VERBS, *NUMBER_VERBS, "h"])
            raise CommandError(f"--format: %{part.letter} cannot be read here; there are %{verbs} and %%")
    return steps


def _literal(expected: bytes) -> Step:
    def step(data: _Input, state: _State) -> None:
        text = data.exactly(len(expected))
        if text != expected:
            raise CommandError(f"the input has {text!r} where the layout has {expected!r}")

    return step


def _text(verb: Verb, delimiter: bytes | None) -> Step:
    """Return a step that reads a text: up to the delimiter, to the end of input if that is empty, or of the size read before."""
    decode = DECODERS.get(verb.modifier or "")
    if decode is None:
        raise CommandError(f"--format: %{verb.letter}{{{verb.modifier}}} is not here; there are hex and base64")

    def step(data: _Input, state: _State) -> None:
        if delimiter is None:
            text = data.exactly(state.numbers[verb.letter])
        else:
            text = data.until(delimiter) if delimiter else data.all()
        try:
            state.texts[verb.letter] = decode(text)
        except ValueError as fault:
            raise CommandError(f"{text[:SHOWN_MAX]!r} is not {verb.modifier}: {fault}") from None

    return step


def _number(verb: Verb) -> Step:
    form = verb.modifier or "ascii"
    name = SIZES.get(verb.letter, verb.letter)
    if form.isascii() and form.isdecimal() and int(form):
        size = int(form)
        return lambda _, state: state.numbers.update({name: size})
    read: Callable[[_Input], int]
    if form in ("ascii", "number"):
        read = _read_digits
    elif form == "bool":
        read = _read_bool
    elif form in FIXED_SIZES:
        read = _fixed(form)
    else:
        raise CommandError(
            f"--format: %{verb.letter}{{{form}}} is not here; there are ascii, bool, {', '.join(FIXED_SIZES)} and a number"
        )

    def step(data: _Input, state: _State) -> None:
        number = read(data)
        if name in SIZES.values() and number < 0:
            raise CommandError(f"the input has the size {number}")
        state.numbers[name] = number

    return step


def _read_digits(data: _Input) -> int:
    digits = data.digits()
    if not digits.removeprefix(b"-") or len(digits) > 19:
        raise CommandError(f"the input has {digits!r} where the layout has a number")
    return int(digits)


def _read_bool(data: _Input) -> int:
    text = data.exactly(4)
    if text == b"true":
        return 1
    text += data.exactly(1)
    if text == b"false":
        return 0
    raise CommandError(f"the input has {text!r} where the layout has true or false")


def _fixed(form: str) -> Callable[[_Input], int]:
    size = FIXED_SIZES[form]

    def read(data: _Input) -> int:
        text = data.exactly(size)
        if not form.startswith("hex"):
            number: int = struct.unpack(("<" if form.startswith("little") else ">") + STRUCTS[size], text)[0]
            return number
        if any(chr(character) not in string.hexdigits for character in text):
            raise CommandError(f"the input has {text!r} where the layout has a hexadecimal number")
        return int(text, 16)

    return read


def _headers(modifier: str) -> Step:
    steps = _steps(parse_layout(modifier))

    def step(data: _Input, state: _State) -> None:
        for _ in range(state.numbers["h"]):
            header = _State()
            for read in steps:
                read(data, header)
            state.headers.append((_decoded(header.texts.get("k", b"")), header.texts.get("v", b"")))

    return step


def _decoded(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError as fault:
        raise CommandError(f"{text[:SHOWN_MAX]!r} is not UTF-8: {fault.reason}") from None
