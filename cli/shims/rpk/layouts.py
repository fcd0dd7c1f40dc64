"""Layouts of `--format`: text with percent verbs for the parts of a record, as in Redpanda's and franz-go's tools."""

from __future__ import annotations

from typing import Final, NamedTuple

from stuntbroker.cli.shims.arguments import CommandError

ESCAPES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "\\": b"\\"}
BRACKETS: Final = {"{": "}", "[": "]", "(": ")", "#": "#"}


class Verb(NamedTuple):
    """A verb of a layout: `%k{hex}` is the verb `k` with the modifier `hex`; without braces, the modifier is None."""

    letter: str
    modifier: str | None


Layout = list[bytes | Verb]
"""Verbs, and the bytes between them."""


def parse_layout(text: str) -> Layout:
    """Parse a layout. Raises CommandError."""
    layout: Layout = []
    literal, at = b"", 0
    while at < len(text):
        if text[at] == "\\":
            escaped, at = _escape(text, at + 1)
            literal += escaped
        elif text[at] != "%":
            literal += text[at].encode()
            at += 1
        elif text[at + 1 : at + 2] in ("%", "{", "}"):
            literal += text[at + 1].encode()
            at += 2
        else:
            if literal:
                layout.append(literal)
            literal = b""
            verb, at = _verb(text, at + 1)
            layout.append(verb)
    return [*layout, literal] if literal else layout


def _escape(text: str, at: int) -> tuple[bytes, int]:
    """Return the bytes of the escape sequence after a backslash, and the position after it."""
    character = text[at : at + 1]
    if character in ESCAPES:
        return ESCAPES[character], at + 1
    digits = text[at + 1 : at + 3]
    if character == "x" and len(digits) == 2 and all(digit in "0123456789abcdefABCDEF" for digit in digits):
        return bytes.fromhex(digits), at + 3
    raise CommandError(f"--format: \\{text[at : at + 3]} is not an escape; there are \\t \\n \\r \\\\ and \\xNN")


def _verb(text: str, at: int) -> tuple[Verb, int]:
    letter = text[at : at + 1]
    if not letter:
        raise CommandError("--format: nothing follows the last %")
    if text[at + 1 : at + 2] != "{":
        return Verb(letter, None), at + 1
    end = _closing(text, at + 2, is_nested=letter == "h")
    return Verb(letter, text[at + 2 : end]), end + 1


def _closing(text: str, at: int, *, is_nested: bool) -> int:
    """Return the position of a modifier's closing brace. The layout in the braces of %h may itself have braces."""
    start, depth = at, 1
    while at < len(text):
        if is_nested and text[at] == "%":
            at += 1  # Skips a verb's letter, or an escaped brace.
        elif not is_nested and text[at] in BRACKETS:
            at = _behind_enclosed(text, at) - 1
        elif text[at] in "{}":
            depth += 1 if text[at] == "{" else -1
        if not depth:
            return at
        at += 1
    raise CommandError(f"--format: the brace before {text[start:]!r} is not closed")


def _behind_enclosed(text: str, at: int) -> int:
    """Return the position after `[[...]]` or `##...##`, which may contain any character, including braces."""
    opening = text[at]
    count = 0
    while text[at + count : at + count + 1] == opening:
        count += 1
    closing = BRACKETS[opening] * count
    end = text.find(closing, at + count)
    if end < 0:
        raise CommandError(f"--format: {text[at:]!r} lacks {closing!r}")
    return end + count


def enclosed(modifier: str, name: str) -> str | None:
    """Return the enclosed text of a modifier, such as `%F` of `strftime[%F]`; None for another modifier."""
    marked = modifier.removeprefix(name)
    if marked == modifier or not marked or marked[0] not in BRACKETS:
        return None
    count = len(marked) - len(marked.lstrip(marked[0]))
    closing = BRACKETS[marked[0]] * count
    return marked[count : -len(closing)] if marked.endswith(closing) and len(marked) >= 2 * count else None
