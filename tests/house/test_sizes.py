"""Files and functions stay below size limits."""

from __future__ import annotations

import ast

from house_sources import FRONT_DOOR, ROOMS, files_of, is_generated, text_of, tree_of

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 80
EXCEPTIONS = {
    "tools/codegen.py": 690,  # Reader and writer of every kind of field, side by side.
}
"""`file.py` or `file.py:function` -> its own limit in lines."""

SOURCES = [path for path in files_of(FRONT_DOOR, *ROOMS, "tools") if not is_generated(path)]


def sizes() -> dict[str, tuple[int, int]]:
    """Return `file.py` or `file.py:function` -> (lines, limit)."""
    actual = {}
    for path in SOURCES:
        actual[str(path)] = len(text_of(path).splitlines()), FILE_LINES_MAX
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                actual[f"{path}:{node.name}"] = node.end_lineno - node.lineno + 1, FUNCTION_LINES_MAX
    return actual


def test_files_and_functions_keep_to_their_size() -> None:
    wrong = [
        f"{what} has {lines} lines, more than {EXCEPTIONS.get(what, most)}"
        for what, (lines, most) in sizes().items()
        if lines > EXCEPTIONS.get(what, most)
    ]

    assert wrong == []


def test_no_file_is_empty() -> None:
    files = files_of(FRONT_DOOR, *ROOMS, "tools", "bench", "demo", "tests")

    assert [str(path) for path in files if not text_of(path).strip()] == []


def test_every_size_exception_is_still_needed() -> None:
    known = sizes()

    assert [what for what in EXCEPTIONS if what not in known or known[what][0] <= known[what][1]] == []
