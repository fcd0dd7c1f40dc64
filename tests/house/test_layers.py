"""Which room may import which, and that none imports anything else of ours."""

from __future__ import annotations

import ast
from pathlib import Path
from sys import stdlib_module_names

import pytest
from house_sources import FRONT_DOOR, ROOMS, ROOT, files_of, imports_of, tree_of

CORE = {"protocol", "storage", "coordinator", "groups"}
MAY_IMPORT: dict[str, set[str]] = {
    "protocol":    set(),
    "storage":     {"protocol"},
    "coordinator": {"protocol"},
    "groups":      {"protocol"},
    "broker":      CORE,
    "control":     CORE | {"broker"},
    "client":      {"protocol"},
    "fixture":     {"client", "protocol"},
    "pipeline":    {"client", "protocol"},
    "cli":         CORE | {"broker", "control", "client", "fixture", "pipeline"},
}  # fmt: skip
"""A room and the rooms that it may import besides itself. Imports for type checkers only count too."""
CONTROL = ("observation", "rules", "http", "page")
"""Folders of `control/`: each may import those before it."""
MAY_IMPORT_FROM_OUTSIDE = {"protocol": {"crc32c", "cramjam"}}
"""Rooms that are held to the standard library, and what else they may import."""


def test_every_room_has_its_place_in_the_house() -> None:
    assert set(ROOMS) <= MAY_IMPORT.keys()
    assert MAY_IMPORT.keys() - set(ROOMS) <= {"control", "fixture"}


def test_no_two_rooms_import_each_other() -> None:
    below: dict[str, set[str]] = {}
    for room in MAY_IMPORT:  # The table goes from the bottom up.
        assert MAY_IMPORT[room] <= below.keys()
        below[room] = MAY_IMPORT[room]


def rooms_imported_by(path: Path) -> list[tuple[str, str]]:
    """(what to say, room), for every import of ours."""
    actual = []
    for line, name in imports_of(path):
        where = f"{path}:{line} imports {name}"
        if name.split(".")[0] == FRONT_DOOR:
            room = [*name.split("."), ""][1].partition(":")[0]
            actual.append((where, room if room in MAY_IMPORT else FRONT_DOOR))
        elif name.startswith("."):
            actual.append((where, "relative"))
        elif name.split(".")[0] in {*MAY_IMPORT, "tests", "tools", "bench"} and (ROOT / name.split(".")[0]).is_dir():
            actual.append((where, "bare"))  # A second copy of the same module, found in the current folder.
    return actual


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_the_rooms_below_it(room: str) -> None:
    allowed = MAY_IMPORT[room] | {room}
    wrong = [where for path in files_of(room) for where, other in rooms_imported_by(path) if other not in allowed]

    assert wrong == []


@pytest.mark.parametrize("folder", CONTROL)
def test_a_folder_of_control_imports_only_those_before_it(folder: str) -> None:
    later = CONTROL[CONTROL.index(folder) + 1 :]
    wrong = [
        f"{path}:{line} imports {name}"
        for path in files_of("control")
        if path.parent.name == folder
        for line, name in imports_of(path)
        if name.startswith(tuple(f"{FRONT_DOOR}.control.{each}." for each in later))
    ]

    assert wrong == []
    assert any(path.parent.name == folder for path in files_of("control"))


def test_the_front_door_imports_what_it_opens_on_and_its_command_only_the_command_line() -> None:
    actual = {str(path): [name for _, name in imports_of(path)] for path in files_of(FRONT_DOOR)}

    assert actual == {
        f"{FRONT_DOOR}/__init__.py": [
            "__future__.annotations",
            "typing.TYPE_CHECKING",
            "typing.Any",
            f"{FRONT_DOOR}.fixture.run.run_broker",
            f"{FRONT_DOOR}.fixture.run.run_broker",
        ],
        f"{FRONT_DOOR}/__main__.py": ["sys", f"{FRONT_DOOR}.cli.__main__.main"],
    }


@pytest.mark.parametrize("room", MAY_IMPORT_FROM_OUTSIDE)
def test_a_room_held_to_the_standard_library_imports_nothing_else(room: str) -> None:
    allowed = stdlib_module_names | MAY_IMPORT_FROM_OUTSIDE[room] | {FRONT_DOOR}
    wrong = [
        f"{path}:{line} imports {name}"
        for path in files_of(room)
        for line, name in imports_of(path)
        if name.split(".")[0] not in allowed
    ]

    assert wrong == []


def test_nothing_is_imported_from_a_file_of_tests() -> None:
    """What tests share is in `tests/kit/`, or in a helper beside them."""
    wrong = [
        f"{path}:{line} imports {name}"
        for path in files_of("tests")
        for line, name in imports_of(path)
        if any(part.startswith("test_") for part in name.split(".")[:-1])
    ]

    assert wrong == []


USES_THE_WHOLE_BROKER = {
    Path("broker/connections/connection.py"),  # It hands each handler the broker.
    Path("broker/cluster/moves.py"),
    Path("broker/handlers/k43_elect_leaders.py"),  # It moves leaders,
    Path("broker/handlers/k45_alter_partition_reassignments.py"),  # and this one replicas.
}


def test_a_part_of_the_broker_names_what_it_uses_of_it() -> None:
    whole = {
        path
        for path in files_of("broker", "control")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ImportFrom) and any(alias.name == "Services" for alias in node.names)
    }
    assert whole == USES_THE_WHOLE_BROKER


def imported_modules(path: Path, modules: set[str]) -> set[str]:
    """Our modules that a file imports by a statement, wherever it stands and whatever it is for."""
    names: list[str] = []
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            names += [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{each.name}" for each in node.names]
    return {name if name in modules else name.rpartition(".")[0] for name in names} & modules


def test_no_files_import_each_other_in_a_circle() -> None:
    """Not within a function, and not for type checkers either: who reads one of them need not read all."""
    paths = {f"{FRONT_DOOR}.{'.'.join(path.with_suffix('').parts)}": path for path in files_of(*ROOMS)}
    paths = {name.removesuffix(".__init__"): path for name, path in paths.items()}
    imports = {name: imported_modules(path, set(paths)) - {name} for name, path in paths.items()}
    # What imports nothing that is left is in no circle.
    while free := {name for name, others in imports.items() if not others & imports.keys()}:
        imports = {name: others for name, others in imports.items() if name not in free}

    assert {name: sorted(others & imports.keys()) for name, others in sorted(imports.items())} == {}
