"""A build contains all modules, and leaves the checkout unchanged."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from house_sources import FRONT_DOOR, ROOMS, ROOT

from tests.kit.processes.process import PYTEST
from tools.build_wheel import missing_for_compiling

HOOKS = ("build_wheel", "build_editable", "build_sdist", "prepare_metadata_for_build_wheel")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a copy of the packaged files, with leftovers of a build by setuptools alone."""
    folder = tmp_path / "checkout"
    for room in (FRONT_DOOR, *ROOMS):
        shutil.copytree(ROOT / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("LICENSE", "NOTICE", "README.md", "pyproject.toml", "setup.py"):
        shutil.copy(ROOT / name, folder)
    deleted = folder / "build" / "lib" / FRONT_DOOR / "deleted.py"
    deleted.parent.mkdir(parents=True)
    deleted.touch()
    return folder


def call(hook: str, checkout: Path) -> Path:
    """Run a build hook as pip does; return the file that it built."""
    created = checkout.parent / f"made by {hook} from {checkout.name}"
    created.mkdir()
    code = f"import sys; from setuptools import build_meta; print(build_meta.{hook}(sys.argv[1]))"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-c", code, created], cwd=checkout, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return created / done.stdout.splitlines()[-1]


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_a_wheel_contains_every_module_of_the_checkout(checkout: Path) -> None:
    wanted = {
        f"{FRONT_DOOR}/{path.relative_to(checkout)}" for room in ROOMS for path in (checkout / room).rglob("*.py")
    }
    wanted |= {str(path.relative_to(checkout)) for path in (checkout / FRONT_DOOR).glob("*.py")}

    with ZipFile(call("build_wheel", checkout)) as wheel:
        assert {name for name in wheel.namelist() if name.endswith(".py")} == wanted


@pytest.mark.parametrize("hook", HOOKS)
def test_a_build_leaves_the_checkout_as_it_was(hook: str, checkout: Path) -> None:
    before = files_below(checkout)

    call(hook, checkout)

    assert files_below(checkout) == before


@pytest.mark.timeout(1_200)
def test_a_compiled_wheel_passes_the_tests_with_valid_and_hostile_clients(tmp_path: Path) -> None:
    """Six minutes: the compiler, real clients, the scenarios, and the cases that are compared with Kafka."""
    if missing := missing_for_compiling():
        pytest.skip(f"nothing can be compiled here without {missing}")
    build = [sys.executable, ROOT / "tools" / "build_wheel.py", "--dist", tmp_path / "dist"]
    quick = os.environ | {"STUNTBROKER_OPTIMIZATION": "0"}
    done = subprocess.run(build, env=quick, capture_output=True, text=True)
    assert done.returncode == 0 and "(compiled)" in done.stdout, done.stderr
    (wheel,) = (tmp_path / "dist").iterdir()
    with ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    # The wheel precedes the checkout, which provides the tests.
    environment = os.environ | {"PYTHONSAFEPATH": "1", "PYTHONPATH": f"{tmp_path / 'installed'}:{ROOT}"}
    environment = {name: value for name, value in environment.items() if not name.startswith("PYTEST_")}

    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", *arguments]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert "(compiled)" in run("stuntbroker", "version")
    pytest_run = (*PYTEST, "-q")
    whole = ("tests/peers", "tests/scenarios", "tests/conformance", "tests/broker/connections/test_frames.py")
    assert " passed" in run(*pytest_run, "-m", "not long", *whole)
    client = (
        "tests/client/producer/test_sender.py",
        "tests/client/producer/test_telemetry.py",
        "tests/client/blocking/test_sending_threads.py",
    )
    assert " passed" in run(*pytest_run, *client)
    # A slice that begins after the end of its bytes is an error only in compiled code.
    hostile = (
        "tests/protocol/test_by_hand.py",
        "tests/coordinator/test_txn_records.py",
        "tests/broker/connections/test_spoiled_requests.py",
    )
    assert " passed" in run(*pytest_run, *hostile, "-k", "any_byte or refused or spoiled or state")


def test_a_wheel_from_the_source_distribution_is_the_same(checkout: Path) -> None:
    folder = checkout.parent / "unpacked"
    folder.mkdir()
    subprocess.run(["tar", "-xf", call("build_sdist", checkout)], cwd=folder, check=True)
    (unpacked,) = folder.iterdir()

    with ZipFile(call("build_wheel", checkout)) as wheel, ZipFile(call("build_wheel", unpacked)) as repeated:
        assert sorted(wheel.namelist()) == sorted(repeated.namelist())
