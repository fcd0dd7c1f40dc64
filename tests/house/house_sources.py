"""The rooms of the house, the files in them and what these import."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
FRONT_DOOR = "stuntbroker"
ROOMS = sorted(p.parent.name for p in ROOT.glob("*/__init__.py") if p.parent.name not in (FRONT_DOOR, "tests", "tools"))


def files_of(*folders: str) -> list[Path]:
    """Python files below these root folders, as paths from the root."""
    found = (p.relative_to(ROOT) for folder in folders for p in (ROOT / folder).rglob("*.py"))
    return sorted(p for p in found if not any(part.startswith((".", "__pycache__")) for part in p.parts))


@cache
def text_of(path: Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(text_of(path), str(path))


def is_generated(path: Path) -> bool:
    return "GENERATED" in text_of(path).partition("\n")[0]


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of everything imported, wherever it stands and whatever it is for.

    `from a.b import c` counts as a.b.c. A module named in a string, as importlib takes it, counts when it is ours.
    """
    for node in ast.walk(tree_of(path)):
        match node:
            case ast.Import():
                yield from ((node.lineno, one.name) for one in node.names)
            case ast.ImportFrom(level=0):
                yield from ((node.lineno, f"{node.module}.{one.name}") for one in node.names)
            case ast.ImportFrom():
                yield from ((node.lineno, f"{'.' * node.level}{node.module or ''}.{one.name}") for one in node.names)
            case ast.Constant(value=str(text)) if text.startswith(f"{FRONT_DOOR}.") and " " not in text:
                if text.split(".")[1].partition(":")[0] in ROOMS:
                    yield node.lineno, text
