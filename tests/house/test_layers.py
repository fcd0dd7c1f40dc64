"""The packages ("rooms") of this project import only the packages that they are allowed to."""

from __future__ import annotations

import ast
from pathlib import Path
from sys import stdlib_module_names

import pytest
from house_sources import FRONT_DOOR, ROOMS, ROOT, files_of, imports_of, tree_of

CORE = {"protocol", "storage", "coordinator", "groups"}
MAY_IMPORT: dict[str, set[str]] = {
    "protocol":    set(),
    "security":    set(),
    "storage":     {"protocol"},
    "coordinator": {"protocol"},
    "groups":      {"protocol"},
    "broker":      CORE | {"security"},
    "control":     CORE | {"broker"},
    "client":      {"protocol", "security"},
    "fixture":     {"client", "protocol"},
    "pipeline":    {"client", "protocol"},
    "cli":         CORE | {"security", "broker", "control", "client", "fixture", "pipeline"},
}  # fmt: skip
"""Room -> the other rooms that it may import. Imports for type checkers count too."""
FOLDERS = {
    "control": ("observation", "rules", "http", "page"),
    "client": ("connections", "producer", "consumer", "blocking", "commands"),
}
"""Room -> its folders: each may import those before it."""
MAY_IMPORT_FROM_OUTSIDE = {"protocol": {"crc32c", "cramjam", "mypy_extensions"}}
"""Rooms restricted to the standard library -> the other packages that they may import."""


def test_every_room_has_a_row_in_the_import_table() -> None:
    assert set(ROOMS) <= MAY_IMPORT.keys()
    assert MAY_IMPORT.keys() - set(ROOMS) <= {"control", "fixture"}


def test_no_two_rooms_import_each_other() -> None:
    below: dict[str, set[str]] = {}
    for room in MAY_IMPORT:  # The table goes from the bottom up.
        assert MAY_IMPORT[room] <= below.keys()
        below[room] = MAY_IMPORT[room]


def rooms_imported_by(path: Path) -> list[tuple[str, str]]:
    """Return (message, imported room) for every import of our own modules."""
    actual = []
    for line, name in imports_of(path):
        where = f"{path}:{line} imports {name}"
        if name.split(".")[0] == FRONT_DOOR:
            room = [*name.split("."), ""][1].partition(":")[0]
            actual.append((where, room if room in MAY_IMPORT else FRONT_DOOR))
        elif name.startswith("."):
            actual.append((where, "relative"))
        elif name.split(".")[0] in {*MAY_IMPORT, "tests", "tools", "bench"} and (ROOT / name.split(".")[0]).is_dir():
            actual.append((where, "bare"))  # It would import a second copy of the module from the current folder.
    return actual


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_the_rooms_below_it(room: str) -> None:
    allowed = MAY_IMPORT[room] | {room}
    wrong = [where for path in files_of(room) for where, other in rooms_imported_by(path) if other not in allowed]

    assert wrong == []


@pytest.mark.parametrize(("room", "folder"), [(room, folder) for room in FOLDERS for folder in FOLDERS[room]])
def test_a_folder_imports_only_the_folders_of_its_room_that_are_before_it(room: str, folder: str) -> None:
    folders = FOLDERS[room]
    later = folders[folders.index(folder) + 1 :]
    wrong = [
        f"{path}:{line} imports {name}"
        for path in files_of(room)
        if path.parent.name == folder
        for line, name in imports_of(path)
        if f"{name}.".startswith(tuple(f"{FRONT_DOOR}.{room}.{each}." for each in later))
    ]

    assert wrong == []
    assert any(path.parent.name == folder for path in files_of(room))


def test_only_two_modules_of_groups_know_the_types_of_groups() -> None:
    """Another type of group is a package beside `classic`; what both share knows neither."""
    shared = [path for path in files_of("groups") if path.parent.name == "groups"]
    actual = {
        path.stem for path in shared for _, name in imports_of(path) if name.startswith(f"{FRONT_DOOR}.groups.classic")
    }

    assert actual == {"coordinator", "records"}


def test_the_stuntbroker_package_imports_only_the_fixture_the_broker_and_the_command_line() -> None:
    actual = {str(path): [name for _, name in imports_of(path)] for path in files_of(FRONT_DOOR)}

    assert actual == {
        f"{FRONT_DOOR}/__init__.py": [
            "__future__.annotations",
            "importlib.import_module",
            "types.ModuleType",
            "typing.TYPE_CHECKING",
            "typing.Any",
            f"{FRONT_DOOR}.fixture.run.broker",
            f"{FRONT_DOOR}.fixture.run.broker",
            f"{FRONT_DOOR}.broker",
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
    """Shared helpers of tests are in `tests/kit/`, or in a helper module beside the tests."""
    wrong = [
        f"{path}:{line} imports {name}"
        for path in files_of("tests")
        for line, name in imports_of(path)
        if any(part.startswith("test_") for part in name.split(".")[:-1])
    ]

    assert wrong == []


USES_THE_WHOLE_BROKER = {
    Path("broker/server.py"),
    Path("broker/connections/connection.py"),  # It hands each handler the broker.
    Path("broker/connections/secured_connection.py"),
    Path("control/control.py"),  # They assemble the control of a broker,
    Path("control/host.py"),  # and replace the broker.
}
WHOLE = {
    "stuntbroker.broker.server.Broker",
    "stuntbroker.broker.services.Services",
    "stuntbroker.broker.connections.connection.Connection",  # Its `broker` is all of it.
}


def test_only_the_listed_files_import_the_whole_broker() -> None:
    whole = {
        path
        for path in files_of("broker", "control")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ImportFrom) and WHOLE & {f"{node.module}.{alias.name}" for alias in node.names}
    }
    assert whole == USES_THE_WHOLE_BROKER


def imported_modules(path: Path, modules: set[str]) -> set[str]:
    """Return our own modules that a file imports by a statement, at any level and also for type checkers."""
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
    # Remove modules that import no remaining module, as they are in no cycle.
    while free := {name for name, others in imports.items() if not others & imports.keys()}:
        imports = {name: others for name, others in imports.items() if name not in free}

    assert {name: sorted(others & imports.keys()) for name, others in sorted(imports.items())} == {}
