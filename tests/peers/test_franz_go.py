"""franz-go's kgo: tests/peers/go, in one run for all tests of this module.

Needs a Go tool chain, and is left out where CI=true, as the build brings modules that nothing else needs.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.peers.scenarios import Outcomes, build, build_folder, run_scenarios

MODULE = Path(__file__).with_name("go")
SOURCES = sorted([*MODULE.glob("*.go"), *MODULE.glob("go.*")])

# The first run fetches the modules and compiles.
pytestmark = pytest.mark.timeout(600)


def go_tool() -> str:
    """The path of `go`. Skips the test where there is none, or one that is older than go.mod asks for."""
    if os.environ.get("CI", "").lower() == "true":
        pytest.skip("franz-go is not tested where CI=true")
    path = shutil.which("go")
    if path is None:
        pytest.skip("needs a Go tool chain: there is no go")
    wanted = re.search(r"^go (\d+)\.(\d+)", (MODULE / "go.mod").read_text(), re.MULTILINE)
    answer = subprocess.run([path, "version"], cwd="/", capture_output=True, text=True, check=True)
    present = re.search(r"go(\d+)\.(\d+)", answer.stdout)
    assert wanted is not None and present is not None
    if tuple(map(int, present.groups())) < tuple(map(int, wanted.groups())):
        pytest.skip(f"needs Go {wanted[1]}.{wanted[2]} or later: {path} is {present[1]}.{present[2]}")
    return path


@pytest.fixture(scope="module")
def franz_go(bootstrap: str) -> Outcomes:
    compiler = [go_tool(), "build", "-mod=readonly", "-trimpath", "-o", "{out}", "."]
    program = build(build_folder("go", SOURCES), compiler, cwd=MODULE)
    return run_scenarios([str(program), bootstrap])


def test_franz_go_consumes_in_a_group_what_it_produced(franz_go: Outcomes) -> None:
    franz_go.check("group_consumer")


def test_franz_go_reads_a_committed_transaction(franz_go: Outcomes) -> None:
    franz_go.check("committed")


def test_franz_go_reads_an_aborted_transaction_only_uncommitted(franz_go: Outcomes) -> None:
    franz_go.check("aborted")


def test_franz_go_transforms_exactly_once_with_the_offsets_in_the_transaction(franz_go: Outcomes) -> None:
    franz_go.check("exactly_once")


def test_franz_go_zombie_is_fenced_and_its_records_stay_invisible(franz_go: Outcomes) -> None:
    franz_go.check("zombie")


def test_franz_go_goes_on_after_the_abort_of_a_transaction_that_has_timed_out(franz_go: Outcomes) -> None:
    """KIP-890: the abort of a transaction that timed out hands out the epoch to go on with."""
    franz_go.check("timed_out")
