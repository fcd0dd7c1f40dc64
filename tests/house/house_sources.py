"""The packages ("rooms") of this project, their files, and the imports of the files."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
FRONT_DOOR = "stuntbroker"
ROOMS = sorted(p.parent.name for p in ROOT.glob("*/__init__.py") if p.parent.name not in (FRONT_DOOR, "tests", "tools"))


def files_of(*folders: str) -> list[Path]:
    """Python files below these root folders, as paths from the root."""
    paths = (p.relative_to(ROOT) for folder in folders for p in (ROOT / folder).rglob("*.py"))
    return sorted(p for p in paths if not any(part.startswith((".", "__pycache__")) for part in p.parts))


@cache
def text_of(path: Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(text_of(path), str(path))


def is_generated(path: Path) -> bool:
    return "GENERATED" in text_of(path).partition("\n")[0]


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, dotted name) of every import in a file, at any level and also for type checkers.

    `from a.b import c` counts as a.b.c. A module name in a string counts where importlib loads it; names of our own modules
    count anywhere.
    """
    for node in ast.walk(tree_of(path)):
        match node:
            case ast.Import():
                yield from ((node.lineno, each.name) for each in node.names)
            case ast.ImportFrom(level=0):
                yield from ((node.lineno, f"{node.module}.{each.name}") for each in node.names)
            case ast.ImportFrom():
                yield from ((node.lineno, f"{'.' * node.level}{node.module or ''}.{each.name}") for each in node.names)
            case ast.Call(func=ast.Name("import_module" | "__import__") | ast.Attribute(attr="import_module")):
                match node.args:
                    case [ast.Constant(value=str(text)), *_] if not text.startswith(f"{FRONT_DOOR}."):
                        yield node.lineno, text
            case ast.Constant(value=str(text)) if text.startswith(f"{FRONT_DOOR}.") and " " not in text:
                if text.split(".")[1].partition(":")[0] in ROOMS:
                    yield node.lineno, text


def uses_of(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield (line, dotted name) of every use of an imported or built-in name, called or not.

    Names are resolved: after `from time import time_ns as now`, `now` is time.time_ns; `open` is builtins.open unless the file
    defines that name itself. Attributes of other objects have only their own name after a dot: `loop.time` is `.time`.
    """
    known: dict[str, str] = {}
    own: set[str] = set()
    methods = {each for item in ast.walk(tree) if isinstance(item, ast.ClassDef) for each in item.body}
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                known |= {
                    (item.asname or item.name.split(".")[0]): (item.name if item.asname else item.name.split(".")[0])
                    for item in node.names
                }
            case ast.ImportFrom(level=0):
                known |= {item.asname or item.name: f"{node.module}.{item.name}" for item in node.names}
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() if node not in methods:
                own.add(node.name)
            case ast.arg():
                own.add(node.arg)
            case ast.Name(ctx=ast.Store()):
                own.add(node.id)

    def dotted(node: ast.AST) -> str:
        match node:
            case ast.Name(name):
                return known.get(name) or (f"builtins.{name}" if name not in own and hasattr(builtins, name) else "")
            case ast.Attribute(value, attr):
                return f"{dotted(value)}.{attr}"
        return ""

    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            name = dotted(node)
            if name:
                yield node.lineno, name


def compiled_modules() -> list[str]:
    """Paths of the modules that setup.py compiles."""
    (names,) = (
        node.value
        for node in ast.parse((ROOT / "setup.py").read_text()).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "COMPILED"
    )
    paths: list[str] = ast.literal_eval(names)
    return paths
