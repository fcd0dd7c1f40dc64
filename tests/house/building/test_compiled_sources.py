"""Modules that mypyc compiles avoid what means something else when it is compiled."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import is_typeddict

import pytest
from house_sources import ROOT, compiled_modules, tree_of

PHASES = {"ONGOING", "PREPARE_COMMIT", "Phase.EMPTY", "before.phase", "complete", "prepare"}
STATES = {
    "IN_TRANSACTION",
    "State.CLOSED",
    "State.COMMITTING_TRANSACTION",
    "State.FATAL_ERROR",
    "State.PREPARED_TRANSACTION",
    "Call.SEND",
    "call",
    "Outcome.RUN",
    "Kind.RETRY",
    "Kind.SUCCESS",
    "Kind.SPLIT",
    "Kind.REFRESH",
    "Kind.ABORTABLE_WITH_BUMP",
}
GROUP_STATES = {"GroupState.DEAD", "GroupState.EMPTY", "GroupState.COMPLETING_REBALANCE", "GroupState.STABLE"}
OBJECTS = {
    "None",
    "NO_RESPONSE",
    "GENERAL",
    "pending",
    "self._link",
    "request",
    "other._record",
    "batch",
    "CoordinatorRequest.ADD",
    "CoordinatorRequest.VERIFY",
    "bytes",
    "segment",
    "other.__class__",
    "EndTxn",
    "InitProducerId",
}
IDENTITIES = OBJECTS | PHASES | STATES | GROUP_STATES
"""Objects that a compiled module may compare by `is`; mypyc unboxes numbers and error codes, which then have no identity."""


def compared_by_identity(path: Path) -> set[str]:
    """Return the right operands of `is` and `is not` in a module."""
    return {
        ast.unparse(right)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Compare)
        for operator, right in zip(node.ops, node.comparators, strict=True)
        if isinstance(operator, ast.Is | ast.IsNot)
    }


@pytest.mark.parametrize("path", compiled_modules())
def test_a_compiled_module_compares_numbers_by_value(path: str) -> None:
    """mypyc unboxes integers, for which `is` is never true."""
    assert compared_by_identity(Path(path)) - IDENTITIES == set()


def test_no_module_compares_an_error_code_by_identity() -> None:
    """An attribute of a compiled class, declared as a number, gives a number, whichever module reads it."""
    compared = {
        f"{path}: {right}"
        for room in ("broker", "control", "coordinator", "groups", "protocol", "storage")
        for path in (ROOT / room).rglob("*.py")
        for right in compared_by_identity(path)
        if right.startswith("ErrorCode.") or right.strip("_") == "OK"
    }
    assert compared == set()


@pytest.mark.parametrize("path", compiled_modules())
def test_a_compiled_module_defines_no_typed_dict(path: str) -> None:
    """mypyc leaves out the keys of the base class, so that checks of options refuse them."""
    module = import_module(f"stuntbroker.{path.removesuffix('.py').replace('/', '.')}")
    defined = [value for value in vars(module).values() if getattr(value, "__module__", "") == module.__name__]
    assert [value for value in defined if is_typeddict(value)] == []


Event = tuple[str, str, int]
"""("call" | "read" | "write", dotted name, line), in the order of evaluation."""


class Events(ast.NodeVisitor):
    """The calls of a piece of code, and its uses of attributes. A nested function runs at another time."""

    def __init__(self) -> None:
        self.listed: list[Event] = []

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        self.listed.append(("call", ast.unparse(node.func), node.lineno))

    def visit_Await(self, node: ast.Await) -> None:
        self.generic_visit(node)
        self.listed.append(("call", "await", node.lineno))

    def visit_Assign(self, node: ast.Assign) -> None:
        for part in (node.value, *node.targets):
            self.visit(part)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.generic_visit(node)
        kind = "write" if isinstance(node.ctx, ast.Store) else "read"
        self.listed.append((kind, ast.unparse(node), node.lineno))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        pass

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        pass

    def visit_Lambda(self, node: ast.Lambda) -> None:
        pass


def attributes_that_are_none(test: ast.expr, *, where_it_holds: bool) -> list[str]:
    """Attributes that are None where a condition holds, or where it does not."""
    match test:
        case ast.BoolOp(op=ast.And()) if where_it_holds:
            return [name for part in test.values for name in attributes_that_are_none(part, where_it_holds=True)]
        case ast.BoolOp(op=ast.Or()) if not where_it_holds:
            return [name for part in test.values for name in attributes_that_are_none(part, where_it_holds=False)]
        case ast.Compare(left=ast.Attribute() as left, ops=[operator], comparators=[ast.Constant(value=None)]):
            return [ast.unparse(left)] if isinstance(operator, ast.Is if where_it_holds else ast.IsNot) else []
    return []


def read_after_a_call(name: str, code: list[ast.stmt]) -> list[str]:
    """Where code reads an attribute after a call, without a new value of its own."""
    events = Events()
    for statement in code:
        events.visit(statement)
    called = False
    for kind, what, line in events.listed:
        called |= kind == "call"
        if what == name and kind == "write":
            return []
        if what == name and called:
            return [f"line {line}: {name}"]
    return []


def narrowed_over_a_call(body: list[ast.stmt]) -> Iterator[str]:
    """Yield reads of attributes that compiled code takes for None, because they were None before a call."""
    for at, statement in enumerate(body):
        if isinstance(statement, ast.If | ast.While):
            for name in attributes_that_are_none(statement.test, where_it_holds=True):
                yield from read_after_a_call(name, statement.body)
            behind = body[at + 1 :] if isinstance(statement.body[-1], ast.Return | ast.Raise | ast.Continue) else []
            for name in attributes_that_are_none(statement.test, where_it_holds=False):
                yield from read_after_a_call(name, [*statement.orelse, *behind])
        for field in ("body", "orelse", "finalbody"):
            yield from narrowed_over_a_call(getattr(statement, field, []))
        for handler in getattr(statement, "handlers", []):
            yield from narrowed_over_a_call(handler.body)


@pytest.mark.parametrize("path", compiled_modules())
def test_a_compiled_module_reads_no_attribute_narrowed_to_none_after_a_call(path: str) -> None:
    """mypyc keeps the type None over the call: ask by a property instead."""
    assert list(narrowed_over_a_call(tree_of(Path(path)).body)) == []


@pytest.mark.parametrize(
    ("code", "is_wrong"),
    [
        ("if self.a is None:\n    if f() and self.a is None: g()", True),
        ("if not b and self.a is None:\n    f()\n    return self.a", True),
        ("if self.a is not None:\n    return\nf()\nx = self.a", True),
        ("try:\n    if self.a is not None or b:\n        raise X\n    await f\n    g(self.a.b)\nfinally: pass", True),
        ("if self.a is None:\n    x = self.a\n    f()", False),
        ("if self.a is None:\n    f()\n    self.a = g()\n    x = self.a", False),
        ("if self.a is None:\n    f(lambda: self.a)", False),
        ("if self.a is not None:\n    f()\n    x = self.a", False),
        ("if self.is_busy:\n    f()\n    x = self.a", False),
    ],
)
def test_an_attribute_that_is_narrowed_over_a_call_is_found(code: str, is_wrong: bool) -> None:
    assert bool(list(narrowed_over_a_call(ast.parse(code).body))) == is_wrong


def awaits_in_finally(tree: ast.AST) -> list[int]:
    """Return the lines that await in a `finally` block."""
    blocks = [statement for node in ast.walk(tree) if isinstance(node, ast.Try) for statement in node.finalbody]
    return sorted({node.lineno for block in blocks for node in ast.walk(block) if isinstance(node, ast.Await)})


@pytest.mark.parametrize("path", compiled_modules())
def test_a_compiled_module_awaits_nothing_in_a_finally_block(path: str) -> None:
    """With mypyc, the exception that ended the block is raised once more by a coroutine that runs later."""
    assert awaits_in_finally(tree_of(Path(path))) == []


def test_an_await_in_a_finally_block_is_seen() -> None:
    code = "async def f():\n try:\n  await a\n except E:\n  await c\n finally:\n  if b:\n   await d"
    assert awaits_in_finally(ast.parse(code)) == [8]


@pytest.mark.parametrize("path", compiled_modules())
def test_a_compiled_loop_does_not_change_the_number_of_its_rounds(path: str) -> None:
    """Compiled, a loop over `range(count)` compares with the variable in each round."""
    wrong = [
        f"line {loop.lineno}: {name.id}"
        for loop in ast.walk(tree_of(Path(path)))
        if isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call) and ast.unparse(loop.iter.func) == "range"
        for name in (each for bound in loop.iter.args for each in ast.walk(bound) if isinstance(each, ast.Name))
        for inside in (each for statement in loop.body for each in ast.walk(statement))
        if isinstance(inside, ast.Name) and inside.id == name.id and isinstance(inside.ctx, ast.Store)
    ]
    assert wrong == []


def test_no_message_of_a_response_is_compiled() -> None:
    """Faults read its annotations (`broker/requests/plain_messages.py`), which compiled functions do not have."""
    assert [path for path in compiled_modules() if path.startswith("protocol/messages/") and "_response" in path] == []


def defaults_without_a_value(tree: ast.AST) -> list[int]:
    """Return the lines of functions with the default `...`."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for default in (*node.args.defaults, *filter(None, node.args.kw_defaults))
        if isinstance(default, ast.Constant) and default.value is ...
    ]


@pytest.mark.parametrize("path", compiled_modules())
def test_a_compiled_function_has_no_ellipsis_as_a_default(path: str) -> None:
    """Compiled, a default is converted to the type of its parameter when the module is loaded, also in a Protocol."""
    assert defaults_without_a_value(tree_of(Path(path))) == []


def test_an_ellipsis_as_a_default_is_seen() -> None:
    assert defaults_without_a_value(ast.parse("def f(a: int = 1): ...\ndef g(a: str = ..., *, b: int): ...")) == [2]
