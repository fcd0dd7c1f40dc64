"""Names and docstrings that a stranger can read: nouns of Kafka instead of riddles, and no public thing unexplained."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from house_sources import FRONT_DOOR, ROOMS, ROOT, files_of, is_generated, tree_of

RIDDLES = frozenset(
    {
        "one",
        "found",
        "made",
        "told",
        "asked",
        "wish",
        "news",
        "doubt",
        "fate",
        "rest",
        "again",
        "moved",
        "leave",
        "late",
    }
)
"""Names that say nothing of what they hold."""
IN_NAMES = (RIDDLES - {"one", "found", "moved", "leave", "late"}) | {"nobody", "nobodys", "untold", "wished"}
"""Words that say nothing within a name either."""
IN_SENTENCES = frozenset({"made", "asked", "doubt", "rest", "again"})
IN_NAMES_OF_TESTS = frozenset(
    {"who", "whom", "whoever", "nobody", "somebody", "told", "tells", "untold", "hears", "blamed", "anew"}
)
"""Words that stand for a client, a member or a response that the name of a test should have instead."""
OF_PYTHON = {"connection_made"}
MIDDLE_OF_A_SENTENCE = ("And ", "So ", "Of ", "Nor ", "Also ", "Those ", "But ", "Or ")
FILES = [path for path in files_of(FRONT_DOOR, *ROOMS) if not is_generated(path)]
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def names_given_in(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, name) of everything that is defined: functions, classes, parameters, variables, attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.lineno, node.attr
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield node.lineno, name
            case ast.MatchMapping(rest=str(name)):
                yield node.lineno, name
            case ast.alias(asname=str(name)):
                yield node.lineno, name


def riddles_in(tree: ast.AST) -> list[tuple[int, str]]:
    return [(line, name) for line, name in names_given_in(tree) if name.strip("_").lower() in RIDDLES]


def test_no_file_has_a_riddle_for_a_name() -> None:
    assert [path for path in FILES if path.stem in RIDDLES] == []


def riddles_within(tree: ast.AST, words: frozenset[str]) -> list[tuple[int, str]]:
    """As `riddles_in`, for the words that a name is made of."""
    return [
        (line, name)
        for line, name in names_given_in(tree)
        if name not in OF_PYTHON and words & {word.lower() for word in re.findall("[A-Z]?[a-z]+|[A-Z]+", name)}
    ]


def undocumented_in(tree: ast.Module) -> list[str]:
    """Public functions, classes and methods without a docstring, by their dotted names; "module" for the module."""
    missing = [] if ast.get_docstring(tree) else ["module"]

    def look(parent: Documented, prefix: str) -> None:
        for node in parent.body:
            if isinstance(node, Documented) and not isinstance(node, ast.Module) and not node.name.startswith("_"):
                if not ast.get_docstring(node):
                    missing.append(prefix + node.name)
                if isinstance(node, ast.ClassDef):
                    look(node, f"{prefix}{node.name}.")

    look(tree, "")
    return missing


def test_no_name_is_a_riddle() -> None:
    files = (*FILES, *files_of("tests", "tools", "bench", "demo"))
    assert [(str(path), *riddle) for path in files for riddle in riddles_in(tree_of(path))] == []


def test_no_word_in_a_name_is_a_riddle() -> None:
    """The names of tests are sentences, in which some of these words do say something."""
    others = files_of("tests", "tools", "bench", "demo")
    found_in_product = [(str(path), *riddle) for path in FILES for riddle in riddles_within(tree_of(path), IN_NAMES)]
    found_elsewhere = [
        (str(path), *riddle) for path in others for riddle in riddles_within(tree_of(path), IN_NAMES - IN_SENTENCES)
    ]
    assert found_in_product + found_elsewhere == []


def test_no_test_has_a_pronoun_for_its_subject() -> None:
    assert [
        (str(path), line, name)
        for path in files_of("tests")
        for line, name in names_given_in(tree_of(path))
        if name.startswith("test_") and IN_NAMES_OF_TESTS & set(name.split("_"))
    ] == []


def docstrings_in(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, text) of everything that explains a module, class, function, constant or attribute."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            match statement:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield statement.lineno, text.strip()


def test_no_docstring_begins_in_the_middle_of_a_sentence() -> None:
    """It is read alone: in an editor, or by help()."""
    assert [
        (str(path), line, text[:40])
        for path in FILES
        for line, text in docstrings_in(tree_of(path))
        if text.startswith(MIDDLE_OF_A_SENTENCE)
    ] == []


def unattached_in(tree: ast.Module) -> list[tuple[int, str]]:
    """Return (line, text) of texts that explain nothing, because they follow neither a definition nor an assignment."""
    unattached = []
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for before, statement in pairwise(body) if isinstance(body, list) else ():
            match statement:
                case ast.Expr(value=ast.Constant(value=str(text))) if not isinstance(
                    before, ast.Assign | ast.AnnAssign
                ):
                    unattached.append((statement.lineno, text))
    return unattached


def test_every_text_follows_the_definition_that_it_explains() -> None:
    """When a constant moves to another file, its text goes with it."""
    assert [(str(path), *each) for path in FILES for each in unattached_in(tree_of(path))] == []


def test_an_unattached_text_is_detected() -> None:
    tree = ast.parse(
        '"""A."""\nimport a\n"""B."""\nb = 1\n"""C."""\nclass D:\n    """D."""\n    e: int\n    """E."""\n'
    )

    assert unattached_in(tree) == [(3, "B.")]


def test_every_public_thing_has_a_docstring() -> None:
    assert [(str(path), name) for path in FILES for name in undocumented_in(tree_of(path))] == []


def test_every_generated_class_has_a_docstring() -> None:
    """Its methods are explained by the base class."""
    generated = [path for path in files_of("protocol") if is_generated(path)]
    names = [(str(path), name) for path in generated for name in undocumented_in(tree_of(path))]
    assert generated and [each for each in names if "." not in each[1]] == []


@pytest.mark.parametrize("package", [path.parent for path in FILES if path.name == "__init__.py"], ids=str)
def test_a_package_describes_its_contents_in_a_paragraph(package: Path) -> None:
    text = ast.get_docstring(tree_of(package / "__init__.py")) or ""

    assert len(text.split()) >= 20, f"{ROOT / package}: {text}"


SOURCE = '''
"""A module."""
def found(one): ...
class Kept:
    """Kept."""
    def asked(self) -> None:
        self.late = 1
        match self:
            case {"a": 1, **rest}:
                pass
    def _hidden(self): ...
'''


def test_riddles_and_missing_docstrings_are_seen_wherever_they_are() -> None:
    tree = ast.parse(SOURCE)

    assert sorted(name for _, name in riddles_in(tree)) == ["asked", "found", "late", "one", "rest"]
    assert undocumented_in(tree) == ["found", "Kept.asked"]
