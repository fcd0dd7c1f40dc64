"""Each root folder `x` is the package `stuntbroker.x`, and pyproject.toml lists all of them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from sys import stdlib_module_names

import pytest
from house_sources import FRONT_DOOR, ROOMS, ROOT, files_of, imports_of

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETUPTOOLS = PROJECT["tool"]["setuptools"]
EXTRAS = {
    "broker/requests/patterns.py": "re2", "pipeline": "spark", "pipeline/audit": "audit", "pipeline/report": "audit",
    "cli/data_folder/audit_report.py": "audit", "cli/data_folder/audit_spark.py": "pipeline",
    "cli/shims/rpk/main.py": "image", "control/documents.py": "yaml",
    "fixture/left_open.py": "pytest", "fixture/plugin.py": "pytest", "fixture/reports.py": "pytest",
    "client/consumer/consumer.py": "otel", "client/producer/producer.py": "otel", "client/telemetry.py": "otel",
}  # fmt: skip
"""File or folder -> the extra that it needs besides the base dependencies; the longest path counts."""
ON_SPARK = "pipeline/spark"
"""Code that also needs PySpark, which a cluster provides."""
FOR_THE_COMPILER = "protocol/compiler.py"
"""The file that names the compiler's package, only while it compiles."""


def names_of(requirements: list[str]) -> set[str]:
    """Distributions as they are imported: only `-` and `_`, a maker before the name, YAML's and OpenTelemetry's differ."""
    names = {re.split(r"[^A-Za-z0-9._-]", each)[0].lower().replace("-", "_") for each in requirements}
    return {name.removeprefix("google_").replace("pyyaml", "yaml").removesuffix("_api") for name in names}


def allowed_in(path: Path) -> set[str]:
    """Return the packages that this file may import besides the base dependencies."""
    places = [str(path), *map(str, path.parents)]
    extra = next((EXTRAS[place] for place in places if place in EXTRAS), None)
    actual = names_of(PROJECT["project"]["optional-dependencies"][extra]) if extra else set()
    actual |= {"pyspark"} if ON_SPARK in places else set()
    return actual | ({"mypy_extensions"} if FOR_THE_COMPILER in places else set())


def test_a_cluster_that_brings_its_own_pyspark_needs_numpy_and_pyarrow_only() -> None:
    extras = PROJECT["project"]["optional-dependencies"]

    assert names_of(extras["spark"]) == {"numpy", "pyarrow"}
    assert "pyspark" not in names_of(extras["audit"])
    assert any(each.startswith("stuntbroker[audit,spark]") for each in extras["pipeline"])
    assert "pyspark" in names_of(extras["pipeline"])


def test_the_development_environment_has_the_lowest_pyspark_that_is_allowed() -> None:
    """CI tests that end of the range with it; docs/spark.md says which version the other end was tested with."""
    (allowed,) = [
        each for each in PROJECT["project"]["optional-dependencies"]["pipeline"] if each.startswith("pyspark")
    ]
    (pinned,) = [each for each in PROJECT["dependency-groups"]["dev"] if each.startswith("pyspark")]
    lowest = allowed.partition(">=")[2].partition(",")[0]

    assert pinned == f"pyspark=={lowest}.0"
    assert f"tested with PySpark {lowest}.0" in (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")


def test_the_list_of_packages_is_the_folders_that_are_packages() -> None:
    folders = {path.parent for path in files_of(*ROOMS) if path.name == "__init__.py"}
    names = {FRONT_DOOR, *(".".join((FRONT_DOOR, *folder.parts)) for folder in folders)}

    assert sorted(SETUPTOOLS["packages"]) == sorted(names)


def test_every_folder_with_code_in_it_is_a_package() -> None:
    folders = {path.parent for path in files_of(FRONT_DOOR, *ROOMS)}

    assert [folder for folder in sorted(folders) if not (ROOT / folder / "__init__.py").is_file()] == []


def test_every_room_is_mapped_to_the_package_of_its_name() -> None:
    assert SETUPTOOLS["package-dir"] == {f"{FRONT_DOOR}.{room}": room for room in ROOMS}


def test_the_package_has_a_py_typed_marker() -> None:
    assert SETUPTOOLS["package-data"][FRONT_DOOR] == ["py.typed"]
    assert (ROOT / FRONT_DOOR / "py.typed").is_file()


def test_every_file_that_is_no_code_is_packed() -> None:
    """In the rooms: each must match a pattern of its package, and each pattern must match a file."""
    packed = {
        file
        for package, patterns in SETUPTOOLS["package-data"].items()
        for pattern in patterns
        for file in ROOT.joinpath(*(package.split(".")[1:] or [FRONT_DOOR])).glob(pattern)
    }
    there = {
        path
        for room in (FRONT_DOOR, *ROOMS)
        for path in (ROOT / room).rglob("*")
        if path.suffix not in (".py", ".pyc", ".md") and "__pycache__" not in path.parts and path.is_file()
    }

    assert packed == there


def test_a_room_cannot_be_imported_by_its_bare_name() -> None:
    """From the root folder that works, and gives a second copy of every class."""
    banned = PROJECT["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]

    assert banned == {room: {"msg": f"import it as {FRONT_DOOR}.{room}"} for room in ROOMS}


def test_every_command_names_an_existing_function() -> None:
    for target in PROJECT["project"]["scripts"].values():
        module, _, function = target.partition(":")
        path = ROOT.joinpath(*module.split(".")[1:]).with_suffix(".py")

        assert path.is_file(), f"{target}: there is no {path.relative_to(ROOT)}"
        assert f"def {function}(" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("room", [FRONT_DOOR, *ROOMS])
def test_every_import_of_a_room_is_a_declared_dependency(room: str) -> None:
    """Lazy imports and those for type checkers too: what only the development environment has is not there for a user."""
    project = PROJECT["project"]
    everybody = {*stdlib_module_names, FRONT_DOOR, *names_of(project["dependencies"])}
    wrong = []
    for path in files_of(room):
        known = everybody | allowed_in(path)
        wrong += [
            f"{path}:{line} imports {name}" for line, name in imports_of(path) if name.split(".")[0] not in {"", *known}
        ]

    assert wrong == []


def test_every_required_dependency_is_imported() -> None:
    imported = {name.split(".")[0] for path in files_of(*ROOMS) for _, name in imports_of(path)}

    assert names_of(PROJECT["project"]["dependencies"]) - imported == set()


def test_the_declared_licence_matches_the_licence_file() -> None:
    project = PROJECT["project"]
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")

    assert project["license"] == "Apache-2.0"
    assert project["license-files"] == ["LICENSE", "NOTICE"]
    assert "Apache License" in text and "Version 2.0, January 2004" in text
    assert (ROOT / "NOTICE").is_file()
    # PEP 639 has no place for both.
    assert not [each for each in project.get("classifiers", []) if each.startswith("License ::")]
