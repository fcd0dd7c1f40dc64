"""The linter, the formatter and the type checker report no problems."""

from __future__ import annotations

import ast
import hashlib
import subprocess
import sys
from pathlib import Path

import pytest
from house_sources import FRONT_DOOR, ROOMS, ROOT, files_of, text_of, tree_of
from jars import cache_root
from typing_links import make_links


def run(*command: str) -> tuple[int, str]:
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_ruff_finds_nothing() -> None:
    status, said = run("ruff", "check", "--output-format=concise", ".")

    assert status == 0, said


def test_every_file_has_the_formatter_s_format() -> None:
    status, said = run("ruff", "format", "--check", ".")

    assert status == 0, said


def test_only_tables_of_data_keep_their_own_format() -> None:
    kept = [
        str(path)
        for path in files_of(FRONT_DOOR, *ROOMS)
        for line in text_of(path).splitlines()
        if "fmt: skip" in line or "fmt: off" in line
    ]

    assert len(kept) <= 10, kept


def has_rows(node: ast.AST) -> bool:
    """Whether something in `node` is a table: a literal with three rows or more on several lines."""
    for each in ast.walk(node):
        rows = each.values if isinstance(each, ast.Dict) else getattr(each, "elts", [])
        if len(rows) >= 3 and isinstance(each, ast.expr) and each.end_lineno != each.lineno:
            return True
    return False


def test_only_tables_keep_their_columns() -> None:
    wrong = []
    for path in files_of("tests", "tools", "bench", "demo"):
        lines = text_of(path).splitlines()
        skipped = {number for number, line in enumerate(lines, 1) if line.endswith("# fmt: skip")}
        if not skipped:
            continue
        tables = {
            number
            for node in ast.walk(tree_of(path))
            if isinstance(node, ast.stmt | ast.expr) and not hasattr(node, "body") and has_rows(node)
            for number in range(node.lineno, (node.end_lineno or 0) + 1)
        }
        wrong += [f"{path}:{number}" for number in sorted(skipped - tables)]
    assert wrong == []


@pytest.mark.timeout(600)
def test_mypy_finds_nothing() -> None:
    """About half a minute when its cache is cold."""
    make_links()
    checkout = hashlib.sha256(str(ROOT).encode()).hexdigest()[:12]  # mypy does not tell files of two checkouts apart.
    status, said = run("mypy", "--cache-dir", str(cache_root() / "mypy" / checkout))

    assert status == 0, said


def test_type_checkers_see_every_room_and_no_more(tmp_path: Path) -> None:
    for name in ("stuntbroker", "protocol", "storage"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    (tmp_path / "stuntbroker" / "py.typed").touch()
    (tmp_path / "docs").mkdir()
    stale = tmp_path / ".typing" / "stuntbroker" / "gone"
    stale.parent.mkdir(parents=True)
    stale.symlink_to("../../gone")

    for _ in range(2):
        links = make_links(tmp_path)

        assert sorted(link.name for link in links.iterdir()) == ["__init__.py", "protocol", "py.typed", "storage"]
        assert (links / "storage").resolve() == tmp_path / "storage"
    assert {link.name for link in make_links().iterdir()} >= set(ROOMS)
