"""Parsers of untrusted documents: JSON, and YAML if PyYAML is installed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

YAML_SUFFIXES: Final = (".yaml", ".yml")
INTEGER_MAX: Final = 1 << 64
VALUES_MAX: Final = 200_000
"""Maximum number of values in a YAML document, whose aliases can expand to very many."""


def read_plan_file(path: str | os.PathLike[str]) -> Any:
    """Return the plan in a file as unvalidated plain values; YAML if its suffix says so. Raises OSError, ValueError."""
    content = Path(path).read_bytes()
    return parse_yaml(content) if Path(path).suffix.lower() in YAML_SUFFIXES else parse_json(content)


def parse_json(content: str | bytes | bytearray) -> Any:
    """Return the value of a JSON document. Raises ValueError with one line."""
    try:
        value = json.loads(content)
    except RecursionError as fault:
        raise ValueError(str(fault)) from None
    json.dumps(value, ensure_ascii=False).encode()  # A lone surrogate could not be encoded in a response.
    return value


def parse_yaml(content: bytes) -> Any:
    """Return the value of a YAML document that is limited to JSON's types. Raises ValueError with one line."""
    text = content.decode()
    if "<<" in text:  # PyYAML takes minutes for a few lines of nested merges.
        raise ValueError("the merge key << is not supported: write its fields out")
    try:
        import yaml
    except ModuleNotFoundError:
        raise ValueError("YAML needs PyYAML: pip install 'stuntbroker[yaml]', or write JSON") from None
    try:
        return _plain(yaml.safe_load(text), iter(range(VALUES_MAX)))
    except Exception as fault:  # PyYAML does not wrap Python's errors, such as IndexError for `!!int ""`.
        kind = "" if isinstance(fault, ValueError | yaml.YAMLError) else f"{type(fault).__name__}: "
        raise ValueError(kind + " ".join(str(fault).split())) from None


def _plain(value: Any, left: Iterator[int]) -> Any:
    """Return a validated copy of a value. `left`: one item per remaining value. Raises ValueError, RecursionError."""
    if next(left, None) is None:
        raise ValueError(f"it has more than {VALUES_MAX} values")
    if isinstance(value, dict):
        for name in value:
            if not isinstance(name, str):
                raise ValueError(f"the name {name!r:.50} is not a string: put it in quotes")
        return {_plain(name, left): _plain(each, left) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each, left) for each in value]
    if isinstance(value, str):
        # Joins surrogate pairs, as JSON writes them; fails for a lone surrogate.
        return value.encode("utf-16", "surrogatepass").decode("utf-16")
    if isinstance(value, int) and abs(value) > INTEGER_MAX:
        raise ValueError("a whole number has more than 64 bits")
    if value is None or isinstance(value, int | float):
        return value
    raise ValueError(f"{value!s:.50} is not a string, number, true, false or null: put it in quotes")
