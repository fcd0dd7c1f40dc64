"""The file of `serve --config`: TOML, or Java properties when its name ends in .properties."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from stuntbroker.cli.arguments import UsageError

_KEY_AND_SEPARATOR: Final = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE: Final = re.compile(r"\\(u.{0,4}|.)")
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(path: str) -> dict[str, str]:
    """Return the properties in a file. Raises UsageError."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as fault:
        raise UsageError(f"--config {path}: {fault.strerror}") from None
    try:
        return parse_java(data) if path.endswith(".properties") else parse_toml(data)
    except ValueError as fault:
        raise UsageError(f"--config {path}: {fault}") from None


def parse_toml(data: bytes) -> dict[str, str]:
    """Parse TOML: `a.b.c = 1`, `"a.b.c" = 1` and tables all set the property a.b.c. Raises ValueError."""
    import tomllib

    flat: dict[str, str] = {}

    def walk(prefix: str, table: dict[str, object]) -> None:
        for name, value in table.items():
            if isinstance(value, dict):
                walk(f"{prefix}{name}.", value)
            elif isinstance(value, bool):
                flat[prefix + name] = "true" if value else "false"
            elif isinstance(value, list):
                flat[prefix + name] = ",".join(map(str, value))
            else:
                flat[prefix + name] = str(value)

    walk("", tomllib.loads(data.decode()))
    return flat


def parse_java(data: bytes) -> dict[str, str]:
    """Parse the format of java.util.Properties: Latin-1, escapes, comments, continuation lines. Raises ValueError."""
    properties = {}
    for line in _logical_lines(data.decode("latin-1")):
        match = _KEY_AND_SEPARATOR.match(line)
        assert match is not None  # All of it is optional.
        properties[_unescape(match[1])] = _unescape(line[match.end() :])
    return properties


def _logical_lines(text: str) -> Iterator[str]:
    """Yield logical lines without blank lines and comments; a backslash at the end of a line continues it."""
    line = ""
    for natural in re.split("\r\n|\r|\n", text):
        natural = natural.lstrip(" \t\f")
        if not line and (not natural or natural[0] in "#!"):
            continue
        line += natural
        if (len(line) - len(line.rstrip("\\"))) % 2 == 1:
            line = line[:-1]
        else:
            yield line
            line = ""
    if line:
        yield line


def _unescape(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        escape: str = match[1]
        if not escape.startswith("u"):
            return _CONTROLS.get(escape, escape)
        if not re.fullmatch("u[0-9A-Fa-f]{4}", escape):
            raise ValueError(f"\\{escape} is not \\uXXXX")
        return chr(int(escape[1:], 16))

    unescaped = _ESCAPE.sub(character, text)
    # Java writes a character outside the basic plane as two escapes.
    return unescaped.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
